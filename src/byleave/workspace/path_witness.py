"""Whether the way to a file stayed the same while another program opened it.

A program that opens a path by its name (an editor, for an agent) follows whatever links stand in it at that moment. A
process that can write in the workspace can exchange a directory or a file on the way for a link, and change it back.
Each such change gives the directory that holds the name a new change time. So a witness notes the change time of
every directory in the workspace that the way leads through; if all are the same afterwards, no name on the way was
another one in between.

The kernel's clock for that ticks every few milliseconds, and two changes within one tick look like one. So a witness
is `sure` only if every directory was last changed before the present tick; `take` waits for the next one, a few times.

Start at `PathWitness.take`.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import is_under

if TYPE_CHECKING:
    from collections.abc import Callable

    Stamp = tuple[str, int, int, int, int]

_MOST_LINKS = 40  # the kernel follows as many
_REALTIME_COARSE = 5  # linux/time.h: CLOCK_REALTIME_COARSE
_TRIES = 8
_PAUSE = 0.003  # seconds; a tick takes 1 to 10 ms


class PathWitness(Struct, frozen=True):
    """The directories of a workspace that a path leads through, as they were; `sure`: any change since would show."""

    path: str
    root: str
    stamps: tuple[Stamp, ...]
    sure: bool

    @classmethod
    def take(
        cls, path: str, root: str, *, now: Callable[[], int] | None = None, pause: Callable[[float], None] = time.sleep
    ) -> PathWitness:
        """Note what the way to an absolute path looks like now."""
        clock = now or _tick
        for attempt in range(_TRIES):
            before = clock()
            stamps = _stamps(path, root)
            if all(changed < before for *_place, changed in stamps):
                return cls(path, root, stamps, sure=True)
            if attempt + 1 < _TRIES:
                pause(_PAUSE)
        return cls(path, root, stamps, sure=False)

    def is_unchanged(self) -> bool:
        """Whether it is certain that no name on the way was exchanged."""
        return self.sure and _stamps(self.path, self.root) == self.stamps

    def is_unchanged_above(self) -> bool:
        """The same of all but the last directory: what writes a file may change that one itself."""
        return self.sure and _stamps(self.path, self.root)[: len(self.stamps) - 1] == self.stamps[:-1]


def _tick() -> int:
    """Return the present time of the clock that gives files their times."""
    return time.clock_gettime_ns(_REALTIME_COARSE) if sys.platform == "linux" else 0


def _stamps(path: str, root: str) -> tuple[Stamp, ...]:
    """Return every directory below the root in which a name of the path is looked up, in that order."""
    here, ahead = "/", path.split("/")[::-1]
    found: dict[Stamp, None] = {}
    links = 0
    while ahead:
        name = ahead.pop()
        if name in ("", "."):
            continue
        if name == "..":
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, name)
        try:
            if is_under(here, root):
                held = os.lstat(here)
                found[here, held.st_dev, held.st_ino, held.st_mode, held.st_ctime_ns] = None
            mode = os.lstat(place).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                if links > _MOST_LINKS:
                    break
                target = os.readlink(place)
                ahead += target.split("/")[::-1]
                here = "/" if target.startswith("/") else here
                continue
        except (OSError, ValueError):  # nothing is there, or it is going away
            break
        here = place
    return tuple(found)
