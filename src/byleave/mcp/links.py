"""A link for every server, by how it is reached: started by us, over streamable HTTP, or over HTTP with a stream.

`make_link` makes one for one caller; nothing happens before it is opened. For a server with `stateful = false` make one
for each call, with the name of the access that holds for that call (`server.tool_of`), and close it after the answer.
"""

import asyncio

from byleave.mcp.ends import DownError
from byleave.mcp.http_client import HttpClient
from byleave.text import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.api import Workspace
    from byleave.config.servers import Expanded, Server
    from byleave.guard.judge import Policy
    from byleave.mcp.ends import Hearer, Link
    from byleave.mcp.starting import Starter
    from byleave.sandbox.network import Decide

    Make = Callable[[Server, Expanded, Hearer, "Surroundings", str | None], Link]


class Surroundings:
    """What the links of a gateway share: sandboxes, connections, one TLS context. Close it after the last link."""

    def __init__(
        self,
        workspace: "Workspace",
        policy: "Policy",
        environment: "Mapping[str, str]",
        *,
        decide: "Decide | None" = None,
        told: "Callable[[str, bytes], None] | None" = None,
        client: HttpClient | None = None,
    ) -> None:
        """`decide` answers what servers want of the network (a guard's records it); `told` hears their stderr."""
        self.client = client if client is not None else HttpClient()
        self.told = told
        self._how = (workspace, policy, environment, decide)
        self._starter: Starter | None = None

    @property
    def starter(self) -> "Starter":
        """What starts servers; loaded when one is to be started."""
        if self._starter is None:
            from byleave.mcp.starting import Starter

            self._starter = Starter(*self._how)
        return self._starter

    async def close(self) -> None:
        """Let go of everything."""
        await self.client.close()
        if self._starter is not None:
            await asyncio.to_thread(self._starter.close)


def make_link(
    server: "Server", expanded: "Expanded", hearer: "Hearer", surroundings: Surroundings, tool: str | None = None
) -> "Link":
    """Return a link to a server, not opened yet. `tool`: of `server.tool_of`, where a link is for one call."""
    make = _MAKERS.get(server.transport)
    if make is None:
        problem = f"the server {shown(server.name)} is reached by {quoted(server.transport)}, which is unknown"
        raise DownError(problem, hint="use stdio, http or sse", public=problem)
    return make(server, expanded, hearer, surroundings, tool)


def _stdio(
    server: "Server", expanded: "Expanded", hearer: "Hearer", surroundings: Surroundings, tool: str | None
) -> "Link":
    from byleave.mcp.stdio_link import StdioLink

    return StdioLink(server, expanded, hearer, surroundings.starter, tool=tool, told=surroundings.told)


def _http(
    server: "Server", expanded: "Expanded", hearer: "Hearer", surroundings: Surroundings, _tool: str | None
) -> "Link":
    from byleave.mcp.http_link import HttpLink

    return HttpLink(server, expanded, hearer, surroundings.client)


def _sse(
    server: "Server", expanded: "Expanded", hearer: "Hearer", surroundings: Surroundings, _tool: str | None
) -> "Link":
    from byleave.mcp.sse_link import SseLink

    return SseLink(server, expanded, hearer, surroundings.client)


_MAKERS: "dict[str, Make]" = {"stdio": _stdio, "http": _http, "sse": _sse}
