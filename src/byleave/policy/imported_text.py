"""The text of imported permissions: TOML with comments, grouped by the files that it comes from, and their lines."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.suggest import toml_key, toml_string
from byleave.errors import ByleaveError, ConfigErrors
from byleave.policy.agent_permissions import LostPermission
from byleave.policy.agent_settings import UnreadableSettingsError, read_settings_text
from byleave.policy.mcp_json import parse_json
from byleave.policy.toml_spans import locate
from byleave.protocol.json_text import without_comments
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from byleave.policy.agent_permissions import AgentPermissions
    from byleave.policy.permission_lists import At

WIDTH = 80
_OUTCOMES = (("deny", "Denied"), ("ask", "Asked about"), ("allow", "Allowed"))


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


class SettingsLines:
    """Says on which line of its file an entry stands. What cannot be located has the file's name alone."""

    def __init__(self) -> None:
        self._files: dict[str, Callable[[At], int] | None] = {}

    def place(self, path: str, at: At) -> str:
        """Return `file:line`, or the file where the line is not known."""
        if len(at) == 1 and isinstance(at[0], int):
            return f"{shown(path)}:{at[0]}"
        if path not in self._files:
            self._files[path] = self._locate(path)
        find = self._files[path]
        return shown(path) if find is None or not at else f"{shown(path)}:{find(at)}"

    @staticmethod
    def _locate(path: str) -> Callable[[At], int] | None:
        try:
            text = read_settings_text(path) or ""
            if path.endswith(".toml"):
                return locate(text).line
            return parse_json(without_comments(text), path)[1].line
        except (UnreadableSettingsError, ConfigErrors, ByleaveError, ValueError, RecursionError):
            return None  # the reader of the file has said what is wrong with it


def imported_rules(found: AgentPermissions) -> ImportedPermissions:
    """Return the rules of an agent as text: denies first, then asks, then allows, each by file."""
    lines = SettingsLines()
    pieces: list[str] = []
    summaries: list[str] = []
    for outcome, title in _OUTCOMES:
        heading = ""
        for rule in [rule for rule in found.rules if rule.outcome == outcome]:
            begin = "" if heading == (heading := f"{title} in {shown(rule.source)}:") else comment(heading)
            pieces.append(f"{begin}{rule_text(rule.table)}")
            summaries.append(f"{outcome:<5}  {_about(rule.table[outcome])}")
    placed = [LostPermission(lines.place(each.source, each.at), each.text, each.why) for each in found.lost]
    files = list(dict.fromkeys(each.source for each in found.lost))
    order = {each: (files.index(old.source), _line(each)) for each, old in zip(placed, found.lost, strict=True)}
    lost = sorted(dict.fromkeys(placed), key=order.__getitem__)
    return ImportedPermissions(
        "\n".join(pieces),
        len(found.rules),
        (*unread_files(found.unreadable), *lost),
        found.unreadable,
        tuple(summaries),
    )


def read_each(paths: Iterable[str], read: Callable[[str], None]) -> tuple[tuple[str, ...], list[LostPermission]]:
    """Read every file; return the sentences about those that cannot be read, and the same as what is lost."""
    unreadable: list[str] = []
    for path in paths:
        try:
            read(path)
        except UnreadableSettingsError as error:
            unreadable.append(f"{shown(path)} {error}")
    return tuple(unreadable), unread_files(unreadable)


def unread_files(sentences: Iterable[str]) -> list[LostPermission]:
    """Return what sentences say that begin with the name of a file."""
    return [LostPermission(each.partition(" ")[0], "", each.partition(" ")[2]) for each in sentences]


def _line(lost: LostPermission) -> int:
    number = lost.source.rpartition(":")[2]
    return int(number) if number.isdigit() else 0


def lost_comments(lost: Iterable[LostPermission]) -> Iterator[str]:
    """Yield comments that say line by line what is not carried over, by the place where it stands."""
    file = ""
    for each in lost:
        name, _, line = each.source.rpartition(":")
        source, number = (name, f"{line}: ") if line.isdigit() and name else (each.source, "")
        if source != file:
            file = source
            yield from comment(f"{source}:" if number or each.text else source, "  ").splitlines()
        text = f"{number}{shown(each.text)}".strip()
        if text:
            yield from comment(text, "    ").splitlines()
        yield from comment(shown(each.why), "      ").splitlines()


def comment(text: str, indent: str = "") -> str:
    """Return a text as comments, at most 80 columns wide where its words let it."""
    begin = f"# {indent}"
    wrapped = textwrap.wrap(text, WIDTH, initial_indent=begin, subsequent_indent=f"{begin}  ", break_on_hyphens=False)
    return "".join(f"{line}\n" for line in wrapped)


def _about(table: Mapping[str, Any]) -> str:
    """Return what a table is about in a few words; of several alternatives the first."""
    for key in ("any", "all"):
        if key in table:
            return _about(table[key][0]) + (" or ..." if key == "any" and len(table[key]) > 2 else "")
    if "command" in table:
        return " ".join([table["command"], *table.get("args", [table.get("subcommand", "**")])])
    if "path" in table:
        return f"{', '.join(table.get('ops', ('use',)))} {table['path'][0]}"
    known = next((key for key in ("text", "url", "call", "operation") if key in table), None)
    return "any command" if known is None else _flat(table[known])


def rule_text(rule: Mapping[str, Any]) -> str:
    """Return a rule as a table of a configuration file."""
    return table_text("[[rules]]", rule)


def table_text(header: str, table: Mapping[str, Any]) -> str:
    """Return a table of a configuration file; lists that are too long for a line get one line for each item."""
    pairs = [(toml_key(key), value) for key, value in table.items()]
    return "".join([f"{header}\n", *[f"{key} = {_value(value, WIDTH - len(key) - 3, 0)}\n" for key, value in pairs]])


def _value(value: Any, room: int, indent: int) -> str:
    flat = _flat(value)
    if len(flat) <= room:
        return flat
    if isinstance(value, dict):
        inner = ", ".join(
            f"{toml_key(key)} = {_value(each, room - len(key) - 5, indent)}" for key, each in value.items()
        )
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple) and value:
        pad = " " * (indent + 4)
        items = "".join(f"{pad}{_value(each, WIDTH - len(pad) - 1, indent + 4)},\n" for each in value)
        return f"[\n{items}{' ' * indent}]"
    return flat


def _flat(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{toml_key(key)} = {_flat(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_flat(each) for each in value)}]"
    return shown(str(value))
