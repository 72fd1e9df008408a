"""Protected places in what a sandbox may write outside of the workspace: `[sandbox] write`, and mounts of one run.

They stay readable and are not written, unless the configuration names such a place itself: `write = ["~/.cargo"]` does
not open `~/.cargo/bin`, `write = ["~/.cargo/bin"]` does. What does not exist yet cannot be held here; the plan says so.
"""

import os

from byleave.core.fs import WRITES, FsTarget, is_under
from byleave.record import Record
from byleave.sandbox import host
from byleave.sandbox.plan import DIRECTORY, LINK, READING, Approximation, Place
from byleave.sandbox.protected_below import protected_below
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.core.protected import Protected
    from byleave.sandbox.planning import Wishes

_MOST_ENTRIES, _LONGEST = 4000, 0.1  # such places hold caches, and every start pays
_WHY = "a protected name in it that does not exist yet, or that lies deep, is not held: names are held in the workspace"


class KeptBack(Record):
    """Read-only places in what every sandbox may write and in what this run brings, and what is not held of them.

    `links` are links among them, which stay.
    """

    lent: tuple[Place, ...] = ()
    brought: tuple[Place, ...] = ()
    approximate: tuple[Approximation, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def keep_protected(protected: "Protected", wishes: "Wishes") -> KeptBack:
    """Return what stays read-only in the directories outside of the workspace that a sandbox may write."""
    named = [os.path.realpath(path) for path in wishes.write]
    lent: list[Place] = []
    brought: list[Place] = []
    links: list[tuple[str, str]] = []
    for path in named:
        for place in _below(protected, path, named):
            if place.kind == LINK:
                links.append((place.path, ""))
            else:
                lent.append(place)
    for each in wishes.brought:
        if each.capabilities & WRITES:
            linked = host.look(each.name) == LINK
            for place in _below(protected, each.target, [each.target]):
                rest = place.path[len(each.target) :]
                moved: Place = place if linked else place.replace(path=f"{each.name}{rest}", source=place.path)
                if moved.kind == LINK:
                    links.append((moved.path, moved.source))
                else:
                    brought.append(moved)
    approximate = [
        Approximation(path, "create", _WHY, laxer=True)
        for path in wishes.write
        if host.look(os.path.realpath(path)) == DIRECTORY
    ]
    return KeptBack(tuple(lent), tuple(brought), tuple(approximate), tuple(links))


def _below(protected: "Protected", directory: str, named: "Sequence[str]") -> "Iterator[Place]":
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
            yield Place(path, READING, kind, f"protected place {shown(protection.place)}")
