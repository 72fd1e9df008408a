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
    from collections.abc import Callable, Iterable, Sequence

_LONGEST = 64  # bytes of a message from the front
_PATIENCE = 10.0  # seconds for an answer of the front, which only has to fork
_ALIVE = 10.0  # seconds between two words to a front that waits for a call
_GIVEN_UP = 60.0  # seconds after which a front has given up a process that says nothing (sandbox/native/front.h)
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
        self._on_signal: Callable[[], object] = _end_at_once
        self._on_end: Callable[[], object] = _end_at_once

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

    def follow(self) -> None:
        """Have this process, which runs a call, end with the front from now on: a thread listens to it.

        It reports to the front every few seconds that the call goes on. A process that cannot even say that is ended by
        the kernel when the front has given it up.
        """
        from threading import Thread  # a hook that starts by itself loads this module

        end_when_given_up()
        self._line.settimeout(_ALIVE)
        Thread(target=self._follow, name="byleave-front", daemon=True).start()

    def pass_signals(self, on_signal: Callable[[], object], on_end: Callable[[], object]) -> None:
        """Have one function called for each signal that would stop the call, and the other when the front has ended.

        Before this, a signal ends the front, as it ends a command that runs by itself and does not listen yet.
        """
        self._on_signal, self._on_end = on_signal, on_end
        self._say_alive()

    def _follow(self) -> None:
        while self._hears_signal():
            self._on_signal()
        if not self._finished:
            self._on_end()

    def _hears_signal(self) -> bool:
        """Wait for what the front says; return whether it was a signal, not its end."""
        while True:
            try:
                return self._line.recv(_LONGEST).startswith(b"S")
            except TimeoutError:
                end_when_given_up()
                self._say_alive()
            except OSError:
                return False

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


def end_when_given_up() -> None:
    """Have the kernel end this process once a front that has heard nothing from it since now has given up."""
    import signal  # a hook that starts by itself loads this module

    signal.setitimer(signal.ITIMER_REAL, _GIVEN_UP)


def _end_at_once() -> NoReturn:
    os._exit(1)


class _Answered:
    """What this process answers for, and what it does once the front has its answer."""

    front: Front | None = None
    later: list[Callable[[], object]] = []


def answer_for(front: Front) -> None:
    """Have this process answer for a front from now on."""
    _Answered.front = front


def front() -> Front | None:
    """Return the front that this process answers for; None if it answers for itself."""
    return _Answered.front


def after_answer(do: Callable[[], object]) -> None:
    """Have `do` called once the caller has all output and the exit code; at once where the caller waits for our end.

    It has no streams then, and must leave things in order wherever it is killed.
    """
    if _Answered.front is None or _Answered.front.is_finished:
        do()
    else:
        _Answered.later.append(do)


def parent_process() -> int:
    """Return the parent of the process that asked."""
    return os.getppid() if _Answered.front is None else _Answered.front.parent


def leave(code: int) -> NoReturn:
    """End the command with this exit code at once, without the usual cleanup."""
    try:
        if _Answered.front is not None:
            _Answered.front.finish(code)
        if _Answered.later:
            _let_go_of_streams()
            while _Answered.later:
                _Answered.later.pop(0)()
    finally:
        os._exit(code)


def _let_go_of_streams() -> None:
    """Close the caller's streams: who reads them waits until all that write to them are gone."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
