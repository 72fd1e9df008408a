"""One request that amounts to several actions, or whose question somebody else puts: an agent's own tool call.

Every action is judged and recorded as itself; the strictest verdict is the answer to all of it. Nothing of a request is
allowed unless all of it is.
"""

import os
from time import monotonic

from byleave.core.action import LOCAL, CallAction, OtherAction
from byleave.core.decision import ALLOW, ASK, DENY, WORDS, strictest
from byleave.guard.asking import ELSEWHERE, NEVER, UNASKED, YESES, Evaluation, Question, Who, told_before, told_by
from byleave.guard.evaluation import approved, changed_meanwhile, refused, unclear_verdict
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from byleave.core.action import Action
    from byleave.core.decision import Verdict
    from byleave.guard.guard import Guard
    from byleave.policy.live_policy import ResolvedVerdict


_LEFT_ALONE = (ELSEWHERE, UNASKED)  # nobody answered us: the verdict is the policy's


class CombinedVerdict(Record):
    """What came of a request: the strictest verdict, and the answer to each of its actions."""

    verdict: "Verdict"
    answers: tuple[Evaluation, ...]

    @property
    def allowed(self) -> bool:
        return self.verdict.decision is ALLOW

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([line for answer in self.answers for line in answer.warnings]))


class Pending(Record):
    """A request that a person has to answer: a question for each of its actions, also for those that a rule allows."""

    verdict: "Verdict"
    questions: tuple[Question, ...]
    who: Who
    started: float
    unclear: str
    also: "Mapping[str, Any]"
    warnings: tuple[str, ...] = ()


def begin_all(
    guard: "Guard",
    actions: "Sequence[Action]",
    who: Who,
    *,
    unclear: str,
    by_hand: bool,
    pin: str | None,
    also: "Mapping[str, Any]",
) -> CombinedVerdict | Pending:
    """Return the answer, recorded, where no person is needed for it; else the matter, and nothing is recorded."""
    started = monotonic()
    judged, warnings = _judge(guard, actions, who, unclear)
    verdict = strictest([each.verdict for each in judged])
    if verdict.decision is DENY or (verdict.decision is ALLOW and not by_hand):
        return _record(guard, judged, who, started, also, warnings=warnings)
    pins = [pin if _is_known_by_name(each.action) else None for each in judged]
    keys = [guard.key(each, who, pin_of) for each, pin_of in zip(judged, pins, strict=True)]
    if not unclear:  # nobody can have agreed to more of the same where nobody can tell what it is
        if any(guard.was_refused(key) for key in keys):
            return _record(guard, [_refused(each, NEVER) for each in judged], who, started, also)
        asked = [(each, key) for each, key in zip(judged, keys, strict=True) if not each.verdict.allowed]
        ways = {key: way for _each, key in asked if (way := guard.recalled(key)) is not None}
        if not by_hand and all(key in ways for _each, key in asked):
            again = [
                each if each.verdict.allowed else approved(each, ways[key], before=True)
                for each, key in zip(judged, keys, strict=True)
            ]
            return _record(guard, again, who, started, also, told=told_before(next(iter(ways.values()))))
    root = guard.policy.root.path
    questions = [
        Question(each, who, key, pin_of, started, None, root)
        for each, key, pin_of in zip(judged, keys, pins, strict=True)
    ]
    return Pending(verdict, tuple(questions), who, started, unclear, also, warnings)


def _is_known_by_name(action: "Action") -> bool:
    """Whether nothing but a name says what would be done, so that a yes is for what has that name now."""
    return isinstance(action, OtherAction) or (isinstance(action, CallAction) and action.server == LOCAL)


def finish_all(guard: "Guard", matter: Pending, asker: str, reply: str) -> CombinedVerdict:
    """Record what became of a matter; after a yes, everything is judged again."""
    told, also = told_by(asker, reply), matter.also
    if len(matter.questions) > 1:  # one answer, though it has a record for each action
        also = {**also, "answer_id": os.urandom(8).hex()}
    judged = [question.judged for question in matter.questions]
    warnings = matter.warnings
    if reply in YESES:
        judged, warnings = _still(guard, matter, asker)
    elif reply not in _LEFT_ALONE:
        judged = [_refused(each, reply, asker) for each in judged]
    done = _record(guard, judged, matter.who, matter.started, also, told=told, warnings=warnings)
    if not matter.unclear and (done.allowed or reply == NEVER):
        _remember(guard, matter, reply, asker)
    return done


def _judge(
    guard: "Guard", actions: "Iterable[Action]", who: Who, unclear: str
) -> "tuple[list[ResolvedVerdict], tuple[str, ...]]":
    judged: list[ResolvedVerdict] = []
    warnings: list[str] = []
    for action in actions:
        each, told = guard.judge_for(action, who)
        judged.append(each.replace(verdict=unclear_verdict(each.verdict, unclear)) if unclear else each)
        warnings += told
    return judged, tuple(dict.fromkeys(warnings))


def _still(guard: "Guard", matter: Pending, asker: str) -> "tuple[list[ResolvedVerdict], tuple[str, ...]]":
    """Judge everything again: a yes is for what was shown. Where one action is denied by now, none is allowed."""
    again: list[ResolvedVerdict] = []
    warnings: list[str] = []
    for question in matter.questions:
        judged, told = guard.still(question, asker)
        if matter.unclear and judged.verdict.allowed:  # by a rule, which was not asked; the person was
            judged = _as_shown(guard, question, judged, asker)
        again.append(judged)
        warnings += told
    if any(each.verdict.decision is DENY for each in again):
        again = [now if now.verdict.decision is DENY else asked.judged for now, asked in _pairs(again, matter)]
    return again, tuple(dict.fromkeys(warnings))


def _as_shown(guard: "Guard", question: Question, now: "ResolvedVerdict", asker: str) -> "ResolvedVerdict":
    if guard.key(now, question.who, question.pin) == question.key:
        return approved(question.judged, asker)
    return now.replace(verdict=changed_meanwhile(now.verdict))


def _pairs(judged: "list[ResolvedVerdict]", matter: Pending) -> "zip[tuple[ResolvedVerdict, Question]]":
    return zip(judged, matter.questions, strict=True)


def _refused(judged: "ResolvedVerdict", reply: str, asker: str = "") -> "ResolvedVerdict":
    return judged.replace(verdict=refused(judged.verdict, reply, asker))


def _remember(guard: "Guard", matter: Pending, reply: str, asker: str) -> None:
    """Keep an answer that is for more than once, for each action that was asked about."""
    for question in matter.questions:
        if question.judged.verdict.decision is ASK or reply == NEVER:
            guard.troubles.extend(guard.remember(question, reply, asker))


def _record(
    guard: "Guard",
    judged: "list[ResolvedVerdict]",
    who: Who,
    started: float,
    also: "Mapping[str, Any]",
    *,
    told: "dict[str, Any] | None" = None,
    warnings: tuple[str, ...] = (),
) -> CombinedVerdict:
    """Record each action with its own verdict, and what became of its request; an unrecorded allow does not leave."""
    verdict = strictest([each.verdict for each in judged])
    if len(judged) > 1:
        also = {**also, "request": {"actions": len(judged), "decision": WORDS[verdict.decision]}}
    answers = [guard.answer(each, who, started, told, also=also) for each in judged]
    if warnings:
        answers[0] = answers[0].replace(warnings=(*warnings, *answers[0].warnings))
    return CombinedVerdict(strictest([answer.verdict for answer in answers]), tuple(answers))
