"""From what was observed to what a person should know: what was refused, by which rule, and what would allow it.

Pure: the policy, the plan and a way to look outside are passed in. A refusal is something that would have worked
without the sandbox; what fails outside as well, or is only looked for where nothing is, is not told. The reason is
always the one that `byleave check` gives: the policy is asked, not explained a second time.

Start at `diagnose`. Files: refused_files; addresses: refused_network; calls: refused_calls.
"""

from byleave.record import Record
from byleave.sandbox.finding import COMMAND, LOOKED, Finding, gather
from byleave.sandbox.refused_calls import refused_call
from byleave.sandbox.refused_files import Files
from byleave.sandbox.refused_network import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from byleave.core.verdict import Verdict
    from byleave.sandbox.plan import Approximation, Plan
    from byleave.sandbox.watched import Observed

    Decide = Callable[[dict[str, Any]], Verdict]

    class Heard(Protocol):
        """What was observed while a program ran (observing.py), each with the number of times."""

        calls: dict[Observed, int]
        denied: dict[tuple[str, str], int]
        unlisted: dict[tuple[str, ...], int]

    class Outside(Protocol):
        """What would have happened without the sandbox (outside.py)."""

        def exists(self, path: str) -> bool: ...

        def real(self, path: str, *, follows: bool = True) -> str: ...

        def could(self, op: str, path: str) -> bool: ...

        def reaches(self, family: int, host: str, port: int) -> bool: ...

        def listens(self, port: int) -> bool: ...

        def may_listen_at(self, port: int) -> bool: ...


class Scene(Record):
    """Where a program ran: its plan, what cannot be held exactly, and whom to ask."""

    plan: "Plan"
    approximate: "tuple[Approximation, ...]"
    tool: str
    decide: "Decide"
    sensitive: "Callable[[str], str | None]"
    outside: "Outside"
    own_places: tuple[str, ...] = ()
    listed: "Mapping[str, Sequence[str]]" = {}  # `[sandbox]` as it is, by absolute paths
    search: tuple[str, ...] = ()  # the directories of PATH

    def ask(self, kind: str, **fields: object) -> "Verdict":
        """Put an action of the program's tool to the policy."""
        return self.decide({"kind": kind, "tool": self.tool, **fields})


def diagnose(observer: "Heard", scene: Scene) -> "tuple[Finding, ...]":
    """Return what was refused, most important first."""
    files, network = Files(scene), Network(scene)
    found = [
        each.replace(times=times)
        for observed, times in observer.calls.items()
        for each in _read(observed, files, network)
    ]
    found += [network.denied(url, reason).replace(times=times) for (url, reason), times in observer.denied.items()]
    for words, times in observer.unlisted.items():
        found += [each.replace(times=times) for each in unlisted(words, scene.tool, scene.decide)]
    return tuple([files.with_remedy(each) for each in _without_mere_looks(gather(network.tidied(found)))])


def unlisted(argv: "Sequence[str]", tool: str, decide: "Decide") -> "Iterator[Finding]":
    """Yield the finding about a command that is not even started, unless it may be."""
    verdict = decide({"kind": "spawn", "program": argv[0], "args": list(argv[1:]), "tool": tool})
    if not verdict.allowed:
        text, rule = " ".join(argv), verdict.because[0]
        yield Finding(COMMAND, ("exec",), (text,), verdict.reason, rule, suggestion=verdict.suggestion, group=text)


def _read(observed: "Observed", files: Files, network: Network) -> "Iterator[Finding]":
    if observed.refused or not (observed.paths or observed.address):
        yield from refused_call(observed)
    elif observed.address:
        yield from network.refused(observed)
    else:
        yield from files.refused(observed)


def _without_mere_looks(found: list[Finding]) -> list[Finding]:
    """Leave out looks at what was also tried in earnest: the remedy is the same."""
    earnest = {each.group for each in found if each.rank < LOOKED}
    return [each for each in found if each.rank < LOOKED or each.group not in earnest]
