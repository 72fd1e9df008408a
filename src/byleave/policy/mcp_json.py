"""Files that other programs read as well: `.mcp.json` with `mcpServers`, `.mcp-gateway-rules.json` with `agents`.

They are read as they are, and become the same tree as a file of ours. Keys that the clients of such files are known to
write are let be; any other key is a typo, and an error with its place.

The JSON is read strictly, and the place of each key and value is known. A key that is given twice is an error, because
the next program may take the other one. So are numbers that JSON does not know, and values nested without end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from json.decoder import scanstring  # type: ignore[attr-defined] # the typeshed leaves it out
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from byleave.core.self_protection import is_door
from byleave.errors import ConfigError, ConfigErrors, SourceSpan
from byleave.policy.diagnostics import check_tree
from byleave.policy.dirs import FOREIGN_FILES
from byleave.policy.gateway_types import ITSELF, AgentTable, name_problem
from byleave.policy.rule_types import ConfigTable
from byleave.policy.schema_types import ConfigFile, Defaults
from byleave.policy.toml_spans import place_at
from byleave.policy.toml_text import read_text
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from byleave.policy.toml_spans import Path, Spots, Stretch


_DEEPEST = 64  # the deepest of ours has seven levels
_GAP = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(\.[0-9]{1,300})?([eE][-+]?[0-9]{1,3})?(?![0-9.eE+-])")
_WORDS = {"true": True, "false": False, "null": None}
_TOKEN = re.compile(r"[^\s,:{}\[\]\"]+|.", re.DOTALL)


class JsonSpans:
    """Answers where a path of the tree stands in the text. `aliases`: names in the tree for names in the file."""

    def __init__(self, text: str, found: dict[Path, tuple[Stretch | None, Stretch]]) -> None:
        self._text = text
        self._found = found
        self._starts = [0, *[match.end() for match in re.finditer("\n", text)]]
        self.aliases: dict[str, str] = {}

    def line(self, path: Path) -> int:
        """Return the line of the item at `path`, or of its nearest ancestor that is written down."""
        key, value = self._look(path)
        return bisect_right(self._starts, (key or value)[0])

    def point(self, path: Path, file: str, *, at_key: bool = False) -> SourceSpan:
        """Return what to underline for `path`: its value if it fits on a line, else its key."""
        key, value = self._look(path)
        spread = "\n" in self._text[value[0] : value[1]]
        return place_at(self._text, key if key is not None and (at_key or spread) else value, file)

    def _look(self, path: Path) -> tuple[Stretch | None, Stretch]:
        if path and path[0] in self.aliases and path[:1] not in self._found:
            path = (self.aliases[str(path[0])], *path[1:])
        above = (path[:length] for length in range(len(path), -1, -1))
        return next(self._found[each] for each in above if each in self._found)  # the whole value is always there


def parse_json(content: bytes | str, file: str) -> tuple[Any, JsonSpans]:
    """Return the tree and where its parts stand, or raise `ConfigErrors` with the place where it stops being JSON."""
    reader = _Reader(read_text(content, file), file)
    tree = reader.whole()
    return tree, JsonSpans(reader.text, reader.found)


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.found: dict[Path, tuple[Stretch | None, Stretch]] = {}
        self._file = file
        self._at = 0

    def whole(self) -> Any:
        tree = self._value((), None)
        if self._next():
            self._refuse("the file should end here", "keep one value in the file")
        return tree

    def _value(self, path: Path, key: Stretch | None) -> Any:
        letter = self._next()
        start = self._at
        if len(path) > _DEEPEST:
            self._refuse("values are nested too deep", "use fewer levels")
        if letter == "{":
            value: Any = self._object(path)
        elif letter == "[":
            value = self._list(path)
        else:
            value = self._string() if letter == '"' else self._scalar()
        self.found[path] = (key, (start, self._at))
        return value

    def _object(self, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self._at += 1
        while self._goes_on("}", first=not made):
            if self._next() != '"':
                self._refuse("a key should stand here", 'write "key": value, without a comma after the last one')
            start = self._at
            name = self._string()
            if name in made:
                self._at = start
                self._refuse(f"{quoted(name[:60])} is given twice", "keep one of the two")
            key = (start, self._at)
            if self._next() != ":":
                self._refuse("there is no : after this key", 'write "key": value')
            self._at += 1
            made[name] = self._value((*path, name), key)
        return made

    def _list(self, path: Path) -> list[Any]:
        made: list[Any] = []
        self._at += 1
        while self._goes_on("]", first=not made):
            made.append(self._value((*path, len(made)), None))
        return made

    def _goes_on(self, end: str, *, first: bool) -> bool:
        """Pass over the comma before another entry, or over the end."""
        letter = self._next()
        if letter == end:
            self._at += 1
            return False
        if not first:
            if letter != ",":
                self._refuse(f"a comma or {end} belongs here", "separate entries by commas")
            self._at += 1
        return True

    def _string(self) -> str:
        try:
            value, self._at = scanstring(self.text, self._at + 1, True)
        except ValueError as error:
            self._at = min(getattr(error, "pos", self._at), len(self.text) - 1)
            self._refuse(
                "this string is not closed, or holds what JSON does not know", "close it; escapes are \\n, \\u0041"
            )
        if any("\ud800" <= letter <= "\udfff" for letter in value if letter > "\ud7ff"):
            self._refuse("half of a character stands before this", "write the whole character")
        return str(value)

    def _scalar(self) -> Any:
        token = _TOKEN.match(self.text, self._at)
        word = token[0] if token else ""
        if word in _WORDS:
            self._at += len(word)
            return _WORDS[word]
        number = _NUMBER.match(self.text, self._at)
        if number is None:
            return self._refuse(
                "JSON knows no such value", 'put text between quotes, "like this"; there are no comments'
            )
        self._at = number.end()
        return float(number[0]) if number[1] or number[2] else int(number[0])

    def _next(self) -> str:
        """Pass over blanks and return the letter that follows, "" at the end."""
        gap = _GAP.match(self.text, self._at)
        self._at = gap.end() if gap else self._at
        return self.text[self._at : self._at + 1]

    def _refuse(self, problem: str, hint: str) -> Any:
        start = min(self._at, max(len(self.text) - 1, 0))
        token = _TOKEN.match(self.text, start)
        stretch = (start, max(start + 1, token.end() if token else 0))
        raise ConfigErrors([ConfigError(problem, hint=hint, at=place_at(self.text, stretch, self._file))])


SERVERS_FILE, RULES_FILE = FOREIGN_FILES
SERVERS = "mcpServers"
_TRANSPORTS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_Type = Literal["stdio", "http", "streamable-http", "streamableHttp", "streamable_http", "sse"]
_TAKEN = ("command", "args", "url", "env", "headers", "cwd", "description")


class McpJsonServer(ConfigTable, rename={"always_allow": "alwaysAllow", "auto_approve": "autoApprove"}):
    """One server as MCP clients write it."""

    command: Annotated[str | UnsetType, Meta(description="The program.", examples=["npx"])] = UNSET
    args: Annotated[list[str] | UnsetType, Meta(description="Its arguments.", examples=[["-y", "server"]])] = UNSET
    env: Annotated[dict[str, str] | UnsetType, Meta(description="Its variables.", examples=[{"A": "${A}"}])] = UNSET
    cwd: Annotated[str | UnsetType, Meta(description="Where it starts.", examples=["tools"])] = UNSET
    url: Annotated[str | UnsetType, Meta(description="Where it answers.", examples=["https://..."])] = UNSET
    headers: Annotated[dict[str, str] | UnsetType, Meta(description="Of each request.", examples=[{}])] = UNSET
    type: Annotated[_Type | UnsetType, Meta(description="How it is spoken to.", examples=["stdio"])] = UNSET
    transport: Annotated[_Type | UnsetType, Meta(description="The same, as others name it.")] = UNSET
    description: Annotated[str | UnsetType, Meta(description="What it is for.")] = UNSET
    disabled: Annotated[bool | UnsetType, Meta(description="true switches it off.")] = UNSET
    enabled: Annotated[bool | UnsetType, Meta(description="false switches it off.")] = UNSET
    # Known to other clients; here the policy decides what is allowed, and [gateway] how long a call may take.
    timeout: Annotated[float | UnsetType, Meta(description="Of other clients.")] = UNSET
    always_allow: Annotated[list[str] | UnsetType, Meta(description="Of other clients.")] = UNSET
    auto_approve: Annotated[list[str] | UnsetType, Meta(description="Of other clients.")] = UNSET
    trust: Annotated[bool | UnsetType, Meta(description="Of other clients.")] = UNSET


class McpJsonFile(ConfigTable, rename={"servers": SERVERS, "schema": "$schema"}):
    """`.mcp.json`."""

    servers: Annotated[
        dict[str, McpJsonServer], Meta(description="Servers by name.", examples=[{"time": {"command": "npx"}}])
    ]
    schema: Annotated[str | UnsetType, Meta(description="For editors.")] = UNSET


class RulesFile(ConfigTable, rename={"schema": "$schema"}):
    """`.mcp-gateway-rules.json`."""

    agents: Annotated[dict[str, AgentTable] | UnsetType, Meta(description="What each agent may reach.")] = UNSET
    defaults: Annotated[Defaults | UnsetType, Meta(description="What holds for the others.")] = UNSET
    schema: Annotated[str | UnsetType, Meta(description="For editors.")] = UNSET


def is_json(file: str, content: bytes) -> bool:
    """Whether a file is to be read as JSON: by its name, or because TOML cannot begin like this."""
    return file.endswith(".json") or content.lstrip()[:1] == b"{"


def read_foreign(content: bytes, file: str) -> tuple[dict[str, Any], Spots, list[str]]:
    """Return the tree of a JSON file in our own shape, checked; where its parts stand; and what was left out of it.

    Other clients take any name for a server, and may know us as one. What cannot be had is left out, the rest is not.
    """
    tree, places = parse_json(content, file)
    shape = _shape(tree, file)
    problems = check_tree(tree, file=file, places=places, shape=shape)
    if problems:
        raise ConfigErrors(problems)
    rest = {key: value for key, value in tree.items() if key not in (SERVERS, "$schema")}
    if shape is not McpJsonFile:
        return rest, places, []
    places.aliases["servers"] = SERVERS
    odd = {name: why for name, server in tree[SERVERS].items() if (why := _problem(name, server)) is not None}
    rest["servers"] = {name: _server(server) for name, server in tree[SERVERS].items() if name not in odd}
    said = [f"{shown(file)}: the server {quoted(name[:60])} is left out: {problem}" for name, problem in odd.items()]
    return rest, places, said


def _problem(name: str, server: dict[str, Any]) -> str | None:
    """Return why a server is left out, if it is: its name cannot be used, or it is byleave's own gateway."""
    if is_door([server.get("command", ""), *server.get("args", ())]):
        return f"it {ITSELF}"
    return name_problem(name)


def _shape(tree: Any, file: str) -> type:
    name = file.rpartition("/")[2]
    if name == SERVERS_FILE or (isinstance(tree, dict) and SERVERS in tree):
        return McpJsonFile
    return RulesFile if name == RULES_FILE else ConfigFile


def _server(server: dict[str, Any]) -> dict[str, Any]:
    made = {key: server[key] for key in _TAKEN if key in server}
    if "command" in made:
        made["command"] = [made["command"]]
    kind = server.get("type", server.get("transport"))
    if kind is not None:
        made["transport"] = _TRANSPORTS[kind]
    if server.get("disabled") or server.get("enabled") is False:
        made["enable"] = False
    return made
