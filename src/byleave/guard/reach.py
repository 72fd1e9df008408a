"""Which sensitive places can be read by which tools: the policy itself is asked, so a closed one is not named."""

import os

from byleave.record import Record
from byleave.text import sentence_list, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.core.sensitive import Sensitive
    from byleave.guard.judge import Policy

_MOST_NAMES = 10_000  # of one directory; it is a warning, not a search


class Reach(Record):
    """A sensitive place that lies open, by its name in the workspace, and the tools that may read it."""

    entry: str
    name: str
    tools: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The warning."""
        return f"{sentence_list(self.tools)} may read {shown(self.name)}, a sensitive place ({shown(self.entry)})"


def sensitive_reaches(policy: "Policy", sensitive: "Sensitive") -> "list[Reach]":
    """Return what lies open at the top of the workspace and of every mount, and the well-known places below them."""
    found = []
    for entry, name in dict.fromkeys(_candidates(policy, sensitive)):
        tools = [tool for tool in policy.compiled.tools if _may_read(policy, tool, name)]
        if tools:
            found.append(Reach(entry, name, tuple(tools)))
    return found


def sensitive_in(place: str, sensitive: "Sensitive") -> "Iterator[tuple[str, str]]":
    """Yield what is sensitive of an absolute place: itself, or what lies at its top, and well-known places below."""
    if (entry := sensitive.at(place)) is not None:
        yield entry, ""
        return
    for name in _names(place):
        if (entry := sensitive.at(os.path.join(place, name))) is not None:
            yield entry, name
    for entry, known in sensitive.below(place):
        if os.path.lexists(known):
            yield entry, os.path.relpath(known, place)


def _candidates(policy: "Policy", sensitive: "Sensitive") -> "Iterator[tuple[str, str]]":
    mounts = [(one.rule.path, one.target) for one in policy.compiled.externals if one.rule.approved_target is not None]
    for base, place in [("", policy.root.path), *mounts]:
        if place is not None:
            yield from ((entry, os.path.join(base, name).rstrip("/")) for entry, name in sensitive_in(place, sensitive))


def _names(place: str) -> "list[str]":
    try:
        return sorted(os.listdir(place))[:_MOST_NAMES]
    except OSError:  # a file, or not ours to look into
        return []


def _may_read(policy: "Policy", tool: str, name: str) -> bool:
    return policy.decide({"kind": "read", "path": name, "tool": tool}).allowed
