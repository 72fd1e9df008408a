"""Names that stand for all others: one for each way in which a set of patterns over names can answer.

Patterns are those of `core.patterns.name_matches`: `*`, `?`, `[..]` and letters. All of them are read side by side,
letter by letter. What they have matched so far is a state; two beginnings with the same state go on alike, whatever
follows. So it is enough to lengthen one beginning of each state, and the names found answer for every name there is.

With `folded`, a pattern also reads the name as `core.fs_rules.fold` makes it, since what denies matches that. Letters
are folded one by one; marks that Unicode reorders among each other are the one thing this does not follow.
"""

from __future__ import annotations

from collections import deque
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    State = tuple[tuple[int, int], ...]  # of each pattern that can still match: its number, and the places it is at

MOST_STATES = 20_000
_FRESH = "xqzjkvwyuonrstlmpbdfghiacexQZJKVWY0123456789_"
_DOTS = frozenset(". ")


class NameClasses(Struct, frozen=True):
    """The names, the shortest first; `complete` says that no further way of answering exists."""

    names: tuple[str, ...]
    complete: bool


class _Pattern:
    """One pattern as places between its letters; a bit stands for a place that a name has come to."""

    def __init__(self, text: str) -> None:
        self.signs = tuple(_signs(text))
        self.end = 1 << len(self.signs)
        self.start = self._closed(1)

    def step(self, places: int, letter: str) -> int:
        reached = 0
        for at, sign in enumerate(self.signs):
            if places >> at & 1:
                if sign == "*":
                    reached |= 1 << at
                elif sign in ("?", letter) or (len(sign) > 1 and _in_set(sign, letter)):
                    reached |= 2 << at
        return self._closed(reached)

    def _closed(self, places: int) -> int:
        for at, sign in enumerate(self.signs):
            if sign == "*" and places >> at & 1:
                places |= 2 << at
        return places


def _signs(text: str) -> Iterator[str]:
    """Yield the letters of a pattern; `[..]` is one, a literal wildcard letter stands as a set of itself."""
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == "[":
            first = at + 2 if text[at + 1 : at + 2] == "!" else at + 1
            close = text.find("]", first + 1)
            end = close + 1 if close >= 0 else end
        sign = text[at:end]
        yield "[[]" if sign == "[" else sign
        at = end


def _in_set(sign: str, letter: str) -> bool:
    return fnmatchcase(letter, sign)


def literal_pattern(text: str) -> str:
    """Return the pattern that matches this text alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)


def name_classes(
    patterns: Iterable[str],
    *,
    folded: bool = False,
    more: Iterable[str] = (),
    kind_of: Callable[[str], Hashable] = lambda _name: None,
    is_name: Callable[[str], bool] = bool,
    most: int = MOST_STATES,
) -> NameClasses:
    """Return a name for each combination of answers of the patterns, and of `kind_of`.

    `more` are letters that a name may have besides. `kind_of` tells names apart that patterns do not; names for which
    `is_name` does not hold are left out, but not what they begin.
    """
    texts = tuple(dict.fromkeys(patterns))
    plain = [_Pattern(text) for text in texts]
    forms = [_Pattern(fold(text)) for text in texts] if folded else []
    alphabet = _alphabet(texts, more, folded=folded)
    folds = {letter: fold(f"a{letter}")[1:] for letter in alphabet}
    start = (_start(plain), _start(forms), _start(forms), False)
    waiting = deque([("", start)])
    seen: set[Hashable] = {(start, kind_of(""), is_name(""))}
    found: dict[Hashable, str] = {}  # by the answers
    if is_name(""):
        found[_accepted(plain, start[0]), _accepted(forms, start[2]), kind_of("")] = ""
    while waiting:
        name, (exact, spelled, solid, lettered) = waiting.popleft()
        for letter in alphabet:
            longer = name + letter
            after = _stepped(plain, exact, letter)
            form, dotted = spelled, letter in _DOTS
            for each in letter if dotted else folds[letter]:
                form = _stepped(forms, form, each)
            state = (after, form, solid if dotted and lettered else form, lettered or not dotted)
            valid, kind = is_name(longer), kind_of(longer)
            key = (state, kind, valid)
            if key in seen:
                continue
            if len(seen) >= most:
                return NameClasses(tuple(found.values()), complete=False)
            seen.add(key)
            if valid:
                found.setdefault((_accepted(plain, state[0]), _accepted(forms, state[2]), kind), longer)
            waiting.append((longer, state))
    return NameClasses(tuple(found.values()), complete=True)


def _accepted(patterns: list[_Pattern], state: State) -> tuple[int, ...]:
    """Return the patterns that match a name which came to this state."""
    return tuple([number for number, places in state if places & patterns[number].end])


def _start(patterns: list[_Pattern]) -> State:
    return tuple((number, pattern.start) for number, pattern in enumerate(patterns))


def _stepped(patterns: list[_Pattern], state: State, letter: str) -> State:
    return tuple([(number, after) for number, at in state if (after := patterns[number].step(at, letter))])


def _alphabet(patterns: tuple[str, ...], more: Iterable[str], *, folded: bool) -> list[str]:
    """Return the letters that make a difference, and one that makes none."""
    signs = dict.fromkeys(sign for pattern in patterns for sign in _signs(pattern))
    letters: dict[str, None] = {}
    for sign in signs:
        if len(sign) > 1:
            for letter in sign[1:-1]:
                near = (ord(letter) - 1, ord(letter), ord(letter) + 1)
                letters |= dict.fromkeys(chr(code) for code in near if code > 0x20 and not 0x7F <= code < 0xA1)
        elif sign not in "*?":
            letters[sign] = None
    if folded:
        letters |= dict.fromkeys(
            each for letter in letters for each in (letter.swapcase(), fold(letter)) if len(each) == 1
        )
        if letters:
            letters["."] = None
    letters |= dict.fromkeys(more)
    letters.pop("/", None)
    taken = {form for letter in letters for form in (letter, letter.lower(), letter.upper())}
    fresh = next((letter for letter in _FRESH if letter not in taken), "\u0101")
    return [fresh, *letters]
