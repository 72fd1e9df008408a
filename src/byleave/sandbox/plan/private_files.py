"""Files among those of the system that not every user may read: keys, tokens, what the kernel shows root alone.

Where root runs byleave, the program inside owns them too, without any capability. They are covered. An ordinary user
can read few of them; those are the user's own. This module only looks.

The search takes thousands of looks. A process that others are forked from can keep what it found (`keep_search`), with
a watch on every directory that was listed: it counts until the kernel reports any change there, and not for long.
"""

from __future__ import annotations

import os
import stat
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import is_under
from byleave.sandbox.plan.directory_watch import DirectoryWatch, read_mounts, roots_below
from byleave.sandbox.plan.plan import DIRECTORY, FILE, NOTHING, READING, PathGrant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NOT_FOR_EVERY_USER = "not every user may read it"
# Where people keep files of their own among the system's: all the way down. The rest of /usr comes from packages.
_WHOLE = ("/etc", "/usr/local")
_PARTLY, _DEPTH = "/usr", 2
_OWN = "/etc/byleave"
_FRESH = 5.0  # seconds
_ABOVE = ("/", _PARTLY)  # where one of these directories is replaced by another
_KEPT_FOR = 60.0  # seconds
_MOST_IN_ONE = 32  # files that are covered one by one; where there are more, their directory is
_MOST_LOOKED_AT = 200_000  # names below one place; no program installs as many
# Every user may read these, and each finds something else there: which keys that user has.
_OF_THE_USER = ("/proc/keys", "/proc/key-users")
_NOT_THE_MACHINES = ("/proc/sys/net", "/proc/net", "/proc/self", "/proc/thread-self", "/proc/mounts")


def system_secrets(uid: int) -> tuple[PathGrant, ...]:
    """Return what is covered in the system's own directories; for some seconds, sandboxes share what was seen."""
    known = _looks.get(uid)
    if known is None or monotonic() - known[0] > _FRESH:
        kept = _recalled(uid)
        known = _looks[uid] = (monotonic(), _search(uid) if kept is None else kept)
    # What has gone meanwhile needs no cover, and a cover for it would keep the sandbox from starting.
    return tuple(place for place in known[1] if os.path.lexists(place.path))


_looks: dict[int, tuple[float, tuple[PathGrant, ...]]] = {}


def _search(uid: int, watch: DirectoryWatch | None = None) -> tuple[PathGrant, ...]:
    found = [place for path in _WHOLE for place in _covered(path, depth=None, watch=watch)]
    if uid == 0:
        found += _covered(_PARTLY, depth=_DEPTH, but=_WHOLE, watch=watch)
    return tuple(found)


class _KeptSearch(Struct):
    """What a search found for a user, and what says that nothing has changed since. `missed`: it was not there, or old.

    A file that gets another name in a directory that is not watched, and by that name another mode, is not reported:
    so a search does not count for long.
    """

    uid: int = -1
    found: tuple[PathGrant, ...] = ()
    watch: DirectoryWatch | None = None
    mounts: bytes = b""
    roots: tuple[tuple[str, int, int], ...] = ()  # what is mounted where the search looked
    since: float = 0.0
    missed: bool = False
    once: bool = False  # it is let go of after the first look
    looked: bool = False  # ... which was made


_kept = _KeptSearch()


def keep_search(*, unless_younger: float = 0.0) -> bool:
    """Search now, for processes that are forked from this one; return whether what was found is kept.

    It is not where the kernel does not report every change: on a file system that others write to as well, or where
    there are too many directories. Nothing is done if what is kept is younger than so many seconds, and holds.
    """
    uid = os.geteuid()
    if unless_younger and _holds(uid) and monotonic() - _kept.since < unless_younger:
        return True
    forget_search()
    mounts = read_mounts()
    watch = DirectoryWatch.begin((*_ABOVE, *_WHOLE), mounts) if mounts else None
    if watch is None:
        return False
    roots = _roots(mounts)
    for path, _device, _number in roots:  # a file there may be changed by its other name
        watch.add(path)
    _kept.uid, _kept.watch, _kept.mounts, _kept.roots, _kept.since = uid, watch, mounts, roots, monotonic()
    _kept.found = _search(uid, watch)
    if not _holds(uid):
        forget_search()
    return _kept.watch is not None


def _roots(mounts: bytes) -> tuple[tuple[str, int, int], ...]:
    return roots_below(mounts, (*_WHOLE, _PARTLY))


def forget_search() -> None:
    """Let go of what is kept: a process that goes on for long has no use for the watch."""
    if _kept.watch is not None:
        _kept.watch.close()
        _kept.watch = None


def use_search_once() -> None:
    """Let go of what is kept after the next look at it: for a process that goes on for long after it."""
    _kept.once = True


def take_missed_search() -> bool:
    """Return whether a search had to be made because none was kept, or something had changed; then forget that."""
    missed, _kept.missed = _kept.missed, False
    return missed


def _recalled(uid: int) -> tuple[PathGrant, ...] | None:
    found = _kept.found if _holds(uid) else None
    if found is None and not _kept.looked:
        _kept.missed = True
    if _kept.once:
        _kept.looked = True
        forget_search()
    return found


def _holds(uid: int) -> bool:
    """Whether what is kept is what a search would find now."""
    watch = _kept.watch
    if watch is None or _kept.uid != uid or monotonic() - _kept.since > _KEPT_FOR:
        return False
    return read_mounts() == _kept.mounts and _roots(_kept.mounts) == _kept.roots and watch.is_quiet()


def prefix_secrets(places: Iterable[PathGrant], home: str) -> Iterator[PathGrant]:
    """Yield what is covered in the prefixes of programs. What lies in the home directory is the user's own anyway."""
    for place in places:
        own = home and home != "/" and is_under(place.path, home)
        if place.kind == DIRECTORY and place.capabilities and not own and not is_under(place.path, _PARTLY):
            yield from _covered(place.path, depth=None)


def started_among(covers: Sequence[PathGrant], programs: Iterable[str]) -> Iterator[PathGrant]:
    """Yield programs that are started although not every user may read them: the user has named them."""
    hidden = [place.path for place in covers if not place.capabilities and place.why == NOT_FOR_EVERY_USER]
    for path in dict.fromkeys(programs):
        if any(is_under(path, each) for each in hidden) and os.path.isfile(path) and not os.path.islink(path):
            yield PathGrant(path, READING, FILE, "the program itself")


def without_chosen(places: Iterable[PathGrant], chosen: Iterable[PathGrant]) -> list[PathGrant]:
    """Return the places but for covers in what the user has chosen to show: there the policy says what is closed."""
    paths = [place.path for place in chosen if place.capabilities]
    return [
        place
        for place in places
        if place.why != NOT_FOR_EVERY_USER or not any(is_under(place.path, path) for path in paths)
    ]


def kernel_secrets(uid: int) -> tuple[tuple[str, str], ...]:
    """Return the files and directories of /proc that are covered: what the kernel shows root, or one user, alone.

    For some seconds, sandboxes share what was seen.
    """
    known = _kernel_looks.get(uid)
    if known is not None and monotonic() - known[0] <= _FRESH:
        return known[1]
    began = monotonic()
    found = [(path, FILE) for path in _OF_THE_USER if os.path.exists(path)]
    if uid == 0:
        found += [(place.path, place.kind) for place in _covered("/proc", depth=None, but=_NOT_THE_MACHINES)]
    _kernel_looks[uid] = (began, tuple(found))
    return tuple(found)


_kernel_looks: dict[int, tuple[float, tuple[tuple[str, str], ...]]] = {}


def _covered(
    top: str, *, depth: int | None, but: Sequence[str] = (), watch: DirectoryWatch | None = None
) -> Iterator[PathGrant]:
    """Yield what is below a directory and readable for us, but not for every user.

    A `watch` is set on each directory before it is listed, and on each file that has other names.
    """
    looked_at = 0
    waiting = [(top, 0)]
    while waiting:
        directory, deep = waiting.pop()
        files = []
        try:
            if watch is not None:
                watch.add(directory)
            names, closed = _listed(directory, top, watch)
        except OSError:
            continue
        looked_at += names
        for name, mode in sorted(closed):
            path = f"{directory.rstrip('/')}/{name}"
            kind = _kind(path, mode, top)
            if kind == DIRECTORY:
                yield PathGrant(path, NOTHING, DIRECTORY, NOT_FOR_EVERY_USER)
            elif kind == FILE:
                files.append(path)
            elif kind is _LOOK_INTO and path not in but and (depth is None or deep < depth):
                waiting.append((path, deep + 1))
        if len(files) > _MOST_IN_ONE and directory != top:
            yield PathGrant(directory, NOTHING, DIRECTORY, NOT_FOR_EVERY_USER)
        else:
            yield from (PathGrant(path, NOTHING, FILE, NOT_FOR_EVERY_USER) for path in files)
        if looked_at > _MOST_LOOKED_AT:
            yield from (PathGrant(path, NOTHING, DIRECTORY, NOT_FOR_EVERY_USER) for path, _deep in waiting)
            return


_LOOK_INTO = "open"


def _listed(directory: str, top: str, watch: DirectoryWatch | None = None) -> tuple[int, list[tuple[str, int]]]:
    """Return how many names a directory has, and the modes of directories in it and of what not every user may read.

    There are thousands of names, and a look at each is what takes time: links, of which the listing says what they
    are, are not looked at, and a name is looked up in the directory that is open.
    """
    count, found = 0, []
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                count += 1
                if top == directory == "/proc" and entry.name.isdecimal():  # a process
                    continue
                try:
                    if entry.is_symlink():
                        continue
                    seen = entry.stat(follow_symlinks=False)
                except OSError:  # gone meanwhile
                    continue
                mode = seen.st_mode
                if watch is not None and seen.st_nlink > 1 and mode & _TYPE != _DIRECTORY:
                    watch.add(f"{directory}/{entry.name}")
                if not mode & 0o004 or mode & _TYPE == _DIRECTORY:
                    found.append((entry.name, mode))
    finally:
        os.close(descriptor)
    return count, found


_TYPE, _DIRECTORY = 0o170000, stat.S_IFDIR


def _kind(path: str, mode: int, top: str) -> str | None:
    """Return what has to be covered: DIRECTORY or FILE; _LOOK_INTO for a directory that is open to every user."""
    if stat.S_ISDIR(mode):
        closed = path == _OWN or (mode & 0o005 != 0o005 and os.access(path, os.X_OK))
        return DIRECTORY if closed else _LOOK_INTO
    if stat.S_ISLNK(mode) or mode & 0o004:
        return None
    return FILE if os.access(path, os.R_OK) or top == "/proc" else None
