"""Which connections to an HTTP server stay, and which one gives way when there are too many. Pure.

A connection is a stranger's until a request on it has shown who is calling. Strangers have the places that are left, of
which some are always theirs, so that a caller gets in to show who it is. A new stranger takes the place of the one that
was there longest, of the peer that holds most: what it has done meanwhile does not count, for a byte is sent easily. A
caller keeps its connections against strangers, up to a limit of its own. When all places for callers are taken, the
caller that holds most gives way to one that holds fewer. So no number of idle connections keeps a caller out, and no
caller keeps another one out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import Any, Protocol

    class Held(Protocol):
        """A connection. `peer` is None for a proxy, which stands for many."""

        peer: str | None
        principal: str | None

        @property
        def is_idle(self) -> bool:
            """Whether no request is open on it, or arriving."""

        @property
        def is_standing(self) -> bool:
            """Whether it only carries a stream that its client can open again."""

        def give_way(self) -> None:
            """End it at once."""


class ServerLimits(Struct, frozen=True):
    """How much clients may take up, and how long (in seconds) they may take."""

    connections: int = 1024
    per_peer: int = 512  # connections of one peer whose callers are not known
    per_caller: int = 512  # connections of one caller
    head_bytes: int = 1 << 15
    body_bytes: int = 8 << 20
    arrival: float = 20.0  # of a head, and of a body
    idle: float = 300.0
    stranger: float = 5.0  # without a request, and without reading, for those who have not shown who they are
    stalled: float = 60.0  # without reading what we sent
    quiet: float = 15.0  # between two signs of life in a stream
    parting: float = 2.0  # for the client to read our last words
    tick: float = 1.0


_SHARE = 8  # of so many places one is for strangers alone


class ConnectionAdmission:
    """All connections: those of strangers by peer, the oldest first, and those of callers by principal."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._strangers: dict[str | None, dict[Held, None]] = {}
        self._callers: dict[str, dict[Held, None]] = {}
        self._proven = 0
        self._unproven = 0

    def __len__(self) -> int:
        return self._proven + self._unproven

    def counts(self) -> dict[str, int]:
        """Return how many connections are those of callers, and of strangers."""
        return {"caller": self._proven, "stranger": self._unproven}

    def enter(self, held: Held) -> None:
        """Take a new connection on, and end another one if there is no room for both."""
        if held.peer is not None and len(self._strangers.get(held.peer, ())) >= self.limits.per_peer:
            self._end(next(iter(self._strangers[held.peer])))
        while self._strangers and len(self) >= self.limits.connections:
            largest = max(self._strangers.values(), key=len)
            self._end(next(iter(largest)))
        while self._callers and len(self) >= self.limits.connections:  # there may be fewer than there were before
            largest = max(self._callers.values(), key=len)
            self._end(_spare(largest) or next(reversed(largest)))
        self._strangers.setdefault(held.peer, {})[held] = None
        self._unproven += 1

    def prove(self, held: Held, principal: str) -> bool:
        """Note whose connection it is now; return whether there is room for it among those of callers."""
        if held.principal == principal:
            return True
        own = self._callers.get(principal, {})
        if len(own) >= self.limits.per_caller:
            going = _spare(own)
            if going is None:
                return False
            self._end(going)
        if held.principal is None and self._proven >= _for_callers(self.limits.connections):
            going = self._going_for(principal)
            if going is None:
                return False
            self._end(going)
        self.leave(held)
        held.principal = principal
        self._callers.setdefault(principal, {})[held] = None
        self._proven += 1
        return True

    def leave(self, held: Held) -> None:
        """Forget a connection; it may be forgotten already."""
        if held.principal is None:
            self._unproven -= _taken(self._strangers, held.peer, held)
        else:
            self._proven -= _taken(self._callers, held.principal, held)

    def _end(self, held: Held) -> None:
        self.leave(held)
        held.give_way()

    def _going_for(self, principal: str) -> Held | None:
        """Return the connection that makes room for one more of this caller, if it is entitled to it."""
        own = self._callers.get(principal, {})
        largest = max(self._callers.values(), key=len)
        if len(largest) <= len(own) + 1:
            return _spare(own)
        return _spare(largest) or next(reversed(largest))


def _for_callers(connections: int) -> int:
    return max(1, connections - max(1, connections // _SHARE))


def _taken(groups: dict[Any, dict[Held, None]], key: Hashable, held: Held) -> int:
    """Take a connection out of its group; return how many that were."""
    group = groups.get(key)
    if group is None or held not in group:
        return 0
    del group[held]
    if not group:
        del groups[key]
    return 1


def _spare(group: Iterable[Held]) -> Held | None:
    """Return a connection that its client can do without: an idle one, else one that only stands open."""
    idle = next((each for each in group if each.is_idle), None)
    return idle or next((each for each in group if each.is_standing), None)
