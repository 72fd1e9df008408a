"""The servers that one session has opened: reached by name, kept between calls, let go of when they are not needed.

A server with `stateful = false` gets a connection for each call (`reached_once`); one that was opened only to be listed
is let go of soon. Which connections are shared with other sessions is the pool's decision (`server_pool`).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING

from byleave.gateway.interfaces import DownError
from byleave.gateway.revisions import STATELESS
from byleave.gateway.server_pool import is_shared, waits_for
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from byleave.gateway.background import BackgroundTasks
    from byleave.gateway.context import GatewayContext
    from byleave.gateway.server_pool import PoolMember, ServerPool
    from byleave.gateway.upstream import Upstream
    from byleave.policy.servers import ServerConfig

_LOOK_AGAIN = 0.05  # seconds
_LISTING = 5.0  # seconds after which a server without state is let go of, if it owes no answer


class OpenedServers:
    """The connections of one session."""

    def __init__(
        self, context: GatewayContext, pool: ServerPool, session: PoolMember, background: BackgroundTasks
    ) -> None:
        self._context = context
        self._pool = pool
        self._session = session
        self._background = background
        self._upstreams: dict[str, Upstream] = {}
        self._alone: set[str] = set()  # servers that this session has called a tool of, and shares no longer
        self._closing: set[Upstream] = set()  # and those that are for one call
        self._closed = False

    @property
    def configured(self) -> Mapping[str, ServerConfig]:
        """The servers that there are, by the policy as it is now."""
        return self._context.servers

    def reach(self, name: str) -> Upstream:
        """Return the connection to a server; a DownError if there is no server of that name."""
        upstream = self._upstreams.get(name)
        if upstream is None:
            upstream = self._upstreams[name] = self._connect(name)
        return upstream

    def _connect(self, name: str, tool: str | None = None) -> Upstream:
        server = self.configured.get(name)
        if server is None or self._closed:
            problem = f"there is no server named {quoted(name)}"
            raise DownError(problem, hint="`byleave mcp --check` lists the servers", public=problem)
        return self._pool.connect(server, self._session, tool, alone=name in self._alone)

    @asynccontextmanager
    async def reached_once(self, name: str, tool: str | None = None) -> AsyncIterator[Upstream]:
        """Yield a connection to a server for one call alone."""
        upstream = self._connect(name, tool)
        self._closing.add(upstream)
        try:
            await upstream.ready()
            yield upstream
        finally:
            self._closing.discard(upstream)
            await upstream.close()

    async def stand_alone(self, name: str) -> bool:
        """Share the process of a server no longer, before a call that may leave state in it.

        Return whether another connection is used from now on, so that what was listed has to be listed again. What
        `share = true` says of a server, and its revision, is believed: it keeps no state.
        """
        upstream = self.reach(name)
        if name in self._alone or not is_shared(upstream) or self.configured[name].share is True:
            return False
        await upstream.ready()
        if upstream.revision in STATELESS or self._upstreams.get(name) is not upstream:
            return False
        self._alone.add(name)
        if self._pool.take(upstream, self._session):
            return False
        del self._upstreams[name]
        self._closing.add(upstream)
        self._background.start(self._leave(upstream))
        return True

    async def _leave(self, upstream: Upstream) -> None:
        """Leave a shared server once it has answered what this session asked of it before."""
        until = monotonic() + self._context.settings.call_timeout
        while waits_for(upstream, self._session) and monotonic() < until:  # noqa: ASYNC110 -- it happens once
            await asyncio.sleep(_LOOK_AGAIN)
        await self._release(upstream)

    def may_ask_for(self, name: str) -> tuple[str, ...] | None:
        """Return which capabilities of the client a server may use; None for all of them."""
        server = self.configured.get(name)
        return () if server is None else server.may

    def keeps(self, name: str) -> bool:
        """Whether the connection to a server outlives one call."""
        server = self.configured.get(name)
        return server is not None and server.stateful

    def is_up(self, name: str) -> bool:
        """Whether there is a connection to a server already."""
        upstream = self._upstreams.get(name)
        return upstream is not None and upstream.is_up

    def is_shared(self, name: str) -> bool:
        """Whether other sessions may use the connection to a server."""
        upstream = self._upstreams.get(name)
        return upstream is not None and is_shared(upstream)

    @property
    def up(self) -> list[Upstream]:
        """The connections that there are."""
        return [each for each in self._upstreams.values() if each.is_up]

    def let_go_soon(self, upstream: Upstream) -> None:
        """End, after a while, a connection to a server without state that was opened to be listed."""
        asyncio.get_running_loop().call_later(_LISTING, self._let_go, upstream)

    def _let_go(self, upstream: Upstream) -> None:
        if self._upstreams.get(upstream.name) is not upstream:
            return
        if upstream.waiting:
            self.let_go_soon(upstream)
        else:
            self.drop({upstream.name})

    def drop(self, names: set[str]) -> list[str]:
        """Let go of servers that are gone from the configuration, or changed there; return those that were opened."""
        dropped = [self._upstreams.pop(name) for name in names if name in self._upstreams]
        for upstream in dropped:
            if not is_shared(upstream):
                upstream.mute()
            self._closing.add(upstream)
            self._background.start(self._release(upstream))
        return [upstream.name for upstream in dropped]

    async def rest(self) -> bool:
        """End the processes that run for this session alone until they are needed again; return whether there were any.

        One that a resource is subscribed to at stays.
        """
        resting = [
            upstream
            for name, upstream in self._upstreams.items()
            if upstream.is_up
            and not upstream.waiting
            and (name in self._alone or not is_shared(upstream))  # a shared one may be ours alone by now
            and name in self.configured
            and self.configured[name].transport == "stdio"
            and name not in self._session.notifications.subscribed.values()
        ]
        await asyncio.gather(*(upstream.rest() for upstream in resting))
        return bool(resting)

    async def _release(self, upstream: Upstream) -> None:
        try:
            await self._pool.release(upstream, self._session)
        finally:
            self._closing.discard(upstream)

    async def close(self) -> None:
        """Let go of every server."""
        self._closed = True
        upstreams = [*self._upstreams.values(), *self._closing]
        self._upstreams.clear()
        await asyncio.gather(*(self._pool.release(upstream, self._session) for upstream in upstreams))
