"""One server for all tests of a process, and a database for each test."""

from collections.abc import Iterator

import pytest

import amounts
from byleave.store.address import StoreAddress
from byleave.store.postgres.shared_store import SharedStore, open_store
from postgres_server import KEY, PostgresServer, missing


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    why = missing()
    if why:
        pytest.skip(why)
    server = PostgresServer(durable=amounts.SLOW)  # crashes of the server itself lose nothing either way
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def own(server: PostgresServer) -> Iterator[PostgresServer]:
    """The same server, with an empty database, for a test that may stop it or have it hang."""
    server.emptied()
    try:
        yield server
    finally:
        server.restore()


@pytest.fixture
def url(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty database, which is also the store of every command that is started."""
    address = server.emptied()
    monkeypatch.setenv("BYLEAVE_STORE", address)
    monkeypatch.setenv("BYLEAVE_STORE_KEY", KEY)
    return address


@pytest.fixture
def address(url: str) -> StoreAddress:
    return StoreAddress(url, "the database of this test")


@pytest.fixture
def store(address: StoreAddress) -> Iterator[SharedStore]:
    store = open_store(address, "/nonexistent", {"BYLEAVE_STORE_KEY": KEY})
    yield store
    store.close()
