"""For authors of mediated tools: everything a tool needs from the world, it asks its host for.

    from byleave.sdk import vfs

    host = vfs.connect()                       # reads what the tool is to do; from now on prints go to stderr
    text = host.read("src/main.rs")            # waits for the answer; a refusal is an exception
    host.write("src/main.rs", text.upper())
    host.result("Modified src/main.rs.")

`connect_async` gives a host whose methods are coroutines, so that several requests can be under way. The protocol
itself, for other languages: docs/protocol.md. Functions as tools, with a schema: `sdk.tool`. Trying a tool out:
`sdk.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.sdk import vfs_conversation as calls
from byleave.sdk import vfs_results as results
from byleave.sdk.vfs_conversation import RESPONSE_TIMEOUT, HostInfo, ToolConversation, failure, pipe_of, state_of
from byleave.sdk.vfs_results import (
    AccessDenied,
    AlreadyExists,
    Cancelled,
    Completed,
    Entry,
    HostGone,
    HttpReply,
    InvalidParams,
    InvalidRequest,
    Line,
    Listing,
    Match,
    Metadata,
    MethodNotFound,
    NotFound,
    NotText,
    ProtocolError,
    QuestionAsked,
    TimedOut,
    TooLarge,
    VfsError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from byleave.sdk.vfs_async import AsyncHost
    from byleave.sdk.vfs_conversation import Call, Content, Headers, Stream

__all__ = [
    "RESPONSE_TIMEOUT",
    "AccessDenied",
    "AlreadyExists",
    "Cancelled",
    "Completed",
    "Entry",
    "Host",
    "HostGone",
    "HttpReply",
    "InvalidParams",
    "InvalidRequest",
    "Line",
    "Listing",
    "Match",
    "Metadata",
    "MethodNotFound",
    "NotFound",
    "NotText",
    "ProtocolError",
    "QuestionAsked",
    "TimedOut",
    "TooLarge",
    "VfsError",
    "connect",
    "connect_async",
]


def connect(
    stdin: Stream | None = None,
    stdout: Stream | None = None,
    *,
    response_timeout: float | None = RESPONSE_TIMEOUT,
) -> Host:
    """Return the host that started this tool, after reading from it what is to be done.

    Without streams these are the process's own, which then belong to the conversation: what the tool prints goes to
    stderr, and what it reads is empty. HostGone if there is no host, ProtocolError if it does not speak this protocol.
    """
    return Host(ToolConversation(pipe_of(stdin, stdout), response_timeout=response_timeout))


async def connect_async(
    stdin: Stream | None = None,
    stdout: Stream | None = None,
    *,
    response_timeout: float | None = RESPONSE_TIMEOUT,
) -> AsyncHost:
    """Return the host that started this tool, as `connect` does, with coroutines for methods."""
    from byleave.sdk.vfs_async import AsyncHost  # loads asyncio

    return AsyncHost(ToolConversation(pipe_of(stdin, stdout), response_timeout=response_timeout))


class Host(HostInfo):
    """The host, one request at a time: each method waits for its answer, and raises a VfsError if it is a refusal.

    Paths are relative to the project. When the host wants the tool to stop, the call that waits raises Cancelled; once,
    so that the tool can tidy up.
    """

    def __init__(self, talk: ToolConversation) -> None:
        super().__init__(talk)
        self.http = Http(self)

    def read(self, path: str) -> str:
        """Return the text of a file; NotText if it is not UTF-8."""
        return results.read_text(self.call(calls.read(path)), path)

    def read_bytes(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return results.read_file(self.call(calls.read(path)))

    def write(self, path: str, content: str | bytes, *, exclusive: bool = False) -> None:
        """Make `content` the whole content of a file, and directories above it. `exclusive`: AlreadyExists if there."""
        self.call(calls.write(path, content, exclusive=exclusive))

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        return results.read_exists(self.call(calls.exists(path)))

    def list_dir(self, path: str = ".") -> Listing:
        """Return what a directory holds; what the tool may not read is left out, and counted."""
        return results.read_listing(self.call(calls.list_dir(path)))

    def metadata(self, path: str) -> Metadata:
        """Return kind and size of what is there."""
        return results.read_metadata(self.call(calls.metadata(path)))

    def delete(self, path: str) -> None:
        """Remove a file."""
        self.call(calls.delete(path))

    def rename(self, source: str, target: str, *, exclusive: bool = False) -> None:
        """Move a file or a directory; a file that is at the target is replaced, a directory is AlreadyExists.

        With `exclusive`, whatever is there is AlreadyExists.
        """
        self.call(calls.rename(source, target, exclusive=exclusive))

    def grep(
        self,
        pattern: str,
        paths: Sequence[str] | None = None,
        extensions: Sequence[str] | None = None,
        context: int = 0,
    ) -> list[Match]:
        """Return where a regular expression matches: in these paths, in files with these extensions; None means all."""
        return results.read_matches(self.call(calls.grep(pattern, paths, extensions, context)))

    def run(self, program: str, args: Sequence[str] = (), envs: Sequence[str] = ()) -> Completed:
        """Run a program on the host, in the project's root, with nothing to read. `envs`: variables to pass on."""
        return results.read_completed(self.call(calls.run(program, args, envs)))

    def result(self, content: Content) -> None:
        """Say that the work is done: a text, or a list of content blocks. Nothing can be said after it."""
        self._talk.result(content)

    def error(self, message: str, trace: Sequence[str] = (), *, transient: bool = False) -> None:
        """Say that the tool failed. `transient`: trying again may help. Nothing can be said after it."""
        self._talk.error(message, trace, transient=transient)

    def state(self, update: Mapping[str, Any]) -> None:
        """Say how a stateful tool stands, as the protocol writes it."""
        self._talk.state(update)

    def running(self, content: Content | None = None) -> None:
        """Say that a stateful tool is at work, and what there is to show."""
        self.state(state_of("running", content=content))

    def waiting(self, question: Mapping[str, Any], content: Content | None = None) -> None:
        """Say that a stateful tool waits for an answer; a question has an `id` and a `text`. Then: `next_input`."""
        self.state(state_of("waiting", content=content, question=question))

    def stopped(
        self,
        result: Content = "",
        *,
        error: str | None = None,
        trace: Sequence[str] = (),
        transient: bool = False,
    ) -> None:
        """Say that a stateful tool is done; or, with `error`, that it failed. Nothing can be said after it."""
        if error is None:
            self.state(state_of("stopped", result=result))
        else:
            self.state(state_of("stopped", error=failure(error, trace, transient=transient)))

    def next_input(self) -> Any:
        """Wait for input to a stateful tool, or for the answer to its question, for as long as it takes."""
        while not (given := self._talk.next_input()):
            self._talk.take(self._talk.wire.receive(None))
        return given[0]

    def ask(self, id_: str, text: str, *, options: Sequence[str] | None = None, default: str | None = None) -> Any:
        """Return the user's answer to a question. If there is none yet the call ends here, with the question.

        The tool is then started anew with the answer; whatever it did before it asked, it will do again.
        """
        return self._talk.answer_to(id_, text, {"options": options and list(options), "default": default})

    def call(self, call: Call) -> Any:
        """Send any request of the protocol, and return the result as it came."""
        talk = self._talk
        id_ = talk.ask(call)
        while not talk.answered(id_):
            talk.take(talk.wire.receive(talk.patience()))
            if talk.owes(id_) and talk.patience() == 0:
                talk.give_up(id_)
                raise TimedOut(f"the host said nothing for {talk.response_timeout:g} seconds")
            if talk.owes(id_) and talk.interrupted():
                talk.forget(id_)
                raise talk.interruption()
        return talk.collect(id_)


class Http:
    """Requests to servers, made by the host. `${NAME}` in the value of a header stands for a variable of the host's."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def get(self, url: str, headers: Headers | None = None) -> HttpReply:
        """Fetch a URL."""
        return self._send("get", url, headers, None)

    def head(self, url: str, headers: Headers | None = None) -> HttpReply:
        """Fetch a URL without its body."""
        return self._send("head", url, headers, None)

    def post(self, url: str, body: str | bytes = "", headers: Headers | None = None) -> HttpReply:
        """Send a body to a URL."""
        return self._send("post", url, headers, body)

    def put(self, url: str, body: str | bytes = "", headers: Headers | None = None) -> HttpReply:
        """Put a body at a URL."""
        return self._send("put", url, headers, body)

    def patch(self, url: str, body: str | bytes = "", headers: Headers | None = None) -> HttpReply:
        """Change what is at a URL."""
        return self._send("patch", url, headers, body)

    def delete(self, url: str, headers: Headers | None = None, body: str | bytes | None = None) -> HttpReply:
        """Remove what is at a URL."""
        return self._send("delete", url, headers, body)

    def _send(self, verb: str, url: str, headers: Headers | None, body: str | bytes | None) -> HttpReply:
        return results.read_reply(self._host.call(calls.http(verb, url, headers, body)))
