"""Places that hold secrets on most machines. A warning list, not a deny list: a grant that reaches one is pointed out.

Pure. Configuration adds to the list; nothing removes from it.
"""

from byleave.core.fs import fold, is_under
from byleave.core.globs import compile_glob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


class Sensitive:
    """The sensitive places of one user in one workspace, by absolute path."""

    def __init__(self, added: "Iterable[str]" = (), *, home: str, root: str) -> None:
        named = [name for name in dict.fromkeys([*BUILT_IN, *added]) if home or not name.startswith("~")]
        absolute = [(name, _absolute(name, home, root)) for name in named]
        self._globs = [(name, compile_glob(fold(place))) for name, place in absolute]
        self._plain = [(name, place) for name, place in absolute if compile_glob(place).is_literal]

    def at(self, place: str) -> str | None:
        """Return the entry of the list that covers the absolute `place`, itself or something above it."""
        names = fold(place).strip("/")
        while names:
            found = next((text for text, glob in self._globs if glob.matches(names)), None)
            if found is not None:
                return found
            names = names[: max(names.rfind("/"), 0)]
        return None

    def below(self, place: str) -> "Iterator[tuple[str, str]]":
        """Yield the entries without wildcards that lie at or below the absolute `place`, each with its own place."""
        for text, absolute in self._plain:
            if is_under(absolute, place):
                yield text, absolute


def _absolute(pattern: str, home: str, root: str) -> str:
    """Return the pattern from / on: `~` is the home directory, `**` stands anywhere, all else lies in the workspace."""
    if pattern.startswith("~/"):
        return f"{home}{pattern[1:]}"
    return pattern if pattern.startswith(("/", "**")) else f"{root}/{pattern}"
