"""`byleave agents`: who may call MCP servers, and new tokens by which an agent proves who it is."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from os import urandom
from typing import TYPE_CHECKING

from byleave.cli.output import columns, paint, say, say_json, warn
from byleave.cli.shared_store import open_shared
from byleave.cli.terminal import record_answers, requires_person
from byleave.cli.workspace import open_policy, open_workspace
from byleave.core.patterns import is_literal, oddity
from byleave.core.suggest import toml_key
from byleave.errors import ByleaveError, InputError
from byleave.store.approvals import now
from byleave.store.token_uses import OwnTokenUses
from byleave.text import quoted, shown
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.core.agents import Agent, AgentReach
    from byleave.policy.compile import Compiled

_TOKEN_BYTES = 32
_KINDS = ("tools", "resources", "prompts")


def run(given: ParsedArguments) -> int:
    """Print a new token and the line that makes it count; or list the agents."""
    return _token(given) if given.command.name == "token" else _list(given)


def _token(given: ParsedArguments) -> int:
    """Print a token once: only its hash is ever written down."""
    agent = given.words["AGENT"]
    if not agent or not is_literal(agent) or oddity(agent) is not None:
        raise InputError(f"{quoted(agent)} cannot have a token", hint="name one agent, in plain letters")
    requires_person(given)
    token = urlsafe_b64encode(urandom(_TOKEN_BYTES)).rstrip(b"=").decode()
    line = f"sha256:{digest(token.encode())}"
    record_answers(given, open_workspace(given), [f"{agent} ({line})"])
    if given.flag("json"):
        say_json({"agent": agent, "token": token, "sha256": line})
        return 0
    say(token)
    if not given.flag("quiet"):
        say("")
        say("This is shown once. Give it to the agent; its hash goes into a file of yours:")
        say("")
    say(f'[agents.{toml_key(agent)}]\ntoken = "{line}"')
    return 0


def _list(given: ParsedArguments) -> int:
    compiled = open_policy(given).compiled
    agents = compiled.policy.views[0].agents
    known = () if agents is None else agents.agents
    uses = _last_uses(given, compiled)
    if given.flag("json"):
        say_json([{**_tree(agent, compiled), "last_used": uses.get(agent.name)} for agent in known])
        return 0
    for agent in known:
        proof = "proves who it is" if agent.name in compiled.bound_agents else "may be claimed by any caller"
        if compiled.agent_tokens.get(agent.name):
            used = uses.get(agent.name)
            proof += f"; its token was last used at {used}" if used else "; its token was not used yet"
        say(f"{paint(shown(agent.name), 'bold')}  {proof}  ({shown(agent.source)})")
        for line in columns(list(agent_rows(agent))):
            say(line)
    if not known:
        say("no agents are configured: `rules` alone decide about calls of MCP servers")
    return 0


def _last_uses(given: ParsedArguments, compiled: Compiled) -> dict[str, str]:
    """Return when a token of each agent was last used, as far as the gateway of this user or the store knows."""
    if not any(compiled.agent_tokens.values()):
        return {}
    workspace = open_workspace(given)
    try:
        shared = open_shared(workspace, compiled.settings)
        try:
            uses = (OwnTokenUses(workspace.homes.state, now) if shared is None else shared.token_uses).all()
        finally:
            if shared is not None:
                shared.close()
    except ByleaveError as error:
        warn(given, [f"when tokens were last used cannot be known: {error.problem}"])
        return {}
    found = {
        agent: [uses[each] for each in map(_plain, digests) if each in uses]
        for agent, digests in compiled.agent_tokens.items()
    }
    return {agent: max(times) for agent, times in found.items() if times}


def _plain(digest: str) -> str:
    return digest.removeprefix("sha256:").lower()


def agent_rows(agent: Agent) -> Iterator[tuple[str, str, str]]:
    """Yield what an agent may and may not reach: the list, its names, and where the first of them is written."""
    for word, reach in (("allow", agent.allow), ("deny", agent.deny)):
        for key, entries in _lists(reach):
            names = ", ".join(shown(entry.pattern) for entry in entries) or "(empty: narrows nothing)"
            yield f"{word}.{shown(key)}", names, shown(entries[0].source) if entries else ""


def _lists(reach: AgentReach) -> Iterator[tuple[str, Any]]:
    if reach.servers:
        yield "servers", reach.servers
    for kind in _KINDS:
        for server, entries in getattr(reach, kind).items():
            yield f"{kind}.{server}", entries


def _tree(agent: Agent, compiled: Compiled) -> dict[str, Any]:
    return {
        "name": agent.name,
        "bound": agent.name in compiled.bound_agents,
        "source": agent.source,
        **{word: reach_tree(reach) for word, reach in (("allow", agent.allow), ("deny", agent.deny))},
    }


def reach_tree(reach: AgentReach) -> dict[str, Any]:
    """Return one side of an agent as it would be configured."""
    tables = {
        kind: {server: [entry.pattern for entry in entries] for server, entries in table.items()}
        for kind in _KINDS
        if (table := getattr(reach, kind))
    }
    return {"servers": [entry.pattern for entry in reach.servers], **tables}
