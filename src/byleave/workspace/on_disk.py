"""A project that is a real directory. Every effect happens at a canonical place, and follows no link.

A resolved place (`FsTarget`) may lie anywhere: mounts lead out of the workspace. A path (`str`) must stay inside. How
places are opened without a race: `opening`. How files are searched: `grep`, or the `search` that is passed in.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from byleave.core.fs_rules import FsTarget, RefusedPath, is_under
from byleave.errors import SandboxError, UnsafePathError
from byleave.text import quoted, shown
from byleave.workspace.grep import find_starts, search_project
from byleave.workspace.openat import Closing
from byleave.workspace.project import DIRECTORY, FILE, OTHER, FileMetadata, inside
from byleave.workspace.safe_open import Anchor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from byleave.workspace.grep import SearchStart
    from byleave.workspace.project import FileMatches, MayRead, Query, Where
    from byleave.workspace.resolve import Root

    Search = Callable[[Query, Sequence[SearchStart]], Iterable[FileMatches]]

_NOT_THERE = (FileNotFoundError, NotADirectoryError)


class ProjectOnDisk:
    """The files below a root.

    With `search`, `grep` calls it; what it finds is still held to `may_read`. `writable`: the places beside the root
    where confined programs may write.
    """

    def __init__(self, root: Root, *, search: Search | None = None, writable: Sequence[str] = ()) -> None:
        self.root = root
        self._search = search
        self._writable = (root.path, *writable)

    @property
    def display_root(self) -> str:
        """The path of the root."""
        return shown(self.root.path)

    def find(self, path: str) -> FsTarget | RefusedPath:
        """Resolve what a tool wrote."""
        return self.root.resolve_input(path)

    def read(self, where: Where, *, limit: int) -> bytes:
        """Return the whole content of a regular file, or refuse it if it is longer than `limit` bytes."""
        return _everything().read_bytes(self._place(where), limit=limit)

    def open_file(self, where: Where) -> int:
        """Return a descriptor of a regular file, open for reading."""
        return _everything().open_file(self._place(where), os.O_RDONLY)

    def write(self, where: Where, data: bytes, *, create: bool, update: bool) -> None:
        """Make `data` the whole content, at once; the owner and the mode of a file that is there stay."""
        place, anchor = self._place(where), _everything()
        try:
            anchor.write_bytes(place, data, create=create, update=update)
        except FileNotFoundError:
            if not create:
                raise
            _make_parents(anchor, place)
            anchor.write_bytes(place, data, create=create, update=update)

    def exists(self, where: Where) -> bool:
        """Whether something that is no link stands there."""
        try:
            _everything().stat(self._place(where))
        except _NOT_THERE:
            return False
        return True

    def list_dir(self, where: Where) -> list[str]:
        """Return the names in a directory, sorted."""
        return _everything().list_names(self._place(where))

    def metadata(self, where: Where) -> FileMetadata:
        """Return what stands there, without opening it; a link is refused."""
        return _metadata(_everything().stat(self._place(where)))

    def delete(self, where: Where) -> None:
        """Remove a name that is no directory; a link that took its place goes, never what it leads to."""
        _everything().unlink(self._place(where))

    def rename(self, where: Where, to: Where, *, replace: bool) -> None:
        """Move a file, a directory or a link, as it was resolved; a file also to another file system, by copying it.

        A place that was resolved as a link is moved or replaced itself.
        """
        source, target = self._place(where), self._place(to)
        anchor = _everything()
        resolved = where if isinstance(where, FsTarget) else None
        mode = anchor.stat(source, links=resolved is not None and resolved.link).st_mode
        tree = stat.S_ISDIR(mode)
        if resolved is not None and (resolved.link, resolved.directory) != (stat.S_ISLNK(mode), tree):
            problem = f"{quoted(resolved.canonical)} changed after the decision"
            raise UnsafePathError(problem, hint="try again when no other program is changing it")
        if tree and target != source and is_under(target, source):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), f"/{source}", None, f"/{target}")
        _Move(anchor, source, target, replace=replace and not tree).run(copies=not tree and not stat.S_ISLNK(mode))

    def grep(self, query: Query, may_read: MayRead) -> Iterable[FileMatches]:
        """Return the files that match, sorted by path. Where no sandbox can hold the search, it runs without one."""
        if self._search is not None:
            try:
                found = self._search(query, find_starts(self, query))
                return [matches for matches in found if may_read(matches.path)]
            except SandboxError:
                pass
        return search_project(self, query, may_read, writable=self._writable)

    def _place(self, where: Where) -> str:
        """Return a place relative to /, as the anchor of everything takes it."""
        target = where if isinstance(where, FsTarget) else inside(self.find(where), where)
        return target.canonical[1:] or "."


def refuse_directory_name(path: str, place: FsTarget) -> None:
    """Refuse to make a file under a name that says it is a directory: `new/`."""
    if path.endswith("/") and not place.exists:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


_anchors: list[Anchor] = []


def _everything() -> Anchor:
    """Return the root of the file system, held open once for this whole process: it has no name to be swapped."""
    if not _anchors:
        _anchors.append(Anchor.open("/"))
    return _anchors[0]


def _make_parents(anchor: Anchor, place: str) -> None:
    above = place.rpartition("/")[0]
    if above:
        anchor.make_directories(above)


def _metadata(found: os.stat_result) -> FileMetadata:
    if stat.S_ISDIR(found.st_mode):
        return FileMetadata(DIRECTORY, 0, found.st_mtime)
    kind = FILE if stat.S_ISREG(found.st_mode) else OTHER
    return FileMetadata(kind, found.st_size, found.st_mtime)


class _Move:
    """One move from a place to another, both relative to the anchor."""

    def __init__(self, anchor: Anchor, source: str, target: str, *, replace: bool) -> None:
        self._anchor = anchor
        self._source = source
        self._target = target
        self._replace = replace

    def run(self, *, copies: bool) -> None:
        """Rename, making directories above the target; what cannot be renamed there is copied, if it `copies`."""
        try:
            self._rename_or_make_parents()
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ENOTEMPTY):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), f"/{self._target}") from None
            if error.errno != errno.EXDEV or not copies:
                raise
            self._copy()

    def _rename_or_make_parents(self) -> None:
        try:
            self._rename()
        except FileNotFoundError:
            self._anchor.stat(self._source, links=True)  # if that is what is missing, nothing is made
            _make_parents(self._anchor, self._target)
            self._rename()

    def _rename(self) -> None:
        self._anchor.rename(self._source, self._anchor, self._target, replace=self._replace)

    def _copy(self) -> None:
        """Copy the file, which gets its name when it is whole, then remove the source: no reader sees half a file."""
        self._refuse_to_leave_both()
        replaced = self._replace and self._target_exists()
        copied = self._anchor.copy(self._source, self._target, replace=self._replace)
        try:
            self._remove_source(copied)
        except (OSError, UnsafePathError):
            if not replaced:  # as it was before; what was replaced is gone, and a whole copy is better than nothing
                self._drop(self._target)
            raise

    def _refuse_to_leave_both(self) -> None:
        """Refuse beforehand what would fail in the end: a source that we may not remove."""
        above = self._source.rpartition("/")[0] or "."
        with Closing(self._anchor.open_directory(above)) as directory:
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=directory, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"/{self._source}")

    def _remove_source(self, copied: tuple[int, int]) -> None:
        """Remove the file that was copied, and not another one that has taken its name meanwhile."""
        found = self._anchor.stat(self._source)
        if (found.st_dev, found.st_ino) != copied:
            problem = f"{quoted(f'/{self._source}')} is another file than the one that was copied"
            raise UnsafePathError(problem, hint="try again when no other program is changing it")
        self._anchor.unlink(self._source)

    def _target_exists(self) -> bool:
        try:
            self._anchor.stat(self._target)
        except _NOT_THERE:
            return False
        except UnsafePathError:  # a link took its place: it is replaced, not followed
            return True
        return True

    def _drop(self, place: str) -> None:
        with contextlib.suppress(OSError, UnsafePathError):
            self._anchor.unlink(place)
