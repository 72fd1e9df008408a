"""The audit log of one process in the shared database: a chain of its own, written by batches that calls share.

One thread writes. All records that are staged while it waits for the disk of the server go into one transaction
together (`chains`).

A transaction whose end is not known counts as lost: its calls are refused. The chain goes on from what the database
has. What is surely not in the database waits on this machine, where the configuration says so (`spooling`).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
from collections import deque
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as LateError
from time import monotonic
from typing import TYPE_CHECKING

import psycopg

from byleave.core.redact import Redactor
from byleave.errors import InputError, StateError
from byleave.store.audit.chain import OWN_EVENTS, load_fast_hash
from byleave.store.audit.records import load_fast_encoder, record_text
from byleave.store.postgres.chains import WriterHead, begin_chain, write_records
from byleave.store.postgres.database import PATIENCE, connect, cut, reason
from byleave.store.postgres.schema import ensure_partitions
from byleave.store.postgres.spooling import Spooler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from psycopg import Connection

    from byleave.store.postgres.database import Database
    from byleave.store.postgres.spooling import SpoolSettings

_MOST_AT_ONCE = 1000  # records of one transaction
_MOST_STAGED = 20_000  # records that wait; more are refused
_OURS = ("sequence", "time")  # the log sets them


class StagedRow:
    """A record that is being written to the database."""

    __slots__ = ("_log", "future", "on_failure", "text")

    def __init__(self, text: str, log: PostgresLog, on_failure: Callable[[StateError], None] | None) -> None:
        self.text = text
        self.on_failure = on_failure
        self.future: Future[int] = Future()
        self._log = log

    def fail(self, error: StateError) -> None:
        """Note that it was not kept."""
        self.future.set_exception(error)
        if self.on_failure is not None:
            self.on_failure(error)

    async def kept(self) -> int:
        """Return the record's number once the database has it on its disk; a StateError if it was not kept."""
        waiting = asyncio.wrap_future(self.future)
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(PATIENCE):  # shielded: the record is kept, also where its caller is gone
                return await asyncio.shield(waiting)
        except TimeoutError:
            self.future.cancel()
            raise self._log.late() from None

    def settled(self) -> int:
        """Do the same without giving others a turn."""
        try:
            return self.future.result(timeout=PATIENCE)
        except (LateError, CancelledError):  # cancelled by `kept`, which waited as long already
            self.future.cancel()
            raise self._log.late() from None


class PostgresLog:
    """The records of this process. What went wrong is in `warnings`."""

    may_wait = True

    def __init__(
        self,
        database: Database,
        *,
        mask: Redactor | None = None,
        name: str = "",
        spool: SpoolSettings | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        """With a `spool`, what earlier processes left there is delivered, and records may wait there."""
        self.warnings: list[str] = []
        self._database = database
        self._mask = mask if mask is not None else Redactor()
        self._name = name or f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(8)}"
        self._connection: Connection[Any] | None = None
        self._head: WriterHead | None = None
        self._staged: deque[StagedRow] = deque()
        self._condition = threading.Condition()
        self._closed = False
        self._begun = 0.0  # when the transaction under way began
        self._commits = False  # whether the end of the transaction was asked for
        load_fast_hash()
        load_fast_encoder()
        self._mask.prepare()
        self.spooler: Spooler[StagedRow] | None = None
        if spool is not None:
            self.spooler = Spooler(
                database,
                spool,
                self._name,
                staged=self._staged,
                condition=self._condition,
                note=self.warnings.append if note is None else note,
            )
        self._thread = threading.Thread(target=self._write, name="byleave-audit", daemon=True)
        self._thread.start()

    def mask_with(self, mask: Redactor) -> None:
        """Mask what is appended from now on with another mask."""
        self._mask = mask
        mask.prepare()

    def append(self, fields: Mapping[str, Any]) -> int:
        """Keep one record and return its number; a StateError says that it was not kept."""
        return self.stage(fields).settled()

    def append_all(self, records: Sequence[Mapping[str, Any]]) -> list[int]:
        """Keep records in this order and return their numbers; a StateError says that one was not kept."""
        staged = [self.stage(fields) for fields in records]
        return [each.settled() for each in staged]

    def stage(self, fields: Mapping[str, Any], on_failure: Callable[[StateError], None] | None = None) -> StagedRow:
        """Begin to keep one record. Records of one thread are kept in the order in which they were staged.

        `on_failure` is called, by another thread, if it was not kept.
        """
        if not isinstance(fields, dict) or any(name in fields for name in _OURS):
            fields = {key: value for key, value in fields.items() if key not in _OURS}
        if fields.get("event") in OWN_EVENTS:
            raise InputError(f"the event {fields['event']} is the log's own", hint="name what happened otherwise")
        if self.spooler is not None and "of" in fields:
            fields = {**fields, "of": self.spooler.real_number(fields["of"])}
        staged = StagedRow(record_text(fields, self._mask), self, on_failure)
        with self._condition:
            if self.spooler is None or not self.spooler.is_needed():
                self._database.refuse_if_down()
            if self._closed or len(self._staged) >= _MOST_STAGED:
                why = "the log is closed" if self._closed else f"{_MOST_STAGED} records wait for the database"
                raise StateError(f"the record was not kept: {why}", hint="try again later")
            self._staged.append(staged)
            self._condition.notify_all()
        return staged

    def late(self) -> StateError:
        """Return the error for a record that the database does not take in time; the server may hang for ever."""
        if self._begun and monotonic() - self._begun >= PATIENCE:
            cut(self._connection)
        if self.spooler is not None:
            self.spooler.cut_if_late()
        return self._database.failed(f"a record was not kept within {PATIENCE:g} seconds")

    def close(self) -> None:
        """Write what is staged, and end."""
        if self.spooler is not None:
            self.spooler.close(PATIENCE)
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join(timeout=PATIENCE)

    def _write(self) -> None:
        while batch := self._next():
            texts = [staged.text for staged in batch]
            self._begun, self._commits = monotonic(), False
            try:
                numbers = self._commit(texts)
            except psycopg.Error as error:
                self._lose(batch, self._database.failed(reason(error)), is_absent=not self._commits)
            except StateError as error:
                self._lose(batch, error)
            except Exception as error:  # noqa: BLE001 -- a caller must not wait for ever
                self._lose(batch, StateError(f"the record was not kept: {type(error).__name__}", hint="report this"))
            else:
                for staged, number in zip(batch, numbers, strict=True):
                    staged.future.set_result(number)
            self._begun = 0.0
        if self._connection is not None:
            self._connection.close()

    def _next(self) -> list[StagedRow]:
        """Return what is staged, at most so many; nothing once the log is closed and all is written."""
        while True:
            with self._condition:
                while (not self._staged or self._waits_for_spool()) and not self._closed:
                    self._condition.wait()
                if not self._staged or self._waits_for_spool():
                    return []
                taken = [self._staged.popleft() for _ in range(min(len(self._staged), _MOST_AT_ONCE))]
            batch = [row for row in taken if row.future.running() or row.future.set_running_or_notify_cancel()]
            if batch:
                return batch

    def _waits_for_spool(self) -> bool:
        return self.spooler is not None and self.spooler.active

    def _commit(self, texts: list[str]) -> list[int]:
        connection = self._connection
        numbers: list[int]
        if connection is None:
            connection, (numbers, head) = self._reconnected(texts)
        else:
            try:
                numbers, head = self._written(connection, texts)
            except psycopg.OperationalError:  # the server was restarted; nothing of this is committed
                connection.close()
                connection, (numbers, head) = self._reconnected(texts)
        self._commits = True
        connection.commit()
        self._head = head
        return numbers

    def _reconnected(self, texts: list[str]) -> tuple[Connection[Any], tuple[list[int], WriterHead]]:
        self._head = None
        self._begun = 0.0  # a connection that is not there yet cannot be cut
        connection = self._connection = connect(self._database.address)
        self._begun = monotonic()
        return connection, self._written(connection, texts)

    def _written(self, connection: Connection[Any], texts: list[str]) -> tuple[list[int], WriterHead]:
        """Write records to the end of the chain as the database has it, without a commit."""
        if self._head is None:
            self._head = begin_chain(connection, self._name)
            connection.commit()
        try:
            return write_records(connection, self._head, texts)
        except psycopg.errors.CheckViolation:  # there is no partition for today
            connection.rollback()
            ensure_partitions(connection)
            return write_records(connection, self._head, texts)

    def _lose(self, batch: list[StagedRow], error: StateError, *, is_absent: bool = False) -> None:
        """Refuse a batch, or have it spooled if the database surely does not have it (`is_absent`).

        Whether the database has it after all is found out by asking it for the head.
        """
        if not (is_absent and self.spooler is not None and self.spooler.take_over(batch)):
            for staged in batch:
                staged.fail(error)
        connection, self._connection, self._head = self._connection, None, None
        if connection is not None:
            connection.close()
