"""Everything that a program was refused while it ran, counted as it is heard."""

from threading import Lock

from byleave.sandbox.filters import column_of, names_of_refused
from byleave.sandbox.watched import Missing, Observed, Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.core.verdict import Verdict
    from byleave.sandbox.gate import Judgement
    from byleave.sandbox.linux import Arrangement
    from byleave.sandbox.network import Decide
    from byleave.sandbox.plan import Approximation, Plan

ROOM = 2 << 20  # letters of different things that are remembered; whoever makes up more of them is only counted
_LEAST = 100  # what a thing takes at least
_NOT_SET_UP = b"E125"  # there was no sandbox, and nothing to be refused


class Observer:
    """Hears the launcher and the proxy, each in a thread of its own."""

    def __init__(self, machine: str) -> None:
        self.calls: dict[Observed, int] = {}
        self.denied: dict[tuple[str, str], int] = {}  # URLs that the proxy did not open, each with the reason
        self.unlisted: dict[tuple[str, ...], int] = {}  # commands that the broker did not start
        self.missing = 0
        self.plan: Plan | None = None  # what the program was held to, once it was started
        self.approximate: tuple[Approximation, ...] = ()
        self._reader = Reader(column_of(machine), names_of_refused(machine))
        self._lock = Lock()
        self._room = ROOM

    def begin(self, plan: "Plan", arrangement: "Arrangement") -> None:
        """Take the plan of the program that starts now."""
        self.plan, self.approximate = plan, arrangement.approximate

    def hear(self, message: bytes) -> None:
        """Take a message of the launcher."""
        if message.startswith(_NOT_SET_UP):
            self.plan = None
        found = self._reader.read(message)
        with self._lock:
            if isinstance(found, Missing):
                self.missing += found.count
            elif found is not None:
                self._count(self.calls, found, len(message))

    def judged(self, url: str, judgement: "Judgement") -> None:
        """Take a judgement of the proxy."""
        if not judgement.allowed:
            with self._lock:
                self._count(self.denied, (url, judgement.reason), len(url))

    def asking(self, decide: "Decide") -> "Decide":
        """Return a way to put an action to the policy that we hear of, for whoever starts commands."""

        def heard(action: "dict[str, Any]") -> "Verdict":
            verdict = decide(action)
            if not verdict.allowed:
                with self._lock:
                    words = (action["program"], *action["args"])
                    self._count(self.unlisted, words, sum(map(len, words)))
            return verdict

        return heard

    def _count(self, known: "dict[Any, int]", key: object, letters: int) -> None:
        if key not in known:
            self._room -= letters + _LEAST
        if key in known or self._room >= 0:
            known[key] = known.get(key, 0) + 1
        else:
            self.missing += 1
