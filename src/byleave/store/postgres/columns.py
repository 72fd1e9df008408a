"""What of a record stands in columns of its own, to be searched. Pure.

They are made from the text alone, and `audit verify` makes them again: none can say anything else than the record. An
agent has its records by an index, which takes no text of any length; a longer one is found in the record alone.
"""

from __future__ import annotations

import json
from typing import Any

NAMES = ("event", "session", "door", "agent", "kind", "tool", "path", "decision")
_AGENT = NAMES.index("agent")
_NUL = "\0"  # which PostgreSQL has no place for
_LONGEST_INDEXED = 2000  # bytes; with the rest of its entry, an index takes 2,704


def columns_of(record: str) -> tuple[str | None, ...]:
    """Return the values of `NAMES` in a record."""
    found = all_of(record)
    agent = found[_AGENT]
    if agent is None or len(agent.encode()) <= _LONGEST_INDEXED:
        return found
    return (*found[:_AGENT], None, *found[_AGENT + 1 :])


def all_of(record: str) -> tuple[str | None, ...]:
    """Return the same, of whatever length: as an index may have taken it that could make it shorter."""
    try:
        tree = json.loads(record)
    except (ValueError, RecursionError):
        return (None,) * len(NAMES)
    action, verdict = _table(tree.get("action")), _table(tree.get("verdict"))
    places = tree.get("places")
    first = places[0] if isinstance(places, list) and places else None
    values = (
        *(tree.get(name) for name in ("event", "session", "door", "agent")),
        *(action.get(name) for name in ("kind", "tool")),
        action.get("path") if first is None else first,
        verdict.get("decision"),
    )
    return tuple(_text(value) for value in values)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return value.replace(_NUL, "\\u0000").encode("utf-8", "replace").decode()
