"""How sessions reach servers: each by a connection of its own, or several by one process that they share.

`[servers.S] share` says which. With `true` all sessions share: the user says that the server keeps no state for a
client. With `auto` those of one caller do (the same proof, the same agent) that have nothing to offer to the server:
a server that may ask its client for a sample, a form or its roots is that client's own, because over a pipe it cannot
say which client it asks. They share what lists and reads. A session that calls has a process of its own from then on,
the shared one if no other session uses it: a call may leave state behind, unless the server speaks the stateless
revision. With `false` none do.

Whatever a shared server sends goes to the session that it belongs to: answers, progress and cancellation by ids of our
own, changes of a resource to those that subscribed to it, changed lists to all. Its log goes to the sessions of one
caller; between several callers it is not known which call a line is about, so no client gets it. Its client offers
nothing, and what it asks for is refused.

Start at `ServerPool.connect`.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from byleave.errors import ConfigError
from byleave.gateway.background import BackgroundTasks
from byleave.gateway.client_questions import CAPABILITY_OF, refusal
from byleave.gateway.interfaces import DownError
from byleave.gateway.limits import Backoff
from byleave.gateway.links import make_link
from byleave.gateway.message import members_of, text_of
from byleave.gateway.notifications import LIST_CHANGED, LOG, LOG_LEVELS, UPDATED
from byleave.gateway.pins import text_of_tree
from byleave.gateway.redact import RedactingReceiver, ResultScrub
from byleave.gateway.requests import ServerLost, ServerNotification
from byleave.gateway.server_connection import BY_HANDSHAKE, HANDSHAKE_TIME, NegotiationMemory
from byleave.gateway.upstream import LISTEN, Upstream
from byleave.policy.servers import expanded
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Protocol

    from msgspec import Raw

    from byleave.gateway.context import GatewayContext
    from byleave.gateway.interfaces import Link, Receiver
    from byleave.gateway.links import LinkContext
    from byleave.gateway.message import ServerMessage
    from byleave.gateway.notifications import Notifications
    from byleave.gateway.requests import Client, ClientRequest, ServerRequest
    from byleave.gateway.server_connection import Introduction
    from byleave.gateway.upstream import UpstreamClient
    from byleave.policy.servers import ServerConfig

    class PoolMember(UpstreamClient, Protocol):
        """What the pool needs of a session."""

        @property
        def client(self) -> Client: ...

        @property
        def notifications(self) -> Notifications: ...

        @property
        def open(self) -> Mapping[bytes, ClientRequest]:
            """The client's requests that are not answered yet."""

        def say_again(self, upstream: Upstream) -> None:
            """Repeat to a server that was opened what holds for the session."""

    Key = tuple[str, tuple[str, str | None, str, str] | None]

LINGER = 30.0  # seconds that a process stays when the last session has left: the next one may come at once
IDLE = 900.0  # seconds without a request after which a process that is shared by all is ended until it is needed
MOST_STARTING = 4  # processes of one server that start at once
LISTING_TIME = 20.0  # seconds for one page of a list
_USUAL = "info"  # the level of a session that has set none
_PAUSE = 0.05  # seconds in which a list that changes again and again is announced once
_NOTHING: Mapping[str, Any] = {}
_HINT = (
    "it runs in a sandbox: `[sandbox] read = [...]` shows it more of this machine, `[servers.{}.access]` grants more, "
    "`byleave audit list --decision deny` shows what it was refused"
)


class Members:
    """The sessions that share a server, as the one client that the server knows."""

    is_shared = True

    def __init__(self, pool: ServerPool, *, one_caller: bool, offers: Mapping[str, Any] = _NOTHING) -> None:
        """`offers`: what the clients understand, all of them alike."""
        self.sessions: dict[PoolMember, None] = {}
        self._offers = offers
        self.one_caller = one_caller
        self._pool = pool
        self._changed: dict[str, bool] = {}  # lists that were announced just now, and whether they have changed since

    def client_capabilities(self, _server: str) -> Mapping[str, Any]:
        """Return what the clients understand. They can do nothing for it: it is not known which of them is meant."""
        return self._offers

    def shakes_hands(self, _server: str) -> bool:
        """Return whether the handshake comes first: no, since the server has nothing to ask."""
        return False

    def notified(self, upstream: Upstream, method: str, params: Raw | None) -> None:
        """Bring a notification to the sessions that it may belong to; one of no known kind to none."""
        if method in LIST_CHANGED:
            if method in self._changed:  # a flood of them is announced once in a while: each goes to every session
                self._changed[method] = True
            else:
                self._announce(upstream, method)
        elif method == UPDATED:
            uri = text_of(members_of(params).get("uri"))
            for session in [
                each for each in self.sessions if each.notifications.subscribed.get(uri or "") == upstream.name
            ]:
                session.notified(upstream, method, params)

    def _announce(self, upstream: Upstream, method: str) -> None:
        self._changed[method] = False
        asyncio.get_running_loop().call_later(_PAUSE, self._announce_again, upstream, method)
        for session in list(self.sessions):
            session.notified(upstream, method, None)

    def _announce_again(self, upstream: Upstream, method: str) -> None:
        if self._changed.pop(method, False):
            self._announce(upstream, method)

    def asked(self, upstream: Upstream, id_: Raw, method: str, _params: Raw | None) -> None:
        """Refuse what the server wants of a client."""
        upstream.reply(id_, error=refusal(method, {}, upstream.name))

    def opened(self, upstream: Upstream) -> None:
        """Say to the server again what holds for each session."""
        self._pool.came_up(upstream)
        for session in list(self.sessions):
            session.say_again(upstream)

    def warned(self, upstream: Upstream, warnings: list[str]) -> None:
        """Pass on what people should know about the connection."""
        self._pool.warned(upstream, warnings)

    def gone(self, upstream: Upstream, why: str) -> None:
        """Take note that the connection is gone."""
        self._pool.went_down(upstream.name, why)

    def subscribes(self, server: str, uri: str) -> bool:
        """Whether a session is subscribed to changes of a resource."""
        return any(session.notifications.subscribed.get(uri) == server for session in self.sessions)


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
        client_request: ClientRequest | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        progress: bool = False,
    ) -> ServerRequest:
        """Send a request, as any session with a server does; to listen to it is not to use it."""
        if method != LISTEN:
            self.used = monotonic()
        return await super().ask(method, params, client_request, headers, progress=progress)

    async def log(self, level: Raw | str) -> None:
        """Have the server log as much as the session wants that wants most; nothing where no session would get it."""
        if self.members.one_caller:
            said = level if isinstance(level, str) else text_of(level)
            levels = [said, *(_level_of(session) for session in self.members.sessions)]
            await super().log(min((each for each in levels if each), key=_rank))

    async def unsubscribe(self, uri: str) -> None:
        """Have the server report changes of a resource no longer, unless another session has subscribed to it."""
        if not self.members.subscribes(self.name, uri):
            await super().unsubscribe(uri)

    def end_for(self, session: PoolMember) -> None:
        """Let go of the requests of a session that leaves; those of others go on."""
        why = "the session with it was closed"
        for pending in self._pending_of(session):
            pending.put(ServerLost(why, why))
            self.abandon(pending, why)

    def waits_for(self, session: PoolMember) -> bool:
        """Whether a request of this session is not answered yet."""
        return bool(self._pending_of(session))

    def _pending_of(self, session: PoolMember) -> list[ServerRequest]:
        its = list(session.open.values())
        return [each for each in self._requests.of_clients() if any(each.client_request is one for one in its)]

    def notify(self, _method: str, _params: Mapping[str, Any] | None = None) -> None:
        """Send nothing: what one client says of itself is not the others'."""

    def _notified(self, method: str, params: Raw | None, about: str | None) -> None:
        if method != LOG or about is not None:
            super()._notified(method, params, about)
        elif self.members.one_caller:  # over a pipe it does not say whose call it is about
            level = text_of(members_of(params).get("level"))
            for session in list(self.members.sessions):
                self._log_to(session, level, params)

    def _log_to(self, session: PoolMember, level: str | None, params: Raw | None) -> None:
        """Bring a line of the log to a session: with the call that it waits for, or on its standing stream.

        A stateless client says with its call how much of the log it gets.
        """
        waiting = self._pending_of(session)
        if session.client.is_shared:
            if len(waiting) == 1:
                waiting[0].put(ServerNotification(LOG, params))
        elif _rank(level) >= _rank(_level_of(session)):
            if waiting:
                waiting[-1].put(ServerNotification(LOG, params))
            else:
                session.notified(self, LOG, params)

    def _asked(self, said: ServerMessage, id_: Raw, method: str, about: str | None) -> None:
        if method == "ping":
            super()._asked(said, id_, method, about)
        else:
            self.members.asked(self, id_, method, None)


class ServerPool:
    """How the sessions of one gateway reach its servers. Close it after the last session."""

    def __init__(
        self, context: GatewayContext, links: LinkContext, environment: Mapping[str, str], *, welcome_time: float = 0.0
    ) -> None:
        """`welcome_time`: the seconds that a client waits at its beginning for servers that were never opened."""
        self.welcome_time = welcome_time
        self.silent_until: dict[str, float] = {}  # servers that no client's beginning waits for, and until when
        self._context = context
        self._links = links
        self._environment = environment
        self._background = BackgroundTasks()
        self._shared: dict[Key, SharedUpstream] = {}
        self._left: dict[SharedUpstream, float] = {}  # those without a session, and since when
        self._starting: dict[str, asyncio.Semaphore] = {}
        self._memories: dict[str, tuple[ServerConfig, NegotiationMemory]] = {}  # of servers as they are configured

    # ---- Connections of sessions -----------------------------------------------------------------------------------

    def connect(
        self, server: ServerConfig, session: PoolMember, tool: str | None = None, *, alone: bool = False
    ) -> Upstream:
        """Return a connection to a server for a session, not opened yet.

        `tool`: the one that it is for, if only one. `alone`: the session shares this server no longer.
        """
        shared = self._join(server, session) if tool is None and not alone else None
        if shared is not None:
            return shared
        access = None if tool is None else server.tool_of(tool)
        return Upstream(server.name, client=session, **self._how_to_reach(server, access))

    def _how_to_reach(self, server: ServerConfig, access: str | None = None) -> dict[str, Any]:
        def make(receiver: Receiver) -> Link:
            try:
                filled = expanded(server, self._environment)
            except ConfigError as error:
                missing = [name for name in server.variables if not self._environment.get(name)]
                public = "a variable that it needs is not set" if missing else "its configuration is wrong"
                raise DownError(error.problem, hint=error.hint, public=public) from None
            redacting = RedactingReceiver(receiver, ResultScrub(filled.secrets)) if filled.secrets else receiver
            return make_link(server, filled, redacting, self._links, tool=access)

        starting = self._starting.setdefault(server.name, asyncio.Semaphore(MOST_STARTING))
        hint = _HINT.format(server.name) if server.transport == "stdio" else "try again later, or look at its url"
        return {
            "make_link": make,
            "backoff": Backoff(),
            "patience": LISTING_TIME,
            "longest_start": min(HANDSHAKE_TIME, self._context.settings.call_timeout),
            "memory": self.memory_of(server),
            "starting": starting,
            "hint": hint,
        }

    def memory_of(self, server: ServerConfig) -> NegotiationMemory:
        """Return which revisions a server has spoken; nothing yet, if it is configured otherwise by now."""
        known = self._memories.get(server.name)
        if known is None or known[0] != server:
            only_handshake = server.transport == "sse"  # a transport that the stateless revision does not have
            known = self._memories[server.name] = server, NegotiationMemory(BY_HANDSHAKE if only_handshake else "")
        return known[1]

    def introduction_of(self, name: str) -> Introduction | None:
        """Return what a server said of itself when it was opened last; None if it never was."""
        server = self._context.servers.get(name)
        return None if server is None else self.memory_of(server).introduction

    async def release(self, upstream: Upstream, session: PoolMember) -> None:
        """End a session's connection to a server, or its share in one."""
        if isinstance(upstream, SharedUpstream):
            await self._leave(upstream, session)
        else:
            await upstream.close()

    def came_up(self, upstream: Upstream) -> None:
        """Count that a server is there."""
        self._context.metrics.is_up(upstream.name, up=True)
        if upstream.opened > 1:
            self._context.metrics.restarted(upstream.name)

    def went_down(self, name: str, why: str) -> None:
        """Count and note that a server is gone."""
        self._context.metrics.is_up(name, up=False)
        self._context.note(f"the server {quoted(name)} is gone: {why}")

    def warned(self, upstream: Upstream, warnings: Iterable[str]) -> None:
        """Note what the operator should know about a connection."""
        for warning in warnings:
            self._context.note(f"the server {quoted(upstream.name)}: {warning}")

    # ---- Sharing ---------------------------------------------------------------------------------------------------

    def _join(self, server: ServerConfig, session: PoolMember) -> SharedUpstream | None:
        """Return the connection that a session shares with others; None if it has one of its own."""
        key = _key(server, session)
        if key is None:
            return None
        shared = self._shared.get(key)
        if shared is None or shared.server != server:
            if shared is not None:  # no further session joins it; those that are in it stay until they leave
                del self._shared[key]
                if not shared.members.sessions:
                    self._background.start(self._end(shared))
            offers = _NOTHING if key[1] is None else session.client_capabilities(server.name)
            members = Members(self, one_caller=key[1] is not None, offers=offers)
            shared = self._shared[key] = SharedUpstream(server, members, **self._how_to_reach(server))
        shared.members.sessions[session] = None
        self._left.pop(shared, None)
        return shared

    def take(self, upstream: Upstream, session: PoolMember) -> bool:
        """Give a shared process to the one session that uses it, so that no other joins; return whether it is alone."""
        if not isinstance(upstream, SharedUpstream) or list(upstream.members.sessions) != [session]:
            return False
        for key in [key for key, each in self._shared.items() if each is upstream]:
            del self._shared[key]
        return True

    async def _leave(self, shared: SharedUpstream, session: PoolMember) -> None:
        """Take a session out of those that share a server; without any, it is ended after a while."""
        members = shared.members
        if members.sessions.pop(session, session) is session:
            return
        shared.end_for(session)
        for uri in [uri for uri, name in session.notifications.subscribed.items() if name == shared.name]:
            if shared.is_up and not members.subscribes(shared.name, uri):
                self._background.start(shared.unsubscribe(uri))
        if members.sessions:
            return
        if shared in self._shared.values() and self._context.servers.get(shared.name) == shared.server:
            self._left[shared] = monotonic()
        else:
            await self._end(shared)

    async def rest(self, now: float) -> None:
        """End the processes that no session needs, and those that are shared by all and have been idle for long."""
        for shared, since in list(self._left.items()):
            if now - since >= LINGER:
                await self._end(shared)
        for shared in list(self._shared.values()):
            if now - shared.used >= IDLE and _may_rest(shared):
                await shared.rest()

    async def make_room(self) -> bool:
        """End a process that no session needs, or needs now; return whether there was one."""
        for shared in list(self._left):
            await self._end(shared)
            return True
        resting = [each for each in self._shared.values() if _may_rest(each)]
        if resting:
            await min(resting, key=lambda shared: shared.used).rest()
        return bool(resting)

    async def _end(self, shared: SharedUpstream) -> None:
        self._left.pop(shared, None)
        for key in [key for key, each in self._shared.items() if each is shared]:
            del self._shared[key]
        await shared.close()

    async def close(self) -> None:
        """End all processes that are shared."""
        for shared in [*self._shared.values(), *self._left]:
            await self._end(shared)


def is_shared(upstream: Upstream) -> bool:
    """Whether other sessions may use a connection, too."""
    return isinstance(upstream, SharedUpstream)


def waits_for(upstream: Upstream, session: PoolMember) -> bool:
    """Whether a shared server owes this session an answer."""
    return isinstance(upstream, SharedUpstream) and upstream.waits_for(session)


def _may_rest(shared: SharedUpstream) -> bool:
    """Whether a process can be ended for now: it is shared by all, so it keeps nothing, and owes no answer."""
    if not shared.is_up or shared.members.one_caller or shared.waiting:
        return False
    return not any(shared.name in session.notifications.subscribed.values() for session in shared.members.sessions)


def _key(server: ServerConfig, session: PoolMember) -> Key | None:
    """Return which sessions share a server; None if it is the session's own."""
    if server.transport != "stdio" or not server.stateful or server.share is False:
        return None
    if server.share is True:
        return server.name, None
    caller = session.client.caller
    offers = session.client_capabilities(server.name)
    if not offers.keys().isdisjoint(CAPABILITY_OF.values()):
        return None
    return server.name, (caller.principal, caller.agent, caller.identity, text_of_tree(offers))


def _level_of(session: PoolMember) -> str:
    level = session.client.log_level
    return _USUAL if level is None else text_of(level) or _USUAL


def _rank(level: str | None) -> int:
    return LOG_LEVELS.index(level) if level in LOG_LEVELS else len(LOG_LEVELS)
