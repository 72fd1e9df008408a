"""A bar on standard error while a command reads many records: only at a terminal, and only if it takes a while.

Nothing of it is left when the work is done, and nothing of it reaches a pipe or a file.
"""

from __future__ import annotations

import os
import sys
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, TextIO

    from byleave.cli.arguments import ParsedArguments

_DELAY = 0.5  # seconds; what is done by then needs no bar
_PERIOD = 0.1  # seconds between two drawings
_WIDEST = 40  # columns of the bar
_USUAL = 80


class ProgressBar:
    """Draws how much of some work is done; a callable that takes how many of how many."""

    def __init__(self, given: ParsedArguments | None, title: str, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._title = title
        self._next = monotonic() + _DELAY
        self._drawn = 0
        quiet = given is not None and given.flag("quiet")
        self._shows = not quiet and os.environ.get("TERM") != "dumb" and self._stream.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Show that so many of so many are done."""
        if not self._shows or monotonic() < self._next:
            return
        self._next = monotonic() + _PERIOD
        share = min(1.0, done / total) if total > 0 else 1.0
        self._put(bar(self._title, share, self._columns()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._put("")

    def _put(self, line: str) -> None:
        try:
            self._stream.write(f"\r{line:<{self._drawn}}" + ("" if line else "\r"))
            self._stream.flush()
        except OSError:  # the terminal hung up
            self._shows = False
        self._drawn = len(line)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):
            return _USUAL


def bar(title: str, share: float, columns: int) -> str:
    """Return the line of a bar; it never reaches the last column, where a terminal would wrap it."""
    percent = f"{share:4.0%}"
    room = min(_WIDEST, columns - len(title) - len(percent) - 5)
    if room < 1:
        return f"{title} {percent}"[: max(0, columns - 1)]
    full = int(share * room)
    return f"{title} [{'#' * full}{'.' * (room - full)}] {percent}"
