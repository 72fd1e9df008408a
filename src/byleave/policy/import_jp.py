"""The tools of JP's configuration as `[tools]`: where each comes from, whether it runs, and what it may touch.

`access` means the same in both programs, so its rules are carried as they are. Of several files the later ones join
the earlier ones as JP joins them. What a tool without rules may touch is less here: nothing of the network, and a few
variables. What is not known in a rule closes the place that the rule is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.suggest import toml_key
from byleave.policy.agent_permissions import LostPermission
from byleave.policy.agent_settings import USER, SettingsSource, UnreadableSettingsError, read_settings
from byleave.policy.imported_text import ImportedPermissions, SettingsLines, comment, read_each, table_text
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.policy.permission_lists import At

_RUN = ("ask", "unattended", "edit", "skip")
_KEYS = {
    "fs": ("path", "external", "read", "write", "create", "update", "delete", "execute"),
    "net": ("host", "scheme", "port", "path_prefix", "allow"),
    "env": ("name", "read"),
}
_NAMES = {"fs": "path", "net": "host", "env": "name"}
_SWITCHES = {"on": True, "always": True, "off": False, "explicit": False}
_NOT_PERMISSIONS = ("options", "parameters", "questions")


def import_jp(paths: Sequence[str]) -> ImportedPermissions:
    """Return what configuration files of JP say of tools."""
    reader = _JpReader()
    unreadable, lost = read_each(paths, reader.read)
    if unreadable:
        return ImportedPermissions("", 0, (*lost, *reader.lost), unreadable)
    pieces = [piece for name in reader.tools for piece in reader.text(name)]
    heading = [comment(f"Tools of JP, from {', '.join(shown(path) for path in paths)}:")] if pieces else []
    summaries = tuple(f"tool  {shown(name)}" for name in reader.tools if reader.tools[name].get("source"))
    return ImportedPermissions("\n".join([*heading, *pieces]), len(pieces), tuple(reader.lost), (), summaries)


class _JpReader:
    """Joins the tools of several files, the weakest first."""

    def __init__(self) -> None:
        self.tools: dict[str, dict[str, Any]] = {}
        self.lost: list[LostPermission] = []
        self._defaults: dict[str, Any] = {}
        self._lines = SettingsLines()
        self._path = ""

    def read(self, path: str) -> None:
        """Take in one file."""
        if not path.endswith((".toml", ".json")):
            raise UnreadableSettingsError("is neither TOML nor JSON")
        self._path = path
        tree = read_settings(SettingsSource(USER, path))
        tools = _table(_table(tree.get("conversation", {}), "conversation").get("tools", {}), "conversation.tools")
        for name, given in tools.items():
            table = _table(given, f"conversation.tools.{name}")
            at: At = ("conversation", "tools", name)
            if name == "*":
                self._defaults.update({key: table[key] for key in ("run", "enable") if key in table})
                continue
            tool = self.tools.setdefault(name, {"access": {}})
            tool.update({key: table[key] for key in ("source", "enable", "run", "command") if key in table})
            for key in _NOT_PERMISSIONS:
                if key in table:
                    self._lose((*at, key), f"{name} {key}", "it says nothing of what the tool may touch")
            access = _table(table.get("access", {}), f"{name}.access")
            for kind, rules in access.items():
                if kind not in _KEYS:
                    raise UnreadableSettingsError(
                        f"has {shown(name)}.access.{shown(kind)}, which byleave does not know"
                    )
                tool["access"][kind] = self._joined(tool["access"].get(kind, []), rules, kind, (*at, "access", kind))

    def _lose(self, at: At, text: str, why: str) -> None:
        self.lost.append(LostPermission(self._lines.place(self._path, at), text, why))

    def _joined(self, before: list[dict[str, Any]], given: object, kind: str, at: At) -> list[dict[str, Any]]:
        strategy = "append"
        if isinstance(given, dict):
            strategy = given.get("strategy") or "append"
            given = given.get("value", [])
            at = (*at, "value")
        if not isinstance(given, list) or strategy not in ("append", "prepend", "replace"):
            raise UnreadableSettingsError(f"has {shown('.'.join(map(str, at)))} in a form that byleave does not know")
        made = [
            rule for number, each in enumerate(given) if (rule := self._rule(each, kind, (*at, number))) is not None
        ]
        if given and not made:  # the list closes what no rule of it opens
            made = [{"path": "."} if kind == "fs" else {"host": "localhost"} if kind == "net" else {"name": "*"}]
        if strategy == "replace":
            return made
        return [*made, *before] if strategy == "prepend" else [*before, *made]

    def _rule(self, given: object, kind: str, at: At) -> dict[str, Any] | None:
        """Return a rule with the keys that are known; one with others grants nothing."""
        table = {_NAMES[kind]: given} if isinstance(given, str) else _table(given, f"a rule of access.{kind}")
        name = table.get(_NAMES[kind])
        if not isinstance(name, str) or not name:
            raise UnreadableSettingsError(f"has a rule of access.{kind} without a {_NAMES[kind]}")
        unknown = sorted(table.keys() - set(_KEYS[kind]))
        text = f"{kind} {name}"
        if kind == "fs" and (name.startswith(("/", "~")) or ".." in name.split("/")):
            self._lose(at, text, "JP refuses a path that leaves the workspace: the rule grants nothing")
            return None
        if kind == "env" and "*" in name[:-1]:
            self._lose(at, text, "JP refuses a * inside a name: the rule grants nothing")
            return None
        odd = [key for key, value in table.items() if key in _KEYS[kind][1:] and not _fits(key, value)]
        if unknown or odd:
            self._lose(at, text, f"byleave does not know {shown((unknown or odd)[0])} here: the rule closes the place")
            kept = [key for key in ("scheme", "port", "path_prefix") if key in table and key not in odd]
            return {_NAMES[kind]: name, **({} if kind != "net" else {key: table[key] for key in kept})}
        return dict(table)

    def text(self, name: str) -> list[str]:
        """Return the tables of a tool."""
        tool = self.tools[name]
        at: At = ("conversation", "tools", name)
        source = tool.get("source")
        if not isinstance(source, str) or not source:
            self._lose(at, name, "no file says where the tool comes from")
            return []
        kind, _, rest = source.partition(".")
        server, _, renamed = rest.partition(".") if kind == "mcp" else ("", "", rest)
        if kind not in ("local", "builtin", "mcp") or (kind == "mcp" and not server):
            self._lose((*at, "source"), f"{name} {source}", "byleave does not know where it comes from")
            return []
        if renamed and renamed != name:
            self._lose((*at, "source"), f"{name} {source}", "a tool has one name here: it cannot be run by this one")
        made: dict[str, Any] = {"source": f"mcp.{server}" if kind == "mcp" else kind}
        made["enable"] = self._enabled(tool, name)
        run = tool.get("run", self._defaults.get("run", "ask"))
        made["run"] = run if run in _RUN else "ask"
        if run not in _RUN:
            self._lose((*at, "run"), f"{name} run", "byleave does not know it: it needs approval")
        made.update(self._command(tool, name) if kind == "local" else {})
        tables = [table_text(f"[tools.{toml_key(name)}]", made)]
        rules = {kind: each for kind, each in tool["access"].items() if each}
        if rules and kind != "local":
            self._lose((*at, "access"), f"{name} access", "JP refuses access of a tool that is not local")
            return tables
        for each, items in rules.items():
            tables += [table_text(f"[[tools.{toml_key(name)}.access.{each}]]", item) for item in items]
        return tables

    def _enabled(self, tool: dict[str, Any], name: str) -> bool:
        given = tool.get("enable", self._defaults.get("enable", True))
        state = given.get("state") if isinstance(given, dict) else given
        value = _SWITCHES.get(state) if isinstance(state, str) else state
        if isinstance(value, bool):
            return value
        self._lose(("conversation", "tools", name, "enable"), f"{name} enable", "byleave does not know it: it is off")
        return False

    def _command(self, tool: dict[str, Any], name: str) -> dict[str, Any]:
        given = tool.get("command")
        at: At = ("conversation", "tools", name, "command")
        if given is None:
            return {}
        words: str | list[str] | None = given if isinstance(given, str) else None
        if isinstance(given, dict) and given.get("shell") is not True:
            program, args = given.get("program"), given.get("args", [])
            if isinstance(program, str) and isinstance(args, list) and all(isinstance(each, str) for each in args):
                words = [program, *args]
        if not words or "{{" in str(words):
            self._lose(at, f"{name} command", "byleave runs neither a shell nor a template: write the command anew")
            return {}
        return {"command": words}


def _fits(key: str, value: object) -> bool:
    if key == "port":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) if key in ("scheme", "path_prefix") else isinstance(value, bool)


def _table(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableSettingsError(f"has {shown(name)} in a form that byleave does not know")
    return value
