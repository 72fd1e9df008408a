"""The front that clients reach over HTTP: `/mcp` for all revisions, `/sse` for the oldest, `/health` and `/metrics`.

    POST   one message. `initialize` begins a session, whose id every further one names; a revision without a
           handshake needs none. The response is the answer, alone or after events; 202 where there is none.
    GET    the standing stream of a session
    DELETE the end of a session

Who is calling is settled before anything else (`identity`). What a request then does: `http_endpoint`. What the gateway
says of itself to clients without a token: `protected_resource`. How requests and responses travel: `http_server`.

Start at `serve_http`.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from byleave.errors import InputError
from byleave.gateway.access_log import RequestWatch
from byleave.gateway.http_endpoint import ENDING, OLD_MESSAGES, McpEndpoint
from byleave.gateway.http_request import (
    no_session,
    not_allowed,
    read_mcp_head,
    too_many_connections,
)
from byleave.gateway.http_trust import Proxies, check_address, is_foreign
from byleave.gateway.identity import (
    ANOTHER_USER,
    FOREIGN_PAGE,
    OTHER_USER,
    Identity,
    RefusedCaller,
)
from byleave.gateway.interfaces import Caller
from byleave.gateway.message import error_parts, error_tree
from byleave.gateway.metrics import added_up
from byleave.gateway.protected_resource import CACHED, Challenge, ProtectedResource, resource_at
from byleave.gateway.replica_server import ReplicaServer
from byleave.net.http_admission import ServerLimits
from byleave.net.http_server import HttpServer
from byleave.net.http_server_exchange import BadRequest
from byleave.net.peers import PeerAddress, group_of
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from byleave.gateway.access_log import AccessLog
    from byleave.gateway.http_request import HttpExchange, RequestHead
    from byleave.gateway.interfaces import FrontSettings, ServedGateway
    from byleave.gateway.replicas import Replicas
    from byleave.net.http_server_exchange import CallerConnection, ServerRequestHead, Work

    Serve = Callable[["HttpFront", HttpExchange, Caller], "Work | None"]


_TEXT = b"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nCache-Control: no-store\r\n"
_HEALTH = "/health"
_HEALTHY = b'{"status":"ok"}'
_SPOOLING = b'{"status":"ok","store":"spooling"}'
_READY = "/ready"
_METRICS = "/metrics"
DRAIN = 20.0  # seconds for open calls to end, once the process is to end
_MOST_UNKNOWN = 1 << 16  # bytes of a body that may wait until the key of its token is known
_WHY = {400: "malformed", 408: "late", 413: "too_large", 429: "too_many", 431: "too_large", 503: "connections"}


async def serve_http(
    gateway: ServedGateway,
    host: str,
    port: int,
    *,
    settings: FrontSettings,
    tokens: Mapping[str, tuple[str, ...]],
    bound: Collection[str] = (),
    subjects: Mapping[str, str] | None = None,
    limits: ServerLimits | None = None,
    warn: Callable[[str], None] = lambda _text: None,
    access_log: AccessLog | None = None,
    replicas: Replicas | None = None,
    reuse_port: bool = False,
) -> HttpFront:
    """Serve `gateway` at an address; an InputError or a ConfigError if that cannot be, or must not.

    `tokens`: hashes by agent. `bound`: agents that no caller may merely claim to be, beside those with tokens.
    `subjects`: agents by what the agent claim of a JWT says. `warn` gets failures of our own. With `access_log`,
    requests have ids. `replicas`: the other processes of the same gateway. `reuse_port`: some of them listen here, too.
    """
    check_address(host, has_identity=bool(settings.jwt or settings.issuers) or any(tokens.values()))
    front = HttpFront(gateway, limits or ServerLimits(), warn, access_log, replicas)
    await front.renew(settings=settings, tokens=tokens, bound=bound, subjects=subjects)
    await front.listen(host, port, reuse_port=reuse_port)
    return front


class HttpFront:
    """The front, while it is open."""

    def __init__(
        self,
        gateway: ServedGateway,
        limits: ServerLimits,
        warn: Callable[[str], None],
        access_log: AccessLog | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        self._gateway = gateway
        self._replicas = replicas
        self._access_log = access_log
        self._server: HttpServer[RequestHead] = HttpServer(self, limits, warn)
        self._for_replicas = (
            None
            if replicas is None
            else ReplicaServer(replicas.own, replicas.key, self, refused=self._no_replica, warn=warn, limits=limits)
        )
        self.endpoint: McpEndpoint = McpEndpoint(gateway, replicas, lambda: self.identity.challenge, self._note_refusal)
        self._settings: FrontSettings | None = None
        self._resource: ProtectedResource | None = None
        self._proofs: object = None
        self._proxies = Proxies()
        self._see_all: frozenset[str] = frozenset()  # agents that see the figures of all
        self.identity: Identity = Identity(tokens={}, require=True)

    @property
    def addresses(self) -> list[PeerAddress]:
        """Where it listens."""
        return self._server.addresses

    @property
    def replica_addresses(self) -> list[PeerAddress]:
        """Where it listens for other replicas."""
        return [] if self._for_replicas is None else self._for_replicas.addresses

    @property
    def session_count(self) -> int:
        return len(self.endpoint.sessions)

    @property
    def connection_count(self) -> int:
        return len(self._server.connections)

    async def renew(
        self,
        *,
        settings: FrontSettings,
        tokens: Mapping[str, tuple[str, ...]],
        bound: Collection[str] = (),
        subjects: Mapping[str, str] | None = None,
    ) -> None:
        """Take on new settings. Sessions live on. A ConfigError if they cannot be used: then no caller proves anything.

        What was good before must not stay good because something else is wrong; call it again until it works. Where
        the ways to prove who one is have changed, a standing stream that was opened by a proof ends: a caller that has
        the new one opens it again.
        """
        subjects = subjects or {}
        rest = (settings.require_identity, frozenset(bound), settings.trusted_proxies, settings.proxy_header)
        tokens_of_issuers = (settings.jwt, settings.issuers, settings.identities, settings.public_url, settings.scopes)
        proofs = (tokens_of_issuers, dict(tokens), dict(subjects), rest)
        self._proxies = Proxies(settings.trusted_proxies, settings.proxy_header)
        self._see_all = frozenset(settings.metrics_agents)
        if proofs != self._proofs:
            self._proofs = None  # until all of it holds
            before, self.identity = self.identity, Identity(tokens={}, require=True)
            self.endpoint.end_streams()
            self.identity = self._identity_by(settings, tokens, [*bound, *subjects.values()], subjects, before)
            self._settings = settings
            self._describe()
            await self.identity.issuers.open()
            self._proofs = proofs
        self._server.limit(
            structs.replace(
                self._server.limits,
                body_bytes=settings.max_body,
                connections=settings.max_connections,
                per_caller=settings.max_connections_per_caller,
                per_peer=settings.max_connections_per_peer,
            )
        )
        if self._for_replicas is not None:
            self._for_replicas.limit(body_bytes=settings.max_body, connections=settings.max_connections)
        self.endpoint.sessions.most = settings.max_sessions
        self.endpoint.sessions.most_per_caller = settings.max_sessions_per_caller

    def _identity_by(
        self,
        settings: FrontSettings,
        tokens: Mapping[str, tuple[str, ...]],
        bound: Collection[str],
        subjects: Mapping[str, str],
        before: Identity,
    ) -> Identity:
        issuers = before.issuers.renewed(
            settings.jwt,
            settings.issuers,
            subjects=subjects,
            rules=settings.identities,
            own=[agent for agent, digests in tokens.items() if digests],
        )
        identity = Identity(
            tokens=tokens,
            bound=bound,
            require=settings.require_identity,
            issuers=issuers,
            proxies=self._proxies,
            on_token=self._gateway.token_used,
        )
        if not identity.is_configured:
            for address in self.addresses:
                check_address(address.host, has_identity=False)
        return identity

    def _describe(self) -> None:
        """Say of the gateway what its settings, and the address that it listens at, make of it as a resource."""
        if self._settings is None:
            return
        scopes, issuers = self._settings.scopes, [reader.issuer for reader in self.identity.issuers]
        url, named = self._settings.public_url, [each.scope for each in scopes]
        self._resource = found = resource_at(url, self.addresses, issuers, named)
        if self._access_log is not None:
            self._access_log.further_paths = frozenset() if found is None else found.paths
        always = tuple([each.scope for each in scopes if each.all])
        self.identity.challenge = Challenge("" if found is None else found.metadata, always)

    async def listen(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        """Begin to serve; an InputError if the address cannot be had, or leads to others after all."""
        await self._listen_for_replicas(reuse_port=reuse_port)
        try:
            where = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
            await self._server.listen(where, port, reuse_port=reuse_port)
        except OSError as problem:
            raise InputError(
                f"cannot listen on {host}:{port}: {os.strerror(problem.errno or 0)}",
                hint="choose another address or port",
            ) from None
        if not self.identity.is_configured and not all(address.is_loopback for address in self.addresses):
            await self.close(grace=0)
            check_address("", has_identity=False)
        self._describe()

    def _no_replica(self, why: str, peer: str) -> None:
        self._gateway.refused(why, peer, status=403)

    async def _listen_for_replicas(self, *, reuse_port: bool) -> None:
        """Be there for the other replicas before the first client has a session."""
        if self._for_replicas is None or self._replicas is None:
            return
        at = self._replicas.at
        try:
            await self._for_replicas.listen(at.host, at.port, reuse_port=reuse_port)
        except OSError as problem:
            raise InputError(
                f"cannot listen for other replicas on {at.host}:{at.port}: {os.strerror(problem.errno or 0)}",
                hint="choose another address or port",
            ) from None
        await self._replicas.announce(self.replica_addresses[0])

    async def drain(self, *, seconds: float = DRAIN) -> None:
        """Begin no more sessions, send standing streams elsewhere, and wait until no call is open, for so long."""
        self.endpoint.drain()
        until = asyncio.get_running_loop().time() + seconds
        while (calls := self._open_calls()) and (left := until - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(calls, timeout=left)

    def _open_calls(self) -> list[asyncio.Task[None]]:
        passed = () if self._for_replicas is None else self._for_replicas.working
        working = (*self._server.working, *passed)
        return [each.task for each in working if each.task is not None and each not in self.endpoint.standing]

    async def close(self, *, grace: float = 5.0) -> None:
        """Finish the open requests within `grace` seconds, then end all sessions and connections."""
        ending = [self._server.close(grace=grace)]
        if self._for_replicas is not None:
            ending.append(self._for_replicas.close(grace=grace))
        await asyncio.gather(*ending)
        await self.endpoint.sessions.close()
        if self._replicas is not None:
            await self._replicas.close()

    def read_head(self, head: ServerRequestHead, repeated: Sequence[str]) -> RequestHead | BadRequest:
        return read_mcp_head(head, repeated)

    def error_parts(self, problem: BadRequest, id_: bytes) -> Sequence[bytes]:
        """Return the body of an error: one of JSON-RPC."""
        return error_parts(id_, error_tree(problem.code or INVALID_REQUEST, problem.problem))

    def failure(self) -> BadRequest:
        return BadRequest("the gateway failed to answer", status=500, code=INTERNAL_ERROR)

    def tick(self, now: float) -> None:
        self.endpoint.tick(now)
        self.identity.issuers.keep_fresh()

    def admit(self, connection: CallerConnection) -> BadRequest | None:
        """Note who is at the other end; where callers cannot prove who they are, turn away all but our own user."""
        remote = connection.remote
        connection.peer = None if self._proxies.has(remote.host) else group_of(remote, connection.owner)
        if self.identity.is_configured or connection.is_ours:
            return None
        self._gateway.refused(OTHER_USER, connection.peer or remote.host, status=403)
        return BadRequest(ANOTHER_USER, status=403)

    def refused(self, problem: BadRequest) -> None:
        """Count what was refused for its form, or for lack of room."""
        if self._access_log is not None:
            self._access_log.refused(problem.status)
        why = _WHY.get(problem.status)
        if why is not None:
            self._gateway.refused(why, status=problem.status)

    def screen(self, exchange: HttpExchange, length: int | None) -> None:
        """Refuse a request before its body is read: what is refused anyway takes up no room."""
        if self._access_log is not None:
            exchange.watch = self._access_log.begin(exchange.head)
        who = self.identity.who(exchange.head, exchange.connection)
        if isinstance(who, RefusedCaller):
            self._refuse(exchange, who)
        elif who is None and (length is None or length > _MOST_UNKNOWN):
            self._refuse(exchange, self.identity.unknown_key())
        elif who is not None:
            self._has_room(exchange, who)

    def _refuse(self, exchange: HttpExchange, refused: RefusedCaller) -> None:
        """Refuse a request, and note to whom: a proxy that is believed says for whom it asks."""
        connection, peer = exchange.connection, exchange.connection.peer
        if peer is None:
            proxy = connection.remote.host
            peer = group_of(PeerAddress(self._proxies.client_of(proxy, exchange.head.fields), 0), None)
            peer = f"{peer} (by {proxy})"
        self._note_refusal(exchange, refused.kind, peer, status=refused.status)
        exchange.refuse(refused.status, INVALID_REQUEST, refused.why, fields=refused.fields)

    def _note_refusal(self, exchange: HttpExchange, why: str, peer: str = "", *, status: int) -> None:
        trace = self._gateway.refused(why, peer, status=status)
        if isinstance(exchange.watch, RequestWatch):
            exchange.watch.mark.trace = trace

    def _has_room(self, exchange: HttpExchange, caller: Caller) -> bool:
        """Have the connection be this caller's; return False, having refused, where it has too many."""
        if exchange.connection.belongs_to(caller.principal):
            return True
        self._note_refusal(exchange, "connections", status=503)
        too_many_connections(exchange)
        return False

    def handle(self, exchange: HttpExchange) -> Work | None:
        """Take a request: answer it at once, or return the work that it takes."""
        head = exchange.head
        if self._access_log is not None:
            exchange.watch = self._access_log.begin(head)
        methods = ROUTES.get(head.path)
        if methods is None and self._resource is not None and head.path in self._resource.paths:
            methods = _OPEN
        if methods is None:
            exchange.refuse(404, INVALID_REQUEST, "there is nothing here; the gateway is at /mcp")
            return None
        serve = methods.get(head.method)
        if serve is None:
            not_allowed(exchange, ", ".join(methods))
            return None
        if methods is _OPEN:
            self._serve_open(exchange)
            return None
        return self._identified(exchange, serve, self.identity.who(head, exchange.connection))

    def _identified(self, exchange: HttpExchange, serve: Serve, who: Caller | RefusedCaller | None) -> Work | None:
        if type(who) is Caller:
            if self._access_log is not None and isinstance(exchange.watch, RequestWatch):
                exchange.watch.caller = who
            return serve(self, exchange, who) if self._has_room(exchange, who) else None
        if isinstance(who, RefusedCaller):
            self._refuse(exchange, who)
            return None
        return partial(self._with_new_keys, exchange, serve)

    async def _with_new_keys(self, exchange: HttpExchange, serve: Serve) -> None:
        await self.identity.refresh(exchange.head)
        identity = self.identity  # as it is by now: the settings may have changed while the issuer was asked
        who = identity.who(exchange.head, exchange.connection) or identity.unknown_key()
        work = self._identified(exchange, serve, who)
        if work is not None:
            await work()

    def serve_passed(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        """Take a request that another replica passed on, having found out who is calling. It goes no further."""
        head = exchange.head
        if head.path == _METRICS:
            exchange.reply(200, self._figures(caller).encode(), fields=_TEXT)
            return None
        methods = ROUTES.get(head.path, _OPEN)
        serve = None if methods is _OPEN else methods.get(head.method)
        if serve is None or self.endpoint.owner_elsewhere(exchange):
            no_session(exchange)
            return None
        return serve(self, exchange, caller) if self._has_room(exchange, caller) else None

    def metrics(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        """Show the figures: all of them to the user of this machine, and to agents that are named for it."""
        if self._replicas is not None and self._replicas.siblings:
            return partial(self._metrics_of_all, exchange, caller, self._replicas)
        exchange.reply(200, self._figures(caller).encode(), fields=_TEXT)
        return None

    async def _metrics_of_all(self, exchange: HttpExchange, caller: Caller, replicas: Replicas) -> None:
        """Show the figures of all processes behind this port, as those of one."""
        others = await replicas.ask_siblings(exchange.head.path, caller)
        text = added_up([self._figures(caller), *[each.decode() for each in others]])
        exchange.reply(200, text.encode(), fields=_TEXT)

    def _figures(self, caller: Caller) -> str:
        if caller.identity == "verified" and caller.agent not in self._see_all:
            return self._gateway.metrics_text_for(caller.agent)
        self._gateway.metrics.connections = self._server.admission.counts()
        self._gateway.metrics.gave_way = self._server.gave_way
        return self._gateway.metrics_text()

    def _serve_open(self, exchange: HttpExchange) -> None:
        """Say what all but foreign pages may know: that the gateway runs, and how one gets a token for it."""
        if is_foreign(exchange.head.fields):
            self._refuse(exchange, FOREIGN_PAGE)
        elif exchange.head.path == _READY and (why := ENDING if self.endpoint.is_draining else self._gateway.problem):
            exchange.reply(503, msgspec.json.encode({"status": "not ready", "why": why}))
        elif exchange.head.path == _READY and self._gateway.is_spooling:
            exchange.reply(200, _SPOOLING)
        elif exchange.head.path in (_HEALTH, _READY) or self._resource is None:
            exchange.reply(200, _HEALTHY)
        else:
            exchange.reply(200, self._resource.document, fields=CACHED)


_ENDPOINT: Mapping[str, Serve] = {
    "POST": lambda front, exchange, caller: front.endpoint.post(exchange, caller),
    "GET": lambda front, exchange, caller: front.endpoint.listen(exchange, caller),
    "DELETE": lambda front, exchange, caller: front.endpoint.delete(exchange, caller),
}
_OPEN: Mapping[str, Serve] = {"GET": HttpFront.metrics}  # it is never called: `_serve_open` answers
ROUTES: Mapping[str, Mapping[str, Serve]] = {
    "/mcp": _ENDPOINT,
    "/mcp/": _ENDPOINT,
    "/sse": {"GET": lambda front, exchange, caller: front.endpoint.old_listen(exchange, caller)},
    OLD_MESSAGES: {"POST": lambda front, exchange, caller: front.endpoint.old_post(exchange, caller)},
    _HEALTH: _OPEN,
    _READY: _OPEN,
    _METRICS: {"GET": HttpFront.metrics},
}
