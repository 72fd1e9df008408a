"""The response to a POST in a session, which goes on when its connection breaks: the client may come back for the rest.

That takes an id that the client has seen. So an answer that is plain JSON is not resumed, and its call is cancelled
when the client goes away.
"""

from __future__ import annotations

from asyncio import get_running_loop
from typing import TYPE_CHECKING

from byleave.gateway.http_replay import STANDING
from byleave.gateway.http_sessions import PostResponse
from byleave.gateway.message import error_parts, error_tree
from byleave.protocol.jsonrpc import INTERNAL_ERROR

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Sequence

    from byleave.gateway.http_replay import ReplayLog
    from byleave.gateway.http_request import HttpExchange
    from byleave.gateway.protected_resource import Challenge


AWAY = 30.0  # seconds for which a call goes on without its client
_TOO_LARGE = "the call was made, but its answer is too large to be kept until the client comes back"


class ResumableResponse(PostResponse):
    """The response to one POST in a session. Once it is a stream, its client may come back for the rest of it."""

    __slots__ = ("_first", "_has_id", "_is_answered", "_log", "_request_id", "_stream", "_timer")

    def __init__(self, exchange: HttpExchange, challenge: Challenge | None, log: ReplayLog, request_id: bytes) -> None:
        super().__init__(exchange, challenge=challenge)
        self._first = exchange  # the one whose task does the work
        self._log = log
        self._request_id = request_id
        self._stream = STANDING  # none yet
        self._timer: TimerHandle | None = None
        self._has_id = self._is_answered = False

    @property
    def is_away(self) -> bool:
        """Whether its client is gone, and may come back."""
        return self._timer is not None

    def is_open(self) -> bool:
        return not self._is_answered and (self.is_away or super().is_open())

    async def send(self, *parts: bytes) -> bool:
        if not self._first.head.takes_events:
            return False
        await self._drained()
        if not self.is_open():
            return False
        self._begin()
        self._put(self._log.keep(self._stream, parts))
        self._has_id = True
        return True

    async def answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:
        if not self._stream:
            await super().answer(*parts, status=status, scopes=scopes)
            return
        await self._drained()
        if not self.is_open():
            return
        instead = error_parts(self._request_id, error_tree(INTERNAL_ERROR, _TOO_LARGE))
        self._put(self._log.keep(self._stream, parts, instead))
        self._is_answered = True
        self._exchange.end_events()
        self.end()

    def withdraw(self, id_: bytes) -> None:
        super().withdraw(id_)
        self.end()

    def end(self) -> None:
        """Have no client come back for more than is kept."""
        self._is_answered = True
        self._log.responses.pop(self._stream, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def go_on(self, exchange: HttpExchange) -> None:
        """Write to another exchange from now on: its client has come back, and all that was kept is written there."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._exchange.on_lost = self._exchange.on_quiet = None
        self._exchange.end_events()
        self._exchange = exchange
        exchange.on_lost, exchange.on_quiet = self._lost, self._stay

    async def _drained(self) -> None:
        if not self.is_away:
            await self._exchange.connection.drained()

    def _begin(self) -> None:
        """Have the response be a stream that can be resumed."""
        if self._stream or self._exchange.is_over:
            return
        self._stream = self._log.begin(self)
        self._exchange.on_lost = self._lost
        first = self._log.first(self._exchange.head.revision, self._stream)
        if first:
            self._has_id = True
            self._write(first)

    def _stay(self) -> None:
        self._begin()
        super()._stay()

    def _put(self, pieces: Sequence[bytes]) -> None:
        if not self.is_away:
            self._write(pieces)

    def _lost(self) -> None:
        """Go on for a while without the client, if it knows an id to come back with."""
        may_return = self._has_id and not self._is_answered and self._log.has_room_away()
        self._first.outlives = may_return
        if may_return:
            self._timer = get_running_loop().call_later(AWAY, self._give_up)
        elif self._exchange is not self._first:
            self._give_up()

    def _give_up(self) -> None:
        self.end()
        if self._first.task is not None:
            self._first.task.cancel()
