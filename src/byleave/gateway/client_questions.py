"""What a client is asked: by servers (sampling, elicitation, roots), and by us, whether a call is approved.

A client with a session is sent a request and answers it: `ClientQuestions`. A stateless client gets its call back with
the questions and a state, and calls again with the answers: until then the call is one of the `Continuations`. A state
cannot be guessed; it is for the same caller, for the very same call, for one use, and for a while.

Either way `narrowed` and `refusal` say what a server may ask for, and `labelled` shows the person which server asks.
The form for an approval has nothing that must be filled in: accepting it is the yes. Text from outside is shown
escaped, and nothing that a yes covers is left out: what is too long to be shown is not asked about.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from byleave.gateway.interfaces import held_by
from byleave.gateway.message import decoded, encode, error_tree, members_of, notification, request, text_of
from byleave.gateway.redact import without_escapes
from byleave.guard.evaluation import CANCELLED, FOR_SESSION, NO, ONCE, SILENCE, Reply
from byleave.protocol.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.gateway.interfaces import Sink
    from byleave.gateway.message import ClientMessage, ClientParams
    from byleave.gateway.requests import ServerQuestion
    from byleave.gateway.upstream import Upstream
    from byleave.guard.evaluation import Question

    Take = Callable[[ClientMessage | None], None]
    from byleave.gateway.context import GatewayContext
    from byleave.gateway.requests import ClientRequest, ServerRequest
    from byleave.guard.evaluation import Evaluation, Pending


CAPABILITY_OF = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
ELICIT = "elicitation/create"
ASKER = "elicitation"
KEY = "byleave"  # of our question among those that a result may hold
LONGEST = 4000  # characters that a person can be expected to read
SERVER_KEY = "byleave/server"
MOST_OPEN = 8  # questions of one server that a client has not answered
# Extensions that are more than a way to read what passes anyhow: they have methods of their own, which are not passed.
_NOT_PASSED = frozenset({"io.modelcontextprotocol/tasks"})
_SCHEMA = {
    "type": "object",
    "properties": {
        "scope": {
            "type": "string",
            "title": "For how long",
            "description": "once: this call alone. session: the same call again, too, until it is revoked.",
            "enum": ["once", "session"],
            "default": "once",
        }
    },
}
_SURE = {"claimed": " (as it says)", "default": " (the connection does not say who it is)"}
_SCOPES = {"once": ONCE, "session": FOR_SESSION}
_FORM_TEXTS = frozenset({"title", "description", "enumNames"})  # of a form: what people read; the rest is data
_SAMPLE_TEXTS = frozenset({"text"})


def passed_extensions(extensions: Any) -> dict[str, dict[str, Any]]:
    """Return the extensions that work through the gateway, of those that one side declares."""
    if not isinstance(extensions, dict):
        return {}
    return {key: value for key, value in extensions.items() if key not in _NOT_PASSED and isinstance(value, dict)}


def narrowed(capabilities: Mapping[str, Any], may: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the client's capabilities as a server may use them: what it may ask for, and extensions of both."""
    usable = CAPABILITY_OF.values() if may is None else [each for each in CAPABILITY_OF.values() if each in may]
    kept = {name: capabilities[name] for name in usable if isinstance(capabilities.get(name), dict)}
    extensions = passed_extensions(capabilities.get("extensions"))
    return {**kept, "extensions": extensions} if extensions else kept


def can_be_asked(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client shows forms. One that says nothing of modes has forms: they came first."""
    elicitation = capabilities.get("elicitation")
    return isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)


# ---- Questions of servers ------------------------------------------------------------------------------------------


def refusal(method: str, capabilities: Mapping[str, Any], server: str) -> bytes | None:
    """Return the error for what a server may not ask for, or the client cannot answer; None if it can be asked."""
    capability = CAPABILITY_OF.get(method)
    if capability is None:
        return error_tree(METHOD_NOT_FOUND, f"byleave does not pass on {shown(method)} of the server {quoted(server)}")
    if capability in capabilities:
        return None
    why = f"this client does not offer {capability}, or the server {quoted(server)} may not ask for it"
    return error_tree(INVALID_REQUEST, why)


def labelled(server: str, method: str, params: Raw | None) -> dict[str, Any]:
    """Return the parameters of a server's question with who asks: for programs in `_meta`, for people in the message.

    What people are shown of it holds nothing that would steer a terminal, and no line that could pass for another's.
    """
    found: dict[str, Any] = dict(members_of(params))
    found["_meta"] = {**members_of(found.get("_meta")), SERVER_KEY: server}
    if method == ELICIT:
        first, *rest = (text_of(found.get("message")) or "").split("\n")
        rows = [f"[{server}] {without_escapes(first)}", *(f"| {without_escapes(line)}" for line in rest)]
        found["message"] = "\n".join(rows)
        for name in ("requestedSchema", "url"):
            if name in found:
                found[name] = _cleaned(decoded(found[name]), _FORM_TEXTS)
    elif method == "sampling/createMessage":
        found.pop("includeContext", None)  # to the client that would be the context of every server behind us
        for name in ("messages", "systemPrompt"):
            if name in found:
                found[name] = _cleaned(decoded(found[name]), _SAMPLE_TEXTS)
    return found


def _cleaned(tree: Any, names: frozenset[str], *, shows: bool = True) -> Any:
    """Return a tree with clean texts where people read them: under some names, or where a text stands alone."""
    if isinstance(tree, str):
        return without_escapes(tree) if shows else tree
    if isinstance(tree, list):
        return [_cleaned(each, names, shows=shows and not isinstance(each, dict)) for each in tree]
    if isinstance(tree, dict):
        return {key: _cleaned(each, names, shows=key in names) for key, each in tree.items()}
    return tree


# ---- Our own question: is this call approved? ----------------------------------------------------------------------


def approval_form(question: Question, *, modes: bool) -> dict[str, Any] | None:
    """Return the form for a question; None if it cannot be shown in full. `modes`: whether the revision has several."""
    facts = question.facts
    name = "an agent without a name" if question.who.agent is None else quoted(question.who.agent)
    sure = "" if question.who.agent is None else _SURE.get(question.who.identity, "")
    if facts["kind"] != "call":
        what = f"do this: {shown(facts['kind'])}{' by ' + quoted(facts['tool']) if 'tool' in facts else ''}"
    elif facts.get("tool") is None:
        what = f"use the server {shown(facts['server'])}"
    else:
        what = f"call {shown(facts['server'])}/{shown(facts['tool'])}"
    rows = [f"byleave: may {name}{sure} {what}?"]
    rows += [f"{key}: {shown(value)}" for key, value in facts.items() if key not in ("kind", "server", "tool")]
    rows += [f"which really is: {shown(place)}" for place in question.leads_to]
    rows += [f"in the tool's own words: {shown(question.note)}"] if question.note else []
    rows.append(f"why you are asked: {shown(question.resolved.verdict.reason)}")
    message = "\n".join(rows)
    if len(message) > LONGEST:
        return None
    params: dict[str, Any] = {"message": message, "requestedSchema": _SCHEMA}
    return {"mode": "form", **params} if modes else params


def approval_in(result: Any) -> str:
    """Return the person's reply. Whatever is not a clear yes is a no."""
    if not isinstance(result, dict):
        return NO
    action, content = result.get("action"), result.get("content")
    if action != "accept":
        return CANCELLED if action == "cancel" else NO
    scope = content.get("scope", "once") if isinstance(content, dict) else "once"
    return _SCOPES.get(scope, NO) if isinstance(scope, str) else NO


# ---- Questions that a client with a session has not answered -------------------------------------------------------


class ClientQuestions:
    """Requests that went to the client and are not answered yet, by the id under which it knows them."""

    def __init__(self) -> None:
        self._open: dict[bytes, Take] = {}
        self._ids: dict[tuple[Upstream, bytes], bytes] = {}
        self._tokens: dict[bytes, tuple[Upstream, Raw]] = {}
        self._count = 0

    async def put(self, sink: Sink, method: str, params: Mapping[str, Any], seconds: float) -> ClientMessage | None:
        """Ask the client something of our own; None if it cannot answer, a TimeoutError if it takes too long."""
        done: asyncio.Future[ClientMessage | None] = asyncio.get_running_loop().create_future()

        def take(message: ClientMessage | None) -> None:
            if not done.done():
                done.set_result(message)

        id_ = self._begin(take)
        try:
            async with asyncio.timeout(seconds):
                return await done if await sink.send(request(id_, method, params)) else None
        finally:
            self._open.pop(id_, None)

    async def pass_on(
        self, sink: Sink, upstream: Upstream, asked: ServerQuestion, capabilities: Mapping[str, Any]
    ) -> None:
        """Put a server's question to the client; the answer goes back to the server by itself."""
        problem = refusal(asked.method, capabilities, upstream.name)
        if problem is None and sum(asker is upstream for asker, _id in self._ids) >= MOST_OPEN:
            problem = error_tree(INVALID_REQUEST, "too many of your questions are not answered yet")
        key = upstream, bytes(asked.id)
        if problem is None and key in self._ids:  # which answer is whose would not be known
            problem = error_tree(INVALID_REQUEST, "a question of the same id is not answered yet")
        if problem is not None:
            upstream.reply(asked.id, error=problem)
            return
        params = labelled(upstream.name, asked.method, asked.params)
        token = params["_meta"].get("progressToken")

        def take(message: ClientMessage | None) -> None:
            self._tokens.pop(self._ids.pop(key, b""), None)
            if message is None:
                upstream.reply(asked.id, error=error_tree(INVALID_REQUEST, "the client cannot be asked any more"))
            elif message.error is not None:
                upstream.reply(asked.id, error=message.error)
            else:
                upstream.reply(asked.id, result=message.answer or b"{}")

        id_ = self._ids[key] = self._begin(take)
        if token is not None:  # two servers may use the same one
            self._tokens[id_] = upstream, token
            params["_meta"]["progressToken"] = Raw(id_)
        if not await sink.send(request(id_, asked.method, params)):
            self._take(id_, None)

    def _begin(self, take: Take) -> bytes:
        self._count += 1
        id_ = b'"byleave-%d"' % self._count
        self._open[id_] = take
        return id_

    def answered(self, message: ClientMessage) -> None:
        """Take an answer of the client's; one to nothing that it was asked is dropped."""
        self._take(message.id, message)

    def _take(self, id_: bytes, message: ClientMessage | None) -> None:
        take = self._open.pop(id_, None)
        if take is not None:
            take(message)

    def cancelled_by(self, upstream: Upstream, params: Raw | None) -> bytes | None:
        """Return the notification that a server has cancelled a question; None if the client never got it."""
        found = members_of(params)
        id_ = self._ids.pop((upstream, bytes(found.get("requestId", b""))), None)
        if id_ is None:
            return None
        self._open.pop(id_, None)
        self._tokens.pop(id_, None)
        return notification("notifications/cancelled", {**found, "requestId": Raw(id_)})

    def pass_on_progress(self, params: ClientParams) -> None:
        """Pass the client's progress on to the server whose question it is about."""
        found = self._tokens.get(encode(params.tree.get("progressToken")))
        if found is not None:
            found[0].notify("notifications/progress", {**params.written, "progressToken": found[1]})

    def forget(self, upstream: Upstream) -> None:
        """Forget the questions of a server that is gone."""
        for key in [key for key in self._ids if key[0] is upstream]:
            id_ = self._ids.pop(key)
            self._open.pop(id_, None)
            self._tokens.pop(id_, None)

    def close(self) -> None:
        """Give up every question: there will be no answer."""
        for take in list(self._open.values()):
            take(None)
        self._open.clear()


MOST = 200  # calls of one caller
GIVEN_UP = "failed: the client did not go on with the call"


class Continuation(Struct, frozen=True):
    """A call that goes on when the client calls again. `fingerprint` is the hash of the call."""

    fingerprint: str
    pending: Pending | None = None  # a person has to approve it first
    allowed: Evaluation | None = None
    upstream: Upstream | None = None
    server_request: ServerRequest | None = None  # the server is in the middle of it
    asked: Mapping[str, ServerQuestion] = {}
    state: Raw | None = None  # of a server that speaks the stateless revision itself
    rounds: int = 0  # how often the server has asked
    question: str | None = None  # of a local tool, by its id
    answers: Mapping[str, str] = {}  # to the questions that it asked before


class Continuations:
    """The calls of one session that wait."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._waiting: dict[str, tuple[Continuation, asyncio.TimerHandle]] = {}

    async def suspend(self, request: ClientRequest, questions: Mapping[str, Any], continuation: Continuation) -> None:
        """Give a stateless client its call back with questions, and keep the call for a while."""
        settings = self._context.settings
        seconds = settings.ask_timeout if continuation.upstream is None else settings.call_timeout
        while len(self._waiting) >= MOST:
            self._expire(next(iter(self._waiting)))
        state = held_by(self._context.replica, secrets.token_urlsafe(24))
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, state)
        self._waiting[state] = continuation, timer
        await request.need_input(questions, state)

    def take(self, request: ClientRequest, fingerprint: str) -> Continuation | None:
        """Return the call that a request goes on with, if it is the very same one."""
        state = request.params.text("requestState")
        found = None if state is None else self._waiting.get(state)
        if state is None or found is None or found[0].fingerprint != fingerprint:
            return None
        del self._waiting[state]
        found[1].cancel()
        return found[0]

    def _expire(self, state: str) -> None:
        """Give up a call that the client did not go on with: silence is a no."""
        found = self._waiting.pop(state, None)
        if found is not None:
            found[1].cancel()
            self.give_up(found[0])

    def give_up(self, continuation: Continuation) -> None:
        """Record that a call does not go on, and cancel it at its server."""
        guard = self._context.guard
        if continuation.pending is not None:
            guard.withdraw(continuation.pending, Reply(SILENCE, ASKER))
        if continuation.upstream is not None and continuation.server_request is not None:
            continuation.upstream.abandon(continuation.server_request, "the client did not go on with the call")
        if continuation.allowed is not None:
            guard.record_effect(continuation.allowed, 0.0, GIVEN_UP, staged=True)

    def close(self) -> None:
        """Give up every call that waits."""
        for state in list(self._waiting):
            self._expire(state)
