"""A link to a server over streamable HTTP: each message is a POST, and its response a JSON text or a stream of events.

A stream that breaks off before the answer came is resumed where its events had ids. What a server sends unasked
comes over a GET that stands as long as the link is open. A request that may do something twice is never sent twice.
Headers are checked when the link is opened: a value that would become a second header keeps the server down.

Start at `HttpLink`. One message and its response: `Post`. A request of the link's own: `LinkRequest`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.gateway.http_response import LARGEST, End, HttpResponseReader, connect, field_lines, read_server_url
from byleave.gateway.interfaces import DownError
from byleave.gateway.limits import LIVED, Backoff
from byleave.gateway.message import answers, one_line
from byleave.protocol.http_head import values_of
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from byleave.gateway.http_response import ServerUrl
    from byleave.gateway.interfaces import Outgoing, Receiver
    from byleave.net.http_async_client import AsyncHttpClient
    from byleave.policy.servers import ExpandedServer, ServerConfig
    from byleave.protocol.http_head import HttpResponseHead


NOT_FOUND = 404
LINGERING = 1.0  # seconds that a stream may stay open after the answer
# What changes nothing, so that asking twice is asking once.
_REPEATABLE = frozenset(
    {"initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list"}
    | {"resources/read", "prompts/list", "prompts/get", "completion/complete"}
)


class Post:
    """One message that was sent, and the server's response."""

    __slots__ = ("_left", "_lingering", "_link", "_retried", "_wrong", "answer", "is_answered", "outgoing", "visit")

    def __init__(self, link: HttpLink, outgoing: Outgoing) -> None:
        self.outgoing = outgoing
        self.answer: HttpResponseReader | None = None
        self.visit: LinkRequest | None = None  # by which a stream that broke off is gone on with
        self.is_answered = False
        self._left = False  # its result is not needed any more
        self._link = link
        self._retried = False
        self._wrong = ""
        self._lingering: asyncio.TimerHandle | None = None

    def is_left(self) -> bool:
        """Whether its result is not needed any more."""
        return self._left

    def leave(self) -> None:
        """Hear no more of it."""
        self._left = True
        if self.answer is not None:
            self.answer.drop()
        if self.visit is not None:
            self.visit.leave()

    def began(self, response: HttpResponseHead) -> None:
        if self.outgoing.method == "initialize" and response.status < 300:
            self._wrong = self._link.take_session(response)

    def on_message(self, message: bytes) -> None:
        if self._left or self._wrong:
            return
        id_, answer = self.outgoing.id, self.answer
        if id_ is None:
            self._link.receiver.received(message, None)
            return
        if answer is None or answer.events is None or answers(message, id_):
            self.is_answered = True
            if answer is not None and answer.events is not None and self._lingering is None:
                self._lingering = asyncio.get_running_loop().call_later(LINGERING, self._linger)
        if answer is None or answer.events is None:
            self._link.forget(self)  # before: its request goes on within `received`, and may close the link
        answered = self._link.receiver.received(message, id_)
        if answered is False and answer is not None and answer.events is None:
            self._link.receiver.lost(id_, f"the server {shown(self._link.name)} answered something else")

    def _linger(self) -> None:
        """Close a stream that goes on though everything is said."""
        self._link.forget(self)
        self.leave()

    def over(self, end: End) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        if self._left:
            return
        if self._wrong:
            self._link.fail(self, structs.replace(end, why=self._wrong))
        elif self.is_answered or (self.outgoing.id is None and 200 <= end.status < 300):
            self._link.forget(self)
        else:
            self._unanswered(end)

    def _unanswered(self, end: End) -> None:
        id_, link, events = self.outgoing.id, self._link, self.answer.events if self.answer is not None else None
        error = None if id_ is None or (end.status == NOT_FOUND and link.session) else one_line(end.body)
        if error and id_ is not None and answers(error, id_):
            link.forget(self)  # an error of JSON-RPC, and the status of HTTP that goes with it
            link.receiver.received(error, id_)
        elif end.unheard and not self._retried and (id_ is None or self.outgoing.method in _REPEATABLE):
            self._retried = True
            link.spawn(self._again())
        elif id_ is not None and end.resumes and events is not None and events.last_id:
            link.spawn(link.resume(self, events.last_id, events.retry))
        else:
            usual = "ended its answer without having answered" if end.status else "gave no answer"
            link.fail(self, structs.replace(end, why=end.why or usual))

    async def _again(self) -> None:
        """Send it once more: the connection that it was sent on had been closed already."""
        try:
            await self._link.post(self, fresh=True)
        except DownError as problem:
            self._link.fail(self, End(0, problem.problem))


class LinkRequest:
    """A request of the link's own, whose end is waited for. What is said meanwhile goes to `to`."""

    def __init__(self, to: HttpLink | Post | None = None) -> None:
        self.answer: HttpResponseReader | None = None
        self.ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._to = to

    async def ask(self, link: HttpLink, url: ServerUrl, method: str, request: bytes) -> End:
        """Ask, and return how it ended; a DownError if it could not even be asked."""
        connection = await connect(link.client, url.endpoint)
        if self.ended.done():
            link.client.keep(connection)
        else:
            self.answer = HttpResponseReader(self, connection, link.secrets, link.limit)
            connection.send(request, method, self.answer)
        try:
            return await self.ended
        finally:
            self.leave()

    def leave(self) -> None:
        """Hear no more of it."""
        if not self.ended.done():
            self.ended.set_result(End(0))
            if self.answer is not None:
                self.answer.drop()

    @property
    def last_id(self) -> str:
        return self.answer.events.last_id if self.answer is not None and self.answer.events is not None else ""

    @property
    def retry(self) -> float | None:
        return self.answer.events.retry if self.answer is not None and self.answer.events is not None else None

    def heard_new(self, before: str) -> bool:
        """Whether the stream went on after the event of that id."""
        return self.last_id not in ("", before)

    def began(self, response: HttpResponseHead) -> None:
        """Take the head of the answer; nothing in it matters here."""

    def on_message(self, message: bytes) -> None:
        if self._to is not None:
            self._to.on_message(message)

    def over(self, end: End) -> None:
        if not self.ended.done():
            self.ended.set_result(end)


MOST_RESUMED = 3  # times in a row without anything new
LONGEST_RETRY = 30.0  # seconds, however long a server wants us to wait
USUAL_RETRY = 1.0
LONGEST_GOODBYE = 2.0  # seconds for the DELETE that ends a session
_LONGEST_SESSION = 1024
_NOT_ALLOWED, _GONE_FOR_GOOD = 405, (400, 401, 403, 404, 405, 501)
_ACCEPT = b"Accept: application/json, text/event-stream\r\nAccept-Encoding: identity\r\n"
_ACCEPT_EVENTS = b"Accept: text/event-stream\r\nAccept-Encoding: identity\r\nCache-Control: no-cache\r\n"
_JSON = b"Content-Type: application/json\r\n"
# They are ours to say; a second one could be read as another message, or another session.
_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect"}
    | {"host", "keep-alive", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"}
    | {"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_HINT = "the server may be tried again; its own log may say more"


def checked_headers(headers: dict[str, str]) -> bytes:
    """Return configured headers as they are sent; a DownError if one is not the user's to say, or is no header."""
    for name in headers:
        if name.lower() in _OURS or name.lower().startswith("mcp-param-"):
            raise DownError(f"the header {shown(name)} is said by byleave itself", hint="remove it from `headers`")
    return field_lines(headers.items())


class HttpLink:
    """One session with one server. `warnings` are for people: what the server refused of messages without an answer."""

    sends_headers = True  # which a stateless server reads beside the message

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
        self.session = ""
        self.name = server.name
        self.warnings: list[str] = []
        self.limit = limit
        self.secrets: tuple[str, ...] = tuple(expanded.secrets)
        self.receiver = receiver
        self.client = client
        self.closed = False
        self._is_lost = False
        self._url = expanded.url or ""
        self._given = dict(expanded.headers)
        self._target: ServerUrl | None = None
        self._headers = b""
        self._start: tuple[str, str, bytes] = ("", "", b"")  # of a POST, for this revision and session
        self._open: dict[str, Post] = {}
        self._others: set[Post] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect; a DownError if the server cannot be reached, or cannot be asked as it is configured."""
        self._target = read_server_url(self._url)
        self._headers = checked_headers(self._given)
        self.client.keep(await connect(self.client, self._target.endpoint))

    async def send(self, outgoing: Outgoing) -> None:
        """Send one message; what the server says to it is for the receiver."""
        post = Post(self, outgoing)
        if outgoing.id is None:
            self._others.add(post)
        else:
            self._open[outgoing.id] = post
        try:
            await self.post(post)
        except BaseException:
            self.forget(post)
            raise

    async def post(self, post: Post, *, fresh: bool = False) -> None:
        """Send a message over a connection of its own."""
        if self.closed or self._target is None:
            raise DownError(f"the link to {shown(self.name)} is closed", hint=_HINT)
        outgoing = post.outgoing
        more = field_lines(outgoing.headers) if outgoing.headers else b""
        connection = await connect(self.client, self._target.endpoint, fresh=fresh)
        if post.is_left():  # while it was connected
            self.client.keep(connection)
            return
        length = b"Content-Length: %d\r\n\r\n" % len(outgoing.message)
        post.answer = HttpResponseReader(post, connection, self.secrets, self.limit)
        request = b"".join((self._post_start(self._target), more, length, outgoing.message))
        connection.send(request, "POST", post.answer)

    def _post_start(self, url: ServerUrl) -> bytes:
        revision, session, known = self._start
        if known and revision == self.revision and session == self.session:
            return known
        start = b"".join((url.request_line("POST"), _ACCEPT, _JSON, self._common()))
        self._start = (self.revision, self.session, start)
        return start

    def _common(self) -> bytes:
        ours = [("MCP-Protocol-Version", self.revision), ("Mcp-Session-Id", self.session)]
        return self._headers + field_lines([field for field in ours if field[1]])

    def listen(self) -> None:
        """Begin to receive what the server sends unasked."""
        if self._listening is None and not self.closed:
            self._listening = self.spawn(self._listen())

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Have something done beside; it ends with the link."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def abandon(self, id_: str) -> None:
        """Close the stream of a request whose result is not needed any more."""
        post = self._open.get(id_)
        if post is not None:
            self.forget(post)
            post.leave()

    async def close(self) -> None:
        """End the session, and everything that is under way, in bounded time."""
        if self.closed:
            return
        self.closed = True
        ended = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in ended:
            task.cancel()
        for post in (*self._open.values(), *self._others):
            post.leave()
        self._open.clear()
        self._others.clear()
        await asyncio.gather(*ended, return_exceptions=True)
        if self.session and self._target is not None:
            with suppress(DownError, TimeoutError):
                async with asyncio.timeout(LONGEST_GOODBYE):
                    await self._goodbye(self._target)

    async def _goodbye(self, url: ServerUrl) -> None:
        head = b"".join((url.request_line("DELETE"), _ACCEPT, self._common(), b"\r\n"))
        await LinkRequest().ask(self, url, "DELETE", head)

    def forget(self, post: Post) -> None:
        """Note that a message has come to its end."""
        self._others.discard(post)
        id_ = post.outgoing.id
        if id_ is not None and self._open.get(id_) is post:
            del self._open[id_]

    def take_session(self, response: HttpResponseHead) -> str:
        """Take the session that an answer to `initialize` opens; return what is wrong with it, if something is."""
        given = values_of(response.fields, "mcp-session-id")
        if not given:
            return ""
        session = given[0]
        if len(given) > 1 or not session.isascii() or not session.isprintable() or " " in session:
            return "gave a session id that cannot be sent back"
        if len(session) > _LONGEST_SESSION:
            return "gave a session id that is too long"
        self.session = session
        return ""

    def fail(self, post: Post, end: End) -> None:
        """Say that a message got no answer."""
        self.forget(post)
        if self.closed:
            return
        id_, why = post.outgoing.id, f"the server {shown(self.name)} {end.why}"
        if end.status == NOT_FOUND and self.session:
            self._end_session()
        elif id_ is not None:
            self.receiver.lost(id_, why)
        elif len(self.warnings) < 20:
            self.warnings.append(f"{why} (to {shown(post.outgoing.method) or 'an answer'})")

    def _end_session(self) -> None:
        if not self._is_lost and not self.closed:
            self._is_lost = True
            self.receiver.lost(None, f"the server {shown(self.name)} has ended the session")

    async def resume(self, post: Post, last_id: str, retry: float | None) -> None:
        """Go on with a stream that ended before the answer to its request."""
        tries, end = 0, End(0, "ended the stream before it had answered")
        while tries < MOST_RESUMED:
            await asyncio.sleep(min(LONGEST_RETRY, USUAL_RETRY if retry is None else retry))
            if post.is_left():
                return
            post.visit = visit = LinkRequest(post)
            end = await self._watch(visit, last_id)
            if post.is_left() or post.is_answered:
                self.forget(post)
                return
            if end.status in _GONE_FOR_GOOD:
                break
            tries = 0 if visit.heard_new(last_id) else tries + 1
            last_id, retry = visit.last_id or last_id, visit.retry if visit.retry is not None else retry
        self.fail(post, structs.replace(end, why=end.why or "ended the stream before it had answered"))

    async def _watch(self, visit: LinkRequest, last_id: str) -> End:
        """Read a stream of events by GET until it ends."""
        if self._target is None:
            return End(0, "is not connected")
        resumed = field_lines([("Last-Event-ID", last_id.encode("latin-1").decode("utf-8", "surrogateescape"))])
        head = (self._target.request_line("GET"), _ACCEPT_EVENTS, self._common(), resumed if last_id else b"", b"\r\n")
        try:
            return await visit.ask(self, self._target, "GET", b"".join(head))
        except DownError as problem:
            return End(0, problem.problem)

    async def _listen(self) -> None:
        """Keep the standing stream open, as long as the server has one."""
        backoff, last_id, loop = Backoff(), "", asyncio.get_running_loop()
        while not self.closed:
            visit = LinkRequest(self)
            backoff.started(loop.time())
            end = await self._watch(visit, last_id)
            if end.status == NOT_FOUND and self.session:
                self._end_session()
                return
            if end.status in _GONE_FOR_GOOD:
                if end.status != _NOT_ALLOWED:
                    self.warnings.append(f"the server {shown(self.name)} {end.why} (to the standing stream)")
                return
            if visit.heard_new(last_id):
                backoff.lived(LIVED)
            last_id = visit.last_id or last_id
            wait = backoff.failed(loop.time())
            if end.resumes:
                wait = max(wait, USUAL_RETRY if visit.retry is None else min(visit.retry, LONGEST_RETRY))
            await asyncio.sleep(wait)

    def on_message(self, message: bytes) -> None:
        """Pass on what came over the standing stream."""
        if not self.closed:
            self.receiver.received(message, None)
