"""The permissions that an agent already has in its own settings, as tables like one item of `[[rules]]`.

`deny` and `ask` are at least as strict as the agent's own matching: a hook reads them at every call, as a layer that
only tightens. `allow` is at most as wide. What cannot be expressed is carried as a stricter match, or dropped from the
allows and named in `lost`. `unreadable` says which settings could not be read at all: the agent may deny there what is
about to run.

A hook's cold path: no `json`, no `re`; `tomllib` only where Gemini CLI has policy files. Where the settings are and how
they are read: `agent_settings`. The entries of each agent's files: `permission_lists`.

Start at `read_permissions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.policy.agent_settings import (
    LOCAL,
    MANAGED,
    PROJECT,
    USER,
    SettingsSource,
    UnreadableSettingsError,
    settings_sources,
)
from byleave.policy.permission_lists import ALLOW, ASK, DENY, READERS, STRICTNESS, PermissionEntry, SettingsNote
from byleave.record import Record
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from byleave.policy.permission_lists import At

    RuleTree = dict[str, Any]

_TITLES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "cursor": "Cursor",
    "opencode": "opencode",
}
READABLE = tuple(_TITLES)
_MOST_EXCEPTIONS = 64  # to one entry; further ones are left out, which is stricter


class LostPermission(Record):
    """A permission that is not carried over, or not as it was: where it stands, its text, and why."""

    source: str
    text: str
    why: str
    at: At = ()


class CarriedRule(Record):
    """A rule, and the entry of a settings file that it comes from."""

    outcome: str
    table: RuleTree
    source: str
    at: At = ()


class AgentPermissions(Record):
    """What an agent's own settings say. The tables are items of `rules`; `unreadable` are sentences."""

    rules: tuple[CarriedRule, ...] = ()
    unreadable: tuple[str, ...] = ()
    lost: tuple[LostPermission, ...] = ()

    @property
    def deny(self) -> tuple[RuleTree, ...]:
        return tuple([rule.table for rule in self.rules if rule.outcome == DENY])

    @property
    def ask(self) -> tuple[RuleTree, ...]:
        return tuple([rule.table for rule in self.rules if rule.outcome == ASK])

    @property
    def allow(self) -> tuple[RuleTree, ...]:
        return tuple([rule.table for rule in self.rules if rule.outcome == ALLOW])


def read_permissions(agent: str, home: str, root: str) -> AgentPermissions:
    """Return what the settings of an agent say for a user's home and a workspace.

    The allows are those of the user, of the machine, and of the user's own settings for this project, which then hold
    only in it: a file that came with a project allows nothing.
    """
    return permissions_of(agent, settings_sources(agent, home, root), root)


def permissions_of(agent: str, sources: Sequence[SettingsSource], root: str) -> AgentPermissions:
    """Return what these settings files say together; those that do not exist say nothing."""
    if agent not in READERS:
        return AgentPermissions()
    entries: list[PermissionEntry] = []
    notes: list[SettingsNote] = []
    unreadable: list[str] = []
    for source in sources:
        found: list[PermissionEntry] = []
        try:
            for each in READERS[agent](source):  # what stands before an error stays
                if isinstance(each, SettingsNote):
                    notes.append(each)
                else:
                    found.append(each)
        except UnreadableSettingsError as error:
            unreadable.append(f"{shown(source.path)} {error}")
            found = [entry for entry in found if entry.outcome != ALLOW]
        entries += found
    closed = any(note.closes for note in notes)
    rules: dict[str, CarriedRule] = {}
    lost = [LostPermission(note.source.path, note.text, note.why, note.at) for note in notes]
    for entry, later in _with_exceptions(entries):
        made, problems = _rule(agent, entry, later, root)
        if closed and entry.outcome == ALLOW and entry.source.scope != MANAGED:
            made, problems = None, ("the machine's own settings do not let it hold",)
        if made is not None:
            rules.setdefault(repr(made), CarriedRule(entry.outcome, made, entry.source.path, entry.at))
        lost += [LostPermission(entry.source.path, entry.pattern.text, why, entry.at) for why in problems]
    return AgentPermissions(tuple(rules.values()), tuple(unreadable), tuple(lost))


def _with_exceptions(entries: Sequence[PermissionEntry]) -> list[tuple[PermissionEntry, list[PermissionEntry]]]:
    """Return each entry with the later ones of its group that make an exception to it, in the same file."""
    behind: dict[tuple[str, SettingsSource], list[PermissionEntry]] = {}
    found: list[tuple[PermissionEntry, list[PermissionEntry]]] = []
    for entry in reversed(entries):
        later: list[PermissionEntry] = []
        if entry.group:
            others = behind.setdefault((entry.group, entry.source), [])
            strict = STRICTNESS.index(entry.outcome)
            later = [each for each in reversed(others) if STRICTNESS.index(each.outcome) < strict][:_MOST_EXCEPTIONS]
            if entry.pattern.narrow is not None and entry.outcome != DENY:
                others.append(entry)
        found.append((entry, later))
    return found[::-1]


def _rule(
    agent: str, entry: PermissionEntry, later: Sequence[PermissionEntry], root: str
) -> tuple[RuleTree | None, tuple[str, ...]]:
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


__all__ = [
    "LOCAL",
    "READABLE",
    "AgentPermissions",
    "CarriedRule",
    "LostPermission",
    "permissions_of",
    "read_permissions",
]
