"""What the rules of some policies look at: the smallest matchers, the tables of tools, the names of agents.

Pure. `Atoms` is what witnesses are made from: `analysis.witnesses`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from byleave.core.access import Default
from byleave.core.matchers import AgentMatcher, All, AnyOf, CallMatcher, Not, OperationMatcher, PathMatcher, UrlMatcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.core.access import Access
    from byleave.core.action import Action
    from byleave.core.agents import Agents
    from byleave.core.fs_rules import FsTarget
    from byleave.core.matchers import Matcher
    from byleave.core.policy import CompiledPolicy
    from byleave.core.rules import CompiledRule

Kind = TypeVar("Kind")
FS, NET, ENV, COMMANDS, AGENTS, RULES = FAMILIES = ("fs", "net", "env", "commands", "agents", "rules")


class Witness(Struct, frozen=True):
    """An action that stands for others, and where its paths are taken to lead: the disk is not looked at."""

    family: str
    action: Action
    places: tuple[FsTarget, ...] = ()

    @property
    def supposes(self) -> str:
        """What it takes for granted that the action does not say: that a path is a directory, or has hard links."""
        if any(place.directory for place in self.places):
            return "directory"
        return "hard links" if any(place.links > 1 for place in self.places) else ""


class WitnessSet(Struct, frozen=True):
    """Witnesses of one family; `exact` says that every action of the family behaves as one of them does."""

    witnesses: tuple[Witness, ...]
    exact: bool = True


class Atoms:
    """What several policies look at, taken together."""

    def __init__(self, policies: Sequence[CompiledPolicy]) -> None:
        self.policies = tuple(policies)
        self.views = [view for policy in policies for view in policy.views]
        self.rules: list[CompiledRule] = [rule for view in self.views if view.rules for rule in view.rules.rules]
        self.matchers = [atom for rule in self.rules for atom in atoms_of(rule.matcher)]

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return the matchers of one kind, wherever they stand in a rule."""
        return [atom for atom in self.matchers if isinstance(atom, kind)]

    @property
    def paths(self) -> list[PathMatcher]:
        return self.of(PathMatcher)

    @property
    def urls(self) -> list[UrlMatcher]:
        return self.of(UrlMatcher)

    @property
    def calls(self) -> list[CallMatcher]:
        return self.of(CallMatcher)

    @property
    def agent_patterns(self) -> tuple[str, ...]:
        """The patterns of agents that rules are about."""
        return tuple(dict.fromkeys(pattern for atom in self.of(AgentMatcher) for pattern in atom.agents))

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(kind for atom in self.of(OperationMatcher) for kind in atom.kinds)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of all tools that one of the policies has."""
        return tuple(dict.fromkeys(name for policy in self.policies for name in policy.views[0].tools))

    @property
    def agents(self) -> list[Agents]:
        return [view.agents for view in self.views if view.agents is not None]

    def accesses(self, tool: str) -> Iterator[Access]:
        """Yield what each reading of the policies gives a tool."""
        return (view.tools[tool].access for view in self.views if tool in view.tools)

    def tables(self, tool: str, family: str) -> Iterator[object]:
        """Yield the tables of one family that a tool has; a default is none."""
        for access in self.accesses(tool):
            table = getattr(access, family)
            if not isinstance(table, Default):
                yield table


def atoms_of(matcher: Matcher) -> Iterator[Matcher]:
    """Yield the matchers that a matcher is combined from, itself where it is not combined."""
    if isinstance(matcher, All | AnyOf):
        for each in matcher.matchers:
            yield from atoms_of(each)
    elif isinstance(matcher, Not):
        yield from atoms_of(matcher.matcher)
    else:
        yield matcher
