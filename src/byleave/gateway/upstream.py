"""A session with one downstream server, on behalf of one client: the handshake, and who waits for which answer.

What the server says to a request of ours is put where that request waits, in the order in which it came: progress,
questions, the answer. What belongs to no request goes to the client's standing stream.

Start at `Upstream.ask`.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import UNSET, Raw

from byleave import __version__
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
    request,
    text_of,
)
from byleave.gateway.negotiation import (
    BY_HANDSHAKE,
    EndedError,
    GoneError,
    Introduction,
    NegotiationMemory,
    negotiate,
    words_of,
)
from byleave.gateway.requests import ServerAnswer, ServerLost, ServerNotification, ServerQuestion, ServerRequest
from byleave.gateway.revisions import CAPABILITIES_KEY, CLIENT_KEY, LOG_KEY, STATELESS, VERSION_KEY, routing_headers
from byleave.protocol.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from byleave.gateway.interfaces import Hearer, Link
    from byleave.gateway.limits import Backoff
    from byleave.gateway.message import ServerMessage
    from byleave.gateway.requests import ClientRequest

    class UpstreamClient(Protocol):
        """What an upstream needs of the client's conversation."""

        @property
        def is_shared(self) -> bool:
            """Whether clients that do not know of each other use it."""

        def client_capabilities(self, server: str) -> Mapping[str, Any]:
            """Return what the client can do for this server."""

        def shakes_hands(self, server: str) -> bool:
            """Return whether the client has shaken hands itself, and this server may ask it something."""

        def notified(self, upstream: Upstream, method: str, params: Raw | None) -> None:
            """Take a notification that belongs to no request."""

        def asked(self, upstream: Upstream, id_: Raw, method: str, params: Raw | None) -> None:
            """Take a request that belongs to none of the client's."""

        def opened(self, upstream: Upstream) -> None:
            """Learn that there is a connection: what holds for the session is to be said to the server again."""

        def warned(self, upstream: Upstream, warnings: list[str]) -> None:
            """Take what people should know about the connection."""

        def gone(self, upstream: Upstream, why: str) -> None:
            """Learn that the connection is gone."""


INFO = {"name": "byleave", "version": __version__}
HANDSHAKE_TIME = 60.0  # seconds for a server to start and shake hands: npx may have to fetch it first
_MOST_CHORES = 1024  # messages on their way to the server that nobody waits for
_LISTEN_AGAIN = 5.0  # seconds, after a server has ended what we listened to
LISTEN = "subscriptions/listen"
_CHANGES = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


class Upstream:
    """One server as one client reaches it. Opened by the first request; opened again after a loss, with back-off."""

    def __init__(
        self,
        name: str,
        make_link: Callable[[Hearer], Link],
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
        self.revision = ""
        self.abilities: Mapping[str, Any] = {}
        self.opened = 0  # how many times; what was learnt of an earlier connection does not count for this one
        self._make_link = make_link
        self._client = client
        self._backoff = backoff
        self._patience = patience
        self._longest_start = longest_start
        self._hint = hint
        self._memory = NegotiationMemory() if memory is None else memory  # of what the server speaks
        self._starting = starting  # so that many clients do not start everything at once
        self._link: Link | None = None
        self._opening: asyncio.Task[None] | None = None
        self._pending: dict[str, ServerRequest] = {}
        self._count = 0
        self._uris: set[str] = set()  # resources of whose changes a stateless server tells us
        self._listening: asyncio.Task[None] | None = None
        self._listens = ""  # the id of the request by which we listen
        self._level: Raw | None = None
        self._chores: set[asyncio.Task[None]] = set()
        self._closed = False
        self._muted = False

    def mute(self) -> None:
        """Take nothing but answers from now on: the server is let go of."""
        self._muted = True

    @property
    def is_up(self) -> bool:
        return self._link is not None

    @property
    def sends_headers(self) -> bool:
        """Whether headers of HTTP repeat what requests say."""
        return self.revision in STATELESS and getattr(self._link, "sends_headers", False)

    @property
    def warnings(self) -> list[str]:
        """What people should know about the connection: what holds the server less than was asked for, and the like."""
        return list(getattr(self._link, "warnings", ()))

    @property
    def waiting(self) -> int:
        """How many requests are not answered, but for the one by which we listen to what changes: it never is."""
        return len(self._pending) - (self._listens in self._pending)

    async def ready(self) -> None:
        """Have a connection; a DownError if there is none to be had now."""
        if self._link is not None:
            return
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
            self._opening.add_done_callback(self._opening_done)
        await asyncio.shield(self._opening)

    def _opening_done(self, task: asyncio.Task[None]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # whoever waited has been told

    async def _open(self) -> None:
        if self._closed:
            raise self._down("it is being closed")
        wait = self._backoff.left(monotonic())
        if wait > 0:
            raise self._down(f"it failed a moment ago; the next try is in {wait:.1f} s")
        deadline = asyncio.get_running_loop().time() + self._longest_start
        try:
            link = await self._connect(self._memory, deadline)
        except EndedError:  # an older server may end at whatever comes before the handshake
            link = await self._connect(NegotiationMemory(BY_HANDSHAKE), deadline)
            self._memory.worked[self._client.shakes_hands(self.name)] = BY_HANDSHAKE
        self._link = link
        self._backoff.started(monotonic())
        self.opened += 1
        self._level = None
        self._uris.clear()
        link.listen()
        self._listen()
        self._client.warned(self, self.warnings)
        self._client.opened(self)

    async def _connect(self, memory: NegotiationMemory, deadline: float) -> Link:
        """Return a new connection on which a revision is agreed on."""
        ear = _Ear(self)
        try:
            link = self._make_link(ear)
        except DownError as error:
            raise self._named(error) from None
        try:
            async with asyncio.timeout_at(deadline), self._starting:
                await link.open()
                await self._agree(link, ear, memory)
        except EndedError:
            await link.close()
            raise
        except TimeoutError:
            memory.was_late(handshake_first=self._client.shakes_hands(self.name))
            await self._failed(link)
            raise self._down(f"it did not finish the handshake within {self._longest_start:g} s") from None
        except DownError as error:
            await self._failed(link)
            raise self._named(error) from None
        except BaseException:
            await self._failed(link)
            raise
        return link

    async def _failed(self, link: Link) -> None:
        self._backoff.failed(monotonic())
        why = "the server could not be reached"
        self._end_all(why, why)
        await link.close()

    async def _agree(self, link: Link, ear: _Ear, memory: NegotiationMemory) -> None:
        """Find out what the server speaks, and learn what it says of itself."""

        async def ask(method: str, params: Mapping[str, Any], revision: str) -> ServerAnswer | ServerLost:
            said = await self._question(link, method, params, revision)
            if isinstance(said, ServerLost) and ear.is_deaf:
                raise GoneError(said.why, hint=self._hint, public=said.public)
            return said

        offer = {"capabilities": self._client.client_capabilities(self.name), "clientInfo": INFO}
        handshake_first = self._client.shakes_hands(self.name)
        agreed = await negotiate(ask, memory, offer, handshake_first=handshake_first, hint=self._hint)
        abilities, instructions = agreed.found.get("capabilities"), agreed.found.get("instructions")
        self.abilities = abilities if isinstance(abilities, dict) else {}
        words = instructions if isinstance(instructions, str) else ""
        self._memory.said = Introduction(words, self.abilities.get("extensions"))
        self.revision = link.revision = agreed.revision
        if agreed.revision not in STATELESS:
            await link.send(Outgoing(notification("notifications/initialized"), "notifications/initialized"))

    async def _question(
        self, link: Link, method: str, params: Mapping[str, Any], revision: str
    ) -> ServerAnswer | ServerLost:
        """Return what the server says to a question that is put before a revision is agreed on."""
        pending = self._begin(None)
        headers = (("MCP-Protocol-Version", revision),) if revision else ()
        try:
            await link.send(self._outgoing(pending.id, method, params, headers, revision=revision))
            while True:
                item = await pending.get()
                if isinstance(item, ServerAnswer | ServerLost):
                    return item
        except asyncio.CancelledError:
            self._keep(link.abandon(pending.id))
            raise
        finally:
            self._pending.pop(pending.id, None)

    def _begin(self, client_request: ClientRequest | None) -> ServerRequest:
        self._count += 1
        pending = self._pending[f"b{self._count}"] = ServerRequest(f"b{self._count}", client_request)
        return pending

    def _outgoing(
        self,
        id_: str,
        method: str,
        params: Mapping[str, Any],
        headers: tuple[tuple[str, str], ...] = (),
        level: Raw | str | None = None,
        *,
        revision: str | None = None,
    ) -> Outgoing:
        spoken = self.revision if revision is None else revision
        if spoken in STATELESS:
            params = {**params, "_meta": self._enveloped(params.get("_meta"), level, spoken)}
            headers = (*routing_headers(method, params), *headers)
        return Outgoing(request(b'"%b"' % id_.encode(), method, params), method, id_, headers)

    def _enveloped(self, meta: Any, level: Raw | str | None, revision: str) -> dict[str, Any]:
        known = members_of(meta) if isinstance(meta, Raw) else dict(meta or {})
        ours = {
            VERSION_KEY: revision,
            CLIENT_KEY: INFO,
            CAPABILITIES_KEY: self._client.client_capabilities(self.name),
        }
        wanted = level if level is not None else self._level
        return {**known, **ours} if wanted is None else {**known, **ours, LOG_KEY: wanted}

    async def log(self, level: Raw | str) -> None:
        """Have the server log from this level on; a stateless one is told with every request. Nobody waits for it."""
        wanted = level if isinstance(level, Raw) else Raw(encode(level))
        link, before = self._link, self._level
        if link is None or "logging" not in self.abilities or (before is not None and bytes(before) == bytes(wanted)):
            return
        self._level = wanted
        if self.revision not in STATELESS:
            pending = self._begin(None)
            await link.send(self._outgoing(pending.id, "logging/setLevel", {"level": wanted}))
            asyncio.get_running_loop().call_later(self._patience, self.settle, pending)

    async def subscribe(self, uri: str) -> None:
        """Have the server tell us when a resource changes."""
        await self.ready()
        if self.revision not in STATELESS:
            await self.answer("resources/subscribe", {"uri": uri})
        elif uri not in self._uris:
            self._uris.add(uri)
            self._listen()

    async def unsubscribe(self, uri: str) -> None:
        """Have the server tell us no longer."""
        if self.revision not in STATELESS:
            await self.answer("resources/unsubscribe", {"uri": uri})
        elif uri in self._uris:
            self._uris.discard(uri)
            self._listen()

    def _listen(self) -> None:
        """Keep a request open by which a stateless server tells us of changes; anew, if we want to hear of others."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        wanted: dict[str, Any] = {name: True for ability, name in _CHANGES.items() if self._tells_of(ability)}
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        if self.revision in STATELESS and wanted:
            self._listening = asyncio.get_running_loop().create_task(_quietly(self._hear_changes(wanted)))

    def _tells_of(self, ability: str) -> bool:
        known = self.abilities.get(ability)
        return isinstance(known, dict) and known.get("listChanged") is True

    async def _hear_changes(self, wanted: Mapping[str, Any]) -> None:
        while self._link is not None:
            pending = await self.ask(LISTEN, {"notifications": wanted})
            self._listens = pending.id
            try:
                while not isinstance(await pending.get(), ServerAnswer | ServerLost):
                    pass
            except asyncio.CancelledError:
                self.abandon(pending, "something else is listened for")
                raise
            finally:
                self.settle(pending)
            await asyncio.sleep(_LISTEN_AGAIN)

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        client_request: ClientRequest | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        progress: bool = False,
    ) -> ServerRequest:
        """Send a request, and return where its answer comes; whoever takes it must `settle` it in the end.

        With `progress`, the server is asked to report it.
        """
        await self.ready()
        link = self._link
        if link is None:
            raise self._down("the connection is gone")
        level = None
        envelope = None if client_request is None else client_request.envelope
        if envelope is not None and envelope.log_level is not None:
            level = envelope.log_level
            if self.revision not in STATELESS:
                await self.log(level)
        pending = self._begin(client_request)
        if progress:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": pending.id}}
        try:
            await link.send(self._outgoing(pending.id, method, params, headers, level))
        except DownError as error:
            self._pending.pop(pending.id, None)
            raise self._named(error) from None
        except BaseException:
            self._pending.pop(pending.id, None)
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
            raise self._down(f"it did not answer {method} within {self._patience:.0f} s") from None
        finally:
            self.settle(pending)

    def _members(self, method: str, said: ServerAnswer) -> dict[str, Any]:
        if said.error is not None:
            told = decoded(said.error)
            down = self._down(f"it answered {method} with an error", words_of(told))
            missing = told["code"] == METHOD_NOT_FOUND
            raise NoMethodError(down.problem, hint=down.hint, public=down.public) if missing else down
        return dict(members_of(said.result))

    def settle(self, pending: ServerRequest) -> None:
        """Expect nothing more about a request."""
        self._pending.pop(pending.id, None)

    def abandon(self, pending: ServerRequest, why: str) -> None:
        """Tell the server that nobody waits for a request any more."""
        if self._pending.pop(pending.id, None) is not None and self._link is not None:
            self._chore(self._withdraw(self._link, pending.id, why))

    async def _withdraw(self, link: Link, id_: str, why: str) -> None:
        if not self.sends_headers:  # over HTTP the stateless revision says it by closing the stream alone
            params = {"requestId": id_, "reason": why}
            await link.send(Outgoing(notification("notifications/cancelled", params), "notifications/cancelled"))
        await link.abandon(id_)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tell the server something, if it is there."""
        if self._link is not None and self.revision not in STATELESS:
            self._chore(self._link.send(Outgoing(notification(method, params), method)))

    def reply(self, id_: Raw, *, result: Raw | bytes | None = None, error: Raw | bytes | None = None) -> None:
        """Answer a request of the server's."""
        if self._link is None:
            return
        name, body = (b"result", result) if result is not None else (b"error", error or b"{}")
        message = b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (bytes(id_), name, bytes(body))
        self._chore(self._link.send(Outgoing(message, "")))

    def _chore(self, work: Any) -> None:
        if len(self._chores) >= _MOST_CHORES:  # each waits for the server to read
            work.close()
            self._lost(None, "it does not read what it is sent")
            return
        self._keep(work)

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def heard(self, message: bytes, about: str | None) -> bool:
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
            self._told(said.method, None if said.params is UNSET else said.params, about)
        else:
            self._asked(said, said.id, said.method, about)
        return False

    def _answered(self, said: ServerMessage, about: str | None) -> None:
        id_ = None if said.id is UNSET else text_of(said.id)
        pending = None if id_ is None else self._pending.get(id_)
        if pending is None:  # an answer that nobody waits for, or under an id that is not ours
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

    def _told(self, method: str, params: Raw | None, about: str | None) -> None:
        pending = self._pending.get(about) if about is not None else None
        if method == "notifications/progress":
            token = text_of(members_of(params).get("progressToken"))
            pending = None if token is None else self._pending.get(token)
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
        pending = self._pending.get(about) if about is not None else None
        pending = pending if pending is not None else self._latest()
        if pending is None and self._client.is_shared:
            self.reply(id_, error=error_tree(INVALID_REQUEST, "it cannot be told which client that is for"))
        elif pending is not None and pending.client_request is not None:
            if not pending.put(ServerQuestion(id_, method, params)):
                self.reply(id_, error=error_tree(INVALID_REQUEST, "too much is asked at once"))
        else:
            self._client.asked(self, id_, method, params)

    def _latest(self) -> ServerRequest | None:
        """Return the request that was sent last: over a pipe nobody says which one a message belongs to.

        None where several clients share the session and more than one waits: it could be another's.
        """
        found = [each for each in self._pending.values() if each.client_request is not None]
        return found[-1] if found and (len(found) == 1 or not self._client.is_shared) else None

    def _lost(self, id_: str | None, why: str) -> None:
        """Take note of a loss of which agents may read why."""
        self.lost(id_, why, why)

    def lost(self, id_: str | None, why: str, public: str = "") -> None:
        """Learn that a request gets no answer, or that the connection is gone."""
        if id_ is not None:
            pending = self._pending.get(id_)
            if pending is not None:
                pending.put(ServerLost(why, public))
            return
        warnings = self.warnings
        link, self._link = self._link, None
        self._end_all(why, public)
        if link is not None:
            self._client.warned(self, warnings)
            self._backoff.failed(monotonic())
            self.revision = ""
            self._keep(link.close())
            self._client.gone(self, why)

    def _end_all(self, why: str, public: str = "") -> None:
        for pending in list(self._pending.values()):
            pending.put(ServerLost(why, public))

    async def rest(self) -> None:
        """Let go of the connection until it is needed again. Only for a server that owes no answer."""
        link, self._link = self._link, None
        self.revision = ""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        if link is not None:
            await link.close()

    async def close(self) -> None:
        """End the session. Requests that are not answered are lost."""
        self._closed = True
        if self._listening is not None:
            self._listening.cancel()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        link, self._link = self._link, None
        self._end_all("the session was closed", "the session was closed")
        if link is not None:
            await link.close()
        if self._chores:
            await asyncio.wait(self._chores, timeout=1.0)

    def _named(self, error: DownError) -> DownError:
        """Return an error that says which server it is about, to agents as well."""
        public = error.public or error.for_agents(self.name)
        return _down(self.name, error.problem, public, type(error), hint=error.hint)

    def _down(self, why: str, detail: str = "") -> DownError:
        """Return that the server cannot be used. The detail, such as the server's own words, is for the operator."""
        return _down(self.name, f"{why}: {detail}" if detail else why, why, hint=self._hint)

    def lost_error(self, lost: ServerLost, kind: type[DownError] = DownError) -> DownError:
        """Return that a request gets no answer, as an error."""
        public = lost.public or "the connection to it failed; byleave tells its operator why"
        return _down(self.name, lost.why, public, kind, hint=self._hint)


def _is_answer(result: Raw | None, error: Raw | None) -> bool:
    """Whether a client can read it: a result is an object, an error has a number and a text."""
    if result is not None:
        return bytes(memoryview(result)[:1]) == b"{"
    tree = decoded(error or b"null")
    return isinstance(tree, dict) and type(tree.get("code")) is int and isinstance(tree.get("message"), str)


def _down(name: str, why: str, public: str, kind: type[DownError] = DownError, *, hint: str) -> DownError:
    return kind(down_sentence(name, why), hint=hint, public=down_sentence(name, public))


def down_sentence(name: str, why: str) -> str:
    """Return why a server cannot be used, in a sentence; what a link says of it is a whole one already."""
    return why if why.startswith("the server ") else f"the server {quoted(name)} cannot be used: {why}"


_ABOUT_REQUESTS = frozenset({"notifications/progress", "notifications/message"})


class _Ear:
    """Hears one connection: what an older one still says is not taken for the newer one's."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream: Upstream | None = upstream

    @property
    def is_deaf(self) -> bool:
        """Whether the connection is gone."""
        return self._upstream is None

    def heard(self, message: bytes, about: str | None) -> bool:
        return self._upstream is None or self._upstream.heard(message, about)

    def lost(self, id_: str | None, why: str, public: str = "") -> None:
        upstream = self._upstream
        if id_ is None:
            self._upstream = None
        if upstream is not None:
            upstream.lost(id_, why, public)


async def _quietly(work: Any) -> None:
    """Do what nobody waits for; a server that is gone by then is no news."""
    try:
        await work
    except DownError:
        return
