"""Calls per minute, counted in the database: the same for all replicas, to the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from psycopg import Connection

    from byleave.store.postgres.database import Database

_REFILLED = "least(%(full)s, r.calls_left + greatest(0, extract(epoch FROM now() - r.at)) * %(rate)s / 60.0)"
# What is put together here is a constant of ours.
_TAKE = f"""
INSERT INTO byleave.rates AS r (agent, calls_left, is_allowed, at) VALUES (%(agent)s, %(full)s - 1, true, now())
ON CONFLICT (agent) DO UPDATE SET
  is_allowed = {_REFILLED} >= 1,
  calls_left = {_REFILLED} - CASE WHEN {_REFILLED} >= 1 THEN 1 ELSE 0 END,
  at = greatest(r.at, now())
RETURNING is_allowed, calls_left
"""  # noqa: S608


class SharedRates:
    """The calls that each agent has left."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, agent: str, rate: float) -> float:
        """Take one call of `rate` in a minute; return 0, or in how many seconds there will be one."""

        def take(connection: Connection[Any]) -> float:
            connection.execute("SET LOCAL synchronous_commit TO off")  # a crash of the server gives some calls back
            values = {"agent": agent, "full": max(rate, 1.0), "rate": rate}
            row = connection.execute(_TAKE.encode(), values).fetchone()
            is_allowed, left = row if row is not None else (False, 0.0)
            return 0.0 if is_allowed else (1 - left) * 60 / rate

        return await self._database.run_async(take)
