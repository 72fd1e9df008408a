"""One client's session: what it said of itself, the servers that were opened for it, the requests that are open.

Start at `Session.handle`. What each method does is in `methods`, how a tool is called in `calling`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING

from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.gateway.authorize import CallAuthorizer
from byleave.gateway.catalog import Catalog
from byleave.gateway.client_request import ClientRequest
from byleave.gateway.continuations import Continuation, Continuations
from byleave.gateway.forward import logged, told_about
from byleave.gateway.interfaces import HINT, DownError, LateError
from byleave.gateway.message import (
    NOTIFICATION,
    RESPONSE,
    ClientMessage,
    RefusedMessage,
    decoded,
    error_parts,
    error_tree,
    members_of,
    notification,
    read_client_message,
)
from byleave.gateway.methods import METHODS, NOTICES
from byleave.gateway.notifications import Listener, NotificationQueue, StandingStream
from byleave.gateway.revisions import HANDSHAKE, STATELESS, STATUS, Mismatch, is_stateless, read_envelope
from byleave.gateway.server_questions import WANTS, ServerQuestions, narrowed
from byleave.gateway.server_requests import ServerAnswer, ServerLost, ServerNotification, ServerQuestion
from byleave.gateway.visibility import Visibility
from byleave.guard.asking import Who
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from msgspec import Raw

    from byleave.gateway.forward import ClientAsker
    from byleave.gateway.gateway import Gateway
    from byleave.gateway.interfaces import Caller, Sink
    from byleave.gateway.interfaces import MessageContext as Headers
    from byleave.gateway.metrics import Metrics
    from byleave.gateway.server_requests import ServerRequest
    from byleave.gateway.upstream import Upstream
    from byleave.guard.guard import Guard
    from byleave.policy.gateway_settings import GatewaySettings
    from byleave.policy.servers import ServerConfig
    from byleave.toolhost.outcome import NeedsInput

_CHANGED = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
_CLIENTS_SHARING = 16  # how many clients of one principal may call as much as one
_MOST_AGENTS = 64  # that are remembered; whoever claims more of them has their servers opened again after a reload
_LOOK_AGAIN = 0.05  # seconds
_LISTING = 5.0  # seconds after which a server without state is let go of, if it is not being asked
_LOOKS, _LOOK_AGAIN = 100, 0.05  # how often, after how many seconds, we look for the standing stream of a new client
_BEFORE_HANDSHAKE = frozenset({"initialize", "ping"})


class Session:
    """What is kept for one client."""

    def __init__(self, gateway: Gateway, caller: Caller, *, shared: bool = False) -> None:
        self.gateway = gateway
        self.caller = caller
        self.used = monotonic()
        self.agents: set[str | None] = set()  # on whose behalf it was used
        self._shared = shared  # by clients that do not know of each other, and may use the same ids
        self._count = 0
        self.revision = ""  # empty until the handshake is answered; a stateless client has none
        self.shakes = False  # whether it has begun with a handshake
        self.welcomed = asyncio.Event()  # that was answered
        self.begun = asyncio.Event()  # the client goes on after that
        self.capabilities: Mapping[str, Any] = {}
        self.log_level: Raw | None = None
        self.subscribed: dict[str, str] = {}  # resources, and whose they are
        self.listeners: set[Listener] = set()
        self.listened_for: Counter[str] = Counter()  # resources, and how many stateless clients want to hear of them
        self.questions = ServerQuestions()
        self.offers = Catalog(
            self.reach,
            gateway.local.definitions,
            gateway.pins,
            gateway.note,
            self.keeps,
            down=gateway.note_down,
            listed=gateway.listed,
            catalogs=gateway.catalogs,
        )
        self.parking = Continuations()
        self.calling = CallAuthorizer(self)
        self.open: dict[bytes, ClientRequest] = {}
        self._aside = NotificationQueue()
        self._upstreams: dict[str, Upstream] = {}
        self.apart: set[str] = set()  # servers that this session has made a call of, and has a process of its own of
        self._passing: set[Upstream] = set()
        self._chores: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def guard(self) -> Guard:
        return self.gateway.guard

    @property
    def settings(self) -> GatewaySettings:
        return self.gateway.settings

    @property
    def asks_client(self) -> bool:
        """Whether the client may answer what the policy asks."""
        return self.gateway.asks_client

    @property
    def metrics(self) -> Metrics:
        return self.gateway.metrics

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        return self.gateway.servers

    @property
    def is_shared(self) -> bool:
        """Whether clients that do not know of each other use it."""
        return self._shared

    @property
    def has_modes(self) -> bool:
        """Whether the revision knows more than one way to ask a person."""
        return self.revision == HANDSHAKE[-1]

    def who(self, claimed: str | None = None) -> Who:
        """Return on whose behalf a request is; what it merely claims counts only where nothing better is known."""
        return self.gateway.who(self.caller, claimed)

    def sight(self, who: Who) -> Visibility:
        """Return what somebody may see."""
        return Visibility(self.guard.policy, who.agent)

    def capabilities_of(self, exchange: ClientRequest) -> Mapping[str, Any]:
        """Return what the client of a request can do."""
        return self.capabilities if exchange.envelope is None else exchange.envelope.capabilities

    def capabilities_for(self, exchange: ClientRequest, server: str) -> Mapping[str, Any]:
        """Return what a server may want of the client of a request; one that clients share wants nothing of any."""
        upstream = self._upstreams.get(server)
        is_shared = upstream is not None and self.gateway.is_shared(upstream)
        return narrowed(self.capabilities_of(exchange), () if is_shared else self._may(server))

    def _may(self, server: str) -> tuple[str, ...] | None:
        known = self.servers.get(server)
        return () if known is None else known.may

    def too_busy(self, who: Who) -> tuple[str, Any] | None:
        """Return why no further call is taken now; None if there is room."""
        most = self.settings.max_calls * (_CLIENTS_SHARING if self._shared else 1)
        if len(self.open) > most:
            self.gateway.refused_call("calls", who)
            return f"more than {most} requests of this client are open", None
        return self.gateway.too_fast(who)

    # ---- What the client says ------------------------------------------------------------------------------------

    async def handle(self, message: bytes, sink: Sink, told: Headers) -> None:
        """Take one message of the client; return when it is answered."""
        said = await read_or_refuse(message, sink)
        if said is not None:
            await self.take(said, sink, told)

    async def take(self, said: ClientMessage, sink: Sink, told: Headers) -> None:
        """Do as `handle`, with a message that was read."""
        if said.kind is RESPONSE:
            self.questions.answered(said)
        elif said.kind is NOTIFICATION:
            notice = NOTICES.get(said.method)
            if notice is not None:
                notice(self, said.params)
        else:
            await self._serve(said, sink, told)

    async def _serve(self, said: ClientMessage, sink: Sink, told: Headers) -> None:
        exchange = ClientRequest(said.id, said.method, said.params, sink, Who(self.caller.agent, self.caller.identity))
        self._count += 1
        self.used = monotonic()
        key = b"#%d" % self._count if self._shared else said.id
        if key in self.open:
            await exchange.error(INVALID_REQUEST, "a request of the same id is not answered yet")
            return
        exchange.task = asyncio.current_task()
        self.open[key] = exchange
        try:
            exchange.who = self.who(told.headers.get("x-byleave-agent"))
            if len(self.agents) < _MOST_AGENTS:
                self.agents.add(exchange.who.agent)
            await self._answer(exchange, told)
        except asyncio.CancelledError:
            if not exchange.withdrawn or exchange.task is None:
                raise
            exchange.task.uncancel()  # the client wants no answer to this, but goes on
        except DownError as error:
            self.gateway.note_down(error)
            await exchange.error(-32000, error.for_agents(), HINT)
        except InputError as error:
            await exchange.error(INVALID_PARAMS, error.problem)
        except (ByleaveError, ConfigErrors) as error:
            self.gateway.note(f"{error}")
            await exchange.error(INTERNAL_ERROR, "this could not be done; byleave tells its user why")
        except Exception as error:  # noqa: BLE001 -- one request that goes wrong must not end the others
            self.gateway.note(f"a defect of byleave: {type(error).__name__} in {said.method}", error)
            await exchange.error(INTERNAL_ERROR, "a defect of byleave kept this from being done")
        finally:
            self.used = monotonic()
            exchange.task = None  # which holds the exchange, and with it what may be a large result
            if self.open.get(key) is exchange:
                del self.open[key]

    async def _answer(self, exchange: ClientRequest, told: Headers) -> None:
        if self.shakes and is_stateless(exchange.params):
            await exchange.error(INVALID_REQUEST, "this session began with a handshake, and goes on as it began")
            return
        if is_stateless(exchange.params) or told.headers.get("mcp-protocol-version", "") > HANDSHAKE[-1]:
            envelope = read_envelope(exchange.method, exchange.params, told.headers)
            if isinstance(envelope, Mismatch):
                error = error_tree(envelope.number, envelope.problem, envelope.data)
                await exchange.sink.answer(*error_parts(exchange.id, error), status=STATUS[envelope.number])
                return
            exchange.envelope, exchange.headers = envelope, told.headers
            if not self.revision:
                self.capabilities = envelope.capabilities
        elif exchange.method not in _BEFORE_HANDSHAKE:
            if not self.shakes:
                await exchange.error(INVALID_REQUEST, "the session has not begun: send initialize first")
                return
            await self.welcomed.wait()  # a client may send everything at once
            self.begun.set()
        method = METHODS.get(exchange.method)
        if method is None or not method.spoken(stateless=exchange.envelope is not None):
            await exchange.error(METHOD_NOT_FOUND, f"there is no method {quoted(exchange.method[:100])} here")
            return
        await method.serve(self, exchange)

    def withdraw(self, id_: bytes) -> None:
        """Stop working for a request that the client has given up."""
        exchange = None if self._shared else self.open.get(id_)
        if exchange is not None and exchange.task is not None and exchange.method != "initialize":
            exchange.withdrawn = True
            exchange.task.cancel()

    def attach(self, sink: Sink) -> None:
        """Send what belongs to no request there from now on."""
        self._aside.attach(sink)

    # ---- Servers -------------------------------------------------------------------------------------------------

    def reach(self, name: str) -> Upstream:
        """Return the session with a server; a DownError if there is none of that name."""
        upstream = self._upstreams.get(name)
        if upstream is None:
            upstream = self._upstreams[name] = self._new(name)
        return upstream

    async def stand_apart(self, name: str) -> None:
        """Share the process of a server no longer, before a call that may leave state in it.

        What `share = true` says of a server, and its revision, is believed: it keeps no state.
        """
        upstream = self.reach(name)
        if name in self.apart or not self.gateway.is_shared(upstream) or self.servers[name].share is True:
            return
        await upstream.ready()
        if upstream.revision in STATELESS or self._upstreams.get(name) is not upstream:
            return
        self.apart.add(name)
        if not self.gateway.takes(upstream, self):
            del self._upstreams[name]
            self.offers.forget(name)
            self._passing.add(upstream)
            self.chore(self._leave(upstream))

    async def _leave(self, upstream: Upstream) -> None:
        """Leave a shared server once it has answered what this session asked of it before."""
        until = monotonic() + self.settings.call_timeout
        while self.gateway.waits_for(upstream, self) and monotonic() < until:  # noqa: ASYNC110 -- it happens once
            await asyncio.sleep(_LOOK_AGAIN)
        await self._dropped(upstream)

    def _new(self, name: str, tool: str | None = None) -> Upstream:
        server = self.servers.get(name)
        if server is None or self._closed:
            problem = f"there is no server named {quoted(name)}"
            raise DownError(problem, hint="`byleave mcp --check` lists the servers", public=problem)
        return self.gateway.connect(server, self, tool)

    @asynccontextmanager
    async def reached_once(self, name: str, tool: str | None = None) -> AsyncIterator[Upstream]:
        """Yield a session with a server for one call alone."""
        upstream = self._new(name, tool)
        self._passing.add(upstream)
        try:
            await upstream.ready()
            yield upstream
        finally:
            self._passing.discard(upstream)
            await upstream.close()

    def keeps(self, name: str) -> bool:
        """Whether the session with a server outlives one call."""
        server = self.servers.get(name)
        return server is not None and server.stateful

    def is_up(self, name: str) -> bool:
        """Whether there is a connection to a server already."""
        upstream = self._upstreams.get(name)
        return upstream is not None and upstream.is_up

    @property
    def opened_servers(self) -> list[Upstream]:
        """The servers that were opened for this client."""
        return [each for each in self._upstreams.values() if each.is_up]

    async def follow(
        self, exchange: ClientRequest, upstream: Upstream, pending: ServerRequest
    ) -> ServerAnswer | ServerQuestion:
        """Bring the client what comes about a request; return the answer, or a wish that a stateless client gets so.

        A DownError if no answer comes. Whoever gets a wish follows on later; else nothing more is expected.
        """
        seconds = self.settings.call_timeout
        why = f"it did not answer within {seconds:g} s"
        late = ServerLost(why, why)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, pending.put, late)
        try:
            while True:
                item = await pending.get()
                if isinstance(item, ServerAnswer):
                    upstream.settle(pending)
                    return item
                if isinstance(item, ServerLost):
                    self._give_up(upstream, pending, late=item is late)
                    raise upstream.lost_error(item, LateError if item is late else DownError)
                if isinstance(item, ServerNotification):
                    timer.cancel()  # it lives
                    timer = loop.call_later(seconds, pending.put, late)
                    message = told_about(exchange, item, upstream.name)
                    if message is not None:
                        await exchange.sink.send(message)
                elif exchange.envelope is not None:
                    return item
                else:
                    capabilities = self.capabilities_for(exchange, upstream.name)
                    await self.questions.pass_on(exchange.sink, upstream, item, capabilities)
        except asyncio.CancelledError:
            upstream.abandon(pending, "the client does not wait any more")
            raise
        finally:
            timer.cancel()

    @staticmethod
    def _give_up(upstream: Upstream, pending: ServerRequest, *, late: bool) -> None:
        if late:
            upstream.abandon(pending, "it took too long")
        else:
            upstream.settle(pending)

    @staticmethod
    async def give_error(exchange: ClientRequest, error: Raw) -> None:
        """Answer with a server's error."""
        number = decoded(members_of(error).get("code", b"0"))
        await exchange.raw_error(error, number if type(number) is int else 0)

    async def need_input(self, exchange: ClientRequest, wishes: Mapping[str, Any], parked: Continuation) -> None:
        """Give a stateless client its request back, with what has to be known first; it goes on when it calls again."""
        waits = self.settings.ask_timeout if parked.upstream is None else self.settings.call_timeout
        state = self.parking.park(parked, self.guard, waits)
        await exchange.need_input(wishes, state)

    async def call_local(
        self,
        exchange: ClientRequest,
        tool: str,
        arguments: dict[str, Any],
        answers: Mapping[str, str],
        asker: ClientAsker | None,
        *,
        pin: str | None,
    ) -> dict[str, Any] | NeedsInput:
        """Run a configured tool of this workspace."""
        token = members_of(exchange.params.get("_meta")).get("progressToken")

        def progress(done: float, total: float | None, message: str) -> None:
            told = {"progressToken": token, "progress": done, "message": message}
            params = told if total is None else {**told, "total": total}
            self.chore(exchange.sink.send(notification("notifications/progress", params)))

        return await self.gateway.local.call(
            tool,
            arguments,
            exchange.who,
            principal=self.caller.principal,
            answers=answers,
            pin=pin,
            progress=None if token is None else progress,
            asker=asker,
        )

    async def local_pin(self, exchange: ClientRequest, tool: str) -> str | None:
        """Return what a yes to a call of a local tool rests on; None if there is no such tool."""
        try:
            return await self.gateway.local.pin(tool, exchange.who, principal=self.caller.principal)
        except InputError:
            return None

    # ---- What servers say that belongs to no request ---------------------------------------------------------------

    def client_capabilities(self, server: str) -> Mapping[str, Any]:
        """Return what the client can do for a server, as it is told in the handshake."""
        return narrowed(self.capabilities, self._may(server))

    def shakes_hands(self, server: str) -> bool:
        """Whether the client has shaken hands itself, and this server may ask it something."""
        return self.shakes and not self.client_capabilities(server).keys().isdisjoint(WANTS.values())

    def unasked(self, upstream: Upstream, method: str, params: Raw | None) -> None:
        """Take a notification that belongs to no request."""
        if method in _CHANGED:
            self.offers.forget(upstream.name)
            self.changed(method)
        elif method == "notifications/resources/updated":
            self._updated(upstream.name, params)
        elif method == "notifications/cancelled":
            message = self.questions.withdrawn(upstream, params)
            if message is not None:
                self._aside.put(message)
        elif method == "notifications/message":
            if self.revision:
                self._aside.put(notification(method, logged(members_of(params), upstream.name)))
        elif self.revision:
            self._aside.put(notification(method, params))

    def changed(self, method: str) -> None:
        """Tell the client that a list has changed."""
        if self.revision:
            self._aside.put(notification(method))
        for listener in self.listeners:
            if listener.wanted.get(_CHANGED[method]) is True:
                listener.aside.put(notification(method, {"_meta": listener.meta}))

    def changed_all(self) -> None:
        """Tell the client that every list may have changed."""
        self.offers.forget_all()
        for method in _CHANGED:
            self.changed(method)

    def _updated(self, teller: str, params: Raw | None) -> None:
        found = members_of(params)
        uri = decoded(found.get("uri", b"null"))
        server = self.subscribed.get(uri) if isinstance(uri, str) else None
        if server is None or server != teller or not self._still_shows(server, uri):
            return
        if self.revision:
            self._aside.put(notification("notifications/resources/updated", params))
        for listener in self.listeners:
            if uri in listener.wanted.get("resourceSubscriptions", ()):
                told = {**found, "_meta": listener.meta}
                listener.aside.put(notification("notifications/resources/updated", told))

    def _still_shows(self, server: str, uri: str) -> bool:
        """Whether the policy lets whoever used this session see a resource; one that cannot answer does not."""
        try:
            return any(self.sight(Who(agent)).shows(server, "resources", uri) for agent in self.agents)
        except (ByleaveError, ConfigErrors):
            return False

    def visible(self) -> set[str]:
        """Return the servers that somebody who used this session may still reach."""
        return {name for agent in self.agents for name in self.sight(Who(agent)).servers()}

    def asked(self, upstream: Upstream, id_: Raw, method: str, params: Raw | None) -> None:
        """Put a wish that belongs to no request to the client, if it can be reached; not before it has begun."""
        if self.shakes and not (self.welcomed.is_set() and self.begun.is_set()):
            self.chore(self._ask_later(upstream, id_, method, params))
            return
        sink = next((each.sink for each in reversed(self.open.values()) if each.envelope is None), None)
        if sink is None and not self._aside.is_open:
            upstream.reply(id_, error=error_tree(INVALID_REQUEST, "the client cannot be asked now"))
            return
        target: Any = sink if sink is not None else StandingStream(self._aside)
        passing = self.questions.pass_on(
            target, upstream, ServerQuestion(id_, method, params), self.client_capabilities(upstream.name)
        )
        self.chore(passing)

    async def _ask_later(self, upstream: Upstream, id_: Raw, method: str, params: Raw | None) -> None:
        """Put a wish to a client that has not begun yet, or has only just: its standing stream may not be there yet."""
        await self.welcomed.wait()
        await self.begun.wait()
        for _ in range(_LOOKS):
            if not self.open and not self._aside.is_open:
                await asyncio.sleep(_LOOK_AGAIN)
        self.asked(upstream, id_, method, params)

    def opened(self, upstream: Upstream) -> None:
        """Say to a server again what holds for the session; one that keeps no state is let go of soon."""
        if not self.keeps(upstream.name):
            asyncio.get_running_loop().call_later(_LISTING, self._let_go, upstream)
        self.gateway.came_up(upstream)
        self.say_again(upstream)

    def say_again(self, upstream: Upstream) -> None:
        """Say to a server that was opened what holds for this session."""
        if self.offers.is_late(upstream.name):
            self.changed_all()
        if self.log_level is not None:
            self.chore(upstream.log(self.log_level))
        for uri in [uri for uri, server in self.subscribed.items() if server == upstream.name]:
            if self._still_shows(upstream.name, uri):
                self.chore(upstream.subscribe(uri))
            else:
                del self.subscribed[uri]

    def _let_go(self, upstream: Upstream) -> None:
        """End what was started only to be asked what it offers, once it has said so."""
        if self._upstreams.get(upstream.name) is not upstream:
            return
        if upstream.waiting:
            asyncio.get_running_loop().call_later(_LISTING, self._let_go, upstream)
        else:
            self.drop({upstream.name}, forgets=False)

    def warned(self, upstream: Upstream, warnings: list[str]) -> None:
        """Pass on what people should know about a connection."""
        self.gateway.warned(upstream, warnings)

    def gone(self, upstream: Upstream, why: str) -> None:
        """Take note that a connection is gone."""
        self.questions.gone(upstream)
        self.gateway.went_down(upstream.name, why)

    def chore(self, work: Any) -> None:
        """Do something that nobody waits for."""
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def drop(self, names: set[str], *, forgets: bool = True) -> None:
        """Let go of servers that are gone from the configuration, or are another one by now; nobody waits for it."""
        for upstream in [self._upstreams.pop(name) for name in names if name in self._upstreams]:
            if forgets:
                self.offers.forget(upstream.name)
            if not self.gateway.is_shared(upstream):
                upstream.mute()
            self._passing.add(upstream)
            self.chore(self._dropped(upstream))

    async def rest(self) -> bool:
        """End the processes that run for this client alone until it asks for them again; return whether there were any.

        One that tells it of changes to a resource stays.
        """
        resting = [
            upstream
            for name, upstream in self._upstreams.items()
            if upstream.is_up
            and not upstream.waiting
            and (name in self.apart or not self.gateway.is_shared(upstream))  # a shared one may be ours alone by now
            and name in self.servers
            and self.servers[name].transport == "stdio"
            and name not in self.subscribed.values()
        ]
        await asyncio.gather(*(upstream.rest() for upstream in resting))
        return bool(resting)

    async def _dropped(self, upstream: Upstream) -> None:
        try:
            await self.gateway.release(upstream, self)
        finally:
            self._passing.discard(upstream)

    async def close(self) -> None:
        """End the session, and what was opened for it."""
        if self._closed:
            return
        self._closed = True
        self.gateway.ended(self)
        self.parking.close()
        self.questions.close()
        self._aside.close()
        upstreams = [*self._upstreams.values(), *self._passing]
        self._upstreams.clear()
        await asyncio.gather(*(self.gateway.release(upstream, self) for upstream in upstreams))
        for task in self._chores:
            task.cancel()


async def read_or_refuse(message: bytes, sink: Sink) -> ClientMessage | None:
    """Return what a client says; None if it was refused."""
    said = read_client_message(message)
    if not isinstance(said, RefusedMessage):
        return said
    await sink.answer(*error_parts(said.id, error_tree(said.number, said.problem)), status=STATUS[said.number])
    return None


async def _quietly(work: Any) -> None:
    try:
        await work
    except DownError:
        return
