"""Which existing places below a directory do path rules close? One bounded walk, for searches, commands and sandboxes.

Only directories that a pattern can reach into are listed. A link in them is never followed, but one that leads to a
closed place is closed itself. What could not be looked at in time makes the answer incomplete: there may be more.
"""

import errno
import os
from time import monotonic

from byleave.core.closed import advance, is_match, is_whole
from byleave.core.fs import FsTarget
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from byleave.core.closed import ClosedPlaces, Progress
    from byleave.workspace.resolve import Root

MOST_ENTRIES = 200_000  # about a second of listing with a warm cache
LONGEST = 2.0  # seconds; hooks answer within five
MOST_FOUND = 1000
_NOT_OURS = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM)  # gone, or as closed to a command as to us


class CoveredPlace(Record):
    """A closed place that exists. `whole`: everything below it is closed as well."""

    place: FsTarget
    path: str  # absolute, where it was found; a link's own path
    whole: bool = False

    @property
    def name(self) -> str:
        """The place as the workspace names it, else by its absolute path."""
        return self.path if self.place.relative is None else self.place.relative or "."


class Covered(Record):
    """What was found, what lies high first; `complete` says that there is nothing else."""

    places: tuple[CoveredPlace, ...] = ()
    complete: bool = True

    @property
    def may_cover(self) -> bool:
        """Whether something is closed, or may be."""
        return bool(self.places) or not self.complete

    @property
    def names(self) -> tuple[str, ...]:
        """The places by their names."""
        return tuple(each.name for each in self.places)


def covered_below(
    root: "Root",
    start: str,
    closed: "ClosedPlaces",
    *,
    selects: "Callable[[str], bool] | None" = None,
    most_found: int = MOST_FOUND,
    most_entries: int = MOST_ENTRIES,
    seconds: float = LONGEST,
) -> Covered:
    """Return the closed places at or below the absolute, canonical `start`.

    With `selects`, only files whose path below `start` it accepts; then closed directories are looked into as well.
    """
    if not closed:
        return Covered()
    return _Walk(root, closed, selects, (most_found, most_entries, seconds)).run(start)


class _Walk:
    """One walk: what was found so far, and how much may still be looked at."""

    def __init__(
        self,
        root: "Root",
        closed: "ClosedPlaces",
        selects: "Callable[[str], bool] | None",
        bounds: tuple[int, int, float],
    ) -> None:
        self._root = root
        self._closed = closed
        self._selects = selects
        self._most_found, self._entries, seconds = bounds
        self._end = monotonic() + seconds
        self._found: list[CoveredPlace] = []
        self._complete = True
        self._start = ""
        self._steps: dict[tuple[Progress, str], Progress] = {}

    def run(self, start: str) -> Covered:
        self._start = start
        progress = self._closed.begin(start)
        if progress:
            self._look(start, progress, is_directory=os.path.isdir(start), is_link=False)
        return Covered(tuple(sorted(self._found, key=_depth_and_path)), self._complete)

    def _look(self, path: str, progress: "Progress", *, is_directory: bool, is_link: bool) -> None:
        """Look at a start, and walk below it: breadth first, so that what lies high is found before time is up."""
        ahead = [path] if self._enters(path, progress, is_directory=is_directory, is_link=is_link) else []
        states = {path: progress}
        while ahead:
            following: list[str] = []
            for directory in ahead:
                known = states.pop(directory)
                for name, is_dir, linked in self._list(directory):
                    below = self._advance(known, name)
                    if not below and not linked:
                        continue
                    child = f"{directory.rstrip('/')}/{name}"
                    if self._enters(child, below, is_directory=is_dir, is_link=linked):
                        states[child] = below
                        following.append(child)
                    if len(self._found) >= self._most_found:
                        self._complete = False
                        return
                if not self._in_time():
                    return
            ahead = following

    def _enters(self, path: str, progress: "Progress", *, is_directory: bool, is_link: bool) -> bool:
        """Note a place if it is closed; return whether something below it is to be looked at."""
        if is_link:
            self._note_link(path)
            return False
        if is_match(progress):
            place = FsTarget(path, self._root.relative(path), exists=True, directory=is_directory)
            whole = is_directory and is_whole(progress)
            if self._note(path, place, whole=whole) and whole and self._selects is None:
                return False
        return is_directory and bool(progress)

    def _advance(self, progress: "Progress", name: str) -> "Progress":
        """Names come again and again, below the same patterns."""
        found = self._steps.get((progress, name))
        if found is None:
            found = self._steps[progress, name] = advance(progress, name)
        return found

    def _note_link(self, path: str) -> None:
        target = self._root.resolve_place(path, "/")
        if not isinstance(target, FsTarget):  # a name that no tool may pass; what it leads to counts all the same
            real = os.path.realpath(path)
            target = FsTarget(real, self._root.relative(real), None, os.path.lexists(real), os.path.isdir(real))
        if target.exists:
            self._note(path, target, whole=target.directory)

    def _note(self, path: str, place: FsTarget, *, whole: bool) -> bool:
        if self._closed.decision(place) is None:
            return False
        if self._selects is not None and (place.directory or not self._selects(self._below(path))):
            return True
        self._found.append(CoveredPlace(place, path, whole))
        return True

    def _below(self, path: str) -> str:
        return path[len(self._start.rstrip("/")) :].strip("/")

    def _list(self, directory: str) -> "Iterator[tuple[str, bool, bool]]":
        """Yield the names in a directory: whether each is a directory, and whether it is a link."""
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    self._entries -= 1
                    if self._entries < 0:
                        self._complete = False
                        return
                    yield entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink()
        except OSError as error:
            if error.errno not in _NOT_OURS:
                self._complete = False

    def _in_time(self) -> bool:
        if self._entries >= 0 and monotonic() < self._end:
            return True
        self._complete = False
        return False


def _depth_and_path(found: CoveredPlace) -> tuple[int, str]:
    return found.path.count("/"), found.path
