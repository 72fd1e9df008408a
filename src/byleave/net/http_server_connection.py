"""One client's connection to an HTTP server: bytes in, one `ServerExchange` at a time; pipelined requests wait.

Until a request has shown who is calling, it is a stranger's: it has seconds, not minutes, and gives way to others
(`ConnectionAdmission`). What all connections share, and the one clock by which they act: `http_server`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Generic

from byleave.net import peers
from byleave.net.eager_task import EagerTask
from byleave.net.http_admission import ConnectionAdmission
from byleave.net.http_server_exchange import CLOSE, JSON, LINES, BadRequest, HeadT, ServerExchange, read_head
from byleave.protocol.http_body import MalformedBodyError, body_reader
from byleave.protocol.http_head import END, NO_BODY, Framing, known_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.net.http_admission import ServerLimits
    from byleave.net.http_server_exchange import HttpApplication, ServerRequestHead, Work
    from byleave.net.peers import PeerAddress, SocketOwner
    from byleave.protocol.http_body import Body
    from byleave.protocol.http_head import KnownHead

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_PIECE = 1 << 18  # of a large answer, between two looks at whether the client keeps up
_READ_AT_LEAST = 1 << 15  # bytes that a client must read to be given more time: a byte now and then is not enough
_MOST_AHEAD = 1 << 16  # bytes that may wait behind an open request; then nothing more is read
_MOST_LEAVING = 64  # connections that may read why they are turned away
_IN_A_ROW = 16  # requests sent ahead that are answered before others have their turn
_MOST_ASKED = 100  # requests on a connection of which none shows who is calling
_BODIES = 8  # largest bodies of one caller that may be held at a time
_SMALL = 1 << 16  # bytes of a body that is not counted


class ServerState(Generic[HeadT]):
    """What all connections of a server share."""

    loop: asyncio.AbstractEventLoop
    now: float

    def __init__(self, application: HttpApplication[HeadT], limits: ServerLimits, warn: Callable[[str], None]) -> None:
        self.application = application
        self.limits = limits
        self.connections: set[HttpServerConnection[HeadT]] = set()
        self.admission = ConnectionAdmission(limits)
        self.leaving: set[HttpServerConnection[HeadT]] = set()  # turned away, and not gone yet: they take no place
        self.held_bytes: Counter[str] = Counter()  # of large bodies, by principal
        self.gave_way = 0  # connections that were ended for others
        self.working: set[ServerExchange[HeadT]] = set()
        self.is_closing = False
        self._warn = warn

    def after(self, seconds: float) -> float:
        """Return when this time will have passed, by the clock of all connections."""
        return self.now + seconds

    def admit(self, connection: HttpServerConnection[HeadT]) -> BadRequest | None:
        """Take a connection on; return None, or with which words it is turned away."""
        if self.is_closing:
            return BadRequest("the server is closing", status=503)
        refused = self.application.admit(connection)
        if refused is None:
            self.admission.enter(connection)
            self.connections.add(connection)
        return refused

    def failed(self, problem: Exception) -> None:
        """Note a failure of our own; clients learn nothing of it."""
        self._warn(f"a request failed: {type(problem).__name__}")  # what it says may be a stranger's words


class HttpServerConnection(asyncio.Protocol, Generic[HeadT]):
    """One client's connection. A client that ends its own side counts as gone: one that is gone looks like it."""

    def __init__(self, server: ServerState[HeadT]) -> None:
        self.principal: str | None = None  # whose it is; None as long as it is a stranger's
        self.peer: str | None = None
        self._server = server
        self._asked = 0
        self._charged = 0
        self._charged_to = ""
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # there from the first call on
        self._held = b""
        self._searched = 0
        self._head: HeadT | None = None
        self._framing: Framing = NO_BODY
        self._known: KnownHead[HeadT] | None = None  # its last one, which clients repeat but for the length
        self._body: Body | None = None
        self._collected = bytearray()
        self._open: ServerExchange[HeadT] | None = None
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
    def local(self) -> PeerAddress:
        """The address at which the client reached us, and the port."""
        return peers.address_of(self._transport.get_extra_info("sockname"))

    @cached_property
    def remote(self) -> PeerAddress:
        """The address at the other end, and the port."""
        return peers.address_of(self._transport.get_extra_info("peername"))

    @cached_property
    def owner(self) -> SocketOwner | None:
        """Who holds the other end, if it is on this machine. Asked once."""
        return peers.owner_of(self.remote, self.local) if self.remote.is_loopback else None

    @property
    def is_ours(self) -> bool:
        """Whether a program of our own user (or of root) on this machine is at the other end."""
        return self.remote.is_loopback and peers.is_our_user(self.owner)

    @property
    def is_idle(self) -> bool:
        """Whether no request is open, or arriving."""
        return self._open is None and not self._held and self._head is None

    @property
    def is_standing(self) -> bool:
        """Whether the response that is open is a stream that stands for itself: its client can open it again."""
        return self._open is not None and self._open.task is None and self._open.is_streaming

    def belongs_to(self, principal: str) -> bool:
        """Note whose connection it is; return whether there is room for it among those of this caller."""
        return principal == self.principal or self._server.admission.prove(self, principal)

    def keeps(self, head: ServerRequestHead) -> bool:
        """Whether another request may follow this one."""
        if self._server.is_closing or self._parting or self._is_last:
            return False
        return head.keeps_alive and (self.principal is not None or self._asked < _MOST_ASKED)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        refusal = self._server.admit(self)
        if refusal is not None:
            self._refuse(refusal)
            if len(self._server.leaving) >= _MOST_LEAVING:
                self._transport.close()
            self._server.leaving.add(self)
            return
        self._deadline = self._server.after(self._rest)

    def connection_lost(self, _problem: Exception | None) -> None:
        self.is_lost = True
        self._server.connections.discard(self)
        self._server.leaving.discard(self)
        self._server.admission.leave(self)
        self._held, self._collected, self._known = b"", bytearray(), None
        self._charge(0)
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
        if len(self._held) > _MOST_AHEAD and not self._resting:
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

    def write(self, data: bytes | memoryview) -> None:
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

    def give_way(self) -> None:
        """End for another connection, which takes the place at once."""
        self._server.connections.discard(self)
        self._server.gave_way += 1
        standing = self._open if self.is_standing else None
        if standing is not None:
            self._is_last = True
            standing.end_events()
            if standing.on_lost is not None:
                standing.on_lost()
        if self.is_idle and not self._transport.get_write_buffer_size():
            self._transport.close()
        else:
            self._transport.abort()

    @property
    def _rest(self) -> float:
        """How long it may go on without a request."""
        limits = self._server.limits
        return limits.idle if self.principal is not None else min(limits.idle, limits.stranger)

    def _charge(self, size: int) -> bool:
        """Count the bytes of a body that is held here; return whether the caller may have so many."""
        if size == self._charged or (size <= _SMALL and not self._charged):
            return True
        held = self._server.held_bytes
        if not self._charged:
            self._charged_to = self.principal or ""
        name = self._charged_to
        held[name] += size - self._charged
        self._charged = size
        if not held[name]:
            del held[name]
        return held[name] <= _BODIES * self._server.limits.body_bytes

    def finished(self, head: ServerRequestHead) -> None:
        """Go on after a response."""
        self._open = None
        self._charge(0)
        if not self.keeps(head):
            self._part()
            return
        self._deadline = self._server.after(self._rest)
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
        if unread <= self._unread - _READ_AT_LEAST:
            self._stalled_at, self._unread = now, unread
        return now >= self._stalled_at + min(self._server.limits.stalled, self._longest_stall)

    @property
    def _longest_stall(self) -> float:
        return inf if self.principal is not None else self._server.limits.stranger

    def leave(self) -> None:
        """Close it as soon as the response that is open is complete; end what would stay open."""
        if self._open is None:
            self._transport.close()
        elif self._open.task is None:
            self._open.end_events()

    def _advance(self) -> None:
        """Take requests out of what has arrived, until one has to be waited for, or others have their turn."""
        if self._advancing:
            return
        self._advancing = True
        try:
            for _ in range(_IN_A_ROW):
                if not self._held or self._open is not None or self._stalled_at != inf or self._parting:
                    break
                if not ((self._head is not None or self._read_head()) and self._read_body()):
                    break
            else:
                self._server.loop.call_soon(self._advance)
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
        known, raw = self._known, held[:end]
        length = None if known is None else known.length_in(raw)
        if known is not None and length is not None:
            self._head, self._framing = known.meaning, Framing(length)
        else:
            found = read_head(raw, self._server.application)
            if isinstance(found, BadRequest):
                self._refuse(found)
                return False
            self._head, self._framing = found
            self._known = known_head(raw, self._head)
        if (self._framing.length or 0) > limits.body_bytes:
            self._refuse(_too_large(limits))
            return False
        return True

    def _read_body(self) -> bool:
        """Read the body that belongs to the head; return whether it was complete, and the request could begin."""
        head, held = self._head, self._held
        assert head is not None  # noqa: S101 -- the caller has read it
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
        except MalformedBodyError as problem:
            self._refuse(BadRequest(str(problem)))
            return False
        self._held = self._body.rest
        if len(self._collected) > self._server.limits.body_bytes:
            self._refuse(_too_large(self._server.limits))
            return False
        if not self._charge(len(self._collected)):
            self._refuse(BadRequest("too many large messages of this caller arrive at a time", status=429))
            return False
        if not self._body.done:
            return False
        body, self._collected = bytes(self._collected), bytearray()
        self._begin(head, body)
        return True

    def _begin_body(self, head: HeadT) -> bool:
        """Prepare to wait for a body; return whether it is worth waiting for."""
        self._is_last = True
        exchange = self._open = ServerExchange(self._server.application, self, head, b"", inf)
        try:
            self._server.application.screen(exchange, self._framing.length)
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

    def _begin(self, head: HeadT, body: bytes) -> None:
        server = self._server
        self._head = self._body = None
        self._deadline = inf
        self._asked += 1
        exchange = self._open = ServerExchange(
            self._server.application, self, head, body, server.after(server.limits.quiet)
        )
        try:
            work = server.application.handle(exchange)
        except Exception as problem:  # noqa: BLE001 -- the outermost loop of a server
            server.failed(problem)
            exchange.fail()
            return
        if work is not None:
            running = _run(server, exchange, work)
            if server.working:  # of a crowd, each step is done for many in a row, which is faster
                exchange.task = server.loop.create_task(running)
            else:
                EagerTask(running, loop=server.loop)

    def _refuse(self, problem: BadRequest) -> None:
        """Give the last response of this connection."""
        application = self._server.application
        application.refused(problem)
        body = b"".join(application.error_parts(problem, b"null"))
        self.write(b"%b%b%bContent-Length: %d\r\n\r\n" % (LINES[problem.status], JSON, CLOSE, len(body)) + body)
        self._part()

    def _part(self) -> None:
        """End our side, and drop what comes until the client has ended its own: it may still be writing."""
        self._parting = True
        self._held, self._collected = b"", bytearray()
        self._charge(0)
        if self.is_lost or self._transport.is_closing():
            return
        limits = self._server.limits
        unread = min(limits.stalled, self._longest_stall)
        self._deadline = self._server.after(unread if self._transport.get_write_buffer_size() else limits.parting)
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


async def _run(server: ServerState[HeadT], exchange: ServerExchange[HeadT], work: Work) -> None:
    """Do the work on one request, and see that it has a response in the end."""
    exchange.task = asyncio.current_task()
    server.working.add(exchange)  # a task without a reference may be collected while it runs
    try:
        await work()
    except Exception as problem:  # noqa: BLE001 -- the outermost loop of a server
        server.failed(problem)
    finally:
        server.working.discard(exchange)
        exchange.task = None
        if not exchange.is_over:
            exchange.fail()


def _too_large(limits: ServerLimits) -> BadRequest:
    return BadRequest(f"the body is longer than {limits.body_bytes} bytes", status=413)
