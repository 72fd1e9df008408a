"""A project that is kept in memory: the same behaviour as on disk, with nothing on disk and no links.

Its root has a made-up path, so that places in it are decided like any others. `sdk.testing` runs tools over it.
"""

from __future__ import annotations

import errno
import os
import sys
from threading import RLock
from time import time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.errors import TooLargeError, UnsafePathError
from byleave.text import quoted
from byleave.workspace.grep import search_project
from byleave.workspace.project import DIRECTORY, FILE, FileMetadata, inside
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeVar

    from byleave.workspace.project import FileMatches, MayRead, Query, Where

    Value = TypeVar("Value")

ROOT = "/project"


class MemoryFile(Struct, frozen=True):
    """One file: what it says, and when that was last changed."""

    data: bytes
    modified: float


class Tree:
    """Files and directories by their relative paths; "" is the top. Every directory above a file is there."""

    def __init__(self) -> None:
        self.files: dict[str, MemoryFile] = {}
        self.directories: dict[str, float] = {"": time()}

    def kind(self, path: str) -> str | None:
        """Return what stands at a path; None if nothing does."""
        return FILE if path in self.files else DIRECTORY if path in self.directories else None

    def blocked(self, path: str) -> bool:
        """Whether a file stands where there would have to be a directory."""
        return any(above in self.files for above in _above(path))

    def make_directories(self, path: str) -> None:
        """Make a directory and all that are missing above it."""
        for each in (path, *_above(path)):
            self.directories.setdefault(each, time())

    def put(self, path: str, data: bytes) -> None:
        """Make `data` the content of a file, and the directories above it."""
        self.make_directories(path.rpartition("/")[0])
        self.files[path] = MemoryFile(data, time())

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        start = f"{path}/" if path else ""
        below = [each[len(start) :] for each in (*self.files, *self.directories) if each.startswith(start)]
        return sorted({name for name in below if name and "/" not in name})

    def move(self, path: str, to: str) -> None:
        """Give a file or a directory, with all that is in it, another name."""
        self.make_directories(to.rpartition("/")[0])
        if path in self.files:
            self.files[to] = self.files.pop(path)
            return
        _rename_all(self.files, path, to)
        _rename_all(self.directories, path, to)


def _rename_all(held: dict[str, Value], path: str, to: str) -> None:
    moved = [each for each in held if each == path or each.startswith(f"{path}/")]
    held.update({f"{to}{each[len(path) :]}": held.pop(each) for each in moved})


class MemoryRoot(Root):
    """The root of a tree in memory, which resolves paths: outside of it nothing exists."""

    def __init__(self, tree: Tree, path: str = ROOT) -> None:
        super().__init__(path)
        self._tree = tree

    def _walk(self, start: str, lexical: str, *, ends_as_directory: bool) -> FsTarget | RefusedPath:
        here = start
        for name in lexical.split("/"):
            kind = self._kind(here)
            if name == "..":
                if kind is None:
                    return RefusedPath(
                        "io", f"{quoted(lexical)} cannot be resolved: it climbs out of what does not exist"
                    )
                here = here.rpartition("/")[0] or "/"
            elif name and name != ".":
                if kind == FILE:
                    return RefusedPath("not_a_directory", f"{quoted(self._name(here))} is a file, not a directory")
                here = f"{here.rstrip('/')}/{name}"
        kind = self._kind(here)
        if kind == FILE and ends_as_directory:
            return RefusedPath("not_a_directory", f"{quoted(self._name(here))} is a file, not a directory")
        return FsTarget(here, self.relative(here), None, kind is not None, kind == DIRECTORY)

    @staticmethod
    def _is_link(_place: str) -> bool:
        return False

    def _kind(self, place: str) -> str | None:
        relative = self.relative(place)
        if relative is not None:
            return self._tree.kind(relative)
        return DIRECTORY if place == "/" or self.path.startswith(f"{place}/") else None

    def _name(self, place: str) -> str:
        return self.relative(place) or place


class ProjectInMemory:
    """The files of a project in memory. Threads may use it at the same time."""

    def __init__(self, files: Mapping[str, str | bytes] | None = None) -> None:
        self._tree = Tree()
        self._lock = RLock()
        self.root = MemoryRoot(self._tree)
        for path, content in (files or {}).items():
            data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else bytes(content)
            self.write(path, data, create=True, update=True)

    @property
    def display_root(self) -> str:
        """The made-up path of the root."""
        return self.root.path

    def find(self, path: str) -> FsTarget | RefusedPath:
        """Resolve what a tool wrote."""
        with self._lock:
            return self.root.resolve_input(path)

    def read(self, where: Where, *, limit: int) -> bytes:
        """Return the whole content of a file, or refuse it if it is longer than `limit` bytes."""
        with self._lock:
            path = self._path(where)
            if self._kind(path) == DIRECTORY:
                raise self._error(IsADirectoryError, errno.EISDIR, path)
            data = self._tree.files[path].data
        if len(data) > limit:
            problem = f"{quoted(self._full(path))} is longer than {limit} bytes"
            hint = "read a smaller file, or raise the limit for what is read"
            raise TooLargeError(problem, hint=hint, limit=limit)
        return data

    def open_file(self, where: Where) -> int:
        """Return a descriptor of a copy of a file, open for reading."""
        data = memoryview(self.read(where, limit=sys.maxsize))
        descriptor = os.memfd_create("byleave", os.MFD_CLOEXEC)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def write(self, where: Where, data: bytes, *, create: bool, update: bool) -> None:
        """Make `data` the whole content; directories above that are missing are made if the file may be created."""
        if not (create or update):
            raise ValueError("to write is to create, to update, or either of them")
        with self._lock:
            path = self._path(where)
            if self._tree.blocked(path):
                raise self._error(NotADirectoryError, errno.ENOTDIR, path)
            kind = self._tree.kind(path)
            if kind is not None and not update:
                raise self._error(FileExistsError, errno.EEXIST, path)
            if kind == DIRECTORY:
                raise self._error(IsADirectoryError, errno.EISDIR, path)
            if kind is None and not create:
                raise self._error(FileNotFoundError, errno.ENOENT, path)
            self._tree.put(path, bytes(data))

    def exists(self, where: Where) -> bool:
        """Whether something stands there."""
        try:
            with self._lock:
                return self._tree.kind(self._path(where)) is not None
        except NotADirectoryError:
            return False

    def list_dir(self, where: Where) -> list[str]:
        """Return the names in a directory, sorted."""
        with self._lock:
            path = self._path(where)
            if self._kind(path) == FILE:
                raise self._error(NotADirectoryError, errno.ENOTDIR, path)
            return self._tree.names(path)

    def metadata(self, where: Where) -> FileMetadata:
        """Return what stands there."""
        with self._lock:
            path = self._path(where)
            if self._kind(path) == DIRECTORY:
                return FileMetadata(DIRECTORY, 0, self._tree.directories[path])
            file = self._tree.files[path]
            return FileMetadata(FILE, len(file.data), file.modified)

    def delete(self, where: Where) -> None:
        """Remove a file."""
        with self._lock:
            path = self._path(where)
            if self._kind(path) == DIRECTORY:
                raise self._error(IsADirectoryError, errno.EISDIR, path)
            del self._tree.files[path]

    def rename(self, where: Where, to: Where, *, replace: bool) -> None:
        """Move a file or a directory, making directories above the target."""
        with self._lock:
            source, target = self._path(where), self._path(to)
            kind, there = self._kind(source), self._tree.kind(target)
            if kind == DIRECTORY and target != source and (not source or target.startswith(f"{source}/")):
                raise self._error(OSError, errno.EINVAL, source)
            if there is not None and not (replace and kind == there == FILE):
                raise self._error(FileExistsError, errno.EEXIST, target)
            if self._tree.blocked(target):
                raise self._error(NotADirectoryError, errno.ENOTDIR, target)
            if source != target:
                self._tree.move(source, target)

    def grep(self, query: Query, may_read: MayRead) -> Iterable[FileMatches]:
        """Return the files that match, sorted by path."""
        return search_project(self, query, may_read)

    def _path(self, where: Where) -> str:
        """Return a place relative to the root; a resolved place that lies elsewhere is an error."""
        target = where if isinstance(where, FsTarget) else inside(self.root.resolve_input(where), where)
        relative = self.root.relative(target.canonical)
        if relative is None:
            problem = f"{quoted(target.canonical)} is not in this project, which is kept in memory"
            raise UnsafePathError(problem, hint="name a file of the project")
        return relative

    def _kind(self, path: str) -> str:
        """Return what stands at a path, or say why nothing does."""
        kind = self._tree.kind(path)
        if kind is None:
            if self._tree.blocked(path):
                raise self._error(NotADirectoryError, errno.ENOTDIR, path)
            raise self._error(FileNotFoundError, errno.ENOENT, path)
        return kind

    def _error(self, kind: type[OSError], number: int, path: str) -> OSError:
        return kind(number, os.strerror(number), self._full(path))

    def _full(self, path: str) -> str:
        return f"{self.root.path}/{path}" if path else self.root.path


def _above(path: str) -> Iterator[str]:
    """Yield every directory above a relative path, up to the top."""
    while path:
        path = path.rpartition("/")[0]
        yield path
