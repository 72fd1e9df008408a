"""The conversation between the host and a mediated tool, for both roles. Sans-IO: bytes in, events out.

The tool asks, the host answers: `HostSide` is the host's, `ToolSide` the tool's. Neither owns a pipe, a task or a
clock. What may be said when is a table for each; what does not fit is answered (host) or refused (tool), and nothing
that is said after the end is heard.

The messages are described in docs/protocol.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.protocol.content import STOPPED, ToolFailure, Update, read_content, read_failure, read_update
from byleave.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Codec,
    Malformed,
    Notification,
    Request,
    Response,
    is_blank,
    read_message,
    write_error,
    write_notification,
    write_request,
    write_result,
)
from byleave.protocol.lines import LineBuffer, TooLong
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from byleave.protocol import jsonrpc
    from byleave.protocol.jsonrpc import Message

    Id = jsonrpc.Id

PROTOCOL_VERSION = "0.1.0"
LONGEST_LINE = 64 << 20  # bytes: a file of 10 MB, every byte of it a six-letter escape, and some room

_SHOWN = 80  # bytes of a line that is no message, for people
# Where a conversation stands.
SILENT, TALKING, OVER = "silent", "talking", "over"

_FILES = ("read", "write", "exists", "list_dir", "metadata", "delete", "rename", "grep")
_VERBS = ("get", "post", "put", "patch", "delete", "head")
ALIASES = {name: f"fs.{name}" for name in _FILES}  # as in the first example of the protocol's draft
METHODS = (*ALIASES.values(), *(f"http.{verb}" for verb in _VERBS), "process.run")


class ToolRequest(Record):
    """A request of the tool's. `params` is always an object."""

    id: Id
    method: str
    params: Mapping[str, Any]


class RequestCancelled(Record):
    """The tool cancels one of its requests: it does not need the answer any more.

    `asked` is the id of the cancellation, if the tool sent it as a request that needs an answer itself.
    """

    id: Id
    asked: Id | None = None


class BadMessage(Record):
    """A line of the tool that is no message; `reply` is the error to send back. `line` is its beginning."""

    reply: bytes
    line: bytes = b""


class Finished(Record):
    """The tool has done its work."""

    content: list[dict[str, Any]]


class Failed(Record):
    """The tool says that it failed."""

    failure: ToolFailure


class StateChanged(Record):
    """A stateful tool says how it stands."""

    update: Update


ToolMessage = ToolRequest | RequestCancelled | BadMessage | Finished | Failed | StateChanged

# What the tool may send, and where the conversation stands then. What is not here is ignored.
NEXT_OF_HOST: dict[tuple[str, type], str] = {
    (TALKING, ToolRequest): TALKING,
    (TALKING, RequestCancelled): TALKING,
    (TALKING, BadMessage): TALKING,
    (TALKING, StateChanged): TALKING,
    (TALKING, Finished): OVER,
    (TALKING, Failed): OVER,
}


class HostSide:
    """The host's part. Feed it what the tool wrote; write what its methods return."""

    def __init__(self, codec: Codec, *, limit: int = LONGEST_LINE) -> None:
        self.state = SILENT
        self._codec = codec
        self._lines = LineBuffer(limit=limit)

    def receive(self, data: bytes) -> Iterator[ToolMessage]:
        """Yield what the tool said. Nothing after its result or error, however much more there is."""
        for line in self._lines.feed(data):
            heard = None if self.state == OVER else self._heard(line)
            if heard is not None:
                yield heard

    def end(self) -> Iterator[ToolMessage]:
        """Yield what a last line says that has no newline: the tool has closed its output."""
        for line in self._lines.finish():
            heard = None if self.state == OVER else self._heard(line)
            if heard is not None:
                yield heard

    def _heard(self, line: bytes | TooLong) -> ToolMessage | None:
        if is_blank(line):
            return None
        heard = self._understood(read_message(line, self._codec))
        if heard is None:
            return None
        following = NEXT_OF_HOST.get((self.state, type(heard)))
        if following is None:
            return None
        if isinstance(heard, BadMessage) and not isinstance(line, TooLong):
            heard = heard.replace(line=line[:_SHOWN])
        ended = isinstance(heard, StateChanged) and heard.update.type == STOPPED
        self.state = OVER if ended else following
        return heard

    def _understood(self, message: Message) -> ToolMessage | None:
        if isinstance(message, Malformed):
            data = None if message.limit is None else {"limit": message.limit}
            number = message.number if message.number == INVALID_PARAMS else INVALID_REQUEST
            return self._bad(message.id, message.problem, number, data)
        if isinstance(message, Response):
            return self._bad(message.id, "the host asked nothing")
        if isinstance(message, Request):
            return self._request(message)
        return self._notice(message)

    def _request(self, message: Request) -> ToolMessage:
        if message.method == "cancel":
            found = self._gives_up(message.params)
            if found is None:
                return self._bad(message.id, "cancel names a request_id", INVALID_PARAMS)
            return RequestCancelled(found.id, message.id)
        if message.method in _FINAL:
            return self._bad(message.id, f"{message.method} is a notification: it has no id")
        if isinstance(message.params, list):
            return self._bad(message.id, "params are an object here", INVALID_PARAMS)
        return ToolRequest(message.id, ALIASES.get(message.method, message.method), message.params or {})

    def _notice(self, message: Notification) -> ToolMessage | None:
        params = message.params if isinstance(message.params, dict) else {}
        if message.method == "cancel":
            return self._gives_up(params) or self._bad(None, "cancel names a request_id", INVALID_PARAMS)
        if message.method in _FINAL:
            return _FINAL[message.method](params) or self._bad(
                None, f"the {message.method} cannot be read", INVALID_PARAMS
            )
        if message.method in METHODS or message.method in ALIASES:
            return self._bad(None, "a request has an id")
        return None

    @staticmethod
    def _gives_up(params: Any) -> RequestCancelled | None:
        named = params if isinstance(params, dict) else {}
        id_ = named.get("request_id", named.get("id"))
        return RequestCancelled(id_) if isinstance(id_, int | str) and not isinstance(id_, bool) else None

    def _bad(self, id_: Id | None, problem: str, number: int = INVALID_REQUEST, data: Any = None) -> BadMessage:
        return BadMessage(write_error(self._codec, id_, number, problem, data))

    def init(self, tool: Mapping[str, Any], context: Mapping[str, Any], methods: Sequence[str]) -> bytes:
        """Return the first line: what the tool is to do, and what it may ask for."""
        self.state = TALKING
        params = {"tool": tool, "protocol_version": PROTOCOL_VERSION, "methods": list(methods), "context": context}
        return write_notification(self._codec, "init", params)

    def answer(self, id_: Id, result: Any) -> bytes:
        """Return the line that answers a request."""
        return write_result(self._codec, id_, result)

    def refuse(self, id_: Id, number: int, message: str, data: Any = None) -> bytes:
        """Return the line that says why a request was not done."""
        return write_error(self._codec, id_, number, message, data)

    def pending(self, id_: Id, reason: str) -> bytes:
        """Return the line that says why an answer takes its time."""
        return write_notification(self._codec, "pending", {"request_id": id_, "reason": reason})

    def cancel(self) -> bytes:
        """Return the line that asks the tool to stop."""
        return write_notification(self._codec, "cancel")

    def apply(self, given: Any) -> bytes:
        """Return the line that carries input, or the answer to a question, to a stateful tool."""
        return write_notification(self._codec, "apply", {"input": given})


def _finished(params: Mapping[str, Any]) -> ToolMessage | None:
    content = read_content(params.get("content"))
    return None if content is None else Finished(content)


def _failed(params: Mapping[str, Any]) -> ToolMessage:
    return Failed(read_failure(params))


def _changed(params: Mapping[str, Any]) -> ToolMessage | None:
    update = read_update(params)
    return None if update is None else StateChanged(update)


_FINAL: dict[str, Callable[[Mapping[str, Any]], ToolMessage | None]] = {
    "result": _finished,
    "error": _failed,
    "state": _changed,
}


class Init(Record):
    """What a tool is to do: its name, the arguments of this call, answers to its questions, and its options."""

    name: str
    arguments: Mapping[str, Any]
    answers: Mapping[str, Any]
    options: Mapping[str, Any]
    protocol_version: str
    methods: tuple[str, ...] = ()
    context: Mapping[str, Any] | None = None


class RequestAnswered(Record):
    id: Id | None
    result: Any


class RequestRefused(Record):
    """A request was not done: the protocol's number, and a sentence."""

    id: Id | None
    number: int
    message: str
    data: Any = None


class PendingNotice(Record):
    """An answer takes its time, because a person is being asked."""

    id: Any
    reason: str


class CancelNotice(Record):
    """The host wants the tool to stop."""


class Applied(Record):
    input: Any


class Wrong(Record):
    """The host said something that the protocol does not have."""

    problem: str


HostMessage = Init | RequestAnswered | RequestRefused | PendingNotice | CancelNotice | Applied | Wrong

NEXT_OF_TOOL: dict[tuple[str, type], str] = {
    (SILENT, Init): TALKING,
    (SILENT, CancelNotice): SILENT,
    (TALKING, RequestAnswered): TALKING,
    (TALKING, RequestRefused): TALKING,
    (TALKING, PendingNotice): TALKING,
    (TALKING, CancelNotice): TALKING,
    (TALKING, Applied): TALKING,
}


class ToolSide:
    """The tool's part. Feed it what the host wrote; write what its methods return."""

    def __init__(self, codec: Codec, *, limit: int = LONGEST_LINE) -> None:
        self.state = SILENT
        self._codec = codec
        self._lines = LineBuffer(limit=limit)
        self._last = 0

    def receive(self, data: bytes) -> Iterator[HostMessage]:
        """Yield what the host said. What it should not say is a `Wrong`; notices we do not know are passed over."""
        for line in self._lines.feed(data):
            message = None if self.state == OVER or is_blank(line) else _host_message(read_message(line, self._codec))
            if message is not None:
                yield self._entered(message)

    def _entered(self, message: HostMessage) -> HostMessage:
        if isinstance(message, Wrong):
            return message
        following = NEXT_OF_TOOL.get((self.state, type(message)))
        if following is None:
            return Wrong(f"the host sent {type(message).__name__.lower()} while the conversation was {self.state}")
        self.state = following
        return message

    def request(self, method: str, params: Mapping[str, Any]) -> tuple[int, bytes]:
        """Return the id of a new request, and its line."""
        self._last += 1
        return self._last, write_request(self._codec, self._last, method, params)

    def give_up(self, id_: Id) -> bytes:
        """Return the line that says that an answer is not needed any more."""
        return write_notification(self._codec, "cancel", {"request_id": id_})

    def result(self, content: Any) -> bytes:
        """Return the last line of a tool that did its work; what cannot be written is an error, and ends nothing."""
        line = write_notification(self._codec, "result", {"content": content})
        self.state = OVER
        return line

    def error(self, message: str, trace: Sequence[str] = (), *, transient: bool = False) -> bytes:
        """Return the last line of a tool that failed."""
        params = {"message": message, "trace": list(trace), "transient": transient}
        line = write_notification(self._codec, "error", params)
        self.state = OVER
        return line

    def update(self, update: Mapping[str, Any]) -> bytes:
        """Return the line that says how a stateful tool stands."""
        line = write_notification(self._codec, "state", update)
        self.state = OVER if update.get("type") == STOPPED else self.state
        return line


def _host_message(message: Message) -> HostMessage | None:
    if isinstance(message, Malformed):
        return Wrong(message.problem)
    if isinstance(message, Response):
        error = message.error
        if error is None:
            return RequestAnswered(message.id, message.result)
        return RequestRefused(message.id, error["code"], error["message"], error.get("data"))
    if isinstance(message, Request):
        return Wrong("the host asked the tool something")
    read = _NOTICES.get(message.method)
    return None if read is None else read(message.params if isinstance(message.params, dict) else {})


def _init(params: Mapping[str, Any]) -> HostMessage:
    tool = params.get("tool")
    tables = [tool.get(name, {}) for name in ("arguments", "answers", "options")] if isinstance(tool, dict) else []
    if (
        not isinstance(tool, dict)
        or not isinstance(tool.get("name"), str)
        or not all(isinstance(t, dict) for t in tables)
    ):
        return Wrong("init names no tool")
    methods, context = params.get("methods"), params.get("context")
    arguments, answers, options = tables
    return Init(
        tool["name"],
        arguments,
        answers,
        options,
        str(params.get("protocol_version", "")),
        tuple(str(name) for name in methods) if isinstance(methods, list) else (),
        context if isinstance(context, dict) else None,
    )


def _pending(params: Mapping[str, Any]) -> HostMessage:
    return PendingNotice(params.get("request_id"), str(params.get("reason", "")))


_NOTICES: dict[str, Callable[[Mapping[str, Any]], HostMessage]] = {
    "init": _init,
    "pending": _pending,
    "cancel": lambda _params: CancelNotice(),
    "apply": lambda params: Applied(params.get("input")),
}
