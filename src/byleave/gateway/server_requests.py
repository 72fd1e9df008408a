"""A request of ours to a server, and what came about it: progress, questions, the answer, in the order it came."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from msgspec import Raw

    from byleave.gateway.client_request import ClientRequest

_MOST_WAITING = 1000  # messages about one request that nobody has taken yet; more are dropped, but never the answer


class ServerAnswer(Struct, frozen=True):
    """The server's answer: a result, or an error, each as it was written."""

    result: Raw | None
    error: Raw | None = None


class ServerLost(Struct, frozen=True):
    """There will be no answer. `why` is for the operator, `public` what of it agents may read."""

    why: str
    public: str = ""


class ServerNotification(Struct, frozen=True):
    """A notification about the request."""

    method: str
    params: Raw | None


class ServerQuestion(Struct, frozen=True):
    """Something the server wants of the client before it answers."""

    id: Raw
    method: str
    params: Raw | None


class ServerRequest:
    """A request of ours: what came about it and was not taken yet."""

    __slots__ = ("_items", "_waker", "exchange", "id", "sent")

    def __init__(self, id_: str, exchange: ClientRequest | None) -> None:
        self.id = id_
        self.exchange = exchange
        self.sent = monotonic()
        self._items: deque[ServerAnswer | ServerLost | ServerNotification | ServerQuestion] = deque()
        self._waker: asyncio.Future[None] | None = None

    def put(self, item: ServerAnswer | ServerLost | ServerNotification | ServerQuestion) -> bool:
        """Add what came; return whether there was room: of a flood only some is kept, but always the answer."""
        if isinstance(item, ServerNotification | ServerQuestion) and len(self._items) >= _MOST_WAITING:
            return False
        self._items.append(item)
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)
        return True

    async def get(self) -> ServerAnswer | ServerLost | ServerNotification | ServerQuestion:
        """Return the next thing that came about it."""
        while not self._items:
            self._waker = asyncio.get_running_loop().create_future()
            try:
                await self._waker
            finally:
                self._waker = None
        return self._items.popleft()
