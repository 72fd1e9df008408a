"""What changed while a sandbox ran that git, a shell, an editor, an agent or a package manager runs by itself later.

A bounded walk afterwards. Only names that are protected somewhere are looked at more closely: those whose change time,
which no program can set, lies after the start. What runs only on request (a Makefile, a test) is left
out.
"""

from __future__ import annotations

import os
from itertools import islice
from time import monotonic, time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import FsTarget, fold, is_under
from byleave.core.protected_names import ELSEWHERE, ENDINGS, GUARDED, GUARDED_ELSEWHERE, HELD
from byleave.sandbox.git_links import UnreadableIndexError, linked_repositories
from byleave.text import sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from byleave.core.protected import Protected

MOST_ENTRIES = 100_000
LONGEST = 1.0  # seconds
_LINES_TO_RUN = "/.git/rebase-merge/git-rebase-todo"  # `exec` lines, for the next `git rebase --continue`
_MOST_NAMED = 8
_MOST_HOOKS = 100
_TICK = 0.012  # seconds by which the clock of a file system may lie behind: three ticks of the slowest kernel
_NOT_ENTERED = frozenset({"node_modules"})  # packages bring such files along, and no program runs them there
_PARTS = (("objects", "refs"), ("commondir",))  # either of them, beside HEAD, makes any directory a repository
_CONFIGURED = ("config", "config.worktree", "commondir", "hooks")
_OBEYED = ("HEAD", *_CONFIGURED)
_NAMES = frozenset(
    fold(name)
    for path in (*HELD, *GUARDED, *ELSEWHERE, *GUARDED_ELSEWHERE)
    for name in path.split("/")
    if "*" not in name
)
_ENDS = tuple(end for end, _directories in ENDINGS)


class TamperReport(Struct, frozen=True):
    """The places that changed, by their names in the workspace; `complete` says that everything was looked at."""

    names: tuple[str, ...]
    complete: bool = True

    @property
    def sentence(self) -> str | None:
        """The report; None where there is nothing to say."""
        if not self.names:
            return None
        named = sentence_list([shown(name) for name in self.names], most=_MOST_NAMED)
        more = "" if self.complete else " (not all of the workspace was looked at)"
        return f"while it ran, files changed that other programs run or obey by themselves: {named}{more}; look at them"


def start_time() -> float:
    """Return a time before which nothing was changed by what is started now."""
    return time() - _TICK


def find_appeared(
    root: str,
    since: float,
    protected: Protected,
    *,
    could_write: Callable[[str], bool],
    held: Container[str] = (),
    most_entries: int = MOST_ENTRIES,
    seconds: float = LONGEST,
) -> TamperReport:
    """Return what changed below `root` since then, where what ran in the sandbox `could_write`.

    What was `held` in there is not entered: something empty was mounted over it.
    """
    walk = _Walk(root, since, protected, could_write, held)
    return walk.run(most_entries, monotonic() + seconds)


class _Walk:
    def __init__(
        self,
        root: str,
        since: float,
        protected: Protected,
        could_write: Callable[[str], bool],
        held: Container[str],
    ) -> None:
        self._root = root
        self._since = since
        self._protected = protected
        self._could_write = could_write
        self._held = held
        self._found: dict[str, None] = {}

    def run(self, entries: int, end: float) -> TamperReport:
        """Walk breadth first; a directory with a protected name is looked at name by name."""
        self._note_linked()
        ahead: list[tuple[str, bool]] = [(self._root, False)]
        while ahead:
            following: list[tuple[str, bool]] = []
            for directory, inside in ahead:
                found = _listed(directory, entries)
                entries -= len(found)
                if entries <= 0 or monotonic() > end:
                    return TamperReport(tuple(self._found), complete=False)
                self._note_repository(directory, {entry.name for entry in found})
                following += self._look(found, inside=inside)
            ahead = following
        return TamperReport(tuple(self._found))

    def _look(self, entries: list[os.DirEntry[str]], *, inside: bool) -> Iterator[tuple[str, bool]]:
        for entry in entries:
            name = entry.name
            looked = inside or fold(name) in _NAMES or name.endswith(_ENDS)
            is_directory = entry.is_dir(follow_symlinks=False)
            if looked and self._could_write(entry.path):
                self._note(entry.path, is_directory=is_directory)
            if not is_directory or name in _NOT_ENTERED or (inside and name == "objects") or entry.path in self._held:
                continue
            yield entry.path, looked

    def _note(self, path: str, *, is_directory: bool) -> None:
        """Note a protected place, if it was changed; a directory as soon as something in it was."""
        if not _changed(path, self._since):
            return
        if path.endswith(_LINES_TO_RUN):
            self._found[path[len(self._root.rstrip("/")) + 1 :]] = None
            return
        relative = path[len(self._root.rstrip("/")) + 1 :]
        place = FsTarget(path, relative, exists=True, directory=is_directory)
        protection = self._protected.of(place, subtree=False)
        if protection is not None:
            name = protection.path if is_under(relative, protection.path) else relative
            above, git, _rest = name.partition("/.git/")
            self._found[f"{above}/.git" if git else name] = None

    def _note_linked(self) -> None:
        """Note repositories that git enters from the root, also where the walk does not come."""
        index = f"{self._root}/.git/index"
        try:
            for place, metadata in linked_repositories(self._root):
                pointer = f"{place}/.git"
                obeyed = [f"{metadata}/{name}" for name in _CONFIGURED]
                obeyed += [entry.path for entry in _listed(f"{metadata}/hooks", _MOST_HOOKS)]
                if metadata != pointer:
                    obeyed.append(pointer)
                if self._could_write(pointer) and any(_changed(path, self._since) for path in obeyed):
                    self._found[pointer[len(self._root.rstrip("/")) + 1 :]] = None
        except UnreadableIndexError:
            if _changed(index, self._since):
                self._found[".git/index"] = None

    def _note_repository(self, directory: str, names: set[str]) -> None:
        """Note a directory that git takes for a repository by what is in it, though it has another name than .git."""
        if "HEAD" not in names or not any(names.issuperset(parts) for parts in _PARTS):
            return
        if os.path.basename(directory) == ".git" or "/.git/" in directory:
            return
        obeyed = [f"{directory}/{name}" for name in _OBEYED]
        obeyed += [entry.path for entry in _listed(f"{directory}/hooks", _MOST_HOOKS)]
        if any(_changed(path, self._since) for path in obeyed):
            self._found[directory[len(self._root.rstrip("/")) + 1 :] or "HEAD"] = None


def _changed(path: str, since: float) -> bool:
    try:
        return os.lstat(path).st_ctime >= since
    except OSError:  # it is gone
        return False


def _listed(directory: str, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(islice(entries, max(most, 0)), key=_name)
    except OSError:  # it is gone, or not ours to look into
        return []


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name
