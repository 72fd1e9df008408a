"""Write, read, verify and move records of a shared database, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from byleave.core.redact import Redactor
from byleave.store.address import StoreAddress
from byleave.store.audit.retention import Retention
from byleave.store.audit.verify import Verification
from byleave.store.postgres.audit_log import PostgresLog
from byleave.store.postgres.audit_reader import PostgresRecords
from byleave.store.postgres.database import connect
from byleave.store.postgres.maintenance import Maintainer
from byleave.store.postgres.shared_store import SharedStore
from byleave.store.store_key import StoreKey
from postgres_server import KEY

SHARED_KEY = StoreKey(bytes.fromhex(KEY))
FOREVER = Retention(None, None)


def decision(number: int, agent: str = "a", decision: str = "allow") -> dict[str, Any]:
    action = {"kind": "call", "tool": f"t{number}", "server": "shop"}
    return {"event": "decision", "agent": agent, "action": action, "verdict": {"decision": decision}}


@contextmanager
def writer(store: SharedStore) -> Iterator[PostgresLog]:
    log = store.log(Redactor())
    try:
        yield log
    finally:
        log.close()


@contextmanager
def reading(address: StoreAddress, key: StoreKey | None = SHARED_KEY) -> Iterator[PostgresRecords]:
    records = PostgresRecords(address, key)
    try:
        yield records
    finally:
        records.close()


def verify(address: StoreAddress, key: StoreKey | None = SHARED_KEY) -> Verification:
    with reading(address, key) as records:
        return records.verify()


def checkpoint(address: StoreAddress, retention: Retention = FOREVER, *, now: datetime | None = None) -> list[str]:
    maintainer = Maintainer(SHARED_KEY, retention)
    with connect(address) as connection:
        assert maintainer.run(connection, now=now)
    return maintainer.notes


def do(address: StoreAddress, *statements: str) -> None:
    with psycopg.connect(address.url) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def as_of_now(days: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def moved_back(days: int) -> list[str]:
    """Return what puts all records into a day that is past."""
    day = datetime.now(UTC).date() - timedelta(days=days)
    start, end = day.isoformat(), (day + timedelta(days=1)).isoformat()
    bounds = f"FOR VALUES FROM ('{start} 00:00:00+00') TO ('{end} 00:00:00+00')"
    return [
        f"CREATE TABLE byleave.records_{day:%Y%m%d} PARTITION OF byleave.records {bounds}",
        "UPDATE byleave.records SET time = date_trunc('day', now()) - interval '4.5 days'",
    ]
