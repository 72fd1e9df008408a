"""Names and patterns over names, as `fnmatchcase` reads them: found without walking through all of them. Pure.

A pattern is filed under what it holds literally: the whole name, how it starts, or how it ends. So a look-up costs one
step for each length that occurs, however many patterns there are; only those without any literal end are tried one by
one. Start at `NameIndex`. Which names are not what they seem: `oddity`.
"""

from byleave.core.patterns import glob_matcher, name_matches, unclosed
from byleave.text import is_seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Generic, TypeVar

    Value = TypeVar("Value")
else:  # the base is for the type checker: `typing` takes longer to load than a decision
    Value = None
    Generic = {None: object}

_WILD = frozenset("*?[")
# Letters of other scripts that pass for ASCII ones in most fonts; NFKC folds full-width and mathematical ones itself.
_CYRILLIC = dict(zip("асеорхуіјѕԁһԛԝӏАВЕЗКМНОРСТХУІЈЅԌԚԜӀ", "aceopxyijsdhqwlABE3KMHOPCTXYIJSGQWI", strict=True))
_GREEK = dict(zip("αικνορυχγΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aikvopuxyABEZHIKMNOPTYX", strict=True))
_LATIN = dict(zip("ıȷɑɡɩʟℓ", "ijagill", strict=True))
_PASSING = {**_CYRILLIC, **_GREEK, **_LATIN}


def is_literal(pattern: str) -> bool:
    """Whether a pattern matches one name only, itself."""
    return _WILD.isdisjoint(pattern)


def pattern_problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern over names, or None."""
    if not pattern:
        return "the pattern is empty"
    if not all(is_seen(letter) for letter in pattern):
        return "it has invisible letters"
    return 'a "[" is not closed' if unclosed(pattern) else None


class NameIndex(Generic[Value]):
    """Values by pattern. Of equal patterns the first stays."""

    __slots__ = ("_ends", "_exact", "_rest", "_starts")

    def __init__(self) -> None:
        self._exact: dict[str, Value] = {}
        self._starts: dict[int, dict[str, dict[str, tuple[Callable[[str], bool] | None, Value]]]] = {}
        self._ends: dict[int, dict[str, dict[str, tuple[Callable[[str], bool] | None, Value]]]] = {}
        self._rest: dict[str, tuple[Callable[[str], bool] | None, Value]] = {}

    def __bool__(self) -> bool:
        return bool(self._exact or self._starts or self._ends or self._rest)

    def get(self, pattern: str) -> "Value | None":
        """Return the value of exactly this pattern."""
        if is_literal(pattern):
            return self._exact.get(pattern)
        found = self._file(pattern).get(pattern)
        return None if found is None else found[1]

    def add(self, pattern: str, value: "Value") -> "Value":
        """File a value under a pattern; return the one that is there now."""
        if is_literal(pattern):
            return self._exact.setdefault(pattern, value)
        return self._file(pattern).setdefault(pattern, (_matcher(pattern), value))[1]

    def exact(self, name: str) -> "Value | None":
        """Return what stands under the name itself."""
        return self._exact.get(name)

    def wild(self, name: str) -> "Iterator[Value]":
        """Yield what stands under each pattern with wildcards that matches the name."""
        for files, of_name in ((self._starts, _start), (self._ends, _end)):
            for length, by_text in files.items():
                if length <= len(name) and (filed := by_text.get(of_name(name, length))):
                    yield from (value for matches, value in filed.values() if matches is None or matches(name))
        yield from (value for matches, value in self._rest.values() if matches is None or matches(name))

    def all(self, name: str) -> "Iterator[Value]":
        """Yield what stands under each pattern that matches the name, the name itself first."""
        found = self._exact.get(name)
        if found is not None:
            yield found
        yield from self.wild(name)

    def values(self) -> "Iterator[Value]":
        """Yield everything that is filed."""
        yield from self._exact.values()
        for files in (self._starts, self._ends):
            yield from (
                value for by_text in files.values() for filed in by_text.values() for _, value in filed.values()
            )
        yield from (value for _, value in self._rest.values())

    def _file(self, pattern: str) -> "dict[str, tuple[Callable[[str], bool] | None, Value]]":
        """Return where a pattern with wildcards is filed: by its start, else by its end, else with the rest."""
        start = pattern[: min(at for letter in _WILD if (at := pattern.find(letter)) >= 0)]
        if start:
            return self._starts.setdefault(len(start), {}).setdefault(start, {})
        wild = "*?]" if "[" in pattern else "*?"
        end = pattern[1 + max(pattern.rfind(letter) for letter in wild) :]
        if end:
            return self._ends.setdefault(len(end), {}).setdefault(end, {})
        return self._rest


def _start(name: str, length: int) -> str:
    return name[:length]


def _end(name: str, length: int) -> str:
    return name[len(name) - length :]


def _matcher(pattern: str) -> "Callable[[str], bool] | None":
    """Return what says whether a name matches; None where its literal start or end has said so already."""
    if pattern.count("*") == 1 and "*" in (pattern[0], pattern[-1]) and is_literal(pattern.replace("*", "")):
        return None
    if "[" not in pattern:
        return lambda name: name_matches(pattern, name)
    return glob_matcher(pattern)  # compiled once: fnmatch itself forgets all but the last few


UNSEEN, LOOK_ALIKE, NOT_ASCII = "unseen", "look-alike", "not ASCII"


def oddity(name: str) -> str | None:
    """Say what is odd about a name: letters that are invisible, that pass for ASCII ones, or that merely are none."""
    if name.isascii():
        return None if name.isprintable() and name else UNSEEN
    if not all(is_seen(char) for char in name):
        return UNSEEN
    from unicodedata import normalize

    plain = "".join(_PASSING.get(char, char) for char in normalize("NFKC", name))
    return LOOK_ALIKE if plain.isascii() else NOT_ASCII


def spelled(pattern: str, name: str) -> str | None:
    """Return what matches `pattern` and is written by an agent as `name`, with `_` for signs; None if nothing does."""
    if name_matches(pattern, name):
        return name
    if "_" not in name or "[" in pattern or all(_stays(letter) or letter in "_*?" for letter in pattern):
        return None
    return _aligned(pattern, name)


def _stays(letter: str) -> bool:
    return letter.isascii() and letter.isalnum()


def _aligned(pattern: str, name: str) -> str | None:
    """Put the signs of a pattern where `_` stands for them. What a `*` matches stays as it is."""
    begin, *between = pattern.split("*")
    found, at = "", 0
    for number, part in enumerate([begin, *between]):
        last = number == len(between)
        places = range(at, len(name) - len(part) + 1) if number else range(1)
        if last and number:
            places = range(max(len(name) - len(part), at), len(name) - len(part) + 1)
        start = next((place for place in places if _fits(part, name[place : place + len(part)])), None)
        if start is None:
            return None
        put = zip(part, name[start : start + len(part)], strict=True)
        found += name[at:start] + "".join(there if letter == "?" else letter for letter, there in put)
        at = start + len(part)
    return found + name[at:] if between or at == len(name) else None


def _fits(part: str, text: str) -> bool:
    if len(part) != len(text):
        return False
    pairs = zip(part, text, strict=True)
    return all(letter in ("?", there) or (there == "_" and not _stays(letter)) for letter, there in pairs)
