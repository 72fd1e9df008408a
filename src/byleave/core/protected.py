"""Places that start programs or steer byleave and the agents: readable, but not writable by accident.

Pure. A name of `protected_names` counts wherever it stands: at any depth of the workspace, in the home directory, and
elsewhere. Beside the names there are places that the compiler resolved, so that a `.git` behind a symlink is as
protected as one that is not, and absolute ones: byleave's own, and directories that programs are started from.
Every integration and the kernel take them from here. A question costs as many lookups as the path has names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from byleave.core.fs_rules import FsTarget, fold, is_under
from byleave.core.protected_names import ELSEWHERE, ENDINGS, GUARDED, GUARDED_ELSEWHERE, HELD, SYSTEM
from byleave.record import Record, Sealed, set_cached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Steps = tuple["_Step", ...]  # how far the names of a path lead into the patterns


class PlaceFinder(Protocol):
    """Looks for the protected places of a workspace."""

    def find(self) -> Sequence[Protection]: ...


# Writable only where a rule names the place (or something in it) exactly; what is held by the kernel comes first.
PROTECTED = (*HELD, *(name for name in ELSEWHERE if name not in HELD and "*" not in name))

# Names of places that are known by something else than their names: what byleave itself runs from, and where links of
# the home directory and variables lead.
OWN_CODE = "byleave's own code"
LED_TO = "what a link or a variable leads to"


class Protection(Record):
    """A place an action would touch: its name, where it really is, and whether no rule at all can open it.

    `path` is relative to the workspace, or absolute where the place lies outside. `name` is what it is known by at
    every depth, "" for a place that is known by where it is.
    """

    place: str
    path: str
    final: bool
    name: str = ""

    def named_by(self, rule_path: str) -> bool:
        """Whether a rule with this path names the place, or something in it, and not merely what lies around it."""
        named = fold(rule_path)
        return any(is_under(named, fold(own)) for own in (self.place, self.path))

    def named_anywhere_by(self, rule_names: Sequence[str]) -> bool:
        """Whether a rule for these names at every depth (`**/.vscode/**`) names what the place is known by."""
        return self.name != "" and is_under(fold("/".join(rule_names)), fold(self.name))


_MOST_KEPT = 1024  # places whose protection is kept: callers choose the paths, and must not fill our memory
_LONGEST_KEPT = 400  # letters


class Protected(Sealed):
    """The protected places of one workspace, and byleave's own, by absolute path: no agent and no tool writes there.

    `inside` are places that were found on the disk, `outside` absolute ones that no rule opens, and `kept` absolute
    ones that a rule opens by naming them. With `finder`, it looks for all of them when the first question comes: a read
    needs none.
    """

    _inside: _Index
    _outside: _Index

    def __init__(
        self,
        inside: Iterable[Protection] = (),
        outside: Iterable[str] = (),
        kept: Iterable[Protection] = (),
        *,
        finder: PlaceFinder | None = None,
    ) -> None:
        final = [Protection(place, place, final=True) for place in outside]
        self._finder = finder
        self._answers: dict[tuple[object, ...], Protection | None] = {}
        if finder is None:
            self._index([*inside, *kept, *final])

    def _index(self, places: Sequence[Protection]) -> None:
        set_cached(self, "_inside", _Index(place for place in places if not place.path.startswith("/")))
        set_cached(self, "_outside", _Index(place for place in places if place.path.startswith("/")))

    def __getattr__(self, name: str) -> Any:
        """Look for the places; afterwards their indexes are attributes, and this is not called any more."""
        if name not in ("_inside", "_outside") or self._finder is None:
            raise AttributeError(name)
        self._index(self._finder.find())
        return getattr(self, name)

    def inside(self) -> Iterator[Protection]:
        """Yield the places that lie in the workspace, each under every path that it has there."""
        return self._inside.places()

    def outside(self) -> Iterator[Protection]:
        """Yield the places that are known by their absolute paths, byleave's own among them."""
        return self._outside.places()

    def of(self, target: FsTarget, *, subtree: bool) -> Protection | None:
        """Return what protects `target`; with `subtree`, also what protects something below it.

        A name above a protected place is protected too, unless it is a directory: as a file or as a link it would
        decide what the names below it mean, as a `.git` that says `gitdir: evil` does.
        """
        key = (target.canonical, target.relative, target.door, target.directory, subtree)
        if key in self._answers:
            return self._answers[key]
        found = self._find(target, subtree=subtree)
        if len(target.canonical) <= _LONGEST_KEPT:
            if len(self._answers) >= _MOST_KEPT:
                self._answers.clear()
            self._answers[key] = found
        return found

    def _find(self, target: FsTarget, *, subtree: bool) -> Protection | None:
        canonical = target.canonical.rstrip("/")
        folded = fold(canonical)
        name = target.relative if target.relative is not None else target.door
        root = "" if target.relative is None else _without(folded, fold(target.relative))
        views = [(self._outside, folded, root)]
        if name is not None:
            views.append((self._inside, fold(name), ""))
        found, steps = _named_anywhere(canonical, folded, root, target.relative)
        if target.door is not None:  # the name by which the workspace was left is one that a rule can give
            by_door, more = _named_anywhere(f"/{target.door}", fold(f"/{target.door}"), "", target.door)
            found, steps = _strictest(by_door, found), [*more, *steps]
        for index, path, stop in views:
            found = _strictest(found, index.over(path, stop))
        if subtree or (found is None and not target.directory):
            where = name if name is not None else canonical
            if not target.directory:
                found = _strictest(found, _above_names(steps, where, tree=False))
            if subtree:
                found = _strictest(found, _above_names(steps, where, tree=True))
            for index, path, _stop in views:
                found = _strictest(found, index.below(path))
        return found

    def final_below(self, target: FsTarget) -> Iterator[str]:
        """Yield the absolute paths below a directory that no rule opens, whether there is something or not.

        Of places that are known by their names, only those whose names go on from the directory's own.
        """
        canonical = target.canonical.rstrip("/")
        root = canonical if target.relative is None else canonical[: len(canonical) - len(target.relative)].rstrip("/")
        steps: Steps = ()
        for name in canonical.split("/")[1:]:
            steps = next_steps(steps, name)
        yield from [f"{canonical}/{rest}" for rest, final in patterns_after(steps) if final]
        for place in self._outside.places():
            if place.final and is_under(place.path, canonical or "/"):
                yield place.path
        if target.relative is not None:
            for place in self._inside.places():
                if place.final and is_under(f"{root}/{place.path}", canonical):
                    yield f"{root}/{place.path}"


class _Index:
    """Places by folded path, and by every directory above them. The workspace, and the root of all, is ""."""

    def __init__(self, places: Iterable[Protection]) -> None:
        # The final ones come last, and so replace others under the same name.
        self._at = {fold(place.path).rstrip("/"): place for place in sorted(places, key=_final)}
        # Of what lies below a directory, the first that is known is named, or a final one.
        self._above: dict[str, Protection] = {}
        for path, place in self._at.items():
            for name in _above(path):
                known = self._above.get(name)
                if known is None or place.final:
                    self._above[name] = place

    def places(self) -> Iterator[Protection]:
        """Yield every place once."""
        return iter(self._at.values())

    def over(self, path: str, stop: str = "") -> Protection | None:
        """Return the place that `path` is or lies in; a final one if there are several.

        A place that holds all of the workspace, which is at `stop`, counts only if it is final: a user who works
        in a directory has chosen it.
        """
        places, found = self._at, None
        while True:
            place = places.get(path)
            if place is not None and (place.final or not stop or len(path) > len(stop)):
                found = _strictest(found, place)
            if not path:
                return found
            path = path[: max(path.rfind("/"), 0)]

    def below(self, path: str) -> Protection | None:
        """Return a place that lies below `path`; a final one if there are several."""
        return self._above.get(path)


_ORDINARY = (".github/",)  # directories that people make every day: not for what may come to lie in them


class _Step:
    """What may follow the names so far: exact names, any one name, and what may follow any number of names."""

    __slots__ = ("any_depth", "any_name", "below", "final", "names", "pattern", "tree")

    def __init__(self) -> None:
        self.names: dict[str, _Step] = {}
        self.any_name: _Step | None = None
        self.any_depth: _Step | None = None
        self.pattern = ""  # of the place that ends here
        self.final = False
        self.below = ""  # the rest of a pattern that leads on from here
        self.tree: tuple[str, bool] | None = None  # the same of one that keeps whole directories; whether it is final

    def add(self, pattern: str, *, final: bool, tree: bool) -> None:
        """Make room for a pattern; a final one stays final. With `tree`, it keeps all directories above it, too."""
        step, exact = self, not pattern.startswith(_ORDINARY)
        names = pattern.split("/")
        for at, name in enumerate(names):
            rest = "/".join(names[at:])
            if exact:  # of what may have any name, a file or a link in its place decides nothing yet
                step.below = step.below or rest
            if exact and tree and (step.tree is None or (final and not step.tree[1])):
                step.tree = (rest, final)
            if name == "**":
                step.any_depth = step.any_depth or _Step()
                step, exact = step.any_depth, False
                step.any_depth = step
            elif name == "*":
                step.any_name = step.any_name or _Step()
                step, exact = step.any_name, False
            else:
                step = step.names.setdefault(name.lower(), _Step())  # all are ASCII: that is `fold`
        if not step.pattern or final:
            step.pattern, step.final = pattern, final


def _steps() -> _Step:
    start = _Step()
    for pattern in ELSEWHERE:
        start.add(pattern, final=False, tree=pattern.startswith(".git/"))
    for pattern in HELD:
        start.add(pattern, final=False, tree=True)
    for pattern in (*GUARDED, *GUARDED_ELSEWHERE):
        start.add(pattern, final=True, tree=True)
    return start


_START = _steps()


def next_steps(steps: Steps, name: str) -> Steps:
    """Return how far a name, after names that led to `steps`, leads into the patterns. A walk begins with none."""
    folded = fold(name)
    first = (_START.names[folded],) if folded in _START.names else ()
    return (*first, *(after for step in steps for after in _next(step, folded)))


def is_place(steps: Steps) -> bool:
    """Whether the last of these names ends a pattern."""
    return any(step.pattern for step in steps)


def patterns_after(steps: Steps) -> Iterator[tuple[str, bool]]:
    """Yield what patterns say after the last of these names, and whether they are final; those without wildcards."""
    for step in steps:
        for name, after in step.names.items():
            if after.pattern:
                yield name, after.final
            yield from ((f"{name}/{rest}", final) for rest, final in patterns_after((after,)))


def leads_on(steps: Steps) -> bool:
    """Whether a pattern goes on below the last of these names."""
    return any(step.names or step.any_name or step.any_depth for step in steps)


_NO_STEPS: list[_Step] = []
_LAST_LETTERS = tuple(ending for ending, _directories in ENDINGS)


def _named_anywhere(path: str, folded: str, root: str, relative: str | None) -> tuple[Protection | None, list[_Step]]:
    """Return the place that an absolute path is or lies in by its names, and what could follow its last name.

    Names that are all above the workspace, which is at `root`, do not count.
    """
    names = folded.split("/")
    least = root.count("/") + 1 if relative is not None else 1
    start, active = _START.names, _NO_STEPS
    found: Protection | None = None
    for end, name in enumerate(names[1:], 2):
        following = [start[name]] if name in start else _NO_STEPS
        if active:
            following = [*following, *(after for step in active for after in _next(step, name))]
        for step in following:
            if step.pattern and end > least and (found is None or (step.final and not found.final)):
                found = _place(path, end, least, step.pattern, relative, final=step.final)
        active = following
    if found is None and len(names) > least and names[-1].endswith(_LAST_LETTERS):
        found = _by_ending(path, names, least, relative)
    return found, active


def _by_ending(path: str, names: list[str], least: int, relative: str | None) -> Protection | None:
    for ending, directories in ENDINGS:
        if names[-1].endswith(ending) and (not directories or names[-2] in directories):
            return _place(path, len(names), least, f"*{ending}", relative, final=False)
    return None


def _above_names(steps: list[_Step], path: str, *, tree: bool) -> Protection | None:
    """Return what a name stands above: as a directory with all that is in it, or as a file or link in its place."""
    found: Protection | None = None
    for step in steps:
        if tree and step.tree is not None:
            below = f"{path}/{step.tree[0]}"
            found = _strictest(found, Protection(below, below, step.tree[1]))
        elif not tree and step.below:
            below = f"{path}/{step.below}"
            found = found or Protection(below, below, final=False)
    return found


def _next(step: _Step, name: str) -> Iterator[_Step]:
    if name in step.names:
        yield step.names[name]
    if step.any_name is not None:
        yield step.any_name
    if step.any_depth is not None:
        yield step.any_depth


def _place(path: str, end: int, least: int, pattern: str, relative: str | None, *, final: bool) -> Protection:
    """Return the place that the first `end` names of a path make; the first name is the empty one before the slash."""
    names = path.split("/")[:end]
    if relative is None:
        return Protection(pattern, "/".join(names), final, pattern)
    where = "/".join(names[least:])
    return Protection(where, where, final, pattern)


def _without(folded: str, relative: str) -> str:
    """Return the folded root of a workspace, from a path in it and that path's name there."""
    return folded[: len(folded) - len(relative)].rstrip("/")


def builtin_places() -> Iterator[Protection]:
    """Yield every place of a workspace's root that the kernel holds too, each under its plain path."""
    for place in HELD:
        yield Protection(place, place, final=False)
    for place in GUARDED:
        yield Protection(place, place, final=True)


def system_places() -> Iterator[Protection]:
    """Yield the machine's own places: a rule that names one opens it."""
    for place in SYSTEM:
        yield Protection(place, place, final=False)


def resolved_places(resolve: Callable[[str], object]) -> list[Protection]:
    """Return every built-in place under its plain path, and under the one that it really leads to."""
    places = list(builtin_places())
    for place in list(places):
        found = resolve(place.path)
        if isinstance(found, FsTarget):
            path = found.canonical if found.relative is None else found.relative
            if path not in ("", place.path):
                places.append(Protection(place.place, path, place.final))
    return places


def _final(protection: Protection) -> bool:
    return protection.final


def _strictest(one: Protection | None, other: Protection | None) -> Protection | None:
    if one is None or (other is not None and other.final and not one.final):
        return other
    return one


def _above(path: str) -> Iterator[str]:
    """Yield everything above `path`, the workspace itself last."""
    while path:
        path = path[: max(path.rfind("/"), 0)]
        yield path
