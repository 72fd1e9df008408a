"""Read the text of a configuration file as TOML, or say where it stops being that, and what would work.

tomllib does the reading; its messages are put in our words, and what would cost it minutes is refused first: a key of
ten thousand names, a number of a million digits, values nested without end. A project file may be hostile.

Start at `parse_toml`. `policy.diagnostics` checks the shape of the tree.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from byleave.errors import ConfigError, ConfigErrors
from byleave.policy.toml_spans import Stretch, line_end, place_at, string_end, turns
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_NAMES = 32  # in one dotted key; the longest of our own has seven
_MOST_BRACKETS = 100  # which bracket to blame when tomllib gives up, which it does some hundreds deep
_MOST_DIGITS = 4300  # sys.int_info.default_max_str_digits: int() raises above it
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_KEY_PIECE = re.compile(r"[A-Za-z0-9_-]+|[^A-Za-z0-9_-]", re.DOTALL)


def parse_toml(data: bytes | str, file: str) -> dict[str, Any]:
    """Read TOML into a tree, or raise `ConfigErrors` with the place where it stops being TOML."""
    text = read_text(data, file)
    if stretch := long_key(text, MOST_NAMES):
        raise _refused("this key has too many names", stretch, text, file, hint=f"use at most {MOST_NAMES}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigErrors([_syntax_error(str(error), text, file)]) from None
    except RecursionError:
        stretch = deep_bracket(text, _MOST_BRACKETS) or (0, 1)
        raise _refused("values are nested too deep", stretch, text, file, hint="use fewer levels") from None
    except ValueError:  # from int(), which knows no place
        digits = re.search(rf"[0-9_]{{{_MOST_DIGITS},}}", text)
        stretch = digits.span() if digits else (0, 1)
        raise _refused("this number is too long", stretch, text, file, hint="write a shorter one") from None


def read_text(data: bytes | str, file: str) -> str:
    """Return the text of a file, or raise `ConfigErrors` if it is not plain UTF-8."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    if text.startswith("\ufeff"):
        hint = "save the file as UTF-8 without a byte order mark"
        raise _refused("the file begins with a byte order mark", (0, 1), text, file, hint=hint)
    if not text.isascii() and (bad := re.search(r"[\ud800-\udfff]+", text)):  # what surrogateescape leaves
        raise _refused("this is not UTF-8", bad.span(), text, file, hint="save the file as UTF-8")
    if (nul := text.find("\0")) >= 0:
        raise _refused("a NUL byte stands here", (nul, nul + 1), text, file, hint="remove it")
    return text


def long_key(text: str, most: int) -> Stretch | None:
    """Return the first dotted key of more than `most` names, in text that need not be valid.

    tomllib takes 2 s for one key of 10,000 names (20 KB), and the time grows faster than its square.
    """
    if not re.search(rf"^(?:[^.\n]*\.){{{most}}}", text, re.MULTILINE):
        return None
    start = names = 0
    dotted = True  # at the start of a key, and after each dot
    for kind, begin, end in _key_pieces(text):
        if kind == "name":
            start, names = (start, names + 1) if dotted and names else (begin, 1)
            dotted = False
            if names > most:
                return start, end
        elif kind == ".":
            dotted = True
        else:
            names = 0
    return None


def _key_pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield names, dots and all else ("") in order; blanks and comments are left out."""
    offset, length = 0, len(text)
    while offset < length:
        match = _KEY_PIECE.match(text, offset)
        begin, offset = offset, match.end() if match else length
        char = text[begin]
        if char in "\"'":
            offset = string_end(text, begin)
            yield "name", begin, offset
        elif char == "#":
            offset = line_end(text, begin)
        elif char not in " \t":
            yield "." if char == "." else "name" if _NAME.match(char) else "", begin, offset


def deep_bracket(text: str, most: int) -> Stretch | None:
    """Return the first bracket that stands inside more than `most` others."""
    depth = 0
    for char, offset in turns(text, 0):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(char, 0)
        if depth > most:
            return offset - 1, offset
    return None


def _refused(problem: str, stretch: Stretch, text: str, file: str, *, hint: str) -> ConfigErrors:
    return ConfigErrors([ConfigError(problem, hint=hint, at=place_at(text, stretch, file))])


class _Slip(Struct, frozen=True):
    """How tomllib words a mistake, and how we do. `whole`: underline the line, its column comes too late."""

    said: str
    problem: str
    hint: str
    whole: bool = False


_QUOTES = 'put text between quotes, "like this"; true and false are written in lower case'
_BACKSLASH = "use 'single quotes', or write the backslash twice"
_CLOSED = "an inline table {...} is complete as it stands: put all its keys inside the braces"
_SLIPS = (
    _Slip("Cannot overwrite a value", "this key is set twice", "keep one of the two", whole=True),
    _Slip("Duplicate inline table key", "this key is set twice", "keep one of the two"),
    _Slip(
        "Cannot declare",
        "this table is declared twice",
        "join the two; [[...]], in double brackets, adds to a list",
        whole=True,
    ),
    _Slip("Cannot redefine namespace", "this table is declared twice", "join the two", whole=True),
    _Slip("Cannot mutate immutable namespace", "this adds to a table that is complete", _CLOSED, whole=True),
    _Slip("Invalid value", "TOML knows no such value", _QUOTES),
    _Slip("Expected newline or end of document", "the line should end here", f"one key to a line; {_QUOTES}"),
    _Slip("Expected '=' after a key", "there is no = after this key", "write key = value"),
    _Slip("Invalid statement", "this is no TOML", "a line is key = value, [table], [[list]] or # a comment"),
    _Slip("Invalid initial character for a key", "a key should stand here", "write key = value"),
    _Slip("Expected ']", "the brackets of this table are not closed", "close them: [table] or [[list]]"),
    _Slip("Unclosed array", "this list is not closed", "a comma or ] belongs here"),
    _Slip("Unclosed inline table", "this table is not closed", "a comma or } belongs here"),
    _Slip("Unterminated string", "a string is not closed", "close it with the quotes it began with"),
    _Slip("Illegal character '\\n'", "a string is not closed", "close it with the quotes it began with"),
    _Slip("Expected \"'", "a string is not closed", "close it with the quotes it began with"),
    _Slip("Found invalid character '\\n'", "a string is not closed", "close it with the quotes it began with"),
    _Slip("Unescaped '\\'", "no such escape in double quotes", _BACKSLASH),
    _Slip("Invalid hex value", "no such escape in double quotes", _BACKSLASH),
    _Slip("Escaped character is not", "no such escape in double quotes", _BACKSLASH),
    _Slip("Invalid date", "there is no such date", "dates are 2024-12-31; put other text between quotes"),
    _Slip("Illegal character", "a control character stands here", "remove it, or write it as an escape"),
    _Slip("Found invalid character", "a control character stands here", "remove it"),
)


def _syntax_error(message: str, text: str, file: str) -> ConfigError:
    said, _, where = message.rpartition(" (at ") if " (at " in message else (message, "", "")
    slip = next((slip for slip in _SLIPS if said.startswith(slip.said)), None)
    slip = slip or _Slip(said, said[:1].lower() + said[1:], "see https://toml.io for how TOML is written")
    at = place_at(text, _blamed(where, text, whole=slip.whole), file)
    return ConfigError(shown(slip.problem), hint=slip.hint, at=at)


def _blamed(where: str, text: str, *, whole: bool) -> Stretch:
    """Turn tomllib's "line 2, column 5)" or "end of document)" into what to underline."""
    found = re.match(r"line (\d+), column (\d+)", where)
    start = _offset(text, int(found[1]), int(found[2])) if found else len(text.rstrip())
    token = re.compile(r"\]*" if whole else r"[^\s,\]}#]*").match(text, start)
    end = token.end() if token else start
    if not whole:
        return start, max(start + 1, end)
    written = text[text.rfind("\n", 0, start) + 1 : start].lstrip()
    return start - len(written), end


def _offset(text: str, line: int, column: int) -> int:
    offset = 0
    for _ in range(line - 1):
        offset = text.find("\n", offset) + 1
    return offset + column - 1
