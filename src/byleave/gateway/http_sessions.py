"""The sessions of clients that came over HTTP: found by an id that cannot be guessed, by their own principal only.

There are so many and no more, of one principal and of all. Where there is no room, the session that rested longest
makes some: one of the principal that holds most of them, so that no principal can push others out. One that was
not used for long ends by itself.

Where the gateway's messages to a client of HTTP go: the response to one POST, or a stream that stands open.

An answer that comes alone is plain JSON, in one write. Where something else has to be said first, or nothing was said
for long, the response becomes a stream of events and ends with the answer. A client that takes JSON only gets nothing
but the answer: `send` says that nothing else can go out.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from asyncio import CancelledError, get_running_loop
from collections import Counter, OrderedDict
from math import inf
from typing import TYPE_CHECKING

import msgspec

from byleave.gateway.http_replay import STANDING, ReplayLog, ReplayRoom
from byleave.gateway.interfaces import held_by
from byleave.gateway.message import error_parts, error_tree
from byleave.net.http_server_exchange import JSON
from byleave.protocol.sse import ALIVE, message_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from byleave.gateway.http_request import HttpExchange
    from byleave.gateway.interfaces import Caller, Conversation, MessageContext
    from byleave.gateway.protected_resource import Challenge
    from byleave.net.http_server_exchange import Work


LONGEST_REST = 1800.0  # seconds without an open stream
_ID_BYTES = 24
_PATIENCE = 10.0  # seconds for what a session opened to end


class HttpSession:
    """One session: its conversation, whose it is, what is open in it, and since when nothing was."""

    __slots__ = ("caller", "conversation", "id", "is_old", "log", "open", "rests_since", "stream")

    def __init__(
        self, id_: str, conversation: Conversation, caller: Caller, now: float, log: ReplayLog, *, is_old: bool
    ) -> None:
        self.id = id_
        self.log = log
        self.conversation = conversation
        self.caller = caller
        self.is_old = is_old  # of revision 2024-11-05: all that is said goes through its stream
        self.open: set[HttpExchange] = set()
        self.rests_since = now
        self.stream: EventStream | None = None

    @property
    def is_resting(self) -> bool:
        return not self.open and self.stream is None


class HttpSessions:
    """All sessions, the one that was used last at the end."""

    def __init__(self, most: int, replica: str = "") -> None:
        """`replica` is the name of this process among those of one gateway, with which ids begin."""
        self.most = most
        self.most_per_caller = most
        self._replica = replica
        self._by_id: OrderedDict[str, HttpSession] = OrderedDict()
        self._held: Counter[str] = Counter()
        self._room = ReplayRoom()
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    def add(
        self, caller: Caller, begin: Callable[[Caller], Conversation], now: float, *, is_old: bool = False
    ) -> HttpSession | None:
        """Begin a session; None if there is no room for one."""
        while self._held[caller.principal] >= self.most_per_caller:
            going = next((each for each in self._of(caller.principal) if each.is_resting), None)
            if going is None:
                return None
            self.end(going)
        while len(self._by_id) >= self.most:
            going = self._longest_resting() or self._one_of_many(caller)
            if going is None:
                return None
            self.end(going)
        id_ = held_by(self._replica, secrets.token_urlsafe(_ID_BYTES))
        session = HttpSession(id_, begin(caller), caller, now, ReplayLog(self._room), is_old=is_old)
        self._by_id[session.id] = session
        self._held[caller.principal] += 1
        return session

    def find(self, id_: str, caller: Caller, *, is_old: bool = False) -> HttpSession | None:
        """Return a session of this principal; one of another is as good as none."""
        session = self._by_id.get(id_)
        if session is None or session.caller.principal != caller.principal or session.is_old != is_old:
            return None
        self._by_id.move_to_end(id_)
        return session

    def end(self, session: HttpSession) -> None:
        """Forget a session at once, and end what it opened soon."""
        if self._by_id.pop(session.id, None) is None:
            return
        self._held[session.caller.principal] -= 1
        if not self._held[session.caller.principal]:
            del self._held[session.caller.principal]
        if session.stream is not None:
            session.stream.end()
        session.log.close()
        for exchange in list(session.open):
            if exchange.task is not None:
                exchange.task.cancel()
        task = asyncio.create_task(_closed(session.conversation))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def tick(self, now: float) -> None:
        """End the sessions that rested too long."""
        late = [each for each in self._by_id.values() if each.is_resting and now >= each.rests_since + LONGEST_REST]
        for session in late:
            self.end(session)

    def end_streams(self) -> None:
        """End the standing streams of all who proved who they are: they have to prove it again."""
        for session in list(self._by_id.values()):
            if session.stream is not None and session.caller.identity == "verified":
                session.stream.end()

    def send_streams_elsewhere(self) -> None:
        """End all standing streams; what comes for their clients waits until they have opened others."""
        for session in list(self._by_id.values()):
            if session.stream is not None:
                session.stream.end(come_back())

    async def close(self) -> None:
        """End all sessions, and wait until they have ended."""
        for session in list(self._by_id.values()):
            self.end(session)
        if self._ending:
            await asyncio.wait(self._ending)

    def _longest_resting(self) -> HttpSession | None:
        resting = [each for each in self._by_id.values() if each.is_resting]
        return max(resting, key=lambda each: self._held[each.caller.principal], default=None)

    def _one_of_many(self, caller: Caller) -> HttpSession | None:
        """Return the longest unused session of the principal that holds most, if that is another one and holds more."""
        principal, held = self._held.most_common(1)[0]
        if held <= self._held[caller.principal] + 1 or principal == caller.principal:
            return None
        return next(self._of(principal))

    def _of(self, principal: str) -> Iterator[HttpSession]:
        return (each for each in self._by_id.values() if each.caller.principal == principal)


async def _closed(conversation: Conversation) -> None:
    # Whatever it was that did not end: the session is gone already.
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_PATIENCE):
            await conversation.close()


_UNAUTHORIZED = 401
CANCELLED = -32800  # what the official SDK answers to a request that was withdrawn
_SOON = 0.05  # seconds after which a client need not wait for what its notification sets off
_BACK_SOONEST = 500  # milliseconds
_LONGEST_PROOF = 3600.0  # seconds for which a stream stands before its client has to prove itself again


class PostResponse:
    """The response to one POST, for as long as its request is open. `fields` go with it, as lines of its head.

    `challenge` writes the header for a client whose token does not do.
    """

    __slots__ = ("_challenge", "_exchange", "_fields")

    def __init__(self, exchange: HttpExchange, fields: bytes = b"", challenge: Challenge | None = None) -> None:
        self._exchange = exchange
        self._fields = fields
        self._challenge = challenge
        if exchange.head.takes_events:
            exchange.on_quiet = self._stay

    def is_open(self) -> bool:
        return not self._exchange.is_over

    async def send(self, *parts: bytes) -> bool:
        """Send a message that is not the answer; return whether it could go out."""
        exchange = self._exchange
        if exchange.is_over or not exchange.head.takes_events:
            return False
        await exchange.connection.drained()
        self._write(message_event(parts))
        return not exchange.is_over

    async def answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:
        """Send the answer, which ends the response."""
        exchange, challenge = self._exchange, self._challenge
        if scopes and challenge is not None and not exchange.is_streaming:
            fields = challenge.no_token(scopes) if status == _UNAUTHORIZED else challenge.few_scopes(scopes)
            exchange.reply(status, *parts, fields=self._fields + fields + JSON)
            return
        if exchange.head.takes_json and not exchange.is_streaming:
            await exchange.answer(status, *parts, fields=self._fields + JSON)
            return
        await exchange.connection.drained()
        self._write(message_event(parts))
        exchange.end_events()

    def withdraw(self, id_: bytes) -> None:
        """End a response whose answer never came."""
        if self._exchange.is_over:
            return
        self._exchange.end_events()
        self._exchange.reply(200, *error_parts(id_, error_tree(CANCELLED, "the request was withdrawn")))

    def _stay(self) -> None:
        if not self._exchange.connection.is_stalled:
            self._write(ALIVE)

    def _write(self, pieces: Sequence[bytes]) -> None:
        if self._exchange.is_streaming:
            self._exchange.write_event(pieces)
        else:
            self._exchange.begin_events(pieces, fields=self._fields)


class Opening(PostResponse):
    """The response to `initialize`: the session's id goes with it, unless the answer is an error."""

    __slots__ = ("is_established",)

    def __init__(self, exchange: HttpExchange, fields: bytes) -> None:
        super().__init__(exchange, fields)
        self.is_established = False

    async def answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:
        whole = b"".join(parts)
        self.is_established = not _is_error(whole) and self.is_open()
        if not self.is_established:
            self._fields = b""
        await super().answer(whole, status=status, scopes=scopes)


class Receipt(PostResponse):
    """The response to a notification, or to an answer of the client: there is something to say only if it is wrong."""

    __slots__ = ()

    def __init__(self, exchange: HttpExchange) -> None:
        super().__init__(exchange)
        exchange.on_quiet = None

    async def send(self, *_parts: bytes) -> bool:
        return False

    async def answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:  # noqa: ARG002
        self._exchange.reply(max(status, 400), *parts)


class EventStream:
    """A response that stays open, for what belongs to no request. `on_end` is called once, however it ends.

    `until`: when the proof by which it was opened ends, and the stream with it. `log` keeps what is sent, where the
    client may come back for what it has missed.
    """

    def __init__(
        self,
        exchange: HttpExchange,
        on_end: Callable[[EventStream], None],
        *,
        first: Sequence[bytes] = ALIVE,
        fields: bytes = b"",
        until: float | None = None,
        log: ReplayLog | None = None,
    ) -> None:
        self._exchange = exchange
        self._log = log
        self._on_end: Callable[[EventStream], None] | None = on_end
        self._until = until
        exchange.on_lost = self._ended
        exchange.on_quiet = self._stay
        exchange.begin_events(first, fields=fields)

    def is_open(self) -> bool:
        return not self._exchange.is_over

    @property
    def now(self) -> float:
        return self._exchange.connection.now

    async def send(self, *parts: bytes) -> bool:
        if self._is_late:
            self.end()
        if self._exchange.is_over:
            return False
        await self._exchange.connection.drained()
        if self._exchange.is_over:
            return False
        self._exchange.write_event(message_event(parts) if self._log is None else self._log.keep(STANDING, parts))
        return True

    async def answer(
        self,
        *parts: bytes,
        status: int = 200,  # noqa: ARG002 -- here it is one of many
        scopes: tuple[str, ...] = (),  # noqa: ARG002
    ) -> None:
        await self.send(*parts)

    def end(self, last: Sequence[bytes] = ()) -> None:
        """End it; `last` are the pieces of a last event."""
        if last:
            self._exchange.write_event(last)
        self._exchange.end_events()
        self._ended()

    @property
    def _is_late(self) -> bool:
        return self._until is not None and self._exchange.connection.now >= self._until

    def _stay(self) -> None:
        if self._is_late:
            self.end()
        elif not self._exchange.connection.is_stalled:
            self._exchange.write_event(ALIVE)

    def _ended(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)


def come_back() -> list[bytes]:
    """Return the event that has a client open its stream again soon; not all of them at the same moment."""
    return [b"retry: %d\n\n" % (_BACK_SOONEST + secrets.randbelow(_BACK_SOONEST))]


def proof_until(caller: Caller, now: float) -> float:
    """Return when a caller who has proved who it is has to prove it again: not later than its token expires."""
    left = _LONGEST_PROOF if caller.expires is None else caller.expires - time.time()
    return now + min(_LONGEST_PROOF, left)


class StandingRequests:
    """Requests whose responses stay open for as long as the client likes: until the proof of the caller ends.

    Those of clients without a session, and streams that another replica writes. None: there was no proof.
    """

    def __init__(self) -> None:
        self._until: dict[HttpExchange, float | None] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, exchange: object) -> bool:
        return exchange in self._until

    async def hold(self, exchange: HttpExchange, until: float | None, work: Work) -> None:
        """Do the work of such a request."""
        self._until[exchange] = until
        try:
            await work()
        finally:
            del self._until[exchange]

    def end(self, now: float = inf) -> None:
        """End those whose proof has ended by now; all of them, if the proofs themselves have changed."""
        for exchange, until in list(self._until.items()):
            if until is not None and now >= until and exchange.task is not None:
                exchange.task.cancel()

    def send_elsewhere(self) -> None:
        """End all of them, and have their clients come back, to another replica."""
        for exchange in list(self._until):
            exchange.write_event(come_back())
            if exchange.task is not None:
                exchange.task.cancel()


class _Outcome(msgspec.Struct):
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OUTCOME = msgspec.json.Decoder(_Outcome)


def _is_error(message: bytes) -> bool:
    try:
        return _OUTCOME.decode(message).error is not msgspec.UNSET
    except (ValueError, RecursionError):
        return True


async def answered(
    exchange: HttpExchange, reply: PostResponse, conversation: Conversation, context: MessageContext, id_: bytes
) -> None:
    """Let a request be answered."""
    try:
        await conversation.handle(exchange.body, reply, context)
    except CancelledError:
        reply.withdraw(id_)
        raise
    reply.withdraw(id_)


async def accept(exchange: HttpExchange, conversation: Conversation, context: MessageContext) -> None:
    """Take a notification or an answer, and accept it (202) when that is done, or soon anyway."""
    timer = get_running_loop().call_later(_SOON, exchange.reply, 202)
    try:
        await conversation.handle(exchange.body, Receipt(exchange), context)
    finally:
        timer.cancel()
    exchange.reply(202)
