"""What the agent wants, of what we intercept: decoded strictly, so that we and the editor read the same. Sans-IO.

A name given twice, or one that differs from a known name only in case, is refused: another reader may take the other.

The questions that are open: the agent's, which the editor has, and our own, which stand for a request that we hold.

Ids of both directions are independent of each other: here are only those of requests that go to the editor.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.protocol.json_fast import FAST
from byleave.protocol.jsonrpc import RepeatedNameError
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from byleave.acp.authorize import CallEvaluation
    from byleave.acp.tracked_calls import Screen, TrackedCall
    from byleave.protocol.jsonrpc import Envelope, Id


PERMISSION = "session/request_permission"
READ, WRITE, TERMINAL = "fs/read_text_file", "fs/write_text_file", "terminal/create"
FILES = "fs/"
INTERCEPTED = (PERMISSION, READ, WRITE, TERMINAL, f'"{FILES}')  # as they stand in a message, however it is written

_PARAMS = {
    PERMISSION: ("sessionId", "toolCall", "options", "_meta"),
    READ: ("sessionId", "path", "line", "limit", "_meta"),
    WRITE: ("sessionId", "path", "content", "_meta"),
    TERMINAL: ("sessionId", "command", "args", "env", "cwd", "outputByteLimit", "_meta"),
}
_UPDATE_PARAMS = ("sessionId", "update", "_meta")
_OTHER_FILES = ("sessionId", "path", "_meta")
_TOOL_CALL = (
    "toolCallId", "title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "_meta",
)  # fmt: skip
_OPTION = ("optionId", "name", "kind", "_meta")
_ITEM = ("type", "content", "path", "oldText", "newText", "terminalId", "_meta")
_LOCATION = ("path", "line", "_meta")
_OUTCOME = ("outcome", "optionId", "_meta")
_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


class MalformedRequestError(Exception):
    """A message that we intercept, and that not every reader would read alike. The text is for people."""


class PermissionOption(Struct, frozen=True):
    """One answer that the agent offers."""

    id: str
    kind: str
    name: str


class PermissionRequest(Struct, frozen=True):
    """A request for permission: the call it is about, as far as the request says, and how it can be answered."""

    session: str
    call_id: str
    call: Mapping[str, Any]
    options: tuple[PermissionOption, ...]


class AgentRequest(Struct, frozen=True):
    """Something the agent wants the editor to do: read or write a file, start a command."""

    method: str
    session: str
    params: Mapping[str, Any]


def intercepts(method: str) -> bool:
    """Whether a request of the agent with this method is evaluated."""
    return method in (PERMISSION, TERMINAL) or method.startswith(FILES)


def passes_for_intercepted(method: str) -> bool:
    """Whether a lenient reader may take a method for one that is evaluated: in another case, with blanks or marks."""
    plain = "".join([letter for letter in method.casefold() if letter.isascii() and letter.isprintable()]).strip(" /")
    return plain != method and intercepts(plain)


def read_permission(envelope: Envelope) -> PermissionRequest:
    """Return the request for permission that a message is."""
    params = _params(envelope)
    call = _table(params.get("toolCall"), _TOOL_CALL, "toolCall")
    for item in _list(call.get("content"), "content"):
        _table(item, _ITEM, "content")
    for place in _list(call.get("locations"), "locations"):
        _table(place, _LOCATION, "locations")
    options = tuple(_option(each) for each in _list(params.get("options"), "options"))
    ids = [option.id for option in options]
    if len(set(ids)) != len(ids):
        raise MalformedRequestError("two of its options have the same id")
    return PermissionRequest(_text(params, "sessionId"), _text(call, "toolCallId"), call, options)


def read_agent_request(envelope: Envelope, method: str) -> AgentRequest:
    """Return what the agent requests of the editor."""
    params = _params(envelope)
    if method == TERMINAL:
        _text(params, "command")
    elif method in _PARAMS:
        _text(params, "path")
    return AgentRequest(method, _text(params, "sessionId"), params)


def is_plain_update(envelope: Envelope) -> bool:
    """Whether every reader sees the same in an update about a call."""
    try:
        params = _table(_value(envelope.params), _UPDATE_PARAMS, "params")
        _table(params.get("update"), ("sessionUpdate", *_TOOL_CALL), "update")
    except MalformedRequestError:
        return False
    return True


def read_outcome(envelope: Envelope) -> tuple[str | None, bool]:
    """Return the option that the editor's answer selects, and whether it says `cancelled`."""
    result = _table(_value(envelope.result), ("outcome", "_meta"), "result")
    outcome = _table(result.get("outcome"), _OUTCOME, "outcome")
    if outcome.get("outcome") == "cancelled":
        return None, True
    if outcome.get("outcome") != "selected":
        raise MalformedRequestError("its outcome is neither selected nor cancelled")
    return _text(outcome, "optionId"), False


def _params(envelope: Envelope) -> Mapping[str, Any]:
    return _table(_value(envelope.params), _PARAMS.get(envelope.method or "", _OTHER_FILES), "params")


def _value(part: Any) -> Any:
    try:
        return None if part is None else FAST.value(part)
    except RepeatedNameError:
        raise MalformedRequestError("it gives a name twice") from None
    except (ValueError, RecursionError):
        raise MalformedRequestError("it cannot be read as JSON") from None


def _table(value: Any, known: Iterable[str], name: str) -> dict[str, Any]:
    """Return an object in which no name is almost a known one."""
    if not isinstance(value, dict):
        raise MalformedRequestError(f"its {name} is no object")
    folded = {each.casefold() for each in known}
    for key in value:
        if key.casefold() in folded and key not in known:
            raise MalformedRequestError(f"{quoted(key)} in its {name} is almost a name that has a meaning")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedRequestError(f"its {name} is no list")
    return value


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    if not isinstance(value, str):
        raise MalformedRequestError(f"its {name} is no text")
    return value


def _option(value: Any) -> PermissionOption:
    table = _table(value, _OPTION, "option")
    kind = _text(table, "kind")
    name = table.get("name")
    return PermissionOption(
        _text(table, "optionId"), kind if kind in _KINDS else "other", name if isinstance(name, str) else ""
    )


MOST_OPEN = 1000
_MOST_ANSWERED = 4 * MOST_OPEN


class OpenQuestion:
    """A request of the agent that a person is asked about.

    `id` is that of the question: the agent's own, or ours where the request is `held` and we ask in its place.
    """

    def __init__(self, id_: Id, evaluation: CallEvaluation, session: str, raw_id: Any, line: bytes) -> None:
        self.id = id_
        self.evaluation = evaluation
        self.session = session
        self.raw_id = raw_id
        self.line = line
        self.options: tuple[PermissionOption, ...] = ()
        self.call: TrackedCall | None = None
        self.call_id = ""
        self.screen: Screen | None = None  # of the agent's own questions: what is shown with it
        self.contents: Mapping[str, str] = {}  # by path, the hash of the content that is shown with it
        self.held_for: Id | None = None
        self.request: AgentRequest | None = None  # what is held, and the outside of its message
        self.envelope: Envelope | None = None
        self.cancelled_until: float | None = None


class OpenQuestions:
    """Open questions by id, and which were answered: the agent must see exactly one answer."""

    def __init__(self) -> None:
        self._open: dict[Id, OpenQuestion] = {}
        self._held: dict[Id, OpenQuestion] = {}  # ours, by the id of the agent's request
        self._answered: OrderedDict[Id, None] = OrderedDict()
        self._withdrawn: OrderedDict[Id, None] = OrderedDict()  # answered by us: the editor may still answer them

    def add(self, question: OpenQuestion) -> None:
        """Remember a question until it is answered."""
        self._open[question.id] = question
        if question.held_for is not None:
            self._held[question.held_for] = question

    @property
    def is_idle(self) -> bool:
        """Whether no id means anything here."""
        return not self._open and not self._answered

    @property
    def are_many(self) -> bool:
        """Whether so many are open that no person can be expected to answer one more."""
        return len(self._open) >= MOST_OPEN

    def asked_with(self, id_: Id | None) -> OpenQuestion | None:
        """Return the open question that the agent's request with this id has led to."""
        return None if id_ is None else self._held.get(id_) or self._open.get(id_)

    def withdraw(self, id_: Id) -> None:
        """Answer a question in the editor's place: its id is not free before the editor has answered as well."""
        if self.take(id_) is not None:
            self._withdrawn[id_] = None
            if len(self._withdrawn) > _MOST_ANSWERED:
                self._withdrawn.popitem(last=False)

    def is_withdrawn(self, id_: Id | None) -> bool:
        """Whether the editor may still answer an older question with this id."""
        return id_ in self._withdrawn

    def take(self, id_: Id) -> OpenQuestion | None:
        """Return the question with this id, which is answered by that."""
        question = self._open.pop(id_, None)
        if question is not None:
            if question.held_for is not None:
                self._held.pop(question.held_for, None)
            self._answered[id_] = None
            if len(self._answered) > _MOST_ANSWERED:
                self._answered.popitem(last=False)
        return question

    def was_answered(self, id_: Id) -> bool:
        """Whether the question with this id has been answered, so that another answer has no effect."""
        self._withdrawn.pop(id_, None)  # this was the editor's answer
        return id_ in self._answered

    def reuse(self, id_: Id | None) -> None:
        """Note that the agent uses an id again, for another request."""
        if self._answered and id_ is not None:
            self._answered.pop(id_, None)

    def in_session(self, name: object) -> list[OpenQuestion]:
        """Return the open questions of a session."""
        return [each for each in self._open.values() if each.session == name]

    def about(self, session: str, call_id: str) -> list[OpenQuestion]:
        """Return the agent's questions about a call that a person may still say yes to."""
        return [each for each in self.shown() if (each.session, each.call_id) == (session, call_id)]

    def shown(self) -> list[OpenQuestion]:
        """Return all questions of the agent's that a person may still say yes to."""
        return [each for each in self._open.values() if each.screen is not None and each.cancelled_until is None]

    def late(self, now: float) -> list[OpenQuestion]:
        """Return what was cancelled so long ago that the editor will not answer any more."""
        return [each for each in self.cancelled() if (each.cancelled_until or now) <= now]

    def cancelled(self) -> list[OpenQuestion]:
        """Return what was cancelled and is still open."""
        return [each for each in self._open.values() if each.cancelled_until is not None]

    def clear(self) -> list[OpenQuestion]:
        """Return everything that is open, and forget it."""
        left = list(self._open.values())
        self._open.clear()
        self._held.clear()
        return left
