"""The keeper: a process between byleave and the agent, which outlives byleave by as much as it takes to end the agent.

Editors kill what they have started without a word, and an agent is often a script that starts the real one: if byleave
is killed, somebody has to be left who ends them all. The keeper is the agent's parent, and that of everything orphaned
below it, so that whatever the agent starts stays below a door of ours. It is forked before byleave has any thread, does
what it is told over a socket, and reads from it that byleave is gone.

    to the keeper     S start the agent, T SIGTERM, K SIGKILL; the end of the socket: byleave is gone
    from the keeper   R the agent runs, F it could not be started (errno), X it has ended (status), D nothing is left
"""

import os
import select
import signal
import socket
import sys
from time import monotonic

from byleave.acp.descendants import adopt_orphans, descendants, die_with_parent, name_process, send, send_group
from byleave.acp.ending import GIVE_UP, KILL, TERMINATE, Ending, Patience
from byleave.acp.waking import Waking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import Popen

START, RUNNING, FAILED, ENDED, DONE = b"S", b"R", b"F", b"X", b"D"
TELL, FORCE = b"T", b"K"
LONGEST = 64  # bytes of a message
_AGAIN = 0.02  # seconds between two looks for what was started while everything was being killed


class Keeper:
    """What the keeper does, in its own process. `run` never returns."""

    def __init__(
        self, control: socket.socket, argv: "Sequence[str]", env: "Mapping[bytes, bytes]", patience: Patience
    ) -> None:
        self._control = control
        self._argv = argv
        self._env = env
        self._patience = patience
        self._ending = Ending(patience)
        self._agent: Popen[bytes] | None = None
        self._status: int | None = None
        self._is_alone = self._is_killing = False

    def run(self, stdin: int, stdout: int) -> None:
        """Keep the agent, whose standard input and output these are, until nothing is left of it."""
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started us may ignore it, and then nobody is told
            os.setpgid(0, 0)  # whoever kills byleave's process group leaves somebody to clean up
            adopt_orphans()
            name_process("byleave-keeper")
            if self._control.recv(LONGEST) == START and self._start(stdin, stdout):
                self._keep()
        finally:
            os._exit(0)

    def _start(self, stdin: int, stdout: int) -> bool:
        from subprocess import Popen

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
        waking = Waking((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD))
        watched = select.poll()
        watched.register(waking.descriptor, select.POLLIN)
        watched.register(self._control, select.POLLIN)
        while self._reap():
            ready = dict(watched.poll(self._pause()))
            for number in waking.signals():
                if number != signal.SIGCHLD:
                    self._ending.begin(self._patience.told, monotonic())
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
                return True
            if self._agent is not None and process == self._agent.pid:
                self._status = status
                self._say(ENDED + str(status).encode())
                if self._is_alone:
                    self._ending.begin(self._patience.left, monotonic())

    def _hear(self) -> bool:
        """Do what we are told; return False if nobody will tell us anything any more."""
        told = self._control.recv(LONGEST)
        if told == TELL:
            self._terminate()
        elif told == FORCE:
            self._is_killing = True
        elif not told:
            self._is_alone = True
            self._ending.begin(self._patience.told if self._status is None else self._patience.left, monotonic())
        return bool(told)

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
        """Tell the agent and its process group, or, if it is gone, what it has left behind. What is stopped goes on."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            if self._agent is not None and self._status is None:
                send_group(self._agent.pid, number)
            else:
                for process in descendants(os.getpid()):
                    send(process, number)

    def _kill(self) -> None:
        if self._agent is not None and self._status is None:
            send_group(self._agent.pid, signal.SIGKILL)
        for process in descendants(os.getpid()):
            send(process, signal.SIGKILL)

    def _say(self, message: bytes) -> None:
        try:
            self._control.send(message, socket.MSG_NOSIGNAL)
        except OSError:  # nobody listens any more
            return
