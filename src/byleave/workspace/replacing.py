"""Give a name in a held directory its whole new content at once: readers see the old file or the new one, never a half.

    write a file that has no name -> make it like the old one -> give it a temporary name -> rename it over the old one

A full disk or a kill before the last step leaves the old content. A file without a name (`O_TMPFILE`) is gone with the
process; only between the last two steps, or on a file system without such files, a kill leaves a `.byleave-*` file.

Some files are written in place instead, because another file in their place would be a loss: one with several hard
links, one whose owner or attributes we may not give to another, one in a directory that we may not write to, one that
is mounted by itself. Room for what is added is reserved first, so a full disk leaves those as they were, too; a kill in
the middle of the write does not.

Takes a directory's descriptor and one name; `opening` opens the directory and reports errors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Self

from byleave.workspace.openat import libc

if TYPE_CHECKING:
    from collections.abc import Callable

_O_TMPFILE: int = getattr(os, "O_TMPFILE", 0)  # Linux only
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_PIECE = 1 << 20  # bytes that are copied at once
SET_ID = stat.S_ISUID | stat.S_ISGID
_ACL = "system.posix_acl_access"
# What the kernel takes off a file that is written, or signs: it says something about the old content.
_NOT_COPIED = frozenset({"security.capability", "security.ima", "security.evm"})
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS)
_NO_LINK = (errno.ENOENT, errno.EPERM, errno.EACCES, errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.ELOOP)
_NOT_REPLACED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.EOPNOTSUPP)


class DirectoryEntry:
    """A name in a directory that is held: what the calls that take `dir_fd` act on."""

    __slots__ = ("directory", "name", "path")

    def __init__(self, directory: int, name: str, path: str) -> None:
        self.directory = directory
        self.name = name
        self.path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        os.close(self.directory)


def put_new(place: DirectoryEntry, data: bytes) -> None:
    """Make a file with this content; a name that is taken is a FileExistsError, and stays as it is."""
    if _is_taken(place):  # nothing is written for nothing
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place.name)
    _put(place, lambda new: _write_all(new, data), mode=0o666, replace=False)


def put_copy(place: DirectoryEntry, reading: int, *, mode: int, replace: bool) -> None:
    """Make a copy of the file that is open as `reading`, of this very mode; with `replace`, over one that is there."""

    def fill(new: int) -> None:
        os.lseek(reading, 0, os.SEEK_SET)
        while piece := os.read(reading, _PIECE):
            _write_all(new, piece)
        os.fchmod(new, mode)

    _put(place, fill, mode=0o600, replace=replace)


def replace_content(place: DirectoryEntry, old: int, data: bytes) -> bool:
    """Put a file with this content in the place of the one that is open for writing as `old`.

    It has the owner, the mode and the attributes of the old one, but never its set-id bits: what is written has not the
    rights that were given to what was there. False if the old file is to be written itself; nothing was changed then.
    """
    if os.fstat(old).st_nlink != 1:
        return False
    writing = False

    def fill(new: int) -> None:
        nonlocal writing
        make_alike(new, old)
        writing = True
        _write_all(new, data)
        writing = False

    try:
        _put(place, fill, mode=0o600, replace=True)
    except OSError as error:
        if writing or error.errno not in _NOT_REPLACED:
            raise
        return False
    return True


def write_in_place(old: int, data: bytes) -> None:
    """Make `data` the content of the open file itself. Without room for it, nothing is changed."""
    size = os.fstat(old).st_size
    if len(data) > size:
        _reserve(old, size, len(data))
    os.lseek(old, 0, os.SEEK_SET)
    _write_all(old, data)
    os.ftruncate(old, len(data))


def rename(source: DirectoryEntry, target: DirectoryEntry) -> None:
    """Give a file or a directory another name, in the place of a file that has it."""
    os.rename(source.name, target.name, src_dir_fd=source.directory, dst_dir_fd=target.directory)


def rename_to_free_name(source: DirectoryEntry, target: DirectoryEntry) -> None:
    """Give a file or a directory another name; one that is taken is a FileExistsError."""
    names = os.fsencode(source.name), os.fsencode(target.name)
    no_replace = 1  # linux/fs.h: RENAME_NOREPLACE
    try:
        renameat2 = libc("renameat2", "c_int", "c_char_p", "c_int", "c_char_p", "c_uint")
        renameat2(source.directory, names[0], target.directory, names[1], no_replace)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL):  # EINVAL: not on this file system (NFS, 9p)
            raise
        _take_name_and_rename(source, target)


def _take_name_and_rename(source: DirectoryEntry, target: DirectoryEntry) -> None:
    """Rename without RENAME_NOREPLACE: neither `link` nor `mkdir` takes a name that is taken."""
    found = os.stat(source.name, dir_fd=source.directory, follow_symlinks=False)
    directories = {"src_dir_fd": source.directory, "dst_dir_fd": target.directory}
    if not stat.S_ISDIR(found.st_mode):
        os.link(source.name, target.name, **directories, follow_symlinks=False)
        os.unlink(source.name, dir_fd=source.directory)
        return
    os.mkdir(target.name, dir_fd=target.directory)
    try:
        rename(source, target)  # a directory replaces an empty one
    except OSError:
        os.rmdir(target.name, dir_fd=target.directory)
        raise


class _Draft:
    """A new file in a directory, with no name or with a temporary one, until it is whole."""

    def __init__(self, directory: int, mode: int, *, named: bool = False) -> None:
        self._directory = directory
        self._name: str | None = None
        self._mode = mode
        self.descriptor = -1 if named or not _O_TMPFILE else self._open_nameless()
        if self.descriptor < 0:
            self._name = _own_name()
            making = _WRITE | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self.descriptor = os.open(self._name, making, mode, dir_fd=directory)

    def _open_nameless(self) -> int:
        try:
            return os.open(".", _WRITE | _O_TMPFILE, self._mode, dir_fd=self._directory)
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
            return -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        if self._name is not None and error is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._directory)

    def take(self, name: str, *, replace: bool) -> None:
        """Give the whole file its name."""
        if self._name is None and not replace:
            self._link(name)
            return
        if self._name is None:
            own = _own_name()
            self._link(own)
            self._name = own
        descriptor, self.descriptor = self.descriptor, -1
        os.close(descriptor)  # which is where a server says that it has no room
        move = rename if replace else rename_to_free_name
        move(DirectoryEntry(self._directory, self._name, ""), DirectoryEntry(self._directory, name, ""))

    def _link(self, name: str) -> None:
        try:
            os.link(f"/proc/self/fd/{self.descriptor}", name, dst_dir_fd=self._directory)
        except OSError as error:
            if error.errno in _NO_LINK:
                raise _NoLinkError from None
            raise


class _NoLinkError(Exception):
    """A file without a name cannot be given one here: no /proc, or a sandbox that refuses it."""


def _put(place: DirectoryEntry, fill: Callable[[int], None], *, mode: int, replace: bool) -> None:
    """Have a file filled, and give it its name; where it cannot be nameless until then, under a temporary name."""
    for named in (False, True):
        try:
            with _Draft(place.directory, mode, named=named) as draft:
                fill(draft.descriptor)
                draft.take(place.name, replace=replace)
        except _NoLinkError:
            continue
        else:
            return


def make_alike(new: int, old: int) -> None:
    """Give the new file the owner, the attributes and the mode of the old one; an OSError where that is refused."""
    was, now = os.fstat(old), os.fstat(new)
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        os.fchown(new, was.st_uid, was.st_gid)
    _copy_attributes(new, old)
    os.fchmod(new, stat.S_IMODE(was.st_mode) & ~SET_ID)


def _copy_attributes(new: int, old: int) -> None:
    """Copy the access list and what users have noted on the file; labels of the system as far as it lets us."""
    names = _attributes(old)
    if _ACL not in names and _ACL in _attributes(new):  # it came from the directory
        os.removexattr(new, _ACL)
    for name in names:
        if name in _NOT_COPIED:
            continue
        try:
            os.setxattr(new, name, os.getxattr(old, name))
        except OSError:
            if not name.startswith("security."):  # those the system gives to each new file by its own rules
                raise


def _attributes(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except (AttributeError, OSError):  # neither this system nor this file system has any
        return []


def _reserve(descriptor: int, size: int, length: int) -> None:
    """Have the file system keep room for what a file grows by; if it has none, leave the file as it was."""
    try:
        os.posix_fallocate(descriptor, size, length - size)
    except OSError as error:
        os.ftruncate(descriptor, size)
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise


def _is_taken(place: DirectoryEntry) -> bool:
    try:
        os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _own_name() -> str:
    return f".byleave-{os.urandom(8).hex()}"


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
