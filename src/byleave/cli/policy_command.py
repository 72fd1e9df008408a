"""`byleave policy`: what is in force, and what could be.

`show` prints the merged policy, with the file and line of each rule. `learn` proposes rules for what the user has
approved again and again, taken from the audit log.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.cli.agents_command import agent_rows, reach_tree
from byleave.cli.output import fitted, fitting_columns, paint, say, say_json, say_verbose, warn
from byleave.cli.workspace import load_policy, loosened, open_policy, open_workspace, origins
from byleave.core.access import SHELL_TOOL, Default
from byleave.core.action import parse_action
from byleave.core.decision import ASK, named_path
from byleave.core.redact import Redactor
from byleave.errors import ByleaveError, InputError
from byleave.guard.evaluation import CLIENT, YESES
from byleave.policy.layers import ENCLOSING
from byleave.store.audit.query import Filter, read_when
from byleave.store.audit.wording import what
from byleave.text import quoted, shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.core.access import Access
    from byleave.policy.compile import Compiled, CompiledTool
    from byleave.policy.layers import Layer
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.servers import ServerConfig
    from byleave.store.audit.table import StoredRecord

FAMILIES = ("fs", "net", "env", "commands")


def run(given: ParsedArguments) -> int:
    """Show every tool with its settings and rules; or propose rules."""
    if given.command.name == "learn":
        return _learn(given)
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


TIMES = 3  # as often as one answers without having to think any more
_LONGEST = 6  # digits of a number of times


class Lesson(Struct, frozen=True):
    """A rule, how often its questions were allowed, and the first of them in a few words."""

    rule: str
    times: int
    example: str


def _learn(given: ParsedArguments) -> int:
    """Print rules for what the user has approved again and again, taken from the audit log."""
    least = _times(given)
    workspace = open_workspace(given)
    policy = load_policy(given, workspace)
    say_verbose(given, origins(policy))
    warn(given, policy.warnings)
    since = None if given.one("since") is None else read_when(given.one("since") or "", now=time.time())
    log = workspace.audit_log(None, Redactor())
    try:
        log.fold()
        kept = log.query(Filter(since=since, decision="allow", event="decision"))
        lessons = [lesson for lesson in lessons_from(kept, policy) if lesson.times >= least]
    finally:
        log.close()
    _show_lessons(given, lessons)
    return 0


def lessons_from(records: Iterable[StoredRecord], policy: LivePolicy) -> list[Lesson]:
    """Return what a person's answers suggest, the most frequent first; what the policy allows by now is left out."""
    counted: dict[str, dict[object, str]] = {}
    for kept in records:
        tree = kept.tree
        if _is_yes(tree):
            for rule in _rule_for(tree["action"], policy):
                counted.setdefault(rule, {}).setdefault(_answer_of(kept.sequence, tree), what(tree))
    lessons = [Lesson(rule, len(answers), next(iter(answers.values()))) for rule, answers in counted.items()]
    return sorted(lessons, key=lambda lesson: -lesson.times)


def _answer_of(sequence: int, tree: dict[str, Any]) -> object:
    """Return what identifies an answer: a question about several actions has one answer, and a record for each.

    Records of an older byleave do not say which belong together; of those, one session teaches such a rule once.
    """
    if isinstance(tree.get("answer_id"), str):
        return tree["answer_id"]
    return (tree.get("session"), tree.get("door")) if isinstance(tree.get("request"), dict) else sequence


def _is_yes(tree: dict[str, Any]) -> bool:
    """Whether a person has said yes; a client may have answered by itself, and teaches nothing."""
    answer = tree.get("answer")
    if not isinstance(answer, dict) or answer.get("who") == CLIENT:
        return False
    return answer.get("choice") in YESES and isinstance(tree.get("action"), dict)


def _rule_for(action: dict[str, Any], policy: LivePolicy) -> Iterator[str]:
    """Yield the rule that the policy suggests for an action, if it would still ask."""
    try:
        verdict = policy.decide(parse_action(action))
    except ByleaveError:  # of a tool that is not configured any more, for one
        return
    if verdict.decision is ASK and verdict.suggestion is not None:
        yield verdict.suggestion


def _times(given: ParsedArguments) -> int:
    word = given.one("times")
    if word is None:
        return TIMES
    if not (word.isascii() and word.isdigit() and len(word) <= _LONGEST and int(word) > 0):
        raise InputError(f"--times {quoted(word)} is no number of times", hint="write a number such as 3")
    return int(word)


def _show_lessons(given: ParsedArguments, lessons: list[Lesson]) -> None:
    if given.flag("json"):
        say_json([{"rule": lesson.rule, "times": lesson.times, "example": lesson.example} for lesson in lessons])
        return
    if not lessons:
        say("nothing to learn yet: you approved nothing often enough that still needs approval")
    for lesson in lessons:
        say(f"# you approved this {lesson.times} times, such as: {shown(lesson.example)}")
        say(shown_lines(lesson.rule))
        say("")
