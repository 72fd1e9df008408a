"""The language of the launcher: a plan as a list of steps, and their bytes. Pure.

Each step is a number (its place in STEPS), then its fields: a number as 8 bytes, a text as its length, its bytes and a
NUL, a list as its length and its texts. native/launcher.c reads it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Field = int | bytes | list[bytes]
    Step = tuple[str, tuple[Field, ...]]

STEPS = (
    "namespaces",
    "fork",
    "root",
    "directory",
    "link",
    "file",
    "bind",
    "cover",
    "mount",
    "pivot",
    "loopback",
    "listen",
    "setting",
    "hostname",
    "spawn",
    "limit",
    "drop",
    "landlock",
    "grant",
    "restrict",
    "seccomp",
    "exec",
    "streams",
    "seal",
    "trace",
    "report",
    "noexec",
    "detach",
    "broker",
    "guard",
    "watch",
    "shade",
    "join",
    "lasting",
    "shared",
    "adopt",
    "hold",
    "hide",
    "notes",
    "notify",
    "network",
)
# Kinds of places: the launcher refuses to act on one that has become something else.
DIRECTORY, OTHER, LINKED, ITSELF = 0, 1, 2, 3  # LINKED: followed if it is a link; ITSELF: the link
IF_THERE = 4  # beside the kind of a place that is granted: it may have gone meanwhile

_WORD = Struct("=Q").pack
_WORDS = {name: _WORD(place) for place, name in enumerate(STEPS)}


def step(name: str, *fields: Field | str) -> Step:
    """Return one step; texts may be given as str, with the bytes that the file system has for them."""
    return name, tuple([_bytes(field) if isinstance(field, str) else field for field in fields])


def write_program(steps: Iterable[Step]) -> bytes:
    """Return the steps as the launcher reads them."""
    parts: list[bytes] = []
    for name, fields in steps:
        parts.append(_WORDS[name])
        for field in fields:
            if isinstance(field, bytes):
                parts += (_WORD(len(field)), field, b"\0")
            else:
                parts.append(_field(field))
    return b"".join(parts)


def _field(field: Field) -> bytes:
    if isinstance(field, int):
        return _WORD(field)
    if isinstance(field, bytes):
        return _WORD(len(field)) + field + b"\0"
    return _WORD(len(field)) + b"".join([_field(each) for each in field])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
