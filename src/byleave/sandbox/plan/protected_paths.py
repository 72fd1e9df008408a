"""Protected names that exist below a directory, and those among what a sandbox may write outside of the workspace.

`protected_below` is one bounded walk, without following links. What does not exist cannot be made read-only, and what
is looked for too long delays every start: what a walk leaves out is said in the plan. Directories that package managers
fill are not looked into: nothing there is opened as a project.

`keep_protected` is for `[sandbox] write`, and for mounts of one run. Protected places in there stay readable and are
not written, unless the configuration names such a place itself: `write = ["~/.cargo"]` does not open `~/.cargo/bin`,
`write = ["~/.cargo/bin"]` does. What does not exist yet cannot be held here; the plan says so.
"""

from __future__ import annotations

import os
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.fs_rules import WRITES, FsTarget, is_under
from byleave.core.protected import is_place, leads_on, next_steps
from byleave.errors import StateError
from byleave.sandbox import host
from byleave.sandbox.plan.plan import DIRECTORY, LINK, READING, Approximation, PathGrant
from byleave.text import shown
from byleave.user_files import make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from byleave.core.protected import Protected, Steps
    from byleave.sandbox.plan.plan import PlanRequest


MOST_ENTRIES = 20_000
MOST_FOUND = 100  # each is a mount
LONGEST = 0.25  # seconds
_FILLED = frozenset(
    {
        *("node_modules", "site-packages", "dist-packages", "__pycache__", ".tox", ".nox", ".mypy_cache"),
        *(".pytest_cache", ".ruff_cache", ".hypothesis", ".cache", "bower_components", ".pnpm-store"),
    }
)
_LARGEST = 1 << 20  # bytes of what is remembered
_REPOSITORY = ".git"
# What git reads in the directory of a repository, if it is there. The kernel holds these, there or not yet.
_HELD_IN_REPOSITORIES = ("hooks", "config", "config.worktree", "commondir")


class ProtectedBelow(Struct, frozen=True):
    """The relative paths of protected names below a directory, and whether all of them were found."""

    names: tuple[str, ...] = ()
    complete: bool = True


class _Directory(Struct, frozen=True):
    """A directory to look into: its relative path, how far its name leads, and whether any name in it counts."""

    path: str
    steps: Steps
    all_names: bool


def protected_below(
    directory: str, *, most_entries: int = MOST_ENTRIES, most_found: int = MOST_FOUND, seconds: float = LONGEST
) -> ProtectedBelow:
    """Return the protected names below a directory, those that lie high first."""
    found: list[str] = []
    ahead = [_Directory("", _begun(directory), all_names=True)]
    entries, end = 0, monotonic() + seconds
    while ahead:
        following: list[_Directory] = []
        for each in ahead:
            if entries > most_entries or len(found) > most_found or monotonic() > end:
                return ProtectedBelow(tuple(found[:most_found]), complete=False)
            for entry in _entries(directory, each.path, most_entries + 1 - entries):
                entries += 1
                steps = next_steps(each.steps, entry.name) if each.all_names else _only(each.steps, entry.name)
                path = f"{each.path}/{entry.name}" if each.path else entry.name
                directory_here = entry.is_dir(follow_symlinks=False)
                if is_place(steps) or (entry.name == _REPOSITORY and not directory_here):  # a file that names another
                    found.append(path)
                if not directory_here:
                    continue
                found += _in_repository(directory, path)
                inside = each.all_names and not is_place(steps) and entry.name not in (_REPOSITORY, *_FILLED)
                if inside or leads_on(steps):
                    following.append(_Directory(path, steps, all_names=inside))
        ahead = following
    complete = len(found) <= most_found and entries <= most_entries
    return ProtectedBelow(tuple(dict.fromkeys(found[:most_found])), complete)


class Remembered:
    """What a whole walk over the workspace found is remembered: a program that fills it with files hides nothing.

    `file` is in the user's own state, which no sandbox sees.
    """

    def __init__(self, root: str, file: str, walk: Callable[[str], ProtectedBelow] = protected_below) -> None:
        self._root = root
        self._file = file
        self._walk = walk

    def __call__(self, directory: str) -> ProtectedBelow:
        """Return what is protected below a directory; if not all of it was found, with what was found before."""
        found = self._walk(directory)
        if directory != self._root:
            return found
        known = self._known()
        if found.complete:
            if found.names != known:
                self._keep(found.names)
            return found
        return ProtectedBelow(tuple(dict.fromkeys((*known, *found.names)))[: 2 * MOST_FOUND], complete=False)

    def _known(self) -> tuple[str, ...]:
        try:
            content = read_private(self._file, limit=_LARGEST)
        except (OSError, StateError):
            return ()
        return tuple((content or b"").decode("utf-8", "surrogateescape").split("\0")) if content else ()

    def _keep(self, names: tuple[str, ...]) -> None:
        try:
            make_private_directory(os.path.dirname(self._file))
            write_private(self._file, "\0".join(names).encode("utf-8", "surrogateescape"))
        except (OSError, StateError):  # then the next walk has to find them by itself
            return


def _begun(directory: str) -> Steps:
    """Return how far the directory's own names lead: `~/.cargo` is half of `.cargo/bin`."""
    steps: Steps = ()
    for name in directory.strip("/").split("/"):
        steps = next_steps(steps, name)
    return steps


def _only(steps: Steps, name: str) -> Steps:
    """Return how a name goes on in patterns that have begun; it begins none."""
    begun = next_steps((), name)
    return tuple(step for step in next_steps(steps, name) if step not in begun)


def _entries(directory: str, path: str, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(f"{directory}/{path}" if path else directory) as entries:
            return list(islice(entries, max(most, 0)))
    except OSError:
        return []


def _in_repository(directory: str, path: str) -> Iterator[str]:
    """Yield what git obeys in a directory that is a repository: of a work tree, of a submodule, of a worktree."""
    names = path.split("/")
    if _REPOSITORY not in names:
        return
    if names[-1] == _REPOSITORY or (
        len(names) > 1 and {"modules", "worktrees"} & set(names) and os.path.lexists(f"{directory}/{path}/HEAD")
    ):
        yield from (f"{path}/{name}" for name in _HELD_IN_REPOSITORIES)


_MOST_ENTRIES, _LONGEST = 4000, 0.1  # such places hold caches, and every start pays
_WHY = "a protected name in it that does not exist yet, or that lies deep, is not held: names are held in the workspace"


class ProtectedOutside(Struct, frozen=True):
    """Read-only places in what every sandbox may write and in what this run brings, and what is not held of them.

    `links` are links among them, which stay.
    """

    lent: tuple[PathGrant, ...] = ()
    brought: tuple[PathGrant, ...] = ()
    approximate: tuple[Approximation, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def keep_protected(protected: Protected, request: PlanRequest) -> ProtectedOutside:
    """Return what stays read-only in the directories outside of the workspace that a sandbox may write."""
    named = [os.path.realpath(path) for path in request.write]
    lent: list[PathGrant] = []
    brought: list[PathGrant] = []
    links: list[tuple[str, str]] = []
    for path in named:
        for place in _below(protected, path, named):
            if place.kind == LINK:
                links.append((place.path, ""))
            else:
                lent.append(place)
    for each in request.brought:
        if each.capabilities & WRITES:
            linked = host.look(each.name) == LINK
            for place in _below(protected, each.target, [each.target]):
                rest = place.path[len(each.target) :]
                moved: PathGrant = (
                    place if linked else structs.replace(place, path=f"{each.name}{rest}", source=place.path)
                )
                if moved.kind == LINK:
                    links.append((moved.path, moved.source))
                else:
                    brought.append(moved)
    approximate = [
        Approximation(path, "create", _WHY, laxer=True)
        for path in request.write
        if host.look(os.path.realpath(path)) == DIRECTORY
    ]
    return ProtectedOutside(tuple(lent), tuple(brought), tuple(approximate), tuple(links))


def _below(protected: Protected, directory: str, named: Sequence[str]) -> Iterator[PathGrant]:
    if host.look(directory) != DIRECTORY:
        return
    known = [place.path for place in protected.outside() if is_under(place.path, directory)]
    found = protected_below(directory, most_entries=_MOST_ENTRIES, seconds=_LONGEST).names
    for path in dict.fromkeys([*known, *(f"{directory}/{name}" for name in found)]):
        kind = host.look(path)
        if kind is None or path == directory:
            continue
        protection = protected.of(FsTarget(path, None, directory=kind == DIRECTORY), subtree=False)
        if protection is None:
            continue
        if protection.final or not any(is_under(each, protection.path) for each in named):
            yield PathGrant(path, READING, kind, f"protected place {shown(protection.place)}")
