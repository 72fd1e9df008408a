"""Approvals and definitions that replicas share: what a yes at one means at another, and what tampering means."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from byleave.errors import StateError
from byleave.store.address import StoreAddress
from byleave.store.approvals import APPROVED, PENDING, REVOKED, Approvals, later
from byleave.store.postgres.shared_store import SharedStore, open_store
from byleave.store.tool_definitions import TOOL, Definition, Definitions
from byleave.user_files import ParseCache
from postgres_server import KEY

NOW, LATER, LONG_AGO = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2025-01-01T00:00:00Z"


@pytest.fixture
def stores(url: str) -> Iterator[list[SharedStore]]:
    opened = [open_store(StoreAddress(url, "it"), "/nonexistent", {"BYLEAVE_STORE_KEY": KEY}) for _ in range(2)]
    yield opened
    for each in opened:
        each.close()


def approvals(store: SharedStore, place: Path, name: str = "") -> Approvals:
    directory = place / (name or f"machine-{id(store)}")
    directory.mkdir(mode=0o700, exist_ok=True)
    return store.approvals(str(directory), ParseCache(None, ""))


def remember(where: Approvals, key: str, *, kind: str = "call", status: str = PENDING) -> None:
    where.remember(key, kind=kind, subject=f"{kind} {key}", session="default", status=status, now=NOW)


def change(url: str, *statements: str) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def definition(text: str, name: str = "price") -> Definition:
    return Definition(name, f"hash of {text}", text)


def test_a_yes_at_one_replica_counts_at_another_until_it_is_revoked(stores: list[SharedStore], tmp_path: Path) -> None:
    one, other = (approvals(store, tmp_path) for store in stores)
    remember(one, "k")
    assert other.approved_by("k", now=NOW) is None
    assert [(each.kind, each.status, each.subject) for each in other.all()] == [("call", PENDING, "call k")]
    assert other.settle_action("k", status=APPROVED, now=NOW)
    assert one.stamp() == other.stamp()
    one.refresh()
    assert one.approved_by("k", now=NOW) == "approvals"
    (found,) = one.all()
    assert one.revoke(found, now=NOW)
    other.refresh()
    assert other.approved_by("k", now=NOW) is None
    assert [each.status for each in other.all()] == [REVOKED]


def test_a_yes_for_one_request_is_spent_by_one_replica(stores: list[SharedStore], tmp_path: Path) -> None:
    one, other = (approvals(store, tmp_path) for store in stores)
    remember(one, "k")
    assert one.settle_action("k", status=APPROVED, now=NOW, until=LATER)
    assert sorted([one.spend(["k"], now=NOW), other.spend(["k"], now=NOW)]) == [False, True]
    remember(one, "late")
    assert one.settle_action("late", status=APPROVED, now=NOW, until=LONG_AGO)
    assert not other.spend(["late"], now=NOW)


@pytest.mark.parametrize("skew", [3600, -3600])
def test_a_yes_lapses_at_the_same_moment_on_machines_whose_clocks_differ(
    stores: list[SharedStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: int
) -> None:
    """It was over at once where a clock was ahead, and counted an hour longer where one was behind."""
    one, other = (approvals(store, tmp_path) for store in stores)
    for store in stores:
        monkeypatch.setattr(store.database, "_look", lambda _connection: False)  # which would look at the real clock
    stores[0].database.ahead, stores[1].database.ahead = skew, -skew
    there = later(NOW, 2 * skew)  # what the other machine takes for now
    for key in ("soon", "late"):
        remember(one, key)
        assert one.settle_action(key, status=APPROVED, now=NOW, until=later(NOW, 600))
    assert other.approved_by("soon", now=there) == "approvals"
    assert other.spend(["soon"], now=later(there, 599))
    assert other.approved_by("late", now=later(there, 601)) is None
    assert not other.spend(["late"], now=later(there, 601))
    assert not one.spend(["late"], now=later(NOW, 601))


def test_what_is_of_one_machine_stays_there(stores: list[SharedStore], tmp_path: Path) -> None:
    one, other = (approvals(store, tmp_path) for store in stores)
    one.approve_mount("data", "/srv/data", now=NOW)
    remember(one, "file", kind="action", status=APPROVED)
    assert one.approves_mount("data", "/srv/data")
    assert one.approved_by("file", now=NOW) is not None
    assert (other.mounts(), other.approved_by("file", now=NOW), other.all()) == ([], None, [])


def test_a_call_that_was_approved_in_the_files_of_a_machine_does_not_count(
    stores: list[SharedStore], tmp_path: Path
) -> None:
    shared = approvals(stores[0], tmp_path, "here")
    own = Approvals(shared.directory, ParseCache(None, ""))
    remember(own, "k", status=APPROVED)
    assert own.approved_by("k", now=NOW) is not None
    assert shared.approved_by("k", now=NOW) is None


def test_writing_to_the_database_approves_nothing(stores: list[SharedStore], tmp_path: Path, url: str) -> None:
    one, other = (approvals(store, tmp_path) for store in stores)
    remember(one, "k")
    change(url, "UPDATE byleave.documents SET body = replace(body, 'pending', 'approved') WHERE name = 'approvals'")
    other.refresh()
    with pytest.raises(StateError, match="no valid MAC"):
        other.approved_by("k", now=NOW)
    with pytest.raises(StateError, match="no valid MAC"):
        other.spend(["k"], now=NOW)


def test_a_document_is_no_other_document(stores: list[SharedStore], tmp_path: Path, url: str) -> None:
    one, other = (approvals(store, tmp_path) for store in stores)
    remember(one, "k", status=APPROVED)
    one.definitions.record("shop", [definition("v1")], now=NOW)
    change(
        url,
        "DELETE FROM byleave.documents WHERE name = 'server shop'",
        "UPDATE byleave.documents SET name = 'server shop' WHERE name = 'approvals'",
    )
    with pytest.raises(StateError, match="no valid MAC"):
        other.definitions.of("shop")


def test_an_older_state_that_is_put_back_does_not_count(stores: list[SharedStore], tmp_path: Path, url: str) -> None:
    one, other = (approvals(store, tmp_path) for store in stores)
    remember(one, "k", status=APPROVED)
    change(url, "CREATE TABLE kept AS SELECT * FROM byleave.documents")
    (found,) = other.all()
    other.revoke(found, now=NOW)
    other.refresh()
    assert other.approved_by("k", now=NOW) is None  # and this process has seen the newer state
    change(url, "DELETE FROM byleave.documents", "INSERT INTO byleave.documents SELECT * FROM kept", "DROP TABLE kept")
    other.refresh()
    with pytest.raises(StateError, match="older than what this process has seen"):
        other.approved_by("k", now=NOW)


def test_a_replica_with_another_key_approves_nothing(stores: list[SharedStore], tmp_path: Path, url: str) -> None:
    remember(approvals(stores[0], tmp_path), "k", status=APPROVED)
    stranger = open_store(StoreAddress(url, "it"), "/nonexistent", {"BYLEAVE_STORE_KEY": "cd" * 32})
    try:
        with pytest.raises(StateError, match="no valid MAC"):
            approvals(stranger, tmp_path).approved_by("k", now=NOW)
    finally:
        stranger.close()


def test_a_definition_is_pinned_for_all_replicas(stores: list[SharedStore], tmp_path: Path) -> None:
    one, other = (approvals(store, tmp_path).definitions for store in stores)
    assert isinstance(one, Definitions)
    assert isinstance(other, Definitions)
    before = other.stamp("shop")
    one.record("shop", [definition("v1")], now=NOW)
    assert other.stamp("shop") != before
    other.record("shop", [definition("v2")], now=NOW)
    pin = one.of("shop").pins[TOOL]["price"]
    assert (pin.known.status, pin.known.text) == (APPROVED, "v1")
    assert pin.changed is not None
    assert (pin.changed.status, pin.changed.text) == (PENDING, "v2")
    assert one.settle("shop", "price", "hash of v2", status=APPROVED, now=NOW)
    assert other.of("shop").pins[TOOL]["price"].known.text == "v2"
    assert [(each.server, each.name) for each in other.all([])] == [("shop", "price")]


def test_definitions_that_were_removed_are_not_taken_for_new_ones(
    stores: list[SharedStore], tmp_path: Path, url: str
) -> None:
    one, other = (approvals(store, tmp_path).definitions for store in stores)
    one.record("shop", [definition("v1")], now=NOW)
    change(url, "DELETE FROM byleave.documents WHERE name = 'server shop'")
    for each in (one, other):
        with pytest.raises(StateError, match=r"gone or damaged|older than"):
            each.of("shop")
        with pytest.raises(StateError, match=r"gone or damaged|older than"):
            each.record("shop", [definition("v2")], now=NOW)
    assert one.of("another").pins[TOOL] == {}
