"""An HTTP/1.1 server as small as the gateway needs it, and as fast as asyncio lets it be.

It reads requests to the letter (`protocol.http_head`, `protocol.http_body`), hands each to an `HttpApplication` and
writes its one response; what is served is not known here. A request that is too long, too late or not understood ends
the connection. A client that goes away before it has its response ends the work on it.

    HttpServerConnection bytes in, one `ServerExchange` at a time (`http_server_connection`)
    ServerExchange       one request and its response (`http_server_exchange`)
    HttpServer           listens, keeps time for all connections by one clock, and ends them
    ConnectionAdmission  which connections stay, and which one gives way when there are too many (`http_admission`)

Start at `HttpServer.listen`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.net import peers
from byleave.net.http_server_connection import HttpServerConnection, ServerState
from byleave.net.http_server_exchange import HeadT

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from byleave.net.http_admission import ServerLimits
    from byleave.net.http_server_exchange import HttpApplication
    from byleave.net.peers import PeerAddress


_BACKLOG = 512
_OTHER_FILES = 320 + _BACKLOG  # files beside connections: servers, logs, and what was just accepted
_FEWEST = 16  # connections, however few files may be open
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# A client that is gone without a word is noticed: after this many seconds of silence it is asked for a sign of life, so
# many times, so many seconds apart; and what is sent and not confirmed (milliseconds) ends the connection.
_ALIVE_AFTER, _ALIVE_EVERY, _ALIVE_TIMES, _UNCONFIRMED = 60, 15, 4, 60_000


class HttpServer(ServerState[HeadT]):
    """Listens, and keeps time for all connections."""

    def __init__(self, application: HttpApplication[HeadT], limits: ServerLimits, warn: Callable[[str], None]) -> None:
        super().__init__(application, limits, warn)
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handler: Any = None

    def limit(self, limits: ServerLimits) -> None:
        """Take on other limits. There are no more connections than this process may have open files."""
        room = _room_for(limits.connections)
        if room < limits.connections:
            self._warn(f"there is room for {room} connections only: this process may have no more files open")
        self.limits = self.admission.limits = structs.replace(limits, connections=room)

    async def listen(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        """Begin to serve; OSError if the address cannot be had. `reuse_port`: other processes of ours listen, too."""
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time()
        self._server = await self.loop.create_server(
            lambda: HttpServerConnection(self), host, port, backlog=_BACKLOG, reuse_port=reuse_port or None
        )
        for end in self._server.sockets:
            _notice_the_dead(end)
        self._handler = self.loop.get_exception_handler()
        self.loop.set_exception_handler(self._trouble)
        self._tick()

    def _trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Make room where no more connections could be accepted; leave all other troubles to others."""
        problem = context.get("exception")
        if not (isinstance(problem, OSError) and problem.errno in _EXHAUSTED and "socket" in context):
            (self._handler or type(loop).default_exception_handler)(loop, context)
            return
        self._warn("no more connections can be accepted now: too many files are open")
        for connection in [each for each in self.connections if each.principal is None and each.is_idle]:
            connection.give_way()

    @property
    def addresses(self) -> list[PeerAddress]:
        """Where it listens."""
        return [peers.address_of(end.getsockname()) for end in self._server.sockets] if self._server else []

    async def close(self, *, grace: float = 5.0) -> None:
        """Take no more requests, finish the open ones within `grace` seconds, and end all connections."""
        self.is_closing = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.leave()
        if await self._finished(grace):
            for exchange in list(self.working):
                if exchange.task is not None:
                    exchange.task.cancel()
            await self._finished(1.0)
        if self._timer is not None:
            self._timer.cancel()
            self.loop.set_exception_handler(self._handler)
        for connection in [*self.connections, *self.leaving]:
            connection.abort()
        await asyncio.sleep(0)  # connections learn of their end in the next turn of the loop

    async def _finished(self, seconds: float) -> bool:
        """Wait for open work; return whether some is left."""
        open_tasks = [exchange.task for exchange in self.working if exchange.task is not None]
        if open_tasks:
            await asyncio.wait(open_tasks, timeout=seconds)
        return bool(self.working)

    def _tick(self) -> None:
        self.now = self.loop.time()
        self._timer = self.loop.call_later(self.limits.tick, self._tick)
        for connection in [*self.connections, *self.leaving]:
            connection.tick(self.now)
        self.application.tick(self.now)


def _room_for(connections: int) -> int:
    """Return for how many connections files may be open, having asked for as many as are needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY:
        return connections
    if soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return min(connections, max(_FEWEST, soft - _OTHER_FILES))


def _notice_the_dead(listening: socket.socket) -> None:
    """Have the kernel end connections whose client is gone without a word; those accepted here inherit it."""
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", None), _ALIVE_AFTER),
        (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPINTVL", None), _ALIVE_EVERY),
        (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPCNT", None), _ALIVE_TIMES),
        (socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", None), _UNCONFIRMED),
    ):
        if option is not None:
            with contextlib.suppress(OSError):
                listening.setsockopt(level, option, value)
