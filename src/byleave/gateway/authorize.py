"""Decide whether a request may go on to its server, and ask a person where the policy needs an approval.

`Authorizer.authorize` takes the parsed call and returns a value: `Allowed`, `Refused` with a verdict, or `NeedsAnswer`
with the form that a stateless client gets as its result. A client with a session is asked while its request is open;
where the client shows no forms, the call waits in `byleave approvals`. Each decision is recorded by the guard before it
is returned. Nothing is answered here: what is allowed goes on in `forward`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import CallAction
from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, RuleRef, Verdict
from byleave.core.input_schema import InputSchema
from byleave.errors import ByleaveError
from byleave.gateway.client_questions import ASKER, ELICIT, KEY, approval_form, approval_in, can_be_asked
from byleave.gateway.interfaces import DownError
from byleave.gateway.message import encode
from byleave.guard.evaluation import CANCELLED, ELSEWHERE, NO, SILENCE, YESES, ActionRequest, Evaluation, Pending, Reply
from byleave.text import shown
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.gateway.catalog import Catalog
    from byleave.gateway.client_questions import ClientQuestions
    from byleave.gateway.context import GatewayContext
    from byleave.gateway.message import ClientParams
    from byleave.gateway.requests import Client, ClientRequest
    from byleave.guard.evaluation import Who

DENIED_BY_NOW = "failed: it is denied by now"  # the outcome of what was allowed first
CHANGED, UNFITTING, FEW_SCOPES = "changed_tool", "bad_arguments", "insufficient_scope"
CALL, LISTEN, SUBSCRIBE = "tools/call", "subscriptions/listen", "resources/subscribe"
TRACES = frozenset({"traceparent", "tracestate", "baggage"})  # members of `_meta` that no person need be shown
_PROMPTS = "prompts"
_WAITS = "it waits in `byleave approvals list`; once it is approved there, the same call goes through"
_NO_PLACE = "it cannot be kept for `byleave approvals` now; try again later"
_TOO_LONG = "it is too long to be shown in full, so it cannot be approved"
LONGEST_HOLD = 45.0  # seconds: clients give a call up after 60, and must get the answer before
_LONGEST_NAME = 100  # letters of a name that a server or a client chose
_PARAMS: Mapping[str, tuple[str, ...]] = {
    LISTEN: (),
    "prompts/get": ("name", "arguments"),
    "resources/read": ("uri",),
    SUBSCRIBE: ("uri",),
    "completion/complete": ("ref", "argument", "context"),
}


class ServerCall(Struct, frozen=True):
    """A request for one server: what is sent, and what of it the policy evaluates."""

    method: str
    server: str
    sent: Mapping[str, Any]
    params: ClientParams
    who: Who
    tool: str = ""
    arguments: Any = None
    pin: str | None = None  # of a local tool: the hash of what it is, so that an approval is for that
    used: tuple[str, str] | None = None  # a resource or a prompt: its kind and name
    scopes: frozenset[str] | None = None  # of the caller's token; None where it needs none

    @property
    def fingerprint(self) -> str:
        """A hash of the caller and of all that is sent."""
        sent = {key: self.sent[key] for key in sorted(self.sent)}
        return digest(encode([self.who.agent, self.who.identity, self.method, self.server, self.pin]) + encode(sent))

    @property
    def action(self) -> CallAction:
        """The call as the policy knows it; for a resource or a prompt with all that goes out: a yes is for that."""
        if self.used is None:
            return CallAction(self.server, self.tool, self.arguments, self.who.agent)
        kind, name = self.used
        tree = self.params.tree
        arguments = {key: tree[key] for key in _PARAMS[self.method] if key in tree and key not in ("name", "uri")}
        return CallAction(self.server, None, {**arguments, kind: name, "method": self.method}, self.who.agent)


class Allowed(Struct, frozen=True):
    """The call may go on. `by_person`: a person allowed it, not the policy alone, so nothing unshown goes along."""

    evaluation: Evaluation
    by_person: bool = False


class Refused(Struct, frozen=True):
    """The call does not go on; the verdict is recorded."""

    verdict: Verdict


class NeedsAnswer(Struct, frozen=True):
    """A person has to approve the call, and the client is stateless: it gets the form, and calls again."""

    pending: Pending
    form: Mapping[str, Any]


class Authorizer:
    """Evaluates the calls of one session."""

    def __init__(self, context: GatewayContext, client: Client, catalog: Catalog, questions: ClientQuestions) -> None:
        self._context = context
        self._guard = context.guard
        self._client = client
        self._catalog = catalog
        self._questions = questions

    async def authorize(self, request: ClientRequest, call: ServerCall) -> Allowed | Refused | NeedsAnswer:
        """Decide about a call; where the policy needs an approval, ask the person at the client."""
        if self.lacking(call):
            return await self._refused_for_scopes(call, call.action if call.used else await self._with_schema(call))
        begun = await self._begin_call(call) if call.used is None else await self._begin_use(call)
        answered: Any = begun
        if isinstance(begun, Pending):
            asking, trace = self._ask(request, begun), request.trace
            answered = await (asking if trace is None else trace.asked(asking))
        return await self._decided(call, answered) if isinstance(answered, Evaluation) else answered

    async def complete(self, call: ServerCall, pending: Pending) -> Allowed | Refused:
        """Decide about a call that a stateless client brings back with a person's reply."""
        if self.lacking(call):  # it may have come back with another token
            self._guard.withdraw(pending, Reply(CANCELLED, ASKER))
            return await self._refused_for_scopes(call, call.action)
        answers = call.params.tree.get("inputResponses", {})
        reply = approval_in(answers[KEY]) if KEY in answers else NO
        return await self._decided(call, await self._answered(pending, reply))

    async def allows_use(self, call: ServerCall) -> bool:
        """Whether a resource may be listened to without a question; what needs an approval waits for it elsewhere."""
        if self.lacking(call):
            await self._refused_for_scopes(call, call.action)
            return False
        begun = await self._denied_use(call) or await self._guard.authorize_async(
            ActionRequest((call.action,), call.who)
        )
        if isinstance(begun, Pending):
            begun = await self._left_to_approvals(begun)
        return isinstance(begun, Evaluation) and begun.allowed

    async def recheck(self, call: ServerCall, *, asks: bool = False) -> Refused | None:
        """Return that a call that waited is denied by now; with `asks`, also where it needs an approval by now."""
        if self.lacking(call):
            return await self._refused_for_scopes(call, call.action)
        action = call.action if call.used else await self._with_schema(call)
        denied = await (self._denied_use(call) if call.used else self._unusable(call, action))
        if denied is not None:
            return denied
        verdict = self._guard.evaluate(action, call.who)[0].verdict
        if verdict.decision is ALLOW or (verdict.decision is ASK and not asks):
            return None
        return await self._refused(call, action, verdict)

    def lacking(self, call: ServerCall) -> tuple[str, ...]:
        """Return all scopes that a call needs, if the caller's token lacks one of them; none if it may go on."""
        if call.scopes is None:
            return ()
        needed = self._context.settings.scopes_for(call.server, call.tool if call.used is None else None)
        return () if call.scopes.issuperset(needed) else needed

    def allowed(self, call: ServerCall, evaluation: Evaluation) -> Allowed:
        """Return an evaluation as an allowed call; whether it took a person matters only for what none was shown."""
        permit = evaluation.permit
        by_person = sends_unshown(call.params) and (
            permit is None or self._guard.policy.decide(permit.action).decision is not ALLOW
        )
        return Allowed(evaluation, by_person)

    async def _decided(self, call: ServerCall, answered: Evaluation | Refused) -> Allowed | Refused:
        if isinstance(answered, Refused):
            return answered
        if not answered.allowed:
            return Refused(answered.verdict)
        denied = None if call.used is None else await self._denied_use(call)  # the person may have taken a while
        return self.allowed(call, answered) if denied is None else denied

    # ---- What the policy says --------------------------------------------------------------------------------------

    async def _begin_call(self, call: ServerCall) -> Evaluation | Pending | Refused:
        """Evaluate a call of a tool with what the tool's schema makes of its arguments."""
        action = await self._with_schema(call)
        unusable = await self._unusable(call, action)
        return unusable or await self._evaluated(call, ActionRequest((action,), call.who, pin=call.pin))

    async def _begin_use(self, call: ServerCall) -> Evaluation | Pending | Refused:
        """Evaluate the use of a resource or a prompt."""
        denied = await self._denied_use(call) or await self._hidden_prompt(call)
        return denied or await self._evaluated(call, ActionRequest((call.action,), call.who))

    async def _evaluated(self, call: ServerCall, request: ActionRequest) -> Evaluation | Pending | Refused:
        """Have the guard decide and record; where the policy changes before the record is kept, it decides again."""
        policy = self._guard.policy
        before = policy.compiled
        begun = await self._guard.authorize_async(request)
        if policy.compiled is before or isinstance(begun, Pending) or not begun.allowed:
            return begun
        outcome = "failed: it did not begin"  # the client is gone, or the policy cannot be read by now
        try:
            denied = await self.recheck(call, asks=is_by_policy(begun))
            outcome = "" if denied is None else DENIED_BY_NOW
        finally:
            if outcome:
                self._guard.record_effect(begun, 0.0, outcome, staged=True)
        return denied or begun

    async def _denied_use(self, call: ServerCall) -> Refused | None:
        """Return that a resource or a prompt is denied; None if it is not."""
        kind, name = call.used or ("", "")
        verdict = self._guard.policy.decide_use(call.who.agent, call.server, kind, name)
        return await self._refused(call, call.action, verdict) if verdict.decision is DENY else None

    async def _hidden_prompt(self, call: ServerCall) -> Refused | None:
        """Return the refusal of a prompt whose definition is not approved; None if it may be evaluated."""
        kind, name = call.used or ("", "")
        if kind != _PROMPTS:
            return None
        try:
            hidden = await self._catalog.hides(_PROMPTS, call.server, name)
        except DownError:  # the error comes when the server is asked
            return None
        if hidden is None:
            return None
        verdict = changed(call.action.replace(tool=name), hidden.why, "the prompt ")
        return await self._refused(call, call.action, verdict)

    async def _with_schema(self, call: ServerCall) -> CallAction:
        """Return a call as an action, with the tool's schema; without, where the server cannot say it.

        A server is not started for the sake of a call that is denied whatever its arguments are.
        """
        action, offer = call.action, self._catalog.tool_at_hand(call.server, call.tool)
        if offer is None:
            if not self._guard.policy.could_call(call.who.agent, call.server, call.tool):
                return action
            try:
                offer = await self._catalog.tool(call.server, call.tool)
            except DownError:
                return action
        return action if offer is None else action.replace(schema=offer.tree.get("inputSchema"))

    async def _unusable(self, call: ServerCall, action: CallAction) -> Refused | None:
        """Return the refusal of a call that cannot go out as it is; None if it can, or the policy denies it anyway."""
        verdict = None
        if action.schema is not None:
            problem = InputSchema(action.schema).problem(action.arguments)
            verdict = None if problem is None else unfitting(action, problem)
        elif why := self._catalog.why_hidden(action.server, action.tool or ""):
            verdict = changed(action, why)
        if verdict is None or self._guard.policy.decide(action).decision is DENY:
            return None
        return await self._refused(call, action, verdict)

    async def _refused_for_scopes(self, call: ServerCall, action: CallAction) -> Refused:
        """Return the refusal of a call whose token lacks a scope; what the policy denies, no scope would allow."""
        denied = None if call.used is None else await self._denied_use(call)
        if denied is not None:
            return denied
        verdict = self._guard.evaluate(action, call.who)[0].verdict
        needed = self.lacking(call)
        return await self._refused(call, action, verdict if verdict.decision is DENY else few_scopes(action, needed))

    async def _refused(self, call: ServerCall, action: CallAction, verdict: Verdict) -> Refused:
        return Refused((await self._guard.refuse_async(ActionRequest((action,), call.who), verdict)).verdict)

    # ---- What a person says ----------------------------------------------------------------------------------------

    async def _ask(self, request: ClientRequest, pending: Pending) -> Evaluation | NeedsAnswer:
        """Ask the person at the client; a stateless client is asked by its result."""
        has_modes = request.envelope is not None or self._client.has_modes
        form = approval_form(pending.questions[0], modes=has_modes)
        if form is None or not self._context.asks_client or not can_be_asked(self._client.capabilities_of(request)):
            return await self._answered_elsewhere(pending)
        if request.envelope is not None:
            return NeedsAnswer(pending, form)
        try:
            said = await self._questions.put(request.sink, ELICIT, form, self._context.settings.ask_timeout)
            # None: it takes no question now, or shows no forms after all
            reply = None if said is None or said.answer is None else approval_in(said.answer_tree)
        except TimeoutError:
            reply = SILENCE
        except BaseException:
            self._guard.withdraw(pending, Reply(CANCELLED, ASKER))
            raise
        return await (self._answered_elsewhere(pending) if reply is None else self._answered(pending, reply))

    async def _answered(self, pending: Pending, reply: str) -> Evaluation:
        """Take the client's reply; its yes counts only while the client may approve."""
        if reply in YESES and not self._context.asks_client:
            return await self._left_to_approvals(pending)
        return await self._guard.complete_async(pending, Reply(reply, ASKER))

    async def _answered_elsewhere(self, pending: Pending) -> Evaluation:
        """Wait for an answer from an open dashboard; where none comes, leave the call to `byleave approvals`.

        When the client cancels the call, the question is withdrawn: it cannot be answered any more.
        """
        try:
            reply = await self._guard.hold_async(pending, LONGEST_HOLD)
        except BaseException:
            self._guard.withdraw(pending, Reply(CANCELLED, ASKER))
            raise
        return await (self._left_to_approvals(pending) if reply is None else self._guard.complete_async(pending, reply))

    async def _left_to_approvals(self, pending: Pending) -> Evaluation:
        """Leave a call to `byleave approvals`, and say so in its verdict."""
        try:
            how = _WAITS if await self._guard.await_approval_async(pending.questions[0]) else _TOO_LONG
        except ByleaveError:
            how = _NO_PLACE
        except BaseException:
            self._guard.withdraw(pending, Reply(CANCELLED, ASKER))
            raise
        done = await self._guard.complete_async(pending, Reply(ELSEWHERE, "approvals"))
        reason = f"{done.verdict.reason}; {how}"
        return done.replace(verdict=done.verdict.replace(reason=reason))


def is_by_policy(evaluation: Evaluation) -> bool:
    """Whether the policy alone has allowed it, so that it needs a yes as soon as the policy wants one."""
    return evaluation.verdict.because[0].source != "approval"


def passed_params(method: str, params: ClientParams) -> dict[str, Any]:
    """Return parameters as a server gets them: those that the method has, and nothing that no person was shown."""
    written = params.written
    return {key: written[key] for key in _PARAMS[method] if key in written}


def sends_unshown(params: ClientParams) -> bool:
    """Whether a request has more for the server than what a person is shown: answers, or members of `_meta`."""
    return "inputResponses" in params.tree or not TRACES.issuperset(passed_meta(params))


def passed_meta(params: ClientParams) -> list[str]:
    """Return the names of what goes to the server of a request's `_meta`."""
    return [key for key in params.meta if key != "progressToken" and not key.startswith("io.modelcontextprotocol/")]


def tool_name(server: str, tool: str | None) -> str:
    """Return how a tool is named to people and models."""
    return f"{shown(server[:_LONGEST_NAME])}/{shown((tool or '')[:_LONGEST_NAME])}"


def unfitting(action: CallAction, problem: str) -> Verdict:
    """Return the refusal of arguments that are not what the tool says that it takes."""
    ref = RuleRef("arguments fit the tool's input schema", BUILT_IN, DENY)
    reason = f"the arguments do not fit the input schema of {tool_name(action.server, action.tool)}: {problem}"
    return Verdict(DENY, reason, UNFITTING, (ref,))


def few_scopes(action: CallAction, needed: tuple[str, ...]) -> Verdict:
    """Return the refusal of a call for which the caller's token would need other scopes."""
    ref = RuleRef("[gateway.scopes]: a token holds the scopes that a call needs", BUILT_IN, DENY)
    name = tool_name(action.server, action.tool) if action.tool else f"the server {shown(action.server)}"
    return Verdict(DENY, f"{name} needs a token with these scopes: {', '.join(needed)}", FEW_SCOPES, (ref,))


def changed(action: CallAction, why: str = "has changed", what: str = "") -> Verdict:
    """Return the refusal of a tool, or `what` else, whose definition is not approved; `why` goes on from its name."""
    ref = RuleRef("a tool whose definition has changed waits for approval", BUILT_IN, DENY)
    name = f"{what}{tool_name(action.server, action.tool)}"
    reason = f"the definition of {name} {why}; it needs approval: see `byleave approvals list`"
    return Verdict(DENY, reason, CHANGED, (ref,))
