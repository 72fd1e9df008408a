"""A host whose methods are coroutines: several requests may be under way, and the host answers them in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from byleave.sdk import vfs_conversation as calls
from byleave.sdk import vfs_results as results
from byleave.sdk.vfs_conversation import HostInfo, ToolConversation, failure, state_of
from byleave.sdk.vfs_results import TimedOut, VfsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from byleave.sdk.vfs_conversation import Call, Content, Headers


class AsyncHost(HostInfo):
    """The host, many requests at a time. Each method is that of `vfs.Host`, as a coroutine, in one event loop.

    What is written is written at once: a large file holds the loop up until the host has taken it.
    """

    def __init__(self, talk: ToolConversation) -> None:
        super().__init__(talk)
        self.http = AsyncHttp(self)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._input: asyncio.Future[None] | None = None
        self._listening = False

    async def read(self, path: str) -> str:
        """Return the text of a file."""
        return results.read_text(await self.call(calls.read(path)), path)

    async def read_bytes(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return results.read_file(await self.call(calls.read(path)))

    async def write(self, path: str, content: str | bytes, *, exclusive: bool = False) -> None:
        """Make `content` the whole content of a file."""
        await self.call(calls.write(path, content, exclusive=exclusive))

    async def exists(self, path: str) -> bool:
        """Whether something is there."""
        return results.read_exists(await self.call(calls.exists(path)))

    async def list_dir(self, path: str = ".") -> results.Listing:
        """Return what a directory holds."""
        return results.read_listing(await self.call(calls.list_dir(path)))

    async def metadata(self, path: str) -> results.Metadata:
        """Return kind and size of what is there."""
        return results.read_metadata(await self.call(calls.metadata(path)))

    async def delete(self, path: str) -> None:
        """Remove a file."""
        await self.call(calls.delete(path))

    async def rename(self, source: str, target: str, *, exclusive: bool = False) -> None:
        """Move a file or a directory."""
        await self.call(calls.rename(source, target, exclusive=exclusive))

    async def grep(
        self,
        pattern: str,
        paths: Sequence[str] | None = None,
        extensions: Sequence[str] | None = None,
        context: int = 0,
    ) -> list[results.Match]:
        """Return where a regular expression matches."""
        return results.read_matches(await self.call(calls.grep(pattern, paths, extensions, context)))

    async def run(self, program: str, args: Sequence[str] = (), envs: Sequence[str] = ()) -> results.Completed:
        """Run a program on the host."""
        return results.read_completed(await self.call(calls.run(program, args, envs)))

    async def result(self, content: Content) -> None:
        """Say that the work is done."""
        self._talk.result(content)

    async def error(self, message: str, trace: Sequence[str] = (), *, transient: bool = False) -> None:
        """Say that the tool failed."""
        self._talk.error(message, trace, transient=transient)

    async def state(self, update: Mapping[str, Any]) -> None:
        """Say how a stateful tool stands."""
        self._talk.state(update)

    async def running(self, content: Content | None = None) -> None:
        """Say that a stateful tool is at work."""
        self._talk.state(state_of("running", content=content))

    async def waiting(self, question: Mapping[str, Any], content: Content | None = None) -> None:
        """Say that a stateful tool waits for an answer."""
        self._talk.state(state_of("waiting", content=content, question=question))

    async def stopped(
        self, result: Content = "", *, error: str | None = None, trace: Sequence[str] = (), transient: bool = False
    ) -> None:
        """Say that a stateful tool is done; or, with `error`, that it failed."""
        failed = None if error is None else failure(error, trace, transient=transient)
        self._talk.state(state_of("stopped", result=result if failed is None else None, error=failed))

    async def next_input(self) -> Any:
        """Wait for input to a stateful tool."""
        while not (given := self._talk.next_input()):
            self._input = asyncio.get_running_loop().create_future()
            await self._until(self._input, lambda: None)
        return given[0]

    async def ask(
        self, id_: str, text: str, *, options: Sequence[str] | None = None, default: str | None = None
    ) -> Any:
        """Return the user's answer to a question, or end the call with it."""
        return self._talk.answer_to(id_, text, {"options": options and list(options), "default": default})

    async def call(self, call: Call) -> Any:
        """Send any request of the protocol, and return the result as it came."""
        talk, loop = self._talk, asyncio.get_running_loop()
        id_ = talk.ask(call)
        answer = self._waiting[id_] = loop.create_future()
        try:
            await self._until(answer, talk.patience)
        except BaseException:  # also when the waiting task is cancelled
            self._waiting.pop(id_, None)
            if talk.owes(id_):
                talk.give_up(id_)
            raise
        return talk.collect(id_)

    async def _until(self, news: asyncio.Future[None], patience: Callable[[], float | None]) -> None:
        """Wait for `news`, hearing whatever the host says; TimedOut if it is silent for too long."""
        self._take_what_is_there()
        while not news.done():
            if self._listens():
                await asyncio.wait({news}, timeout=patience())
            else:
                self._hear(self._talk.wire.receive(patience()))
            if not news.done() and patience() == 0:
                raise TimedOut(f"the host said nothing for {self._talk.response_timeout:g} seconds")
        news.result()

    def _listens(self) -> bool:
        """Whether the loop calls back when something arrives; where it cannot, the waiting task reads."""
        number = self._talk.wire.fileno()
        if not self._listening and number is not None:
            try:
                asyncio.get_running_loop().add_reader(number, self._take_what_is_there)
            except PermissionError:  # a regular file: always ready, and epoll will not have it
                return False
            self._listening = True
        return self._listening

    def _take_what_is_there(self) -> None:
        while (data := self._talk.wire.receive(0)) is not None:
            self._hear(data)
            if not data:
                return

    def _hear(self, data: bytes | None) -> None:
        talk = self._talk
        talk.take(data)
        if data == b"" and self._listening:
            asyncio.get_running_loop().remove_reader(talk.wire.fileno() or 0)
        if talk.interrupted() and (self._waiting or self._input):
            self._wake_all(talk.interruption())
        for id_ in [id_ for id_ in self._waiting if talk.answered(id_)]:
            self._waiting.pop(id_).set_result(None)
        if self._input is not None and talk.has_input():
            self._input.set_result(None)
            self._input = None

    def _wake_all(self, error: VfsError) -> None:
        """Wake every waiting task: it is over. An answer that came before is still returned."""
        unanswered = [id_ for id_ in self._waiting if not self._talk.answered(id_)]
        waiting = [self._waiting.pop(id_) for id_ in unanswered]
        for id_ in unanswered:
            self._talk.forget(id_)
        waiting += [self._input] if self._input is not None else []
        self._input = None
        for each in waiting:
            if not each.done():
                each.set_exception(error)


class AsyncHttp:
    """Requests to servers, as coroutines."""

    def __init__(self, host: AsyncHost) -> None:
        self._host = host

    async def get(self, url: str, headers: Headers | None = None) -> results.HttpReply:
        """Fetch a URL."""
        return await self._send("get", url, headers, None)

    async def head(self, url: str, headers: Headers | None = None) -> results.HttpReply:
        """Fetch a URL without its body."""
        return await self._send("head", url, headers, None)

    async def post(self, url: str, body: str | bytes = "", headers: Headers | None = None) -> results.HttpReply:
        """Send a body to a URL."""
        return await self._send("post", url, headers, body)

    async def put(self, url: str, body: str | bytes = "", headers: Headers | None = None) -> results.HttpReply:
        """Put a body at a URL."""
        return await self._send("put", url, headers, body)

    async def patch(self, url: str, body: str | bytes = "", headers: Headers | None = None) -> results.HttpReply:
        """Change what is at a URL."""
        return await self._send("patch", url, headers, body)

    async def delete(
        self, url: str, headers: Headers | None = None, body: str | bytes | None = None
    ) -> results.HttpReply:
        """Remove what is at a URL."""
        return await self._send("delete", url, headers, body)

    async def _send(self, verb: str, url: str, headers: Headers | None, body: str | bytes | None) -> results.HttpReply:
        return results.read_reply(await self._host.call(calls.http(verb, url, headers, body)))
