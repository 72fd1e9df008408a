"""The process that a command is answered for: this one, or the front whose request the service answers.

A command that runs by itself is its own caller. In the service, a process answers the request of a front
(sandbox/native/front.c), a small program that an agent or a person has started. What concerns the caller is then about
the front: who its parent is, how its exit code is reported, whose child a confined program becomes.

`answer_for` is called once, by the service, right after such a process has begun. Start at `front`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Sequence

_LONGEST = 64  # bytes of a message from the front
_PATIENCE = 10.0  # seconds for an answer of the front, which only has to fork
_ALIVE = 10.0  # seconds between two words to a front that waits for a call, which gives up after 60
_UNKNOWN = 255 << 8  # the status of exit code 255
_ALL_SIGNALS = 64


class FrontGoneError(BaseException):
    """The front has ended, or says something that no front says: nothing is to be done for it any more.

    Like an interrupt it ends the command, whatever that is at: no message has a reader any more.
    """


class Front:
    """The front at the other end of a connection: its parent, and what it does for us."""

    def __init__(self, line: socket.socket, parent: int) -> None:
        self.parent = parent
        self._line = line
        self._status: int | None = None
        self._finished = False

    def fileno(self) -> int:
        """Return the descriptor that can be read from when the front says something, or has ended."""
        return self._line.fileno()

    @property
    def is_finished(self) -> bool:
        """Whether the front has its exit code."""
        return self._finished

    def finish(self, code: int) -> None:
        """Have the front end with this exit code. Only the first one counts."""
        if not self._finished:
            self._finished = True
            try:  # noqa: SIM105 -- a hook that starts by itself loads this, and contextlib takes a while
                self._line.send(b"X%d" % code)
            except OSError:  # it has ended before
                pass
            self._line.close()

    def launch(
        self, words: Sequence[str], descriptors: Sequence[int], *, own_session: bool, blocked: Iterable[int]
    ) -> tuple[int, int]:
        """Have the front start the launcher as its child, with these descriptors as 3, 4 and so on.

        Return the number of the child and a pidfd. An OSError if it cannot be started.
        """
        import socket  # heavy: for the service only

        mask = sum(1 << (int(number) - 1) for number in blocked if 0 < int(number) <= _ALL_SIGNALS)
        parts = [b"%016x" % mask, *[os.fsencode(word) for word in words]]
        body = b"L" + (b"s" if own_session else b"-") + b"".join([part + b"\0" for part in parts])
        self._line.settimeout(_PATIENCE)
        try:
            socket.send_fds(self._line, [body], descriptors)
            said, found, _flags, _address = socket.recv_fds(self._line, _LONGEST, 1)
        except OSError as error:
            raise FrontGoneError(str(error)) from None
        finally:
            self._line.settimeout(None)
        if said.startswith(b"F") and not found:
            number = int(said[1:])
            raise OSError(number, os.strerror(number))
        if not said.startswith(b"P") or len(found) != 1:
            raise FrontGoneError("the front has ended")
        os.set_inheritable(found[0], False)
        return int(said[1:]), found[0]

    def hear(self) -> None:
        """Take note of what the front says, which is there to be read; a FrontGoneError if it has ended."""
        try:
            said = self._line.recv(_LONGEST)
        except OSError:
            said = b""
        if not said.startswith(b"E"):
            raise FrontGoneError("the front has ended")
        self._status = int(said[1:])

    def next_stop(self) -> None:
        """Wait until the front was sent a signal that stops a call; a FrontGoneError if it has ended.

        Meanwhile it reports to the front every few seconds that the call goes on.
        """
        self._line.settimeout(_ALIVE)
        said = b""
        while not said:
            try:
                said = self._line.recv(_LONGEST) or b"X"
            except TimeoutError:
                self._say_alive()
            except OSError:
                said = b"X"
        if not said.startswith(b"S"):
            raise FrontGoneError("the front has ended")

    def _say_alive(self) -> None:
        try:  # noqa: SIM105 -- a hook that starts by itself loads this, and contextlib takes a while
            self._line.send(b"B")
        except OSError:  # it has ended: the next look says so
            pass

    def child_status(self) -> int:
        """Return how the launcher ended, once it has: only its parent can know."""
        if self._status is None and not self._finished:
            self._line.settimeout(_PATIENCE)
            try:
                self.hear()
            except (FrontGoneError, ValueError):
                return _UNKNOWN
            finally:
                self._line.settimeout(None)
        return _UNKNOWN if self._status is None else self._status


class _Answered:
    """What this process answers for."""

    front: Front | None = None


def answer_for(front: Front) -> None:
    """Have this process answer for a front from now on."""
    _Answered.front = front


def front() -> Front | None:
    """Return the front that this process answers for; None if it answers for itself."""
    return _Answered.front


def parent_process() -> int:
    """Return the parent of the process that asked."""
    return os.getppid() if _Answered.front is None else _Answered.front.parent


def leave(code: int) -> NoReturn:
    """End the command with this exit code at once, without the usual cleanup."""
    if _Answered.front is not None:
        _Answered.front.finish(code)
    os._exit(code)
