"""From what was observed to what a person should know: what was refused, by which rule, and what would allow it.

Pure: the policy, the plan and a way to look outside are passed in. A refusal is something that would have worked
without the sandbox; what fails outside as well, or is only looked for where nothing is, is not reported. The reason is
always the one that `byleave check` gives: the policy is asked, not explained a second time.

The `Observer` counts what a program is refused while it runs; `diagnose` makes findings of it when it has ended. What
one refused call means: `refusals`.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.sandbox.diagnose.finding import COMMAND, LOOKED, RefusalFinding, cautioned, gather
from byleave.sandbox.diagnose.refusals import RefusedFiles, RefusedNetwork, refused_call
from byleave.sandbox.diagnose.traced_calls import DroppedObservations, Observed, Reader
from byleave.sandbox.linux.seccomp import column_of, names_of_refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Protocol

    from byleave.core.decision import Verdict
    from byleave.net.proxy_policy import UrlVerdict
    from byleave.sandbox.diagnose.finding import Decide, Scene
    from byleave.sandbox.linux.steps import Arrangement
    from byleave.sandbox.plan.plan import Approximation, SandboxPlan

    class Heard(Protocol):
        """What an `Observer` counted while a program ran, each with the number of times."""

        calls: dict[Observed, int]
        denied: dict[tuple[str, str], int]
        unlisted: dict[tuple[str, ...], int]


def diagnose(observer: Heard, scene: Scene) -> tuple[RefusalFinding, ...]:
    """Return what was refused, most important first."""
    files, network = RefusedFiles(scene), RefusedNetwork(scene)
    found = [
        structs.replace(each, times=times)
        for observed, times in observer.calls.items()
        for each in _read(observed, files, network)
    ]
    found += [
        structs.replace(network.denied(url, reason), times=times) for (url, reason), times in observer.denied.items()
    ]
    for words, times in observer.unlisted.items():
        found += [structs.replace(each, times=times) for each in unlisted(words, scene.tool, scene.decide)]
    return tuple([files.with_remedy(each) for each in _without_mere_looks(gather(network.tidied(found)))])


def unlisted(argv: Sequence[str], tool: str, decide: Decide) -> Iterator[RefusalFinding]:
    """Yield the finding about a command that is not even started, unless it may be."""
    verdict = decide({"kind": "spawn", "program": argv[0], "args": list(argv[1:]), "tool": tool})
    if not verdict.allowed:
        text, rule = " ".join(argv), verdict.because[0]
        suggestion, caution = cautioned(verdict.suggestion)
        yield RefusalFinding(
            COMMAND, ("exec",), (text,), verdict.reason, rule, suggestion=suggestion, caution=caution, group=text
        )


def _read(observed: Observed, files: RefusedFiles, network: RefusedNetwork) -> Iterator[RefusalFinding]:
    if observed.refused or not (observed.paths or observed.address):
        yield from refused_call(observed)
    elif observed.address:
        yield from network.refused(observed)
    else:
        yield from files.refused(observed)


def _without_mere_looks(found: list[RefusalFinding]) -> list[RefusalFinding]:
    """Leave out looks at what was also tried in earnest: the remedy is the same."""
    earnest = {each.group for each in found if each.rank < LOOKED}
    return [each for each in found if each.rank < LOOKED or each.group not in earnest]


ROOM = 2 << 20  # letters of different things that are remembered; more of them are only counted
_LEAST = 100  # what a thing takes at least
_NOT_SET_UP = b"E125"  # there was no sandbox, and nothing to be refused


class Observer:
    """Hears the launcher and the proxy, each in a thread of its own."""

    def __init__(self, machine: str) -> None:
        self.calls: dict[Observed, int] = {}
        self.denied: dict[tuple[str, str], int] = {}  # URLs that the proxy did not open, each with the reason
        self.unlisted: dict[tuple[str, ...], int] = {}  # commands that the broker did not start
        self.missing = 0
        self.plan: SandboxPlan | None = None  # what the program was held to, once it was started
        self.approximate: tuple[Approximation, ...] = ()
        self._reader = Reader(column_of(machine), names_of_refused(machine))
        self._lock = Lock()
        self._room = ROOM

    def begin(self, plan: SandboxPlan, arrangement: Arrangement) -> None:
        """Take the plan of the program that starts now."""
        self.plan, self.approximate = plan, arrangement.approximate

    def hear(self, message: bytes) -> None:
        """Take a message of the launcher."""
        if message.startswith(_NOT_SET_UP):
            self.plan = None
        found = self._reader.read(message)
        with self._lock:
            if isinstance(found, DroppedObservations):
                self.missing += found.count
            elif found is not None:
                self._count(self.calls, found, len(message))

    def decided(self, url: str, verdict: UrlVerdict) -> None:
        """Take a verdict of the proxy."""
        if not verdict.allowed:
            with self._lock:
                self._count(self.denied, (url, verdict.reason), len(url))

    def asking(self, decide: Decide) -> Decide:
        """Return a way to put an action to the policy that we hear of, for the broker."""

        def heard(action: dict[str, Any]) -> Verdict:
            verdict = decide(action)
            if not verdict.allowed:
                with self._lock:
                    words = (action["program"], *action["args"])
                    self._count(self.unlisted, words, sum(map(len, words)))
            return verdict

        return heard

    def _count(self, known: dict[Any, int], key: object, letters: int) -> None:
        if key not in known:
            self._room -= letters + _LEAST
        if key in known or self._room >= 0:
            known[key] = known.get(key, 0) + 1
        else:
            self.missing += 1
