"""A tool's end of the conversation: what it has heard, what it has asked, and what it says of itself.

Shared by the host that blocks (`vfs.Host`) and the one that does not (`vfs_async.AsyncHost`). It waits for nothing.

What every host has, whichever way it waits: the call that the tool was started for.

The requests of the protocol: for each, its method and its parameters. What they answer is read by `vfs_results`.

The two pipes between a tool and its host, and how a tool keeps its own prints out of them.
"""

from __future__ import annotations

import os
import select
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from byleave.protocol.content import read_content, read_update
from byleave.protocol.json_codec import PLAIN
from byleave.protocol.vfs import (
    OVER,
    Applied,
    CancelNotice,
    Init,
    PendingNotice,
    RequestAnswered,
    RequestRefused,
    ToolSide,
    Wrong,
)
from byleave.sdk.vfs_results import (
    Cancelled,
    HostGone,
    ProtocolError,
    QuestionAsked,
    VfsError,
    carry,
    error_for,
    speakable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from byleave.protocol.vfs import HostMessage, Id

    Block = dict[str, Any]
    Content = str | list[Block]
    Headers = Mapping[str, str] | Sequence[tuple[str, str]]

    Call = tuple[str, dict[str, Any]]

    Stream = int | BinaryIO


class Wire(Protocol):
    """Where the bytes go and come from."""

    def fileno(self) -> int | None: ...

    def send(self, data: bytes) -> None: ...

    def receive(self, timeout: float | None) -> bytes | None: ...


RESPONSE_TIMEOUT = 30.0  # seconds of silence, as the protocol's draft has it
_GONE = "the host is gone: it has closed the connection"


class ToolConversation:
    """One conversation over one wire, begun: `init` has been heard.

    `response_timeout` is how long the host may be silent while it owes us an answer; None: as long as it likes.
    """

    def __init__(self, wire: Wire, *, response_timeout: float | None = RESPONSE_TIMEOUT) -> None:
        self.response_timeout = response_timeout
        self.wire = wire
        self._side = ToolSide(PLAIN)
        self._init: Init | None = None
        self._answers: dict[Id, RequestAnswered | RequestRefused] = {}
        self._owed: set[Id] = set()
        self._asking: set[Id] = set()  # requests for which a person is being asked
        self._inputs: list[Any] = []
        self._stop = False  # the host has sent cancel, and the tool has not been interrupted yet
        self._trouble: VfsError | None = None
        self._heard_at = monotonic()
        self.cancelled = False
        while self._init is None:
            self.take(wire.receive(None))

    @property
    def init(self) -> Init:
        """What the host said first."""
        if self._init is None:
            raise ProtocolError("the host has not said what to do yet")
        return self._init

    @property
    def over(self) -> bool:
        """Whether the tool has given its result."""
        return self._side.state == OVER

    def ask(self, call: tuple[str, Mapping[str, Any]]) -> int:
        """Send a request; return the id under which its answer will come. Nothing is sent after a cancel."""
        self._must_talk()
        if self.interrupted():
            raise self.interruption()
        id_, line = self._side.request(*call)
        self._owed.add(id_)
        self._heard_at = monotonic()
        self.wire.send(line)
        return id_

    def answered(self, id_: int) -> bool:
        """Whether the answer has come."""
        return id_ in self._answers

    def owes(self, id_: int) -> bool:
        """Whether the host still owes us this answer."""
        return id_ in self._owed

    def collect(self, id_: int) -> Any:
        """Return the result that came; raise the refusal that came instead."""
        answer = self._answers.pop(id_)
        if isinstance(answer, RequestRefused):
            raise error_for(answer.number, answer.message, answer.data)
        return answer.result

    def interrupted(self) -> bool:
        """Whether every waiting caller has to be woken."""
        return self._stop or self._trouble is not None

    def interruption(self) -> VfsError:
        """Return why waiting makes no sense any more. It is reported once; only a host that is gone stays gone."""
        if self._stop:
            self._stop = False
            return Cancelled("the host asks the tool to stop")
        trouble = self._trouble or ProtocolError("nothing happened")
        if not isinstance(trouble, HostGone):
            self._trouble = None
        return trouble

    def has_input(self) -> bool:
        """Whether some input has not been taken yet."""
        return bool(self._inputs)

    def next_input(self) -> tuple[Any, ...]:
        """Return the oldest input in a tuple of one, or an empty one; raise if no more will come."""
        if self._inputs:
            return (self._inputs.pop(0),)
        if self.interrupted():
            raise self.interruption()
        return ()

    def patience(self) -> float | None:
        """Return for how many more seconds the host may be silent; None while a person is being asked."""
        if self.response_timeout is None or self._asking:
            return None
        return max(0.0, self._heard_at + self.response_timeout - monotonic())

    def give_up(self, id_: int) -> None:
        """Cancel a request; an answer that still comes is dropped."""
        self.forget(id_)
        self.wire.send(self._side.give_up(id_))

    def forget(self, id_: Id) -> None:
        """Expect no answer to this any more."""
        self._owed.discard(id_)
        self._asking.discard(id_)

    def take(self, data: bytes | None) -> None:
        """Note what arrived; no bytes mean that the host is gone, None that nothing did."""
        if data is None:
            return
        if not data:
            self._trouble = HostGone(_GONE)
            if self._init is None:
                raise self._trouble
        self._heard_at = monotonic()
        for message in self._side.receive(data):
            self._note(message)

    def _note(self, message: HostMessage) -> None:
        if isinstance(message, RequestAnswered | RequestRefused):
            self._note_answer(message)
        elif isinstance(message, PendingNotice):
            self._asking |= {message.id} & self._owed
        elif isinstance(message, CancelNotice):
            self.cancelled = self._stop = True
        elif isinstance(message, Applied):
            self._inputs.append(message.input)
        elif isinstance(message, Init):
            self._init = message
        else:
            self._note_wrong(message)

    def _note_answer(self, message: RequestAnswered | RequestRefused) -> None:
        if message.id is None and isinstance(message, RequestRefused):  # something we wrote was no message
            problem = f"the host cannot read a line of this tool: {message.message}; was it printed before connect?"
            self._trouble = error_for(message.number, problem, message.data)
        elif message.id is not None and message.id in self._owed:
            self.forget(message.id)
            self._answers[message.id] = message

    def _note_wrong(self, message: Wrong) -> None:
        if self._init is None:
            hint = 'a tool that connects is configured with runtime = "vfs"'
            raise ProtocolError(f"this is not how a host begins ({message.problem}); {hint}")
        self._trouble = ProtocolError(message.problem)

    def _must_talk(self) -> None:
        if self.over:
            raise ProtocolError("the tool has given its result already; nothing can be said after it")

    def result(self, content: Content) -> None:
        """Say that the work is done."""
        self._must_talk()
        if read_content(content) is None:
            raise TypeError("a result is a text, or a list of content blocks; see docs/protocol.md")
        self.wire.send(self._side.result(speakable(content)))

    def error(self, message: str, trace: Sequence[str], *, transient: bool) -> None:
        """Say that the tool failed."""
        self._must_talk()
        self.wire.send(self._side.error(speakable(message), speakable(trace), transient=transient))

    def state(self, update: Mapping[str, Any]) -> None:
        """Say how a stateful tool stands."""
        self._must_talk()
        if read_update(update) is None:
            raise TypeError("a state is running, waiting with a question, or stopped; see docs/protocol.md")
        self.wire.send(self._side.update(speakable(dict(update))))

    def answer_to(self, id_: str, text: str, more: Mapping[str, Any]) -> Any:
        """Return the user's answer; without one, end with the question."""
        if id_ in self.init.answers:
            return self.init.answers[id_]
        said = {name: value for name, value in more.items() if value is not None}
        self.result([{"type": "question", "id": id_, "text": text, **said}])
        raise QuestionAsked(id_)


def state_of(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a state as the protocol writes it: what is None is left out."""
    return {"type": kind, **{name: value for name, value in fields.items() if value is not None}}


def failure(message: str, trace: Sequence[str], *, transient: bool) -> dict[str, Any]:
    """Return the error of a state."""
    return {"message": message, "trace": list(trace), "transient": transient}


class HostInfo:
    """The call as the host described it."""

    def __init__(self, talk: ToolConversation) -> None:
        self._talk = talk

    @property
    def name(self) -> str:
        """The tool's name, as it is configured."""
        return self._talk.init.name

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of this call."""
        return self._talk.init.arguments

    @property
    def answers(self) -> Mapping[str, Any]:
        """What the user answered to questions of earlier calls, under the ids of the questions."""
        return self._talk.init.answers

    @property
    def options(self) -> Mapping[str, Any]:
        """The tool's own options, from its configuration."""
        return self._talk.init.options

    @property
    def context(self) -> Mapping[str, Any]:
        """The root, the action and the access, as the host wrote them; empty if it did not."""
        return self._talk.init.context or {}

    @property
    def action(self) -> str:
        """What the tool is called for: `run`, or `format_arguments`."""
        return str(self.context.get("action", "run"))

    @property
    def methods(self) -> tuple[str, ...]:
        """What this host serves; empty if it does not say."""
        return self._talk.init.methods

    @property
    def protocol_version(self) -> str:
        """The version of the protocol that the host speaks."""
        return self._talk.init.protocol_version

    @property
    def ended(self) -> bool:
        """Whether the result has been given."""
        return self._talk.over

    @property
    def cancelled(self) -> bool:
        """Whether the host wants the tool to stop. Looks, and does not wait: good for long calculations."""
        if not self._talk.cancelled:
            self._talk.take(self._talk.wire.receive(0))
        return self._talk.cancelled


def read(path: str) -> Call:
    """Ask for the content of a file."""
    return "fs.read", _place("path", path)


def write(path: str, content: str | bytes, *, exclusive: bool) -> Call:
    """Ask for a file to hold this content."""
    text, encoding = carry(content)
    params: dict[str, Any] = {**_place("path", path), "content": text}
    if encoding is not None:
        params["encoding"] = encoding
    if exclusive:
        params["exclusive"] = True
    return "fs.write", params


def exists(path: str) -> Call:
    """Ask whether something is there."""
    return "fs.exists", _place("path", path)


def list_dir(path: str) -> Call:
    """Ask what a directory holds."""
    return "fs.list_dir", _place("path", path)


def metadata(path: str) -> Call:
    """Ask what is there."""
    return "fs.metadata", _place("path", path)


def delete(path: str) -> Call:
    """Ask for a file to be removed."""
    return "fs.delete", _place("path", path)


def rename(source: str, target: str, *, exclusive: bool = False) -> Call:
    """Ask for a file or a directory to be moved."""
    params = {**_place("from", source), **_place("to", target)}
    return "fs.rename", {**params, "exclusive": True} if exclusive else params


def grep(pattern: str, paths: Sequence[str] | None, extensions: Sequence[str] | None, context: int) -> Call:
    """Ask where a pattern occurs."""
    params: dict[str, Any] = {"pattern": pattern, "context": context}
    if paths is not None:
        params["paths"] = list(paths)
    if extensions is not None:
        params["extensions"] = list(extensions)
    return "fs.grep", params


def http(verb: str, url: str, headers: Headers | None, body: str | bytes | None) -> Call:
    """Ask for a request to a server."""
    params: dict[str, Any] = {"url": url}
    if headers:
        pairs = headers.items() if hasattr(headers, "items") else headers
        params["headers"] = [{"name": name, "value": value} for name, value in pairs]
    if body is not None:
        params["body"], encoding = carry(body)
        if encoding is not None:
            params["encoding"] = encoding
    return f"http.{verb}", params


def run(program: str, args: Sequence[str], envs: Sequence[str]) -> Call:
    """Ask for a program to be run."""
    return "process.run", {"program": program, "args": list(args), "envs": list(envs)}


def _place(name: str, path: str) -> dict[str, Any]:
    """Return a path as it travels: one that is not UTF-8, as `list_dir` gives it, by its bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return {f"{name}_b64": carry(path.encode(errors="surrogateescape"))[0]}
    return {name: path}


_PIECE = 1 << 16  # bytes: what a pipe holds on Linux
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class Pipe:
    """What comes from the host and what goes to it. While it writes it also reads, so neither waits for the other."""

    def __init__(self, incoming: int, outgoing: int, *, arrived: bytes = b"") -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._arrived = [arrived] if arrived else []
        self._ended = False

    def fileno(self) -> int | None:
        """Return the descriptor that becomes readable when the host says something."""
        return self._incoming

    def send(self, data: bytes) -> None:
        """Write all of it. What arrives meanwhile is kept for `receive`."""
        rest = memoryview(data)
        try:
            while rest:
                if self._has_room():  # then so much never blocks
                    rest = rest[os.write(self._outgoing, rest[: select.PIPE_BUF]) :]
        except OSError:
            raise HostGone("the host has closed its end of the conversation") from None

    def receive(self, timeout: float | None) -> bytes | None:
        """Return what arrived; None if nothing did in `timeout` seconds, and no bytes at the end."""
        if not self._arrived and not self._ended and not self._poll(timeout):
            return None
        return self._arrived.pop(0) if self._arrived else b""

    def _poll(self, timeout: float | None) -> bool:
        poller = select.poll()
        poller.register(self._incoming, select.POLLIN)
        if not poller.poll(None if timeout is None else max(0.0, timeout) * 1000):
            return False
        self._take()
        return True

    def _take(self) -> None:
        data = os.read(self._incoming, _PIECE)
        if data:
            self._arrived.append(data)
        else:
            self._ended = True

    def _has_room(self) -> bool:
        """Wait until the host takes something or says something; whether it takes something."""
        poller = select.poll()
        poller.register(self._outgoing, select.POLLOUT)
        if not self._ended:
            poller.register(self._incoming, select.POLLIN)
        events = dict(poller.poll())
        if events.get(self._incoming, 0) & _READABLE:
            self._take()
        return self._outgoing in events


def take_over(*, arrived: bytes = b"") -> Pipe:
    """Make the process's own input and output the conversation, and keep all other code of the process out of it.

    `arrived` has been read from the input already.
    From now on what the program prints goes to stderr, and what it reads is empty; so do the programs it starts.
    """
    incoming, outgoing = os.dup(0), os.dup(1)  # not inherited by children: os.dup sees to that
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return Pipe(incoming, outgoing, arrived=arrived)


def pipe_of(stdin: Stream | None, stdout: Stream | None) -> Pipe:
    """Return the pipe over these streams; over the process's own where both are None."""
    if stdin is None and stdout is None:
        if os.isatty(0):
            raise ProtocolError("this is a tool, which byleave starts and talks to: try `byleave call`")
        return take_over()
    return Pipe(_number(stdin, 0), _number(stdout, 1))


def _number(stream: Stream | None, default: int) -> int:
    if stream is None:
        return default
    return stream if isinstance(stream, int) else stream.fileno()
