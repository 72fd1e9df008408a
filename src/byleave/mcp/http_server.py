"""An HTTP/1.1 server as small as the gateway needs it, and as fast as asyncio lets it be.

It reads requests to the letter (`http_request`, `wire.http_body`), hands each to `handle` and writes its one response;
what is asked for is no business of this module. Whatever is too long, too late or not understood ends the connection.
A client that goes away before it has its response ends the work on it.

    Connection   bytes in, one `Exchange` at a time; requests that are sent ahead wait their turn
    Exchange     one request and its response (`http_exchange`)
    HttpServer   listens, keeps time for all connections by one clock, and ends them

Start at `HttpServer.listen`.
"""

import asyncio
import contextlib
from functools import cached_property
from math import inf

from byleave.mcp import peers
from byleave.mcp.http_exchange import CLOSE, JSON, LINES, Exchange
from byleave.mcp.http_request import BadRequest, read_head
from byleave.mcp.message import NO_ID, error_parts, error_tree
from byleave.record import Record
from byleave.wire.http_body import MalformedError, body_reader
from byleave.wire.http_head import END, NO_BODY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from byleave.mcp.http_request import Head
    from byleave.mcp.peers import Address
    from byleave.wire.http_body import Body
    from byleave.wire.http_head import Framing

    Work = Callable[[], Coroutine[Any, Any, None]]
    Handle = Callable[[Exchange], "Work | None"]

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_PIECE = 1 << 18  # of a large answer, between two looks at whether the client keeps up
_MOST_AHEAD = 1 << 16  # bytes that may wait behind an open request; then nothing more is read
_MOST_STRANGERS = 64  # that may read why they are turned away
_BACKLOG = 512


class Limits(Record):
    """How much clients may take up, and how long (in seconds) they may take."""

    connections: int = 1024
    head_bytes: int = 1 << 15
    body_bytes: int = 8 << 20
    arrival: float = 20.0  # of a head, and of a body
    idle: float = 300.0
    stalled: float = 60.0  # without reading what we sent
    quiet: float = 15.0  # between two signs of life in a stream
    parting: float = 2.0  # for the client to read our last words
    tick: float = 1.0


class Connection(asyncio.Protocol):
    """One client's connection. A client that ends its own side counts as gone: one that is gone looks like it."""

    def __init__(self, server: "HttpServer") -> None:
        self.has_asked = False  # whether a whole request has come
        self._server = server
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # there from the first call on
        self._held = b""
        self._searched = 0
        self._head: Head | None = None
        self._framing: Framing = NO_BODY
        self._body: Body | None = None
        self._collected = bytearray()
        self._open: Exchange | None = None
        self._deadline = inf
        self._advancing = self._parting = self._resting = self._is_last = False
        self._flowing: asyncio.Event | None = None
        self._stalled_at = inf
        self._unread = 0
        self.is_lost = False

    @property
    def now(self) -> float:
        """The time, by the clock of all connections."""
        return self._server.now

    @property
    def is_stalled(self) -> bool:
        """Whether the client does not read what was sent."""
        return self._stalled_at != inf

    @cached_property
    def local(self) -> "Address":
        """The address at which the client reached us, and the port."""
        return peers.address_of(self._transport.get_extra_info("sockname"))

    @cached_property
    def is_ours(self) -> bool:
        """Whether a program of our own user (or of root) on this machine is at the other end. Asked once."""
        return peers.is_ours(peers.address_of(self._transport.get_extra_info("peername")), self.local)

    def keeps(self, head: "Head") -> bool:
        """Whether another request may follow this one."""
        return head.keeps_alive and not (self._server.is_closing or self._parting or self._is_last)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        refusal = self._server.admit(self)
        if refusal:
            self._transport.write(LINES[refusal] + CLOSE + b"Content-Length: 0\r\n\r\n")
            self._part()
            if len(self._server.strangers) >= _MOST_STRANGERS:
                self._transport.close()
            self._server.strangers.add(self)
            return
        self._deadline = self._server.after(self._server.limits.arrival)

    def connection_lost(self, _problem: Exception | None) -> None:
        self.is_lost = True
        self._server.connections.discard(self)
        self._server.strangers.discard(self)
        self._held, self._collected = b"", bytearray()
        if self._flowing is not None:
            self._flowing.set()
        if self._open is not None:
            exchange, self._open = self._open, None
            exchange.lose()

    def data_received(self, data: bytes) -> None:
        if self._parting:
            return
        self._held = self._held + data if self._held else data
        if self._open is None and self._stalled_at == inf:
            self._advance()
        elif len(self._held) > _MOST_AHEAD and not self._resting:
            self._resting = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._stalled_at = self._server.now
        self._unread = self._transport.get_write_buffer_size()
        if self._flowing is None:
            self._flowing = asyncio.Event()
        self._flowing.clear()

    def resume_writing(self) -> None:
        self._stalled_at = inf
        if self._flowing is not None:
            self._flowing.set()
        self._advance()

    def write(self, data: "bytes | memoryview") -> None:
        if not self.is_lost and not self._transport.is_closing():
            self._transport.write(data)

    async def write_piecewise(self, part: bytes) -> None:
        """Write a large part as fast as the client reads it."""
        view = memoryview(part)
        for start in range(0, len(view), _PIECE):
            await self.drained()
            self.write(view[start : start + _PIECE])

    async def drained(self) -> None:
        """Wait until the client has read most of what was written, or is gone."""
        if self._flowing is not None and not self._flowing.is_set():
            await self._flowing.wait()

    def abort(self) -> None:
        self._transport.abort()

    def finished(self, exchange: Exchange) -> None:
        """Go on after a response."""
        self._open = None
        if not self.keeps(exchange.head):
            self._part()
            return
        self._deadline = self._server.after(self._server.limits.idle)
        self._advance()

    def tick(self, now: float) -> None:
        """Do what time makes necessary."""
        if self._stalled_at != inf and self._has_stalled(now):
            self._transport.abort()
        elif now >= self._deadline:
            self._late()
        elif (exchange := self._open) is not None and exchange.on_quiet is not None and now >= exchange.quiet_at:
            exchange.quiet_at = now + self._server.limits.quiet
            exchange.on_quiet()

    def _has_stalled(self, now: float) -> bool:
        unread = self._transport.get_write_buffer_size()
        if unread < self._unread:
            self._stalled_at = now
        self._unread = unread
        return now >= self._stalled_at + self._server.limits.stalled

    def leave(self) -> None:
        """Close it as soon as the response that is open is complete; end what would stay open."""
        if self._open is None:
            self._transport.close()
        elif self._open.task is None:
            self._open.end_events()

    def _advance(self) -> None:
        """Take requests out of what has arrived, until one has to be waited for."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._held and self._open is None and self._stalled_at == inf and not self._parting:
                if not ((self._head is not None or self._read_head()) and self._read_body()):
                    break
        finally:
            self._advancing = False
        if self._resting and len(self._held) <= _MOST_AHEAD and not self._transport.is_closing():
            self._resting = False
            self._transport.resume_reading()

    def _read_head(self) -> bool:
        """Read the head of the next request; return whether it is there, and good."""
        held, limits = self._held, self._server.limits
        end = held.find(END, self._searched) + len(END)
        if end < len(END) or end > limits.head_bytes:
            if len(held) > limits.head_bytes:
                self._refuse(BadRequest("the head is too long", status=431))
            elif not self._searched:
                self._deadline = self._server.after(limits.arrival)
            self._searched = max(1, len(held) - len(END) + 1)
            return False
        self._held, self._searched = held[end:], 0
        found = read_head(held[:end])
        if isinstance(found, BadRequest):
            self._refuse(found)
            return False
        self._head, self._framing = found
        if (self._framing.length or 0) > limits.body_bytes:
            self._refuse(_too_large(limits))
            return False
        return True

    def _read_body(self) -> bool:
        """Read the body that belongs to the head; return whether it was complete, and the request could begin."""
        head, held = self._head, self._held
        assert head is not None  # noqa: S101 -- whoever calls has read it
        length = self._framing.length
        if self._body is None and length is not None and len(held) >= length:
            self._held = held[length:]
            self._begin(head, held[:length])
            return True
        if self._body is None and not self._begin_body(head):
            return False
        assert self._body is not None  # noqa: S101 -- it has begun
        try:
            self._collected += self._body.take(held)
        except MalformedError as problem:
            self._refuse(BadRequest(str(problem)))
            return False
        self._held = self._body.rest
        if len(self._collected) > self._server.limits.body_bytes:
            self._refuse(_too_large(self._server.limits))
            return False
        if not self._body.done:
            return False
        body, self._collected = bytes(self._collected), bytearray()
        self._begin(head, body)
        return True

    def _begin_body(self, head: "Head") -> bool:
        """Prepare to wait for a body; return whether it is worth waiting for."""
        if self._server.screen is not None:
            self._is_last = True
            exchange = self._open = Exchange(self, head, b"", inf)
            try:
                self._server.screen(exchange, self._framing.length)
            except Exception as problem:  # noqa: BLE001 -- as in `_begin`
                self._server.failed(problem)
                exchange.fail()
            if exchange.is_over:
                return False
            self._open, self._is_last = None, False
        self._body = body_reader(self._framing)
        self._deadline = self._server.after(self._server.limits.arrival)
        if head.expects and not self._held:
            self.write(_CONTINUE)
        return True

    def _begin(self, head: "Head", body: bytes) -> None:
        server = self._server
        self._head = self._body = None
        self._deadline = inf
        self.has_asked = True
        exchange = self._open = Exchange(self, head, body, server.after(server.limits.quiet))
        try:
            work = server.handle(exchange)
        except Exception as problem:  # noqa: BLE001 -- the outermost loop of a server
            server.failed(problem)
            exchange.fail()
            return
        if work is not None:
            exchange.task = server.loop.create_task(_run(server, exchange, work))

    def _refuse(self, problem: BadRequest) -> None:
        """Give the last response of this connection."""
        body = b"".join(error_parts(NO_ID, error_tree(problem.code, problem.problem)))
        self.write(b"%b%b%bContent-Length: %d\r\n\r\n" % (LINES[problem.status], JSON, CLOSE, len(body)) + body)
        self._part()

    def _part(self) -> None:
        """End our side, and drop what comes until the client has ended its own: it may still be writing."""
        self._parting = True
        self._held, self._collected = b"", bytearray()
        if self.is_lost or self._transport.is_closing():
            return
        self._deadline = self._server.after(
            self._server.limits.stalled if self._transport.get_write_buffer_size() else self._server.limits.parting
        )
        if self._resting:
            self._resting = False
            self._transport.resume_reading()
        with contextlib.suppress(OSError):  # it is gone already
            self._transport.write_eof()

    def _late(self) -> None:
        if self._parting:
            self._transport.abort()
        elif self._held or self._head is not None:
            self._refuse(BadRequest("the request did not arrive in time", status=408))
        else:
            self._transport.close()


class HttpServer:
    """Listens, and keeps what all connections share."""

    def __init__(self, handle: "Handle", limits: Limits, warn: "Callable[[str], None]") -> None:
        self.handle = handle
        self.limits = limits
        self.connections: set[Connection] = set()
        self.strangers: set[Connection] = set()  # turned away, and not gone yet: they take nobody's place
        self.working: set[Exchange] = set()
        self.is_closing = False
        self.on_tick: Callable[[float], None] | None = None
        self.admits: Callable[[Connection], bool] | None = None
        self.screen: Callable[[Exchange, int | None], None] | None = None  # may reply before the body is there
        self._warn = warn
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int) -> None:
        """Begin to serve; OSError if the address cannot be had."""
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time()
        self._server = await self.loop.create_server(lambda: Connection(self), host, port, backlog=_BACKLOG)
        self._tick()

    @property
    def addresses(self) -> "list[Address]":
        """Where it listens."""
        return [peers.address_of(end.getsockname()) for end in self._server.sockets] if self._server else []

    def after(self, seconds: float) -> float:
        """Return when this time will have passed, as the clock of all connections tells it."""
        return self.now + seconds

    def admit(self, connection: Connection) -> int:
        """Take a connection on; return 0, or the status with which it is turned away."""
        if len(self.connections) >= self.limits.connections:
            self._turn_out_a_stranger()
        if self.is_closing or len(self.connections) >= self.limits.connections:
            return 503
        if self.admits is not None and not self.admits(connection):
            return 403
        self.connections.add(connection)
        return 0

    def _turn_out_a_stranger(self) -> None:
        """Let go of a connection on which nobody has asked anything yet, so that idle ones do not lock others out."""
        stranger = next((each for each in self.connections if not each.has_asked), None)
        if stranger is not None:
            self.connections.discard(stranger)
            stranger.abort()

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
        for connection in [*self.connections, *self.strangers]:
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
        for connection in [*self.connections, *self.strangers]:
            connection.tick(self.now)
        if self.on_tick is not None:
            self.on_tick(self.now)


async def _run(server: HttpServer, exchange: Exchange, work: "Work") -> None:
    """Do the work on one request, and see that it has a response in the end."""
    server.working.add(exchange)  # a task that nobody holds may be collected in the middle of its work
    try:
        await work()
    except Exception as problem:  # noqa: BLE001 -- the outermost loop of a server
        server.failed(problem)
    finally:
        server.working.discard(exchange)
        exchange.task = None
        if not exchange.is_over:
            exchange.fail()


def _too_large(limits: Limits) -> BadRequest:
    return BadRequest(f"the body is longer than {limits.body_bytes} bytes", status=413)
