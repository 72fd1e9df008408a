"""The front on standard input and output: one client, one message a line.

Every request is worked on beside the others. When the client closes its end, what it asked for is still answered, if
that does not take long.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from byleave.gateway.interfaces import MessageContext
from byleave.gateway.message import NO_ID, encode, error_parts, error_tree
from byleave.protocol.json_members import leading_members
from byleave.protocol.jsonrpc import INVALID_REQUEST, is_id
from byleave.protocol.lines import LineBuffer, TooLong

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from byleave.gateway.interfaces import Conversation

_PIECE = 1 << 18
_BLANKS = b" \t\r"
_MOST_OPEN = 1000  # messages that are worked on at once; then the client waits
LONGEST_UNREAD = 60.0  # seconds for which a client may read nothing while something waits for it; then it is gone
LAST_ANSWERS = 10.0  # seconds for what is open when the client has closed its end


class Lines:
    """The client's end of the pipe. Writing waits for a client that does not read; nothing else does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = asyncio.Lock()
        self._open = True
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # the client reads no longer
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):  # where we learn that its reader goes
            asyncio.get_running_loop().add_reader(descriptor, self._break)

    def _break(self) -> None:
        self._open = False
        asyncio.get_running_loop().remove_reader(self._descriptor)
        _set(self.broken)

    async def send(self, *parts: bytes) -> bool:
        """Write one message as one line; return whether the client reads."""
        if not self._open:
            return False
        line = memoryview(b"".join([*parts, b"\n"]))
        async with self._lock:
            try:
                await self._write(line)
            except OSError:
                self._break()
        return self._open

    async def answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:
        """Write the answer to a request."""
        del status, scopes  # there are none on a pipe
        await self.send(*parts)

    def is_open(self) -> bool:
        """Return whether the client still reads."""
        return self._open

    async def _write(self, line: memoryview) -> None:
        while line:
            try:
                line = line[os.write(self._descriptor, line) :]
            except BlockingIOError:
                await self._writable()

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_writer(self._descriptor, _set, ready)
        try:
            async with asyncio.timeout(LONGEST_UNREAD):
                await ready
        except TimeoutError:
            raise OSError(errno.EPIPE, "the client does not read") from None
        finally:
            loop.remove_writer(self._descriptor)


async def serve_stdio(conversation: Conversation, *, limit: int, reading: int = 0, writing: int = 1) -> None:
    """Carry one conversation until the client closes its end."""
    with _unblocked(reading, os.O_RDONLY) as ours, _unblocked(writing, os.O_WRONLY) as theirs:
        await _serve(conversation, ours, Lines(theirs), limit)


async def _serve(conversation: Conversation, reading: int, lines: Lines, limit: int) -> None:
    conversation.attach(lines)
    buffer = LineBuffer(limit=limit)
    tasks: set[asyncio.Task[None]] = set()
    async for piece in _pieces(reading, lines.broken):
        for line in buffer.feed(piece) if piece else buffer.finish():
            await _take(conversation, lines, line, tasks)
        if not lines.is_open():
            break
        await _hold_back(tasks)
        await asyncio.sleep(0)  # a client that writes without end must not keep everything else from happening
    if tasks and lines.is_open():
        await asyncio.wait(tasks, timeout=LAST_ANSWERS)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def _take(
    conversation: Conversation, lines: Lines, line: bytes | TooLong, tasks: set[asyncio.Task[None]]
) -> None:
    if isinstance(line, TooLong):
        problem = f"a message is longer than {line.limit} bytes, which is the limit here"
        await lines.answer(*error_parts(_id_of_request(line.beginning), error_tree(INVALID_REQUEST, problem)))
    elif line.strip(_BLANKS):
        task = asyncio.get_running_loop().create_task(conversation.handle(line.strip(_BLANKS), lines, _NO_HEADERS))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


_NO_HEADERS = MessageContext()


def _id_of_request(beginning: bytes) -> bytes:
    """Return the id of a request that breaks off, so that its sender does not wait; null if it may be an answer."""
    known = dict(leading_members(beginning.decode(errors="ignore")))
    id_ = known.get("id")
    return encode(id_) if "method" in known and is_id(id_) else NO_ID


async def _hold_back(tasks: set[asyncio.Task[None]]) -> None:
    while len(tasks) >= _MOST_OPEN:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _pieces(descriptor: int, broken: asyncio.Future[None]) -> AsyncIterator[bytes]:
    """Yield what comes, and one empty piece at the end; also when the client reads our answers no longer."""
    loop = asyncio.get_running_loop()
    if not _can_be_waited_for(descriptor):  # a file: reading it never takes long
        while piece := await asyncio.to_thread(os.read, descriptor, _PIECE):
            yield piece
        yield b""
        return
    while True:
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            ready = loop.create_future()
            loop.add_reader(descriptor, _set, ready)
            try:
                await asyncio.wait([ready, broken], return_when=asyncio.FIRST_COMPLETED)
            finally:
                loop.remove_reader(descriptor)
            if broken.done():
                return
            continue
        except OSError:
            piece = b""
        yield piece
        if not piece:
            return


@contextmanager
def _unblocked(descriptor: int, mode: int) -> Iterator[int]:
    """Yield a descriptor that never blocks, and leave the file to others as it was: a shell, our own stderr."""
    if not _can_be_waited_for(descriptor):
        yield descriptor
        return
    try:
        own = os.open(f"/proc/self/fd/{descriptor}", mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # a socket cannot be opened again
        before = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)
        try:
            yield descriptor
        finally:
            os.set_blocking(descriptor, before)
        return
    try:
        yield own
    finally:
        os.close(own)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _can_be_waited_for(descriptor: int) -> bool:
    """Whether the kernel says when it can be read or written: files are always ready, and cannot be asked."""
    kind = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or stat.S_ISCHR(kind)
