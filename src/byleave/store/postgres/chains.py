"""The chains of the shared database: each process has one, and each file of records that waited on a machine.

    hash of place n = sha256(hash of place n-1, as hex, newline, the text of the record); before the first stands the
    hash of the writer's name, so that no chain passes for another's

The database gives each record its number and its time: one order for all replicas, whatever their clocks say. A number
is taken under a lock that all writers share and a reader takes alone, so that a reader knows up to which number no
record is still to come (`audit_reader`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.store.audit.chain import linked
from byleave.store.postgres.columns import NAMES, columns_of
from byleave.store.postgres.schema import LOCK_ORDER
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import Any

    from psycopg import Connection

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


def write_records(
    connection: Connection[Any],
    head: WriterHead,
    texts: Sequence[str],
    change: Callable[[int, int, str], str] = lambda _place, _number, text: text,
) -> tuple[list[int], WriterHead]:
    """Write records to the end of a chain, in the transaction of the caller; return their numbers, and the new head.

    `texts` are JSON objects without number and time, which come to stand in front. `change` returns what is written of
    one, once its place in the chain and its number are known.
    """
    with connection.pipeline():
        taken: list[tuple[int, datetime]] = connection.execute(_TAKE, (LOCK_ORDER, len(texts))).fetchall()
    rows: list[tuple[Any, ...]] = []
    place, hash_ = head.place, head.hash
    for (id_, time), text in zip(taken, texts, strict=True):
        place += 1
        text = change(place, id_, text)  # noqa: PLW2901 -- what is written of it
        rest = "}" if text == "{}" else f",{text[1:]}"
        record = f'{{"sequence":{id_},"time":"{time.isoformat(timespec="microseconds")}Z"{rest}'
        hash_ = linked(hash_, record.encode())
        rows.append((id_, place, time, hash_, record, *columns_of(record)))
    columns = [list(column) for column in zip(*rows, strict=True)]
    done = connection.execute(_INSERT, (head.id, *columns, place, hash_, head.id, head.place)).fetchone()
    if done is None:
        raise StateError("another process writes to the chain of this one", hint="start every gateway by itself")
    return [row[0] for row in rows], WriterHead(head.id, place, hash_)
