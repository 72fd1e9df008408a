"""What a client may have missed when its connection broke: events with ids, for which it comes back (`Last-Event-ID`).

The events of a session's streams have ids, `STREAM-NUMBER`. Stream 0 is the standing one; a response to a POST that
becomes a stream has one of its own, whose call goes on for a while when its client is gone. The newest events are kept,
so many and no more, of one session and of all. A client gets those of the stream that it names, and of no other.

Start at `ReplayLog`.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from byleave.protocol.jsonrpc import INVALID_REQUEST
from byleave.protocol.sse import ALIVE, message_event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from byleave.gateway.http_request import HttpExchange

    class OpenResponse(Protocol):
        """A response that is a stream, whose answer has not come yet."""

        @property
        def is_away(self) -> bool:
            """Whether its client is gone, and may come back."""

        def go_on(self, exchange: HttpExchange) -> None:
            """Write to another exchange from now on."""

        def end(self) -> None:
            """Have no client come back for more than is kept."""


STANDING = 0
MOST_AWAY = 16  # calls of one session that do
MOST_BYTES = 1 << 18  # of one session
MOST_EVENTS = 500
MOST_OF_ALL = 1 << 26  # bytes of all sessions
_PRIMED_SINCE = "2025-11-25"  # clients of older revisions take an event without data for a broken message
_ID = re.compile(r"([0-9]{1,15})-([0-9]{1,15})", re.ASCII)
_GONE = "there is nothing after this event any more"


class ReplayRoom:
    """The bytes that all sessions of a process may keep."""

    def __init__(self, most: int = MOST_OF_ALL) -> None:
        self.left = most


class ReplayLog:
    """The events of one session, and its responses that are streams and not over."""

    def __init__(self, room: ReplayRoom) -> None:
        self._room = room
        self._events: deque[tuple[int, int, bytes]] = deque()
        self._size = 0
        self._number = 0
        self._streams = STANDING
        self.responses: dict[int, OpenResponse] = {}

    def begin(self, response: OpenResponse) -> int:
        """Return the number of a new stream, which is that of a response."""
        self._streams += 1
        self.responses[self._streams] = response
        return self._streams

    def first(self, revision: str, stream: int, after: int | None = None) -> list[bytes]:
        """Return how a stream begins: with an id, where the client's revision knows that, and with what was missed."""
        number = self._number if after is None else after
        primer = [b"id: %d-%d\ndata: \n\n" % (stream, number)] if revision >= _PRIMED_SINCE else []
        return primer + self.missed(stream, number)

    def keep(self, stream: int, parts: Sequence[bytes], instead: Sequence[bytes] = ()) -> list[bytes]:
        """Return the pieces of the event for a message, and keep it; `instead` of it, if it is too large."""
        self._number += 1
        start = b"id: %d-%d\n" % (stream, self._number)
        pieces = [start, *message_event(parts)]
        if sum(map(len, pieces)) <= MOST_BYTES:
            self._add(stream, b"".join(pieces))
        elif instead:
            self._add(stream, b"".join([start, *message_event(instead)]))
        return pieces

    def _add(self, stream: int, event: bytes) -> None:
        size = len(event)
        while self._events and (
            self._size + size > MOST_BYTES or len(self._events) >= MOST_EVENTS or size > self._room.left
        ):
            self._drop()
        if size <= self._room.left:
            self._events.append((stream, self._number, event))
            self._size += size
            self._room.left -= size

    def _drop(self) -> None:
        _stream, _number, event = self._events.popleft()
        self._size -= len(event)
        self._room.left += len(event)

    def place(self, last: str) -> tuple[int, int] | None:
        """Return the stream and the number that an id names; None if it is none of ours."""
        found = _ID.fullmatch(last)
        if found is None:
            return None
        stream, number = int(found[1]), int(found[2])
        return (stream, number) if stream <= self._streams and number <= self._number else None

    def missed(self, stream: int, after: int) -> list[bytes]:
        """Return the events of a stream that are kept and came after the one of this number."""
        return [event for of, number, event in self._events if of == stream and number > after]

    def resume(self, exchange: HttpExchange, stream: int, after: int, fields: bytes) -> None:
        """Go on with the response to a POST in the response to a GET."""
        missed, response = self.missed(stream, after), self.responses.get(stream)
        if not missed and response is None:
            exchange.refuse(400, INVALID_REQUEST, _GONE)
            return
        exchange.begin_events(missed or ALIVE, fields=fields)
        if response is None:
            exchange.end_events()
        else:
            response.go_on(exchange)

    def has_room_away(self) -> bool:
        return sum(each.is_away for each in self.responses.values()) < MOST_AWAY

    def close(self) -> None:
        """Keep nothing any more. The calls of the session are cancelled by themselves."""
        while self._events:
            self._drop()
        for response in list(self.responses.values()):
            response.end()
