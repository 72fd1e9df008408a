"""Search the records in the shared database: the same questions as to the log of a workspace (`store.audit.log`).

A record's number is its place in one order for all writers. `head` says up to which number no record is still to come:
writers take numbers under a lock that it waits for.
"""

from __future__ import annotations

import contextlib
from time import monotonic, sleep
from typing import TYPE_CHECKING

import psycopg

from byleave.errors import StateError
from byleave.store.audit.chain import EMPTY, ChainHead
from byleave.store.audit.query import as_stored, is_agent, path_glob, path_matches
from byleave.store.audit.table import StoredRecord
from byleave.store.postgres.audit_verify import verify_records
from byleave.store.postgres.database import connect, reason
from byleave.store.postgres.schema import LOCK_ORDER, check_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from psycopg import Connection

    from byleave.store.address import StoreAddress
    from byleave.store.audit.query import Filter
    from byleave.store.audit.scan import Report
    from byleave.store.audit.verify import Verification
    from byleave.store.store_key import StoreKey

_EQUAL = ("decision", "door", "kind", "tool", "session", "event")
_BOUNDS = {"since": "time >= %s::timestamptz", "until": "time <= %s::timestamptz"}
_BOUNDS |= {"after": "id > %s", "through": "id <= %s", "text": "position(%s IN record) > 0"}
_AT_ONCE = 2000  # rows that are fetched from the server at a time
_PATIENCE = 10.0  # seconds for a writer that is in the middle of its transaction
_TURN = "200ms"  # of one attempt: new writers wait behind a reader that waits
_BETWEEN = 1.0  # seconds between two attempts


class PostgresRecords:
    """All records of a database, for commands that read them."""

    may_begin_anew = False

    def __init__(self, address: StoreAddress, key: StoreKey | None) -> None:
        self.directory = address.shown
        self.warnings: list[str] = []
        self._key = key
        with self._errors(address.shown):
            self._connection: Connection[Any] = connect(address)
        try:
            with self._errors(address.shown):
                check_version(self._connection)
                # A person who reads a long list may stop in the middle of it.
                self._connection.execute("SET idle_in_transaction_session_timeout TO 0")
                self._connection.commit()
        except BaseException:
            self._connection.close()
            raise

    def head(self) -> ChainHead:
        """Return the number and the hash of the newest record; none with a lower number is still to come."""
        newest = "SELECT id, hash FROM byleave.records ORDER BY id DESC LIMIT 1"
        end = monotonic() + _PATIENCE
        with self._errors(self.directory):
            while True:
                try:
                    with self._connection.transaction():
                        self._connection.execute(f"SET LOCAL lock_timeout TO '{_TURN}'")
                        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_ORDER,))
                        row = self._connection.execute(newest).fetchone()
                except psycopg.errors.LockNotAvailable:
                    if monotonic() >= end:
                        raise
                    sleep(_BETWEEN)
                else:
                    return EMPTY if row is None else ChainHead(*row)

    def lasting_head(self) -> ChainHead:
        """Return what to keep elsewhere: the newest checkpoint, which covers the chains of all writers."""
        query = "SELECT id, hash FROM byleave.records WHERE event = 'checkpoint' ORDER BY id DESC LIMIT 1"
        with self._errors(self.directory), self._connection.transaction():
            row = self._connection.execute(query).fetchone()
        return EMPTY if row is None else ChainHead(*row)

    def query(self, matching: Filter) -> Iterator[StoredRecord]:
        """Yield the newest records that the filter means, the oldest of them first."""
        if matching.limit is None:
            return self._found(matching, "ASC")
        return reversed(list(self._found(matching, "DESC")))

    def get(self, sequence: int) -> StoredRecord | None:
        """Return one record, None if there is no such number."""
        query = "SELECT id, hash, record FROM byleave.records WHERE id = %s"
        with self._errors(self.directory), self._connection.transaction():
            row = self._connection.execute(query, (sequence,)).fetchone()
        return None if row is None else StoredRecord(*row)

    def scan(
        self, *, since: str | None = None, holding: Sequence[str] = (), report: Report | None = None
    ) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each record since a time that holds one of these; `report` gets how far."""
        where, values = (" WHERE time >= %s::timestamptz", (since,)) if since is not None else ("", ())
        # `where` is a constant of ours.
        count = f"SELECT count(*) FROM byleave.records{where}"  # noqa: S608
        query = f"SELECT id, record FROM byleave.records{where} ORDER BY id"  # noqa: S608
        with self._errors(self.directory), self._connection.transaction():
            row = self._connection.execute(count, values).fetchone()
            total = row[0] if row is not None else 0
            for number, (id_, record) in enumerate(self._stream(query, values), 1):
                if not holding or any(mark in record for mark in holding):
                    yield id_, record
                if report is not None and (number % _AT_ONCE == 0 or number == total):
                    report(number, total)

    def verify(self, given: ChainHead | None = None) -> Verification:
        """Walk the chains of all writers and the checkpoints, also against a head that was kept elsewhere."""
        if self._key is None:
            self.warnings.append("there is no key here (BYLEAVE_STORE_KEY): the MACs of checkpoints were not checked")
        with self._errors(self.directory), self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return verify_records(self._connection, self._key, given)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _found(self, matching: Filter, order: str) -> Iterator[StoredRecord]:
        conditions: list[tuple[str, Any]] = [
            (f"{name} = %s", value) for name in _EQUAL if (value := getattr(matching, name)) is not None
        ]
        for name, sql in _BOUNDS.items():
            value = getattr(matching, name)
            if value is not None:
                conditions.append((sql, as_stored(value) if name == "text" else value))
        glob = None if matching.path is None else path_glob(matching.path)
        if glob is not None:
            conditions.append(("path IS NOT NULL AND %s", True))
        where = f" WHERE {' AND '.join(sql for sql, _value in conditions)}" if conditions else ""
        # Every piece of the text is a constant of ours; what the user wants stands in the values.
        query = f"SELECT id, hash, record, agent, path FROM byleave.records{where} ORDER BY id {order}"  # noqa: S608
        left = -1 if matching.limit is None else matching.limit
        with self._errors(self.directory), self._connection.transaction():
            for id_, hash_, record, agent, path in self._stream(query, [value for _sql, value in conditions]):
                if left == 0:
                    return
                if matching.agent is not None and not is_agent(matching.agent, agent):
                    continue
                if glob is not None and not path_matches(glob, path, matching.root):
                    continue
                left -= 1
                yield StoredRecord(id_, hash_, record)

    def _stream(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor("byleave_records") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(query.encode(), values)
            yield from cursor

    @contextlib.contextmanager
    def _errors(self, shown_address: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            problem = f"the records in {shown_address} cannot be read: {reason(error)}"
            raise StateError(problem, hint="start the database, or look at [store] url, BYLEAVE_STORE") from None
