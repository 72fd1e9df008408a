"""One normal form for every configuration tree, whatever spelling it came in.

`normal_tree` takes a checked tree and returns a plain one, fit to be remembered. Every list is `{"strategy", "value"}`,
a command is a list of words, a size a number of bytes, `conversation.tools` has joined `tools`, the older `sandbox`
tables of a tool have become `access`, and every rule knows its line (`#line`) and its path in the file (`#at`): keys
that no file can spell.

`compose` joins the lists of several layers. A list in one layer is a patch on the weaker layers: `append` stands behind
them, `prepend` before them, `replace` instead of them, `dedup` behind them as well, but nothing stands there twice: the
last of equal entries stays, so that a tie falls as with `append`. Patches compose, and it does not matter in which
order neighbours are composed (`dedup` aside, which looks at what came before it). Nothing here does input or output.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from byleave.core.access import HOST_LIMITS, SIZES, parse_size
from byleave.core.patterns import pattern_problem
from byleave.errors import ConfigError
from byleave.record import Record
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Tree = dict[str, Any]
    At = tuple[str | int, ...]
    LineOf = Callable[[At], int]
    from collections.abc import Iterable


LINE = "#line"
AT = "#at"
LEGACY = "#legacy"
LEFT_OUT = "#left_out"  # what byleave leaves out of another program's file, in words
ACCESS_LISTS = ("fs", "net", "env")
HOST_PATHS = ("read", "write")
AGENT_TABLES = ("tools", "resources", "prompts")
_SERVER_SCALARS = ("url", "transport", "env", "headers", "cwd", "description", "enable", "may", "stateful", "share")
_GATEWAY_SIZES = ("max_body", "max_result")
STRATEGY = "append"
LONGEST_SHOWN = 60  # characters of a value worth repeating
RULES_STRATEGY = "prepend"  # the stronger layer's rules are asked first


def normal_tree(tree: Mapping[str, Any], line_of: LineOf) -> tuple[Tree, list[tuple[At, ConfigError]]]:
    """Return the normal form of a checked tree, and the problems that only show here, each with its path."""
    return _Normal(line_of).file(tree)


_MADE = frozenset({"tools", "conversation", "rules", "agents", "servers", "gateway", "shell"})


class _Normal:
    """Walks one file; `line_of` knows where a path of it is written."""

    def __init__(self, line_of: LineOf) -> None:
        self._line_of = line_of
        self._problems: list[tuple[At, ConfigError]] = []

    def file(self, tree: Mapping[str, Any]) -> tuple[Tree, list[tuple[At, ConfigError]]]:
        tools = {name: self._tool(tool, ("tools", name)) for name, tool in tree.get("tools", {}).items()}
        for name, tool in tree.get("conversation", {}).get("tools", {}).items():
            at: At = ("conversation", "tools", name)
            if name in tools:
                self._problem(at, f"{quoted(name)} stands in tools and in conversation.tools", "keep one of the two")
            tools[name] = self._tool(tool, at)
        rest = {key: value for key, value in tree.items() if key not in _MADE}
        for key, make in (("agents", self._agent), ("servers", self._server)):
            if key in tree:
                rest[key] = {name: make(name, table, (key, name)) for name, table in tree[key].items()}
        if "gateway" in tree:
            rest["gateway"] = {**self._sizes(tree["gateway"], ("gateway",)), **self._mark(("gateway",))}
        if "shell" in tree:
            rest["shell"] = self._shell(tree["shell"], ("shell",))
        if "rules" in tree:
            rest["rules"] = self._rules(tree["rules"], ("rules",), strategy=RULES_STRATEGY)
        if "sandbox" in tree:
            rest["sandbox"] = {key: _path_list(value, ("sandbox", key)) for key, value in tree["sandbox"].items()}
        return {**rest, "tools": tools}, self._problems

    def _tool(self, tool: Mapping[str, Any], at: At) -> Tree:
        made: Tree = {key: value for key, value in tool.items() if key not in ("access", "sandbox", "command")}
        made |= {LINE: self._line_of(at), AT: at}
        if "command" in tool:
            made["command"] = self._command(tool["command"], (*at, "command"))
        if "limits" in tool:
            made["limits"] = self._sizes(tool["limits"], (*at, "limits"))
        if any(name in tool for name in HOST_LIMITS):  # they may stand beside the other limits, or outside
            own = {name: made.pop(name) for name in HOST_LIMITS if name in tool}
            made["limits"] = {**made.get("limits", {}), **self._sizes(own, at)}
        if "access" in tool and "sandbox" in tool:
            self._problem(
                (*at, "sandbox"), "a tool has access or the older sandbox, not both", "move sandbox to access"
            )
        elif "access" in tool:
            made["access"] = self._access(tool["access"], (*at, "access"))
        elif "sandbox" in tool:
            made["access"] = {**self._older(tool["sandbox"], (*at, "sandbox")), LEGACY: True}
        return made

    def _command(self, command: list[str] | str, at: At) -> list[str]:
        if isinstance(command, str):
            try:
                command = shlex.split(command)
            except ValueError:
                self._problem(at, "the command has an unfinished quote", "close it, or write a list of words")
                return []
        if not command or not command[0]:
            self._problem(at, "the command is empty", 'write the program and its arguments: ["prog", "arg"]')
        return command

    def _agent(self, name: str, agent: Mapping[str, Any], at: At) -> Tree:
        made: Tree = {**self._mark(at)}
        self._pattern(name, at)
        if "description" in agent:
            made["description"] = agent["description"]
        for side in ("allow", "deny"):
            if side in agent:
                made[side] = self._reach(agent[side], (*at, side))
        for key in ("token", "jwt"):
            if key in agent:
                made[key] = [agent[key]] if isinstance(agent[key], str) else list(agent[key])
        if "token" in agent:
            made["token"] = [token.lower() for token in made["token"]]
        return made

    def _reach(self, reach: Mapping[str, Any], at: At) -> Tree:
        made: Tree = {}
        if "servers" in reach:
            made["servers"] = self._names(reach["servers"], (*at, "servers"))
        for kind in AGENT_TABLES:
            if kind in reach:
                made[kind] = {}
                for server, names in reach[kind].items():
                    self._pattern(server, (*at, kind, server))
                    made[kind][server] = self._names(names, (*at, kind, server))
        return made

    def _names(self, names: Any, at: At) -> Tree:
        strategy, value, where = STRATEGY, names, at
        if isinstance(names, dict):
            strategy, value, where = names["strategy"], names["value"], (*at, "value")
        for number, name in enumerate(value):
            self._pattern(name, (*where, number))
        marked = [{"name": name, **self._mark((*where, number))} for number, name in enumerate(value)]
        return {"strategy": strategy, "value": marked, **self._mark(at)}

    def _pattern(self, text: str, at: At) -> None:
        problem = pattern_problem(text)
        if problem is not None:
            self._problem(at, f"{quoted(text[:LONGEST_SHOWN])}: {problem}", 'write a name, or a glob such as "get_*"')

    def _server(self, _name: str, server: Mapping[str, Any], at: At) -> Tree:
        made: Tree = {key: server[key] for key in _SERVER_SCALARS if key in server} | self._mark(at)
        if "command" in server:
            made["command"] = [*self._command(server["command"], (*at, "command")), *server.get("args", ())]
        elif "args" in server:
            self._problem((*at, "args"), "args needs a command", "add command = ...")
        if "limits" in server:
            made["limits"] = self._sizes(server["limits"], (*at, "limits"))
        if "access" in server:
            made["access"] = self._access(server["access"], (*at, "access"))
        if "tools" in server:
            made["tools"] = {
                tool: self._server_tool(entry, (*at, "tools", tool)) for tool, entry in server["tools"].items()
            }
        return made

    def _server_tool(self, tool: Mapping[str, Any], at: At) -> Tree:
        access = {"access": self._access(tool["access"], (*at, "access"))} if "access" in tool else {}
        return {**access, **self._mark(at)}

    def _shell(self, shell: Mapping[str, Any], at: At) -> Tree:
        access = {"access": self._access(shell["access"], (*at, "access"))} if "access" in shell else {}
        return {**shell, **access, **self._mark(at)}

    def _sizes(self, limits: Mapping[str, Any], at: At) -> Tree:
        made = dict(limits)
        for name in (*SIZES, *_GATEWAY_SIZES):
            if name in limits:
                made[name] = parse_size(limits[name])
                if made[name] is None:
                    hint = 'write a number of bytes, or text such as "512 MB" or "2 GB"'
                    self._problem((*at, name), f"{quoted(limits[name][:LONGEST_SHOWN])} is no size", hint)
        return made

    def _access(self, access: Mapping[str, Any], at: At) -> Tree:
        made: Tree = {name: self._rules(access[name], (*at, name)) for name in ACCESS_LISTS if name in access}
        if "commands" in access:
            made["commands"] = {
                program: self._program(entry, (*at, "commands", program))
                for program, entry in access["commands"].items()
            }
        return made

    def _rules(self, rules: Any, at: At, *, strategy: str = STRATEGY) -> Tree:
        value = rules
        if isinstance(rules, dict):
            strategy, value, at = rules["strategy"], rules["value"], (*at, "value")
        marked = [{**rule, **self._mark((*at, number))} for number, rule in enumerate(value)]
        return {"strategy": strategy, "value": marked}

    def _program(self, entry: Mapping[str, Any], at: At) -> Tree:
        lists = {name: _plain_list(entry[name]) for name in ("args", "envs") if name in entry}
        return {**lists, **self._mark(at)}

    def _older(self, sandbox: Mapping[str, Any], at: At) -> Tree:
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

    def _older_host(self, text: str, at: At) -> Tree:
        """Read a host of the older spelling, which may also be written as a URL."""
        scheme, mark, rest = text.partition("://")
        host, _slash, path = (rest if mark else text).partition("/")
        rule: Tree = {"host": host, "allow": True, **self._mark(at)}
        name, _colon, port = host.rpartition(":")
        if ":" not in name and _is_port(port):  # else it is an address, or no host at all, which the compiler will say
            rule |= {"host": name, "port": int(port)}
        if mark:
            rule["scheme"] = scheme
        if path:
            rule["path_prefix"] = f"/{path}"
        return rule

    def _mark(self, at: At) -> Tree:
        return {LINE: self._line_of(at), AT: at}

    def _problem(self, at: At, problem: str, hint: str) -> None:
        self._problems.append((at, ConfigError(problem, hint=hint)))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535


def _path_list(value: Any, at: At) -> Tree:
    return {**_plain_list(value), AT: (*at, "value") if isinstance(value, dict) else at}


def _plain_list(value: Any) -> Tree:
    return value if isinstance(value, dict) else {"strategy": STRATEGY, "value": value}


class Item:
    """One entry of a configured list with the layer it came from. Equal to another that says the same."""

    __slots__ = ("layer", "tree")

    def __init__(self, tree: Any, layer: Any) -> None:
        self.tree = tree
        self.layer = layer

    def _said(self) -> object:
        return _frozen(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())


class Patch(Record):
    """What one layer, or several composed, do to the list of the weaker ones."""

    front: tuple[Any, ...] = ()
    back: tuple[Any, ...] = ()
    replaces: bool = False
    distinct: bool = False

    @property
    def items(self) -> tuple[Any, ...]:
        """The whole list, once nothing weaker is left."""
        return (*self.front, *self.back)


NOTHING = Patch()


def patch(strategy: str, items: Iterable[Any]) -> Patch:
    """Return the patch that a configured list stands for."""
    return _MAKERS[strategy](tuple(items))


def compose(weaker: Patch, stronger: Patch) -> Patch:
    """Return the one patch that does what `weaker` and then `stronger` do."""
    if stronger.replaces:
        return stronger
    front, before, back = weaker.front, weaker.back, stronger.back
    if stronger.distinct:
        back = tuple(dict.fromkeys(back[::-1]))[::-1]
        said = frozenset(back)
        front = tuple(item for item in front if item not in said)
        before = tuple(item for item in before if item not in said)
    return Patch(
        front=(*stronger.front, *front),
        back=(*before, *back),
        replaces=weaker.replaces,
        distinct=weaker.distinct,
    )


_MAKERS = {
    "append": lambda items: Patch(back=items),
    "prepend": lambda items: Patch(front=items),
    "replace": lambda items: Patch(back=items, replaces=True),
    "dedup": lambda items: Patch(back=items, distinct=True),
}


def _frozen(tree: Any) -> object:
    """Return a tree as a value that can be compared and hashed, less the marks of where it was written."""
    if isinstance(tree, dict):
        return frozenset((key, _frozen(value)) for key, value in tree.items() if not key.startswith("#"))
    return tuple(_frozen(value) for value in tree) if isinstance(tree, list | tuple) else tree
