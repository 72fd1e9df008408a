"""One request of a client that is not answered yet, and the ways to answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw

from byleave.gateway.message import answer_parts, decoded, encode, error_parts, error_tree, members_of
from byleave.gateway.revisions import STATUS

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Mapping
    from typing import Any

    from byleave.gateway.interfaces import Sink
    from byleave.gateway.message import Members
    from byleave.gateway.revisions import RequestMeta
    from byleave.guard.asking import Who

_WISHES = ("inputRequests", "requestState")
_COMPLETE = Raw(b'"complete"')
_PRIVATE = Raw(b'"private"')  # what one caller may see is nobody else's to keep
_STALE = Raw(b"0")
_LISTS = frozenset({"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"})
_READ = "resources/read"


class ClientRequest:
    """A request of the client: where its answer goes, on whose behalf it is, and what it says about the client."""

    __slots__ = ("_is_answered", "envelope", "headers", "id", "method", "params", "sink", "task", "who", "withdrawn")

    def __init__(self, id_: bytes, method: str, params: Members, sink: Sink, who: Who) -> None:
        self.id = id_
        self.method = method
        self.params = params
        self.sink = sink
        self.who = who
        self.envelope: RequestMeta | None = None
        self.headers: Mapping[str, str] = {}
        self.task: Task[Any] | None = None
        self._is_answered = False
        self.withdrawn = False  # the client has said that it wants no answer any more

    async def result(self, result: Mapping[str, Any] | Raw | bytes) -> None:
        """Answer with a result; bytes go out as they came, but for what a stateless revision adds."""
        raw = result if isinstance(result, Raw | bytes) else encode(result)
        if self.envelope is not None:
            raw = _completed(raw, self.method)
        await self._answer(*answer_parts(self.id, raw))

    async def need_input(self, wishes: Mapping[str, Any], state: str) -> None:
        """Answer a stateless client that more has to be known first."""
        raw = encode({"resultType": "input_required", "inputRequests": wishes, "requestState": state})
        await self._answer(*answer_parts(self.id, raw))

    async def _answer(self, *parts: bytes, status: int = 200) -> None:
        """Answer, if nobody has: whatever goes wrong afterwards, a request has one answer."""
        if not self._is_answered:
            self._is_answered = True
            await self.sink.answer(*parts, status=status)

    async def error(self, number: int, message: str, data: Any = None) -> None:
        """Answer with an error."""
        await self.raw_error(error_tree(number, message, data), number)

    async def raw_error(self, error: Raw | bytes, number: int) -> None:
        """Answer with an error as somebody else wrote it."""
        status = STATUS.get(number, 200) if self.envelope is not None else 200
        await self._answer(*error_parts(self.id, error), status=status)


def _completed(raw: Raw | bytes, method: str) -> bytes:
    """Return a result with what the stateless revision wants in every result, and in those that may be kept.

    Wishes are ours to bring (`need_input`): a server that puts some into its result has them taken out. How long a
    resource may be kept is its server's to say; lists hold what the policy of the moment shows.
    """
    found: dict[str, Any] = {key: value for key, value in members_of(raw).items() if key not in _WISHES}
    found["resultType"] = _COMPLETE
    if method in _LISTS or method == _READ:
        kept = decoded(found.get("ttlMs", b"0")) if method == _READ else 0
        found["ttlMs"] = kept if type(kept) is int and kept > 0 else _STALE
        found["cacheScope"] = _PRIVATE
    return encode(found)
