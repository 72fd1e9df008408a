"""Perform what was allowed on files, on exactly the file that was decided about.

Each takes a permit and acts on the places the permit holds, never on a path as it was written: a link that was laid in
the way since then is an `UnsafePathError`, not another file. Where the files are kept is the project's business; if
none is given they are on disk. Errors name a file as the request did.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.core.action import FileAction, MoveAction, SearchAction
from byleave.core.fs_rules import FsTarget, is_under
from byleave.errors import TooLargeError, UnsafePathError
from byleave.text import quoted
from byleave.workspace.on_disk import ProjectOnDisk, refuse_directory_name
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.core.permit import Permit
    from byleave.workspace.project import FileMatches, FileMetadata, MayRead, ProjectFiles, Query

LARGEST_FILE = 10 << 20  # `max_file_size` of a tool
_ON_DISK = ProjectOnDisk(Root("/"))  # its root is never used: resolved places are absolute


def read_file(permit: Permit, project: ProjectFiles | None = None, *, limit: int = LARGEST_FILE) -> bytes:
    """Return the content of the file that may be read."""
    place = _place(permit, "read")
    with _Naming(permit):
        return (project or _ON_DISK).read(place, limit=limit)


def write_file(permit: Permit, data: bytes, project: ProjectFiles | None = None) -> None:
    """Make `data` the content of the file that may be created, or of the one that may be changed."""
    place = _place(permit, "create", "update")
    creates = isinstance(permit.action, FileAction) and permit.action.kind == "create"
    with _Naming(permit):
        if isinstance(permit.action, FileAction):
            refuse_directory_name(permit.action.path, place)
        (project or _ON_DISK).write(place, data, create=creates, update=not creates)


def delete_file(permit: Permit, project: ProjectFiles | None = None) -> None:
    """Remove the file that may be deleted."""
    place = _place(permit, "delete")
    with _Naming(permit):
        (project or _ON_DISK).delete(place)


def move_file(permit: Permit, project: ProjectFiles | None = None, *, replace: bool) -> None:
    """Move the file or directory that may be moved; with `replace`, over a file that is there."""
    if not isinstance(permit.action, MoveAction):
        raise PermissionError("this permit is not for move")
    source, target = _targets(permit, 2)
    with _Naming(permit):
        (project or _ON_DISK).rename(source, target, replace=replace)


def exists(permit: Permit, project: ProjectFiles | None = None) -> bool:
    """Whether there is anything at the place that may be read."""
    place = _place(permit, "read")
    with _Naming(permit):
        return (project or _ON_DISK).exists(place)


def look(permit: Permit, project: ProjectFiles | None = None) -> FileMetadata:
    """Return what is known of the place that may be read."""
    place = _place(permit, "read")
    with _Naming(permit):
        return (project or _ON_DISK).metadata(place)


def list_names(permit: Permit, project: ProjectFiles | None = None) -> list[str]:
    """Return the names in the directory that may be read, sorted. The caller decides which of them are visible."""
    place = _place(permit, "read")
    with _Naming(permit):
        return (project or _ON_DISK).list_dir(place)


def search_files(
    permits: Sequence[Permit], query: Query, may_read: MayRead, project: ProjectFiles
) -> list[FileMatches]:
    """Search the places that may be searched, one for each permit, whatever paths the query names."""
    if not permits or not all(isinstance(permit.action, SearchAction) for permit in permits):
        raise PermissionError("this permit is not for search")
    places = tuple(place for permit in permits for place in _targets(permit, 1))
    with _Naming(*permits):
        return list(project.grep(structs.replace(query, paths=places), may_read))


class _Naming:
    """Has errors name the file as the request did: where a mount leads is not for tools and agents."""

    def __init__(self, *permits: Permit) -> None:
        self._asked: dict[str, str] = {}
        for permit in permits:
            for place, asked in zip(permit.places, _paths(permit), strict=False):
                if isinstance(place, FsTarget):
                    self._asked.setdefault(place.canonical, asked)

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, TooLargeError):
            raise TooLargeError(self._named(error.problem), hint=error.hint, limit=error.limit) from None
        if isinstance(error, UnsafePathError):
            raise UnsafePathError(self._named(error.problem), hint=error.hint) from None
        if isinstance(error, OSError) and error.filename is not None:
            raise type(error)(error.errno, error.strerror, self._name(os.fsdecode(error.filename))) from None

    def _name(self, path: str) -> str:
        """Return the name that was asked for: of the path itself, or of what lies below or beside it."""
        above = (asked for place, asked in self._asked.items() if is_under(place, path))
        beside = (asked for place, asked in self._asked.items() if is_under(path, os.path.dirname(place)))
        known = self._asked.get(path) or next(above, None) or next(beside, None)
        return known or next(iter(self._asked.values()), "")

    def _named(self, problem: str) -> str:
        for place, asked in self._asked.items():
            if quoted(place) in problem:
                return problem.replace(quoted(place), quoted(asked))
        for place, asked in self._asked.items():
            if quoted(os.path.dirname(place))[:-1] in problem:  # a directory above it, or a temporary name beside it
                return f"{quoted(asked)} cannot be reached: something above or beside it changed after the decision"
        return problem


def _paths(permit: Permit) -> tuple[str, ...]:
    """Return the paths of an action as they were written, in the order of its places."""
    action = permit.action
    if isinstance(action, MoveAction):
        return (action.path, action.to)
    return (action.path,) if isinstance(action, FileAction | SearchAction) else ()


def _place(permit: Permit, *kinds: str) -> FsTarget:
    """Return the one place of a permit; a permit for another action is an error."""
    action = permit.action
    if not isinstance(action, FileAction) or action.kind not in kinds or len(permit.places) != 1:
        raise PermissionError(f"this permit is not for {' or '.join(kinds)}")
    return _targets(permit, 1)[0]


def _targets(permit: Permit, number: int) -> tuple[FsTarget, ...]:
    found = tuple(place for place in permit.places if isinstance(place, FsTarget))
    if len(found) != number or len(permit.places) != number:
        raise PermissionError("this permit names no place")
    return found
