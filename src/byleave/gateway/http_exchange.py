"""One request to the gateway, and the one response to it.

The response is a `reply` in one write, an `answer` that may be large, or a stream of events. Which connection carries
it, and what else is on it: `http_server`.

What the head of a request to the gateway says, read once and to the letter. Pure.

`protocol.http_head` refuses what two programs could read differently; here follows what is ours: fields that must not
be given twice, the path, what the client accepts, and the fields that speak of MCP. A client sends the same head again
and again, but for the length of the body, so heads are remembered by their bytes without it; who is calling is asked
anew each time.

Start at `read_head`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.gateway.http_trust import passed_on_by
from byleave.gateway.interfaces import MessageContext
from byleave.gateway.message import NO_ID, error_parts, error_tree
from byleave.gateway.revisions import HEADER_MISMATCH
from byleave.protocol.http_body import LAST_CHUNK
from byleave.protocol.http_head import LONGEST_LENGTH, NO_BODY, BadHead, Framing, read_request
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Mapping, Sequence

    from byleave.gateway.http_server_connection import ServerConnection
    from byleave.protocol.http_head import Fields, HttpRequestHead


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


class HttpExchange:
    """One request, and the one response to it.

    `on_lost` is called if the client goes away before the response is over, `on_quiet` from time to time until then.
    """

    __slots__ = ("_state", "body", "connection", "head", "on_lost", "on_quiet", "quiet_at", "task")

    def __init__(self, connection: ServerConnection, head: RequestHead, body: bytes, quiet_at: float) -> None:
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

    def begin_events(self, first: Sequence[bytes], *, fields: bytes = b"") -> None:
        """Make the response a stream of events, and write the pieces of the first one."""
        if self._state != _WAITING:
            return
        self._state = _STREAMING
        framing = CLOSE if self.head.is_old else b"Transfer-Encoding: chunked\r\n"
        keep = b"" if self.head.is_old or self.connection.keeps(self.head) else CLOSE
        self._write(first, b"%b%b%b%b%b\r\n" % (LINES[200], fields, _EVENTS, framing, keep))

    def write_event(self, pieces: Sequence[bytes]) -> None:
        """Write the pieces of one event; they stay together."""
        if self._state == _STREAMING:
            self._write(pieces, b"")

    def _write(self, pieces: Sequence[bytes], start: bytes) -> None:
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


AGENT = "x-byleave-agent"
_PASSED_ON = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name", AGENT})
_PARAM = "mcp-param-"
# With two of them, two readers may take two different ones.
_ONCE = frozenset(
    {"authorization", "content-encoding", "content-length", "content-type", "expect", "host", "last-event-id", "origin"}
    | {"sec-fetch-site", "transfer-encoding", AGENT}
)
_JSON = frozenset({"application/json", "application/*", "*/*"})
_HTTP_REQUEST_EVENTS = frozenset({"text/event-stream", "text/*", "*/*"})
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]{1,%d})\r\n" % LONGEST_LENGTH, re.IGNORECASE)
_MOST_FIELDS = 128  # each costs more to read than to send
_MOST_KINDS = 64  # of content that a client accepts
_REMEMBERED = 1024
_LONGEST_REMEMBERED = 4096


class BadRequest(Struct, frozen=True):
    """Why a request is not taken: one sentence, the status of HTTP, and the code of JSON-RPC."""

    problem: str
    status: int = 400
    code: int = INVALID_REQUEST


class RequestHead(Struct, frozen=True):
    """One request without its body. `fields` have lower-case names; `told` are those for the conversation."""

    method: str
    path: str
    query: str
    fields: Mapping[str, str]
    keeps_alive: bool
    expects: bool
    is_old: bool  # of HTTP/1.0
    is_json: bool
    takes_json: bool
    takes_events: bool
    revision: str
    session: str
    told: MessageContext
    told_unclaimed: MessageContext  # without the name of an agent: for callers who have proved theirs
    passed_on: str  # the name of a field that only a proxy writes


def read_head(head: bytes) -> tuple[RequestHead, Framing] | BadRequest:
    """Return what `head` (up to its empty line) asks for and where its body ends, or why it is refused."""
    if len(head) > _LONGEST_REMEMBERED:
        return _read(head)
    length = _LENGTH.search(head)
    if length is None:
        return _remembered(head)
    # Whatever else is wrong with the head, a second length included, is as wrong with another length.
    start, end = length.span(1)
    found = _remembered(b"%b0%b" % (head[:start], head[end:]))
    return found if isinstance(found, BadRequest) else (found[0], Framing(int(length[1])))


def _read(head: bytes) -> tuple[RequestHead, Framing] | BadRequest:
    if head.count(b"\r\n") > _MOST_FIELDS + 2:
        return BadRequest("the head has too many fields", status=431)
    request = read_request(head)
    if isinstance(request, BadHead):
        return BadRequest(request.problem)
    fields = _by_name(request.fields)
    if isinstance(fields, BadRequest):
        return fields
    fields.pop("content-length", None)  # the framing says it
    return _problem(request, fields) or (_head(request, fields), request.framing or NO_BODY)


_remembered = lru_cache(_REMEMBERED)(_read)


def _by_name(fields: Fields) -> dict[str, str] | BadRequest:
    found: dict[str, str] = {}
    for field, value in fields:
        name = field.lower()
        if name not in found:
            found[name] = value
        elif name.startswith("mcp-"):
            return BadRequest(f"the {field} header appears more than once", code=HEADER_MISMATCH)
        elif name in _ONCE:
            return BadRequest(f"the {field} header appears more than once")
        else:
            found[name] = f"{found[name]}, {value}"
    return found


def _problem(request: HttpRequestHead, fields: Mapping[str, str]) -> BadRequest | None:
    if not request.target.startswith("/") or "#" in request.target:
        return BadRequest("the first line does not name a path of this server")
    if request.minor == 1 and "host" not in fields:
        return BadRequest("the Host header is missing")
    if fields.get("content-encoding", "identity").lower() != "identity":
        return BadRequest("a body is sent as it is, without a content encoding", status=415)
    return None


def _head(request: HttpRequestHead, fields: dict[str, str]) -> RequestHead:
    path, _mark, query = request.target.partition("?")
    takes_json, takes_events = _accepted(fields.get("accept"))
    told = {name: value for name, value in fields.items() if name in _PASSED_ON or name.startswith(_PARAM)}
    return RequestHead(
        method=request.method,
        path=path,
        query=query,
        fields=MappingProxyType(fields),
        keeps_alive=request.keeps_alive,
        expects=request.expects,
        is_old=request.minor == 0,
        is_json=_media(fields.get("content-type", "")) == "application/json",
        takes_json=takes_json,
        takes_events=takes_events,
        revision=fields.get("mcp-protocol-version", ""),
        session=fields.get("mcp-session-id", ""),
        told=MessageContext(MappingProxyType(told)),
        told_unclaimed=MessageContext(MappingProxyType({name: value for name, value in told.items() if name != AGENT})),
        passed_on=passed_on_by(fields),
    )


def _accepted(accept: str | None) -> tuple[bool, bool]:
    """Return whether the client takes JSON, and events. One that does not say takes the simpler form."""
    if accept is None:
        return True, False
    kinds = {_media(kind) for kind in accept.split(",", _MOST_KINDS)[:_MOST_KINDS]}
    return not kinds.isdisjoint(_JSON), not kinds.isdisjoint(_HTTP_REQUEST_EVENTS)


def _media(text: str) -> str:
    return text.partition(";")[0].strip(" \t").lower()
