"""The entries that an agent's settings hold: what each one matches, what it says about that, and where it stands.

A deny or an ask is never passed over: what is not in a known form makes the file unreadable. What decides there by
other means than lists (modes, profiles, instructions in words) is a `SettingsNote`, for people.

A hook's cold path. How entries of several files become rules: `agent_permissions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.patterns import text_matches
from byleave.policy.agent_patterns import (
    GEMINI_EDIT,
    GEMINI_OTHER,
    GEMINI_READ,
    GEMINI_SEARCH,
    GEMINI_SHELL,
    OPENCODE_TOOLS,
    claude_pattern,
    cursor_call,
    cursor_pattern,
    gemini_pattern,
    gemini_rule_patterns,
    opencode_pattern,
)
from byleave.policy.agent_settings import MANAGED, SettingsSource, UnreadableSettingsError, read_settings
from byleave.policy.codex_rules import HostExecutable, NetworkRule, PrefixRule, read_codex_rules
from byleave.policy.permission_patterns import (
    CHANGE,
    READ,
    Pattern,
    any_of,
    call_pattern,
    command_pattern,
    every_file,
    host_pattern,
    operation_pattern,
    prefix_pattern,
)
from byleave.record import Record
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    At = tuple[str | int, ...]

ALLOW, ASK, DENY = "allow", "ask", "deny"
STRICTNESS = (ALLOW, ASK, DENY)
_ALL_OPS = (*READ, *CHANGE, "exec")
_MODE = "byleave needs your approval for what no rule allows"


class PermissionEntry(Record):
    """One permission of a settings file. A later entry with the same `group` overrules it; "" is never overruled.

    `at` is its path in the file's tree, or its line alone.
    """

    outcome: str
    pattern: Pattern
    source: SettingsSource
    at: At = ()
    group: str = ""
    why: str = ""


class SettingsNote(Record):
    """A setting that no rule stands for. `closes`: only what the machine's own files allow is allowed."""

    text: str
    why: str
    source: SettingsSource
    at: At = ()
    closes: bool = False


def claude_code_entries(source: SettingsSource) -> Iterator[PermissionEntry | SettingsNote]:
    """Yield the permissions of Claude Code; denies count before asks, and those before allows."""
    tree = read_settings(source)
    permissions = _table(tree.get("permissions"), "permissions")
    for outcome in STRICTNESS:
        at = ("permissions", outcome)
        for number, text in enumerate(_texts(permissions.get(outcome), ".".join(at))):
            pattern = claude_pattern(text, source.directory, source.root, denies=outcome == DENY)
            yield PermissionEntry(outcome, pattern, source, (*at, number))
    for key in ("defaultMode", "additionalDirectories"):
        if key in permissions:
            yield _note(source, ("permissions", key), permissions[key], _MODE)
    if source.scope == MANAGED and tree.get("allowManagedPermissionRulesOnly") is True:
        why = "only the machine's own files allow something"
        yield SettingsNote(
            "allowManagedPermissionRulesOnly", why, source, ("allowManagedPermissionRulesOnly",), closes=True
        )
    yield from _claude_sandbox(_table(tree.get("sandbox"), "sandbox"), source)
    for key in ("disabledMcpjsonServers", "deniedMcpServers"):
        for number, given in enumerate(_list(tree.get(key), key)):
            server = given if isinstance(given, str) else _table(given, key).get("serverName", "*")
            yield PermissionEntry(DENY, call_pattern(f"{key} {server}", str(server), ""), source, (key, number))


def _claude_sandbox(sandbox: Mapping[str, Any], source: SettingsSource) -> Iterator[PermissionEntry | SettingsNote]:
    """What its sandbox keeps from commands; byleave keeps it from the agent's other tools, too."""
    files = _table(sandbox.get("filesystem"), "sandbox.filesystem")
    for key, tool in (("denyRead", "Read"), ("denyWrite", "Edit")):
        for number, path in enumerate(_texts(files.get(key), f"sandbox.filesystem.{key}")):
            spelled = f"/{path}" if path.startswith("/") and not path.startswith("//") else path
            pattern = claude_pattern(f"{tool}({spelled})", source.directory, source.root)
            at = ("sandbox", "filesystem", key, number)
            yield PermissionEntry(DENY, pattern.replace(text=f"{key} {path}"), source, at)
    network = _table(sandbox.get("network"), "sandbox.network")
    for number, host in enumerate(_texts(network.get("deniedDomains"), "sandbox.network.deniedDomains")):
        at = ("sandbox", "network", "deniedDomains", number)
        yield PermissionEntry(DENY, host_pattern(f"deniedDomains {host}", host), source, at)


_CODEX = {"allow": ALLOW, "prompt": ASK, "forbidden": DENY}
_CODEX_MODES = ("approval_policy", "sandbox_mode", "default_permissions", "profile")


def codex_entries(source: SettingsSource) -> Iterator[PermissionEntry | SettingsNote]:
    """Yield the rules of Codex; the strictest of several that match decides, so none overrules another."""
    if source.path.endswith(".toml"):
        yield from _codex_config(read_settings(source), source)
        return
    allows: list[PrefixRule] = []
    placed: set[str] = set()
    for rule in read_codex_rules(source.path):
        if isinstance(rule, NetworkRule):
            yield _network_rule(rule, source)
        elif isinstance(rule, HostExecutable):
            placed.add(rule.name)
        elif _codex(rule.decision) == ALLOW:
            allows.append(rule)
        else:
            pattern = prefix_pattern(rule.pattern)
            yield PermissionEntry(_codex(rule.decision), pattern, source, (rule.line,), why=rule.why)
    for rule in allows:
        pattern = prefix_pattern(rule.pattern)
        if any(word.rpartition("/")[2] in placed for word in rule.pattern[0]):
            pattern = pattern.replace(narrow=None, lost="host_executable says where it may lie: it needs approval")
        yield PermissionEntry(ALLOW, pattern, source, (rule.line,))


def _codex(decision: object) -> str:
    if decision not in _CODEX:
        raise UnreadableSettingsError(f"has a decision that byleave does not know: {quoted(str(decision))}")
    return _CODEX[str(decision)]


def _network_rule(rule: NetworkRule, source: SettingsSource) -> PermissionEntry:
    outcome = DENY if rule.decision == "deny" else _codex(rule.decision)
    pattern = host_pattern(f"network_rule {rule.protocol} {rule.host}", rule.host or "*")
    lost = "it is about what commands reach: say it by [shell.access.net]"
    return PermissionEntry(outcome, pattern.replace(narrow=None, lost=lost), source, (rule.line,), why=rule.why)


def _codex_config(tree: Mapping[str, Any], source: SettingsSource) -> Iterator[PermissionEntry | SettingsNote]:
    """What config.toml and requirements.toml say of servers, files and hosts; modes are notes."""
    for key in _CODEX_MODES:
        if key in tree:
            yield _note(source, (key,), tree[key], f"Codex goes by it before any rule: {_MODE}")
    for name, given in _table(tree.get("mcp_servers"), "mcp_servers").items():
        yield from _codex_server(name, _table(given, f"mcp_servers.{name}"), source)
    for name, given in _table(tree.get("permissions"), "permissions").items():
        profile = _table(given, f"permissions.{name}")
        at: At = ("permissions", name)
        files = _table(profile.get("filesystem"), "filesystem")
        yield from _codex_files(files, "", source, (*at, "filesystem"))
        network = _table(profile.get("network"), "network")
        for host, word in _table(network.get("domains"), "network.domains").items():
            if word != "allow":
                pattern = host_pattern(f"{host} = {word}", "" if "*" in host else host)
                yield PermissionEntry(DENY, pattern, source, (*at, "network", "domains", host))
    rules = _table(tree.get("rules"), "rules")
    for number, given in enumerate(_list(rules.get("prefix_rules"), "rules.prefix_rules")):
        rule = _table(given, "rules.prefix_rules")
        words = [_token(word) for word in _list(rule.get("pattern"), "pattern")]
        if not words or not all(words):
            raise UnreadableSettingsError("has a prefix rule without a plain pattern")
        why = str(rule.get("justification", ""))
        at = ("rules", "prefix_rules", number)
        yield PermissionEntry(_codex(rule.get("decision")), prefix_pattern(words), source, at, why=why)


def _token(given: object) -> tuple[str, ...]:
    word = given if isinstance(given, dict) else {"token": given}
    words = word.get("any_of", [word.get("token")])
    return tuple(_texts(words, "pattern"))


def _codex_server(
    name: str, server: Mapping[str, Any], source: SettingsSource
) -> Iterator[PermissionEntry | SettingsNote]:
    at: At = ("mcp_servers", name)
    if server.get("enabled") is False:
        yield PermissionEntry(DENY, call_pattern(f"{name} enabled = false", name, ""), source, (*at, "enabled"))
    for number, tool in enumerate(_texts(server.get("disabled_tools"), "disabled_tools")):
        pattern = call_pattern(f"{name} disabled_tools {tool}", name, tool or "*")
        yield PermissionEntry(DENY, pattern, source, (*at, "disabled_tools", number))
    if "enabled_tools" in server:
        only = [call_pattern("", name, tool) for tool in _texts(server["enabled_tools"], "enabled_tools") if tool]
        pattern = _but(call_pattern(f"{name} enabled_tools", name, ""), only)
        yield PermissionEntry(DENY, pattern, source, (*at, "enabled_tools"))
    modes = {"*": server.get("default_tools_approval_mode")}
    for tool, given in _table(server.get("tools"), "tools").items():
        modes[tool] = _table(given, f"tools.{tool}").get("approval_mode")
    for tool, mode in modes.items():
        if mode in (None, "auto"):
            continue
        where = (*at, "default_tools_approval_mode") if tool == "*" else (*at, "tools", tool, "approval_mode")
        pattern = call_pattern(f"{name} {tool} {mode}", name, tool)
        if tool == "*" and mode != "approve":  # the tools of which another mode is said are exceptions
            pattern = _but(pattern, [call_pattern("", name, each) for each in modes if modes[each] == "approve"])
        elif tool == "*":  # and those that Codex decides about by itself are not allowed
            own = [call_pattern("", name, each) for each in modes if modes[each] == "auto"]
            exact = all(each.narrow is not None for each in (pattern, *own))
            pattern = pattern.replace(narrow=_but(pattern, own).wide if exact else None)
        yield PermissionEntry(ALLOW if mode == "approve" else ASK, pattern, source, where)


def _codex_files(
    files: Mapping[str, Any], above: str, source: SettingsSource, at: At
) -> Iterator[PermissionEntry | SettingsNote]:
    """What a profile keeps closed; places that begin with a colon are the workspace, or are not known."""
    for path, word in files.items():
        place = above if path.startswith(":") else f"{above.rstrip('/')}/{path}" if above else path
        if isinstance(word, dict):
            yield from _codex_files(word, place, source, (*at, path))
        elif word not in ("read", "write", "read-only", "read-write", "rw", "ro"):
            text = f"{path} = {word}"
            spelled = f"/{place}" if place.startswith("/") else place or "*"
            pattern = claude_pattern(f"Edit({spelled})", "", source.root).replace(text=text)
            wide = {**(pattern.wide or {}), "ops": list(_ALL_OPS)}
            yield PermissionEntry(DENY, pattern.replace(wide=wide, narrow=None), source, (*at, path))


def _but(everything: Pattern, exceptions: Sequence[Pattern]) -> Pattern:
    """Return a pattern without what others match exactly."""
    tables = [each.narrow for each in exceptions if each.narrow is not None]
    if not tables or everything.wide is None:
        return everything
    return everything.replace(wide={"all": [everything.wide, {"not": any_of(tables)}]}, narrow=None)


# What each kind of action is done by: which of the tools are named decides about the whole kind.
_GEMINI_KINDS: tuple[tuple[tuple[str, ...], Pattern], ...] = (
    (GEMINI_READ[:1], every_file("reading", READ, ())),
    (GEMINI_SEARCH[:2], operation_pattern("searching", "search")),
    (GEMINI_EDIT, every_file("changing files", CHANGE, ())),
    (("web_fetch",), host_pattern("fetching", None)),
    (GEMINI_OTHER, operation_pattern("other tools", "other")),
)


def gemini_entries(source: SettingsSource) -> Iterator[PermissionEntry | SettingsNote]:
    """Yield what the lists of a settings file say, or the rules of a policy file."""
    tree = read_settings(source)
    if source.path.endswith(".toml"):
        yield from _gemini_policies(tree, source)
        return
    tools = _table(tree.get("tools"), "tools")
    lists = (
        (ALLOW, "allowed", "allowedTools"),
        (DENY, "exclude", "excludeTools"),
        (ASK, "confirmationRequired", ""),
    )
    for outcome, name, old in lists:
        for number, (text, at) in enumerate(_either(tree, tools, name, old)):
            yield PermissionEntry(outcome, gemini_pattern(text), source, (*at, number))
    allowed = [text for text, _ in _either(tree, tools, "allowed", "allowedTools")]
    if any(text.startswith(tuple(f"{name}(" for name in GEMINI_SHELL)) for text in allowed):
        yield from _other_commands(allowed, "tools.allowed", source)
    if "core" in tools or "coreTools" in tree:
        yield from _only_core([text for text, _ in _either(tree, tools, "core", "coreTools")], source)
    yield from _gemini_servers(tree, source)
    if source.scope == MANAGED and "allowed" in tools and source.path.endswith("/settings.json"):
        yield SettingsNote(
            "tools.allowed", "it replaces what other files allow", source, ("tools", "allowed"), closes=True
        )
    general = _table(tree.get("general"), "general")
    for at, given in ((("general", "defaultApprovalMode"), general), (("tools", "autoAccept"), tools)):
        if at[1] in given:
            yield _note(source, at, given[at[1]], _MODE)


def _either(tree: Mapping[str, Any], tools: Mapping[str, Any], name: str, old: str) -> list[tuple[str, At]]:
    """Return the texts of a list that older versions keep elsewhere, both where both are there."""
    found: list[tuple[str, At]] = [(text, ("tools", name)) for text in _texts(tools.get(name), f"tools.{name}")]
    return found + [(text, (old,)) for text in (_texts(tree.get(old), old) if old else [])]


def _other_commands(names: Sequence[str], text: str, source: SettingsSource) -> Iterator[PermissionEntry]:
    """Where some commands are listed, Gemini CLI denies the others."""
    if set(GEMINI_SHELL) & set(names):
        return
    listed = [gemini_pattern(name) for name in names if name.startswith(tuple(f"{each}(" for each in GEMINI_SHELL))]
    about = f"{text}: no other command"
    stricter = "rules of policy files make no exception to it"
    pattern = _but(command_pattern(about, ""), listed).replace(text=about, stricter=stricter)
    yield PermissionEntry(DENY, pattern, source, tuple(text.split(".")))


def _only_core(names: Sequence[str], source: SettingsSource) -> Iterator[PermissionEntry]:
    """Everything is denied but the tools that are listed; where a part of those that do the same is, byleave asks."""
    at: At = ("tools", "core")
    yield from _other_commands(names, "tools.core", source)
    plain = {name.partition("(")[0] for name in names}
    for tools, pattern in _GEMINI_KINDS:
        listed = [tool for tool in tools if tool in plain]
        if len(listed) < len(tools):
            about = pattern.replace(text=f"tools.core: no {', '.join(tool for tool in tools if tool not in plain)}")
            yield PermissionEntry(ASK if listed else DENY, about.replace(stricter=""), source, at)
    calls = [gemini_pattern(name) for name in names if name.startswith("mcp_")]
    every = call_pattern("tools.core: no other MCP tool", "*", "")
    yield PermissionEntry(DENY, _but(every, calls), source, at)


def _gemini_servers(tree: Mapping[str, Any], source: SettingsSource) -> Iterator[PermissionEntry]:
    mcp = _table(tree.get("mcp"), "mcp")
    at: At
    excluded: list[tuple[str, At]] = [
        (name, ("mcp", "excluded")) for name in _texts(mcp.get("excluded"), "mcp.excluded")
    ]
    excluded += [(name, ("excludeMCPServers",)) for name in _texts(tree.get("excludeMCPServers"), "excludeMCPServers")]
    for name, at in excluded:
        yield PermissionEntry(DENY, call_pattern(f"mcp.excluded {name}", name, ""), source, at)
    for key, given in (("mcp.allowed", mcp.get("allowed")), ("allowMCPServers", tree.get("allowMCPServers"))):
        if given is None:
            continue
        listed = [call_pattern(f"{key} {name}", name, "") for name in _texts(given, key)]
        at = tuple(key.split("."))
        yield PermissionEntry(DENY, _but(call_pattern(f"{key}: no other server", "*", ""), listed), source, at)
        if key == "mcp.allowed":
            yield from (PermissionEntry(ALLOW, each, source, at) for each in listed)
    for name, given in _table(tree.get("mcpServers"), "mcpServers").items():
        server = _table(given, f"mcpServers.{name}")
        at = ("mcpServers", name)
        if server.get("trust") is True:
            yield PermissionEntry(ALLOW, call_pattern(f"{name} trust", name, ""), source, (*at, "trust"))
        for tool in _texts(server.get("excludeTools"), "excludeTools"):
            pattern = call_pattern(f"{name} excludeTools {tool}", name, tool.partition("(")[0] or "*")
            yield PermissionEntry(DENY, pattern, source, (*at, "excludeTools"))
        if "includeTools" in server:
            only = _texts(server["includeTools"], "includeTools")
            named = [call_pattern("", name, tool) for tool in only if tool and "(" not in tool]
            every = call_pattern(f"{name} includeTools: no other", name, "")
            yield PermissionEntry(DENY, _but(every, named), source, (*at, "includeTools"))


def _gemini_policies(tree: Mapping[str, Any], source: SettingsSource) -> Iterator[PermissionEntry | SettingsNote]:
    """A rule of a higher priority overrules one of a lower; of equal ones the first in the file counts."""
    outcomes = {"allow": ALLOW, "ask_user": ASK, "deny": DENY}
    rules = [_table(rule, "rule") for rule in _list(tree.get("rule"), "rule")]
    order = [rule.get("priority", 0) for rule in rules]
    if not all(isinstance(priority, int) for priority in order):
        raise UnreadableSettingsError("has a priority that is no number")
    for number in sorted(range(len(rules)), key=lambda each: (order[each], -each)):
        rule = rules[number]
        decision = rule.get("decision")
        if decision not in outcomes:
            raise UnreadableSettingsError(f"has a decision that byleave does not know: {quoted(str(decision))}")
        names = rule.get("toolName", "*")
        _texts(names if isinstance(names, list) else [names], "toolName")
        _texts([rule.get("mcpName", "")], "mcpName")
        why = str(rule.get("denyMessage") or rule.get("deny_message") or "")
        for pattern in gemini_rule_patterns(rule):
            kind = _kind(pattern.wide or pattern.narrow or {})  # an exception is about the same kind of action
            yield PermissionEntry(outcomes[decision], pattern, source, ("rule", number), f"policies {kind}", why)
    for number, checker in enumerate(_list(tree.get("safety_checker"), "safety_checker")):
        names = _table(checker, "safety_checker").get("toolName")
        why = "Gemini CLI runs a program of its own before the tool: it goes on doing so"
        yield _note(source, ("safety_checker", number), names, why)


def _kind(table: Mapping[str, Any]) -> str:
    """Return what kind of action a table is about."""
    for key in ("any", "all"):
        if key in table:
            return _kind(table[key][0])
    if "operation" in table:
        return str(table["operation"])
    return next((key for key in ("call", "path", "url") if key in table), "command")


def cursor_entries(source: SettingsSource) -> Iterator[PermissionEntry | SettingsNote]:
    """Yield the permissions of Cursor; denies count before allows."""
    tree = read_settings(source)
    permissions = _table(tree.get("permissions"), "permissions")
    for outcome in (ALLOW, DENY):
        for number, text in enumerate(_texts(permissions.get(outcome), f"permissions.{outcome}")):
            yield PermissionEntry(outcome, cursor_pattern(text, source.root), source, ("permissions", outcome, number))
    for number, text in enumerate(_list(tree.get("terminalAllowlist"), "terminalAllowlist")):
        if isinstance(text, str):
            pattern = command_pattern(text, text, prefix=True, wild="*?")
            yield PermissionEntry(ALLOW, pattern, source, ("terminalAllowlist", number))
    for number, text in enumerate(_list(tree.get("mcpAllowlist"), "mcpAllowlist")):
        if isinstance(text, str):
            yield PermissionEntry(ALLOW, cursor_call(text, text), source, ("mcpAllowlist", number))
    run = _table(tree.get("autoRun"), "autoRun")
    for key in ("allow_instructions", "block_instructions"):
        if key in run:
            yield _note(source, ("autoRun", key), run[key], "instructions in words are not rules: Cursor reads them")
    for key in ("approvalMode", "sandbox"):
        if key in tree:
            yield _note(source, (key,), tree[key], _MODE)


def opencode_entries(source: SettingsSource) -> Iterator[PermissionEntry | SettingsNote]:
    """The last match decides. What an agent's own section denies counts for all; what it allows counts for none."""
    tree = read_settings(source)
    yield from _opencode_permissions(tree.get("permission"), source, ("permission",))
    yield from _opencode_tools(tree.get("tools"), source, ("tools",))
    for section in ("agent", "mode"):
        for name, given in _table(tree.get(section), section).items():
            table = _table(given, f"{section}.{name}")
            at: At = (section, name)
            found = [
                *_opencode_permissions(table.get("permission"), source, (*at, "permission")),
                *_opencode_tools(table.get("tools"), source, (*at, "tools")),
            ]
            yield from (entry.replace(group="") for entry in found if entry.outcome != ALLOW)


def _opencode_tools(given: object, source: SettingsSource, at: At) -> Iterator[PermissionEntry]:
    """The older switches: false is a deny."""
    for name, enabled in _table(given, "tools").items():
        if enabled is not True:
            for each in _opencode_named(name):
                yield PermissionEntry(DENY, opencode_pattern(each, "*"), source, (*at, name))


def _opencode_permissions(given: object, source: SettingsSource, at: At) -> Iterator[PermissionEntry]:
    tools = {} if given is None else {"*": given} if isinstance(given, str) else _table(given, "permission")
    for tool, value in tools.items():
        patterns = {"*": value} if isinstance(value, str) else _table(value, f"permission.{tool}")
        for text, outcome in patterns.items():
            if outcome not in STRICTNESS:
                raise UnreadableSettingsError(f"has a permission that byleave does not know: {quoted(str(outcome))}")
            where = at if isinstance(given, str) else (*at, tool) if isinstance(value, str) else (*at, tool, text)
            for each in _opencode_named(tool):
                group = f"{'.'.join(map(str, at))} {each}"
                yield PermissionEntry(str(outcome), opencode_pattern(each, text), source, where, group)


def _opencode_named(tool: str) -> tuple[str, ...]:
    """Return the tools that a key means: a key with `*` means those of opencode that it matches, and MCP tools."""
    if "*" not in tool and "?" not in tool:
        return (tool,)
    named = tuple(each for each in OPENCODE_TOOLS if text_matches(tool, each) and each != "external_directory")
    return (*named, tool)


READERS: Mapping[str, Callable[[SettingsSource], Iterator[PermissionEntry | SettingsNote]]] = {
    "claude-code": claude_code_entries,
    "codex": codex_entries,
    "gemini": gemini_entries,
    "cursor": cursor_entries,
    "opencode": opencode_entries,
}


def _note(source: SettingsSource, at: At, value: object, why: str) -> SettingsNote:
    spelled = value if isinstance(value, str) else repr(value)
    return SettingsNote(f"{'.'.join(map(str, at))} = {spelled[:200]}", why, source, at)


def _table(value: object, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableSettingsError(f"has {shown(name)} in a form that byleave does not know")
    return value


def _list(value: object, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnreadableSettingsError(f"has {shown(name)} in a form that byleave does not know")
    return value


def _texts(value: object, name: str) -> list[str]:
    found = _list(value, name)
    if not all(isinstance(each, str) for each in found):
        raise UnreadableSettingsError(f"has {shown(name)} in a form that byleave does not know")
    return found
