"""The members of a JSON object as they are written: their names, and the very text of their values.

For what a fast decoder does not report: whether a name is given twice, so that two readers could understand two things,
and the id of a line that cannot be decoded as a whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANKS = " \t\n\r"


def members(text: str) -> list[tuple[str, str]]:
    """Return name and text of each member of the object that `text` is; `ValueError` if it is no JSON object."""
    found: list[tuple[str, str]] = []
    at = _expect(text, 0, "{")
    if _next(text, at) == "}":
        return _ended(text, _expect(text, at, "}"), found)
    while True:
        name, at = _decode(text, _expect(text, at, '"') - 1)
        start = _skip(text, _expect(text, at, ":"))
        _value, at = _decode(text, start)
        found.append((name, text[start:at]))
        if _next(text, at) != ",":
            return _ended(text, _expect(text, at, "}"), found)
        at = _expect(text, at, ",")


def leading_members(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the members that an object begins with, as far as `text` goes; one that breaks off is left out."""
    try:
        at = _expect(text, 0, "{")
        while True:
            name, at = _decode(text, _expect(text, at, '"') - 1)
            value, at = _PLAIN.raw_decode(text, _skip(text, _expect(text, at, ":")))
            at = _expect(text, at, ",")  # a number that nothing follows may have gone on
            yield name, value
    except (ValueError, RecursionError):
        return


def repeats_a_name(text: str | bytes) -> bool:
    """Whether any object in this JSON gives a name twice; `ValueError` or `RecursionError` if it cannot be read."""
    twice = False

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        read = dict(pairs)
        twice = twice or len(read) != len(pairs)
        return read

    json.loads(text, object_pairs_hook=look, parse_constant=_refuse, parse_int=str, parse_float=str)
    return twice


def _decode(text: str, at: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, at)


def _expect(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"expected {mark}")
    return at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _next(text: str, at: int) -> str:
    at = _skip(text, at)
    return text[at : at + 1]


def _ended(text: str, at: int, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if _skip(text, at) != len(text):
        raise ValueError("something stands behind the object")
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)  # numbers may be of any length
_PLAIN = json.JSONDecoder(parse_constant=_refuse)
