"""One server for all tests of a process, and a database for each test."""

from collections.abc import Iterator

import pytest

from postgres_server import KEY, PostgresServer, missing


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    why = missing()
    if why:
        pytest.skip(why)
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def url(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty database, which is also the store of every command that is started."""
    address = server.emptied()
    monkeypatch.setenv("BYLEAVE_STORE", address)
    monkeypatch.setenv("BYLEAVE_STORE_KEY", KEY)
    return address
