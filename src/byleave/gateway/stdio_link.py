"""A link to a server that we start ourselves: a process in the sandbox, one message a line over its pipes.

Everything happens in the gateway's one thread, on descriptors that never block; only starting and reaping, which may,
are done beside. What the server writes to its standard error is always read, and the end of it kept: it is what people
need when the server has ended. Lines of its standard output that are no messages are kept there as well.

For a server with `stateful = false` a link is opened for each call, and closed after it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave.gateway.interfaces import DownError
from byleave.gateway.message import excerpt, one_line
from byleave.protocol.json_members import leading_members
from byleave.protocol.lines import LineBuffer, TooLong
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from byleave.gateway.interfaces import Outgoing, Receiver
    from byleave.gateway.limits import ServerProcesses
    from byleave.gateway.spawn import ServerSpawner, StartedServer
    from byleave.launch.start import RunningProgram
    from byleave.policy.servers import ExpandedServer, ServerConfig

    OnStderr = Callable[[str, bytes], None]

LARGEST = 64 << 20  # bytes of one message
MOST_QUEUED = 64 << 20  # bytes that a server may leave unread
ROOM = 1 << 20  # bytes that may wait before senders of what has no answer wait, too
KEPT = 8192  # bytes of what it said on the side
SHOWN = 600  # letters of that in a sentence for people
FOR_INPUT, FOR_SIGNAL = 1.0, 2.0  # seconds to end after its input has, and after SIGTERM
_LAST_BREATH = 1.0  # seconds between the end of its output and its own
_PIECE = 1 << 18
_PIPE = 1 << 18  # fewer wakings for large messages; a user's pipes share 64 MB (pipe-user-pages-soft)
_MOST_PIECES = 64  # of what is left in its pipe when it has ended
_BLANKS = b" \t\r"
_HINT = "its own log may say more; `byleave mcp --check` starts every server once"


class StdioLink:
    """One process of one server. `warnings` are for people: what holds it less than was asked for."""

    def __init__(
        self,
        server: ServerConfig,
        expanded: ExpandedServer,
        receiver: Receiver,
        starter: ServerSpawner,
        *,
        tool: str | None = None,
        on_stderr: OnStderr | None = None,
        processes: ServerProcesses | None = None,
        limit: int = LARGEST,
        most_queued: int = MOST_QUEUED,
    ) -> None:
        """`tool`: the sandbox's name for the access that holds, if it is not the server's own."""
        self.revision = ""
        self.name = server.name
        self.warnings: list[str] = []
        self._server = server
        self._expanded = expanded
        self._receiver = receiver
        self._starter = starter
        self._tool = tool
        self._on_stderr = on_stderr
        self._processes = processes
        self._has_place = False  # among the processes that may run
        self._limit = limit
        self._most_queued = most_queued
        self._lines = LineBuffer(limit=limit)
        self._said = bytearray()
        self._chatter = False  # whether something else than messages has come
        self._process: RunningProgram | None = None
        self._pipes: dict[str, int] = {}
        self._pidfd = -1
        self._queue: deque[memoryview] = deque()
        self._queued = 0
        self._waiting = False  # for the server to read on
        self._room: asyncio.Event | None = None
        self._gone: asyncio.Event | None = None  # set when nothing of the process is left
        self._ending: asyncio.Task[None] | None = None
        self._reaping: asyncio.Task[None] | None = None
        self._over = ""  # why it is lost, once it is
        self._public = ""  # what of that agents may read
        self._closed = False

    @property
    def stderr_tail(self) -> str:
        """The end of what the server said on the side, for people."""
        return excerpt(bytes(self._said), self._expanded.secrets, most=KEPT)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def open(self) -> None:
        """Start the server; a DownError if that cannot be done."""
        if self._processes is not None:
            await self._processes.take(self.name)
            self._has_place = True
        try:
            await self._begin()
        except BaseException:
            self._give_place()
            raise

    async def _begin(self) -> None:
        starting = asyncio.ensure_future(
            asyncio.to_thread(self._starter.start, self._server, self._expanded, self._tool)
        )
        try:
            began = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_end_unwanted)
            raise
        if self._closed:
            await asyncio.to_thread(_end_whole, began.process)
            raise self._down("was closed while it was started")
        self.warnings.extend(began.warnings)
        self._attach(began.process)

    def _give_place(self) -> None:
        if self._has_place and self._processes is not None:
            self._has_place = False
            self._processes.give()

    def _attach(self, process: RunningProgram) -> None:
        loop = asyncio.get_running_loop()
        self._process, self._room, self._gone = process, asyncio.Event(), asyncio.Event()
        self._pipes = {
            name: _taken(file)
            for name, file in (("in", process.stdin), ("out", process.stdout), ("err", process.stderr))
        }
        _enlarge(self._pipes["out"])
        self._pidfd = os.pidfd_open(process.pid)
        loop.add_reader(self._pipes["out"], self._read_output)
        loop.add_reader(self._pipes["err"], self._read_errors)
        loop.add_reader(self._pidfd, self._end_now)

    async def send(self, outgoing: Outgoing) -> None:
        """Write one message; a DownError if the server leaves too much unread.

        A message without an answer waits as long as it leaves much unread. A request does not: its caller waits for
        the answer, for a limited time.
        """
        message = one_line(outgoing.message)  # with a line end inside, it would be more messages than were authorized
        if message is None:
            raise self._down("cannot be sent a message that is not JSON")
        room, size = self._room, len(message) + 1
        if self._over or self._closed or room is None or "in" not in self._pipes:
            raise self._down(self._over or "is not running", self._public)
        if self._queued + size > self._most_queued:
            raise self._down(f"does not read what it is sent: {self._queued} bytes are waiting")
        self._queue += (memoryview(message), memoryview(b"\n"))
        self._queued += size
        if self._queued == size:
            self._write()
        while outgoing.id is None and self._is_crowded():
            room.clear()
            await room.wait()

    def listen(self) -> None:
        """Do nothing: everything comes over the one pipe."""

    async def abandon(self, id_: str) -> None:
        """Do nothing: the pipe is the same for all requests."""

    async def close(self) -> None:
        """End the server: its input first, then SIGTERM, then everything in its sandbox is killed."""
        if self._closed:
            if self._gone is not None:
                await self._gone.wait()
            return
        self._closed = True
        if self._gone is None:
            return
        self._make_room()
        self._shut("in")
        try:
            for seconds, act in ((FOR_INPUT, self._terminate), (FOR_SIGNAL, self._end_now)):
                if await _within(self._gone, seconds):
                    return
                act()
            await self._gone.wait()
        except asyncio.CancelledError:  # there is no time
            self._end_now()
            raise

    def _is_crowded(self) -> bool:
        return self._queued > ROOM and not self._over and not self._closed

    def _write(self) -> None:
        """Write as much as the server takes now; the rest waits until it takes more."""
        loop, pipe = asyncio.get_running_loop(), self._pipes.get("in", -1)
        if pipe < 0:
            return
        try:
            while self._queue:
                pieces = [self._queue[number] for number in range(min(len(self._queue), 64))]
                self._drop_written(os.writev(pipe, pieces))
            if self._waiting:
                self._waiting = False
                loop.remove_writer(pipe)
        except BlockingIOError:
            if not self._waiting:
                self._waiting = True
                loop.add_writer(pipe, self._write)
        except OSError:  # it has closed its input; what it still writes is read
            self._queue.clear()
            self._queued = 0
            self._shut("in")
            self._end_soon("does not read any more")
        if self._queued <= ROOM:
            self._make_room()

    def _drop_written(self, written: int) -> None:
        self._queued -= written
        while written:
            first = self._queue[0]
            if len(first) > written:
                self._queue[0] = first[written:]
                return
            written -= len(first)
            self._queue.popleft()

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set()

    def _read_output(self) -> None:
        data = _read(self._pipes["out"])
        if data is None:
            return
        if data:
            self._take(data)
            return
        self._shut("out")  # a line without an end is none
        self._end_soon("has closed its output")

    def _take(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if self._closed or self._over:
                return
            if isinstance(line, TooLong):
                self._refuse(line)
                continue
            plain = line.strip(_BLANKS)
            message = one_line(plain) if plain.startswith(b"{") else None
            if message is not None:
                self._receiver.received(message, None)
            elif plain:
                self._note(plain)

    def _refuse(self, line: TooLong) -> None:
        """Report that a message was too long: to the request that waits for it, if that can be seen."""
        known = dict(leading_members(line.beginning.decode(errors="ignore")))
        id_, why = known.get("id"), f"sent a message that is longer than {self._limit} bytes"
        if isinstance(id_, str) and "method" not in known:
            sentence = f"the server {shown(self.name)} {why}"
            self._receiver.lost(id_, sentence, sentence)
        else:
            self._lose(why)
            self._end_now()

    def _note(self, line: bytes) -> None:
        """Keep a line of its output that is no message with what it says on the side."""
        if not self._chatter:
            self._chatter = True
            self.warnings.append(
                f"the server {shown(self.name)} writes something else than messages to its standard output, "
                f"which is ignored: {excerpt(line[:200], self._expanded.secrets, most=200)}"
            )
        self._keep(line[:KEPT] + b"\n")

    def _read_errors(self) -> None:
        data = _read(self._pipes["err"])
        if data is None:
            return
        if not data:
            self._shut("err")
            return
        self._keep(data)
        if self._on_stderr is not None:
            self._on_stderr(self.name, data)

    def _keep(self, data: bytes) -> None:
        self._said += data[-KEPT:]
        del self._said[:-KEPT]

    def _shut(self, name: str) -> None:
        """Close one of the pipes."""
        pipe = self._pipes.pop(name, -1)
        if pipe < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(pipe)
        loop.remove_writer(pipe)
        os.close(pipe)

    def _end_now(self) -> None:
        """Have the process ended with everything in its sandbox, unless it has: read what it wrote before, and reap it.

        Not by a signal: what is left of a sandbox after that takes a moment to go, and could not be waited for.
        """
        if self._reaping is not None or self._pidfd < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        for name, read in (("out", self._read_output), ("err", self._read_errors)):
            for _ in range(_MOST_PIECES):
                if name not in self._pipes:
                    break
                read()
        if self._ending is not None and self._ending is not asyncio.current_task():
            self._ending.cancel()
        self._reaping = loop.create_task(self._reap())

    def _end_soon(self, why: str) -> None:
        """End a server with which nothing can be said any more; a moment later, for it may be ending by itself."""
        if self._ending is None and self._reaping is None:
            self._ending = asyncio.get_running_loop().create_task(self._end_later(why))

    async def _end_later(self, why: str) -> None:
        await asyncio.sleep(_LAST_BREATH)
        self._lose(why)
        self._end_now()

    def _terminate(self) -> None:
        if self._process is not None:
            with suppress(OSError, ValueError):
                self._process.terminate()

    async def _reap(self) -> None:
        """Take note how it ended, and let go of everything."""
        process, gone = self._process, self._gone
        if process is None or gone is None:
            return
        code = await asyncio.to_thread(_end, process)
        for name in tuple(self._pipes):
            self._shut(name)
        os.close(self._pidfd)
        self._give_place()
        problem = process.problem
        if problem is None:
            self._lose(_how(code))
        else:
            self._lose("could not be run", problem.problem)
        gone.set()

    def _lose(self, why: str, detail: str = "") -> None:
        """Say once that the connection is gone, and why; the detail, and what the server said, to the operator."""
        if self._over:
            return
        said = self.stderr_tail[-SHOWN:]
        self._public = why
        self._over = f"{why}: {detail}" if detail else why
        if said:
            self._over += f"; it said last: {said}"
        self._make_room()
        if not self._closed:
            start = f"the server {shown(self.name)}"
            self._receiver.lost(None, f"{start} {self._over}", f"{start} {why}")

    def _down(self, why: str, public: str = "") -> DownError:
        start = f"the server {shown(self.name)}"
        return DownError(f"{start} {why}", hint=_HINT, public=f"{start} {public or why}")


def _taken(file: IO[bytes] | None) -> int:
    """Return a descriptor of our own in place of a file object, which would close it when it likes."""
    if file is None:
        raise ValueError("a server has three pipes")
    with file:
        descriptor = os.dup(file.fileno())
    os.set_blocking(descriptor, False)
    return descriptor


def _enlarge(pipe: int) -> None:
    with suppress(OSError, AttributeError):  # too many large ones; not this system
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def _read(pipe: int) -> bytes | None:
    """Return what there is, empty at the end; None if there is nothing now."""
    try:
        return os.read(pipe, _PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _end(process: RunningProgram) -> int:
    """End whatever is left of a process, and return how it ended."""
    code = process.poll()
    process.close()
    return process.wait() if code is None else code


def _end_unwanted(starting: asyncio.Future[StartedServer]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, _end_whole, starting.result().process)


def _end_whole(process: RunningProgram) -> None:
    with process:
        _end(process)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def _how(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"has ended with exit code {code}"
