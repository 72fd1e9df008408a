"""A tree of memory as a real directory for a while, and what was changed in it afterwards.

Whoever worked in the directory may have left anything there: links, devices, files without end. What is taken back are
regular files and directories, read without following a link; everything else is left out.
"""

import os
import shutil
import stat
import tempfile

from byleave.errors import UnsafePathError
from byleave.text import quoted
from byleave.workspace.opening import Anchor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from byleave.workspace.in_memory import Tree

MOST_BYTES = 256 << 20  # of everything that is taken back
MOST_NAMES = 100_000
DEEPEST = 200  # directories in one another
_MESSAGE = "write less into a project that is kept in memory"


class Scratch:
    """An empty directory of our own for the length of a `with`. Nothing of it is kept."""

    def __init__(self) -> None:
        self._path = ""

    def __enter__(self) -> str:
        self._path = os.path.realpath(tempfile.mkdtemp(prefix="byleave-project-"))  # with mode 0700
        return self._path

    def __exit__(self, *_raised: object) -> None:
        shutil.rmtree(self._path, onerror=_open_up)


class WrittenOut(Scratch):
    """A tree in a directory of its own. In the end what differs from then is done to the tree, all of it or nothing."""

    def __init__(self, tree: "Tree", lock: "AbstractContextManager[Any]", *, limit: int) -> None:
        super().__init__()
        self._tree = tree
        self._lock = lock
        self._limit = limit
        self._before: Found = Found()

    def __enter__(self) -> str:
        path = super().__enter__()
        try:
            with self._lock:
                files = {name: file.data for name, file in self._tree.files.items()}
                self._before = Found(files, set(self._tree.directories))
            with Anchor.open(path) as anchor:
                _write(anchor, self._before)
        except BaseException:
            super().__exit__()
            raise
        return path

    def __exit__(self, *raised: object) -> None:
        try:
            with Anchor.open(self._path) as anchor:
                after = _Reading(anchor, self._limit).all()
            with self._lock:
                _apply(self._tree, self._before, after)
        finally:
            super().__exit__(*raised)


class Found:
    """Files with their contents and directories, by their relative paths."""

    def __init__(self, files: "dict[str, bytes] | None" = None, directories: "set[str] | None" = None) -> None:
        self.files = files if files is not None else {}
        self.directories = directories if directories is not None else {""}


def _write(anchor: Anchor, found: Found) -> None:
    for path in sorted(found.directories):
        anchor.make_directories(path or ".")
    for path, data in found.files.items():
        anchor.write_bytes(path, data, create=True, update=False)


class _Reading:
    """Reads a whole directory back, within bounds."""

    def __init__(self, anchor: Anchor, limit: int) -> None:
        self._anchor = anchor
        self._limit = limit
        self._bytes = 0
        self._names = 0
        self._found = Found()

    def all(self) -> Found:
        """Return every regular file and directory."""
        waiting = [""]
        while waiting:
            path = waiting.pop()
            for name in self._anchor.list_names(path or "."):
                below = f"{path}/{name}" if path else name
                if self._take(below):
                    waiting.append(below)
        return self._found

    def _take(self, path: str) -> bool:
        """Take a file; note a directory, and say so."""
        self._names += 1
        if self._names > MOST_NAMES or path.count("/") > DEEPEST:
            raise UnsafePathError("there are too many names in the directory of the project", hint=_MESSAGE)
        try:
            mode = self._anchor.stat(path).st_mode
        except UnsafePathError:  # a link
            return False
        if stat.S_ISDIR(mode):
            self._found.directories.add(path)
            return True
        if stat.S_ISREG(mode):
            self._found.files[path] = data = self._anchor.read_bytes(path, limit=self._limit)
            self._bytes += len(data)
            if self._bytes > MOST_BYTES:
                problem = f"with {quoted(path)} the project would be longer than {MOST_BYTES} bytes"
                raise UnsafePathError(problem, hint=_MESSAGE)
        return False


def _apply(tree: "Tree", before: Found, after: Found) -> None:
    """Do to a tree what turned one state into another. What others changed in it meanwhile stays, if it can."""
    for path in before.files.keys() - after.files.keys():
        tree.files.pop(path, None)
    for path in sorted(before.directories - after.directories, reverse=True):
        if not tree.names(path):
            tree.directories.pop(path, None)
    for path in sorted(after.directories - before.directories):
        if tree.kind(path) is None and not tree.blocked(path):
            tree.make_directories(path)
    for path, data in after.files.items():
        free = path not in tree.directories and not tree.blocked(path)
        if before.files.get(path) != data and free:
            tree.put(path, data)


def _open_up(act: "Callable[..., Any]", path: str, _raised: object) -> None:
    """Remove what is left although its directory was closed to us; what cannot be removed stays closed to others."""
    for each in (os.path.dirname(path), path):
        if stat.S_ISDIR(os.lstat(each).st_mode):
            os.chmod(each, 0o700)
    if act in (os.open, os.scandir, os.lstat):
        shutil.rmtree(path, ignore_errors=True)
    else:
        act(path)
