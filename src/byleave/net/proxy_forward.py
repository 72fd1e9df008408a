"""Forward one request of the sandbox to a server, and the response back.

The head of the request is written anew, and both bodies are framed anew, so that client and server cannot disagree
with the proxy about where anything ends. Nothing is collected: what arrives is sent on. Responses are read by
`protocol.http_exchange`, as by the HTTP clients.

Start at `ProxyExchange.run`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.net.addresses import why
from byleave.net.streams import Idle, SocketStream
from byleave.protocol.http_body import LAST_CHUNK, MalformedBodyError, body_reader, chunk
from byleave.protocol.http_exchange import ClientExchange, RemoteProtocolError, ResponseEnd
from byleave.protocol.http_head import CHUNKED, UNTIL_CLOSE, request_head, response_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.net.proxy_policy import ProxyTarget
    from byleave.protocol.http_body import Body
    from byleave.protocol.http_head import Framing, HttpRequestHead, HttpResponseHead

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CONTINUE_STATUS = 100
_FINAL = 200  # the first status that is not interim


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
        target: ProxyTarget,
        limits: ProxyLimits,
    ) -> None:
        self._client = client
        self._server = server
        self._request = request
        self._target = target
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
            return RefusedError(504, f"{self._target.host} did not answer in time")
        return problem.exceptions[0] if isinstance(problem, BaseExceptionGroup) else problem

    async def _upload(self, idle: Idle) -> None:
        """Send the request, then watch for a client that leaves before it has its response."""
        body = body_reader(self._request.body)
        wrapped, last = _writer(self._request.body)
        await self._offer(request_head(self._request, path=self._target.path, authority=self._target.authority))
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
        """Pass the response on as it arrives; return whether the client may send another request."""
        exchange = ClientExchange(self._request.method, longest_head=self._limits.head_bytes)
        keep, last = False, b""
        wrapped: Callable[[bytes], bytes] = bytes
        while True:
            data = await self._received()
            idle.moved()
            passed: list[bytes] = []
            try:
                for event in exchange.receive(data) if data else exchange.receive_eof():
                    if isinstance(event, bytes):
                        passed.append(wrapped(event))
                    elif isinstance(event, ResponseEnd):
                        await self._client.send(b"".join((*passed, last)))
                        return keep
                    elif event.status >= _FINAL:
                        framing = _client_framing(event, self._request)
                        keep = self._uploaded and self._request.keeps_alive and framing != UNTIL_CLOSE
                        if not event.bodiless and framing is not None:
                            wrapped, last = _writer(framing)
                        passed.append(response_head(event, framing=framing, keep=keep))
                        self._started = True
                    elif event.status == _CONTINUE_STATUS and self._request.expects:
                        await self._client.send(CONTINUE)
            except RemoteProtocolError as problem:
                raise self._unusable(str(problem)) from None
            await self._client.send(b"".join(passed))
            idle.moved()

    async def _received(self) -> bytes:
        try:
            return await self._server.read()
        except OSError as problem:
            raise self._unusable(why(problem)) from None

    def _unusable(self, why: str) -> RefusedError:
        return RefusedError(502, f"{self._target.host} gave no response that can be passed on: {why}")


async def _next_piece(source: SocketStream, body: Body) -> bytes:
    """Return more of a request's body, empty at its end; what comes after it stays in the stream."""
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


def _client_framing(response: HttpResponseHead, request: HttpRequestHead) -> Framing | None:
    """Return the framing of the body on the client's side."""
    if response.bodiless:
        framing = response.framing if response.status != 204 else None
        return None if framing is None or framing.length is None else framing
    if response.framing is not None and response.framing.length is not None:
        return response.framing
    return CHUNKED if request.minor == 1 else UNTIL_CLOSE


def _writer(framing: Framing) -> tuple[Callable[[bytes], bytes], bytes]:
    """Return what writes a piece of a body, and the bytes that end it."""
    return (chunk, LAST_CHUNK) if framing.chunked else (bytes, b"")
