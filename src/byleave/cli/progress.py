"""A line at the terminal that says how far a long reading is; nothing where no person looks, or where it is short."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.cli.arguments import ParsedArguments

Item = TypeVar("Item")

_PATIENCE = 1.0  # seconds without a word
_PERIOD = 0.2
_STEP = 1000  # items between two looks at the clock
_WIDTH = 24


def with_progress(given: ParsedArguments, items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Yield the items, and show on standard error how many of them are done."""
    if given.flag("quiet") or total < _STEP or not sys.stderr.isatty():
        yield from items
        return
    due = monotonic() + _PATIENCE
    drawn = False
    try:
        for number, item in enumerate(items):
            if number % _STEP == 0 and monotonic() >= due:
                due, drawn = monotonic() + _PERIOD, True
                sys.stderr.write(f"\r{bar(number, total)} {number:,} of {total:,} {what}")
                sys.stderr.flush()
            yield item
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def bar(done: int, total: int) -> str:
    """Return how much is done as a row of signs."""
    filled = _WIDTH * min(done, total) // max(total, 1)
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"
