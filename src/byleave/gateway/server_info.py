"""What a client learns of the servers behind the gateway: at its beginning, and by three tools that find the others.

At the beginning it gets the instructions and extensions of the servers that it may see. What a server says of itself is
known once it was opened, and remembered. Those that were never opened are opened now, where the gateway gives them time
for it; what is not known by then is left out.

The discovery tools are for clients that should not carry every definition of every server. Here alone `agent_id` says
on whose behalf a call is, where nothing better is known. Elsewhere it is the tool's own argument.

Start at `ServerInfo.introduce` and `DISCOVERY`.
"""

from __future__ import annotations

import asyncio
import re
from time import monotonic
from typing import TYPE_CHECKING

from byleave.core.action import LOCAL
from byleave.gateway.background import unless_down
from byleave.gateway.client_questions import passed_extensions
from byleave.gateway.message import encode
from byleave.gateway.pins import hidden_characters, text_of_tree
from byleave.gateway.redact import without_escapes
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.gateway.catalog import Catalog, Visibility
    from byleave.gateway.context import GatewayContext
    from byleave.gateway.opened_servers import OpenedServers
    from byleave.gateway.server_pool import ServerPool

WELCOME_TIME = 10.0  # seconds that a client can be kept waiting while servers start
QUIET = 60.0  # seconds for which no client waits for a server that did not start in that time
CAPABILITIES: Mapping[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
}
_LONGEST = 4000  # characters about the gateway, and as many of each server's own, or of an extension
_LONGEST_OF_ALL = 20_000
_MOST_EXTENSIONS = 16  # of one server
_MARK = re.compile(r"<(\s*/?\s*server)", re.IGNORECASE)  # what stands before and behind the words of each server
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


class ServerInfo:
    """What one session learns of the servers."""

    def __init__(self, context: GatewayContext, pool: ServerPool, servers: OpenedServers, catalog: Catalog) -> None:
        self._context = context
        self._pool = pool
        self._servers = servers
        self._catalog = catalog

    async def introduce(self, view: Visibility) -> dict[str, Any]:
        """Return `capabilities` and `instructions`: ours, and those of the servers that the caller may see."""
        names = view.servers()
        if self._pool.welcome_time and self._context.settings.expose != "discovery":
            await self._open_unknown(names)
        known = {name: said for name in names if (said := self._pool.introduction_of(name)) is not None}
        words = {name: await self.instructions(name) for name in known}
        extensions: dict[str, Any] = {}
        for name, each in known.items():
            for number, (key, value) in enumerate(passed_extensions(each.extensions).items()):
                if number < _MOST_EXTENSIONS and _is_plain(key, value):
                    extensions[key] = {**value, **extensions.get(key, {})}
                else:
                    self._context.note(
                        f"{name} declares extensions that are long, many, or not plain: they are left out"
                    )
                    break
        more = {"extensions": extensions} if extensions else {}
        return {"capabilities": {**CAPABILITIES, **more}, "instructions": self._our_instructions(names, words)}

    async def _open_unknown(self, names: list[str]) -> None:
        """Open the servers of which nothing is known yet, for as long as the client can be kept waiting."""
        pool, now = self._pool, monotonic()
        unknown = [name for name in names if name != LOCAL and pool.introduction_of(name) is None]
        waited_for = [name for name in unknown if pool.silent_until.get(name, 0.0) < now]
        if waited_for:
            loop = asyncio.get_running_loop()
            tasks = {loop.create_task(unless_down(self._open(name))): name for name in waited_for}
            try:
                _done, late = await asyncio.wait(tasks, timeout=pool.welcome_time)
            finally:
                for task in tasks:
                    task.cancel()  # servers that start go on to start
            pool.silent_until |= {tasks[task]: now + QUIET for task in late}

    async def _open(self, name: str) -> None:
        await self._servers.reach(name).ready()

    async def instructions(self, name: str) -> str:
        """Return what a server says about its use, if that is approved, as models read it."""
        return own_words(await self._catalog.instructions(name, self._pool.introduction_of(name)))

    def _our_instructions(self, names: list[str], said: Mapping[str, str]) -> str:
        """Return what a model should know: which servers there are, how tools are called, what each server says."""
        rows = ["byleave stands before these MCP servers; a policy says which of their tools may be called."]
        for name in names:
            server = self._context.servers.get(name)
            rows.append(f"- {name}: {shown(server.description)}" if server and server.description else f"- {name}")
        expose = self._context.settings.expose
        if expose != "discovery":
            rows.append("A tool is named SERVER__TOOL.")
        if expose != "flat":
            rows.append("list_servers, get_server_tools and execute_tool find tools and call them.")
        parts = ["\n".join(rows)[:_LONGEST]]
        if expose != "discovery":
            parts += [f'<server name="{name}">\n{words}\n</server>' for name, words in said.items() if words]
        return "\n".join(parts)[:_LONGEST_OF_ALL]

    def list_servers(self, view: Visibility) -> dict[str, Any]:
        """Return the result of the tool of this name."""
        listed = []
        for name in view.servers():
            server = self._context.servers.get(name)
            if name == LOCAL or server is None:
                what = {"transport": LOCAL, "description": "tools of this workspace, run by byleave"}
            else:
                what = {"transport": server.transport, "description": server.description}
            listed.append({"name": name, **what})
        return discovery_result({"servers": listed})

    async def server_tools(self, server: str, view: Visibility) -> dict[str, Any] | str:
        """Return the result of `get_server_tools`; why there is none, if the server cannot be listed."""
        found = await self._catalog.listing("tools", view, [server])
        if found.silent:
            return found.silent[server]
        tree: dict[str, Any] = {"server": server, "tools": [offer.read() for offer in found.offers]}
        said = await self._catalog.instructions(server, self._pool.introduction_of(server))
        return discovery_result({**tree, "instructions": own_words(said)} if said else tree)


def discovery_result(tree: dict[str, Any]) -> dict[str, Any]:
    """Return what a discovery tool has found, as the result of a call."""
    return {"content": [{"type": "text", "text": encode(tree).decode()}], "structuredContent": tree}


def _is_plain(key: str, value: Mapping[str, Any]) -> bool:
    """Whether an extension that a server declares may go to every client, though no person has approved it."""
    try:
        text = text_of_tree({key: value})
    except (ValueError, TypeError, RecursionError):
        return False
    return len(text) <= _LONGEST and not hidden_characters(text)


def own_words(instructions: str) -> str:
    """Return instructions as models read them: without what steers a terminal, and what could pass for another's."""
    return _MARK.sub(r"< \1", without_escapes(instructions[:_LONGEST]).strip())
