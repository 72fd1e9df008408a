"""JSON at speed, for the host's side of a conversation.

What a tool writes may take many times its length in memory once it is read: two brackets become a list. So of a long
line only what may be long is read: the content of a file, the body of a request.
"""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from byleave.wire.jsonrpc import Codec
from byleave.wire.plain import PLAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONG = 1 << 20  # bytes from which on a line is read with care
_LONGEST_REST = 16 << 20  # bytes of anything that is no content: a result with all its blocks
_CONTENTS = ("fs.write", "write", "http.post", "http.put", "http.patch")
_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class _Message(msgspec.Struct):
    """A message whose params are not read yet."""

    jsonrpc: str | UnsetType = UNSET
    id: int | float | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


class _Content(msgspec.Struct):
    """The parameters of a method that may carry much: one long text, and little else."""

    path: str | UnsetType = UNSET
    path_b64: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    encoding: str | UnsetType | None = UNSET
    exclusive: bool | UnsetType = UNSET
    url: str | UnsetType = UNSET
    headers: Raw | UnsetType = UNSET
    body: str | UnsetType = UNSET


_messages = msgspec.json.Decoder(_Message)
_contents = msgspec.json.Decoder(_Content)


def _decode(line: bytes) -> "Any":
    try:
        return _decoder.decode(line) if len(line) <= _LONG else _decode_long(line)
    except ValueError:
        if b"\\ud" not in line.lower() or len(line) > _LONGEST_REST:
            raise
        return PLAIN.decode(line)  # an escape for half of a character, which names that are no UTF-8 may hold


def _decode_long(line: bytes) -> "dict[str, Any]":
    """Read a long message; a ValueError if it is long where there is no need to be."""
    message = _given(_messages.decode(line))
    if "params" in message:
        params, carries = message["params"], message.get("method") in _CONTENTS
        message["params"] = _content(params) if carries else _rest(params)
    return message


def _content(params: Raw) -> "dict[str, Any]":
    given = _given(_contents.decode(params))
    if "headers" in given:
        given["headers"] = _rest(given["headers"], limit=_LONG)
    return given


def _rest(raw: Raw, limit: int = _LONGEST_REST) -> "Any":
    if len(memoryview(raw)) > limit:
        raise ValueError("this is longer than there is need to be")
    return _decoder.decode(raw)


def _given(struct: msgspec.Struct) -> "dict[str, Any]":
    return {name: value for name in struct.__struct_fields__ if (value := getattr(struct, name)) is not UNSET}


def _encode(tree: "Any") -> bytes:
    try:
        return _encoder.encode(tree)
    except UnicodeEncodeError:  # half of a character: only escapes can write it
        return PLAIN.encode(tree)


FAST = Codec(_decode, _encode)
