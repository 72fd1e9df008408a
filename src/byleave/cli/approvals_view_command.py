"""`byleave approvals --ui`: the questions of all workspaces at the terminal, as they come, answered by keys.

The same questions and the same answers as in the dashboard (`dashboard.pending`). While it is open, requests wait for
an answer here. A question that does not fit the screen cannot be allowed here: what is not seen cannot be agreed to.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import tty
from textwrap import wrap
from typing import TYPE_CHECKING

from byleave.cli.output import paint
from byleave.cli.terminal import requires_person
from byleave.cli.workspace import open_workspace
from byleave.dashboard.machine import Machine
from byleave.dashboard.pending import PendingQuestions
from byleave.errors import InputError, StateError
from byleave.store.questions import PENDING, OpenView

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments

    Tree = dict[str, Any]

_PERIOD = 1.0  # seconds between two looks
_CLEAR = "\x1b[H\x1b[2J"
_KEYS = {"a": "once", "s": "session", "w": "always", "d": "deny"}
_HELP = "a once   s session   w always   d deny   j next   k back   q end"
_QUIT = ("q", "\x03", "\x04", "")


def run(given: ParsedArguments) -> int:
    """Show questions until the person ends it."""
    for flag in ("json", "yes", "no_input"):
        if given.flag(flag):
            raise InputError("--ui is for a person at a terminal", hint="leave the other flags out")
    requires_person(given)
    if not sys.stdout.isatty():
        raise StateError("--ui needs a terminal to show questions on", hint="run it without a pipe")
    machine = Machine(open_workspace(given))
    before = termios.tcgetattr(0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        tty.setcbreak(0)
        with OpenView(machine.homes.state):
            QuestionScreen(PendingQuestions(machine)).run()
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.write(1, b"\n")
    return 0


class QuestionScreen:
    """What the terminal shows: all questions in a line each, and the current one in full."""

    def __init__(self, questions: PendingQuestions) -> None:
        self._questions = questions
        self._listed: list[Tree] = []
        self._current = ""
        self._rule: str | None = None  # that is shown, and would be written
        self._said = ""
        self._fits = True

    def run(self) -> None:
        """Show, and take keys, until the person ends it."""
        while True:
            self._look()
            self._draw()
            if not select.select([0], [], [], _PERIOD)[0]:
                continue
            key = os.read(0, 1).decode("ascii", "replace")
            if key in _QUIT:
                return
            self._take(key)

    def _look(self) -> None:
        self._listed = [each for each in self._questions.trees() if each["status"] == PENDING]
        ids = [each["id"] for each in self._listed]
        if self._current not in ids:
            if self._current and not self._said:
                termios.tcflush(0, termios.TCIFLUSH)  # a key that was meant for it is not for the next one
            self._current, self._rule = (ids[0] if ids else ""), None

    def _take(self, key: str) -> None:
        self._said = ""
        ids = [each["id"] for each in self._listed]
        if not ids:
            return
        at = ids.index(self._current)
        if self._rule is not None:
            if key == "y":
                self._answer("always", self._rule)
            self._rule = None
        elif key in ("j", "k"):
            self._current = ids[max(0, min(len(ids) - 1, at + (1 if key == "j" else -1)))]
        elif key in _KEYS:
            self._choose(self._listed[at], _KEYS[key])

    def _choose(self, question: Tree, answer: str) -> None:
        if answer not in question["answers"]:
            self._said = "this answer is not offered for this question"
        elif answer != "deny" and not self._fits:
            self._said = "it does not fit this terminal: make it larger, or open `byleave dashboard`"
        elif answer == "always" and question["rule"]:
            self._rule = question["rule"]
        else:
            self._answer(answer, None)

    def _answer(self, answer: str, rule: str | None) -> None:
        refused = self._questions.answer(self._current, answer, rule=rule)
        self._said = f"not answered: {refused.problem}" if refused is not None else f"answered: {answer}"

    def _draw(self) -> None:
        columns, rows = shutil.get_terminal_size((80, 24))
        head = f"{len(self._listed)} waiting" if self._listed else "nothing waits for you"
        lines = [f"byleave: {head}   {paint(_HELP, 'dim')}", self._said]
        ids = [each["id"] for each in self._listed]
        at = ids.index(self._current) if self._current in ids else 0
        if self._listed:
            lines += list(_whole(self._listed[at], columns))
        if self._rule is not None:
            lines += ["", "This rule would be added to your own file, for every agent, in all your workspaces:"]
            lines += [f"    {line}" for line in self._rule.splitlines()] + ["Write this rule? y or any other key"]
        self._fits = len(lines) < rows
        room = rows - len(lines) - 2
        others = [_line(each, columns) for number, each in enumerate(self._listed) if number != at]
        if others and room > 0:
            lines += ["", *others[:room]]
        text = "\r\n".join(lines[: rows - 1])
        os.write(1, f"{_CLEAR}{text}".encode("utf-8", "backslashreplace"))


def _line(question: Tree, columns: int) -> str:
    view = question["view"]
    return f"  {view['agent']} {view['title']}: {view['subject']}"[: columns - 1]


def _whole(question: Tree, columns: int) -> Iterator[str]:
    """Yield everything that a yes covers, in lines that fit."""
    view = question["view"]
    yield paint(f"{view['agent']} {view['title']}", "bold")
    yield f"by the {view['door']} in {view['workspace']}, until {question['expires'] or 'it is answered'}"
    facts = [fact for action in view["actions"] for fact in action["facts"]] + list(view.get("input", []))
    for name, value in facts or [["what", view["subject"]]]:
        for number, line in enumerate(value.split("\n")):
            start = f"  {name}: " if number == 0 else "    "
            yield from wrap(f"{start}{line}", columns - 1, subsequent_indent="    ", drop_whitespace=False) or [start]
    for action in view["actions"]:
        for part in action["parts"] if len(action["parts"]) > 1 else ():
            yield from wrap(f"  {part['decision']}: {part['text']} ({part['why']})", columns - 1)
        for place in action["leads_to"]:
            yield from wrap(f"  leads to {place}", columns - 1)
    yield from view.get("change", [])
    yield from view.get("definition", {}).get("diff", [])
    yield from wrap(question["why"], columns - 1)
