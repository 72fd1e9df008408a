"""Paths that stand for all others: one for each way in which the file rules of some policies can answer.

What a policy says of a path rests on four things, each of which reads the path name by name: the paths of `access.fs`
rules (the longest that the path lies in, as written and as file systems fold it), the patterns of `rules`, the names of
protected places, and byleave's own files. All of them are read side by side. What they have come to is a state; two
directories with the same state answer alike, and so does everything of the same name below them. So it is enough to go
on from one path of each state, by one name of each kind that makes a difference there.

Pure. The names: `name_classes`. What is done with the paths: `witnesses`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.name_classes import NameClasses, literal_pattern, name_classes
from byleave.core.fs_rules import fold
from byleave.core.paths import refuse_name
from byleave.core.patterns import ANY_DEPTH, name_matches
from byleave.core.protected import is_place, leads_on, next_steps
from byleave.core.protected_names import ELSEWHERE, ENDINGS, GUARDED, GUARDED_ELSEWHERE, HELD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from byleave.core.protected import Steps

MOST_STATES = 20_000
MOST_STEPS = (
    1_500_000  # of one pattern by one name; about a second. Dozens of patterns have more states than that reaches
)
MOST_LETTERS = 4_000  # of the names of patterns; with more of them, names are not read letter by letter
_MOST_ROUNDS = 20  # in which names are looked for that no path of a rule has
_WILD = frozenset("*?[")
_NICE = ("file", "notes.txt", "main.py", "thing")  # for people: what a name without any meaning looks like


class PathRules(Struct, frozen=True):
    """What reads paths: of rules, as written; patterns by their names, the absolute ones apart; further places."""

    paths: frozenset[str] = frozenset()
    globs: tuple[tuple[str, ...], ...] = ()
    absolute_globs: tuple[tuple[str, ...], ...] = ()
    places: frozenset[str] = frozenset()


class PathClasses(Struct, frozen=True):
    """The paths, the shortest first; `complete` says that no further way of answering exists."""

    paths: tuple[str, ...]
    complete: bool


class _Tree:
    """Paths as a tree of names. A state is the deepest known place on the way, and whether the way still follows it."""

    def __init__(self, paths: Iterable[str], *, folded: bool) -> None:
        self._folded = folded
        self.children: dict[tuple[int, str], int] = {}
        self.names: dict[int, list[str]] = {}
        for path in sorted(paths):
            node = 0
            for name in path.split("/") if path else ():
                key = (node, fold(name) if folded else name)
                if key not in self.children:
                    self.children[key] = len(self.children) + 1
                self.names.setdefault(node, []).append(name)
                node = self.children[key]

    def step(self, state: tuple[int, bool], name: str) -> tuple[int, bool]:
        node, follows = state
        after = self.children.get((node, fold(name) if self._folded else name)) if follows else None
        return (node, False) if after is None else (after, True)

    def names_after(self, state: tuple[int, bool]) -> list[str]:
        return self.names.get(state[0], []) if state[1] else []


class _PathGlob:
    """One pattern over names; a bit stands for a place between its names that a path has come to."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.folds = tuple(fold(name) for name in names)
        self.start = self._closed(1)
        self._known: dict[tuple[int, str, bool], int] = {}

    def step(self, places: int, name: str, *, folded: bool) -> int:
        known = self._known.get((places, name, folded))
        if known is not None:
            return known
        names, given = (self.folds, fold(name)) if folded else (self.names, name)
        reached = 0
        for at, pattern in enumerate(names):
            if places >> at & 1:
                if pattern == ANY_DEPTH:
                    reached |= 1 << at
                elif name_matches(pattern, given):
                    reached |= 2 << at
        known = self._known[places, name, folded] = self._closed(reached)
        return known

    def _closed(self, places: int) -> int:
        for at, name in enumerate(self.names):
            if name == ANY_DEPTH and places >> at & 1:
                places |= 2 << at
        return places


class _State(Struct, frozen=True):
    exact: tuple[int, bool]
    folded: tuple[int, bool]
    globs: tuple[int, ...]
    steps: Steps
    protection: tuple[str, bool] | None
    ending: bool = False


class _Reader:
    """Reads paths by all that policies look at, side by side."""

    def __init__(self, rules: PathRules, start: str) -> None:
        self._exact = _Tree(rules.paths, folded=False)
        self._folded = _Tree([*rules.paths, *rules.places], folded=True)
        globs = [_PathGlob(names) for names in dict.fromkeys(rules.globs)]
        absolute = [_PathGlob(names) for names in dict.fromkeys(rules.absolute_globs)]
        self._globs = [*globs, *absolute]
        self.width = 2 * len(self._globs) + 4  # what one step costs, in steps of one pattern
        places = [(glob.start, glob.start) for glob in self._globs]
        for name in [name for name in start.split("/") if name]:
            for number in range(len(globs), len(places)):
                glob, (plain, form) = self._globs[number], places[number]
                places[number] = (glob.step(plain, name, folded=False), glob.step(form, name, folded=True))
        flat = tuple(place for pair in places for place in pair)
        self.start = _State((0, True), (0, True), flat, (), None)
        self._on_the_way = {fold(name) for path in (*rules.paths, *rules.places) for name in path.split("/")}
        self.mentioned = {fold(name) for path in rules.paths for name in path.split("/")}
        self.mentioned |= {fold(name) for glob in self._globs for name in glob.names if _WILD.isdisjoint(name)}
        self._distinguished = self.mentioned | _longer_mentioned(self.mentioned)

    def step(self, state: _State, name: str) -> _State:
        places = []
        for number, glob in enumerate(self._globs):
            places.append(glob.step(state.globs[2 * number], name, folded=False))
            places.append(glob.step(state.globs[2 * number + 1], name, folded=True))
        steps = next_steps(state.steps, name)
        return _State(
            self._exact.step(state.exact, name),
            self._folded.step(state.folded, name),
            tuple(places),
            tuple(step for step in steps if step.pattern or leads_on((step,))),
            self._protection(state, steps),
            _is_ending(name),
        )

    def _protection(self, state: _State, steps: Steps) -> tuple[str, bool] | None:
        """Return which protected place a path is or lies in; those that no rule mentions are all alike."""
        found = state.protection
        for step in steps:
            if step.pattern and (found is None or (step.final and not found[1])):
                mentioned = not self.mentioned.isdisjoint(fold(step.pattern).split("/"))
                found = (step.pattern if mentioned else "", step.final)
        return found

    def names_after(self, state: _State) -> Iterator[str]:
        """Yield the names that lead on to a path of a rule, each also as another spelling of it."""
        for name in (*self._exact.names_after(state.exact), *self._folded.names_after(state.folded)):
            yield name
            yield from _other_spellings(name)

    def generic_names(self) -> tuple[tuple[str, ...], bool]:
        """Return one name for each way in which names of patterns answer, and whether these are all."""
        patterns = dict.fromkeys(name for glob in self._globs for name in glob.names if name != ANY_DEPTH)
        literals = [name for name in patterns if _WILD.isdisjoint(name)]
        wild = [name for name in patterns if not _WILD.isdisjoint(name)]
        read = wild
        if sum(map(len, literals)) <= MOST_LETTERS:
            read = [*wild, *map(literal_pattern, literals)]
        classes = self._unmentioned_names(read)
        spelled = [each for name in literals for each in (name, *_other_spellings(name))]
        examples = [f"{word}{ending}" for word in map(_example, wild) for ending in ("", ENDINGS[0][0])]
        candidates = [*_NICE, *examples, *spelled, *classes.names, *self._protected_names()]
        kept: dict[object, str] = {}
        for name in filter(_is_name, candidates):
            answers = tuple(
                (name_matches(pattern, name), name_matches(fold(pattern), fold(name))) for pattern in patterns
            )
            kept.setdefault((answers, self._protected_kind(name)), name)
        return tuple(kept.values()), classes.complete

    def _unmentioned_names(self, patterns: list[str]) -> NameClasses:
        """Return names for all ways in which patterns answer, each by one that no path of a rule has, if there is one.

        A name that a rule's path has stands for itself alone where that path leads: `a` for `[ab]` leaves out `b`.
        """
        read = list(patterns)
        for _ in range(_MOST_ROUNDS):
            classes = name_classes(read, folded=True, kind_of=_is_refused, is_name=_is_name)
            taken = dict.fromkeys(fold(name) for name in classes.names if fold(name) in self._on_the_way)
            fresh = [pattern for name in taken if (pattern := literal_pattern(name)) not in read]
            if not fresh:
                return classes
            read += fresh
        return NameClasses(classes.names, complete=False)

    def _protected_names(self) -> Iterator[str]:
        for pattern in _PROTECTED:
            names = pattern.split("/")
            if len(names) == 1 or fold(names[0]) in self.mentioned:
                yield from (name for name in names if "*" not in name)

    def _protected_kind(self, name: str) -> object:
        """Return how a name alone leads into protected places; those that no rule mentions are all alike."""
        steps = next_steps((), name)
        if fold(name) in self._distinguished:
            return name
        # A place protects all that is in it, and an ending the file alone.
        return is_place(steps), _is_ending(name), any(step.final for step in steps if step.pattern)


_PROTECTED = tuple(dict.fromkeys([*GUARDED, *GUARDED_ELSEWHERE, *HELD, *ELSEWHERE]))


_LONGER = tuple(names for pattern in _PROTECTED if len(names := fold(pattern).split("/")) > 1)


def _longer_mentioned(mentioned: set[str]) -> set[str]:
    """Return the names of the longer patterns of protected places whose first name rules mention."""
    return {name for names in _LONGER if names[0] in mentioned for name in names}


def _is_ending(name: str) -> bool:
    return fold(name).endswith(ENDINGS[0][0])


def _example(pattern: str) -> str:
    return pattern.replace("*", "file").replace("?", "x")


def _other_spellings(name: str) -> Iterator[str]:
    """Yield names that forgiving file systems take for this one."""
    for other in (name.upper(), name.capitalize(), name.swapcase(), f"{name}."):
        if other != name and fold(other) == fold(name):
            yield other


def _is_name(text: str) -> bool:
    return text not in ("", ".", "..") and refuse_name(text) is None


def _is_refused(text: str) -> bool:
    return not _is_name(text)


def path_classes(rules: PathRules, *, start: str = "", most: int = MOST_STATES, steps: int = MOST_STEPS) -> PathClasses:
    """Return a path, relative to `start`, for each way in which these rules can answer; "" is the start itself."""
    reader = _Reader(rules, start)
    generic, complete = reader.generic_names()
    steps_left = steps // reader.width
    waiting = deque([("", reader.start)])
    seen = {reader.start}
    found = [""]
    while waiting:
        path, state = waiting.popleft()
        for name in _distinct([*reader.names_after(state), *generic]):
            if not _is_name(name):
                continue
            after = reader.step(state, name)
            steps_left -= 1
            if after in seen:
                continue
            if len(seen) >= most or steps_left < 0:
                return PathClasses(tuple(found), complete=False)
            seen.add(after)
            longer = f"{path}/{name}" if path else name
            found.append(longer)
            waiting.append((longer, after))
    return PathClasses(tuple(found), complete)


def _distinct(names: Sequence[str]) -> Iterable[str]:
    return dict.fromkeys(names)
