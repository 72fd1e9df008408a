"""Ask for approval at the terminal: show the whole action, why it needs approval, and what a yes covers."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

from byleave.cli.output import paint
from byleave.cli.terminal import YES, ask_person
from byleave.guard.asking import FOR_GOOD, FOR_SESSION, NO, NOBODY, ONCE, SILENCE
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_FOR_ALL = "It applies to every agent, in all your workspaces"
# What such a rule says less about than the question did.
_WIDER = {
    "command": ", in any directory",
    "call": ", with any arguments",
    "url": ", by any method, also below that path",
}


class TerminalAsker:
    """Asks at the controlling terminal. Whatever is not a clear yes is a no.

    Once `stop`, a descriptor, can be read from, it waits no longer.
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
        holds = f"{_FOR_ALL}{_WIDER.get(question.facts['kind'], '')}."
        asked = f"This rule is added to your own configuration:\n{rule}\n{holds}\nAdd it? [y/N] "
        typed = ask_person(asked, timeout=max(0.0, until - monotonic()), stop=self._stop)
        return FOR_GOOD if typed is not None and typed.lower() in YES else NO

    def _too_long(self, question: Question, rows: int) -> str:
        """Refuse what is too long to be read before it is answered, and say so where there is a terminal."""
        kind = shown(question.facts["kind"])
        text = f"{_head(question)}\n  this {kind} is refused: its {rows} lines are too long to read. Press Enter. "
        return NOBODY if ask_person(text, timeout=1.0) is None else NO


def _rows(question: Question, width: int) -> Iterator[str]:
    """Yield what is asked, row by row. A bar marks text from outside, so that no row of it passes for byleave's."""
    yield _head(question)
    for name, value in question.facts.items():
        if name != "kind":
            yield f"  {shown(name)}:"
            yield from _behind_bar(value, width)
    if question.leads_to:
        yield "  runs in, or writes to:" if question.facts["kind"] == "command" else "  which leads to:"
    for place in question.leads_to:
        yield from _behind_bar(place, width)
    if question.note:
        yield "  in the tool's own words:"
        yield from _behind_bar(question.note, width)
    yield f"  why: {shown(question.resolved.verdict.because[0].rule)}"


def _head(question: Question) -> str:
    who = question.who
    name = "an unknown agent" if who.agent is None else quoted(who.agent)
    sure = "" if who.agent is None or who.identity == "verified" else " (unverified)"
    return f"{paint('byleave:', 'bold')} {name}{sure} needs your approval: {shown(question.facts['kind'])}"


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
