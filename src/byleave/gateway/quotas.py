"""Whether a call is within the limits: calls in a minute (`rate`), and calls that are open at a time (`max_calls`).

`Quotas` knows the limits of the policy and says which of them a call falls under. Each is counted under a name that is
the same in every process with the same configuration. A `CallCounter` counts: `LocalCounter` for one process,
`store.postgres.call_counter` for all replicas. A call is taken from all of its limits, or from none.

A caller may make up names of agents and of tools, so only so many are kept apart; all further ones share.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from byleave.gateway.limits import OTHERS, Buckets
from byleave.gateway.message import encode
from byleave.text import shown
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from byleave.policy.gateway_settings import CallLimit, GatewaySettings

RATE, CALLS = "rate", "calls"  # kinds of refusals, as records and figures name them
OPEN_AGAIN = 1.0  # seconds after which a place may be free: no call says when it ends


class Quota(Struct, frozen=True):
    """What a call is counted against: calls in a minute, or (`most`) open ones. `said` names the limit to people."""

    name: str
    rate: float | None = None
    most: int | None = None
    said: str = ""


class Overrun(Struct, frozen=True):
    """Which limit has no call left, and in how many seconds there may be one."""

    quota: Quota
    wait: float

    @property
    def kind(self) -> str:
        return CALLS if self.quota.rate is None else RATE

    @property
    def data(self) -> dict[str, float | str]:
        """Return what programs read: when to come back, and which limit it was."""
        return {"retryAfter": round(self.wait, 1), **({"limit": self.quota.said} if self.quota.said else {})}

    @property
    def reason(self) -> str:
        """Return what the caller reads."""
        quota = self.quota
        if quota.rate is not None:
            of = f", the limit of {quota.said}" if quota.said else ""
            return f"this agent calls more often than {quota.rate:g} times a minute{of}"
        return f"{quota.most} calls are open, the limit of {quota.said}"


class CallCounter(Protocol):
    """Counts calls for one process, or for many."""

    async def take(self, quotas: Sequence[Quota], /) -> tuple[int, float] | None:
        """Take one call of each, or none of any: return which of them has none left, and the seconds to wait."""
        ...

    def give(self, quotas: Sequence[Quota], /) -> None:
        """Note that a call has ended: its place among the open ones is free."""
        ...


class LocalCounter:
    """Counts the calls of one process."""

    def __init__(self) -> None:
        self._buckets: dict[float, Buckets] = {}
        self._open: dict[str, int] = {}

    async def take(self, quotas: Sequence[Quota], /) -> tuple[int, float] | None:
        return self.take_at(quotas, monotonic())

    def take_at(self, quotas: Sequence[Quota], now: float) -> tuple[int, float] | None:
        """Do so at a given time."""
        for number, quota in enumerate(quotas):
            if quota.most is not None and self._open.get(quota.name, 0) >= quota.most:
                return number, OPEN_AGAIN
            wait = 0.0 if quota.rate is None else self._of(quota.rate).wait(quota.name, now)
            if wait > 0:
                return number, wait
        for quota in quotas:
            if quota.rate is not None:
                self._of(quota.rate).take(quota.name, now)
            if quota.most is not None:
                self._open[quota.name] = self._open.get(quota.name, 0) + 1
        return None

    def give(self, quotas: Sequence[Quota], /) -> None:
        for quota in quotas:
            if quota.most is not None:
                left = self._open.get(quota.name, 0) - 1
                if left > 0:
                    self._open[quota.name] = left
                else:
                    self._open.pop(quota.name, None)

    def _of(self, rate: float) -> Buckets:
        return self._buckets.setdefault(rate, Buckets(rate))


class Quotas:
    """The limits of a policy."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.rate, self.limits = settings.rate, settings.limits
        self._names = Buckets(1)  # keeps so many names apart

    def is_for(self, settings: GatewaySettings) -> bool:
        """Whether these settings have the same limits."""
        return (self.rate, self.limits) == (settings.rate, settings.limits)

    def of(self, agent: str | None, server: str, tool: str | None, *, again: bool = False) -> list[Quota]:
        """Return what a call is counted against; of one that goes on (`again`), only that it is open."""
        found = []
        if self.rate is not None and not again:
            found.append(Quota(self._names.name_of(agent, monotonic()), float(self.rate)))
        for limit in self.limits:
            if limit.covers(agent, server, tool):
                name, said = self._name_of(limit, {"agent": agent, "server": server, "tool": tool})
                if limit.rate is not None and not again:
                    found.append(Quota(name, float(limit.rate), said=said))
                if limit.max_calls is not None:
                    found.append(Quota(name, most=limit.max_calls, said=said))
        return found

    def _name_of(self, limit: CallLimit, about: Mapping[str, str | None]) -> tuple[str, str]:
        """Return the name under which a call is counted, and how people call the limit."""
        said = ", ".join(f"{key} = {shown(value)}" for key, value in limit.patterns if value != "*") or "all calls"
        apart = [[key, about[key]] for key in limit.each]
        name = digest(encode([limit.patterns, apart, limit.rate, limit.max_calls]))
        if apart and self._names.name_of(name, monotonic()) == OTHERS:
            name = digest(encode([limit.patterns, OTHERS, limit.rate, limit.max_calls]))
        return f"limit {name}", said
