"""Undo what a server did to a body to make it smaller, never beyond a limit."""

import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_CODINGS = 4  # one over the other; nobody means more in earnest
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_KNOWN = {"gzip": (_GZIP,), "x-gzip": (_GZIP,), "deflate": (_ZLIB, _BARE)}  # some send deflate without its frame


class CodingError(Exception):
    """A body is not what its head says, or is coded in a way that we cannot undo."""


class TooLargeError(Exception):
    """More comes out than was asked for."""


def decoded(body: bytes, codings: "Sequence[str]", limit: int) -> bytes:
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
            raise TooLargeError
        if not one.eof:
            raise zlib.error("it breaks off")
        found.append(piece)
        room -= len(piece)
        left = one.unused_data if way == _GZIP else b""
    return b"".join(found)
