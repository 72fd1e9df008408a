"""Where each key and value of a TOML file stands, so that an error or an explanation can point at it.

The text is one that tomllib has accepted: no error is found here. `locate` goes over it once and notes only the table
headers, because most files need no more. The inside of a table is read when a place in it is looked up, and then kept.

Start at `locate`. Paths are tuples of names and list positions: ("tools", "t", "access", "fs", 0, "path").
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import SourceSpan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class Spots(Protocol):
        """Answers where a path of a tree stands in the text it was read from, whatever its syntax."""

        def line(self, path: Path) -> int: ...

        def point(self, path: Path, file: str, *, at_key: bool = False) -> SourceSpan: ...


Path = tuple[str | int, ...]
Stretch = tuple[int, int]  # offsets into the text: first character, and the one after the last
Found = dict[Path, tuple[Stretch | None, Stretch | None]]  # the key's stretch, the value's stretch

_WIDEST_LINE = 300  # characters of a line worth showing beneath an error

_BARE = r"[A-Za-z0-9_-]+"
# One whole line: blank, a comment, or a bare key with a value that cannot run on into the next line.
_PLAIN_LINE = re.compile(
    rf"""[ \t]*(?:
        {_BARE}(?:\.{_BARE})* [ \t]*=[ \t]*
        (?: "[^"\\\n]*"(?!") | '[^'\n]*'(?!') | [^\s"'\[{{\#,][^"'\[{{\#\n]* )
        [ \t]*
    )?(?:\#[^\n]*)?\r?(?:\n|\Z)""",
    re.VERBOSE,
)
_PLAIN_HEADER = re.compile(rf"[ \t]*\[(\[?)({_BARE}(?:\.{_BARE})*)\]\]?(?:[ \t]*\r?\n)?")
_TURN = re.compile(r"""["'\[\]{}#\n]""")  # characters that may begin or end something
_BARE_KEY = re.compile(_BARE)
_BLANKS = re.compile(r"[ \t]*")
_GAP = re.compile(r"[ \t\r\n,]*")
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+")  # a date and a time may have a blank between
_ESCAPE_OR_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_ESCAPE_OR_QUOTES = re.compile(r'\\.|"""', re.DOTALL)


class Span(Struct, frozen=True):
    """A stretch of the text. Lines count from 1, columns from 0; the width runs on over line ends."""

    line: int
    column: int
    width: int


class TomlSpans:
    """Answers where a path of the tree stands in the text. Made by `locate`."""

    def __init__(self, text: str, headers: dict[Path, int], implied: dict[Path, int]) -> None:
        self._text = text
        self._headers = headers
        self._implied = implied
        self._bodies: dict[Path, Found] = {}
        self._line_starts: list[int] = []

    def key(self, path: Path) -> Span | None:
        """Return where the key that makes `path` is written; list items without a header have none."""
        stretch = self._key_in_header(path) or self._in_bodies(path)[0]
        return self._span(stretch) if stretch else None

    def value(self, path: Path) -> Span | None:
        """Return where the value at `path` is written; a table made by a header has none."""
        stretch = self._in_bodies(path)[1]
        return self._span(stretch) if stretch else None

    def line(self, path: Path) -> int:
        """Return the line that defines the item at `path`, or its nearest ancestor that is written down."""
        for length in range(len(path), 0, -1):
            offset = self._offset(path[:length])
            if offset is not None:
                return self._line_of(offset)
        return 1

    def text(self, span: Span) -> str:
        """Return what is written there."""
        start = self._starts()[span.line - 1] + span.column
        return self._text[start : start + span.width]

    def point(self, path: Path, file: str, *, at_key: bool = False) -> SourceSpan:
        """Return what to underline for `path`: its value (or key), else its key (or value), else a line."""
        key, value = self._key_in_header(path) or self._in_bodies(path)[0], self._in_bodies(path)[1]
        stretch = (key or value) if at_key else (value or key)
        if not stretch:
            return SourceSpan(file, self.line(path))
        return place_at(self._text, stretch, file, line=self._line_of(stretch[0]))

    def tables(self, path: Path) -> list[Stretch]:
        """Return the tables with headers of their own that make up the item at `path`, each up to the next header."""
        starts = sorted(self._headers.values())
        own = sorted(offset for table, offset in self._headers.items() if table[: len(path)] == path)
        return [
            (start, next((each for each in starts[bisect_right(starts, start) :]), len(self._text))) for start in own
        ]

    def stretch(self, path: Path) -> Stretch | None:
        """Return the offsets of the value at `path`; a table made by a header has none."""
        return self._in_bodies(path)[1]

    def _offset(self, path: Path) -> int | None:
        header = self._headers.get(path, self._implied.get(path))
        if header is not None:
            return header
        stretch = next((found for found in self._in_bodies(path) if found), None)
        return stretch[0] if stretch else None

    def _key_in_header(self, path: Path) -> Stretch | None:
        offset = self._headers.get(path, self._implied.get(path))
        if offset is None:
            return None
        parts, _ = _read_key(self._text, _header_key(self._text, offset))
        _, start, end = parts[sum(isinstance(step, str) for step in path) - 1]
        return start, end

    def _in_bodies(self, path: Path) -> tuple[Stretch | None, Stretch | None]:
        """Look in the table nearest to `path` first: an outer one may reach it by dotted keys."""
        for length in range(len(path) - 1, -1, -1):
            table = path[:length]
            if (table in self._headers or not table) and (found := self._body(table).get(path[length:])):
                return found
        return None, None

    def _body(self, table: Path) -> Found:
        if table not in self._bodies:
            start = statement_end(self._text, self._headers[table]) if table else 0
            self._bodies[table] = _read_body(self._text, start)
        return self._bodies[table]

    def _span(self, stretch: Stretch) -> Span:
        start, end = stretch
        line = self._line_of(start)
        return Span(line, start - self._starts()[line - 1], end - start)

    def _line_of(self, offset: int) -> int:
        return bisect_right(self._starts(), offset)

    def _starts(self) -> list[int]:
        if not self._line_starts:
            self._line_starts = [0, *[match.end() for match in re.finditer("\n", self._text)]]
        return self._line_starts


class _Headers:
    """Turns headers, in the order of the file, into paths: `[a.b]` means the last `a` if that is a list."""

    def __init__(self) -> None:
        self.declared: dict[Path, int] = {}
        self.implied: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}

    def enter(self, names: list[str], offset: int, *, listed: bool) -> None:
        path: Path = ()
        for name in names[:-1]:
            path = (*path, name)
            self.implied.setdefault(path, offset)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        path = (*path, names[-1])
        if listed:
            self.implied.setdefault(path, offset)
            count = self._counts.get(path, 0)
            self._counts[path] = count + 1
            path = (*path, count)
        self.declared[path] = offset


def locate(text: str) -> TomlSpans:
    """Return the places of everything in `text`, which tomllib has accepted."""
    headers = _Headers()
    offset, length = 0, len(text)
    plain_line, plain_header = _PLAIN_LINE.match, _PLAIN_HEADER.match
    while offset < length:
        if match := plain_line(text, offset):
            offset = match.end()
        elif match := plain_header(text, offset):
            listed, names = match.groups()
            headers.enter(names.split("."), offset, listed=listed == "[")
            offset = match.end()
        else:
            offset = _odd_statement(text, offset, headers)
    return TomlSpans(text, headers.declared, headers.implied)


def place_at(text: str, stretch: Stretch, file: str, *, line: int = 0) -> SourceSpan:
    """Return a stretch of `text` as a `Place`, cut at the end of its line. Long lines are not shown whole."""
    start, end = stretch
    begins = text.rfind("\n", 0, start) + 1
    ends = text.find("\n", start)
    whole = text[begins : len(text) if ends < 0 else ends].removesuffix("\r")
    column, shown = start - begins, whole[:_WIDEST_LINE]
    width = max(1, min(end, begins + len(whole)) - start)
    line = line or text.count("\n", 0, start) + 1
    return SourceSpan(file, line, column, width, shown if column < _WIDEST_LINE else "")


def _odd_statement(text: str, offset: int, headers: _Headers) -> int:
    """Pass over a statement the quick patterns do not know, and return where the next begins."""
    start = _skip(_BLANKS, text, offset)
    if text.startswith("[", start):
        parts, _ = _read_key(text, _header_key(text, start))
        headers.enter([name for name, _, _ in parts], offset, listed=text.startswith("[[", start))
    return statement_end(text, start)


def statement_end(text: str, offset: int) -> int:
    """Return where the next statement begins: after the first line end outside strings and brackets."""
    depth = 0
    for char, after in turns(text, offset):
        if char != "\n":
            depth += 1 if char in "[{" else -1
        elif depth <= 0:
            return after
    return len(text)


def turns(text: str, offset: int) -> Iterator[tuple[str, int]]:
    """Yield each bracket and line end outside strings and comments, with the offset after it."""
    while match := _TURN.search(text, offset):
        char, offset = match[0], match.end()
        if char in "\"'":
            offset = string_end(text, match.start())
        elif char == "#":
            offset = line_end(text, offset)
        else:
            yield char, offset


def line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    return len(text) if end < 0 else end


def string_end(text: str, start: int) -> int:
    """Return the offset after the string, of any of the four kinds, that begins at `start`."""
    quote = text[start]
    if not text.startswith(quote * 3, start):
        return _closing(text, start + 1, quote, _ESCAPE_OR_QUOTE)
    end = _closing(text, start + 3, quote * 3, _ESCAPE_OR_QUOTES)
    extra = text[end : end + 2]  # up to two quotes may stand right before the closing three
    return end + len(extra) - len(extra.lstrip(quote))


def _closing(text: str, offset: int, quotes: str, escape_or_quotes: re.Pattern[str]) -> int:
    if quotes[0] == "'":
        end = text.find(quotes, offset)
        return len(text) if end < 0 else end + len(quotes)
    for match in escape_or_quotes.finditer(text, offset):
        if match[0] == quotes:
            return match.end()
    return len(text)


def _header_key(text: str, offset: int) -> int:
    """Return where the key of a header begins, after its one or two brackets."""
    start = _skip(_BLANKS, text, offset)
    return start + (2 if text.startswith("[[", start) else 1)


def _read_key(text: str, offset: int) -> tuple[list[tuple[str, int, int]], int]:
    """Read a dotted key: each name with its stretch, and the offset after the key and its blanks."""
    parts = []
    while True:
        start = _skip(_BLANKS, text, offset)
        name, end = _read_name(text, start)
        parts.append((name, start, end))
        offset = _skip(_BLANKS, text, end)
        if not text.startswith(".", offset):
            return parts, offset
        offset += 1


def _read_name(text: str, start: int) -> tuple[str, int]:
    if not text.startswith(('"', "'"), start):
        end = _skip(_BARE_KEY, text, start)
        return text[start:end], end
    end = string_end(text, start)
    name = text[start + 1 : end - 1]
    return (_unescaped(text[start:end]) if text[start] == '"' and "\\" in name else name), end


def _unescaped(basic_string: str) -> str:
    import tomllib  # only for keys with escapes

    name = tomllib.loads(f"name = {basic_string}")["name"]
    return str(name)


def _read_body(text: str, offset: int) -> Found:
    """Read the statements from `offset` to the next header."""
    found: Found = {}
    while (offset := _past_filling(text, offset)) < len(text) and text[offset] != "[":
        try:
            offset = _read_pair(text, offset, (), found)
        except RecursionError:  # so deep inside, only the key has a place
            offset = statement_end(text, offset)
    return found


def _read_pair(text: str, offset: int, table: Path, found: Found) -> int:
    """Read `key = value`, note the places in it, and return the offset after it."""
    parts, offset = _read_key(text, offset)
    path = table
    for name, start, end in parts:
        path = (*path, name)
        found.setdefault(path, ((start, end), None))
    start = _skip(_BLANKS, text, offset + 1)
    end = _read_value(text, start, path, found)
    found[path] = (parts[-1][1:], (start, end))
    return end


def _read_value(text: str, offset: int, path: Path, found: Found) -> int:
    """Note the places inside the value at `offset`, and return the offset after it."""
    match text[offset : offset + 1]:
        case '"' | "'":
            return string_end(text, offset)
        case "[":
            return _read_list(text, offset + 1, path, found)
        case "{":
            return _read_inline_table(text, offset + 1, path, found)
        case _:
            return max(_skip(_SCALAR, text, offset), offset + 1)


def _read_list(text: str, offset: int, path: Path, found: Found) -> int:
    index = 0
    while (start := _past_filling(text, offset)) < len(text) and text[start] != "]":
        item = (*path, index)
        offset = _read_value(text, start, item, found)
        found[item] = (None, (start, offset))
        index += 1
    return start + 1


def _read_inline_table(text: str, offset: int, path: Path, found: Found) -> int:
    while (start := _past_filling(text, offset)) < len(text) and text[start] != "}":
        offset = _read_pair(text, start, path, found)
    return start + 1


def _past_filling(text: str, offset: int) -> int:
    """Return the offset after the blanks, commas, line ends and comments between statements or items."""
    while text.startswith("#", offset := _skip(_GAP, text, offset)):
        offset = line_end(text, offset)
    return offset


def _skip(pattern: re.Pattern[str], text: str, offset: int) -> int:
    match = pattern.match(text, offset)
    return match.end() if match else offset
