"""Records that wait on this machine while the shared database is away (`[store] on_failure = "spool"`).

A thread takes what the log has staged and writes it to a file (`spool_file`), for good, before any call goes out. Once
the database answers, it delivers the records in their order, and then the log goes on by itself; so no record overtakes
another of the same process. Files of processes that have ended are delivered by whichever gateway of this user runs.

Each file is a chain of its own in the database, whose end says how many of its records are there: delivered in one
transaction with them. So a record is delivered once, wherever its process or the one that delivers it is killed.

A record that waits has no number yet. Its calls know it by a negative one, which is replaced by the real one where a
later record names it.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import psycopg

from byleave.errors import StateError
from byleave.store.audit.records import encode
from byleave.store.postgres.chains import begin_chain, write_records
from byleave.store.postgres.database import PATIENCE, connect, cut, reason
from byleave.store.postgres.schema import ensure_partitions
from byleave.store.postgres.spool_file import (
    DamagedSpoolError,
    SpoolFile,
    left_behind,
    new_file,
    spooled_bytes,
    waiting_records,
)

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from typing import Any

    from psycopg import Connection

    from byleave.store.postgres.database import Database
    from byleave.store.store_key import StoreKey

    class StagedText(Protocol):
        """A record that is to be kept, and who waits for that."""

        @property
        def text(self) -> str: ...
        @property
        def future(self) -> Future[int]: ...
        def fail(self, error: StateError) -> None: ...


Row = TypeVar("Row", bound="StagedText")
MEGABYTES = 64  # that wait at most, by default
_AT_ONCE = 1000  # records of one write, or of one transaction
_LOOK = 0.1  # seconds between two looks at whether the database is away, or back
_PAUSE = 5.0  # seconds after records could not be delivered, though the database answers
_LOOK_FOR_FILES = 30.0  # seconds between two searches for files that were left behind
_MOST_NUMBERS = 100_000  # of delivered records, for later ones that name them


class SpoolSettings:
    """Where records may wait, and how many bytes of them; none, if new ones may not (`may_write`)."""

    def __init__(self, directory: str, key: StoreKey, *, may_write: bool, megabytes: int = MEGABYTES) -> None:
        self.directory = directory
        self.key = key
        self.may_write = may_write
        self.most = megabytes << 20


class Spooler(Generic[Row]):
    """The spool of one log: shares its queue, and says by `active` whose turn it is to empty it."""

    def __init__(
        self,
        database: Database,
        settings: SpoolSettings,
        name: str,
        *,
        staged: deque[Row],
        condition: threading.Condition,
        note: Callable[[str], None],
    ) -> None:
        self.active = False
        self.problem = ""  # why nothing can be spooled now
        self.note = note
        self._database = database
        self._settings = settings
        self._name = name
        self._staged = staged
        self._condition = condition
        self._closed = False
        self._file: SpoolFile | None = None
        self._episode = 0
        self._next = 1  # the number of the next record that waits
        self._numbers: dict[int, int] = {}  # of delivered records, by what their calls know them by
        self._looked = -_LOOK_FOR_FILES
        self._not_before = 0.0
        self._connection: Connection[Any] | None = None  # by which is delivered
        self._begun = 0.0
        self._thread = threading.Thread(target=self._run, name="byleave-spool", daemon=True)
        self._thread.start()

    @property
    def may_write(self) -> bool:
        return self._settings.may_write

    def is_needed(self) -> bool:
        """Whether records go to the spool now; the caller holds the condition."""
        if not self.active and self.may_write and self._database.problem:
            self._begin()
        return self.active

    def take_over(self, batch: Sequence[Row]) -> bool:
        """Have a batch spooled that is surely not in the database; return whether that is possible."""
        if not self.may_write:
            return False
        with self._condition:
            self._staged.extendleft(reversed(batch))
            if not self.active:
                self._begin()
            self._condition.notify_all()
        return True

    def real_number(self, number: Any) -> Any:
        """Return the number of a record that its call knows by another one, as far as it is known."""
        return self._numbers.get(number, number) if type(number) is int and number < 0 else number

    def cut_if_late(self) -> None:
        """End the wait for a server that hangs in the middle of a delivery."""
        if self._begun and monotonic() - self._begun >= PATIENCE:
            cut(self._connection)

    def close(self, patience: float) -> None:
        """Write what is staged, and end; what waits is delivered by the next gateway."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join(timeout=patience)

    def _begin(self) -> None:
        self.active = True
        self.note("the shared store cannot be used: records wait on this machine until it can")

    # ---- The thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed or self.active:
            with self._condition:
                self._condition.wait_for(lambda: self._closed or (self.active and self._staged), _LOOK)
                batch = self._take() if self.is_needed() else []
            try:
                if batch:
                    self._write(batch)
                if not self._database.problem and monotonic() >= self._not_before:
                    self._deliver_all()
            except Exception as error:  # noqa: BLE001 -- callers must not wait for ever
                self._not_before = monotonic() + _PAUSE
                self.note(f"a defect of byleave while records waited: {type(error).__name__}")
            with self._condition:
                if self._closed and not self._staged:
                    break
        if self._file is not None:
            self._file.close()

    def _take(self) -> list[Row]:
        taken = [self._staged.popleft() for _ in range(min(len(self._staged), _AT_ONCE))]
        return [row for row in taken if row.future.running() or row.future.set_running_or_notify_cancel()]

    def _write(self, batch: Sequence[Row]) -> None:
        first, time = self._next, datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        texts = [_spooled(row.text, number, time) for number, row in enumerate(batch, first)]
        try:
            self._keep(texts)
        except (OSError, StateError) as error:
            why = error.problem if isinstance(error, StateError) else f"{error.strerror}"
            self._refuse(batch, why)
            return
        self.problem = ""
        self._next += len(batch)
        for number, row in enumerate(batch, first):
            row.future.set_result(-number)

    def _keep(self, texts: Sequence[str]) -> None:
        most, directory = self._settings.most, self._settings.directory
        if spooled_bytes(directory) + sum(map(len, texts)) > most:
            raise StateError(f"{most >> 20} MB of records wait already", hint="raise [store] spool_megabytes")
        if self._file is None:
            self._episode += 1
            file = new_file(directory, f"{os.getpid()}-{self._name[-16:]}-{self._episode}", self._settings.key)
            try:
                file.begin(f"{self._name}/spool/{self._episode}", self._next)
            except OSError:
                file.remove()
                raise
            self._file = file
        self._file.append(texts)

    def _refuse(self, batch: Sequence[Row], why: str) -> None:
        if not self.problem:
            self.note(f"records cannot wait on this machine: {why}; calls that must be recorded are refused")
        self.problem = why
        error = StateError(
            "the shared store cannot be used now, and the record cannot wait for it",
            hint=f"{why}; see [store] on_failure in docs/fleet.md",
        )
        for row in batch:
            row.fail(error)

    # ---- To the database -------------------------------------------------------------------------------------------

    def _deliver_all(self) -> None:
        looks = monotonic() - self._looked >= _LOOK_FOR_FILES
        if not self.active and not looks:
            return
        try:
            if self.active:
                self._finish()
            if looks:
                self._looked = monotonic()
                for file in left_behind(self._settings.directory, self._settings.key):
                    self._deliver_left(file)
        except psycopg.Error as error:
            self._database.failed(reason(error))
        except (StateError, OSError) as error:
            self._not_before = monotonic() + _PAUSE
            self.note(f"records that wait on this machine could not be delivered: {error}")

    def _finish(self) -> None:
        """Deliver what this process has spooled; when all of it is there, the log goes on by itself."""
        file, count = self._file, 0
        if file is not None:
            count = self._deliver(file, meanwhile=self._write_staged, delivered=self._remember)
            self._file = None
        with self._condition:
            self.active = False
            self.problem = ""
            self._condition.notify_all()
        self.note(f"the shared store can be used again: {count} records that waited are in it")

    def _write_staged(self, left: int) -> None:
        """Keep new records waiting, too, while there is more to deliver than one transaction holds."""
        if left > _AT_ONCE:
            with self._condition:
                batch = self._take()
            if batch:
                self._write(batch)

    def _remember(self, number: int, id_: int) -> None:
        self._numbers[-number] = id_
        if len(self._numbers) > _MOST_NUMBERS:
            del self._numbers[next(iter(self._numbers))]

    def _deliver_left(self, file: SpoolFile) -> None:
        try:
            file.read_head()
            if not file.chain:  # its process was killed before the first line was there, so no record is
                file.remove()
                return
            count = self._deliver(file)
        except DamagedSpoolError as error:
            file.set_aside()
            self.note(f"{error}")
            return
        except OSError as error:  # of this file: others may be read
            self.note(f"records that an earlier gateway of this machine left cannot be read: {error.strerror}")
            return
        finally:
            file.close()
        if count:
            self.note(f"{count} records that an earlier gateway of this machine left are in the shared store")

    def _deliver(
        self,
        file: SpoolFile,
        *,
        meanwhile: Callable[[int], None] = lambda _left: None,
        delivered: Callable[[int, int], None] = lambda _number, _id: None,
    ) -> int:
        """Bring all records of a file to the end of its chain, and remove it; return how many it has.

        What is there already is left out. Where a line was changed, what stands before it is delivered, the chain says
        so, and the file is kept aside.
        """
        with connect(self._database.address) as connection:
            self._connection, self._begun = connection, monotonic()
            ensure_partitions(connection)
            head = begin_chain(connection, file.chain)
            query = "SELECT place, id FROM byleave.records WHERE writer = %s"
            ids: dict[int, int] = dict(connection.execute(query, (head.id,)).fetchall())
            connection.commit()
            there, place, first = head.place, 0, file.number

            def change(place: int, id_: int, text: str) -> str:
                ids[place] = id_
                return _resolved(text, lambda number: ids.get(number - first + 1))

            file.rewind()
            try:
                while texts := file.read(_AT_ONCE):
                    new = texts[max(0, there - place) :]
                    place += len(texts)
                    self._begun = monotonic()
                    if new:
                        head = write_records(connection, head, new, change)[1]
                        connection.commit()
                    meanwhile(file.count - place)
                file.check_end()
            except DamagedSpoolError as error:
                if head.place == place:
                    write_records(connection, head, [encode({"event": "spool", "problem": error.problem})])
                    connection.commit()
                file.set_aside()
                self.note(f"{error}")
            else:
                file.remove()
            finally:
                self._connection, self._begun = None, 0.0
        for number in range(1, place + 1):
            if number in ids:  # else it was delivered long ago, and is not kept any more
                delivered(first + number - 1, ids[number])
        return place


def _spooled(text: str, number: int, time: str) -> str:
    """Return a record with when it was spooled, and under which number."""
    mark = encode({"number": number, "time": time})
    return f'{{"spooled":{mark}{"" if text == "{}" else ","}{text[1:]}'


def _resolved(text: str, number_of: Callable[[int], int | None]) -> str:
    """Return a record in which the number of a record that waited is its real one."""
    if '"of":-' not in text:
        return text
    tree = json.loads(text)
    of = tree.get("of")
    found = number_of(-of) if type(of) is int and of < 0 else None
    return text if found is None else encode({**tree, "of": found})


def describe_waiting(directory: str) -> str:
    """Say what waits on this machine; empty if nothing does."""
    records, damaged = waiting_records(directory)
    said = [f"{records} records wait on this machine for the shared store"] if records else []
    said += [f"{damaged} damaged files of such records are in {directory}"] if damaged else []
    return "; ".join(said)
