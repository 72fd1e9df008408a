"""What goes to one of the two, in the order in which it was decided, whoever decided it.

Each side is written to by the thread that reads from the other, which waits as long as it takes: that is how somebody
who writes faster than the other reads is held back. Answers of ours come from the opposite thread. That one must not
wait for a side that is itself waiting to be read from: `nudge` leaves the waiting to a thread of its own.
"""

from __future__ import annotations

import os
import select
from collections import deque
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Data = bytes | memoryview

_PIECE = 1 << 18  # bytes of one write, so that it can be seen whether somebody still reads
MOST_WAITING = 16 << 20  # bytes; whoever leaves so many answers of ours unread is waited for after all


class WriteQueue:
    """The way to one side. `add` is called under the relay's lock, which makes the order; everything else without it.

    `shut` closes it for good. A pipe of our own (`is_own`) is written to without waiting in the kernel; what may be
    shared with others is left as it is.
    """

    def __init__(self, descriptor: int, *, is_own: bool, shut: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._is_own = is_own
        self._shut = shut
        self.waiting: deque[Data] = deque()  # to be written
        self._added = self.written = 0  # bytes; each is only ever counted up, by one thread at a time
        self._turn = Lock()  # of whoever writes
        self._helping = Lock()
        self.is_open = True  # what is added will be written
        self._is_there = True
        self.is_broken = False  # nobody reads on the other side
        if is_own:
            os.set_blocking(descriptor, False)

    def add(self, data: Data) -> None:
        """Have something written after everything that was added before; in vain if the lane is closed."""
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
                return  # whoever has it will look again
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
        """Close the lane when everything that was added is written."""
        self.flush()
        self.cut()

    def cut(self) -> None:
        """Close the lane as soon as a write that is under way has ended; what waits behind it is dropped."""
        self.is_open = False
        self.nudge()

    def _help(self) -> None:
        try:
            self.flush()
        finally:
            self._helping.release()
        self.nudge()  # for somebody who counted on us a moment ago

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
                _wait_to_write(self._descriptor)
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


def _wait_to_write(descriptor: int) -> None:
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    ready.poll()
