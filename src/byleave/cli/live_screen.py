"""A terminal that shows something as it changes, and takes keys, until the person ends it.

A key counts for what is on the screen, and only once that could be read: when something else is shown, all that was
typed before is dropped, and keys that change something are not taken for a moment. What comes as several characters at
once (a paste, a key such as an arrow) is no key.

Start at `show_live`. What is shown: `approvals_view_command`, `audit_view_command`.
"""

from __future__ import annotations

import codecs
import os
import signal
import sys
import termios
import tty
from contextlib import suppress
from select import select
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from byleave.cli.terminal import refuse_agents, requires_person
from byleave.errors import InputError, StateError

if TYPE_CHECKING:
    from byleave.cli.arguments import ParsedArguments

READING_SECONDS = 0.4  # for which something must have been on the screen before a key counts for it
_PERIOD = 1.0  # seconds between two looks
_LONGEST = 64  # bytes that are read at a time
_USUAL_SIZE = 80, 24  # columns and rows of a terminal that does not say how large it is
_CLEAR = "\x1b[H\x1b[2J"
_ESCAPE = "\x1b"
_QUIT = ("q", "\x03", "\x04", "")


class LiveView(Protocol):
    """What is shown. `about` changes whenever a key would be about something else."""

    @property
    def about(self) -> str: ...

    @property
    def is_typing(self) -> bool:
        """Whether letters are text now: `q` does not end it then."""
        ...

    def look(self) -> None:
        """Find out what there is to be shown."""
        ...

    def rows(self, columns: int, rows: int) -> list[str]:
        """Return what to show, no row wider than the columns."""
        ...

    def take(self, key: str, *, read: bool) -> None:
        """Take a key; `read`: what is shown has been there long enough to be read."""
        ...


def requires_screen(given: ParsedArguments) -> None:
    """Return if a person is at a terminal that can show something; else an error."""
    for flag in ("json", "yes", "no_input"):
        if given.flag(flag):
            raise InputError("--ui is for a person at a terminal", hint="leave the other flags out")
    refuse_agents()
    if not (os.isatty(0) and sys.stdout.isatty()):
        hint = "run it in a terminal of your own, without pipes"
        raise StateError("--ui needs a terminal to show something on, and to read keys from", hint=hint)
    requires_person(given)
    if codecs.lookup(sys.stdout.encoding).name != "utf-8":  # there, some letters would act on the terminal
        raise StateError("--ui needs a terminal with UTF-8", hint="set LC_ALL to C.UTF-8, or another one with UTF-8")


def show_live(view: LiveView) -> None:
    """Show, and take keys, until the person ends it. The terminal is as before then, also after a signal.

    Ctrl-Z does nothing: requests would wait for a view that shows nothing.
    """
    before = termios.tcgetattr(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.default_int_handler)
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        tty.setcbreak(0)
        watch_keys(view)
    except KeyboardInterrupt:
        pass
    finally:
        with suppress(OSError, termios.error):  # the terminal hung up
            termios.tcsetattr(0, termios.TCSAFLUSH, before)
            os.write(1, b"\n")


def watch_keys(view: LiveView) -> None:
    """Do the same at a terminal that hands keys on one by one."""
    about: str | None = None
    since = monotonic()
    while True:
        view.look()
        columns, rows = _size()
        _draw(view.rows(columns, rows), rows)
        if view.about != about:
            termios.tcflush(0, termios.TCIFLUSH)  # it was typed about something else
            about, since = view.about, monotonic()
        if not select([0], [], [], _PERIOD)[0]:
            continue
        typed = os.read(0, _LONGEST).decode("utf-8", "replace")
        if typed in _QUIT and not (view.is_typing and typed == "q"):
            return
        if view.is_typing and not typed.startswith(_ESCAPE):
            for char in typed:
                view.take(char, read=True)
        elif len(typed) > 1 or typed == _ESCAPE:
            since = monotonic()  # the rest of it may still come
        else:
            view.take(typed, read=monotonic() - since >= READING_SECONDS)


def _size() -> tuple[int, int]:
    """Return the columns and rows of the terminal; what the environment says of them may be about another one."""
    try:
        found = os.get_terminal_size(1)
    except OSError:
        return _USUAL_SIZE
    return found if found.columns > 0 and found.lines > 0 else _USUAL_SIZE


def _draw(lines: list[str], rows: int) -> None:
    shown_rows = "\r\n".join(lines[: rows - 1])
    content = f"{_CLEAR}{shown_rows}".encode("utf-8", "backslashreplace")
    while content:
        content = content[os.write(1, content) :]
