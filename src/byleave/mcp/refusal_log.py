"""Requests that were refused before anything was judged, for the audit log: counted, so that a flood does not fill it.

The first refusal of a kind to a peer is recorded at once. What follows is counted, and recorded once a minute. Only so
many peers are told apart; all further ones share. What a caller sent is in no record: not its token, not its
headers. Pure: time is passed in, and `record` writes.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Record = Callable[[dict[str, Any], str | None], None]
    Key = tuple[str, str, str | None]

MINUTE = 60.0  # seconds between two records of the same kind
_MOST = 64  # peers (by kind of refusal) that are told apart
OTHERS = "others"
# What the user should look at. Mere mistakes, and what was too much at a time, are only among the figures.
RECORDED = frozenset({"wrong_token", "no_token", "origin", "host", "proxy", "user", "agent", "rate", "calls"})


class RefusalLog:
    """Counts refusals by kind, peer and agent."""

    def __init__(self, record: "Record") -> None:
        self._record = record
        self._counted: dict[Key, tuple[float, int]] = {}  # since when, and how many that are not recorded yet

    def note(self, why: str, peer: str, agent: str | None, now: float) -> None:
        """Take note of one refusal. `agent` is one of the configuration, or None."""
        key: Key = (why, peer, agent)
        if key not in self._counted and len(self._counted) >= _MOST:
            key = (why, OTHERS, None)
        counted = self._counted.get(key)
        if counted is None:
            self._counted[key] = now, 0
            self._tell(key, 1)
        else:
            self._counted[key] = counted[0], counted[1] + 1

    def tick(self, now: float) -> None:
        """Record what was counted for a minute; forget what has stopped."""
        for key, (since, count) in [item for item in self._counted.items() if now - item[1][0] >= MINUTE]:
            if count:
                self._counted[key] = now, 0
                self._tell(key, count, now - since)
            else:
                del self._counted[key]

    def close(self, now: float) -> None:
        """Record all that was counted."""
        counted, self._counted = self._counted, {}
        for key, (since, count) in counted.items():
            if count:
                self._tell(key, count, now - since)

    def _tell(self, key: "Key", count: int, seconds: float = 0.0) -> None:
        why, peer, agent = key
        told: dict[str, Any] = {"why": why, "peer": peer or None, "count": count, "seconds": round(seconds)}
        self._record(told, agent)
