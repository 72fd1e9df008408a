"""The sessions of clients that came over HTTP: found by an id that cannot be guessed, by their own principal only.

There are so many and no more, of one principal and of all. Where there is no room, the session that rested longest
makes some: one of the principal that holds most of them, so that nobody can push others out. One that nobody used for
long ends by itself.
"""

import asyncio
import contextlib
import secrets
from collections import Counter, OrderedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from byleave.mcp.ends import Caller, Conversation
    from byleave.mcp.http_exchange import Exchange
    from byleave.mcp.http_streams import Stream

LONGEST_REST = 1800.0  # seconds without an open stream
_ID_BYTES = 24
_PATIENCE = 10.0  # seconds for what a session opened to end


class Session:
    """One session: its conversation, whose it is, what is open in it, and since when nothing was."""

    __slots__ = ("caller", "conversation", "id", "is_old", "open", "rests_since", "stream")

    def __init__(self, conversation: "Conversation", caller: "Caller", now: float, *, is_old: bool) -> None:
        self.id = secrets.token_urlsafe(_ID_BYTES)
        self.conversation = conversation
        self.caller = caller
        self.is_old = is_old  # of revision 2024-11-05: all that is said goes through its stream
        self.open: set[Exchange] = set()
        self.rests_since = now
        self.stream: Stream | None = None

    @property
    def is_resting(self) -> bool:
        return not self.open and self.stream is None


class Sessions:
    """All sessions, the one that was used last at the end."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.most_per_caller = most
        self._by_id: OrderedDict[str, Session] = OrderedDict()
        self._held: Counter[str] = Counter()
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    def add(
        self, caller: "Caller", begin: "Callable[[Caller], Conversation]", now: float, *, is_old: bool = False
    ) -> Session | None:
        """Begin a session; None if there is no room for one."""
        while self._held[caller.principal] >= self.most_per_caller:
            going = next((each for each in self._of(caller.principal) if each.is_resting), None)
            if going is None:
                return None
            self.end(going)
        while len(self._by_id) >= self.most:
            going = self._longest_resting() or self._one_of_many(caller)
            if going is None:
                return None
            self.end(going)
        session = Session(begin(caller), caller, now, is_old=is_old)
        self._by_id[session.id] = session
        self._held[caller.principal] += 1
        return session

    def find(self, id_: str, caller: "Caller", *, is_old: bool = False) -> Session | None:
        """Return a session of this principal; one of another is as good as none."""
        session = self._by_id.get(id_)
        if session is None or session.caller.principal != caller.principal or session.is_old != is_old:
            return None
        self._by_id.move_to_end(id_)
        return session

    def end(self, session: Session) -> None:
        """Forget a session at once, and end what it opened soon."""
        if self._by_id.pop(session.id, None) is None:
            return
        self._held[session.caller.principal] -= 1
        if not self._held[session.caller.principal]:
            del self._held[session.caller.principal]
        if session.stream is not None:
            session.stream.end()
        for exchange in list(session.open):
            if exchange.task is not None:
                exchange.task.cancel()
        task = asyncio.create_task(_closed(session.conversation))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def tick(self, now: float) -> None:
        """End the sessions that rested too long."""
        late = [each for each in self._by_id.values() if each.is_resting and now >= each.rests_since + LONGEST_REST]
        for session in late:
            self.end(session)

    def end_streams(self) -> None:
        """End the standing streams of all who proved who they are: they have to prove it again."""
        for session in list(self._by_id.values()):
            if session.stream is not None and session.caller.identity == "verified":
                session.stream.end()

    async def close(self) -> None:
        """End all sessions, and wait until they have ended."""
        for session in list(self._by_id.values()):
            self.end(session)
        if self._ending:
            await asyncio.wait(self._ending)

    def _longest_resting(self) -> Session | None:
        resting = [each for each in self._by_id.values() if each.is_resting]
        return max(resting, key=lambda each: self._held[each.caller.principal], default=None)

    def _one_of_many(self, caller: "Caller") -> Session | None:
        """Return the longest unused session of whoever holds most, if that is somebody else and they hold more."""
        principal, held = self._held.most_common(1)[0]
        if held <= self._held[caller.principal] + 1 or principal == caller.principal:
            return None
        return next(self._of(principal))

    def _of(self, principal: str) -> "Iterator[Session]":
        return (each for each in self._by_id.values() if each.caller.principal == principal)


async def _closed(conversation: "Conversation") -> None:
    # Whatever it was that did not end: nobody waits for it, and the session is gone.
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_PATIENCE):
            await conversation.close()
