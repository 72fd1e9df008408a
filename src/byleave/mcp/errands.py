"""What was allowed is done: passed on to its server, or run here, and its answer brought back to the client.

In the middle of it a server may want something of the client. One with a session is asked while the request is open; a
stateless one gets the wish as the result, and the errand is parked until it calls again. The same holds the other way
round for a server that speaks the stateless revision.

Start at `Errands.do`.
"""

import asyncio
from contextlib import suppress
from time import monotonic

from msgspec import Raw

from byleave.core.action import LOCAL, CallAction
from byleave.guard.asking import NO, NOBODY, SILENCE
from byleave.mcp.asking import ASKER, KEY, can_be_asked, question_params, reply_in
from byleave.mcp.ends import HINT, DownError, LateError
from byleave.mcp.local_form import answer_in, question_form, result_tree
from byleave.mcp.message import decoded, encode, error_tree, members_of, notification, text_of
from byleave.mcp.parking import Parked
from byleave.mcp.pending import Asked, Told
from byleave.mcp.questions import labelled, refusal
from byleave.mcp.refusals import changed, named
from byleave.mcp.revisions import HEADER_MISMATCH, SERVER_DOWN, STATELESS, param_headers, wrong_param_header
from byleave.private import digest
from byleave.record import Record
from byleave.text import quoted
from byleave.toolhost.outcome import NeedsInput
from byleave.wire.codes import INVALID_PARAMS, INVALID_REQUEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from typing import Any

    from byleave.guard.asking import Answer, Question, Who
    from byleave.mcp.exchange import Exchange
    from byleave.mcp.message import Members
    from byleave.mcp.pending import Pending
    from byleave.mcp.session import Session
    from byleave.mcp.upstream import Upstream

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


class Errand(Record):
    """A request for one server: what it gets, and what of it was judged."""

    method: str
    server: str
    sent: "Mapping[str, Any]"
    params: "Members"  # as the client wrote them
    who: "Who"
    tool: str = ""
    arguments: "Any" = None
    pin: str | None = None  # of a local tool: what it is, so that a yes is for that
    used: tuple[str, str] | None = None  # a resource or a prompt: its kind and name

    @property
    def print(self) -> str:
        """A hash of all of it."""
        sent = {key: self.sent[key] for key in sorted(self.sent)}
        return digest(encode([self.who.agent, self.who.identity, self.method, self.server, self.pin]) + encode(sent))


class Work(Record):
    """An errand that was allowed, and the request of the client that waits for it."""

    exchange: "Exchange"
    errand: Errand
    allowed: "Answer"
    was_asked: bool = False  # whether a person has allowed it, now or before
    rounds: int = 0  # how often the server has wanted to know more
    schema: "Any" = None  # of the tool's arguments, where headers may have to repeat them


class Errands:
    """What is done for one session. `refuse` answers what is denied by now, and returns whether it is."""

    def __init__(self, session: "Session", refuse: "Callable[..., Awaitable[bool]]") -> None:
        self._session = session
        self._refuse = refuse

    async def do(self, work: Work) -> bool:
        """Do what was allowed, and answer the client; return whether it was done."""
        return await self._finish(work, self._forward(work))

    async def resume(self, work: Work, parked: Parked) -> bool:
        """Go on with what was parked, with the answers that the client has brought; return whether it was done."""
        answers = members_of(work.exchange.params.get("inputResponses"))
        return await self._finish(work, self._resumed(work, parked, answers))

    async def _finish(self, work: Work, doing: "Coroutine[Any, Any, str]") -> bool:
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

    async def _forward(self, work: Work) -> str:
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

    async def _pass_on(self, work: Work, upstream: "Upstream", schema: "Any", *, waited: bool) -> str:
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
        return await self._send(work.replace(schema=schema), upstream, more)

    def _unknown(self, errand: Errand) -> str:
        why = self._session.offers.why_hidden(errand.server, errand.tool)
        if why:
            return changed(CallAction(errand.server, errand.tool), why).reason
        return f"there is no tool {named(errand.server, errand.tool)}"

    async def _send(self, work: Work, upstream: "Upstream", more: "Mapping[str, Any] | None" = None) -> str:
        params = {**work.errand.sent, **(more or {})}
        meta, progress = passed_meta(work.errand.params)
        if work.was_asked:  # a yes is for what was shown
            meta = {key: value for key, value in meta.items() if key in _TRACES}
        if meta:
            params["_meta"] = meta
        headers = tuple(param_headers(work.schema, work.errand.arguments)) if work.schema is not None else ()
        pending = await upstream.ask(work.errand.method, params, work.exchange, headers, progress=progress)
        return await self._follow(work, upstream, pending)

    async def _follow(self, work: Work, upstream: "Upstream", pending: "Pending") -> str:
        said = await self._session.follow(work.exchange, upstream, pending)
        if isinstance(said, Asked):
            return await self._hand_over(work, upstream, pending, said)
        if said.error is not None:
            await self._session.give_error(work.exchange, said.error)
            return "failed: the server answered with an error"
        result = said.result or Raw(b"{}")
        if upstream.revision in STATELESS and _wants_input(result):
            return await self._wanted(work, upstream, result)
        return await self._give(work, result)

    async def _give(self, work: Work, result: Raw) -> str:
        """Answer with a server's result."""
        most, view = self._session.settings.max_result, memoryview(result)
        if most is not None and len(view) > most:
            what = f"the result of the server {quoted(work.errand.server)} is larger than {most} bytes"
            await work.exchange.error(SERVER_DOWN, f"{what}, which is the limit here")
            return "failed: the result is too large"
        await work.exchange.result(result)
        return REPORTED if b'"isError"' in bytes(view[-_TAIL:]) + bytes(view[:_TAIL]) and _is_error(result) else DONE

    async def _hand_over(self, work: Work, upstream: "Upstream", pending: "Pending", asked: Asked) -> str:
        """Give a stateless client the wish of a server that is in the middle of its work."""
        problem = refusal(asked.method, self._session.capabilities_for(work.exchange, upstream.name), upstream.name)
        if problem is None and not self._session.keeps(upstream.name):
            problem = error_tree(INVALID_REQUEST, "a server without state cannot wait for the answer of this client")
        if problem is not None:
            upstream.reply(asked.id, error=problem)
            return await self._follow(work, upstream, pending)
        parked = Parked(
            work.errand.print, allowed=work.allowed, upstream=upstream, pending=pending, asked={upstream.name: asked}
        )
        wish = {"method": asked.method, "params": labelled(upstream.name, asked.method, asked.params)}
        await self._session.need_input(work.exchange, {upstream.name: wish}, parked)
        return ""

    async def _wanted(self, work: Work, upstream: "Upstream", result: Raw) -> str:
        """Bring the wishes of a stateless server to the client, in the way that the client speaks."""
        exchange, found = work.exchange, members_of(result)
        if work.rounds >= MOST_ROUNDS:
            what = f"the server {quoted(upstream.name)} has wanted to know more"
            await exchange.error(SERVER_DOWN, f"{what} {MOST_ROUNDS} times, without an end")
            return "failed: it wanted to know more without an end"
        work = work.replace(rounds=work.rounds + 1)
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
            parked = Parked(work.errand.print, allowed=work.allowed, upstream=upstream, state=state, rounds=work.rounds)
            await self._session.need_input(exchange, told, parked)
            return ""
        return await self._ask_in_turn(work, upstream, told, state)

    async def _ask_in_turn(
        self, work: Work, upstream: "Upstream", wishes: "Mapping[str, Mapping[str, Any]]", state: Raw | None
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

    async def _resumed(self, work: Work, parked: Parked, answers: "Members") -> str:
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
                work = work.replace(schema=offer.tree.get("inputSchema"))
            return await self._send(work, upstream, _with_answers(answers, parked.state))
        parked.pending.exchange = work.exchange
        for key, asked in parked.asked.items():
            if key in answers:
                upstream.reply(asked.id, result=answers[key])
            else:
                upstream.reply(asked.id, error=error_tree(INVALID_REQUEST, "the client gave no answer"))
        return await self._follow(work, upstream, parked.pending)

    async def _call_local(self, work: Work, answers: "Mapping[str, str]") -> str:
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
                parked = Parked(work.errand.print, allowed=work.allowed, question=id_, answers=answers)
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

    async def _put(self, exchange: "Exchange", form: "Mapping[str, Any]") -> str | None:
        """Put a tool's question to the client of a session; None if there is no answer."""
        try:
            async with asyncio.timeout(self._session.settings.ask_timeout):
                said = await self._session.questions.put(exchange.sink, "elicitation/create", form)
        except TimeoutError:
            return None
        return None if said is None or said.answer is None else _answer_to_tool(said.answer)

    def _asker(self, exchange: "Exchange") -> "ClientAsker | None":
        """Return what asks the client about what a tool does while it runs; a stateless one cannot be asked then."""
        if exchange.envelope is not None or not self._session.asks_client:
            return None
        if not can_be_asked(self._session.capabilities_of(exchange)):
            return None
        return ClientAsker(self._session, exchange)


class ClientAsker:
    """Asks the person at the client about what a local tool wants while it runs."""

    name = ASKER

    def __init__(self, session: "Session", exchange: "Exchange") -> None:
        self._session = session
        self._exchange = exchange

    async def ask(self, question: "Question", patience: float) -> str:
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


def _judged_schema(work: Work) -> "Any":
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


def _with_answers(answers: "Mapping[str, Raw]", state: Raw | None) -> "dict[str, Any]":
    more: dict[str, Any] = {"inputResponses": answers}
    return more if state is None else {**more, "requestState": state}


def _wants_input(result: Raw) -> bool:
    """Whether a stateless server's result is that it needs to know more."""
    return bytes(members_of(result).get("resultType", b"")) == b'"input_required"'


def known_answers(params: "Members") -> "dict[str, Any] | None":
    """Return the answers that a client gives before it is asked, to questions that it knows from an earlier call."""
    return {"inputResponses": params["inputResponses"]} if "inputResponses" in params else None


def passed(method: str, params: "Members") -> "dict[str, Any]":
    """Return parameters as a server gets them: those that the method has, and nothing that nobody was shown."""
    return {key: params[key] for key in _PARAMS[method] if key in params}


def passed_meta(params: "Members") -> "tuple[dict[str, Any], bool]":
    """Return what of a request's `_meta` is the server's business, and whether the client wants to hear of progress."""
    meta = members_of(params.get("_meta"))
    kept = {
        key: value
        for key, value in meta.items()
        if key != "progressToken" and not key.startswith("io.modelcontextprotocol/")
    }
    return kept, "progressToken" in meta


def told_about(exchange: "Exchange", told: Told, server: str) -> bytes | None:
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


def logged(params: "Mapping[str, Any]", server: str) -> "dict[str, Any]":
    """Return a line of a server's log, with whose it is."""
    logger = params.get("logger")
    name = text_of(logger) if isinstance(logger, Raw) else None
    return {**params, "logger": f"{server}.{name}" if name else server}
