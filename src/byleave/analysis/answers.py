"""What people answered, and what they and the policy refused, read from the records of an audit log. Pure.

A yes comes from the record of a decision that a person answered, or from a hook's record of an agent's own question. A
client that may have answered by itself teaches nothing. A question that was not answered is neither a yes nor a no.

A refusal is what a sandboxed run was denied because nothing of its access covers it; where a rule denies it, that is an
objection, as a person's no is. What becomes of all this: `learn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from byleave.core.decision import BUILT_IN
from byleave.core.redact import REDACTED
from byleave.guard.evaluation import CLIENT, NEVER, NO, PERSON, YESES

if TYPE_CHECKING:
    from collections.abc import Iterable

    Tree = dict[str, Any]

_BEFORE = "before"  # the choice of a record that an earlier approval allowed
_REPLY, _DECISION, _EFFECT, _OBSERVED = "reply", "decision", "effect", "observed"
_SANDBOX = "run"  # the integration whose refusals are those of the sandbox
_REFUSED = "refused"
_WHOLE = "fs .: "  # how the rule about the whole workspace begins, as verdicts name it
_MINUTE = len("2026-01-31T12:00")  # of a time: a run that is refused the same often, is refused it once
_CUT = "[cut]"  # what records have in the place of a text that is too long


class _Ref(Struct):
    rule: str = ""
    source: str = ""


class _Verdict(Struct):
    decision: str = ""
    because: list[_Ref] = field(default_factory=list)


class _Answer(Struct):
    choice: str = ""
    who: str = ""


class _Row(Struct):
    """The fields of a record that say what was answered; every other one is passed over unread."""

    event: str = ""
    time: str = ""
    session: str | None = None
    door: str | None = None
    action: dict[str, Any] | None = None
    verdict: _Verdict | None = None
    answer: _Answer | None = None
    answer_id: str | None = None
    request: dict[str, Any] | None = None
    tool_call: str | None = None
    outcome: str | None = None


class Lesson(Struct):
    """An action, and the answers that allowed it; `before`: one of them was given in `byleave approvals`.

    `refusal`: no person was asked, but a sandboxed run was refused it, so often.
    """

    action: Tree
    answers: set[object] = field(default_factory=set)
    before: bool = False
    refusal: bool = False

    @property
    def given(self) -> set[object]:
        """What identifies each answer."""
        return self.answers or ({(_BEFORE, action_key(self.action))} if self.before else set())


class Evidence(Struct):
    """All that a log says: what was allowed or refused for want of a rule, and the actions that must not be allowed."""

    lessons: dict[str, Lesson] = field(default_factory=dict)
    objections: dict[str, Tree] = field(default_factory=dict)


_decode = msgspec.json.Decoder(_Row).decode


def gather(rows: Iterable[tuple[int, str]], *, since: str | None = None) -> Evidence:
    """Return what records teach: a yes counts from `since` on, an objection whenever it was made."""
    found = Evidence()
    for sequence, text in rows:
        try:
            row = _decode(text)
        except msgspec.MsgspecError:  # a record that was damaged, or that another program has written
            continue
        if row.action is None or not isinstance(row.action.get("kind"), str):
            continue
        _take(found, sequence, row, row.action, counts=since is None or row.time >= since)
    return found


def _take(found: Evidence, sequence: int, row: _Row, action: Tree, *, counts: bool) -> None:
    if _is_objection(row):
        found.objections.setdefault(action_key(action), action)
        return
    choice = row.answer.choice if row.answer is not None else ""
    said_yes = choice in YESES and row.answer is not None and row.answer.who != CLIENT
    earlier = choice == _BEFORE and row.answer is not None and row.answer.who == PERSON
    refused = _is_refusal(row, action)
    if not counts or not (said_yes or earlier or refused) or _is_cut(action):
        return
    own = {name: value for name, value in action.items() if name != "agent"}
    lesson = found.lessons.setdefault(action_key({**own, "kind": action["kind"]}), Lesson(action, refusal=refused))
    if said_yes or refused:
        lesson.answers.add((row.session, row.time[:_MINUTE]) if refused else _answer_of(sequence, row))
    lesson.before |= earlier


def action_key(action: Tree) -> str:
    """Return what is the same for equal actions."""
    return msgspec.json.encode(action, order="sorted").decode()


def _answer_of(sequence: int, row: _Row) -> object:
    """Return what identifies an answer: a question about several actions has one answer, and a record for each.

    Records of an older byleave do not say which belong together; of those, one session teaches such a rule once.
    """
    if row.answer_id is not None:
        return row.answer_id
    if row.event == _REPLY and row.tool_call:
        return (_REPLY, row.session, row.tool_call)
    return (row.session, row.door) if row.request is not None else sequence


def _is_objection(row: _Row) -> bool:
    """Whether a person said no, or a rule denied it."""
    choice = row.answer.choice if row.answer is not None else ""
    if choice in (NO, NEVER):
        return True
    if row.event == _EFFECT:
        return row.outcome is not None and row.outcome.partition(":")[0] == _REFUSED
    denied = row.verdict is not None and row.verdict.decision == "deny" and row.event in (_DECISION, _OBSERVED)
    return denied and not choice and not _is_refusal(row, row.action or {})


def _is_refusal(row: _Row, action: Tree) -> bool:
    """Whether a sandboxed run was refused this because nothing covers it, and not because a rule denies it."""
    if row.event != _DECISION or row.door != _SANDBOX or row.answer is not None or not action.get("tool"):
        return False
    verdict = row.verdict
    if verdict is None or verdict.decision != "deny":
        return False
    return bool(verdict.because) and all(is_unsaid(ref.rule, ref.source) for ref in verdict.because)


def is_unsaid(rule: str, source: str) -> bool:
    """Whether what denied an access says nothing of it: a default, or what the whole workspace is given."""
    return source == BUILT_IN or (rule.startswith(_WHOLE) and rule != f"{_WHOLE}nothing")


def _is_cut(action: Tree) -> bool:
    """Whether the record does not say all of the action: a secret was taken out, or it was too long."""
    text = action_key(action)
    return REDACTED in text or _CUT in text
