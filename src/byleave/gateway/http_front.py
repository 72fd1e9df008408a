"""The front that clients reach over HTTP: `/mcp` for all revisions, `/sse` for the oldest, `/health` and `/metrics`.

    POST   one message. `initialize` begins a session, whose id every further one names; a revision without a
           handshake needs none. The response is the answer, alone or after events; 202 where there is none.
    GET    the standing stream of a session
    DELETE the end of a session

Of a message only its method and id are looked at here; the conversation reads it strictly. Who is calling is settled
before anything else (`identity`). What it says of itself to clients without a token: `protected_resource`. How requests
and responses travel: `http_server`.

Start at `serve_http`.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from byleave.errors import InputError
from byleave.gateway.access_log import RequestWatch
from byleave.gateway.http_replay import STANDING
from byleave.gateway.http_request import (
    RequestContext,
    id_of,
    is_opening,
    look_at,
    no_room,
    no_session,
    not_allowed,
    read_mcp_head,
    takes_events,
    too_many,
    too_many_connections,
    unspoken,
)
from byleave.gateway.http_resumable import ResumableResponse
from byleave.gateway.http_sessions import (
    EventStream,
    HttpSessions,
    Opening,
    PostResponse,
    StandingRequests,
    accept,
    answered,
    proof_until,
)
from byleave.gateway.http_trust import Proxies, check_address, is_foreign
from byleave.gateway.identity import (
    ANOTHER_USER,
    FOREIGN_PAGE,
    OTHER_USER,
    Identity,
    RefusedCaller,
)
from byleave.gateway.interfaces import Caller, MessageContext
from byleave.gateway.message import error_parts, error_tree
from byleave.gateway.metrics import added_up
from byleave.gateway.protected_resource import CACHED, Challenge, ProtectedResource, resource_at
from byleave.gateway.replica_server import ReplicaServer
from byleave.gateway.revisions import HANDSHAKE, STATELESS
from byleave.net.http_admission import ServerLimits
from byleave.net.http_server import HttpServer
from byleave.net.http_server_exchange import BadRequest
from byleave.net.peers import PeerAddress, group_of
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from byleave.protocol.sse import ALIVE, endpoint_event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Protocol

    from byleave.gateway.access_log import AccessLog
    from byleave.gateway.http_request import HttpExchange, RequestHead
    from byleave.gateway.http_sessions import HttpSession
    from byleave.gateway.http_trust import Network
    from byleave.gateway.interfaces import Conversation
    from byleave.gateway.jwt_reader import Settings as JwtSettings
    from byleave.gateway.metrics import Metrics
    from byleave.gateway.replicas import Replicas
    from byleave.gateway.token_claims import AgentRule
    from byleave.net.http_server_exchange import CallerConnection, ServerRequestHead, Work

    class ServedGateway(Protocol):
        """What the front for HTTP needs of the gateway."""

        def converse(self, caller: Caller) -> Conversation:
            """Begin a session of a revision with a handshake."""

        def stateless(self, caller: Caller) -> Conversation:
            """Return the lasting conversation of this principal, for revisions without sessions."""

        @property
        def metrics(self) -> Metrics: ...

        @property
        def problem(self) -> str:
            """Why calls cannot be served now; empty while they can."""

        def token_used(self, digest: bytes, /) -> None:
            """Note that a token of ours was used, by its hash."""

        @property
        def is_spooling(self) -> bool:
            """Whether records wait on this machine for the store."""

        def metrics_text(self) -> str:
            """Return the counts in the format of Prometheus."""

        def metrics_text_for(self, agent: str | None) -> str:
            """Return those that concern one agent alone."""

        def refused(self, why: str, peer: str = "", *, status: int) -> str:
            """Count, record and trace a request that was refused before the policy was asked; return its trace."""

    class FrontSettings(Protocol):
        """`[gateway]`, compiled, as far as it concerns the front for HTTP."""

        @property
        def require_identity(self) -> bool: ...
        @property
        def max_body(self) -> int: ...
        @property
        def max_sessions(self) -> int: ...
        @property
        def max_sessions_per_caller(self) -> int: ...
        @property
        def max_connections(self) -> int: ...
        @property
        def max_connections_per_caller(self) -> int: ...
        @property
        def max_connections_per_peer(self) -> int: ...
        @property
        def trusted_proxies(self) -> tuple[Network, ...]: ...
        @property
        def proxy_header(self) -> str: ...
        @property
        def metrics_agents(self) -> tuple[str, ...]: ...
        @property
        def public_url(self) -> str | None: ...
        @property
        def jwt(self) -> JwtSettings | None: ...
        @property
        def issuers(self) -> Sequence[JwtSettings]: ...
        @property
        def identities(self) -> Sequence[AgentRule]: ...
        @property
        def scopes(self) -> Sequence[NeededScope]: ...

    class NeededScope(Protocol):
        """One of `[gateway.scopes]`, compiled."""

        @property
        def scope(self) -> str: ...
        @property
        def all(self) -> bool: ...

    Serve = Callable[["HttpFront", HttpExchange, Caller], "Work | None"]


_TEXT = b"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nCache-Control: no-store\r\n"
_HEALTH = "/health"
_HEALTHY = b'{"status":"ok"}'
_SPOOLING = b'{"status":"ok","store":"spooling"}'
_READY = "/ready"
_OLD_MESSAGES = "/messages"
_METRICS = "/metrics"
DRAIN = 20.0  # seconds for open calls to end, once the process is to end
_ENDING = "the gateway is ending here"
_MOST_OPEN = 512  # messages of one session, or of one caller without any, that are worked on at a time
_STANDING = "subscriptions/listen"  # a message whose answer is a stream that stands
_MOST_UNKNOWN = 1 << 16  # bytes of a body that may wait until the key of its token is known
_ACCEPTED = b"Accepted"
_WHY = {400: "malformed", 408: "late", 413: "too_large", 429: "too_many", 431: "too_large", 503: "connections"}
_PLAIN = b"Content-Type: text/plain\r\nCache-Control: no-store\r\n"


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
        self._sessions = HttpSessions(0, "" if replicas is None else replicas.own)
        self._open_of: Counter[str] = Counter()  # messages without a session that are worked on, by principal
        self._standing = StandingRequests()
        self._is_draining = False
        self._settings: FrontSettings | None = None
        self._resource: ProtectedResource | None = None
        self._proofs: object = None
        self._proxies = Proxies()
        self._see_all: frozenset[str] = frozenset()  # agents that see the figures of all
        self.identity = Identity(tokens={}, require=True)

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
        return len(self._sessions)

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
            self._sessions.end_streams()
            self._standing.end()
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
        self._sessions.most = settings.max_sessions
        self._sessions.most_per_caller = settings.max_sessions_per_caller

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
        self._is_draining = True
        self._sessions.send_streams_elsewhere()
        self._standing.send_elsewhere()
        until = asyncio.get_running_loop().time() + seconds
        while (calls := self._open_calls()) and (left := until - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(calls, timeout=left)

    def _open_calls(self) -> list[asyncio.Task[None]]:
        passed = () if self._for_replicas is None else self._for_replicas.working
        working = (*self._server.working, *passed)
        return [each.task for each in working if each.task is not None and each not in self._standing]

    async def close(self, *, grace: float = 5.0) -> None:
        """Finish the open requests within `grace` seconds, then end all sessions and connections."""
        ending = [self._server.close(grace=grace)]
        if self._for_replicas is not None:
            ending.append(self._for_replicas.close(grace=grace))
        await asyncio.gather(*ending)
        await self._sessions.close()
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
        self._sessions.tick(now)
        self.identity.issuers.keep_fresh()
        self._standing.end(now)

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

    def _post(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        head = exchange.head
        message = look_at(exchange)
        if message is None:
            return None
        owner = self._owner_elsewhere(exchange)
        if owner:
            return partial(self._pass_on, exchange, caller, owner, message)
        if head.revision in STATELESS:
            return self._stateless(exchange, caller, message)
        if not head.session and head.revision in ("", *HANDSHAKE) and is_opening(message):
            return self._opening(exchange, caller)
        session = self._named_session(exchange, caller, message)
        return None if session is None else self._in_session(exchange, session, caller, message)

    def _stateless(self, exchange: HttpExchange, caller: Caller, message: RequestContext) -> Work | None:
        if self._open_of[caller.principal] >= _MOST_OPEN:
            self._too_many(exchange)
            return None
        conversation, context = self._gateway.stateless(caller), _context_of(exchange.head, caller)
        if message.method is msgspec.UNSET:
            exchange.refuse(400, INVALID_REQUEST, "the message is no request and no notification", id_=id_of(message))
            return None
        if message.id is msgspec.UNSET:
            work = partial(accept, exchange, conversation, context)
        else:
            work = partial(answered, exchange, self._response(exchange), conversation, context, id_of(message))
            if message.method == _STANDING:
                work = partial(self._standing.hold, exchange, self._proof_until(exchange, caller), work)
        return partial(self._counted, caller.principal, work)

    @staticmethod
    def _proof_until(exchange: HttpExchange, caller: Caller) -> float | None:
        return proof_until(caller, exchange.connection.now) if caller.identity == "verified" else None

    def _response(self, exchange: HttpExchange) -> PostResponse:
        return PostResponse(exchange, challenge=self.identity.challenge)

    async def _counted(self, principal: str, work: Work) -> None:
        """Do what belongs to no session, counted: the answer to a notification may come before its work is done."""
        self._open_of[principal] += 1
        try:
            await work()
        finally:
            self._open_of[principal] -= 1
            if not self._open_of[principal]:
                del self._open_of[principal]

    def _in_session(
        self, exchange: HttpExchange, session: HttpSession, caller: Caller, message: RequestContext
    ) -> Work | None:
        if len(session.open) >= _MOST_OPEN:
            self._too_many(exchange)
            return None
        context = _context_of(exchange.head, caller)
        if message.method is msgspec.UNSET or message.id is msgspec.UNSET:
            work = partial(accept, exchange, session.conversation, context)
        else:
            id_ = id_of(message)
            reply = ResumableResponse(exchange, self.identity.challenge, session.log, id_)
            work = partial(answered, exchange, reply, session.conversation, context, id_)
        return partial(_within, exchange, session, work)

    def _opening(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        if self._is_ending(exchange):
            return None
        session = self._sessions.add(caller, self._gateway.converse, exchange.connection.now)
        if session is None:
            self._no_room(exchange)
            return None
        return partial(self._open, exchange, session, Opening(exchange, _session_field(session)))

    async def _open(self, exchange: HttpExchange, session: HttpSession, reply: Opening) -> None:
        context = _context_of(exchange.head, session.caller)
        session.open.add(exchange)
        try:
            await session.conversation.handle(exchange.body, reply, context)
        finally:
            session.open.discard(exchange)
            session.rests_since = exchange.connection.now
            if not reply.is_established:
                self._sessions.end(session)

    def _listen(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        """Open the standing stream of a session, or go on with a stream that broke off.

        An older one ends: its client lost it, and has not noticed.
        """
        head = exchange.head
        if head.revision in STATELESS:
            not_allowed(exchange, "POST")
            return None
        if not takes_events(exchange):
            return None
        owner = self._owner_elsewhere(exchange)
        if owner:
            work = partial(self._pass_on, exchange, caller, owner)
            return partial(self._standing.hold, exchange, self._proof_until(exchange, caller), work)
        session = self._named_session(exchange, caller)
        if session is not None:
            self._stand(exchange, session, self._proof_until(exchange, caller))
        return None

    @staticmethod
    def _stand(exchange: HttpExchange, session: HttpSession, until: float | None) -> None:
        log, fields, last = session.log, _session_field(session), exchange.head.fields.get("last-event-id", "")
        stream, after = log.place(last) or (STANDING, None)
        if stream != STANDING and after is not None:
            log.resume(exchange, stream, after, fields)
            return
        if session.stream is not None:
            session.stream.end()
        first = log.first(exchange.head.revision, STANDING, after) or ALIVE
        ended = partial(_stream_ended, session)
        session.stream = EventStream(exchange, ended, first=first, fields=fields, until=until, log=log)
        session.conversation.attach(session.stream)

    def _delete(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        if exchange.head.revision in STATELESS:
            not_allowed(exchange, "POST")
            return None
        owner = self._owner_elsewhere(exchange)
        if owner:
            return partial(self._pass_on, exchange, caller, owner)
        session = self._named_session(exchange, caller)
        if session is not None:
            self._sessions.end(session)
            exchange.reply(200)
        return None

    def _owner_elsewhere(self, exchange: HttpExchange) -> str:
        """Return the name of the replica that holds what a request is about; empty where it is served here."""
        if self._replicas is None:
            return ""
        head = exchange.head
        if head.path == _OLD_MESSAGES:
            return self._replicas.owner_of(_query(head.query).get("session_id", ""))
        if head.revision in STATELESS:
            return self._replicas.owner_of_call(exchange.body)
        return self._replicas.owner_of(head.session)

    async def _pass_on(
        self, exchange: HttpExchange, caller: Caller, owner: str, message: RequestContext | None = None
    ) -> None:
        """Have another replica answer. If it is gone, so is the session; a call that waited there is not known here."""
        id_ = id_of(message)
        if self._replicas is None or await self._replicas.pass_on(exchange, caller, owner, id_):
            return
        work = None
        if message is not None and exchange.head.revision in STATELESS:
            work = self._stateless(exchange, caller, message)
        else:
            no_session(exchange, id_)
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
        if serve is None or self._owner_elsewhere(exchange):
            no_session(exchange)
            return None
        return serve(self, exchange, caller) if self._has_room(exchange, caller) else None

    def _named_session(
        self, exchange: HttpExchange, caller: Caller, message: RequestContext | None = None
    ) -> HttpSession | None:
        """Return the session that a request names; None if it was refused."""
        head, id_ = exchange.head, id_of(message)
        if head.revision and head.revision not in HANDSHAKE:
            unspoken(exchange, id_)
        elif not head.session:
            exchange.refuse(400, INVALID_REQUEST, "the Mcp-Session-Id header is missing", id_=id_)
        else:
            session = self._sessions.find(head.session, caller)
            if session is not None:
                return session
            no_session(exchange, id_)
        return None

    def _old_listen(self, exchange: HttpExchange, caller: Caller) -> None:
        """Begin a session of revision 2024-11-05: it lives as long as its stream, by which everything is answered."""
        if not takes_events(exchange) or self._is_ending(exchange):
            return
        session = self._sessions.add(caller, self._gateway.converse, exchange.connection.now, is_old=True)
        if session is None:
            self._no_room(exchange)
            return
        first = endpoint_event(f"/messages?session_id={session.id}")
        until = None if caller.expires is None else proof_until(caller, exchange.connection.now)
        session.stream = EventStream(exchange, lambda _stream: self._sessions.end(session), first=first, until=until)
        session.conversation.attach(session.stream)

    def _old_post(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        head = exchange.head
        owner = self._owner_elsewhere(exchange)
        if owner:
            return partial(self._pass_on, exchange, caller, owner)
        session = self._sessions.find(_query(head.query).get("session_id", ""), caller, is_old=True)
        if session is None or session.stream is None:
            no_session(exchange)
            return None
        message = look_at(exchange)
        if message is None:
            return None
        if len(session.open) >= _MOST_OPEN:
            self._too_many(exchange)
            return None
        context = _context_of(head, caller)
        exchange.reply(202, _ACCEPTED, fields=_PLAIN)
        work = partial(session.conversation.handle, exchange.body, session.stream, context)
        return partial(_within, exchange, session, work)

    def _too_many(self, exchange: HttpExchange) -> None:
        self._note_refusal(exchange, "too_many", status=429)
        too_many(exchange)

    def _is_ending(self, exchange: HttpExchange) -> bool:
        """Whether no session begins here any more; then the request is refused."""
        if self._is_draining:
            exchange.refuse(503, INTERNAL_ERROR, _ENDING, fields=b"Retry-After: 1\r\n")
        return self._is_draining

    def _no_room(self, exchange: HttpExchange) -> None:
        self._note_refusal(exchange, "sessions", status=503)
        no_room(exchange)

    def _metrics(self, exchange: HttpExchange, caller: Caller) -> Work | None:
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
        elif exchange.head.path == _READY and (why := _ENDING if self._is_draining else self._gateway.problem):
            exchange.reply(503, msgspec.json.encode({"status": "not ready", "why": why}))
        elif exchange.head.path == _READY and self._gateway.is_spooling:
            exchange.reply(200, _SPOOLING)
        elif exchange.head.path in (_HEALTH, _READY) or self._resource is None:
            exchange.reply(200, _HEALTHY)
        else:
            exchange.reply(200, self._resource.document, fields=CACHED)


async def _within(exchange: HttpExchange, session: HttpSession, work: Work) -> None:
    """Do what belongs to a session; until it is done, the session does not rest."""
    session.open.add(exchange)
    try:
        await work()
    finally:
        session.open.discard(exchange)
        session.rests_since = exchange.connection.now


def _context_of(head: RequestHead, caller: Caller) -> MessageContext:
    context = head.unclaimed_context if caller.identity == "verified" else head.context
    return context if caller.scopes is None else MessageContext(context.headers, caller.scopes)


def _session_field(session: HttpSession) -> bytes:
    return b"Mcp-Session-Id: %b\r\n" % session.id.encode()


def _stream_ended(session: HttpSession, stream: EventStream) -> None:
    if session.stream is stream:
        session.stream = None
        session.rests_since = stream.now


def _query(text: str) -> dict[str, str]:
    """Return the parameters of a query as they are written; ours need no escapes. Of two the last counts."""
    return {name: value for name, _mark, value in (pair.partition("=") for pair in text.split("&"))}


_ENDPOINT: Mapping[str, Serve] = {
    "POST": HttpFront._post,  # noqa: SLF001 -- the table belongs to the class
    "GET": HttpFront._listen,  # noqa: SLF001
    "DELETE": HttpFront._delete,  # noqa: SLF001
}
_OPEN: Mapping[str, Serve] = {"GET": HttpFront._metrics}  # noqa: SLF001 -- it is never called: `_serve_open` answers
ROUTES: Mapping[str, Mapping[str, Serve]] = {
    "/mcp": _ENDPOINT,
    "/mcp/": _ENDPOINT,
    "/sse": {"GET": HttpFront._old_listen},  # noqa: SLF001
    _OLD_MESSAGES: {"POST": HttpFront._old_post},  # noqa: SLF001
    _HEALTH: _OPEN,
    _READY: _OPEN,
    _METRICS: {"GET": HttpFront._metrics},  # noqa: SLF001
}
