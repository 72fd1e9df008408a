"""Carry one request to a server and its response back.

The head of the request is written anew, and both bodies are framed anew, so that client and server cannot disagree
with us about where anything ends. Nothing is collected: what arrives is sent on.

Start at `Exchange.run`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.net.addresses import why
from byleave.net.streams import Idle, SocketStream
from byleave.protocol.http_body import LAST_CHUNK, MalformedBodyError, body_reader, chunk
from byleave.protocol.http_head import CHUNKED, UNTIL_CLOSE, BadHead, read_response, request_head, response_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.net.proxy_policy import ProxyTarget
    from byleave.protocol.http_body import Body
    from byleave.protocol.http_head import Framing, HttpRequestHead, HttpResponseHead

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MOST_INTERIM = 16  # responses of 1xx before the real one


class ProxyLimits(Struct, frozen=True):
    """How much one sandbox may use, and how long (in seconds) things may take."""

    connections: int = 256
    head_bytes: int = 1 << 16
    head: float = 20.0
    connect: float = 20.0
    keep_alive: float = 60.0
    idle: float = 600.0


class RefusedError(Exception):
    """Carries an answer of the proxy itself to the place that sends it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class ProxyExchange:
    """One request that was admitted, and its response."""

    def __init__(
        self,
        client: SocketStream,
        server: SocketStream,
        request: HttpRequestHead,
        place: ProxyTarget,
        limits: ProxyLimits,
    ) -> None:
        self._client = client
        self._server = server
        self._request = request
        self._place = place
        self._limits = limits
        self._uploaded = False
        self._started = False

    async def run(self) -> bool:
        """Carry both ways, and return whether the client may send another request.

        RefusedError if there is no response to pass on, OSError if the client is gone or must see its response break.
        """
        try:
            async with Idle(self._limits.idle) as idle, asyncio.TaskGroup() as group:
                uploading = group.create_task(self._upload(idle))
                keep = await self._download(idle)
                uploading.cancel()
        except (BaseExceptionGroup, TimeoutError) as problem:
            raise self._outcome(problem) from None
        if not self._uploaded:
            await self._client.linger()
        return keep

    def _outcome(self, problem: BaseException) -> BaseException:
        """Return the one error to act on. A response that has begun cannot be mended."""
        if self._started:
            return ConnectionAbortedError("a response broke off")
        if isinstance(problem, TimeoutError):
            return RefusedError(504, f"{self._place.host} did not answer in time")
        return problem.exceptions[0] if isinstance(problem, BaseExceptionGroup) else problem

    async def _upload(self, idle: Idle) -> None:
        """Send the request, then watch for a client that leaves before it has its response."""
        body = body_reader(self._request.body)
        wrapped, last = _way_out(self._request.body)
        await self._offer(request_head(self._request, path=self._place.path, authority=self._place.authority))
        try:
            while piece := await _next_piece(self._client, body):
                idle.moved()
                await self._offer(wrapped(piece))
        except MalformedBodyError as problem:
            raise RefusedError(400, str(problem)) from None
        await self._offer(last)
        self._uploaded = True
        await self._client.hung_up()

    async def _offer(self, data: bytes) -> None:
        """Send to the server. One that does not listen to the end may have answered before."""
        with contextlib.suppress(OSError):
            await self._server.send(data)

    async def _download(self, idle: Idle) -> bool:
        response = await self._response(idle)
        framing = _homeward(response, self._request)
        keep = self._uploaded and self._request.keeps_alive and framing != UNTIL_CLOSE
        body = body_reader(response.body)
        wrapped, last = (bytes, b"") if response.bodiless or framing is None else _way_out(framing)
        self._started = True
        head = response_head(response, framing=framing, keep=keep)
        if not self._server.holds:  # the body may be long in coming
            await self._client.send(head)
            head = b""
        while piece := await _next_piece(self._server, body):
            idle.moved()
            await self._client.send(head + wrapped(piece))
            idle.moved()
            head = b""
        await self._client.send(head + last)
        return keep

    async def _response(self, idle: Idle) -> HttpResponseHead:
        """Return the final response; those before it end here, but for the one that the client waits for."""
        for _ in range(MOST_INTERIM):
            response = await self._one_response()
            idle.moved()
            if response.status >= 200:
                return response
            if response.status == 100 and self._request.expects:
                await self._client.send(CONTINUE)
        raise self._unusable("there is no end of interim responses")

    async def _one_response(self) -> HttpResponseHead:
        try:
            head = await self._server.read_head(self._limits.head_bytes)
        except OSError as problem:
            raise self._unusable(why(problem)) from None
        response = read_response(head, self._request.method)
        if not head:
            raise self._unusable("the connection was closed")
        if isinstance(response, BadHead):
            raise self._unusable(response.problem)
        if response.status == 101:
            raise self._unusable("it changes the protocol, and nobody asked for that")
        return response

    def _unusable(self, why: str) -> RefusedError:
        return RefusedError(502, f"{self._place.host} gave no response that can be passed on: {why}")


async def _next_piece(source: SocketStream, body: Body) -> bytes:
    """Return more of a body, empty at its end; what comes after it stays in the stream."""
    while not body.done:
        data = await source.read()
        if not data:
            body.end()
            break
        piece = body.take(data)
        if body.done:
            source.unread(body.rest)
        if piece:
            return piece
    return b""


def _homeward(response: HttpResponseHead, request: HttpRequestHead) -> Framing | None:
    """Return how the client is told where the body ends."""
    if response.bodiless:
        told = response.framing if response.status != 204 else None
        return None if told is None or told.length is None else told
    if response.framing is not None and response.framing.length is not None:
        return response.framing
    return CHUNKED if request.minor == 1 else UNTIL_CLOSE


def _way_out(framing: Framing) -> tuple[Callable[[bytes], bytes], bytes]:
    """Return how pieces of a body are written, and what ends it."""
    return (chunk, LAST_CHUNK) if framing.chunked else (bytes, b"")
