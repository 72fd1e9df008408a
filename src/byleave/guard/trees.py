"""Which closed places lie below the directories that a command walks? One look at the disk for each."""

import os
from time import monotonic

from byleave.core.closed import ClosedPlaces
from byleave.core.fs import FsTarget
from byleave.core.line_files import OPERATIONS
from byleave.workspace.covered import Covered, covered_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.core.line import Line
    from byleave.core.policy import Policy
    from byleave.core.subject import NamedFile, Part
    from byleave.workspace.resolve import Root

MOST_FOUND = 8  # closed places of one tree: enough to name
LONGEST = 1.0  # seconds, for all trees of one line
LONGEST_ELSEWHERE = 0.2  # for a tree outside the workspace, in which only a link can lead to a closed place


def with_covered(line: "Line", policy: "Policy", root: "Root", agent: str | None) -> "Line":
    """Return the line with the closed places below each directory that one of its commands walks."""
    looked: dict[tuple[str, str], Covered] = {}
    end = monotonic() + LONGEST

    def look(place: FsTarget, kind: str) -> Covered:
        key = (place.canonical, kind)
        if key not in looked:
            closed = ClosedPlaces(policy, kind, root=root.path, agent=agent, operation=OPERATIONS[kind])
            elsewhere = place.relative is None and not closed.begin(place.canonical)
            seconds = min(LONGEST_ELSEWHERE if elsewhere else LONGEST, max(end - monotonic(), 0.0))
            looked[key] = covered_below(root, place.canonical, closed, most_found=MOST_FOUND, seconds=seconds)
        return looked[key]

    def judged(file: "NamedFile") -> "NamedFile":
        place = file.place
        if not file.tree or not isinstance(place, FsTarget) or not place.directory:
            return file
        kinds = ("update", "delete") if file.op == "write" else (file.kind,)
        found = [look(place, kind) for kind in kinds]
        names = tuple(dict.fromkeys(name for each in found for name in each.names))
        complete = all(each.complete for each in found) or bool(names)
        kept = next(filter(os.path.lexists, policy.protected.final_below(place)), None) if file.gone else None
        seen: NamedFile = file.replace(covered=names, complete=complete, guarded=kept)
        return seen

    def walked(part: "Part") -> "Part":
        if not any(file.tree for file in part.files):
            return part
        made: Part = part.replace(files=tuple(judged(file) for file in part.files))
        return made

    looked_through: Line = line.replace(parts=tuple(walked(part) for part in line.parts))
    return looked_through
