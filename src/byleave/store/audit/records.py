"""Records as one line of ASCII JSON, without secrets, whatever a caller puts into them. Pure.

Uses the encoder in C directly: the `json` package would load `re`, and a hook appends before every tool call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.json import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.core.redact import Redactor

LONGEST = 1 << 20  # characters of one record; what is longer is cut
DEEPEST = 100  # SQLite reads 2,000 levels, but the reader of a record should not have to
_MOST_BRACKETS = DEEPEST
_LONGEST_NUMBER = 4096  # bits; beyond 4,300 digits Python writes no number
_SURROGATE = "\\ud"  # half of a character beyond 0xffff, or a byte that was not UTF-8
_CUT = "[cut]"
_SHARES = 16  # members that a record has at most, nearly
_LONGEST_NAME = 64


def record_text(fields: Mapping[str, Any], mask: Redactor) -> str:
    """Return the fields as JSON: masked, bounded, and readable by everything that reads JSON."""
    tree: Any = fields
    text = _quick_text(tree)
    if text is None:
        tree = plain(tree)
        text = encode(tree)
    if mask.touches(text):
        tree = mask.tree(plain(tree))
        text = encode(tree)
    if len(text) > LONGEST:
        text = encode(_fitted(plain(tree)))
    elif _SURROGATE in text:  # only to write out what is not UTF-8: nothing is cut
        text = encode(_Cutter(2 * LONGEST).fit(plain(tree)))
    return text


def _fitted(tree: Any) -> Any:
    """Return a record that is not too long: every member may have its share, so that none costs another its place."""
    if not isinstance(tree, dict):
        return _Cutter(LONGEST).fit(tree)
    share = LONGEST // _SHARES
    return {key[:_LONGEST_NAME]: _Cutter(share).fit(value) for key, value in list(tree.items())[:_SHARES]}


def plain(tree: Any, depth: int = DEEPEST) -> Any:
    """Return a tree of nothing but JSON: other values as text, and nothing below a depth that is of use to a reader."""
    if tree is None or isinstance(tree, str | bool):
        return tree
    if isinstance(tree, int | float):
        return _number(tree)
    if depth == 0:
        return _CUT
    if isinstance(tree, dict):
        return {str(key): plain(value, depth - 1) for key, value in tree.items()}
    if isinstance(tree, list | tuple | set | frozenset):
        return [plain(value, depth - 1) for value in tree]
    return str(tree)


def _quick_text(tree: Any) -> str | None:
    """Encode a tree of plain values, as nearly all are; None if it needs a closer look."""
    try:
        text = _fast(tree) or encode(tree)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return text if text.count("{") + text.count("[") <= _MOST_BRACKETS else None


def _number(number: float) -> int | float | str:
    if isinstance(number, int):
        return int(number) if number.bit_length() <= _LONGEST_NUMBER else hex(number)
    return number if number - number == 0 else repr(number)  # infinity and NaN are no JSON


class _Cutter:
    """Cuts a tree to a number of characters, and writes out bytes that were not UTF-8."""

    def __init__(self, left: int) -> None:
        self._left = left

    def fit(self, tree: Any) -> Any:
        if self._left <= 0:
            return _CUT
        if isinstance(tree, str):
            return self._text(tree)
        if isinstance(tree, dict):
            return {self._text(key): self.fit(value) for key, value in tree.items() if self._left > 0}
        if isinstance(tree, list | tuple):
            return [self.fit(value) for value in tree if self._left > 0]
        self._left -= 8
        return tree

    def _text(self, text: str) -> str:
        kept = text if len(text) <= self._left else f"{text[: self._left]}{_CUT}"
        self._left -= len(kept) + 8
        try:
            kept.encode()
        except UnicodeEncodeError:
            from byleave.text import shown

            return shown(kept)
        return kept


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is no JSON")


def _find_encoder() -> Any:
    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:
        from json import JSONEncoder

        encoder = JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
        return lambda tree, _level: encoder.iterencode(tree)
    # No memory of what contains what: a tree that contains itself is a RecursionError, and is cut.
    return make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)


_chunks = _find_encoder()


def load_fast_encoder() -> None:
    """Use msgspec from now on, where it writes the same: five times as fast. For processes that stay."""
    global _fast  # noqa: PLW0603 -- what either writes reads the same
    encoder = Encoder()

    def encode_plain(tree: Any) -> str:
        """Return nothing where it writes what we do not: letters beyond ASCII."""
        if not _is_plain(tree):  # it would find ways to write bytes, dates and infinity that are not ours
            return ""
        raw = encoder.encode(tree)
        return raw.decode() if raw.isascii() and b"\x7f" not in raw else ""

    _fast = encode_plain


def _is_plain(tree: Any) -> bool:
    """Whether a tree holds nothing but what JSON has, which infinity and NaN are not."""
    waiting = [tree]
    for each in waiting:  # which grows meanwhile
        kind = type(each)
        if kind in _PLAIN:
            continue
        if kind is dict:
            waiting += each.values()
        elif kind is list or kind is tuple:
            waiting += each
        elif kind is not float or each - each != 0:
            return False
        if len(waiting) > _MOST_LOOKED_AT:  # it may hold itself
            return False
    return True


_MOST_LOOKED_AT = 10_000  # values; what has more needs a closer look anyway
_PLAIN = frozenset({str, int, bool, type(None)})


def _not_loaded(_tree: Any) -> str:
    return ""


_fast: Callable[[Any], str] = _not_loaded


def encode(tree: Any) -> str:
    """Return a tree as JSON in ASCII; a TypeError, ValueError or RecursionError if it is none."""
    return "".join(_chunks(tree, 0))
