"""A database may have been set up in many ways: with other transactions, other texts, or fewer rights than usual."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from secrets import token_hex
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.gateway.quotas import Quota
from byleave.store.address import StoreAddress
from byleave.store.audit.query import Filter
from byleave.store.audit.retention import Retention
from byleave.store.postgres import maintenance
from byleave.store.postgres.audit_reader import PostgresRecords
from byleave.store.postgres.database import Database, connect
from byleave.store.postgres.maintenance import Maintainer, MaintenanceThread
from byleave.store.postgres.shared_store import SharedStore, open_store
from byleave.store.postgres.signed_documents import SignedDocuments
from byleave.store.store_key import StoreKey
from postgres_server import KEY, PostgresServer

SHARED_KEY = StoreKey(bytes.fromhex(KEY))


def opened(url: str) -> SharedStore:
    return open_store(StoreAddress(url, "it"), "/nonexistent", {"BYLEAVE_STORE_KEY": KEY})


def append(store: SharedStore, *agents: str) -> None:
    log = store.log(Redactor())
    try:
        log.append_all([{"event": "decision", "agent": agent} for agent in agents])
    finally:
        log.close()


def agents(url: str) -> list[str]:
    with closing(PostgresRecords(StoreAddress(url, "it"), SHARED_KEY)) as records:
        assert records.verify().problems == ()
        return [each.tree["agent"] for each in records.query(Filter(event="decision"))]


def with_settings(url: str, **settings: str) -> str:
    """Return an address by which sessions begin with these settings, as those of a role or a database may."""
    words = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())
    return f"{url}&options={quote(words)}"


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_open_calls_are_held_to_the_call_whatever_transactions_are_by_default(url: str, isolation: str) -> None:
    """A transaction that looks as of its beginning does not see what others did while it waited for its turn."""
    quotas = [Quota("o", most=1)]
    with closing(opened(with_settings(url, default_transaction_isolation=isolation))) as store:
        took: list[object] = []
        with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as looking:
            other.execute("SELECT pg_advisory_xact_lock(hashtextextended('byleave.open_calls o', 0))")
            thread = threading.Thread(target=lambda: took.append(asyncio.run(store.counter.take(quotas))))
            thread.start()
            while not looking.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                pass
            other.execute("INSERT INTO byleave.open_calls VALUES ('o', 'another', 1, now())")
            other.commit()
            thread.join(10)
        assert took == [(0, 1.0)]
        assert store.problem == ""


def test_rounds_of_maintenance_read_times_whatever_form_the_database_gives_them(url: str) -> None:
    address = StoreAddress(with_settings(url, datestyle="German"), "it")
    with closing(opened(address.url)) as store:
        append(store, "a")
        with connect(address) as connection:
            assert Maintainer(SHARED_KEY, Retention()).run(connection)
    assert agents(address.url) == ["a"]


def test_a_round_of_maintenance_that_fails_is_not_the_last(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ended, and no process of the gateway wrote a checkpoint any more."""
    monkeypatch.setattr(maintenance, "PERIOD", 0.01)
    again = threading.Event()
    notes: list[str] = []
    rounds: list[object] = []

    class Failing(Maintainer):
        def run(self, connection: object, *, now: object = None) -> bool:
            rounds.append((connection, now))
            if len(rounds) == 1:
                raise NotImplementedError
            again.set()
            return True

    thread = MaintenanceThread(StoreAddress(url, "it"), Failing(SHARED_KEY, Retention()), notes.append)
    try:
        assert again.wait(10)
    finally:
        thread.stop()
    assert notes == ["a defect of byleave while a checkpoint was written: NotImplementedError"]


@pytest.fixture
def encoded(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of another encoding."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE encoded ENCODING '{request.param}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
        yield server.url("encoded")
        connection.execute("DROP DATABASE encoded WITH (FORCE)")


@pytest.mark.parametrize("encoded", ["LATIN1"], indirect=True)
def test_a_database_that_cannot_hold_every_letter_is_refused(encoded: str) -> None:
    """A record with such a letter in it refused all calls that shared its transaction."""
    with pytest.raises(StateError, match="the encoding LATIN1"):
        opened(encoded)


@pytest.mark.parametrize("encoded", ["SQL_ASCII"], indirect=True)
def test_a_database_without_an_encoding_holds_every_letter(encoded: str) -> None:
    with closing(opened(encoded)) as store:
        append(store, "Zo\xeb \u65e5\u672c")
    assert agents(encoded) == ["Zo\xeb \u65e5\u672c"]


def test_a_user_that_may_make_no_schemas_can_own_the_one_that_is_there(url: str, server: PostgresServer) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain")
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute("CREATE SCHEMA byleave AUTHORIZATION plain")
        try:
            mine = url.replace("byleave@", "plain@")
            for _ in range(2):
                with closing(opened(mine)) as store:
                    append(store, "a")
            assert agents(mine) == ["a", "a"]
        finally:
            server.emptied()
            connection.execute("DROP ROLE plain")


def test_a_name_too_long_for_an_index_is_kept_and_refuses_no_other_call(url: str) -> None:
    """The database counted as away, so that one caller could keep all others from calling."""
    name = token_hex(5000)
    with closing(opened(url)) as store:
        append(store, "a", name, "b")
        assert store.problem == ""
    assert agents(url) == ["a", name, "b"]


def test_a_document_that_another_thread_has_seen_newer_is_read_again(url: str) -> None:
    """It was taken for an older state of the database, so that a call was refused and the operator alarmed."""
    database = Database(StoreAddress(url, "it"))
    with closing(opened(url)), closing(database):
        database.open()
        documents, others = (SignedDocuments(database, SHARED_KEY) for _ in range(2))
        documents.change("d", lambda _body: "one")
        execute = psycopg.Connection.execute
        changed: list[str] = []

        def late(connection: Any, query: Any, *more: Any) -> Any:
            found = execute(connection, query, *more)
            if "FROM byleave.documents" in str(query) and not changed:
                changed.append("two")
                with psycopg.Connection.connect(url) as another:
                    others.change_in(another, "d", lambda _body: "two")
                documents.change("x", lambda _body: None)
                documents._newest["d"] = 2  # noqa: SLF001 -- as a thread that reads it now does
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", late)
            assert documents.read("d") == "two"
