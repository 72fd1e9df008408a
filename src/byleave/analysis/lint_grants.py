"""Grants that give more than they seem to, or name what is not there: http, wide patterns, empty lists, servers. Pure.

What is on the disk is counted elsewhere (`analysis.lint_disk`), and comes in as numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.findings import ERROR, NOTE, WARNING, Finding
from byleave.analysis.matcher_algebra import alternatives
from byleave.core.access import Default
from byleave.core.action import LOCAL
from byleave.core.decision import ALLOW, BUILT_IN
from byleave.core.fs_rules import is_under
from byleave.core.matchers import (
    AgentMatcher,
    All,
    CallMatcher,
    CommandMatcher,
    OperationMatcher,
    PathMatcher,
    UrlMatcher,
)
from byleave.core.patterns import ANY_DEPTH, is_literal
from byleave.core.url import BadUrl, parse_url
from byleave.policy.normalize import LINE
from byleave.text import nearest_word, quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from byleave.core.access import Access
    from byleave.core.agents import Agents
    from byleave.core.matchers import Matcher
    from byleave.core.rules import CompiledRule
    from byleave.policy.compile import Compiled
    from byleave.policy.layers import Layer

HTTPS = 443
_WRITES = frozenset({"create", "update", "delete"})
_HIDDEN_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
_OPEN_OPERATIONS = frozenset({"fetch", "edit", "delete", "move"})


def lint_grants(rules: Iterable[CompiledRule], *, root: str, home: str, files: str) -> Iterator[Finding]:
    """Yield allows of `rules` that are wide, leave the workspace, or let plain http through.

    `files` says how many files the workspace has.
    """
    for rule in rules:
        if rule.outcome is not ALLOW:
            continue
        for part in alternatives(rule.matcher):
            parts = part.matchers if isinstance(part, All) else (part,)
            alone = all(isinstance(each, AgentMatcher) for each in parts[1:]) or len(parts) == 1
            for each in parts:
                yield from _grant(rule, each, root=root, home=home, files=files, alone=alone)


def _grant(rule: CompiledRule, each: Matcher, *, root: str, home: str, files: str, alone: bool) -> Iterator[Finding]:
    match each:
        case PathMatcher():
            yield from _path(rule, each, root=root, home=home, files=files)
        case UrlMatcher():
            if each.scheme == "http" and not _is_local(each.host or ""):
                yield _plain_http(rule.text, rule.source, f"http to {shown(each.host or 'any host')}", WARNING)
            if each.host is None:
                message, fix = "it allows URLs of every host", "name the hosts that are needed"
                yield Finding("broad_allow", WARNING, rule.text, rule.source, message, fix)
        case CallMatcher("*", None, None) if alone:
            message = "it allows every call of every MCP server"
            yield Finding("broad_allow", WARNING, rule.text, rule.source, message, "name the servers and tools")
        case OperationMatcher(kinds) if alone and not _OPEN_OPERATIONS.isdisjoint(kinds):
            named = sentence_list(sorted(_OPEN_OPERATIONS & set(kinds)))
            message = f"it allows every action of the kind {named}, wherever it goes"
            yield Finding("broad_allow", WARNING, rule.text, rule.source, message, "name paths or hosts")
        case CommandMatcher(within=str(place)) if not is_under(place, root):
            message = f"it allows commands that start in {quoted(place)}, outside of the workspace"
            yield Finding(
                "leaves_workspace", NOTE, rule.text, rule.source, message, "name a directory inside, if one is meant"
            )
        case _:
            return


def _path(rule: CompiledRule, each: PathMatcher, *, root: str, home: str, files: str) -> Iterator[Finding]:
    names, changes = each.glob.names, sorted(each.ops & _WRITES)
    verb = "change" if changes else "read"
    if not each.absolute:
        if names == (ANY_DEPTH,) and changes:
            message = f"agents may {verb} every file of the workspace ({files}) that no earlier rule closes"
            fix = "name directories if that is too much"
            yield Finding("broad_allow", NOTE, rule.text, rule.source, message, fix)
        return
    place = f"/{each.glob.literal}".rstrip("/") or "/"
    if is_under(place, root) and place != "/":
        return
    whole = each.glob.covers_below and (place == home or not each.glob.literal)
    if whole:
        where = "your home directory" if place == home else "the whole machine"
        message = f"agents may {verb} everything in {where} that no earlier rule closes"
        severity = ERROR if changes else WARNING
        yield Finding("broad_allow", severity, rule.text, rule.source, message, "name the directories that are needed")
    else:
        message = f"agents may {verb} {quoted(each.glob.text)}, which is outside of the workspace"
        fix = "remove it if the workspace is enough"
        yield Finding("leaves_workspace", NOTE, rule.text, rule.source, message, fix)


def lint_access_grants(
    owner: str, access: Access, *, files: str, environment: Sequence[str], default_source: str
) -> Iterator[Finding]:
    """Yield grants of a tool that are wide, or that let plain http through. `environment`: names that are set now."""
    if not isinstance(access.fs, Default):
        for rule in access.fs.rules:
            if rule.source != BUILT_IN and not rule.path and any(rule.grants(name) for name in _WRITES):
                message = f"it may change every file of the workspace ({files}) that no longer path closes"
                fix = "name the directories that it has to change"
                yield Finding("broad_allow", NOTE, f"{owner}: {rule.text}", rule.source, message, fix)
            if rule.dropped is not None:
                message = f"it leads out of the workspace and grants nothing: {rule.dropped}"
                fix = "approve its target with `byleave approvals`, or remove it"
                yield Finding("leaves_workspace", WARNING, f"{owner}: {rule.text}", rule.source, message, fix)
            elif rule.external:
                message = f"it opens {quoted(rule.approved_target or '')}, which is outside of the workspace"
                fix = "remove it if the workspace is enough"
                yield Finding("leaves_workspace", NOTE, f"{owner}: {rule.text}", rule.source, message, fix)
    if not isinstance(access.net, Default):
        closed = {rule.host for rule in access.net.rules if rule.scheme == "http" and not rule.allow}
        for net in access.net.rules:
            if not net.allow or _is_local(net.host) or net.host in closed:
                continue
            text = f"{owner}: {net.text}"
            if net.scheme == "http":
                yield _plain_http(text, net.source, f"http to {shown(net.host)}", WARNING)
            elif net.scheme is None and net.port != HTTPS:
                yield _plain_http(text, net.source, f"any scheme to {shown(net.host)}, plain http too", NOTE)
    if not isinstance(access.env, Default):
        for env in access.env.rules:
            if env.name == "*" and env.read and env.source != BUILT_IN:
                secret = [name for name in environment if any(word in name.upper() for word in _HIDDEN_WORDS)]
                named = f", {len(secret)} of which look like secrets" if secret else ""
                message = f"it passes every variable on: {len(environment)} are set now{named}"
                yield Finding("broad_allow", WARNING, f"{owner}: {env.text}", env.source, message, "name the variables")
    if not isinstance(access.commands, Default) and not access.commands.rules:
        message = "access.commands is empty, so the tool starts no program at all"
        fix = "list the programs that it needs, or leave the table out for the default"
        yield Finding("empty_allow", NOTE, f"{owner}: access.commands", default_source, message, fix)


def _plain_http(text: str, source: str, what: str, severity: str) -> Finding:
    message = f"it allows {what}: others on the network can read and change what is sent"
    return Finding("plain_http", severity, text, source, message, 'write scheme = "https"')


def _is_local(host: str) -> bool:
    return host in ("localhost", "::1", "[::1]") or host.startswith("127.") or host.endswith(".localhost")


def lint_servers(compiled: Compiled) -> Iterator[Finding]:
    """Yield servers that are reached over plain http."""
    for server in compiled.servers.values():
        target = None if server.url is None else parse_url(server.url)
        if (
            target is None
            or isinstance(target, BadUrl)
            or target.scheme not in ("http", "ws")
            or _is_local(target.host)
        ):
            continue
        secret = bool(server.headers) or bool(server.variables)
        text = f"servers.{shown(server.name)}: {shown(server.url or '')}"
        sent = "what is sent to it, headers too" if secret else "what is sent to it"
        message = f"it is reached over plain http: others on the network can read and change {sent}"
        severity, fix = ERROR if secret else WARNING, "write https:// if the server has it"
        yield Finding("plain_http", severity, text, server.source, message, fix)


def lint_empty(layers: Iterable[Layer]) -> Iterator[Finding]:
    """Yield lists that are empty in an allow: an empty list of commands matches every command."""
    for layer in layers:
        for rule in layer.tree.get("rules", {}).get("value", ()):
            table = rule.get("allow")
            if isinstance(table, dict):
                source = layer.source(rule[LINE])
                for key in _empty_keys(table):
                    yield _empty(key, source)


def _empty_keys(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        if value in ([], ()):
            yield key
        elif key in ("all", "any"):
            for each in value:
                yield from _empty_keys(each)
        elif key in ("not", "url") and isinstance(value, dict):
            yield from _empty_keys(value)


def _empty(key: str, source: str) -> Finding:
    rule = f"allow {key} = []"
    if key == "flags":
        message = f"an empty list of {key} narrows nothing: the rule matches the program with anything"
        return Finding("empty_allow", WARNING, rule, source, message, f"name what is meant, or leave {key} out")
    if key == "args":
        return Finding(
            "empty_allow",
            NOTE,
            rule,
            source,
            "it matches the program without any argument",
            "leave it so if that is meant",
        )
    message = f"the list of {key} is empty, so the rule allows nothing"
    return Finding("empty_allow", WARNING, rule, source, message, "name what is meant, or remove the rule")


def lint_names(compiled: Compiled, rules: Iterable[CompiledRule], agents: Agents | None) -> Iterator[Finding]:
    """Yield servers and tools that rules and agents name, and that are not configured."""
    servers = frozenset(name for layer in compiled.layers for name in layer.tree.get("servers", ()))
    tools = frozenset(compiled.tools)
    known = _KnownServers(servers, tools)
    for rule in rules:
        for server, tool in sorted(rule.matcher.calls or (), key=str):
            yield from known.findings(server, tool, rule.text, rule.source)
    for agent in agents.agents if agents is not None else ():
        for side, reach in (("allow", agent.allow), ("deny", agent.deny)):
            for entry in reach.servers:
                text = f"agents.{shown(agent.name)}: {side}.servers {quoted(entry.pattern)}"
                yield from known.findings(entry.pattern, None, text, entry.source)
            for server, entries in reach.tools.items():
                text = f"agents.{shown(agent.name)}: {side}.tools.{shown(server)}"
                source = entries[0].source if entries else agent.source
                yield from known.findings(server, None, text, source)
                for entry in entries if server == LOCAL else ():
                    yield from known.findings(server, entry.pattern, f"{text} {quoted(entry.pattern)}", entry.source)
    for name, configured in compiled.tools.items():
        origin = str(configured.settings.get("source", ""))
        if origin.startswith("mcp.") and origin.removeprefix("mcp.") not in servers:
            message = f"its source is {quoted(origin)}, and no server of that name is configured"
            source = configured.layer.source(configured.line)
            yield Finding(
                "unknown_tool",
                WARNING,
                f"tools.{shown(name)}",
                source,
                message,
                "configure the server, or correct the name",
            )


class _KnownServers:
    """The servers and local tools that are configured. Agents may have servers of their own, which are not known."""

    def __init__(self, servers: frozenset[str], tools: frozenset[str]) -> None:
        self._servers = servers
        self._tools = tools

    def findings(self, server: str, tool: str | None, rule: str, source: str) -> Iterator[Finding]:
        if server == LOCAL:
            if tool is not None and is_literal(tool) and tool not in self._tools:
                message = f"no tool named {quoted(tool)} is configured"
                yield self._finding(message, tool, self._tools, rule=rule, source=source, severity=WARNING)
        elif is_literal(server) and server not in self._servers:
            message = f"no server named {quoted(server)} is configured"
            yield self._finding(message, server, self._servers, rule=rule, source=source, severity=NOTE)

    @staticmethod
    def _finding(message: str, name: str, known: frozenset[str], *, rule: str, source: str, severity: str) -> Finding:
        near = nearest_word(name, sorted(known), cutoff=0.75)
        if near is not None:
            return Finding(
                "unknown_tool", WARNING, rule, source, f"{message}; {quoted(near)} is", f"write {quoted(near)}"
            )
        return Finding(
            "unknown_tool", severity, rule, source, message, "check its name; an agent may have it in its own settings"
        )
