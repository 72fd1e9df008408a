"""A program in a sandbox that `bwrap` made, as whoever started it sees it.

bwrap passes no signals on, and dies of those that a terminal sends to everybody. So it gets none, and our launcher,
which is process 1 in there, hands out what signals are sent to it by.
"""

import os
import signal
import socket

from byleave.errors import SandboxError
from byleave.sandbox.process import LONGEST, Process, problem_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_REPORT, _STATUS = b"P", b"S"


class WrappedProcess(Process):
    """A started sandbox of bwrap. A SandboxError if bwrap did not get as far as our launcher."""

    blocked = frozenset(signal.valid_signals())

    def __init__(self, words: "tuple[str, ...]", tape: bytes, **streams: "Any") -> None:
        self._inside = -1
        self._told: int | None = None  # how the program ended, from its own init
        super().__init__(words, tape, **streams)
        message, descriptors, _flags, _address = socket.recv_fds(self._control, LONGEST, 1)
        if message == _REPORT and descriptors:
            self._inside = descriptors[0]
            return
        self.problem = problem_of(message) or SandboxError(
            "bwrap could not build the sandbox", hint="what it said stands above", step="bwrap"
        )
        self.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal to the program, or end everything."""
        if self.returncode is None and self._inside >= 0:
            _send(self._inside, number)

    def _finish(self, status: int) -> None:
        super()._finish(status)
        code = self.returncode or 0
        if self.problem is None and code > 128:  # it ended by a signal before the launcher could tell
            self.returncode = 128 - code
        if self._told is not None:
            self.returncode = self._told

    def _said(self) -> SandboxError | None:
        """Return what kept the program from running; take note of how it ended, which an exit code does not tell."""
        self._control.setblocking(False)
        try:
            message = self._control.recv(LONGEST)
        except OSError:
            return None
        if message.startswith(_STATUS):
            self._told = os.waitstatus_to_exitcode(int(message[1:]))
            return None
        return problem_of(message)

    def close(self) -> None:
        """End everything in the sandbox, if it still runs, and let go of it."""
        inside, self._inside = self._inside, -1
        if inside >= 0:
            if self.returncode is None:
                _send(inside, signal.SIGKILL)
            os.close(inside)
        super().close()


def _send(process: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:  # it has ended, and nobody has looked yet
        return
