"""What a client gets that answers none of its requests: changed lists, updated resources, lines of servers' logs.

A client with a session has one standing stream, where messages wait in order and keep no sender waiting. Stateless
clients that listen (`subscriptions/listen`) have a stream each, and say which notifications they want.

Start at `Notifications`. `about_request` is for what belongs to a request that is open.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

from msgspec import Raw

from byleave.gateway.message import members_of, notification, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.gateway.interfaces import Sink
    from byleave.gateway.requests import Client, ClientRequest, ServerNotification

LIST_CHANGED = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
UPDATED = "notifications/resources/updated"
LOG = "notifications/message"
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MOST_WAITING = 500  # messages for a client that does not read, or has no stream; the oldest go first
MOST_BYTES = 4 << 20  # of them together, beyond the newest
MOST_SUBSCRIBED = 1000  # resources of one client
_CLIENTS_SHARING = 16  # how many clients of one principal may subscribe to as many as one
LONGEST_SUBSCRIBED = 1 << 13  # characters of the URI of one
_SEND_AGAIN = 0.05  # seconds


class Notifications:
    """The notifications of one session. `sees(server, uri)`: whether the policy still shows a resource."""

    def __init__(self, client: Client, sees: Callable[[str, str], bool]) -> None:
        self._client = client
        self._sees = sees
        self.standing = NotificationQueue()
        self.listeners: set[Listener] = set()
        self.subscribed: dict[str, str] = {}  # resources, and the server of each
        self.listened_for: Counter[str] = Counter()  # resources, and how many stateless clients listen for them

    def why_not_subscribed(self, uri: str) -> str:
        """Return why a subscription is not taken, for each is kept as long as the session; empty if it is."""
        if len(uri) > LONGEST_SUBSCRIBED:
            return f"the URI of a subscription has at most {LONGEST_SUBSCRIBED} characters"
        most = MOST_SUBSCRIBED * (_CLIENTS_SHARING if self._client.is_shared else 1)
        if len(self.subscribed) >= most and uri not in self.subscribed:
            return f"a client has at most {most} subscriptions; end one first"
        return ""

    def list_changed(self, method: str) -> None:
        """Announce that a list has changed."""
        if self._client.revision:
            self.standing.put(notification(method))
        for listener in self.listeners:
            if listener.kept.get(LIST_CHANGED[method]) is True:
                listener.queue.put(notification(method, {"_meta": listener.meta}))

    def all_lists_changed(self) -> None:
        """Announce that every list may have changed."""
        for method in LIST_CHANGED:
            self.list_changed(method)

    def updated(self, server: str, params: Raw | None) -> None:
        """Announce that a resource has changed, if it is subscribed to at this server."""
        found = members_of(params)
        uri = text_of(found.get("uri"))
        if uri is None or self.subscribed.get(uri) != server or not self._sees(server, uri):
            return
        if self._client.revision:
            self.standing.put(notification(UPDATED, params))
        for listener in self.listeners:
            if uri in listener.kept.get("resourceSubscriptions", ()):
                listener.queue.put(notification(UPDATED, {**found, "_meta": listener.meta}))

    def pass_on(self, server: str, method: str, params: Raw | None) -> None:
        """Pass on any other notification of a server; a line of its log with the server's name."""
        if self._client.revision:
            sent = log_params(members_of(params), server) if method == LOG else params
            self.standing.put(notification(method, sent))

    def still_subscribed(self, server: str) -> list[str]:
        """Return the subscriptions at a server; those to what the policy no longer shows are dropped."""
        uris = [uri for uri, owner in self.subscribed.items() if owner == server]
        for uri in [uri for uri in uris if not self._sees(server, uri)]:
            del self.subscribed[uri]
        return [uri for uri in uris if uri in self.subscribed]

    def close(self) -> None:
        """Send nothing any more."""
        self.standing.close()


class NotificationQueue:
    """Messages that wait for a stream. Announcing twice that a list has changed is announcing it once."""

    def __init__(self) -> None:
        self._sink: Sink | None = None
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._sink is not None and self._sink.is_open()

    def attach(self, sink: Sink) -> None:
        """Send there from now on, first of all what has waited."""
        self._sink = sink
        self._go_on()

    def put(self, message: bytes) -> None:
        """Have a message sent; at most once, if the very same still waits."""
        if message not in self._waiting:
            while self._waiting and (len(self._waiting) >= MOST_WAITING or self._size > MOST_BYTES - len(message)):
                self._take()
            self._waiting.append(message)
            self._size += len(message)
        self._go_on()

    def _take(self) -> bytes:
        message = self._waiting.popleft()
        self._size -= len(message)
        return message

    def _go_on(self) -> None:
        if self._task is None and self._waiting and self.is_open:
            self._task = asyncio.get_running_loop().create_task(self._send())
            self._task.add_done_callback(self._sent)

    async def _send(self) -> None:
        while self._waiting and self._sink is not None and self._sink.is_open():
            message = self._take()
            if not await self._sink.send(message):
                self._waiting.appendleft(message)
                self._size += len(message)
                return

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is None and self._waiting and self.is_open:
            asyncio.get_running_loop().call_later(_SEND_AGAIN, self._go_on)

    def close(self) -> None:
        """Send nothing any more."""
        self._sink = None
        self._waiting.clear()
        self._size = 0
        if self._task is not None:
            self._task.cancel()


class QueueSink:
    """The standing stream, as a place where a question is put."""

    def __init__(self, queue: NotificationQueue) -> None:
        self._queue = queue

    async def send(self, *parts: bytes) -> bool:
        self._queue.put(b"".join(parts))
        return True

    async def answer(self, *_parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:
        raise AssertionError(f"nothing is answered here ({status}, {scopes})")

    def is_open(self) -> bool:
        return self._queue.is_open


class Listener:
    """A stateless client that listens: which notifications it gets, on a stream of its own."""

    def __init__(self, kept: Mapping[str, Any], meta: Mapping[str, Any], sink: Sink) -> None:
        self.kept = kept
        self.meta = meta
        self.queue = NotificationQueue()
        self.queue.attach(sink)


def about_request(request: ClientRequest, said: ServerNotification, server: str) -> bytes | None:
    """Return a notification about an open request as the client gets it; None if it does not want it."""
    found: dict[str, Any] = dict(members_of(said.params))
    if said.method == "notifications/progress":
        token = request.params.written_meta.get("progressToken")
        return None if token is None else notification(said.method, {**found, "progressToken": token})
    if request.envelope is not None:
        least, level = request.envelope.log_level, text_of(found.get("level"))
        if least not in LOG_LEVELS or level not in LOG_LEVELS or LOG_LEVELS.index(level) < LOG_LEVELS.index(least):
            return None
    return notification(said.method, log_params(found, server))


def log_params(params: Mapping[str, Any], server: str) -> dict[str, Any]:
    """Return a line of a server's log, with the server's name before the logger's."""
    logger = params.get("logger")
    name = text_of(logger) if isinstance(logger, Raw) else None
    return {**params, "logger": f"{server}.{name}" if name else server}
