"""The queues of a conversation: requests to serve, lines to write, and calls from other threads."""

from __future__ import annotations

import os
from collections import Counter, deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from byleave.protocol.vfs import ToolRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.protocol.vfs import BadMessage, Failed, Finished, Id, StateChanged
    from byleave.toolhost.process import ToolProcess

    QueuedMessage = ToolRequest | BadMessage | Finished | Failed | StateChanged

MOST_REQUESTS = 10_000  # that wait; some 20 MB of memory
MOST_REQUEST_BYTES = 16 << 20  # of requests that wait, beyond the last one


class RequestQueue:
    """Messages of the tool that wait to be served, in the order in which they came."""

    def __init__(self) -> None:
        self._messages: deque[QueuedMessage] = deque()
        self._bytes = 0
        self._waiting: Counter[Id] = Counter()  # how many requests of an id wait
        self._cancelled: Counter[Id] = Counter()  # and how many of those the tool has cancelled

    def __bool__(self) -> bool:
        return bool(self._messages)

    @property
    def holds_requests(self) -> bool:
        """Whether the tool waits for an answer to one of them, and did not only send what is no request."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the tool is not to be read from until some of its requests are served."""
        return len(self._messages) >= MOST_REQUESTS or (bool(self._messages) and self._bytes >= MOST_REQUEST_BYTES)

    def count_bytes(self, number: int) -> None:
        """Count what was read from the tool; bytes are forgotten once nothing waits."""
        self._bytes = number + (self._bytes if self._messages else 0)

    def add(self, message: QueuedMessage) -> None:
        """Append a message."""
        self._messages.append(message)
        if isinstance(message, ToolRequest):
            self._waiting[message.id] += 1

    def cancel(self, id_: Id) -> bool:
        """Cancel a request that waits; False if none of this id does. It keeps its turn, and is refused then."""
        if self._waiting[id_] <= self._cancelled[id_]:
            return False
        self._cancelled[id_] += 1
        return True

    def take(self) -> tuple[QueuedMessage, bool]:
        """Return the next message, and whether the tool has cancelled it."""
        message = self._messages.popleft()
        if not isinstance(message, ToolRequest):
            return message, False
        cancelled = message.id in self._cancelled
        for counts in (self._waiting, self._cancelled):
            if counts[message.id] > 1:
                counts[message.id] -= 1
            else:
                counts.pop(message.id, None)
        return message, cancelled


class Outbox:
    """Lines for the tool that it has not taken yet. Writing never waits."""

    def __init__(self, process: ToolProcess) -> None:
        self._process = process
        self._lines: deque[memoryview] = deque()
        self._are_replies: deque[bool] = deque()  # of each line
        self._replies = 0
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def holds_replies(self) -> bool:
        """Whether a reply is among them, and not only complaints about lines that are no requests."""
        return self._replies > 0

    def add(self, line: bytes, *, is_reply: bool) -> None:
        """Write a line, as far as the tool takes it now; the rest waits."""
        if self._process.stdin < 0:
            return
        self._lines.append(memoryview(line))
        self._are_replies.append(is_reply)
        self._replies += is_reply
        self.bytes += len(line)
        self.write()

    def write(self) -> None:
        """Write as much as the tool takes now."""
        try:
            while self._lines:
                written = os.write(self._process.stdin, self._lines[0])
                self.bytes -= written
                rest = self._lines[0][written:]
                if rest:
                    self._lines[0] = rest
                    return
                self._lines.popleft()
                self._replies -= self._are_replies.popleft()
        except BlockingIOError:
            return
        except OSError:  # the tool has closed its input, and will learn nothing more
            self._lines.clear()
            self._are_replies.clear()
            self._replies = self.bytes = 0
            self._process.close_stdin()


class WakeupQueue:
    """Calls that other threads hand to the thread that owns the conversation. Handing one over wakes that thread."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._lock = Lock()  # so that no thread writes into what the number of the closed pipe means by then
        self.descriptor, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def post(self, call: Callable[[], None]) -> None:
        """Have `call` called soon; never, if the conversation is over."""
        self._calls.append(call)
        with self._lock, suppress(OSError):  # full: the thread wakes up already; closed: it is over
            os.write(self._writing, b"x")

    def run(self) -> None:
        """Call everything that was posted."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Take no more calls."""
        with self._lock:
            reading, writing, self.descriptor, self._writing = self.descriptor, self._writing, -1, -1
            os.close(reading)
            os.close(writing)
