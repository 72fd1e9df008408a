"""JSON by the standard library: slower than a codec made for it, and loaded in a few milliseconds.

It cannot skip a value, so it splits a message by reading all of it: its parts are values.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from byleave.protocol.jsonrpc import MOST_DEPTH, Codec, RepeatedNameError, is_structure, measure


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return _refuse(text) if number in (_ENDLESS, -_ENDLESS) else number


_ENDLESS = float("inf")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise RepeatedNameError
    return read


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse, parse_float=_finite)
_LENIENT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def _decode(line: bytes) -> Any:
    text = line.decode()
    is_repeated = False
    try:
        tree = _STRICT.decode(text)
    except RepeatedNameError:
        tree, is_repeated = _LENIENT.decode(text), True
    if len(line) > 2 * MOST_DEPTH and _may_be_deep(line) and measure(tree)[1] > MOST_DEPTH:
        raise RecursionError
    if is_repeated:
        raise RepeatedNameError(tree)
    return tree


def _may_be_deep(line: bytes) -> bool:
    """Whether a line has so many brackets that it may be too deep. Where there are few, this jumps over the texts."""
    for mark in (b"[", b"{"):
        at = -1
        for _ in range(MOST_DEPTH // 2):
            at = line.find(mark, at + 1)
            if at < 0:
                break
        else:
            return True
    return False


def _encode(tree: Any) -> bytes:
    text = _ENCODER.encode(tree)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can write it as an escape, UTF-8 cannot
        return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()


def _value(part: Any) -> Any:
    return part


def _no_envelope(_line: bytes) -> None:
    """Leave every message to the reader: there is no faster way to its outside."""


PLAIN = Codec(_decode, _encode, _decode, _value, is_structure, _no_envelope)
