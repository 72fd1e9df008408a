"""Which directories git enters by itself as repositories of their own: those that the index of a repository links to.

A plain `git status` reads the configuration in such a directory, and runs what it names, wherever the directory lies
and whatever `.gitignore` says of it. Files are read, nothing is run. Start at `linked_repositories`.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINK = 0o160000  # the mode of an entry that links to a repository
_MOST_REPOSITORIES = 100
_LARGEST = 1 << 26
_LONGEST_POINTER = 8192
_POINTER = b"gitdir: "
_MODE_AT, _OBJECT_AT = 24, 40  # in an entry
_EXTENDED = 0x4000  # a flag: two more bytes of flags follow
_OBJECTS = {False: 20, True: 32}  # bytes of an object's name, by whether it is a SHA-256
_PACKED, _VERSIONS = 4, (2, 3, 4)  # from version 4 on, names share their beginnings and nothing is aligned


class UnreadableIndexError(ValueError):
    """An index that links to something, and cannot be understood."""


def linked_repositories(root: str) -> Iterator[tuple[str, str]]:
    """Yield (directory, where its configuration is) for what git enters from `root`.

    An UnreadableIndexError in the end, if there may be more of them.
    """
    ahead = [(root, metadata_of(root))]
    unread = False
    for place, metadata in ahead:  # grows meanwhile
        try:
            paths = list(_linked_from(metadata))
        except UnreadableIndexError:
            unread = True
            continue
        for path in paths:
            if len(ahead) > _MOST_REPOSITORIES:
                unread = True
                break
            below = f"{place}/{path}"
            ahead.append((below, metadata_of(below)))
            yield ahead[-1]
    if unread:
        raise UnreadableIndexError


def metadata_of(directory: str) -> str:
    """Return where git finds the configuration of a repository: in its .git, or where that file leads."""
    path = f"{directory}/.git"
    said = _content(path, _LONGEST_POINTER)
    if said is None or not said.startswith(_POINTER):
        return path
    return os.path.join(directory, os.fsdecode(said.removeprefix(_POINTER).rstrip(b"\r\n")))


def _linked_from(metadata: str) -> Iterator[str]:
    """Yield what the index of a repository links to, also the part of it that lies in a file of its own."""
    wide = b"sha256" in (_content(f"{metadata}/config", _LARGEST) or b"").lower()
    try:
        names = [name for name in os.listdir(metadata) if name == "index" or name.startswith("sharedindex.")]
    except OSError:
        return
    for name in names:
        data = _content(f"{metadata}/{name}", _LARGEST)
        if data is None:
            raise UnreadableIndexError
        if struct.pack(">I", _LINK) in data:
            try:
                yield from links_of(data, _OBJECTS[wide])
            except (struct.error, ValueError, IndexError):
                raise UnreadableIndexError from None


def links_of(data: bytes, object_size: int) -> Iterator[str]:
    """Yield the paths of an index that are links to repositories; an error if it is no index."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in _VERSIONS:
        raise ValueError(version)
    at, name = 12, b""
    for _entry in range(count):
        begin = at
        (mode,) = struct.unpack_from(">I", data, begin + _MODE_AT)
        at += _OBJECT_AT + object_size
        (flags,) = struct.unpack_from(">H", data, at)
        at += 4 if flags & _EXTENDED else 2
        if version >= _PACKED:
            dropped, at = _number(data, at)
            name = name[: len(name) - dropped]
        else:
            name = b""
        end = data.index(b"\0", at)
        name += data[at:end]
        at = end + 1 if version >= _PACKED else begin + (end - begin + 8) // 8 * 8
        if mode == _LINK:
            yield os.fsdecode(name)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def _content(path: str, most: int) -> bytes | None:
    """Return what an ordinary file holds; nothing if there is none, None if it is too large."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return b""
        with open(file, "rb", closefd=False) as opened:
            data = opened.read(most + 1)
    except OSError:
        return b""
    finally:
        os.close(file)
    return data if len(data) <= most else None
