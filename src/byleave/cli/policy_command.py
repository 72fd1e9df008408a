"""`byleave policy show`: the merged policy, with the file and line of each rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from byleave.cli.agents_command import agent_rows, reach_tree
from byleave.cli.output import fitted, fitting_columns, paint, say, say_json
from byleave.cli.workspace import loosened, open_policy
from byleave.core.access import SHELL_TOOL, Default
from byleave.core.decision import named_path
from byleave.policy.layers import ENCLOSING
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.core.access import Access
    from byleave.policy.compile import Compiled, CompiledTool
    from byleave.policy.layers import Layer
    from byleave.policy.servers import ServerConfig

FAMILIES = ("fs", "net", "env", "commands")


def run(given: ParsedArguments) -> int:
    """Show every tool with its settings and rules."""
    policy = open_policy(given)
    compiled = policy.compiled
    if given.flag("json"):
        say_json(_tree(policy.root.path, compiled))
        return 0
    for line in _lines(policy.root.path, compiled):
        say(fitted(line))
    return 0


def rules_of(access: Access, family: str) -> Iterator[tuple[str, str]]:
    """Yield the text and the origin of each rule of a family; a default stands for the rules that are not there."""
    table = getattr(access, family)
    if isinstance(table, Default):
        yield table.rule, "built-in"
        return
    rules = table.rules.values() if isinstance(table.rules, Mapping) else table.rules
    for rule in rules:
        yield rule.text.removeprefix(f"{family} "), rule.source


def _standing(layer: Layer) -> str:
    if layer.trusted:
        return ""
    return "only tightens" if layer.name == ENCLOSING else "not trusted"


def _lines(root: str, compiled: Compiled) -> Iterator[str]:
    yield f"workspace: {shown(root)}"
    yield "layers, weakest first:"
    rows = [(layer.name, shown(layer.file or "inline"), _standing(layer)) for layer in compiled.layers]
    yield from fitting_columns(rows) or ["  none; `byleave init` writes a file to begin with"]
    yield from (f"{paint('note', 'ask')}: {sentence}" for sentence in loosened(compiled))
    for name, tool in compiled.tools.items():
        yield ""
        heading = paint(f"tools.{shown(name)}", "bold")
        yield f"{heading}  {shown(_settings(tool))}  ({shown(tool.layer.source(tool.line))})"
        access = compiled.policy.views[0].tools[name].access
        rows = [
            (family, shown(text), shown(source)) for family in FAMILIES for text, source in rules_of(access, family)
        ]
        yield from fitting_columns(rows)
    yield from _shell_lines(compiled)
    table = compiled.policy.views[0].rules
    if table is not None:
        yield ""
        yield f"{paint('rules', 'bold')}, the first that matches decides:"
        yield from fitting_columns([(shown(rule.text), shown(rule.source)) for rule in table.rules])
    yield from _server_lines(compiled)
    agents = compiled.policy.views[0].agents
    for agent in agents.agents if agents is not None else ():
        yield ""
        yield f"{paint(f'agents.{shown(agent.name)}', 'bold')}  ({shown(agent.source)})"
        yield from fitting_columns(list(agent_rows(agent)))
    for layer in compiled.policy.views[1:]:
        yield ""
        yield f"also applied, and the stricter decision wins: {shown(layer.name)}"


def _shell_lines(compiled: Compiled) -> Iterator[str]:
    tool = compiled.policy.views[0].tools.get(SHELL_TOOL)
    if tool is not None:
        yield ""
        yield f"{paint('shell', 'bold')}  confine = {compiled.policy.shell}"
        yield from fitting_columns(
            [(family, shown(text), shown(source)) for family, text, source in _shell_rules(tool.access)]
        )


def _shell_rules(access: Access) -> Iterator[tuple[str, str, str]]:
    """Yield the rules of a confined command; the variables that always pass are one of them."""
    for family in FAMILIES:
        rules = list(rules_of(access, family))
        if family == "env":
            rules = [("a closed list of variables: read", "built-in"), *_written(rules)]
        yield from ((family, text, source) for text, source in rules)


def _written(rules: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return (rule for rule in rules if rule[1] != "built-in")


def _server_lines(compiled: Compiled) -> Iterator[str]:
    tools = compiled.policy.views[0].tools
    for name, server in compiled.servers.items():
        yield ""
        where = f"command: {' '.join(server.command)}" if server.command is not None else f"url: {server.url}"
        words = [server.transport, where, *([] if server.enabled else ["disabled"])]
        yield f"{paint(f'servers.{shown(name)}', 'bold')}  {shown(', '.join(words))}  ({shown(server.source)})"
        held = [(server.tool, ""), *((one, f"{tool}: ") for tool, one in server.tools.items())]
        rows = [
            (f"{shown(of)}{family}", shown(text), shown(source))
            for one, of in held
            if one in tools
            for family in FAMILIES
            for text, source in rules_of(tools[one].access, family)
        ]
        yield from fitting_columns(rows)


def _settings(tool: CompiledTool) -> str:
    settings = tool.settings
    words = [settings["source"], tool.runtime]
    words += [] if settings.get("enable", True) else ["disabled"]
    words += [f"run = {settings['run']}"] if isinstance(settings.get("run"), str) else []
    words += ["conditional run"] if isinstance(settings.get("run"), list) else []
    words += [f"command: {' '.join(settings['command'])}"] if settings.get("command") else []
    return ", ".join(words)


def _tree(root: str, compiled: Compiled) -> dict[str, Any]:
    table, agents = compiled.policy.views[0].rules, compiled.policy.views[0].agents
    return {
        **named_path("root", root),
        "mode": compiled.settings["defaults"].get("mode", "enforce"),
        "silent": compiled.settings["hooks"].get("silent", "ask"),
        "layers": [{"name": layer.name, "file": layer.file, "trusted": layer.trusted} for layer in compiled.layers],
        "tools": {name: _tool_tree(tool, compiled) for name, tool in compiled.tools.items()},
        "shell": _shell_tree(compiled),
        "rules": [{"rule": rule.text, "source": rule.source} for rule in table.rules] if table is not None else [],
        "servers": {name: _server_tree(server, compiled) for name, server in compiled.servers.items()},
        "agents": {
            agent.name: {"allow": reach_tree(agent.allow), "deny": reach_tree(agent.deny), "source": agent.source}
            for agent in (() if agents is None else agents.agents)
        },
        "warnings": list(compiled.warnings),
    }


def _shell_tree(compiled: Compiled) -> dict[str, Any] | None:
    tool = compiled.policy.views[0].tools.get(SHELL_TOOL)
    if tool is None:
        return None
    return {
        "confine": compiled.policy.shell,
        "access": {
            family: [{"rule": text, "source": source} for text, source in rules_of(tool.access, family)]
            for family in FAMILIES
        },
    }


def _server_tree(server: ServerConfig, compiled: Compiled) -> dict[str, Any]:
    """Return a server as it is written: variables are named, not filled in."""
    tool = compiled.policy.views[0].tools.get(server.tool)
    reached: dict[str, Any] = {"url": server.url, "headers": dict(server.headers)}
    if server.command is not None:
        reached = {"command": list(server.command), "env": dict(server.env)}
    return {
        "transport": server.transport,
        **reached,
        "enable": server.enabled,
        "stateful": server.stateful,
        "source": server.source,
        "access": None
        if tool is None
        else {
            family: [{"rule": text, "source": source} for text, source in rules_of(tool.access, family)]
            for family in FAMILIES
        },
    }


def _tool_tree(tool: CompiledTool, compiled: Compiled) -> dict[str, Any]:
    access = compiled.policy.views[0].tools[tool.name].access
    return {
        **{key: value for key, value in tool.settings.items() if key != "options" or value},
        "runtime": tool.runtime,
        "access": {
            family: [{"rule": text, "source": source} for text, source in rules_of(access, family)]
            for family in FAMILIES
        },
    }
