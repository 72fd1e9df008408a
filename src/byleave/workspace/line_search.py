r"""Search open files line by line in this process, where there is no ripgrep.

RE2 matches: no pattern takes longer than the file is long, and none takes more memory than a fixed amount. It finds the
lines that ripgrep finds, but for two things: `\w`, `\d`, `\s` and `\b` know ASCII alone, and a repetition counts to
1000 at most. `workspace.grep` walks, opens and counts; it uses this as it uses a batch of ripgrep.
"""

from __future__ import annotations

import codecs
import os
import re
from itertools import islice
from typing import TYPE_CHECKING

from byleave.workspace.project import FileLine

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 1 << 20
_LINE_END = re.compile(r"(?<!\\)(?:\\\\)*\\n|\n")  # in a pattern: as an escape, or as itself
_MOST_MEMORY = 64 << 20  # bytes of one compiled pattern; 32 KB of nested repetitions are refused
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class LinePattern:
    """A regular expression that is looked for within lines. ValueError if it cannot be used."""

    def __init__(self, text: str, *, context: int, most: int) -> None:
        import re2  # type: ignore[import-untyped] # loaded only for a search without ripgrep

        if _LINE_END.search(text):
            raise ValueError("a match never spans lines, so it cannot contain the end of one")
        options = re2.Options()
        options.log_errors = False
        options.never_nl = True
        options.max_mem = _MOST_MEMORY
        try:
            re2.compile(text, options)  # alone: `a)(b` is no pattern, whatever is put around it
            self._search = re2.compile(f"(?m)(?:{text})", options).search
        except re2.error as error:
            reason = error.args[0]
            raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
        self._context = context
        self._most = most

    def lines_of(self, content: bytes) -> Iterator[FileLine]:
        """Yield the first `most` lines that match, and those around them; none of a file with a NUL in it."""
        if content.startswith(_WIDE):
            content = content.decode("utf-16", "replace").encode("utf-8", "replace")
        content = content.removeprefix(codecs.BOM_UTF8)
        if b"\0" not in content:
            yield from _with_context(content, list(islice(self._matching(content), self._most)), self._context)

    def _matching(self, content: bytes) -> Iterator[int]:
        """Yield where each line begins that matches."""
        at = 0
        while at < len(content):
            match = self._search(content, at)
            if match is None or (match.start() == len(content) and content.endswith(b"\n")):
                return
            yield content.rfind(b"\n", 0, match.start()) + 1
            end = content.find(b"\n", match.start())
            at = len(content) if end < 0 else end + 1


def read_all(descriptor: int, limit: int) -> bytes | None:
    """Return the content of an open file, from its beginning on; None if it has grown beyond the limit."""
    pieces, size = [], 0
    while piece := os.pread(descriptor, _PIECE, size):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return None
    return b"".join(pieces)


def _with_context(content: bytes, starts: list[int], context: int) -> Iterator[FileLine]:
    """Yield the lines that begin at `starts`, each with `context` lines around it, every line once."""
    number, counted = 1, 0  # the line that begins at `counted`
    given, behind = 0, 0  # the last line that was given, and where the next one begins
    matching = frozenset(starts)
    for start in starts:
        number += content.count(b"\n", counted, start)
        counted = start
        at, begin = (number, start) if number > given else (given + 1, behind)
        while at > max(number - context, given + 1):
            begin = content.rfind(b"\n", 0, begin - 1) + 1
            at -= 1
        while at <= number + context and begin < len(content):
            end = content.find(b"\n", begin)
            end = len(content) if end < 0 else end
            text = content[begin:end].removesuffix(b"\r").decode("utf-8", "replace")
            yield FileLine(at, text, begin in matching)
            given, behind = at, end + 1
            at, begin = given + 1, behind
