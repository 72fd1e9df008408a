"""A tool's process with its pipes, as the host holds it: in a sandbox, or where the user wants none, without.

Wait for a program in a sandbox, hearing both its streams, until it ends or has to be ended.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import RequestError, SandboxError
from byleave.protocol.jsonrpc import INVALID_PARAMS, TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.launch.start import RunningProgram
    from byleave.launch.unconfined import UnconfinedProcess
    from byleave.sandbox.process import Process
    from byleave.toolhost.deadline import Deadline


_LAST_BREATH = 1.0  # seconds that a process may take to end after its output has


class ToolProcess:
    """The descriptors of a process that was started with three pipes, and its end."""

    def __init__(self, process: RunningProgram) -> None:
        self._process = process
        self._files = [file for file in (process.stdin, process.stdout, process.stderr) if file is not None]
        self.stdin = -1 if process.stdin is None else process.stdin.fileno()
        self.stdout = -1 if process.stdout is None else process.stdout.fileno()
        self.stderr = -1 if process.stderr is None else process.stderr.fileno()
        self.ended = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1

    @property
    def readers(self) -> tuple[int, ...]:
        return tuple(each for each in (self.stdout, self.stderr) if each >= 0)

    @property
    def problem(self) -> SandboxError | None:
        """What kept the process from running, if something did."""
        return self._process.problem

    def reaped(self) -> None:
        """Take note that the process has ended."""
        self._process.poll()
        self._forget_end()

    def terminate(self) -> None:
        """Send the process SIGTERM."""
        with suppress(OSError):
            self._process.terminate()

    def exit_code(self) -> int | None:
        """Return how it ended, if it ends by itself within a moment; None if it still runs."""
        with suppress(TimeoutError):
            return self._process.wait(_LAST_BREATH)
        return None

    def close_stdin(self) -> None:
        """Let the process know that nothing more will come."""
        if self.stdin >= 0:
            self._files[0].close()
            self.stdin = -1

    def close(self) -> None:
        """End the process and everything it started, and let go of the pipes."""
        self._process.close()
        for file in self._files:
            with suppress(OSError):  # a pipe without a reader
                file.close()
        self._forget_end()

    def _forget_end(self) -> None:
        if self.ended >= 0:
            os.close(self.ended)
            self.ended = -1


LARGEST_OUTPUT = 10 << 20  # bytes of one stream; `max_file_size` of a tool
_PIECE = 1 << 16
_LONGEST_WAIT = 3600_000  # milliseconds in one go; poll takes no more than a C int


class ProcessOutput(Struct, frozen=True):
    """What a program said, and how it ended: 128 and the number of the signal, if it was one."""

    out: bytes
    err: bytes
    exit_code: int


class _Leash:
    """The way to end a program from another thread, as long as it is there."""

    def __init__(self, process: Process | UnconfinedProcess) -> None:
        self._process: Process | UnconfinedProcess | None = process
        self._lock = Lock()

    def pull(self) -> None:
        with self._lock:
            if self._process is not None:
                with suppress(OSError):  # it has ended by itself
                    self._process.kill()

    def drop(self) -> None:
        with self._lock:
            self._process = None


def attend(process: Process | UnconfinedProcess, turn: Deadline, *, limit: int) -> ProcessOutput:
    """Return what the program said once it has ended. Both its streams are pipes.

    A RequestError if it is cancelled, takes too long, or says more than `limit` bytes on one stream; nothing of it
    runs any more then. What it has left behind, still writing, is not waited for.
    """
    leash = _Leash(process)
    turn.on_cancel(leash.pull)
    try:
        out, err = _hear(process, turn, limit)
    except BaseException:
        leash.pull()
        raise
    finally:
        leash.drop()
        code = process.wait()
    turn.go_on()
    return ProcessOutput(out, err, code if code >= 0 else 128 - code)


def _hear(process: Process | UnconfinedProcess, turn: Deadline, limit: int) -> tuple[bytes, bytes]:
    """Collect both streams until the program has ended."""
    heard: dict[int, bytearray] = {
        stream.fileno(): bytearray() for stream in (process.stdout, process.stderr) if stream
    }
    ended = os.pidfd_open(process.pid)
    try:
        watched = select.poll()
        for number in (ended, *heard):
            os.set_blocking(number, False)
            watched.register(number, select.POLLIN)
        while ended not in (ready := list(_ready(watched, turn.deadline))):
            for number in ready:
                if not _take(number, heard[number], limit):
                    watched.unregister(number)
        for number, content in heard.items():  # what it said last; others may still write, and never end
            _take(number, content, limit, all_of_it=True)
    finally:
        os.close(ended)
    out, err = heard.values()
    return bytes(out), bytes(err)


def _ready(watched: select.poll, deadline: float | None) -> Iterator[int]:
    """Yield what can be read, or has ended; a RequestError if nothing does in time."""
    left = None if deadline is None else (deadline - monotonic()) * 1000
    if left is not None and left <= 0:
        hint = "ask for less, or for more time"
        raise RequestError("the program took too long, and was ended", hint=hint, number=TIMED_OUT)
    wait = _LONGEST_WAIT if left is None else min(int(left) + 1, _LONGEST_WAIT)
    yield from (number for number, _event in watched.poll(wait))


def _take(stream: int, content: bytearray, limit: int, *, all_of_it: bool = False) -> bool:
    """Read what has arrived; False at the end of the stream."""
    while True:
        try:
            piece = os.read(stream, _PIECE)
        except BlockingIOError:
            return True
        content += piece
        if len(content) > limit:
            raise RequestError(
                f"the program says more than {limit} bytes, and was ended",
                hint="have it say less",
                number=INVALID_PARAMS,
                data={"limit": limit},
            )
        if not piece:
            return False
        if not all_of_it:
            return True
