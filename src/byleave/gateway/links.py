"""A link for every server, by how it is reached: started by us, over streamable HTTP, or over HTTP with a stream.

`make_link` makes one for one caller; nothing happens before it is opened. For a server with `stateful = false` make one
for each call, with the name of the access that holds for that call (`server.tool_of`), and close it after the answer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from byleave.gateway.http_link import HttpLink
from byleave.gateway.interfaces import DownError
from byleave.gateway.spawn import ServerSpawner
from byleave.gateway.sse_link import SseLink
from byleave.gateway.stdio_link import StdioLink
from byleave.net.http_async_client import AsyncHttpClient
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.gateway.interfaces import Link, Receiver
    from byleave.gateway.limits import ServerProcesses
    from byleave.net.proxy import Decide
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.policy.servers import ExpandedServer, ServerConfig

    Make = Callable[[ServerConfig, ExpandedServer, Receiver, "LinkContext", str | None], Link]


class LinkContext:
    """What the links of a gateway share: sandboxes, connections, one TLS context. Close it after the last link."""

    def __init__(
        self,
        workspace: Workspace,
        policy: LivePolicy,
        environment: Mapping[str, str],
        *,
        decide: Decide,
        on_stderr: Callable[[str, bytes], None] | None = None,
        client: AsyncHttpClient | None = None,
        processes: ServerProcesses | None = None,
    ) -> None:
        """`decide` decides what servers request of the network (a guard records that); `on_stderr` gets stderr."""
        self.processes = processes
        self.client = client if client is not None else AsyncHttpClient()
        self.on_stderr = on_stderr
        self._how = (workspace, policy, environment, decide)
        self._starter: ServerSpawner | None = None

    @property
    def starter(self) -> ServerSpawner:
        """What starts servers; loaded when one is to be started."""
        if self._starter is None:
            self._starter = ServerSpawner(*self._how)
        return self._starter

    async def close(self) -> None:
        """Let go of everything."""
        await self.client.close()
        if self._starter is not None:
            await asyncio.to_thread(self._starter.close)


def make_link(
    server: ServerConfig,
    expanded: ExpandedServer,
    receiver: Receiver,
    surroundings: LinkContext,
    tool: str | None = None,
) -> Link:
    """Return a link to a server, not opened yet. `tool`: of `server.tool_of`, where a link is for one call."""
    make = _MAKERS.get(server.transport)
    if make is None:
        problem = f"the server {shown(server.name)} is reached by {quoted(server.transport)}, which is unknown"
        raise DownError(problem, hint="use stdio, http or sse", public=problem)
    return make(server, expanded, receiver, surroundings, tool)


def _stdio(
    server: ServerConfig, expanded: ExpandedServer, receiver: Receiver, surroundings: LinkContext, tool: str | None
) -> Link:
    return StdioLink(
        server,
        expanded,
        receiver,
        surroundings.starter,
        tool=tool,
        on_stderr=surroundings.on_stderr,
        processes=surroundings.processes,
    )


def _http(
    server: ServerConfig, expanded: ExpandedServer, receiver: Receiver, surroundings: LinkContext, _tool: str | None
) -> Link:
    return HttpLink(server, expanded, receiver, surroundings.client)


def _sse(
    server: ServerConfig, expanded: ExpandedServer, receiver: Receiver, surroundings: LinkContext, _tool: str | None
) -> Link:
    return SseLink(server, expanded, receiver, surroundings.client)


_MAKERS: dict[str, Make] = {"stdio": _stdio, "http": _http, "sse": _sse}
