"""Move bytes between sockets, never holding more than one piece of them.

It works on bare sockets: sending waits until the other end takes it, an end of stream is passed on as one, and there
is no transport that could outlive the connection. Of HTTP it knows only where a head ends.

Start at `SocketStream`. Both directions at once: `join`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING

from byleave.protocol.http_head import end_of_head

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

PIECE = 1 << 16
LONGEST_LINGER = 2.0  # seconds in which a client may read an answer that came before it had sent everything
MOST_LINGERING = 1 << 22  # bytes that are thrown away meanwhile


class SocketStream:
    """One end of a connection. Bytes that were read too early are kept for the next read."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        with contextlib.suppress(OSError):  # no TCP
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = end
        self._loop = asyncio.get_running_loop()
        self._held = b""

    async def read(self) -> bytes:
        """Return what arrives next, empty at the end of the stream."""
        if not self._held:
            return await self._loop.sock_recv(self._socket, PIECE)
        piece, self._held = self._held, b""
        return piece

    def unread(self, data: bytes) -> None:
        """Give back what was read too much; it comes first next time."""
        self._held = data + self._held

    async def has_more(self) -> bool:
        """Wait until something arrives; False at the end of the stream."""
        if not self._held:
            self._held = await self.read()
        return self._held != b""

    async def read_head(self, limit: int) -> bytes:
        """Return everything up to an empty line; what there is if none comes, or none within `limit` bytes."""
        head = bytearray()
        while len(head) < limit and (data := await self.read()):
            searched = max(0, len(head) - 2)
            head += data
            if (end := end_of_head(head, searched)) and end <= limit:
                self.unread(bytes(head[end:]))
                return bytes(head[:end])
        return bytes(head[:limit])

    async def send(self, data: bytes) -> None:
        if data:
            await self._loop.sock_sendall(self._socket, data)

    async def hung_up(self) -> None:
        """Wait until the other end sends more, which stays unread; ConnectionError if it has gone instead."""
        while not self._held:
            await readable(self._socket)
            with contextlib.suppress(BlockingIOError):
                if self._socket.recv(1, socket.MSG_PEEK):
                    return
                raise ConnectionAbortedError

    def end(self) -> None:
        """End the stream of bytes to the other end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def linger(self) -> None:
        """End the stream, and take what is still coming: a reset would destroy the response in flight."""
        self.end()
        left = MOST_LINGERING
        with contextlib.suppress(OSError):
            async with asyncio.timeout(LONGEST_LINGER):
                while left > 0 and (data := await self.read()):
                    left -= len(data)

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        """Close so that the other end cannot take what it got for the whole."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


class Idle:
    """Ends what runs inside with a TimeoutError when nothing has `moved` for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._timeout.__aexit__(kind, error, trace)

    def moved(self) -> None:
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)


async def join(client: SocketStream, server: SocketStream, screen: Callable[[bytes], bytes], *, idle: float) -> None:
    """Pass bytes both ways until both sides have ended, one breaks, or nothing has moved for `idle` seconds.

    `screen` returns what of the client's bytes is sent on by now; an OSError from it breaks the connection.
    """
    try:
        async with Idle(idle) as watch, asyncio.TaskGroup() as both:
            both.create_task(_pass_on(client, server, screen, watch))
            both.create_task(_pass_on(server, client, bytes, watch))
    except* OSError:
        client.abort()
        server.abort()


async def dial(addresses: Sequence[str], port: int, *, limit: float) -> SocketStream:
    """Connect to the first of `addresses` that answers; OSError (TimeoutError among them) if none does.

    They are numbers, and no name is looked up here. Each gets an equal share of the time that is left.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit
    last: OSError = ConnectionRefusedError("it has no address")
    for tried, address in enumerate(addresses):
        try:
            async with asyncio.timeout((deadline - loop.time()) / (len(addresses) - tried)):
                return await _connect(address, port)
        except OSError as problem:
            last = problem
    raise last


async def readable(end: socket.socket) -> None:
    """Wait until there is something to read or accept. Nothing is taken, so that a cancelled wait loses nothing."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    number = end.fileno()
    loop.add_reader(number, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(number)


async def _connect(address: str, port: int) -> SocketStream:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        stream = SocketStream(made)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        made.close()
        raise
    return stream


async def _pass_on(source: SocketStream, sink: SocketStream, screen: Callable[[bytes], bytes], watch: Idle) -> None:
    while data := await source.read():
        watch.moved()
        await sink.send(screen(data))
        watch.moved()
    sink.end()


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
