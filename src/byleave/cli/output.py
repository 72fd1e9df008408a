"""How answers look: coloured on a terminal, plain in a pipe, JSON for programs."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from byleave.cli.arguments import Given

_COLOURS = {"allow": "32", "ask": "33", "deny": "31", "bold": "1", "dim": "2"}


def say(text: str) -> None:
    """Write one answer to standard output."""
    sys.stdout.write(f"{text}\n")


def warn(given: "Given", warnings: "Iterable[str]") -> None:
    """Write warnings to standard error, unless only the answer is wanted."""
    if given.flag("quiet"):
        return
    for warning in warnings:
        sys.stderr.write(f"{paint('byleave: warning:', 'ask', sys.stderr)} {warning}\n")


def say_json(tree: object) -> None:
    """Write a tree as one line of JSON."""
    import json

    say(json.dumps(tree, ensure_ascii=False))


def paint(text: str, colour: str, stream: "object" = None) -> str:
    """Return `text` in a colour, if the stream is a terminal that shows colours."""
    if not _colourful(stream if stream is not None else sys.stdout):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def columns(rows: "Sequence[Sequence[str]]", indent: str = "  ") -> "list[str]":
    """Return rows as lines whose cells stand under each other."""
    if not rows:
        return []
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _colourful(stream: object) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty())
