"""One request to an HTTP server, and the one response to it.

The response is a `reply` in one write, an `answer` that may be large, or a stream of events. Which connection carries
it, and what else is on it: `http_server_connection`. What is served: an `HttpApplication`, which writes the bodies of
errors and reads from a head what concerns it.

Start at `ServerExchange`. Reading a head: `read_head`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from msgspec import Struct

from byleave.protocol.http_body import LAST_CHUNK
from byleave.protocol.http_head import NO_BODY, BadHead, read_request

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from byleave.net.peers import PeerAddress, SocketOwner
    from byleave.protocol.http_head import Framing

    Work = Callable[[], Coroutine[Any, Any, None]]


class BadRequest(Struct, frozen=True):
    """Why a request is refused: one sentence, the status of HTTP, and a code of the application's own."""

    problem: str
    status: int = 400
    code: int = 0  # the application's usual one


class ServerRequestHead(Struct, frozen=True):
    """One request without its body; applications add what they read in it. `fields` have lower-case names."""

    method: str
    path: str
    query: str
    fields: Mapping[str, str]
    keeps_alive: bool
    expects: bool
    is_old: bool  # of HTTP/1.0


HeadT = TypeVar("HeadT", bound=ServerRequestHead)


class CallerConnection(Protocol):
    """The connection that a request came on, as far as an exchange and an application need it."""

    peer: str | None  # the name by which the other end is counted; None for a proxy, which stands for many

    @property
    def remote(self) -> PeerAddress: ...

    @property
    def local(self) -> PeerAddress: ...

    @property
    def owner(self) -> SocketOwner | None: ...

    @property
    def is_ours(self) -> bool: ...

    @property
    def now(self) -> float: ...

    @property
    def is_stalled(self) -> bool: ...

    def belongs_to(self, principal: str) -> bool: ...

    def keeps(self, head: ServerRequestHead) -> bool: ...

    def write(self, data: bytes | memoryview) -> None: ...

    async def write_piecewise(self, part: bytes) -> None: ...

    async def drained(self) -> None: ...

    def finished(self, head: ServerRequestHead) -> None: ...

    def abort(self) -> None: ...


class ExchangeWatch(Protocol):
    """Who wants to know what became of one request."""

    size: int  # bytes of the response's body

    def began(self, status: int, size: int) -> bytes:
        """Learn how the response begins; return lines that its head is to have."""

    def ended(self, *, is_lost: bool = False) -> None:
        """Learn that the response is complete, or the client gone."""


class HttpApplication(Protocol[HeadT]):
    """What an HTTP server serves. The server calls it in its event loop; only the work that it returns may wait."""

    def read_head(self, head: ServerRequestHead, repeated: Sequence[str]) -> HeadT | BadRequest:
        """Return the head with what the application reads in it. `repeated` are the names of joined fields.

        What it returns stands for every head of the same connection that differs from this one in its length alone.
        """

    def admit(self, connection: CallerConnection) -> BadRequest | None:
        """Return why a new connection is turned away; None to take it on."""

    def screen(self, exchange: ServerExchange[HeadT], length: int | None) -> None:
        """Look at a request before its body is read; a reply given here ends it."""

    def handle(self, exchange: ServerExchange[HeadT]) -> Work | None:
        """Reply to a request, or return the work that replies to it."""

    def error_parts(self, problem: BadRequest, id_: bytes) -> Sequence[bytes]:
        """Return the body of an error, which is JSON."""

    def failure(self) -> BadRequest:
        """Return what a client gets when the application failed."""

    def refused(self, problem: BadRequest) -> None:
        """Note that the server refused a request or a connection by itself."""

    def tick(self, now: float) -> None:
        """Do what time makes necessary."""


_PHRASES = {
    200: "OK",
    202: "Accepted",
    303: "See Other",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
LINES = {status: f"HTTP/1.1 {status} {phrase}\r\n".encode() for status, phrase in _PHRASES.items()}
JSON = b"Content-Type: application/json\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
_NOTHING = b"Cache-Control: no-store\r\n"
_EVENTS = (
    b"Content-Type: text/event-stream\r\nCache-Control: no-cache, no-store, no-transform\r\n"
    b"X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\n"
)
CLOSE = b"Connection: close\r\n"

_AT_ONCE = 1 << 16  # bytes that are joined for one write; copying more costs more than a second write

_WAITING, _ANSWERING, _STREAMING, _OVER = range(4)


class ServerExchange(Generic[HeadT]):
    """One request, and the one response to it.

    `on_lost` is called if the client goes away before the response is over, `on_quiet` from time to time until then.
    The client's going away cancels the task, unless `outlives` is set by then.
    """

    __slots__ = (
        "_application",
        "_state",
        "body",
        "connection",
        "head",
        "on_lost",
        "on_quiet",
        "outlives",
        "quiet_at",
        "task",
        "watch",
    )

    def __init__(
        self,
        application: HttpApplication[HeadT],
        connection: CallerConnection,
        head: HeadT,
        body: bytes,
        quiet_at: float,
    ) -> None:
        self.connection = connection
        self._application = application
        self.head = head
        self.body = body
        self.task: Task[None] | None = None
        self.on_lost: Callable[[], None] | None = None
        self.on_quiet: Callable[[], None] | None = None
        self.outlives = False
        self.quiet_at = quiet_at
        self.watch: ExchangeWatch | None = None
        self._state = _WAITING

    @property
    def is_over(self) -> bool:
        """Whether the response is complete, or the client is gone."""
        return self._state == _OVER

    @property
    def is_streaming(self) -> bool:
        return self._state == _STREAMING

    def reply(self, status: int, *parts: bytes, fields: bytes = JSON) -> None:
        """Give a whole response, in one write. If there is one already, nothing happens."""
        if self._state != _WAITING:
            return
        start = self._start(status, sum(map(len, parts)), fields if parts else fields.replace(JSON, _NOTHING))
        self.connection.write(start if self.head.method == "HEAD" else b"".join((start, *parts)))
        self._finish()

    async def answer(self, status: int, *parts: bytes, fields: bytes = JSON) -> None:
        """Give a whole response that may be large; return when all of it is written."""
        size = sum(map(len, parts))
        if size <= _AT_ONCE:
            self.reply(status, *parts, fields=fields)
            return
        if self._state != _WAITING:
            return
        self._state = _ANSWERING
        self.connection.write(self._start(status, size, fields))
        try:
            for part in parts:
                await self.connection.write_piecewise(part)
        except BaseException:  # a response that breaks off must not look complete
            self.connection.abort()
            raise
        self._finish()

    def refuse(self, status: int, code: int, problem: str, *, fields: bytes = b"", id_: bytes = b"null") -> None:
        """Reply with an error, as the application writes it; `id_` is that of the message in question."""
        self.reply(status, *self._application.error_parts(BadRequest(problem, status, code), id_), fields=fields + JSON)

    def begin_events(self, first: Sequence[bytes], *, fields: bytes = b"") -> None:
        """Make the response a stream of events, and write the pieces of the first one."""
        if self._state != _WAITING:
            return
        self._state = _STREAMING
        if self.watch is not None:
            fields += self.watch.began(200, 0)
        framing = CLOSE if self.head.is_old else b"Transfer-Encoding: chunked\r\n"
        keep = b"" if self.head.is_old or self.connection.keeps(self.head) else CLOSE
        self._write(first, b"%b%b%b%b%b\r\n" % (LINES[200], fields, _EVENTS, framing, keep))

    def write_event(self, pieces: Sequence[bytes]) -> None:
        """Write the pieces of one event; they stay together."""
        if self._state == _STREAMING:
            self._write(pieces, b"")

    def _write(self, pieces: Sequence[bytes], start: bytes) -> None:
        size = sum(map(len, pieces))
        if self.watch is not None:
            self.watch.size += size
        framed = (start, *pieces) if self.head.is_old else (start, b"%x\r\n" % size, *pieces, b"\r\n")
        for piece in (b"".join(framed),) if size <= _AT_ONCE else framed:
            self.connection.write(piece)

    def end_events(self) -> None:
        """End the stream, and with it the response."""
        if self._state != _STREAMING:
            return
        if not self.head.is_old:
            self.connection.write(LAST_CHUNK)
        self._finish()

    def fail(self) -> None:
        """Report a failure of our own to the client, if the response leaves room for it."""
        if self._state == _STREAMING:
            self.end_events()
        elif self._state == _ANSWERING:
            self.connection.abort()
        else:
            failure = self._application.failure()
            self.refuse(failure.status, failure.code, failure.problem)

    def lose(self) -> None:
        """Note that the client is gone."""
        if self._state == _OVER:
            return
        self._state = _OVER
        if self.watch is not None:
            self.watch.ended(is_lost=True)
        if self.on_lost is not None:
            self.on_lost()
        if self.task is not None and not self.outlives:
            self.task.cancel()

    def _start(self, status: int, size: int, fields: bytes) -> bytes:
        keep = b"" if self.connection.keeps(self.head) else CLOSE
        if self.watch is not None:
            fields += self.watch.began(status, size)
        return b"%b%b%bContent-Length: %d\r\n\r\n" % (LINES[status], fields, keep, size)

    def _finish(self) -> None:
        self._state = _OVER
        if self.watch is not None:
            self.watch.ended()
        self.connection.finished(self.head)


# With two of them, two readers may take two different ones.
_ONCE = frozenset(
    {"authorization", "content-encoding", "content-length", "content-type", "expect", "host", "last-event-id", "origin"}
    | {"sec-fetch-site", "transfer-encoding"}
)
_MOST_FIELDS = 128  # each costs more to read than to send


def read_head(head: bytes, application: HttpApplication[HeadT]) -> tuple[HeadT, Framing] | BadRequest:
    """Return what `head` (up to its empty line) requests and where its body ends, or why it is refused.

    `protocol.http_head` refuses what two programs could read differently; here follow fields that must not be given
    twice, the path, the host and the content encoding; then what the application reads. Heads hold credentials: none is
    remembered but the last one of a connection, as long as that is open.
    """
    if head.count(b"\r\n") > _MOST_FIELDS + 2:
        return BadRequest("the head has too many fields", status=431)
    request = read_request(head)
    if isinstance(request, BadHead):
        return BadRequest(request.problem)
    if not request.target.startswith("/") or "#" in request.target:
        return BadRequest("the first line does not name a path of this server")
    found: dict[str, str] = {}
    repeated: list[str] = []
    for field, value in request.fields:
        name = field.lower()
        if name not in found:
            found[name] = value
        elif name in _ONCE:
            return BadRequest(f"the {field} header appears more than once")
        else:
            repeated.append(field)
            found[name] = f"{found[name]}, {value}"
    if request.minor == 1 and "host" not in found:
        return BadRequest("the Host header is missing")
    if found.get("content-encoding", "identity").lower() != "identity":
        return BadRequest("a body is sent as it is, without a content encoding", status=415)
    found.pop("content-length", None)  # the framing says it
    path, _mark, query = request.target.partition("?")
    plain = ServerRequestHead(
        request.method,
        path,
        query,
        MappingProxyType(found),
        keeps_alive=request.minor == 1
        and not ("connection" in found and _closes(found["connection"]))
        and not ("proxy-connection" in found and _closes(found["proxy-connection"])),
        expects=request.minor == 1 and "expect" in found,
        is_old=request.minor == 0,
    )
    read = application.read_head(plain, repeated)
    return read if isinstance(read, BadRequest) else (read, request.framing or NO_BODY)


def _closes(connection: str) -> bool:
    return "close" in [word.strip(" \t") for word in connection.lower().split(",")]
