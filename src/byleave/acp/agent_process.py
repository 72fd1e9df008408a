"""The agent as the proxy sees it: two pipes, a way to end it, and the news that it has ended."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave.acp.supervisor import (
    DONE,
    ENDED,
    FORCE,
    LONGEST,
    RUNNING,
    START,
    TERMINATE_AGENT,
    ShutdownTimes,
    Supervisor,
    adopt_orphans,
    descendants,
    send,
)
from byleave.errors import SandboxError
from byleave.launch.services import service_processes
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, Protocol

    from byleave.sandbox.process import Process

    class Agent(Protocol):
        """`code` is None while it runs, else as a shell says it. `is_gone`: nothing of it is left."""

        stdin: int
        stdout: int
        code: int | None
        is_gone: bool
        problem: SandboxError | None

        @property
        def descriptor(self) -> int:
            """Can be read from when there are news for `look`."""
            ...

        def look(self) -> None: ...

        def terminate(self) -> None: ...

        def kill(self) -> None: ...

        def close(self) -> None: ...


_PIPE_SIZE = 1 << 20  # as much as an ordinary user may ask for (/proc/sys/fs/pipe-max-size)
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as a shell says it
_MISSING = (errno.ENOENT, errno.ENOTDIR)


class SupervisedAgent:
    """An agent that a keeper has started, and ends if we cannot.

    To be made before there is any thread: the keeper is a fork of this process. The agent gets the environment that
    this process was given, and nothing of what is open here but standard error.
    """

    def __init__(self, argv: Sequence[str], patience: ShutdownTimes | None = None) -> None:
        self.code: int | None = None
        self.is_gone = False
        self.problem: SandboxError | None = None
        self._argv = tuple(argv)
        adopt_orphans()  # if the keeper is killed, what it has kept becomes ours
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reading, self.stdin = _pipe()
        self.stdout, writing = _pipe()
        self._keeper = os.fork()
        if self._keeper == 0:
            keep_open_only(theirs.fileno(), reading, writing)
            Supervisor(theirs, self._argv, original_environment(), patience or ShutdownTimes()).run(reading, writing)
        theirs.close()
        os.close(reading)
        os.close(writing)

    @property
    def descriptor(self) -> int:
        """Can be read from when there are news for `look`."""
        return self._control.fileno()

    def start(self) -> None:
        """Start the agent; a SandboxError if that is not possible."""
        with suppress(OSError):  # it is gone, and has nothing to say either
            self._control.send(START)
        said = self._control.recv(LONGEST)
        if not said.startswith(RUNNING):
            self.is_gone = True
            raise _not_started(self._argv[0], int(said[1:] or b"0"))

    def look(self) -> None:
        """Take in what the keeper has to say."""
        try:
            said = self._control.recv(LONGEST, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if said.startswith(ENDED):
            self.code = exit_code(os.waitstatus_to_exitcode(int(said[1:])))
        elif said == DONE:
            self.is_gone = True
        elif not said and not self.is_gone:
            self._lost()

    def _lost(self) -> None:
        """End what is left, since the keeper was killed, and so the agent."""
        for process in descendants(os.getpid(), service_processes()):
            send(process, signal.SIGKILL)
        self.code = exit_code(-signal.SIGKILL) if self.code is None else self.code
        self.is_gone = True

    def terminate(self) -> None:
        """Have SIGTERM sent to the agent's process group, or, when it has ended, to what it has left behind."""
        self._send(TERMINATE_AGENT)

    def kill(self) -> None:
        """Have everything killed that the agent has started."""
        self._send(FORCE)

    def _send(self, message: bytes) -> None:
        with suppress(OSError):
            self._control.send(message)

    def close(self) -> None:
        """Let go of the agent; if something is left of it, the keeper ends that."""
        self._control.close()
        if self.is_gone:
            with suppress(ChildProcessError):  # the program that started us ignores the ends of its children
                os.waitpid(self._keeper, 0)


class SandboxedAgent:
    """An agent in a sandbox, where everything ends with the agent, and with us."""

    def __init__(self, process: Process) -> None:
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise ValueError("the agent needs two pipes")
        self.stdin, self.stdout = (_taken(pipe) for pipe in (process.stdin, process.stdout))
        self.code: int | None = None
        self.is_gone = False
        self.problem: SandboxError | None = None
        self.descriptor = os.pidfd_open(process.pid)

    def look(self) -> None:
        """Take note of the end."""
        code = self._process.poll()
        if code is not None:
            self.problem = self._process.problem
            self.code = exit_code(code) if self.problem is None else self.problem.exit_code
            self.is_gone = True

    def terminate(self) -> None:
        """Ask the agent to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End everything in the sandbox."""
        self._process.kill()

    def close(self) -> None:
        """End everything in the sandbox, if it still runs, and let go of it."""
        os.close(self.descriptor)
        self._process.close()


def exit_code(code: int) -> int:
    """Return an exit code as a shell says it."""
    return code if code >= 0 else 128 - code


def original_environment() -> Mapping[bytes, bytes]:
    """Return the environment that this process was started with: Python itself adds to it, in some locales."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return os.environb
    pairs = [entry.partition(b"=") for entry in entries]
    return {name: value for name, equals, value in pairs if name and equals}


def enlarge(pipe: int) -> None:
    """Have a pipe hold a whole message of the usual size, so that the reader is not woken for parts of it."""
    with suppress(OSError, AttributeError):  # no pipe; too many large ones; not this system
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


def keep_open_only(*kept: int) -> None:
    """Close everything but these descriptors and standard error; standard input and output lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    lowest = 3
    for descriptor in sorted(kept):
        os.closerange(lowest, descriptor)
        lowest = descriptor + 1
    os.closerange(lowest, os.sysconf("SC_OPEN_MAX"))


def _taken(file: IO[bytes]) -> int:
    """Return a descriptor of our own in place of a file object, which would close it when it likes."""
    with file:
        descriptor = os.dup(file.fileno())
    enlarge(descriptor)
    return descriptor


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    enlarge(writing)
    return reading, writing


def _not_started(program: str, number: int) -> SandboxError:
    if not number:
        return SandboxError("the process that keeps the agent has ended", hint="try again")
    missing = number in _MISSING
    why = "there is no such program" if missing else os.strerror(number).lower()
    return SandboxError(
        f"the agent {quoted(program)} cannot be started: {why}",
        hint="check the name and PATH; editors often have another PATH than a shell"
        if missing
        else "check the command",
        exit_code=_NOT_FOUND if missing else _NOT_EXECUTABLE,
    )
