r"""Patterns that mean the same to RE2, which searches here, and to ripgrep, which searches where it can. Pure.

Only what is known to both is let through, construct by construct; everything else is refused rather than answered in
one of two ways. Some constructs (`\w`, `(?i)`) mean the same only in ASCII text: `Pattern.only_ascii` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import RequestError
from byleave.protocol.jsonrpc import INVALID_PARAMS
from byleave.text import quoted

if TYPE_CHECKING:
    from typing import NoReturn

LONGEST_PATTERN = 32_768  # bytes; ripgrep gets it as one word, and Linux takes none beyond 128 KB
MOST_REPEATS = 1000  # RE2 counts no further
_CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_PERL_CLASSES = "dDwWsS"
_ESCAPED = frozenset(".+*?()|[]{}^$\\#&-~/\"'!%,:;=@` ")
_FLAGS = frozenset("iU")
_CATEGORIES = {  # by their first letter, which alone stands for all of them
    "L": "lmotu",
    "M": "cen",
    "N": "dlo",
    "P": "cdefios",
    "S": "ckmo",
    "Z": "lps",
}
_POSIX = frozenset(
    {"alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph"}
    | {"lower", "print", "punct", "space", "upper", "word", "xdigit"}
)
_SET_OPERATIONS = ("&&", "--", "~~")


class SearchPattern(Struct, frozen=True):
    """A pattern that both engines read alike. `only_ascii`: what it means in other text depends on the engine."""

    text: str
    only_ascii: bool


def refuse_pattern(text: str) -> None:
    """Refuse what no engine can be given: text that is too long, or no text."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        refuse("it contains half a character")
    if length > LONGEST_PATTERN:
        refuse(f"it is longer than {LONGEST_PATTERN} bytes", limit=LONGEST_PATTERN)
    if "\0" in text:
        refuse("it contains a NUL, and files with one are not searched")


def refuse(why: str, *, limit: int | None = None) -> NoReturn:
    """Say that a pattern cannot be used, and why."""
    data = None if limit is None else {"limit": limit}
    hint = "write a regular expression that matches within a line: no look-around, no back-references"
    raise RequestError(f"the pattern cannot be used: {why}", hint=hint, number=INVALID_PARAMS, data=data)


def read_pattern(text: str) -> SearchPattern:
    """Return the pattern if both engines are known to mean the same by it; an error otherwise."""
    refuse_pattern(text)
    return _Reader(text).read()


_START, _ITEM, _REPEATED = range(3)  # what stands before: nothing that can be repeated, something, a repetition


class _Reader:
    """Reads a pattern from left to right. Whether groups are closed, RE2 says itself."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._before = _START
        self._only_ascii = False
        self._folds = False
        self._beyond = not text.isascii()  # whether it names a character that is not ASCII
        self._categories = False

    def read(self) -> SearchPattern:
        readers = {"\\": self._escape, "[": self._class, "(": self._group, "{": self._count}
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in readers:
                readers[char]()
            elif char in "*+?":
                self._repeat(char)
            else:
                self._plain(char)
        if self._folds and (self._beyond or self._categories):
            refuse("(?i) is understood for ASCII letters only")
        return SearchPattern(self._text, self._only_ascii or self._folds)

    def _plain(self, char: str) -> None:
        if char == "\n":
            refuse("it contains the end of a line, and lines are searched one by one")
        self._at += 1
        self._before = _START if char in "|^$" else _ITEM

    def _repeat(self, char: str) -> None:
        if self._before == _START or (self._before == _REPEATED and char != "?"):
            refuse(f"{quoted(char)} repeats nothing")
        self._before = _REPEATED if self._before == _ITEM else _START  # the `?` after a repetition ends it
        self._at += 1

    def _count(self) -> None:
        words, closed, _ = self._text[self._at + 1 :].partition("}")
        least, _comma, most = words.partition(",")
        numbers = [least, *([most] if most else [])]
        if not closed or self._before != _ITEM or not all(number.isascii() and number.isdigit() for number in numbers):
            refuse('a "{" that counts no repetition must be written "\\{"')
        if any(len(number) > 4 or int(number) > MOST_REPEATS for number in numbers):
            refuse(f"it repeats something more than {MOST_REPEATS} times", limit=MOST_REPEATS)
        self._at += len(words) + 2
        self._before = _REPEATED

    def _group(self) -> None:
        self._before = _START
        self._at += 1
        if not self._text.startswith("?", self._at):
            return
        rest = self._text[self._at + 1 :]
        if rest.startswith("P<"):
            name, closed, _ = rest[2:].partition(">")
            if not closed or not (name.isascii() and name.isidentifier()):
                refuse("a group has a name that is no plain word")
            self._at += len(name) + 4
            return
        self._at += 1
        self._flags()

    def _flags(self) -> None:
        """Read `i`, `-i` and the like, up to the `)` or `:` that ends them."""
        end = min((at for at in (self._text.find(mark, self._at) for mark in ":)") if at >= 0), default=-1)
        flags = self._text[self._at : end] if end >= 0 else "?"
        given, minus, taken = flags.partition("-")
        known = set(given + taken) <= _FLAGS and len(set(given + taken)) == len(given + taken)
        if not known or (minus and not taken) or (not flags and self._text[end] == ")"):
            refuse("of groups that begin with (? only (?:...), (?P<name>...), (?i) and (?U) are understood")
        self._folds = self._folds or "i" in given
        self._at = end + 1

    def _escape(self) -> None:
        if self._text[self._at + 1 : self._at + 2] in ("b", "B"):
            self._at += 2
            if self._text.startswith("{", self._at):
                refuse("\\b{...} is not understood")
            self._only_ascii = True
            self._before = _START
            return
        self._one()
        self._before = _ITEM

    def _one(self) -> str | None:
        """Read an escape that stands for a character, which is returned, or for a set of them."""
        char = self._text[self._at + 1 : self._at + 2]
        if char == "x":
            return self._hexadecimal()
        if char and char in _PERL_CLASSES:
            self._only_ascii = True
        elif char in ("p", "P"):
            self._category()
            return None
        elif char not in _ESCAPED and char not in _CONTROLS:
            refuse(f"a backslash before {quoted(char)} is not understood" if char else "it ends in a backslash")
        self._at += 2
        return _CONTROLS.get(char, char) if char not in _PERL_CLASSES else None

    def _category(self) -> None:
        start = self._at + 2
        if self._text.startswith("{", start):
            name, closed, _ = self._text[start + 1 :].partition("}")
            self._at = start + len(name) + 2
        else:
            name, closed = self._text[start : start + 1], "}"
            self._at = start + 1
        if not closed or not _is_category(name):
            refuse("of \\p{...} only general categories such as \\p{Lu} are understood")
        self._only_ascii = self._categories = True

    def _hexadecimal(self) -> str:
        start = self._at + 2
        if self._text.startswith("{", start):
            digits, closed, _ = self._text[start + 1 :].partition("}")
            self._at = start + len(digits) + 2
        else:
            digits, closed = self._text[start : start + 2], "}"
            closed = closed if len(digits) == 2 else ""
            self._at = start + 2
        if not closed or not 0 < len(digits) <= 6 or not set(digits) <= set("0123456789abcdefABCDEF"):
            refuse("\\x needs two digits, or some in braces")
        code = int(digits, 16)
        if code in (0, 0x0A) or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            refuse(f"\\x{{{digits}}} stands for nothing that is in a line of text")
        self._beyond = self._beyond or code > 0x7F
        return chr(code)

    def _class(self) -> None:
        """Read a set of characters: single ones, ranges, escapes, and names such as [:alpha:]."""
        self._at += 1
        if self._text.startswith("^", self._at):
            self._at += 1
        first = self._at
        while self._at < len(self._text):
            if self._text[self._at] == "]" and self._at > first:
                self._at += 1
                self._before = _ITEM
                return
            self._in_class(first)
        refuse('a "[" is not closed')

    def _in_class(self, first: int) -> None:
        if self._text.startswith(_SET_OPERATIONS, self._at):
            refuse("sets of characters are not combined here: &&, -- and ~~ are not understood")
        if self._text.startswith("[:", self._at):
            self._named()
            return
        low = self._member(first)
        if not self._text.startswith("-", self._at) or self._text.startswith("-]", self._at):
            return
        self._at += 1
        if self._text.startswith(("-", "["), self._at):
            refuse("a range of characters has no end")
        high = self._member(first)
        if low is None or high is None or low > high:
            refuse("a range of characters has no beginning, or no end")

    def _named(self) -> None:
        name, closed, _ = self._text[self._at + 2 :].partition(":]")
        if not closed or name.removeprefix("^") not in _POSIX:
            refuse('a "[" within [...] must be written "\\["')
        self._at += len(name) + 4

    def _member(self, first: int) -> str | None:
        """Read one character of a set, which is returned, or an escape that stands for many."""
        char = self._text[self._at : self._at + 1]
        if char == "\\":
            return self._one()
        if char in ("", "\n", "[") or (char == "-" and self._at != first and self._text[self._at + 1 :][:1] != "]"):
            refuse('within [...] a "[" or a "-" that is no range must be escaped')
        self._at += 1
        return char


def _is_category(name: str) -> bool:
    """Whether a name is one of Unicode's general categories, in its short form."""
    return len(name) in (1, 2) and name[0] in _CATEGORIES and name[1:] in ("", *_CATEGORIES[name[0]])
