"""Open exactly the place that was decided about, however fast another process swaps links and directories.

Takes canonical places only, which the caller has resolved and decided about. An `Anchor` holds a directory, or the
one file of a file mount, by descriptor and reaches everything below without following a single symbolic link.
It knows no rules, no capabilities, and not how a tool names a place.

Two families of errors leave this module. An ordinary condition is an `OSError` with the whole path in it:
FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError, IsADirectoryError, a full disk, a
move to another file system. Everything suspicious is an `UnsafePathError`: a link anywhere in the path, a
path that keeps changing or is not canonical, a device, a FIFO, a socket, a file larger than the caller wants.

A descriptor holds a directory, not its name: if another process moves a directory away while it is being walked, the
acting goes on in that very directory, which lay below the anchor when it was reached.

Start at `Anchor`. How the kernel is asked: `openat`. How a file gets its whole content at once: `replacing`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from byleave.errors import TooLargeError, UnsafePathError
from byleave.text import quoted
from byleave.user_files import read_all
from byleave.workspace.openat import HOLD, HOLD_DIRECTORY, OPEN_FILE, Closing, beneath, identity_of, link_found
from byleave.workspace.replacing import (
    SET_ID,
    DirectoryEntry,
    put_copy,
    put_new,
    rename,
    rename_to_free_name,
    replace_content,
    write_in_place,
)

if TYPE_CHECKING:
    from byleave.workspace.openat import Opener

_LIST_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_KNOWN_FLAGS = (
    (OPEN_FILE | os.O_RDONLY | os.O_WRONLY | os.O_RDWR | os.O_NOFOLLOW)
    | (os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND)
    | (os.O_SYNC | os.O_DSYNC)
)

_NO_NAMES = frozenset({"", ".", ".."})
_ATTEMPTS = 3  # a file may come or go between two looks at its name, but not for ever

_CHANGED = "changed after the decision: a symbolic link stands in it now"
_RESTLESS = "kept changing while it was being opened"
_NOT_A_FILE = "is no ordinary file"
_SUSPICIOUS = {
    errno.ELOOP: _CHANGED,
    errno.EMLINK: _CHANGED,  # as FreeBSD says it
    errno.EXDEV: "leads out of the directory that it was resolved in",
    errno.EAGAIN: _RESTLESS,  # or another process holds a lease on it
    errno.EINTR: _RESTLESS,
    errno.ENXIO: _NOT_A_FILE,  # a socket, a FIFO without a reader, a device without a driver
    errno.ENODEV: _NOT_A_FILE,
    errno.EOPNOTSUPP: _NOT_A_FILE,  # a socket, on the BSDs
}
_HINTS = {
    _CHANGED: "use the path that the link leads to",
    _NOT_A_FILE: "only regular files are read and written; devices, FIFOs and sockets never are",
}
_ASK_AGAIN = "ask again when nothing else is changing this path"


class Anchor:
    """A canonical directory, or a single regular file, held open; the way to everything at or below it.

    Paths are relative to it and canonical: names joined by single slashes, or "." for the anchor itself.
    A file's anchor stands for that very file: replaced by another one, it is refused until anchored anew.
    """

    __slots__ = ("_directory", "_file", "_name", "_opener", "identity", "path")

    def __init__(self, path: str, directory: int, *, name: str = ".", file: int = -1, opener: Opener) -> None:
        self.path = path
        self._directory = directory  # for a file's anchor: the directory the file is in
        self._name = name
        self._file = file  # held so that no other file is given its inode number
        self._opener = opener
        self.identity = identity_of(directory if file < 0 else file)

    @classmethod
    def open(cls, path: str, *, opener: Opener | None = None) -> Self:
        """Hold the directory or regular file at the absolute `path`, if no component of it is a link."""
        if not path.startswith("/") or path == "/.":
            problem = f"{quoted(path)} is not a canonical absolute path"
            raise UnsafePathError(problem, hint="resolve it first")
        relative = _checked(path[1:] or ".")
        opener = opener or beneath
        with _PathErrors(path), Closing(os.open("/", HOLD_DIRECTORY)) as root:
            held = opener(root, relative, HOLD)
            try:
                if stat.S_ISDIR(os.fstat(held).st_mode):
                    return cls(path, held, opener=opener)
                _require_regular(held, path)
                above, _, name = relative.rpartition("/")
                directory = opener(root, above or ".", HOLD_DIRECTORY)
            except BaseException:
                os.close(held)
                raise
            return cls(path, directory, name=name, file=held, opener=opener)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the place. Once closed, every use fails; closing again does nothing."""
        held = self._directory, self._file
        self._directory = self._file = -1
        for descriptor in held:
            if descriptor >= 0:
                os.close(descriptor)

    def open_file(self, relative: str, flags: int, mode: int = 0o666) -> int:
        """Return a descriptor of a regular file; one that is made here gets `mode` less the umask.

        O_TRUNC empties it only once it is known to be a regular file.
        """
        if flags & ~_KNOWN_FLAGS:
            raise ValueError(f"a file is not opened with the flags {flags & ~_KNOWN_FLAGS:#o}")
        path = self._path_of(relative)
        if self._file >= 0 and flags & os.O_CREAT:  # it is there; were it gone, no other is made in its place
            if flags & os.O_EXCL and relative == ".":
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            flags &= ~os.O_CREAT
        descriptor = self._open(relative, (flags & ~os.O_TRUNC) | OPEN_FILE, mode)
        try:
            with _PathErrors(path):
                _require_regular(descriptor, path)
                if flags & (os.O_WRONLY | os.O_RDWR):
                    _drop_set_id(descriptor, path)
                if flags & os.O_TRUNC:
                    os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read_bytes(self, relative: str, *, limit: int) -> bytes:
        """Return the whole file, or refuse it if it is longer than `limit` bytes."""
        path = self._path_of(relative)
        with Closing(self.open_file(relative, os.O_RDONLY)) as descriptor, _PathErrors(path):
            data = read_all(descriptor, limit + 1)
        if len(data) > limit:
            problem = f"{quoted(path)} is longer than {limit} bytes"
            hint = "read a smaller file, or raise the limit for what is read"
            raise TooLargeError(problem, hint=hint, limit=limit)
        return data

    def write_bytes(self, relative: str, data: bytes, *, create: bool, update: bool) -> None:
        """Make `data` the whole content of the file, at once: see `replacing`. Its owner and its mode stay.

        Its set-id bits do not: what is written has not the rights that were given to what was there.

        Without `update` the file must be new, without `create` it must be there, as the kernel sees it.
        """
        if not (create or update):
            raise ValueError("to write is to create, to update, or either of them")
        if relative == ".":
            self._write_itself(data, update=update)
            return
        with self._place(relative) as place, _PathErrors(place.path):
            if not update:
                put_new(place, data)
                return
            for _ in range(_ATTEMPTS):
                try:
                    self._update(place, data)
                except FileNotFoundError:
                    if not create:
                        raise
                else:
                    return
                try:
                    put_new(place, data)
                except FileExistsError:
                    continue
                return
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _update(self, place: DirectoryEntry, data: bytes) -> None:
        """Put another file in the place of the one that is there; where that cannot be, write that one."""
        with Closing(self._opener(place.directory, place.name, os.O_WRONLY | OPEN_FILE)) as old:
            _require_regular(old, place.path)
            if not replace_content(place, old, data):
                _drop_set_id(old, place.path)
                write_in_place(old, data)

    def _write_itself(self, data: bytes, *, update: bool) -> None:
        """Write the one file that is anchored: in place, because another file in its place is another file."""
        flags = os.O_WRONLY | (0 if update else os.O_CREAT | os.O_EXCL)
        with Closing(self.open_file(".", flags)) as descriptor, _PathErrors(self.path):
            write_in_place(descriptor, data)

    def copy(self, relative: str, to_relative: str, *, replace: bool) -> tuple[int, int]:
        """Copy a regular file, at once, and return which file it was. Set-id and sticky bits are not copied."""
        with (
            Closing(self.open_file(relative, os.O_RDONLY)) as reading,
            self._place(to_relative) as place,
            _PathErrors(place.path),
        ):
            put_copy(place, reading, mode=stat.S_IMODE(os.fstat(reading).st_mode) & 0o777, replace=replace)
            return identity_of(reading)

    def open_directory(self, relative: str) -> int:
        """Return a descriptor of a directory, good for listing it."""
        return self._open(relative, _LIST_DIRECTORY)

    def list_names(self, relative: str) -> list[str]:
        """Return the names in a directory, sorted, as `os.fsdecode` gives them."""
        with Closing(self.open_directory(relative)) as descriptor, _PathErrors(self._path_of(relative)):
            return sorted(os.listdir(descriptor))

    def stat(self, relative: str, *, links: bool = False) -> os.stat_result:
        """Return what is known of whatever stands there, without opening it; a link is refused, unless with `links`."""
        if relative == ".":
            return os.fstat(self._directory if self._file < 0 else self._file)
        with self._place(relative) as place, _PathErrors(place.path):
            found = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode) and not links:
                raise link_found()
            return found

    def make_directories(self, relative: str) -> None:
        """Make the directory and all that are missing above it; one that is there already is fine."""
        held = self._open(".", HOLD_DIRECTORY)
        try:
            for name in _checked(relative).split("/"):
                with _PathErrors(self._path_of(relative)):
                    below = self._open_or_make(held, name)
                held, above = below, held
                os.close(above)
        finally:
            os.close(held)

    def _open_or_make(self, directory: int, name: str) -> int:
        try:
            return self._opener(directory, name, HOLD_DIRECTORY)
        except FileNotFoundError:
            with suppress(FileExistsError):  # another process was faster; what it made is checked like any other
                os.mkdir(name, dir_fd=directory)
        return self._opener(directory, name, HOLD_DIRECTORY)

    def unlink(self, relative: str) -> None:
        """Remove a name that is no directory. A link that took its place is removed, never followed."""
        with self._place(relative) as place, _PathErrors(place.path):
            try:
                os.unlink(place.name, dir_fd=place.directory)
            except (
                OSError
            ) as error:  # of a directory that is a mount, the kernel says first that it is busy or read-only
                if error.errno in (errno.EROFS, errno.EBUSY, errno.EPERM) and _is_directory(place):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.path) from None
                raise

    def remove_directory(self, relative: str) -> None:
        """Remove an empty directory."""
        with self._place(relative) as place, _PathErrors(place.path):
            os.rmdir(place.name, dir_fd=place.directory)

    def rename(self, relative: str, to: Anchor, to_relative: str, *, replace: bool) -> None:
        """Move a file or a directory. Without `replace`, a name that is taken is a FileExistsError.

        Neither last name is followed if it is a link. To another file system: OSError with EXDEV.
        """
        move = rename if replace else rename_to_free_name
        with (
            self._place(relative) as source,
            to._place(to_relative) as target,
            _PathErrors(source.path, target.path),
        ):
            move(source, target)

    def _open(self, relative: str, flags: int, mode: int = 0) -> int:
        """Ask the opener: every path of every method comes through here."""
        path, inside = self._path_of(relative), self._inside(relative)
        with _PathErrors(path):
            descriptor = self._opener(self._directory, inside, flags, mode)
        if self._file >= 0 and identity_of(descriptor) != self.identity:
            os.close(descriptor)
            raise UnsafePathError(f"{quoted(path)} is another file than the one approved", hint=_ASK_AGAIN)
        return descriptor

    def _inside(self, relative: str) -> str:
        if _checked(relative) == ".":
            return self._name
        if self._file >= 0:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path_of(relative))
        return relative

    def _place(self, relative: str) -> DirectoryEntry:
        above, _, name = self._inside(relative).rpartition("/")
        if relative == ".":
            problem = f"{quoted(self.path)} cannot be moved or removed through itself"
            raise UnsafePathError(problem, hint="name something below it")
        return DirectoryEntry(self._open(above or ".", HOLD_DIRECTORY), name, self._path_of(relative))

    def _path_of(self, relative: str) -> str:
        return self.path if relative == "." else f"{self.path.rstrip('/')}/{relative}"


class _PathErrors:
    """Gives every OSError its whole path, or turns it into UnsafePathError where it is suspicious."""

    __slots__ = ("_other", "_path")

    def __init__(self, path: str, other: str | None = None) -> None:
        self._path = path
        self._other = other  # where a rename goes, which follows nothing: EXDEV is ordinary there

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, OSError) or error.errno is None:
            return
        problem = _SUSPICIOUS.get(error.errno)
        if problem and self._other is None:
            hint = _HINTS.get(problem, _ASK_AGAIN)
            raise UnsafePathError(f"{quoted(self._path)} {problem}", hint=hint) from None
        raise OSError(error.errno, os.strerror(error.errno), self._path, None, self._other) from None


def _checked(relative: str) -> str:
    """Return `relative` if it is canonical: "." or names without "", "." and ".." among them."""
    if relative != "." and not _NO_NAMES.isdisjoint(relative.split("/")):
        raise UnsafePathError(f"{quoted(relative)} is not a canonical path", hint="resolve it first")
    try:
        usable = b"\0" not in os.fsencode(relative)
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        usable = False
    if not usable:
        raise UnsafePathError(f"{quoted(relative)} cannot be the name of a file", hint="leave out such characters")
    return relative


def _is_directory(place: DirectoryEntry) -> bool:
    try:
        return stat.S_ISDIR(os.stat(place.name, dir_fd=place.directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _require_regular(descriptor: int, path: str) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise UnsafePathError(f"{quoted(path)} {_NOT_A_FILE}", hint=_HINTS[_NOT_A_FILE])


def _drop_set_id(descriptor: int, path: str) -> None:
    """Take the set-id bits off a file before it is written: as root, the kernel would leave them on what is new."""
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if not mode & SET_ID:
        return
    try:
        os.fchmod(descriptor, mode & ~SET_ID)
    except PermissionError:  # of another owner: the kernel takes them off at the write
        if os.geteuid() == 0:
            problem = f"{quoted(path)} runs with the rights of its owner, and that cannot be taken off"
            raise UnsafePathError(problem, hint="take its set-id bits off (chmod ug-s), then ask again") from None
