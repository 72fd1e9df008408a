"""One process of a server for several sessions, where that keeps nothing of one client from another.

Who shares is said by `[servers.S] share`. With `true` all sessions do: the user says that the server keeps no state for
a client. With `auto` those of one caller do (the same proof, the same agent) that have nothing to offer to the server:
a server that may ask its client for a sample, a form or its roots is that client's own, because over a pipe it cannot
say whom it asks. They share what lists and reads. A session that calls has a process of its own from then on, the
shared one if no other session uses it: a call may leave state behind, unless the server speaks the stateless revision.
With `false` none do.

Whatever a shared server says is brought to whom it belongs: answers, progress and cancellation by ids of our own,
changes of a resource to those who subscribed to it, changed lists to all. Its log goes to the sessions of one caller;
between several callers it is not known whose call a line is about, so no client gets it. It learns that its client
offers nothing, and what it asks for is refused.

Start at `Pool.join`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from byleave.gateway.interfaces import DownError
from byleave.gateway.message import members_of, text_of
from byleave.gateway.pins import text_of_tree
from byleave.gateway.server_questions import WANTS, refusal
from byleave.gateway.server_requests import ServerLost, ServerNotification
from byleave.gateway.upstream import LISTEN, Upstream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from msgspec import Raw

    from byleave.gateway.client_request import ClientRequest
    from byleave.gateway.gateway import Gateway
    from byleave.gateway.message import ServerMessage
    from byleave.gateway.server_requests import ServerRequest
    from byleave.gateway.session import Session
    from byleave.policy.servers import ServerConfig

    Key = tuple[str, tuple[str, str | None, str, str] | None]

LINGER = 30.0  # seconds that a process stays when the last session has left: the next one may come at once
IDLE = 900.0  # seconds without a request after which a process that is shared by all is ended until it is needed
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_USUAL = "info"  # what a session hears that has not said how much
_PAUSE = 0.05  # seconds in which a list that changes again and again is announced once
_LISTS = frozenset({f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")})
_UPDATED = "notifications/resources/updated"
_LOG = "notifications/message"
_NOTHING: Mapping[str, Any] = {}


class Members:
    """The sessions that share a server, as the one client that the server knows."""

    is_shared = True

    def __init__(self, gateway: Gateway, *, one_caller: bool, offers: Mapping[str, Any] = _NOTHING) -> None:
        """`offers`: what the clients understand, all of them alike."""
        self.sessions: dict[Session, None] = {}
        self._offers = offers
        self.one_caller = one_caller
        self._gateway = gateway
        self._changed: dict[str, bool] = {}  # lists that were announced just now, and whether they have changed since

    def client_capabilities(self, _server: str) -> Mapping[str, Any]:
        """Return what the clients understand. They can do nothing for it: it is not known which of them is meant."""
        return self._offers

    def shakes_hands(self, _server: str) -> bool:
        """Return whether the handshake comes first: no, since the server has nothing to ask."""
        return False

    def unasked(self, upstream: Upstream, method: str, params: Raw | None) -> None:
        """Bring a notification to the sessions that it may belong to; one of no known kind to none."""
        if method in _LISTS:
            if method in self._changed:  # a flood of them is announced once in a while: each goes to every session
                self._changed[method] = True
            else:
                self._tell_changed(upstream, method)
        elif method == _UPDATED:
            uri = text_of(members_of(params).get("uri"))
            for session in [each for each in self.sessions if each.subscribed.get(uri or "") == upstream.name]:
                session.unasked(upstream, method, params)

    def _tell_changed(self, upstream: Upstream, method: str) -> None:
        self._changed[method] = False
        asyncio.get_running_loop().call_later(_PAUSE, self._tell_again, upstream, method)
        for session in list(self.sessions):
            session.unasked(upstream, method, None)

    def _tell_again(self, upstream: Upstream, method: str) -> None:
        if self._changed.pop(method, False):
            self._tell_changed(upstream, method)

    def asked(self, upstream: Upstream, id_: Raw, method: str, _params: Raw | None) -> None:
        """Refuse what the server wants of a client."""
        upstream.reply(id_, error=refusal(method, {}, upstream.name))

    def opened(self, upstream: Upstream) -> None:
        """Say to the server again what holds for each session."""
        self._gateway.came_up(upstream)
        for session in list(self.sessions):
            session.say_again(upstream)

    def warned(self, upstream: Upstream, warnings: list[str]) -> None:
        """Pass on what people should know about the connection."""
        self._gateway.warned(upstream, warnings)

    def gone(self, upstream: Upstream, why: str) -> None:
        """Take note that the connection is gone."""
        self._gateway.went_down(upstream.name, why)

    def subscribes(self, server: str, uri: str) -> bool:
        """Whether a session wants to hear of changes to a resource."""
        return any(session.subscribed.get(uri) == server for session in self.sessions)


class SharedUpstream(Upstream):
    """A session with a server for several clients."""

    def __init__(self, server: ServerConfig, members: Members, **how: Any) -> None:
        super().__init__(server.name, client=members, **how)
        self.server = server
        self.members = members
        self.used = monotonic()

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        exchange: ClientRequest | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        progress: bool = False,
    ) -> ServerRequest:
        """Send a request, as any session with a server does; to listen to it is not to use it."""
        if method != LISTEN:
            self.used = monotonic()
        return await super().ask(method, params, exchange, headers, progress=progress)

    async def log(self, level: Raw | str) -> None:
        """Have the server log as much as the session wants that wants most; nothing where no session would get it."""
        if self.members.one_caller:
            said = level if isinstance(level, str) else text_of(level)
            wanted = [said, *(_wanted(session) for session in self.members.sessions)]
            await super().log(min((each for each in wanted if each), key=_rank))

    async def unsubscribe(self, uri: str) -> None:
        """Have the server tell us no longer of a resource, unless another session wants to hear of it."""
        if not self.members.subscribes(self.name, uri):
            await super().unsubscribe(uri)

    def end_for(self, session: Session) -> None:
        """Let go of the requests of a session that leaves; those of others go on."""
        why = "the session with it was closed"
        for pending in self._pending_of(session):
            pending.put(ServerLost(why, why))
            self.abandon(pending, why)

    def waits_for(self, session: Session) -> bool:
        """Whether a request of this session is not answered yet."""
        return bool(self._pending_of(session))

    def _pending_of(self, session: Session) -> list[ServerRequest]:
        its = list(session.open.values())
        return [] if not its else [each for each in self._pending.values() if any(each.exchange is one for one in its)]

    def notify(self, _method: str, _params: Mapping[str, Any] | None = None) -> None:
        """Say nothing: what one client tells of itself is not the others'."""

    def _told(self, method: str, params: Raw | None, about: str | None) -> None:
        if method != _LOG or about is not None:
            super()._told(method, params, about)
        elif self.members.one_caller:  # over a pipe it does not say whose call it is about
            level = text_of(members_of(params).get("level"))
            for session in list(self.members.sessions):
                self._log_to(session, level, params)

    def _log_to(self, session: Session, level: str | None, params: Raw | None) -> None:
        """Bring a line of the log to a session: with the call that it waits for, or on its standing stream.

        A stateless client says with its call how much it wants to hear.
        """
        waiting = self._pending_of(session)
        if session.is_shared:
            if len(waiting) == 1:
                waiting[0].put(ServerNotification(_LOG, params))
        elif _rank(level) >= _rank(_wanted(session)):
            if waiting:
                waiting[-1].put(ServerNotification(_LOG, params))
            else:
                session.unasked(self, _LOG, params)

    def _asked(self, said: ServerMessage, id_: Raw, method: str, about: str | None) -> None:
        if method == "ping":
            super()._asked(said, id_, method, about)
        else:
            self.members.asked(self, id_, method, None)


class ServerPool:
    """The servers that sessions share."""

    def __init__(self, gateway: Gateway, make: Callable[[ServerConfig, Members], SharedUpstream]) -> None:
        self._gateway = gateway
        self._make = make
        self._shared: dict[Key, SharedUpstream] = {}
        self._left: dict[SharedUpstream, float] = {}  # those without a session, and since when

    def join(self, server: ServerConfig, session: Session) -> SharedUpstream | None:
        """Return the session with a server that this client shares with others; None if it has one of its own."""
        key = _key(server, session)
        if key is None:
            return None
        shared = self._shared.get(key)
        if shared is None or shared.server != server:
            if shared is not None:
                self._retire(key)
            offers = _NOTHING if key[1] is None else session.client_capabilities(server.name)
            members = Members(self._gateway, one_caller=key[1] is not None, offers=offers)
            shared = self._shared[key] = self._make(server, members)
        shared.members.sessions[session] = None
        self._left.pop(shared, None)
        return shared

    def take(self, shared: SharedUpstream, session: Session) -> bool:
        """Give a process to the one session that uses it, so that no further one joins; return whether it is alone."""
        if list(shared.members.sessions) != [session]:
            return False
        for key in [key for key, each in self._shared.items() if each is shared]:
            del self._shared[key]
        return True

    async def leave(self, shared: SharedUpstream, session: Session) -> None:
        """Take note that a session does not need a server any more; without any, it is ended after a while."""
        members = shared.members
        if members.sessions.pop(session, session) is session:
            return
        shared.end_for(session)
        for uri in [uri for uri, name in session.subscribed.items() if name == shared.name]:
            if shared.is_up and not members.subscribes(shared.name, uri):
                self._gateway.chore(_quietly(shared.unsubscribe(uri)))
        if members.sessions:
            return
        if shared in self._shared.values() and self._gateway.servers.get(shared.name) == shared.server:
            self._left[shared] = monotonic()
        else:
            await self._end(shared)

    def _retire(self, key: Key) -> None:
        """Have no further session join; those that are in it stay until they leave."""
        shared = self._shared.pop(key)
        if not shared.members.sessions:
            self._gateway.chore(self._end(shared))

    async def rest(self, now: float) -> None:
        """End the processes that no session needs, and those that are shared by all and not asked for long."""
        for shared, since in list(self._left.items()):
            if now - since >= LINGER:
                await self._end(shared)
        for shared in list(self._shared.values()):
            if now - shared.used >= IDLE and self._may_rest(shared):
                await shared.rest()

    async def make_room(self) -> bool:
        """End a process that no session needs, or needs now; return whether there was one."""
        for shared in list(self._left):
            await self._end(shared)
            return True
        resting = [each for each in self._shared.values() if self._may_rest(each)]
        if resting:
            await min(resting, key=lambda shared: shared.used).rest()
        return bool(resting)

    def _may_rest(self, shared: SharedUpstream) -> bool:
        """Whether a process can be ended for now: it is shared by all, so it keeps nothing, and owes no answer."""
        return (
            shared.is_up and not shared.members.one_caller and not shared.waiting and not self._is_listened_to(shared)
        )

    def _is_listened_to(self, shared: SharedUpstream) -> bool:
        return any(shared.name in session.subscribed.values() for session in shared.members.sessions)

    async def _end(self, shared: SharedUpstream) -> None:
        self._left.pop(shared, None)
        for key in [key for key, each in self._shared.items() if each is shared]:
            del self._shared[key]
        await shared.close()

    async def close(self) -> None:
        """End all of them."""
        for shared in [*self._shared.values(), *self._left]:
            await self._end(shared)


def _key(server: ServerConfig, session: Session) -> Key | None:
    """Return who shares a server; None if it is the session's own."""
    if server.transport != "stdio" or not server.stateful or server.share is False or server.name in session.apart:
        return None
    if server.share is True:
        return server.name, None
    caller = session.caller
    offers = session.client_capabilities(server.name)
    if not offers.keys().isdisjoint(WANTS.values()):
        return None
    return server.name, (caller.principal, caller.agent, caller.identity, text_of_tree(offers))


async def _quietly(work: Awaitable[None]) -> None:
    with suppress(DownError):
        await work


def _wanted(session: Session) -> str:
    return _USUAL if session.log_level is None else text_of(session.log_level) or _USUAL


def _rank(level: str | None) -> int:
    return _LEVELS.index(level) if level in _LEVELS else len(_LEVELS)
