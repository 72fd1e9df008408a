"""The blocking HTTP client, for tools and for the keys of an issuer of tokens: one request, one response.

A name is looked up once, and only addresses that pass the rules are dialled. Redirects are responses like others:
following one takes another request, and for a tool another permit. Proxies of the environment are not used. A
`RequestDeadline` ends a request at its time, or from another thread.

Start at `HttpClient.request`; `connect` opens one connection, to a number and never to a name. Responses are read by
`protocol.http_exchange`, connections kept for the next request by `endpoints.ConnectionPool`. The client of the
gateway, on an event loop: `http_async_client`.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from ssl import SSLSocket
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import UrlAction
from byleave.core.url import BadUrl, parse_url
from byleave.errors import RequestError
from byleave.net.endpoints import (
    SCHEMES,
    USER_AGENT,
    ConnectionPool,
    Endpoint,
    dialable,
    endpoint_of,
    failure,
    is_address,
    look_up,
    not_dialable,
    path_of,
)
from byleave.protocol.http_body import CodingError, DecodedTooLargeError, decoded
from byleave.protocol.http_exchange import (
    ClientExchange,
    LocalProtocolError,
    RemoteProtocolError,
    ResponseEnd,
    sendable,
)
from byleave.protocol.http_head import Framing, HttpRequestHead, HttpResponseHead, list_of, request_head
from byleave.protocol.jsonrpc import ACCESS_DENIED, CANCELLED, INTERNAL_ERROR, INVALID_PARAMS, TIMED_OUT
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ssl import SSLContext

    Resolve = Callable[[str, int], Sequence[str]]
    from collections.abc import Iterator
    from typing import Self

    from byleave.core.net_rules import NetRule
    from byleave.core.permit import Permit
    from byleave.core.url import Target
    from byleave.protocol.http_exchange import ResponseEvent
    from byleave.protocol.http_head import Fields

    OnCancel = Callable[[Callable[[], None]], object]


PIECE = 1 << 16
LONGEST_CONNECT = 20.0  # seconds for all addresses of a host together


class HttpConnection:
    """One connection, with at most one request on it."""

    def __init__(self, end: socket.socket, address: str) -> None:
        self.address = address
        self._end = end

    def secure(self, context: SSLContext, host: str, deadline: RequestDeadline) -> None:
        """Speak TLS from here on, with the very host; an OSError if that fails, or the host cannot prove itself."""
        self._end.settimeout(deadline.left())
        # A stream that breaks off is an error: the end of a body may be nothing but the end of the stream.
        try:
            self._end = context.wrap_socket(
                self._end, server_hostname=host, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
        except ValueError:
            raise OSError("no certificate can be for a host of that name") from None
        deadline.hold(self)
        self._end.do_handshake()

    def send(self, data: bytes, deadline: RequestDeadline) -> None:
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._end.settimeout(deadline.left())
            self._end.sendall(view[start : start + PIECE])

    def read(self, deadline: RequestDeadline) -> bytes:
        """Return what arrives next, empty at the end of the stream."""
        self._end.settimeout(deadline.left())
        return self._end.recv(PIECE)

    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has arrived since the last response."""
        if isinstance(self._end, SSLSocket) and self._end.pending():
            return False
        watched = select.poll()
        watched.register(self._end, select.POLLIN)
        return not watched.poll(0)

    def shut(self) -> None:
        """Make a thread that waits for it fail; it still has to be closed."""
        with contextlib.suppress(OSError):  # the TLS layer must not notice: it would go on in the clear
            socket.socket.shutdown(self._end, socket.SHUT_RDWR)

    def close(self) -> None:
        self._end.close()


def connect(addresses: Sequence[str], port: int, deadline: RequestDeadline) -> HttpConnection:
    """Return a connection to the first of the addresses that answers; OSError if none does.

    Each gets an equal share of the time that is left.
    """
    end = monotonic() + min(deadline.left(), LONGEST_CONNECT)
    last: OSError = ConnectionRefusedError("it has no address")
    for tried, address in enumerate(addresses):
        try:
            return _connected(address, port, (end - monotonic()) / (len(addresses) - tried), deadline)
        except OSError as problem:
            deadline.left()
            last = problem
    raise last


def _connected(address: str, port: int, seconds: float, deadline: RequestDeadline) -> HttpConnection:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    connection = HttpConnection(made, address)
    try:
        made.settimeout(max(seconds, 0.001))
        deadline.hold(connection)
        deadline.left()  # what was shut before it was connected can be connected nevertheless
        made.connect((address, port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        deadline.release()
        connection.close()
        raise
    return connection


class RequestDeadline:
    """The time that one request has. `cancel` may be called from any thread, at any time, and more than once."""

    def __init__(self, at: float) -> None:
        self._at = at
        self._lock = Lock()
        self._woken = Event()
        self._cancelled = False
        self._held: HttpConnection | None = None

    def cancel(self) -> None:
        """Give the request up: what it waits for fails now."""
        with self._lock:
            self._cancelled = True
            if self._held is not None:
                self._held.shut()
        self._woken.set()

    def hold(self, connection: HttpConnection) -> None:
        """Have the connection shut when the request is cancelled; at once, if it has been."""
        with self._lock:
            self._held = connection
            if self._cancelled:
                connection.shut()

    def release(self) -> None:
        """Leave the connection alone from here on: it waits for another request, or is closed."""
        with self._lock:
            self._held = None

    def left(self) -> float:
        """Return how many seconds there are, always some; a RequestError if there are none."""
        if self._cancelled:
            raise RequestError(
                "the request was cancelled", hint="send it again if it is still needed", number=CANCELLED
            )
        left = self._at - monotonic()
        if left <= 0:
            raise RequestError("the request took too long", hint="ask for less, or try again later", number=TIMED_OUT)
        return left

    def look_up(self, resolve: Resolve, host: str, port: int) -> Sequence[str]:
        """Return what `resolve` finds; OSError if it finds nothing.

        It has a thread of its own, which is left alone when the time is over: a resolver cannot be interrupted.
        """
        self._woken.clear()
        found: list[Sequence[str] | OSError] = []

        def find() -> None:
            try:
                found.append(tuple(resolve(host, port)))
            except OSError as problem:
                found.append(problem)
            except Exception as problem:  # noqa: BLE001 -- the request fails by it, whatever it was
                found.append(OSError(f"it could not be looked up ({type(problem).__name__})"))
            finally:
                self._woken.set()

        Thread(target=find, name="byleave-lookup", daemon=True).start()
        while not found:
            self._woken.wait(self.left())
        if isinstance(found[0], OSError):
            raise found[0]
        self.left()
        return found[0]


LARGEST_BODY = 10 << 20  # `max_file_size` of a tool
LONGEST = 300.0  # seconds, where the caller sets no deadline
MOST_KEPT = 8  # connections
LONGEST_KEPT = 30.0  # seconds; servers close after some more
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})  # RFC 9110, section 9.2.2: doing it twice is doing it once
_BODY_EXPECTED = frozenset({"POST", "PUT", "PATCH"})
_HINT = "check the URL, and whether the server works"
# Fields about how a body was transferred or coded: untrue of the body that the caller gets.
_OF_THE_TRANSFER = frozenset({"connection", "keep-alive", "trailer", "transfer-encoding", "upgrade"})
_OF_THE_CODING = frozenset({"content-encoding", "content-length"})


class HttpRequest(Struct, frozen=True):
    """One request. Values of headers are text; as bytes they are UTF-8."""

    method: str
    url: str
    headers: Fields = ()
    body: bytes | None = None


class HttpResponse(Struct, frozen=True):
    """A whole response. `body` is not compressed any more; `url` is the one that was requested, in its plain form."""

    status: int
    headers: Fields
    body: bytes
    url: str


class _DiedError(Exception):
    """A kept connection was closed before a byte of a response came."""


class _Job(Struct, frozen=True):
    """One request under way."""

    request: HttpRequest
    target: Target
    endpoint: Endpoint
    rules: tuple[NetRule | None, ...]
    limit: int
    deadline: RequestDeadline
    written: bytes

    def may_use(self, address: str) -> bool:
        return bool(dialable(self.rules, (address,)))

    def failed(self, what: str, reason: str) -> RequestError:
        return RequestError(f"{shown(self.target.host)} {what}: {shown(reason)}", hint=_HINT, number=INTERNAL_ERROR)


class HttpClient:
    """Talks to web servers for many threads at once. Close it in the end."""

    def __init__(self, *, context: ssl.SSLContext | None = None, resolve: Resolve = look_up) -> None:
        self._context = context
        self._resolve = resolve
        self._lock = Lock()
        self._pool: ConnectionPool[HttpConnection] = ConnectionPool(most=MOST_KEPT, most_each=MOST_KEPT)

    def request(
        self,
        permit: Permit,
        request: HttpRequest,
        rules: Sequence[NetRule | None],
        *,
        limit: int = LARGEST_BODY,
        deadline: float | None = None,
        on_cancel: OnCancel | None = None,
    ) -> HttpResponse:
        """Return the response to what the permit allows; a RequestError if there is none.

        `rules` are those that allowed it: an address must pass all of them. `deadline` is a time of the monotonic
        clock. `on_cancel` is given what ends the request from another thread.
        """
        action = permit.action
        if not isinstance(action, UrlAction) or (action.url, action.method) != (request.url, request.method):
            raise PermissionError("this permit is not for this request")
        return self.fetch(request, rules, tool=action.tool, limit=limit, deadline=deadline, on_cancel=on_cancel)

    def fetch(
        self,
        request: HttpRequest,
        rules: Sequence[NetRule | None],
        *,
        tool: str | None = None,
        limit: int = LARGEST_BODY,
        deadline: float | None = None,
        on_cancel: OnCancel | None = None,
    ) -> HttpResponse:
        """Do as `request`, for byleave itself: no tool asks for it, and no policy decides about it."""
        target = parse_url(request.url)
        if isinstance(target, BadUrl) or target.userinfo or target.scheme not in SCHEMES:
            raise PermissionError("this URL names no place on the web")
        until = RequestDeadline(monotonic() + LONGEST if deadline is None else deadline)
        if on_cancel is not None:
            on_cancel(until.cancel)
        endpoint = endpoint_of(target, tool)
        job = _Job(request, target, endpoint, tuple(rules), limit, until, _written(request, target, endpoint))
        try:
            return self._respond(job)
        except OSError as problem:
            until.left()
            raise job.failed("cannot be reached", failure(problem)) from None
        except (RemoteProtocolError, CodingError) as problem:
            raise job.failed("gave no response that can be used", str(problem)) from None
        except DecodedTooLargeError:
            raise _too_large(limit) from None

    def close(self) -> None:
        """Close the connections that were kept."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def _respond(self, job: _Job) -> HttpResponse:
        """Use a connection that was kept, where sending the request twice does no harm; else a new one."""
        self._pool.sweep()
        kept = self._pool.take(job.endpoint, job.may_use) if job.request.method in _REPEATABLE else None
        if kept is not None:
            job.deadline.hold(kept)
            try:
                return self._exchange(kept, job, kept=True)
            except _DiedError:
                job.deadline.left()
        return self._exchange(self._dial(job), job, kept=False)

    def _exchange(self, connection: HttpConnection, job: _Job, *, kept: bool) -> HttpResponse:
        seconds = 0.0
        try:
            sent = _send(connection, job)
            response, end = _receive(connection, job, kept=kept)
            if sent and end.reusable:
                seconds = LONGEST_KEPT if end.keep_seconds is None else min(LONGEST_KEPT, end.keep_seconds)
        finally:
            job.deadline.release()
            if seconds > 0 and connection.is_quiet():
                self._pool.put(job.endpoint, connection, seconds)
            else:
                connection.close()
        return response

    def _dial(self, job: _Job) -> HttpConnection:
        """Return a new connection to an address that may be dialled."""
        host, port = job.target.host, job.endpoint.port
        found = (host,) if is_address(host) else job.deadline.look_up(self._resolve, host, port)
        usable = dialable(job.rules, found)
        if found and not usable:
            hint = "ask the user for a rule that opens it"
            raise RequestError(not_dialable(host, found), hint=hint, number=ACCESS_DENIED)
        connection = connect(usable, port, job.deadline)
        try:
            if job.target.scheme == "https":
                connection.secure(self._tls(), host, job.deadline)
        except BaseException:
            job.deadline.release()
            connection.close()
            raise
        return connection

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:  # reads the system's certificates: some ten milliseconds
                self._context = ssl.create_default_context()
            return self._context


def _written(request: HttpRequest, target: Target, endpoint: Endpoint) -> bytes:
    """Return a request as it is sent; a RequestError if a header of it would be read as something else."""
    body = request.body if request.body is not None else b"" if request.method in _BODY_EXPECTED else None
    names = {name.lower() for name, _value in request.headers}
    usual = [field for field in (("User-Agent", USER_AGENT), ("Accept", "*/*")) if field[0].lower() not in names]
    try:
        fields = sendable([*usual, ("Accept-Encoding", "identity"), *request.headers])
    except LocalProtocolError as problem:
        hint = "headers have plain names, and values without control characters"
        raise RequestError(str(problem), hint=hint, number=INVALID_PARAMS) from None
    path = path_of(request.url, target)
    head = HttpRequestHead(request.method, path, 1, fields, None if body is None else Framing(len(body)))
    return request_head(head, path=path, authority=endpoint.authority, keep=True) + (body or b"")


def _send(connection: HttpConnection, job: _Job) -> bool:
    """Send the request; return whether all of it was sent. A server may respond before it has read everything."""
    try:
        connection.send(job.written, job.deadline)
    except TimeoutError:
        raise
    except OSError:
        job.deadline.left()
        return False
    return True


def _receive(connection: HttpConnection, job: _Job, *, kept: bool) -> tuple[HttpResponse, ResponseEnd]:
    head: HttpResponseHead | None = None
    pieces: list[bytes] = []
    size = 0
    for event in _events(connection, job, kept=kept):
        if isinstance(event, ResponseEnd) and head is not None:
            return _response(head, b"".join(pieces), job), event
        if isinstance(event, HttpResponseHead):
            head = event
            if (event.body.length or 0) > job.limit:
                raise _too_large(job.limit)
        elif isinstance(event, bytes):
            size += len(event)
            if size > job.limit:
                raise _too_large(job.limit)
            pieces.append(event)
    raise RemoteProtocolError("the connection was closed")  # not reached: an exchange ends, or raises


def _events(connection: HttpConnection, job: _Job, *, kept: bool) -> Iterator[ResponseEvent]:
    """Yield the events of a response as they arrive; a _DiedError if a kept connection carries none."""
    exchange = ClientExchange(job.request.method)
    while True:
        try:
            data = connection.read(job.deadline)
        except TimeoutError:
            raise
        except OSError:
            job.deadline.left()
            if kept and exchange.is_silent:
                raise _DiedError from None
            raise
        if not data:
            job.deadline.left()
            if kept and exchange.is_silent:
                raise _DiedError
            yield from exchange.receive_eof()
            return
        yield from exchange.receive(data)


def _response(head: HttpResponseHead, body: bytes, job: _Job) -> HttpResponse:
    codings = [] if head.bodiless else list_of(head.fields, "content-encoding")
    untrue = _OF_THE_TRANSFER | _OF_THE_CODING if any(codings) else _OF_THE_TRANSFER
    fields = tuple([(name, _as_text(value)) for name, value in head.fields if name.lower() not in untrue])
    url = f"{job.endpoint}{path_of(job.request.url, job.target)}"
    return HttpResponse(head.status, fields, decoded(body, codings, job.limit), url)


def _as_text(value: str) -> str:
    """Return the value of a field as UTF-8, or as Latin-1 where it is none."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _too_large(limit: int) -> RequestError:
    problem = f"the response is larger than {limit} bytes"
    return RequestError(problem, hint="ask for less of it", number=INVALID_PARAMS, data={"limit": limit})
