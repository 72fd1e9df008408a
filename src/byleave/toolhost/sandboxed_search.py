"""Search files on disk with ripgrep in a sandbox: the kernel shows it only what the tool may read.

ripgrep walks the directories itself. The caller still drops what may not be read: the sandbox is the first check, not
the only one. Where the sandbox cannot hold ripgrep, `search` raises a SandboxError, and `workspace.grep` searches.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.errors import SandboxError
from byleave.launch.start import ProgramStart, start_confined
from byleave.sandbox.linux.backends import LACKING, LANDLOCK
from byleave.sandbox.plan.plan import nested
from byleave.sandbox.process import DEVNULL
from byleave.workspace.grep import Findings, SearchRun, is_searched, read_endings, search_command
from byleave.workspace.project import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.sandbox.confinement import Confinement
    from byleave.workspace.grep import OnCancel, SearchStart
    from byleave.workspace.project import FileMatches, Query


class SandboxedSearch:
    """ripgrep in a sandbox that reads (`SandboxOptions.reads_only`), which is made once and used for every search."""

    def __init__(self, program: str, confinement: Confinement) -> None:
        self._program = program
        self._confinement = confinement

    def search(
        self,
        query: Query,
        starts: Sequence[SearchStart],
        *,
        deadline: float | None = None,
        on_cancel: OnCancel | None = None,
    ) -> list[FileMatches]:
        """Return the files that match, sorted by path. `deadline` and `on_cancel` are those of `SearchRun`."""
        endings = read_endings(query)
        # ripgrep searches a file that is named whatever its name; and without any, it searches its directory.
        searched = [start for start in starts if start.kind == DIRECTORY or is_searched(start.name, endings)]
        if not searched:
            search_command(self._program, query, ())  # a pattern that cannot be used is an error all the same
            return []

        def names_of(path: str) -> Iterator[str]:
            for start in searched:
                place = start.place.canonical
                if is_under(path, place):
                    name = start.name if path == place else f"{start.name}/{path[len(place) :].strip('/')}".strip("/")
                    if is_searched(name, endings):
                        yield name

        places = [start.place.canonical for start in searched]
        words = search_command(self._program, query, [*places, *self._inside_closed_directories(places)])
        root = self._confinement.workspace.root.path
        found = Findings()
        start = ProgramStart(command=tuple(words), directory=root, environment={}, stdin=DEVNULL)
        with start_confined(self._confinement, start, decide=self._confinement.policy.decide) as process:
            run = SearchRun(process, names_of, found, deadline=deadline, on_cancel=on_cancel)
            run.read()
            if process.problem is not None:
                raise process.problem
        run.check()
        return found.all()

    def _inside_closed_directories(self, places: Sequence[str]) -> Iterator[str]:
        """Yield what may be read below these places, in directories that may not be read and so cannot be listed."""
        prepared = self._confinement.prepare(self._program, os.defpath)
        if prepared.backend == LANDLOCK:
            raise SandboxError(
                "Landlock alone does not list directories that hold something denied, so files would be missed",
                hint="`byleave doctor` reports why there are no namespaces",
                step=LACKING,
            )
        for place, around in nested(prepared.plan.places):
            closed = around is not None and "read" not in around.capabilities
            if closed and "read" in place.capabilities and any(is_under(place.path, each) for each in places):
                yield place.path
