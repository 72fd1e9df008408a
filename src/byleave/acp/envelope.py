"""The outside of a message: whose turn it is and what it is called, without looking into it. Sans-IO.

Nearly every line is only looked at here and then passed on as it came, so this is the fast part. It is also where two
readers of one line could see two different messages: a name given twice, a name in another case, a carriage return that
some take for the end of a line, bytes that one decoder refuses and another repairs. `Envelope.methods` holds what any
reader may see; a line that is not one plain object is only searched for names that matter (`may_hold`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from byleave.protocol.json_members import members
from byleave.protocol.lines import has_too_many_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_USUAL = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_ENDS = b"\r\n"
_CONTROLS = bytes([*range(0x20), 0x7F])  # a reader may drop them, and then there is the name


class _Update(msgspec.Struct):
    sessionUpdate: str  # noqa: N815 -- its name in the protocol


class _Params(msgspec.Struct):
    update: _Update


_AROUND: dict[tuple[str, ...], tuple[int, ...]] = {}
_PARAMS = msgspec.json.Decoder(_Params)
_WHOLE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY = msgspec.json.Decoder()
_LARGEST_EXACT = 1 << 53  # beyond it, half of the world's readers round


class Envelope:
    """One line: its members as they are written, and every method that some reader could take it for."""

    __slots__ = ("members", "methods")  # no record: one is made for every line

    def __init__(self, members: dict[str, msgspec.Raw], methods: tuple[str, ...]) -> None:
        self.members = members
        self.methods = methods

    @property
    def is_clear(self) -> bool:
        """Whether every reader sees the same message."""
        return len(self.methods) <= 1

    @property
    def id(self) -> tuple[str, Any] | None:
        """The id as a key that tells 1 from "1", but not from 1.0; None where there is none that can be relied on."""
        raw = self.members.get("id")
        return None if raw is None else id_key(decoded(raw))


def read_envelope(line: bytes) -> Envelope | None:
    """Return the outside of a line that is one JSON object for every reader; None if it needs a closer look."""
    try:
        found = _WHOLE.decode(line)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return None
    names = tuple(found)
    around = _AROUND.get(names) or _around(names)
    length = len(line) - (2 if line[-2:] == _ENDS else line[-1:] == b"\n")
    if length - sum(map(len, found.values())) not in around:
        return _looked_into(line, found)
    method = found.get("method")
    if method is None:
        return Envelope(found, ())
    try:
        name = _ANY.decode(method)
    except (ValueError, RecursionError):  # no reader of ours can tell what others make of it
        return None
    return Envelope(found, (name,) if type(name) is str else ())


def _around(names: tuple[str, ...]) -> tuple[int, ...]:
    """Return how many bytes of a line are not the values of its members, if each is given once.

    For the two ways in which nearly everybody writes JSON: without blanks, and with one behind `,` and `:`. A name that
    is given twice makes the line longer; a second `method` by 12 bytes at least, more than the blanks of six members.
    """
    if not _USUAL.issuperset(names):
        return ()
    compact = sum(map(len, names)) + 3 * len(names) + max(len(names) - 1, 0) + 2
    around = _AROUND[names] = (compact, compact + max(2 * len(names) - 1, 0))
    return around


def read_answer_somehow(line: bytes) -> Envelope | None:
    """Return a line as an answer, if a lenient reader would take it for one; only to listen, never to judge by it."""
    if has_too_many_values(line):
        return None
    try:
        pairs = dict(members(line.decode("utf-8", "replace").strip()))
    except (ValueError, RecursionError):
        return None
    if "method" in pairs:
        return None
    return Envelope({name: msgspec.Raw(text.encode("utf-8", "surrogatepass")) for name, text in pairs.items()}, ())


def kind_of_update(envelope: Envelope) -> str | None:
    """Return what a `session/update` is about, without looking at the rest of it; None if it does not say."""
    raw = envelope.members.get("params")
    try:
        return None if raw is None else _PARAMS.decode(raw).update.sessionUpdate
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
    import json

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


def id_key(value: Any) -> tuple[str, Any] | None:
    """Return the key of an id; None for one that is none, or that some readers would round."""
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= _LARGEST_EXACT:
        return None
    return ("number", value) if value == int(value) else None


def _looked_into(line: bytes, found: dict[str, msgspec.Raw]) -> Envelope | None:
    """Read a line that is written in an unusual way, member by member."""
    if has_too_many_values(line):
        return None
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
