"""Which places path rules close: what a `deny` or an `ask` of `rules` says of one operation, as patterns to look for.

Pure. A pattern says where to look; what was found there is decided by the rules themselves, in their order, so that an
earlier `allow` still opens what a later `deny` closes. The search on the disk is workspace.closed_paths's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.decision import ALLOW
from byleave.core.fs_rules import fold
from byleave.core.match_context import MatchContext
from byleave.core.matchers import All, AnyOf, Not, PathMatcher
from byleave.core.patterns import ANY_DEPTH, is_literal, name_matches
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.core.decision import Decision
    from byleave.core.fs_rules import FsTarget
    from byleave.core.matchers import Matcher
    from byleave.core.patterns import Glob
    from byleave.core.policy import CompiledPolicy
    from byleave.core.rules import CompiledRule
    from byleave.core.selection import Selection

    # Patterns that are partly matched, each with the number of the name that comes next.
    Progress = frozenset[tuple["PathPattern", int]]


# What each kind of file action is called in rules, where nothing else is said.
OPERATIONS = {"read": "read", "create": "edit", "update": "edit", "delete": "delete", "exec": "execute"}


_MOST_BEGUN = 64
_MOST_STEPS, _MOST_DECIDED = 16_384, 4096  # each is some hundred bytes


class PathPattern(Record):
    """Where a rule's path pattern can match: a directory by its absolute name, and names below it, folded.

    `whole`: what lies below a match is a match as well, if the pattern ends so. Below directories of the workspace that
    are named as in `opened`, an earlier rule allows everything: nothing is to be found there.
    """

    base: tuple[str, ...]
    names: tuple[str, ...]
    whole: bool = True
    opened: frozenset[str] = frozenset()

    def __hash__(self) -> int:  # a walk hashes patterns more often than anything else
        return hash(self.names)


class CoveredPlace(Record):
    """A closed place that exists. `whole`: everything below it is closed as well."""

    place: FsTarget
    path: str  # absolute, where it was found; a link's own path
    whole: bool
    decision: Decision
    rule: CompiledRule

    @property
    def name(self) -> str:
        """The place as the workspace names it, else by its absolute path."""
        place = self.place
        return place.door or self.path if place.relative is None else place.relative or "."


class Covered(Record):
    """What was found, what lies high first; `complete` says that there is nothing else.

    `unlisted` is a directory of the user's that hinders it: it cannot be listed, as its permissions are now.
    """

    places: tuple[CoveredPlace, ...] = ()
    complete: bool = True
    unlisted: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The places by their names."""
        return tuple(each.name for each in self.places)


class ClosedPlaces:
    """The places of one workspace that `rules` close to one operation of one agent, or to one of several."""

    def __init__(
        self,
        policy: CompiledPolicy,
        op: str | tuple[str, ...],
        *,
        root: str,
        agent: str | None = None,
        operation: str | None = None,
    ) -> None:
        self._tables = list(policy.rule_tables())
        self._ops = (op,) if isinstance(op, str) else op
        self._agent = agent
        self._operation = operation
        base = _names(root)
        found: list[tuple[CompiledRule, PathPattern]] = []
        for table in self._tables:
            opened: frozenset[str] = frozenset()
            for rule in table.rules:
                if rule.outcome is ALLOW:
                    opened |= self._opened(rule.matcher)
                    continue
                each = [pattern for op in self._ops for pattern in _patterns(rule.matcher, op, base)]
                found += [(rule, pattern.replace(opened=opened) if opened else pattern) for pattern in each]
        self.rules = tuple(dict.fromkeys(rule for rule, _pattern in found))
        self.patterns = tuple(dict.fromkeys(pattern for _rule, pattern in found))
        # What comes again and again: where a directory begins, what follows a name, what is a match, what is decided.
        self._opens = frozenset([name for pattern in self.patterns for name in pattern.opened])
        self._begun: dict[str, Progress] = {}
        self._next: dict[Progress, _Steps] = {}
        self._steps: dict[tuple[Progress, str], Progress] = {}
        self._matches: dict[Progress, bool] = {}
        self._decided: dict[FsTarget, tuple[Decision, CompiledRule] | None] = {}

    def __bool__(self) -> bool:
        """Whether some rule names places that it closes."""
        return bool(self.patterns)

    def _opened(self, matcher: Matcher) -> frozenset[str]:
        """Return the names of directories below which a matcher that allows matches everything, at any depth."""
        if isinstance(matcher, AnyOf):
            return frozenset([name for each in matcher.matchers for name in self._opened(each)])
        if isinstance(matcher, All):
            subjects = [MatchContext(self._operation or OPERATIONS[op], self._agent) for op in self._ops]
            others = [each for each in matcher.matchers if not _has_path(each)]
            paths = [each for each in matcher.matchers if _has_path(each)]
            holds = all(each.match(subject, granting=True) is True for each in others for subject in subjects)
            return self._opened(paths[0]) if holds and len(paths) == 1 else frozenset()
        if not isinstance(matcher, PathMatcher) or matcher.absolute or not matcher.ops.issuperset(self._ops):
            return frozenset()
        names = matcher.glob.names
        anywhere = len(names) == 3 and names[0] == names[2] == ANY_DEPTH and is_literal(names[1])
        return frozenset(names[1:2]) if anywhere else frozenset()

    def decision(self, place: FsTarget) -> tuple[Decision, CompiledRule] | None:
        """Return what a rule that denies or asks says of `place`, and the rule; None where it is not closed."""
        found = self._decided.get(place, _UNKNOWN)
        if found is _UNKNOWN:
            if len(self._decided) >= _MOST_DECIDED:
                self._decided.clear()
            found = self._decided[place] = self._decide(place)
        return found  # type: ignore[return-value] # `_UNKNOWN` is no value of it

    def _decide(self, place: FsTarget) -> tuple[Decision, CompiledRule] | None:
        said = [
            (ruling.decision, ruling.rules[0])
            for op in self._ops
            for table in self._tables
            if (ruling := table.decide(self._subject(place, op))).decision is not None and ruling.decision is not ALLOW
        ]
        return max(said, key=_strictness) if said else None

    def _subject(self, place: FsTarget, op: str) -> MatchContext:
        return MatchContext(self._operation or OPERATIONS[op], self._agent, op=op, file=place)

    def advance(self, progress: Progress, name: str) -> Progress:
        """Return what remains possible below the next `name`, as the function of that name does."""
        step = progress, name
        found = self._steps.get(step)
        if found is None:
            if len(self._steps) >= _MOST_STEPS:
                self._steps.clear()
            found = self._steps[step] = self._steps_from(progress).advance(name)
        return found

    def _steps_from(self, progress: Progress) -> _Steps:
        found = self._next.get(progress)
        if found is None:
            if len(self._next) >= _MOST_BEGUN:
                self._next.clear()
            found = self._next[progress] = _Steps(progress)
        return found

    def without_opened(self, progress: Progress, name: str) -> Progress:
        """Return what remains possible below a directory of the workspace by its own name, where rules open it all."""
        if name not in self._opens:
            return progress
        return frozenset([each for each in progress if name not in each[0].opened])

    def is_match(self, progress: Progress) -> bool:
        """Whether the names so far match a pattern as a whole."""
        found = self._matches.get(progress)
        if found is None:
            if len(self._matches) >= _MOST_STEPS:
                self._matches.clear()
            found = self._matches[progress] = is_match(progress)
        return found

    def begin(self, directory: str, selection: Selection | None = None) -> Progress:
        """Return the patterns that can match at or below the absolute `directory`, as far as its names match them.

        With a `selection`, only those that can match a file it selects.
        """
        if selection is None and directory in self._begun:
            return self._begun[directory]
        kept = [each for each in self.patterns if selection is None or not each.names or _ends_alike(selection, each)]
        progress: Progress = frozenset([(pattern, 0) for pattern in kept])
        for name in _names(directory):
            progress = advance(progress, name)
        if selection is None and len(self._begun) < _MOST_BEGUN:
            self._begun[directory] = progress
        return progress


class _Steps:
    """Where each name leads from partly matched patterns: found by the name, however many patterns there are."""

    def __init__(self, progress: Progress) -> None:
        stays: list[tuple[PathPattern, int]] = []  # whatever the name is
        self._base: dict[str, list[tuple[PathPattern, int]]] = {}  # by the name itself
        self._named: dict[str, list[tuple[PathPattern, int]]] = {}  # by the folded name
        self._wild: list[tuple[PathPattern, int, str]] = []
        for pattern, at in progress:
            base, names = pattern.base, pattern.names
            if at < len(base):
                self._base.setdefault(base[at], []).append((pattern, at + 1))
                continue
            step = at - len(base)
            while step < len(names) and names[step] == ANY_DEPTH:
                stays.append((pattern, step + len(base)))
                step += 1
            if step == len(names):
                continue
            after = pattern, step + 1 + len(base)
            if is_literal(names[step]):
                self._named.setdefault(names[step], []).append(after)
            else:
                self._wild.append((*after, names[step]))
        same: Progress = frozenset(stays)
        self._stays = progress if same == progress else same  # the very same is found at once where it is looked up

    def advance(self, name: str) -> Progress:
        """Return what remains possible below the next `name`, as the function of that name does."""
        folded = fold(name)
        found = [(pattern, at) for pattern, at, wild in self._wild if name_matches(wild, folded)]
        found += self._base.get(name, ())
        found += self._named.get(folded, ())
        return self._stays.union(found) if found else self._stays


_UNKNOWN = object()
_ANYWHERE = PathPattern((), (ANY_DEPTH,), whole=False)  # of `not`: everything has to be looked at


def advance(progress: Progress, name: str) -> Progress:
    """Return what remains possible below the next `name`."""
    folded = fold(name)
    return frozenset(_advanced(progress, name, folded))


def is_match(progress: Progress) -> bool:
    """Whether the names so far match a pattern as a whole."""
    return any(_is_done(pattern, at) for pattern, at in progress)


def is_whole(progress: Progress) -> bool:
    """Whether the names so far match a pattern that also matches everything below them."""
    return any(
        _is_done(pattern, at) and pattern.whole and pattern.names[-1:] == (ANY_DEPTH,) for pattern, at in progress
    )


def _is_done(pattern: PathPattern, at: int) -> bool:
    rest = at - len(pattern.base)
    return rest >= 0 and all(name == ANY_DEPTH for name in pattern.names[rest:])


def _advanced(progress: Progress, name: str, folded: str) -> Iterator[tuple[PathPattern, int]]:
    for pattern, at in progress:
        base = pattern.base
        if at < len(base):
            if base[at] == name:
                yield pattern, at + 1
            continue
        names, step = pattern.names, at - len(base)
        while step < len(names) and names[step] == ANY_DEPTH:
            yield pattern, step + len(base)  # the name is one of any number
            step += 1
        if step < len(names) and name_matches(names[step], folded):
            yield pattern, step + 1 + len(base)


def _patterns(matcher: Matcher, op: str, base: tuple[str, ...]) -> Iterator[PathPattern]:
    """Yield where a matcher that closes can match; one without a path says the same of every file: nothing to find."""
    if isinstance(matcher, PathMatcher):
        if op in matcher.ops:
            yield _pattern(matcher.glob, () if matcher.absolute else base)
            if matcher.resolved is not None:
                yield _pattern(matcher.resolved, ())
    elif isinstance(matcher, AnyOf):
        for each in matcher.matchers:
            yield from _patterns(each, op, base)
    elif isinstance(matcher, All):
        yield from _narrowest(matcher.matchers, op, base)
    elif isinstance(matcher, Not) and _has_path(matcher.matcher):
        yield _ANYWHERE


def _narrowest(matchers: Iterable[Matcher], op: str, base: tuple[str, ...]) -> Iterator[PathPattern]:
    """Yield the patterns of one of several matchers that all have to match: of one that names places, if one does."""
    kept: list[PathPattern] = []
    for matcher in matchers:
        if not _has_path(matcher):
            continue
        found = list(_patterns(matcher, op, base))
        if not found:
            return  # it never matches this operation
        if not kept or _ANYWHERE in kept:
            kept = found
    yield from kept


def _has_path(matcher: Matcher) -> bool:
    if isinstance(matcher, All | AnyOf):
        return any(_has_path(each) for each in matcher.matchers)
    return isinstance(matcher, PathMatcher) or (isinstance(matcher, Not) and _has_path(matcher.matcher))


def _pattern(glob: Glob, base: tuple[str, ...]) -> PathPattern:
    return PathPattern(base, tuple(fold(name) for name in glob.names))


def _ends_alike(selection: Selection, pattern: PathPattern) -> bool:
    last = pattern.names[-1]
    return last == ANY_DEPTH or selection.may_end_like(last)


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


def _strictness(said: tuple[Decision, CompiledRule]) -> Decision:
    return said[0]
