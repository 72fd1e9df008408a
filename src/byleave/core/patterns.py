"""Patterns from configuration, over paths, texts and names. Pure; none takes long, whatever text it meets.

`Glob` is over paths: `**` is any number of names, `*`, `?` and `[..]` stay within one. It is taken apart once, and
matching walks names. Patterns over texts are globs or RE2's syntax.

`NameIndex` finds the patterns, as `fnmatchcase` reads them, that match a name. A pattern is filed under what it holds
literally: the whole name, how it starts, or how it ends. So a look-up costs one step for each length that occurs,
however many patterns there are; only those without any literal end are tried one by one. `oddity` says which names are
not what they seem.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase, translate
from typing import TYPE_CHECKING, Generic, TypeVar
from unicodedata import normalize

from byleave.core.fs_rules import fold
from byleave.record import Record
from byleave.text import is_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_WILD = frozenset("*?[")
ANY_DEPTH = "**"


class Glob(Record):
    """A pattern, name by name. `literal` is its longest start without wildcards."""

    text: str
    names: tuple[str, ...]

    @property
    def literal(self) -> str:
        """The path that every match is at or below."""
        kept = []
        for name in self.names:
            if not _WILD.isdisjoint(name):
                break
            kept.append(name)
        return "/".join(kept)

    @property
    def anywhere(self) -> tuple[str, ...]:
        """The names without wildcards that follow a leading `**`; none where the pattern does not begin with it."""
        if self.names[:1] != (ANY_DEPTH,):
            return ()
        rest = self.names[1:]
        wild = next((at for at, name in enumerate(rest) if not _WILD.isdisjoint(name)), len(rest))
        return rest[:wild]

    @property
    def is_literal(self) -> bool:
        """Whether the pattern has no wildcard at all."""
        return all(_WILD.isdisjoint(name) for name in self.names)

    def matches(self, path: str, *, folded: bool = False) -> bool:
        """Whether `path` (no leading slash, "" for the root) matches; `folded` ignores case and normal form."""
        pattern = _folded(self.names) if folded else self.names
        names = _split_folded(path) if folded else tuple(path.split("/")) if path else ()
        if names and pattern:  # nearly all that does not match differs in its last or its first name
            last, first = pattern[-1], pattern[0]
            if last != ANY_DEPTH and not name_matches(last, names[-1]):
                return False
            if first != ANY_DEPTH and not name_matches(first, names[0]):
                return False
        return _match(pattern, names)

    def reaches_below(self, path: str) -> bool:
        """Whether something below `path` could match, whatever its case and normal form."""
        names = _split_folded(path)
        for expected, name in zip(_folded(self.names), names, strict=False):
            if expected == ANY_DEPTH:
                return True
            if not name_matches(expected, name):
                return False
        return len(self.names) > len(names)

    @property
    def covers_below(self) -> bool:
        """Whether everything below a match is a match as well."""
        return self.names[-1:] == (ANY_DEPTH,)


# One path is held against many patterns, and one pattern against many paths.
_MOST_REMEMBERED = 4096
_folded_patterns: dict[tuple[str, ...], tuple[str, ...]] = {}
_folded_paths: dict[str, tuple[str, ...]] = {}


def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a pattern as they are compared where case and normal form do not count."""
    known = _folded_patterns.get(names)
    if known is None:
        if len(_folded_patterns) >= _MOST_REMEMBERED:
            _folded_patterns.clear()
        known = _folded_patterns[names] = tuple([fold(name) for name in names])
    return known


def _split_folded(path: str) -> tuple[str, ...]:
    """Return the names of a path in the same form."""
    known = _folded_paths.get(path)
    if known is None:
        if len(_folded_paths) >= _MOST_REMEMBERED:
            _folded_paths.clear()
        known = _folded_paths[path] = tuple([fold(name) for name in path.split("/")]) if path else ()
    return known


def glob_problem(text: str) -> str | None:
    """Say what is wrong with a pattern, or None."""
    if not text or text.strip("/") == "":
        return "the pattern is empty"
    for name in text.split("/"):
        if name == "..":
            return 'a pattern cannot contain ".."'
        if "**" in name and name != ANY_DEPTH:
            return '"**" must stand alone between slashes'
        if unclosed(name):
            return 'a "[" is not closed'
    return None


def compile_glob(text: str) -> Glob:
    """Take a pattern apart; `glob_problem` has looked at it before."""
    names = [name for name in text.split("/") if name not in ("", ".")]
    return Glob(text, tuple(names))


def name_matches(pattern: str, name: str) -> bool:
    """Whether one name matches one pattern, as `fnmatchcase` does on every platform."""
    if _WILD.isdisjoint(pattern):
        return pattern == name
    if pattern == "*":
        return True
    if pattern[0] == "*" and _WILD.isdisjoint(pattern[1:]):
        return name.endswith(pattern[1:])
    if "[" not in pattern:
        return text_matches(pattern, name)

    return fnmatchcase(name, pattern)


def text_matches(pattern: str, name: str) -> bool:
    """Match `*` and `?` without `fnmatch`, which loads `re`: every start that decides about a file would pay for it."""
    at = place = 0
    star = mark = -1
    while place < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, mark = at, place
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", name[place]):
            at += 1
            place += 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return not pattern[at:].strip("*")


def _match(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Match greedily, coming back only to the last `**`: linear in names for each `**`."""
    at = place = 0
    star = mark = -1
    while place < len(names):
        if at < len(pattern) and pattern[at] == ANY_DEPTH:
            star, mark = at, place
            at += 1
        elif at < len(pattern) and name_matches(pattern[at], names[place]):
            at += 1
            place += 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return all(name == ANY_DEPTH for name in pattern[at:])


def unclosed(name: str) -> bool:
    """Whether a `[` of the pattern has no end."""
    start = name.find("[")
    while start >= 0:
        first = start + 2 if name[start + 1 : start + 2] in ("!", "]") else start + 1
        end = name.find("]", first + (name[start + 1 : start + 3] == "!]"))
        if end < 0:
            return True
        start = name.find("[", end + 1)
    return False


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Return what says whether a text, however long, matches a glob as `fnmatchcase` reads it."""
    compiled = re.compile(translate(pattern))  # each `*` is passed once: it never comes back to an earlier one
    return lambda text: compiled.match(text) is not None


def searcher(pattern: str) -> Callable[[str], bool]:
    """Return what says whether a text holds the pattern; ValueError if the pattern cannot be used."""
    import re2  # type: ignore[import-untyped] # loaded only where a pattern is

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode("utf-8", "replace")) from None  # the library speaks in bytes
    return lambda text: compiled.search(text.encode("utf-8", "replace").decode()) is not None


Value = TypeVar("Value")
_NAME_PATTERNS_WILD = frozenset("*?[")
_SIGNS = " !\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~"  # what `[!a]` may stand for
# Letters of other scripts that pass for ASCII ones in most fonts; NFKC folds full-width and mathematical ones itself.
_CYRILLIC = dict(zip("асеорхуіјѕԁһԛԝӏАВЕЗКМНОРСТХУІЈЅԌԚԜӀ", "aceopxyijsdhqwlABE3KMHOPCTXYIJSGQWI", strict=True))
_GREEK = dict(zip("αικνορυχγΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aikvopuxyABEZHIKMNOPTYX", strict=True))
_LATIN = dict(zip("ıȷɑɡɩʟℓ", "ijagill", strict=True))
_PASSING = {**_CYRILLIC, **_GREEK, **_LATIN}


def is_literal(pattern: str) -> bool:
    """Whether a pattern matches one name only, itself."""
    return _NAME_PATTERNS_WILD.isdisjoint(pattern)


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

    def add(self, pattern: str, value: Value) -> Value:
        """File a value under a pattern; return the one that is there now."""
        if is_literal(pattern):
            return self._exact.setdefault(pattern, value)
        return self._file(pattern).setdefault(pattern, (_matcher(pattern), value))[1]

    def exact(self, name: str) -> Value | None:
        """Return what stands under the name itself."""
        return self._exact.get(name)

    def wild(self, name: str) -> Iterator[Value]:
        """Yield what stands under each pattern with wildcards that matches the name."""
        for files, of_name in ((self._starts, _start), (self._ends, _end)):
            for length, by_text in files.items():
                if length <= len(name) and (filed := by_text.get(of_name(name, length))):
                    yield from (value for matches, value in filed.values() if matches is None or matches(name))
        yield from (value for matches, value in self._rest.values() if matches is None or matches(name))

    def all(self, name: str) -> Iterator[Value]:
        """Yield what stands under each pattern that matches the name, the name itself first."""
        found = self._exact.get(name)
        if found is not None:
            yield found
        yield from self.wild(name)

    def values(self) -> Iterator[Value]:
        """Yield everything that is filed."""
        yield from self._exact.values()
        for files in (self._starts, self._ends):
            yield from (
                value for by_text in files.values() for filed in by_text.values() for _, value in filed.values()
            )
        yield from (value for _, value in self._rest.values())

    def _file(self, pattern: str) -> dict[str, tuple[Callable[[str], bool] | None, Value]]:
        """Return where a pattern with wildcards is filed: by its start, else by its end, else with the rest."""
        start = pattern[: min(at for letter in _NAME_PATTERNS_WILD if (at := pattern.find(letter)) >= 0)]
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


def _matcher(pattern: str) -> Callable[[str], bool] | None:
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

    plain = "".join(_PASSING.get(char, char) for char in normalize("NFKC", name))
    return LOOK_ALIKE if plain.isascii() else NOT_ASCII


def spelled(pattern: str, name: str) -> str | None:
    """Return what matches `pattern` and is written by an agent as `name`, with `_` for signs; None if nothing does."""
    if name_matches(pattern, name):
        return name
    if "_" not in name or all(_stays(letter) or letter in "_*?" for letter in pattern):
        return None
    return _aligned(pattern, name)


def _stays(letter: str) -> bool:
    return letter.isascii() and letter.isalnum()


def _aligned(pattern: str, name: str) -> str | None:
    """Put the signs of a pattern where `_` stands for them. What a `*` matches stays as it is."""
    parts: list[list[str]] = [[]]
    for unit in _units(pattern):
        if unit == "*":
            parts.append([])
        else:
            parts[-1].append(unit)
    found, at = "", 0
    for number, part in enumerate(parts):
        end = len(name) - len(part)
        places = range(at, end + 1) if number else range(1)
        if number and number == len(parts) - 1:
            places = range(max(end, at), end + 1)
        fitting = ((place, put) for place in places if (put := _put(part, name[place : place + len(part)])) is not None)
        start, meant = next(fitting, (0, None))
        if meant is None:
            return None
        found += name[at:start] + meant
        at = start + len(part)
    return found + name[at:] if len(parts) > 1 or at == len(name) else None


def _units(pattern: str) -> Iterator[str]:
    """Yield what a pattern consists of: letters, `?`, `*`, and each `[..]` as a whole."""
    at = 0
    while at < len(pattern):
        end = at + 1
        if pattern[at] == "[":
            first = end + (pattern[end : end + 1] == "!")
            end = pattern.find("]", first + 1) + 1 or end
        yield pattern[at:end]
        at = end


def _put(part: Sequence[str], text: str) -> str | None:
    """Return the name that these units match and an agent writes as `text`; None if there is none."""
    if len(part) != len(text):
        return None
    letters = [_meant(unit, there) for unit, there in zip(part, text, strict=True)]
    return None if None in letters else "".join([letter for letter in letters if letter is not None])


def _meant(unit: str, there: str) -> str | None:
    if name_matches(unit, there):
        return there
    if there != "_":
        return None
    return next((sign for sign in (*unit, *_SIGNS) if not _stays(sign) and name_matches(unit, sign)), None)
