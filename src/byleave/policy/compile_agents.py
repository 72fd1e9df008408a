"""From the `agents` tables of several layers to the agents that decisions know, and to the tokens that prove them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.agents import DEFAULT, Agent, AgentReach, Agents, ListEntry
from byleave.core.patterns import is_literal
from byleave.policy.normalize import AGENT_TABLES, LINE, NOTHING, Item, Patch, compose, patch
from byleave.record import frozen_mapping
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from byleave.policy.layers import Layer, Problems
    from byleave.policy.normalize import Tree

_MOST_NAMED = 8  # unknown servers worth naming in a warning


class MissingAgentRule(Struct, frozen=True):
    """What holds for agents that nothing is said about."""

    denied: bool = True
    default_agent: str | None = None


class AgentTokens(Struct, frozen=True):
    """How agents prove who they are: hashes of tokens, and what a JWT's claim says, by agent."""

    tokens: Mapping[str, tuple[str, ...]]
    subjects: Mapping[str, tuple[str, ...]]


def merge_agents(layers: Sequence[Layer], missing: MissingAgentRule) -> Agents | None:
    """Return the agents of these layers, weakest first; None where no layer speaks of agents."""
    naming = [layer for layer in layers if "agents" in layer.tree]
    if not naming:
        return None
    names = dict.fromkeys(name for layer in naming for name in layer.tree["agents"])
    merged = [_merge_agent(name, [layer for layer in naming if name in layer.tree["agents"]]) for name in names]
    return Agents(merged, deny_on_missing=missing.denied, default_agent=missing.default_agent)


def _merge_agent(name: str, layers: Sequence[Layer]) -> Agent:
    last = layers[-1]
    sides = {side: _merge_side(side, [(layer, layer.tree["agents"][name]) for layer in layers]) for side in _SIDES}
    return Agent(name, sides["allow"], sides["deny"], last.source(last.tree["agents"][name][LINE]))


_SIDES = ("allow", "deny")


def _merge_side(side: str, tables: Sequence[tuple[Layer, Tree]]) -> AgentReach:
    servers = NOTHING
    lists: dict[str, dict[str, Patch]] = {kind: {} for kind in AGENT_TABLES}
    for layer, agent in tables:
        reach = agent.get(side, {})
        if "servers" in reach:
            servers = _joined(side, servers, _patch(reach["servers"], layer))
        for kind, table in lists.items():
            for server, names in reach.get(kind, {}).items():
                table[server] = _joined(side, table.get(server, NOTHING), _patch(names, layer))
    return AgentReach(
        _entries(servers),
        *(frozen_mapping({server: _entries(names) for server, names in lists[kind].items()}) for kind in AGENT_TABLES),
    )


def _patch(names: Tree, layer: Layer) -> Patch:
    return patch(names["strategy"], [Item(entry, layer) for entry in names["value"]])


def _joined(side: str, weaker: Patch, stronger: Patch) -> Patch:
    """Compose two patches; a deny of an untrusted layer is not replaced: its own view keeps it."""
    composed = compose(weaker, stronger)
    if side == "allow" or not stronger.replaces:
        return composed
    return composed.replace(back=(*composed.back, *(item for item in weaker.items if not item.layer.trusted)))


def _entries(merged: Patch) -> tuple[ListEntry, ...]:
    return tuple(ListEntry(item.tree["name"], item.layer.source(item.tree[LINE])) for item in merged.items)


def proofs_of(
    layers: Iterable[Layer], default: str | None, problems: Problems, *, has_words: bool = True
) -> AgentTokens:
    """Return the tokens and JWT subjects of the trusted layers; of each agent the strongest layer that has some.

    A client that names no agent counts as the `default` agent, which therefore can have no proof of its own.
    `has_words`: the words of `jwt` may be read; those of `[[gateway.issuers]]` alone are not, or any could say them.
    """
    tokens: dict[str, tuple[str, ...]] = {}
    subjects: dict[str, tuple[str, ...]] = {}
    for layer in layers:
        for name, agent in layer.tree.get("agents", {}).items():
            for key, known in (("token", tokens), ("jwt", subjects)):
                if key not in agent:
                    continue
                if name in (default, DEFAULT):
                    problem = f"{quoted(name)} stands for every agent that has no name, so it cannot have a {key}"
                    problems.add(layer, problem, hint="give it to a named agent", at=("agents", name, key))
                if key == "jwt" and not has_words:
                    problem = "this is read in tokens of [gateway.jwt] only, which is not there"
                    hint = f"write [[gateway.identities]] with match, and agent = {quoted(name)}"
                    problems.add(layer, problem, hint=hint, at=("agents", name, key))
                words = tuple(word.removeprefix("sha256:") for word in agent[key])
                for other in (other for other in known if other != name and set(known[other]) & set(words)):
                    problem = f"{quoted(other)} has the same {key}, so the two agents could not be distinguished"
                    problems.add(layer, problem, hint=f"give each agent a {key} of its own", at=("agents", name, key))
                if not is_literal(name):
                    problem = f"{quoted(name)} is a glob, and a {key} belongs to one agent"
                    problems.add(layer, problem, hint="name the agent", at=("agents", name, key))
                known[name] = words
    return AgentTokens(tokens, subjects)


def agent_warnings(agents: Agents, missing: MissingAgentRule, servers: frozenset[str]) -> Iterator[str]:
    """Yield what may not be meant as it is written. `servers` are the names that are configured anywhere."""
    for agent in agents.agents:
        yield from _empty_lists(agent)
    unknown = dict.fromkeys(name for agent in agents.agents for name in _named_servers(agent) if name not in servers)
    if servers and unknown:
        named = ", ".join(shown(name) for name in list(unknown)[:_MOST_NAMED])
        yield f"agents: no server of that name is configured: {named}{', ...' if len(unknown) > _MOST_NAMED else ''}"
    known = {agent.name for agent in agents.agents}
    if not missing.denied and DEFAULT not in known:
        yield "defaults.deny_on_missing_agent = false, and there is no agents.default: unknown agents may call anything"
    if missing.default_agent is not None and not agents.knows(missing.default_agent):
        yield f"gateway.default_agent is {quoted(missing.default_agent)}, and no such agent is configured"


def _empty_lists(agent: Agent) -> Iterator[str]:
    for kind in AGENT_TABLES:
        for server, entries in getattr(agent.allow, kind).items():
            if not entries:
                key = f"agents.{shown(agent.name)}.allow.{kind}.{shown(server)}"
                yield f'{shown(agent.source)}: {key} is empty, which narrows nothing; leave it out, or write ["*"]'


def _named_servers(agent: Agent) -> Iterator[str]:
    for reach in (agent.allow, agent.deny):
        yield from (entry.pattern for entry in reach.servers if is_literal(entry.pattern))
        for kind in AGENT_TABLES:
            yield from (server for server in getattr(reach, kind) if is_literal(server))


def without_proofs(agents: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an untrusted layer may say of agents: what they may reach, and not who they are."""
    return {
        name: {key: value for key, value in agent.items() if key not in ("token", "jwt")}
        for name, agent in agents.items()
    }
