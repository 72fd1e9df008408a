"""The file that holds records of one process while the shared database is away.

    line = MAC as hex, a space, a payload as JSON; MAC n = HMAC(key, "spool", MAC n-1, payload n), and MAC 0 is empty

The first payload names the chain that the records come to in the database, and the number of the first record; each
other is a record. The file belongs to the user alone, and its process holds a lock on it as long as it lives: one whose
lock is free was left behind. What was not written to its end is no record: its call was refused.

A line that was changed, removed or put elsewhere breaks the MACs. Lines that were cut off at the end are noticed by the
process that wrote them, and by no other.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections import deque
from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.user_files import make_private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.store.store_key import StoreKey

SUFFIX, DAMAGED = ".spool", ".damaged"
_PURPOSE = "spool"
_DIGITS = 64  # of a MAC
_LONGEST_LINE = 64 << 20
_CHUNK = 1 << 20


class DamagedSpoolError(StateError):
    """A file of spooled records was changed."""


def spool_directory(state: str, key: StoreKey) -> str:
    """Return where records wait for the database that this key belongs to."""
    return os.path.join(state, "spool", key.mac("the directory of the spool").hex()[:16])


class SpoolFile:
    """One file, locked. `number` is that of its first record; `count` how many were written, or read, of them."""

    def __init__(self, path: str, descriptor: int, key: StoreKey) -> None:
        self.path = path
        self.chain = ""
        self.number = 0
        self.count = 0
        self.size = 0
        self._descriptor = descriptor
        self._key = key
        self._mac = ""
        self._read_mac = ""
        self._read_to = 0  # where the next line to be read begins
        self._lines_ahead: deque[bytes] = deque()
        self._rest = b""  # of a line that was not fetched to its end
        self._fetched = 0

    def begin(self, chain: str, number: int) -> None:
        """Write the first line, for good."""
        self.chain, self.number = chain, number
        self._add([json.dumps({"byleave_spool": 1, "chain": chain, "number": number})])
        directory = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def append(self, texts: Sequence[str]) -> None:
        """Keep records, for good when this returns; an OSError if they were not kept, and then none of them was."""
        self._add(texts)
        self.count += len(texts)

    def _add(self, texts: Sequence[str]) -> None:
        mac, lines = self._mac, []
        for text in texts:
            mac = self._key.mac(_PURPOSE, mac, text).hex()
            lines.append(f"{mac} {text}\n".encode())
        raw = b"".join(lines)
        try:
            done = 0
            while done < len(raw):
                done += os.pwrite(self._descriptor, raw[done : done + _CHUNK], self.size + done)
            os.fsync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):  # the next ones are written over it either way
                os.ftruncate(self._descriptor, self.size)
            raise
        self._mac = mac
        self.size += len(raw)

    def read_head(self) -> None:
        """Read the first line of a file that was left behind; a DamagedSpoolError if it is none."""
        self.size = os.fstat(self._descriptor).st_size
        for text in self._lines(1):
            tree = _tree(text)
            chain, number = tree.get("chain"), tree.get("number")
            if isinstance(chain, str) and isinstance(number, int):
                self.chain, self.number = chain, number
        if not self.chain and self._read_to:
            raise self._damaged("it does not begin as one")

    def rewind(self) -> None:
        """Go to the first record."""
        self._read_mac, self._read_to = "", 0
        self._fetch_again()
        for _head in self._lines(1):
            pass

    def read(self, most: int) -> list[str]:
        """Return the next records, at most so many; a DamagedSpoolError where the first of them was changed."""
        texts: list[str] = []
        try:
            for text in self._lines(most):
                texts.append(text)  # noqa: PERF402 -- those before a damaged one count
        except DamagedSpoolError:
            if not texts:
                raise
        return texts

    def check_end(self) -> None:
        """Have a DamagedSpoolError if this process has written more than could be read."""
        if self._mac and self._mac != self._read_mac:
            raise self._damaged("its end is missing")

    def _lines(self, most: int) -> Iterator[str]:
        for _ in range(most):
            line = self._line()
            if line is None:
                return
            mac, text = line[:_DIGITS].decode("ascii", "replace"), line[_DIGITS + 1 :].decode("utf-8", "replace")
            if line[_DIGITS : _DIGITS + 1] != b" " or mac != self._key.mac(_PURPOSE, self._read_mac, text).hex():
                self._fetch_again()
                raise self._damaged("a line has no valid MAC")
            self._read_mac = mac
            self._read_to += len(line) + 1
            yield text

    def _line(self) -> bytes | None:
        """Return the next line without its end; None if there is none that is whole."""
        while not self._lines_ahead:
            piece = os.pread(self._descriptor, _CHUNK, self._fetched)
            if not piece:
                return None
            self._fetched += len(piece)
            *whole, self._rest = (self._rest + piece).split(b"\n")
            self._lines_ahead.extend(whole)
            if len(self._rest) > _LONGEST_LINE:
                raise self._damaged("a line has no end")
        return self._lines_ahead.popleft()

    def _fetch_again(self) -> None:
        self._lines_ahead.clear()
        self._rest, self._fetched = b"", self._read_to

    def _damaged(self, why: str) -> DamagedSpoolError:
        hint = f"what follows is in no audit log; the file is kept as {os.path.basename(self.path)}{DAMAGED}"
        return DamagedSpoolError(f"records that waited for the shared store were changed: {why}", hint=hint)

    def remove(self) -> None:
        """Remove the file: all of it is in the database."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.close()

    def set_aside(self) -> None:
        """Keep a damaged file for people to look at."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, f"{self.path}{DAMAGED}")
        self.close()

    def close(self) -> None:
        """Let go of the file and its lock; do nothing if that was done."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def new_file(directory: str, name: str, key: StoreKey) -> SpoolFile:
    """Return a new file, locked; an OSError or StateError if it cannot be made."""
    make_private_directory(directory)
    path = os.path.join(directory, f"{name}{SUFFIX}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # which one that looks for files may have for a moment
            if _is_at(path, descriptor):  # it was not taken for one that was left behind empty
                return SpoolFile(path, descriptor, key)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def left_behind(directory: str, key: StoreKey) -> Iterator[SpoolFile]:
    """Yield the files that no process holds, each locked; who gets one closes it."""
    for path in _paths(directory):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = _is_at(path, descriptor)
        except OSError:
            is_there = False
        if is_there:
            yield SpoolFile(path, descriptor, key)
        else:
            os.close(descriptor)


def _is_at(path: str, descriptor: int) -> bool:
    """Whether an open file was not removed meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def spooled_bytes(directory: str) -> int:
    """Return how much waits, of all processes of this machine."""
    total = 0
    for path in _paths(directory):
        with contextlib.suppress(OSError):
            total += os.lstat(path).st_size
    return total


def waiting_records(directory: str) -> tuple[int, int]:
    """Return how many records wait for the database on this machine, and how many damaged files are kept."""
    records = 0
    for path in _paths(directory):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            records += max(0, sum(1 for _ in file) - 1)
    with contextlib.suppress(OSError):
        return records, sum(name.endswith(DAMAGED) for name in os.listdir(directory))
    return records, 0


def _paths(directory: str) -> list[str]:
    """Return the files with records: no links, and nothing that a reader would have to wait for."""
    try:
        with os.scandir(directory) as found:
            files = [each.name for each in found if each.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return [os.path.join(directory, name) for name in sorted(files) if name.endswith(SUFFIX)]


def _tree(text: str) -> dict[str, object]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
