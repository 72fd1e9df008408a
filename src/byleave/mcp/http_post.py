"""One message on its way to a server over HTTP, and what the link itself asks: how each comes to its end.

They tell the link what they heard; the link tells everybody else.
"""

import asyncio

from byleave.mcp.ends import DownError
from byleave.mcp.http_answer import Answer, End
from byleave.mcp.one_line import answers, one_line
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.mcp.ends import Outgoing
    from byleave.mcp.http_client import Spot
    from byleave.mcp.http_link import HttpLink
    from byleave.wire.http_head import Response

NOT_FOUND = 404
LINGERING = 1.0  # seconds that a stream may stay open after the answer
# What changes nothing, so that asking twice is asking once.
_REPEATABLE = frozenset(
    {"initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list"}
    | {"resources/read", "prompts/list", "prompts/get", "completion/complete"}
)


class Post:
    """One message on its way, and what the server says to it."""

    __slots__ = ("_left", "_lingering", "_link", "_retried", "_wrong", "answer", "is_answered", "outgoing", "visit")

    def __init__(self, link: "HttpLink", outgoing: "Outgoing") -> None:
        self.outgoing = outgoing
        self.answer: Answer | None = None
        self.visit: Visit | None = None  # by which a stream that broke off is gone on with
        self.is_answered = False
        self._left = False  # nobody wants to hear of it any more
        self._link = link
        self._retried = False
        self._wrong = ""
        self._lingering: asyncio.TimerHandle | None = None

    def is_left(self) -> bool:
        """Whether nobody wants to hear of it any more."""
        return self._left

    def leave(self) -> None:
        """Hear no more of it."""
        self._left = True
        if self.answer is not None:
            self.answer.drop()
        if self.visit is not None:
            self.visit.leave()

    def began(self, response: "Response") -> None:
        if self.outgoing.method == "initialize" and response.status < 300:
            self._wrong = self._link.take_session(response)

    def said(self, message: bytes) -> None:
        if self._left or self._wrong:
            return
        id_, answer = self.outgoing.id, self.answer
        if id_ is None:
            self._link.hearer.heard(message, None)
            return
        if answer is None or answer.events is None or answers(message, id_):
            self.is_answered = True
            if answer is not None and answer.events is not None and self._lingering is None:
                self._lingering = asyncio.get_running_loop().call_later(LINGERING, self._linger)
        answered = self._link.hearer.heard(message, id_)
        if answered is False and answer is not None and answer.events is None:
            self._link.hearer.lost(id_, f"the server {shown(self._link.name)} answered something else")

    def _linger(self) -> None:
        """Close a stream that goes on though everything is said."""
        self._link.forget(self)
        self.leave()

    def over(self, end: End) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        if self._left:
            return
        if self._wrong:
            self._link.fail(self, end.replace(why=self._wrong))
        elif self.is_answered or (self.outgoing.id is None and 200 <= end.status < 300):
            self._link.forget(self)
        else:
            self._unanswered(end)

    def _unanswered(self, end: End) -> None:
        id_, link, events = self.outgoing.id, self._link, self.answer.events if self.answer is not None else None
        error = None if id_ is None or (end.status == NOT_FOUND and link.session) else one_line(end.body)
        if error and id_ is not None and answers(error, id_):
            link.forget(self)  # an error of JSON-RPC, and the status of HTTP that goes with it
            link.hearer.heard(error, id_)
        elif end.unheard and not self._retried and (id_ is None or self.outgoing.method in _REPEATABLE):
            self._retried = True
            link.spawn(self._again())
        elif id_ is not None and end.resumes and events is not None and events.last_id:
            link.spawn(link.resume(self, events.last_id, events.retry))
        else:
            usual = "ended its answer without having answered" if end.status else "gave no answer"
            link.fail(self, end.replace(why=end.why or usual))

    async def _again(self) -> None:
        """Send it once more: the connection that it was sent on had been closed already."""
        try:
            await self._link.post(self, fresh=True)
        except DownError as problem:
            self._link.fail(self, End(0, problem.problem))


class Visit:
    """A request of the link's own, whose end is waited for. What is said meanwhile goes to `to`."""

    def __init__(self, to: "HttpLink | Post | None" = None) -> None:
        self.answer: Answer | None = None
        self.ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._to = to

    async def ask(self, link: "HttpLink", spot: "Spot", method: str, request: bytes) -> End:
        """Ask, and return how it ended; a DownError if it could not even be asked."""
        connection = await link.client.connection(spot.origin)
        if self.ended.done():
            link.client.keep(connection)
        else:
            self.answer = Answer(self, connection, link.secrets, link.limit)
            connection.ask(request, method, self.answer)
        try:
            return await self.ended
        finally:
            self.leave()

    def leave(self) -> None:
        """Hear no more of it."""
        if not self.ended.done():
            self.ended.set_result(End(0))
            if self.answer is not None:
                self.answer.drop()

    @property
    def last_id(self) -> str:
        return self.answer.events.last_id if self.answer is not None and self.answer.events is not None else ""

    @property
    def retry(self) -> float | None:
        return self.answer.events.retry if self.answer is not None and self.answer.events is not None else None

    def heard_new(self, before: str) -> bool:
        """Whether the stream went on after the event of that id."""
        return self.last_id not in ("", before)

    def began(self, response: "Response") -> None:
        """Take the head of the answer; nothing in it matters here."""

    def said(self, message: bytes) -> None:
        if self._to is not None:
            self._to.said(message)

    def over(self, end: End) -> None:
        if not self.ended.done():
            self.ended.set_result(end)
