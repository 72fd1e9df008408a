"""Ways out of the workspace: those that wait for the user's approval, and those that a session has.

A rule for an external path grants nothing until the user has approved its target (`waiting`, `effect`). Where a path
leads elsewhere than its approved target, the question shows both. Without a terminal nothing is asked, the rule grants
nothing, and the policy says so. A list of mounts shows each way out, which tools may use it how, and whether it is in
force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import CAPABILITIES
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from byleave.policy.compile import Compiled
    from byleave.policy.compile_access import ExternalRule
    from byleave.policy.load import Workspace
    from byleave.store.approvals import Approvals

    Ask = Callable[[list[str], str], bool]


class Binding(Struct, frozen=True):
    """A path of the workspace and the place outside it leads to; `known` is the target that was approved before."""

    rule_path: str
    target: str
    known: str | None
    grants: tuple[tuple[str, tuple[str, ...]], ...]


def waiting(compiled: Compiled, approvals: Approvals) -> list[Binding]:
    """Return what trusted layers let out of the workspace and the user has not approved yet, each binding once."""
    found: dict[tuple[str, str], list[ExternalRule]] = {}
    for external in compiled.externals:
        if external.target is not None:
            for name in external.unapproved:
                found.setdefault((name, external.target), []).append(external)
    return [
        Binding(path, target, approvals.mount_target(path), _grants(externals))
        for (path, target), externals in found.items()
    ]


def effect(binding: Binding) -> list[str]:
    """Return what approving the binding means, line by line."""
    path, target = shown(binding.rule_path), shown(binding.target)
    if binding.known is None:
        lines = ["Approve this target binding?", f"  {path} -> {target}"]
    else:
        lines = [f"The link {path} leads elsewhere now:", f"  was: {shown(binding.known)}", f"  now: {target}"]
    lines.append("Current grants under this mount:")
    lines += [f"  {shown(tool)}: {', '.join(given) or 'nothing'}" for tool, given in binding.grants]
    lines.append("The target is remembered. Later changes of the grants do not ask again while it stays the same.")
    return lines


def question(binding: Binding) -> str:
    """Return the question itself."""
    return "Approve?" if binding.known is None else "Allow the new target?"


def settle(workspace: Workspace, bindings: Iterable[Binding], ask: Ask, *, now: str) -> list[Binding]:
    """Ask about each binding and remember every yes; return what was approved."""
    approved = []
    for binding in bindings:
        if ask(effect(binding), question(binding)):
            workspace.approvals.approve_mount(binding.rule_path, binding.target, now=now)
            approved.append(binding)
    return approved


def _grants(externals: list[ExternalRule]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what each tool is given there; of several rules of one tool the last one holds."""
    given = {external.tool: external.rule for external in externals}
    return tuple(
        (tool, tuple(name for name in CAPABILITIES if getattr(rule, name))) for tool, rule in sorted(given.items())
    )


IN_FORCE, UNAPPROVED, NOTHING_THERE = "in force", "target not approved", "nothing there"


class MountListing(Struct, frozen=True):
    """One way out of the workspace: its name, where it leads now, what each tool is given, and where that is said."""

    name: str
    target: str | None
    tools: Mapping[str, tuple[str, ...]]
    state: str
    source: str

    def tree(self) -> dict[str, Any]:
        """Return the mount as programs read it."""
        tools = {tool: list(given) for tool, given in self.tools.items()}
        return {"name": self.name, "target": self.target, "tools": tools, "state": self.state, "source": self.source}


def mounts_of(compiled: Compiled) -> list[MountListing]:
    """Return the mounts of a policy by name. Of several rules of one tool at one path, the last one holds."""
    found: dict[str, dict[str, ExternalRule]] = {}
    for external in compiled.externals:
        found.setdefault(external.name, {})[external.tool] = external
    return [_mount(name, found[name]) for name in sorted(found)]


def _mount(name: str, externals: Mapping[str, ExternalRule]) -> MountListing:
    last = list(externals.values())[-1]
    state = UNAPPROVED if last.rule.approved_target is None else IN_FORCE
    return MountListing(
        name=name,
        target=last.target,
        tools={tool: _given(externals[tool]) for tool in sorted(externals)},
        state=NOTHING_THERE if last.target is None else state,
        source=", ".join(dict.fromkeys(external.rule.source for external in externals.values())),
    )


def _given(external: ExternalRule) -> tuple[str, ...]:
    return tuple(name for name in CAPABILITIES if getattr(external.rule, name))
