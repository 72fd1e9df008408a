"""The two ends that a conversation holds: what waits to be written to the tool, and what other threads want done.

`TOOLS` is how the host reads and writes JSON: by msgspec, but with the names of files that are no UTF-8.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from byleave.protocol.json_codec import PLAIN
from byleave.protocol.json_fast import FAST
from byleave.protocol.jsonrpc import RepeatedNameError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from byleave.toolhost.process import ToolProcess


class Outbox:
    """Lines for the tool that it has not taken yet. Writing never waits."""

    def __init__(self, started: ToolProcess) -> None:
        self._started = started
        self._lines: deque[memoryview] = deque()
        self.bytes = 0
        self.holds_answers = False  # and not only complaints

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, line: bytes, *, answers: bool) -> None:
        """Write a line, as far as the tool takes it now; the rest waits."""
        if self._started.stdin < 0:
            return
        self.holds_answers = self.holds_answers or answers
        self._lines.append(memoryview(line))
        self.bytes += len(line)
        self.write()

    def write(self) -> None:
        """Write as much as the tool takes now."""
        try:
            while self._lines:
                written = os.write(self._started.stdin, self._lines[0])
                self.bytes -= written
                rest = self._lines[0][written:]
                if rest:
                    self._lines[0] = rest
                    return
                self._lines.popleft()
            self.holds_answers = False
        except BlockingIOError:
            return
        except OSError:  # it has closed its input: it will learn nothing more from us
            self._lines.clear()
            self.bytes = 0
            self.holds_answers = False
            self._started.close_stdin()


class WakeupQueue:
    """What other threads want done by the one that owns the conversation: it wakes up, and does it."""

    def __init__(self) -> None:
        self._wanted: deque[Callable[[], None]] = deque()
        self._waking = Lock()  # so that nobody writes into what the number of the closed pipe means by then
        self.descriptor, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def post(self, do: Callable[[], None]) -> None:
        """Have `do` done soon; never, if the conversation is over."""
        self._wanted.append(do)
        with self._waking, suppress(OSError):  # full: it is awake already; closed: it is over
            os.write(self._writing, b"x")

    def heed(self) -> None:
        """Do what is wanted."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        while self._wanted:
            self._wanted.popleft()()

    def close(self) -> None:
        """Hear nobody any more."""
        with self._waking:
            reading, writing, self.descriptor, self._writing = self.descriptor, self._writing, -1, -1
            os.close(reading)
            os.close(writing)


def _decode(line: bytes) -> Any:
    try:
        return FAST.decode(line)
    except RepeatedNameError:
        raise
    except ValueError:
        return PLAIN.decode(_with_halves(line))


def _with_halves(line: bytes) -> bytes:
    """Return a line that msgspec refuses, if it may be for half of a character: names that are no UTF-8 hold them."""
    if b"\\ud" not in line.lower():
        raise ValueError("the line is not JSON")
    return line


def _encode(tree: Any) -> bytes:
    try:
        return FAST.encode(tree)
    except UnicodeEncodeError:  # half of a character: only escapes can write it
        return PLAIN.encode(tree)


TOOLS = FAST.replace(decode=_decode, encode=_encode)
