"""What a web server answers to one request of ours: a JSON text, a stream of events, a refusal.

`Answer` takes it in as it comes and says what it was; what that means is for the link that asked. Redirects are
refusals: whoever follows one would carry a user's credentials elsewhere.
"""

from byleave.mcp.events import Event, EventReader
from byleave.mcp.http_client import is_coded, media_type
from byleave.mcp.one_line import excerpt, hide, one_line
from byleave.record import Record
from byleave.text import quoted, shown
from byleave.wire.http_head import values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from byleave.mcp.http_client import Connection
    from byleave.wire.http_head import Response

    class Teller(Protocol):
        """Whoever wants to know what one request came to. `over` comes once, and last."""

        def began(self, response: Response) -> None: ...

        def said(self, message: bytes) -> None:
            """Take one message, which is on one line."""

        def over(self, end: "End") -> None: ...


LARGEST = 64 << 20  # bytes of one message
LARGEST_REFUSAL = 1 << 16  # bytes of a refusal that are read
JSON, EVENTS = "application/json", "text/event-stream"
_SHOWN = 300  # letters of a refusal that people are shown
_SUCCESS, _REDIRECT, _MISTAKE = 200, 300, 400


class End(Record):
    """How an answer ended. `status` is 0 where there was none; `why` is a sentence for people, or empty if all is well.

    `body` is what a refusal said. `resumes`: it was a stream of events, which may be gone on with.
    """

    status: int
    why: str = ""
    body: bytes = b""
    unheard: bool = False
    resumes: bool = False


class Answer:
    """Takes in the answer to one request. `events` is there from the moment on that the answer is a stream."""

    __slots__ = (
        "_connection",
        "_pieces",
        "_secrets",
        "_size",
        "_status",
        "_take",
        "_teller",
        "_why",
        "events",
        "limit",
    )

    def __init__(self, teller: "Teller", connection: "Connection", secrets: tuple[str, ...], limit: int) -> None:
        self.events: EventReader | None = None
        self.limit = limit
        self._teller: Teller | None = teller
        self._connection = connection
        self._secrets = secrets
        self._pieces: list[bytes] = []
        self._size = 0
        self._status = 0
        self._why = ""
        self._take: Callable[[bytes], None] = self._collect

    def drop(self) -> None:
        """Hear no more of it."""
        self._teller = None
        self._connection.drop()

    def head(self, response: "Response") -> None:
        self._status = response.status
        if self._teller is not None:
            self._teller.began(response)
        if response.status >= _REDIRECT:
            self._why, self._take = self._refusal(response), self._collect_some
            return
        kind = media_type(response)
        if is_coded(response):
            self._stop("answered with a compressed body, which was not asked for")
        elif kind == EVENTS:
            self.events, self._take = EventReader(limit=self.limit), self._hear
        elif kind != JSON and not response.bodiless and response.body.length != 0:
            self._why, self._take = (
                f"answered with something else than JSON or events: {self._quoted(kind)}",
                self._ignore,
            )
        elif (response.body.length or 0) > self.limit:
            self._too_large()

    def piece(self, data: bytes) -> None:
        self._take(data)

    def end(self) -> None:
        if self.events is None and not self._why and self._pieces:
            self._tell(b"".join(self._pieces))
        if self._why and self._status >= _MISTAKE:
            said = excerpt(b"".join(self._pieces)[:LARGEST_REFUSAL], self._secrets, most=_SHOWN)
            self._why = f"{self._why}: {said}" if said else self._why
        self._over(self._why)

    def broke(self, why: str, *, unheard: bool) -> None:
        self._over(self._why or why, unheard=unheard)

    def _collect(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self.limit:
            self._too_large()
        else:
            self._pieces.append(data)

    def _collect_some(self, data: bytes) -> None:
        self._size += len(data)
        self._pieces.append(data)
        if self._size > LARGEST_REFUSAL:
            self._connection.drop()
            self.end()

    def _ignore(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self.limit:
            self._too_large()

    def _hear(self, data: bytes) -> None:
        if self.events is None:
            return
        for event in self.events.feed(data):
            if not isinstance(event, Event):
                self._too_large()
            elif event.type == "message" and event.data:
                self._tell(event.data)
            if self._teller is None:
                return

    def _tell(self, message: bytes) -> None:
        line = one_line(message)
        if line is None:
            self._why = self._why or "said something that is not JSON"
        elif line and self._teller is not None:
            self._teller.said(line)

    def _too_large(self) -> None:
        self._stop(f"sent a message that is larger than {self.limit >> 20} MB")

    def _stop(self, why: str) -> None:
        self._connection.drop()
        self._over(why, resumes=False)

    def _over(self, why: str, *, unheard: bool = False, resumes: bool = True) -> None:
        teller, self._teller = self._teller, None
        if teller is not None:
            body = b"".join(self._pieces) if self._status >= _MISTAKE else b""
            teller.over(End(self._status, why, body, unheard, resumes and self.events is not None))

    def _refusal(self, response: "Response") -> str:
        if response.status < _MISTAKE:
            where = (values_of(response.fields, "location") or [""])[0]
            return f"wants to be asked at {self._quoted(where)} instead, and redirects are not followed"
        return f"answered {response.status} {shown(hide(response.phrase, self._secrets)[:80])}".rstrip()

    def _quoted(self, text: str) -> str:
        return quoted(hide(text, self._secrets)[:_SHOWN])
