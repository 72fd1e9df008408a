"""A program in a sandbox, as its parent sees it: much like `subprocess.Popen`."""

from __future__ import annotations

import os
import select
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave.caller import front
from byleave.errors import SandboxError
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from threading import Thread
    from typing import IO, Any, Self

    Stream = int | IO[bytes] | None
    Answer = Callable[[socket.socket, bytes, int], object]

PIPE, STDOUT, DEVNULL = -1, -2, -3  # as in subprocess, whose import costs more than a start
_PROGRAM, _CONTROL, _LOCK = 3, 4, 5
_HIGH = 64  # descriptors are moved out of the way of those three
LONGEST = 8192  # bytes of a message from the launcher
_LONGEST_TRACED = 32768  # the same of a launcher that traces its program
_LAST_WORDS = 5  # seconds that messages may take to arrive when everything has ended
_UNKNOWN = 255 << 8  # the status of exit code 255
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_FOR_ALL = 64  # as in launcher.h
_STATUS = b"S"
_DIRECTORY = b"C"  # begins the message that says where the program was in the end
_UNWRITTEN = b"W"  # begins the name of something that the program tried to write in vain
_SPARE = 9  # a descriptor that the launcher closes before anything else


class Process:
    """A started sandbox. `returncode`: None while it runs, negative for a signal. `problem`: what kept it from running.

    Dropping the process does not end it; closing (or the end of this program) does.

    What the program leaves behind ends with it. Of a `lasting` one it goes on until it ends by itself, until the pipe
    with that descriptor is closed at its other end, or the process is: `returncode` is there as soon as the program has
    ended, and `outlast` waits for the rest. `passed` are descriptors for the launcher.

    In a process that answers for a front, a program whose streams are ours is the front's child: the terminal, the
    limits and the parent are those of the caller (`caller`).

    It is in a session of its own if `own_session` is set, if a terminal is made for it (`controlling` is its path), or
    if none of its streams is a terminal: then it can neither read what is typed at ours nor take it over.
    """

    blocked: Iterable[int] = ()  # signals that what is started first does not get
    _lasting = _ended_early = _pidfd = -1
    _early_status: int | None = None  # how the program of a lasting one ended
    _reaped = False

    def __init__(
        self,
        launcher: Sequence[str],
        program: bytes,
        *,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        lock: int | None = None,
        own_session: bool = False,
        controlling: str | None = None,
        passed: Sequence[int] = (),
        lasting: int | None = None,
    ) -> None:
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self.returncode: int | None = None
        self.problem: SandboxError | None = None
        self.directory: str | None = None  # where the program was when it ended, as the sandbox names it, if known
        self.unwritten: list[str] = []  # what it tried to write where all is read-only, where that is noted
        self._ended: list[object] = []
        self._listening: Thread | None = None
        if lasting is not None:
            self._lasting = os.dup(lasting)
            self._ended_early = os.eventfd(0)  # can be read from when the program has ended
        self._front = front() if stdin is None and stdout is None and stderr is None else None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        opened = [theirs.detach()]
        try:
            steps = os.memfd_create("byleave-program")
            opened.append(steps)
            _write_all(steps, program)
            if passed:  # they wait in the socket until the launcher takes them
                socket.send_fds(self._control, [b"D"], passed)
            streams = [self._stream(number, each, opened) for number, each in enumerate((stdin, stdout, stderr))]
            streams[2] = streams[1] if stderr == STDOUT else streams[2]
            moved = {_PROGRAM: steps, _CONTROL: opened[0]} | ({_LOCK: lock} if lock is not None else {})
            self.own_session = own_session or controlling is not None or not any(os.isatty(each) for each in streams)
            self._controlling = controlling
            if self._front is None:
                self.pid = self._spawn(launcher, streams, moved, opened)
                self._pidfd = os.pidfd_open(self.pid)
            else:
                descriptors = [moved[number] for number in sorted(moved)]
                self.pid, self._pidfd = self._front.launch(
                    launcher, descriptors, own_session=self.own_session, blocked=self.blocked
                )
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _stream(self, number: int, stream: Stream, opened: list[int]) -> int:
        """Return the descriptor that becomes standard input, output or error; keep our end of a pipe."""
        if stream is None:
            return number
        if stream == PIPE:
            reading, writing = os.pipe()
            ours, theirs = (writing, reading) if number == 0 else (reading, writing)
            opened.append(theirs)
            name = ("stdin", "stdout", "stderr")[number]
            setattr(self, name, os.fdopen(ours, "wb" if number == 0 else "rb"))
            return theirs
        if stream == DEVNULL:
            opened.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
            return opened[-1]
        return stream if isinstance(stream, int) else stream.fileno()

    def _spawn(
        self,
        launcher: Sequence[str],
        streams: Sequence[int],
        moved: dict[int, int],
        opened: list[int],
    ) -> int:
        """Start the launcher with nothing of ours but the three streams, the plan, the control socket and the lock."""
        import fcntl

        actions: list[Any] = []
        if self._controlling is not None:  # who leads a session without a terminal gets the first one that it opens
            actions.append((os.POSIX_SPAWN_OPEN, _SPARE, self._controlling, os.O_RDWR, 0))
        sources = dict(enumerate(streams)) | moved
        for target, source in sources.items():
            if target != source or target in moved:  # our own are not inherited unless they are put there
                high = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _HIGH)
                opened.append(high)
                actions.append((os.POSIX_SPAWN_DUP2, high, target))
        words = [*launcher, str(_PROGRAM), str(_CONTROL)]
        return os.posix_spawn(
            launcher[0],
            words,
            {},
            file_actions=actions,
            setsigdef=_IGNORED_BY_PYTHON,
            setsigmask=self.blocked,
            setsid=self.own_session,
        )

    def listener(self) -> socket.socket:
        """Return the socket that listens inside the sandbox's network; a SandboxError if it never came to that."""
        message, descriptors, _flags, _address = socket.recv_fds(self._control, LONGEST, 1)
        if message == b"L" and descriptors:
            return socket.socket(fileno=descriptors[0])
        self.problem = problem_of(message) or SandboxError(
            "the sandbox ended before it was set up",
            hint="try again; `byleave doctor` says what this machine can enforce",
        )
        raise self.problem

    def listen(self, hear: Callable[[bytes], object], answer: Answer | None = None) -> None:
        """Have `hear` called with everything that the launcher says from now on, in a thread of its own.

        What comes with a descriptor is a question for `answer`, which gets the socket, the message and the descriptor.
        """
        from threading import Thread

        self._listening = Thread(target=self._hear_all, args=(hear, answer), name="byleave-launcher", daemon=True)
        self._listening.start()

    def _hear_all(self, hear: Callable[[bytes], object], answer: Answer | None) -> None:
        while True:
            try:
                message, descriptors, _flags, _address = socket.recv_fds(self._control, _LONGEST_TRACED, 1)
            except ConnectionResetError:  # it left without reading our answer; what it said before is still there
                continue
            except OSError:  # it was closed while we listened
                return
            if descriptors:
                self._answer(message, descriptors[0], answer)
            elif self._ended_early >= 0 and message.startswith(_STATUS):
                self._early_status = int(message[1:])
                os.eventfd_write(self._ended_early, 1)
                os.kill(os.getpid(), signal.SIGCHLD)  # for a thread that waits for signals
            elif message:
                problem = self._take(message)
                self.problem = self.problem or problem
                if not message.startswith((_DIRECTORY, _UNWRITTEN)):
                    hear(message)
            else:
                return

    def _answer(self, message: bytes, descriptor: int, answer: Answer | None) -> None:
        try:
            if answer is not None:
                answer(self._control, message, descriptor)
        except OSError:  # the stand-in is gone, and may have said why
            pass
        finally:
            os.close(descriptor)

    def poll(self) -> int | None:
        """Return the exit code, None while it still runs."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; TimeoutError if it takes longer than `timeout` seconds."""
        code = self._wait(timeout)
        if code is None:
            raise TimeoutError(f"the sandbox still runs after {timeout} seconds")
        return code

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._pidfd, select.POLLIN)
            if self._ended_early >= 0:
                ended.register(self._ended_early, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                return None
            if self._early_status is None:
                self._finish(self._status())
            else:
                self.returncode = os.waitstatus_to_exitcode(self._early_status)
        return self.returncode

    def _status(self) -> int:
        """Return how the launcher ended, and wait for that; of a child of the front, as the front says."""
        if self._front is None:
            return _status_of(self.pid)
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        ended.poll()
        return self._front.child_status()

    @property
    def end_descriptors(self) -> list[int]:
        """The descriptors one of which can be read from when the program has ended."""
        return [each for each in (self._pidfd, self._ended_early) if each >= 0]

    @property
    def is_outlasted(self) -> bool:
        """Whether the program has ended, and something that it left behind goes on."""
        if self._early_status is None or self._pidfd < 0:
            return False
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return not ended.poll(0)

    def outlast(self) -> None:
        """Wait until everything that the program left behind has ended, or the session that it belongs to."""
        if self._pidfd >= 0 and self._lasting >= 0:
            ended = select.poll()
            ended.register(self._pidfd, select.POLLIN)
            ended.register(self._lasting, 0)  # a pipe that was closed is always reported
            ended.poll()
        self.close()

    def _finish(self, status: int) -> None:
        self._reaped = True
        self.returncode = os.waitstatus_to_exitcode(status)
        if self._listening is not None:
            self._listening.join(_LAST_WORDS)
        elif self.problem is None:
            self.problem = self._said()
        self.close()

    def _said(self) -> SandboxError | None:
        """Return what kept the program from running, if the launcher said so; take note of what else it said."""
        problem = None
        self._control.setblocking(False)
        for message in _messages(self._control):
            found = self._take(message)
            problem = problem or found
        return problem

    def _take(self, message: bytes) -> SandboxError | None:
        """Take note of a message; return what kept the program from running, if that is what it says."""
        if message.startswith(_DIRECTORY):
            self.directory = os.fsdecode(message[1:])
        elif message.startswith(_UNWRITTEN):
            self.unwritten.append(os.fsdecode(message[1:]))
        else:
            return problem_of(message)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal to the program."""
        if self.returncode is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def signal_all(self, number: int) -> None:
        """Send a signal to the program and its process group, as a terminal would."""
        if self.own_session and self._controlling is None:
            self.send_signal(_FOR_ALL - number)
        elif self.own_session and self.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def terminate(self) -> None:
        """Ask the program to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End everything in the sandbox at once."""
        self.send_signal(signal.SIGKILL)

    def at_end(self, do: object) -> None:
        """Have `do` called when the sandbox is gone."""
        self._ended.append(do)

    def close(self) -> None:
        """End everything in the sandbox, if it still runs, and let go of it. What is in pipes can still be read."""
        if self._listening is not None:  # closing alone does not end its waiting
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            self._listening.join()
        self._control.close()
        if self._pidfd >= 0:
            if not self._reaped:  # the launcher sees the closed socket, and ends everything
                if self._lasting >= 0:  # one that is stopped sees nothing
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)
                self._status()
                self.returncode = -signal.SIGKILL if self.returncode is None else self.returncode
            os.close(self._pidfd)
            self._pidfd = -1
        for descriptor in (self._lasting, self._ended_early):
            if descriptor >= 0:
                os.close(descriptor)
        self._lasting = self._ended_early = -1
        for do in self._ended:
            do()  # type: ignore[operator]
        self._ended.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.close()


def _messages(control: socket.socket) -> Iterator[bytes]:
    """Yield what is left to be read. A launcher that left without reading ours is an error first."""
    failures = 0
    while failures < 2:
        try:
            message = control.recv(LONGEST)
        except OSError:
            failures += 1
            continue
        if not message:
            return
        yield message


def _status_of(process: int) -> int:
    """Return how a process ended. Where the caller ignores SIGCHLD the kernel does not say: that is a failure."""
    try:
        return os.waitpid(process, 0)[1]
    except ChildProcessError:
        return _UNKNOWN


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


_SENTENCES = {
    "namespaces": "this machine does not allow new namespaces",
    "write": "the users of the sandbox could not be mapped",
    "exec": "the program cannot be started",
    "trace": "this machine does not let a program be traced",
    "seccomp": "the kernel did not take the filter of system calls",
    "landlock": "the kernel did not take the Landlock rules",
    "bind": "a path could not be shown in the sandbox",
    "cover": "a path could not be covered",
    "place": "a path of the sandbox is gone",
    "grant": "a path of the sandbox is gone",
    "guard": "a closed path was replaced from outside and could not be closed again, so the sandbox was ended",
    "exchanged": "a closed path was replaced from outside, so the sandbox was ended",
}


def problem_of(message: bytes) -> SandboxError | None:
    """Turn what the launcher said into a sentence; None if it said nothing."""
    if not message.startswith(b"E"):
        return None
    code, number, step, *rest = os.fsdecode(message[1:]).split(" ", 3)
    what = f" ({quoted(rest[0])})" if rest and rest[0] else ""
    said = _SENTENCES.get(step, f"the step {shown(step)} of the sandbox failed")
    text = f"{said}{what}: {os.strerror(int(number)).lower()}"
    hint = "`byleave doctor` says what this machine can enforce" if int(code) == 125 else "check the command"
    return SandboxError(text, hint=hint, exit_code=int(code), step=step)
