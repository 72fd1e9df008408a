"""Remove items of lists from the text of a TOML file, and leave every other byte as it is.

An item is a table with a `[[header]]`, or a value of a list in brackets. Comments on lines of their own stay; one that
stands behind a removed value goes with it. The result is read again: it has to be the old tree less the items.
"""

from __future__ import annotations

import re
import tomllib
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from byleave.policy.toml_spans import line_end, locate, statement_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from byleave.policy.toml_spans import Path, Stretch, TomlSpans

_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)+")
_OWN_LINE = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")


def without_items(text: str, paths: Sequence[Path]) -> str | None:
    """Return the text without the items at `paths`; None where it cannot be done, or would mean something else."""
    spans = locate(text)
    cuts: list[Stretch] = []
    for path in paths:
        found = list(_cuts(text, spans, path))
        if not found:
            return None
        cuts += found
    changed = text
    for start, end in sorted(_joined(cuts), reverse=True):
        changed = changed[:start] + changed[end:]
    try:
        same = tomllib.loads(changed) == _less(tomllib.loads(text), paths)
    except (tomllib.TOMLDecodeError, LookupError, TypeError):
        return None
    return changed if same else None


def _less(tree: dict[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """Return the tree without the items at `paths`; an error if a list would be empty then."""
    kept: Any = deepcopy(tree)
    for path in sorted(paths, key=_last, reverse=True):
        items: Any = kept
        for step in path[:-1]:
            items = items[step]
        del items[path[-1]]
        if not items:
            raise LookupError
    return dict(kept)


def _last(path: Path) -> int:
    return int(path[-1])


def _cuts(text: str, spans: TomlSpans, path: Path) -> Iterator[Stretch]:
    tables = spans.tables(path)
    first, last = 0, -1
    for start, end in tables:
        first, last = (first if start == last else start), end
        yield from _statements(text, start, end, first)
    value = None if tables else spans.stretch(path)
    if value is not None:
        yield _value(text, *value)


def _statements(text: str, start: int, end: int, first: int) -> Iterator[Stretch]:
    """Yield the header and the statements of a table, without the comments and blank lines between and behind them.

    `first` is where the first of the tables begins that go together.
    """
    offset = start
    while offset < end:
        blank = _OWN_LINE.match(text, offset)
        if blank is not None:
            offset = blank.end() if blank.end() > offset else end
            continue
        begin, offset = offset, statement_end(text, offset)
        last = _OWN_LINE.match(text, offset) is None or offset >= end
        yield begin, offset if last else _past_gap(text, first, offset)


def _past_gap(text: str, start: int, offset: int) -> int:
    """Return the end of the blank lines at `offset`, where a blank line or nothing stands before the table as well."""
    before = text[:start]
    if before and not before.endswith(("\n\n", "\n\r\n")):
        return offset
    gap = _BLANK_LINES.match(text, offset)
    return offset if gap is None else gap.end()


def _value(text: str, start: int, end: int) -> Stretch:
    """Return a value of a list with its comma; with its whole line, if nothing else stands there."""
    after = _past(text, end, " \t")
    comma = text.startswith(",", after)
    if comma:
        end = _past(text, after + 1, " \t")
    begins = text.rfind("\n", 0, start) + 1
    ends = line_end(text, end)
    rest = text[end:ends].strip()
    if not text[begins:start].strip() and (not rest or rest.startswith("#")) and ends < len(text):
        return begins, ends + 1
    if not comma:
        before = len(text[:start].rstrip(" \t"))
        if text.endswith(",", 0, before):
            return before - 1, end
    return start, end


def _past(text: str, offset: int, letters: str) -> int:
    while offset < len(text) and text[offset] in letters:
        offset += 1
    return offset


def _joined(cuts: Iterable[Stretch]) -> list[Stretch]:
    """Return stretches that do not touch each other, for those that may."""
    found: list[Stretch] = []
    for start, end in sorted(cuts):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
