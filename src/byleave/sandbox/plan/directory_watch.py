"""Whether anything has changed in directories since they were listed: by the kernel's own reports (inotify).

The kernel puts a report into the queue before the call that changes something returns. The queue is never read here:
one that is empty says that everything is as it was. So it can be asked by every process that has inherited it, and an
overflow counts as a change.

Reports come for changes that this kernel makes. So directories on network file systems, or on those of a program
(FUSE) or of another machine, are not watched: then `DirectoryWatch.begin` returns None, or the watch is never quiet.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

# linux/inotify.h: attributes, names that come, go or move, the directory itself; links are not followed.
_CHANGES = 0x4 | 0x100 | 0x200 | 0x40 | 0x80 | 0x400 | 0x800
_NO_LINK = 0x02000000
_LIMIT = "/proc/sys/fs/inotify/max_user_watches"
_SHARE = 48  # of all that a user may have: other programs need them, too
# File systems that only this kernel changes.
_LOCAL = frozenset(
    {
        *("bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "reiserfs", "rootfs"),
        *("squashfs", "tmpfs", "xfs", "zfs"),
    }
)
_GONE = (errno.ENOENT, errno.EACCES)  # what is above reports when it comes, or is opened


def read_mounts() -> bytes:
    """Return the list of what is mounted for this process; nothing if it cannot be read."""
    try:
        with open("/proc/self/mountinfo", "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""


def mounts_below(mounts: bytes, tops: Iterable[str]) -> Iterator[str]:
    """Yield the places at or below some directories where something is mounted."""
    tops = tuple(tops)
    for place, _kind in _mounted(mounts):
        if any(is_under(place, top) for top in tops):
            yield place


def roots_below(mounts: bytes, tops: Iterable[str]) -> tuple[tuple[str, int, int], ...]:
    """Return what is mounted at or below some directories: where, and which file or directory it is.

    The list of mounts can be the same as before although one has been taken away and another put in its place. A
    directory that is watched keeps its number.
    """
    found = []
    for place in mounts_below(mounts, tops):
        try:
            seen = os.lstat(place)
        except OSError:  # another mount hides it
            continue
        found.append((place, seen.st_dev, seen.st_ino))
    return tuple(found)


def _mounted(mounts: bytes) -> Iterator[tuple[str, str]]:
    """Yield where something is mounted, and the kind of file system."""
    for line in mounts.splitlines():
        ahead, _, behind = line.partition(b" - ")
        place = ahead.split(b" ")[4]
        for written, meant in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
            place = place.replace(written, meant)
        yield os.fsdecode(place), os.fsdecode(behind.split(b" ")[0])


class DirectoryWatch:
    """Watches on directories. To be closed; a process that was forked meanwhile has the same watches."""

    def __init__(self, descriptor: int, most: int) -> None:
        self._descriptor = descriptor
        self._add = ctypes.CDLL(None, use_errno=True).inotify_add_watch
        self._left = most
        self._whole = True

    @classmethod
    def begin(cls, places: Iterable[str], mounts: bytes) -> Self | None:
        """Return a watch on these directories, to which others can be added; None where not all is reported."""
        places = tuple(places)
        kinds = dict(_mounted(mounts))  # the last one that is mounted at a place counts
        for place in places:
            if any(is_under(at, place) and kind not in _LOCAL for at, kind in kinds.items() if place != "/"):
                return None
            if kinds.get(max((at for at in kinds if is_under(place, at)), key=len, default="")) not in _LOCAL:
                return None
        try:
            with open(_LIMIT, "rb") as file:
                most = int(file.read()) // _SHARE
            descriptor = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError, AttributeError):
            return None
        if descriptor < 0:
            return None
        watch = cls(descriptor, most)
        for place in places:
            watch.add(place)
        if any(os.path.realpath(place) != place for place in places):  # what it leads to is not what is watched
            watch.close()
            return None
        return watch

    def add(self, path: str) -> None:
        """Watch a directory or a file. Where that is not possible, this is never quiet."""
        self._left -= 1
        if self._left < 0 or not self._whole:
            self._whole = False
            return
        if self._add(self._descriptor, os.fsencode(path), _CHANGES | _NO_LINK) < 0:
            self._whole = ctypes.get_errno() in _GONE

    def is_quiet(self) -> bool:
        """Whether nothing has changed since the watches were added."""
        if not self._whole or self._descriptor < 0:
            return False
        waiting = fcntl.ioctl(self._descriptor, termios.FIONREAD, b"\0" * 4)
        return bool(struct.unpack("i", waiting)[0] == 0)

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
