"""How long to wait before a server that failed is tried again. Pure: the clock is the caller's."""

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
