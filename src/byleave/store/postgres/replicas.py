"""Which replicas of the gateway there are, and where each can be reached by the others.

A replica says every few seconds that it is alive, by the clock of the database. One that has not done so for long is
forgotten. What is written here is not believed: each proves that it has the key before anything is sent to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.record import Record

if TYPE_CHECKING:
    from typing import Any

    from psycopg import Connection

    from byleave.store.postgres.database import Database

_ALIVE = 12  # seconds after the last sign of life
_FORGOTTEN = 600  # seconds; a database that was away for a while does not end sessions
_SAY = """
INSERT INTO byleave.replicas AS r (name, holder, host, port, seen) VALUES (%s, %s, %s, %s, now())
ON CONFLICT (name) DO UPDATE SET host = excluded.host, port = excluded.port, seen = now()
WHERE r.holder = excluded.holder RETURNING name
"""


class ReplicaRow(Record):
    """Where a replica can be reached, and whether it has given a sign of life lately."""

    host: str
    port: int
    is_alive: bool


class SharedReplicas:
    """The table of replicas. `holder` is a secret of the process, or of the parent of several, that has a name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def say_alive(self, name: str, holder: str, host: str, port: int) -> None:
        """Say that a replica is alive, and where; a StateError if another one has its name."""

        def say(connection: Connection[Any]) -> bool:
            connection.execute("SET LOCAL synchronous_commit TO off")  # it is said again soon
            connection.execute(
                "DELETE FROM byleave.replicas WHERE seen < now() - make_interval(secs => %s)", (_FORGOTTEN,)
            )
            return connection.execute(_SAY, (name, holder, host, port)).fetchone() is not None

        if not await self._database.run_async(say):
            raise StateError(f"another replica has the name {name}", hint="start this one again")

    async def find(self, name: str) -> ReplicaRow | None:
        """Return where a replica can be reached; None if there is none of this name."""
        query = "SELECT host, port, seen >= now() - make_interval(secs => %s) FROM byleave.replicas WHERE name = %s"

        def find(connection: Connection[Any]) -> ReplicaRow | None:
            row = connection.execute(query, (_ALIVE, name)).fetchone()
            return None if row is None else ReplicaRow(*row)

        return await self._database.run_async(find)

    async def leave(self, name: str, holder: str) -> None:
        """Forget a replica that ends."""

        def leave(connection: Connection[Any]) -> None:
            connection.execute("DELETE FROM byleave.replicas WHERE name = %s AND holder = %s", (name, holder))

        await self._database.run_async(leave)

    async def own_address(self) -> str | None:
        """Return the address that the database sees us at; None where it is on this machine."""

        def ask(connection: Connection[Any]) -> str | None:
            row = connection.execute("SELECT host(inet_client_addr())").fetchone()
            return None if row is None else row[0]

        return await self._database.run_async(ask)
