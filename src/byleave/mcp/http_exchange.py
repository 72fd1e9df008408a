"""One request to the gateway, and the one response to it.

The response is a `reply` in one write, an `answer` that may be large, or a stream of events. Which connection carries
it, and what else is on it: `http_server`.
"""

from byleave.mcp.message import NO_ID, error_parts, error_tree
from byleave.wire.codes import INTERNAL_ERROR
from byleave.wire.http_body import LAST_CHUNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Sequence

    from byleave.mcp.http_connection import Connection
    from byleave.mcp.http_request import Head

_PHRASES = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
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


class Exchange:
    """One request, and the one response to it.

    `on_lost` is called if the client goes away before the response is over, `on_quiet` from time to time until then.
    """

    __slots__ = ("_state", "body", "connection", "head", "on_lost", "on_quiet", "quiet_at", "task")

    def __init__(self, connection: "Connection", head: "Head", body: bytes, quiet_at: float) -> None:
        self.connection = connection
        self.head = head
        self.body = body
        self.task: Task[None] | None = None
        self.on_lost: Callable[[], None] | None = None
        self.on_quiet: Callable[[], None] | None = None
        self.quiet_at = quiet_at
        self._state = _WAITING

    @property
    def is_over(self) -> bool:
        """Whether the response is complete, or nobody is there to read it."""
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
        """Give a whole response that may be large; return when it is on its way."""
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

    def refuse(self, status: int, code: int, problem: str, *, fields: bytes = b"", id_: bytes = NO_ID) -> None:
        """Reply with an error of JSON-RPC."""
        self.reply(status, *error_parts(id_, error_tree(code, problem)), fields=fields + JSON)

    def begin_events(self, first: "Sequence[bytes]", *, fields: bytes = b"") -> None:
        """Make the response a stream of events, and write the pieces of the first one."""
        if self._state != _WAITING:
            return
        self._state = _STREAMING
        framing = CLOSE if self.head.is_old else b"Transfer-Encoding: chunked\r\n"
        keep = b"" if self.head.is_old or self.connection.keeps(self.head) else CLOSE
        self._write(first, b"%b%b%b%b%b\r\n" % (LINES[200], fields, _EVENTS, framing, keep))

    def write_event(self, pieces: "Sequence[bytes]") -> None:
        """Write the pieces of one event; they stay together."""
        if self._state == _STREAMING:
            self._write(pieces, b"")

    def _write(self, pieces: "Sequence[bytes]", start: bytes) -> None:
        size = sum(map(len, pieces))
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
        """Say that something went wrong here, if the response leaves room for it."""
        if self._state == _STREAMING:
            self.end_events()
        elif self._state == _ANSWERING:
            self.connection.abort()
        else:
            self.refuse(500, INTERNAL_ERROR, "the gateway failed to answer")

    def lose(self) -> None:
        """Learn that the client is gone."""
        if self._state == _OVER:
            return
        self._state = _OVER
        if self.on_lost is not None:
            self.on_lost()
        if self.task is not None:
            self.task.cancel()

    def _start(self, status: int, size: int, fields: bytes) -> bytes:
        keep = b"" if self.connection.keeps(self.head) else CLOSE
        return b"%b%b%bContent-Length: %d\r\n\r\n" % (LINES[status], fields, keep, size)

    def _finish(self) -> None:
        self._state = _OVER
        self.connection.finished(self)
