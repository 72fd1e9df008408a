"""Which patterns match everything that another matches, and which can match one thing together. Pure.

Patterns over names are those of `fnmatchcase`; the answers about them are exact, whatever the letters are. Patterns
over paths are taken name by name; a yes is certain, a no may be a yes that is not found.

Start at `includes`. Over paths: `glob_includes`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from byleave.core.patterns import ANY_DEPTH, is_literal, name_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from byleave.core.patterns import Glob

STAR = "*"
ANY_NAME = "*"
_MOST_STATES = 20_000  # of one question; a pattern that needs more counts as not included
_MOST_LITERAL = 100  # names that are looked at beside the patterns
_REMEMBERED = 20_000


def includes(wider: Sequence[str], narrower: str) -> bool:
    """Whether every name that `narrower` matches is matched by one of the patterns of `wider`."""
    if narrower in wider:
        return True
    if is_literal(narrower):
        return any(name_matches(pattern, narrower) for pattern in wider)
    if ANY_NAME in wider:
        return True
    literal = [pattern for pattern in wider if is_literal(pattern) and name_matches(narrower, pattern)]
    return _included((*[each for each in wider if not is_literal(each)], *literal[:_MOST_LITERAL]), narrower)


def overlaps(one: str, other: str) -> bool:
    """Whether some name is matched by both patterns."""
    if is_literal(one) or is_literal(other):
        literal, pattern = (one, other) if is_literal(one) else (other, one)
        return name_matches(pattern, literal)
    first, second = _tokens(one), _tokens(other)
    letters = _letters([first, second])
    seen: set[tuple[int, int]] = set()
    waiting = [(0, 0)]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        if _ends(first, at[0]) and _ends(second, at[1]):
            return True
        for letter in letters:
            waiting += [(a, b) for a in _steps(first, at[0], letter) for b in _steps(second, at[1], letter)]
    return False


def glob_includes(wider: Glob, narrower: Glob) -> bool:
    """Whether every path that `narrower` matches is matched by `wider`."""
    return names_include(wider.names, narrower.names)


@lru_cache(maxsize=_REMEMBERED)
def names_include(wider: tuple[str, ...], narrower: tuple[str, ...]) -> bool:
    """Whether every path that the names `narrower` match is matched by the names `wider`."""
    if wider in (narrower, (ANY_DEPTH,)):
        return True
    seen: set[tuple[int, frozenset[int]]] = set()
    waiting = [(0, _open(wider, {0}))]
    while waiting:
        at, reached = waiting.pop()
        if (at, reached) in seen:
            continue
        if len(seen) >= _MOST_STATES or not reached:
            return False
        seen.add((at, reached))
        if at == len(narrower):
            if len(wider) not in reached:
                return False
            continue
        if narrower[at] == ANY_DEPTH:
            waiting.append((at + 1, reached))
            waiting.append((at, _follow(wider, reached, ANY_NAME)))
        else:
            waiting.append((at + 1, _follow(wider, reached, narrower[at])))
    return True


def _open(names: tuple[str, ...], places: Iterable[int]) -> frozenset[int]:
    """Return the places together with those that lie behind a `**`, which may be no name at all."""
    found = set(places)
    for place in sorted(found):
        behind = place
        while behind < len(names) and names[behind] == ANY_DEPTH:
            behind += 1
            found.add(behind)
    return frozenset(found)


def _follow(names: tuple[str, ...], places: frozenset[int], name: str) -> frozenset[int]:
    """Return where the names `names` stand behind one more name, whichever of those that the pattern `name` matches."""
    following: set[int] = set()
    for place in places:
        if place == len(names):
            continue
        if names[place] == ANY_DEPTH:
            following.add(place)
        elif includes((names[place],), name):
            following.add(place + 1)
    return _open(names, following)


@lru_cache(maxsize=_REMEMBERED)
def _included(wider: tuple[str, ...], narrower: str) -> bool:
    """Walk the narrower pattern and all wider ones together: letters that only the first ends with are a no."""
    own, others = _tokens(narrower), [_tokens(pattern) for pattern in wider]
    letters = _letters([own, *others])
    seen: set[tuple[int, frozenset[tuple[int, int]]]] = set()
    waiting = [(0, frozenset((number, 0) for number in range(len(others))))]
    while waiting:
        state = waiting.pop()
        if state in seen:
            continue
        if len(seen) >= _MOST_STATES:
            return False
        seen.add(state)
        at, reached = state
        if _ends(own, at) and not any(_ends(others[number], place) for number, place in reached):
            return False
        for letter in letters:
            steps = _steps(own, at, letter)
            if steps:
                moved = frozenset(
                    (number, step) for number, place in reached for step in _steps(others[number], place, letter)
                )
                waiting += [(step, moved) for step in steps]
    return True


@lru_cache(maxsize=_REMEMBERED)
def _tokens(pattern: str) -> tuple[str, ...]:
    """Return a pattern in parts: `*`, `?`, a class in brackets, or one letter behind a backslash."""
    found: list[str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "[":
            first = at + 2 if pattern[at + 1 : at + 2] == "!" else at + 1
            end = pattern.find("]", first + 1)
            if end > 0:
                found.append(pattern[at : end + 1])
                at = end + 1
                continue
        if letter == STAR:
            if found[-1:] != [STAR]:
                found.append(STAR)
        else:
            found.append("?" if letter == "?" else f"\\{letter}")
        at += 1
    return tuple(found)


def _letters(patterns: Iterable[tuple[str, ...]]) -> list[str]:
    """Return one letter for every set of letters that the patterns treat alike."""
    edges = {ord("0")}
    for parts in patterns:
        for part in parts:
            if part not in (STAR, "?"):
                for letter in part[1:]:
                    edges |= {ord(letter), ord(letter) + 1, max(ord(letter) - 1, 1)}
    beyond = next(code for code in range(0x3000, 0x3000 + len(edges) + 1) if code not in edges)
    return [chr(code) for code in sorted({*edges, beyond, 1})]


def _ends(parts: tuple[str, ...], at: int) -> bool:
    return all(part == STAR for part in parts[at:])


def _steps(parts: tuple[str, ...], at: int, letter: str) -> list[int]:
    """Return where a pattern may stand behind one more letter."""
    if at >= len(parts):
        return []
    part = parts[at]
    if part == STAR:
        return [at, *_steps(parts, at + 1, letter)]
    return [at + 1] if part == "?" or _is_letter(part, letter) else []


def _is_letter(part: str, letter: str) -> bool:
    return part[1:] == letter if part[0] == "\\" else fnmatchcase(letter, part)
