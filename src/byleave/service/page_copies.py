"""Make the pages of a forked process its own ahead of a request, not while a caller waits for the answer.

A forked process shares its memory with its parent until it writes. Python writes nearly everywhere, since every use of
an object counts it, and each first write to a page costs some microseconds: half of what an answer takes. The kernel
copies whole ranges at once (MADV_POPULATE_WRITE, Linux 5.14); where it does not know that, nothing changes.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_POPULATE_WRITE = 23  # linux/mman.h
_WRITABLE = "rw-p"
_STEP = 1 << 20  # bytes at once; in between it is looked whether there is something better to do


def copy_pages(is_busy: Callable[[], bool]) -> bool:
    """Copy every page that this process may write to, unless there is something to do; return whether all is done."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, end in _ranges():
        for place in range(start, end, _STEP):
            if is_busy():
                return False
            if madvise(place, min(_STEP, end - place), _POPULATE_WRITE) != 0:
                break  # this kernel does not know it, or this is no memory of the usual kind
    return True


def _ranges() -> list[tuple[int, int]]:
    """Return where memory is that this process may write to, and shares with its parent."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            addresses, rights = line.split()[:2]
            if rights == _WRITABLE:
                start, end = addresses.split("-")
                found.append((int(start, 16), int(end, 16)))
    return found
