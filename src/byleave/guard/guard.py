"""The one way through which every live request passes: decide, recall an approval, ask a person, record, answer.

A deny never gets as far as the approvals. A yes covers what was shown and nothing else: the policy decides again once
the person has replied, because they may have taken their time. Before an evaluation leaves, each action of it is in the
audit log; where that fails, nothing is allowed.

Start at `Guard.authorize` and `Guard.complete`: every integration uses them. `Guard.check` is both in one, for callers
that have an asker and can wait for it; `check_async` is the same without blocking.
"""

from __future__ import annotations

import os
from _thread import allocate_lock  # of threading, which takes longer to load than the guard has
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar

from byleave.core.action import LOCAL, CallAction, OtherAction, action_tree, parse_action
from byleave.core.decision import ALLOW, ASK, DENY, shared_tree, strictest
from byleave.core.observing import OBSERVE, built_in_decision
from byleave.core.permit import Permit
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.guard.approval_key import action_key
from byleave.guard.evaluation import (
    CLIENTS,
    ELSEWHERE,
    FOR_GOOD,
    FOR_SESSION,
    NEVER,
    NO_PERSON,
    ONCE,
    SILENCE,
    UNASKED,
    UNKNOWN,
    UNUSABLE,
    ActionRequest,
    Evaluation,
    NoAsker,
    Pending,
    Question,
    Reply,
    Who,
    approved,
    changed_meanwhile,
    earlier_reply_record,
    named_error,
    refused,
    unclear_verdict,
)
from byleave.guard.recording import NOT_BEGUN, Decided, Recorder
from byleave.guard.warnings import mask_for
from byleave.policy.live_policy import ResolvedAction
from byleave.record import Record
from byleave.store.approvals import APPROVED, PENDING, later
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.core.action import Action
    from byleave.core.decision import Verdict
    from byleave.core.redact import Redactor
    from byleave.guard.evaluation import Asker, AsyncAsker
    from byleave.guard.held_question import HeldQuestion
    from byleave.guard.persist_rule import PersistentRule
    from byleave.guard.recording import Outcomes
    from byleave.guard.warnings import SensitiveWarnings
    from byleave.policy.compile import Compiled
    from byleave.policy.live_policy import LivePolicy
    from byleave.store.interfaces import ApprovalStore, RecordStore

Done = TypeVar("Done")


PATIENCE = 60.0  # seconds a person has; then the answer is no
_GRACE = 1.0  # seconds that the reply may take to arrive
LONGEST_SUBJECT = 4000  # characters that a person can be expected to read in a list
_STEP_SECONDS = 30  # within which the second event of a call follows the first
_LEFT_OPEN = (ELSEWHERE, UNASKED)  # no reply reached the guard: the verdict stays the policy's


class Guard:
    """Answers every live request of one integration, in one session of one workspace.

    With `environment`, the values in it that the policy grants are masked in records, also when the policy changes.
    `may_observe`: in observe mode the rules only say what would have been.
    `view_state` is where an open dashboard is found (`store.questions`); without it, no question waits there.
    `check_holds`: so does `check`, where its asker reaches no person. Not for a proxy: its program would stand still.
    `client_approves` says, by the policy as it is now, whether the yes of a client counts, which may answer without
    showing the question to a person; None where an integration puts no question to its client.
    """

    def __init__(
        self,
        policy: LivePolicy,
        approvals: ApprovalStore,
        log: RecordStore,
        *,
        door: str,
        now: Callable[[], str],
        mask: Redactor,
        client_approves: Callable[[Compiled], bool] | None,
        environment: Mapping[str, str] | None = None,
        session: str = "default",
        asker: Asker | None = None,
        patience: float = PATIENCE,
        lasting: PersistentRule | None = None,
        notices: SensitiveWarnings | None = None,
        notes: tuple[str, ...] = (),
        may_observe: bool = False,
        view_state: str | None = None,
        check_holds: bool = False,
    ) -> None:
        self._may_observe = may_observe
        self._view_state = view_state
        self._check_holds = check_holds
        self.policy = policy
        self.session = session
        self.approvals = approvals
        self._log = log
        self._door = door
        self._now = now
        self._mask = mask
        self._environment = environment
        self._masked: object = policy.compiled
        self._asker: Asker = asker if asker is not None else NoAsker()
        self._patience = patience
        self._lasting = lasting
        self._notes = notes
        self._seen: tuple[int, ...] | None = None
        self._recalling = allocate_lock()  # what one thread has read, another does not replace by something older
        self._client_approves = client_approves
        self._refusals: set[str] = set()  # keys of what a person refused for this session
        self.troubles: list[str] = []  # what could not be recorded or kept after the reply or the effect
        self._recorder = Recorder(log, policy, self.troubles, door=door, session=session, notices=notices)

    # The one way through

    def authorize(self, request: ActionRequest, earlier: Outcomes | None = None) -> Evaluation | Pending:
        """Return the evaluation, recorded, where no person is needed for it; else what waits for one, unrecorded.

        The strictest verdict on an action is the verdict on the whole request. An input error if it cannot be read.
        Outcomes of `earlier` requests are taken from that list, and written with the record of this decision.
        """
        decided = self._decide(request)
        if isinstance(decided, Pending):
            decided = self._by_earlier_reply(decided)
        return decided if isinstance(decided, Pending) else self._recorder.keep(decided, earlier)

    async def authorize_async(self, request: ActionRequest) -> Evaluation | Pending:
        """Do the same, and have the records written with those of other requests; they are kept when this returns.

        If the caller is cancelled meanwhile, the log says that what was allowed did not happen. Approvals that may have
        to be waited for are looked up by a thread; who is cancelled by then may have used up a yes for one request.
        """
        decided = self._decide(request)
        if isinstance(decided, Pending):
            pending = decided
            decided = await self._beside(lambda: self._by_earlier_reply(pending))
        return decided if isinstance(decided, Pending) else await self._recorder.keep_async(decided)

    def _decide(self, request: ActionRequest) -> Decided | Pending:
        """Return what the policy says; what needs a person, as if none had replied before."""
        started = monotonic()
        resolved, warnings = self._evaluate_all(request)
        observed = False
        if self.observes:  # nothing is confined then: what byleave asks by itself is not left to the kernel
            plain = request.replace(confines=False)
            unconfined = self._evaluate_all(plain)[0] if request.confines else resolved
            observed = all(built_in_decision(each.verdict) is None for each in unconfined)
            request, resolved = (request, resolved) if observed else (plain, unconfined)
        decision = max([each.verdict.decision for each in resolved])
        if observed:
            request = request.replace(fields={**request.fields, "mode": OBSERVE})
        elif decision is DENY or (decision is ALLOW and not request.needs_person):
            return Decided(request, resolved, started, warnings=warnings)
        pins = [request.pin if len(resolved) == 1 or _says_only_a_name(each.action) else None for each in resolved]
        keys = [self._key(each, request.who, pin) for each, pin in zip(resolved, pins, strict=True)]
        rules = [self._lasting.offer(each) if self._lasting and request.offers_rule else None for each in resolved]
        questions = [
            Question(each, request.who, key, pin, rule, self.policy.root.path)
            for each, key, pin, rule in zip(resolved, keys, pins, rules, strict=True)
        ]
        verdict = strictest([each.verdict for each in resolved])
        return Pending(request, verdict, tuple(questions), started, warnings, observed)

    @property
    def observes(self) -> bool:
        """Whether the rules only say what would have been, as the policy is now: byleave's own denies and asks hold."""
        return self._may_observe and self.policy.compiled.settings["defaults"].get("mode") == OBSERVE

    def complete(self, pending: Pending, reply: Reply) -> Evaluation:
        """Record what became of a request that needed a person, and return it; a yes is for what was shown."""
        done = self._recorder.keep(self._replied(pending, reply))
        if pending.observed:
            return _observed(pending, reply, done)
        return self._remembered(pending, reply, done) if _is_for_later(pending, reply, done) else done

    async def complete_async(self, pending: Pending, reply: Reply) -> Evaluation:
        """Do the same without blocking the event loop, with the records written as those of `authorize_async`."""
        done = await self._recorder.keep_async(self._replied(pending, reply))
        if pending.observed:
            return _observed(pending, reply, done)
        if not _is_for_later(pending, reply, done):
            return done
        try:
            return await self._beside(lambda: self._remembered(pending, reply, done))
        except BaseException:  # the caller is gone, and does not act on it
            if done.allowed:
                self._recorder.effect(done, 0.0, NOT_BEGUN, staged=True)
            raise

    def withdraw(self, pending: Pending, reply: Reply) -> None:
        """Have it recorded, soon, that a request which needed a person is given up. Nothing waits for that."""
        if reply.is_yes:
            raise ValueError("a yes is recorded before it counts")
        self._recorder.keep_soon(self._replied(pending, reply))

    def _replied(self, pending: Pending, reply: Reply) -> Decided:
        """Return what a reply makes of a request; of one that is only observed, what would have been."""
        request, warnings = pending.request, pending.warnings
        if len(pending.questions) > 1:  # one reply, though it has a record for each action
            request = request.replace(fields={**request.fields, "answer_id": os.urandom(8).hex()})
        resolved = [question.resolved for question in pending.questions]
        if not pending.observed:
            if reply.is_yes:
                resolved, warnings = self._evaluate_again(pending, reply)
            elif reply.choice not in _LEFT_OPEN:
                resolved = [each.replace(verdict=refused(each.verdict, reply)) for each in resolved]
        return Decided(request, resolved, pending.started, reply.record, warnings)

    def _remembered(self, pending: Pending, reply: Reply, done: Evaluation) -> Evaluation:
        """Keep a reply for later requests: only once it is recorded that a person chose so."""
        asked = [one for one in pending.questions if one.resolved.verdict.decision is ASK or reply.choice == NEVER]
        unkept = [line for question in asked for line in self._remember(question, reply, pending.request.step)]
        self.troubles += unkept
        return done.replace(warnings=(*done.warnings, *unkept)) if unkept else done

    async def _beside(self, work: Callable[[], Done]) -> Done:
        """Do what approvals are needed for; by a thread, where they may have to be waited for."""
        if not self.approvals.may_wait:
            return work()
        import asyncio  # heavy: for callers that have a loop

        return await asyncio.to_thread(work)

    def refuse(self, request: ActionRequest, verdict: Verdict) -> Evaluation:
        """Record that an integration refuses a request for a reason of its own, and return that evaluation."""
        return self._recorder.keep(_refusal(request, verdict))

    async def refuse_async(self, request: ActionRequest, verdict: Verdict) -> Evaluation:
        """Do the same, with the record written as those of `authorize_async`."""
        return await self._recorder.keep_async(_refusal(request, verdict))

    def check(self, action: Action | Mapping[str, Any], who: Who = UNKNOWN, *, pin: str | None = None) -> Evaluation:
        """Return the evaluation of one action, recorded; where a person is needed, the asker of this guard asks."""
        outcome = self.authorize(ActionRequest((action,), who, pin=pin, offers_rule=True))
        if isinstance(outcome, Evaluation):
            return outcome
        asked = monotonic()
        try:
            choice = self._asker.ask(outcome.questions[0], self._patience)
            elsewhere = self.hold(outcome) if choice == NO_PERSON and self._check_holds else None
        except BaseException:
            self.complete(outcome, Reply(NO_PERSON, self._asker.name))
            raise
        if elsewhere is not None:
            return self.complete(outcome, elsewhere)
        reply = Reply(choice, self._asker.name)
        late = monotonic() - asked > self._patience + _GRACE
        return self.complete(outcome, reply.replace(choice=SILENCE) if late and reply.is_yes else reply)

    async def check_async(
        self,
        action: Action | Mapping[str, Any],
        who: Who = UNKNOWN,
        *,
        asker: AsyncAsker,
        pin: str | None = None,
    ) -> Evaluation:
        """Do the same without blocking the event loop while the person thinks."""
        import asyncio  # heavy: for callers that have a loop

        outcome = await self.authorize_async(ActionRequest((action,), who, pin=pin, offers_rule=True))
        if isinstance(outcome, Evaluation):
            return outcome
        try:
            choice = await asyncio.wait_for(asker.ask(outcome.questions[0], self._patience), self._patience + _GRACE)
        except TimeoutError:
            choice = SILENCE
        except BaseException:  # the caller was cancelled
            self.withdraw(outcome, Reply(NO_PERSON, asker.name))
            raise
        return await self.complete_async(outcome, Reply(choice, asker.name))

    def perform(
        self,
        evaluation: Evaluation,
        effect: Callable[[Permit], Done],
        *,
        later: Outcomes | None = None,
    ) -> Done:
        """Do what was allowed, and record how it went; what `effect` raises is recorded, then raised.

        With `later`, the record of success is added there, unwritten: the caller hands it to the next `authorize`, or
        to `record_outcomes` once nothing else comes.
        """
        if evaluation.permit is None:
            raise PermissionError(f"this was not allowed: {evaluation.verdict.reason}")
        started = monotonic()
        try:
            done = effect(evaluation.permit)
        except BaseException as error:
            self.record_effect(evaluation, monotonic() - started, f"failed: {named_error(error)}")
            raise
        took = monotonic() - started
        if later is None:
            self.record_effect(evaluation, took, "done")
        else:
            later.append(self._recorder.outcome(evaluation, took, "done"))
        return done

    @property
    def client_approves(self) -> bool:
        """Whether the yes of a client counts now; else only that of a person, in `byleave approvals`."""
        return self._client_approves is None or self._client_approves(self.policy.compiled)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about this session: of the policy, of its beginning, and of its records."""
        return (*self.policy.warnings, *self._notes, *self._log.warnings, *self.troubles)

    def close(self) -> None:
        """Let the log finish; the guard answers no more."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    # What the policy says

    def evaluate(
        self, action: Action | Mapping[str, Any], who: Who, *, confines: bool = False
    ) -> tuple[ResolvedAction, tuple[str, ...]]:
        """Return what the policy says now, unrecorded; where it cannot be used, a deny, and why as a warning."""
        try:
            requested = _on_behalf(action, who)
            resolved = self.policy.evaluate(requested, confines=confines)
            if self._environment is not None and self.policy.compiled is not self._masked:
                # Another policy may grant another variable.
                self._masked = self.policy.compiled
                self._mask = mask_for(self.policy.compiled.policy, self._environment)
                self._log.mask_with(self._mask)
        except InputError:
            raise
        except (ByleaveError, ConfigErrors) as error:
            denied = ResolvedAction(_parsed(requested), (), UNUSABLE)
            return denied, (f"the policy cannot be used now: {error}",)
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
            hint = 'give an object such as {"kind": "read", "path": "src", ...}, not nested too deeply'
            raise InputError("this request cannot be read", hint=hint) from None
        return resolved, ()

    def _evaluate_all(self, request: ActionRequest) -> tuple[list[ResolvedAction], tuple[str, ...]]:
        found: list[ResolvedAction] = []
        warnings: dict[str, None] = {}
        for action in request.actions:
            resolved, lines = self.evaluate(action, request.who, confines=request.confines)
            if request.unclear:
                resolved = resolved.replace(verdict=unclear_verdict(resolved.verdict, request.unclear))
            found.append(resolved)
            warnings.update(dict.fromkeys(lines))
        return found, tuple(warnings)

    def _evaluate_again(self, pending: Pending, reply: Reply) -> tuple[list[ResolvedAction], tuple[str, ...]]:
        """Decide again after a yes, by the policy as it is now. Where one action is denied by now, none is allowed."""
        self.policy.expire()
        found: list[ResolvedAction] = []
        warnings: dict[str, None] = {}
        for question in pending.questions:
            resolved, lines = self.evaluate(question.resolved.action, question.who, confines=pending.request.confines)
            warnings.update(dict.fromkeys(lines))
            if resolved.verdict.decision is ASK or (pending.request.unclear and resolved.verdict.allowed):
                same = self._key(resolved, question.who, question.pin) == question.key
                # What is unclear keeps the question that was shown: a rule that allows it does not know what it is.
                asked = question.resolved if pending.request.unclear and resolved.verdict.allowed else resolved
                verdict = changed_meanwhile(resolved.verdict)
                resolved = approved(asked, reply.by) if same else resolved.replace(verdict=verdict)
            found.append(resolved)
        if any(each.verdict.decision is DENY for each in found):
            shown_before = [question.resolved for question in pending.questions]
            pairs = zip(found, shown_before, strict=True)
            found = [now if now.verdict.decision is DENY else before for now, before in pairs]
        return found, tuple(warnings)

    # Approvals

    @property
    def ask_timeout(self) -> float:
        """How many seconds a request may wait for an answer from the dashboard, as the policy is now."""
        return float(self.policy.compiled.settings["defaults"].get("ask_timeout", PATIENCE))

    @property
    def may_hold(self) -> bool:
        """Whether a dashboard or a terminal view shows questions now, and requests may wait for it."""
        state = self._view_state
        if state is None or self.ask_timeout <= 0 or not os.path.lexists(os.path.join(state, "dashboard.open")):
            return False
        from byleave.store.questions import is_seen  # heavy: only where there was a dashboard before

        return is_seen(state)

    def hold(
        self, pending: Pending, seconds: float | None = None, *, given: Mapping[str, Any] | None = None
    ) -> Reply | None:
        """Wait for a reply from an open dashboard; None where none is open, or no reply comes in time.

        `given` is what the agent would hand to its tool, for the person to read.
        """
        held = self._held_question(pending, seconds, given)
        return None if held is None else held.wait()

    async def hold_async(self, pending: Pending, seconds: float | None = None) -> Reply | None:
        """Do the same without blocking the event loop."""
        held = self._held_question(pending, seconds, None)
        return None if held is None else await held.wait_async()

    def _held_question(
        self, pending: Pending, seconds: float | None, given: Mapping[str, Any] | None
    ) -> HeldQuestion | None:
        limit = self.ask_timeout if seconds is None else min(seconds, self.ask_timeout)
        if limit <= 0 or not self.may_hold:
            return None
        from byleave.guard.held_question import HeldQuestion, HoldingPlace  # heavy: only while a dashboard is open

        place = HoldingPlace(self.approvals.directory, self.policy.root.path, self._door, self.session)
        return HeldQuestion(pending, place, limit, given=given, mask=self._mask)

    def await_approval(self, question: Question, *, given: Mapping[str, Any] | None = None) -> bool:
        """Put a question among those that wait for `byleave approvals approve`.

        `given` is the input of the tool, where a yes is for exactly that. Return whether it waits: what is too long to
        be shown there in full cannot be approved there.
        """
        length = len(self._subject(question)) + (0 if given is None else len(repr(given)))
        if length > LONGEST_SUBJECT:
            return False
        self._keep(question, PENDING, given=given)
        return True

    async def await_approval_async(self, question: Question) -> bool:
        """Do the same without blocking the event loop."""
        return await self._beside(lambda: self.await_approval(question))

    def _by_earlier_reply(self, pending: Pending) -> Decided | Pending:
        """Return what an earlier reply makes of a request, where a person has replied to all of it. Any thread may."""
        request, started = pending.request, pending.started
        if request.unclear or pending.observed:  # no earlier reply can have been about the same
            return pending
        resolved = [question.resolved for question in pending.questions]
        if any(question.key in self._refusals for question in pending.questions):
            never = Reply(NEVER, "")
            denied = [each.replace(verdict=refused(each.verdict, never)) for each in resolved]
            return Decided(request, denied, started)
        if request.needs_person:
            return pending
        askers: dict[str, str] = {}
        with self._recalling:
            for question in pending.questions:
                if question.resolved.verdict.allowed:
                    continue
                asker = self._approved_by(question.key, request.step)
                if asker is None:
                    return pending
                askers[question.key] = asker
            if not self._spend(list(askers), request.step):
                return pending
        found = [
            one.resolved if one.resolved.verdict.allowed else approved(one.resolved, askers[one.key], before=True)
            for one in pending.questions
        ]
        return Decided(request, found, started, earlier_reply_record(next(iter(askers.values()))))

    def _approved_by(self, key: str, step: str) -> str | None:
        """Return the asker through which what has this key was approved; None if no approval holds for it.

        Where only persons may answer, an earlier reply of a client counts no more than one that it gives now.
        """
        stamp = self.approvals.stamp()
        if stamp != self._seen:
            self.approvals.refresh()
            self._seen = stamp
        try:
            asker = self.approvals.approved_by(key, now=self._now(), step=step)
        except ByleaveError:  # approvals that cannot be read count as none
            return None
        return None if not self.client_approves and (not asker or asker in CLIENTS) else asker

    def _spend(self, keys: list[str], step: str) -> bool:
        """Use up approvals that are for one request; return whether all were there: another process may be faster."""
        try:
            return self.approvals.spend(keys, now=self._now(), step=step, spent_until=self._step_end() if step else "")
        except ByleaveError:
            return False

    def _step_end(self) -> str:
        """Return until when the other event of a call must have come."""
        return later(self._now(), _STEP_SECONDS)

    def _key(self, resolved: ResolvedAction, who: Who, pin: str | None) -> str:
        root = self.policy.root.path
        return action_key(resolved, root=root, door=self._door, who=who, session=self.session, pin=pin)

    def _remember(self, question: Question, reply: Reply, step: str) -> tuple[str, ...]:
        """Keep a reply that is for more than once; a yes that cannot be kept holds once, and a warning says so.

        A yes for once is kept for the other event of the same call, where there is one.
        """
        if reply.choice == NEVER:
            self._refusals.add(question.key)
        try:
            if reply.kept:
                self.policy.expire()
            elif reply.choice == FOR_GOOD and self._lasting is not None and question.rule is not None:
                self._lasting.keep(question.rule)
                self.policy.expire()
            elif reply.choice in (FOR_GOOD, FOR_SESSION):
                self._keep(question, APPROVED, reply.by)
            elif reply.choice == ONCE and step:
                self._keep(question, APPROVED, reply.by, step=step)
        except ByleaveError as error:
            return (f"your answer holds this once; it could not be kept: {error}",)
        return ()

    def _keep(
        self,
        question: Question,
        status: str,
        asker: str = "",
        *,
        given: Mapping[str, Any] | None = None,
        step: str = "",
    ) -> None:
        subject = self._subject(question)
        self.approvals.remember(
            question.key,
            kind="call" if question.facts["kind"] == "call" else "action",
            subject=subject if len(subject) <= LONGEST_SUBJECT else f"{subject[:LONGEST_SUBJECT]}... (cut)",
            session=self.session,
            status=status,
            now=self._now(),
            by=asker,
            asked=self._asked(question, given) if status == PENDING else None,
            spent=step,
            spent_until=self._step_end() if step else "",
        )

    def _asked(self, question: Question, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what is shown of a question that waits among the approvals, masked as its subject is."""
        resolved, who = question.resolved, question.who
        action = action_tree(resolved.action)
        masked = self._mask.values_tree(action)
        return {
            "action": masked,
            "exact": masked == action,
            "verdict": self._mask.values_tree(shared_tree(resolved.verdict, self.policy.root.path)),
            "agent": who.agent,
            "identity": who.identity,
            "door": self._door,
            "leads_to": [str(place) for place in question.leads_to],
            **({} if given is None else {"input": self._mask.values_tree(dict(given))}),
        }

    def _subject(self, question: Question) -> str:
        """Return one line with all that a yes covers; only values that the policy protects are masked in it.

        What merely looks like a secret stays: an agent could use that to hide what is to be approved.
        """
        who = question.who
        unproven = who.identity if who.agent and who.identity != "verified" else ""
        facts = {**question.facts, "agent": who.agent or "", "identity": unproven, "door": self._door}
        named = [f"{key}={quoted(self._mask.values(value))}" for key, value in facts.items() if value and key != "kind"]
        return f"{facts['kind']} {' '.join(named)}"

    # Records

    def masked(self, tree: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of an action as a record has them, without its arguments."""
        masked: Mapping[str, Any] = self._mask.tree({name: tree[name] for name in tree if name != "arguments"})
        return masked

    def record_refusal(self, refused: Mapping[str, Any], agent: str | None = None) -> None:
        """Record that requests were refused before the policy saw them: why, whose, how many."""
        self._recorder.refusal(refused, agent)

    def record_effect(self, evaluation: Evaluation, took: float, outcome: str, *, staged: bool = False) -> None:
        """Record what was done. Where that fails, a warning says so: the effect cannot be taken back.

        With `staged`, the record is written with others, at the latest in some milliseconds.
        """
        self._recorder.effect(evaluation, took, outcome, staged=staged)

    def record_outcomes(self, outcomes: Outcomes) -> None:
        """Record the outcomes that `perform` has put into a list, in one write, and take them from it."""
        if outcomes:
            self._recorder.outcomes(outcomes)


def _refusal(request: ActionRequest, verdict: Verdict) -> Decided:
    if verdict.decision is ALLOW:
        raise ValueError("an integration can only refuse: what is allowed, the policy or a person allows")
    return Decided(request, [ResolvedAction(_parsed(each), (), verdict) for each in request.actions], monotonic())


def _is_for_later(pending: Pending, reply: Reply, done: Evaluation) -> bool:
    """Whether a reply may count for more than this request."""
    return not pending.request.unclear and (done.allowed or reply.choice == NEVER)


def _observed(pending: Pending, reply: Reply, done: Evaluation) -> Evaluation:
    """Return what a reply makes of a request that is only observed, and is recorded as it would have been."""
    if not done.recorded or reply.choice in _LEFT_OPEN:
        return done.replace(permits=())
    if not reply.is_yes:
        return done.replace(verdict=refused(done.verdict, reply), permits=())
    said = [approved(question.resolved, reply.by) for question in pending.questions]
    permits = tuple([Permit(each.action, each.places, each.verdict) for each in said])
    return done.replace(verdict=strictest([each.verdict for each in said]), permits=permits)


def _parsed(action: Any) -> Any:
    """Return an action as a record, also where it comes as its JSON object."""
    return parse_action(action) if isinstance(action, dict) else action


def _says_only_a_name(action: Action) -> bool:
    """Whether an action holds nothing but a name, so that a yes is for what has that name now."""
    return isinstance(action, OtherAction) or (isinstance(action, CallAction) and action.server == LOCAL)


def _on_behalf(action: Action | Mapping[str, Any], who: Who) -> Any:
    """Return the action with the agent that is known: what a request says about itself does not count."""
    if isinstance(action, Record):
        return action if getattr(action, "agent", None) == who.agent else action.replace(agent=who.agent)
    return {**action, "agent": who.agent} if hasattr(action, "keys") else action
