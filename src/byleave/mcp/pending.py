"""A request of ours to a server, and what came about it: progress, questions, the answer, in the order it came."""

import asyncio
from collections import deque
from time import monotonic

from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from msgspec import Raw

    from byleave.mcp.exchange import Exchange

_MOST_WAITING = 1000  # messages about one request that nobody has taken yet; more are dropped, but never the answer


class Answered(Record):
    """The server's answer: a result, or an error, each as it was written."""

    result: "Raw | None"
    error: "Raw | None" = None


class Lost(Record):
    """There will be no answer. `why` is for the operator, `public` what of it agents may read."""

    why: str
    public: str = ""


class Told(Record):
    """A notification about the request."""

    method: str
    params: "Raw | None"


class Asked(Record):
    """Something the server wants of the client before it answers."""

    id: "Raw"
    method: str
    params: "Raw | None"


class Pending:
    """A request of ours: what came about it and was not taken yet."""

    __slots__ = ("_items", "_waker", "exchange", "id", "sent")

    def __init__(self, id_: str, exchange: "Exchange | None") -> None:
        self.id = id_
        self.exchange = exchange
        self.sent = monotonic()
        self._items: deque[Answered | Lost | Told | Asked] = deque()
        self._waker: asyncio.Future[None] | None = None

    def put(self, item: "Answered | Lost | Told | Asked") -> bool:
        """Add what came; return whether there was room: of a flood only some is kept, but always the answer."""
        if isinstance(item, Told | Asked) and len(self._items) >= _MOST_WAITING:
            return False
        self._items.append(item)
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)
        return True

    async def get(self) -> "Answered | Lost | Told | Asked":
        """Return the next thing that came about it."""
        while not self._items:
            self._waker = asyncio.get_running_loop().create_future()
            try:
                await self._waker
            finally:
                self._waker = None
        return self._items.popleft()
