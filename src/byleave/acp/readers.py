"""Read what one side writes, and hand it on in whole lines, copied as little as possible."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_SIZE = 1 << 16  # bytes
LONGEST_LINE = 1 << 29  # bytes; what is longer is no message, and would take all memory


class TooLongError(Exception):
    """A line does not come to its end."""


class Source:
    """What can be read from a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_waiting = False  # for somebody to write
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
            except BlockingIOError:  # somebody we share it with has made it so
                _wait_to_read(self._descriptor)
                continue
            except OSError:  # a terminal that hung up
                return
            self.is_waiting = False
            self.reads += 1
            if not data:
                return
            yield data
            del data


def _wait_to_read(descriptor: int) -> None:
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    ready.poll()
