"""The outside of a message: whose turn it is and what it is called, without looking into it. Sans-IO.

Nearly every line is only looked at here and then passed on as it came, so this is the fast part. It is also where two
readers of one line could see two different messages: a name given twice, a name in another case, a carriage return that
some take for the end of a line, bytes that one decoder refuses and another repairs. `Envelope.methods` holds what any
reader may see.
"""

import msgspec

from byleave.record import Record
from byleave.wire.members import members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_USUAL = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_ENDS = b"\r\n"


class _Update(msgspec.Struct):
    sessionUpdate: str  # noqa: N815 -- its name in the protocol


class _Params(msgspec.Struct):
    update: _Update


_PARAMS = msgspec.json.Decoder(_Params)
_WHOLE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY = msgspec.json.Decoder()
_LARGEST_EXACT = 1 << 53  # beyond it, half of the world's readers round


class Envelope(Record):
    """One line: its members as they are written, and every method that some reader could take it for."""

    members: "dict[str, msgspec.Raw]"
    methods: tuple[str, ...]

    @property
    def method(self) -> str | None:
        """The method, where there is no doubt about it."""
        return self.methods[0] if len(self.methods) == 1 else None

    @property
    def is_clear(self) -> bool:
        """Whether every reader sees the same message."""
        return len(self.methods) <= 1

    @property
    def id(self) -> "tuple[str, Any] | None":
        """The id as a key that tells 1 from "1", but not from 1.0; None where there is none that can be relied on."""
        raw = self.members.get("id")
        return None if raw is None else id_key(decoded(raw))


def read_envelope(line: bytes) -> Envelope | None:
    """Return the outside of a line that is one JSON object for every reader; None if it needs a closer look."""
    try:
        found = _WHOLE.decode(line)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return None
    if not (found.keys() <= _USUAL and _has_no_more(line, found)):
        return _looked_into(line, found)
    method = found.get("method")
    if method is None:
        return Envelope(found, ())
    name = decoded(method)
    return Envelope(found, (name,) if isinstance(name, str) else ())


def kind_of_update(envelope: Envelope) -> str | None:
    """Return what a `session/update` is about, without looking at the rest of it; None if it does not say."""
    raw = envelope.members.get("params")
    try:
        return None if raw is None else _PARAMS.decode(raw).update.sessionUpdate
    except (ValueError, RecursionError):
        return None


def possible_methods(line: bytes) -> "set[str]":
    """Return every method that some reader could find in a line that is not one plain JSON object.

    There are clients that end a line at a carriage return or at other marks, that drop a byte order mark, repair bytes
    that are no UTF-8, or take numbers that JSON does not have.
    """
    text = line.decode("utf-8", "replace")
    pieces = {text, text.lstrip("\ufeff"), *text.splitlines(), *text.replace("\ufeff", "").splitlines()}
    return {method for piece in pieces for method in _lenient_methods(piece)}


def has_inner_ends(line: bytes) -> bool:
    """Whether a line holds a carriage return where some readers would cut it."""
    return b"\r" in line and b"\r" in line.rstrip(_ENDS)


def decoded(raw: msgspec.Raw) -> "Any":
    """Return the value of a member; None if it cannot be read after all."""
    try:
        return _ANY.decode(raw)
    except (ValueError, RecursionError):
        return None


def id_key(value: "Any") -> "tuple[str, Any] | None":
    """Return the key of an id; None for one that is none, or that some readers would round."""
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= _LARGEST_EXACT:
        return None
    return ("number", value) if value == int(value) else None


def _has_no_more(line: bytes, found: "dict[str, msgspec.Raw]") -> bool:
    """Whether the line holds these members and nothing else: a name that is given twice would make it longer.

    Counted for the two ways in which nearly everybody writes JSON: without blanks, and with one behind `,` and `:`.
    """
    content = sum([len(name) + len(memoryview(raw)) for name, raw in found.items()])
    count = len(found)
    compact = content + 3 * count + (count - 1) + 2
    return len(line.rstrip(_ENDS)) in (compact, compact + count + (count - 1))


def _looked_into(line: bytes, found: "dict[str, msgspec.Raw]") -> Envelope | None:
    """Read a line that is written in an unusual way, member by member."""
    try:
        pairs = members(line.decode())
    except (ValueError, RecursionError):
        return None
    named = [name.casefold() for name, _text in pairs]
    values = [_text_of(text) for name, text in pairs if name.casefold() == "method"]
    methods = [value for value in dict.fromkeys(values) if value is not None]
    doubtful = any(named.count(name) > 1 for name in _USUAL) or any(
        name.casefold() in _USUAL and name not in _USUAL for name, _text in pairs
    )
    # A second, empty name marks the doubt where all agree on the method, but not on the rest.
    return Envelope(found, (*methods, "") if doubtful and len(methods) == 1 else tuple(methods))


def _text_of(text: str) -> str | None:
    value = decoded(msgspec.Raw(text.encode()))
    return value if isinstance(value, str) else None


def _lenient_methods(text: str) -> "Iterator[str]":
    import json

    if "{" not in text:
        return
    try:
        tree = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return
    if isinstance(tree, dict):
        yield from (value for name, value in tree.items() if name.casefold() == "method" and isinstance(value, str))
