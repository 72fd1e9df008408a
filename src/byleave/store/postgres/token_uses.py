"""When each token was last used at any replica, by the clock of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from psycopg import Connection

    from byleave.store.postgres.database import Database

_WRITE = """
INSERT INTO byleave.token_uses SELECT digest, now() FROM unnest(%s::text[]) AS digest ORDER BY digest
ON CONFLICT (digest) DO UPDATE SET used = greatest(token_uses.used, excluded.used)
"""
_READ = """SELECT digest, to_char(used AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM byleave.token_uses"""


class SharedTokenUses:
    """The table that all replicas write."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, digests: Collection[str]) -> None:
        """Keep that these were used now."""

        def write(connection: Connection[Any]) -> None:
            connection.execute("SET LOCAL synchronous_commit TO off")
            connection.execute(_WRITE, (list(digests),))

        self._database.run(write)

    def all(self) -> dict[str, str]:
        """Return when each was last used."""
        return self._database.run(lambda connection: dict(connection.execute(_READ).fetchall()))
