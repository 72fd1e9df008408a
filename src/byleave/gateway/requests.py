"""Requests that are not answered yet, in both directions, and the client that they belong to.

A `ClientRequest` is a client's request to us: it is answered once, in the form that the client's revision has. A
`ServerRequest` is ours to a server: progress, questions and the answer wait in it in the order in which they came;
`PendingRequests` has those of one server by id. `Client` is what one client has said of itself: who calls, its revision
and its capabilities. `initialize` and the envelopes of stateless requests write it; sessions, the authorizer and
notifications read it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from byleave.gateway.message import answer_parts, decoded, encode, error_parts, error_tree, members_of
from byleave.gateway.revisions import HANDSHAKE, STATUS
from byleave.net.eager_task import DirectFuture

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.gateway.interfaces import Caller, Sink
    from byleave.gateway.message import ClientParams
    from byleave.gateway.revisions import RequestMeta
    from byleave.gateway.tracing import CallSpan
    from byleave.guard.evaluation import Who


_QUESTIONS = ("inputRequests", "requestState")
_COMPLETE = Raw(b'"complete"')
_PRIVATE = Raw(b'"private"')  # what one caller may see is not for the caches of others
_STALE = Raw(b"0")
_LISTS = frozenset({"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"})
_READ = "resources/read"
_MOST_WAITING = 1000  # messages about one request that were not taken yet; more are dropped, but never the answer
_MOST_BYTES = 4 << 20  # of them together, beyond the first one


class ClientRequest:
    """A request of the client: where its answer goes, on whose behalf it is, and what it says about the client."""

    __slots__ = (
        *("_is_answered", "came", "envelope", "headers", "id", "method", "params", "scopes", "sink", "task", "trace"),
        *("transport_headers", "who"),
        "withdrawn",
    )

    def __init__(self, id_: bytes, method: str, params: ClientParams, sink: Sink, who: Who) -> None:
        self.id = id_
        self.method = method
        self.params = params
        self.sink = sink
        self.who = who
        self.envelope: RequestMeta | None = None  # of a stateless revision; None after a handshake
        self.headers: Mapping[str, str] = {}
        self.scopes: frozenset[str] | None = None  # of the caller's token; None where it needs none
        self.transport_headers: Mapping[str, str] = {}  # also after a handshake, where they are not checked
        self.trace: CallSpan | None = None  # where spans are sent
        self.came = 0.0  # when it came; 0 once it is counted
        self.task: asyncio.Task[Any] | None = None
        self._is_answered = False
        self.withdrawn = False  # the client has cancelled it

    async def result(self, result: Mapping[str, Any] | Raw | bytes) -> None:
        """Answer with a result; bytes go out as they came, but for what a stateless revision adds."""
        raw = result if isinstance(result, Raw | bytes) else encode(result)
        if self.envelope is not None:
            raw = _completed(raw, self.method)
        await self._answer(*answer_parts(self.id, raw))

    async def need_input(self, questions: Mapping[str, Any], state: str) -> None:
        """Answer a stateless client with questions; it calls again with the answers and this state."""
        raw = encode({"resultType": "input_required", "inputRequests": questions, "requestState": state})
        await self._answer(*answer_parts(self.id, raw))

    async def error(self, number: int, message: str, data: Any = None) -> None:
        """Answer with an error."""
        await self.raw_error(error_tree(number, message, data), number)

    async def raw_error(self, error: Raw | bytes, number: int) -> None:
        """Answer with an error as a server wrote it."""
        status = STATUS.get(number, 200) if self.envelope is not None else 200
        await self._answer(*error_parts(self.id, error), status=status)

    async def need_scopes(self, error: bytes, scopes: tuple[str, ...]) -> None:
        """Answer that a token with all of these scopes is needed: another one, or one at all."""
        status = 403 if self.who.identity == "verified" else 401
        await self._answer(*error_parts(self.id, error), status=status, scopes=scopes)

    async def server_error(self, error: Raw) -> None:
        """Answer with a server's error, and the status that its number has."""
        number = decoded(members_of(error).get("code", b"0"))
        await self.raw_error(error, number if type(number) is int else 0)

    async def _answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:
        """Answer, if that was not done: whatever goes wrong afterwards, a request has one answer."""
        if not self._is_answered:
            self._is_answered = True
            await self.sink.answer(*parts, status=status, scopes=scopes)


def _completed(raw: Raw | bytes, method: str) -> bytes:
    """Return a result with what the stateless revision wants in every result, and in those that may be cached.

    Questions are ours to send (`need_input`): a server that puts some into its result has them taken out. How long a
    resource may be cached is its server's to say; lists hold what the policy of the moment shows.
    """
    found: dict[str, Any] = {key: value for key, value in members_of(raw).items() if key not in _QUESTIONS}
    found["resultType"] = _COMPLETE
    if method in _LISTS or method == _READ:
        lifetime = decoded(found.get("ttlMs", b"0")) if method == _READ else 0
        found["ttlMs"] = lifetime if type(lifetime) is int and lifetime > 0 else _STALE
        found["cacheScope"] = _PRIVATE
    return encode(found)


class ServerAnswer(Struct, frozen=True):
    """The server's answer: a result, or an error, each as it was written."""

    result: Raw | None
    error: Raw | None = None


class ServerLost(Struct, frozen=True):
    """There will be no answer. `why` is for the operator, `public` what of it agents may read."""

    why: str
    public: str = ""


class ServerLate(ServerLost, frozen=True):
    """There was no answer in time."""


class ServerNotification(Struct, frozen=True):
    """A notification about the request."""

    method: str
    params: Raw | None


class ServerQuestion(Struct, frozen=True):
    """A request of the server to the client, before it answers."""

    id: Raw
    method: str
    params: Raw | None


class ServerRequest:
    """A request of ours: what came about it and was not taken yet."""

    __slots__ = ("_items", "_size", "_waker", "client_request", "due", "id", "patience", "sent")

    def __init__(self, id_: str, client_request: ClientRequest | None) -> None:
        self.id = id_
        self.client_request = client_request
        self.sent = monotonic()
        self.patience = self.due = inf  # for how many seconds it is waited for, and until when
        self._items: deque[ServerAnswer | ServerLost | ServerNotification | ServerQuestion] = deque()
        self._size = 0  # of the notifications and questions among them
        self._waker: DirectFuture | None = None

    def put(self, item: ServerAnswer | ServerLost | ServerNotification | ServerQuestion) -> bool:
        """Add what came; return whether there was room: of a flood only some is kept, but always the answer."""
        if size := _size_of(item):
            if len(self._items) >= _MOST_WAITING or (self._size and self._size + size > _MOST_BYTES):
                return False
            self._size += size
        self._items.append(item)
        if self._waker is None:
            return True
        if isinstance(item, ServerAnswer):
            self._waker.wake()
        else:
            self._waker.wake_soon()
        return True

    async def get(self) -> ServerAnswer | ServerLost | ServerNotification | ServerQuestion:
        """Return the next thing that came about it."""
        while not self._items:
            self._waker = DirectFuture()
            try:
                await self._waker
            finally:
                self._waker = None
        item = self._items.popleft()
        self._size -= _size_of(item)
        return item


def _size_of(item: ServerAnswer | ServerLost | ServerNotification | ServerQuestion) -> int:
    """Return how much room is needed by what a server may send any number of; 0 for an end, which comes once."""
    if isinstance(item, ServerAnswer | ServerLost):
        return 0
    return len(item.method) + (0 if item.params is None else len(item.params)) + 1


class PendingRequests:
    """Our requests to one server that are not answered yet, by our ids, the latest at the end.

    One timer is for all of them. It is set for the first that becomes late, and stays where that one is answered.
    """

    def __init__(self) -> None:
        self._pending: dict[str, ServerRequest] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = inf

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._pending

    def begin(self, client_request: ClientRequest | None) -> ServerRequest:
        """Return a new request, for a request of the client or for none."""
        self._count += 1
        pending = self._pending[f"b{self._count}"] = ServerRequest(f"b{self._count}", client_request)
        return pending

    def expect(self, pending: ServerRequest, seconds: float) -> None:
        """Have a request end as late if it is not answered within so many seconds from now."""
        pending.patience, pending.due = seconds, monotonic() + seconds
        if pending.due < self._looks_at:
            self._look_at(pending.due)

    def _look_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = due
        self._timer = asyncio.get_running_loop().call_later(due - monotonic(), self._end_late)

    def _end_late(self) -> None:
        now, self._timer, self._looks_at = monotonic(), None, inf
        for pending in self._pending.values():
            if pending.due <= now:
                why = f"it did not answer within {pending.patience:g} s"
                pending.due = inf
                pending.put(ServerLate(why, why))
        due = min((each.due for each in self._pending.values()), default=inf)
        if due != inf:
            self._look_at(due)

    def get(self, id_: str | None) -> ServerRequest | None:
        return None if id_ is None else self._pending.get(id_)

    def pop(self, id_: str) -> ServerRequest | None:
        """Expect nothing more about a request; return it, if something was expected."""
        return self._pending.pop(id_, None)

    def of_clients(self) -> list[ServerRequest]:
        """Return those that a client waits for."""
        return [each for each in self._pending.values() if each.client_request is not None]

    def end_all(self, why: str, public: str = "") -> None:
        """Let no request get an answer any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._looks_at = None, inf
        for pending in list(self._pending.values()):
            pending.put(ServerLost(why, public))


_MOST_AGENTS = 64  # that are remembered; a client that claims more has its servers opened again after a reload


class Client:
    """The client of one session. With `is_shared`, several stateless clients that may use the same ids."""

    def __init__(self, caller: Caller, *, is_shared: bool = False) -> None:
        self.caller = caller
        self.is_shared = is_shared
        self.agents: set[str | None] = set()  # on whose behalf the session was used
        self.shakes_hands = False  # whether it has begun with `initialize`
        self.revision = ""  # empty until the handshake is answered; a stateless client has none
        self.welcomed = asyncio.Event()  # the handshake is answered
        self.begun = asyncio.Event()  # the client goes on after that
        self.capabilities: Mapping[str, Any] = {}
        self.log_level: Raw | None = None

    @property
    def has_modes(self) -> bool:
        """Whether the revision knows more than one way to ask a person."""
        return self.revision == HANDSHAKE[-1]

    def capabilities_of(self, request: ClientRequest) -> Mapping[str, Any]:
        """Return what the client of a request can do; a stateless one says it with each."""
        return self.capabilities if request.envelope is None else request.envelope.capabilities

    def used_by(self, agent: str | None) -> None:
        """Remember on whose behalf a request was."""
        if len(self.agents) < _MOST_AGENTS:
            self.agents.add(agent)
