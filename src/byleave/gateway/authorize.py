"""Whether a request may go on to its server: judged, and put to a person where the policy wants that.

The person at the client is asked by a form, or, where the client shows none, finds the call in `byleave approvals`. A
stateless client gets the form as the result, and calls again with the answer: `parking`. What was allowed is done in
`errands`.

Start at `Calling.call`, for tools, and `Calling.use`, for everything else that belongs to a server.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.core.action import LOCAL, CallAction
from byleave.core.decision import ALLOW, ASK, DENY
from byleave.core.input_schema import InputSchema
from byleave.gateway.continuations import Continuation
from byleave.gateway.elicitation import ASKER, KEY, can_be_asked, question_params, reply_in
from byleave.gateway.forward import (
    CALL,
    CHANGED,
    ForwardedCall,
    ForwardedRequest,
    Forwarder,
    agents_tree,
    changed,
    passed,
    unfitting,
)
from byleave.gateway.interfaces import DownError
from byleave.gateway.message import decoded, members_of
from byleave.gateway.revisions import SERVER_DOWN
from byleave.guard.asking import CANCELLED, ELSEWHERE, NO, SILENCE, YESES, ActionRequest, Evaluation, Pending, Reply
from byleave.protocol.jsonrpc import ACCESS_DENIED, INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from msgspec import Raw

    from byleave.core.decision import Verdict
    from byleave.gateway.client_request import ClientRequest
    from byleave.gateway.message import Members
    from byleave.gateway.session import Session

LISTEN = "subscriptions/listen"
PROMPTS = "prompts"
_PENDING = "it waits in `byleave approvals list`; once it is approved there, the same call goes through"
VERDICT_KEY = "byleave/verdict"
_UNPLACED = "it is too long to be shown to anybody, so nobody can approve it"


class CallAuthorizer:
    """What one session wants of servers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._errands = Forwarder(session, self._refuse_by_now)

    async def call(self, exchange: ClientRequest, server: str, tool: str, params: Members) -> None:
        """Answer one call of a tool."""
        arguments = decoded(params["arguments"]) if "arguments" in params else None
        if not isinstance(arguments, dict) and not _is_absent(params.get("arguments")):
            await exchange.error(INVALID_PARAMS, "the arguments of a tool are an object")
            return
        sent: dict[str, Any] = {"name": tool}
        if arguments is not None:
            sent["arguments"] = arguments  # as it was judged, and may have been shown; not as it was written
        pin = await self._session.local_pin(exchange, tool) if server == LOCAL else None
        errand = ForwardedCall(CALL, server, sent, params, exchange.who, tool, arguments, pin)
        await self._judge(exchange, errand, lambda: self._begin_call(exchange, errand))

    async def use(self, exchange: ClientRequest, server: str, kind: str, name: str, sent: Mapping[str, Any]) -> bool:
        """Answer a request about a resource or a prompt; return whether it may be used, and was."""
        errand = ForwardedCall(exchange.method, server, sent, exchange.params, exchange.who, used=(kind, name))
        action = _use_action(exchange, server, kind, name)

        async def begin() -> Evaluation | Pending:
            refused = await self._hidden_prompt(exchange, action, name) if kind == PROMPTS else None
            return self._begin_use(exchange, action, kind, name) if refused is None else refused

        return await self._judge(exchange, errand, begin)

    def allows(self, exchange: ClientRequest, server: str, kind: str, name: str) -> bool:
        """Whether a resource or a prompt may be used without a question, recorded; what asks waits for an approval."""
        verdicts = self._begin_use(exchange, _use_action(exchange, server, kind, name), kind, name)
        if isinstance(verdicts, Pending):
            verdicts = self._put_aside(verdicts)
        return verdicts.allowed

    async def _hidden_prompt(self, exchange: ClientRequest, action: CallAction, name: str) -> Evaluation | None:
        """Return the refusal of a prompt whose definition is not approved, recorded; None if it may be judged."""
        guard = self._session.guard
        if guard.policy.judge_use(exchange.who.agent, action.server, PROMPTS, name).decision is DENY:
            return None
        try:
            hidden = await self._session.offers.hides(PROMPTS, action.server, name)
        except DownError:  # which is said when it is asked
            return None
        if hidden is None:
            return None
        verdict = changed(action.replace(tool=name), hidden.why, "the prompt ")
        return self._session.guard.refuse(ActionRequest((action,), exchange.who), verdict)

    def _begin_use(self, exchange: ClientRequest, action: CallAction, kind: str, name: str) -> Evaluation | Pending:
        denied = self._denied_use(exchange, action, kind, name)
        return self._session.guard.authorize(ActionRequest((action,), exchange.who)) if denied is None else denied

    def _denied_use(self, exchange: ClientRequest, action: CallAction, kind: str, name: str) -> Evaluation | None:
        """Return that a resource or a prompt is denied, recorded; None if it is not."""
        guard = self._session.guard
        verdict = guard.policy.judge_use(exchange.who.agent, action.server, kind, name)
        if verdict.decision is not DENY:
            return None
        return self._session.guard.refuse(ActionRequest((action,), exchange.who), verdict)

    async def _begin_call(self, exchange: ClientRequest, errand: ForwardedCall) -> Evaluation | Pending:
        """Judge a call of a tool with what the tool's schema makes of its arguments."""
        action = await self._call_action(exchange, errand)
        refused = self._unusable(exchange, action)
        if refused is not None:
            return refused
        return self._session.guard.authorize(ActionRequest((action,), exchange.who, pin=errand.pin))

    async def _call_action(self, exchange: ClientRequest, errand: ForwardedCall) -> CallAction:
        """Return a call as an action, with the tool's schema; without, where the server cannot say it.

        A server is not started for the sake of a call that is denied whatever its arguments are.
        """
        server, tool, agent = errand.server, errand.tool, exchange.who.agent
        action = CallAction(server, tool, errand.arguments, agent)
        if not self._session.guard.policy.could_call(agent, server, tool):
            return action
        try:
            offer = await self._session.offers.tool(server, tool)
        except DownError:
            return action
        return action if offer is None else action.replace(schema=offer.tree.get("inputSchema"))

    def _unusable(self, exchange: ClientRequest, action: CallAction) -> Evaluation | None:
        """Return the refusal of a call that cannot go out as it is, recorded; None if it can, or is denied anyway."""
        guard = self._session.guard
        verdict = None
        if action.schema is not None:
            problem = InputSchema(action.schema).problem(action.arguments)
            verdict = None if problem is None else unfitting(action, problem)
        elif why := self._session.offers.why_hidden(action.server, action.tool or ""):
            verdict = changed(action, why)
        if verdict is None or guard.policy.decide(action).decision is DENY:
            return None
        return self._session.guard.refuse(ActionRequest((action,), exchange.who), verdict)

    async def _judge(
        self,
        exchange: ClientRequest,
        errand: ForwardedCall,
        begin: Callable[[], Awaitable[Evaluation | Pending]],
    ) -> bool:
        """Do what the policy, or a person, allows; return whether it was done."""
        parked = None
        answers = exchange.params.get("inputResponses")
        if exchange.envelope is not None and answers is not None and not isinstance(decoded(answers), dict):
            await exchange.error(INVALID_PARAMS, "inputResponses are an object")
            return False
        if exchange.envelope is not None and "requestState" in exchange.params:
            parked = self._session.parking.take(exchange, errand.print)
            if parked is None:
                await exchange.error(INVALID_PARAMS, "this state belongs to no call that waits, or to another one")
                return False
            if parked.allowed is not None:
                if await self._refuse_by_now(exchange, errand):
                    self._session.parking.give_up(parked, self._session.guard)
                    return False
                work = structs.replace(self._work(exchange, errand, parked.allowed), rounds=parked.rounds)
                return await self._errands.resume(work, parked)
        else:
            busy = self._session.too_busy(exchange.who)
            if busy is not None:
                self._session.metrics.called(errand.server, exchange.who.agent, "allow", "limited")
                await exchange.error(SERVER_DOWN, *busy)
                return False
        verdicts = await self._verdicts(exchange, errand, begin, parked)
        if verdicts is None:  # the client was asked, and calls again
            return False
        if verdicts.allowed and errand.used is not None:  # somebody may have taken their time to agree
            action = _use_action(exchange, errand.server, *errand.used)
            verdicts = self._denied_use(exchange, action, *errand.used) or verdicts
        if not verdicts.allowed:
            await self._refuse(exchange, errand, verdicts.verdict)
            return False
        return await self._errands.do(self._work(exchange, errand, verdicts))

    def _work(self, exchange: ClientRequest, errand: ForwardedCall, allowed: Evaluation) -> ForwardedRequest:
        """Return allowed work; where the policy alone would not have allowed it, a person has."""
        permit = allowed.permit
        asked = ("_meta" in errand.params or "inputResponses" in errand.params) and (
            permit is None or self._session.guard.policy.decide(permit.action).decision is not ALLOW
        )
        return ForwardedRequest(exchange, errand, allowed, asked)

    async def _refuse_by_now(self, exchange: ClientRequest, errand: ForwardedCall, *, asks: bool = False) -> bool:
        """Refuse what has come to be denied since it was allowed, with `asks` also what asks; return whether it was."""
        denied = await self._denied_by_now(exchange, errand, asks=asks)
        if denied is not None:
            await self._refuse(exchange, errand, denied.verdict)
        return denied is not None

    async def _denied_by_now(self, exchange: ClientRequest, errand: ForwardedCall, *, asks: bool) -> Evaluation | None:
        """Return that what waited is denied by now, recorded; None if it is not."""
        if errand.used is not None:
            return self._denied_use(exchange, _use_action(exchange, errand.server, *errand.used), *errand.used)
        action = await self._call_action(exchange, errand)
        unusable = self._unusable(exchange, action)
        if unusable is not None:
            return unusable
        verdict = self._session.guard.evaluate(action, exchange.who)[0].verdict
        if verdict.decision is ALLOW or (verdict.decision is ASK and not asks):
            return None
        return self._session.guard.refuse(ActionRequest((action,), exchange.who), verdict)

    async def _verdicts(
        self,
        exchange: ClientRequest,
        errand: ForwardedCall,
        begin: Callable[[], Awaitable[Evaluation | Pending]],
        parked: Continuation | None,
    ) -> Evaluation | None:
        if parked is not None and parked.matter is not None:
            answers = members_of(exchange.params.get("inputResponses"))
            return self._answered(parked.matter, reply_in(decoded(answers[KEY])) if KEY in answers else NO)
        begun = await begin()
        return await self._ask(exchange, errand.print, begun) if isinstance(begun, Pending) else begun

    async def _ask(self, exchange: ClientRequest, print_: str, matter: Pending) -> Evaluation | None:
        """Ask the person at the client; None if that has to be the answer for now, and the client calls again."""
        guard, capabilities = self._session.guard, self._session.capabilities_of(exchange)
        has_modes = exchange.envelope is not None or self._session.has_modes
        params = question_params(matter.questions[0], modes=has_modes)
        if params is None or not self._session.asks_client or not can_be_asked(capabilities):
            return self._put_aside(matter)
        if exchange.envelope is not None:
            form = {KEY: {"method": "elicitation/create", "params": params}}
            await self._session.need_input(exchange, form, Continuation(print_, matter=matter))
            return None
        try:
            async with asyncio.timeout(self._session.settings.ask_timeout):
                said = await self._session.questions.put(exchange.sink, "elicitation/create", params)
            if said is None or said.answer is None:  # it takes no question now, or shows no forms after all
                return self._put_aside(matter)
            reply = reply_in(decoded(said.answer))
        except TimeoutError:
            reply = SILENCE
        except BaseException:
            guard.complete(matter, Reply(CANCELLED, ASKER))
            raise
        return self._answered(matter, reply)

    def _answered(self, matter: Pending, reply: str) -> Evaluation:
        """Take what the client says; its yes is none where it may not answer any more."""
        if reply in YESES and not self._session.asks_client:
            return self._put_aside(matter)
        return self._session.guard.complete(matter, Reply(reply, ASKER))

    def _put_aside(self, matter: Pending) -> Evaluation:
        """Leave a matter to `byleave approvals`."""
        guard = self._session.guard
        placed = guard.await_approval(matter.questions[0])
        return _with_hint(guard.complete(matter, Reply(ELSEWHERE, "approvals")), _PENDING if placed else _UNPLACED)

    async def _refuse(self, exchange: ClientRequest, errand: ForwardedCall, verdict: Verdict) -> None:
        """Answer what is not done: a call of a tool by a result with the verdict in it, the rest by an error.

        A client may check what is structured against the tool's output schema, and throw away what does not fit.
        """
        self._session.metrics.called(errand.server, exchange.who.agent, verdict.decision.word, "refused")
        tree = agents_tree(verdict, self._session.guard.policy.root.path)
        if exchange.method == CALL and verdict.code != CHANGED:
            content = [{"type": "text", "text": verdict.reason}]
            result: dict[str, Any] = {"content": content, "isError": True, "_meta": {VERDICT_KEY: tree}}
            if not self._session.gateway.has_output_schema(errand.server, errand.tool):
                result["structuredContent"] = tree
            await exchange.result(result)
        elif exchange.method == CALL:  # to the client a tool that is hidden is not there
            await exchange.error(INVALID_PARAMS, verdict.reason, tree)
        else:
            await exchange.error(ACCESS_DENIED, verdict.reason, tree)


def _use_action(exchange: ClientRequest, server: str, kind: str, name: str) -> CallAction:
    """Return the use of a resource or a prompt as an action, with all that goes out: a yes is for that."""
    sent = passed(exchange.method, exchange.params) if exchange.method != LISTEN else {}
    told = {key: decoded(value) for key, value in sent.items() if key not in ("name", "uri")}
    return CallAction(server, None, {**told, kind: name, "method": exchange.method}, exchange.who.agent)


def _is_absent(raw: Raw | None) -> bool:
    return raw is None or bytes(raw) == b"null"


def _with_hint(verdicts: Evaluation, hint: str) -> Evaluation:
    """Return verdicts that also say what can be done about it."""
    verdict = verdicts.verdict.replace(reason=f"{verdicts.verdict.reason}; {hint}")
    return verdicts.replace(verdict=verdict)
