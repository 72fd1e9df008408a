"""Limits of calls hold across replicas to the call, also where one of them dies or is not waited for."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import psycopg
import pytest

import amounts
from byleave.errors import StateError
from byleave.gateway.quotas import Quota
from byleave.store.address import StoreAddress
from byleave.store.postgres import call_counter
from byleave.store.postgres.shared_store import SharedStore, open_store
from postgres_server import KEY, PostgresServer


@pytest.fixture
def stores(url: str) -> Iterator[list[SharedStore]]:
    opened = [open_store(StoreAddress(url, "it"), "/nonexistent", {"BYLEAVE_STORE_KEY": KEY}) for _ in range(3)]
    try:
        yield opened
    finally:
        for each in opened:
            each.close()


async def taken(store: SharedStore, quotas: Sequence[Quota]) -> bool:
    return await store.counter.take(quotas) is None


async def together(stores: Sequence[SharedStore], quotas: Sequence[Quota], times: int) -> int:
    """Return how many of so many calls at each replica, all at once, are taken."""
    return sum(await asyncio.gather(*(taken(store, quotas) for _ in range(times) for store in stores)))


def test_a_rate_is_held_to_the_call(stores: list[SharedStore]) -> None:
    assert asyncio.run(together(stores, [Quota("r", 7.0)], amounts.of(50, 6))) == 7


def test_open_calls_are_held_to_the_call_and_an_end_frees_one_place(stores: list[SharedStore]) -> None:
    quotas = [Quota("o", most=5)]
    assert asyncio.run(together(stores, quotas, amounts.of(50, 6))) == 5
    for number in range(3):
        if stores[number].counter._open.get("o"):  # noqa: SLF001 -- it has one of the five
            stores[number].counter.give(quotas)
            break
    assert eventually_taken(stores[(number + 1) % 3], quotas)
    assert not asyncio.run(taken(stores[0], quotas))


def eventually_taken(store: SharedStore, quotas: Sequence[Quota]) -> bool:
    for _ in range(100):
        if asyncio.run(taken(store, quotas)):
            return True
        time.sleep(0.02)
    return False


def test_a_call_that_one_limit_refuses_is_taken_from_none(stores: list[SharedStore]) -> None:
    wide, narrow, room = Quota("a", 10.0), Quota("b", 1.0), Quota("c", most=2)
    assert asyncio.run(together(stores, [wide, narrow, room], 6)) == 1
    assert asyncio.run(together(stores, [wide], 6)) == 9
    assert asyncio.run(together(stores, [room], 6)) == 1


def test_what_a_dead_replica_had_open_counts_for_a_while_and_then_no_more(
    stores: list[SharedStore], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas = [Quota("o", most=1)]
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO byleave.open_calls VALUES ('o', 'dead', 1, now())")
    assert not asyncio.run(taken(stores[0], quotas))
    monkeypatch.setattr(call_counter, "LEFT_BEHIND", 0.0)
    assert asyncio.run(taken(stores[0], quotas))


def test_what_a_replica_has_open_counts_as_long_as_it_lives(
    stores: list[SharedStore], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_counter, "CONFIRM", 0.05)
    assert asyncio.run(taken(stores[0], [Quota("o", most=1)]))
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE byleave.open_calls SET at = now() - interval '1 hour'")
    for _ in range(100):
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT at > now() - interval '1 minute' FROM byleave.open_calls").fetchone()
        if row == (True,):
            return
        time.sleep(0.02)
    raise AssertionError("it was not confirmed")


def test_a_place_that_was_taken_too_late_is_given_back(own: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byleave.store.postgres.database.PATIENCE", 0.3)
    store = open_store(StoreAddress(own.url("postgres"), "it"), "/nonexistent", {"BYLEAVE_STORE_KEY": KEY})
    quotas = [Quota("o", most=1)]
    try:
        own.freeze()
        with pytest.raises(StateError):
            asyncio.run(taken(store, quotas))
        own.thaw()
        for _ in range(200):
            with suppress(StateError):
                if asyncio.run(taken(store, quotas)):
                    break
            time.sleep(0.02)
        assert store.counter._open["o"] == 1  # noqa: SLF001 -- and not 2
    finally:
        own.thaw()
        store.close()


def test_a_replica_that_ends_leaves_no_place_taken(stores: list[SharedStore]) -> None:
    quotas = [Quota("o", most=1)]
    assert asyncio.run(taken(stores[0], quotas))
    assert not asyncio.run(taken(stores[1], quotas))
    stores[0].close()
    assert asyncio.run(taken(stores[1], quotas))
