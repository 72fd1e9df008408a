"""Which closed places lie below the directories that a command walks? One look at the disk for each."""

import os
from time import monotonic

from byleave.core.closed import ClosedPlaces
from byleave.core.fs import FsTarget
from byleave.core.line_files import OPERATIONS
from byleave.core.selecting import Selection
from byleave.workspace.covered import Covered, covered_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.core.line import Line
    from byleave.core.policy import Policy
    from byleave.core.protected import Protected
    from byleave.core.subject import NamedFile, Part
    from byleave.workspace.resolve import Root

MOST_SELECTED = 64  # the same of a program that touches only some kinds of files, and leaves directories out
MOST_LOOKED_AT = 2_000  # files and directories, for protected ones of some kind
MOST_FOUND = 8  # closed places of one tree: enough to name
LONGEST = 1.0  # seconds, for all trees of one line
LONGEST_ELSEWHERE = 0.2  # for a tree outside the workspace, in which only a link can lead to a closed place


def with_covered(line: "Line", policy: "Policy", root: "Root", agent: str | None) -> "Line":
    """Return the line with the closed places below each directory that one of its commands walks."""
    looked: dict[tuple[str, str, tuple[str, ...]], Covered] = {}
    end = monotonic() + LONGEST

    def look(place: FsTarget, kind: str, file: "NamedFile") -> Covered:
        key = (place.canonical, kind, file.kinds)
        if key not in looked:
            closed = ClosedPlaces(policy, kind, root=root.path, agent=agent, operation=OPERATIONS[kind])
            elsewhere = place.relative is None and not closed.begin(place.canonical)
            seconds = min(LONGEST_ELSEWHERE if elsewhere else LONGEST, max(end - monotonic(), 0.0))
            selection = Selection(" ".join([f"*{ending}" for ending in file.kinds])) if file.kinds else None
            most = MOST_SELECTED if file.kinds else MOST_FOUND
            found = covered_below(root, place.canonical, closed, selection=selection, most_found=most, seconds=seconds)
            looked[key] = _without_skipped(found, file.skips) if file.skips else found
        return looked[key]

    def judged(file: "NamedFile") -> "NamedFile":
        place = file.place
        if not file.tree or not isinstance(place, FsTarget) or not place.directory:
            return file
        kinds = ("update", "delete") if file.op == "write" else (file.kind,)
        found = [look(place, kind, file) for kind in kinds]
        names = tuple(dict.fromkeys(name for each in found for name in each.names))
        complete = all(each.complete for each in found) or bool(names)
        kept = None
        if file.gone:
            kept = next(filter(os.path.lexists, policy.protected.final_below(place)), None)
        elif file.kinds and file.op == "write":
            kept = _protected_of_kind(file, place, policy.protected, root)
        seen: NamedFile = file.replace(covered=names, complete=complete, guarded=kept)
        return seen

    def walked(part: "Part") -> "Part":
        if not any(file.tree for file in part.files):
            return part
        made: Part = part.replace(files=tuple(judged(file) for file in part.files))
        return made

    looked_through: Line = line.replace(parts=tuple(walked(part) for part in line.parts))
    return looked_through


def _without_skipped(found: Covered, skips: "tuple[str, ...]") -> Covered:
    places = tuple([each for each in found.places if not set(skips).intersection(each.path.split("/"))])
    return Covered(places, found.complete)


def _protected_of_kind(file: "NamedFile", top: FsTarget, protected: "Protected", root: "Root") -> str | None:
    """Return a protected file with one of the endings: in the directory itself, or in a hidden one in it."""
    left = MOST_LOOKED_AT
    ahead = [top.canonical]
    while ahead and left > 0:
        directory = ahead.pop()
        try:
            names = sorted(os.listdir(directory))[:left]
        except OSError:
            continue
        left -= len(names)
        for name in names:
            path = f"{directory.rstrip('/')}/{name}"
            if name not in file.skips and not os.path.islink(path) and os.path.isdir(path):
                if directory != top.canonical or name.startswith("."):
                    ahead.append(path)
            elif name.endswith(file.kinds):
                kept = protected.of(FsTarget(path, root.relative(path), exists=True), subtree=False)
                if kept is not None:
                    return path if root.relative(path) is None else root.relative(path)
    return None
