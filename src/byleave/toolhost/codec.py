"""JSON at speed, for the host's side of a conversation."""

import msgspec

from byleave.wire.jsonrpc import Codec
from byleave.wire.plain import PLAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def _decode(line: bytes) -> "Any":
    try:
        return _decoder.decode(line)
    except ValueError:
        if b"\\ud" not in line.lower():
            raise
        return PLAIN.decode(line)  # an escape for half of a character, which names that are no UTF-8 may hold


def _encode(tree: "Any") -> bytes:
    try:
        return _encoder.encode(tree)
    except UnicodeEncodeError:  # half of a character: only escapes can write it
        return PLAIN.encode(tree)


FAST = Codec(_decode, _encode)
