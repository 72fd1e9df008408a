"""How results are printed: coloured on a terminal, plain in a pipe, JSON for programs. Closed streams do no harm."""

from __future__ import annotations

import io
import json
import os
import select
import sys
import time
from calendar import timegm
from typing import TYPE_CHECKING, TextIO

from byleave.text import shown, shown_lines, speakable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from byleave.cli.arguments import ParsedArguments

_NARROWEST = 20  # columns of a terminal that lists are made for
_USUAL = 80  # columns of a terminal that does not say how wide it is
_AT_ONCE = 3500  # bytes; a pipe that can be written to takes 4,096
_COLOURS = {"allow": "32", "ask": "33", "deny": "31", "bold": "1", "dim": "2"}


def open_closed_streams() -> None:
    """Put /dev/null in the place of standard streams that were closed: a file opened later must not become one."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def buffer_output() -> None:
    """Give standard output and error a buffer where PYTHONUNBUFFERED took it away; each line still leaves at once.

    Without a buffer, Python drops the rest of a text when a signal or a full pipe cuts a write short.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            kept = {"encoding": stream.encoding, "errors": stream.errors, "closefd": False}
            setattr(sys, name, open(stream.fileno(), "w", buffering=1, **kept))  # noqa: SIM115 -- open until the end


def silence(stream: TextIO) -> None:
    """Lead a stream nowhere, so that the interpreter does not complain at its end about what is left in it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def say(text: str) -> None:
    """Write a text to standard output."""
    sys.stdout.write(f"{text}\n")


def say_json(tree: object) -> None:
    """Write a tree as one line of JSON, in ASCII: valid and harmless whatever the encoding and the terminal are."""
    say(json.dumps(speakable(tree), default=str))


def complain(text: str) -> None:
    """Write to standard error, if it is open."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def warn(given: ParsedArguments, warnings: Iterable[str]) -> None:
    """Write warnings to standard error, unless -q is given."""
    if given.flag("quiet"):
        return
    for warning in warnings:
        complain(fitted(f"{paint('byleave: warning:', 'ask', sys.stderr)} {shown_lines(warning)}", sys.stderr))


def warn_if_read(given: ParsedArguments, warnings: Iterable[str]) -> None:
    """Warn where standard error can be written without waiting: an unread warning must not stop a conversation."""
    for warning in warnings:
        if _can_be_written(sys.stderr):  # by as much as a pipe takes at once, and no more
            warn(given, [_cut(warning)])


def _cut(sentence: str) -> str:
    text = shown_lines(sentence)
    return text if len(text.encode("utf-8", "replace")) <= _AT_ONCE else f"{text[: _AT_ONCE // 4]}..."


def _can_be_written(stream: TextIO) -> bool:
    ready = select.poll()
    try:
        ready.register(stream.fileno(), select.POLLOUT)
        return bool(ready.poll(0))
    except (OSError, ValueError):  # it is closed
        return False


def say_verbose(given: ParsedArguments, lines: Iterable[str]) -> None:
    """Write details to standard error, if -v is given."""
    if given.flag("verbose"):
        for line in lines:
            complain(f"{paint('byleave:', 'dim', sys.stderr)} {shown(line)}")


def paint(text: str, colour: str, stream: object = None) -> str:
    """Return `text` in a colour, if the stream is a terminal that shows colours."""
    if not _colourful(stream if stream is not None else sys.stdout):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def is_closed_within(seconds: float) -> bool:
    """Wait, but not for a reader of our output who is gone."""
    import select

    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(seconds * 1000))


def local_time(stamp: str) -> str:
    """Return a time of a record, in UTC, as the clock on the wall has it: date and time; what is no time stays."""
    try:
        return time.strftime(
            "%Y-%m-%d %H:%M:%S", time.localtime(timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")))
        )
    except (ValueError, OverflowError, OSError):
        return stamp


def columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Return rows as lines whose cells stand under each other."""
    if not rows:
        return []
    widths = [max(width_of(row[number]) for row in rows) for number in range(len(rows[0]))]
    return [
        indent + "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def fitting_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as `columns` does; where the terminal is too narrow, the other cells beside or below the first."""
    lines = columns(rows)
    width = room()
    if max((width_of(line) for line in lines), default=0) <= width:
        return lines
    pairs = [(f"  {first}", "  ".join(others)) for first, *others in rows]
    if max(len(first) for first, _others in pairs) <= width // 2:
        return [line for row in table(pairs) for line in row]
    return [row for first, others in pairs for line in (first, f"      {others}") for row in _hung(line, width)]


def width_of(text: str) -> int:
    """Return how many columns a text takes at a terminal: a wide character takes two."""
    if text.isascii():
        return len(text)
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut_to(text: str, width: int) -> str:
    """Return a text that is safe to show in at most so many columns; a mark stands for what is left out."""
    if width_of(text) <= width:
        return text
    kept, left = "", width - 1
    for char in text:
        left -= width_of(char)
        if left < 0:
            break
        kept += char
    return f"{kept}…" if width > 0 else ""


def padded(text: str, width: int) -> str:
    """Return a text in exactly so many columns."""
    cut = cut_to(text, width)
    return cut + " " * (width - width_of(cut))


def room() -> int:
    """Return how many columns a line may have: those of the terminal, any number where a program reads."""
    known = known_width()
    return max(known, _NARROWEST) if known is not None else sys.maxsize


def known_width() -> int | None:
    """Return the columns of the terminal, or those that COLUMNS names; None where a program reads."""
    import shutil

    return shutil.get_terminal_size((0, 24)).columns or None


def table(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the lines of each row; the last cell goes on below itself where the terminal is too narrow for it.

    No letter is lost or put in: the parts of a word that is too long stand below each other.
    """
    if not rows:
        return []
    width = room()
    heads = columns([row[:-1] for row in rows], indent="")
    taken = max(width_of(head) for head in heads) + 2
    left = width - taken
    too_long = any(width_of(row[-1]) > left for row in rows)
    if left < _NARROWEST or (too_long and left < width // 3):  # the last cell below the others
        return [
            [*_lines("  ".join(row[:-1]), width), *(f"    {line}" for line in _lines(row[-1], width - 4))]
            for row in rows
        ]
    return [
        [f"{padded(head, taken)}{first}", *(f"{'':<{taken}}{other}" for other in others)]
        for head, row in zip(heads, rows, strict=True)
        for first, *others in [_lines(row[-1], left)]
    ]


def fitted(text: str, stream: TextIO | None = None) -> str:
    """Return a text for a terminal in lines that fit; for a program that reads it, as it is.

    `stream` is where the text goes, by default standard output.
    """
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return text
    try:
        width = max(os.get_terminal_size(stream.fileno()).columns, 40)
    except OSError:
        width = _USUAL
    return "\n".join(row for line in text.split("\n") for row in _hung(line, width))


def _hung(line: str, width: int) -> list[str]:
    """Return the rows of one line: those behind the first stand further in."""
    if width_of(line) <= width:
        return [line]
    plain = line.lstrip(" ")
    before = line[: len(line) - len(plain)]
    inside = f"{before}    "
    rows = _lines(plain, width - len(inside))
    return [f"{before}{rows[0]}", *(f"{inside}{row}" for row in rows[1:])]


def _lines(text: str, width: int) -> list[str]:
    """Return a text in lines of at most so many columns, at least 16."""
    width = max(width, _NARROWEST - 4)
    lines: list[str] = []
    for line in text.split("\n"):
        rest = line
        while width_of(rest) > width:
            fits = width if rest.isascii() else len(cut_to(f"{rest}  ", width + 1)) - 1
            blank = rest.rfind(" ", fits // 2, fits + 1)
            end = blank if blank > 0 else fits
            lines.append(rest[:end])
            rest = rest[end + 1 :] if blank > 0 else rest[end:]
        lines.append(rest)
    return lines


def _colourful(stream: object) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty())
