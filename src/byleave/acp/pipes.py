"""Read whole lines from one side, write to the other in the order in which the relay decided.

Each side is written to by the thread that reads from the other, which waits as long as it takes: so a side that writes
faster than the other reads is held back. Answers of our own come from the opposite thread. That one must not wait for a
side that is itself waiting to be read from: `WriteQueue.nudge` leaves the waiting to a thread of its own.
"""

from __future__ import annotations

import os
import select
from collections import deque
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Data = bytes | memoryview

READ_SIZE = 1 << 16  # bytes
LONGEST_LINE = 1 << 29  # bytes; what is longer is no message, and would take all memory
_PIECE = 1 << 18  # bytes of one write, so that it shows whether the other side still reads
MOST_WAITING = 16 << 20  # bytes; a side that leaves so many answers of ours unread is waited for after all


class TooLongError(Exception):
    """A line does not come to its end."""


class Source:
    """Reads a descriptor in whole lines, copied as little as possible."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_waiting = False  # for the other end to write
        self.reads = 0

    def whole_lines(self) -> Iterator[bytes]:
        """Yield what comes, cut only behind line ends; last what is left, if it has no end."""
        pending: list[bytes] = []
        length = 0
        for data in self._pieces():
            end = data.rfind(b"\n") + 1
            if not end:
                pending.append(data)
                length += len(data)
                if length > LONGEST_LINE:
                    raise TooLongError
            elif end == len(data) and not pending:  # nearly always
                yield data
            else:
                yield b"".join([*pending, data[:end]])
                pending = [data[end:]] if end < len(data) else []
                length = len(data) - end
            del data  # a message may be large, and the next may be long in coming
        if pending:
            yield b"".join(pending)

    def has_news(self) -> bool:
        """Whether something could be read now, be it the end."""
        ready = select.poll()
        ready.register(self._descriptor, select.POLLIN)
        return bool(ready.poll(0))

    def _pieces(self) -> Iterator[bytes]:
        while True:
            self.is_waiting = True
            try:
                data = os.read(self._descriptor, READ_SIZE)
            except BlockingIOError:  # a process that shares it has made it so
                _wait_for(self._descriptor, select.POLLIN)
                continue
            except OSError:  # a terminal that hung up
                return
            self.is_waiting = False
            self.reads += 1
            if not data:
                return
            yield data
            del data


class WriteQueue:
    """What is to be written to one side. `add` is called under the relay's lock, which makes the order, no other is.

    `shut` closes it for good. A pipe of our own (`is_own`) is written to without waiting in the kernel; one that may be
    shared with other processes is left as it is.
    """

    def __init__(self, descriptor: int, *, is_own: bool, shut: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._is_own = is_own
        self._shut = shut
        self.waiting: deque[Data] = deque()  # to be written
        self._added = self.written = 0  # bytes; each is only ever counted up, by one thread at a time
        self._turn = Lock()  # of the thread that writes
        self._helping = Lock()
        self.is_open = True  # what is added will be written
        self._is_there = True
        self.is_broken = False  # the other side reads no longer
        if is_own:
            os.set_blocking(descriptor, False)

    def add(self, data: Data) -> None:
        """Have something written after everything that was added before; dropped if the queue is closed."""
        if self.is_open:
            self._added += len(data)
            self.waiting.append(data)

    def flush(self) -> None:
        """Write everything that was added, however long the other side takes to read it."""
        while self.waiting or self._is_to_close():
            with self._turn:
                self._work()

    def nudge(self) -> None:
        """Have everything written soon, without waiting for it."""
        while self.waiting or self._is_to_close():
            if not self._turn.acquire(blocking=False):
                return  # the thread that has it will look again
            try:
                self._work(patient=False)
            finally:
                self._turn.release()
            if self.waiting:
                if self._helping.acquire(blocking=False):
                    Thread(target=self._help, name="byleave-writer", daemon=True).start()
                return

    def hold_back(self) -> None:
        """Wait if the other side has left far too much unread."""
        if self._added - self.written > MOST_WAITING:
            self.flush()

    def finish(self) -> None:
        """Close the queue when everything that was added is written."""
        self.flush()
        self.cut()

    def cut(self) -> None:
        """Close the queue as soon as a write that is under way has ended; what waits behind it is dropped."""
        self.is_open = False
        self.nudge()

    def _help(self) -> None:
        try:
            self.flush()
        finally:
            self._helping.release()
        self.nudge()  # for a thread that counted on this one a moment ago

    def _is_to_close(self) -> bool:
        return self._is_there and not self.is_open

    def _work(self, *, patient: bool = True) -> None:
        """Write what waits, or close; the turn is ours. Not `patient`: as far as that goes without waiting."""
        queue = self.waiting
        while queue and self.is_open and (patient or self._is_own):
            data = queue[0]
            try:
                written = os.write(self._descriptor, data if len(data) <= _PIECE else memoryview(data)[:_PIECE])
            except BlockingIOError:
                if not patient:
                    break
                _wait_for(self._descriptor, select.POLLOUT)
            except OSError:
                self.is_broken = True
                self.is_open = False
            else:
                self.written += written
                if written == len(data):
                    queue.popleft()
                else:
                    queue[0] = memoryview(data)[written:]
        if not self.is_open:
            self._close()

    def _close(self) -> None:
        self.waiting.clear()
        if self._is_there:
            self._is_there = False
            self._shut()


def _wait_for(descriptor: int, event: int) -> None:
    ready = select.poll()
    ready.register(descriptor, event)
    ready.poll()
