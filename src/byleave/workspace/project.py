"""The interface to a project's files, wherever they are kept: on disk, in memory.

A place is a path relative to the project, as a tool writes it, or an `FsTarget` that `find` returned and the guard has
decided about. The former is resolved first; the latter is used as it is, and anything that has taken its place since
then is an error. Absolute paths, and paths that climb out, are refused by every backend.

Backends: `workspace.on_disk`, `workspace.in_memory`.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.errors import UnsafePathError
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    Where = str | FsTarget
    MayRead = Callable[[str], bool]  # a path relative to the project; what may not be read is not searched

    class ProjectFiles(Protocol):
        """The files of one project. Errors are those of `workspace.safe_open`: OSError, or UnsafePathError."""

        @property
        def display_root(self) -> str:
            """The path of the project for people."""
            ...

        def find(self, path: str) -> FsTarget | RefusedPath:
            """Resolve what a tool wrote; nothing is opened."""
            ...

        def read(self, where: Where, *, limit: int) -> bytes: ...

        def open_file(self, where: Where) -> int:
            """Return a descriptor of a regular file, open for reading; the caller closes it."""
            ...

        def write(self, where: Where, data: bytes, *, create: bool, update: bool) -> None:
            """Make `data` the whole content; directories above that are missing are made if the file may be created."""
            ...

        def exists(self, where: Where) -> bool: ...

        def list_dir(self, where: Where) -> list[str]:
            """Return the names in a directory, sorted, as `os.fsdecode` gives them."""
            ...

        def metadata(self, where: Where) -> FileMetadata: ...

        def delete(self, where: Where) -> None:
            """Remove a file; a directory is an IsADirectoryError."""
            ...

        def rename(self, where: Where, to: Where, *, replace: bool) -> None:
            """Move a file or a directory, making directories above the target. `replace`: a file that is there."""
            ...

        def grep(self, query: Query, may_read: MayRead) -> Iterable[FileMatches]: ...


DIRECTORY, FILE, OTHER = "dir", "file", "other"


class FileMetadata(Struct, frozen=True):
    """What is known of a place: its kind, its size in bytes (0 for a directory), and when it was last changed."""

    kind: str
    size: int
    modified: float | None = None


class Query(Struct, frozen=True):
    """What to look for: a pattern, in these places (none: everywhere), in files with these extensions (none: all)."""

    pattern: str
    paths: tuple[Where, ...] = ()
    extensions: tuple[str, ...] = ()
    context: int = 0


class FileLine(Struct, frozen=True):
    """One line of a file, without its end; `matches`, or else it stands beside one that does."""

    number: int
    content: str
    matches: bool


class FileMatches(Struct, frozen=True):
    """The lines of one file that match, with those around them, in order. `path` is relative to the project."""

    path: str
    lines: tuple[FileLine, ...]


def inside(found: FsTarget | RefusedPath, path: str) -> FsTarget:
    """Return where a path leads, if that is inside the project."""
    if isinstance(found, RefusedPath):
        if found.code == "not_a_directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        raise UnsafePathError(found.problem, hint="name files by paths relative to the project, and inside it")
    if found.relative is None:
        problem = f"{quoted(path)} leads out of the project through a link"
        raise UnsafePathError(problem, hint="mount the target first: `byleave mount`")
    return found
