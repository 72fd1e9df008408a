"""Connections that hang, are slow or are cut at the worst moment, and replicas and readers that do not go on."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import amounts
from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.gateway.quotas import Quota
from byleave.store.address import StoreAddress
from byleave.store.audit.query import Filter
from byleave.store.postgres import audit_reader, database
from byleave.store.postgres.audit_reader import PostgresRecords
from byleave.store.postgres.schema import LOCK_ORDER
from byleave.store.postgres.shared_store import SharedStore, open_store
from byleave.store.postgres.signed_documents import SignedDocuments
from byleave.store.store_key import StoreKey
from postgres_proxy import PostgresProxy
from postgres_server import KEY, PostgresServer

SHARED_KEY = StoreKey(bytes.fromhex(KEY))
ENVIRONMENT = {"BYLEAVE_STORE_KEY": KEY}
ALL = 8  # connections of a pool


@pytest.fixture
def proxy(own: PostgresServer) -> Iterator[PostgresProxy]:
    proxy = PostgresProxy(own.directory)
    yield proxy
    proxy.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("database", "audit_log", "spooling"):
        monkeypatch.setattr(f"byleave.store.postgres.{module}.PATIENCE", 0.5)


def opened(url: str) -> SharedStore:
    return open_store(StoreAddress(url, "it"), "/nonexistent", ENVIRONMENT)


def record(agent: str) -> dict[str, str]:
    return {"event": "decision", "agent": agent}


def use_all_connections(store: SharedStore) -> None:
    def use(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        connection.execute("SELECT pg_sleep(0.1)")

    threads = [threading.Thread(target=store.database.run, args=(use,)) for _ in range(ALL)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def until_usable(store: SharedStore) -> None:
    for _ in range(500):
        if not store.database.problem and not store.is_spooling:
            return
        time.sleep(0.02)
    raise AssertionError(store.problem)


def agents(url: str) -> list[str]:
    records = PostgresRecords(StoreAddress(url, "it"), SHARED_KEY)
    try:
        assert records.verify().problems == ()
        return [each.tree["agent"] for each in records.query(Filter(event="decision"))]
    finally:
        records.close()


@pytest.mark.usefixtures("impatient")
def test_connections_that_never_answer_again_do_not_keep_the_store_away(proxy: PostgresProxy) -> None:
    """As after a fail-over from a server that hangs: the watch looked at each connection of the pool, and waited."""
    store = opened(proxy.url)
    log = store.log(Redactor())
    try:
        log.append(record("a"))
        use_all_connections(store)
        proxy.hang()
        with pytest.raises(StateError):
            log.append(record("b"))
        until_usable(store)
        assert log.append(record("c")) > 0
        use_all_connections(store)
    finally:
        log.close()
        store.close()
    assert agents(proxy.url)[-1] == "c"


@pytest.mark.usefixtures("impatient")
def test_a_server_that_takes_connections_and_answers_no_statement_is_left(proxy: PostgresProxy) -> None:
    """The first statement on a new connection was waited for without an end, by every thread that made one."""
    store = opened(proxy.url)
    log = store.log(Redactor())
    try:
        use_all_connections(store)
        proxy.is_mute = True
        proxy.hang()
        for _ in range(3):
            with pytest.raises(StateError):
                log.append(record("a"))
            time.sleep(0.3)
        proxy.is_mute = False
        until_usable(store)
        for _ in range(20):
            with suppress(StateError):
                if log.append(record("b")):
                    break
            time.sleep(0.1)
    finally:
        log.close()
        store.close()
    assert agents(proxy.url)[-1:] == ["b"]


@pytest.mark.parametrize("on_failure", ["deny", "spool"])
@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_connection_that_is_cut_at_its_commit_loses_and_doubles_nothing(
    proxy: PostgresProxy, tmp_path: Path, on_failure: str, cut: str
) -> None:
    store = opened(proxy.url)
    store.use_spool(str(tmp_path), {"store": {"on_failure": on_failure}}, lambda _note: None)
    log = store.log(Redactor())
    kept: list[str] = []
    proxy.cut_after = cut == "after"
    try:
        for number in range(amounts.of(60, 8)):
            proxy.cut_at = b"COMMIT" if number % 4 == 2 else b""
            with suppress(StateError):
                log.append(record(f"a{number}"))
                kept.append(f"a{number}")
            if number % 4 == 2:
                until_usable(store)
        until_usable(store)
    finally:
        log.close()
        store.close()
    found = agents(proxy.url)
    assert proxy.cuts > 0
    assert set(kept) <= set(found)
    assert len(found) == len(set(found))
    assert found == sorted(found, key=lambda agent: int(agent[1:]))


@pytest.mark.parametrize("on_failure", ["deny", "spool"])
def test_a_server_that_is_slow_with_each_statement_loses_nothing(
    proxy: PostgresProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_failure: str
) -> None:
    """Slower than a record may take: calls are refused in time, or their records wait."""
    patience, delay = amounts.of(30, 5) / 10, amounts.of(20, 3) / 10
    for module in ("database", "audit_log", "spooling"):
        monkeypatch.setattr(f"byleave.store.postgres.{module}.PATIENCE", patience)
    store = opened(proxy.url)
    store.use_spool(str(tmp_path), {"store": {"on_failure": on_failure}}, lambda _note: None)
    log = store.log(Redactor())
    kept: list[str] = []
    slowest = 0.0
    try:
        log.append(record("a0"))
        proxy.delay = delay
        for number in range(1, amounts.of(20, 5)):
            began = time.monotonic()
            with suppress(StateError):
                log.append(record(f"a{number}"))
                kept.append(f"a{number}")
            slowest = max(slowest, time.monotonic() - began)
        proxy.delay = 0.0
        until_usable(store)
        for _ in range(1000):
            with suppress(StateError):
                if not store.is_spooling and log.append(record("a1000")):
                    break
            time.sleep(0.02)
    finally:
        proxy.delay = 0.0
        log.close()
        store.close()
    found = agents(proxy.url)
    assert slowest < patience + 1
    assert {*kept, "a1000"} <= set(found)
    assert len(found) == len(set(found))
    assert (on_failure == "deny") or kept


def test_a_reader_that_waits_for_a_writer_holds_up_no_other_writer(
    own: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One writer hangs in its transaction: all others stood behind a reader that waited ten seconds for it."""
    monkeypatch.setattr(audit_reader, "_PATIENCE", 0.5)
    url = own.url("postgres")
    store = opened(url)
    log = store.log(Redactor())
    records = PostgresRecords(StoreAddress(url, "it"), None)
    failed: list[StateError] = []

    def read() -> None:
        try:
            records.head()
        except StateError as error:
            failed.append(error)

    try:
        log.append(record("a"))
        with psycopg.connect(url) as hung:
            hung.execute("SELECT pg_advisory_xact_lock_shared(%s)", (LOCK_ORDER,))
            reader = threading.Thread(target=read)
            reader.start()
            began = time.monotonic()
            for _ in range(20):
                log.append(record("b"))
                time.sleep(0.02)
            assert time.monotonic() - began < 3
            reader.join()
        assert failed
        assert records.head().sequence > 20
    finally:
        records.close()
        log.close()
        store.close()


def test_what_a_replica_that_hangs_holds_is_refused_alone(own: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row that is held counted as a database that is away: all calls of every other replica were refused."""
    monkeypatch.setattr(database, "_LOCKED", 200)
    monkeypatch.setattr(database, "_IDLE", 1000)
    url = own.url("postgres")
    store = opened(url)
    try:
        assert asyncio.run(store.counter.take([Quota("r", 7.0)])) is None
        with suppress(psycopg.Error), database.connect(StoreAddress(url, "it")) as hung:
            hung.execute("SELECT * FROM byleave.rates FOR UPDATE")
            with pytest.raises(StateError, match="another replica holds this"):
                asyncio.run(store.counter.take([Quota("r", 7.0)]))
            assert store.problem == ""
            assert asyncio.run(store.counter.take([Quota("other", 7.0)])) is None
            time.sleep(1.2)  # the server ends the transaction of a process that does not go on
            assert asyncio.run(store.counter.take([Quota("r", 7.0)])) is None
    finally:
        store.close()


def test_a_flood_of_questions_leaves_the_database_to_calls_that_need_no_approval(own: PostgresServer) -> None:
    """Each that waited for its turn had a thread of the database, and in the end it counted as away."""
    store = opened(own.url("postgres"))
    documents = SignedDocuments(store.database, SHARED_KEY)
    ended: list[bool] = []

    def change() -> None:
        with suppress(StateError):
            documents.change("approvals", lambda _body: "{}")
        ended.append(True)

    threads = [threading.Thread(target=change) for _ in range(3 * ALL)]
    try:
        with psycopg.connect(own.url("postgres")) as holder:
            holder.execute("SELECT pg_advisory_xact_lock(hashtextextended('byleave.documents approvals', 0))")
            for each in threads:
                each.start()
            assert asyncio.run(store.counter.take([Quota("r", 60.0)])) is None
            assert ended == []  # all of them still wait
        for each in threads:
            each.join()
        assert store.problem == ""
    finally:
        store.close()
