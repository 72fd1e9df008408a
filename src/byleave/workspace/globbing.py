"""Which names does a pattern of the shell match on the disk now? As bash does without any of its options."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.patterns import name_matches, unclosed

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_ENTRIES = 20_000  # names looked at for one pattern
MOST_MATCHES = 2_000
_WILD = frozenset("*?[")


def glob_paths(pattern: Sequence[str], base: str) -> tuple[list[str], bool] | None:
    """Return the paths that a pattern, given name by name, matches from `base`, and whether all of them exist.

    None where there are too many.

    `**` goes to any depth, as it does in zsh, and in bash with `globstar`: more than bash finds by default. Names
    behind the last pattern need not exist. A pattern that matches nothing is taken for its literal start: what is on
    the disk may change until the command runs.
    """
    try:
        found = _Search().run(list(pattern), base)
        if found and "**" not in pattern and all(os.path.lexists(os.path.join(base, path)) for path in found):
            return found, True
        return found or _Search().run([_loosened(name) for name in pattern], base), False
    except _TooManyError:
        return None


def _loosened(name: str) -> str:
    wild = [place for place, char in enumerate(name) if char in _WILD]
    return f"{name[: wild[0]]}*" if wild and wild[0] > 0 else name


class _TooManyError(Exception):
    """More names than are looked at."""


class _Search:
    def __init__(self) -> None:
        self._seen = 0

    def run(self, pattern: list[str], base: str) -> list[str]:
        found = ["/"] if pattern[0] == "" and len(pattern) > 1 else [""]
        names = pattern[1:] if found == ["/"] else pattern
        for name in names:
            found = [path for prefix in found for path in self._step(prefix, name, base)]
            if len(found) > MOST_MATCHES:
                raise _TooManyError
        return found

    def _step(self, prefix: str, name: str, base: str) -> list[str]:
        if not name:
            return [f"{prefix}/" if prefix and not prefix.endswith("/") else prefix]
        joined = f"{prefix}{name}" if not prefix or prefix.endswith("/") else f"{prefix}/{name}"
        if _WILD.isdisjoint(name) or unclosed(name):
            return [joined]
        if name == "**":
            return self._deep(prefix, base)
        start = joined[: len(joined) - len(name)]
        return [f"{start}{entry}" for entry in self._entries(os.path.join(base, prefix)) if _matches(name, entry)]

    def _deep(self, prefix: str, base: str) -> list[str]:
        found = [prefix]
        for path in found:
            directory = os.path.join(base, path)
            start = path if not path or path.endswith("/") else f"{path}/"
            plain = [entry for entry in self._entries(directory) if not entry.startswith(".")]
            found.extend([f"{start}{entry}" for entry in plain if not os.path.islink(os.path.join(directory, entry))])
        return found

    def _entries(self, directory: str) -> list[str]:
        try:
            names = os.listdir(directory or ".")
        except OSError:
            return []
        self._seen += len(names)
        if self._seen > MOST_ENTRIES:
            raise _TooManyError
        return sorted(names)


def _matches(pattern: str, name: str) -> bool:
    return (not name.startswith(".") or pattern.startswith(".")) and name_matches(pattern, name)
