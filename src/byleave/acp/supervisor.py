"""The keeper: a process between byleave and the agent, which outlives byleave by as much as it takes to end the agent.

Editors kill what they have started without a word, and an agent is often a script that starts the real one: if byleave
is killed, a process has to be left that ends them all. The keeper is the agent's parent, and that of every process
orphaned below it, so that what the agent starts stays below a process of ours. It is forked before byleave has any
thread, obeys what byleave sends over a socket, and reads from it that byleave is gone.

    to the keeper     S start the agent, T SIGTERM, K SIGKILL; the end of the socket: byleave is gone
    from the keeper   R the agent runs, F it could not be started (errno), X it has ended (status), D nothing is left

`Shutdown` says when an agent that should end is sent SIGTERM, and when SIGKILL; `WakeupPipe` wakes a thread that waits
for descriptors. Processes below another are found on Linux only.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from subprocess import Popen
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.launch.services import service_processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


TERMINATE, KILL, GIVE_UP = "terminate", "kill", "give up"
STEPS = (TERMINATE, KILL, GIVE_UP)


class ShutdownTimes(Struct, frozen=True):
    """How long each process may take, in seconds. Pairs: until SIGTERM, until SIGKILL.

    An agent whose client is gone has to be gone within 10 s, whatever it does.
    """

    closed: tuple[float, float] = (5.0, 8.0)  # the client has closed its end: the agent may finish what it is at
    requested: tuple[float, float] = (2.0, 5.0)  # a signal ends us, and its sender may be waiting for it
    insisted: tuple[float, float] = (0.0, 1.0)  # and came again
    left: tuple[float, float] = (0.5, 2.0)  # for what the agent has left behind
    killed: float = 1.0  # for what was killed to be gone; what hangs in the kernel is not waited for
    last_words: float = 1.0  # for output to come when everything that could write it has ended
    unread: float = 5.0  # for the client to go on reading when everything else has ended


class Shutdown:
    """The way to the end, once it has begun. It can be made shorter, never longer."""

    def __init__(self, patience: ShutdownTimes) -> None:
        self._patience = patience
        self._times: dict[str, float] = {}
        self._is_killing = False

    def begin(self, pair: tuple[float, float], now: float) -> None:
        """Have everything ended after these times, or sooner where that was decided already."""
        self._set(TERMINATE, now + pair[0])
        self.kill_at(now + pair[1])

    def kill_at(self, when: float) -> None:
        """Have everything killed then, or sooner."""
        self._set(KILL, when)
        self._set(GIVE_UP, when + self._patience.killed)

    def _set(self, step: str, when: float) -> None:
        if step == GIVE_UP or not self._is_killing:
            self._times[step] = min(self._times.get(step, when), when)

    def due(self, now: float) -> str | None:
        """Return what is to be done now, once; a later step stands for those before it."""
        steps = [step for step in STEPS if self._times.get(step, now + 1) <= now]
        for step in steps:
            del self._times[step]
        self._is_killing = self._is_killing or KILL in steps
        return steps[-1] if steps else None

    def next(self) -> float | None:
        """Return when something is due next; None if nothing is."""
        return min(self._times.values(), default=None)


_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_SET_PDEATHSIG = 1
_SET_NAME = 15


def adopt_orphans() -> None:
    """Become the parent of whatever is orphaned below this process: nothing down there gets away by forking twice."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Have this process end when its parent ends. SIGKILL: no process will be left to insist."""
    _prctl(_SET_PDEATHSIG, by)
    if os.getppid() != parent:  # it has ended before that
        os._exit(1)


def name_process(name: str) -> None:
    """Have `ps` and `top` show this process by a name of at most 15 characters."""
    _prctl(_SET_NAME, name.encode() + b"\0")


def _prctl(option: int, argument: int | bytes) -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Linux has it
    if prctl is not None:
        word = ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument)
        prctl(option, word, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def descendants(ancestor: int, spared: frozenset[int] = frozenset()) -> list[int]:
    """Return every process below `ancestor` that has not ended; not those that are spared, nor what is below them."""
    children: dict[int, list[int]] = {}
    ended: set[int] = set()
    for process, parent, state in _processes():
        children.setdefault(parent, []).append(process)
        if state in (b"Z", b"X"):
            ended.add(process)
    found: list[int] = []
    ahead = [ancestor]
    while ahead:
        below = [process for process in children.pop(ahead.pop(), []) if process not in spared]
        found += below
        ahead += below
    return [process for process in found if process not in ended]


def send(process: int, number: int) -> None:
    """Send a signal to a process, if it is still there and ours."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def send_group(group: int, number: int) -> None:
    """Send a signal to a process group, if there is one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """Yield the number of each process, its parent's, and its state."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdecimal():
            # It may end while we look. Its name may hold anything, parentheses too; the rest is behind the last one.
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                yield int(name), int(parent), state


class WakeupPipe:
    """A descriptor that can be read from as soon as one of these signals came, or `wake` was called.

    To be made in the main thread. The reader does what a signal means, where there are no surprises.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self.descriptor, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in numbers}

    def wake(self) -> None:
        """Wake the thread that waits."""
        with suppress(BlockingIOError):  # it has a lot to read already
            os.write(self._writing, b"\0")

    def signals(self) -> list[int]:
        """Return the signals that came since the last time. They are in the pipe: a handler may run only later."""
        try:
            return [number for number in os.read(self.descriptor, 4096) if number]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Let signals do again what they did before."""
        signal.set_wakeup_fd(-1)
        for number, before in self._before.items():
            signal.signal(number, before)


def _nothing(_number: int, _frame: object) -> None:
    """Do nothing here: the number of the signal is in the pipe by now."""


START, RUNNING, FAILED, ENDED, DONE = b"S", b"R", b"F", b"X", b"D"
TERMINATE_AGENT, FORCE = b"T", b"K"
LONGEST = 64  # bytes of a message
_AGAIN = 0.02  # seconds between two looks for what was started while everything was being killed


class Supervisor:
    """What the keeper does, in its own process. `run` never returns."""

    def __init__(
        self, control: socket.socket, argv: Sequence[str], env: Mapping[bytes, bytes], patience: ShutdownTimes
    ) -> None:
        self._control = control
        self._argv = argv
        self._env = env
        self._patience = patience
        self._ending = Shutdown(patience)
        self._agent: Popen[bytes] | None = None
        self._status: int | None = None
        self._is_alone = self._is_killing = False

    def run(self, stdin: int, stdout: int) -> None:
        """Keep the agent, whose standard input and output these are, until nothing is left of it."""
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent that ignores it would hide the ends of children
            os.setpgid(0, 0)  # a kill of byleave's process group leaves the keeper to clean up
            adopt_orphans()
            name_process("byleave-keeper")
            if self._control.recv(LONGEST) == START and self._start(stdin, stdout):
                self._keep()
        finally:
            os._exit(0)

    def _start(self, stdin: int, stdout: int) -> bool:
        keeper = os.getpid()
        try:
            self._agent = Popen(  # noqa: S603 -- what the user has named
                self._argv,
                env=self._env,
                stdin=stdin,
                stdout=stdout,
                process_group=0,
                preexec_fn=lambda: die_with_parent(keeper),  # noqa: PLW1509 -- this process has no threads
            )
        except OSError as error:
            self._say(FAILED + str(error.errno or 0).encode())
            return False
        for stream in (stdin, stdout):
            os.close(stream)
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, sys.stderr.fileno())  # it is the agent's now
        self._say(RUNNING + str(self._agent.pid).encode())
        return True

    def _keep(self) -> None:
        waking = WakeupPipe((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD))
        watched = select.poll()
        watched.register(waking.descriptor, select.POLLIN)
        watched.register(self._control, select.POLLIN)
        while self._reap():
            ready = dict(watched.poll(self._pause()))
            for number in waking.signals():
                if number != signal.SIGCHLD:
                    self._ending.begin(self._patience.requested, monotonic())
            if self._control.fileno() in ready and not self._hear():
                watched.unregister(self._control)
            self._end()

    def _pause(self) -> float | None:
        """Return for how many milliseconds nothing is to be done, unless something happens."""
        when = self._ending.next()
        if self._is_killing:
            return _AGAIN * 1000
        return None if when is None else max(0.0, when - monotonic()) * 1000

    def _reap(self) -> bool:
        """Take note of what has ended; return whether something is left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._say(DONE)
                return False
            if process == 0:
                if self._status is None or self._left():
                    return True
                self._say(DONE)  # nothing is there but a service, which goes on
                return False
            if self._agent is not None and process == self._agent.pid:
                self._status = status
                self._say(ENDED + str(status).encode())
                if self._is_alone:
                    self._ending.begin(self._patience.left, monotonic())

    def _hear(self) -> bool:
        """Do what byleave sends; return False if it will send nothing any more."""
        message = self._control.recv(LONGEST)
        if message == TERMINATE_AGENT:
            self._terminate()
        elif message == FORCE:
            self._is_killing = True
        elif not message:
            self._is_alone = True
            self._ending.begin(self._patience.requested if self._status is None else self._patience.left, monotonic())
        return bool(message)

    def _end(self) -> None:
        step = self._ending.due(monotonic())
        if step == TERMINATE:
            self._terminate()
        self._is_killing = self._is_killing or step == KILL
        if self._is_killing:
            self._kill()
        if step == GIVE_UP:
            os._exit(0)

    def _terminate(self) -> None:
        """Signal the agent and its process group, or, if it is gone, what it left behind. What is stopped goes on."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            if self._agent is not None and self._status is None:
                send_group(self._agent.pid, number)
            else:
                for process in self._left():
                    send(process, number)

    def _kill(self) -> None:
        if self._agent is not None and self._status is None:
            send_group(self._agent.pid, signal.SIGKILL)
        for process in self._left():
            send(process, signal.SIGKILL)

    def _left(self) -> list[int]:
        """Return what runs below us. A service that a hook of the agent has started is for others, too."""
        found = descendants(os.getpid())
        return descendants(os.getpid(), service_processes()) if found else found

    def _say(self, message: bytes) -> None:
        try:
            self._control.send(message, socket.MSG_NOSIGNAL)
        except OSError:  # byleave does not listen any more
            return
