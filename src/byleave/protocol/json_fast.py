"""JSON by msgspec, for processes that have it: a message is split without reading its parts, which stay as written.

msgspec takes the last of two equal names without a word. Whether there were two shows in the text. An object whose text
is hardly longer than its names and values has no room for another member (`_has_room`). Else colons are counted:
outside of texts, JSON has as many as its objects have names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from byleave.protocol.json_members import members
from byleave.protocol.jsonrpc import MOST_DEPTH, VERSION, Codec, Envelope, RepeatedNameError, is_id, measure

if TYPE_CHECKING:
    from collections.abc import Callable

_LONG = 4096  # bytes from which on it pays to look which parts are texts
_STRUCTURES = b"{["
_TEXT = ord('"')
_TEXTS = re.compile(rb'"[^"]*"')
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


_NONE = msgspec.Raw()


class _Usual(msgspec.Struct, forbid_unknown_fields=True):
    """The members of a request, a notification or a result, and no others."""

    jsonrpc: str
    id: msgspec.Raw = _NONE
    method: str = ""
    params: msgspec.Raw = _NONE
    result: msgspec.Raw = _NONE


_usual = msgspec.json.Decoder(_Usual)
# What a message without blanks has besides its values, but with the text "2.0" and the quotes of the method.
_AROUND_REQUEST = len('{"jsonrpc":"2.0","id":,"method":"","params":}')
_AROUND_NOTIFICATION = len('{"jsonrpc":"2.0","method":"","params":}')
_AROUND_RESULT = len('{"jsonrpc":"2.0","id":,"result":}')
_SHORTEST_MEMBER = len(',"id":0')
_SPACED = b'{"jsonrpc": "2.0", '  # two blanks that are no part of another member


def envelope(line: bytes) -> Envelope | None:
    """Return the outside of a message of a usual shape, in one pass; None if the message needs a closer look."""
    try:
        read = _usual.decode(line)
        raw_id, method, params, result = read.id, read.method, read.params, read.result
        if raw_id is _NONE:
            id_, around = None, _AROUND_NOTIFICATION
        else:
            id_, around = _any.decode(raw_id), _AROUND_REQUEST if method else _AROUND_RESULT
            if not is_id(id_):
                return None
    except (ValueError, RecursionError):
        return None
    if method:
        if result is not _NONE or params is _NONE or memoryview(params)[0] not in _STRUCTURES:
            return None
    elif raw_id is _NONE or result is _NONE or params is not _NONE:
        return None
    room = len(line) - around - len(raw_id) - len(method) - len(params) - len(result)
    if room >= _SHORTEST_MEMBER and (room >= _SHORTEST_MEMBER + 2 or line[: len(_SPACED)] != _SPACED):
        return None
    if read.jsonrpc != VERSION:
        return None
    if method:
        return Envelope(None if id_ is None else raw_id, id_, method, params, None, None)
    return Envelope(raw_id, id_, None, None, result, None)


def split(line: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Return the members of an object, each as it is written; `RepeatedNameError` if it gives a name twice itself."""
    try:
        parts = _parts.decode(line)
    except msgspec.ValidationError:
        return _any.decode(line)  # type: ignore[no-any-return] # no object: the reader says so
    blanks = 2 if memoryview(line)[: len(_SPACED)] == _SPACED else 0
    if _has_room(len(line) - blanks, parts) and _gives_twice(bytes(line), parts):
        raise RepeatedNameError(parts)
    return parts


def _has_room(length: int, parts: dict[str, msgspec.Raw]) -> bool:
    """Whether an object of that length may hold another member of one of these names, `,"NAME":0` at the least."""
    if not parts:
        return False
    names = [len(name) for name in parts]  # written, a name is as long or longer
    return length - sum(map(len, parts.values())) - sum(names) - 4 * len(names) - 1 >= min(names) + 5


def _gives_twice(line: bytes, parts: dict[str, msgspec.Raw]) -> bool:
    if any(":" in name for name in parts):
        return len(members(line.decode())) != len(parts)
    return line.count(b":") - sum(bytes(part).count(b":") for part in parts.values()) != len(parts)


def decode(text: bytes) -> Any:
    """Return what a text says, if every reader reads it alike."""
    if len(text) > _LONG and text[:1] == b"{":
        return open_parts(text, _member)
    return _checked(_any.decode(text), text, MOST_DEPTH)


def value(part: msgspec.Raw) -> Any:
    """Return what a part of a message says, if every reader reads it alike."""
    if len(part) > _LONG and memoryview(part)[0] == _STRUCTURES[0]:  # a file's content is no structure, however long
        return open_parts(part)
    return _value(part, MOST_DEPTH - 1)


def _member(name: str, parts: dict[str, msgspec.Raw]) -> Any:
    return value(parts[name])


def _inner_member(name: str, parts: dict[str, msgspec.Raw]) -> Any:
    return _value(parts[name], MOST_DEPTH - 2)


def _value(part: msgspec.Raw, most_depth: int) -> Any:
    tree = _any.decode(part)
    if type(tree) is dict or type(tree) is list:
        return _checked(tree, bytes(part), most_depth)
    return tree


def _checked(tree: Any, written: bytes, most_depth: int) -> Any:
    if (
        len(written) > 2 * most_depth
        and written.count(b"[") + written.count(b"{") > most_depth
        and measure(tree)[1] > most_depth
    ):
        raise RecursionError
    colons = written.count(b":")
    if b"\\" not in written:  # then our own way of writing it, with each name once, has the same colons in texts
        if _encode(tree).count(b":") != colons:
            raise RepeatedNameError(tree)
        return tree
    names = measure(tree)[0]
    if colons != names and _colons(written) != names:
        raise RepeatedNameError(tree)
    return tree


def open_parts(
    text: bytes | msgspec.Raw,
    open_part: Callable[[str, dict[str, msgspec.Raw]], Any] = _inner_member,
    *,
    only: frozenset[str] | None = None,
) -> Any:
    """Read a long object part by part, and `only` these if given; `open_part` reads the one of a name.

    What is no JSON counts before what is too deep, and that before two names.
    """
    tree: dict[str, Any] = {}
    is_deep = is_repeated = False
    try:
        parts = split(text)
    except RepeatedNameError as error:
        parts, is_repeated = error.read, True
    for name in parts:
        if only is not None and name not in only:
            continue
        try:
            tree[name] = open_part(name, parts)
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
    plain = written.replace(b"\\\\", b"").replace(b'\\"', b"")
    return _TEXTS.sub(b"", plain).count(b":")


def _is_structure(part: msgspec.Raw) -> bool:
    return memoryview(part)[0] in _STRUCTURES


FAST = Codec(decode, _encode, split, value, _is_structure, envelope)
