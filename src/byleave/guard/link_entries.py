"""Judge what is removed and moved by its name where links are concerned: a link itself, or a directory that holds some.

The name is judged like any other (`core.files`). Two things a name alone does not say:

- A link that leads out of the workspace is a way out, or a mount. It is judged by where it leads as well.
- A rule names a place by a path, and where that path leads through a link, the link is a part of the policy: without
  it, or with another one, the same rule would speak of another place. No tool removes, replaces or lays such a link.

Start at `judge_entries`; it only ever tightens.
"""

import os

from byleave.core.action import MoveAction
from byleave.core.decide import decide
from byleave.core.files import with_grants
from byleave.core.fs import FsTarget, Refused, is_under
from byleave.core.paths import collapse
from byleave.core.verdict import BUILT_IN, DENY, RuleRef, Verdict, strictest
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.config.compile import Compiled
    from byleave.core.action import FileAction
    from byleave.workspace.resolve import Root

    Place = FsTarget | Refused

_PART_OF_A_RULE = RuleRef("links that rules lead through", BUILT_IN, DENY)


def judge_entries(
    compiled: "Compiled",
    root: "Root",
    action: "FileAction | MoveAction",
    places: "tuple[Place, ...]",
    verdict: Verdict,
) -> Verdict:
    """Return the verdict on a delete or a move, at least as strict as `verdict`, which is about the names alone."""
    paths = (action.path, action.to) if isinstance(action, MoveAction) else (action.path,)
    verdicts = [verdict]
    led = tuple(_outside(root, path, place) or place for path, place in zip(paths, places, strict=True))
    if led != places:
        verdicts.append(decide(compiled.policy, action, led))
    for path, place in zip(paths, places, strict=True):
        if _is_part_of_a_rule(compiled, root, place):
            verdicts.append(_refused(path, place, "a rule leads through this link, or through one in it"))
    source, target = places[0], places[-1]
    if isinstance(action, MoveAction) and _lays_a_link(compiled, root, source, target):
        verdicts.append(_refused(action.to, target, "a rule names this place, and would lead through the link"))
    return with_grants(compiled.policy, action, strictest(verdicts))


def _outside(root: "Root", path: str, place: "Place") -> "Place | None":
    """Return where a link leads if that is out of the workspace, or nowhere that can be told; None if it is neither."""
    if not isinstance(place, FsTarget) or not place.link:
        return None
    led = root.resolve_input(path)
    if isinstance(led, Refused):  # a link to itself, or to what is below a file, is a link that leads nowhere
        return led if led.code not in ("io", "not_a_directory") else None
    return led if led.relative is None else None


def _is_part_of_a_rule(compiled: "Compiled", root: "Root", place: "Place") -> bool:
    """Whether a link is there, or below there, that the path of a rule goes through."""
    if not isinstance(place, FsTarget) or not (place.link or place.directory):
        return False
    return any(is_under(link, place.canonical) for path in _linked(compiled, root) for link in root.links_on(path))


def _linked(compiled: "Compiled", root: "Root") -> "Iterator[str]":
    """Yield the paths of rules that lead elsewhere than they say."""
    for path, known in compiled.places.items():
        if not isinstance(known, FsTarget) or known.relative != collapse(path):
            yield path
    for path, canonical in compiled.directories.items():
        if canonical != os.path.normpath(os.path.join(root.path, path)):
            yield path


def _lays_a_link(compiled: "Compiled", root: "Root", source: "Place", target: "Place") -> bool:
    """Whether a move puts a link where the path of a rule goes through."""
    if not isinstance(source, FsTarget) or not isinstance(target, FsTarget):
        return False
    if not (source.link or source.directory):
        return False
    for place in _named_places(compiled, root):
        if is_under(place, target.canonical):
            moved = source.canonical + place[len(target.canonical) :]
            if source.link or any(is_under(link, source.canonical) for link in root.links_on(moved)):
                return True
    return False


def _named_places(compiled: "Compiled", root: "Root") -> "Iterator[str]":
    """Yield the absolute paths that rules name, as they are written and where they lead."""
    for path, known in compiled.places.items():
        yield os.path.normpath(os.path.join(root.path, path))
        if isinstance(known, FsTarget):
            yield known.canonical
    for path, canonical in compiled.directories.items():
        yield os.path.normpath(os.path.join(root.path, path))
        if canonical is not None:
            yield canonical


def _refused(path: str, place: "Place", why: str) -> Verdict:
    canonical = place.canonical if isinstance(place, FsTarget) else None
    return Verdict(
        DENY, f"moving or removing {quoted(path)} is denied: {why}", "denied", (_PART_OF_A_RULE,), None, canonical
    )
