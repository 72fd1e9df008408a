"""When a file that has changed counts: once it has been still for a moment, and no program has it open for writing.

A program that writes a file in pieces leaves a shorter one behind for a while, which may be good TOML with fewer rules.
So a process that stays takes no change of a file at once. Until the file has settled, what it said before holds, for
that file alone: changes of other files are not held up by it. A file that is missing is treated alike: many editors
remove a file, or move it away, before they write the new one.

Start at `Settling.stamp`. Which files there are: `layers`.
"""

from __future__ import annotations

import fcntl
import os
from signal import SIGURG
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Stamp = tuple[int, ...]

STILL = 0.7  # seconds without a change
STILL_OPEN = 5.0  # the same, for a file that a program keeps open for writing: it may be about to go on


def file_stamp(path: str) -> Stamp:
    """Return what changes whenever a file does; empty if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def is_being_written(path: str) -> bool:
    """Whether a program has a file open for writing. Where the system does not say so, the answer is no.

    The kernel gives a read lease only on a file that is open for writing nowhere. It is given back at once. A program
    that opens the file in between waits for that; the kernel announces it by a signal that does nothing.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # not our file, or a file system without leases
        return False
    finally:
        os.close(descriptor)
    return False


class Settling:
    """Remembers of each file which state of it counts, and since when it is in another one.

    Unless it `waits`, every state counts at once: for a process that answers once, and ends.
    """

    def __init__(
        self, *, clock: Callable[[], float] = monotonic, written: Callable[[str], bool] = is_being_written
    ) -> None:
        self.waits = False
        self._clock = clock
        self._written = written
        self._counts: dict[str, Stamp] = {}
        self._seen: dict[str, tuple[Stamp, float]] = {}  # files in another state than the one that counts

    def stamp(self, path: str) -> Stamp:
        """Return the stamp of the state that counts, having looked whether another one does by now."""
        now = file_stamp(path)
        counts = self._counts.get(path)
        if counts is None or not self.waits:
            self._counts[path] = now
        elif now == counts:
            self._seen.pop(path, None)
        elif self._has_settled(path, now):
            self.take(path, now)
        return self._counts[path]

    def is_unsettled(self, path: str) -> bool:
        """Whether a file is in another state now than the one that counts."""
        counts = self._counts.get(path)
        return self.waits and counts is not None and file_stamp(path) != counts

    def take(self, path: str, stamp: Stamp | None = None) -> None:
        """Let a file count as it is: it was written whole, by us."""
        self._seen.pop(path, None)
        self._counts[path] = file_stamp(path) if stamp is None else stamp

    def known(self) -> list[str]:
        """Return the files that were looked at so far."""
        return list(self._counts)

    def _has_settled(self, path: str, now: Stamp) -> bool:
        seen, since = self._seen.get(path, (None, 0.0))
        time = self._clock()
        if seen != now:
            self._seen[path] = now, time
            return False
        still = time - since
        return still >= STILL_OPEN or (still >= STILL and not self._written(path))
