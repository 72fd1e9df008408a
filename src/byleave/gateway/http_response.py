"""Requests of the gateway to servers over HTTP: the URL and the headers, and what the response is made of.

A response is a JSON text, a stream of events, or a refusal. `HttpResponseReader` takes it in as it arrives and says
which of them it was; what that means is for the link that sent the request. Redirects are refusals: following one would
carry a user's credentials elsewhere. The connections: net.http_async_client, whose errors become a DownError here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.url import BadUrl, parse_url
from byleave.gateway.interfaces import DownError
from byleave.gateway.message import excerpt, hide, one_line
from byleave.net.endpoints import SCHEMES, USER_AGENT, Endpoint, endpoint_of, path_of
from byleave.protocol import http_exchange
from byleave.protocol.http_exchange import LocalProtocolError
from byleave.protocol.http_head import list_of, values_of
from byleave.protocol.sse import Event, EventReader
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from byleave.net.http_async_client import AsyncHttpClient, ClientConnection
    from byleave.protocol.http_head import HttpResponseHead

    class ResponseHandler(Protocol):
        """What a link does with the response to one request. `over` is called once, and last."""

        def began(self, response: HttpResponseHead) -> None: ...

        def on_message(self, message: bytes) -> None:
            """Take one message, which is on one line."""

        def over(self, end: End) -> None: ...


_HINT = "check `url` in the server's table, and whether the server works"


class ServerUrl(Struct, frozen=True):
    """A server's URL, taken apart: the endpoint, and the path with its query as the request line has it."""

    endpoint: Endpoint
    path: str

    def request_line(self, method: str) -> bytes:
        """Return how a request for it begins."""
        start = f"{method} {self.path} HTTP/1.1\r\nHost: {self.endpoint.authority}\r\nUser-Agent: {USER_AGENT}\r\n"
        return start.encode("ascii")


def read_server_url(url: str) -> ServerUrl:
    """Return where a server's URL leads; a DownError if requests cannot go there."""
    target = parse_url(url)
    if isinstance(target, BadUrl):
        raise DownError(f"the server's url cannot be used: {target.problem}", hint=_HINT)
    if target.scheme not in SCHEMES or target.port is None:
        raise DownError(f"the server's url has the scheme {quoted(target.scheme)}", hint="use https:// or http://")
    if target.userinfo:
        raise DownError(
            "the server's url carries a user name or a password", hint="put credentials into the server's `headers`"
        )
    return ServerUrl(endpoint_of(target), path_of(url, target))


async def connect(client: AsyncHttpClient, endpoint: Endpoint, *, fresh: bool = False) -> ClientConnection:
    """Return a connection without an open request, a `fresh` one on demand; a DownError if there is none."""
    try:
        return await client.connection(endpoint, fresh=fresh)
    except ConnectionError as problem:
        raise DownError(str(problem), hint=_HINT) from None


def field_lines(fields: Iterable[tuple[str, str]]) -> bytes:
    """Return header fields as they are sent; a DownError if one would be read as something else."""
    try:
        return http_exchange.field_lines(fields)
    except LocalProtocolError as problem:
        raise DownError(
            f"the header {quoted(problem.field)} cannot be sent as it is",
            hint="headers have plain names, and values without line ends and other control characters",
        ) from None


def media_type(response: HttpResponseHead) -> str:
    """Return the type of a body, without its parameters."""
    found = values_of(response.fields, "content-type")
    return found[0].partition(";")[0].strip().lower() if found else ""


def is_coded(response: HttpResponseHead) -> bool:
    """Whether a body is compressed, though every request says `Accept-Encoding: identity`."""
    return any(word not in ("", "identity") for word in list_of(response.fields, "content-encoding"))


LARGEST = 64 << 20  # bytes of one message
LARGEST_REFUSAL = 1 << 16  # bytes of a refusal that are read
JSON, EVENTS = "application/json", "text/event-stream"
_SHOWN = 300  # letters of a refusal that people are shown
_SUCCESS, _REDIRECT, _MISTAKE = 200, 300, 400


class End(Struct, frozen=True):
    """How a response ended. `status` is 0 where there was none; `why` is a sentence for people, empty if all is well.

    `body` is that of a refusal. `resumes`: it was a stream of events, which may be resumed.
    """

    status: int
    why: str = ""
    body: bytes = b""
    unheard: bool = False
    resumes: bool = False


class HttpResponseReader:
    """Takes in the response to one request. `events` is set as soon as the response turns out to be a stream."""

    __slots__ = (
        "_connection",
        "_handler",
        "_pieces",
        "_secrets",
        "_size",
        "_status",
        "_take",
        "_why",
        "events",
        "limit",
    )

    def __init__(
        self, handler: ResponseHandler, connection: ClientConnection, secrets: tuple[str, ...], limit: int
    ) -> None:
        self.events: EventReader | None = None
        self.limit = limit
        self._handler: ResponseHandler | None = handler
        self._connection = connection
        self._secrets = secrets
        self._pieces: list[bytes] = []
        self._size = 0
        self._status = 0
        self._why = ""
        self._take: Callable[[bytes], None] = self._collect

    def drop(self) -> None:
        """Close the connection; the handler is not called any more."""
        self._handler = None
        self._connection.close()

    def head(self, response: HttpResponseHead) -> None:
        self._status = response.status
        if self._handler is not None:
            self._handler.began(response)
        if response.status >= _REDIRECT:
            self._why, self._take = self._refusal(response), self._collect_some
            return
        kind = media_type(response)
        if is_coded(response):
            self._stop("answered with a compressed body, which was not asked for")
        elif kind == EVENTS:
            self.events, self._take = EventReader(limit=self.limit), self._read_events
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
            self._report(b"".join(self._pieces))
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
            self._connection.close()
            self.end()

    def _ignore(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self.limit:
            self._too_large()

    def _read_events(self, data: bytes) -> None:
        if self.events is None:
            return
        for event in self.events.feed(data):
            if not isinstance(event, Event):
                self._too_large()
            elif event.type == "message" and event.data:
                self._report(event.data)
            if self._handler is None:
                return

    def _report(self, message: bytes) -> None:
        line = one_line(message)
        if line is None:
            self._why = self._why or "said something that is not JSON"
        elif line and self._handler is not None:
            self._handler.on_message(line)

    def _too_large(self) -> None:
        self._stop(f"sent a message that is larger than {self.limit >> 20} MB")

    def _stop(self, why: str) -> None:
        self._connection.close()
        self._over(why, resumes=False)

    def _over(self, why: str, *, unheard: bool = False, resumes: bool = True) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            body = b"".join(self._pieces) if self._status >= _MISTAKE else b""
            handler.over(End(self._status, why, body, unheard, resumes and self.events is not None))

    def _refusal(self, response: HttpResponseHead) -> str:
        if response.status < _MISTAKE:
            where = (values_of(response.fields, "location") or [""])[0]
            return f"wants to be asked at {self._quoted(where)} instead, and redirects are not followed"
        return f"answered {response.status} {shown(hide(response.phrase, self._secrets)[:80])}".rstrip()

    def _quoted(self, text: str) -> str:
        return quoted(hide(text, self._secrets)[:_SHOWN])
