"""JSON by the standard library: slower than a codec made for it, and loaded in a few milliseconds."""

import json

from byleave.protocol.jsonrpc import Codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def _refuse(name: str) -> "NoReturn":
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _decode(line: bytes) -> "Any":
    return _DECODER.decode(line.decode())


def _encode(tree: "Any") -> bytes:
    text = _ENCODER.encode(tree)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can write it as an escape, UTF-8 cannot
        return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()


PLAIN = Codec(_decode, _encode)
