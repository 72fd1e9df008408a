"""Which written rules there are, which of them decided an action, and which decided none.

A rule is known by its text and its place, as verdicts name it. Rules of every family count: `fs`, `net`, `env` and
`commands` of each tool, server and of the shell, the lists of `agents`, and `rules`. `deciding` reads the JSON form of
a verdict, so that it reads records as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.access import SHELL_TOOL, Default
from byleave.core.agents import written_refs
from byleave.core.decision import BUILT_IN
from byleave.policy.layers import COMMAND_LINE, INLINE, LOCAL, PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from byleave.core.access import Access
    from byleave.policy.compile import Compiled

ACCESS = ("fs", "net", "env", "commands")
AGENTS, RULES = "agents", "rules"
_COUNTED = frozenset({PROJECT, LOCAL, COMMAND_LINE, INLINE})  # layers that tests beside them are about


class WrittenRule(Struct, frozen=True):
    """A rule with its place. `tool` is whose access it is, None for a rule of no tool."""

    family: str
    rule: str
    source: str
    tool: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What a verdict names it by."""
        return self.rule, self.source

    @property
    def tree(self) -> dict[str, str]:
        """The rule for programs."""
        return {"rule": self.rule, "source": self.source}


class Coverage(Struct, frozen=True):
    """How many of the rules decided something."""

    rules: tuple[WrittenRule, ...]
    untouched: tuple[WrittenRule, ...]

    @property
    def touched(self) -> int:
        return len(self.rules) - len(self.untouched)

    @property
    def percent(self) -> float:
        """The share of rules that decided something; of no rules, all did."""
        return 100.0 * self.touched / len(self.rules) if self.rules else 100.0

    @property
    def tree(self) -> dict[str, Any]:
        """The coverage for programs."""
        untouched = [rule.tree for rule in self.untouched]
        return {"rules": len(self.rules), "touched": self.touched, "untouched": untouched}


def written_rules(compiled: Compiled) -> Iterator[WrittenRule]:
    """Yield every rule of a policy that is written in one of its layers, those of the first view."""
    view = compiled.policy.views[0]
    for name, tool in view.tools.items():
        for family in ACCESS:
            yield from (rule for rule in access_rules(tool.access, family, name) if rule.source != BUILT_IN)
    for agent in () if view.agents is None else view.agents.agents:
        yield from (WrittenRule(AGENTS, ref.rule, ref.source) for ref in written_refs(agent))
    for rule in () if view.rules is None else view.rules.rules:
        yield WrittenRule(RULES, rule.text, rule.source)


def access_rules(access: Access, family: str, tool: str) -> Iterator[WrittenRule]:
    """Yield the rules of one family of a tool's access; a default stands for the rules that are not there."""
    table = getattr(access, family)
    if isinstance(table, Default):
        yield WrittenRule(family, table.rule, BUILT_IN, tool)
        return
    rules = table.rules.values() if isinstance(table.rules, Mapping) else table.rules
    yield from (WrittenRule(family, rule.text, rule.source, tool) for rule in rules)


def shell_rules(access: Access) -> Iterator[WrittenRule]:
    """Yield the rules of a confined command; the variables that always pass are one of them."""
    for family in ACCESS:
        rules = list(access_rules(access, family, SHELL_TOOL))
        if family == "env":
            yield WrittenRule(family, "a closed list of variables: read", BUILT_IN, SHELL_TOOL)
            rules = [rule for rule in rules if rule.source != BUILT_IN]
        yield from rules


def is_tested(compiled: Compiled, source: str) -> bool:
    """Whether a rule from this place is one that tests in the project are about.

    Those are the rules of the project, or of the files that take its place. Where there are none, every rule counts.
    """
    tested = {layer.file for layer in compiled.layers if layer.name in _COUNTED}
    return not tested or source.rpartition(":")[0] in tested or (source == "inline" and None in tested)


def coverage(rules: Iterable[WrittenRule], decided: Iterable[tuple[str, str]]) -> Coverage:
    """Return how many of the rules stand among those that decided something."""
    known = {rule.key: rule for rule in rules}
    touched = set(decided)
    return Coverage(tuple(known.values()), tuple(rule for key, rule in known.items() if key not in touched))


def deciding(verdict: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the text and the place of each rule that a verdict hangs on, from its JSON form.

    That is the first one; of a line of several commands, also the one behind every command that was decided like the
    whole; of everything else, each rule that gave the same decision, since an allow needs all of them.
    """
    because, decision = verdict.get("because"), verdict.get("decision")
    refs = [ref for ref in because if isinstance(ref, dict)] if isinstance(because, list) else []
    parts = verdict.get("parts")
    sources = None
    if isinstance(parts, list):
        alike = [part for part in parts if isinstance(part, dict) and part.get("decision") == decision]
        sources = [part.get("source") for part in alike]
    for number, ref in enumerate(refs):
        rule, source = ref.get("rule"), ref.get("source")
        said = ref.get("decision") == decision and (sources is None or source in sources)
        if isinstance(rule, str) and isinstance(source, str) and (number == 0 or said):
            yield rule, source
