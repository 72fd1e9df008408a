"""Decide a search by the files that it can select by a pattern for their names: it reads every one of them.

Pure. What a pattern selects: `selection`. Which closed places exist below the start was looked for before
(workspace.closed_paths). Start at `decide_selected`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.decision import ASK, CODES, VERBS, Verdict
from byleave.core.fs_rules import FsTarget
from byleave.core.selection import EVERYTHING
from byleave.record import Record
from byleave.text import quoted, sentence_list

if TYPE_CHECKING:
    from byleave.core.closed_places import ClosedPlaces, Covered
    from byleave.core.decision import Decision
    from byleave.core.rules import CompiledRule
    from byleave.core.selection import Selection


_MOST_NAMED = 3


class SearchedFiles(Record):
    """What was looked for below the start of a search: the closed places, and those that exist and can be selected."""

    closed: ClosedPlaces
    selection: Selection | None
    covered: Covered


def decide_selected(looked: SearchedFiles, start: FsTarget, what: str) -> Verdict | None:
    """Return what the rules say of the files that a search can select; None where they close none of them.

    Where all of them are closed, the rules' own answer; where only some are, or may be, ask.
    """
    whole = _decide_all(looked, start)
    if whole is not None:
        decision, rule = whole
        reason = f"{what} {VERBS[decision]}: {_said(rule)} closes everything that it can select"
        return Verdict(decision, reason, CODES[decision], (rule.ref,), None, start.canonical)
    covered = looked.covered
    if covered.places:
        rules = tuple(dict.fromkeys(each.rule.ref for each in covered.places))
        closing = sentence_list(list(dict.fromkeys(_said(each.rule) for each in covered.places)), most=_MOST_NAMED)
        verb = "closes" if len(rules) == 1 else "close"
        names = sentence_list([quoted(name) for name in dict.fromkeys(covered.names)], most=_MOST_NAMED)
        reason = f"{what} {VERBS[ASK]}: it can read {names}, which {closing} {verb}"
        return Verdict(ASK, reason, CODES[ASK], rules, None, start.canonical)
    if not covered.complete:
        rules = tuple(dict.fromkeys(rule.ref for rule in looked.closed.rules))
        why = f"it may read what the rule `{rules[0].rule}` closes: there are too many files to look through"
        reason = f"{what} {VERBS[ASK]}: {why}"
        return Verdict(ASK, reason, CODES[ASK], rules, None, start.canonical)
    return None


def _said(rule: CompiledRule) -> str:
    return f"the rule `{rule.text}` ({rule.why})" if rule.why else f"the rule `{rule.text}`"


def _decide_all(looked: SearchedFiles, start: FsTarget) -> tuple[Decision, CompiledRule] | None:
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
