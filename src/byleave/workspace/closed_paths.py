"""Which existing places below a directory do path rules close? One bounded walk, for searches, commands and sandboxes.

Without `links`, only directories that a pattern can reach into are listed. With them, every directory is, as far as
time allows: a link that leads to a closed place is closed itself, and one that leads to a directory with closed places
is looked into, once. What could not be looked at in time makes the answer incomplete: there may be more.
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING

from byleave.core.closed_places import Covered, CoveredPlace, is_whole
from byleave.core.fs_rules import FsTarget, is_under
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.core.closed_places import ClosedPlaces, Progress
    from byleave.core.selection import Selection
    from byleave.workspace.resolve import Root

__all__ = ("Covered", "covered_below")
MOST_ENTRIES = 200_000  # about a second of listing with a warm cache
MOST_ENTRIES_FOR_LINKS = 50_000  # of directories in which nothing but a link can matter
LONGEST = 2.0  # seconds; hooks answer within ten
MOST_FOUND = 1000
_NOT_OURS = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM)  # gone, or as closed to a command as to us


def covered_below(
    root: Root,
    start: str,
    closed: ClosedPlaces,
    *,
    selection: Selection | None = None,
    named: str | None = None,
    links: bool = True,
    most_found: int = MOST_FOUND,
    most_entries: int = MOST_ENTRIES,
    seconds: float = LONGEST,
) -> Covered:
    """Return the closed places at or below the absolute, canonical `start`.

    With a `selection`, only files below `start` that it may select; then closed directories are looked into as well.
    `named` is the absolute name that `start` has in the workspace, where a link or a mount leads there.
    """
    if not closed:
        return Covered()
    walk = _Walk(root, closed, selection, links=links)
    walk.bound(most_found, most_entries, seconds)
    return walk.run(start, start if named is None else named)


class _Directory(Record):
    """A directory that is looked into: where it was found, where it really is, and what can match below it."""

    path: str
    real: str
    progress: Progress


class _Walk:
    """One walk: what was found so far, and how much may still be looked at."""

    def __init__(self, root: Root, closed: ClosedPlaces, selection: Selection | None, *, links: bool) -> None:
        self._root = root
        self._closed = closed
        self._selection = selection
        self._links = links
        self.bound(MOST_FOUND, MOST_ENTRIES, LONGEST)
        self._found: list[CoveredPlace] = []
        self._complete = True
        self._unlisted = ""
        self._start = ""
        self._linked: set[str] = set()

    def bound(self, most_found: int, most_entries: int, seconds: float) -> None:
        """Look at so much, and no more."""
        self._most_found = most_found
        self._entries = most_entries
        self._entries_for_links = min(most_entries, MOST_ENTRIES_FOR_LINKS)
        self._end = monotonic() + seconds

    def run(self, start: str, named: str) -> Covered:
        """Walk breadth first, so that what lies high is found before time is up."""
        self._start = named
        first = _Directory(named, start, self._begin(named, start))
        ahead = [first] if self._looks_into(first, is_directory=os.path.isdir(start)) else []
        while ahead and len(self._found) < self._most_found:
            ahead = [below for directory in ahead for below in self._below(directory)]
        self._complete = self._complete and not ahead
        return Covered(tuple(sorted(self._found, key=_depth_and_path)), self._complete, self._unlisted)

    def _below(self, directory: _Directory) -> Iterator[_Directory]:
        """Look at what is in a directory; yield the directories in it that are to be looked into."""
        if len(self._found) >= self._most_found or not self._has_time(directory):
            self._complete = self._complete and not directory.progress
            return
        advance, known, links = self._closed.advance, directory.progress, self._links
        for entry in self._list(directory):
            name = entry.name
            progress = advance(known, name) if known else known
            if not progress and not (links and (entry.is_symlink() or entry.is_dir(follow_symlinks=False))):
                continue
            path = f"{directory.path.rstrip('/')}/{name}"
            if entry.is_symlink():
                if links:
                    yield from self._through_link(path)
                continue
            child = _Directory(path, f"{directory.real.rstrip('/')}/{name}", progress)
            if self._looks_into(child, is_directory=entry.is_dir(follow_symlinks=False)):
                left = self._closed.without_opened(progress, name)
                if left is progress or self._root.relative(child.real) is None:
                    yield child
                elif left or self._links:
                    yield child.replace(progress=left)

    def _looks_into(self, found: _Directory, *, is_directory: bool) -> bool:
        """Note a place if it is closed; return whether something below it is to be looked at."""
        if self._closed.is_match(found.progress):
            place = self._place(found, is_directory=is_directory)
            whole = is_directory and is_whole(found.progress)
            if self._note(found.path, place, whole=whole) and whole and self._selection is None:
                return False
        return is_directory and (bool(found.progress) or self._links)

    def _place(self, found: _Directory, *, is_directory: bool) -> FsTarget:
        relative = self._root.relative(found.real)
        door = self._root.relative(found.path) if relative is None else None
        return FsTarget(found.real, relative, door, exists=True, directory=is_directory)

    def _through_link(self, path: str) -> Iterator[_Directory]:
        """Note a link that leads to a closed place; yield the directory it leads to, if closed places may be in it."""
        target = self._root.resolve_place(path, "/")
        if not isinstance(target, FsTarget):  # a name that no tool may pass; what it leads to counts all the same
            try:
                real = os.path.realpath(path)
            except OSError:  # a link of another user's process: as closed to a command as to us
                return
            target = FsTarget(real, self._root.relative(real), None, os.path.lexists(real), os.path.isdir(real))
        if not target.exists:
            return
        real = target.canonical
        self._note(path, target, whole=target.directory)
        if not target.directory or real in self._linked or is_under(real, self._start):
            return
        self._linked.add(real)
        progress = self._begin(path, real)
        if progress:
            yield _Directory(path, real, progress)

    def _begin(self, named: str, real: str) -> Progress:
        """Return what can match below a directory, by where it is and by the name that the workspace has for it."""
        found = self._closed.begin(real, self._selection)
        return found if named == real else found | self._closed.begin(named, self._selection)

    def _note(self, path: str, place: FsTarget, *, whole: bool) -> bool:
        said = self._closed.decision(place)
        if said is None:
            return False
        if self._selects(path, place):
            self._found.append(CoveredPlace(place, path, whole, *said))
        return True

    def _selects(self, path: str, place: FsTarget) -> bool:
        """Whether a search may select it: a file by its name; of a directory, its files are looked at one by one."""
        if self._selection is None:
            return True
        return not place.directory and self._selection.may_select(path[len(self._start.rstrip("/")) :].strip("/"))

    def _list(self, directory: _Directory) -> list[os.DirEntry[str]]:
        """Return what is in a directory, as much of it as may still be looked at."""
        left = self._entries if directory.progress else self._entries_for_links
        try:
            with os.scandir(directory.real) as entries:
                found = list(islice(entries, left + 1))
        except OSError as error:
            if error.errno not in _NOT_OURS or _could_be_opened(directory.real):
                self._complete = False
                self._unlisted = self._unlisted or directory.path
            return []
        if directory.progress:
            self._entries -= len(found)
            self._complete = self._complete and self._entries >= 0
        else:
            self._entries_for_links -= len(found)
        return found[:left]

    def _has_time(self, directory: _Directory) -> bool:
        left = self._entries if directory.progress else self._entries_for_links
        return left > 0 and monotonic() < self._end


def _could_be_opened(directory: str) -> bool:
    """Whether a directory that cannot be listed belongs to this user, so that a program of the user can change that."""
    try:
        found = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _depth_and_path(found: CoveredPlace) -> tuple[int, str]:
    return found.path.count("/"), found.path
