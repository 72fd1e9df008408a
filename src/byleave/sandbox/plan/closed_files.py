"""What exists of the places that rules close: found for a plan, and counted by pattern where it is too much.

Each file that a pattern matches is a mount of its own, so there may be only so many. Where there are more, nothing can
be started, and the error names each pattern, how many files it matches, and where most of them are.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.closed_places import ClosedPlaces, Covered, advance, is_match
from byleave.errors import SandboxError
from byleave.text import quoted, sentence_list, shown
from byleave.workspace.closed_paths import covered_below
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.core.closed_places import PathPattern
    from byleave.core.policy import CompiledPolicy

# Files that patterns match. The launcher guards 8,192 mounts (MOST_GUARDS), and a file that lies alone in its directory
# takes two; a start takes about a millisecond more for each file.
MOST_COVERED = 3000
_MOST_ENTRIES = 2_000_000  # names that are looked at for them: some seconds
_LONGEST_LOOK = 20.0  # seconds
_MOST_AHEAD, _LONGEST_LOOK_AHEAD = 5000, 0.2  # names and seconds, of a look that only saves time later
_MOST_COUNTED = 100_000  # of files that are only counted
_MOST_NAMED = 3


def cover_closed(root: str, closed: ClosedPlaces, start: str, named: str, most: int | None = None) -> Covered:
    """Find what exists of closed places below a directory. Links are left alone: where they lead is covered itself."""
    most = MOST_COVERED if most is None else most
    found = covered_below(
        Root(root),
        start,
        closed,
        named=named,
        links=False,
        most_found=most,
        most_entries=_MOST_ENTRIES,
        seconds=_LONGEST_LOOK,
    )
    return found.replace(complete=False) if len(found.places) > most else found


def walk_ahead(root: str, closed: ClosedPlaces, start: str, named: str) -> None:
    """Look at some of what `cover_closed` looks at, so that the rules know what they say of the names there."""
    covered_below(
        Root(root), start, closed, named=named, links=False, most_entries=_MOST_AHEAD, seconds=_LONGEST_LOOK_AHEAD
    )


class PatternCount(Struct, frozen=True):
    """How many files a pattern of a rule matches, and the directory at the top that holds most of them, if one does."""

    pattern: str
    number: int
    mostly: str


def count_closed(root: str, closed: ClosedPlaces, start: str, named: str) -> tuple[tuple[PatternCount, ...], Covered]:
    """Return how many files each pattern closes, the largest number first; and all that was found."""
    found = cover_closed(root, closed, start, named, _MOST_COUNTED)
    numbers: dict[PathPattern, Counter[str]] = {}
    for each in found.places:
        top = each.path[len(named) :].strip("/").partition("/")
        for pattern in closed.patterns:
            if _matches(pattern, each.path) or _matches(pattern, each.place.canonical):
                numbers.setdefault(pattern, Counter())[top[0] if top[1] else ""] += 1
                break
    counts = [_count(_text(pattern, root), by_top) for pattern, by_top in numbers.items()]
    return tuple(sorted(counts, key=_number, reverse=True)), found


def _count(pattern: str, by_top: Counter[str]) -> PatternCount:
    ((top, number),) = by_top.most_common(1)
    return PatternCount(pattern, by_top.total(), top if 2 * number > by_top.total() else "")


def closed_for_reading(policy: CompiledPolicy, root: str, agent: str | None = None) -> ClosedPlaces:
    """Return what rules close to reading: every one of them has to be covered."""
    return ClosedPlaces(policy, ("read",), root=root, agent=agent)


def too_many(counts: Sequence[PatternCount], *, complete: bool) -> tuple[str, str]:
    """Return the sentence that says how many files are closed, and what to do about it."""
    total = sum(each.number for each in counts)
    by_pattern = sentence_list([f"{shown(each.pattern)} matches {each.number}" for each in counts], most=_MOST_NAMED)
    least = "" if complete else "at least "
    problem = f"rules close {least}{total} files to reading, and a sandbox covers at most {MOST_COVERED}: {by_pattern}"
    hint = "name a directory in front of the pattern, such as config/**/.env, or the files themselves"
    where = counts[0].mostly if counts else ""
    if where:
        rule = f"allow = {{ path = {quoted(f'{where}/**')} }}"
        hint = f"most are in {quoted(where)}: if they are harmless, put `{rule}` before that rule; else {hint}"
    return problem, hint


def too_much(root: str, closed: ClosedPlaces, found: Covered, start: str, named: str) -> SandboxError:
    """Return the error for a plan that cannot cover everything that rules close."""
    rule = closed.rules[0].text
    if found.unlisted:
        return SandboxError(
            f"{quoted(found.unlisted)} cannot be listed, so what {rule} closes in it cannot be found",
            hint="make the directory readable (chmod u+rx), or remove it",
        )
    if len(found.places) >= MOST_COVERED:
        counts, counted = count_closed(root, closed, start, named)
        problem, hint = too_many(counts, complete=counted.complete)
        return SandboxError(problem, hint=hint)
    return SandboxError(
        f"there is too much to find everything that {rule} closes",
        hint="name a directory in front of the pattern, such as config/**/.env, or the files themselves",
    )


def _matches(pattern: PathPattern, path: str) -> bool:
    progress = frozenset([(pattern, 0)])
    for name in path.strip("/").split("/"):
        progress = advance(progress, name)
    return is_match(progress)


def _text(pattern: PathPattern, root: str) -> str:
    """Return a pattern as a rule writes it: without the root of the workspace."""
    inside = pattern.base == tuple(name for name in root.split("/") if name)
    base = "" if inside or not pattern.base else f"/{'/'.join(pattern.base)}/"
    return base + "/".join(pattern.names)


def _number(count: PatternCount) -> int:
    return count.number
