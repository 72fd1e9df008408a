"""Everything that a program was refused while it ran, counted as it is heard."""

from threading import Lock

from byleave.sandbox.filters import column_of, names_of_refused
from byleave.sandbox.watched import Missing, Observed, Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.sandbox.gate import Judgement

MOST = 20_000  # different things that are remembered; whoever makes up more of them is only counted


class Observer:
    """Hears the launcher and the proxy, each in a thread of its own."""

    def __init__(self, machine: str) -> None:
        self.calls: dict[Observed, int] = {}
        self.denied: dict[tuple[str, str], int] = {}  # URLs that the proxy did not open, each with the reason
        self.missing = 0
        self._reader = Reader(column_of(machine), names_of_refused(machine))
        self._lock = Lock()

    def hear(self, message: bytes) -> None:
        """Take a message of the launcher."""
        found = self._reader.read(message)
        with self._lock:
            if isinstance(found, Missing):
                self.missing += found.count
            elif found is not None:
                self._count(self.calls, found)

    def judged(self, url: str, judgement: "Judgement") -> None:
        """Take a judgement of the proxy."""
        if not judgement.allowed:
            with self._lock:
                self._count(self.denied, (url, judgement.reason))

    def _count(self, known: "dict[Any, int]", key: object) -> None:
        if key in known or len(known) < MOST:
            known[key] = known.get(key, 0) + 1
        else:
            self.missing += 1
