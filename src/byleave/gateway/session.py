"""One client's session: takes its messages, and brings it what servers send.

    front -> Session.handle -> methods -> authorize -> forward -> upstream -> link, and back

The state is in the parts: what the client said of itself (`client`), the servers opened for it (`opened_servers`), what
they list (`catalog`), calls that wait (`Continuations`), and `notifications`. Here are only the open requests, and what
servers send that belongs to none of them.

Start at `Session.handle`. Stateless clients of one principal come in by a `SessionPool`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.gateway.authorize import Authorizer
from byleave.gateway.background import BackgroundTasks
from byleave.gateway.catalog import Catalog, Visibility
from byleave.gateway.client_questions import CAPABILITY_OF, MOST_OPEN, ClientQuestions, Continuations, narrowed
from byleave.gateway.forward import Forwarder
from byleave.gateway.interfaces import HINT, DownError
from byleave.gateway.message import (
    NOTIFICATION,
    RESPONSE,
    ClientMessage,
    RefusedMessage,
    encode,
    error_parts,
    error_tree,
    read_client_message,
)
from byleave.gateway.methods import METHODS, NOTIFICATIONS, Methods
from byleave.gateway.notifications import LIST_CHANGED, UPDATED, Notifications, QueueSink
from byleave.gateway.opened_servers import OpenedServers
from byleave.gateway.requests import Client, ClientRequest, ServerQuestion
from byleave.gateway.revisions import (
    CAPABILITIES_KEY,
    HANDSHAKE,
    SERVER_DOWN,
    STATUS,
    Mismatch,
    is_stateless,
    read_envelope,
)
from byleave.gateway.server_info import ServerInfo
from byleave.guard.evaluation import Who
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from msgspec import Raw

    from byleave.gateway.context import GatewayContext
    from byleave.gateway.interfaces import Caller, MessageContext, Sink
    from byleave.gateway.local_tools import LocalTools
    from byleave.gateway.server_listing import ServerListings
    from byleave.gateway.server_pool import ServerPool
    from byleave.gateway.upstream import Upstream

MOST_KINDS = 16  # kinds of stateless clients of one principal; one more takes the place of the longest idle one
_LOOKS, _LOOK_AGAIN = 100, 0.05  # how often, after how many seconds, we look for the standing stream of a new client
_BEFORE_HANDSHAKE = frozenset({"initialize", "ping"})


class Session:
    """What is kept for one client."""

    def __init__(
        self,
        context: GatewayContext,
        pool: ServerPool,
        local: LocalTools,
        listings: ServerListings,
        caller: Caller,
        *,
        is_shared: bool = False,
        on_close: Callable[[Session], None],
    ) -> None:
        self.client = Client(caller, is_shared=is_shared)
        self.used = monotonic()
        self.open: dict[bytes, ClientRequest] = {}
        self.notifications = Notifications(self.client, self._still_sees)
        self._context = context
        self._pool = pool
        self._on_close = on_close
        self._count = 0
        self._closed = False
        self._early: Counter[str] = Counter()  # questions of servers before the client had begun
        self._background = BackgroundTasks()
        self._questions = ClientQuestions()
        self._continuations = Continuations(context)
        self.servers = OpenedServers(context, pool, self, self._background)
        self.catalog = Catalog(context, self.servers, local.definitions, listings)
        self.info = ServerInfo(context, pool, self.servers, self.catalog)
        authorizer = Authorizer(context, self.client, self.catalog, self._questions)
        forwarder = Forwarder(
            context,
            self.client,
            servers=self.servers,
            catalog=self.catalog,
            listings=listings,
            authorizer=authorizer,
            continuations=self._continuations,
            questions=self._questions,
            local=local,
            background=self._background,
        )
        self._methods = Methods(
            context,
            self.client,
            self.open,
            servers=self.servers,
            catalog=self.catalog,
            info=self.info,
            authorizer=authorizer,
            forwarder=forwarder,
            continuations=self._continuations,
            questions=self._questions,
            notifications=self.notifications,
            local=local,
            background=self._background,
        )

    # ---- What the client sends -------------------------------------------------------------------------------------

    async def handle(self, message: bytes, sink: Sink, context: MessageContext) -> None:
        """Take one message of the client; return when it is answered."""
        said = await read_or_refuse(message, sink)
        if said is not None:
            await self.take(said, sink, context)

    async def take(self, said: ClientMessage, sink: Sink, context: MessageContext) -> None:
        """Do as `handle`, with a message that was read."""
        if said.kind is RESPONSE:
            self._questions.answered(said)
        elif said.kind is not NOTIFICATION:
            await self._serve(said, sink, context)
        elif said.method == "notifications/cancelled":
            if "requestId" in said.params.tree:
                self._withdraw(encode(said.params.tree["requestId"]))
        elif said.method in NOTIFICATIONS:
            NOTIFICATIONS[said.method](self._methods, said.params)

    async def _serve(self, said: ClientMessage, sink: Sink, context: MessageContext) -> None:
        caller = self.client.caller
        request = ClientRequest(said.id, said.method, said.params, sink, Who(caller.agent, caller.identity))
        request.transport_headers = context.headers
        request.scopes = context.scopes
        self._count += 1
        self.used = request.came = monotonic()
        key = b"#%d" % self._count if self.client.is_shared else said.id  # clients that share may use the same ids
        if key in self.open:
            await request.error(INVALID_REQUEST, "a request of the same id is not answered yet")
            return
        request.task = asyncio.current_task()
        self.open[key] = request
        try:
            request.who = self._context.who(caller, context.headers.get("x-byleave-agent"))
            self.client.used_by(request.who.agent)
            await self._answer(request, context)
        except asyncio.CancelledError:
            if not request.withdrawn or request.task is None:
                raise
            request.task.uncancel()  # the client wants no answer to this, but goes on
        except DownError as error:
            self._context.note_down(error)
            await request.error(SERVER_DOWN, error.for_agents(), HINT)
        except InputError as error:
            await request.error(INVALID_PARAMS, error.problem)
        except (ByleaveError, ConfigErrors) as error:
            self._context.note(f"{error}")
            await request.error(INTERNAL_ERROR, "this could not be done; the operator of byleave is shown why")
        except Exception as error:  # noqa: BLE001 -- one request that goes wrong must not end the others
            self._context.note(f"a defect of byleave: {type(error).__name__} in {said.method}", error)
            await request.error(INTERNAL_ERROR, "a defect of byleave kept this from being done")
        finally:
            self.used = monotonic()
            request.task = None  # which holds the request, and with it what may be a large result
            if self.open.get(key) is request:
                del self.open[key]

    async def _answer(self, request: ClientRequest, context: MessageContext) -> None:
        client, stateless = self.client, is_stateless(request.params)
        if client.shakes_hands and stateless:
            await request.error(INVALID_REQUEST, "this session began with a handshake, and goes on as it began")
            return
        if stateless or context.headers.get("mcp-protocol-version", "") > HANDSHAKE[-1]:
            envelope = read_envelope(request.method, request.params, context.headers)
            if isinstance(envelope, Mismatch):
                error = error_tree(envelope.number, envelope.problem, envelope.data)
                await request.sink.answer(*error_parts(request.id, error), status=STATUS[envelope.number])
                return
            request.envelope, request.headers = envelope, context.headers
            if not client.revision:
                client.capabilities = envelope.capabilities
        elif request.method not in _BEFORE_HANDSHAKE:
            if not client.shakes_hands:
                await request.error(INVALID_REQUEST, "the session has not begun: send initialize first")
                return
            if not client.welcomed.is_set():
                await client.welcomed.wait()  # a client may send everything at once
            client.begun.set()
        method = METHODS.get(request.method)
        if method is None or not method.spoken(stateless=request.envelope is not None):
            await request.error(METHOD_NOT_FOUND, f"there is no method {quoted(request.method[:100])} here")
            return
        await method.serve(self._methods, request)

    def _withdraw(self, id_: bytes) -> None:
        """Stop working for a request that the client has cancelled."""
        request = None if self.client.is_shared else self.open.get(id_)
        if request is not None and request.task is not None and request.method != "initialize":
            request.withdrawn = True
            request.task.cancel()

    def attach(self, sink: Sink) -> None:
        """Send what belongs to no request there from now on."""
        self.notifications.standing.attach(sink)

    # ---- What servers send that belongs to no request --------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """Whether clients that do not know of each other use it."""
        return self.client.is_shared

    def client_capabilities(self, server: str) -> Mapping[str, Any]:
        """Return what the client can do for a server, as the handshake with it says."""
        return narrowed(self.client.capabilities, self.servers.may_ask_for(server))

    def shakes_hands(self, server: str) -> bool:
        """Whether the client has shaken hands itself, and this server may ask it something."""
        offered = self.client_capabilities(server).keys()
        return self.client.shakes_hands and not offered.isdisjoint(CAPABILITY_OF.values())

    def notified(self, upstream: Upstream, method: str, params: Raw | None) -> None:
        """Take a notification that belongs to no request."""
        if method in LIST_CHANGED:
            self.catalog.forget(upstream.name)
            self.notifications.list_changed(method)
        elif method == UPDATED:
            self.notifications.updated(upstream.name, params)
        elif method == "notifications/cancelled":
            message = self._questions.cancelled_by(upstream, params)
            if message is not None:
                self.notifications.standing.put(message)
        else:
            self.notifications.pass_on(upstream.name, method, params)

    def asked(self, upstream: Upstream, id_: Raw, method: str, params: Raw | None) -> None:
        """Put a question that belongs to no request to the client, if it can be reached; not before it has begun."""
        client, standing = self.client, self.notifications.standing
        if client.shakes_hands and not (client.welcomed.is_set() and client.begun.is_set()):
            if self._early[upstream.name] >= MOST_OPEN:
                upstream.reply(id_, error=error_tree(INVALID_REQUEST, "too much is asked before the client has begun"))
                return
            self._early[upstream.name] += 1
            self._background.start(self._ask_later(upstream, id_, method, params))
            return
        sink = next((each.sink for each in reversed(self.open.values()) if each.envelope is None), None)
        if sink is None and not standing.is_open:
            upstream.reply(id_, error=error_tree(INVALID_REQUEST, "the client cannot be asked now"))
            return
        target = sink if sink is not None else QueueSink(standing)
        question = ServerQuestion(id_, method, params)
        capabilities = self.client_capabilities(upstream.name)
        self._background.start(self._questions.pass_on(target, upstream, question, capabilities))

    async def _ask_later(self, upstream: Upstream, id_: Raw, method: str, params: Raw | None) -> None:
        """Put a question to a client that has only just begun: its standing stream may not be there yet."""
        await self.client.welcomed.wait()
        await self.client.begun.wait()
        for _ in range(_LOOKS):
            if not self.open and not self.notifications.standing.is_open:
                await asyncio.sleep(_LOOK_AGAIN)
        self.asked(upstream, id_, method, params)

    def opened(self, upstream: Upstream) -> None:
        """Repeat to a server what holds for the session; one that keeps no state is let go of soon."""
        if not self.servers.keeps(upstream.name):
            self.servers.let_go_soon(upstream)
        self._pool.came_up(upstream)
        self.say_again(upstream)

    def say_again(self, upstream: Upstream) -> None:
        """Repeat to a server that was opened what holds for this session."""
        if self.catalog.is_late(upstream.name):
            self.lists_changed()
        if self.client.log_level is not None:
            self._background.start(upstream.log(self.client.log_level))
        for uri in self.notifications.still_subscribed(upstream.name):
            self._background.start(upstream.subscribe(uri))

    def warned(self, upstream: Upstream, warnings: list[str]) -> None:
        """Pass on what people should know about a connection."""
        self._pool.warned(upstream, warnings)

    def gone(self, upstream: Upstream, why: str) -> None:
        """Forget what a server has asked whose connection is gone."""
        self._questions.forget(upstream)
        self._pool.went_down(upstream.name, why)

    # ---- What the gateway does -------------------------------------------------------------------------------------

    def lists_changed(self) -> None:
        """Have everything listed anew, and announce that every list may have changed."""
        self.catalog.forget_all()
        self.notifications.all_lists_changed()

    def visible_servers(self) -> set[str]:
        """Return the servers that an agent of this session may still reach."""
        return {name for agent in self.client.agents for name in self._view(agent).servers()}

    def _still_sees(self, server: str, uri: str) -> bool:
        """Whether the policy shows a resource to an agent of this session; one that cannot answer does not."""
        try:
            return any(self._view(agent).shows(server, "resources", uri) for agent in self.client.agents)
        except (ByleaveError, ConfigErrors):
            return False

    def _view(self, agent: str | None) -> Visibility:
        return Visibility(self._context.guard.policy, agent)

    def drop(self, names: set[str]) -> None:
        """Let go of servers that are gone from the configuration, or changed there."""
        for name in self.servers.drop(names):
            self.catalog.forget(name)

    async def rest(self) -> bool:
        """End the processes that run for this client alone until it needs them; return whether there were any."""
        return await self.servers.rest()

    async def close(self) -> None:
        """End the session, and what was opened for it."""
        if self._closed:
            return
        self._closed = True
        self._on_close(self)
        self._continuations.close()
        self._questions.close()
        self.notifications.close()
        await self.servers.close()
        self._background.cancel()


async def read_or_refuse(message: bytes, sink: Sink) -> ClientMessage | None:
    """Return what a client says; None if it was refused."""
    said = read_client_message(message)
    if not isinstance(said, RefusedMessage):
        return said
    await sink.answer(*error_parts(said.id, error_tree(said.number, said.problem)), status=STATUS[said.number])
    return None


class SessionPool:
    """The sessions of stateless clients of one principal, by what the clients can do.

    A server learns in its handshake what its client can do, and some list other tools by that. So clients that say
    different things of themselves do not share a session; those that say the same do, whichever they are.
    """

    def __init__(self, begin: Callable[[], Session]) -> None:
        self._begin = begin
        self._sessions: dict[bytes, Session] = {}

    @property
    def sessions(self) -> list[Session]:
        return list(self._sessions.values())

    async def handle(self, message: bytes, sink: Sink, context: MessageContext) -> None:
        """Take one message of a client."""
        said = await read_or_refuse(message, sink)
        if said is not None:
            await (await self._session_for(said)).take(said, sink, context)

    async def _session_for(self, said: ClientMessage) -> Session:
        capabilities = said.params.meta.get(CAPABILITIES_KEY)
        key = encode(narrowed(capabilities if isinstance(capabilities, dict) else {}, None))
        session = self._sessions.pop(key, None)
        if session is None:
            idle = [known for known, each in self._sessions.items() if not each.open]
            for known in idle[: max(0, len(self._sessions) - MOST_KINDS + 1)]:
                await self._sessions.pop(known).close()
            session = self._begin()
        self._sessions[key] = session  # the one that was used last is the last
        return session

    def attach(self, _sink: Sink) -> None:
        """Do nothing: a stateless client has no standing stream."""

    async def rest(self, before: float) -> None:
        """End the sessions that were not used since then."""
        for key, session in list(self._sessions.items()):
            if not session.open and session.used < before:
                del self._sessions[key]
                await session.close()

    async def close(self) -> None:
        """End all sessions."""
        sessions, self._sessions = self.sessions, {}
        for session in sessions:
            await session.close()
