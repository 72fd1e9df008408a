"""The client's side of one HTTP/1.1 exchange: fields out, bytes in, events out.

Sans-IO: it owns no socket, task or clock. The HTTP clients of tools (net.http_client) and of the gateway
(net.http_async_client) and the sandbox's proxy (net.proxy_connection) all read responses here, so that all of them
accept the same responses and refuse the same ones:

    HEAD --head of 1xx--> HEAD --head--> BODY --its end--> OVER
      any of them --a byte that two programs could read differently--> OVER, by a RemoteProtocolError

An error says whose fault it is: `LocalProtocolError` is about a request of ours, which is not sent;
`RemoteProtocolError` about a response. Not handled here: addresses and TLS (the drivers), limits on the size of a body
and its content coding (`http_body.decoded`), redirects (the callers, each by its own rules).

Start at `ClientExchange.receive`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.protocol.http_body import MalformedBodyError, body_reader
from byleave.protocol.http_head import (
    UNTIL_CLOSE,
    BadHead,
    Framing,
    end_of_head,
    is_field,
    known_head,
    list_of,
    read_response,
)
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.protocol.http_body import Body
    from byleave.protocol.http_head import Fields, HttpResponseHead, KnownHead

LONGEST_HEAD = 1 << 16  # bytes
MOST_HEADS = 16  # of one response: those of 1xx, and the final one
_SWITCHING_PROTOCOLS = 101
_FINAL = 200  # the first status that is not interim
_MOST_SECONDS_DIGITS = 6


class LocalProtocolError(Exception):
    """A request cannot be sent as it is: a field of it would be read as something else. `field` is its name."""

    def __init__(self, field: str) -> None:
        super().__init__("a header cannot be sent as it is")
        self.field = field


class RemoteProtocolError(Exception):
    """A server's response breaks off, or two programs could read it differently."""


class ResponseEnd(Record):
    """The response is complete. `keep_seconds` is how long the server keeps the connection, None if it does not say."""

    reusable: bool
    keep_seconds: float | None = None


if TYPE_CHECKING:
    ResponseEvent = HttpResponseHead | bytes | ResponseEnd


class FinalHead(Struct, frozen=True):
    """The head of a response, and what it says of the connection."""

    head: HttpResponseHead
    method: str  # of the request, which decides whether there is a body
    lasts: bool
    keep_seconds: float | None


class ClientExchange:
    """Reads the response to one request of this `method`. The first byte that is wrong ends it for good.

    `known` is that of the exchange before, on the same connection: servers repeat their heads, but for the length.
    """

    __slots__ = ("_body", "_final", "_heads", "_held", "_is_over", "_longest_head", "_method", "is_silent", "known")

    def __init__(
        self, method: str, *, longest_head: int = LONGEST_HEAD, known: KnownHead[FinalHead] | None = None
    ) -> None:
        self.is_silent = True  # no byte of a response has arrived
        self.known = known
        self._method = method
        self._longest_head = longest_head
        self._held = bytearray()  # of a head that is not complete
        self._heads = 0
        self._final: FinalHead | None = None
        self._body: Body | None = None
        self._is_over = False

    def receive(self, data: bytes) -> Iterator[ResponseEvent]:
        """Yield what `data` completes: interim heads (status below 200), the head, pieces of the body, the end.

        The events are the same however the bytes are cut, but for where a body is cut into pieces. A
        RemoteProtocolError comes after the events before the wrong byte, but for the piece of the body beside it.
        """
        if not data:
            return
        self.is_silent = False
        try:
            while self._body is None:
                end = self._end_of_head(data)
                if not end:
                    return
                whole = bytes(self._held) if self._held else data
                data = whole[end:]
                yield self._take_head(whole[:end])
            yield from self._take_body(self._body, data)
        except MalformedBodyError as problem:
            self._is_over = True
            raise RemoteProtocolError(str(problem)) from None
        except RemoteProtocolError:
            self._is_over = True
            raise

    def receive_eof(self) -> Iterator[ResponseEvent]:
        """Yield the end of a body that ends with the stream; a RemoteProtocolError if the response is not complete."""
        if self._is_over:
            return
        self._is_over = True
        if self._body is None:
            raise RemoteProtocolError(
                "the head breaks off" if self._held or self._heads else "the connection was closed"
            )
        try:
            self._body.end()
        except MalformedBodyError as problem:
            raise RemoteProtocolError(str(problem)) from None
        yield ResponseEnd(reusable=False)

    def _end_of_head(self, data: bytes) -> int:
        """Return where the head ends, in what is held and `data`; hold all of it, and return 0, if it does not yet."""
        if self._is_over:
            raise RemoteProtocolError("it goes on after its end")
        end, size = 0 if self._held else end_of_head(data), len(data)
        if not end:
            searched = max(0, len(self._held) - 2)
            self._held += data
            end, size = end_of_head(self._held, searched), len(self._held)
        if (end or size) > self._longest_head:
            raise RemoteProtocolError("its head is too long")
        return end

    def _take_head(self, raw: bytes) -> HttpResponseHead:
        self._held = bytearray()
        self._heads += 1
        known = self.known
        length = None if known is None or known.meaning.method != self._method else known.length_in(raw)
        if known is not None and length is not None:
            self._final = known.meaning
            same = known.meaning.head.replace(framing=Framing(length))
            self._body = body_reader(same.body)
            return same
        head = read_response(raw, self._method)
        if isinstance(head, BadHead):
            raise RemoteProtocolError(head.problem)
        if head.status == _SWITCHING_PROTOCOLS:
            raise RemoteProtocolError("it changes the protocol, which the request did not ask for")
        if head.status >= _FINAL:
            lasts = raw[:9] == b"HTTP/1.1 " and head.body != UNTIL_CLOSE
            lasts = lasts and "close" not in list_of(head.fields, "connection")
            self._final = FinalHead(head, self._method, lasts, _keep_seconds(head.fields))
            self._body = body_reader(head.body)
            self.known = known_head(raw, self._final)
        elif self._heads >= MOST_HEADS:
            raise RemoteProtocolError("it has too many interim responses")
        return head

    def _take_body(self, body: Body, data: bytes) -> Iterator[ResponseEvent]:
        if self._is_over:
            raise RemoteProtocolError("it goes on after its end")
        if not body.done and data:
            piece = body.take(data)
            if piece:
                yield piece
            data = body.rest
        if body.done:
            self._is_over = True
            yield self._end(reusable=not data)

    def _end(self, *, reusable: bool) -> ResponseEnd:
        """Return the end event. Bytes behind the response, HTTP/1.0 and `close` make the connection unusable."""
        final = self._final
        assert final is not None  # noqa: S101 -- there is a body only after its head
        return ResponseEnd(reusable and final.lasts, final.keep_seconds)


def field_lines(fields: Iterable[tuple[str, str]]) -> bytes:
    """Return fields as they are sent; a LocalProtocolError if one would be read as something else."""
    return "".join([f"{name}: {value}\r\n" for name, value in sendable(fields)]).encode("latin-1")


def sendable(fields: Iterable[tuple[str, str]]) -> Fields:
    """Return fields with one character for each byte of their UTF-8; a LocalProtocolError if one cannot be sent."""
    coded = [(name, value.encode("utf-8", "surrogateescape").decode("latin-1").strip(" \t")) for name, value in fields]
    for name, value in coded:
        if not is_field(name, value):
            raise LocalProtocolError(name)
    return tuple(coded)


def _keep_seconds(fields: Fields) -> float | None:
    """Return for how long a connection may wait for its next request: a second less than the server says."""
    for word in list_of(fields, "keep-alive"):
        name, _equals, number = word.partition("=")
        if name == "timeout" and number.isascii() and number.isdigit():
            return float(number[:_MOST_SECONDS_DIGITS]) - 1
    return None
