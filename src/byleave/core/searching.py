"""Judge a search by the files it can select: it reads every one of them.

Pure. What exists was looked for before (workspace.covered); what the pattern can mean is `selecting`.
"""

from byleave.core.fs import FsTarget
from byleave.core.rules import CODES, VERBS
from byleave.core.selecting import EVERYTHING, Selection
from byleave.core.verdict import ASK, Verdict
from byleave.record import Record
from byleave.text import quoted, sentence_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.core.closed import ClosedPlaces, Covered
    from byleave.core.rules import Rule
    from byleave.core.verdict import Decision

_MOST_NAMED = 3


class Looked(Record):
    """What was looked for below the start of a search: the closed places, and those that exist and can be selected."""

    closed: "ClosedPlaces"
    selection: Selection | None
    covered: "Covered"


def selection_of(glob: str | None) -> Selection | None:
    """Return what a search selects by its pattern for names, if it has one."""
    return Selection(glob) if glob else None


def judge_selected(looked: Looked, start: FsTarget, what: str) -> Verdict | None:
    """Return what the rules say of the files that a search can select; None where they close none of them.

    Where all of them are closed, the rules' own answer; where only some are, or may be, ask.
    """
    whole = _judge_all(looked, start)
    if whole is not None:
        decision, rule = whole
        reason = f"{what} {VERBS[decision]}: everything it can select is closed by {_said(rule)}"
        return Verdict(decision, reason, CODES[decision], (rule.ref,), None, start.canonical)
    covered = looked.covered
    if covered.places:
        first = covered.places[0]
        rules = tuple(dict.fromkeys(each.rule.ref for each in covered.places))
        names = sentence_list([quoted(name) for name in dict.fromkeys(covered.names)], most=_MOST_NAMED)
        reason = f"{what} asks: it can read {names}, closed by {_said(first.rule)}"
        return Verdict(ASK, reason, CODES[ASK], rules, None, start.canonical)
    if not covered.complete:
        rules = tuple(dict.fromkeys(rule.ref for rule in looked.closed.rules))
        reason = f"{what} asks: it cannot be told whether it reads what {rules[0].rule} closes, there is too much"
        return Verdict(ASK, reason, CODES[ASK], rules, None, start.canonical)
    return None


def _said(rule: "Rule") -> str:
    return f"{rule.text} ({rule.why})" if rule.why else rule.text


def _judge_all(looked: Looked, start: FsTarget) -> "tuple[Decision, Rule] | None":
    """Return the mildest answer of rules that close everything a search can select; None where something is open."""
    examples = EVERYTHING if looked.selection is None else looked.selection.examples()
    if not examples:
        return None
    said = [looked.closed.decision(_below(start, path)) for path in examples]
    closed = [each for each in said if each is not None]
    if len(closed) < len(said):
        return None
    return min(closed, key=lambda each: each[0])


def _below(start: FsTarget, path: str) -> FsTarget:
    """Return the place of a name below the start, whether or not something is there."""

    def join(base: str | None) -> str | None:
        return None if base is None else f"{base.rstrip('/')}/{path}" if base else path

    return FsTarget(join(start.canonical) or path, join(start.relative), join(start.door), exists=False)
