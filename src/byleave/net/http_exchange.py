"""Undo what a server did to a body to make it smaller, never beyond a limit.

Say one request on a connection, and hear the answer, read in the one way on which all programs agree.

It knows no permits and looks no names up: `net.http_client` brings the connection. Start at `exchange`.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave import __version__
from byleave.errors import RequestError
from byleave.net.http_connection import Endpoint, RequestDeadline
from byleave.protocol.http_body import MalformedBodyError, body_reader
from byleave.protocol.http_head import (
    UNTIL_CLOSE,
    BadHead,
    Framing,
    HttpRequestHead,
    is_field,
    list_of,
    read_response,
    request_head,
)
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.core.net_rules import NetRule
    from byleave.core.url import Target
    from byleave.net.http_connection import HttpConnection
    from byleave.protocol.http_head import Fields, HttpResponseHead


MOST_CODINGS = 4  # one over the other; nobody means more in earnest
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_KNOWN = {"gzip": (_GZIP,), "x-gzip": (_GZIP,), "deflate": (_ZLIB, _BARE)}  # some send deflate without its frame


class CodingError(Exception):
    """A body is not what its head says, or is coded in a way that we cannot undo."""


class DecodedTooLargeError(Exception):
    """More comes out than was asked for."""


def decoded(body: bytes, codings: Sequence[str], limit: int) -> bytes:
    """Return the body as it was before the codings, which were applied in this order."""
    wanted = [coding for coding in codings if coding not in ("", "identity")]
    if len(wanted) > MOST_CODINGS:
        raise CodingError("the answer is compressed many times over")
    for coding in reversed(wanted):
        ways = _KNOWN.get(coding)
        if ways is None:
            raise CodingError("the answer is coded in a way that nobody asked for and that is not known here")
        body = _inflated(body, ways, limit) if body else b""
    return body


def _inflated(body: bytes, ways: tuple[int, ...], limit: int) -> bytes:
    for way in ways:
        try:
            return _members(body, way, limit)
        except zlib.error:
            continue
    raise CodingError("the answer cannot be decompressed: it is damaged")


def _members(body: bytes, way: int, limit: int) -> bytes:
    """Return everything in the body; a gzip may be several, one after the other."""
    found, left = [], body
    room = limit
    while left:
        one = zlib.decompressobj(way)
        piece = one.decompress(left, room + 1)
        if len(piece) > room:
            raise DecodedTooLargeError
        if not one.eof:
            raise zlib.error("it breaks off")
        found.append(piece)
        room -= len(piece)
        left = one.unused_data if way == _GZIP else b""
    return b"".join(found)


MOST_INTERIM = 16  # answers of 1xx before the real one
_BODY_EXPECTED = frozenset({"POST", "PUT", "PATCH"})
_AGENT = ("User-Agent", f"byleave/{__version__}")
_HINT = "check the URL, and whether the server works"


class HttpRequest(Struct, frozen=True):
    """What is asked. Values of headers are text; as bytes they are UTF-8."""

    method: str
    url: str
    headers: Fields = ()
    body: bytes | None = None


class HttpResponse(Struct, frozen=True):
    """What a server said. `body` is whole, and not compressed any more; `url` is what was asked, in its plain form."""

    status: int
    headers: Fields
    body: bytes
    url: str


class DiedError(Exception):
    """A kept connection was closed before anything of an answer came."""


class HttpJob(Struct, frozen=True):
    """One request on its way."""

    ask: HttpRequest
    target: Target
    tool: str | None
    rules: tuple[NetRule | None, ...]
    limit: int
    patience: RequestDeadline
    written: bytes

    @property
    def place(self) -> Endpoint:
        return Endpoint(self.tool, self.target.scheme, self.target.host, self.target.port or 0)

    def failed(self, what: str, reason: str) -> RequestError:
        return RequestError(f"{shown(self.target.host)} {what}: {shown(reason)}", hint=_HINT, number=INTERNAL_ERROR)


def plain_url(url: str, target: Target) -> str:
    """Return a URL as it is asked for: no user name, no password, no fragment, its path as it was judged."""
    return f"{target.scheme}://{_authority(target)}{_path(url, target)}"


def _authority(target: Target) -> str:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host if target.default_port else f"{host}:{target.port}"


def _path(url: str, target: Target) -> str:
    """Return the path in its literal form, which was judged, and the query as it was written, in ASCII."""
    rest = url.partition("://")[2].partition("#")[0]
    before, mark, query = rest.partition("?")
    written = before[before.find("/") :] if "/" in before else ""
    slashes = written[len(written.rstrip("/")) :] if target.segments else ""
    return f"/{'/'.join(target.segments)}{slashes}{mark}{in_ascii(query)}"


def in_ascii(text: str) -> str:
    """Return a part of a URL with everything escaped that a request line cannot hold."""
    return "".join([char if "!" <= char <= "~" else "".join(f"%{byte:02X}" for byte in char.encode()) for char in text])


def exchange(connection: HttpConnection, job: HttpJob, *, kept: bool) -> tuple[HttpResponse, bool]:
    """Return the answer, and whether the connection can be used again."""
    sent = _send(connection, job)
    head, response = _final(connection, job, kept=kept)
    if response.body.length is not None and response.body.length > job.limit:
        raise too_large(job.limit)
    body = _body(connection, response, job)
    keep = sent and head.startswith(b"HTTP/1.1 ") and response.body != UNTIL_CLOSE
    keep = keep and "close" not in list_of(response.fields, "connection")
    codings = [] if response.bodiless else list_of(response.fields, "content-encoding")
    reply = HttpResponse(
        response.status,
        _fields(response, coded=any(codings)),
        decoded(body, codings, job.limit),
        plain_url(job.ask.url, job.target),
    )
    return reply, keep


def _send(connection: HttpConnection, job: HttpJob) -> bool:
    """Send the request, and return whether all of it; a server may have answered before it has heard everything."""
    try:
        connection.send(job.written, job.patience)
    except TimeoutError:
        raise
    except OSError:
        job.patience.left()
        return False
    return True


def written(ask: HttpRequest, target: Target) -> bytes:
    """Return a request as it is sent; a RequestError if a header of it would be read as something else."""
    body = ask.body if ask.body is not None else b"" if ask.method in _BODY_EXPECTED else None
    names = {name.lower() for name, _value in ask.headers}
    usual = [field for field in (_AGENT, ("Accept", "*/*")) if field[0].lower() not in names]
    fields = [*usual, ("Accept-Encoding", "identity"), *[(name, _as_bytes(value)) for name, value in ask.headers]]
    if not all(is_field(name, value) for name, value in fields):
        hint = "headers have plain names, and values without control characters"
        raise RequestError("a header cannot be sent as it is", hint=hint, number=INVALID_PARAMS)
    path = _path(ask.url, target)
    request = HttpRequestHead(ask.method, path, 1, tuple(fields), None if body is None else Framing(len(body)))
    return request_head(request, path=path, authority=_authority(target), keep=True) + (body or b"")


def _final(connection: HttpConnection, job: HttpJob, *, kept: bool) -> tuple[bytes, HttpResponseHead]:
    """Return the head of the answer, as it came and as it was read; those of 1xx before it are passed over."""
    for number in range(MOST_INTERIM):
        head = _head(connection, job, kept=kept and number == 0)
        response = read_response(head, job.ask.method)
        if isinstance(response, BadHead):
            raise MalformedBodyError(response.problem)
        if response.status == 101:
            raise MalformedBodyError("it changes the protocol, and nobody asked for that")
        if response.status >= 200:
            return head, response
    raise MalformedBodyError("there is no end of interim answers")


def _head(connection: HttpConnection, job: HttpJob, *, kept: bool) -> bytes:
    try:
        head = connection.read_head(job.patience)
    except TimeoutError:
        raise
    except OSError:
        job.patience.left()
        if kept:
            raise DiedError from None
        raise
    if not head:
        job.patience.left()
        raise DiedError if kept else MalformedBodyError("the connection was closed")
    return head


def _body(connection: HttpConnection, response: HttpResponseHead, job: HttpJob) -> bytes:
    reader = body_reader(response.body)
    pieces, size = [], 0
    while not reader.done:
        data = connection.read(job.patience)
        if not data:
            job.patience.left()
            reader.end()
            break
        piece = reader.take(data)
        size += len(piece)
        if size > job.limit:
            raise too_large(job.limit)
        pieces.append(piece)
        connection.held = reader.rest
    return b"".join(pieces)


# They say how the body came here, which it does not any more.
_OF_THE_WAY = frozenset({"connection", "keep-alive", "trailer", "transfer-encoding", "upgrade"})
_OF_THE_CODING = frozenset({"content-encoding", "content-length"})


def _fields(response: HttpResponseHead, *, coded: bool) -> Fields:
    dropped = _OF_THE_WAY | _OF_THE_CODING if coded else _OF_THE_WAY
    return tuple([(name, _as_text(value)) for name, value in response.fields if name.lower() not in dropped])


def _as_bytes(value: str) -> str:
    """Return a value as the head is written: one character for each byte of its UTF-8."""
    return value.encode().decode("latin-1")


def _as_text(value: str) -> str:
    """Return what a server most probably meant."""
    raw = value.encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return value


def too_large(limit: int) -> RequestError:
    hint = "ask for less of it"
    return RequestError(
        f"the answer is larger than {limit} bytes", hint=hint, number=INVALID_PARAMS, data={"limit": limit}
    )
