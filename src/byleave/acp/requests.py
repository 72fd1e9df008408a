"""What the agent wants, of what we intercept: decoded strictly, so that we and the editor read the same. Sans-IO.

A name given twice, or one that differs from a known name only in case, is refused: another reader may take the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.protocol.json_fast import FAST
from byleave.protocol.jsonrpc import RepeatedNameError
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from byleave.protocol.jsonrpc import Envelope

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
    """A request for permission: the call it is about, as far as the request tells, and how it can be answered."""

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
    """Whether a request of the agent with this method is judged."""
    return method in (PERMISSION, TERMINAL) or method.startswith(FILES)


def passes_for_intercepted(method: str) -> bool:
    """Whether a lenient reader may take a method for one that is judged: in another case, with blanks or marks."""
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
