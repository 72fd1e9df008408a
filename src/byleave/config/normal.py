"""One normal form for every configuration tree, whatever spelling it came in.

Pure: a checked tree in, a plain tree out, fit to be remembered. Every list is `{"strategy", "value"}`, a command is a
list of words, a size a number of bytes, `conversation.tools` has joined `tools`, the older `sandbox` tables of a tool
have become `access`, and every rule knows its line (`#line`) and its path in the file (`#at`): keys that no file can
spell.
"""

from byleave.core.limits import HOST_LIMITS
from byleave.errors import ConfigError
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Tree = dict[str, Any]
    At = tuple[str | int, ...]
    LineOf = Callable[[At], int]

LINE = "#line"
AT = "#at"
LEGACY = "#legacy"
ACCESS_LISTS = ("fs", "net", "env")
HOST_PATHS = ("read", "write")
STRATEGY = "append"
LONGEST_SHOWN = 60  # characters of a value worth repeating
RULES_STRATEGY = "prepend"  # the stronger layer's rules are asked first


def normal_tree(tree: "Mapping[str, Any]", line_of: "LineOf") -> "tuple[Tree, list[tuple[At, ConfigError]]]":
    """Return the normal form of a checked tree, and the problems that only show here, each with its path."""
    return _Normal(line_of).file(tree)


class _Normal:
    """Walks one file; `line_of` knows where a path of it is written."""

    def __init__(self, line_of: "LineOf") -> None:
        self._line_of = line_of
        self._problems: list[tuple[At, ConfigError]] = []

    def file(self, tree: "Mapping[str, Any]") -> "tuple[Tree, list[tuple[At, ConfigError]]]":
        tools = {name: self._tool(tool, ("tools", name)) for name, tool in tree.get("tools", {}).items()}
        for name, tool in tree.get("conversation", {}).get("tools", {}).items():
            at: At = ("conversation", "tools", name)
            if name in tools:
                self._problem(at, f"{quoted(name)} stands in tools and in conversation.tools", "keep one of the two")
            tools[name] = self._tool(tool, at)
        rest = {key: value for key, value in tree.items() if key not in ("tools", "conversation", "rules")}
        if "rules" in tree:
            rest["rules"] = self._rules(tree["rules"], ("rules",), strategy=RULES_STRATEGY)
        if "sandbox" in tree:
            rest["sandbox"] = {key: _path_list(value, ("sandbox", key)) for key, value in tree["sandbox"].items()}
        return {**rest, "tools": tools}, self._problems

    def _tool(self, tool: "Mapping[str, Any]", at: "At") -> "Tree":
        made: Tree = {key: value for key, value in tool.items() if key not in ("access", "sandbox", "command")}
        made |= {LINE: self._line_of(at), AT: at}
        if "command" in tool:
            made["command"] = self._command(tool["command"], (*at, "command"))
        if "limits" in tool:
            made["limits"] = self._limits(tool["limits"], (*at, "limits"))
        if any(name in tool for name in HOST_LIMITS):  # they may stand beside the other limits, or outside
            own = {name: made.pop(name) for name in HOST_LIMITS if name in tool}
            made["limits"] = {**made.get("limits", {}), **self._limits(own, at)}
        if "access" in tool and "sandbox" in tool:
            self._problem(
                (*at, "sandbox"), "a tool has access or the older sandbox, not both", "move sandbox to access"
            )
        elif "access" in tool:
            made["access"] = self._access(tool["access"], (*at, "access"))
        elif "sandbox" in tool:
            made["access"] = {**self._older(tool["sandbox"], (*at, "sandbox")), LEGACY: True}
        return made

    def _command(self, command: "list[str] | str", at: "At") -> list[str]:
        if isinstance(command, str):
            import shlex

            try:
                command = shlex.split(command)
            except ValueError:
                self._problem(at, "the command has an unfinished quote", "close it, or write a list of words")
                return []
        if not command or not command[0]:
            self._problem(at, "the command is empty", 'write the program and its arguments: ["prog", "arg"]')
        return command

    def _limits(self, limits: "Mapping[str, Any]", at: "At") -> "Tree":
        from byleave.core.limits import SIZES, parse_size

        made = dict(limits)
        for name in SIZES:
            if name in limits:
                made[name] = parse_size(limits[name])
                if made[name] is None:
                    hint = 'write a number of bytes, or text such as "512 MB" or "2 GB"'
                    self._problem((*at, name), f"{quoted(limits[name][:LONGEST_SHOWN])} is no size", hint)
        return made

    def _access(self, access: "Mapping[str, Any]", at: "At") -> "Tree":
        made: Tree = {name: self._rules(access[name], (*at, name)) for name in ACCESS_LISTS if name in access}
        if "commands" in access:
            made["commands"] = {
                program: self._program(entry, (*at, "commands", program))
                for program, entry in access["commands"].items()
            }
        return made

    def _rules(self, rules: "Any", at: "At", *, strategy: str = STRATEGY) -> "Tree":
        value = rules
        if isinstance(rules, dict):
            strategy, value, at = rules["strategy"], rules["value"], (*at, "value")
        marked = [{**rule, **self._mark((*at, number))} for number, rule in enumerate(value)]
        return {"strategy": strategy, "value": marked}

    def _program(self, entry: "Mapping[str, Any]", at: "At") -> "Tree":
        lists = {name: _plain_list(entry[name]) for name in ("args", "envs") if name in entry}
        return {**lists, **self._mark(at)}

    def _older(self, sandbox: "Mapping[str, Any]", at: "At") -> "Tree":
        """Compile the older spelling: what may be read, what may be written, hosts, variables, commands."""
        made: Tree = {}
        files, network = sandbox.get("filesystem", {}), sandbox.get("network", {})
        writable = files.get("writable", ())
        also = [] if isinstance(writable, bool) else writable
        fs = [
            {"path": path, "read": True, "write": writes, **self._mark((*at, "filesystem", key, number))}
            for key, paths, writes in (("allow", files.get("allow", ()), writable is True), ("writable", also, True))
            for number, path in enumerate(paths)
        ]
        net = [self._older_host(host, (*at, "network", "allow", n)) for n, host in enumerate(network.get("allow", ()))]
        env = [
            {"name": name, "substitute": True, **self._mark((*at, "network", "envs", number))}
            for number, name in enumerate(network.get("envs", ()))
        ]
        made |= {
            name: {"strategy": STRATEGY, "value": rules}
            for name, rules in (("fs", fs), ("net", net), ("env", env))
            if rules
        }
        if "commands" in sandbox:
            made["commands"] = self._access({"commands": sandbox["commands"]}, at)["commands"]
        return made

    def _older_host(self, text: str, at: "At") -> "Tree":
        """Read a host of the older spelling, which may also be written as a URL."""
        scheme, mark, rest = text.partition("://")
        host, slash, path = (rest if mark else text).partition("/")
        rule: Tree = {"host": host, "allow": True, **self._mark(at)}
        name, _colon, port = host.rpartition(":")
        if ":" not in name and _is_port(port):  # else it is an address, or no host at all, which the compiler will say
            rule |= {"host": name, "port": int(port)}
        if mark:
            rule["scheme"] = scheme
        if slash and path:
            rule["path_prefix"] = f"/{path}"
        return rule

    def _mark(self, at: "At") -> "Tree":
        return {LINE: self._line_of(at), AT: at}

    def _problem(self, at: "At", problem: str, hint: str) -> None:
        self._problems.append((at, ConfigError(problem, hint=hint)))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535


def _path_list(value: "Any", at: "At") -> "Tree":
    return {**_plain_list(value), AT: (*at, "value") if isinstance(value, dict) else at}


def _plain_list(value: "Any") -> "Tree":
    return value if isinstance(value, dict) else {"strategy": STRATEGY, "value": value}
