"""Ask web servers over HTTP/1.1 in the gateway's one thread: kept connections, and answers that are told as they come.

A request is one write, and whoever asked is called with what arrives: no task, no queue, no copy in between. Heads and
bodies are read by the strict readers of `wire`. Nothing is ever followed: a redirect is an answer like others. Proxies
of the environment are not used.

Where a name leads is looked up for each new connection. One that led to a public address first is never dialled at
a private one later, so that whoever owns a name cannot turn it into a way to this machine or its network; addresses
that hand out a machine's credentials are not dialled at all, unless the URL names the very address.

Start at `HttpClient.connection`.

Blocking work in a thread of its own, which nobody waits for in the end.

What a web server answers to one request of ours: a JSON text, a stream of events, a refusal.

`Answer` takes it in as it comes and says what it was; what that means is for the link that asked. Redirects are
refusals: whoever follows one would carry a user's credentials elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave import __version__
from byleave.core.net_rules import NetRule
from byleave.core.url import BadUrl, parse_url
from byleave.gateway.interfaces import DownError
from byleave.gateway.message import excerpt, hide, one_line
from byleave.net.addresses import dialable, is_address, look_up, why
from byleave.net.http_exchange import plain_url
from byleave.protocol.http_body import MalformedBodyError, body_reader
from byleave.protocol.http_head import UNTIL_CLOSE, BadHead, end_of_head, is_field, list_of, read_response, values_of
from byleave.protocol.sse import Event, EventReader
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Done = TypeVar("Done")
    from collections.abc import Iterable
    from typing import Protocol

    from byleave.protocol.http_body import Body
    from byleave.protocol.http_head import HttpResponseHead

    Fields = Iterable[tuple[str, str]]

    class Asking(Protocol):
        """Whoever asked something. After `end` or `broke` nothing more is told; after `Connection.drop` nothing at all.

        `head` comes once, then pieces of the body. None of them raises.
        """

        def head(self, response: HttpResponseHead) -> None: ...

        def piece(self, data: bytes) -> None: ...

        def end(self) -> None: ...

        def broke(self, why: str, *, unheard: bool) -> None:
            """Learn that there is no (whole) answer. `unheard`: most probably the server never saw the request."""

    class Teller(Protocol):
        """Whoever wants to know what one request came to. `over` comes once, and last."""

        def began(self, response: HttpResponseHead) -> None: ...

        def said(self, message: bytes) -> None:
            """Take one message, which is on one line."""

        def over(self, end: End) -> None: ...


async def beside(work: Callable[[], Done], seconds: float) -> Done:
    """Do `work` in a thread; a TimeoutError if it takes longer, and the thread is left alone."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Done] = loop.create_future()

    def tell(set_: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            set_(value)

    def do() -> None:
        set_: Callable[[Any], None] = done.set_result
        try:
            value: Any = work()
        except BaseException as problem:  # noqa: BLE001 -- whoever waits is told
            set_, value = done.set_exception, problem
        with suppress(RuntimeError):  # the gateway has ended
            loop.call_soon_threadsafe(tell, set_, value)

    Thread(target=do, name="byleave-beside", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done


LONGEST_HEAD = 1 << 16
LONGEST_CONNECT = 10.0  # seconds, for all addresses of a host together
LONGEST_KEPT = 4.0  # seconds; uvicorn and Node.js close after five, and what is said on a closed one is lost
MOST_KEPT = 64  # connections to one place that wait for more
_MOST_INTERIM = 16  # answers of 1xx before the real one
_ROUNDS = 8  # of the loop, more than closing a connection takes
_SCHEMES = ("http", "https")
_AGENT = f"byleave/{__version__}"
_HINT = "check `url` in the server's table, and whether the server works"


class Origin(Struct, frozen=True):
    """Where connections lead."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme] == self.port
        return f"{self.scheme}://{host}" if usual else f"{self.scheme}://{host}:{self.port}"


class Spot(Struct, frozen=True):
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


def field_lines(fields: Fields) -> bytes:
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


class ClientConnection(asyncio.Protocol):
    """One connection, with at most one request on its way."""

    def __init__(self, client: AsyncHttpClient, origin: Origin) -> None:
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

    def ask(self, request: bytes, method: str, asking: Asking) -> None:
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
        except MalformedBodyError as problem:
            self._break(f"gave no answer that can be used: {problem}")

    def eof_received(self) -> None:
        if self._asking is None or self._body is None:
            return
        with suppress(MalformedBodyError):
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
                raise MalformedBodyError("the head has no end, or is too long")
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
            raise MalformedBodyError(response.problem)
        if response.status < 200:
            self._head = bytearray()
            self._interim += 1
            if response.status == 101 or self._interim > _MOST_INTERIM:
                raise MalformedBodyError("it says something else than an answer")
            return True
        self._head = None
        self._keeps = head.startswith(b"HTTP/1.1 ") and response.body != UNTIL_CLOSE
        self._keeps = self._keeps and "close" not in list_of(response.fields, "connection")
        self._longest = _longest_kept(response)
        self._body = body_reader(response.body)
        if self._asking is not None:
            self._asking.head(response)
        return self._asking is not None

    def _take(self, body: Body, data: bytes) -> None:
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


class AsyncHttpClient:
    """All connections of a gateway to web servers. Close it in the end."""

    def __init__(
        self, *, context: ssl.SSLContext | None = None, resolve: Callable[[str, int], list[str]] = look_up
    ) -> None:
        self._context = context
        self._resolve = resolve
        self._idle: dict[Origin, list[ClientConnection]] = {}
        self._all: set[ClientConnection] = set()
        self._public: set[str] = set()  # hosts that have led to public addresses
        self._sweeping: asyncio.TimerHandle | None = None

    async def connection(self, origin: Origin, *, fresh: bool = False) -> ClientConnection:
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

    def keep(self, connection: ClientConnection, seconds: float = LONGEST_KEPT) -> None:
        """Take a connection back, for the next request to the same place."""
        idle = self._idle.setdefault(connection.origin, [])
        if len(idle) >= MOST_KEPT or seconds <= 0:
            connection.drop()
            return
        connection.kept_until = monotonic() + seconds
        idle.append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(LONGEST_KEPT, self._sweep)

    def note(self, connection: ClientConnection) -> None:
        """Note that a connection is there."""
        self._all.add(connection)

    def forget(self, connection: ClientConnection) -> None:
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

    async def _dial(self, origin: Origin) -> ClientConnection:
        loop = asyncio.get_running_loop()
        secure = await self._tls() if origin.scheme == "https" else None
        last: OSError = OSError("it has no address that may be dialled")
        for address in await self._addresses(origin):
            try:
                _transport, connection = await loop.create_connection(
                    lambda: ClientConnection(self, origin),
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


def media_type(response: HttpResponseHead) -> str:
    """Return the type of a body, without its parameters."""
    found = values_of(response.fields, "content-type")
    return found[0].partition(";")[0].strip().lower() if found else ""


def is_coded(response: HttpResponseHead) -> bool:
    """Whether a body is compressed, though nobody asked for that."""
    return any(word not in ("", "identity") for word in list_of(response.fields, "content-encoding"))


def _longest_kept(response: HttpResponseHead) -> float:
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


LARGEST = 64 << 20  # bytes of one message
LARGEST_REFUSAL = 1 << 16  # bytes of a refusal that are read
JSON, EVENTS = "application/json", "text/event-stream"
_SHOWN = 300  # letters of a refusal that people are shown
_SUCCESS, _REDIRECT, _MISTAKE = 200, 300, 400


class End(Struct, frozen=True):
    """How an answer ended. `status` is 0 where there was none; `why` is a sentence for people, or empty if all is well.

    `body` is what a refusal said. `resumes`: it was a stream of events, which may be gone on with.
    """

    status: int
    why: str = ""
    body: bytes = b""
    unheard: bool = False
    resumes: bool = False


class HttpResponseReader:
    """Takes in the answer to one request. `events` is there from the moment on that the answer is a stream."""

    __slots__ = (
        "_connection",
        "_pieces",
        "_secrets",
        "_size",
        "_status",
        "_take",
        "_teller",
        "_why",
        "events",
        "limit",
    )

    def __init__(self, teller: Teller, connection: ClientConnection, secrets: tuple[str, ...], limit: int) -> None:
        self.events: EventReader | None = None
        self.limit = limit
        self._teller: Teller | None = teller
        self._connection = connection
        self._secrets = secrets
        self._pieces: list[bytes] = []
        self._size = 0
        self._status = 0
        self._why = ""
        self._take: Callable[[bytes], None] = self._collect

    def drop(self) -> None:
        """Hear no more of it."""
        self._teller = None
        self._connection.drop()

    def head(self, response: HttpResponseHead) -> None:
        self._status = response.status
        if self._teller is not None:
            self._teller.began(response)
        if response.status >= _REDIRECT:
            self._why, self._take = self._refusal(response), self._collect_some
            return
        kind = media_type(response)
        if is_coded(response):
            self._stop("answered with a compressed body, which was not asked for")
        elif kind == EVENTS:
            self.events, self._take = EventReader(limit=self.limit), self._hear
        elif kind != JSON and not response.bodiless and response.body.length != 0:
            self._why, self._take = (
                f"answered with something else than JSON or events: {self._quoted(kind)}",
                self._ignore,
            )
        elif (response.body.length or 0) > self.limit:
            self._too_large()

    def piece(self, data: bytes) -> None:
        self._take(data)

    def end(self) -> None:
        if self.events is None and not self._why and self._pieces:
            self._tell(b"".join(self._pieces))
        if self._why and self._status >= _MISTAKE:
            said = excerpt(b"".join(self._pieces)[:LARGEST_REFUSAL], self._secrets, most=_SHOWN)
            self._why = f"{self._why}: {said}" if said else self._why
        self._over(self._why)

    def broke(self, why: str, *, unheard: bool) -> None:
        self._over(self._why or why, unheard=unheard)

    def _collect(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self.limit:
            self._too_large()
        else:
            self._pieces.append(data)

    def _collect_some(self, data: bytes) -> None:
        self._size += len(data)
        self._pieces.append(data)
        if self._size > LARGEST_REFUSAL:
            self._connection.drop()
            self.end()

    def _ignore(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self.limit:
            self._too_large()

    def _hear(self, data: bytes) -> None:
        if self.events is None:
            return
        for event in self.events.feed(data):
            if not isinstance(event, Event):
                self._too_large()
            elif event.type == "message" and event.data:
                self._tell(event.data)
            if self._teller is None:
                return

    def _tell(self, message: bytes) -> None:
        line = one_line(message)
        if line is None:
            self._why = self._why or "said something that is not JSON"
        elif line and self._teller is not None:
            self._teller.said(line)

    def _too_large(self) -> None:
        self._stop(f"sent a message that is larger than {self.limit >> 20} MB")

    def _stop(self, why: str) -> None:
        self._connection.drop()
        self._over(why, resumes=False)

    def _over(self, why: str, *, unheard: bool = False, resumes: bool = True) -> None:
        teller, self._teller = self._teller, None
        if teller is not None:
            body = b"".join(self._pieces) if self._status >= _MISTAKE else b""
            teller.over(End(self._status, why, body, unheard, resumes and self.events is not None))

    def _refusal(self, response: HttpResponseHead) -> str:
        if response.status < _MISTAKE:
            where = (values_of(response.fields, "location") or [""])[0]
            return f"wants to be asked at {self._quoted(where)} instead, and redirects are not followed"
        return f"answered {response.status} {shown(hide(response.phrase, self._secrets)[:80])}".rstrip()

    def _quoted(self, text: str) -> str:
        return quoted(hide(text, self._secrets)[:_SHOWN])
