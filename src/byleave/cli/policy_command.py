"""`byleave policy show`: the merged policy, with the file and line of each rule, and how often it decided something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.coverage import ACCESS, AGENTS, RULES, WrittenRule, access_rules, shell_rules, written_rules
from byleave.analysis.rule_hits import RuleHits
from byleave.cli.agents_command import agent_rows, reach_tree
from byleave.cli.output import fitted, fitting_columns, local_time, paint, say, say_json, say_verbose, warn
from byleave.cli.progress import ProgressBar
from byleave.cli.workspace import load_policy, loosened, open_workspace, origins
from byleave.core.access import SHELL_TOOL
from byleave.core.agents import written_refs
from byleave.core.decision import BUILT_IN, named_path
from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.policy.layers import ENCLOSING
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.core.access import Access
    from byleave.core.agents import Agent
    from byleave.policy.compile import Compiled, CompiledTool
    from byleave.policy.layers import Layer
    from byleave.policy.load import Workspace
    from byleave.policy.servers import ServerConfig

NEVER = "never used"


def run(given: ParsedArguments) -> int:
    """Show every tool with its settings and rules."""
    workspace = open_workspace(given)
    policy = load_policy(given, workspace)
    say_verbose(given, origins(policy))
    warn(given, policy.warnings)
    hits = _hits(given, workspace, policy.compiled)
    if given.flag("json"):
        say_json(_tree(policy.root.path, policy.compiled, hits))
        return 0
    for line in _lines(policy.root.path, policy.compiled, hits):
        painted = f"{line.removesuffix(NEVER)}{paint(NEVER, 'ask')}" if line.endswith(NEVER) else line
        say(fitted(painted))
    return 0


def _hits(given: ParsedArguments, workspace: Workspace, compiled: Compiled) -> RuleHits:
    """Return how often each rule decided something in this workspace, as far as its records say."""
    hits = RuleHits(_all_rules(compiled))
    log = workspace.audit_log(None, Redactor())
    try:
        with ProgressBar(given, "reading records") as bar:
            for _sequence, text in log.scan(report=bar):
                hits.take(text)
        warn(given, log.warnings)
    except StateError as error:  # the policy holds, and is shown, whatever has happened to the records
        warn(given, [f"the uses of rules are not complete: {error.problem}"])
    finally:
        log.close()
    return hits


def _all_rules(compiled: Compiled) -> Iterator[WrittenRule]:
    yield from written_rules(compiled)
    for name, tool in compiled.policy.views[0].tools.items():
        defaults = [rule for family in ACCESS for rule in access_rules(tool.access, family, name)]
        yield from (rule for rule in defaults if rule.source == BUILT_IN)


def _row(rule: WrittenRule, hits: RuleHits) -> dict[str, Any]:
    """Return a rule for programs."""
    found = hits.of(rule)
    text = rule.rule.removeprefix(f"{rule.family} ")
    return {"rule": text, "source": rule.source, "hits": found.hits, "last": found.last}


def _used(rule: WrittenRule, hits: RuleHits) -> list[str]:
    """Return the last cell of a rule's row: its uses. There is none as long as nothing was decided here at all."""
    if not hits.records or rule.source == BUILT_IN:
        return [""] if hits.records else []
    found = hits.of(rule)
    if not found.hits:
        return [NEVER]
    times = "once" if found.hits == 1 else f"{found.hits:,} times"
    return [f"used {times}, last {local_time(found.last or '')}"]


def _cells(rule: WrittenRule, hits: RuleHits) -> list[str]:
    return [shown(rule.rule.removeprefix(f"{rule.family} ")), shown(rule.source), *_used(rule, hits)]


def _standing(layer: Layer) -> str:
    if layer.trusted:
        return ""
    return "only tightens" if layer.name == ENCLOSING else "not trusted"


def _lines(root: str, compiled: Compiled, hits: RuleHits) -> Iterator[str]:
    view = compiled.policy.views[0]
    yield f"workspace: {shown(root)}"
    yield "layers, weakest first:"
    rows = [(layer.name, shown(layer.file or "inline"), _standing(layer)) for layer in compiled.layers]
    yield from fitting_columns(rows) or ["  none; `byleave setup` writes one"]
    yield from (f"{paint('note', 'ask')}: {sentence}" for sentence in loosened(compiled))
    for name, tool in compiled.tools.items():
        yield ""
        heading = paint(f"tools.{shown(name)}", "bold")
        yield f"{heading}  {shown(_settings(tool))}  ({shown(tool.layer.source(tool.line))})"
        yield from _access_lines(view.tools[name].access, name, hits)
    yield from _shell_lines(compiled, hits)
    if view.rules is not None:
        yield ""
        yield f"{paint('rules', 'bold')}, the first that matches decides:"
        rules = [WrittenRule(RULES, rule.text, rule.source) for rule in view.rules.rules]
        yield from fitting_columns([_cells(rule, hits) for rule in rules])
    yield from _server_lines(compiled, hits)
    for agent in view.agents.agents if view.agents is not None else ():
        yield ""
        yield f"{paint(f'agents.{shown(agent.name)}', 'bold')}  ({shown(agent.source)})"
        yield from fitting_columns(list(agent_rows(agent)))
        unused = [rule for rule in _entries(agent) if hits.records and not hits.of(rule).hits]
        yield from fitting_columns([(shown(rule.rule), shown(rule.source), NEVER) for rule in unused])
    for layer in compiled.policy.views[1:]:
        yield ""
        yield f"also applied, and the stricter decision wins: {shown(layer.name)}"


def _entries(agent: Agent) -> list[WrittenRule]:
    return [WrittenRule(AGENTS, ref.rule, ref.source) for ref in written_refs(agent)]


def _access_lines(access: Access, tool: str, hits: RuleHits, of: str = "") -> list[str]:
    rules = [rule for family in ACCESS for rule in access_rules(access, family, tool)]
    return fitting_columns([(f"{shown(of)}{rule.family}", *_cells(rule, hits)) for rule in rules])


def _shell_lines(compiled: Compiled, hits: RuleHits) -> Iterator[str]:
    tool = compiled.policy.views[0].tools.get(SHELL_TOOL)
    if tool is not None:
        yield ""
        yield f"{paint('shell', 'bold')}  confine = {compiled.policy.shell}"
        yield from fitting_columns([(rule.family, *_cells(rule, hits)) for rule in shell_rules(tool.access)])


def _server_lines(compiled: Compiled, hits: RuleHits) -> Iterator[str]:
    tools = compiled.policy.views[0].tools
    for name, server in compiled.servers.items():
        yield ""
        where = f"command: {' '.join(server.command)}" if server.command is not None else f"url: {server.url}"
        words = [server.transport, where, *([] if server.enabled else ["disabled"])]
        yield f"{paint(f'servers.{shown(name)}', 'bold')}  {shown(', '.join(words))}  ({shown(server.source)})"
        held = [(server.tool, ""), *((one, f"{tool}: ") for tool, one in server.tools.items())]
        rules = [
            (f"{shown(of)}{rule.family}", *_cells(rule, hits))
            for one, of in held
            if one in tools
            for family in ACCESS
            for rule in access_rules(tools[one].access, family, one)
        ]
        yield from fitting_columns(rules)


def _settings(tool: CompiledTool) -> str:
    settings = tool.settings
    words = [settings["source"], tool.runtime]
    words += [] if settings.get("enable", True) else ["disabled"]
    words += [f"run = {settings['run']}"] if isinstance(settings.get("run"), str) else []
    words += ["conditional run"] if isinstance(settings.get("run"), list) else []
    words += [f"command: {' '.join(settings['command'])}"] if settings.get("command") else []
    return ", ".join(words)


def _tree(root: str, compiled: Compiled, hits: RuleHits) -> dict[str, Any]:
    table, agents = compiled.policy.views[0].rules, compiled.policy.views[0].agents
    return {
        **named_path("root", root),
        "mode": compiled.settings["defaults"].get("mode", "enforce"),
        "silent": compiled.settings["hooks"].get("silent", "ask"),
        "layers": [{"name": layer.name, "file": layer.file, "trusted": layer.trusted} for layer in compiled.layers],
        "tools": {name: _tool_tree(tool, compiled, hits) for name, tool in compiled.tools.items()},
        "shell": _shell_tree(compiled, hits),
        "rules": [
            _row(WrittenRule(RULES, rule.text, rule.source), hits) for rule in (() if table is None else table.rules)
        ],
        "servers": {name: _server_tree(server, compiled, hits) for name, server in compiled.servers.items()},
        "agents": {
            agent.name: {
                "allow": reach_tree(agent.allow),
                "deny": reach_tree(agent.deny),
                "source": agent.source,
                "entries": [_row(rule, hits) for rule in _entries(agent)],
            }
            for agent in (() if agents is None else agents.agents)
        },
        "warnings": list(compiled.warnings),
    }


def _shell_tree(compiled: Compiled, hits: RuleHits) -> dict[str, Any] | None:
    tool = compiled.policy.views[0].tools.get(SHELL_TOOL)
    if tool is None:
        return None
    return {
        "confine": compiled.policy.shell,
        "access": _access_tree(tool.access, SHELL_TOOL, hits),
    }


def _access_tree(access: Access, tool: str, hits: RuleHits) -> dict[str, Any]:
    return {family: [_row(rule, hits) for rule in access_rules(access, family, tool)] for family in ACCESS}


def _server_tree(server: ServerConfig, compiled: Compiled, hits: RuleHits) -> dict[str, Any]:
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
        "access": None if tool is None else _access_tree(tool.access, server.tool, hits),
    }


def _tool_tree(tool: CompiledTool, compiled: Compiled, hits: RuleHits) -> dict[str, Any]:
    access = compiled.policy.views[0].tools[tool.name].access
    return {
        **{key: value for key, value in tool.settings.items() if key != "options" or value},
        "runtime": tool.runtime,
        "access": _access_tree(access, tool.name, hits),
    }
