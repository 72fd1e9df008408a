"""The trace that a caller's request belongs to, as W3C Trace Context writes it. Pure.

It comes in the `_meta` of a message, or in the headers of HTTP; `_meta` counts first, because one HTTP request says
nothing of the messages on its streams. A `traceparent` that is not written as it must be is no trace: a new one begins,
and the `tracestate` beside it means nothing then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PARENT, STATE = "traceparent", "tracestate"
NAMES = frozenset({PARENT, STATE})
# Later versions may add something behind a further dash.
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]{0,200})?")
_FIRST, _NEVER = "00", "ff"
_KNOWN_FLAGS = 0b11  # sampled, and random: of others we do not know what they promise
_LONGEST_STATE = 512
_MOST_MEMBERS = 32
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")


class TraceParent(Struct, frozen=True):
    """The span of the caller. `state` is for those who come after us; it is the caller's own text."""

    trace: int
    span: int
    flags: int
    state: str = ""


def parent_in(meta: Mapping[str, Any], headers: Mapping[str, str]) -> TraceParent | None:
    """Return the span that a request names as its parent; None if it names none, or not as it must be written."""
    carrier = meta if PARENT in meta else headers
    return read_parent(carrier.get(PARENT), carrier.get(STATE))


def read_parent(parent: Any, state: Any = None) -> TraceParent | None:
    """Return what the two values say; None if the first is malformed."""
    found = _PARENT.fullmatch(parent) if isinstance(parent, str) else None
    if found is None or found[1] == _NEVER or (found[1] == _FIRST and found[5]):
        return None
    trace, span = int(found[2], 16), int(found[3], 16)
    if not trace or not span:
        return None
    return TraceParent(trace, span, int(found[4], 16) & _KNOWN_FLAGS, state if is_state(state) else "")


def is_state(state: Any) -> bool:
    """Whether this is a `tracestate` that may go on as it is."""
    if not isinstance(state, str) or not state or len(state) > _LONGEST_STATE:
        return False
    members = [member.strip(" \t") for member in state.split(",")]
    return len(members) <= _MOST_MEMBERS and all(_MEMBER.fullmatch(member) for member in members if member)


def written(trace: int, span: int, flags: int, state: str = "") -> dict[str, str]:
    """Return a span as those who come after us read it."""
    parent = {PARENT: f"00-{trace:032x}-{span:016x}-{flags:02x}"}
    return {**parent, STATE: state} if state else parent
