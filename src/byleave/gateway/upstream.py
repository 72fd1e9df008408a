"""One server as one session reaches it: sends requests, and brings each message of the server where it belongs.

What the server sends about a request of ours is put where that request waits, in the order in which it came: progress,
questions, the answer. What belongs to no request goes to the session. The link and the handshake are in
`server_connection`.

Start at `Upstream.ask` and `Upstream.received`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET, Raw

from byleave.gateway.background import BackgroundTasks, unless_down
from byleave.gateway.interfaces import DownError, NoMethodError, Outgoing
from byleave.gateway.message import (
    decoded,
    encode,
    error_tree,
    first_id,
    in_utf8,
    members_of,
    notification,
    read_server_message,
    text_of,
)
from byleave.gateway.requests import (
    PendingRequests,
    ServerAnswer,
    ServerLost,
    ServerNotification,
    ServerQuestion,
    ServerRequest,
)
from byleave.gateway.revisions import STATELESS
from byleave.gateway.server_connection import HANDSHAKE_TIME, NegotiationMemory, ServerConnection, words_of
from byleave.protocol.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from byleave.gateway.interfaces import Link, Receiver
    from byleave.gateway.limits import Backoff
    from byleave.gateway.message import ServerMessage
    from byleave.gateway.requests import ClientRequest
    from byleave.gateway.server_connection import ConnectionClient

    class UpstreamClient(ConnectionClient, Protocol):
        """What an upstream needs of a session, or of the sessions that share it."""

        @property
        def is_shared(self) -> bool:
            """Whether clients that do not know of each other use it."""

        def notified(self, upstream: Upstream, method: str, params: Raw | None) -> None:
            """Take a notification that belongs to no request."""

        def asked(self, upstream: Upstream, id_: Raw, method: str, params: Raw | None) -> None:
            """Take a request that belongs to none of the client's."""

        def opened(self, upstream: Upstream) -> None:
            """Learn that there is a connection: what holds for the session is to be repeated to the server."""

        def warned(self, upstream: Upstream, warnings: list[str]) -> None:
            """Take what the operator should know about the connection."""

        def gone(self, upstream: Upstream, why: str) -> None:
            """Learn that the connection is gone."""


LISTEN = "subscriptions/listen"
_MOST_UNSENT = 1024  # messages that wait for the server to read them, and that no caller waits for
_LISTEN_AGAIN = 5.0  # seconds, after a server has ended the stream of changes
_CHANGES = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
_ABOUT_REQUESTS = frozenset({"notifications/progress", "notifications/message"})


class Upstream:
    """One server as one session reaches it. Opened by the first request; opened again after a loss."""

    def __init__(
        self,
        name: str,
        make_link: Callable[[Receiver], Link],
        client: UpstreamClient,
        backoff: Backoff,
        *,
        patience: float,
        longest_start: float = HANDSHAKE_TIME,
        memory: NegotiationMemory | None = None,
        starting: asyncio.Semaphore,
        hint: str = "try again later",
    ) -> None:
        self.name = name
        self._client = client
        self._patience = patience
        self._requests = PendingRequests()
        self._background = BackgroundTasks()
        self._connection = ServerConnection(
            name,
            make_link,
            self,
            client,
            requests=self._requests,
            background=self._background,
            backoff=backoff,
            longest_start=longest_start,
            memory=NegotiationMemory() if memory is None else memory,
            starting=starting,
            hint=hint,
            on_open=self._opened,
        )
        self._level: Raw | None = None  # from which the server logs
        self._uris: set[str] = set()  # resources whose changes a stateless server reports
        self._listening: asyncio.Task[None] | None = None
        self._listening_id = ""  # of the request by which we listen
        self._muted = False

    @property
    def is_up(self) -> bool:
        return self._connection.link is not None

    @property
    def revision(self) -> str:
        return self._connection.revision

    @property
    def abilities(self) -> Mapping[str, Any]:
        """The server's capabilities."""
        return self._connection.abilities

    @property
    def opened(self) -> int:
        """How many times it was opened."""
        return self._connection.opened

    @property
    def sends_headers(self) -> bool:
        """Whether headers of HTTP repeat what requests say."""
        return self.revision in STATELESS and getattr(self._connection.link, "sends_headers", False)

    @property
    def waiting(self) -> int:
        """How many requests are not answered, but for the one by which we listen to what changes: it never is."""
        return len(self._requests) - (self._listening_id in self._requests)

    async def ready(self) -> None:
        """Have a connection; a DownError if there is none to be had now."""
        if self._connection.link is None:
            await self._connection.ready()

    def _opened(self) -> None:
        self._level = None
        self._uris.clear()
        self._listen()
        self._client.warned(self, self._connection.warnings)
        self._client.opened(self)

    def mute(self) -> None:
        """Take nothing but answers from now on: the server is let go of."""
        self._muted = True

    def lost_error(self, lost: ServerLost, kind: type[DownError] = DownError) -> DownError:
        """Return that a request gets no answer, as an error."""
        return self._connection.lost_error(lost, kind)

    # ---- What we send ----------------------------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        client_request: ClientRequest | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        progress: bool = False,
    ) -> ServerRequest:
        """Send a request, and return where its answer comes; its taker must `settle` it in the end.

        With `progress`, the server is asked to report it.
        """
        await self.ready()
        link = self._connection.link
        if link is None:
            raise self._connection.down("the connection is gone")
        level: Raw | str | None = self._level
        envelope = None if client_request is None else client_request.envelope
        if envelope is not None and envelope.log_level is not None:
            level = envelope.log_level
            if self.revision not in STATELESS:
                await self.log(level)
        pending = self._requests.begin(client_request)
        if progress:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": pending.id}}
        try:
            await link.send(self._connection.outgoing(pending.id, method, params, headers, level))
        except DownError as error:
            self.settle(pending)
            raise self._connection.named(error) from None
        except BaseException:
            self.settle(pending)
            raise
        return pending

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members of the result of a request of our own; a DownError if it has none."""
        pending = await self.ask(method, params)
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    item = await pending.get()
                    if isinstance(item, ServerLost):
                        raise self.lost_error(item)
                    if isinstance(item, ServerQuestion):
                        self._client.asked(self, item.id, item.method, item.params)
                    if isinstance(item, ServerAnswer):
                        return self._members(method, item)
        except TimeoutError:
            raise self._connection.down(f"it did not answer {method} within {self._patience:.0f} s") from None
        finally:
            self.settle(pending)

    def _members(self, method: str, said: ServerAnswer) -> dict[str, Any]:
        if said.error is None:
            return dict(members_of(said.result))
        error = decoded(said.error)
        down = self._connection.down(f"it answered {method} with an error", words_of(error))
        if error["code"] == METHOD_NOT_FOUND:
            raise NoMethodError(down.problem, hint=down.hint, public=down.public)
        raise down

    def expect(self, pending: ServerRequest, seconds: float) -> None:
        """Have a request end as late if it is not answered within so many seconds from now."""
        self._requests.expect(pending, seconds)

    def settle(self, pending: ServerRequest) -> None:
        """Expect nothing more about a request."""
        self._requests.pop(pending.id)

    def abandon(self, pending: ServerRequest, why: str) -> None:
        """Cancel a request that no client waits for any more."""
        link = self._connection.link
        if self._requests.pop(pending.id) is not None and link is not None:
            self._send_soon(self._cancel(link, pending.id, why))

    async def _cancel(self, link: Link, id_: str, why: str) -> None:
        if not self.sends_headers:  # over HTTP the stateless revision says it by closing the stream alone
            params = {"requestId": id_, "reason": why}
            await link.send(Outgoing(notification("notifications/cancelled", params), "notifications/cancelled"))
        await link.abandon(id_)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the server a notification, if it is there."""
        link = self._connection.link
        if link is not None and self.revision not in STATELESS:
            self._send_soon(link.send(Outgoing(notification(method, params), method)))

    def reply(self, id_: Raw, *, result: Raw | bytes | None = None, error: Raw | bytes | None = None) -> None:
        """Answer a request of the server's."""
        link = self._connection.link
        if link is None:
            return
        name, body = (b"result", result) if result is not None else (b"error", error or b"{}")
        message = b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (bytes(id_), name, bytes(body))
        self._send_soon(link.send(Outgoing(message, "")))

    def _send_soon(self, work: Any) -> None:
        if len(self._background) >= _MOST_UNSENT:  # each waits for the server to read
            work.close()
            self._lost(None, "it does not read what it is sent")
        else:
            self._background.start(work)

    async def log(self, level: Raw | str) -> None:
        """Have the server log from this level on; a stateless one learns it with every request."""
        asked = level if isinstance(level, Raw) else Raw(encode(level))
        link, before = self._connection.link, self._level
        if link is None or "logging" not in self.abilities or (before is not None and bytes(before) == bytes(asked)):
            return
        self._level = asked
        if self.revision not in STATELESS:
            pending = self._requests.begin(None)
            await link.send(self._connection.outgoing(pending.id, "logging/setLevel", {"level": asked}))
            asyncio.get_running_loop().call_later(self._patience, self.settle, pending)

    # ---- Changes that the server reports ---------------------------------------------------------------------------

    async def subscribe(self, uri: str) -> None:
        """Have the server report when a resource changes."""
        await self.ready()
        if self.revision not in STATELESS:
            await self.answer("resources/subscribe", {"uri": uri})
        elif uri not in self._uris:
            self._uris.add(uri)
            self._listen()

    async def unsubscribe(self, uri: str) -> None:
        """Have the server report it no longer."""
        if self.revision not in STATELESS:
            await self.answer("resources/unsubscribe", {"uri": uri})
        elif uri in self._uris:
            self._uris.discard(uri)
            self._listen()

    def _listen(self) -> None:
        """Keep a request open by which a stateless server reports changes; anew, if they are other ones now."""
        self._stop_listening()
        kept: dict[str, Any] = {}
        for ability, name in _CHANGES.items():
            known = self.abilities.get(ability)
            if isinstance(known, dict) and known.get("listChanged") is True:
                kept[name] = True
        if self._uris:
            kept["resourceSubscriptions"] = sorted(self._uris)
        if self.revision in STATELESS and kept:
            self._listening = asyncio.get_running_loop().create_task(unless_down(self._hear_changes(kept)))

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def _hear_changes(self, kept: Mapping[str, Any]) -> None:
        while self.is_up:
            pending = await self.ask(LISTEN, {"notifications": kept})
            self._listening_id = pending.id
            try:
                while not isinstance(await pending.get(), ServerAnswer | ServerLost):
                    pass
            except asyncio.CancelledError:
                self.abandon(pending, "something else is listened for")
                raise
            finally:
                self.settle(pending)
            await asyncio.sleep(_LISTEN_AGAIN)

    # ---- What the server sends -------------------------------------------------------------------------------------

    def received(self, message: bytes, about: str | None) -> bool:
        """Take one message of the server; return whether it was an answer."""
        said = read_server_message(in_utf8(message))
        if said is None:
            id_ = about if about is not None else first_id(message)
            if id_ is not None:
                self._lost(id_, "its answer is no JSON that can be read")
            return True
        if said.method is UNSET:
            self._answered(said, about)
            return True
        if self._muted:
            return False
        if said.id is UNSET:
            self._notified(said.method, None if said.params is UNSET else said.params, about)
        else:
            self._asked(said, said.id, said.method, about)
        return False

    def _answered(self, said: ServerMessage, about: str | None) -> None:
        pending = self._requests.get(None if said.id is UNSET else text_of(said.id))
        if pending is None:  # an answer that no caller waits for, or under an id that is not ours
            if about is not None:
                self._lost(about, "it answered something else")
            return
        result = None if said.result is UNSET else said.result
        error = None if said.error is UNSET else said.error
        if (result is None) == (error is None) or not _is_answer(result, error):
            why = "its answer was neither a result nor an error"
            pending.put(ServerLost(why, why))
        else:
            pending.put(ServerAnswer(result, error))

    def _notified(self, method: str, params: Raw | None, about: str | None) -> None:
        pending = self._requests.get(about)
        if method == "notifications/progress":
            pending = self._requests.get(text_of(members_of(params).get("progressToken")))
            if pending is None:
                return
        elif method == "notifications/message" and pending is None:
            pending = self._latest()
        if pending is not None and pending.client_request is not None and method in _ABOUT_REQUESTS:
            pending.put(ServerNotification(method, params))
        else:
            self._client.notified(self, method, params)

    def _asked(self, said: ServerMessage, id_: Raw, method: str, about: str | None) -> None:
        params = None if said.params is UNSET else said.params
        if method == "ping":
            self.reply(id_, result=b"{}")
            return
        pending = self._requests.get(about)
        pending = pending if pending is not None else self._latest()
        if pending is None and self._client.is_shared:
            self.reply(id_, error=error_tree(INVALID_REQUEST, "it is not known which client that is for"))
        elif pending is not None and pending.client_request is not None:
            if not pending.put(ServerQuestion(id_, method, params)):
                self.reply(id_, error=error_tree(INVALID_REQUEST, "too much is asked at once"))
        else:
            self._client.asked(self, id_, method, params)

    def _latest(self) -> ServerRequest | None:
        """Return the request that was sent last: over a pipe no message says which request it belongs to.

        None where several clients share the connection and more than one waits: it could be another's.
        """
        found = self._requests.of_clients()
        return found[-1] if found and (len(found) == 1 or not self._client.is_shared) else None

    def _lost(self, id_: str | None, why: str) -> None:
        """Take note of a loss of which agents may read why."""
        self.lost(id_, why, why)

    def lost(self, id_: str | None, why: str, public: str = "") -> None:
        """Learn that a request gets no answer, or that the connection is gone."""
        if id_ is not None:
            pending = self._requests.get(id_)
            if pending is not None:
                pending.put(ServerLost(why, public))
            return
        warnings = self._connection.warnings
        link = self._connection.lose()
        self._requests.end_all(why, public)
        if link is not None:
            self._client.warned(self, warnings)
            self._background.start(link.close())
            self._client.gone(self, why)

    # ---- The end ---------------------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Let go of the connection until it is needed again. Only for a server that owes no answer."""
        link = self._connection.detach()
        self._stop_listening()
        if link is not None:
            await link.close()

    async def close(self) -> None:
        """End the session with the server. Requests that are not answered are lost."""
        self._connection.is_closed = True
        if self._listening is not None:
            self._listening.cancel()
        link = await self._connection.close()
        self._requests.end_all("the session was closed", "the session was closed")
        if link is not None:
            await link.close()
        await self._background.wait(1.0)


def _is_answer(result: Raw | None, error: Raw | None) -> bool:
    """Whether a client can read it: a result is an object, an error has a number and a text."""
    if result is not None:
        return bytes(memoryview(result)[:1]) == b"{"
    tree = decoded(error or b"null")
    return isinstance(tree, dict) and type(tree.get("code")) is int and isinstance(tree.get("message"), str)
