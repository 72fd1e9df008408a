"""Put the guard's questions to the person at the terminal: the whole action, why it is asked, what a yes covers.

Have the user change the arguments of a call in their own editor, before it runs.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from time import monotonic
from typing import TYPE_CHECKING

from byleave.cli.output import paint
from byleave.cli.terminal import YES, ask_person
from byleave.errors import InputError
from byleave.guard.asking import FOR_GOOD, FOR_SESSION, NO, NOBODY, ONCE, SILENCE
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.guard.asking import Question


MOST_ROWS = 200  # what is longer cannot be read before it is answered
_NARROWEST, _USUAL = 20, 72
_CHOICES = {
    "o": ONCE,
    "once": ONCE,
    "y": ONCE,
    "yes": ONCE,
    "s": FOR_SESSION,
    "session": FOR_SESSION,
    "a": FOR_GOOD,
    "always": FOR_GOOD,
}
_FOR_EVERYBODY = "It would hold for every agent, in every workspace of yours"
# What such a rule says less about than the question did.
_WIDER = {
    "command": ", in any directory",
    "call": ", with any arguments",
    "url": ", by any method, also below that path",
}


class TerminalAsker:
    """Asks at the controlling terminal. Whatever is not a clear yes is a no.

    Once `stop`, a descriptor, can be read from, nobody is waited for any more.
    """

    name = "terminal"

    def __init__(self, *, stop: int | None = None) -> None:
        self._stop = stop

    def ask(self, question: Question, patience: float) -> str:
        """Return what the person says; silence, if they say nothing in time."""
        until = monotonic() + patience
        rows = list(_rows(question, _width()))
        if len(rows) > MOST_ROWS:
            return self._too_long(question, len(rows))
        offers = "[o]nce, for this [s]ession, " + ("[a]lways" if question.rule is not None else "")
        asked = "\n".join([*rows, f"{offers.rstrip(', ')} or [N]o? "])
        typed = ask_person(asked, timeout=patience, stop=self._stop)
        if typed is None:
            return NOBODY
        choice = _CHOICES.get(typed.lower(), NO)
        if choice is FOR_GOOD:
            return self._for_good(question, until)
        return SILENCE if not typed and monotonic() >= until else choice

    def _for_good(self, question: Question, until: float) -> str:
        """Show the rule before it is written; a no to the rule is a no."""
        if question.rule is None:
            return NO
        rule = "\n".join(f"    {shown(line)}" for line in question.rule.split("\n"))
        holds = f"{_FOR_EVERYBODY}{_WIDER.get(question.facts['kind'], '')}."
        asked = f"This rule would be added to your own configuration:\n{rule}\n{holds}\nAdd it? [y/N] "
        typed = ask_person(asked, timeout=max(0.0, until - monotonic()), stop=self._stop)
        return FOR_GOOD if typed is not None and typed.lower() in YES else NO

    def _too_long(self, question: Question, rows: int) -> str:
        """Say that nobody can agree to what cannot be shown; without a terminal, nobody is there to be told."""
        kind = shown(question.facts["kind"])
        told = f"{_head(question)}\n  it would take {rows} lines to show this {kind}, so it is refused. Press Enter. "
        return NOBODY if ask_person(told, timeout=1.0) is None else NO


def _rows(question: Question, width: int) -> Iterator[str]:
    """Yield what is asked, row by row. Text from outside stands behind a bar, so that no row of it passes for ours."""
    yield _head(question)
    for name, value in question.facts.items():
        if name != "kind":
            yield f"  {shown(name)}:"
            yield from _behind_bar(value, width)
    if question.leads_to:
        yield "  runs in, or writes to:" if question.facts["kind"] == "command" else "  which really is:"
    for place in question.leads_to:
        yield from _behind_bar(place, width)
    if question.note:
        yield "  in the tool's own words:"
        yield from _behind_bar(question.note, width)
    yield f"  why: {shown(question.resolved.verdict.because[0].rule)}"


def _head(question: Question) -> str:
    who = question.who
    name = "somebody" if who.agent is None else quoted(who.agent)
    sure = "" if who.agent is None or who.identity == "verified" else " (unverified)"
    return f"{paint('byleave:', 'bold')} {name}{sure} asks: {shown(question.facts['kind'])}"


def _behind_bar(text: str, width: int) -> Iterator[str]:
    for line in text.split("\n"):
        yield from (f"    | {row}" for row in _wrapped(shown(line), width))


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Yield a text in rows that fit: a terminal would wrap it too, but without the bar."""
    if text.isascii():
        yield from (text[start : start + width] for start in range(0, max(1, len(text)), width))
        return
    from unicodedata import east_asian_width

    row, taken = "", 0
    for char in text:
        room = 2 if east_asian_width(char) in "WF" else 1
        if taken + room > width:
            yield row
            row, taken = "", 0
        row, taken = row + char, taken + room
    yield row


def _width() -> int:
    """Return how many columns a text may take, with the bar before it."""
    for stream in (2, 1, 0):
        try:
            return max(_NARROWEST, os.get_terminal_size(stream).columns - len("    | ") - 1)
        except OSError:
            continue
    return _USUAL


def edit_arguments(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments as the user leaves them; None if they leave nothing. An InputError if that is no object."""
    with tempfile.TemporaryDirectory(prefix="byleave-") as directory:
        path = os.path.join(directory, "arguments.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(arguments, file, indent=2, ensure_ascii=False)
            file.write("\n")
        _edit(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    return _read(text) if text.strip() else None


def _edit(path: str) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), path], check=False)  # noqa: S603 -- the user's own editor
    except (OSError, ValueError):
        raise InputError(f"the editor {shown(editor)} cannot be started", hint="set EDITOR to one that can") from None
    if done.returncode != 0:
        raise InputError(
            "the editor failed, so nothing was run", hint="try again; to run nothing, leave the file empty"
        )


def _read(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        raise InputError("what you left is no JSON object, so nothing was run", hint="leave an object: { ... }")
    return tree
