"""A terminal of the program's own, shown at the one that byleave was started at.

A program that has the user's terminal reads what is typed there, even when the question was byleave's, and keeps it
in the hands of whatever it leaves running. So it never gets it: every standard stream that is a terminal becomes a
private one, and what goes through is copied.

    raw      standard input is the terminal, and no output is a pipe: every key goes to the private terminal, which
             makes signals of Ctrl-C and Ctrl-Z, as ssh does it
    by line  an output is a pipe, so that something else (a pager) may use the terminal as well: it stays as it is,
             whole lines are passed on, and only while no other program has changed it
    none     standard input is no terminal: only what the program writes is copied

Start at `own_terminal`.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import termios
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING

from byleave.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from byleave.sandbox.process import Process

    _Modes = list[Any]

_RAW, _BY_LINE, _NONE = "raw", "by line", "none"
_PIECE = 1 << 16
_LOOK = 200  # milliseconds between two looks at whether we are in the foreground
_LAST_WORDS = 5  # seconds that the terminal may take to show what the program wrote last
_QUIET = 20  # milliseconds without a word after which a program that has ended has said everything
_LONGEST_QUIET = 0.3  # seconds to wait for that, where something else goes on talking
_INPUT, _OUTPUT, _LOCAL, _CONTROL = 0, 1, 3, 6  # places in what tcgetattr returns
_BREAKS = termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP
_KEYS_CHANGED = _BREAKS | termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON
_SEND_SIGNAL = 0x40045436  # TIOCSIG: have a private terminal signal its foreground


def own_terminal() -> OwnTerminal | None:
    """Return a terminal for a program that would get our standard streams; None if none of them is a terminal."""
    ours = tuple(number for number in range(3) if os.isatty(number))
    return OwnTerminal(ours) if ours else None


class OwnTerminal:
    """A private terminal, in place of the standard streams that are `ours`. Close it when the program has ended."""

    def __init__(self, ours: tuple[int, ...]) -> None:
        try:
            self._master, self._slave = os.openpty()
            self.path = os.ttyname(self._slave)
        except OSError as error:
            raise SandboxError(
                f"there is no terminal for the program: {(error.strerror or 'unknown').lower()}",
                hint="let standard input, output and error lead elsewhere, or mount devpts",
            ) from None
        self._ours = ours
        self._outer = next(number for number in (0, 1, 2) if number in ours)
        self._shown = next(number for number in (1, 2, 0) if number in ours)
        self._how = _way_in(ours)
        self._before = termios.tcgetattr(self._outer)
        self._is_raw = False
        self._paused = False
        self._changing = Lock()
        self._showing = Lock()  # while something is written to ours
        self._over = Event()
        self._woken, self._waking = os.pipe()
        self._threads: list[Thread] = []
        self._process: Process | None = None
        self._prepare()

    @property
    def controls(self) -> bool:
        """Whether the program can be asked at it: then it is the controlling terminal of the program's session."""
        return self._how != _NONE

    def stream(self, number: int) -> int | None:
        """Return what the program gets as a standard stream: the private terminal if ours is one, else what we have."""
        return self._slave if number in self._ours else None

    def serve(self, process: Process, suspended: Callable[[], object]) -> None:
        """Copy what goes through until the program has ended; `suspended` is called when Ctrl-Z is pressed."""
        self._process = process
        with suppress(OSError, termios.error):
            self._is_our_turn()  # before anything is shown
        self._start(self._show)
        if self._how != _NONE:
            self._start(self._pass_on, suspended)

    def resize(self) -> None:
        """Have the private terminal as large as ours, which signals its foreground."""
        with suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, fcntl.ioctl(self._outer, termios.TIOCGWINSZ, bytes(8)))

    def signal(self, number: int) -> None:
        """Signal the foreground of the private terminal, as ours has signalled us: by SIGINT or SIGQUIT."""
        with suppress(OSError):
            fcntl.ioctl(self._master, _SEND_SIGNAL, number)

    def pause(self, *, forget: bool = False) -> None:
        """Leave our terminal as we found it, until `resume`.

        With `forget`, what was not read is dropped: what a terminal answers to a question of the program's is not
        for the shell to run.
        """
        with self._changing:
            self._paused = True
            if self._is_raw:
                self._is_raw = False
                self._set(self._before, termios.TCSAFLUSH if forget else termios.TCSADRAIN)

    def resume(self) -> None:
        """Go on with our terminal after a pause."""
        self._paused = False

    def leave(self) -> None:
        """Show what the program wrote last, and leave our terminal as we found it; what it left running keeps its own.

        That is read on, to where our standard streams lead by then: a program whose terminal is closed ends.
        """
        self._stop_passing_on()
        written = select.poll()
        written.register(self._master, select.POLLIN)
        until = monotonic() + _LONGEST_QUIET
        while written.poll(_QUIET) and monotonic() < until:
            sleep(_QUIET / 1000)  # `_show` reads it
        with self._showing:
            self.pause(forget=True)

    def close(self) -> None:
        """Show what the program wrote last, and leave our terminal as we found it."""
        self._stop_passing_on()
        os.close(self._slave)  # from here on, reading comes to an end
        for thread in self._threads:
            thread.join(_LAST_WORDS)
        self.pause(forget=True)
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self._master)
            os.close(self._woken)

    def _stop_passing_on(self) -> None:
        if not self._over.is_set():
            self._over.set()
            os.close(self._waking)

    def _start(self, work: Callable[..., object], *words: object) -> None:
        thread = Thread(target=work, args=words, name="byleave-terminal", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _prepare(self) -> None:
        modes = termios.tcgetattr(self._outer)
        if self._how == _BY_LINE:  # what is typed stands there already
            modes[_LOCAL] &= ~termios.ECHO
        if self._how != _RAW:  # ours ends lines for it
            modes[_OUTPUT] &= ~termios.OPOST
        termios.tcsetattr(self._slave, termios.TCSANOW, modes)
        self.resize()

    def _show(self) -> None:
        """Copy what the program writes to our terminal, to the end."""
        with suppress(OSError):  # that is how Linux says that the other end is closed
            while data := os.read(self._master, _PIECE):
                ends = self._how == _RAW and not self._is_raw  # in the background, ours ends lines once more
                with self._showing:
                    _write_all(self._shown, data.replace(b"\r\n", b"\n") if ends else data)

    def _pass_on(self, suspended: Callable[[], object]) -> None:
        """Copy what is typed to the private terminal, while it is ours to read."""
        polled = select.poll()
        polled.register(self._outer, select.POLLIN)
        polled.register(self._woken, select.POLLIN)
        with suppress(OSError, termios.error):
            while not self._over.is_set():
                if not self._is_our_turn():
                    self._over.wait(_LOOK / 1000)
                elif polled.poll(_LOOK) and not self._over.is_set() and self._is_our_turn():
                    typed = os.read(self._outer, _PIECE)
                    if not typed:
                        typed = self._character(termios.VEOF)
                    self._take(typed, suspended)

    def _take(self, typed: bytes, suspended: Callable[[], object]) -> None:
        stop = self._character(termios.VSUSP)
        if self._how == _RAW and stop in typed and self._stops_all():
            typed, _, _rest = typed.partition(stop)
            _write_all(self._master, typed)
            self.pause()
            suspended()
        else:
            _write_all(self._master, typed)

    def _stops_all(self) -> bool:
        """Whether Ctrl-Z is for the program itself: it is in the foreground, and has not asked for the bare keys."""
        modes = termios.tcgetattr(self._slave)
        in_front = os.tcgetpgrp(self._master)
        return bool(modes[_LOCAL] & termios.ISIG) and self._process is not None and in_front == self._process.pid

    def _character(self, which: int) -> bytes:
        found = termios.tcgetattr(self._slave)[_CONTROL][which]
        return found if isinstance(found, bytes) and found != b"\0" else b"\xff\xff\xff"  # which is never typed

    def _is_our_turn(self) -> bool:
        """Whether we may read: we are in the foreground, and in raw mode, or no other program reads key by key."""
        if self._how == _NONE:
            return False
        if os.tcgetpgrp(self._outer) != os.getpgrp():
            self._is_raw = False  # the program in front has set it as it likes
            return False
        if self._how == _RAW:
            return self._enter_raw()
        return not self._paused and bool(termios.tcgetattr(self._outer)[_LOCAL] & termios.ICANON)

    def _enter_raw(self) -> bool:
        with self._changing:
            if not self._is_raw and not self._paused:
                self._before = termios.tcgetattr(self._outer)
                self._set(_raw(self._before))
                self._is_raw = True
            return self._is_raw

    def _set(self, modes: _Modes, when: int = termios.TCSADRAIN) -> None:
        """Change our terminal; from the background it would stop us, so that it is left alone then."""
        with suppress(OSError, termios.error):
            if os.tcgetpgrp(self._outer) == os.getpgrp():
                termios.tcsetattr(self._outer, when, modes)


def _way_in(ours: tuple[int, ...]) -> str:
    if 0 not in ours:
        return _NONE
    shared = any(_is_pipe(number) for number in (1, 2) if number not in ours)
    return _BY_LINE if shared else _RAW


def _is_pipe(number: int) -> bool:
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _raw(modes: _Modes) -> _Modes:
    """Return the modes of a terminal that changes nothing of what goes through, and sends no signal."""
    found = [*modes[:_CONTROL], list(modes[_CONTROL])]
    found[_INPUT] &= ~_KEYS_CHANGED
    found[_OUTPUT] &= ~termios.OPOST
    found[_LOCAL] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    found[_CONTROL][termios.VMIN], found[_CONTROL][termios.VTIME] = 1, 0
    return found


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def show_errors(process: Process) -> None:
    """Copy what a program writes to standard error, which is a pipe, to ours, which is a terminal."""
    if process.stderr is not None:
        Thread(target=_copy, args=(process.stderr.fileno(), 2), name="byleave-errors", daemon=True).start()


def _copy(source: int, sink: int) -> None:
    with suppress(OSError):
        while data := os.read(source, _PIECE):
            _write_all(sink, data)
