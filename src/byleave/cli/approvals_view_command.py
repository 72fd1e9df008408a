"""`byleave approvals --ui`: the questions of all workspaces at the terminal, as they come, answered by keys.

The same questions as in the dashboard (`dashboard.pending`). While it is open, requests wait for an answer here. A
question that does not fit the screen cannot be allowed here: what is not seen cannot be agreed to. One that is another
by the time of the key is not answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.cli.live_screen import requires_screen, show_live
from byleave.cli.output import cut_to, paint
from byleave.cli.terminal import BAR, TURNED, is_long_name, runs_to_the_left, wrapped
from byleave.cli.workspace import open_workspace
from byleave.dashboard.machine import Machine
from byleave.dashboard.pending import PendingQuestions, first_of
from byleave.errors import ByleaveError, ConfigErrors
from byleave.guard.answering import UnrecordedAnswerError
from byleave.store.questions import PENDING, OpenView, fingerprint
from byleave.text import shown, shown_lines, speakable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.dashboard.pending import Waiting

    Tree = dict[str, Any]

_KEYS = {"a": "once", "s": "session", "w": "always", "d": "deny"}
_HELP = "a once   s session   w always   d deny   j next   k back   q end"
_TOO_SOON = "that key came before the question could be read: press it again"
_TOO_LATE = "not answered: the question has changed, or is over; look at it again"
MOST_LISTED = 100  # questions at a time
_LONGEST_NAME = 20  # columns of a name that stands before its value
_NARROWEST = 20  # columns of a terminal on which a question can be read


def run(given: ParsedArguments) -> int:
    """Show questions until the person ends it."""
    requires_screen(given)
    machine = Machine(open_workspace(given))
    with OpenView(machine.homes.state):
        show_live(QuestionScreen(TerminalQuestions(machine)))
    return 0


class TerminalQuestions(PendingQuestions):
    """What waits on this machine, with the answers of the person at the terminal."""

    by, door, command = "terminal", "cli", "byleave approvals --ui"

    def trees(self) -> list[Tree]:
        """Return the questions that can be answered, the oldest first; `seen` is the fingerprint of each."""
        found = first_of([each for each in self._all() if each.status == PENDING], MOST_LISTED)
        return [self._shown(each) for each in found]

    def answer_shown(self, tree: Tree, word: str) -> str:
        """Carry out an answer to exactly what was shown; return why not, where it cannot be."""
        self._offers.clear()  # the rule that is written is worked out anew
        found = [each for each in self._all() if each.id == tree["id"] and self._shown(each) == tree]
        if len(found) != 1:
            return _TOO_LATE
        try:
            won = self._wins(found[0], word, rule=str(tree["rule"] or ""), seen=tree["seen"])
        except UnrecordedAnswerError as error:
            return shown_lines(str(error))
        except (ByleaveError, ConfigErrors) as error:
            return f"not answered: {shown_lines(str(error))}"
        return "" if won else _TOO_LATE

    def _shown(self, waiting: Waiting) -> Tree:
        question = waiting.held or waiting.approval
        kinds = [str(each.action.get("kind")) for each in waiting.actions]
        seen = "" if question is None else fingerprint(question)
        more = {
            "seen": seen,
            "kinds": kinds,
            "given": waiting.tree["view"].get("input") or [],
            "leads_to": _leads_to(waiting),
        }
        tree: Tree = speakable({**waiting.tree, **self._offered(waiting), **more})
        return tree


def _leads_to(waiting: Waiting) -> list[str]:
    """Return where the paths of an action lead that waits for a later attempt."""
    places = () if waiting.approval is None else waiting.approval.asked.get("leads_to")
    known = [place for asked in waiting.actions for place in asked.leads_to]
    return [shown(str(place)) for place in places if place not in known] if isinstance(places, list) else []


class QuestionScreen:
    """What the terminal shows: all questions in a line each, and the current one in full."""

    is_typing = False

    def __init__(self, questions: TerminalQuestions) -> None:
        self._questions = questions
        self._listed: list[Tree] = []
        self._current: Tree | None = None
        self._rule = False  # whether the rule is shown that would be written
        self._said = ""
        self._fits = True

    @property
    def about(self) -> str:
        """All that is shown of the current question, whether its rule is, and whether all of it is on the screen."""
        return f"{self._rule} {self._fits} {self._current!r}"

    def look(self) -> None:
        """Read the questions again; the current one stays, as long as it is there as it was."""
        self._listed = self._questions.trees()
        if self._current not in self._listed:
            seen = None if self._current is None else self._current["seen"]
            same = [each for each in self._listed if each["seen"] == seen]
            self._current = next(iter([*same, *self._listed]), None)
            self._rule = False

    def take(self, key: str, *, read: bool) -> None:
        """Take a key for the current question."""
        self._said = ""
        if self._current is None:
            return
        if key in ("j", "k"):
            at = self._listed.index(self._current) + (1 if key == "j" else -1)
            self._current, self._rule = self._listed[max(0, min(len(self._listed) - 1, at))], False
        elif not read:
            self._said = _TOO_SOON
        elif self._rule:
            if key == "y":
                self._answer(self._current, "always")
            self._rule = False
        elif key in _KEYS:
            self._choose(self._current, _KEYS[key])

    def _choose(self, question: Tree, answer: str) -> None:
        if answer not in question["answers"]:
            self._said = "this answer is not offered for this question"
        elif answer != "deny" and not self._fits:
            self._said = "it does not fit this terminal: make it larger, or open `byleave dashboard`"
        elif answer == "always" and question["rule"]:
            self._rule = True
        else:
            self._answer(question, answer)

    def _answer(self, question: Tree, answer: str) -> None:
        if not self._fits and answer != "deny":
            self._said = "it does not fit this terminal: make it larger, or open `byleave dashboard`"
        else:
            self._said = self._questions.answer_shown(question, answer) or f"answered: {answer}"

    def rows(self, columns: int, rows: int) -> list[str]:
        """Return the current question in full, and a line of each other one as far as there is room."""
        width = columns - 1
        more = " or more" if len(self._listed) >= MOST_LISTED else ""
        head = f"{len(self._listed)}{more} waiting" if self._listed else "nothing waits for you"
        head_rows, help_rows = list(wrapped(f"byleave: {head}", width)), list(wrapped(_HELP, width))
        whole: list[str] = []
        if self._current is not None:
            whole += _whole(self._current, width)
            if self._rule:
                whole += _rule_rows(self._current, width)
        needed = len(head_rows) + len(help_rows) + len(whole)
        self._fits = columns >= _NARROWEST and needed < rows
        said = list(wrapped(self._said, width)) if self._said else []
        top = [paint(row, "dim") for row in help_rows] + said
        if said and self._fits and needed + len(said) >= rows:  # it takes no room from a question
            top = said[: len(help_rows)]
        lines = [*head_rows, *top, *whole]
        room = rows - len(lines) - 2
        others = [_line(each, width) for each in self._listed if each is not self._current]
        return [*lines, "", *others[:room]] if others and room > 0 else lines


def _line(question: Tree, width: int) -> str:
    view = question["view"]
    return cut_to(f"  {view['agent']} {view['title']}: {view['subject']}", width)


def _rule_rows(question: Tree, width: int) -> Iterator[str]:
    yield from wrapped("This rule would be added to your own file, for every agent, in all your workspaces:", width)
    yield from _named("rule", str(question["rule"]), width)
    yield from wrapped("Write this rule? y or any other key", width)


def _whole(question: Tree, width: int) -> Iterator[str]:
    """Yield everything that a yes covers, in rows that fit."""
    view, actions = question["view"], question["view"]["actions"]
    agent = view["agent"]
    who = "an agent with a long name" if is_long_name(agent) else agent
    yield from (paint(row, "bold") for row in wrapped(f"{who} {view['title']}", width))
    if is_long_name(agent):
        yield from _named("its name", agent, width)
    until = shown(question["expires"] or "it is answered")
    yield from wrapped(f"by the {view['door']} in {view['workspace']}, until {until}", width)
    if not actions:
        yield from _named("what", view["subject"], width)
    for number, (action, kind) in enumerate(zip(actions, question["kinds"], strict=True), 1):
        yield from wrapped(
            f" {number} of {len(actions)}: {shown(kind)}" if len(actions) > 1 else f" {shown(kind)}", width
        )
        yield from _action_rows(action, width)
    for place in question["leads_to"]:
        yield from _named("leads to", place, width)
    for name, value in question["given"]:
        yield from _named(f"given {name}", value, width)
    for line in [*view.get("change", []), *view.get("definition", {}).get("diff", [])]:
        yield from (f"  | {row}" for row in wrapped(line, width - 4))
    yield from _named("why", question["why"], width)


def _action_rows(action: Tree, width: int) -> Iterator[str]:
    for name, value in action["facts"]:
        yield from _named(name, value, width)
    for part in action["parts"] if len(action["parts"]) > 1 else ():
        yield from _named(part["decision"], f"{part['text']} ({part['why']})", width)
    for place in action["leads_to"]:
        yield from _named("leads to", place, width)


def _named(name: str, value: str, width: int) -> Iterator[str]:
    """Yield a value behind its name and a bar: no row of it passes for one of ours."""
    name, value = shown(name), shown_lines(value)
    start = f"  {name} | "
    if len(name) > _LONGEST_NAME or len(start) > width // 2 or not name.isascii():
        yield from (f"{BAR}{row}" for row in wrapped(name, width - len(BAR)))
        start = BAR
    rows = [row for line in value.split("\n") for row in wrapped(line, width - len(start))]
    for number, row in enumerate(rows):
        yield f"{start}{row}" if number == 0 else f"{' ' * (len(start) - 2)}| {row}"
    if runs_to_the_left(value):
        yield from wrapped(TURNED, width)
