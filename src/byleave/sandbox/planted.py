"""Could a tool have put a program where it was found? Then it is not the one that somebody judged by its name."""

import os

from byleave.core.access import Default
from byleave.core.action import FileAction
from byleave.core.fs import WRITES, is_under
from byleave.core.verdict import ALLOW
from byleave.sandbox import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from byleave.guard.judge import Policy


class Planting:
    """Knows what one tool may write: in the workspace, through mounts, and of what every sandbox may write."""

    def __init__(self, policy: "Policy", tool: str, writable: "Sequence[str]") -> None:
        self._policy = policy
        self._tool = tool
        self._writable = writable

    def is_trusted(self, program: str) -> bool:
        """Whether neither the program, nor a link on the way to it, can be the tool's own doing."""
        access = self._policy.compiled.policy.tool(self._tool).access
        if isinstance(access.commands, Default) and access.commands.decision is ALLOW:  # any program may be started
            return True
        return not any(self._writes(hop) for hop in host.hops(program))

    def _writes(self, path: str) -> bool:
        inside = self._policy.root.relative(path)
        if inside is not None:
            asked = [FileAction(kind, inside, self._tool) for kind in ("create", "update")]
            return any(self._policy.decide(action).decision is ALLOW for action in asked)
        return any(is_under(path, os.path.realpath(place)) for place in (*self._writable, *self._mounted()))

    def _mounted(self) -> "Iterable[str]":
        table = self._policy.compiled.policy.tool(self._tool).access.fs
        for rule in () if isinstance(table, Default) else table.rules:
            if rule.approved_target is not None and any(rule.grants(name) for name in WRITES):
                yield rule.approved_target
