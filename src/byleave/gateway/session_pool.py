"""Where stateless clients of one principal come in: each to the session that fits what it can do.

Servers are told in their handshake what the client can do for them, and some offer other tools by that. So clients that
say different things of themselves do not share a session; those that say the same do, whoever they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.gateway.message import ClientMessage, decoded, encode, members_of
from byleave.gateway.revisions import CAPABILITIES_KEY
from byleave.gateway.server_questions import narrowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.gateway.interfaces import MessageContext, Sink
    from byleave.gateway.session import Session

MOST = 16  # kinds of clients; one more takes the place of the idle one that was not seen for longest


class SessionPool:
    """The sessions of one principal, by what their clients can do."""

    def __init__(self, begin: Callable[[], Session]) -> None:
        self._begin = begin
        self._sessions: dict[bytes, Session] = {}

    @property
    def sessions(self) -> list[Session]:
        return list(self._sessions.values())

    async def handle(self, message: bytes, sink: Sink, told: MessageContext) -> None:
        """Take one message of a client."""
        from byleave.gateway.session import read_or_refuse

        said = await read_or_refuse(message, sink)
        if said is not None:
            await (await self._session_for(said)).take(said, sink, told)

    async def _session_for(self, said: ClientMessage) -> Session:
        told = decoded(members_of(said.params.get("_meta")).get(CAPABILITIES_KEY, b"null"))
        key = encode(narrowed(told if isinstance(told, dict) else {}, None))
        session = self._sessions.pop(key, None)
        if session is None:
            idle = [known for known, each in self._sessions.items() if not each.open]
            for known in idle[: max(0, len(self._sessions) - MOST + 1)]:
                await self._sessions.pop(known).close()
            session = self._begin()
        self._sessions[key] = session  # the one that was used last is the last
        return session

    def attach(self, _sink: Sink) -> None:
        """Do nothing: a stateless client has no standing stream."""

    async def rest(self, before: float) -> None:
        """End the sessions that nobody has used since then."""
        for key, session in list(self._sessions.items()):
            if not session.open and session.used < before:
                del self._sessions[key]
                await session.close()

    async def close(self) -> None:
        """End all sessions."""
        sessions, self._sessions = self.sessions, {}
        for session in sessions:
            await session.close()
