"""What the guard puts into the audit log: the records of decisions, of what came of them, and of refused requests.

What is decided about a request (`Decided`) becomes an evaluation only by being recorded: `Recorder.keep` writes its
records at once, `keep_async` together with those of other requests. Each action has a record of its own. An allow whose
record was not kept becomes a deny.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from byleave.core.action import action_tree
from byleave.core.decision import ALLOW, WORDS, shared_tree, strictest
from byleave.core.file_decision import with_grants
from byleave.core.fs_rules import FsTarget
from byleave.core.permit import Permit
from byleave.errors import ByleaveError
from byleave.guard.evaluation import UNKNOWN, ActionRequest, Evaluation, happened, unrecorded
from byleave.record import Record
from byleave.text import shown

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Coroutine, Mapping

    from byleave.core.decision import Verdict
    from byleave.core.fs_rules import RefusedPath
    from byleave.guard.warnings import SensitiveWarnings
    from byleave.policy.live_policy import LivePolicy, ResolvedAction
    from byleave.store.interfaces import RecordStore, StagedRecord

    Outcomes = list[dict[str, Any]]  # records of what was done, not written yet

OBSERVED = "observed"  # the event of a record about an action that an agent reports after it was done
REFUSED = "refused"  # the event of a record about requests that were refused before the policy saw them
NOT_BEGUN = "failed: it was cancelled before it began"


class Decided(Record):
    """A request, what was decided about each of its actions, and what a person replied; not recorded yet."""

    request: ActionRequest
    resolved: list[ResolvedAction]
    started: float
    reply: dict[str, str] | None = None
    warnings: tuple[str, ...] = ()


class _Draft(Record):
    """The record of one action before it is written."""

    resolved: ResolvedAction
    verdict: Verdict
    fields: dict[str, Any]
    warnings: tuple[str, ...]


class Recorder:
    """Records what one guard decides. What could not be recorded after the effect is added to `troubles`."""

    def __init__(
        self,
        log: RecordStore,
        policy: LivePolicy,
        troubles: list[str],
        *,
        door: str,
        session: str,
        notices: SensitiveWarnings | None,
    ) -> None:
        self._log = log
        self._policy = policy
        self._troubles = troubles
        self._door = door
        self._session = session
        self._notices = notices
        self._left: set[Task[None]] = set()  # what goes on though its caller is gone

    def keep(self, decided: Decided, earlier: Outcomes | None = None) -> Evaluation:
        """Record each action with its own verdict and that of the request; an unrecorded allow does not leave.

        Outcomes of `earlier` requests are written in front of it, in the same write.
        """
        drafts = self._drafts(decided)
        outcomes = () if earlier is None else take_all(earlier)
        numbers = self._appended([*outcomes, *[each.fields for each in drafts]])
        if outcomes and isinstance(numbers[0], ByleaveError):
            self._troubles += [_not_recorded(numbers[0])] * len(outcomes)
        return self._evaluation(decided, drafts, numbers[len(outcomes) :])

    async def keep_async(self, decided: Decided) -> Evaluation:
        """Do the same in a write that is shared with others; all is kept when this returns.

        A caller that is cancelled meanwhile never acts on what it was allowed, and the log says so.
        """
        drafts = self._drafts(decided)
        staged = [self._staged(each.fields) for each in drafts]
        try:
            numbers = [await _kept(each) for each in staged]
        except BaseException:
            if self._log.may_wait:
                self._leave(self._note_not_begun(decided, drafts, staged))
            else:
                self._not_begun(self._evaluation(decided, drafts, [_settled(each) for each in staged]))
            raise
        return self._evaluation(decided, drafts, numbers)

    def keep_soon(self, decided: Decided) -> None:
        """Have what is not allowed recorded soon; where that fails, a warning says so."""
        for each in self._drafts(decided):
            self._stage_unwaited(each.fields, self._not_kept)

    def _not_begun(self, evaluation: Evaluation) -> None:
        if evaluation.allowed:
            self.effect(evaluation, 0.0, NOT_BEGUN, staged=self._log.may_wait)

    async def _note_not_begun(
        self, decided: Decided, drafts: list[_Draft], staged: list[StagedRecord | ByleaveError]
    ) -> None:
        """Record what a caller that is gone did not begin, once it is known whether it was allowed."""
        try:
            numbers = [await _kept(each) for each in staged]
        except BaseException:  # the gateway ends
            self._not_begun(self._evaluation(decided, drafts, [_settled(each) for each in staged]))
            raise
        self._not_begun(self._evaluation(decided, drafts, numbers))

    def _leave(self, work: Coroutine[Any, Any, None]) -> None:
        """Have some work done though its caller is gone."""
        from asyncio import get_running_loop  # heavy: for callers that have a loop

        task = get_running_loop().create_task(work)
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    def effect(self, evaluation: Evaluation, took: float, outcome: str, *, staged: bool = False) -> None:
        """Record what was done; with `staged`, soon. Where that fails, a warning says so: it cannot be taken back."""
        fields = self.outcome(evaluation, took, outcome)
        if staged:
            self._stage_unwaited(fields, self._not_kept)
        else:
            self.outcomes([fields])

    def outcomes(self, outcomes: Outcomes) -> None:
        """Record outcomes in one write. Where that fails, a warning for each says so."""
        records = take_all(outcomes)
        try:
            self._log.append_all(records)
        except ByleaveError as error:
            self._troubles += [_not_recorded(error)] * len(records)

    def outcome(self, evaluation: Evaluation, took: float, outcome: str) -> dict[str, Any]:
        """Return the record of what was done."""
        action = None
        if evaluation.permit is not None:
            action = action_tree(evaluation.permit.action)
            action.pop("arguments", None)  # they are in the record of the decision
        return {
            "event": "effect",
            "session": self._session,
            "door": self._door,
            "agent": evaluation.who.agent,
            "identity": evaluation.who.identity,
            "of": evaluation.sequence,
            "action": action,
            "outcome": outcome,
            "duration": round(took, 6),
        }

    def refusal(self, refused: Mapping[str, Any], agent: str | None) -> None:
        """Have it recorded, soon, that requests were refused before the policy saw them."""
        fields = {
            "event": REFUSED,
            "session": self._session,
            "door": self._door,
            "agent": agent,
            "identity": UNKNOWN.identity,
            "refused": dict(refused),
            "outcome": "refused",
        }
        self._stage_unwaited(fields, self._not_kept_once)

    def _stage_unwaited(self, fields: dict[str, Any], on_failure: Callable[[ByleaveError], None]) -> None:
        try:
            self._log.stage(fields, on_failure)
        except ByleaveError as error:
            on_failure(error)

    def _not_kept_once(self, error: ByleaveError) -> None:
        if _not_recorded(error) not in self._troubles:
            self._not_kept(error)

    def _not_kept(self, error: ByleaveError) -> None:
        self._troubles.append(_not_recorded(error))

    def _appended(self, records: list[dict[str, Any]]) -> list[int | ByleaveError]:
        try:
            return [*self._log.append_all(records)]
        except ByleaveError as error:
            return [error] * len(records)

    def _staged(self, fields: dict[str, Any]) -> StagedRecord | ByleaveError:
        try:
            return self._log.stage(fields)
        except ByleaveError as error:
            return error

    def _drafts(self, decided: Decided) -> list[_Draft]:
        fields, resolved = decided.request.fields, decided.resolved
        if len(resolved) > 1:
            decision = max([each.verdict.decision for each in resolved])
            fields = {**fields, "request": {"actions": len(resolved), "decision": WORDS[decision]}}
        return [self._draft(each, decided, fields) for each in resolved]

    def _evaluation(self, decided: Decided, drafts: list[_Draft], numbers: list[int | ByleaveError]) -> Evaluation:
        """Return the evaluation of what was recorded, or could not be."""
        warnings = decided.warnings
        verdicts: list[Verdict] = []
        sequences: list[int | None] = []
        for draft, number in zip(drafts, numbers, strict=True):
            verdict, lines = draft.verdict, draft.warnings
            if isinstance(number, ByleaveError):
                refused = unrecorded(verdict, number)
                verdict = with_grants(self._policy.compiled.policy, draft.resolved.action, refused)
                lines = (*lines, _not_recorded(number))
            verdicts.append(verdict)
            sequences.append(None if isinstance(number, ByleaveError) else number)
            warnings += tuple([line for line in lines if line not in warnings])
        permits: tuple[Permit, ...] = ()
        strict = strictest(verdicts)
        if strict.decision is ALLOW:
            pairs = zip(decided.resolved, verdicts, strict=True)
            permits = tuple([Permit(each.action, each.places, verdict) for each, verdict in pairs])
        return Evaluation(strict, permits, tuple(sequences), decided.request.who, warnings)

    def _draft(self, resolved: ResolvedAction, decided: Decided, also: Mapping[str, Any]) -> _Draft:
        who, root = decided.request.who, self._policy.root.path
        verdict = with_grants(self._policy.compiled.policy, resolved.action, resolved.verdict)
        fields: dict[str, Any] = {
            "event": "decision",
            "session": self._session,
            "door": self._door,
            "agent": who.agent,
            "identity": who.identity,
            "action": action_tree(resolved.action),
            "verdict": shared_tree(verdict, root),
            "duration": round(monotonic() - decided.started, 6),
        }
        if also:
            fields.update(also)
            if also.get("event") == OBSERVED:  # it was done already: a deny came too late for it
                fields["verdict"] = shared_tree(happened(verdict), root)
                if isinstance(fields.get("request"), dict):
                    fields["request"] = {"actions": fields["request"]["actions"]}
        if decided.reply is not None:
            fields["answer"] = decided.reply
        if resolved.places:  # by the names the workspace has for them, however the request spelled them
            named = [getattr(resolved.action, name, None) for name in ("path", "to")]
            spelled = [name for name in named if name is not None]
            fields["places"] = [_name(place, name) for place, name in zip(resolved.places, spelled, strict=False)]
        return _Draft(resolved, verdict, fields, self._warn_of_sensitive(resolved, fields))

    def _warn_of_sensitive(self, resolved: ResolvedAction, fields: dict[str, Any]) -> tuple[str, ...]:
        """Warn, once in a session, that an allowed action touches a sensitive place."""
        if self._notices is None or resolved.verdict.decision is not ALLOW:
            return ()
        found: tuple[str, ...] = ()
        for place in resolved.places:
            entry = self._notices.entry(place.canonical) if isinstance(place, FsTarget) else None
            if entry is not None:
                inside = isinstance(place, FsTarget) and place.relative is not None
                fields["sensitive"] = entry if inside else True  # where a mount leads is in no record
                found += self._notices.once(entry, fields["action"])
        return found


def take_all(outcomes: Outcomes) -> Outcomes:
    """Return what is there, and leave nothing: another thread may add to it meanwhile."""
    return [outcomes.pop(0) for _ in range(len(outcomes))]


async def _kept(staged: StagedRecord | ByleaveError) -> int | ByleaveError:
    try:
        return staged if isinstance(staged, ByleaveError) else await staged.kept()
    except ByleaveError as error:
        return error


def _settled(staged: StagedRecord | ByleaveError) -> int | ByleaveError:
    try:
        return staged if isinstance(staged, ByleaveError) else staged.settled()
    except ByleaveError as error:
        return error


def _not_recorded(error: ByleaveError) -> str:
    return f"NOT RECORDED: {error}"


def _name(place: FsTarget | RefusedPath, spelled: str) -> str:
    """Return the workspace's name of a place; of what was never inside, the request's."""
    own = None
    if isinstance(place, FsTarget):
        own = place.relative if place.relative is not None else place.door
    return shown(spelled if own is None else own or ".")
