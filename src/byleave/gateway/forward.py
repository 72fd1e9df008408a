"""What was allowed is done: passed on to its server, or run here, and its answer brought back to the client.

In the middle of it a server may want something of the client. One with a session is asked while the request is open; a
stateless one gets the wish as the result, and the errand is parked until it calls again. The same holds the other way
round for a server that speaks the stateless revision.

Start at `Errands.do`.

Verdicts of the gateway's own on calls that the policy would let out, but that cannot go out as they are. Pure.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Raw, Struct, structs

from byleave.core.action import LOCAL, CallAction
from byleave.core.decision import BUILT_IN, DENY, RuleRef, Verdict, shared_tree
from byleave.gateway.continuations import Continuation
from byleave.gateway.elicitation import ASKER, KEY, can_be_asked, question_params, reply_in
from byleave.gateway.interfaces import HINT, DownError, LateError
from byleave.gateway.local_format import answer_in, question_form, result_tree
from byleave.gateway.message import decoded, encode, error_tree, members_of, notification, text_of
from byleave.gateway.revisions import HEADER_MISMATCH, SERVER_DOWN, STATELESS, param_headers, wrong_param_header
from byleave.gateway.server_questions import labelled, refusal
from byleave.gateway.server_requests import ServerNotification, ServerQuestion
from byleave.guard.asking import NO, NOBODY, SILENCE
from byleave.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from byleave.text import quoted, shown
from byleave.toolhost.outcome import NeedsInput
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from typing import Any

    from byleave.gateway.client_request import ClientRequest
    from byleave.gateway.message import Members
    from byleave.gateway.server_requests import ServerRequest
    from byleave.gateway.session import Session
    from byleave.gateway.upstream import Upstream
    from byleave.guard.asking import Evaluation, Question, Who


CHANGED, UNFITTING = "changed_tool", "bad_arguments"
_REFUSALS_WORTH_SAYING = 100  # letters of a name that somebody else chose


def named(server: str, tool: str | None) -> str:
    """Return how a tool is named to people and models."""
    return f"{shown(server[:_REFUSALS_WORTH_SAYING])}/{shown((tool or '')[:_REFUSALS_WORTH_SAYING])}"


def agents_tree(verdict: Verdict, root: str) -> dict[str, Any]:
    """Return a verdict as agents may see it: files of the workspace by their path in it, others by their name."""
    because = tuple(ref.replace(source=_place(ref.source, root)) for ref in verdict.because)
    return shared_tree(verdict.replace(because=because), root)


def _place(source: str, root: str) -> str:
    if not os.path.isabs(source):
        return source
    inside = source.removeprefix(root if root.endswith("/") else f"{root}/")
    return inside if inside != source else os.path.basename(source)


def unfitting(action: CallAction, problem: str) -> Verdict:
    """Return the refusal of arguments that are not what the tool says that it takes."""
    ref = RuleRef("arguments fit the tool's input schema", BUILT_IN, DENY)
    reason = f"the arguments do not fit the input schema of {named(action.server, action.tool)}: {problem}"
    return Verdict(DENY, reason, UNFITTING, (ref,))


def changed(action: CallAction, why: str = "has changed", what: str = "") -> Verdict:
    """Return the refusal of a tool, or `what` else, whose definition is not approved; `why` goes on from its name."""
    ref = RuleRef("a tool whose definition has changed waits for approval", BUILT_IN, DENY)
    name = f"{what}{named(action.server, action.tool)}"
    reason = f"the definition of {name} {why}, and nobody has approved it: see `byleave approvals list`"
    return Verdict(DENY, reason, CHANGED, (ref,))


DONE, REPORTED = "done", "failed: the tool reports an error"
_HOW = {DONE: "ok", REPORTED: "error"}  # in the figures; what is in neither has failed
MOST_ROUNDS = 10  # questions of one tool, in one call
CALL, SUBSCRIBE = "tools/call", "resources/subscribe"
_WORTH_SAYING = 100  # letters of a name that somebody else chose
_TAIL = 4096  # bytes at either end of a result, where servers write whether it is an error
_PARAMS = {
    "prompts/get": ("name", "arguments"),
    "resources/read": ("uri",),
    SUBSCRIBE: ("uri",),
    "completion/complete": ("ref", "argument", "context"),
}
_TRACES = frozenset({"traceparent", "tracestate", "baggage"})  # what nobody need be shown
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class ForwardedCall(Struct, frozen=True):
    """A request for one server: what it gets, and what of it was judged."""

    method: str
    server: str
    sent: Mapping[str, Any]
    params: Members  # as the client wrote them
    who: Who
    tool: str = ""
    arguments: Any = None
    pin: str | None = None  # of a local tool: what it is, so that a yes is for that
    used: tuple[str, str] | None = None  # a resource or a prompt: its kind and name

    @property
    def print(self) -> str:
        """A hash of all of it."""
        sent = {key: self.sent[key] for key in sorted(self.sent)}
        return digest(encode([self.who.agent, self.who.identity, self.method, self.server, self.pin]) + encode(sent))


class ForwardedRequest(Struct, frozen=True):
    """An errand that was allowed, and the request of the client that waits for it."""

    exchange: ClientRequest
    errand: ForwardedCall
    allowed: Evaluation
    was_asked: bool = False  # whether a person has allowed it, now or before
    rounds: int = 0  # how often the server has wanted to know more
    schema: Any = None  # of the tool's arguments, where headers may have to repeat them


class Forwarder:
    """What is done for one session. `refuse` answers what is denied by now, and returns whether it is."""

    def __init__(self, session: Session, refuse: Callable[..., Awaitable[bool]]) -> None:
        self._session = session
        self._refuse = refuse

    async def do(self, work: ForwardedRequest) -> bool:
        """Do what was allowed, and answer the client; return whether it was done."""
        return await self._finish(work, self._forward(work))

    async def resume(self, work: ForwardedRequest, parked: Continuation) -> bool:
        """Go on with what was parked, with the answers that the client has brought; return whether it was done."""
        answers = members_of(work.exchange.params.get("inputResponses"))
        return await self._finish(work, self._resumed(work, parked, answers))

    async def _finish(self, work: ForwardedRequest, doing: Coroutine[Any, Any, str]) -> bool:
        """Do it, and record what became of it; nothing yet, if it goes on later."""
        started = monotonic()
        outcome, how = "failed: nobody waits for it any more", "cancelled"
        try:
            outcome = await doing
            how = _HOW.get(outcome, "failed")
        except DownError as error:
            outcome, how = f"failed: {error.problem}", "timeout" if isinstance(error, LateError) else "down"
            self._session.gateway.note_down(error)
            await work.exchange.error(SERVER_DOWN, error.for_agents(work.errand.server), HINT)
        finally:
            if outcome:
                took = monotonic() - started
                self._session.guard.record_effect(work.allowed, took, outcome)
                self._session.metrics.called(work.errand.server, work.exchange.who.agent, "allow", how, took)
        return outcome == DONE

    async def _forward(self, work: ForwardedRequest) -> str:
        """Have it done; return what became of it, empty if that is not known yet."""
        errand, exchange = work.errand, work.exchange
        if errand.server == LOCAL:
            return await self._call_local(work, {})
        if errand.server not in self._session.servers:
            await exchange.error(INVALID_PARAMS, f"there is no server named {quoted(errand.server[:_WORTH_SAYING])}")
            return "failed: no such server"
        schema, waited = None, not self._session.is_up(errand.server)
        if errand.method == CALL:
            await self._session.stand_apart(errand.server)
            offer = await self._session.offers.tool(errand.server, errand.tool)
            if offer is None:
                await exchange.error(INVALID_PARAMS, self._unknown(errand))
                return "failed: no such tool"
            schema = offer.tree.get("inputSchema")
            if _judged_schema(work) != schema:
                by_policy = work.allowed.verdict.because[0].source != "approval"
                if await self._refuse(exchange, errand, asks=by_policy):
                    return "failed: it is denied by now"
            wrong = wrong_param_header(schema, errand.arguments, exchange.headers) if exchange.headers else ""
            if wrong:
                await exchange.error(
                    HEADER_MISMATCH,
                    f"the {wrong} header does not say what the argument of {named(errand.server, errand.tool)} says",
                )
                return "failed: a header disagrees"
        if self._session.keeps(errand.server):
            upstream = self._session.reach(errand.server)
            await upstream.ready()
            return await self._pass_on(work, upstream, schema, waited=waited)
        async with self._session.reached_once(errand.server, errand.tool or None) as upstream:
            return await self._pass_on(work, upstream, schema, waited=True)

    async def _pass_on(self, work: ForwardedRequest, upstream: Upstream, schema: Any, *, waited: bool) -> str:
        errand = work.errand
        if waited and await self._refuse(work.exchange, errand):  # a server may take a minute to start
            return "failed: it is denied by now"
        if errand.method == SUBSCRIBE:
            await upstream.subscribe(text_of(errand.params["uri"]) or "")
            await work.exchange.result(b"{}")
            return DONE
        if upstream.revision not in STATELESS:
            return await self._send(work, upstream)
        more = None if work.was_asked else known_answers(errand.params)
        return await self._send(structs.replace(work, schema=schema), upstream, more)

    def _unknown(self, errand: ForwardedCall) -> str:
        why = self._session.offers.why_hidden(errand.server, errand.tool)
        if why:
            return changed(CallAction(errand.server, errand.tool), why).reason
        return f"there is no tool {named(errand.server, errand.tool)}"

    async def _send(self, work: ForwardedRequest, upstream: Upstream, more: Mapping[str, Any] | None = None) -> str:
        params = {**work.errand.sent, **(more or {})}
        meta, progress = passed_meta(work.errand.params)
        if work.was_asked:  # a yes is for what was shown
            meta = {key: value for key, value in meta.items() if key in _TRACES}
        if meta:
            params["_meta"] = meta
        headers = tuple(param_headers(work.schema, work.errand.arguments)) if work.schema is not None else ()
        pending = await upstream.ask(work.errand.method, params, work.exchange, headers, progress=progress)
        return await self._follow(work, upstream, pending)

    async def _follow(self, work: ForwardedRequest, upstream: Upstream, pending: ServerRequest) -> str:
        said = await self._session.follow(work.exchange, upstream, pending)
        if isinstance(said, ServerQuestion):
            return await self._hand_over(work, upstream, pending, said)
        if said.error is not None:
            await self._session.give_error(work.exchange, said.error)
            return "failed: the server answered with an error"
        result = said.result or Raw(b"{}")
        if upstream.revision in STATELESS and _wants_input(result):
            return await self._wanted(work, upstream, result)
        return await self._give(work, result)

    async def _give(self, work: ForwardedRequest, result: Raw) -> str:
        """Answer with a server's result."""
        most, view = self._session.settings.max_result, memoryview(result)
        if most is not None and len(view) > most:
            what = f"the result of the server {quoted(work.errand.server)} is larger than {most} bytes"
            await work.exchange.error(SERVER_DOWN, f"{what}, which is the limit here")
            return "failed: the result is too large"
        await work.exchange.result(result)
        return REPORTED if b'"isError"' in bytes(view[-_TAIL:]) + bytes(view[:_TAIL]) and _is_error(result) else DONE

    async def _hand_over(
        self, work: ForwardedRequest, upstream: Upstream, pending: ServerRequest, asked: ServerQuestion
    ) -> str:
        """Give a stateless client the wish of a server that is in the middle of its work."""
        problem = refusal(asked.method, self._session.capabilities_for(work.exchange, upstream.name), upstream.name)
        if problem is None and not self._session.keeps(upstream.name):
            problem = error_tree(INVALID_REQUEST, "a server without state cannot wait for the answer of this client")
        if problem is not None:
            upstream.reply(asked.id, error=problem)
            return await self._follow(work, upstream, pending)
        parked = Continuation(
            work.errand.print, allowed=work.allowed, upstream=upstream, pending=pending, asked={upstream.name: asked}
        )
        wish = {"method": asked.method, "params": labelled(upstream.name, asked.method, asked.params)}
        await self._session.need_input(work.exchange, {upstream.name: wish}, parked)
        return ""

    async def _wanted(self, work: ForwardedRequest, upstream: Upstream, result: Raw) -> str:
        """Bring the wishes of a stateless server to the client, in the way that the client speaks."""
        exchange, found = work.exchange, members_of(result)
        if work.rounds >= MOST_ROUNDS:
            what = f"the server {quoted(upstream.name)} has wanted to know more"
            await exchange.error(SERVER_DOWN, f"{what} {MOST_ROUNDS} times, without an end")
            return "failed: it wanted to know more without an end"
        work = structs.replace(work, rounds=work.rounds + 1)
        wishes = {key: members_of(each) for key, each in members_of(found.get("inputRequests")).items()}
        capabilities = self._session.capabilities_for(exchange, upstream.name)
        methods = [text_of(wish.get("method")) or "" for wish in wishes.values()]
        refusals = (refusal(method, capabilities, upstream.name) for method in methods)
        problem = next((bad for bad in refusals if bad is not None), None)
        if problem is not None:
            await exchange.raw_error(problem, INVALID_REQUEST)
            return "failed: the server wanted what it may not"
        told = {
            key: {"method": method, "params": labelled(upstream.name, method, wish.get("params"))}
            for (key, wish), method in zip(wishes.items(), methods, strict=True)
        }
        state = found.get("requestState")
        if exchange.envelope is not None:
            parked = Continuation(
                work.errand.print, allowed=work.allowed, upstream=upstream, state=state, rounds=work.rounds
            )
            await self._session.need_input(exchange, told, parked)
            return ""
        return await self._ask_in_turn(work, upstream, told, state)

    async def _ask_in_turn(
        self, work: ForwardedRequest, upstream: Upstream, wishes: Mapping[str, Mapping[str, Any]], state: Raw | None
    ) -> str:
        answers: dict[str, Raw] = {}
        for key, wish in wishes.items():
            said = None
            with suppress(TimeoutError):
                async with asyncio.timeout(self._session.settings.ask_timeout):
                    said = await self._session.questions.put(work.exchange.sink, wish["method"], wish["params"])
            if said is None or said.answer is None:
                await work.exchange.error(
                    INVALID_REQUEST, f"the client did not answer what the server {quoted(upstream.name)} wants to know"
                )
                return "failed: a question was not answered"
            answers[key] = said.answer
        return await self._send(work, upstream, _with_answers(answers, state))

    async def _resumed(self, work: ForwardedRequest, parked: Continuation, answers: Members) -> str:
        if parked.question is not None:
            said = _answer_to_tool(answers.get(KEY))
            known = parked.answers if said is None else {**parked.answers, parked.question: said}
            return await self._call_local(work, known)
        upstream = parked.upstream
        if upstream is None:
            return ""
        if parked.pending is None:
            if work.errand.method == CALL:
                offer = await self._session.offers.tool(upstream.name, work.errand.tool)
                if offer is None:
                    await work.exchange.error(INVALID_PARAMS, self._unknown(work.errand))
                    return "failed: no such tool"
                work = structs.replace(work, schema=offer.tree.get("inputSchema"))
            return await self._send(work, upstream, _with_answers(answers, parked.state))
        parked.pending.exchange = work.exchange
        for key, asked in parked.asked.items():
            if key in answers:
                upstream.reply(asked.id, result=answers[key])
            else:
                upstream.reply(asked.id, error=error_tree(INVALID_REQUEST, "the client gave no answer"))
        return await self._follow(work, upstream, parked.pending)

    async def _call_local(self, work: ForwardedRequest, answers: Mapping[str, str]) -> str:
        """Run a tool of this workspace; where it asks something, ask the client, and run it again with the answer."""
        exchange, tool, arguments = work.exchange, work.errand.tool, work.errand.arguments or {}
        asker = self._asker(exchange)
        while True:
            result = await self._session.call_local(exchange, tool, arguments, answers, asker, pin=work.errand.pin)
            if not isinstance(result, NeedsInput):
                await exchange.result(result)
                return REPORTED if result.get("isError") else DONE
            if len(answers) >= MOST_ROUNDS or not can_be_asked(self._session.capabilities_of(exchange)):
                break
            form, id_ = question_form(tool, result), str(result.question["id"])
            if exchange.envelope is not None:
                parked = Continuation(work.errand.print, allowed=work.allowed, question=id_, answers=answers)
                await self._session.need_input(
                    exchange, {KEY: {"method": "elicitation/create", "params": form}}, parked
                )
                return ""
            said = await self._put(exchange, form)
            if said is None:
                break
            answers = {**answers, id_: said}
        await exchange.result(result_tree(result))
        return "failed: it has a question"

    async def _put(self, exchange: ClientRequest, form: Mapping[str, Any]) -> str | None:
        """Put a tool's question to the client of a session; None if there is no answer."""
        try:
            async with asyncio.timeout(self._session.settings.ask_timeout):
                said = await self._session.questions.put(exchange.sink, "elicitation/create", form)
        except TimeoutError:
            return None
        return None if said is None or said.answer is None else _answer_to_tool(said.answer)

    def _asker(self, exchange: ClientRequest) -> ClientAsker | None:
        """Return what asks the client about what a tool does while it runs; a stateless one cannot be asked then."""
        if exchange.envelope is not None or not self._session.asks_client:
            return None
        if not can_be_asked(self._session.capabilities_of(exchange)):
            return None
        return ClientAsker(self._session, exchange)


class ClientAsker:
    """Asks the person at the client about what a local tool wants while it runs."""

    name = ASKER

    def __init__(self, session: Session, exchange: ClientRequest) -> None:
        self._session = session
        self._exchange = exchange

    async def ask(self, question: Question, patience: float) -> str:
        """Return what the person says."""
        params = question_params(question, modes=self._session.has_modes)
        if params is None:
            return NOBODY
        try:
            async with asyncio.timeout(min(patience, self._session.settings.ask_timeout)):
                said = await self._session.questions.put(self._exchange.sink, "elicitation/create", params)
        except TimeoutError:
            return SILENCE
        reply = NOBODY if said is None else NO if said.answer is None else reply_in(decoded(said.answer))
        return reply if self._session.asks_client else NOBODY


def _judged_schema(work: ForwardedRequest) -> Any:
    """Return the schema with which a call was judged; None if it was not known then."""
    permit = work.allowed.permit
    return permit.action.schema if permit is not None and isinstance(permit.action, CallAction) else None


def _answer_to_tool(raw: Raw | None) -> str | None:
    result = None if raw is None else decoded(raw)
    if not isinstance(result, dict) or result.get("action") != "accept":
        return None
    return answer_in(result.get("content"))


def _is_error(result: Raw) -> bool:
    return bytes(members_of(result).get("isError", b"")) == b"true"


def _with_answers(answers: Mapping[str, Raw], state: Raw | None) -> dict[str, Any]:
    more: dict[str, Any] = {"inputResponses": answers}
    return more if state is None else {**more, "requestState": state}


def _wants_input(result: Raw) -> bool:
    """Whether a stateless server's result is that it needs to know more."""
    return bytes(members_of(result).get("resultType", b"")) == b'"input_required"'


def known_answers(params: Members) -> dict[str, Any] | None:
    """Return the answers that a client gives before it is asked, to questions that it knows from an earlier call."""
    return {"inputResponses": params["inputResponses"]} if "inputResponses" in params else None


def passed(method: str, params: Members) -> dict[str, Any]:
    """Return parameters as a server gets them: those that the method has, and nothing that nobody was shown."""
    return {key: params[key] for key in _PARAMS[method] if key in params}


def passed_meta(params: Members) -> tuple[dict[str, Any], bool]:
    """Return what of a request's `_meta` is the server's business, and whether the client wants to hear of progress."""
    meta = members_of(params.get("_meta"))
    kept = {
        key: value
        for key, value in meta.items()
        if key != "progressToken" and not key.startswith("io.modelcontextprotocol/")
    }
    return kept, "progressToken" in meta


def told_about(exchange: ClientRequest, told: ServerNotification, server: str) -> bytes | None:
    """Return a notification about a request as the client is told of it; None if it does not want to hear it."""
    found: dict[str, Any] = dict(members_of(told.params))
    if told.method == "notifications/progress":
        token = members_of(exchange.params.get("_meta")).get("progressToken")
        return None if token is None else notification(told.method, {**found, "progressToken": token})
    if exchange.envelope is not None and not _is_wanted(exchange.envelope.log_level, text_of(found.get("level"))):
        return None
    return notification(told.method, logged(found, server))


def _is_wanted(least: str | None, level: str | None) -> bool:
    return least in _LEVELS and level in _LEVELS and _LEVELS.index(level) >= _LEVELS.index(least)


def logged(params: Mapping[str, Any], server: str) -> dict[str, Any]:
    """Return a line of a server's log, with whose it is."""
    logger = params.get("logger")
    name = text_of(logger) if isinstance(logger, Raw) else None
    return {**params, "logger": f"{server}.{name}" if name else server}
