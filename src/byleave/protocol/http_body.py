"""Cut the body of an HTTP/1 message out of a stream of bytes, and undo its content coding.

Sans-IO: feed a reader what arrived, send on what it returns. It holds no body, only the line it is reading; what
follows the body stays in `rest`. Chunks are read to the letter, and their extensions and trailers are dropped.

Start at `body_reader`. Writing a body in chunks: `chunk`, `LAST_CHUNK`. Decompressing a whole body: `decoded`.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from byleave.protocol.http_head import Framing


class Body(Protocol):
    """One body that is being read. `done`: it is complete, and `rest` is what came after it."""

    done: bool
    rest: bytes

    def take(self, data: bytes) -> bytes:
        """Return what of the body is in `data`; MalformedBodyError if it cannot be."""

    def end(self) -> None:
        """Note that the stream has ended; MalformedBodyError if the body had not."""


LAST_CHUNK = b"0\r\n\r\n"
LONGEST_LINE = 4096  # of a chunk's size with its extensions, or of a trailer
MOST_TRAILERS = 64

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")

MOST_CODINGS = 4  # one over the other; real servers apply one
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_CODINGS = {"gzip": (_GZIP,), "x-gzip": (_GZIP,), "deflate": (_ZLIB, _BARE)}  # some send deflate without its frame


class MalformedBodyError(Exception):
    """A body breaks off, or is not framed as its head says."""


class CodingError(Exception):
    """A body is not coded as its head says, or in a way that is not known here."""


class DecodedTooLargeError(Exception):
    """A decoded body is larger than the limit."""


def body_reader(framing: Framing) -> Body:
    """Return a reader for a body that is framed like this."""
    if framing.chunked:
        return ChunkedBody()
    return OpenBody() if framing.length is None else SizedBody(framing.length)


def chunk(piece: bytes) -> bytes:
    """Return `piece`, which is not empty, as one chunk."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


class SizedBody:
    """A body of known length."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0
        self.rest = b""

    def take(self, data: bytes) -> bytes:
        piece = data[: self._left]
        self._left -= len(piece)
        self.done = self._left == 0
        self.rest = data[len(piece) :]
        return piece

    def end(self) -> None:
        if not self.done:
            raise MalformedBodyError(f"the body breaks off {self._left} bytes before its end")


class OpenBody:
    """A body that ends with the connection."""

    def __init__(self) -> None:
        self.done = False
        self.rest = b""

    def take(self, data: bytes) -> bytes:
        return data

    def end(self) -> None:
        self.done = True


class ChunkedBody:
    """A body in chunks (RFC 9112, section 7.1). `_step` reads what comes next in the stream."""

    def __init__(self) -> None:
        self.done = False
        self.rest = b""
        self._held = b""
        self._at = 0  # what stands before it has been read: small chunks do not move large ones
        self._left = 0
        self._trailers = 0
        self._step: Callable[[], bytes | None] = self._size

    def take(self, data: bytes) -> bytes:
        self._held += data
        pieces: list[bytes] = []
        while not self.done and (piece := self._step()) is not None:
            pieces.append(piece)
        self._held, self._at = self._held[self._at :], 0
        if self.done:
            self.rest, self._held = self._held, b""
        return b"".join(pieces)

    def end(self) -> None:
        if not self.done:
            raise MalformedBodyError("the body breaks off before its last chunk")

    def _size(self) -> bytes | None:
        line = self._line()
        if line is None:
            return None
        found = _SIZE.fullmatch(line)
        if found is None:
            raise MalformedBodyError("a chunk does not start with its size")
        self._left = int(found[1], 16)
        self._step = self._data if self._left else self._trailer
        return b""

    def _data(self) -> bytes | None:
        piece = self._held[self._at : self._at + self._left]
        if not piece:
            return None
        self._at += len(piece)
        self._left -= len(piece)
        if not self._left:
            self._step = self._gap
        return piece

    def _gap(self) -> bytes | None:
        gap = self._held[self._at : self._at + 2]
        if not b"\r\n".startswith(gap):
            raise MalformedBodyError("a chunk is longer than its size says")
        if len(gap) < 2:
            return None
        self._at += 2
        self._step = self._size
        return b""

    def _trailer(self) -> bytes | None:
        line = self._line()
        if line is None:
            return None
        self.done = not line
        self._trailers += 1
        if line and (self._trailers > MOST_TRAILERS or not _TRAILER.fullmatch(line)):
            raise MalformedBodyError("what follows the last chunk are no trailers")
        return b""

    def _line(self) -> bytes | None:
        """Return the next line without its CR LF, None if it has not arrived whole."""
        end = self._held.find(b"\n", self._at, self._at + LONGEST_LINE)
        if end < 0 and len(self._held) - self._at < LONGEST_LINE:
            return None
        line = self._held[self._at : end + 1]
        if end < 0 or not line.endswith(b"\r\n"):
            raise MalformedBodyError("a line between chunks is too long, or does not end in CR LF")
        self._at = end + 1
        return line[:-2]


def decoded(body: bytes, codings: Sequence[str], limit: int) -> bytes:
    """Return the body as it was before the codings, which were applied in this order; never more than `limit` bytes."""
    applied = [coding for coding in codings if coding not in ("", "identity")]
    if len(applied) > MOST_CODINGS:
        raise CodingError("the body is compressed many times over")
    for coding in reversed(applied):
        formats = _CODINGS.get(coding)
        if formats is None:
            raise CodingError("the body has a content coding that the request did not ask for and that is not known")
        body = _inflated(body, formats, limit) if body else b""
    return body


def _inflated(body: bytes, formats: tuple[int, ...], limit: int) -> bytes:
    for window_bits in formats:
        try:
            return _members(body, window_bits, limit)
        except zlib.error:
            continue
    raise CodingError("the body cannot be decompressed: it is damaged")


def _members(body: bytes, window_bits: int, limit: int) -> bytes:
    """Return everything in the body; a gzip may be several, one after the other."""
    pieces, left, room = [], body, limit
    while left:
        member = zlib.decompressobj(window_bits)
        piece = member.decompress(left, room + 1)
        if len(piece) > room:
            raise DecodedTooLargeError
        if not member.eof:
            raise zlib.error("it breaks off")
        pieces.append(piece)
        room -= len(piece)
        left = member.unused_data if window_bits == _GZIP else b""
    return b"".join(pieces)
