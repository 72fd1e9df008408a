"""MCP servers behind the gateway, as the trusted layers describe them: how to reach each, and what its process may do.

How to reach a server (command, url, env, headers, cwd) comes whole from the strongest layer that says it, so that no
secret meant for one place is sent to another; the rest is joined as for tools. `${VAR}` stays as it is written until
`expanded`. The access of a server is kept among those of tools, under a name that no tool can have.

How the gateway itself behaves, the `[gateway]` table: `policy.gateway_settings`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.access import limits_of
from byleave.core.env_rules import MINIMAL_ENVIRONMENT, EnvRule, EnvTable
from byleave.core.self_protection import is_door
from byleave.core.suggest import SERVERS
from byleave.core.url import BadUrl, parse_url
from byleave.errors import ConfigError
from byleave.policy.gateway_types import ITSELF, name_problem
from byleave.policy.normalize import LINE
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from byleave.core.access import ProcessLimits
    from byleave.core.policy import ToolPolicy
    from byleave.policy.layers import Layer, Problems
    from byleave.policy.normalize import At, Tree


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LAUNCH = ("command", "url", "transport", "env", "headers", "cwd")
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "mcp-session-id", "mcp-protocol-version"}
)
_NOTHING: Mapping[str, Any] = {}


class ServerConfig(Struct, frozen=True):
    """One MCP server. Texts are as they are written, with `${VAR}` in them."""

    name: str
    transport: str
    command: tuple[str, ...] | None = None
    url: str | None = None
    env: Mapping[str, str] = _NOTHING
    headers: Mapping[str, str] = _NOTHING
    cwd: str | None = None
    description: str = ""
    may: tuple[str, ...] | None = None
    stateful: bool = True
    share: bool | None = None  # whether sessions share its process; None: those of one caller, where nothing can leak
    enabled: bool = True
    has_access: bool = False
    tools: Mapping[str, str] = _NOTHING  # of one that is not stateful: the sandbox's name for each tool with access
    settings: Mapping[str, Any] = _NOTHING
    source: str = ""

    @property
    def tool(self) -> str:
        """The name under which the sandbox finds its access."""
        return f"{SERVERS}{self.name}"

    def tool_of(self, tool: str) -> str:
        """Return the name under which the sandbox finds the access for one call of this tool."""
        return self.tools.get(tool, self.tool)

    @property
    def limits(self) -> ProcessLimits:
        """What its process may use at most."""
        return limits_of(self.settings)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of our environment that its texts name."""
        return variables_in(self._texts())

    def _texts(self) -> Iterator[str]:
        yield from self.command or ()
        yield from (self.url or "", *self.env.values(), *self.headers.values())


def variables_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the variables that texts name, each once."""
    return tuple(dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text)))


class ExpandedServer(Struct, frozen=True):
    """How a server is reached, with the values of variables filled in. `secrets` are those values."""

    command: tuple[str, ...] | None
    url: str | None
    env: Mapping[str, str]
    headers: Mapping[str, str]
    secrets: tuple[str, ...]


def expanded(server: ServerConfig, environ: Mapping[str, str]) -> ExpandedServer:
    """Fill in `${VAR}` and `${VAR:-default}`; a variable that is missing is a ConfigError that names it."""
    secrets: dict[str, None] = {}

    def fill(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            found = environ.get(match[1])
            if not found and match[2] is not None:  # as a shell does it: empty counts as missing
                return match[2]
            if found is None:
                problem = f"the server {quoted(server.name)} needs the variable {match[1]}, which is not set"
                raise ConfigError(f"{shown(server.source)}: {problem}", hint="set it, or write ${VAR:-default}")
            if found and not _is_common(match[1]):
                secrets[found] = None
            return found

        return _VARIABLE.sub(value, text)

    command = None if server.command is None else tuple(fill(word) for word in server.command)
    url = None if server.url is None else fill(server.url)
    env = {name: fill(value) for name, value in server.env.items()}
    headers = {name: fill(value) for name, value in server.headers.items()}
    made = ExpandedServer(command, url, env, headers, tuple(secrets))
    for problem in (_url_problem(url), *(_value_problem(name, value) for name, value in headers.items())):
        if problem is not None:
            hint = "look at the variables that it is made from"
            raise ConfigError(f"{shown(server.source)}: the server {quoted(server.name)}: {problem}", hint=hint)
    return made


def _is_common(name: str) -> bool:
    """Whether a variable is no secret: hiding the home directory wherever it occurs would make answers unreadable."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in (*MINIMAL_ENVIRONMENT, "PWD"))


class ServerDescription(Struct, frozen=True):
    """A server with the layers that speak of it, weakest first."""

    server: ServerConfig
    layers: tuple[Layer, ...]


class ServerReader:
    """Joins what the layers say of each server, and checks it."""

    def __init__(self, problems: Problems, warnings: list[str], inside: Callable[[str], bool]) -> None:
        self._problems = problems
        self._warnings = warnings
        self._inside = inside  # whether a directory lies in the workspace

    def read(self, layers: Sequence[Layer], untrusted: Sequence[Layer]) -> Iterator[ServerDescription]:
        """Yield every server that the trusted layers describe in full."""
        names = dict.fromkeys(name for layer in layers for name in layer.tree.get("servers", ()))
        waiting = {name for layer in untrusted for name in layer.tree.get("servers", ())}
        for name in names:
            describing = tuple(layer for layer in layers if name in layer.tree.get("servers", ()))
            merged = _merged([layer.tree["servers"][name] for layer in describing])
            if "command" not in merged and "url" not in merged and name in waiting:
                self._warnings.append(f"the server {shown(name)} is not available until its project file is trusted")
            elif self._is_sound(name, merged, describing):
                yield ServerDescription(_server(name, merged, describing), describing)

    def _is_sound(self, name: str, merged: Tree, layers: tuple[Layer, ...]) -> bool:
        problems = list(_problems_of(name, merged, self._inside))
        for at, problem, hint in problems:
            layer = next((one for one in reversed(layers) if _says(one.tree["servers"][name], at)), layers[-1])
            self._problems.add(layer, f"the server {quoted(name[:60])} {problem}", hint=hint, at=("servers", name, *at))
        return not problems


def _says(server: Tree, at: At) -> bool:
    return not at or at[0] in server


def _merged(tables: Sequence[Tree]) -> Tree:
    """Return what holds of a server: how it is reached comes from one layer, other settings from the strongest."""
    merged: Tree = {}
    for table in tables:
        if "command" in table or "url" in table:
            merged = {key: value for key, value in merged.items() if key not in _LAUNCH}
        for key in ("env", "headers", "limits", "tools"):
            if key in table:
                merged[key] = {**merged.get(key, {}), **table[key]}
        merged |= {key: value for key, value in table.items() if key not in ("env", "headers", "limits", "tools")}
    return merged


def _server(name: str, merged: Tree, layers: tuple[Layer, ...]) -> ServerConfig:
    command, url = merged.get("command"), merged.get("url")
    tools = {tool: f"{SERVERS}{name}.{tool}" for tool in merged.get("tools", ())}
    may = merged.get("may")
    last = layers[-1]
    return ServerConfig(
        name,
        merged.get("transport", "stdio" if command is not None else "http"),
        command=None if command is None else tuple(command),
        url=url,
        env=merged.get("env", {}),
        headers=merged.get("headers", {}),
        cwd=merged.get("cwd"),
        description=merged.get("description", ""),
        may=None if may is None else tuple(may),
        stateful=merged.get("stateful", True),
        share={True: True, False: False}.get(merged.get("share", "auto")),
        enabled=merged.get("enable", True),
        has_access="access" in merged or bool(tools),
        tools=tools,
        settings=merged.get("limits", {}),
        source=last.source(last.tree["servers"][name][LINE]),
    )


def _problems_of(name: str, merged: Tree, inside: Callable[[str], bool]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield what is wrong with a merged server: where, what, and what would work."""
    problem = name_problem(name)
    if problem is not None:
        yield (), f"cannot be had: {problem}", "give it another name, such as my-server"
    if "command" in merged and "url" in merged:
        yield ("url",), "has a command and a url", "keep one of the two"
        return
    if "command" not in merged and "url" not in merged:
        yield (), "has neither a command nor a url", 'add command = ["program", "argument"], or url = "https://..."'
        return
    if is_door(merged.get("command", ())):
        yield ("command",), ITSELF, "leave it out: it belongs into the settings of the client"
    yield from (_of_command if "command" in merged else _of_url)(name, merged)
    cwd = merged.get("cwd")
    if cwd is not None and not inside(cwd):
        yield ("cwd",), f"starts at {quoted(cwd)}, which is not in the workspace", "name a directory of the workspace"


def _of_command(name: str, merged: Tree) -> Iterator[tuple[tuple[str, ...], str, str]]:
    if merged.get("transport", "stdio") != "stdio":
        yield ("transport",), f"has a command, which does not speak {merged['transport']}", "remove transport"
    if "headers" in merged:
        yield ("headers",), "has a command, and headers mean nothing to it", "use env, or a url"
    for variable in merged.get("env", ()):
        if not variable or "=" in variable or "\0" in variable:
            yield ("env", variable), f"names a variable {quoted(variable)}, which cannot be", "write NAME = value"
    for variable, value in merged.get("env", {}).items():
        if "\0" in value:
            yield ("env", variable), "has a NUL in a variable", "remove it"
    if merged.get("share") is True and not merged.get("stateful", True):
        yield ("share",), "has a process for each call, which clients cannot share", "remove share, or stateful"
    for tool, entry in merged.get("tools", {}).items():
        if merged.get("stateful", True):
            problem = f"is one process for all of its tools, so {quoted(tool)} cannot have access of its own"
            yield ("tools", tool), problem, f"put it into [servers.{name}.access], or write stateful = false"
        elif "access" not in entry:
            yield ("tools", tool), f"says nothing about {quoted(tool)}", "add access, or remove the table"


def _of_url(name: str, merged: Tree) -> Iterator[tuple[tuple[str, ...], str, str]]:
    if merged.get("transport") == "stdio":
        yield ("transport",), "has a url, which is not reached by stdio", 'write "http" or "sse"'
    for key in ("env", "access", "tools", "limits", "cwd", "share"):
        if key in merged:
            problem = f"is reached by a url: there is no process that {key} could hold for"
            yield (key,), problem, f"remove {key}, or give [servers.{name}] a command"
    if merged.get("stateful") is False:
        yield ("stateful",), "is reached by a url: nothing is started for a call", "remove stateful"
    wrong = None if "${" in merged["url"] else _url_problem(merged["url"])
    if wrong is not None:
        yield ("url",), f"cannot be reached: {wrong}", 'write a URL such as "https://example.com/mcp"'
    for header, value in merged.get("headers", {}).items():
        said = _header_problem(header) or _value_problem(header, value)
        if said is not None:
            yield ("headers", header), f"cannot be reached: {said}", "correct the header"


def _url_problem(url: str | None) -> str | None:
    if url is None:
        return None
    target = parse_url(url)
    if isinstance(target, BadUrl):
        return target.problem
    if target.scheme not in ("http", "https"):
        return f"its url is neither http nor https: {shown(target.scheme)}"
    return "its url carries a user name or a password" if target.userinfo else None


def _header_problem(name: str) -> str | None:
    if not _HEADER.fullmatch(name):
        return f"{quoted(name[:60])} is no name of a header"
    return f"the header {name} is set by byleave itself" if name.lower() in _OURS else None


def _value_problem(name: str, value: str) -> str | None:
    odd = any(letter < " " and letter != "\t" for letter in value) or "\x7f" in value
    return f"the header {shown(name)} has a line end or a control character in it" if odd else None


def with_variables(policy: ToolPolicy, server: ServerConfig) -> ToolPolicy:
    """Return what a server may touch, with the variables that are filled in for it: it is never given them as such."""
    table = policy.access.env
    known = table.rules if isinstance(table, EnvTable) else ()
    names = {rule.name for rule in known}
    filled = [EnvRule(name, substitute=True, source=server.source) for name in server.variables if name not in names]
    access = policy.access.replace(env=EnvTable([*known, *filled]))
    return policy.replace(access=access)
