"""The rules of agent-mcp-gateway as `[agents]`, and its servers as `[servers]`.

The gateway's rules and byleave's `agents` decide alike: servers first, denies before allows, a server without a list
means all of its tools. Where names differ in meaning they are spelled so that they mean the same: the gateway takes
the name of an agent, and of a server that has a list of tools, letter by letter, and a tool without `*`, too. Values of
variables and headers are not carried over, since they may be secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.patterns import unclosed
from byleave.core.suggest import toml_key
from byleave.errors import ConfigErrors
from byleave.policy.agent_permissions import LostPermission
from byleave.policy.agent_settings import UnreadableSettingsError, read_settings_text
from byleave.policy.imported_text import ImportedPermissions, comment, read_each, table_text
from byleave.policy.mcp_json import SERVERS, parse_json, read_foreign
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.policy.mcp_json import JsonSpans
    from byleave.policy.permission_lists import At

_ALL_TOOLS = (
    "every tool of an allowed server without a list is allowed, as the gateway's specification says; version 0.1.5 and "
    "older allowed none"
)
_UNNAMED = (
    "here the agent default stands for calls without a name, which deny_on_missing_agent denies there: give the agent "
    "another name"
)
_NO_VALUE = "values of variables and headers may be secrets: put it into your environment"


def import_gateway(paths: Sequence[str]) -> ImportedPermissions:
    """Return what rules files and server files of the gateway say."""
    reader = _GatewayReader()
    unreadable, lost = read_each(paths, reader.read)
    if unreadable:
        return ImportedPermissions("", 0, (*lost, *reader.lost), unreadable)
    return ImportedPermissions(
        "\n".join(reader.pieces), reader.carried, tuple(reader.lost), (), tuple(reader.summaries)
    )


class _GatewayReader:
    """Gathers what several files say; an agent or a server that two files name is refused."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.summaries: list[str] = []
        self.lost: list[LostPermission] = []
        self.carried = 0
        self._named: set[tuple[str, str]] = set()

    def read(self, path: str) -> None:
        text = read_settings_text(path)
        if text is None:
            raise UnreadableSettingsError("is not there")
        try:
            tree, places = parse_json(text, path)
            if isinstance(tree, dict) and SERVERS in tree:
                self._servers(text, path, places)
                return
        except ConfigErrors as errors:
            raise UnreadableSettingsError(f"cannot be read: {errors.exceptions[0]}") from None
        rules = _table(tree, "the file")
        defaults = _table(rules.get("defaults", {}), "defaults")
        agents = _table(rules.get("agents", {}), "agents")
        if "default" in agents and defaults.get("deny_on_missing_agent", True) is not False:
            self._lose(path, places, ("agents", "default"), "default", _UNNAMED)
            agents = {name: agent for name, agent in agents.items() if name != "default"}
        self._agents(agents, path, places)
        self._defaults(defaults, path, places)
        for key in [key for key in rules if key not in ("agents", "defaults", "$schema")]:
            self._lose(path, places, (key,), key, "byleave does not know what it means")

    def _lose(self, path: str, places: JsonSpans, at: At, text: str, why: str) -> None:
        self.lost.append(LostPermission(f"{shown(path)}:{places.line(at)}", text, why))

    def _agents(self, agents: dict[str, Any], path: str, places: JsonSpans) -> None:
        if agents:
            self.pieces.append(comment(f"From {shown(path)}:"))
        implied = False
        for name, given in agents.items():
            agent = _table(given, f"agents.{name}")
            at: At = ("agents", name)
            self._once("agent", name)
            made: dict[str, Any] = {}
            for side in ("allow", "deny"):
                reach = _table(agent.get(side, {}), f"{name}.{side}")
                unknown = sorted(reach.keys() - {"servers", "tools"})
                if unknown and side == "deny":
                    raise UnreadableSettingsError(f"denies {shown(unknown[0])}, which byleave does not know")
                for key in unknown:
                    self._lose(path, places, (*at, side, key), f"{name} {side} {key}", "byleave does not know it")
                made[side] = self._reach(reach, f"{name}.{side}", denies=side == "deny")
            for key in [key for key in agent if key not in ("allow", "deny")]:
                self._lose(path, places, (*at, key), f"{name} {key}", "it says nothing of what the agent may reach")
            tools = _table(_table(agent.get("allow", {}), "allow").get("tools", {}), "tools")
            servers = _names(_table(agent.get("allow", {}), "allow").get("servers", []), "servers")
            implied = implied or any(not tools.get(server) for server in servers)
            self.pieces.append(table_text(f"[agents.{toml_key(_literal(name))}]", made))
            self.summaries.append(f"agent  {shown(name)}")
        if implied:
            self._lose(path, places, ("agents",), "allow.servers", _ALL_TOOLS)

    def _reach(self, reach: dict[str, Any], name: str, *, denies: bool) -> dict[str, Any]:
        servers = _names(reach.get("servers", []), f"{name}.servers")
        spelled = [_glob(server) for server in servers]
        if denies:  # a name with a bracket is also compared letter by letter
            spelled += [_literal(server) for server in servers if "[" in server]
        tools = _table(reach.get("tools", {}), f"{name}.tools")
        lists = {_literal(server): _names(given, f"{name}.tools.{server}") for server, given in tools.items()}
        made: dict[str, Any] = {"servers": spelled}
        kept = {
            server: [_glob(tool) if "*" in tool else _literal(tool) for tool in names]
            for server, names in lists.items()
        }
        made["tools"] = {server: names for server, names in kept.items() if names}  # an empty list says nothing there
        self.carried += len(spelled) + sum(len(names) for names in made["tools"].values())
        return made

    def _defaults(self, defaults: dict[str, Any], path: str, places: JsonSpans) -> None:
        for key, value in defaults.items():
            if key != "deny_on_missing_agent":
                self._lose(path, places, ("defaults", key), f"defaults.{key}", "byleave does not know what it means")
            elif not isinstance(value, bool):
                raise UnreadableSettingsError("has a deny_on_missing_agent that is neither true nor false")
            else:
                self._once("defaults", key)
                self.pieces.append(table_text("[defaults]", {key: value}))
                self.summaries.append(f"defaults  {key} = {str(value).lower()}")
                self.carried += 1

    def _servers(self, text: str, path: str, places: JsonSpans) -> None:
        tree, _, left_out = read_foreign(text.encode(), path)
        for sentence in left_out:
            self.lost.append(LostPermission(shown(path), "", sentence.removeprefix(f"{shown(path)}: ")))
        if tree.get("servers"):
            self.pieces.append(comment(f"From {shown(path)}:"))
        for name, server in tree["servers"].items():
            self._once("server", name)
            made = {key: value for key, value in server.items() if key not in ("env", "headers", "args")}
            if "command" in made:
                made["command"] = [*made["command"], *server.get("args", [])]
            for key in ("env", "headers"):
                for each, value in server.get(key, {}).items():
                    if "${" not in value:
                        self._lose(path, places, (SERVERS, name, key, each), f"{name} {key} {each}", _NO_VALUE)
            made.update(
                {
                    key: {each: value if "${" in value else f"${{{each}}}" for each, value in server[key].items()}
                    for key in ("env",)
                    if server.get(key)
                }
            )
            headers = {each: value for each, value in server.get("headers", {}).items() if "${" in value}
            made.update({"headers": headers} if headers else {})
            self.pieces.append(table_text(f"[servers.{toml_key(name)}]", made))
            self.summaries.append(f"server  {shown(name)}")
            self.carried += 1

    def _once(self, kind: str, name: str) -> None:
        if (kind, name) in self._named:
            raise UnreadableSettingsError(f"names the {kind} {shown(name)}, which another file names as well")
        self._named.add((kind, name))


def _literal(name: str) -> str:
    """Return a pattern that matches a name letter by letter."""
    return "".join([f"[{letter}]" if letter in "*?[" else letter for letter in name])


def _glob(pattern: str) -> str:
    """Return a pattern with the same meaning; a bracket that is not closed is a letter in the gateway."""
    return pattern if not unclosed(pattern) else pattern.replace("[", "[[]")


def _table(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableSettingsError(f"has {shown(name)} in a form that byleave does not know")
    return value


def _names(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise UnreadableSettingsError(f"has {shown(name)} in a form that byleave does not know")
    return value
