"""What `byleave setup` has put in place, so that it can be undone: nothing else is ever removed.

An entry is written before the thing itself, so that a setup that was killed can be undone as well. Rules that were
imported stand in the user's own file, between two comments.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from byleave.errors import StateError
from byleave.user_files import digest, make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from byleave.policy.dirs import UserDirs

_FILE = "setup.json"
_LARGEST = 1 << 20


class ProjectRecord(msgspec.Struct):
    """What was written into one workspace, by its SHA-256, and the project file that was trusted."""

    files: dict[str, str] = {}
    trusted: str | None = None


class SetupRecord(msgspec.Struct):
    """`hooks` are agents, `imports` the SHA-256 of the rules by agent, `proved` that of the commands by agent."""

    hooks: list[str] = []
    imports: dict[str, str] = {}
    proved: dict[str, str] = {}
    projects: dict[str, ProjectRecord] = {}

    def project(self, root: str) -> ProjectRecord:
        return self.projects.setdefault(root, ProjectRecord())


def load_record(homes: UserDirs) -> SetupRecord:
    """Return what was put in place; one that cannot be read is none."""
    try:
        content = read_private(os.path.join(homes.state, _FILE), limit=_LARGEST)
        return SetupRecord() if content is None else msgspec.json.decode(content, type=SetupRecord)
    except (StateError, msgspec.MsgspecError, OSError):
        return SetupRecord()


def save_record(homes: UserDirs, record: SetupRecord) -> None:
    """Keep what was put in place."""
    make_private_directory(homes.state)
    try:
        write_private(os.path.join(homes.state, _FILE), msgspec.json.format(msgspec.json.encode(record)))
    except OSError as error:
        raise StateError(f"setup.json cannot be written: {error.strerror}", hint="make room in your home") from None


def _marks(agent: str) -> tuple[bytes, bytes]:
    begin = f"# Imported from {agent} by `byleave setup`; `byleave setup --undo` removes it.\n"
    return begin.encode(), f"# End of what was imported from {agent}.\n".encode()


def imported_block(content: bytes, agent: str) -> bytes | None:
    """Return the rules of an agent that stand in the user's file, None if there are none."""
    begin, end = _marks(agent)
    start = content.find(begin)
    stop = content.find(end, start)
    return None if start < 0 or stop < 0 else content[start + len(begin) : stop]


def with_block(content: bytes, agent: str, rules: bytes) -> bytes:
    """Return the file with these rules of an agent, in the place of those that it has."""
    begin, end = _marks(agent)
    start = content.find(begin)
    stop = content.find(end, start)
    if start >= 0 and stop >= 0:
        return content[: start + len(begin)] + rules + content[stop:]
    gap = b"" if not content else b"\n" if content.endswith(b"\n") else b"\n\n"
    return content + gap + begin + rules + end


def without_block(content: bytes, agent: str) -> bytes:
    """Return the file without the rules of an agent, as it was before."""
    begin, end = _marks(agent)
    start = content.find(begin)
    stop = content.find(end, start)
    if start < 0 or stop < 0:
        return content
    before = content[:start]
    return (before[:-1] if before.endswith(b"\n\n") else before) + content[stop + len(end) :]


def is_as_imported(content: bytes, agent: str, record: SetupRecord) -> bool:
    """Whether the rules of an agent in the user's file are those that setup wrote."""
    block = imported_block(content, agent)
    return block is not None and record.imports.get(agent) == digest(block)
