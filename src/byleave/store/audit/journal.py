"""The journal: where a record is safe from a killed process as soon as `append` returns.

`audit.journal` takes one write for one record, or for several that are appended together, `audit.head` remembers where
the chain ends, `audit.lock` lets one writer in at a time. `table_writer` moves the records to the table later. Where
the two files do not fit, `chain.recover` decides.

A process that stays remembers the last head it has seen. Files that are removed, exchanged or put back to an older
state under it refuse the next record, and the chain says so from then on.

The short-lived process of a hook comes through here before every answer: nothing heavy is imported.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import stat
import time
from calendar import timegm
from errno import errorcode
from typing import TYPE_CHECKING, Protocol, Self
from weakref import ref

from byleave.errors import StateError
from byleave.store.audit.chain import (
    HEAD_WIDTH,
    NO_TIME,
    RECOVERY,
    TABLE,
    ChainHead,
    head_line,
    linked,
    read_head_line,
    recover,
    sequence_of,
)
from byleave.store.audit.records import encode
from byleave.store.audit.table import table_head
from byleave.text import quoted
from byleave.user_files import make_private_directory, refuse_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

JOURNAL, HEAD, LOCK = "audit.journal", "audit.head", "audit.lock"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILES = ((LOCK, _FLAGS), (HEAD, _FLAGS), (JOURNAL, _FLAGS | os.O_APPEND))
LONGEST_WAIT = 10.0  # seconds for a lock that others hold for microseconds
_NAP = 0.0005
_TICK = 20_000_000  # nanoseconds: two changes of a directory within one tick of the kernel's clock have the same time
_STEP_BACK = 3600  # seconds by which a clock may be set back without records that are older than the last
_HINTS = {
    "ENOSPC": "the disk is full: free some space; until then nothing is allowed that has to be recorded",
    "EDQUOT": "your quota is used up: free some space; until then nothing is allowed that has to be recorded",
    "EFBIG": "the file may not grow any further: look at `ulimit -f` and at the file system's limits",
    "EROFS": "the file system is read-only: set BYLEAVE_HOME to a directory that can be written to",
    "EACCES": "it must be yours and writable: check its owner and its permissions",
    "EIO": "the disk has a fault: look at the system's log, and set BYLEAVE_HOME to another disk",
}


class AuditJournal:
    """The journal of one workspace. As a context manager: held against all other writers, and known to be in order."""

    def __init__(self, directory: str, *, warnings: list[str], now: Callable[[], int] = time.time_ns) -> None:
        self.directory = directory
        self._path = os.path.join(directory, JOURNAL)
        self._warnings = warnings
        self._now = now
        self._second, self._date = -1, ""
        self._looked, self._changed = -1, -1
        self._table: tuple[int, int] | None = None
        self._alarm = ""
        self._own: ChainHead | None = None  # the last record that this process wrote, until a fold has seen it
        self._forget()
        leave_after_fork(self)

    @property
    def path(self) -> str:
        return self._path

    def append(self, text: str) -> int:
        """Write one record, whose fields are JSON, and return its number. It is kept whole, or there is an error."""
        return self.append_all((text,))

    def append_all(self, texts: Sequence[str]) -> int:
        """Write records in one write, in this order, and return the number of the first. All are kept, or none is.

        One error says that the files were exchanged under this process; the records after it are written again.
        """
        with self.alone, self:
            if self._alarm:
                alarm, self._alarm = self._alarm, ""
                hint = "run `byleave audit verify`, and find out who changed the files"
                raise StateError(f"{quoted(self._path)}: {alarm}; the record was not kept", hint=hint)
            number = self._add(texts)
            self._own = self._last
            return number

    def settled(self) -> tuple[ChainHead, int]:
        """Return where the chain ends, and the size of the journal, after setting right what a killed writer left."""
        with self.alone, self:
            return self._last, self._size

    def sync_head(self) -> None:
        """Have the head on the disk, before the records that prove it leave the journal."""
        with self.alone, self:
            descriptor = os.dup(self._head)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def opened(self) -> int:
        """Return a descriptor of the journal that is appended to now, whatever stands at its path."""
        with self.alone, self:
            return os.dup(self._journal)

    def catch_up(self, table: ChainHead | None) -> None:
        """Go on behind the table if it is ahead: an older head was put back, by a program or by a power cut.

        What the journal holds follows from that older head. It is kept aside, and the chain says so.
        """
        with self.alone, self:
            if table is None or table.sequence <= self._last.sequence:
                return
            content = _read_whole(self._journal)
            aside = (
                f"; {len(content)} bytes of the journal are kept in {keep_aside(self.path, content)}" if content else ""
            )
            known = f"the kept head was record {self._last.sequence}"
            problem = f"{known}, older than record {table.sequence} of the table{aside}"
            self._keep_head(table, 0, self._time)
            os.ftruncate(self._journal, 0)
            self._own = None
            self._record_recovery((problem,), alarm=True)

    def compare(self, first: int, last: int, hash_of: Callable[[int], str | None]) -> None:
        """See whether a table with the records `first` to `last` has the last one that this process wrote."""
        with self.alone, self:
            own, self._own = self._own, None
            if own is not None and first <= own.sequence <= last and hash_of(own.sequence) != own.hash:
                self._go_on_behind(self._last, f"the table has another record than {own}, which this process wrote")

    @property
    def size(self) -> int:
        """How long the journal is; only while it is held."""
        return self._size

    def empty(self) -> None:
        """Cut the journal back to nothing; only while it is held."""
        self._keep_head(
            self._last, 0, self._time
        )  # before the cut: dying in between leaves more than the head says, not less
        os.ftruncate(self._journal, 0)

    def close(self) -> None:
        """Let go of the files."""
        with self.alone:
            self._close()

    def __del__(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        """Take the lock between processes; `alone`, the one between threads, is taken before it."""
        try:
            self._hold()
            self._look()
        except OSError as error:
            self._release()
            raise cannot_write(self.path, error) from None
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._release()

    def _add(self, texts: Sequence[str]) -> int:
        first, hash_ = self._last.sequence + 1, self._last.hash
        stamp = self._stamp()
        lines: list[bytes] = []
        for sequence, text in enumerate(texts, first):
            rest = f",{text[1:]}" if text != "{}" else "}"
            payload = f'{{"sequence":{sequence},"time":"{stamp}"{rest}'.encode()
            hash_ = linked(hash_, payload)
            lines.append(b"%b %b\n" % (hash_.encode(), payload))
        written = lines[0] if len(lines) == 1 else b"".join(lines)
        before = self._size
        try:
            self._write(written)
            self._keep_head(ChainHead(first + len(lines) - 1, hash_), before + len(written), stamp)
        except OSError as error:
            self._cut_back(before)
            raise cannot_write(self.path, error) from None
        return first

    def _write(self, lines: bytes) -> None:
        written = os.write(self._journal, lines)
        if written != len(lines):  # the disk took a part: the next write says why
            os.write(self._journal, lines[written:])
            raise OSError(None, "only a part of the record could be written")

    def _keep_head(self, head: ChainHead, size: int, stamp: str) -> None:
        raw = head_line(head, size, stamp)
        if os.pwrite(self._head, raw, 0) != len(raw):
            raise OSError(None, "only a part of the head could be written")
        self._last, self._size, self._raw, self._time = head, size, raw, stamp

    def _cut_back(self, size: int) -> None:
        """Take back what was not kept whole; if even that fails, the next writer does it."""
        self._raw, self._size = b"", -1
        try:
            os.ftruncate(self._journal, size)
        except OSError:
            return

    def _look(self) -> None:
        """See what other processes wrote since, and set right what a killed one left."""
        raw = os.pread(self._head, HEAD_WIDTH + 1, 0)
        size = os.lseek(self._journal, 0, os.SEEK_END)  # what is written goes to the end wherever one stands
        if raw == self._raw and size == self._size and not self._exchanged:
            return
        known, seen = read_head_line(raw), self._last
        if known is not None and known[1] == size:
            (self._last, self._size, self._time), self._raw = known, raw
        else:
            self._recover(known[0] if known is not None else None, raw)
        if self._exchanged or self._last.sequence < seen.sequence or self._is_another(seen):
            problem = f"the files were removed, exchanged or put back under a running process, which knew record {seen}"
            self._go_on_behind(seen, problem)
        elif self._table is None and self._last.sequence > 0 and not self._begins():
            self._go_on_behind(seen, f"{TABLE} is gone, though the chain has {self._last.sequence} records")

    def _is_another(self, seen: ChainHead) -> bool:
        """Whether the chain ends in the very number that this process has seen, and in another record."""
        return self._last.sequence == seen.sequence and self._last.hash != seen.hash and seen.sequence > 0

    def _begins(self) -> bool:
        """Whether the journal holds the first record of all: then there need not be a table yet."""
        return sequence_of(os.pread(self._journal, 100, 65)) == 1  # a line is a hash, a blank and the record

    def _go_on_behind(self, seen: ChainHead, problem: str) -> None:
        """Have the chain say that it is not the one which this process knows, and refuse the next record."""
        if self._last.sequence < seen.sequence:  # what is missing shows as a hole in the numbers
            self._keep_head(seen, self._size, self._time)
        self._alarm = problem
        self._record_recovery((problem,), alarm=True)
        self._exchanged = False

    def _recover(self, kept: ChainHead | None, raw: bytes) -> None:
        try:
            content = _read_whole(self._journal)
            found = recover(content, kept, table_head(self.directory), raw=raw)
            if found.damaged:
                keep_aside(self.path, content)
            if found.size < len(content):
                os.ftruncate(self._journal, found.size)
            if os.fstat(self._head).st_size > HEAD_WIDTH:
                os.ftruncate(self._head, 0)
            self._keep_head(found.head, found.size, max(found.time, self._time))
        except OSError as error:
            raise cannot_write(self.path, error) from None
        if found.problems:
            self._record_recovery(found.problems, alarm=found.alarm)

    def _record_recovery(self, problems: tuple[str, ...], *, alarm: bool) -> None:
        """Warn of problems that were set right, and record them in the chain for later readers."""
        self._warnings += [f"{quoted(self.path)}: {problem}" for problem in problems]
        self._add((encode({"event": RECOVERY, "problems": problems, "alarm": alarm}),))

    def _stamp(self) -> str:
        """Return the time of the next record: never before the last one's, unless the clock was set back by far."""
        now = self._now()
        second, rest = divmod(now, 1_000_000_000)
        if second != self._second:
            self._second, self._date = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        stamp = f"{self._date}.{rest // 1000:06d}Z"
        if stamp >= self._time or _seconds(self._time) - second > _STEP_BACK:
            return stamp
        return self._time

    def _hold(self) -> None:
        """Wait for the lock; open the files anew if they were removed meanwhile."""
        while True:
            if self._lock < 0:
                self._open()
            wait_for_lock(self._lock, self._path)
            if self._is_there():
                return
            self._close()
            self._exchanged = self._last.sequence > 0

    def _is_there(self) -> bool:
        """Whether the files are still those in the directory.

        Looking at each takes as long as writing. So it is done once a second, and whenever a name in the directory has
        come, gone or changed.
        """
        second, changed = int(time.monotonic()), os.fstat(self._directory).st_ctime_ns
        if second == self._looked and changed == self._changed:
            return True
        self._looked = second
        self._changed = changed if abs(time.time_ns() - changed) > _TICK else -1
        held = zip((self._lock, self._head, self._journal), _FILES, strict=True)
        if not all(_is_same(one, os.path.join(self.directory, name)) for one, (name, _flags) in held):
            return False
        table, known = _identity(os.path.join(self.directory, TABLE)), self._table
        self._table = table
        return known is None or table == known

    def _release(self) -> None:
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _open(self) -> None:
        make_private_directory(self.directory)
        opened: list[int] = []
        try:
            for name, flags in _FILES:
                opened.append(_open_own(os.path.join(self.directory, name), flags))
            opened.append(os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except BaseException:
            for descriptor in opened:
                os.close(descriptor)
            raise
        self._lock, self._head, self._journal, self._directory = opened
        self._looked = -1

    def _close(self) -> None:
        opened = self._opened
        self._journal = self._head = self._lock = self._directory = -1
        self._raw, self._size, self._table = b"", -1, None
        for descriptor in opened:
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def _opened(self) -> tuple[int, ...]:
        return self._journal, self._head, self._directory, self._lock

    def _forget(self) -> None:
        self.alone = _thread.allocate_lock()
        self._lock = self._head = self._journal = self._directory = -1
        self._last, self._size, self._raw, self._time = ChainHead(0, ""), -1, b"", NO_TIME
        self._table, self._exchanged, self._alarm = None, False, ""
        self._own = None

    def leave_to_parent(self) -> None:
        """After a fork: a lock on shared descriptors is shared as well, so this process opens its own."""
        for descriptor in self._opened:
            if descriptor >= 0:
                os.close(descriptor)
        self._forget()


def wait_for_lock(descriptor: int, path: str) -> None:
    """Take a lock, or raise an error after a while: a stopped process that holds it must not stop all others."""
    until = 0.0
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            until = until or time.monotonic() + LONGEST_WAIT
            if time.monotonic() >= until:
                hint = "`fuser` shows which process holds it; it may be stopped"
                raise StateError(f"{quoted(path)} is locked by another process for too long", hint=hint) from None
            time.sleep(_NAP)
            continue
        return


def _is_same(descriptor: int, path: str) -> bool:
    """Whether the file that is open still stands at its path: it may have been removed, moved away or exchanged."""
    here = os.fstat(descriptor)
    return _identity(path) == (here.st_dev, here.st_ino)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def _seconds(stamp: str) -> int:
    """Return the time of a record in seconds since 1970; 0 if it is none."""
    try:
        return timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0


def cannot_write(path: str, error: OSError) -> StateError:
    """Return the error for a record that could not be kept."""
    hint = _HINTS.get(errorcode.get(error.errno or 0, ""), "check the disk, and the permissions of the directory")
    return StateError(f"{quoted(path)} cannot be written, the record was not kept: {error.strerror}", hint=hint)


def keep_aside(path: str, content: bytes) -> str:
    """Keep a copy of a damaged file beside it, under a name that is free, and return that name."""
    number = 1
    while True:
        name = f"{path}.damaged-{number}"
        try:
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return name


def _open_own(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        _refuse_odd(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_odd(path: str, found: os.stat_result) -> None:
    refuse_shared(path, found)
    if not stat.S_ISREG(found.st_mode):
        raise StateError(f"{quoted(path)} is not a plain file", hint="move it away")


def _read_whole(descriptor: int) -> bytes:
    return read_from(descriptor, 0, os.fstat(descriptor).st_size)


def read_from(descriptor: int, start: int, most: int) -> bytes:
    """Read from a place of a file without moving the place where others read it."""
    chunks = []
    while most > 0 and (chunk := os.pread(descriptor, min(most, 1 << 20), start)):
        chunks.append(chunk)
        start, most = start + len(chunk), most - len(chunk)
    return b"".join(chunks)


class _Forgetful(Protocol):
    def leave_to_parent(self) -> None: ...


def leave_after_fork(holder: _Forgetful) -> None:
    """Have `leave_to_parent` called in every child that is forked, as long as the holder is there."""
    known = ref(holder)

    def leave() -> None:
        here = known()
        if here is not None:
            here.leave_to_parent()

    os.register_at_fork(after_in_child=leave)
