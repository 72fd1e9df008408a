"""Calls per minute, and open calls, counted for all workers of one machine: in memory that they share, one at a time.

The parent makes the memory before it starts workers. There are no files, and nothing is left when all have ended. The
lock is the kernel's, so a worker that is killed while it holds it does not keep it.

Each limit has one of so many places, found by a digest of its name. A place whose calls are all there again, or of
which none is open, is free for another; those that find none share the last one. Open calls are counted for each worker
apart: what one that ended had open, the parent takes out.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import contextmanager
from hashlib import sha256
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING

from byleave.gateway.limits import refilled
from byleave.gateway.quotas import OPEN_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.gateway.quotas import Quota

_PLACE = Struct("<Qddd")  # digest of the name, calls left, since when, calls in a minute
_PLACES = 8192
_LOOKED_AT = 32  # places that an agent may have
_SIZE = _PLACES * _PLACE.size
_WORKERS = 64  # at most, beside each other
_OPEN = Struct(f"<Q{_WORKERS}I")  # digest of the name, open calls of each worker
_OPEN_PLACES = 2048


class WorkerRates:
    """The calls that each limit has left. Monotonic time is the same in all processes of a machine."""

    def __init__(self) -> None:
        self._lock = os.memfd_create("byleave-rates", os.MFD_CLOEXEC)
        self._memory = mmap.mmap(-1, _SIZE)
        self._open = mmap.mmap(-1, _OPEN_PLACES * _OPEN.size)

    def take_at(self, worker: int, quotas: Sequence[Quota], now: float) -> tuple[int, float] | None:
        """Take one call of each limit, or none of any: return which has none left, and the seconds to wait."""
        with self._alone():
            rates: dict[int, tuple[int, float, float, float]] = {}  # by place: what comes to stand there
            places: dict[int, list[int]] = {}
            for number, quota in enumerate(quotas):
                name = _digest(quota.name)
                if quota.rate is not None:
                    at, left = self._find(name, quota.rate, now, rates)
                    if left < 1:
                        return number, (1 - left) * 60 / quota.rate
                    rates[at] = name, left - 1, now, quota.rate
                if quota.most is not None:
                    place, counts = self._find_open(name, places)
                    if sum(counts[1:]) >= quota.most:
                        return number, OPEN_AGAIN
                    counts[1 + worker] += 1
                    places[place] = counts
            for at, what in rates.items():
                _PLACE.pack_into(self._memory, at, *what)
            for place, counts in places.items():
                _OPEN.pack_into(self._open, place, *counts)
        return None

    def give(self, worker: int, quotas: Sequence[Quota]) -> None:
        """Note that a call has ended."""
        with self._alone():
            for quota in [quota for quota in quotas if quota.most is not None]:
                place, counts = self._find_open(_digest(quota.name), {})
                if not counts[1 + worker]:  # it was among those that share a place
                    place, counts = self._shared_open({})
                counts[1 + worker] = max(0, counts[1 + worker] - 1)
                _OPEN.pack_into(self._open, place, *counts)

    def forget(self, worker: int) -> None:
        """Take out what a worker had open that has ended."""
        with self._alone():
            for place in range(0, _OPEN_PLACES * _OPEN.size, _OPEN.size):
                counts = list(_OPEN.unpack_from(self._open, place))
                if counts[1 + worker]:
                    counts[1 + worker] = 0
                    _OPEN.pack_into(self._open, place, *counts)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def _find_open(self, name: int, taken: Mapping[int, list[int]]) -> tuple[int, list[int]]:
        """Return where the open calls of a limit are counted, and how many each worker has.

        `taken` is what other limits of the same call have changed, which is not written yet.
        """
        free = -1
        for step in range(_LOOKED_AT):
            at = (name + step) % (_OPEN_PLACES - 1) * _OPEN.size
            counts = taken.get(at) or list(_OPEN.unpack_from(self._open, at))
            if counts[0] == name:
                return at, counts
            if free < 0 and not any(counts[1:]):
                free = at
            if not counts[0]:
                break
        if free >= 0:
            return free, [name, *[0] * _WORKERS]
        return self._shared_open(taken)

    def _shared_open(self, taken: Mapping[int, list[int]]) -> tuple[int, list[int]]:
        at = (_OPEN_PLACES - 1) * _OPEN.size
        return at, taken.get(at) or list(_OPEN.unpack_from(self._open, at))

    def _find(
        self, name: int, rate: float, now: float, taken: Mapping[int, tuple[int, float, float, float]]
    ) -> tuple[int, float]:
        """Return where the calls of a limit are counted, and how many are left; `taken` as for `_find_open`."""
        free = -1
        for step in range(_LOOKED_AT):
            at = (name + step) % (_PLACES - 1) * _PLACE.size
            held, left, since, its_rate = taken.get(at) or _PLACE.unpack_from(self._memory, at)
            if held == name:
                return at, refilled((left, since), now, rate)
            # By its own rate: what has some of its calls left may have all that another limit ever has.
            if free < 0 and (not held or refilled((left, since), now, its_rate) >= refilled(None, now, its_rate)):
                free = at
            if not held:
                break
        if free >= 0:
            return free, refilled(None, now, rate)
        at = (_PLACES - 1) * _PLACE.size
        held, left, since, _its_rate = taken.get(at) or _PLACE.unpack_from(self._memory, at)
        return at, refilled((left, since) if held else None, now, rate)


def _digest(name: str) -> int:
    return int.from_bytes(sha256(name.encode("utf-8", "surrogatepass")).digest()[:8]) or 1


class WorkerCounter:
    """Counts the calls of all workers, for one of them."""

    def __init__(self, rates: WorkerRates, worker: int) -> None:
        self._rates = rates
        self._worker = worker

    async def take(self, quotas: Sequence[Quota], /) -> tuple[int, float] | None:
        return self._rates.take_at(self._worker, quotas, monotonic())

    def give(self, quotas: Sequence[Quota], /) -> None:
        if any(quota.most is not None for quota in quotas):
            self._rates.give(self._worker, quotas)
