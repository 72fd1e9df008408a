"""How often, and how many at a time: calls per minute of one agent, and calls that are open. Pure; time is passed in.

An agent may use up a minute's calls at once, and then gets new ones at an even pace. Agents that merely claim a name
can claim any number of names, so only so many are told apart; all further ones share.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable

_MOST = 4096  # agents that are told apart
_PAUSE = 1.0  # seconds between two searches for agents to forget
_OTHERS = object()


class Buckets:
    """Calls per minute (above 0), by agent. None: as many as they like."""

    def __init__(self, rate: float | None) -> None:
        self.rate = rate
        self._left: dict[Hashable, tuple[float, float]] = {}
        self._searched = -_PAUSE

    def take(self, agent: "Hashable", now: float) -> float:
        """Take one call; return 0, or in how many seconds there will be one."""
        if self.rate is None:
            return 0.0
        if agent not in self._left and len(self._left) >= _MOST:
            self._forget(now, self.rate)
            agent = agent if len(self._left) < _MOST else _OTHERS
        left = _refilled(self._left.get(agent), now, self.rate)
        self._left[agent] = (left - 1 if left >= 1 else left), now
        return 0.0 if left >= 1 else (1 - left) * 60 / self.rate

    def _forget(self, now: float, rate: float) -> None:
        """Forget the agents whose calls are all there again."""
        if now < self._searched + _PAUSE:
            return
        self._searched = now
        full = _refilled(None, now, rate)
        self._left = {agent: each for agent, each in self._left.items() if _refilled(each, now, rate) < full}


def _refilled(bucket: tuple[float, float] | None, now: float, rate: float) -> float:
    full = max(rate, 1.0)
    if bucket is None:
        return full
    left, since = bucket
    return min(full, left + max(0.0, now - since) * rate / 60)


class OpenCalls:
    """How many calls of each caller are open."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[Hashable, int] = {}

    def enter(self, caller: "Hashable") -> bool:
        """Begin a call; return whether there is room for it. Only one that began is to `leave`."""
        count = self._open.get(caller, 0)
        if count >= self.most:
            return False
        self._open[caller] = count + 1
        return True

    def leave(self, caller: "Hashable") -> None:
        count = self._open.pop(caller, 0)
        if count > 1:
            self._open[caller] = count - 1

    def __len__(self) -> int:
        return sum(self._open.values())
