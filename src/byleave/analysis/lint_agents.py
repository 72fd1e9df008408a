"""Entries of `[agents]` that never decide or narrow nothing. Pure.

A deny counts before every allow, and lists are joined, so an entry is shadowed when the denies or the other entries
of its own list match all that it matches. Names and globs are compared exactly (`analysis.pattern_algebra`). Where a
list is for a glob over servers, only entries that are certain to be shadowed are named.

Start at `lint_agents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.findings import NOTE, WARNING, Finding
from byleave.analysis.pattern_algebra import includes, overlaps
from byleave.core.agents import KINDS, TOOLS
from byleave.core.patterns import is_literal
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.analysis.written_rules import WrittenRules
    from byleave.core.agents import Agent, Agents, ListEntry

_MOST_WILD = 200  # patterns of one list that are held against each other


def lint_agents(agents: Agents, written: WrittenRules) -> Iterator[Finding]:
    """Yield what is wrong with the agents of one policy."""
    for agent in agents.agents:
        yield from _lint_agent(_AgentText(agent, written))
    yield from _shadowed_agents(agents.agents)


class _AgentText:
    """One agent, and how its entries are named in findings."""

    def __init__(self, agent: Agent, written: WrittenRules) -> None:
        self.agent = agent
        self._written = written

    def text(self, key: str, entry: ListEntry) -> str:
        return f"agents.{shown(self.agent.name)}: {shown(key)} {quoted(entry.pattern)}"

    def finding(
        self, code: str, severity: str, key: str, entry: ListEntry, *, message: str, fix: str = "remove it"
    ) -> Finding:
        place = self._written.place(f"agents.{self.agent.name}.{key}", entry.source, entry.pattern)
        return Finding(code, severity, self.text(key, entry), entry.source, message, fix, place)


def _lint_agent(text: _AgentText) -> Iterator[Finding]:
    allow, deny = text.agent.allow, text.agent.deny
    denied = [entry.pattern for entry in deny.servers]
    allowed = [entry.pattern for entry in allow.servers]
    yield from _lint_list(text, "allow.servers", allow.servers, denied)
    yield from _lint_list(text, "deny.servers", deny.servers, [])
    for kind in KINDS:
        lists = getattr(deny, kind)
        for server, entries in getattr(allow, kind).items():
            key = f"allow.{kind}.{server}"
            if not entries:
                yield _empty(text.agent, key)
            elif not _may_be_reached(server, allowed, denied):
                yield from _unreached(text, key, server, entries)
            else:
                refusing = [each.pattern for own, found in lists.items() if includes((own,), server) for each in found]
                yield from _lint_list(text, key, entries, refusing)
        for server, entries in lists.items():
            key = f"deny.{kind}.{server}"
            if not _may_be_reached(server, allowed, denied):
                yield from _unreached(text, key, server, entries)
            else:
                yield from _lint_list(text, key, entries, [])


def _may_be_reached(server: str, allowed: Sequence[str], denied: Sequence[str]) -> bool:
    """Whether the agent may reach some server that a key means."""
    return any(overlaps(server, pattern) for pattern in allowed) and not includes(denied, server)


def _unreached(text: _AgentText, key: str, server: str, entries: Sequence[ListEntry]) -> Iterator[Finding]:
    """Yield the entries of a list about a server that the agent may not reach: an allow is a mistake, a deny is not."""
    for entry in entries:
        message = f"this agent may not reach the server {quoted(server)}, so the entry decides nothing"
        if key.startswith("allow."):
            fix = f"add {quoted(server)} to allow.servers, or remove it"
            yield text.finding("no_effect", WARNING, key, entry, message=message, fix=fix)
        else:
            yield text.finding("no_effect", NOTE, key, entry, message=message)


def _lint_list(text: _AgentText, key: str, entries: Sequence[ListEntry], denied: Sequence[str]) -> Iterator[Finding]:
    seen: set[str] = set()
    covered = _covered(entries)
    for entry in entries:
        pattern = entry.pattern
        if pattern in seen:
            yield text.finding("duplicate", NOTE, key, entry, message="the list has it twice")
            continue
        seen.add(pattern)
        if denied and includes(denied, pattern):
            message = "a deny of this agent matches everything that it matches, and denies count first"
            if pattern in denied:
                fix = "remove the one that is not meant"
                yield _unfixed(text, "contradicts", key, entry, message=message, fix=fix)
            else:
                yield _unfixed(text, "shadowed", key, entry, message=message, fix="remove it, or narrow the deny")
        elif pattern in covered:
            message = "other entries of the same list match everything that it matches"
            yield text.finding("shadowed", NOTE, key, entry, message=message)


def _unfixed(text: _AgentText, code: str, key: str, entry: ListEntry, *, message: str, fix: str) -> Finding:
    return Finding(code, WARNING, text.text(key, entry), entry.source, message, fix)


def _covered(entries: Sequence[ListEntry]) -> set[str]:
    """Return the patterns of a list that can all be left out, because those that stay match what they match."""
    stays = list(dict.fromkeys(entry.pattern for entry in entries))
    wild = [pattern for pattern in stays if not is_literal(pattern)]
    if not wild or len(wild) > _MOST_WILD:
        return set()
    found = set()
    for pattern in reversed(stays):  # of two that match the same, the first stays
        others = [other for other in wild if other != pattern]
        if includes(others, pattern):
            found.add(pattern)
            wild = others
    return found


def _empty(agent: Agent, key: str) -> Finding:
    text = f"agents.{shown(agent.name)}: {shown(key)} = []"
    message = "an empty list narrows nothing: all of the server's tools stay allowed"
    if not key.startswith(f"allow.{TOOLS}."):
        message = "an empty list names nothing and narrows nothing"
    return Finding("empty_allow", WARNING, text, agent.source, message, 'leave it out, or deny with ["*"]')


def _shadowed_agents(agents: Sequence[Agent]) -> Iterator[Finding]:
    """Yield globs over agents for which more exact ones always count."""
    globs = [agent for agent in agents if not is_literal(agent.name)]
    for agent in globs[:_MOST_WILD]:
        stronger = [other.name for other in globs if other is not agent and _order(other) < _order(agent)]
        if stronger and includes(stronger, agent.name):
            text = f"agents.{shown(agent.name)}"
            message = "more exact tables match every agent that it matches, and those count"
            yield Finding("shadowed", WARNING, text, agent.source, message, "remove it, or rename it")


def _order(agent: Agent) -> tuple[int, str]:
    return -sum(letter not in "*?[]" for letter in agent.name), agent.name
