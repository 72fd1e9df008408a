"""The one corridor every live request walks: decide, recall an approval, ask a human, record, answer.

A deny never gets as far as the approvals. A yes covers what was shown and nothing else: what is asked about is judged
again once the person has answered, because they may have taken their time. Before an answer leaves, its record is
written; where it cannot be, nothing is allowed.

Start at `Guard.check`. Doors that must not wait use `check_async`; both walk `begin` and `_finish`. One
that must not even ask uses `begin` alone, and comes back with `check`. A request that amounts to several actions, or
whose question somebody else puts, walks `begin_all` and `finish_all`.
"""

from time import monotonic

from byleave.core.action import action_tree
from byleave.core.decision import ALLOW, ASK, Permit, shared_tree
from byleave.core.file_decision import with_grants
from byleave.core.fs_rules import FsTarget
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.guard.approval_key import action_key
from byleave.guard.asking import (
    CLIENTS,
    ELSEWHERE,
    FOR_GOOD,
    FOR_SESSION,
    NEVER,
    NOBODY,
    SILENCE,
    UNKNOWN,
    YESES,
    Evaluation,
    NoAsker,
    Question,
    Who,
    told_before,
    told_by,
)
from byleave.guard.evaluation import UNUSABLE, approved, changed_meanwhile, happened, named_error, refused, unrecorded
from byleave.policy.live_policy import ResolvedVerdict
from byleave.record import Record
from byleave.store.approvals import APPROVED, PENDING
from byleave.text import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol, Self, TypeVar

    from byleave.core.action import Action
    from byleave.core.decision import Verdict
    from byleave.core.fs_rules import RefusedPath
    from byleave.core.redact import Redactor
    from byleave.guard.asking import Asker, AsyncAsker
    from byleave.guard.pending import CombinedVerdict, Pending
    from byleave.guard.persist_rule import PersistentRule
    from byleave.guard.warnings import SensitiveWarnings
    from byleave.policy.live_policy import LivePolicy
    from byleave.store.approvals import Approvals

    Done = TypeVar("Done")

    class Log(Protocol):
        """Where records go; returns the number of each. `warnings` says what went wrong behind the caller's back."""

        warnings: list[str]

        def append(self, fields: "Mapping[str, Any]") -> int: ...

        def mask_with(self, mask: "Redactor") -> None: ...

        def close(self) -> None: ...


PATIENCE = 60.0  # seconds a person has; then the answer is no
_GRACE = 1.0  # seconds for the answer's own way
OBSERVED = "observed"  # the event of a record about what an agent told afterwards
REFUSED = "refused"  # the event of a record about requests that were not even judged
LONGEST_SUBJECT = 4000  # characters that a person can be expected to read in a list


class Guard:
    """Answers every live request that comes through one door, in one session of one workspace."""

    def __init__(
        self,
        policy: "LivePolicy",
        approvals: "Approvals",
        log: "Log",
        *,
        door: str,
        now: "Callable[[], str]",
        mask: "Redactor",
        make_mask: "Callable[[], Redactor] | None" = None,
        session: str = "default",
        asker: "Asker | None" = None,
        patience: float = PATIENCE,
        lasting: "PersistentRule | None" = None,
        notices: "SensitiveWarnings | None" = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.policy = policy
        self.session = session
        self.approvals = approvals
        self._log = log
        self._door = door
        self._now = now
        self._mask = mask
        self._make_mask = make_mask
        self._masked: object = policy.compiled
        self._asker: Asker = asker if asker is not None else NoAsker()
        self._patience = patience
        self._lasting = lasting
        self._notices = notices
        self._notes = notes
        self._seen: tuple[int, ...] | None = None
        self.only_persons: Callable[[], bool] = lambda: False  # whether the answer of a client is worth nothing
        self._refusals: set[str] = set()  # a no for this session: kept as long as the door is open
        self.troubles: list[str] = []  # what could not be recorded after it was done

    def check(self, action: "Action | Mapping[str, Any]", who: Who = UNKNOWN, *, pin: str | None = None) -> Evaluation:
        """Return the answer to one request, recorded; an input error if it cannot be read."""
        begun = self.begin(action, who, pin)
        if isinstance(begun, Evaluation):
            return begun
        asked = monotonic()
        try:
            reply = self._asker.ask(begun, self._patience)
        except BaseException:
            self._finish(begun, self._asker.name, NOBODY)
            raise
        late = monotonic() - asked > self._patience + _GRACE
        return self._finish(begun, self._asker.name, SILENCE if late and reply in YESES else reply)

    async def check_async(
        self,
        action: "Action | Mapping[str, Any]",
        who: Who = UNKNOWN,
        *,
        asker: "AsyncAsker",
        pin: str | None = None,
    ) -> Evaluation:
        """Do the same without keeping others waiting while the person thinks."""
        import asyncio

        begun = self.begin(action, who, pin)
        if isinstance(begun, Evaluation):
            return begun
        try:
            reply = await asyncio.wait_for(asker.ask(begun, self._patience), self._patience + _GRACE)
        except TimeoutError:
            reply = SILENCE
        except BaseException:  # the door closed, or whoever waited went away
            self._finish(begun, asker.name, NOBODY)
            raise
        return self._finish(begun, asker.name, reply)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about this session: of the policy, of its beginning, and of its records."""
        return (*self.policy.warnings, *self._notes, *self._log.warnings, *self.troubles)

    def close(self) -> None:
        """Let the log finish; the guard answers no more."""
        self._log.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def perform(
        self, answer: Evaluation, effect: "Callable[[Permit], Done]", *, later: "list[Callable[[], None]] | None" = None
    ) -> "Done":
        """Do what was allowed, and record how it went; what `effect` raises is recorded, then raised.

        With `later`, that it went well is recorded by what is added there: the caller does so as soon as whoever waits
        has been answered.
        """
        if answer.permit is None:
            raise PermissionError(f"this was not allowed: {answer.verdict.reason}")
        started = monotonic()
        try:
            done = effect(answer.permit)
        except BaseException as error:
            self.record_effect(answer, monotonic() - started, f"failed: {named_error(error)}")
            raise
        took = monotonic() - started
        if later is None:
            self.record_effect(answer, took, "done")
        else:
            later.append(lambda: self.record_effect(answer, took, "done"))
        return done

    def await_approval(self, question: Question) -> bool:
        """Put a question that nobody could be asked among those that wait for `byleave approvals approve`.

        Return whether it waits: what is too long to be shown there in full cannot be approved there.
        """
        if len(self._subject(question)) > LONGEST_SUBJECT:
            return False
        self._keep(question, PENDING)
        return True

    def begin(
        self, action: "Action | Mapping[str, Any]", who: Who = UNKNOWN, pin: str | None = None
    ) -> "Evaluation | Question":
        """Return the answer, recorded, where no person is needed for it; else the question, and nothing is recorded."""
        started = monotonic()
        judged, warnings = self.judge_for(action, who)
        if judged.verdict.decision is not ASK:
            return self.answer(judged, who, started, warnings=warnings)
        key = self.key(judged, who, pin)
        if self.was_refused(key):
            return self.answer(judged.replace(verdict=refused(judged.verdict, NEVER)), who, started)
        way = self.recalled(key)
        if way is not None:
            return self.answer(approved(judged, way, before=True), who, started, told_before(way))
        rule = None if self._lasting is None else self._lasting.offer(judged)
        return Question(judged, who, key, pin, started, rule, self.policy.root.path)

    def begin_all(
        self,
        actions: "Sequence[Action]",
        who: Who = UNKNOWN,
        *,
        unclear: str = "",
        by_hand: bool = False,
        pin: str | None = None,
        also: "Mapping[str, Any] | None" = None,
    ) -> "CombinedVerdict | Pending":
        """Do as `begin` for a request that amounts to several actions: the strictest verdict is the answer to all.

        `unclear` says why it cannot be told what would be done: then no rule allows it. `by_hand`: what is not
        denied is put to a person, whatever allows it. `pin` is the hash of what the call of a tool holds that is known
        by its name only: a yes is for that. `also` are further fields of the records.
        """
        from byleave.guard.pending import begin_all

        return begin_all(self, actions, who, unclear=unclear, by_hand=by_hand, pin=pin, also=also or {})

    def finish_all(self, matter: "Pending", asker: str, reply: str) -> "CombinedVerdict":
        """Record what a person said to all of it, and return what comes of it: they allowed what they were shown."""
        from byleave.guard.pending import finish_all

        return finish_all(self, matter, asker, reply)

    def _finish(self, question: Question, asker: str, reply: str) -> Evaluation:
        told = told_by(asker, reply)
        if reply not in YESES:
            self.remember(question, reply, asker)
            judged = question.judged
            if reply != ELSEWHERE:
                judged = judged.replace(verdict=refused(judged.verdict, reply, asker))
            return self.answer(judged, question.who, question.started, told)
        judged, warnings = self.still(question, asker)
        answer = self.answer(judged, question.who, question.started, told, warnings)
        if not answer.allowed:
            return answer
        # Kept only once it is recorded that somebody said so.
        return answer.replace(warnings=(*answer.warnings, *self.remember(question, reply, asker)))

    def judge_for(self, action: "Action | Mapping[str, Any]", who: Who) -> tuple[ResolvedVerdict, tuple[str, ...]]:
        """Judge on behalf of `who`; a policy that cannot answer any more denies, and why is a warning for the user."""
        try:
            asked = _on_behalf(action, who)
            judged = self.policy.judge(asked)
            self._follow_mask()
        except InputError:
            raise
        except (ByleaveError, ConfigErrors) as error:
            return ResolvedVerdict(_read(asked), (), UNUSABLE), (f"the policy cannot be used now: {error}",)
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
            hint = 'give an object such as {"kind": "read", "path": "src", ...}, not nested too deeply'
            raise InputError("this request cannot be read", hint=hint) from None
        return judged, ()

    def _follow_mask(self) -> None:
        """Make the mask anew when the policy was: another variable may be granted by now."""
        if self._make_mask is not None and self.policy.compiled is not self._masked:
            self._masked = self.policy.compiled
            self._mask = self._make_mask()
            self._log.mask_with(self._mask)

    def still(self, question: Question, asker: str) -> tuple[ResolvedVerdict, tuple[str, ...]]:
        """Judge again after the person has answered: their yes is for what they were shown."""
        again, warnings = self.judge_for(question.judged.action, question.who)
        if again.verdict.decision is not ASK:
            return again, warnings
        if self.key(again, question.who, question.pin) == question.key:
            return approved(again, asker), warnings
        return again.replace(verdict=changed_meanwhile(again.verdict)), warnings

    def remember(self, question: Question, reply: str, asker: str) -> tuple[str, ...]:
        """Keep an answer that is for more than once; a yes that cannot be kept holds once, and that is said."""
        if reply == NEVER:
            self._refusals.add(question.key)
        try:
            if reply == FOR_GOOD and self._lasting is not None and question.rule is not None:
                self._lasting.keep(question.rule)
                self.policy.expire()
            elif reply in (FOR_GOOD, FOR_SESSION):
                self._keep(question, APPROVED, asker)
        except ByleaveError as error:
            return (f"your answer holds this once; it could not be kept: {error}",)
        return ()

    def _subject(self, question: Question) -> str:
        """Return one line that says all of what a yes covers; only values of ours are masked in it.

        What merely looks like a secret stays: an agent could have it hide what is to be approved.
        """
        who = question.who
        unproven = who.identity if who.agent and who.identity != "verified" else ""
        facts = {**question.facts, "agent": who.agent or "", "identity": unproven, "door": self._door}
        named = [f"{key}={quoted(self._mask.values(value))}" for key, value in facts.items() if value and key != "kind"]
        return f"{facts['kind']} {' '.join(named)}"

    def _keep(self, question: Question, status: str, asker: str = "") -> None:
        subject = self._subject(question)
        self.approvals.remember(
            question.key,
            kind="call" if question.facts["kind"] == "call" else "action",
            subject=subject if len(subject) <= LONGEST_SUBJECT else f"{subject[:LONGEST_SUBJECT]}... (cut)",
            session=self.session,
            status=status,
            now=self._now(),
            by=asker,
        )

    def was_refused(self, key: str) -> bool:
        """Whether a person has said no to this for the session."""
        return key in self._refusals

    def recalled(self, key: str) -> str | None:
        """Return the way on which what has this key was approved; None if no approval holds for it.

        Where only persons may answer, what a client has said before counts no more than what it says now.
        """
        stamp = self.approvals.stamp()
        if stamp != self._seen:
            self.approvals.refresh()
            self._seen = stamp
        try:
            way = self.approvals.approved_by(key)
        except ByleaveError:  # approvals that cannot be read count as none
            return None
        return None if self.only_persons() and (not way or way in CLIENTS) else way

    def key(self, judged: ResolvedVerdict, who: Who, pin: str | None = None) -> str:
        """Return the key of what was judged, as approvals know it."""
        root = self.policy.root.path
        return action_key(judged, root=root, door=self._door, who=who, session=self.session, pin=pin)

    def answer(
        self,
        judged: ResolvedVerdict,
        who: Who,
        started: float,
        told: "dict[str, Any] | None" = None,
        warnings: tuple[str, ...] = (),
        *,
        also: "Mapping[str, Any] | None" = None,
    ) -> Evaluation:
        """Record the verdict, then make the answer; an unrecorded allow does not leave."""
        verdict = with_grants(self.policy.compiled.policy, judged.action, judged.verdict)
        fields: dict[str, Any] = {
            "event": "decision",
            "session": self.session,
            "door": self._door,
            "agent": who.agent,
            "identity": who.identity,
            "action": action_tree(judged.action),
            "verdict": shared_tree(verdict, self.policy.root.path),
            "duration": round(monotonic() - started, 6),
        }
        if also:
            fields.update(also)
            if also.get("event") == OBSERVED:
                fields |= self._seen_done(verdict, fields)
        if told is not None:
            fields["answer"] = told
        if judged.places:  # by the names the workspace has for them, however the request spelled them
            fields["places"] = [
                _name(place, asked) for place, asked in zip(judged.places, _asked(judged), strict=False)
            ]
        warnings += self._notice(judged, fields)
        try:
            sequence: int | None = self._log.append(fields)
        except ByleaveError as error:
            verdict = with_grants(self.policy.compiled.policy, judged.action, unrecorded(verdict, error))
            sequence = None
            warnings += (f"NOT RECORDED: {error}",)
        permit = Permit(judged.action, judged.places, verdict) if verdict.decision is ALLOW else None
        return Evaluation(verdict, permit, sequence, who, warnings)

    def _seen_done(self, verdict: "Verdict", fields: "Mapping[str, Any]") -> "dict[str, Any]":
        """Return the fields of a record about something that was done already: a deny came too late for it."""
        seen: dict[str, Any] = {"verdict": shared_tree(happened(verdict), self.policy.root.path)}
        if isinstance(fields.get("request"), dict):
            seen["request"] = {"actions": fields["request"]["actions"]}
        return seen

    def _notice(self, judged: ResolvedVerdict, fields: "dict[str, Any]") -> tuple[str, ...]:
        """Point out, once in a session, that an allowed action touches a sensitive place."""
        if self._notices is None or judged.verdict.decision is not ALLOW:
            return ()
        found: tuple[str, ...] = ()
        for place in judged.places:
            entry = self._notices.entry(place.canonical) if isinstance(place, FsTarget) else None
            if entry is not None:
                inside = isinstance(place, FsTarget) and place.relative is not None
                fields["sensitive"] = entry if inside else True  # where a mount leads is in no record
                found += self._notices.once(entry, fields["action"])
        return found

    def record_refusal(self, refused: "Mapping[str, Any]", agent: str | None = None) -> None:
        """Record that requests were refused before anything was judged: why, to whom, how many."""
        fields = {
            "event": REFUSED,
            "session": self.session,
            "door": self._door,
            "agent": agent,
            "identity": UNKNOWN.identity,
            "refused": dict(refused),
            "outcome": "refused",
        }
        try:
            self._log.append(fields)
        except ByleaveError as error:
            trouble = f"NOT RECORDED: {error}"
            if trouble not in self.troubles:
                self.troubles.append(trouble)

    def record_effect(self, answer: Evaluation, took: float, outcome: str) -> None:
        """Record what was done. It is done: where the record cannot be written, that is said instead of raised."""
        fields = {
            "event": "effect",
            "session": self.session,
            "door": self._door,
            "agent": answer.who.agent,
            "identity": answer.who.identity,
            "of": answer.sequence,
            "action": _named(answer.permit.action) if answer.permit is not None else None,
            "outcome": outcome,
            "duration": round(took, 6),
        }
        try:
            self._log.append(fields)
        except ByleaveError as error:
            self.troubles.append(f"NOT RECORDED: {error}")


def _named(action: "Action") -> "dict[str, Any]":
    """Return what was done, without what it was done with: that is in the record of the decision."""
    tree = action_tree(action)
    tree.pop("arguments", None)
    return tree


def _asked(judged: ResolvedVerdict) -> "list[str]":
    return [name for name in (getattr(judged.action, field, None) for field in ("path", "to")) if name is not None]


def _name(place: "FsTarget | RefusedPath", asked: str) -> str:
    """Return how the workspace calls a place; what was never inside, as the request does."""
    own = None
    if isinstance(place, FsTarget):
        own = place.relative if place.relative is not None else place.door
    return shown(asked if own is None else own or ".")


def _on_behalf(action: "Action | Mapping[str, Any]", who: Who) -> "Any":
    """Return the action with the agent we know: what a request says about itself does not count."""
    if isinstance(action, Record):
        return action if getattr(action, "agent", None) == who.agent else action.replace(agent=who.agent)
    return {**action, "agent": who.agent} if hasattr(action, "keys") else action


def _read(action: "Any") -> "Any":
    from byleave.core.action import parse_action

    return parse_action(action) if isinstance(action, dict) else action
