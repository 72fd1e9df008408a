"""Globs over paths: `**` is any number of names, `*`, `?` and `[..]` stay within one. Pure.

A pattern is taken apart once; matching walks names, so that no pattern can make it slow.

Patterns from configuration, globs and RE2's syntax: none of them takes long, whatever text it meets.
"""

from byleave.core.fs_rules import fold
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
        names = tuple(path.split("/")) if path else ()
        if folded:
            return _match(tuple(fold(name) for name in self.names), tuple(fold(name) for name in names))
        return _match(self.names, names)

    def reaches_below(self, path: str) -> bool:
        """Whether something below `path` could match, whatever its case and normal form."""
        names = tuple(fold(name) for name in path.split("/")) if path else ()
        for expected, name in zip(self.names, names, strict=False):
            if expected == ANY_DEPTH:
                return True
            if not name_matches(fold(expected), name):
                return False
        return len(self.names) > len(names)

    @property
    def covers_below(self) -> bool:
        """Whether everything below a match is a match as well."""
        return self.names[-1:] == (ANY_DEPTH,)


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
    if "[" not in pattern:
        return _walk(pattern, name)
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern)


def _walk(pattern: str, name: str) -> bool:
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


def _match(pattern: "Sequence[str]", names: "Sequence[str]") -> bool:
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


def glob_matcher(pattern: str) -> "Callable[[str], bool]":
    """Return what says whether a text, however long, matches a glob as `fnmatchcase` reads it."""
    import re
    from fnmatch import translate

    compiled = re.compile(translate(pattern))  # each `*` is passed once: it never comes back to an earlier one
    return lambda text: compiled.match(text) is not None


def searcher(pattern: str) -> "Callable[[str], bool]":
    """Return what says whether a text holds the pattern; ValueError if the pattern cannot be used."""
    import re2  # type: ignore[import-untyped] # loaded only where a pattern is

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(str(error)) from None
    return lambda text: compiled.search(text.encode("utf-8", "replace").decode()) is not None
