"""The HTTP client of the gateway: one event loop, kept connections, and responses that are reported as they arrive.

A request is one write, and its listener is called with each event of the response: no task, no queue, no copy in
between. Responses are read by `protocol.http_exchange`. Redirects are responses like others. Proxies of the environment
are not used. The blocking client: `http_client`.

Where a name leads is looked up for each new connection. One that led to a public address first is never dialled at
a private one later, so that the owner of a name cannot turn it into a way to this machine or its network; addresses
that hand out a machine's credentials are not dialled at all, unless the URL names the very address.

Start at `AsyncHttpClient.connection`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave.core.net_rules import NetRule
from byleave.net.endpoints import ConnectionPool, dialable, failure, in_thread, is_address, look_up
from byleave.protocol.http_exchange import ClientExchange, RemoteProtocolError, ResponseEnd
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from byleave.net.endpoints import Endpoint
    from byleave.protocol.http_exchange import ResponseEvent
    from byleave.protocol.http_head import HttpResponseHead

    class ResponseListener(Protocol):
        """Gets the response to one request: `head` once, then pieces of the body, then `end` or `broke`.

        After `ClientConnection.close` it is not called any more. None of its methods raises.
        """

        def head(self, response: HttpResponseHead) -> None: ...

        def piece(self, data: bytes) -> None: ...

        def end(self) -> None: ...

        def broke(self, why: str, *, unheard: bool) -> None:
            """Learn that there is no (whole) response. `unheard`: most probably the server never saw the request."""


LONGEST_CONNECT = 10.0  # seconds, for all addresses of a host together
LONGEST_KEPT = 4.0  # seconds; uvicorn and Node.js close after five, and what is sent on a closed one is lost
_LONGEST_PROMISED = 30.0  # seconds, where the server says for how long it keeps a connection
MOST_KEPT = 64  # connections to one endpoint that wait for more
_MOST_KEPT_IN_ALL = 1024
_FINAL = 200  # the first status that is not interim
_ROUNDS = 8  # of the loop, more than closing a connection takes


class ClientConnection(asyncio.Protocol):
    """One connection, with at most one request on it."""

    def __init__(self, client: AsyncHttpClient, endpoint: Endpoint, address: str) -> None:
        self.endpoint = endpoint
        self.address = address
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._listener: ResponseListener | None = None
        self._exchange: ClientExchange | None = None
        self._used = False

    def is_quiet(self) -> bool:
        """Whether it is open; bytes that arrive without a request close it."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes, method: str, listener: ResponseListener) -> None:
        """Send a request, and report to `listener` what comes of it."""
        known = None if self._exchange is None else self._exchange.known
        self._listener, self._exchange = listener, ClientExchange(method, known=known)
        if self._transport is not None:
            self._transport.write(request)

    def pause(self) -> None:
        """Take no more of the response in until `resume`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on with the response."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close it at once; the listener is not called any more."""
        self._listener = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # of a stream it is one
        self._client.opened(self)
        taken = transport.get_extra_info("socket")
        if taken is not None:
            with suppress(OSError):
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self._listener is None or self._exchange is None:  # no request is open
            self.close()
            return
        try:
            self._report(self._exchange.receive(data))
        except RemoteProtocolError as problem:
            listener = self._listener
            self.close()
            if listener is not None:
                listener.broke(f"gave no response that can be used: {problem}", unheard=False)

    def eof_received(self) -> None:
        if self._listener is not None and self._exchange is not None:
            with suppress(RemoteProtocolError):  # `connection_lost` follows, and says that it was closed
                self._report(self._exchange.receive_eof())

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.lost(self)
        self._transport = None
        listener, self._listener = self._listener, None
        if listener is not None:
            reason = "closed the connection" if exc is None else f"broke the connection off: {shown(failure(exc))}"
            silent = self._exchange is not None and self._exchange.is_silent
            listener.broke(reason, unheard=self._used and silent)

    def _report(self, events: Iterator[ResponseEvent]) -> None:
        for event in events:
            listener = self._listener
            if listener is None:  # it has closed the connection
                return
            if isinstance(event, bytes):
                listener.piece(event)
            elif isinstance(event, ResponseEnd):
                self._finish(listener, event)
            elif event.status >= _FINAL:
                listener.head(event)

    def _finish(self, listener: ResponseListener, end: ResponseEnd) -> None:
        """Keep the connection if that is possible, then report that the response is whole."""
        self._listener, transport = None, self._transport
        if end.reusable and transport is not None and not transport.get_write_buffer_size():
            self._used = True
            said = end.keep_seconds
            self._client.keep(self, LONGEST_KEPT if said is None else min(said, _LONGEST_PROMISED))
        else:
            self.close()
        listener.end()


class AsyncHttpClient:
    """All connections of a gateway to web servers. Close it in the end."""

    def __init__(
        self, *, context: ssl.SSLContext | None = None, resolve: Callable[[str, int], list[str]] = look_up
    ) -> None:
        self._context = context
        self._resolve = resolve
        self._pool: ConnectionPool[ClientConnection] = ConnectionPool(most=_MOST_KEPT_IN_ALL, most_each=MOST_KEPT)
        self._all: set[ClientConnection] = set()
        self._public: set[str] = set()  # hosts that have led to public addresses
        self._sweeping: asyncio.TimerHandle | None = None

    async def connection(self, endpoint: Endpoint, *, fresh: bool = False) -> ClientConnection:
        """Return a connection without an open request, a `fresh` one on demand; a ConnectionError if there is none."""
        kept = None if fresh else self._pool.take(endpoint)
        if kept is not None:
            return kept
        try:
            async with asyncio.timeout(LONGEST_CONNECT):
                return await self._dial(endpoint)
        except (OSError, TimeoutError) as problem:
            raise ConnectionError(f"{shown(str(endpoint))} cannot be reached: {shown(failure(problem))}") from None

    def keep(self, connection: ClientConnection, seconds: float = LONGEST_KEPT) -> None:
        """Take a connection back, for the next request to the same endpoint."""
        self._pool.put(connection.endpoint, connection, seconds)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(LONGEST_KEPT, self._sweep)

    def opened(self, connection: ClientConnection) -> None:
        """Note that a connection is there."""
        self._all.add(connection)

    def lost(self, connection: ClientConnection) -> None:
        """Note that a connection is gone."""
        self._all.discard(connection)
        self._pool.discard(connection.endpoint, connection)

    async def close(self) -> None:
        """Close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._pool.close()
        for connection in list(self._all):
            connection.close()
        for _ in range(_ROUNDS):  # each is gone as soon as the loop has come round
            if self._all:
                await asyncio.sleep(0)

    def _sweep(self) -> None:
        self._sweeping = None
        if self._pool.sweep():
            self._sweeping = asyncio.get_running_loop().call_later(LONGEST_KEPT, self._sweep)

    async def _dial(self, endpoint: Endpoint) -> ClientConnection:
        loop = asyncio.get_running_loop()
        secure = await self._tls() if endpoint.scheme == "https" else None
        last: OSError = OSError("it has no address that may be dialled")
        for address in await self._addresses(endpoint):
            try:
                _transport, connection = await loop.create_connection(
                    lambda address=address: ClientConnection(self, endpoint, address),
                    address,
                    endpoint.port,
                    ssl=secure,
                    server_hostname=endpoint.host if secure is not None else None,
                )
            except OSError as problem:
                last = problem
                continue
            return connection
        raise last

    async def _addresses(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return where to dial; private addresses only for a name that never led to public ones."""
        if is_address(endpoint.host):
            return (endpoint.host,)
        found = await in_thread(lambda: self._resolve(endpoint.host, endpoint.port), LONGEST_CONNECT)
        public = dialable((NetRule(endpoint.host, allow=True),), found)
        if public and endpoint.host != "localhost":
            self._public.add(endpoint.host)
        if public or endpoint.host in self._public:
            return public
        return dialable((NetRule(endpoint.host, allow=True, private=True),), found)

    async def _tls(self) -> ssl.SSLContext:
        if self._context is None:  # reads the system's certificates, or those that SSL_CERT_FILE names
            self._context = await asyncio.to_thread(ssl.create_default_context)
        return self._context
