"""Runs of one agent session: they share /tmp and loopback, and what a command leaves running goes on after it.

`SandboxOptions.session` has a run share both (sandbox.session says how). What this module adds is the process that the
agent waits for. A proxy and a broker serve a confined program from the process that started it, so that process has to
stay as long as anything of the program does; and the agent wants an exit code as soon as its command has ended. So
there are two of them:

    front    what the agent started: passes signals on, and leaves with the exit code when the command has ended
    behind   does the work, and stays with what the command left running until that, or the session, has ended

If the front is killed before the command has ended, the kernel kills what is behind it, and the launcher ends
everything in the sandbox, as it does wherever the process that started it is gone.

    def work(front: Front) -> int:
        process = start_confined(...)               # with SandboxOptions(session=session)
        code = process.wait()                       # as soon as the command itself has ended
        ...                                         # the last words on standard error
        if process.is_outlasted:                    # something was left running
            front.finish(code)                      # the agent goes on from here
            process.outlast()
        process.close()
        return code                                 # which finishes, too

    return in_front(work)
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave import caller
from byleave.sandbox.session import AgentProcess, AgentSession, end_session, is_open, process_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AgentProcess", "AgentSession", "Front", "end_session", "in_front", "is_open", "process_of"]

# What a process sends to the front is for the command.
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_WAITING = (*PASSED_ON, signal.SIGCHLD)
_SET_PDEATHSIG = 1  # linux/prctl.h


class Front:
    """The process that the agent waits for, seen from the one behind it."""

    def __init__(self, pid: int, line: socket.socket, *, at_terminal: bool) -> None:
        self.pid = pid
        self._line = line
        self._at_terminal = at_terminal
        self._finished = False

    def passes(self, got: signal.struct_siginfo) -> bool:
        """Whether a signal is meant for the command: at a terminal, what is sent to the whole group comes twice."""
        return not self._at_terminal or got.si_code > 0 or got.si_pid in (self.pid, os.getpid())

    def finish(self, code: int) -> None:
        """Have the front leave with this exit code, and let go of everything that the agent may wait for."""
        if self._finished:
            return
        self._finished = True
        _let_go_of_streams()
        with suppress(PermissionError):  # it leads a group already
            os.setsid()
        _die_with_parent(number=0)
        with suppress(OSError):  # the front was killed at this moment
            self._line.send(str(code).encode())
            self._line.close()
            if os.getppid() == self.pid:
                os.kill(self.pid, signal.SIGCHLD)


class _ServedFront(Front):
    """The native front, seen from the process that answers for it. It passes signals on by itself."""

    def __init__(self, asking: caller.Front) -> None:
        self._asking = asking

    def passes(self, _got: signal.struct_siginfo) -> bool:
        return True

    def finish(self, code: int) -> None:
        if not self._asking.is_finished:
            _let_go_of_streams()
            self._asking.finish(code)


def _let_go_of_streams() -> None:
    """Let go of everything that the agent may wait for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def in_front(work: Callable[[Front], int]) -> int:
    """Have `work` done behind this process, and return the exit code as soon as it is finished.

    To be called in the only thread of a program, which has nothing else to do: what `work` raises is raised in the
    process behind, which then ends as this program would have. In the service, this process is the one behind, and the
    native front the one before it.
    """
    asking = caller.front()
    if asking is not None:
        return work(_ServedFront(asking))
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # our parent may ignore it, and then we would never get it
    at_terminal = any(os.isatty(number) for number in range(3))
    ours, theirs = socket.socketpair()
    front = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITING)
    behind = os.fork()
    if behind == 0:
        ours.close()
        _stay_behind(front, at_terminal=at_terminal)
        known = Front(front, theirs, at_terminal=at_terminal)
        code = work(known)
        known.finish(code)
        os._exit(code)
    theirs.close()
    try:
        return _wait(behind, ours, at_terminal=at_terminal)
    finally:
        ours.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stay_behind(front: int, *, at_terminal: bool) -> None:
    """End with the front, and be out of the agent's process group, unless its terminal is needed."""
    _die_with_parent(number=signal.SIGKILL)
    if os.getppid() != front:  # it was gone before that
        os._exit(128 + signal.SIGKILL)
    if not at_terminal:
        os.setsid()


def _wait(behind: int, line: socket.socket, *, at_terminal: bool) -> int:
    line.setblocking(False)
    while True:
        got = signal.sigwaitinfo(_WAITING)
        if got.si_signo == signal.SIGCHLD:
            code = _outcome(behind, line)
            if code is not None:
                return code
        elif not at_terminal or got.si_code <= 0:  # what a terminal sends, both of us get
            os.kill(behind, got.si_signo)


def _outcome(behind: int, line: socket.socket) -> int | None:
    """Return the exit code, once it is known: as what is behind says, or as it ended; None before."""
    with suppress(BlockingIOError, ConnectionError, ValueError):
        return int(line.recv(16))
    ended, status = os.waitpid(behind, os.WNOHANG)
    if ended == 0:
        return None
    with suppress(BlockingIOError, ConnectionError, ValueError):  # it spoke, and ended, just now
        return int(line.recv(16))
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _die_with_parent(*, number: int) -> None:
    """Have the kernel send this signal when our parent ends; 0 for none."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_SET_PDEATHSIG, number, 0, 0, 0)
