"""Records in a shared database: chains of several writers, checkpoints, retention, and what tampering shows."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.store.address import StoreAddress
from byleave.store.audit.chain import linked
from byleave.store.audit.query import Filter
from byleave.store.audit.retention import Retention
from byleave.store.postgres.audit_reader import PostgresRecords
from byleave.store.postgres.audit_verify import verify_records
from byleave.store.postgres.database import connect
from byleave.store.postgres.maintenance import Maintainer
from byleave.store.postgres.schema import STEPS, migrate
from byleave.store.postgres.shared_store import SharedStore, open_store
from byleave.store.store_key import StoreKey
from postgres_records import (
    FOREVER,
    SHARED_KEY,
    as_of_now,
    checkpoint,
    decision,
    do,
    moved_back,
    reading,
    verify,
    writer,
)
from postgres_server import KEY


def test_the_chains_of_two_writers_are_one_order_and_verify(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as one, writer(store) as other:
        numbers = [log.append(decision(number)) for number in range(5) for log in (one, other)]
    checkpoint(address)
    assert numbers == list(range(1, 11))
    with reading(address) as records:
        found = list(records.query(Filter()))
        assert [each.sequence for each in found] == list(range(1, 12))
        assert [each.tree["sequence"] for each in found] == list(range(1, 12))
        assert [each.tree["time"] for each in found] == sorted(each.tree["time"] for each in found)
        done = records.verify(records.lasting_head())
        assert (done.ok, done.records, done.problems) == (True, 11, ())
        assert records.lasting_head() == records.head()


def test_calls_that_come_together_share_a_transaction(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as log:
        log.append(decision(0))
        staged = [log.stage(decision(number)) for number in range(1, 200)]
        assert [each.settled() for each in staged] == list(range(2, 201))
    with psycopg.connect(address.url) as connection:
        row = connection.execute("SELECT count(DISTINCT xmin::text) FROM byleave.records").fetchone()
    assert row is not None
    assert row[0] < 100
    assert verify(address).ok


def test_records_are_found_by_what_they_say(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as log:
        log.append(decision(1, "backend-1"))
        log.append(decision(2, "backend-2", "deny"))
        log.append({**decision(3, "other"), "places": ["src/ü\0/x.py"]})
    with reading(address) as records:

        def found(**fields: Any) -> list[int]:
            return [each.sequence for each in records.query(Filter(**fields))]

        assert found(agent="backend-*") == [1, 2]
        assert found(agent="backend-2", decision="deny") == [2]
        assert found(limit=1) == [3]
        assert found(text="t2") == [2]
        assert found(path="src/**") == [3]
        assert found(after=1, limit=1) == [3]
        assert found(since="2999-01-01T00:00:00.000000Z") == []
        assert [number for number, _text in records.scan(holding=("backend",))] == [1, 2]
        assert records.get(2) is not None
        assert records.get(9) is None
    assert verify(address).ok


def test_secrets_are_masked(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as log:
        log.mask_with(Redactor(("hunter2-and-more",)))
        log.append({**decision(1), "note": "the word is hunter2-and-more"})
    with reading(address) as records:
        assert all("hunter2" not in each.text for each in records.query(Filter()))


CHANGES: dict[str, tuple[str, ...]] = {
    "a record says something else": ("UPDATE byleave.records SET record = replace(record, 't2', 't9') WHERE id = 3",),
    "a record is gone": ("DELETE FROM byleave.records WHERE id = 3",),
    "the last record is gone": ("DELETE FROM byleave.records WHERE id = 5",),
    "the last record is gone, and the writer does not know it": (
        "DELETE FROM byleave.records WHERE id = 5",
        "UPDATE byleave.writers SET place = 4, hash = (SELECT hash FROM byleave.records WHERE id = 4) WHERE id = 1",
    ),
    "a whole writer is gone": (
        "DELETE FROM byleave.records WHERE id <= 5",
        "DELETE FROM byleave.writers WHERE name <> 'maintenance'",
    ),
    "what is searched says something else": ("UPDATE byleave.records SET agent = 'nobody' WHERE id = 2",),
    "a number is another one": ("UPDATE byleave.records SET id = 99 WHERE id = 2",),
    "a time is another one": ("UPDATE byleave.records SET time = time + interval '1 second' WHERE id = 2",),
    "two writers are exchanged": ("UPDATE byleave.writers SET name = name || 'x' WHERE name <> 'maintenance'",),
    "a checkpoint is made up": (
        "UPDATE byleave.records SET record = replace(record, '\"mac\":\"', '\"mac\":\"0') WHERE event = 'checkpoint'",
    ),
}


def test_what_was_changed_in_the_database_shows(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as log:
        for number in range(5):
            log.append(decision(number))
    checkpoint(address)
    assert verify(address).ok
    unseen = []
    with psycopg.connect(address.url) as connection:
        for name, statements in CHANGES.items():
            for statement in statements:
                connection.execute(statement.encode())
            unseen += [name] if verify_records(connection, SHARED_KEY, None).ok else []
            connection.rollback()
    assert unseen == []


def test_chains_that_were_computed_anew_without_the_key_show(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as log:
        log.append(decision(1))
    with connect(address) as connection:
        Maintainer(StoreKey(b"another key" * 4), FOREVER).run(connection)
    assert verify(address, None).ok  # without the key this cannot be seen, and a warning says so
    assert [each.problem for each in verify(address).problems] == [
        "this checkpoint has no valid MAC: no holder of the key wrote it"
    ]


def test_a_day_that_was_announced_is_dropped_and_chains_begin_behind_it(
    store: SharedStore, address: StoreAddress
) -> None:
    with writer(store) as log:
        for number in range(3):
            log.append(decision(number))
        do(address, *moved_back(5))
        log.append(decision(4))
        keep = Retention(3, None)
        for _ in range(2):  # the first announces it, the second finds that it is too early
            checkpoint(address, keep)
        with reading(address) as records:
            assert len(list(records.query(Filter(event="decision")))) == 4
        checkpoint(address, keep, now=as_of_now(1))
        with reading(address) as records:
            assert [each.tree["event"] for each in records.query(Filter())] == [
                *("decision", "retention", "checkpoint", "checkpoint")
            ]
            done = records.verify()
            # The three records say another day than their texts, which is what this test did to them; they are gone.
            assert done.problems == ()
        log.append(decision(5))
    assert verify(address).ok
    do(address, "DELETE FROM byleave.records WHERE event = 'retention'")
    assert not verify(address).ok


def test_a_removal_that_no_holder_of_the_key_confirmed_shows(store: SharedStore, address: StoreAddress) -> None:
    """The last checkpoint is made to confirm an announced removal early, and its hash is computed anew."""
    with writer(store) as log:
        log.append(decision(1))
        do(address, *moved_back(5))
        log.append(decision(2))
    checkpoint(address, Retention(3, None))
    with psycopg.connect(address.url) as connection:
        rows = connection.execute("SELECT id, hash, record FROM byleave.records ORDER BY id").fetchall()
        (announced, before, _), (number, _, record) = rows[-2:]
        record = record.replace('"mac"', f'"retention":{announced},"mac"')
        forged = {"record": record, "hash": linked(before, record.encode()), "id": number}
        connection.execute("UPDATE byleave.records SET record = %(record)s, hash = %(hash)s WHERE id = %(id)s", forged)
        connection.execute("UPDATE byleave.writers SET hash = %(hash)s WHERE name = 'maintenance'", forged)
        day = datetime.now(UTC).date() - timedelta(days=5)
        connection.execute(f"DROP TABLE byleave.records_{day:%Y%m%d}".encode())
    assert verify(address, None).ok  # without the key this cannot be seen
    assert [each.sequence for each in verify(address).problems] == [number]


def test_what_is_beyond_the_size_goes_at_once(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as log:
        log.append(decision(1))
        do(address, *moved_back(5))
        log.append(decision(2))
        checkpoint(address, Retention(None, 0.001))
    with reading(address) as records:
        assert [each.tree["event"] for each in records.query(Filter(event="decision"))] == ["decision"]
    assert verify(address).ok


def test_no_chain_loses_a_piece_from_its_middle(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as log:
        log.append(decision(1))
        log.append(decision(2))
        made, moved = moved_back(5)
        do(address, made, moved + " WHERE id = 2")
    notes = checkpoint(address, Retention(None, 0.001))
    assert "is kept though it is old" in notes[0]
    with reading(address) as records:
        assert [each.sequence for each in records.query(Filter(event="decision"))] == [1, 2]


def test_three_processes_migrate_at_once(address: StoreAddress) -> None:
    added: list[int] = []

    def run() -> None:
        with psycopg.connect(address.url) as connection:
            added.append(migrate(connection))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(added) == [0, 0, len(STEPS)]


def test_a_database_of_a_newer_version_is_refused(store: SharedStore, address: StoreAddress) -> None:
    do(address, "INSERT INTO byleave.steps SELECT max(number) + 1, now() FROM byleave.steps")
    with pytest.raises(StateError, match="newer byleave"):
        open_store(address, "/nonexistent", {"BYLEAVE_STORE_KEY": KEY})
    with pytest.raises(StateError, match="newer byleave"):
        PostgresRecords(address, None)


def test_an_empty_database_is_not_made_up_by_reading(address: StoreAddress) -> None:
    with pytest.raises(StateError, match="has no tables"):
        PostgresRecords(address, None)


def test_a_store_without_a_key_is_refused(address: StoreAddress) -> None:
    with pytest.raises(StateError, match="needs a key"):
        open_store(address, "/nonexistent", {})
    with pytest.raises(StateError, match="holds no key"):
        open_store(address, "/nonexistent", {"BYLEAVE_STORE_KEY": "short"})


def test_a_reader_sees_no_number_before_all_lower_ones_are_there(store: SharedStore, address: StoreAddress) -> None:
    """A transaction has taken a number and is not done: nothing above it is shown as the newest until it is."""
    with writer(store) as log, psycopg.connect(address.url) as slow:
        log.append(decision(1))
        slow.execute("SELECT pg_advisory_xact_lock_shared(%s)", (0x62796C32,))
        taken = slow.execute("SELECT nextval('byleave.record_ids')").fetchone()
        assert taken == (2,)
        assert log.append(decision(2)) == 3
        heads: list[int] = []
        with reading(address) as records:
            thread = threading.Thread(target=lambda: heads.append(records.head().sequence))
            thread.start()
            thread.join(0.3)
            assert heads == []
            slow.commit()
            thread.join(5)
        assert heads == [3]


def test_nothing_is_written_twice_or_lost_when_a_commit_ends_without_an_answer(
    store: SharedStore, address: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has the batch, and the connection is gone before it could say so."""
    real = psycopg.Connection.commit
    broken: list[bool] = []

    def commit(connection: Any) -> None:
        real(connection)
        if threading.current_thread().name == "byleave-audit" and broken:
            broken.clear()
            connection.close()
            raise psycopg.OperationalError("the connection is gone")

    with writer(store) as log:
        assert log.append(decision(1)) == 1
        monkeypatch.setattr(psycopg.Connection, "commit", commit)
        broken.append(True)
        with pytest.raises(StateError):
            log.append(decision(2))
        for _ in range(100):
            if not store.problem:
                break
            threading.Event().wait(0.05)
        assert log.append(decision(3)) == 3
    assert verify(address).ok
    with reading(address) as records:
        assert [each.sequence for each in records.query(Filter())] == [1, 2, 3]


@pytest.mark.parametrize("steps", range(1, len(STEPS)))
def test_a_database_of_an_earlier_version_is_brought_up_to_date_and_keeps_its_records(
    address: StoreAddress, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"BYLEAVE_STORE_KEY": KEY}
    with monkeypatch.context() as patch:
        patch.setattr("byleave.store.postgres.schema.STEPS", STEPS[:steps])
        before = open_store(address, "/nonexistent", environment)
        with writer(before) as log:
            log.append(decision(1))
        before.close()
    with pytest.raises(StateError, match="no tables of this version"), reading(address):
        pass
    with ThreadPoolExecutor() as threads:  # two replicas that start at once
        begun = [threads.submit(open_store, address, "/nonexistent", environment) for _ in range(2)]
        after = [each.result() for each in begun]
    try:
        for number, each in enumerate(after, 2):
            with writer(each) as log:
                log.append(decision(number))
    finally:
        for each in after:
            each.close()
    assert verify(address).problems == ()
    assert verify(address).records == 3
    with psycopg.connect(address.url) as connection:
        taken = connection.execute("SELECT number FROM byleave.steps ORDER BY number").fetchall()
    assert taken == [(number,) for number in range(1, len(STEPS) + 1)]
