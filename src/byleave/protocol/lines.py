"""Cut a stream of bytes into lines, without ever holding more than one line of bounded length.

Sans-IO: feed it what arrived, take what is complete. A line that is too long is reported once and skipped to its end.

A line of `[],[],[],...` becomes thirty times its size once it is decoded. `has_too_many_values` says so before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_VALUES = 2_000_000  # in one line of JSON: decoded, they take a few hundred megabytes
_BEGINNING = 512  # bytes of a line that is too long: enough to see whose it is


class TooLong(Record):
    """Stands for a line that exceeded the limit; all but its beginning is gone."""

    limit: int
    beginning: bytes = b""


class LineBuffer:
    """Collects bytes until a newline; carriage returns are the reader's business."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()  # one piece of memory, however small the pieces that arrive
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        """Yield every line that `data` completes, without its newline."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            yield from self._close(data[start:end])
            start = end + 1
        if start < len(data):
            yield from self._hold(data[start:] if start else data)

    def finish(self) -> Iterator[bytes | TooLong]:
        """Yield what was left without a newline at the end of the stream."""
        if self._held:
            yield bytes(self._held)
        self._clear()

    def _close(self, piece: bytes) -> Iterator[bytes | TooLong]:
        if self._skipping:
            self._clear()
            return
        if len(self._held) + len(piece) > self._limit:
            yield self._too_long(piece)
            self._clear()
            return
        line = bytes(self._held) + piece if self._held else piece
        self._clear()
        yield line

    def _hold(self, piece: bytes) -> Iterator[bytes | TooLong]:
        if self._skipping:
            return
        if len(self._held) + len(piece) > self._limit:
            too_long = self._too_long(piece)
            self._clear()
            self._skipping = True
            yield too_long
            return
        self._held += piece

    def _too_long(self, piece: bytes) -> TooLong:
        most = min(_BEGINNING, self._limit)  # however the bytes were cut, so much is there
        return TooLong(self._limit, bytes(self._held[:most] + piece[:most])[:most])

    def _clear(self) -> None:
        if self._held:
            self._held = bytearray()
        self._skipping = False


def has_too_many_values(line: bytes, most: int = MOST_VALUES) -> bool:
    """Whether a line of JSON holds more values than are decoded; counted outside of its texts, in linear time."""
    if len(line) < 2 * most or _marks(line) <= most:  # a value takes two bytes at least
        return False

    plain = line.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in line else line
    return plain.count(b'"') > 2 * most or _marks(re.sub(rb'"[^"]*"', b"", plain)) > most


def _marks(line: bytes) -> int:
    """Return how many marks there are of which each value but the first needs one."""
    return len(line) - len(line.translate(None, b",[{"))  # in one pass
