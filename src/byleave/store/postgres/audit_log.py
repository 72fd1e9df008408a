"""The audit log of one process in the shared database: a chain of its own, written by batches that calls share.

    hash of place n = sha256(hash of place n-1, as hex, newline, the text of the record); before the first stands the
    hash of the writer's name, so that no chain passes for another's

One thread writes. All records that are staged while it waits for the disk of the server go into one transaction
together. The database gives each its number and its time: one order for all replicas, whatever their clocks say. A
number is taken under a lock that all writers share and a reader takes alone, so that a reader knows up to which number
no record is still to come (`audit_reader`).

A transaction whose end is not known counts as lost: its calls are refused. The chain goes on from what the database
has.
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
from typing import TYPE_CHECKING

import psycopg

from byleave.core.redact import Redactor
from byleave.errors import InputError, StateError
from byleave.store.audit.chain import OWN_EVENTS, linked, load_fast_hash
from byleave.store.audit.records import load_fast_encoder, record_text
from byleave.store.postgres.columns import NAMES, columns_of
from byleave.store.postgres.database import PATIENCE, connect, reason
from byleave.store.postgres.schema import LOCK_ORDER, ensure_partitions
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from psycopg import Connection

    from byleave.store.postgres.database import Database

_MOST_AT_ONCE = 1000  # records of one transaction
_MOST_STAGED = 20_000  # records that wait; more are refused
_OURS = ("sequence", "time")  # the log sets them
_TAKE = """
WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(%s))
SELECT nextval('byleave.record_ids'), clock_timestamp() AT TIME ZONE 'UTC' FROM held, generate_series(1, %s)
"""
_TYPES = ("bigint", "bigint", "timestamp", "text", "text", *["text"] * len(NAMES))
_COLUMNS = ("id", "place", "time", "hash", "record", *NAMES)
# Every piece of the texts below is a constant of ours.
_INSERT = f"""
WITH added AS (
  INSERT INTO byleave.records ({", ".join(_COLUMNS)}, writer)
  SELECT id, place, time AT TIME ZONE 'UTC', {", ".join(_COLUMNS[3:])}, %s
  FROM unnest({", ".join(f"%s::{each}[]" for each in _TYPES)}) AS batch ({", ".join(_COLUMNS)})
)
UPDATE byleave.writers SET place = %s, hash = %s WHERE id = %s AND place = %s RETURNING id
"""  # noqa: S608


class WriterHead:
    """Where the chain of a writer ends, as the database has it."""

    __slots__ = ("hash", "id", "place")

    def __init__(self, id_: int, place: int, hash_: str) -> None:
        self.id = id_
        self.place = place
        self.hash = hash_


def begin_chain(connection: Connection[Any], name: str) -> WriterHead:
    """Return the head of a writer's chain; one that is not known yet begins."""
    connection.execute(
        "INSERT INTO byleave.writers (name, hash) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING",
        (name, first_hash(name)),
    )
    row = connection.execute("SELECT id, place, hash FROM byleave.writers WHERE name = %s", (name,)).fetchone()
    if row is None:
        raise StateError(
            "the chain of this process is gone", hint="rows of the database were removed by another program"
        )
    return WriterHead(*row)


def first_hash(name: str) -> str:
    """Return what the first record of a writer is chained to."""
    return digest(f"byleave writer {name}".encode())


def write_records(connection: Connection[Any], head: WriterHead, texts: Sequence[str]) -> tuple[list[int], WriterHead]:
    """Write records to the end of a chain, in the transaction of the caller; return their numbers, and the new head.

    `texts` are JSON objects without number and time, which come to stand in front.
    """
    with connection.pipeline():
        taken: list[tuple[int, datetime]] = connection.execute(_TAKE, (LOCK_ORDER, len(texts))).fetchall()
    rows: list[tuple[Any, ...]] = []
    place, hash_ = head.place, head.hash
    for (id_, time), text in zip(taken, texts, strict=True):
        place += 1
        rest = "}" if text == "{}" else f",{text[1:]}"
        record = f'{{"sequence":{id_},"time":"{time.isoformat(timespec="microseconds")}Z"{rest}'
        hash_ = linked(hash_, record.encode())
        rows.append((id_, place, time, hash_, record, *columns_of(record)))
    columns = [list(column) for column in zip(*rows, strict=True)]
    done = connection.execute(_INSERT, (head.id, *columns, place, hash_, head.id, head.place)).fetchone()
    if done is None:
        raise StateError("another process writes to the chain of this one", hint="start every gateway by itself")
    return [row[0] for row in rows], WriterHead(head.id, place, hash_)


class StagedRow:
    """A record that is being written to the database."""

    __slots__ = ("_log", "future", "on_failure", "text")

    def __init__(self, text: str, log: PostgresLog, on_failure: Callable[[StateError], None] | None) -> None:
        self.text = text
        self.on_failure = on_failure
        self.future: Future[int] = Future()
        self._log = log

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

    def __init__(self, database: Database, *, mask: Redactor | None = None, name: str = "") -> None:
        self.warnings: list[str] = []
        self._database = database
        self._mask = mask if mask is not None else Redactor()
        self._name = name or f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(8)}"
        self._connection: Connection[Any] | None = None
        self._head: WriterHead | None = None
        self._staged: deque[StagedRow] = deque()
        self._condition = threading.Condition()
        self._closed = False
        load_fast_hash()
        load_fast_encoder()
        self._mask.prepare()
        self._thread = threading.Thread(target=self._write, name="byleave-audit", daemon=True)
        self._thread.start()

    def mask_with(self, mask: Redactor) -> None:
        """Mask what is appended from now on with another mask."""
        self._mask = mask
        mask.prepare()

    def append(self, fields: Mapping[str, Any]) -> int:
        """Keep one record and return its number; a StateError says that it was not kept."""
        return self.stage(fields).settled()

    def stage(self, fields: Mapping[str, Any], on_failure: Callable[[StateError], None] | None = None) -> StagedRow:
        """Begin to keep one record. Records of one thread are kept in the order in which they were staged.

        `on_failure` is called, by another thread, if it was not kept.
        """
        if not isinstance(fields, dict) or any(name in fields for name in _OURS):
            fields = {key: value for key, value in fields.items() if key not in _OURS}
        if fields.get("event") in OWN_EVENTS:
            raise InputError(f"the event {fields['event']} is the log's own", hint="name what happened otherwise")
        staged = StagedRow(record_text(fields, self._mask), self, on_failure)
        with self._condition:
            self._database.refuse_if_down()
            if self._closed or len(self._staged) >= _MOST_STAGED:
                why = "the log is closed" if self._closed else f"{_MOST_STAGED} records wait for the database"
                raise StateError(f"the record was not kept: {why}", hint="try again later")
            self._staged.append(staged)
            self._condition.notify()
        return staged

    def late(self) -> StateError:
        """Return the error for a record that the database does not take in time."""
        return self._database.failed(f"a record was not kept within {PATIENCE:g} seconds")

    def close(self) -> None:
        """Write what is staged, and end."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join(timeout=PATIENCE)

    def _write(self) -> None:
        while batch := self._next():
            texts = [staged.text for staged in batch]
            try:
                numbers = self._commit(texts)
            except psycopg.Error as error:
                self._lose(batch, self._database.failed(reason(error)))
            except StateError as error:
                self._lose(batch, error)
            except Exception as error:  # noqa: BLE001 -- a caller must not wait for ever
                self._lose(batch, StateError(f"the record was not kept: {type(error).__name__}", hint="report this"))
            else:
                for staged, number in zip(batch, numbers, strict=True):
                    staged.future.set_result(number)
        if self._connection is not None:
            self._connection.close()

    def _next(self) -> list[StagedRow]:
        """Return what is staged, at most so many; nothing once the log is closed and all is written."""
        while True:
            with self._condition:
                while not self._staged and not self._closed:
                    self._condition.wait()
                if not self._staged:
                    return []
                taken = [self._staged.popleft() for _ in range(min(len(self._staged), _MOST_AT_ONCE))]
            batch = [staged for staged in taken if staged.future.set_running_or_notify_cancel()]
            if batch:
                return batch

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
        connection.commit()
        self._head = head
        return numbers

    def _reconnected(self, texts: list[str]) -> tuple[Connection[Any], tuple[list[int], WriterHead]]:
        self._head = None
        connection = self._connection = connect(self._database.address)
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

    def _lose(self, batch: list[StagedRow], error: StateError) -> None:
        """Refuse a batch; whether the database has it after all is found out by asking it for the head."""
        for staged in batch:
            staged.future.set_exception(error)
            if staged.on_failure is not None:
                staged.on_failure(error)
        connection, self._connection, self._head = self._connection, None, None
        if connection is not None:
            connection.close()
