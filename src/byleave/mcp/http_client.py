"""Ask web servers over HTTP/1.1 in the gateway's one thread: kept connections, and answers that are told as they come.

A request is one write, and whoever asked is called with what arrives: no task, no queue, no copy in between. Heads and
bodies are read by the strict readers of `wire`. Nothing is ever followed: a redirect is an answer like others. Proxies
of the environment are not used.

Where a name leads is looked up for each new connection. One that led to a public address first is never dialled at
a private one later, so that whoever owns a name cannot turn it into a way to this machine or its network; addresses
that hand out a machine's credentials are not dialled at all, unless the URL names the very address.

Start at `HttpClient.connection`.
"""

import asyncio
import socket
import ssl
from contextlib import suppress
from time import monotonic

from byleave import __version__
from byleave.core.net import NetRule
from byleave.core.url import BadUrl, parse_url
from byleave.effects.addresses import dialable, is_address, look_up, why
from byleave.effects.http_exchange import plain_url
from byleave.mcp.beside import beside
from byleave.mcp.ends import DownError
from byleave.record import Record
from byleave.text import quoted, shown
from byleave.wire.http_body import MalformedError, body_reader
from byleave.wire.http_head import UNTIL_CLOSE, BadHead, end_of_head, is_field, list_of, read_response, values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from byleave.wire.http_body import Body
    from byleave.wire.http_head import Response

    Fields = Iterable[tuple[str, str]]

    class Asking(Protocol):
        """Whoever asked something. After `end` or `broke` nothing more is told; after `Connection.drop` nothing at all.

        `head` comes once, then pieces of the body. None of them raises.
        """

        def head(self, response: Response) -> None: ...

        def piece(self, data: bytes) -> None: ...

        def end(self) -> None: ...

        def broke(self, why: str, *, unheard: bool) -> None:
            """Learn that there is no (whole) answer. `unheard`: most probably the server never saw the request."""


LONGEST_HEAD = 1 << 16
LONGEST_CONNECT = 10.0  # seconds, for all addresses of a host together
LONGEST_KEPT = 4.0  # seconds; uvicorn and Node.js close after five, and what is said on a closed one is lost
MOST_KEPT = 64  # connections to one place that wait for more
_MOST_INTERIM = 16  # answers of 1xx before the real one
_ROUNDS = 8  # of the loop, more than closing a connection takes
_SCHEMES = ("http", "https")
_AGENT = f"byleave/{__version__}"
_HINT = "check `url` in the server's table, and whether the server works"


class Origin(Record):
    """Where connections lead."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme] == self.port
        return f"{self.scheme}://{host}" if usual else f"{self.scheme}://{host}:{self.port}"


class Spot(Record):
    """A URL, taken apart: the origin, and the path with its query as the request line has it."""

    origin: Origin
    path: str

    def request_line(self, method: str) -> bytes:
        """Return how a request for it begins."""
        authority = str(self.origin).partition("://")[2]
        return f"{method} {self.path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {_AGENT}\r\n".encode("ascii")


def read_spot(url: str) -> Spot:
    """Return the place that a URL names; a DownError if it is none that we would ask."""
    target = parse_url(url)
    if isinstance(target, BadUrl):
        raise DownError(f"the server's url cannot be used: {target.problem}", hint=_HINT)
    if target.scheme not in _SCHEMES or target.port is None:
        raise DownError(f"the server's url has the scheme {quoted(target.scheme)}", hint="use https:// or http://")
    if target.userinfo:
        raise DownError(
            "the server's url carries a user name or a password", hint="put credentials into the server's `headers`"
        )
    origin = Origin(target.scheme, target.host, target.port)
    path = plain_url(url, target).partition("://")[2]
    return Spot(origin, path[path.find("/") :])


def field_lines(fields: "Fields") -> bytes:
    """Return header fields as they are sent; a DownError if one would be read as something else."""
    lines = []
    for name, value in fields:
        coded = value.encode("utf-8", "surrogateescape").decode("latin-1").strip(" \t")
        if not is_field(name, coded):
            raise DownError(
                f"the header {quoted(name)} cannot be sent as it is",
                hint="headers have plain names, and values without line ends and other control characters",
            )
        lines.append(f"{name}: {coded}\r\n")
    return "".join(lines).encode("latin-1")


class Connection(asyncio.Protocol):
    """One connection, with at most one request on its way."""

    def __init__(self, client: "HttpClient", origin: Origin) -> None:
        self.origin = origin
        self.kept_until = 0.0
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._asking: Asking | None = None
        self._method = ""
        self._head: bytearray | None = None  # what there is of it; None once it is read
        self._interim = 0
        self._body: Body | None = None
        self._keeps = False
        self._longest = LONGEST_KEPT
        self._used = False
        self._silent = True  # nothing of an answer has come yet

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, request: bytes, method: str, asking: "Asking") -> None:
        """Send a request, and tell `asking` what comes of it."""
        self._asking, self._method, self._head, self._interim = asking, method, bytearray(), 0
        self._silent = True
        if self._transport is not None:
            self._transport.write(request)

    def drop(self) -> None:
        """Close it at once; whoever asked hears nothing more."""
        self._asking = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # of a stream it is one
        self._client.note(self)
        taken = transport.get_extra_info("socket")
        if taken is not None:
            with suppress(OSError):
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self._asking is None:  # nobody asked for that
            self.drop()
            return
        self._silent = False
        try:
            self._read(data)
        except MalformedError as problem:
            self._break(f"gave no answer that can be used: {problem}")

    def eof_received(self) -> None:
        if self._asking is None or self._body is None:
            return
        with suppress(MalformedError):
            self._body.end()
            self._keeps = False
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.forget(self)
        self._transport = None
        asking, self._asking = self._asking, None
        if asking is not None:
            reason = "closed the connection" if exc is None else f"broke the connection off: {_said(exc)}"
            asking.broke(reason, unheard=self._used and self._silent)

    def _read(self, data: bytes) -> None:
        while self._head is not None:
            searched = max(0, len(self._head) - 2)
            self._head += data
            end = end_of_head(self._head, searched)
            if (end or len(self._head)) > LONGEST_HEAD:
                raise MalformedError("the head has no end, or is too long")
            if not end:
                return
            data = bytes(self._head[end:])
            if not self._begin(bytes(self._head[:end])):
                return
        if self._body is not None:
            self._take(self._body, data)

    def _begin(self, head: bytes) -> bool:
        """Take a head; whether somebody still wants to hear what follows."""
        response = read_response(head, self._method)
        if isinstance(response, BadHead):
            raise MalformedError(response.problem)
        if response.status < 200:
            self._head = bytearray()
            self._interim += 1
            if response.status == 101 or self._interim > _MOST_INTERIM:
                raise MalformedError("it says something else than an answer")
            return True
        self._head = None
        self._keeps = head.startswith(b"HTTP/1.1 ") and response.body != UNTIL_CLOSE
        self._keeps = self._keeps and "close" not in list_of(response.fields, "connection")
        self._longest = _longest_kept(response)
        self._body = body_reader(response.body)
        if self._asking is not None:
            self._asking.head(response)
        return self._asking is not None

    def _take(self, body: "Body", data: bytes) -> None:
        if not body.done and data:
            piece = body.take(data)
            if piece and self._asking is not None:
                self._asking.piece(piece)
            data = body.rest
        if body.done and self._asking is not None:
            self._keeps = self._keeps and not data
            self._finish()

    def _finish(self) -> None:
        """Keep the connection if that is possible, then tell that the answer is whole."""
        asking, self._asking, self._body = self._asking, None, None
        transport = self._transport
        if self._keeps and transport is not None and not transport.get_write_buffer_size():
            self._used = True
            self._client.keep(self, self._longest)
        else:
            self.drop()
        if asking is not None:
            asking.end()

    def _break(self, reason: str) -> None:
        asking = self._asking
        self.drop()
        if asking is not None:
            asking.broke(reason, unheard=False)


class HttpClient:
    """All connections of a gateway to web servers. Close it in the end."""

    def __init__(
        self, *, context: ssl.SSLContext | None = None, resolve: "Callable[[str, int], list[str]]" = look_up
    ) -> None:
        self._context = context
        self._resolve = resolve
        self._idle: dict[Origin, list[Connection]] = {}
        self._all: set[Connection] = set()
        self._public: set[str] = set()  # hosts that have led to public addresses
        self._sweeping: asyncio.TimerHandle | None = None

    async def connection(self, origin: Origin, *, fresh: bool = False) -> Connection:
        """Return a connection on which nothing is under way, a `fresh` one on demand; a DownError if there is none."""
        idle = [] if fresh else self._idle.get(origin, [])
        while idle:
            kept = idle.pop()
            if kept.is_open and kept.kept_until > monotonic():
                return kept
            kept.drop()
        try:
            async with asyncio.timeout(LONGEST_CONNECT):
                return await self._dial(origin)
        except (OSError, TimeoutError) as problem:
            raise DownError(f"{shown(str(origin))} cannot be reached: {_said(problem)}", hint=_HINT) from None

    def keep(self, connection: Connection, seconds: float = LONGEST_KEPT) -> None:
        """Take a connection back, for the next request to the same place."""
        idle = self._idle.setdefault(connection.origin, [])
        if len(idle) >= MOST_KEPT or seconds <= 0:
            connection.drop()
            return
        connection.kept_until = monotonic() + seconds
        idle.append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(LONGEST_KEPT, self._sweep)

    def note(self, connection: Connection) -> None:
        """Note that a connection is there."""
        self._all.add(connection)

    def forget(self, connection: Connection) -> None:
        """Note that a connection is gone."""
        self._all.discard(connection)
        idle = self._idle.get(connection.origin)
        if idle is not None and connection in idle:
            idle.remove(connection)

    async def close(self) -> None:
        """Close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._all):
            connection.drop()
        self._idle.clear()
        for _ in range(_ROUNDS):  # each is gone as soon as the loop has come round
            if self._all:
                await asyncio.sleep(0)

    def _sweep(self) -> None:
        self._sweeping, now, left = None, monotonic(), False
        for origin, idle in list(self._idle.items()):
            for old in [each for each in idle if each.kept_until <= now]:
                idle.remove(old)
                old.drop()
            left = left or bool(idle)
            if not idle:
                del self._idle[origin]
        if left:
            self._sweeping = asyncio.get_running_loop().call_later(LONGEST_KEPT, self._sweep)

    async def _dial(self, origin: Origin) -> Connection:
        loop = asyncio.get_running_loop()
        secure = await self._tls() if origin.scheme == "https" else None
        last: OSError = OSError("it has no address that may be dialled")
        for address in await self._addresses(origin):
            try:
                _transport, connection = await loop.create_connection(
                    lambda: Connection(self, origin),
                    address,
                    origin.port,
                    ssl=secure,
                    server_hostname=origin.host if secure is not None else None,
                )
            except OSError as problem:
                last = problem
                continue
            return connection
        raise last

    async def _addresses(self, origin: Origin) -> tuple[str, ...]:
        """Return where to dial; private addresses only for a name that never led to public ones."""
        if is_address(origin.host):
            return (origin.host,)
        found = await beside(lambda: self._resolve(origin.host, origin.port), LONGEST_CONNECT)
        public = dialable((NetRule(origin.host, allow=True),), found)
        if public and origin.host != "localhost":
            self._public.add(origin.host)
        if public or origin.host in self._public:
            return public
        return dialable((NetRule(origin.host, allow=True, private=True),), found)

    async def _tls(self) -> ssl.SSLContext:
        if self._context is None:  # reads the system's certificates, or those that SSL_CERT_FILE names
            self._context = await asyncio.to_thread(ssl.create_default_context)
        return self._context


def media_type(response: "Response") -> str:
    """Return the type of a body, without its parameters."""
    found = values_of(response.fields, "content-type")
    return found[0].partition(";")[0].strip().lower() if found else ""


def is_coded(response: "Response") -> bool:
    """Whether a body is compressed, though nobody asked for that."""
    return any(word not in ("", "identity") for word in list_of(response.fields, "content-encoding"))


def _longest_kept(response: "Response") -> float:
    """Return for how long a connection may wait: a second less than the server says, or what is usual."""
    for word in list_of(response.fields, "keep-alive"):
        name, _equals, number = word.partition("=")
        if name == "timeout" and number.isascii() and number.isdigit():
            return min(float(number[:6]) - 1, 30.0)
    return LONGEST_KEPT


def _said(problem: BaseException) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate does not prove that it is this host: {shown(problem.verify_message)}"
    if isinstance(problem, ssl.SSLError):
        return f"TLS failed: {shown(problem.reason or 'the stream broke off')}"
    if isinstance(problem, TimeoutError):
        return "it did not answer in time"
    return shown(why(problem)) if isinstance(problem, OSError) else "it broke off"
