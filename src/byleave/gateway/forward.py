"""Carry out a call that was allowed: send it to its server, or run it here, and bring the answer back to the client.

In the middle of a call a server may ask the client something. A client with a session is asked while its request is
open; a stateless one gets the question as the result, and the call continues when it calls again (`Continuations`). The
same holds the other way round for a server that speaks the stateless revision.

Start at `Forwarder.forward`. What became of the call is recorded when it ends. Whether it may go out is decided before,
in `authorize`, and again here where the call had to wait.
"""

from __future__ import annotations

import asyncio
import os
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Raw, Struct, structs

from byleave.core.action import LOCAL, CallAction
from byleave.core.decision import shared_tree
from byleave.gateway.authorize import (
    CALL,
    CHANGED,
    DENIED_BY_NOW,
    FEW_SCOPES,
    SUBSCRIBE,
    TRACES,
    changed,
    is_by_policy,
    passed_meta,
    tool_name,
)
from byleave.gateway.client_questions import (
    ASKER,
    ELICIT,
    KEY,
    MOST_OPEN,
    Continuation,
    approval_form,
    approval_in,
    can_be_asked,
    labelled,
    narrowed,
    refusal,
)
from byleave.gateway.interfaces import HINT, DownError, LateError
from byleave.gateway.local_tools import answer_in, question_form, result_tree
from byleave.gateway.message import error_tree, members_of, notification, text_of
from byleave.gateway.notifications import about_request
from byleave.gateway.requests import ServerAnswer, ServerLate, ServerLost, ServerNotification, ServerQuestion
from byleave.gateway.revisions import HEADER_MISMATCH, SERVER_DOWN, STATELESS, param_headers, wrong_param_header
from byleave.gateway.trace_context import NAMES as TRACE_NAMES
from byleave.guard.evaluation import NO, NO_PERSON, SILENCE
from byleave.protocol.jsonrpc import ACCESS_DENIED, INVALID_PARAMS, INVALID_REQUEST
from byleave.text import quoted
from byleave.toolhost.outcome import NeedsInput

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from typing import Any

    from byleave.core.decision import Verdict
    from byleave.gateway.authorize import Allowed, Authorizer, ServerCall
    from byleave.gateway.background import BackgroundTasks
    from byleave.gateway.catalog import Catalog
    from byleave.gateway.client_questions import ClientQuestions, Continuations
    from byleave.gateway.context import GatewayContext
    from byleave.gateway.local_tools import LocalTools
    from byleave.gateway.message import ClientMessage
    from byleave.gateway.opened_servers import OpenedServers
    from byleave.gateway.requests import Client, ClientRequest, ServerRequest
    from byleave.gateway.server_listing import ServerListings
    from byleave.gateway.tracing import CallSpan, UpstreamSpan
    from byleave.gateway.upstream import Upstream
    from byleave.guard.evaluation import Question

DONE, REPORTED = "done", "failed: the tool reports an error"
MOST_ROUNDS = 10  # questions of one tool, in one call
VERDICT_KEY = "byleave/verdict"
_OUTCOMES = {DONE: "ok", REPORTED: "error"}  # in the figures; what is in neither has failed
_LONGEST_NAME = 100  # letters of a name that a client chose
_TAIL = 4096  # bytes at either end of a result, where servers write whether it is an error


class ForwardedRequest(Struct, frozen=True):
    """A call that was allowed, and the client's request that waits for its answer."""

    request: ClientRequest
    call: ServerCall
    allowed: Allowed
    rounds: int = 0  # how often the server has asked
    schema: Any = None  # of the tool's arguments, where headers may have to repeat them


class Forwarder:
    """Carries out the calls of one session."""

    def __init__(
        self,
        context: GatewayContext,
        client: Client,
        *,
        servers: OpenedServers,
        catalog: Catalog,
        listings: ServerListings,
        authorizer: Authorizer,
        continuations: Continuations,
        questions: ClientQuestions,
        local: LocalTools,
        background: BackgroundTasks,
    ) -> None:
        self._context = context
        self._client = client
        self._servers = servers
        self._catalog = catalog
        self._listings = listings
        self._authorizer = authorizer
        self._continuations = continuations
        self._questions = questions
        self._local = local
        self._background = background

    async def forward(self, request: ClientRequest, call: ServerCall, allowed: Allowed) -> bool:
        """Do what was allowed, and answer the client; return whether it was done."""
        if request.trace is not None:
            request.trace.decided(allowed.evaluation.verdict)
        work = ForwardedRequest(request, call, allowed)
        return await self._finish(work, self._run_local(work, {}) if call.server == LOCAL else self._forward(work))

    async def resume(
        self, request: ClientRequest, call: ServerCall, allowed: Allowed, continuation: Continuation
    ) -> bool:
        """Continue a call with the answers that a stateless client brings; return whether it was done."""
        if request.trace is not None:
            request.trace.decided(allowed.evaluation.verdict)
        work = ForwardedRequest(request, call, allowed, rounds=continuation.rounds)
        return await self._finish(work, self._resumed(work, continuation))

    async def refuse(self, request: ClientRequest, call: ServerCall, verdict: Verdict) -> None:
        """Answer what is not done: a call of a tool by a result with the verdict in it, the rest by an error.

        A client may check what is structured against the tool's output schema, and throw away what does not fit.
        """
        self._context.metrics.called(call.server, call.who.agent, verdict.decision.word, "refused")
        self.finished(request, call, verdict.decision.word, "refused")
        if request.trace is not None:
            request.trace.decided(verdict)
        tree = agents_tree(verdict, self._context.guard.policy.root.path)
        needed = self._authorizer.lacking(call) if verdict.code == FEW_SCOPES else ()
        if needed:
            await request.need_scopes(error_tree(ACCESS_DENIED, verdict.reason, tree), needed)
        elif call.method == CALL and verdict.code != CHANGED:
            content = [{"type": "text", "text": verdict.reason}]
            result: dict[str, Any] = {"content": content, "isError": True, "_meta": {VERDICT_KEY: tree}}
            if not self._listings.has_output_schema(call.server, call.tool):
                result["structuredContent"] = tree
            await request.result(result)
        else:  # to the client a tool that is hidden does not exist
            await request.error(INVALID_PARAMS if call.method == CALL else ACCESS_DENIED, verdict.reason, tree)

    def finished(self, request: ClientRequest, call: ServerCall, decision: str, outcome: str) -> None:
        """Note what became of a request: how long it took in all, and on its span. Only the first time counts.

        What was allowed first and is denied by the time it could go out is refused, and no failure beside that.
        """
        if not request.came:
            return
        self._context.metrics.request_took(call.server, call.method, decision, monotonic() - request.came)
        request.came = 0.0
        if request.trace is not None:
            request.trace.outcome = outcome

    async def _finish(self, work: ForwardedRequest, doing: Coroutine[Any, Any, str]) -> bool:
        """Do it, and record what became of it; nothing yet, if it continues later."""
        started, call = monotonic(), work.call
        outcome, how = "failed: the client has cancelled it", "cancelled"
        try:
            outcome = await doing
            how = _OUTCOMES.get(outcome, "failed")
        except DownError as error:
            outcome, how = f"failed: {error.problem}", "timeout" if isinstance(error, LateError) else "down"
            self._context.note_down(error)
            await work.request.error(SERVER_DOWN, error.for_agents(call.server), HINT)
        finally:
            if outcome:
                took = monotonic() - started
                self._context.guard.record_effect(work.allowed.evaluation, took, outcome, staged=True)
                self._context.metrics.called(call.server, call.who.agent, "allow", how, took)
                self.finished(work.request, call, "allow", how)
        return outcome == DONE

    # ---- To a server, and back -------------------------------------------------------------------------------------

    async def _forward(self, work: ForwardedRequest) -> str:
        """Have a server do it; return what became of it, empty if that is not known yet."""
        call, request = work.call, work.request
        if call.server not in self._servers.configured:
            await request.error(INVALID_PARAMS, f"there is no server named {quoted(call.server[:_LONGEST_NAME])}")
            return "failed: no such server"
        schema, waited = None, not self._servers.is_up(call.server)
        if call.method == CALL:
            if await self._servers.stand_alone(call.server):
                self._catalog.forget(call.server)
            offer = await self._catalog.tool(call.server, call.tool)
            if offer is None:
                await request.error(INVALID_PARAMS, self._unknown_tool(call))
                return "failed: no such tool"
            schema = offer.tree.get("inputSchema")
            is_same, by_policy = _evaluated_schema(work) == schema, is_by_policy(work.allowed.evaluation)
            if not is_same and await self._is_denied_by_now(work, asks=by_policy):
                return DENIED_BY_NOW
            wrong = wrong_param_header(schema, call.arguments, request.headers) if request.headers else ""
            if wrong:
                name = tool_name(call.server, call.tool)
                await request.error(
                    HEADER_MISMATCH, f"the {wrong} header does not say what the argument of {name} says"
                )
                return "failed: a header disagrees"
        if self._servers.keeps(call.server):
            upstream = self._servers.reach(call.server)
            await upstream.ready()
            return await self._pass_on(work, upstream, schema, waited=waited)
        async with self._servers.reached_once(call.server, call.tool or None) as upstream:
            return await self._pass_on(work, upstream, schema, waited=True)

    async def _is_denied_by_now(self, work: ForwardedRequest, *, asks: bool = False) -> bool:
        """Refuse what has come to be denied since it was allowed; return whether it was."""
        refused = await self._authorizer.recheck(work.call, asks=asks)
        if refused is not None:
            await self.refuse(work.request, work.call, refused.verdict)
        return refused is not None

    async def _pass_on(self, work: ForwardedRequest, upstream: Upstream, schema: Any, *, waited: bool) -> str:
        call = work.call
        if waited and await self._is_denied_by_now(work):  # a server may take a minute to start
            return DENIED_BY_NOW
        if call.method == SUBSCRIBE:
            await upstream.subscribe(call.params.tree["uri"])
            await work.request.result(b"{}")
            return DONE
        if upstream.revision not in STATELESS:
            return await self._send(work, upstream)
        more = None
        if "inputResponses" in call.params.tree and not work.allowed.by_person:
            more = {"inputResponses": call.params.written["inputResponses"]}  # to questions of an earlier call
        return await self._send(structs.replace(work, schema=schema), upstream, more)

    def _unknown_tool(self, call: ServerCall) -> str:
        why = self._catalog.why_hidden(call.server, call.tool)
        if why:
            return changed(CallAction(call.server, call.tool), why).reason
        return f"there is no tool {tool_name(call.server, call.tool)}"

    async def _send(self, work: ForwardedRequest, upstream: Upstream, more: Mapping[str, Any] | None = None) -> str:
        if work.request.trace is None:
            return await self._send_with(work, upstream, more)
        with self._traced(work, upstream) as span:
            outcome = await self._send_with(work, upstream, more, span.context)
            span.outcome = _OUTCOMES.get(outcome, "failed") if outcome else "input_required"
            return outcome

    async def _send_with(
        self,
        work: ForwardedRequest,
        upstream: Upstream,
        more: Mapping[str, Any] | None,
        context: Mapping[str, str] | None = None,
    ) -> str:
        """Send it. With a `context` of ours, that goes along in the place of the caller's."""
        call = work.call
        params = {**call.sent, **(more or {})}
        names = passed_meta(call.params)
        if work.allowed.by_person:  # a yes is for what was shown
            names = [name for name in names if name in TRACES]
        if context is not None:
            names = [name for name in names if name not in TRACE_NAMES]
        if names or context is not None:
            written = call.params.written_meta
            params["_meta"] = {**{name: written[name] for name in names}, **(context or {})}
        progress = "progressToken" in call.params.meta
        headers = tuple(param_headers(work.schema, call.arguments)) if work.schema is not None else ()
        server_request = await upstream.ask(call.method, params, work.request, headers, progress=progress)
        return await self._follow(work, upstream, server_request)

    def _traced(self, work: ForwardedRequest, upstream: Upstream) -> UpstreamSpan:
        assert work.request.trace is not None  # noqa: S101 -- the caller has looked
        server = self._context.servers.get(upstream.name)
        return work.request.trace.upstream(upstream.revision, "" if server is None else server.transport)

    async def _follow(self, work: ForwardedRequest, upstream: Upstream, server_request: ServerRequest) -> str:
        said = await self._next_of(work.request, upstream, server_request)
        if isinstance(said, ServerQuestion):
            return await self._suspend(work, upstream, server_request, said)
        if said.error is not None:
            await work.request.server_error(said.error)
            return "failed: the server answered with an error"
        result = said.result or Raw(b"{}")
        if upstream.revision in STATELESS and _needs_input(result):
            return await self._answer_questions(work, upstream, result)
        most, view = self._context.settings.max_result, memoryview(result)
        if most is not None and len(view) > most:
            what = f"the result of the server {quoted(work.call.server)} is larger than {most} bytes"
            await work.request.error(SERVER_DOWN, f"{what}, which is the limit here")
            return "failed: the result is too large"
        await work.request.result(result)
        return REPORTED if b'"isError"' in bytes(view[-_TAIL:]) + bytes(view[:_TAIL]) and _is_error(result) else DONE

    async def _next_of(
        self, request: ClientRequest, upstream: Upstream, server_request: ServerRequest
    ) -> ServerAnswer | ServerQuestion:
        """Bring the client what a server sends about a request; return the answer, or a question to a stateless client.

        A DownError if no answer comes. After a question the request is followed on later; else nothing more comes.
        """
        seconds = self._context.settings.call_timeout
        upstream.expect(server_request, seconds)
        try:
            while True:
                item = await server_request.get()
                if isinstance(item, ServerAnswer):
                    upstream.settle(server_request)
                    self._answered(request, upstream, server_request, "ok" if item.error is None else "failed")
                    if request.trace is not None:
                        request.trace.answered(item.result, item.error)
                    return item
                if isinstance(item, ServerLate):
                    self._answered(request, upstream, server_request, "timeout")
                    upstream.abandon(server_request, "it took too long")
                    raise upstream.lost_error(item, LateError)
                if isinstance(item, ServerLost):
                    self._answered(request, upstream, server_request, "down")
                    upstream.settle(server_request)
                    raise upstream.lost_error(item)
                if isinstance(item, ServerNotification):
                    upstream.expect(server_request, seconds)  # it lives
                    message = about_request(request, item, upstream.name)
                    if message is not None:
                        await request.sink.send(message)
                elif request.envelope is not None:
                    return item
                else:
                    capabilities = self._capabilities(request, upstream.name)
                    await self._questions.pass_on(request.sink, upstream, item, capabilities)
        except asyncio.CancelledError:
            self._answered(request, upstream, server_request, "cancelled")
            upstream.abandon(server_request, "the client does not wait any more")
            raise
        finally:
            server_request.due = inf

    def _answered(self, request: ClientRequest, upstream: Upstream, sent: ServerRequest, outcome: str) -> None:
        self._context.metrics.server_took(upstream.name, request.method, outcome, monotonic() - sent.sent)

    # ---- Questions of servers --------------------------------------------------------------------------------------

    def _capabilities(self, request: ClientRequest, server: str) -> Mapping[str, Any]:
        """Return what a server may ask the client of a request for; one that clients share may ask for nothing."""
        may = () if self._servers.is_shared(server) else self._servers.may_ask_for(server)
        return narrowed(self._client.capabilities_of(request), may)

    async def _suspend(
        self, work: ForwardedRequest, upstream: Upstream, server_request: ServerRequest, asked: ServerQuestion
    ) -> str:
        """Give a stateless client the question of a server that is in the middle of its work."""
        problem = refusal(asked.method, self._capabilities(work.request, upstream.name), upstream.name)
        if problem is None and not self._servers.keeps(upstream.name):
            problem = error_tree(INVALID_REQUEST, "a server without state cannot wait for the answer of this client")
        if problem is not None:
            upstream.reply(asked.id, error=problem)
            return await self._follow(work, upstream, server_request)
        continuation = Continuation(
            work.call.fingerprint,
            allowed=work.allowed.evaluation,
            upstream=upstream,
            server_request=server_request,
            asked={upstream.name: asked},
        )
        question = {"method": asked.method, "params": labelled(upstream.name, asked.method, asked.params)}
        await self._continuations.suspend(work.request, {upstream.name: question}, continuation)
        return ""

    async def _answer_questions(self, work: ForwardedRequest, upstream: Upstream, result: Raw) -> str:
        """Bring the questions of a stateless server to the client, in the way that the client speaks."""
        request, found = work.request, members_of(result)
        if work.rounds >= MOST_ROUNDS:
            what = f"the server {quoted(upstream.name)} has asked further questions"
            await request.error(SERVER_DOWN, f"{what} {MOST_ROUNDS} times, without an end")
            return "failed: it asked questions without an end"
        work = structs.replace(work, rounds=work.rounds + 1)
        asked = {key: members_of(each) for key, each in members_of(found.get("inputRequests")).items()}
        capabilities = self._capabilities(request, upstream.name)
        methods = {key: text_of(each.get("method")) or "" for key, each in asked.items()}
        refusals = (refusal(method, capabilities, upstream.name) for method in methods.values())
        problem = next((bad for bad in refusals if bad is not None), None)
        if len(asked) > MOST_OPEN:
            what = f"the server {quoted(upstream.name)} asks more than {MOST_OPEN} questions at a time"
            await request.error(SERVER_DOWN, what)
            return "failed: it asked too many questions"
        if problem is not None:
            await request.raw_error(problem, INVALID_REQUEST)
            return "failed: the server asked for what it may not"
        questions: dict[str, dict[str, Any]] = {
            key: {"method": methods[key], "params": labelled(upstream.name, methods[key], each.get("params"))}
            for key, each in asked.items()
        }
        state = found.get("requestState")
        if request.envelope is not None:
            continuation = Continuation(
                work.call.fingerprint,
                allowed=work.allowed.evaluation,
                upstream=upstream,
                state=state,
                rounds=work.rounds,
            )
            await self._continuations.suspend(request, questions, continuation)
            return ""
        answers: dict[str, Raw] = {}
        for key, question in questions.items():
            said = await self._put(request, question["method"], question["params"])
            if said is None or said.answer is None:
                what = f"the client did not answer a question of the server {quoted(upstream.name)}"
                await request.error(INVALID_REQUEST, what)
                return "failed: a question was not answered"
            answers[key] = said.answer
        return await self._send(work, upstream, _with_answers(answers, state))

    async def _put(self, request: ClientRequest, method: str, params: Mapping[str, Any]) -> ClientMessage | None:
        """Put a question to the client of a session; None if there is no answer in time."""
        asking = self._questions.put(request.sink, method, params, self._context.settings.ask_timeout)
        try:
            return await (asking if request.trace is None else request.trace.asked(asking))
        except TimeoutError:
            return None

    async def _resumed(self, work: ForwardedRequest, continuation: Continuation) -> str:
        params = work.request.params
        if continuation.question is not None:
            said = _answer_to_tool(params.tree.get("inputResponses", {}).get(KEY))
            known = continuation.answers if said is None else {**continuation.answers, continuation.question: said}
            return await self._run_local(work, known)
        upstream = continuation.upstream
        if upstream is None:
            return ""
        answers = members_of(params.written.get("inputResponses"))
        if continuation.server_request is None:
            if work.call.method == CALL:
                offer = await self._catalog.tool(upstream.name, work.call.tool)
                if offer is None:
                    await work.request.error(INVALID_PARAMS, self._unknown_tool(work.call))
                    return "failed: no such tool"
                work = structs.replace(work, schema=offer.tree.get("inputSchema"))
            return await self._send(work, upstream, _with_answers(answers, continuation.state))
        continuation.server_request.client_request = work.request
        for key, asked in continuation.asked.items():
            if key in answers:
                upstream.reply(asked.id, result=answers[key])
            else:
                upstream.reply(asked.id, error=error_tree(INVALID_REQUEST, "the client gave no answer"))
        if work.request.trace is None:
            return await self._follow(work, upstream, continuation.server_request)
        with self._traced(work, upstream):
            return await self._follow(work, upstream, continuation.server_request)

    # ---- Tools of this workspace -----------------------------------------------------------------------------------

    async def _run_local(self, work: ForwardedRequest, answers: Mapping[str, str]) -> str:
        """Run a tool of this workspace; where it asks something, ask the client, and run it again with the answer."""
        request, call = work.request, work.call
        can_ask = can_be_asked(self._client.capabilities_of(request))
        asker = None
        if can_ask and request.envelope is None and self._context.asks_client:  # a stateless client cannot be asked now
            asker = ClientAsker(self._context, self._client, self._questions, request)
        token = request.params.written_meta.get("progressToken")

        def progress(done: float, total: float | None, message: str) -> None:
            said = {"progressToken": token, "progress": done, "message": message}
            params = said if total is None else {**said, "total": total}
            self._background.start(request.sink.send(notification("notifications/progress", params)))

        while True:
            running = self._local.call(
                call.tool,
                call.arguments or {},
                request.who,
                principal=self._client.caller.principal,
                answers=answers,
                pin=call.pin,
                progress=None if token is None else progress,
                asker=asker,
            )
            result = await (running if request.trace is None else _traced_run(request.trace, running))
            if not isinstance(result, NeedsInput):
                await request.result(result)
                return REPORTED if result.get("isError") else DONE
            if len(answers) >= MOST_ROUNDS or not can_ask:
                break
            form, id_ = question_form(call.tool, result), str(result.question["id"])
            if request.envelope is not None:
                continuation = Continuation(
                    call.fingerprint, allowed=work.allowed.evaluation, question=id_, answers=answers
                )
                await self._continuations.suspend(request, {KEY: {"method": ELICIT, "params": form}}, continuation)
                return ""
            replied = await self._put(request, ELICIT, form)
            said = None if replied is None else _answer_to_tool(replied.answer_tree)
            if said is None:
                break
            answers = {**answers, id_: said}
        await request.result(result_tree(result))
        return "failed: it has a question"


class ClientAsker:
    """Asks the person at the client about what a local tool does while it runs."""

    name = ASKER

    def __init__(
        self, context: GatewayContext, client: Client, questions: ClientQuestions, request: ClientRequest
    ) -> None:
        self._context = context
        self._client = client
        self._questions = questions
        self._request = request

    async def ask(self, question: Question, patience: float) -> str:
        """Return the person's reply."""
        form = approval_form(question, modes=self._client.has_modes)
        if form is None:
            return NO_PERSON
        seconds = min(patience, self._context.settings.ask_timeout)
        asking, trace = self._questions.put(self._request.sink, ELICIT, form, seconds), self._request.trace
        try:
            said = await (asking if trace is None else trace.asked(asking))
        except TimeoutError:
            return SILENCE
        reply = NO_PERSON if said is None else NO if said.answer is None else approval_in(said.answer_tree)
        return reply if self._context.asks_client else NO_PERSON


async def _traced_run(
    trace: CallSpan, running: Coroutine[Any, Any, dict[str, Any] | NeedsInput]
) -> dict[str, Any] | NeedsInput:
    """Return what comes of one run of a local tool, which has a span of its own."""
    with trace.local() as span:
        result = await running
        span.outcome = (
            "input_required" if isinstance(result, NeedsInput) else "error" if result.get("isError") else "ok"
        )
        return result


def agents_tree(verdict: Verdict, root: str) -> dict[str, Any]:
    """Return a verdict as agents may see it: files of the workspace by their path in it, others by their name."""
    because = tuple(ref.replace(source=_public_source(ref.source, root)) for ref in verdict.because)
    return shared_tree(verdict.replace(because=because), root)


def _public_source(source: str, root: str) -> str:
    if not os.path.isabs(source):
        return source
    inside = source.removeprefix(root if root.endswith("/") else f"{root}/")
    return inside if inside != source else os.path.basename(source)


def _evaluated_schema(work: ForwardedRequest) -> Any:
    """Return the schema with which a call was evaluated; None if it was not known then."""
    permit = work.allowed.evaluation.permit
    return permit.action.schema if permit is not None and isinstance(permit.action, CallAction) else None


def _answer_to_tool(result: Any) -> str | None:
    if not isinstance(result, dict) or result.get("action") != "accept":
        return None
    return answer_in(result.get("content"))


def _is_error(result: Raw) -> bool:
    return bytes(members_of(result).get("isError", b"")) == b"true"


def _needs_input(result: Raw) -> bool:
    """Whether a stateless server's result is that it has questions."""
    return bytes(members_of(result).get("resultType", b"")) == b'"input_required"'


def _with_answers(answers: Mapping[str, Raw], state: Raw | None) -> dict[str, Any]:
    more: dict[str, Any] = {"inputResponses": answers}
    return more if state is None else {**more, "requestState": state}
