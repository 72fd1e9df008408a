"""When an agent that should go is told so, and when it is no longer asked. Pure: the time is passed in."""

from msgspec import Struct

TERMINATE, KILL, GIVE_UP = "terminate", "kill", "give up"
STEPS = (TERMINATE, KILL, GIVE_UP)


class ShutdownTimes(Struct, frozen=True):
    """How long everybody may take, in seconds. Pairs: until SIGTERM, until SIGKILL.

    An agent whose client is gone has to be gone within 10 s, whatever it does.
    """

    closed: tuple[float, float] = (5.0, 8.0)  # the client has closed its end: the agent may finish what it is at
    told: tuple[float, float] = (2.0, 5.0)  # somebody told us to end, and may be waiting for it
    insisted: tuple[float, float] = (0.0, 1.0)  # and told us again
    left: tuple[float, float] = (0.5, 2.0)  # for what the agent has left behind
    killed: float = 1.0  # for what was killed to be gone; what hangs in the kernel is not waited for
    last_words: float = 1.0  # for output to come when everything that could write it has ended
    unread: float = 5.0  # for the client to go on reading when everything else has ended


class Shutdown:
    """The way to the end, once it has begun. It can be made shorter, never longer."""

    def __init__(self, patience: ShutdownTimes) -> None:
        self._patience = patience
        self._times: dict[str, float] = {}
        self._is_killing = False

    def begin(self, pair: tuple[float, float], now: float) -> None:
        """Have everything ended after these times, or sooner where that was decided already."""
        self._set(TERMINATE, now + pair[0])
        self.kill_at(now + pair[1])

    def kill_at(self, when: float) -> None:
        """Have everything killed then, or sooner."""
        self._set(KILL, when)
        self._set(GIVE_UP, when + self._patience.killed)

    def _set(self, step: str, when: float) -> None:
        if step == GIVE_UP or not self._is_killing:
            self._times[step] = min(self._times.get(step, when), when)

    def due(self, now: float) -> str | None:
        """Return what is to be done now, once; a later step stands for those before it."""
        steps = [step for step in STEPS if self._times.get(step, now + 1) <= now]
        for step in steps:
            del self._times[step]
        self._is_killing = self._is_killing or KILL in steps
        return steps[-1] if steps else None

    def next(self) -> float | None:
        """Return when something is due next; None if nothing is."""
        return min(self._times.values(), default=None)
