"""Lines that pass as they are, and of which nothing is to be noted: found many at a time. Sans-IO.

Agents write little else than pieces of text. Such lines are read by a decoder for their one shape, all at once. It
skips what does not matter, and takes the last of two equal names without a word. So each line has to be exactly as long
as its members without blanks, escapes and repetitions: then it has these, each once, and no others, for every reader. A
skipped part may also hold a line end, and a message behind it: then the line is shorter than its members. And it may be
nested more deeply than others read: so it has to be a text, or too short for that.

Of all other lines nothing is said here: the relay looks at each of them for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from byleave.protocol.jsonrpc import MOST_DEPTH
from byleave.protocol.lines import MOST_VALUES

if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

_BEGINNING = b'{"jsonrpc":"2.0","method":"'  # of all lines here: most others show at once that they are others
_STRUCTURES = b"{["
_TEXT = ord('"')
_FLAT = 2 * MOST_DEPTH  # bytes: a level takes two at least


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: msgspec.Raw


class _Piece(msgspec.Struct, forbid_unknown_fields=True):
    sessionUpdate: Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]  # noqa: N815 -- its name
    content: _Text


class _PieceParams(msgspec.Struct, forbid_unknown_fields=True):
    sessionId: str  # noqa: N815 -- its name in the protocol
    update: _Piece


class _PieceLine(msgspec.Struct, forbid_unknown_fields=True):
    """A piece of text, as an agent reports it."""

    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: _PieceParams


class _NotificationLine(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    method: str
    params: msgspec.Raw


_pieces = msgspec.json.Decoder(_PieceLine)
_notifications = msgspec.json.Decoder(_NotificationLine)
# What these lines have besides their parts.
_AROUND_PIECE = len(
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"","update":{"sessionUpdate":"",'
    '"content":{"type":"text","text":}}}}'
)
_AROUND_NOTIFICATION = len('{"jsonrpc":"2.0","method":"","params":}')


def are_pieces_of_text(lines: bytes) -> bool:
    """Whether these are lines of an agent, each a piece of text and nothing else to any reader."""
    start = 0
    for read in _read(lines, _pieces):
        params = read.params
        update = params.update
        text = update.content.text
        end = start + _AROUND_PIECE + len(params.sessionId) + len(update.sessionUpdate) + len(text)
        if lines.find(b"\n", start) != end or (len(text) > _FLAT and memoryview(text)[0] != _TEXT):
            return False
        start = end + 1
    return start == len(lines)


def are_notifications(lines: bytes, *, heard: Container[str]) -> bool:
    """Whether these are short lines of an editor, each a notification to any reader, whose method is not `heard`.

    A long line is read by the relay as fast.
    """
    if lines.find(b"\n", 0, _FLAT + 1) < 0:
        return False
    start = 0
    for read in _read(lines, _notifications):
        length = _AROUND_NOTIFICATION + len(read.method) + len(read.params)
        if lines.find(b"\n", start) != start + length or length > _FLAT:
            return False
        if read.method in heard or memoryview(read.params)[0] not in _STRUCTURES:
            return False
        start += length + 1
    return start == len(lines)


def _read(lines: bytes, decoder: msgspec.json.Decoder[Any]) -> list[Any]:
    """Return what a decoder reads in lines; nothing if one of them is of another shape, or may be."""
    if not lines.startswith(_BEGINNING) or b"\r" in lines or len(lines) >= 2 * MOST_VALUES:
        return []
    try:
        return decoder.decode_lines(lines)
    except (ValueError, RecursionError):
        return []
