"""A link to a server of the revision 2024-11-05 over HTTP: one stream of events, and a place to post messages to.

The server names that place in its first event. It must be of the same origin as the stream: whatever else a server
names would get the user's headers.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from byleave.gateway.http_link import checked_headers
from byleave.gateway.http_response import (
    EVENTS,
    LARGEST,
    LARGEST_REFUSAL,
    End,
    HttpResponseReader,
    connect,
    field_lines,
    is_coded,
    media_type,
    read_server_url,
)
from byleave.gateway.interfaces import DownError
from byleave.gateway.message import excerpt, hide, one_line
from byleave.protocol.http_head import values_of
from byleave.protocol.sse import Event, EventReader
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from byleave.gateway.http_response import ServerUrl
    from byleave.gateway.interfaces import Outgoing, Receiver
    from byleave.net.http_async_client import AsyncHttpClient, ClientConnection
    from byleave.policy.servers import ExpandedServer, ServerConfig
    from byleave.protocol.http_head import HttpResponseHead

LONGEST_OPENING = 10.0  # seconds until the server has named its place
_LONGEST_PLACE = 4096
_SHOWN = 300
_HINT = "check `url` and `headers` in the server's table, and whether the server works"


class SseLink:
    """One session with one server: it lasts as long as its stream."""

    def __init__(
        self,
        server: ServerConfig,
        expanded: ExpandedServer,
        receiver: Receiver,
        client: AsyncHttpClient,
        *,
        limit: int = LARGEST,
    ) -> None:
        self.revision = ""
        self.name = server.name
        self.warnings: list[str] = []
        self._receiver = receiver
        self._client = client
        self._limit = limit
        self._url = expanded.url or ""
        self._given = dict(expanded.headers)
        self._secrets: tuple[str, ...] = tuple(expanded.secrets)
        self._headers = b""
        self._stream: _Stream | None = None
        self._place: ServerUrl | None = None
        self._open: set[_Message] = set()
        self._closed = False
        self._over = ""

    async def open(self) -> None:
        """Open the stream, and wait for the place to post to; a DownError if there is none, or none that we take."""
        url = read_server_url(self._url)
        self._headers = checked_headers(self._given)
        connection = await connect(self._client, url.endpoint, fresh=True)
        self._stream = stream = _Stream(self, connection, url, self._limit)
        accept = b"Accept: text/event-stream\r\nAccept-Encoding: identity\r\nCache-Control: no-cache\r\n"
        connection.send(b"".join((url.request_line("GET"), accept, self._headers, b"\r\n")), "GET", stream)
        try:
            async with asyncio.timeout(LONGEST_OPENING):
                self._place = await stream.place
        except TimeoutError:
            stream.drop()
            raise self.down("did not say in time where messages go") from None
        except BaseException:
            stream.drop()
            raise

    async def send(self, outgoing: Outgoing) -> None:
        """Post one message; the answer comes over the stream."""
        if self._place is None or self._over or self._closed:
            raise self.down(self._over or "is not connected")
        ours = [("MCP-Protocol-Version", self.revision)] if self.revision else []
        fields = field_lines([*ours, *outgoing.headers])
        start = b"".join((self._place.request_line("POST"), b"Content-Type: application/json\r\n", self._headers))
        rest = b"Accept-Encoding: identity\r\nContent-Length: %d\r\n\r\n" % len(outgoing.message)
        connection = await connect(self._client, self._place.endpoint)
        if self._closed:
            self._client.keep(connection)
            return
        message = _Message(self, outgoing)
        message.answer = HttpResponseReader(message, connection, self._secrets, self._limit)
        self._open.add(message)
        connection.send(b"".join((start, fields, rest, outgoing.message)), "POST", message.answer)

    def listen(self) -> None:
        """Do nothing: the stream is there from the beginning."""

    async def abandon(self, id_: str) -> None:
        """Do nothing: the stream is the same for all requests."""

    async def close(self) -> None:
        """Close the stream, which ends the session."""
        self._closed = True
        for message in self._open:
            message.leave()
        self._open.clear()
        if self._stream is not None:
            self._stream.drop()

    def received(self, message: bytes) -> None:
        if not self._closed:
            self._receiver.received(message, None)

    def lost(self, why: str) -> None:
        """Say once that the stream is gone."""
        if not self._over and not self._closed:
            self._over = why
            self._receiver.lost(None, f"the server {shown(self.name)} {why}")

    def posted(self, message: _Message, end: End) -> None:
        """Take note of what a POST came to; a refusal is the only answer that its request gets."""
        self._open.discard(message)
        if self._closed or 200 <= end.status < 300:
            return
        id_, why = message.outgoing.id, f"the server {shown(self.name)} {end.why or 'did not take the message'}"
        if id_ is not None:
            self._receiver.lost(id_, why)
        elif len(self.warnings) < 20:
            self.warnings.append(f"{why} (to {shown(message.outgoing.method) or 'an answer'})")

    def refusal(self, status: int, phrase: str, body: bytes) -> DownError:
        """Return how it is said that there is no stream."""
        said = excerpt(body, self._secrets, most=_SHOWN)
        words = shown(hide(phrase, self._secrets)[:80])
        return self.down(f"answered {status} {words}{f': {said}' if said else ''}")

    def quoted(self, text: str) -> str:
        """Return a text of the server's, for people."""
        return quoted(hide(text, self._secrets)[:_SHOWN])

    def down(self, why: str) -> DownError:
        return DownError(f"the server {shown(self.name)} {why}", hint=_HINT)


class _Stream:
    """The stream of events. `place` is where messages go, once the server has said so."""

    def __init__(self, link: SseLink, connection: ClientConnection, url: ServerUrl, limit: int) -> None:
        self.place: asyncio.Future[ServerUrl] = asyncio.get_running_loop().create_future()
        self._link = link
        self._connection = connection
        self._target = url
        self._limit = limit
        self._events = EventReader(limit=limit)
        self._refused: tuple[int, str] | None = None
        self._body = b""

    def drop(self) -> None:
        self._connection.close()
        self.place.cancel()

    def head(self, response: HttpResponseHead) -> None:
        if 300 <= response.status < 400:
            where = (values_of(response.fields, "location") or [""])[0]
            self._stop(f"wants to be asked at {self._link.quoted(where)} instead, and redirects are not followed")
        elif response.status != 200:
            self._refused = (response.status, response.phrase)
        elif media_type(response) != EVENTS or is_coded(response):
            self._stop("answered with something else than a stream of events")

    def piece(self, data: bytes) -> None:
        if self._refused is not None:
            self._body = (self._body + data)[:LARGEST_REFUSAL]
            if len(self._body) == LARGEST_REFUSAL:
                self._connection.close()
                self.end()
            return
        for event in self._events.feed(data):
            if not isinstance(event, Event):
                self._stop(f"sent a message that is larger than {self._limit >> 20} MB")
                return
            if event.type == "endpoint":
                self._take_place(event.data)
            elif event.type == "message" and self.place.done() and (line := one_line(event.data)):
                self._link.received(line)

    def end(self) -> None:
        self._fail("ended the stream")

    def broke(self, why: str, *, unheard: bool) -> None:  # noqa: ARG002 -- a stream is never asked for twice
        self._fail(why)

    def _take_place(self, data: bytes) -> None:
        """Take the place that the server names; a second one changes nothing."""
        if self.place.done():
            return
        named = data[:_LONGEST_PLACE].decode(errors="replace").strip()

        try:
            url = read_server_url(urljoin(f"{self._target.endpoint}{self._target.path}", named))
        except (DownError, ValueError):
            self._stop(f"says that messages go to {self._link.quoted(named)}, which is no place that we would ask")
            return
        if url.endpoint != self._target.endpoint:
            self._stop(f"says that messages go to {self._link.quoted(named)}, which is another server")
            return
        self.place.set_result(url)

    def _stop(self, why: str) -> None:
        self._connection.close()
        self._fail(why)

    def _fail(self, why: str) -> None:
        if self.place.done():
            with suppress(asyncio.CancelledError):
                if self.place.exception() is None:
                    self._link.lost(why)
        elif self._refused is not None:
            self.place.set_exception(self._link.refusal(*self._refused, self._body))
        else:
            self.place.set_exception(self._link.down(why))


class _Message:
    """One message that was posted; its response says only whether the server accepted it."""

    def __init__(self, link: SseLink, outgoing: Outgoing) -> None:
        self.outgoing = outgoing
        self.answer: HttpResponseReader | None = None
        self._link = link

    def leave(self) -> None:
        if self.answer is not None:
            self.answer.drop()

    def began(self, response: HttpResponseHead) -> None:
        """Take the head of the answer; nothing in it matters here."""

    def on_message(self, message: bytes) -> None:
        """Take no message from here: the stream is the place for them."""

    def over(self, end: End) -> None:
        self._link.posted(self, end)
