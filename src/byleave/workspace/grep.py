"""Search the files of a project line by line, wherever the project keeps them.

ripgrep searches. Here it receives descriptors of files that are open already, opened without following a link and only
where the caller may read: for projects in memory, for tools that run in a sandbox themselves, and for machines whose
sandbox cannot hold ripgrep. `toolhost.sandboxed_search` is faster on disk: ripgrep itself walks the directories.

Files below `.git`, links, files that are not regular, files with a NUL and files of more than 64 MB are not searched.

Start at `search_project`. What ripgrep receives and prints: `ripgrep`.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import FsTarget
from byleave.errors import UnsafePathError
from byleave.workspace.on_disk import inside
from byleave.workspace.project import DIRECTORY, FILE
from byleave.workspace.ripgrep import (
    LARGEST_SEARCHED,
    Findings,
    SearchRun,
    is_repository,
    is_searched,
    read_endings,
    require_ripgrep,
    search_command,
    too_much,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.workspace.project import FileMatches, MayRead, ProjectFiles, Query

MOST_PATHS = 1000  # that one search starts at
MOST_CONTEXT = 10_000  # lines
_MOST_OPEN = 256  # files at once: a process has 1,024 descriptors where the system's default holds
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class SearchStart(Struct, frozen=True):
    """Where a search begins: how the tool names it ("" is all of the project), where it is, and what is there."""

    name: str
    place: FsTarget
    kind: str


def find_starts(project: ProjectFiles, query: Query) -> list[SearchStart]:
    """Return where to search. A place that is missing is an OSError; one that is never searched is left out."""
    if len(query.paths) > MOST_PATHS:
        raise too_much(f"more than {MOST_PATHS} paths", MOST_PATHS)
    if not 0 <= query.context <= MOST_CONTEXT:
        raise too_much(f"{query.context} lines around each match", MOST_CONTEXT)
    found = []
    for path in query.paths or (".",):
        place = path if isinstance(path, FsTarget) else inside(project.find(path), path)
        metadata = project.metadata(place)
        small = metadata.kind == FILE and metadata.size <= LARGEST_SEARCHED
        name = place.relative if place.relative is not None else place.door or place.canonical
        if (small or metadata.kind == DIRECTORY) and is_searched(name):
            found.append(SearchStart(name, place, metadata.kind))
    return found


def search_project(
    project: ProjectFiles, query: Query, may_read: MayRead, *, writable: Sequence[str] = ()
) -> list[FileMatches]:
    """Return the files that match, sorted by path. Only files that `may_read` agrees to are opened.

    `writable`: the places where confined programs may write. A ripgrep from there is not started.
    """
    endings = read_endings(query)
    words = search_command(require_ripgrep(*writable), query, ())
    found = Findings()
    batch = _Batch(words, found)
    seen: set[str] = set()
    with batch:
        for name, place in _walk(project, find_starts(project, query)):
            if name not in seen and is_searched(name, endings) and may_read(name):
                seen.add(name)
                batch.add(name, project, place)
        batch.search()
    return found.all()


def _walk(project: ProjectFiles, starts: Sequence[SearchStart]) -> Iterator[tuple[str, FsTarget]]:
    """Yield every file at or below the starts. What vanishes, or turns into a link meanwhile, is passed over."""
    waiting = [(start.name, start.place) for start in reversed(starts)]
    while waiting:
        name, place = waiting.pop()
        try:
            metadata = project.metadata(place)
            if metadata.kind == DIRECTORY:
                names = [each for each in project.list_dir(place) if not is_repository(each)]
                waiting.extend((_joined(name, each), _below(place, each)) for each in reversed(names))
        except (OSError, UnsafePathError):
            continue
        if metadata.kind == FILE and metadata.size <= LARGEST_SEARCHED:
            yield name, place


def _joined(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name


def _below(place: FsTarget, name: str) -> FsTarget:
    """Return a place in a directory that was walked to: it is named as the directory is."""
    relative = None if place.relative is None else _joined(place.relative, name)
    door = None if place.door is None else _joined(place.door, name)
    return FsTarget(f"{place.canonical.rstrip('/')}/{name}", relative, door)


class _Batch:
    """Files that are open and wait to be searched by one ripgrep, which sees no others."""

    def __init__(self, words: list[str], found: Findings) -> None:
        self._words = words
        self._found = found
        self._names: dict[int, str] = {}
        self._ran = False

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_raised: object) -> None:
        self._close()

    def add(self, name: str, project: ProjectFiles, place: FsTarget) -> None:
        """Open a file; once there are many, search them."""
        if len(self._names) >= _MOST_OPEN:
            self.search()
        try:
            self._names[project.open_file(place)] = name
        except (OSError, UnsafePathError) as error:
            if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS:
                raise

    def search(self) -> None:
        """Search the files that are open, and close them. The first time, even without files: the pattern is read."""
        import subprocess

        if self._ran and not self._names:
            return
        self._ran = True
        # The path of a descriptor leads to the very file that was opened, whatever has its name by now.
        paths = [f"/proc/self/fd/{descriptor}" for descriptor in self._names] or [os.devnull]
        with subprocess.Popen(  # noqa: S603 -- the program is byleave's own choice
            [*self._words, *paths],
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(self._names),
        ) as process:
            run = SearchRun(process, self._names_of, self._found)
            try:
                run.read()
            except BaseException:
                process.kill()
                raise
        run.check()
        self._close()

    def _names_of(self, path: str) -> Iterator[str]:
        number = path.rpartition("/")[2]
        if number.isdecimal() and int(number) in self._names:
            yield self._names[int(number)]

    def _close(self) -> None:
        while self._names:
            os.close(self._names.popitem()[0])
