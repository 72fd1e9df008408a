"""An HTTP/1.1 server as small as the gateway needs it, and as fast as asyncio lets it be.

It reads requests to the letter (`http_request`, `protocol.http_body`), hands each to `handle` and writes its one
response; what is asked for is no business of this module. Whatever is too long, too late or not understood ends the
connection. A client that goes away before it has its response ends the work on it. Until a request has shown who is
calling, its connection is a stranger's: it has seconds, not minutes, and gives way to others (`admission`).

    Connection   bytes in, one `Exchange` at a time (`http_connection`)
    Exchange     one request and its response (`http_exchange`)
    HttpServer   listens, keeps time for all connections by one clock, and ends them

Start at `HttpServer.listen`.

Which connections to the gateway stay, and which one gives way when there are too many. Pure.

A connection is a stranger's until a request on it has shown who is calling. Strangers have the places that are left, of
which some are always theirs, so that a caller gets in to show who it is. A new stranger takes the place of the one that
was there longest, of the peer that holds most: what it has done meanwhile does not count, for a byte is sent easily. A
caller keeps its connections against strangers, up to a limit of its own. When all places for callers are taken, the
caller that holds most gives way to one that holds fewer. So no number of idle connections keeps a caller out, and no
caller keeps another one out.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.gateway.http_exchange import BadRequest
from byleave.gateway.http_server_connection import ServerConnection
from byleave.net import peers

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import Any, Protocol

    class Held(Protocol):
        """A connection. `peer` is None for a proxy, which stands for many."""

        peer: str | None
        principal: str | None

        @property
        def is_idle(self) -> bool:
            """Whether no request is open on it, or arriving."""

        @property
        def is_standing(self) -> bool:
            """Whether it only carries a stream that its client can open again."""

        def give_way(self) -> None:
            """End it at once."""

    from collections.abc import Callable, Coroutine

    from byleave.gateway.http_exchange import HttpExchange
    from byleave.net.peers import PeerAddress

    Work = Callable[[], Coroutine[Any, Any, None]]
    Handle = Callable[[HttpExchange], "Work | None"]


_SHARE = 8  # of so many places one is for strangers alone


class ConnectionAdmission:
    """All connections: those of strangers by peer, the oldest first, and those of callers by principal."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._strangers: dict[str | None, dict[Held, None]] = {}
        self._callers: dict[str, dict[Held, None]] = {}
        self._proven = 0
        self._unproven = 0

    def __len__(self) -> int:
        return self._proven + self._unproven

    def counts(self) -> dict[str, int]:
        """Return how many connections are those of callers, and of strangers."""
        return {"caller": self._proven, "stranger": self._unproven}

    def enter(self, held: Held) -> None:
        """Take a new connection on, and end another one if there is no room for both."""
        if held.peer is not None and len(self._strangers.get(held.peer, ())) >= self.limits.per_peer:
            self._end(next(iter(self._strangers[held.peer])))
        while self._strangers and len(self) >= self.limits.connections:
            largest = max(self._strangers.values(), key=len)
            self._end(next(iter(largest)))
        while self._callers and len(self) >= self.limits.connections:  # there may be fewer than there were before
            largest = max(self._callers.values(), key=len)
            self._end(_spare(largest) or next(reversed(largest)))
        self._strangers.setdefault(held.peer, {})[held] = None
        self._unproven += 1

    def prove(self, held: Held, principal: str) -> bool:
        """Note whose connection it is now; return whether there is room for it among those of callers."""
        if held.principal == principal:
            return True
        own = self._callers.get(principal, {})
        if len(own) >= self.limits.per_caller:
            going = _spare(own)
            if going is None:
                return False
            self._end(going)
        if held.principal is None and self._proven >= _for_callers(self.limits.connections):
            going = self._going_for(principal)
            if going is None:
                return False
            self._end(going)
        self.leave(held)
        held.principal = principal
        self._callers.setdefault(principal, {})[held] = None
        self._proven += 1
        return True

    def leave(self, held: Held) -> None:
        """Forget a connection; it may be forgotten already."""
        if held.principal is None:
            self._unproven -= _taken(self._strangers, held.peer, held)
        else:
            self._proven -= _taken(self._callers, held.principal, held)

    def _end(self, held: Held) -> None:
        self.leave(held)
        held.give_way()

    def _going_for(self, principal: str) -> Held | None:
        """Return the connection that makes room for one more of this caller, if it is entitled to it."""
        own = self._callers.get(principal, {})
        largest = max(self._callers.values(), key=len)
        if len(largest) <= len(own) + 1:
            return _spare(own)
        return _spare(largest) or next(reversed(largest))


def _for_callers(connections: int) -> int:
    return max(1, connections - max(1, connections // _SHARE))


def _taken(groups: dict[Any, dict[Held, None]], key: Hashable, held: Held) -> int:
    """Take a connection out of its group; return how many that were."""
    group = groups.get(key)
    if group is None or held not in group:
        return 0
    del group[held]
    if not group:
        del groups[key]
    return 1


def _spare(group: Iterable[Held]) -> Held | None:
    """Return a connection that its client can do without: an idle one, else one that only stands open."""
    idle = next((each for each in group if each.is_idle), None)
    return idle or next((each for each in group if each.is_standing), None)


_BACKLOG = 512
_OTHER_FILES = 320 + _BACKLOG  # files beside connections: servers, logs, and what was just accepted
_FEWEST = 16  # connections, however few files may be open
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# A client that is gone without a word is noticed: after this many seconds of silence it is asked for a sign of life, so
# many times, so many seconds apart; and what is sent and not confirmed (milliseconds) ends the connection.
_ALIVE_AFTER, _ALIVE_EVERY, _ALIVE_TIMES, _UNCONFIRMED = 60, 15, 4, 60_000


class ServerLimits(Struct, frozen=True):
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

    def __init__(self, handle: Handle, limits: ServerLimits, warn: Callable[[str], None]) -> None:
        self.handle = handle
        self.limits = limits
        self.connections: set[ServerConnection] = set()
        self.admission = ConnectionAdmission(limits)
        self.leaving: set[ServerConnection] = set()  # turned away, and not gone yet: they take nobody's place
        self.held_bytes: Counter[str] = Counter()  # of large bodies, by principal
        self.gave_way = 0  # connections that were ended for others
        self.working: set[HttpExchange] = set()
        self.is_closing = False
        self.on_tick: Callable[[float], None] | None = None
        self.admits: Callable[[ServerConnection], BadRequest | None] | None = None
        self.on_refused: Callable[[BadRequest], None] | None = None
        self.screen: Callable[[HttpExchange, int | None], None] | None = None  # may reply before the body is there
        self._warn = warn
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handler: Any = None

    def limit(self, limits: ServerLimits) -> None:
        """Take on other limits. There are no more connections than this process may have open files."""
        room = _room_for(limits.connections)
        if room < limits.connections:
            self._warn(f"there is room for {room} connections only: this process may have no more files open")
        self.limits = self.admission.limits = structs.replace(limits, connections=room)

    async def listen(self, host: str, port: int) -> None:
        """Begin to serve; OSError if the address cannot be had."""
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time()
        self._server = await self.loop.create_server(lambda: ServerConnection(self), host, port, backlog=_BACKLOG)
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

    def after(self, seconds: float) -> float:
        """Return when this time will have passed, as the clock of all connections tells it."""
        return self.now + seconds

    def admit(self, connection: ServerConnection) -> BadRequest | None:
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
