"""Find the rules that can speak of one file, without asking all of them.

Pure. A path pattern is found by its last name where that is literal (`**/.env`, `src/a.py`), else by its first
(`migrations/**`); names are folded, so that more is found than matches. All other rules are candidates always.
"""

from byleave.core.fs import fold
from byleave.core.globs import ANY_DEPTH
from byleave.core.matchers import All, AnyOf, PathMatcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.core.fs import FsTarget
    from byleave.core.globs import Glob
    from byleave.core.matchers import Matcher
    from byleave.core.rules import Rule

_WILD = frozenset("*?[")
_FEW = 8  # rules that are not worth an index


class PathIndex:
    """Rules in order, found by the names of a file."""

    def __init__(self, rules: "Sequence[Rule]") -> None:
        self._rules = tuple(rules)
        self._general: list[int] = []
        self._by_key: dict[tuple[str, str], list[int]] = {}
        if len(self._rules) <= _FEW:
            return
        for number, rule in enumerate(self._rules):
            keys = _keys(rule.matcher)
            if keys is None:
                self._general.append(number)
            for key in keys or ():
                self._by_key.setdefault(key, []).append(number)

    def candidates(self, file: "FsTarget | None", *, below: bool) -> "Sequence[Rule]":
        """Return the rules that may match; all of them for what is no file, or for everything below one."""
        if file is None or below or len(self._rules) <= _FEW:
            return self._rules
        found = set(self._general)
        for key in _names(file):
            found.update(self._by_key.get(key, ()))
        return [self._rules[number] for number in sorted(found)]


def _names(file: "FsTarget") -> "Iterator[tuple[str, str]]":
    for path, start in ((file.relative, ""), (file.door, ""), (file.canonical.lstrip("/"), "/")):
        if path is not None:
            names = path.split("/")
            yield "first", start + fold(names[0])
            yield "last", fold(names[-1])


def _keys(matcher: "Matcher") -> "frozenset[tuple[str, str]] | None":
    """Return the keys under which a rule is found; None where it must always be asked."""
    if isinstance(matcher, PathMatcher):
        globs = [(matcher.glob, matcher.absolute)]
        if matcher.resolved is not None:
            globs.append((matcher.resolved, True))
        keys = [_key(glob, absolute=absolute) for glob, absolute in globs]
        return None if None in keys else frozenset([key for key in keys if key is not None])
    if isinstance(matcher, All):
        return next((known for each in matcher.matchers if (known := _keys(each)) is not None), None)
    if isinstance(matcher, AnyOf):
        found = [_keys(each) for each in matcher.matchers]
        return None if None in found else frozenset([key for keys in found for key in keys or ()])
    return None


def _key(glob: "Glob", *, absolute: bool) -> tuple[str, str] | None:
    names = glob.names
    if names and names[-1] != ANY_DEPTH and _WILD.isdisjoint(names[-1]):
        return "last", fold(names[-1])
    # `a/**` matches `a` itself as well: its first name is its last.
    if len(names) > 1 and _WILD.isdisjoint(names[0]):
        return "first", ("/" if absolute else "") + fold(names[0])
    return None
