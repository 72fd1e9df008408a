"""Three tools that find the others: for clients that should not carry every definition of every server.

Here alone `agent_id` says on whose behalf a call is, where nobody knows better. Elsewhere it is the tool's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.action import LOCAL
from byleave.gateway.message import decoded, encode, members_of, text_of
from byleave.gateway.server_info import own_words
from byleave.protocol.jsonrpc import INVALID_PARAMS
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from byleave.gateway.client_request import ClientRequest
    from byleave.gateway.message import Members
    from byleave.gateway.session import Session

_AGENT = {"type": "string", "description": "On whose behalf, where the connection does not say."}
_SERVER = {"type": "string", "description": "A name that list_servers has given."}


def _tool(name: str, description: str, required: list[str], *, reads: bool, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {**properties, "agent_id": _AGENT}, "required": required}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": reads},
    }


DISCOVERY: Mapping[str, dict[str, Any]] = {
    "list_servers": _tool("list_servers", "The MCP servers that you may use.", [], reads=True),
    "get_server_tools": _tool(
        "get_server_tools", "The tools of one server that you may call.", ["server"], reads=True, server=_SERVER
    ),
    "execute_tool": _tool(
        "execute_tool",
        "Call a tool of a server.",
        ["server", "tool"],
        reads=False,
        server=_SERVER,
        tool={"type": "string", "description": "A name that get_server_tools has given."},
        arguments={"type": "object", "description": "What the tool is called with."},
    ),
}


async def call_discovery(session: Session, exchange: ClientRequest, name: str) -> None:
    """Answer a call of one of the three."""
    arguments = members_of(exchange.params.get("arguments"))
    agent = text_of(arguments.get("agent_id"))
    if agent is not None:
        exchange.who = session.who(agent)
    await _DO[name](session, exchange, arguments)


async def _list_servers(session: Session, exchange: ClientRequest, _arguments: Members) -> None:
    listed = [_described(session, name) for name in session.sight(exchange.who).servers()]
    await exchange.result(_result({"servers": listed}))


def _described(session: Session, name: str) -> dict[str, str]:
    server = session.servers.get(name)
    if name == LOCAL or server is None:
        return {"name": name, "transport": LOCAL, "description": "tools of this workspace, run by byleave"}
    return {"name": name, "transport": server.transport, "description": server.description}


async def _get_server_tools(session: Session, exchange: ClientRequest, arguments: Members) -> None:
    server, sight = text_of(arguments.get("server")), session.sight(exchange.who)
    if server is None or server not in sight.servers():
        await exchange.error(INVALID_PARAMS, f"there is no server {quoted(server or '')} for you")
        return
    found = await session.offers.listing("tools", sight, [server])
    if found.silent:
        await exchange.error(-32000, found.silent[server])
        return
    tree: dict[str, Any] = {"server": server, "tools": [offer.read() for offer in found.offers]}
    said = await session.offers.instructions(server, session.gateway.introduction_of(server))
    await exchange.result(_result({**tree, "instructions": own_words(said)} if said else tree))


async def _execute(session: Session, exchange: ClientRequest, arguments: Members) -> None:
    server, tool = text_of(arguments.get("server")), text_of(arguments.get("tool"))
    if not server or not tool:
        await exchange.error(INVALID_PARAMS, "execute_tool names a server and a tool")
        return
    params = {key: value for key, value in exchange.params.items() if key not in ("name", "arguments")}
    if "arguments" in arguments and decoded(arguments["arguments"]) is not None:
        params["arguments"] = arguments["arguments"]
    await session.calling.call(exchange, server, tool, params)


def _result(tree: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": encode(tree).decode()}], "structuredContent": tree}


_DO: Mapping[str, Callable[[Session, ClientRequest, Members], Awaitable[None]]] = {
    "list_servers": _list_servers,
    "get_server_tools": _get_server_tools,
    "execute_tool": _execute,
}
