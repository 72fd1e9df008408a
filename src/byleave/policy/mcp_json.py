"""Files that other programs read as well: `.mcp.json` with `mcpServers`, `.mcp-gateway-rules.json` with `agents`.

They are read as they are, and become the same tree as a file of ours. Keys that the clients of such files are known to
write are let be; any other key is a typo, and an error with its place.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from byleave.core.self_protection import is_door
from byleave.errors import ConfigErrors
from byleave.policy.diagnostics import check_tree
from byleave.policy.dirs import FOREIGN_FILES
from byleave.policy.gateway_types import ITSELF, AgentTable, name_problem
from byleave.policy.json_text import parse_json
from byleave.policy.rule_types import ConfigTable
from byleave.policy.schema_types import ConfigFile, Defaults
from byleave.text import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.policy.toml_spans import Spots

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


def read_foreign(content: bytes, file: str) -> "tuple[dict[str, Any], Spots, list[str]]":
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


def _problem(name: str, server: "dict[str, Any]") -> str | None:
    """Say why a server cannot be had here; whoever puts the gateway into such a file does not want it behind itself."""
    if is_door([server.get("command", ""), *server.get("args", ())]):
        return f"it {ITSELF}"
    return name_problem(name)


def _shape(tree: "Any", file: str) -> type:
    name = file.rpartition("/")[2]
    if name == SERVERS_FILE or (isinstance(tree, dict) and SERVERS in tree):
        return McpJsonFile
    return RulesFile if name == RULES_FILE else ConfigFile


def _server(server: "dict[str, Any]") -> "dict[str, Any]":
    made = {key: server[key] for key in _TAKEN if key in server}
    if "command" in made:
        made["command"] = [made["command"]]
    kind = server.get("type", server.get("transport"))
    if kind is not None:
        made["transport"] = _TRANSPORTS[kind]
    if server.get("disabled") or server.get("enabled") is False:
        made["enable"] = False
    return made
