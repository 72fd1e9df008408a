"""Which files a search can select by a pattern for their names, as far as the text of the pattern shows.

Pure. Every tool reads such patterns in its own way: at any depth or only at the top, with braces, several in one text,
with `!` in front. `Selection.may_select` answers for all of them at once, so it says yes too often rather than too
rarely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.fs_rules import fold
from byleave.core.patterns import ANY_DEPTH, name_matches

if TYPE_CHECKING:
    from collections.abc import Iterator


_MOST_ALTERNATIVES = 64
_LONGEST = 4096  # characters of a pattern whose braces are written out
_ANY_NAME = "byleave-any-name"
EVERYTHING = (_ANY_NAME, f"{_ANY_NAME}/{_ANY_NAME}")  # stands for all files, where no pattern is given
# What only some tools understand: groups such as `!(a|b)`, escapes, classes by name.
_UNCLEAR = ("(", ")", "|", "\\", "[:", "$", "~")


class Selection:
    """What one pattern for names selects, as far as its text shows."""

    def __init__(self, text: str) -> None:
        self._excludes = text.startswith("!")
        unclear = self._excludes and any(mark in text for mark in " ,{")  # what follows may be no exclusion
        alternatives = None if unclear else _alternatives(text.removeprefix("!"))
        self._names = None if alternatives is None else tuple(_names(each) for each in alternatives)

    def may_select(self, path: str) -> bool:
        """Whether the file at `path`, relative to where the search starts, may be selected."""
        if self._names is None or any(names is None for names in self._names):
            return True  # it is not clear what the pattern means
        below = tuple(fold(name) for name in path.split("/"))
        if self._excludes:
            return not any(names is not None and _surely_excludes(names, below) for names in self._names)
        return any(names is not None and _match_anywhere(names, below) for names in self._names)

    def may_end_like(self, pattern: str) -> bool:
        """Whether the last name of a selected file may match `pattern`, a folded one."""
        if self._names is None or self._excludes or any(names is None for names in self._names):
            return True
        ends = [names[-1] for names in self._names if names is not None]
        return any(_is_plain(end) or _overlap(end, pattern) for end in ends)

    def examples(self) -> tuple[str, ...] | None:
        """Return paths that stand for everything the pattern can select; None where that is not clear."""
        if self._names is None or self._excludes:
            return None
        found: list[str] = []
        for names in self._names:
            if names is None:
                return None
            found += _examples(names)
        return tuple(dict.fromkeys(found))


def selection_of(glob: str | None) -> Selection | None:
    """Return what a search selects by its pattern for names, if it has one."""
    return Selection(glob) if glob else None


def _alternatives(text: str) -> tuple[str, ...] | None:
    """Return the patterns in a text: braces written out, and what blanks or commas may separate; None if unclear."""
    if any(mark in text for mark in _UNCLEAR):
        return None
    found = without_braces(text)
    if found is None:
        return None
    parts = [part for each in found for part in (each, *each.replace(",", " ").split())]
    return tuple(dict.fromkeys(part for part in parts if part.strip("/ "))) or None


def without_braces(text: str) -> list[str] | None:
    """Return a text with every `{a,b}` written out, the inner ones first; None if that is too much or unclear."""
    if len(text) > _LONGEST:
        return None
    found = [text]
    while any("{" in each or "}" in each for each in found):
        following: list[str] = []
        for each in found:
            end = each.find("}")
            start = each.rfind("{", 0, end)
            if end < 0 or start < 0 or ".." in each[start:end]:
                return None
            following += [each[:start] + choice + each[end + 1 :] for choice in each[start + 1 : end].split(",")]
        if len(following) > _MOST_ALTERNATIVES:
            return None
        found = following
    return found


def _names(pattern: str) -> tuple[str, ...] | None:
    """Return a pattern name by name, folded, with wider wildcards where tools disagree; None where it is unclear."""
    kept: list[str] = []
    for name in pattern.split("/"):
        if name in ("", "."):
            continue
        wide = _widened(name)
        if name == ".." or wide is None:
            return None
        kept += wide
    return tuple(kept)


def _widened(name: str) -> list[str] | None:
    """Return one name of a pattern, a class of characters as `*`; None where `**` stands in the middle of it."""
    if "[" in name:
        end = name.rfind("]")
        if end < name.find("["):
            return None
        name = f"{name[: name.find('[')]}*{name[end + 1 :]}"
    if name == ANY_DEPTH or "**" not in name:
        return [name if name == ANY_DEPTH else fold(name)]
    return [ANY_DEPTH, fold(name.replace("**", "*", 1))] if name.rfind("**") == 0 else None


def _match_anywhere(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Whether names match, the pattern standing at any depth.

    A name without wildcards may be that of a directory, and then stand for all that is in it.
    """
    ends = range(1, len(names) + 1) if _is_plain(pattern[-1]) else (len(names),)
    return any(_match(pattern, names[start:end]) for end in ends for start in range(end))


def _is_plain(name: str) -> bool:
    return name != ANY_DEPTH and "*" not in name and "?" not in name


def _match(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    states = {0}
    for name in names:
        states = set(_step(pattern, states, name))
    return any(all(rest == ANY_DEPTH for rest in pattern[at:]) for at in states)


def _step(pattern: tuple[str, ...], states: set[int], name: str) -> Iterator[int]:
    for state in states:
        at = state
        while at < len(pattern) and pattern[at] == ANY_DEPTH:
            yield at
            at += 1
        if at < len(pattern) and name_matches(pattern[at], name):
            yield at + 1


def _overlap(one: str, other: str) -> bool:
    """Whether some name may match both patterns: no, only where their plain beginnings or ends differ."""
    if "[" in other:
        return True
    (start, end), (other_start, other_end) = _ends(one), _ends(other)
    starts = start.startswith(other_start) or other_start.startswith(start)
    return starts and (end.endswith(other_end) or other_end.endswith(end))


def _ends(pattern: str) -> tuple[str, str]:
    """Return what a name that matches begins and ends with, as far as no wildcard stands there."""
    marks = [at for at, char in enumerate(pattern) if char in "*?"]
    return (pattern[: marks[0]], pattern[marks[-1] + 1 :]) if marks else (pattern, pattern)


def _surely_excludes(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Whether every tool that knows `!` leaves the file out: `!.env`, `!**/.env`, `!secrets/**`, `!**/secrets/**`."""
    plain = [name for name in pattern if name != ANY_DEPTH]
    if len(plain) != 1 or any(mark in plain[0] for mark in "*?"):
        return False
    if pattern[-1] != ANY_DEPTH:
        return names[-1] == plain[0]
    return plain[0] in (names[:-1] if pattern[0] == ANY_DEPTH else names[:1])


def _examples(pattern: tuple[str, ...]) -> Iterator[str]:
    """Yield paths that stand for the matches: at the top and deeper, with nothing and with something for `**`."""
    ends_deep = pattern[-1] == ANY_DEPTH
    shortest = [_example(name) for name in pattern if name != ANY_DEPTH] + [_ANY_NAME] * ends_deep
    yield "/".join(shortest)
    yield "/".join([_ANY_NAME if name == ANY_DEPTH else _example(name) for name in pattern])
    if len(pattern) == 1:  # without a slash: at any depth
        yield "/".join([_ANY_NAME, *shortest])


def _example(name: str) -> str:
    return name.replace("*", _ANY_NAME).replace("?", "x")
