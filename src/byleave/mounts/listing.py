"""What is mounted in a session: each way out of the workspace, who may use it how, and whether it is in force."""

from byleave.core.fs import CAPABILITIES
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.config.compile import Compiled
    from byleave.config.rules import External

IN_FORCE, UNAPPROVED, NOTHING_THERE = "in force", "target not approved", "nothing there"


class Mount(Record):
    """One way out of the workspace: its name, where it leads now, what each tool is given, and where that is said."""

    name: str
    target: str | None
    tools: "Mapping[str, tuple[str, ...]]"
    state: str
    source: str

    def tree(self) -> "dict[str, Any]":
        """Return the mount as programs read it."""
        tools = {tool: list(given) for tool, given in self.tools.items()}
        return {"name": self.name, "target": self.target, "tools": tools, "state": self.state, "source": self.source}


def mounts_of(compiled: "Compiled") -> list[Mount]:
    """Return the mounts of a policy by name. Of several rules of one tool at one path, the last one holds."""
    found: dict[str, dict[str, External]] = {}
    for external in compiled.externals:
        found.setdefault(external.name, {})[external.tool] = external
    return [_mount(name, found[name]) for name in sorted(found)]


def _mount(name: str, externals: "Mapping[str, External]") -> Mount:
    last = list(externals.values())[-1]
    state = UNAPPROVED if last.rule.approved_target is None else IN_FORCE
    return Mount(
        name=name,
        target=last.target,
        tools={tool: _given(externals[tool]) for tool in sorted(externals)},
        state=NOTHING_THERE if last.target is None else state,
        source=", ".join(dict.fromkeys(external.rule.source for external in externals.values())),
    )


def _given(external: "External") -> tuple[str, ...]:
    return tuple(name for name in CAPABILITIES if getattr(external.rule, name))
