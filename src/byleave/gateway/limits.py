"""How much is let through: calls per minute, records of refusals, starts of a server that fails, processes.

`Buckets`: an agent may use up a minute's calls at once, and then gets new ones at an even pace. Agents that merely
claim a name can claim any number of names, so only so many are kept apart; all further ones share.

`RefusalLog`: requests that were refused before the policy was asked. The first refusal of a kind to a peer is recorded
at once. What follows is counted, and recorded once a minute, so that a flood does not fill the audit log. What a caller
sent is in no record: not its token, not its headers.

`Backoff`: how long to wait before a server that failed is tried again. `ServerProcesses`: how many run at a time.

Time is passed in by the caller; `ServerProcesses` alone waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from byleave.gateway.interfaces import DownError
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable
    from typing import Any

    Record = Callable[[dict[str, Any], str | None], None]
    Key = tuple[str, str, str | None]


_MOST = 4096  # agents that are kept apart
_PAUSE = 1.0  # seconds between two searches for agents to forget
_OTHERS = object()


class Buckets:
    """Calls per minute (above 0), by agent. None: as many as they like."""

    def __init__(self, rate: float | None) -> None:
        self.rate = rate
        self._left: dict[Hashable, tuple[float, float]] = {}
        self._searched = -_PAUSE

    def take(self, agent: Hashable, now: float) -> float:
        """Take one call; return 0, or in how many seconds there will be one."""
        if self.rate is None:
            return 0.0
        agent, left = self._found(agent, now, self.rate)
        self._left[agent] = (left - 1 if left >= 1 else left), now
        return 0.0 if left >= 1 else (1 - left) * 60 / self.rate

    def wait(self, agent: Hashable, now: float) -> float:
        """Return what `take` would, and take nothing."""
        if self.rate is None:
            return 0.0
        left = self._found(agent, now, self.rate)[1]
        return 0.0 if left >= 1 else (1 - left) * 60 / self.rate

    def _found(self, agent: Hashable, now: float, rate: float) -> tuple[Hashable, float]:
        """Return under which name the calls of an agent are counted, and how many are left."""
        if agent not in self._left and len(self._left) >= _MOST:
            self._forget(now, rate)
            agent = agent if len(self._left) < _MOST else _OTHERS
        return agent, refilled(self._left.get(agent), now, rate)

    def name_of(self, agent: str | None, now: float) -> str:
        """Return under which name an agent's calls are counted elsewhere: so many names are kept apart, and no more."""
        if agent not in self._left and len(self._left) >= _MOST and self.rate is not None:
            self._forget(now, self.rate)
            if len(self._left) >= _MOST:
                return "others"
        self._left[agent] = 0.0, now  # as if all were used up: it is forgotten after a minute
        return "" if agent is None else f"agent {agent}"

    def _forget(self, now: float, rate: float) -> None:
        """Forget the agents whose calls are all there again."""
        if now < self._searched + _PAUSE:
            return
        self._searched = now
        full = refilled(None, now, rate)
        self._left = {agent: each for agent, each in self._left.items() if refilled(each, now, rate) < full}


def refilled(bucket: tuple[float, float] | None, now: float, rate: float) -> float:
    """Return how many calls an agent has left, by how many there were and since when; None: it has not called."""
    full = max(rate, 1.0)
    if bucket is None:
        return full
    left, since = bucket
    return min(full, left + max(0.0, now - since) * rate / 60)


MINUTE = 60.0  # seconds between two records of the same kind
_MOST_PEERS = 64  # peers (by kind of refusal) that are kept apart
OTHERS = "others"
# What the user should look at. Mere mistakes, and what was too much at a time, are only among the figures.
RECORDED = frozenset(
    {"wrong_token", "no_token", "scope", "origin", "host", "proxy", "user", "agent", "replica", "rate", "calls"}
)


class RefusalLog:
    """Counts refusals by kind, peer and agent."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._counted: dict[Key, tuple[float, int]] = {}  # since when, and how many that are not recorded yet

    def note(self, why: str, peer: str, agent: str | None, now: float) -> None:
        """Take note of one refusal. `agent` is one of the configuration, or None."""
        key: Key = (why, peer, agent)
        if key not in self._counted and len(self._counted) >= _MOST_PEERS:
            key = (why, OTHERS, None)
        counted = self._counted.get(key)
        if counted is None:
            self._counted[key] = now, 0
            self._write(key, 1)
        else:
            self._counted[key] = counted[0], counted[1] + 1

    def tick(self, now: float) -> None:
        """Record what was counted for a minute; forget what has stopped."""
        for key, (since, count) in [item for item in self._counted.items() if now - item[1][0] >= MINUTE]:
            if count:
                self._counted[key] = now, 0
                self._write(key, count, now - since)
            else:
                del self._counted[key]

    def close(self, now: float) -> None:
        """Record all that was counted."""
        counted, self._counted = self._counted, {}
        for key, (since, count) in counted.items():
            if count:
                self._write(key, count, now - since)

    def _write(self, key: Key, count: int, seconds: float = 0.0) -> None:
        why, peer, agent = key
        fields: dict[str, Any] = {"why": why, "peer": peer or None, "count": count, "seconds": round(seconds)}
        self._record(fields, agent)


FIRST, LONGEST = 0.5, 30.0  # seconds
LIVED = 30.0  # seconds after which a server counts as one that works: the next failure is its first


class Backoff:
    """Counts the failures of one server: the first is tried again at once, then after 0.5, 1, 2, ... 30 seconds."""

    def __init__(self) -> None:
        self._failures = 0
        self._not_before = 0.0
        self._since: float | None = None

    def started(self, now: float) -> None:
        """Note that it runs."""
        self._since = now

    def failed(self, now: float) -> float:
        """Note that it did not start, or has ended; return how many seconds to wait."""
        since, self._since = self._since, None
        if since is not None:
            self.lived(now - since)
        wait = min(LONGEST, FIRST * 2 ** (self._failures - 1)) if self._failures else 0.0
        self._failures = min(self._failures + 1, 64)
        self._not_before = now + wait
        return wait

    def lived(self, seconds: float) -> None:
        """Forget earlier failures, if it has worked for long enough."""
        if seconds >= LIVED:
            self._failures = 0

    def may_try(self, now: float) -> bool:
        """Whether the wait is over."""
        return now >= self._not_before

    def left(self, now: float) -> float:
        """Return how many seconds of the wait are left."""
        return max(0.0, self._not_before - now)


WAITS = 10.0  # seconds that a server waits for a place among the processes


class ServerProcesses:
    """How many servers run that we have started: no more than `most` at a time, and further ones wait for a place."""

    def __init__(self, most: Callable[[], int], make_room: Callable[[], Awaitable[None]] | None = None) -> None:
        """`make_room` ends a process that no client needs at the moment."""
        self.running = 0
        self._most = most
        self._make_room = make_room
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, server: str) -> None:
        """Take a place; a DownError if none becomes free in time."""
        if self.running >= self._most() and self._make_room is not None:
            await self._make_room()
        if self.running < self._most() and not self._waiting:
            self.running += 1
        else:
            await self._wait(server)

    async def _wait(self, server: str) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(WAITS):
                await place
        except TimeoutError:
            if place.done() and not place.cancelled():
                return
            problem = f"the server {shown(server)} cannot be started: the gateway runs {self.running} servers already"
            hint = "raise `[gateway] max_processes`, or let clients share servers that keep no state: `share = true`"
            raise DownError(problem, hint=hint, public=problem) from None
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was given to us, and is not used
                self.give()
            raise
        finally:
            if place in self._waiting:
                self._waiting.remove(place)

    def give(self) -> None:
        """Give a place back; the server that waits longest gets it."""
        while self._waiting and self.running <= self._most():
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)  # the place goes from hand to hand, so no other start comes in between
                return
        self.running -= 1
