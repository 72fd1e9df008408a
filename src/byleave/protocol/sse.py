"""Read and write streams of server-sent events (WHATWG HTML, section 9.2).

Sans-IO: feed `EventReader` what arrived, take the events that are complete. It never holds more than one event of
bounded length. `message_event` and `endpoint_event` write the events of the gateway's own streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.protocol.lines import LineBuffer, TooLong
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_MARK = b"\xef\xbb\xbf"  # of the byte order, which may stand once at the beginning
_LONGEST_ID = 1024  # bytes; it goes back in a header
_MOST_DIGITS = 7  # of a time in milliseconds: less than three hours
_MOST_LINES = 100_000  # of the data of one event: each takes room, even an empty one
_FIELD_ROOM = 64  # bytes of a line beside the data


class Event(Record):
    """One event: its data, and its type, which is `message` where none is named."""

    data: bytes
    type: str = "message"


class EventReader:
    """Reads one stream. `last_id` and `retry` (seconds) are what the stream has said so far about being resumed."""

    def __init__(self, *, limit: int) -> None:
        self.last_id = ""
        self.retry: float | None = None
        self._limit = limit
        self._lines = LineBuffer(limit=limit + _FIELD_ROOM)
        self._start: bytes | None = b""  # what has come of the stream's first bytes, until it is known what they are
        self._after_return = False
        self._data: list[bytes] = []
        self._size = 0
        self._type = ""
        self._id: str | None = None
        self._skipping = False  # the rest of an event that is too long

    def feed(self, data: bytes) -> Iterator[Event | TooLong]:
        """Yield every event that `data` completes, in place of one that is too long only that it was."""
        if self._start is not None:
            data = self._first(data)
        for line in self._lines.feed(self._with_newlines(data)):
            found = self._line(line)
            if found is not None:
                yield found

    def _first(self, data: bytes) -> bytes:
        """Return the data without a mark of the byte order; nothing as long as it may be one."""
        data = (self._start or b"") + data
        if len(data) < len(_MARK) and _MARK.startswith(data):
            self._start = data
            return b""
        self._start = None
        return data.removeprefix(_MARK)

    def _with_newlines(self, data: bytes) -> bytes:
        """Return the data with LF at the end of every line, however the stream ends them: LF, CR LF or CR."""
        if self._after_return and data:
            data = data[1:] if data.startswith(b"\n") else data
            self._after_return = False
        if b"\r" not in data:
            return data
        self._after_return = data.endswith(b"\r")  # the line ends here, whether or not LF follows
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _line(self, line: bytes | TooLong) -> Event | TooLong | None:
        if isinstance(line, TooLong):
            return None if self._skipping else self._too_long()
        if not line:
            return self._dispatch()
        if self._skipping:
            return None
        name, _colon, value = line.partition(b":")
        field = _FIELDS.get(name)
        return None if field is None else field(self, value.removeprefix(b" "))

    def _dispatch(self) -> Event | None:
        if self._id is not None:
            self.last_id = self._id
        event = Event(b"\n".join(self._data), self._type or "message") if self._data else None
        self._forget()
        return event

    def _take_data(self, value: bytes) -> TooLong | None:
        self._size += len(value) + 1
        if self._size > self._limit + 1 or len(self._data) >= _MOST_LINES:
            return self._too_long()
        self._data.append(value)
        return None

    def _take_type(self, value: bytes) -> None:
        self._type = value[:_LONGEST_ID].decode(errors="replace")

    def _take_id(self, value: bytes) -> None:
        if len(value) <= _LONGEST_ID and not any(byte < 0x20 or byte == 0x7F for byte in value):
            self._id = value.decode("latin-1")

    def _take_retry(self, value: bytes) -> None:
        if value.isdigit() and len(value) <= _MOST_DIGITS:
            self.retry = int(value) / 1000

    def _too_long(self) -> TooLong:
        beginning = b"\n".join(self._data)[:512]
        self._forget()
        self._skipping = True
        return TooLong(self._limit, beginning)

    def _forget(self) -> None:
        self._data, self._size, self._type, self._id = [], 0, "", None
        self._skipping = False


_FIELDS = {
    b"data": EventReader._take_data,  # noqa: SLF001 -- the table of its own methods
    b"event": EventReader._take_type,  # noqa: SLF001
    b"id": EventReader._take_id,  # noqa: SLF001
    b"retry": EventReader._take_retry,  # noqa: SLF001
}

ALIVE = (b": alive\n\n",)  # a comment: it says nothing, and keeps those between us and the client from hanging up
_END = b"\n\n"
_MESSAGE = b"event: message\ndata: "
_ENDPOINT = b"event: endpoint\ndata: "


def message_event(parts: Iterable[bytes]) -> list[bytes]:
    """Return the pieces of the event that carries one message.

    A line end would end the event's line, and what follows could pass for an event of its own. In JSON it can only
    stand between two values, where a blank does as well.
    """
    return [_MESSAGE, *[_on_one_line(part) for part in parts], _END]


def endpoint_event(path: str) -> list[bytes]:
    """Return the pieces of the event that says to a client of revision 2024-11-05 where to send its messages."""
    return [_ENDPOINT, path.encode("ascii"), _END]


def _on_one_line(part: bytes) -> bytes:
    whole = bytes(part)  # free of cost, but for raw values of msgspec
    return whole.replace(b"\r", b" ").replace(b"\n", b" ") if b"\r" in whole or b"\n" in whole else whole
