"""Where the gateway's messages to a client of HTTP go: the response to one POST, or a stream that stands open.

An answer that comes alone is plain JSON, in one write. Where something else has to be said first, or nothing was said
for long, the response becomes a stream of events and ends with the answer. A client that takes JSON only gets nothing
but the answer: `send` says that nothing else can go out.
"""

from asyncio import CancelledError, get_running_loop

import msgspec

from byleave.mcp.http_exchange import JSON
from byleave.mcp.message import error_parts, error_tree
from byleave.mcp.sse import ALIVE, message_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from byleave.mcp.ends import Conversation, Told
    from byleave.mcp.http_exchange import Exchange

CANCELLED = -32800  # what the official SDK answers to a request that was withdrawn
_SOON = 0.05  # seconds after which a client need not wait for what its notification sets off
_LONGEST_PROOF = 3600.0  # seconds for which a stream stands before its client has to prove itself again


class Reply:
    """The response to one POST, for as long as its request is open. `fields` go with it, as lines of its head."""

    __slots__ = ("_exchange", "_fields")

    def __init__(self, exchange: "Exchange", fields: bytes = b"") -> None:
        self._exchange = exchange
        self._fields = fields
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

    async def answer(self, *parts: bytes, status: int = 200) -> None:
        """Send the answer, which ends the response."""
        exchange = self._exchange
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

    def _write(self, pieces: "Sequence[bytes]") -> None:
        if self._exchange.is_streaming:
            self._exchange.write_event(pieces)
        else:
            self._exchange.begin_events(pieces, fields=self._fields)


class Opening(Reply):
    """The response to `initialize`: the session's id goes with it, unless the answer is an error."""

    __slots__ = ("is_established",)

    def __init__(self, exchange: "Exchange", fields: bytes) -> None:
        super().__init__(exchange, fields)
        self.is_established = False

    async def answer(self, *parts: bytes, status: int = 200) -> None:
        whole = b"".join(parts)
        self.is_established = not _is_error(whole) and self.is_open()
        if not self.is_established:
            self._fields = b""
        await super().answer(whole, status=status)


class Receipt(Reply):
    """The response to a notification, or to an answer of the client: there is something to say only if it is wrong."""

    __slots__ = ()

    def __init__(self, exchange: "Exchange") -> None:
        super().__init__(exchange)
        exchange.on_quiet = None

    async def send(self, *_parts: bytes) -> bool:
        return False

    async def answer(self, *parts: bytes, status: int = 200) -> None:
        self._exchange.reply(max(status, 400), *parts)


class Stream:
    """A response that stays open, for what belongs to no request. `on_end` is called once, however it ends."""

    def __init__(
        self,
        exchange: "Exchange",
        on_end: "Callable[[Stream], None]",
        *,
        first: "Sequence[bytes]" = ALIVE,
        fields: bytes = b"",
        is_proven: bool = False,
    ) -> None:
        self._exchange = exchange
        self._on_end: Callable[[Stream], None] | None = on_end
        self._until = exchange.connection.now + _LONGEST_PROOF if is_proven else None
        exchange.on_lost = self._ended
        exchange.on_quiet = self._stay
        exchange.begin_events(first, fields=fields)

    def is_open(self) -> bool:
        return not self._exchange.is_over

    @property
    def now(self) -> float:
        return self._exchange.connection.now

    async def send(self, *parts: bytes) -> bool:
        if self._exchange.is_over:
            return False
        await self._exchange.connection.drained()
        self._exchange.write_event(message_event(parts))
        return not self._exchange.is_over

    async def answer(self, *parts: bytes, status: int = 200) -> None:  # noqa: ARG002 -- here it is one of many
        await self.send(*parts)

    def end(self) -> None:
        self._exchange.end_events()
        self._ended()

    def _stay(self) -> None:
        if self._until is not None and self._exchange.connection.now >= self._until:
            self.end()
        elif not self._exchange.connection.is_stalled:
            self._exchange.write_event(ALIVE)

    def _ended(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)


class _Outcome(msgspec.Struct):
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OUTCOME = msgspec.json.Decoder(_Outcome)


def _is_error(message: bytes) -> bool:
    try:
        return _OUTCOME.decode(message).error is not msgspec.UNSET
    except (ValueError, RecursionError):
        return True


async def answered(exchange: "Exchange", reply: Reply, conversation: "Conversation", told: "Told", id_: bytes) -> None:
    """Let a request be answered."""
    try:
        await conversation.handle(exchange.body, reply, told)
    except CancelledError:
        reply.withdraw(id_)
        raise
    reply.withdraw(id_)


async def heard(exchange: "Exchange", conversation: "Conversation", told: "Told") -> None:
    """Let a notification or an answer be heard. The client learns of it when that is done, or soon anyway."""
    timer = get_running_loop().call_later(_SOON, exchange.reply, 202)
    try:
        await conversation.handle(exchange.body, Receipt(exchange), told)
    finally:
        timer.cancel()
    exchange.reply(202)
