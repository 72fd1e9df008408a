"""Calls per minute, counted for all workers of one machine: in memory that they share, one at a time.

The parent makes the memory before it starts workers. There are no files, and nothing is left when all have ended. The
lock is the kernel's, so a worker that is killed while it holds it does not keep it.

Each agent has one of so many places, found by a digest of its name. A place whose calls are all there again is free
for another agent; those that find none share the last one.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from hashlib import sha256
from struct import Struct
from time import monotonic

from byleave.gateway.limits import refilled

_PLACE = Struct("<Qdd")  # digest of the name, calls left, since when
_PLACES = 8192
_LOOKED_AT = 32  # places that an agent may have
_SIZE = _PLACES * _PLACE.size


class WorkerRates:
    """The calls that each agent has left. Monotonic time is the same in all processes of a machine."""

    def __init__(self) -> None:
        self._lock = os.memfd_create("byleave-rates", os.MFD_CLOEXEC)
        self._memory = mmap.mmap(-1, _SIZE)

    async def take(self, agent: str, rate: float) -> float:
        """Take one call of `rate` in a minute; return 0, or in how many seconds there will be one."""
        return self.take_at(agent, rate, monotonic())

    def take_at(self, agent: str, rate: float, now: float) -> float:
        """Do the same at a given time."""
        name = int.from_bytes(sha256(agent.encode("utf-8", "surrogatepass")).digest()[:8]) or 1
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            at, left = self._find(name, rate, now)
            has_one = left >= 1
            _PLACE.pack_into(self._memory, at, name, left - 1 if has_one else left, now)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
        return 0.0 if has_one else (1 - left) * 60 / rate

    def _find(self, name: int, rate: float, now: float) -> tuple[int, float]:
        """Return where the calls of an agent are counted, and how many are left."""
        free = -1
        for step in range(_LOOKED_AT):
            at = (name + step) % (_PLACES - 1) * _PLACE.size
            held, left, since = _PLACE.unpack_from(self._memory, at)
            left = refilled((left, since) if held else None, now, rate)
            if held == name:
                return at, left
            if free < 0 and left >= refilled(None, now, rate):
                free = at
            if not held:
                break
        if free >= 0:
            return free, refilled(None, now, rate)
        at = (_PLACES - 1) * _PLACE.size
        held, left, since = _PLACE.unpack_from(self._memory, at)
        return at, refilled((left, since) if held else None, now, rate)
