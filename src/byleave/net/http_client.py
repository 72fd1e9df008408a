"""The blocking HTTP client, for tools and for the keys of an issuer of tokens: one request, one response.

A name is looked up once, and only addresses that pass the rules are dialled. Redirects are responses like others:
following one takes another request, and for a tool another permit. Proxies of the environment are not used. Responses
are read by `protocol.http_exchange`; the client of the gateway, on an event loop: `http_async_client`.

Start at `HttpClient.request`.
"""

from __future__ import annotations

import ssl
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import UrlAction
from byleave.core.url import BadUrl, parse_url
from byleave.errors import RequestError
from byleave.net.addresses import dialable, is_address, look_up, not_dialable
from byleave.net.endpoints import SCHEMES, USER_AGENT, ConnectionPool, Endpoint, endpoint_of, failure, path_of
from byleave.net.http_connection import HttpConnection, RequestDeadline, connect
from byleave.protocol.http_body import CodingError, DecodedTooLargeError, decoded
from byleave.protocol.http_exchange import (
    ClientExchange,
    LocalProtocolError,
    RemoteProtocolError,
    ResponseEnd,
    sendable,
)
from byleave.protocol.http_head import Framing, HttpRequestHead, HttpResponseHead, list_of, request_head
from byleave.protocol.jsonrpc import ACCESS_DENIED, INTERNAL_ERROR, INVALID_PARAMS
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from byleave.core.decision import Permit
    from byleave.core.net_rules import NetRule
    from byleave.core.url import Target
    from byleave.net.http_connection import Resolve
    from byleave.protocol.http_exchange import ResponseEvent
    from byleave.protocol.http_head import Fields

    OnCancel = Callable[[Callable[[], None]], object]

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
