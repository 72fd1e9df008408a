"""Reserved names on disk: made, recognised and removed, without following a link.

A name is an empty directory with the sticky bit, or a read-only file. How it looked when it was made
is noted, so that what it has become meanwhile is never taken for ours. Which sandbox reserves a name, and
when it is to go: sandbox.placeholders.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.paths import collapse
from byleave.policy.dirs import HELD_MODE
from byleave.text import quoted
from byleave.user_files import read_all
from byleave.workspace.openat import HOLD_DIRECTORY, Closing, walk

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any, Self

_FILE_MODE = 0o444
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_WAY = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "is no directory",
    errno.ELOOP: "is a symbolic link, or lies behind one",
}


class Look(Struct, frozen=True):
    """What a thing of ours looked like when it was made."""

    inode: int
    mode: int
    owner: int


class ReservedName(Struct, frozen=True):
    """A name of ours: a directory, or a file with this content. Without a look it may not be (wholly) made yet."""

    path: str
    content: bytes | None
    look: Look | None = None


class NoWayError(Exception):
    """There is no directory that a name could stand in."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ReservedNames:
    """The names of a workspace, reached by descriptors; for a moment only, in which no directory is exchanged."""

    def __init__(self, root: str) -> None:
        with Closing(os.open("/", HOLD_DIRECTORY)) as top:
            self._directories = {"": walk(top, root.strip("/") or ".", HOLD_DIRECTORY)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        while self._directories:
            os.close(self._directories.popitem()[1])

    def look(self, path: str) -> os.stat_result | None:
        """Return what stands there, None if nothing does."""
        parent, name = self._place(path)
        try:
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None

    def make(self, path: str, content: bytes | None) -> ReservedName:
        """Make a name that is missing; FileExistsError if it is not."""
        parent, name = self._place(path)
        try:
            if content is None:
                os.mkdir(name, HELD_MODE, dir_fd=parent)
            else:
                _make_file(name, content, parent)
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        return ReservedName(path, content, Look(found.st_ino, found.st_mode, found.st_uid))

    def is_ours(self, entry: ReservedName, found: os.stat_result) -> bool:
        """Whether what stands there is what we made, or a part of it if we were stopped at it."""
        if not _looks_like(entry, found):
            return False
        return stat.S_ISDIR(found.st_mode) if entry.content is None else self._is_file(entry, found)

    def is_only_held(self, entry: ReservedName, known: Container[str]) -> bool:
        """Whether a name stands, is ours, and holds nothing but other `known` names."""
        try:
            found = self.look(entry.path)
            if found is None or not self.is_ours(entry, found):
                return False
            return entry.content is not None or all(f"{entry.path}/{name}" in known for name in self._list(entry.path))
        except (NoWayError, OSError):
            return False

    def _list(self, path: str) -> list[str]:
        parent, name = self._place(path)
        with Closing(os.open(name, _READ | os.O_DIRECTORY, dir_fd=parent)) as directory:
            return os.listdir(directory)

    def remove(self, entries: Iterable[ReservedName]) -> tuple[list[str], dict[str, ReservedName]]:
        """Remove what is still ours. Return the names that are gone by it, and the entries that resist for now."""
        removed: list[str] = []
        stuck: dict[str, ReservedName] = {}
        for entry in sorted(entries, key=_path, reverse=True):  # what is in a directory before the directory
            try:
                if self._remove(entry):
                    removed.append(entry.path)
            except NoWayError:
                continue
            except OSError:
                stuck[entry.path] = entry
        return removed[::-1], stuck

    def _remove(self, entry: ReservedName) -> bool:
        parent, name = self._place(entry.path)
        found = self.look(entry.path)
        if found is None or not self.is_ours(entry, found):
            return False
        if entry.content is not None:
            os.unlink(name, dir_fd=parent)
            return True
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            _hand_over(name, parent)
            return False
        return True

    def _is_file(self, entry: ReservedName, found: os.stat_result) -> bool:
        """Whether it is the very file we made, with our content; if we may not have finished it, a part of that."""
        if entry.content is None or not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            return False
        parent, name = self._place(entry.path)
        try:
            with Closing(os.open(name, _READ, dir_fd=parent)) as descriptor:
                there = read_all(descriptor, len(entry.content) + 1)
        except OSError:
            return False
        if entry.look is None:
            return entry.content.startswith(there)
        return found.st_ino == entry.look.inode and there == entry.content

    def _place(self, path: str) -> tuple[int, str]:
        """Return the directory that holds a name, and the name in it."""
        above, _, name = path.rpartition("/")
        if above not in self._directories:
            try:
                self._directories[above] = walk(self._directories[""], above, HOLD_DIRECTORY)
            except OSError as error:
                why = _NO_WAY.get(error.errno or 0) or f"cannot be searched: {error.strerror}"
                raise NoWayError(f"{quoted(above)} {why}") from None
        return self._directories[above], name


def is_canonical(path: str) -> bool:
    """Whether a path of the workspace is spelled in the one way that names are compared by."""
    return path != "" and "\0" not in path and not path.startswith("/") and collapse(path) == path


def entry_tree(entry: ReservedName) -> list[Any]:
    """Return an entry as JSON can hold it: bytes as the characters of the same numbers."""
    content = None if entry.content is None else entry.content.decode("latin-1")
    look = entry.look
    return [entry.path, content, None if look is None else [look.inode, look.mode, look.owner]]


def read_entry(tree: Any) -> ReservedName:
    """Return the entry of a tree; a ValueError or TypeError unless it is right in every detail."""
    path, content, look = tree
    inode, mode, owner = (0, 0, 0) if look is None else look
    texts = (path,) if content is None else (path, content)
    if not all(isinstance(text, str) for text in texts) or not is_canonical(path):
        raise ValueError(path)
    if not all(isinstance(number, int) for number in (inode, mode, owner)):
        raise TypeError(look)
    raw = None if content is None else content.encode("latin-1")
    return ReservedName(path, raw, None if look is None else Look(inode, mode, owner))


def _path(entry: ReservedName) -> str:
    return entry.path


def _looks_like(entry: ReservedName, found: os.stat_result) -> bool:
    if entry.look is not None:
        return (found.st_mode, found.st_uid) == (entry.look.mode, entry.look.owner)
    marked = found.st_mode & stat.S_ISVTX if entry.content is None else not found.st_mode & 0o222
    return bool(marked) and found.st_uid == os.geteuid()


def _make_file(name: str, content: bytes, parent: int) -> None:
    """Make a file that is whole from its first moment on, where the kernel can do that: a Git may read it at once."""
    try:
        with Closing(os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, _FILE_MODE, dir_fd=parent)) as unnamed:
            os.write(unnamed, content)
            os.link(f"/proc/self/fd/{unnamed}", name, dst_dir_fd=parent)
    except FileExistsError:
        raise
    except (OSError, AttributeError):  # not on this file system, or not on this system at all
        with Closing(os.open(name, _MAKE, _FILE_MODE, dir_fd=parent)) as named:
            os.write(named, content)


def _hand_over(name: str, parent: int) -> None:
    """Make an ordinary directory of one that is in use by now."""
    try:
        with Closing(os.open(name, _READ | os.O_DIRECTORY, dir_fd=parent)) as directory:
            os.fchmod(directory, stat.S_IMODE(os.fstat(directory).st_mode) & ~stat.S_ISVTX)
    except OSError:  # it is only for tidiness
        return
