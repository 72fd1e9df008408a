"""What `/mcp` of all revisions, and `/sse` with `/messages` of the oldest, do with a request whose caller is known.

A message goes to the conversation of its session, or, in a revision without sessions, to that of its principal. What
another replica holds is passed on to it. Of a message only its method and id are looked at here; the conversation
reads it strictly. Who is calling, and whether it may: `http_front`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from byleave.gateway.http_replay import STANDING
from byleave.gateway.http_request import (
    RequestContext,
    id_of,
    is_opening,
    look_at,
    no_room,
    no_session,
    not_allowed,
    takes_events,
    too_many,
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
from byleave.gateway.interfaces import Caller, MessageContext
from byleave.gateway.revisions import HANDSHAKE, STATELESS
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from byleave.protocol.sse import ALIVE, endpoint_event

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from byleave.gateway.http_request import HttpExchange, RequestHead
    from byleave.gateway.http_sessions import HttpSession
    from byleave.gateway.interfaces import ServedGateway
    from byleave.gateway.protected_resource import Challenge
    from byleave.gateway.replicas import Replicas
    from byleave.net.http_server_exchange import Work

    class NoteRefusal(Protocol):
        """What counts and records a request that is refused for lack of room."""

        def __call__(self, exchange: HttpExchange, why: str, /, *, status: int) -> None: ...


OLD_MESSAGES = "/messages"
ENDING = "the gateway is ending here"
_MOST_OPEN = 512  # messages of one session, or of one caller without any, that are worked on at a time
_STANDING = "subscriptions/listen"  # a message whose answer is a stream that stands
_ACCEPTED = b"Accepted"
_PLAIN = b"Content-Type: text/plain\r\nCache-Control: no-store\r\n"


class McpEndpoint:
    """The sessions of clients that came over HTTP, and what their requests do."""

    def __init__(
        self,
        gateway: ServedGateway,
        replicas: Replicas | None,
        challenge: Callable[[], Challenge],
        refused: NoteRefusal,
    ) -> None:
        self._gateway = gateway
        self._replicas = replicas
        self._challenge = challenge
        self._refused = refused
        self._open_of: Counter[str] = Counter()  # messages without a session that are worked on, by principal
        self.sessions = HttpSessions(0, "" if replicas is None else replicas.own)
        self.standing = StandingRequests()
        self.is_draining = False

    @property
    def open_without_session(self) -> int:
        """How many messages that belong to no session are worked on."""
        return self._open_of.total()

    def drain(self) -> None:
        """Begin no more sessions, and send standing streams elsewhere."""
        self.is_draining = True
        self.sessions.send_streams_elsewhere()
        self.standing.send_elsewhere()

    def end_streams(self) -> None:
        """End what stands open by a proof that may count no longer."""
        self.sessions.end_streams()
        self.standing.end()

    def tick(self, now: float) -> None:
        self.sessions.tick(now)
        self.standing.end(now)

    def post(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        head = exchange.head
        message = look_at(exchange)
        if message is None:
            return None
        owner = self.owner_elsewhere(exchange)
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
                work = partial(self.standing.hold, exchange, self._proof_until(exchange, caller), work)
        return partial(self._counted, caller.principal, work)

    @staticmethod
    def _proof_until(exchange: HttpExchange, caller: Caller) -> float | None:
        return proof_until(caller, exchange.connection.now) if caller.identity == "verified" else None

    def _response(self, exchange: HttpExchange) -> PostResponse:
        return PostResponse(exchange, challenge=self._challenge())

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
            reply = ResumableResponse(exchange, self._challenge(), session.log, id_)
            work = partial(answered, exchange, reply, session.conversation, context, id_)
        return partial(_within, exchange, session, work)

    def _opening(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        if self._is_ending(exchange):
            return None
        session = self.sessions.add(caller, self._gateway.converse, exchange.connection.now)
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
                self.sessions.end(session)

    def listen(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        """Open the standing stream of a session, or go on with a stream that broke off.

        An older one ends: its client lost it, and has not noticed.
        """
        head = exchange.head
        if head.revision in STATELESS:
            not_allowed(exchange, "POST")
            return None
        if not takes_events(exchange):
            return None
        owner = self.owner_elsewhere(exchange)
        if owner:
            work = partial(self._pass_on, exchange, caller, owner)
            return partial(self.standing.hold, exchange, self._proof_until(exchange, caller), work)
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

    def delete(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        if exchange.head.revision in STATELESS:
            not_allowed(exchange, "POST")
            return None
        owner = self.owner_elsewhere(exchange)
        if owner:
            return partial(self._pass_on, exchange, caller, owner)
        session = self._named_session(exchange, caller)
        if session is not None:
            self.sessions.end(session)
            exchange.reply(200)
        return None

    def owner_elsewhere(self, exchange: HttpExchange) -> str:
        """Return the name of the replica that holds what a request is about; empty where it is served here."""
        if self._replicas is None:
            return ""
        head = exchange.head
        if head.path == OLD_MESSAGES:
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
            session = self.sessions.find(head.session, caller)
            if session is not None:
                return session
            no_session(exchange, id_)
        return None

    def old_listen(self, exchange: HttpExchange, caller: Caller) -> None:
        """Begin a session of revision 2024-11-05: it lives as long as its stream, by which everything is answered."""
        if not takes_events(exchange) or self._is_ending(exchange):
            return
        session = self.sessions.add(caller, self._gateway.converse, exchange.connection.now, is_old=True)
        if session is None:
            self._no_room(exchange)
            return
        first = endpoint_event(f"/messages?session_id={session.id}")
        until = None if caller.expires is None else proof_until(caller, exchange.connection.now)
        session.stream = EventStream(exchange, lambda _stream: self.sessions.end(session), first=first, until=until)
        session.conversation.attach(session.stream)

    def old_post(self, exchange: HttpExchange, caller: Caller) -> Work | None:
        head = exchange.head
        owner = self.owner_elsewhere(exchange)
        if owner:
            return partial(self._pass_on, exchange, caller, owner)
        session = self.sessions.find(_query(head.query).get("session_id", ""), caller, is_old=True)
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
        self._refused(exchange, "too_many", status=429)
        too_many(exchange)

    def _is_ending(self, exchange: HttpExchange) -> bool:
        """Whether no session begins here any more; then the request is refused."""
        if self.is_draining:
            exchange.refuse(503, INTERNAL_ERROR, ENDING, fields=b"Retry-After: 1\r\n")
        return self.is_draining

    def _no_room(self, exchange: HttpExchange) -> None:
        self._refused(exchange, "sessions", status=503)
        no_room(exchange)


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
