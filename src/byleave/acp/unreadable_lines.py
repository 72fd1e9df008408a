"""Lines that not every reader reads alike, and what a lenient reader may find in them. Sans-IO.

The strict reader (`protocol.jsonrpc`) refuses a line with a name given twice, a name in another case, bytes that one
decoder refuses and another repairs. The proxy passes such a line on, unless some reader could find a request in it that
the policy has to decide: so it is searched for names that matter (`may_hold`), however they are spelled.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from byleave.protocol.json_fast import FAST
from byleave.protocol.json_members import members
from byleave.protocol.jsonrpc import LARGEST_EXACT, Envelope
from byleave.protocol.lines import has_too_many_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from byleave.protocol.jsonrpc import Id

_ENDS = b"\r\n"
_CONTROLS = bytes([*range(0x20), 0x7F])  # a reader may drop them, and then there is the name


class _Update(msgspec.Struct):
    sessionUpdate: str  # noqa: N815 -- its name in the protocol


class _Params(msgspec.Struct):
    update: _Update


_PARAMS = msgspec.json.Decoder(_Params)
_WHOLE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY = msgspec.json.Decoder()


def read_somehow(line: bytes) -> Envelope | None:
    """Return a line as a lenient reader would take it; only to follow what is said, never to decide by it."""
    if has_too_many_values(line):
        return None
    try:
        pairs = members(line.decode("utf-8", "replace").strip())
    except (ValueError, RecursionError):
        return None
    parts = {name: msgspec.Raw(text.encode("utf-8", "surrogatepass")) for name, text in pairs}
    method = decoded(parts["method"]) if "method" in parts else None
    if "method" in parts and not isinstance(method, str):
        return None
    id_ = id_key(decoded(parts["id"])) if "id" in parts else None
    return Envelope(parts.get("id"), id_, method, *(parts.get(name) for name in ("params", "result", "error")))


def methods_in(line: bytes) -> list[str] | None:
    """Return every method that some reader may take the object for that a line is; None if it is not plainly one."""
    if has_inner_ends(line) or has_too_many_values(line):
        return None
    try:
        given = [text for name, text in members(line.decode()) if name.casefold() == "method"]
        values = [_ANY.decode(text) for text in given]
    except (ValueError, RecursionError):
        return None
    return [value for value in values if isinstance(value, str)]


def kind_of_update(envelope: Envelope) -> str | None:
    """Return what a `session/update` is about, without looking at the rest of it; None if it does not say."""
    try:
        return None if envelope.params is None else _PARAMS.decode(envelope.params).update.sessionUpdate
    except (ValueError, RecursionError):
        return None


def may_hold(line: bytes, names: Iterable[str]) -> bool:
    """Whether some reader could find a message with one of these names in a line that is not one plain JSON object.

    There are clients that end a line at a carriage return, drop odd blanks and marks around it, take it for UTF-16,
    repair or skip bytes that are no UTF-8, serve batches, several values in a line, unquoted names, numbers that JSON
    does not have, or nest deeper than we do. So this is no reader: what has the name in it, however spelled, counts.
    """
    text = line.replace(b"\0", b"").decode("utf-8", "ignore")
    plain = _unescaped(text).casefold().encode("ascii", "ignore").translate(None, _CONTROLS)
    return any(name.encode() in plain for name in names)


def ids_in(line: bytes) -> Iterator[msgspec.Raw]:
    """Yield the ids in a line, as far as it can be read: of the message that it is, or of those in a batch."""
    try:
        if has_too_many_values(line):
            tree: Any = {"id": _ANY.decode(_WHOLE.decode(line).get("id", msgspec.Raw(b"null")))}
        else:
            tree = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return
    for each in tree if isinstance(tree, list) else (tree,):
        if isinstance(each, dict) and id_key(each.get("id")) is not None:
            yield msgspec.Raw(msgspec.json.encode(each["id"]))


def _unescaped(text: str) -> str:
    """Return a text with the escapes of JSON undone that can stand for letters and marks."""
    for mark, digits in (("\\u", 4), ("\\x", 2)):
        first, *others = text.split(mark)
        text = first + "".join([_character(piece, digits) for piece in others])
    return text.replace("\\", "")


def _character(piece: str, digits: int) -> str:
    try:
        return chr(int(piece[:digits], 16)) + piece[digits:]
    except ValueError:
        return piece


def has_inner_ends(line: bytes) -> bool:
    """Whether a line holds a carriage return where some readers would cut it."""
    return b"\r" in line and b"\r" in line.rstrip(_ENDS)


def decoded_somehow(raw: msgspec.Raw) -> Any:
    """Return the value of a member as a lenient reader would have it: bytes repaired, any number and letter taken."""
    value = decoded(raw)
    if value is not None:
        return value

    if has_too_many_values(bytes(raw)):
        return None
    try:
        return json.loads(bytes(raw).decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def decoded(raw: msgspec.Raw) -> Any:
    """Return the value of a member; None if it cannot be read after all."""
    try:
        return None if has_too_many_values(bytes(raw)) else _ANY.decode(raw)
    except (ValueError, RecursionError):
        return None


def id_key(value: Any) -> Id | None:
    """Return an id as a lenient reader takes it: 1.0 for 1; None for one that is none, or that some readers round."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= LARGEST_EXACT:
        return None
    return int(value) if value == int(value) else None


def opened(part: msgspec.Raw | None) -> Any:
    """Return what a part of a message says, if every reader reads it alike; None otherwise."""
    try:
        return None if part is None else FAST.value(part)
    except (ValueError, RecursionError):
        return None
