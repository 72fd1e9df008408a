"""Folding: records move from the journal into the table, and the journal begins anew.

The journal is on the disk before the table takes its records, and the table is on the disk before the journal lets go
of them. One folder works at a time (`audit.fold.lock`, and the directory itself). What fails leaves the journal as it
is.

A process that appends does not wait for the folding: a thread does it in a long-lived process, and a child that stays
behind does it for a short one. The lock belongs to an open file, so that this child can inherit it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from signal import SIG_DFL, SIGHUP, SIGINT, SIGTERM, signal
from typing import TYPE_CHECKING

from msgspec.json import encode

from byleave.errors import StateError
from byleave.record import Record
from byleave.store.audit.chain import journal_lines, read_line
from byleave.store.audit.journal import AuditJournal, cannot_write, keep_aside, read_from, wait_for_lock
from byleave.store.audit.table import damaged_table, last_head, open_table, table_errors
from byleave.text import quoted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator

    from byleave.store.audit.chain import JournalLine


_held: set[int] = set()


def hold_file(path: str, *, patient: bool, inherited: bool = False) -> int | None:
    """Return a descriptor that holds a lock until `let_go`; None if another holds it and we are not patient.

    A StateError if it is held for too long. Unless it is to be `inherited`, a child that is forked lets go of it.
    """
    return _hold(path, os.O_RDWR | os.O_CREAT, patient=patient, inherited=inherited)


def hold_directory(path: str, *, patient: bool) -> int | None:
    """Do the same with a directory: unlike a file of its own, it cannot be taken away from under those who wait."""
    return _hold(path, os.O_RDONLY | os.O_DIRECTORY, patient=patient)


def _hold(path: str, flags: int, *, patient: bool, inherited: bool = False) -> int | None:
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        if patient:
            wait_for_lock(descriptor, path)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    if not inherited:
        _held.add(descriptor)
    return descriptor


def let_go(descriptor: int) -> None:
    """Let go of a lock."""
    _held.discard(descriptor)
    os.close(descriptor)


def _leave_to_parent() -> None:
    """After a fork: the lock belongs to the open file, which the child has as well, and would outlive the parent."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_leave_to_parent)

FOLD_LOCK = "audit.fold.lock"
_STEP = 8 << 20  # bytes of the journal that become one transaction
_MOST_BEHIND = 4 << 20  # bytes of a journal that is never caught up with
_INSERT = "INSERT INTO records (sequence, hash, record) VALUES (?, ?, ?)"
# All rows in one step of SQLite, which takes it without the interpreter's lock: between the steps of `executemany` the
# thread of the event loop and this one would wait for each other, for every record.
_INSERT_ALL = (
    "INSERT INTO records (sequence, hash, record) "
    "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?)"
)


class FoldResult(Record):
    """How far a fold came: the bytes of the journal it has read, the lines that the table refused, the last line."""

    size: int
    refused: int = 0
    last: bytes = b""

    def still_holds(self, connection: sqlite3.Connection, descriptor: int) -> bool:
        """Whether journal and table are those that it came so far with: both have its last record, in its place."""
        line = read_line(self.last[:-1])
        if line is None or read_from(descriptor, self.size - len(self.last), len(self.last)) != self.last:
            return False
        query = "SELECT hash FROM records WHERE sequence = ?"
        return (line.hash,) in connection.execute(query, (line.sequence,))


_NOTHING_YET = FoldResult(0)


class TableWriter:
    """Moves the records of one journal into its table.

    `pruning` makes what removes old records, or None; it runs behind each fold, while no other process can fold.
    """

    def __init__(
        self,
        journal: AuditJournal,
        *,
        warnings: list[str],
        pruning: Callable[[TableWriter], Callable[[sqlite3.Connection], None] | None],
    ) -> None:
        self._journal = journal
        self._warnings = warnings
        self._done = _NOTHING_YET  # of a journal that grew while it was folded, so that it was not emptied
        self._prune = pruning(self)

    def waiting(self) -> bool:
        """Whether there is anything to fold."""
        try:
            return os.stat(self._journal.path).st_size > 0
        except OSError:
            return False

    def fold(self, *, patient: bool = True) -> bool:
        """Fold everything there is. If another process is at it, wait for it, or leave it to it and return False."""
        lock = hold_file(os.path.join(self._journal.directory, FOLD_LOCK), patient=patient)
        if lock is None:
            return False
        whole = None
        try:
            whole = hold_directory(self._journal.directory, patient=patient)  # a program may remove the file
            if whole is not None:
                self._fold_alone()
        finally:
            if whole is not None:
                let_go(whole)
            let_go(lock)
        return whole is not None

    def _fold_alone(self) -> None:
        try:
            _head, size = self._journal.settled()
            connection = open_table(self._journal.directory)
            try:
                self._journal.catch_up(last_head(connection))
                if size:
                    self.move(connection)
                self._compare(connection)
                if self._prune is not None:
                    self._prune(connection)
            finally:
                connection.close()
        except table_errors() as error:
            raise damaged_table(self._journal.directory, error) from None
        except OSError as error:
            raise cannot_write(self._journal.path, error) from None

    def _compare(self, connection: sqlite3.Connection) -> None:
        """Have the journal see that the table is the one which its records went to: it may have been overwritten."""
        first, last = connection.execute(
            "SELECT (SELECT MIN(sequence) FROM records), (SELECT MAX(sequence) FROM records)"
        ).fetchone()
        query = "SELECT hash FROM records WHERE sequence = ?"

        def hash_of(sequence: int) -> str | None:
            row = connection.execute(query, (sequence,)).fetchone()
            return None if row is None else str(row[0])

        if first is not None:
            self._journal.compare(first, last, hash_of)

    def move(self, connection: sqlite3.Connection) -> None:
        """Insert what the journal holds, then empty it. Only the one folder at work may do this."""
        self._journal.sync_head()  # first: after a power cut the table must not be ahead of the head
        descriptor = self._journal.opened()
        before, self._done = self._done, _NOTHING_YET
        try:
            start = before if before.still_holds(connection, descriptor) else _NOTHING_YET
            done = _insert_all(connection, descriptor, start)
            with self._journal.alone, self._journal:
                if done.size < self._journal.size > _MOST_BEHIND:  # it grows faster than it is folded: let writers wait
                    done = _insert_all(connection, descriptor, done)
                if done.size == self._journal.size:
                    self._let_go(descriptor, done)
                else:  # the next fold takes what was written meanwhile
                    self._done = done
        finally:
            os.close(descriptor)

    def _let_go(self, descriptor: int, done: FoldResult) -> None:
        if done.refused:
            name = keep_aside(self._journal.path, read_from(descriptor, 0, done.size))
            self._warnings.append(f"{done.refused} damaged lines of the journal were not taken over: {quoted(name)}")
        self._journal.empty()


def _insert_all(connection: sqlite3.Connection, descriptor: int, done: FoldResult) -> FoldResult:
    """Insert every whole line that is there now behind what is done, in steps of one transaction each."""
    os.fdatasync(descriptor)
    step, end = _STEP, os.fstat(descriptor).st_size  # writers may be faster than we are: what comes later is for later
    while done.size < end and (content := read_from(descriptor, done.size, min(step, end - done.size))):
        whole = content[: content.rfind(b"\n") + 1]
        if not whole and done.size + len(content) >= end:
            break
        if whole:
            refused = insert_lines(connection, [line for line, _end in journal_lines(whole)])
            last = whole[whole.rfind(b"\n", 0, -1) + 1 :]
            done = FoldResult(done.size + len(whole), done.refused + refused, last)
        else:
            step *= 2  # one line is longer than a step
    return done


def insert_lines(connection: sqlite3.Connection, lines: list[JournalLine | None]) -> int:
    """Insert the lines that are not in the table yet; return how many were none of ours."""
    import sqlite3  # heavy: appending does not need the table

    last = last_head(connection)
    known = last.sequence if last is not None else 0
    fresh = [line for line in lines if line is not None and line.sequence > known]
    bad = lines.count(None) + _foreign(
        connection, [line for line in lines if line is not None and line.sequence <= known]
    )
    connection.execute("BEGIN IMMEDIATE")
    try:
        try:
            connection.execute(_INSERT_ALL, (encode([*_rows(fresh)]).decode(),))
        except (sqlite3.IntegrityError, sqlite3.OperationalError, sqlite3.DataError) as error:
            if not _is_about_a_line(error):
                raise
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            bad += _insert_each(connection, fresh)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return bad


def _foreign(connection: sqlite3.Connection, lines: list[JournalLine]) -> int:
    """Return how many of these lines are not the records that the table has under their numbers.

    Numbers before its first record are those that the retention has removed.
    """
    if not lines:
        return 0
    first = connection.execute("SELECT MIN(sequence) FROM records").fetchone()[0]
    query = "SELECT sequence, hash FROM records WHERE sequence BETWEEN ? AND ?"
    bounds = min(line.sequence for line in lines), max(line.sequence for line in lines)
    known = dict(connection.execute(query, bounds).fetchall())
    return sum(1 for line in lines if line.sequence >= first and known.get(line.sequence) != line.hash)


def _insert_each(connection: sqlite3.Connection, lines: Iterable[JournalLine]) -> int:
    import sqlite3  # heavy: appending does not need the table

    refused = 0
    for row in _rows(lines):
        try:
            connection.execute(_INSERT, row)
        except sqlite3.Error as error:
            if not _is_about_a_line(error):
                raise
            refused += 1
    return refused


def _is_about_a_line(error: sqlite3.Error) -> bool:
    """Whether one record is to blame, not the disk or the table: its text is no JSON, or its number is taken."""
    return "malformed JSON" in str(error) or error.sqlite_errorname.startswith("SQLITE_CONSTRAINT")


def _rows(lines: Iterable[JournalLine]) -> Iterator[tuple[int, str, str]]:
    return ((line.sequence, line.hash, line.payload.decode("ascii")) for line in lines)


def fold_or_keep(folder: TableWriter, warnings: list[str], *, patient: bool) -> None:
    """Fold; what goes wrong is kept as a warning, once: the records are safe in the journal."""
    try:
        folder.fold(patient=patient)
    except StateError as error:
        if str(error) not in warnings:
            warnings.append(str(error))


WAIT_LOCK = "audit.fold.wait"
PERIOD = 0.5  # seconds between two looks of the thread
DELAY = 0.2  # seconds that a child waits for more records to come


class FoldThread:
    """Folds every now and then, if there is something, until it is stopped."""

    def __init__(self, folder: TableWriter, warnings: list[str]) -> None:
        self._folder = folder
        self._warnings = warnings
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="byleave-audit-fold", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a fold that is under way is finished."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:

        while not self._ended.wait(PERIOD):
            if self._folder.waiting():
                fold_or_keep(self._folder, self._warnings, patient=False)


def fold_behind(directory: str, fold: Callable[[], object]) -> None:
    """Leave a child behind that folds in a moment, unless one is waiting already. It never becomes a zombie of ours."""
    waiting = hold_file(os.path.join(directory, WAIT_LOCK), patient=False, inherited=True)
    if waiting is None:
        return
    try:
        child = os.fork()
        if child == 0:
            _leave_grandchild(waiting, fold)
        _wait_for(child)
    finally:
        os.close(waiting)  # the lock lives on in the grandchild, which has the same open file


def _wait_for(child: int) -> None:
    try:
        os.waitpid(child, 0)
    except ChildProcessError:  # our parent has SIGCHLD ignored, so the kernel has waited for it
        return


def _leave_grandchild(waiting: int, fold: Callable[[], object]) -> None:
    """In the child: fork once more and end, so that no process has to wait for the grandchild."""
    try:
        os.setsid()
        if os.fork() == 0:
            _wait_and_fold(waiting, fold)
    finally:
        os._exit(0)


def _wait_and_fold(waiting: int, fold: Callable[[], object]) -> None:
    for number in (SIGINT, SIGTERM, SIGHUP):
        signal(number, SIG_DFL)
    waiting = _let_go_of_everything(waiting)
    time.sleep(DELAY)
    os.close(waiting)  # from here on a new record needs a new child
    fold()


def _let_go_of_everything(kept: int) -> int:
    """Close every descriptor but one, which becomes 3, and lead the standard streams nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    kept, nowhere = os.dup2(kept, 60, inheritable=False), os.dup2(nowhere, 61, inheritable=False)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.dup2(kept, 3, inheritable=False)
    os.closerange(4, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 4096)
    os.chdir("/")
    return 3
