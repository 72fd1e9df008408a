"""Texts as the tools see them: lines end in a newline and in nothing else, and what is shown is bounded.

What changed in a text, as a unified diff.
"""

from __future__ import annotations

from difflib import unified_diff
from typing import Any

LONGEST_LINE = 500  # characters of a line that are shown where many lines are
LONGEST_TEXT = 100_000  # characters of an output that are worth a model's while


def lines_of(text: str) -> list[str]:
    """Return the lines with their ends. Form feeds and the like are part of a line, as editors count lines."""
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def counted(number: int, word: str) -> str:
    """Return `3 files`, `1 file`, `no files`; also of a match there are matches."""
    plural = f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"1 {word}" if number == 1 else f"{number or 'no'} {plural}"


def clipped(line: str) -> str:
    """Return a line that is not too long to show."""
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}... ({len(line)} characters)"


def with_note(text: str, note: str) -> list[dict[str, Any]]:
    """Return what was found, exactly as it is, and apart from it what there is to say about it."""
    return [{"type": "text", "text": text}, {"type": "text", "text": note}]


_MOST_LINES = 20_000  # of both texts together; difflib's time grows with their product
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified(path: str, before: str, after: str) -> str:
    """Return the diff of one file, as `diff -u` and `git` write it; of a very large one, only that it changed."""
    old, new = lines_of(before), lines_of(after)
    if len(old) + len(new) > _MOST_LINES:
        return f"--- {path}\n+++ {path}\n(too large to show what changed: {len(old)} lines before, {len(new)} now)\n"
    lines = unified_diff(old, new, path, path)
    return "".join(line if line.endswith("\n") else f"{line}{_NO_NEWLINE}" for line in lines)
