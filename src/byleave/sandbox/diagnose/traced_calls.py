"""The system calls whose results `byleave run --diagnose` looks at: their numbers, and what their arguments mean. Pure.

The filter (linux/seccomp.py) stops a program at them, and native/trace.c reports each that failed. The table
below is all that both of them know.

Start at `CALLS`. `Reader` turns the launcher's reports into what was `Observed`.
"""

from __future__ import annotations

from errno import (
    EACCES,
    EADDRNOTAVAIL,
    EAFNOSUPPORT,
    EBUSY,
    ECONNREFUSED,
    EEXIST,
    EHOSTUNREACH,
    EINPROGRESS,
    EINVAL,
    EISDIR,
    ENETUNREACH,
    ENOENT,
    ENOTDIR,
    EPERM,
    EROFS,
    EXDEV,
)
from os import fsdecode
from struct import Struct, error
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

SUCCESS = 0
# What a place answers that is closed, that is not in the view, or whose name is held.
_CLOSED = (EPERM, EACCES, EROFS)
_LOOKED = (*_CLOSED, ENOENT, ENOTDIR)
_CHANGED = (*_LOOKED, EBUSY, EEXIST, EISDIR, EXDEV)
_REACHED = (SUCCESS, EPERM, EACCES, EAFNOSUPPORT, EADDRNOTAVAIL, ENETUNREACH, ECONNREFUSED, EHOSTUNREACH, EINPROGRESS)
_BOUND = (EPERM, EACCES, EADDRNOTAVAIL)
_BECAME = (EPERM, EINVAL)
_OWNED = (*_CHANGED, EINVAL)
_NONE = -1


class SystemCall(msgspec.Struct, frozen=True):
    """A system call: its numbers on x86-64 and arm64, and which of its arguments is what; -1 where it has none."""

    numbers: tuple[int | None, int | None]
    errors: tuple[int, ...]
    paths: tuple[tuple[int, int], ...] = ()  # (descriptor of a directory, or -1; path)
    address: int = _NONE  # its length is the next argument
    packet: int = _NONE  # what is sent
    words: int = _NONE  # the arguments of a program
    flags: int = _NONE  # how it is meant
    through: int = _NONE  # what counts is what it points to
    empty_path: int = _NONE  # flags with AT_EMPTY_PATH name no path at all: such a call is not looked at
    needs: int = _NONE  # where it is NULL the call is not looked at


_PATH = ((-1, 0),)
_AT = ((0, 1),)

CALLS: dict[str, SystemCall] = {
    "access": SystemCall((21, None), _LOOKED, _PATH, flags=1),
    "bind": SystemCall((49, 200), _BOUND, address=1),
    "chdir": SystemCall((80, 49), _LOOKED, _PATH),
    "chmod": SystemCall((90, None), _CHANGED, _PATH),
    "chown": SystemCall((92, None), _OWNED, _PATH),
    "connect": SystemCall((42, 203), _REACHED, address=1),
    "creat": SystemCall((85, None), _CHANGED, _PATH),
    "execve": SystemCall((59, 221), _LOOKED, _PATH, words=1),
    "execveat": SystemCall((322, 281), _LOOKED, _AT, words=2),
    "faccessat": SystemCall((269, 48), _LOOKED, _AT, flags=2),
    "faccessat2": SystemCall((439, 439), _LOOKED, _AT, flags=2),
    "fchmodat": SystemCall((268, 53), _CHANGED, _AT),
    "fchmodat2": SystemCall((452, 452), _CHANGED, _AT),
    "fchownat": SystemCall((260, 54), _OWNED, _AT),
    "futimesat": SystemCall((261, None), _CHANGED, _AT),
    "lchown": SystemCall((94, None), _OWNED, _PATH),
    "link": SystemCall((86, None), _CHANGED, ((-1, 0), (-1, 1))),
    "linkat": SystemCall((265, 37), _CHANGED, ((0, 1), (2, 3))),
    "lsetxattr": SystemCall((189, 6), _CLOSED, _PATH),
    "lstat": SystemCall((6, None), _LOOKED, _PATH),
    "mkdir": SystemCall((83, None), _CHANGED, _PATH),
    "mkdirat": SystemCall((258, 34), _CHANGED, _AT),
    "mknod": SystemCall((133, None), _CHANGED, _PATH),
    "mknodat": SystemCall((259, 33), _CHANGED, _AT),
    "newfstatat": SystemCall((262, 79), _LOOKED, _AT, empty_path=3),
    "open": SystemCall((2, None), _CHANGED, _PATH, flags=1),
    "openat": SystemCall((257, 56), _CHANGED, _AT, flags=2),
    "openat2": SystemCall((437, 437), _CHANGED, _AT, flags=2, through=2),
    "rename": SystemCall((82, None), _CHANGED, ((-1, 0), (-1, 1))),
    "renameat": SystemCall((264, 38), _CHANGED, ((0, 1), (2, 3))),
    "renameat2": SystemCall((316, 276), _CHANGED, ((0, 1), (2, 3))),
    "rmdir": SystemCall((84, None), _CHANGED, _PATH),
    "sendto": SystemCall((44, 206), _REACHED, address=4, packet=1, needs=4),
    "setgid": SystemCall((106, 144), _BECAME),
    "setgroups": SystemCall((116, 159), _BECAME),
    "setregid": SystemCall((114, 143), _BECAME),
    "setresgid": SystemCall((119, 149), _BECAME),
    "setresuid": SystemCall((117, 147), _BECAME),
    "setreuid": SystemCall((113, 145), _BECAME),
    "setuid": SystemCall((105, 146), _BECAME),
    "setxattr": SystemCall((188, 5), _CLOSED, _PATH),
    "stat": SystemCall((4, None), _LOOKED, _PATH),
    "statx": SystemCall((332, 291), _LOOKED, _AT, empty_path=2),
    "symlink": SystemCall((88, None), _CHANGED, ((-1, 1),)),
    "symlinkat": SystemCall((266, 36), _CHANGED, ((1, 2),)),
    "truncate": SystemCall((76, 45), _CHANGED, _PATH),
    "unlink": SystemCall((87, None), _CHANGED, _PATH),
    "unlinkat": SystemCall((263, 35), _CHANGED, _AT),
    "utime": SystemCall((132, None), _CHANGED, _PATH),
    "utimensat": SystemCall((280, 88), _CHANGED, _AT),
    "utimes": SystemCall((235, None), _CHANGED, _PATH),
}

_ROW = Struct("=8b3Q").pack
_HEAD = Struct("=cBHI6Q")
_LENGTH = Struct("=H")
_LOW = 0xFFFFFFFF
_REPORT, _MISSING = b"T", b"D"


def rows_for(column: int) -> list[tuple[int, SystemCall]]:
    """Return the calls that a machine has, with their numbers; their order is the one that filter and launcher use."""
    return [(number, call) for call in CALLS.values() if (number := call.numbers[column]) is not None]


def write_rows(column: int) -> bytes:
    """Return the table as native/trace.c reads it."""
    return b"".join([_row(number, call) for number, call in rows_for(column)])


class Observed(msgspec.Struct, frozen=True):
    """What came of one call: its name, its error, and what its arguments named."""

    call: str
    error: int
    refused: bool = False  # by the filter, which did not even let it begin
    flags: int = 0
    paths: tuple[str, ...] = ()  # as the program meant them: from / on, but neither links nor dots are followed yet
    address: bytes = b""
    question: bytes = b""  # what a name server was to be asked
    words: tuple[str, ...] = ()


class DroppedObservations(msgspec.Struct, frozen=True):
    """How many observations were left out, since they were not read in time."""

    count: int


class Reader:
    """Reads the launcher's reports on one kind of machine; `others` are the calls that only the filter knows."""

    def __init__(self, column: int, others: dict[int, str]) -> None:
        numbered = [(name, call.numbers[column]) for name, call in CALLS.items()]
        self._names = {number: name for name, number in numbered if number is not None}
        self._others = others

    def read(self, message: bytes) -> Observed | DroppedObservations | None:
        """Return what a message reports; None if it cannot be understood."""
        try:
            letter, refused, failure, number, *arguments = _HEAD.unpack_from(message)
            if letter == _MISSING:
                return DroppedObservations(number)
            if letter != _REPORT:
                return None
            if refused:
                return self._refusal(number, failure, arguments)
            return (
                None
                if number not in self._names
                else _observed(self._names[number], failure, arguments, list(_texts(message)))
            )
        except error:
            return None

    def _refusal(self, number: int, failure: int, arguments: list[int]) -> Observed:
        """Read a call that the filter refused. Of its arguments only the family of a socket says anything."""
        name = self._others.get(number, f"number {number}")
        return Observed(name, failure, True, arguments[0] & _LOW if name == "socket" else 0)


def _observed(name: str, failure: int, arguments: list[int], texts: list[bytes]) -> Observed:
    call = CALLS[name]
    rest = iter(texts)
    paths = tuple([_joined(next(rest, b""), next(rest, b"")) for _each in call.paths])
    address, question = (next(rest, b""), next(rest, b"")) if call.address >= 0 else (b"", b"")
    words = tuple([fsdecode(word) for word in rest])
    flags = arguments[call.flags] & _LOW if call.flags >= 0 else 0
    return Observed(name, failure, False, flags, paths, address, question, words)


def _joined(base: bytes, path: bytes) -> str:
    """Return a path from / on: `base` is where it starts, unless it starts there by itself."""
    if path.startswith(b"/") or not base:
        return fsdecode(path)
    return fsdecode(base + b"/" + path if path else base)


def _row(number: int, call: SystemCall) -> bytes:
    (first_at, first), (second_at, second) = ([*call.paths, (-1, -1), (-1, -1)])[:2]
    low, high = (sum(1 << each % 64 for each in set(call.errors) if each // 64 == half) for half in (0, 1))
    extra = (call.address, call.packet, call.words, call.through)
    return _ROW(first_at, first, second_at, second, *extra, number, low, high)


def _texts(message: bytes) -> Iterator[bytes]:
    at = _HEAD.size
    while at < len(message):
        (length,) = _LENGTH.unpack_from(message, at)
        at += _LENGTH.size
        yield message[at : at + length]
        at += length
