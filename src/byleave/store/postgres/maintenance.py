"""What one replica at a time does for all: checkpoints over every chain, partitions, and the retention.

A checkpoint is a record of its own chain that names the place and the hash where every other chain ends that has grown.
Its MAC covers that, and the hash of the record before it: who has no key cannot compute the chains anew.

Old days are dropped as a whole. A record `retention` announces it, with the last place and hash of every chain in that
day; a checkpoint confirms it in the transaction that drops the day. An announcement that does not say what is in the
day is none: it was written by another program. What is too old goes a day after it was announced,
by the clock of the database; what is beyond the size goes at once. A day is kept if some chain does not lie in the days
by its order, which only a clock that was set back makes: no chain loses a piece from its middle.

All of it goes on beside writers and readers. To drop a day, the table must be had alone for a moment: while it is
read, that is tried again a minute later.
"""

from __future__ import annotations

import contextlib
import json
import threading
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
from psycopg.sql import SQL, Identifier

from byleave.errors import StateError
from byleave.record import Record
from byleave.store.audit.records import encode
from byleave.store.postgres.chains import begin_chain, write_records
from byleave.store.postgres.database import connect, cut_after, reason
from byleave.store.postgres.schema import LOCK_MAINTENANCE, PARTITION, ensure_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from psycopg import Connection

    from byleave.store.address import StoreAddress
    from byleave.store.audit.retention import Retention
    from byleave.store.store_key import StoreKey

MAINTENANCE = "maintenance"  # the writer whose chain holds checkpoints and retention
PERIOD = 60.0  # seconds between two checkpoints
GRACE = timedelta(days=1)  # between the announcement that old records go and their end
_LONGEST = 600.0  # seconds of a round; a server that hangs is left
_ALONE = "300ms"  # that writers wait at most for a day that is to be dropped
_GROWN = "SELECT id, place, hash FROM byleave.writers WHERE place <> checkpointed AND name <> %s ORDER BY id"
_DAYS = """
SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'byleave.records'::regclass ORDER BY c.relname
"""
_ANNOUNCED = """
SELECT id, record FROM byleave.records WHERE event = 'retention' AND writer = %s ORDER BY id
"""


class _Day(Record):
    table: str
    day: date
    size: int


class _Announcement(Record):
    number: int
    time: datetime
    ends: object


def checkpoint_parts(before: str, places: Mapping[int, tuple[int, str]], confirms: object) -> tuple[str, ...]:
    """Return the texts that the MAC of a checkpoint is of; `confirms` is the number of a retention, if it has one."""
    named = encode({str(writer): list(places[writer]) for writer in sorted(places)})
    return ("checkpoint", before, named, "" if confirms is None else str(confirms))


class Maintainer:
    """Rounds of maintenance, if no other replica is at it. What an operator should know is in `notes`."""

    def __init__(self, key: StoreKey, retention: Retention) -> None:
        self._key = key
        self._retention = retention
        self.notes: list[str] = []
        self._seen = 0, ""  # where the chain of checkpoints ended when this process last saw it

    def run(self, connection: Connection[Any], *, now: datetime | None = None) -> bool:
        """Do what there is to do, and return whether it was this replica's turn. `now` is by the database's clock."""
        with connection.transaction():
            clock = self._turn(connection)
            if clock is None:
                return False
            ensure_partitions(connection)
            for table in (SQL("byleave.rates"), SQL("byleave.open_calls")):
                connection.execute(SQL("DELETE FROM {} WHERE at < now() - interval '5 minutes'").format(table))
                # The clock was set back: without this, limits stand still until it is there again.
                connection.execute(SQL("UPDATE {} SET at = now() WHERE at > now() + interval '10 s'").format(table))
        with connection.transaction():
            if self._turn(connection) is None:
                return False
            self._look_back(connection)
            old = self._announce_old(connection, (now or clock).astimezone(UTC))
            grown = {id_: (place, hash_) for id_, place, hash_ in connection.execute(_GROWN, (MAINTENANCE,))}
            if grown:
                self._checkpoint(connection, grown)
            self._remember(connection)
        for day, announced in old:  # each by itself: what is dropped keeps others out until the end of its transaction
            try:
                with connection.transaction():
                    if self._turn(connection) is None or not self._drop(connection, day, announced):
                        break  # a later day never goes before an earlier one
                    self._remember(connection)
            except psycopg.errors.LockNotAvailable:
                self.notes.append(f"{day.table} is kept for now though it is old: it is being read")
                break
        return True

    def _turn(self, connection: Connection[Any]) -> datetime | None:
        """Keep other replicas out until the end of the transaction, and return the time; None if one is at it."""
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s), now()", (LOCK_MAINTENANCE,)).fetchone()
        return row[1] if row is not None and row[0] else None

    def _look_back(self, connection: Connection[Any]) -> None:
        """Say that the chain of checkpoints is not the one that this process has seen: another program cut it."""
        head, (place, hash_) = begin_chain(connection, MAINTENANCE), self._seen
        query = "SELECT hash FROM byleave.records WHERE writer = %s AND place = %s"
        row = connection.execute(query, (head.id, place)).fetchone() if place else None
        if head.place < place or (row is not None and row[0] != hash_):
            self.notes.append(
                f"checkpoint {place} of the shared store is gone or another one: records were removed or changed"
            )

    def _remember(self, connection: Connection[Any]) -> None:
        head = begin_chain(connection, MAINTENANCE)
        self._seen = head.place, head.hash

    def _checkpoint(
        self, connection: Connection[Any], places: Mapping[int, tuple[int, str]], announced: int | None = None
    ) -> None:
        head = begin_chain(connection, MAINTENANCE)
        fields: dict[str, Any] = {"event": "checkpoint", "writers": {str(id_): list(at) for id_, at in places.items()}}
        if announced is not None:
            fields["retention"] = announced
        fields["mac"] = self._key.mac(*checkpoint_parts(head.hash, places, announced)).hex()
        write_records(connection, head, [encode(fields)])
        for id_, (place, _hash) in places.items():
            connection.execute("UPDATE byleave.writers SET checkpointed = %s WHERE id = %s", (place, id_))

    def _announce_old(self, connection: Connection[Any], now: datetime) -> list[tuple[_Day, int]]:
        """Announce which days are to go, and return those that go now, each with the number of its announcement."""
        days = [_Day(name, _day(name), size) for name, size in connection.execute(_DAYS).fetchall()]
        past = [each for each in days if each.day < now.date() and not self._is_empty(connection, each)]
        announced = self._announced(connection)
        size = sum(each.size for each in days)
        old: list[tuple[_Day, int]] = []
        for each in past:
            if self._retention.days is not None and each.day < now.date() - timedelta(days=self._retention.days):
                number, since = self._valid(connection, each, announced, now)
                if number is None:
                    self._announce(connection, each, "age", self._retention.days)
                elif now - since >= GRACE:
                    old.append((each, number))
            elif self._retention.megabytes is not None and size > self._retention.megabytes * (1 << 20):
                number = self._valid(connection, each, announced, now)[0]
                old.append((each, number or self._announce(connection, each, "size", self._retention.megabytes)))
                size -= each.size
            else:
                break  # a later day never goes before an earlier one
        return old

    def _valid(
        self, connection: Connection[Any], day: _Day, announced: Mapping[str, list[_Announcement]], now: datetime
    ) -> tuple[int | None, datetime]:
        """Return the number and the time of the announcement that says where the chains of this day end."""
        said = announced.get(day.table, [])
        ends = self._named_ends(connection, day) if said else {}
        return next(((each.number, each.time) for each in said if each.ends == ends), (None, now))

    def _named_ends(self, connection: Connection[Any], day: _Day) -> dict[str, list[int | str]]:
        return {str(id_): [place, hash_] for id_, place, hash_ in self._ends(connection, day)}

    def _is_empty(self, connection: Connection[Any], day: _Day) -> bool:
        query = SQL("SELECT 1 FROM byleave.{} LIMIT 1").format(Identifier(day.table))
        return connection.execute(query).fetchone() is None

    def _announce(self, connection: Connection[Any], day: _Day, why: str, limit: float) -> int:
        row = connection.execute(
            SQL("SELECT count(*), min(id), max(id) FROM byleave.{}").format(Identifier(day.table))
        ).fetchone()
        count, first, last = row if row is not None else (0, None, None)
        writers = self._named_ends(connection, day)
        fields = {"event": "retention", "day": day.table, "why": why, "limit": limit, "records": count}
        head = begin_chain(connection, MAINTENANCE)
        numbers, _head = write_records(
            connection, head, [encode({**fields, "first": first, "last": last, "writers": writers})]
        )
        return numbers[0]

    def _drop(self, connection: Connection[Any], day: _Day, announced: int) -> bool:
        if not self._is_oldest_of_all_chains(connection, day):
            self.notes.append(f"{day.table} is kept though it is old: a chain does not lie in the days by its order")
            return False
        self._checkpoint(connection, {}, announced)
        ends = self._ends(connection, day)
        connection.execute(f"SET LOCAL lock_timeout TO '{_ALONE}'")
        connection.execute("LOCK TABLE ONLY byleave.records IN ACCESS EXCLUSIVE MODE")
        for id_, place, _hash in ends:  # of processes that ended: nothing is left of their chain
            query = "DELETE FROM byleave.writers WHERE id = %s AND place = %s AND name <> %s"
            connection.execute(query, (id_, place, MAINTENANCE))
        connection.execute(SQL("DROP TABLE byleave.{}").format(Identifier(day.table)))
        return True

    def _ends(self, connection: Connection[Any], day: _Day) -> list[tuple[int, int, str]]:
        query = SQL("SELECT DISTINCT ON (writer) writer, place, hash FROM byleave.{} ORDER BY writer, place DESC")
        return connection.execute(query.format(Identifier(day.table))).fetchall()

    def _is_oldest_of_all_chains(self, connection: Connection[Any], day: _Day) -> bool:
        query = SQL(
            "SELECT 1 FROM (SELECT writer, max(place) AS last FROM byleave.{0} GROUP BY writer) d "
            "JOIN byleave.records r ON r.writer = d.writer AND r.place < d.last AND r.tableoid <> %s::regclass LIMIT 1"
        )
        table = f"byleave.{day.table}"
        return connection.execute(query.format(Identifier(day.table)), (table,)).fetchone() is None

    def _announced(self, connection: Connection[Any]) -> dict[str, list[_Announcement]]:
        """Return what is announced of each day."""
        found: dict[str, list[_Announcement]] = {}
        for number, record in connection.execute(_ANNOUNCED, (begin_chain(connection, MAINTENANCE).id,)):
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):  # which we did not write
                tree = json.loads(record)
                said = _Announcement(number, datetime.fromisoformat(tree["time"]).astimezone(UTC), tree["writers"])
                found.setdefault(str(tree["day"]), []).append(said)
        return found


def _day(table: str) -> date:
    text = table.removeprefix(PARTITION)
    return date(int(text[:4]), int(text[4:6]), int(text[6:8]))


class MaintenanceThread:
    """Does a round every minute, until it is stopped."""

    def __init__(self, address: StoreAddress, maintainer: Maintainer, note: Callable[[str], None]) -> None:
        self._address = address
        self._maintainer = maintainer
        self._note = note
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="byleave-maintenance", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Do no further round."""
        self._ended.set()
        self._thread.join(timeout=1)

    def _work(self) -> None:
        while not self._ended.wait(PERIOD):
            try:
                with connect(self._address) as connection, cut_after(connection, _LONGEST):
                    self._maintainer.run(connection)
            except (psycopg.Error, StateError) as error:
                self._note(f"no checkpoint could be written: {reason(error)}")
            except Exception as error:  # noqa: BLE001 -- a round that fails must not be the last
                self._note(f"a defect of byleave while a checkpoint was written: {type(error).__name__}")
            for note in self._maintainer.notes:
                self._note(note)
            self._maintainer.notes.clear()
