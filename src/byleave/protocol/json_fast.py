"""JSON by msgspec, for processes that have it: a message is split without reading its parts, which stay as written.

msgspec takes the last of two equal names without a word. Whether there were two shows in the text: outside of texts,
JSON has as many colons as its objects have names.
"""

import re

import msgspec

from byleave.protocol.json_members import members
from byleave.protocol.jsonrpc import MOST_DEPTH, OUTER_NAMES, Codec, RepeatedNameError, measure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONG = 4096  # bytes from which on it pays to look which parts are texts
_MOST_SPACED = 4  # members of a message
_STRUCTURES = b"{["
_TEXT = ord('"')
_ENDS = b"\r\n"
_TEXTS = re.compile(rb'"[^"]*"')
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()
_overheads: "dict[tuple[str, ...], tuple[int, int, int]]" = {}


def split(line: bytes) -> "dict[str, msgspec.Raw]":
    """Return the members of an object, each as it is written; `RepeatedNameError` if it gives a name twice itself."""
    try:
        parts = _parts.decode(line)
    except msgspec.ValidationError:
        return _any.decode(line)  # type: ignore[no-any-return] # no object: the reader says so
    names = tuple(parts)
    compact, spaced, blank = _overheads.get(names) or _overhead(names)
    length = len(line) - (2 if line[-2:] == _ENDS else line[-1:] == b"\n")
    around = length - sum(map(len, parts.values()))
    if around == compact or (around == spaced and line[blank : blank + 1] == b" "):
        return parts
    if _gives_twice(line, parts):
        raise RepeatedNameError(parts)
    return parts


def _overhead(names: tuple[str, ...]) -> tuple[int, int, int]:
    """Return how many bytes of a message are not the values of its members, if each is given once.

    For the two usual ways of writing JSON: without blanks, and with one behind `,` and `:`; where the first of these
    blanks stands. A name given twice makes a message longer by 7 bytes at least (`,"id":0`), which is as much as the
    seven blanks of four members: one blank shows that there is no room for it.
    """
    if not names or not OUTER_NAMES.issuperset(names):
        return (-1, -1, 0)
    compact = sum(map(len, names)) + 4 * len(names) + 1
    spaced = compact + 2 * len(names) - 1 if len(names) <= _MOST_SPACED else -1
    around = _overheads[names] = (compact, spaced, len(names[0]) + 4)
    return around


def _gives_twice(line: bytes, parts: "dict[str, msgspec.Raw]") -> bool:
    if any(":" in name for name in parts):
        return len(members(line.decode())) != len(parts)
    return line.count(b":") - sum(bytes(part).count(b":") for part in parts.values()) != len(parts)


def decode(text: bytes) -> "Any":
    """Return what a text says, if every reader reads it alike."""
    if len(text) > _LONG and text[:1] == b"{":
        return _decode_long(text)
    return _checked(_any.decode(text), text, MOST_DEPTH)


def value(part: msgspec.Raw) -> "Any":
    """Return what a part of a message says, if every reader reads it alike."""
    tree = _any.decode(part)
    if type(tree) is dict or type(tree) is list:
        return _checked(tree, bytes(part), MOST_DEPTH - 1)
    return tree


def _checked(tree: "Any", written: bytes, most_depth: int) -> "Any":
    names, depth = measure(tree)
    if depth > most_depth:
        raise RecursionError
    colons = written.count(b":")
    if not depth or colons == names:
        return tree
    if type(tree) is dict and len(written) > _LONG:  # a file's content is no structure, however long
        texts = (part for part in _parts.decode(written).values() if memoryview(part)[0] == _TEXT)
        colons -= sum(bytes(part).count(b":") for part in texts)
    if colons != names and _colons(written) != names:
        raise RepeatedNameError(tree)
    return tree


def _decode_long(text: bytes) -> "Any":
    """Read a long object part by part; what is no JSON counts before what is too deep, and that before two names."""
    tree: dict[str, Any] = {}
    is_deep = is_repeated = False
    try:
        parts = split(text)
    except RepeatedNameError as error:
        parts, is_repeated = error.read, True
    for name, part in parts.items():
        try:
            tree[name] = value(part)
        except RepeatedNameError as error:
            tree[name], is_repeated = error.read, True
        except RecursionError:
            is_deep = True
    if is_deep:
        raise RecursionError
    if is_repeated:
        raise RepeatedNameError(tree)
    return tree


def _colons(written: bytes) -> int:
    """Return how many colons there are outside of texts."""
    plain = written.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in written else written
    return _TEXTS.sub(b"", plain).count(b":")


def _is_structure(part: msgspec.Raw) -> bool:
    return memoryview(part)[0] in _STRUCTURES


FAST = Codec(decode, msgspec.json.Encoder().encode, split, value, _is_structure)
