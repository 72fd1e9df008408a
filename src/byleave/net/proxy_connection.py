"""Serve one client of the proxy, from its first byte to its last.

Each request is read, admitted (`proxy_policy`) and forwarded (`ProxyExchange`) on a connection of its own, so that no
two requests of a client can ever be confused at a server. A tunnel opens only for TLS that names the very host that was
admitted.

The head of a request is written anew, and both bodies are framed anew, so that client and server cannot disagree with
the proxy about where anything ends. Nothing is collected: what arrives is sent on. Responses are read by
`protocol.http_exchange`, as by the HTTP clients.

Start at `ProxyConnection.serve`.
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.net.client_hello import BadHello, HelloReader, RecordGuard
from byleave.net.endpoints import is_address, why
from byleave.net.proxy_policy import read_target
from byleave.net.streams import Idle, SocketStream, dial, join
from byleave.protocol.http_body import LAST_CHUNK, MalformedBodyError, body_reader, chunk
from byleave.protocol.http_exchange import ClientExchange, RemoteProtocolError, ResponseEnd
from byleave.protocol.http_head import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    BadHead,
    own_head,
    read_request,
    request_head,
    response_head,
)
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.net.client_hello import ClientHello
    from byleave.net.proxy_policy import ProxyPolicy, ProxyTarget, UrlVerdict
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


PHRASES = {
    400: "400 Bad Request",
    403: "403 " + HTTPStatus.FORBIDDEN.phrase,
    408: "408 Request Timeout",
    502: "502 Bad Gateway",
    504: "504 Gateway Timeout",
}
OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"  # a fatal TLS alert, RFC 8446, section 6


class ProxyConnection:
    """One connection of a client."""

    def __init__(self, client: SocketStream, policy: ProxyPolicy, limits: ProxyLimits, *, ech: bool) -> None:
        self._client = client
        self._policy = policy
        self._limits = limits
        self._ech = ech

    async def serve(self) -> None:
        """Serve requests until the client leaves, or its bytes are not understood. OSError if it breaks off."""
        seconds = self._limits.head
        while await self._has_more(seconds) and await self._next():
            seconds = self._limits.keep_alive

    async def _has_more(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._client.has_more()
        except TimeoutError:
            return False

    async def _next(self) -> bool:
        """Serve one request, and return whether another may follow."""
        request: HttpRequestHead | None = None
        try:
            request = await self._request()
            return await self._serve_request(request)
        except RefusedError as refusal:
            return await self._refuse(request, refusal)

    async def _request(self) -> HttpRequestHead:
        try:
            async with asyncio.timeout(self._limits.head):
                head = await self._client.read_head(self._limits.head_bytes)
        except TimeoutError:
            raise RefusedError(408, "the head of the request took too long") from None
        request = read_request(head)
        if isinstance(request, BadHead):
            raise RefusedError(400, request.problem)
        return request

    async def _serve_request(self, request: HttpRequestHead) -> bool:
        target = read_target(request)
        if isinstance(target, BadHead):
            raise RefusedError(400, target.problem)
        serve = self._tunnel if request.method == "CONNECT" else self._exchange
        return await serve(request, target)

    async def _refuse(self, request: HttpRequestHead | None, refusal: RefusedError) -> bool:
        """Send the proxy's own answer. Only a good request without a body leaves the connection in a known state."""
        known = request is not None and request.body == NO_BODY and refusal.status in (403, 502, 504)
        keep = known and request is not None and request.keeps_alive
        body = f"{shown(refusal.text)}\n".encode()
        fields = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        if refusal.status == 403:
            fields.append(("X-Byleave", "denied"))
        head = own_head(PHRASES[refusal.status], fields, keep=keep)
        async with asyncio.timeout(self._limits.head):
            await self._client.send(head if request is not None and request.method == "HEAD" else head + body)
        if not known:
            await self._client.linger()
        return keep

    async def _reach(self, target: ProxyTarget, *, tunnel: bool) -> tuple[SocketStream, UrlVerdict]:
        """Return a connection to `target`, if the policy opens it."""
        try:
            admission = await self._policy.admit(target, tunnel=tunnel)
            if not admission.verdict.allowed:
                raise RefusedError(403, admission.verdict.reason)
            stream = await dial(admission.addresses, target.port, limit=self._limits.connect)
        except TimeoutError:
            raise RefusedError(504, f"{target.host} could not be reached in time") from None
        except OSError as problem:
            raise RefusedError(502, f"{target.host} could not be reached: {why(problem)}") from None
        return stream, admission.verdict

    async def _tunnel(self, request: HttpRequestHead, target: ProxyTarget) -> bool:
        if request.body != NO_BODY:
            raise RefusedError(400, "a CONNECT has no body")
        server, verdict = await self._reach(target, tunnel=True)
        try:
            async with asyncio.timeout(self._limits.idle):
                await self._client.send(OPENED)
                hello = await self._client_hello(target, verdict)
                await server.send(hello)
            if hello:
                await join(self._client, server, self._screen(target, verdict), idle=self._limits.idle)
        finally:
            server.close()
        return False

    async def _client_hello(self, target: ProxyTarget, verdict: UrlVerdict) -> bytes:
        """Return the client's ClientHello, if it is one for `target`; nothing if the tunnel must not be used."""
        reader = HelloReader()
        found: ClientHello | BadHello | None = None
        try:
            async with asyncio.timeout(self._limits.head):
                while found is None and (data := await self._client.read()):
                    found = reader.feed(data)
        except TimeoutError:
            found = BadHello("no TLS greeting came in time")
        if found is None:
            return b""
        if self._suits(found, target, verdict):
            self._client.unread(reader.rest)
            return reader.sent
        if not isinstance(found, BadHello):
            await self._client.send(ACCESS_DENIED)
        await self._client.linger()
        return b""

    def _screen(self, target: ProxyTarget, verdict: UrlVerdict) -> Callable[[bytes], bytes]:
        """Return what looks through everything that the client sends behind its greeting."""
        guard = RecordGuard()

        def screened(data: bytes) -> bytes:
            passed: list[bytes] = []
            for found in guard.feed(data):
                if isinstance(found, bytes):
                    passed.append(found)
                elif not self._suits(found, target, verdict):
                    raise ConnectionAbortedError
            return b"".join(passed)

        return screened

    def _suits(self, found: ClientHello | BadHello, target: ProxyTarget, verdict: UrlVerdict) -> bool:
        """Whether a tunnel to `target` may carry this; reports why not."""
        problem = _problem_with(found, target.host, ech=self._ech)
        if problem is not None:
            self._policy.refuse(target, verdict, problem)
        return problem is None

    async def _exchange(self, request: HttpRequestHead, target: ProxyTarget) -> bool:
        server, _verdict = await self._reach(target, tunnel=False)
        try:
            return await ProxyExchange(self._client, server, request, target, self._limits).run()
        finally:
            server.close()


def _problem_with(found: ClientHello | BadHello, host: str, *, ech: bool) -> str | None:
    """Return why a tunnel to `host` must not carry what starts like this, None if it may."""
    if isinstance(found, BadHello):
        return f"only TLS goes through a tunnel, and {found.problem}"
    if found.encrypted and not ech:
        return "the TLS greeting has an encrypted part (ECH), which may name another server"
    if found.server_name is None:
        return None if is_address(host) else "the TLS greeting names no server (SNI)"
    if found.server_name != host:
        return f"the TLS greeting names {quoted(found.server_name)}, not {host}"
    return None
