"""Places that hold secrets on most machines. A warning list, not a deny list: a grant that reaches one is pointed out.

Pure. Configuration adds to the list; nothing removes from it. Every allowed file action is held against it, so entries
are kept by kind: plain places in a table, names that count anywhere (`**/.env`) by name, and the few others as globs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.fs_rules import fold, is_under
from byleave.core.patterns import ANY_DEPTH, compile_glob, name_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BUILT_IN = (
    "~/.ssh",
    "~/.gnupg",
    "~/.aws/credentials",
    "~/.config/gcloud",
    "~/.kube/config",
    "~/.docker/config.json",
    "**/.env",
    "**/.env.*",
)
_MOST_REMEMBERED = 4096


class Sensitive:
    """The sensitive places of one user in one workspace, by absolute path; `real` says where a path really leads."""

    def __init__(
        self,
        added: Iterable[str] = (),
        *,
        home: str,
        root: str,
        real: Callable[[str], str] = str,
    ) -> None:
        named = [name for name in dict.fromkeys([*BUILT_IN, *added]) if home or not name.startswith("~")]
        globs = [(name, compile_glob(_absolute(name, home, root))) for name in named]
        plain = [(name, f"/{glob.literal}") for name, glob in globs if glob.is_literal]
        # Each by its name, and by where that really leads: a home directory is a link on some machines.
        self._plain = list(dict.fromkeys([*plain, *((name, real(place)) for name, place in plain)]))
        self._by_place = {fold(place): name for name, place in reversed(self._plain)}
        self._anywhere = [(name, fold(glob.names[1])) for name, glob in globs if _is_anywhere(glob.names)]
        rest = [(name, glob) for name, glob in globs if not glob.is_literal and not _is_anywhere(glob.names)]
        self._globs = [(name, compile_glob(fold(glob.text))) for name, glob in rest]
        self._names: dict[str, str | None] = {}
        self._places: dict[str, str | None] = {}

    def at(self, place: str) -> str | None:
        """Return the entry of the list that covers the absolute `place`, itself or something above it."""
        try:
            return self._places[place]  # a tool reads many a file more than once
        except KeyError:
            if len(self._places) >= _MOST_REMEMBERED:
                self._places.clear()
        found = self._places[place] = self._at(place)
        return found

    def _at(self, place: str) -> str | None:
        path = fold(place)
        for name in path.split("/"):
            found = self._names.get(name, name)
            if found is name:
                found = self._by_name(name)
            if found is not None:
                return found
        while path:
            found = self._by_place.get(path) or self._by_glob(path)
            if found is not None:
                return found
            path = path[: max(path.rfind("/"), 0)]
        return None

    def below(self, place: str) -> Iterator[tuple[str, str]]:
        """Yield the entries without wildcards that lie at or below the absolute `place`, each with its own place."""
        for name, absolute in self._plain:
            if is_under(absolute, place):
                yield name, absolute

    def _by_name(self, name: str) -> str | None:
        """Look a name up among those that count anywhere, and remember the answer: most names come again."""
        found = next((entry for entry, pattern in self._anywhere if name_matches(pattern, name)), None)
        if len(self._names) >= _MOST_REMEMBERED:
            self._names.clear()
        self._names[name] = found
        return found

    def _by_glob(self, path: str) -> str | None:
        return next((name for name, glob in self._globs if glob.matches(path[1:])), None) if self._globs else None


def _absolute(pattern: str, home: str, root: str) -> str:
    """Return the pattern from / on: `~` is the home directory, `**` stands anywhere, all else lies in the workspace."""
    if pattern.startswith("~/"):
        return f"{home}{pattern[1:]}"
    return pattern if pattern.startswith(("/", "**")) else f"{root}/{pattern}"


def _is_anywhere(names: tuple[str, ...]) -> bool:
    return len(names) == 2 and names[0] == ANY_DEPTH and names[1] != ANY_DEPTH
