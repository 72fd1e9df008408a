"""Where the replicas of a gateway can be reached: workers at fixed places, others by a table in the store.

The name of a replica is random, and no secret: ids that clients get begin with it.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.net.peers import PeerAddress

if TYPE_CHECKING:
    from typing import Protocol

    from byleave.store.postgres.replicas import SharedReplicas

    class ReplicaDirectory(Protocol):
        """Where the replicas of a gateway can be reached."""

        async def announce(self, replica: str, at: PeerAddress) -> None:
            """Have the others know where this one can be reached; a StateError if that is not possible."""

        async def find(self, replica: str) -> PeerAddress | None:
            """Return the address of a replica; None if there is none of this name, a StateError if it is not known."""

        async def is_alive(self, replica: str) -> bool:
            """Whether a replica that does not answer has given a sign of life lately."""

        async def leave(self) -> None:
            """Have the others know that this one ends."""


BEAT = 3.0  # seconds between two signs of life
_NAME_BYTES = 6
_LOOPBACK = "127.0.0.1"
_REMEMBERED = 30.0  # seconds for which an address is not asked for again
_MOST_FOUND = 1024


def new_name() -> str:
    """Return the name of a new replica. It is no secret."""
    return secrets.token_hex(_NAME_BYTES)


class StaticDirectory:
    """Replicas whose addresses never change: the workers of one machine."""

    def __init__(self, places: dict[str, PeerAddress]) -> None:
        self._places = places

    async def announce(self, replica: str, at: PeerAddress) -> None:
        """Do nothing: all know it."""

    async def find(self, replica: str) -> PeerAddress | None:
        return self._places.get(replica)

    async def is_alive(self, replica: str) -> bool:
        return replica in self._places

    async def leave(self) -> None:
        """Do nothing: nothing listens there any more."""


class SharedDirectory:
    """Replicas that find each other in a database. `advertised`: the host by which others reach this one.

    A replica has one name and one address for as long as it lives, so what was found is remembered for a while.
    """

    def __init__(self, table: SharedReplicas, holder: str, advertised: str | None = None) -> None:
        self._table = table
        self._holder = holder
        self._advertised = advertised
        self._said: tuple[str, PeerAddress] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._found: dict[str, tuple[float, PeerAddress]] = {}

    async def announce(self, replica: str, at: PeerAddress) -> None:
        host = self._advertised
        if host is None:
            is_all = ip_address(at.host).is_unspecified
            host = (await self._table.own_address() or _LOOPBACK) if is_all else at.host
        self._said = replica, PeerAddress(host, at.port)
        await self._say()
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def _say(self) -> None:
        if self._said is not None:
            replica, at = self._said
            await self._table.say_alive(replica, self._holder, at.host, at.port)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            with suppress(StateError):  # `/ready` says that the store cannot be used
                await self._say()

    async def find(self, replica: str) -> PeerAddress | None:
        now = asyncio.get_running_loop().time()
        until, place = self._found.get(replica, (0.0, None))
        if place is not None and now < until:
            return place
        row = await self._table.find(replica)
        if row is None:
            self._found.pop(replica, None)
            return None
        if len(self._found) >= _MOST_FOUND:
            self._found.clear()
        self._found[replica] = now + _REMEMBERED, PeerAddress(row.host, row.port)
        return self._found[replica][1]

    async def is_alive(self, replica: str) -> bool:
        row = await self._table.find(replica)
        return row is not None and row.is_alive

    async def leave(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        if self._said is not None:
            with suppress(StateError):  # it is forgotten by itself
                await self._table.leave(self._said[0], self._holder)
