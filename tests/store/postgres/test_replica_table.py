"""The table by which replicas find each other: by the clock of the database, one process for a name."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from byleave.errors import StateError
from byleave.gateway.replica_directory import SharedDirectory, new_name
from byleave.net.peers import PeerAddress
from byleave.store.address import StoreAddress
from byleave.store.postgres import schema
from byleave.store.postgres.database import Database
from byleave.store.postgres.replicas import ReplicaRow, SharedReplicas


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(StoreAddress(url, "the database"))
    with psycopg.connect(url) as connection:
        schema.migrate(connection)
    opened.open()
    yield opened
    opened.close()


def test_a_name_belongs_to_one_process_until_it_is_forgotten(database: Database, url: str) -> None:
    async def scenario() -> None:
        table, name = SharedReplicas(database), new_name()
        await table.say_alive(name, "one", "10.0.0.1", 4000)
        with pytest.raises(StateError, match="another replica has the name"):
            await table.say_alive(name, "two", "10.0.0.2", 5000)
        await table.leave(name, "two")
        assert await table.find(name) == ReplicaRow("10.0.0.1", 4000, is_alive=True)
        await table.say_alive(name, "one", "10.0.0.1", 4001)  # the next worker of the same parent
        assert await table.find(name) == ReplicaRow("10.0.0.1", 4001, is_alive=True)
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE byleave.replicas SET seen = now() - interval '20 seconds'")
        assert await table.find(name) == ReplicaRow("10.0.0.1", 4001, is_alive=False)
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE byleave.replicas SET seen = now() - interval '1 day'")
        await table.say_alive(new_name(), "three", "10.0.0.3", 1)
        assert await table.find(name) is None

    asyncio.run(scenario())


def test_a_directory_says_where_a_replica_is_until_it_leaves(database: Database) -> None:
    async def scenario() -> None:
        one, other = (SharedDirectory(SharedReplicas(database), holder) for holder in ("one", "two"))
        name = new_name()
        await one.announce(name, PeerAddress("127.0.0.1", 4000))
        assert await other.find(name) == PeerAddress("127.0.0.1", 4000)
        assert await other.is_alive(name)
        assert await other.find(new_name()) is None
        await one.leave()
        assert not await other.is_alive(name)
        await one.announce(name, PeerAddress("::", 4001))  # all addresses: the database says which is ours
        assert await SharedDirectory(SharedReplicas(database), "three").find(name) == PeerAddress("127.0.0.1", 4001)
        await one.leave()

    asyncio.run(scenario())


def test_tables_of_the_version_before_get_what_is_new(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before, psycopg.connect(url) as connection:
        before.setattr(schema, "STEPS", schema.STEPS[:1])
        assert schema.migrate(connection) == 1
    with psycopg.connect(url) as connection:
        with pytest.raises(StateError, match="no tables of this version"):
            schema.check_version(connection)
        assert schema.migrate(connection) == len(schema.STEPS) - 1
        schema.check_version(connection)
        assert connection.execute("SELECT count(*) FROM byleave.replicas").fetchone() == (0,)
