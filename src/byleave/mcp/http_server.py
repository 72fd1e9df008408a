"""An HTTP/1.1 server as small as the gateway needs it, and as fast as asyncio lets it be.

It reads requests to the letter (`http_request`, `wire.http_body`), hands each to `handle` and writes its one response;
what is asked for is no business of this module. Whatever is too long, too late or not understood ends the connection.
A client that goes away before it has its response ends the work on it. Until a request has shown who is calling, its
connection is a stranger's: it has seconds, not minutes, and gives way to others (`admission`).

    Connection   bytes in, one `Exchange` at a time (`http_connection`)
    Exchange     one request and its response (`http_exchange`)
    HttpServer   listens, keeps time for all connections by one clock, and ends them

Start at `HttpServer.listen`.
"""

import asyncio
import contextlib
import errno
import resource
import socket
from collections import Counter

from byleave.mcp import peers
from byleave.mcp.admission import Admission
from byleave.mcp.http_connection import Connection
from byleave.mcp.http_request import BadRequest
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from byleave.mcp.http_exchange import Exchange
    from byleave.mcp.peers import Address

    Work = Callable[[], Coroutine[Any, Any, None]]
    Handle = Callable[[Exchange], "Work | None"]

_BACKLOG = 512
_OTHER_FILES = 320 + _BACKLOG  # files beside connections: servers, logs, and what was just accepted
_FEWEST = 16  # connections, however few files may be open
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# A client that is gone without a word is noticed: after this many seconds of silence it is asked for a sign of life, so
# many times, so many seconds apart; and what is sent and not confirmed (milliseconds) ends the connection.
_ALIVE_AFTER, _ALIVE_EVERY, _ALIVE_TIMES, _UNCONFIRMED = 60, 15, 4, 60_000


class Limits(Record):
    """How much clients may take up, and how long (in seconds) they may take."""

    connections: int = 1024
    per_peer: int = 512  # connections of one peer whose callers are not known
    per_caller: int = 512  # connections of one caller
    head_bytes: int = 1 << 15
    body_bytes: int = 8 << 20
    arrival: float = 20.0  # of a head, and of a body
    idle: float = 300.0
    stranger: float = 5.0  # without a request, and without reading, for those who have not shown who they are
    stalled: float = 60.0  # without reading what we sent
    quiet: float = 15.0  # between two signs of life in a stream
    parting: float = 2.0  # for the client to read our last words
    tick: float = 1.0


class HttpServer:
    """Listens, and keeps what all connections share."""

    def __init__(self, handle: "Handle", limits: Limits, warn: "Callable[[str], None]") -> None:
        self.handle = handle
        self.limits = limits
        self.connections: set[Connection] = set()
        self.admission = Admission(limits)
        self.leaving: set[Connection] = set()  # turned away, and not gone yet: they take nobody's place
        self.held_bytes: Counter[str] = Counter()  # of large bodies, by principal
        self.gave_way = 0  # connections that were ended for others
        self.working: set[Exchange] = set()
        self.is_closing = False
        self.on_tick: Callable[[float], None] | None = None
        self.admits: Callable[[Connection], BadRequest | None] | None = None
        self.on_refused: Callable[[BadRequest], None] | None = None
        self.screen: Callable[[Exchange, int | None], None] | None = None  # may reply before the body is there
        self._warn = warn
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handler: Any = None

    def limit(self, limits: Limits) -> None:
        """Take on other limits. There are no more connections than this process may have open files."""
        room = _room_for(limits.connections)
        if room < limits.connections:
            self._warn(f"there is room for {room} connections only: this process may have no more files open")
        self.limits = self.admission.limits = limits.replace(connections=room)

    async def listen(self, host: str, port: int) -> None:
        """Begin to serve; OSError if the address cannot be had."""
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time()
        self._server = await self.loop.create_server(lambda: Connection(self), host, port, backlog=_BACKLOG)
        for end in self._server.sockets:
            _notice_the_dead(end)
        self._handler = self.loop.get_exception_handler()
        self.loop.set_exception_handler(self._trouble)
        self._tick()

    def _trouble(self, loop: asyncio.AbstractEventLoop, context: "dict[str, Any]") -> None:
        """Make room where no more connections could be accepted; leave all other troubles to others."""
        problem = context.get("exception")
        if not (isinstance(problem, OSError) and problem.errno in _EXHAUSTED and "socket" in context):
            (self._handler or type(loop).default_exception_handler)(loop, context)
            return
        self._warn("no more connections can be accepted now: too many files are open")
        for connection in [each for each in self.connections if each.principal is None and each.is_idle]:
            connection.give_way()

    @property
    def addresses(self) -> "list[Address]":
        """Where it listens."""
        return [peers.address_of(end.getsockname()) for end in self._server.sockets] if self._server else []

    def after(self, seconds: float) -> float:
        """Return when this time will have passed, as the clock of all connections tells it."""
        return self.now + seconds

    def admit(self, connection: Connection) -> BadRequest | None:
        """Take a connection on; return None, or with which words it is turned away."""
        if self.is_closing:
            return BadRequest("the gateway is closing", status=503)
        refused = self.admits(connection) if self.admits is not None else None
        if refused is None:
            self.admission.enter(connection)
            self.connections.add(connection)
        return refused

    def failed(self, problem: Exception) -> None:
        """Note a failure of our own; clients learn nothing of it."""
        self._warn(f"a request failed: {type(problem).__name__}")  # what it says may be a stranger's words

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
        if self.on_tick is not None:
            self.on_tick(self.now)


def _room_for(connections: int) -> int:
    """Return for how many connections files may be open, having asked for as many as are needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY:
        return connections
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
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
