"""Turn the permissions of an agent into the text of a configuration file, and say what is not carried over.

The denies stand first, then the asks, then the allows, so that the text never allows what the agent asks about or
denies. How single permissions become rules: `agent_permissions`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import is_under
from byleave.core.suggest import toml_key, toml_string
from byleave.policy.agent_permissions import AgentPermissions, LostPermission, permissions_of
from byleave.policy.agent_settings import (
    LOCAL,
    USER,
    SettingsSource,
    UnreadableSettingsError,
    read_settings,
    settings_sources,
)
from byleave.policy.dirs import real_path
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

_LARGEST_INDEX = 64 << 20  # bytes
_PLAIN_VERSIONS = (b"\0\0\0\2", b"\0\0\0\3")  # of an index that spells every name out
_CODEX_KEYS = ("approval_policy", "sandbox_mode")


class ImportedPermissions(Struct, frozen=True):
    """The rules as TOML, how many there are, and what was lost. `unreadable` are sentences about whole files."""

    toml: str
    carried: int
    lost: tuple[LostPermission, ...]
    unreadable: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()  # a line for each rule

    @property
    def tree(self) -> dict[str, Any]:
        """The result for programs."""
        lost = [{"source": each.source, "text": each.text, "why": each.why} for each in self.lost]
        return {"toml": self.toml, "carried": self.carried, "lost": lost}


def import_permissions(agent: str, home: str, root: str) -> ImportedPermissions:
    """Return what the user has said to an agent: in all projects, and the allows that hold in this one.

    What the project's own files deny or ask is left out: it holds in the project, where the agent's hook reads it. A
    personal file that may have come with the project is left out, too.
    """
    sources = settings_sources(agent, home, root)
    of_user = permissions_of(agent, [each for each in sources if each.scope == USER], root)
    personal = [each for each in sources if each.scope == LOCAL and os.path.lexists(each.path)]
    of_project = permissions_of(agent, [each for each in personal if _is_untracked(root, each.path)], root)
    strange = [
        LostPermission(shown(each.path), "", "it may have come with the project: name the file to import it")
        for each in personal
        if not _is_untracked(root, each.path)
    ]
    found = AgentPermissions(
        of_user.deny,
        of_user.ask,
        (*of_user.allow, *of_project.allow),
        (*of_user.unreadable, *of_project.unreadable),
        (*of_user.lost, *of_project.lost, *strange),
    )
    config = SettingsSource(USER, os.path.join(home, ".codex/config.toml"))
    return _imported(found, _codex_modes(config) if agent == "codex" else ())


def import_files(agent: str, files: Sequence[str], root: str) -> ImportedPermissions:
    """Return what these files say, as if they were the user's own."""
    paths = [os.path.abspath(file) for file in files]
    modes = [
        each
        for path in paths
        if agent == "codex" and path.endswith(".toml")
        for each in _codex_modes(_named(path, root))
    ]
    rest = [path for path in paths if agent != "codex" or not path.endswith(".toml")]
    return _imported(permissions_of(agent, [_named(path, root) for path in rest], root), modes)


def _named(path: str, root: str) -> SettingsSource:
    """What lies in the workspace holds in the workspace."""
    directory = os.path.dirname(path)
    start = os.path.dirname(directory) if directory.endswith("/.claude") else directory
    return SettingsSource(LOCAL if is_under(real_path(path), root) else USER, path, start, root)


def _is_untracked(root: str, path: str) -> bool:
    """Whether a file of the workspace is known not to have come with it: a plain index of git does not name it."""
    try:
        with open(os.path.join(root, ".git", "index"), "rb") as file:
            index = file.read(_LARGEST_INDEX + 1)
        shared = any(name.startswith("sharedindex.") for name in os.listdir(os.path.join(root, ".git")))
    except OSError:
        return False
    spelled = index[:4] == b"DIRC" and index[4:8] in _PLAIN_VERSIONS and len(index) <= _LARGEST_INDEX and not shared
    return spelled and os.fsencode(os.path.relpath(path, root)) not in index


def _codex_modes(source: SettingsSource) -> Iterator[LostPermission]:
    try:
        tree = read_settings(source)
    except UnreadableSettingsError as error:
        yield LostPermission(shown(source.path), "", str(error))
        return
    for key in _CODEX_KEYS:
        if key in tree:
            why = "Codex goes by it before any rule: byleave needs your approval for what no rule allows"
            yield LostPermission(shown(source.path), f"{key} = {_value(tree[key])}", why)


def _imported(found: AgentPermissions, also: Iterable[LostPermission]) -> ImportedPermissions:
    rules = [*found.deny, *found.ask, *found.allow]
    unreadable = [LostPermission(each.partition(" ")[0], "", each.partition(" ")[2]) for each in found.unreadable]
    return ImportedPermissions(
        "\n".join([rule_text(rule) for rule in rules]),
        len(rules),
        (*unreadable, *found.lost, *also),
        found.unreadable,
        tuple(_summary(rule) for rule in rules),
    )


def _summary(rule: dict[str, Any]) -> str:
    word = next(each for each in ("allow", "ask", "deny") if each in rule)
    return f"{word:<5}  {_about(rule[word])}"


def _about(table: dict[str, Any]) -> str:
    """Return what a table is about in a few words; of several alternatives the first."""
    for key in ("any", "all"):
        if key in table:
            return _about(table[key][0]) + (" or ..." if key == "any" and len(table[key]) > 2 else "")
    if "command" in table:
        return " ".join([table["command"], *table.get("args", [table.get("subcommand", "**")])])
    if "path" in table:
        return f"{', '.join(table['ops'])} {table['path'][0]}"
    known = next((key for key in ("text", "url", "call", "operation") if key in table), None)
    return "any command" if known is None else _value(table[known])


def rule_text(rule: dict[str, Any]) -> str:
    """Return a rule as a table of a configuration file."""
    return "".join(["[[rules]]\n", *[f"{toml_key(key)} = {_value(value)}\n" for key, value in rule.items()]])


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{toml_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    return shown(str(value))
