"""Every change of one row shows, and what takes more than one row and no key is neither confirmed nor hidden."""

import random
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg.sql import SQL, Identifier

import amounts
from byleave.core.redact import Redactor
from byleave.store.address import StoreAddress
from byleave.store.audit.query import Filter
from byleave.store.audit.records import encode
from byleave.store.audit.retention import Retention
from byleave.store.postgres.audit_verify import verify_records
from byleave.store.postgres.chains import begin_chain, write_records
from byleave.store.postgres.columns import NAMES
from byleave.store.postgres.database import connect
from byleave.store.postgres.maintenance import MAINTENANCE, Maintainer
from byleave.store.postgres.shared_store import SharedStore, open_store
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

COLUMNS = ("id", "writer", "place", "time", "hash", "record", *NAMES)
NUMBERS = ("id", "writer", "place")


def tamper(connection: "psycopg.Connection[tuple[object, ...]]", chance: random.Random, ids: list[int]) -> str:
    """Change, remove, repeat or exchange records, and say how."""
    one, other = chance.sample(ids, 2)
    how = chance.choice(["change", "change", "change", "remove", "repeat", "exchange", "writer"])
    if how == "change":
        column = chance.choice(COLUMNS)
        value = f"{column} + 1000" if column in NUMBERS else f"coalesce({column}, '') || ' '"
        value = "time + interval '1 microsecond'" if column == "time" else value
        change = f"UPDATE byleave.records SET {column} = {value} WHERE id = %s"  # noqa: S608 -- constants
        connection.execute(change.encode(), (one,))
        return f"change {column} of {one}"
    if how == "remove":
        connection.execute("DELETE FROM byleave.records WHERE id = %s", (one,))
    elif how == "repeat":
        place = chance.choice(["place", "place + 1", "place + 1000"])
        names = ", ".join(COLUMNS[3:])
        copied = f"SELECT id + 1000, writer, {place}, {names} FROM byleave.records WHERE id = %s"  # noqa: S608
        connection.execute(f"INSERT INTO byleave.records ({', '.join(COLUMNS)}) {copied}".encode(), (one,))
    elif how == "exchange":
        for column in chance.choice([("record", "hash"), ("record",), ("hash",), ("place",), ("writer", "place")]):
            swap = SQL(
                "UPDATE byleave.records r SET {0} = o.{0} FROM (SELECT * FROM byleave.records WHERE id = ANY(%s)) o "
                "WHERE r.id = ANY(%s) AND o.id <> r.id"
            )
            connection.execute(swap.format(Identifier(column)), ([one, other], [one, other]))
    else:
        column = chance.choice(["place = place + 1", "place = place - 1", "hash = md5(hash)", "name = name || 'x'"])
        column = chance.choice([column, "checkpointed = checkpointed + 1000"])
        writer_of = "(SELECT writer FROM byleave.records WHERE id = %s)"
        maintains = f" AND name <> '{MAINTENANCE}'" if column.startswith("checkpointed") else ""
        changed = connection.execute(
            f"UPDATE byleave.writers SET {column} WHERE id = {writer_of}{maintains}".encode(),  # noqa: S608
            (one,),
        )
        return f"writer of {one}: {column}" if changed.rowcount else ""
    return f"{how} {one} {other}"


def rows(connection: "psycopg.Connection[tuple[object, ...]]") -> list[tuple[object, ...]]:
    """Return all that is there: two places that are exchanged may be the same."""
    tables = [f"SELECT t::text FROM byleave.{name} t ORDER BY 1" for name in ("records", "writers")]  # noqa: S608
    return [row for query in tables for row in connection.execute(query.encode())]


def test_every_change_of_a_row_shows(store: SharedStore, address: StoreAddress) -> None:
    with writer(store) as first, writer(store) as second:
        for number in range(6):
            first.append(decision(number))
            second.append({**decision(number, "b", "deny"), "session": "s", "door": "mcp"})
            if number % 3 == 1:
                checkpoint(address)
    chance, unseen = random.Random(7), []  # noqa: S311 -- the same in every run
    with psycopg.connect(address.url) as connection:
        ids = [id_ for (id_,) in connection.execute("SELECT id FROM byleave.records")]
        assert verify_records(connection, SHARED_KEY, None).ok
        before = rows(connection)
        for _ in range(amounts.of(3000, 150)):
            how = tamper(connection, chance, ids)
            if rows(connection) != before and verify_records(connection, SHARED_KEY, None).ok:
                unseen.append(how)
            connection.rollback()
    assert unseen == []


def test_a_chain_that_is_marked_as_checkpointed_is_checkpointed_all_the_same(
    store: SharedStore, address: StoreAddress
) -> None:
    """The mark kept a chain out of all further checkpoints, so that its end could be cut off later."""
    with writer(store) as log:
        log.append(decision(1))
        checkpoint(address)
        do(address, "UPDATE byleave.writers SET checkpointed = 1000000 WHERE name <> 'maintenance'")
        assert not verify(address).ok
        log.append(decision(2))
    checkpoint(address)
    do(
        address,
        "DELETE FROM byleave.records WHERE event = 'decision' AND place > 1",
        "UPDATE byleave.writers w SET place = 1, hash = (SELECT hash FROM byleave.records r WHERE r.writer = w.id) "
        "WHERE name <> 'maintenance'",
    )
    assert ["names place 2" in each.problem for each in verify(address).problems] == [True]


def test_a_removal_that_another_program_announced_is_not_confirmed(store: SharedStore, address: StoreAddress) -> None:
    """A made-up announcement named chains of other days; once it was confirmed, their beginning could be removed."""
    with writer(store) as old:
        old.append(decision(1))
        do(address, *moved_back(5))
    with writer(store) as log:
        for number in range(5):
            log.append(decision(number))
    day = f"records_{datetime.now(UTC).date() - timedelta(days=5):%Y%m%d}"
    with psycopg.connect(address.url) as connection:
        ends = "SELECT writer, place, hash FROM byleave.records WHERE place IN (1, 3) ORDER BY id"
        writers = {str(id_): [place, hash_] for id_, place, hash_ in connection.execute(ends.encode())}
        said = {"event": "retention", "day": day, "why": "age", "limit": 3, "records": 1, "writers": writers}
        write_records(connection, begin_chain(connection, MAINTENANCE), [encode(said)])
    for days in (2, 3):  # ours is announced, and confirmed a day later
        checkpoint(address, Retention(3, None), now=as_of_now(days))
    assert verify(address).problems == ()
    do(address, "DELETE FROM byleave.records WHERE event = 'decision' AND place <= 3")
    assert not verify(address).ok


def test_checkpoints_that_are_cut_off_are_noticed_by_a_replica_that_saw_them(
    store: SharedStore, address: StoreAddress
) -> None:
    maintainer = Maintainer(SHARED_KEY, FOREVER)
    with writer(store) as log, connect(address) as connection:
        log.append(decision(1))
        assert maintainer.run(connection)
        connection.execute("CREATE TEMPORARY TABLE kept AS SELECT * FROM byleave.writers")
        connection.commit()
        log.append(decision(2))
        assert maintainer.run(connection)
        assert maintainer.notes == []
        connection.execute("DELETE FROM byleave.records WHERE id > 2")
        back = "place = k.place, hash = k.hash, checkpointed = k.checkpointed"
        connection.execute(f"UPDATE byleave.writers w SET {back} FROM kept k WHERE k.id = w.id".encode())  # noqa: S608
        connection.commit()
        assert verify(address).ok  # all of it is an older state, which nothing in the database can tell
        assert maintainer.run(connection)
        assert "records were removed or changed" in maintainer.notes[0]


def test_today_is_kept_in_every_time_zone(url: str, address: StoreAddress) -> None:
    """The day was that of the server's time zone: east of Greenwich, records of today went in the afternoon."""
    try:
        for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"ALTER ROLE byleave SET timezone TO '{zone}'".encode())
            store = open_store(address, "/nonexistent", {"BYLEAVE_STORE_KEY": KEY})
            log = store.log(Redactor())
            log.append(decision(1))
            log.close()
            store.close()
            for hours in range(0, 24, 6):
                now = datetime.now(UTC).replace(hour=hours)
                checkpoint(address, Retention(None, 0.0001), now=now)
            checkpoint(address, Retention(None, 0.0001))
            assert verify(address).ok
        with reading(address) as records:
            assert len(list(records.query(Filter(event="decision")))) == 2
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER ROLE byleave RESET timezone")


def test_writers_go_on_while_a_long_read_keeps_a_day_from_being_dropped(
    store: SharedStore, address: StoreAddress
) -> None:
    """All records waited behind the removal, which waited for the reader: `audit verify` may read for hours."""
    keep = Retention(3, None)
    with writer(store) as log:
        log.append(decision(1))
        do(address, *moved_back(5))
        log.append(decision(2))
        checkpoint(address, keep)
        last = f"records_{datetime.now(UTC).date() + timedelta(days=7):%Y%m%d}"
        do(address, f"DROP TABLE byleave.{last}")  # a day that is to be made meanwhile
        with psycopg.connect(address.url) as reader:
            reader.execute("SELECT count(*) FROM byleave.records")
            notes = checkpoint(address, keep, now=as_of_now(1))
            assert "it is being read" in notes[0]
            assert log.append(decision(3)) > 0
            assert reader.execute("SELECT to_regclass(%s) IS NOT NULL", (f"byleave.{last}",)).fetchone() == (True,)
        assert checkpoint(address, keep, now=as_of_now(1)) == []
    with reading(address) as records:
        assert [each.tree["action"]["tool"] for each in records.query(Filter(event="decision"))] == ["t2", "t3"]
        assert records.verify().problems == ()


def test_limits_go_on_after_the_clock_of_the_database_was_set_back(store: SharedStore, address: StoreAddress) -> None:
    do(
        address,
        "INSERT INTO byleave.rates VALUES ('r', 0, true, now() + interval '1 hour')",
        "INSERT INTO byleave.open_calls VALUES ('o', 'dead', 1, now() + interval '1 hour')",
    )
    checkpoint(address)
    with psycopg.connect(address.url) as connection:
        for table in ("rates", "open_calls"):
            row = connection.execute(f"SELECT at <= now() FROM byleave.{table}".encode()).fetchone()  # noqa: S608
            assert row == (True,)
