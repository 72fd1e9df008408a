"""The permissions that an agent already has in its own settings, as tables like one item of `[[rules]]`.

`deny` and `ask` are at least as strict as the agent's own matching: a hook reads them at every call, as a layer that
only tightens. `allow` is at most as wide. What cannot be expressed is carried as a stricter match, or dropped from the
allows and named in `lost`. `unreadable` says which settings could not be read at all: the agent may deny there what is
about to run.

Where the settings are and how they are read: `agent_settings`. How one pattern becomes a match: `permission_patterns`.

Start at `read_permissions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.policy.agent_settings import (
    LOCAL,
    MANAGED,
    PROJECT,
    USER,
    SettingsSource,
    UnreadableSettingsError,
    read_prefix_rules,
    read_settings,
    settings_sources,
)
from byleave.policy.permission_patterns import (
    Pattern,
    claude_pattern,
    cursor_pattern,
    gemini_pattern,
    gemini_rule_patterns,
    opencode_pattern,
    prefix_pattern,
)
from byleave.record import Record
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    RuleTree = dict[str, Any]

ALLOW, ASK, DENY = "allow", "ask", "deny"
_STRICTNESS = (ALLOW, ASK, DENY)
_TITLES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "cursor": "Cursor",
    "opencode": "opencode",
}
READABLE = tuple(_TITLES)


class LostPermission(Record):
    """A permission that is not carried over, or not as it was: where it stands, its text, and why."""

    source: str
    text: str
    why: str


class AgentPermissions(Record):
    """What an agent's own settings say. The tables are items of `rules`; `unreadable` are sentences."""

    deny: tuple[RuleTree, ...] = ()
    ask: tuple[RuleTree, ...] = ()
    allow: tuple[RuleTree, ...] = ()
    unreadable: tuple[str, ...] = ()
    lost: tuple[LostPermission, ...] = ()


class _Entry(Record):
    """One permission of a settings file. A later entry with the same `group` overrules it; "" is never overruled."""

    outcome: str
    pattern: Pattern
    source: SettingsSource
    group: str = ""
    why: str = ""


def read_permissions(agent: str, home: str, root: str) -> AgentPermissions:
    """Return what the settings of an agent say for a user's home and a workspace.

    The allows are those of the user, of the machine, and of the user's own settings for this project, which then hold
    only in it: a file that came with a project allows nothing.
    """
    return permissions_of(agent, settings_sources(agent, home, root), root)


def permissions_of(agent: str, sources: Sequence[SettingsSource], root: str) -> AgentPermissions:
    """Return what these settings files say together; those that do not exist say nothing."""
    reader = _READERS.get(agent)
    if reader is None:
        return AgentPermissions()
    entries: list[_Entry] = []
    unreadable: list[str] = []
    for source in sources:
        found: list[_Entry] = []
        try:
            found.extend(reader(source))  # what stands before an error stays
        except UnreadableSettingsError as error:
            unreadable.append(f"{shown(source.path)} {error}")
            found = [entry for entry in found if entry.outcome != ALLOW]
        entries += found
    tables: dict[str, list[RuleTree]] = {DENY: [], ASK: [], ALLOW: []}
    lost: list[LostPermission] = []
    for number, entry in enumerate(entries):
        later = [each for each in entries[number + 1 :] if entry.group and _overrules(each, entry)]
        made, problems = _rule(agent, entry, later, root)
        if made is not None and made not in tables[entry.outcome]:
            tables[entry.outcome].append(made)
        lost += [LostPermission(shown(entry.source.path), entry.pattern.text, why) for why in problems]
    return AgentPermissions(
        tuple(tables[DENY]), tuple(tables[ASK]), tuple(tables[ALLOW]), tuple(unreadable), tuple(lost)
    )


def _overrules(later: _Entry, entry: _Entry) -> bool:
    """Whether a later entry makes an exception to a stricter one that stands in the same file."""
    if later.group != entry.group or later.source != entry.source or later.pattern.narrow is None:
        return False
    return _STRICTNESS.index(later.outcome) < _STRICTNESS.index(entry.outcome)


def _rule(agent: str, entry: _Entry, later: Sequence[_Entry], root: str) -> tuple[RuleTree | None, tuple[str, ...]]:
    """Return the rule of an entry, None if there is none, and what of the entry is not carried over."""
    pattern = entry.pattern
    if entry.outcome == ALLOW:
        if pattern.narrow is None:
            return None, (pattern.lost or "byleave has no such rule: it needs approval",)
        table, why = _confined_to(entry.source, pattern.narrow, root)
        if table is None:
            return None, (why,)
        return {ALLOW: {**table, "agent": agent}}, (pattern.lost,) if pattern.lost else ()
    if pattern.wide is None:
        return None, (pattern.lost or f"byleave has no such rule: {_TITLES[agent]} enforces it itself",)
    exceptions = [each.pattern.narrow for each in later if each.pattern.narrow is not None]
    table = {**pattern.wide, "agent": agent}
    if exceptions:
        excepted: RuleTree = exceptions[0] if len(exceptions) == 1 else {"any": exceptions}
        table = {"all": [pattern.wide, {"not": excepted}], "agent": agent}
    verb = "deny it" if entry.outcome == DENY else "ask about it"
    why = entry.why or f"the settings of {_TITLES[agent]} {verb}: {quoted(pattern.text)}"
    return {entry.outcome: table, "why": why}, (pattern.stricter,) if pattern.stricter else ()


def _confined_to(source: SettingsSource, table: RuleTree, root: str) -> tuple[RuleTree | None, str]:
    """Return an allow as far as its file may give it: what the user said for one project holds in that project."""
    if source.scope in (USER, MANAGED):
        return table, ""
    if source.scope == PROJECT:
        return None, "it came with the project: write it into the project's own byleave.toml"
    inner = table.get("any", [table])
    if all("command" in each for each in inner):
        placed = [{**each, "within": root} for each in inner]
        return placed[0] if len(placed) == 1 else {"any": placed}, ""
    if all("path" in each for each in inner):
        rooted = [{**each, "path": [_rooted(path, root) for path in each["path"]]} for each in inner]
        return rooted[0] if len(rooted) == 1 else {"any": rooted}, ""
    return None, "it holds for one project only, and a rule of yours would hold in all of them"


def _rooted(path: str, root: str) -> str:
    return path if path.startswith(("/", "~")) else f"{root.rstrip('/')}/{path}"


def _claude_code(source: SettingsSource) -> Iterator[_Entry]:
    permissions = _table(read_settings(source).get("permissions"), "permissions")
    for outcome in _STRICTNESS:
        for text in _texts(permissions.get(outcome), f"permissions.{outcome}"):
            yield _Entry(outcome, claude_pattern(text, source.directory, source.root), source)


def _codex(source: SettingsSource) -> Iterator[_Entry]:
    """The strictest of several rules that match decides, so none overrules another."""
    outcomes = {"allow": ALLOW, "prompt": ASK, "forbidden": DENY}
    for rule in read_prefix_rules(source):
        if rule.decision not in outcomes:
            raise UnreadableSettingsError(f"has a decision that byleave does not know: {quoted(rule.decision)}")
        yield _Entry(outcomes[rule.decision], prefix_pattern(rule.pattern), source, why=rule.why)


def _gemini(source: SettingsSource) -> Iterator[_Entry]:
    tree = read_settings(source)
    if source.path.endswith(".toml"):
        yield from _gemini_policies(tree, source)
        return
    tools = _table(tree.get("tools"), "tools")
    for outcome, names in ((ALLOW, ("allowed", "allowedTools")), (DENY, ("exclude", "excludeTools"))):
        for text in _texts(tools.get(names[0], tree.get(names[1])), f"tools.{names[0]}"):
            yield _Entry(outcome, gemini_pattern(text), source)
    core = _texts(tools.get("core", tree.get("coreTools")), "tools.core")
    kept = [gemini_pattern(text) for text in core if text.startswith(("run_shell_command(", "ShellTool("))]
    if kept and not {"run_shell_command", "ShellTool"} & set(core):
        tables = [each.narrow for each in kept if each.narrow is not None]
        inner = {"not": {"any": tables}} if tables else {}
        rest = Pattern("tools.core", {"all": [{"any_command": True}, inner]} if inner else {"any_command": True})
        yield _Entry(DENY, rest, source)


def _gemini_policies(tree: Mapping[str, Any], source: SettingsSource) -> Iterator[_Entry]:
    """A rule of a higher priority overrules one of a lower."""
    outcomes = {"allow": ALLOW, "ask_user": ASK, "deny": DENY}
    rules = tree.get("rule", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise UnreadableSettingsError("has a `rule` that is no list of tables")
    order = [rule.get("priority", 0) for rule in rules]
    if not all(isinstance(priority, int) for priority in order):
        raise UnreadableSettingsError("has a priority that is no number")
    for rule in sorted(rules, key=lambda each: int(each.get("priority", 0))):
        decision = rule.get("decision")
        if decision not in outcomes:
            raise UnreadableSettingsError(f"has a decision that byleave does not know: {quoted(str(decision))}")
        for pattern in gemini_rule_patterns(rule):
            yield _Entry(outcomes[decision], pattern, source, "policies", str(rule.get("denyMessage") or ""))


def _cursor(source: SettingsSource) -> Iterator[_Entry]:
    permissions = _table(read_settings(source).get("permissions"), "permissions")
    for outcome in (ALLOW, DENY):
        for text in _texts(permissions.get(outcome), f"permissions.{outcome}"):
            yield _Entry(outcome, cursor_pattern(text, source.root), source)


def _opencode(source: SettingsSource) -> Iterator[_Entry]:
    """The last match decides. What an agent's own section denies counts for all; what it allows counts for none."""
    tree = read_settings(source)
    yield from _opencode_permissions(tree.get("permission"), source, "")
    for name, enabled in _table(tree.get("tools"), "tools").items():
        if enabled is False:
            yield _Entry(DENY, opencode_pattern(name, "*"), source)
    for section in ("agent", "mode"):
        for name, table in _table(tree.get(section), section).items():
            inner = _table(table, f"{section}.{name}").get("permission")
            yield from (
                entry.replace(group="")
                for entry in _opencode_permissions(inner, source, name)
                if entry.outcome != ALLOW
            )


def _opencode_permissions(given: object, source: SettingsSource, section: str) -> Iterator[_Entry]:
    if given is None:
        return
    tools = {"*": given} if isinstance(given, str) else _table(given, "permission")
    for tool, value in tools.items():
        patterns = {"*": value} if isinstance(value, str) else _table(value, f"permission.{tool}")
        for text, outcome in patterns.items():
            if outcome not in _STRICTNESS:
                raise UnreadableSettingsError(f"has a permission that byleave does not know: {quoted(str(outcome))}")
            for each in ("bash", "edit", "read", "webfetch") if tool == "*" else (tool,):
                yield _Entry(str(outcome), opencode_pattern(each, text), source, f"{section} {each}")


_READERS: Mapping[str, Callable[[SettingsSource], Iterator[_Entry]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini": _gemini,
    "cursor": _cursor,
    "opencode": _opencode,
}


def _table(value: object, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableSettingsError(f"has {shown(name)} in a form that byleave does not know")
    return value


def _texts(value: object, name: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UnreadableSettingsError(f"has {shown(name)} in a form that byleave does not know")
    return value


__all__ = [
    "LOCAL",
    "READABLE",
    "AgentPermissions",
    "LostPermission",
    "permissions_of",
    "read_permissions",
]
