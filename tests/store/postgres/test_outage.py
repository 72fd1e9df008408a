"""A database that stops, crashes, hangs or comes back: what is acknowledged is there, and what cannot be is refused."""

import signal
import threading
import time

import pytest

import amounts
from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.store.address import StoreAddress
from byleave.store.audit.query import Filter
from byleave.store.postgres import database
from byleave.store.postgres.audit_reader import PostgresRecords
from byleave.store.postgres.shared_store import SharedStore, open_store
from postgres_server import KEY, PostgresServer

FIELDS = {"event": "decision", "agent": "a", "verdict": {"decision": "allow"}}


def opened(server: PostgresServer) -> SharedStore:
    return open_store(StoreAddress(server.url("postgres"), "it"), "/nonexistent", {"BYLEAVE_STORE_KEY": KEY})


def comes_back(store: SharedStore) -> None:
    for _ in range(400):
        if not store.problem:
            return
        time.sleep(0.05)
    raise AssertionError(store.problem)


def numbers(server: PostgresServer) -> list[int]:
    records = PostgresRecords(StoreAddress(server.url("postgres"), "it"), None)
    try:
        assert records.verify().problems == ()
        return [each.sequence for each in records.query(Filter())]
    finally:
        records.close()


def test_nothing_acknowledged_is_lost_by_crashes_of_the_server(own: PostgresServer) -> None:
    store = opened(own)
    log = store.log(Redactor())
    acknowledged: list[int] = []
    refused: list[float] = []
    ended = threading.Event()

    def call() -> None:
        while not ended.is_set():
            began = time.monotonic()
            try:
                acknowledged.append(log.append(FIELDS))
            except StateError:
                refused.append(time.monotonic() - began)
                time.sleep(0.02)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for each in threads:
        each.start()
    try:
        for number in range(amounts.of(10, 2)):
            time.sleep(0.3)
            own.stop(signal.SIGQUIT if number % 2 else signal.SIGINT)
            time.sleep(0.1)
            own.start()
            comes_back(store)
        time.sleep(0.3)
    finally:
        ended.set()
        for each in threads:
            each.join()
        log.close()
        store.close()
    kept = numbers(own)
    assert set(acknowledged) <= set(kept)
    assert len(set(acknowledged)) == len(acknowledged) > 0
    assert refused
    assert max(refused) < database.PATIENCE + 2


def test_a_server_that_hangs_is_waited_for_once(own: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("database", "audit_log"):
        monkeypatch.setattr(f"byleave.store.postgres.{module}.PATIENCE", 0.5)
    store = opened(own)
    log = store.log(Redactor())
    try:
        first = log.append(FIELDS)
        own.freeze()
        began = time.monotonic()
        with pytest.raises(StateError, match="within"):
            log.append(FIELDS)
        assert time.monotonic() - began >= 0.5
        began = time.monotonic()
        for _ in range(20):
            with pytest.raises(StateError, match="cannot be used"):
                log.append(FIELDS)
        assert time.monotonic() - began < 0.5
        own.thaw()
        comes_back(store)
        later = log.append(FIELDS)
    finally:
        own.thaw()
        log.close()
        store.close()
    # What hung was kept after all, though its call was refused: a record too many, never one too few.
    assert {first, later} <= set(numbers(own))


def test_a_server_that_hangs_while_nobody_calls_shows(own: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byleave.store.postgres.database.PATIENCE", 0.3)
    monkeypatch.setattr("byleave.store.postgres.database._LOOK_AGAIN", 0.1)
    store = opened(own)
    try:
        own.freeze()
        for _ in range(100):
            if store.problem:
                break
            time.sleep(0.05)
        assert "no answer within" in store.problem
        own.thaw()
        comes_back(store)
    finally:
        own.thaw()
        store.close()


def test_a_log_that_is_closed_while_the_server_is_away_ends(own: PostgresServer) -> None:
    store = opened(own)
    log = store.log(Redactor())
    log.append(FIELDS)
    own.stop()
    began = time.monotonic()
    with pytest.raises(StateError):
        log.append(FIELDS)
    log.close()
    store.close()
    assert time.monotonic() - began < 6
    with pytest.raises(StateError):
        log.append(FIELDS)
