"""Places that hold secrets on most machines. A warning list, not a deny list: a grant that reaches one is pointed out.

Pure. Configuration adds to the list; nothing removes from it.
"""

from byleave.core.fs import fold, is_under
from byleave.core.globs import Glob, compile_glob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
        self._globs = [
            (pattern, compile_glob(fold(_absolute(pattern, home, root))))
            for pattern in dict.fromkeys([*BUILT_IN, *added])
            if home or not pattern.startswith("~")
        ]

    def at(self, place: str) -> str | None:
        """Return the entry of the list that covers the absolute `place`, itself or something above it."""
        names = fold(place).strip("/")
        while names:
            found = next((text for text, glob in self._globs if glob.matches(names)), None)
            if found is not None:
                return found
            names = names[: max(names.rfind("/"), 0)]
        return None

    def below(self, place: str) -> tuple[str, ...]:
        """Return the entries that lie at or below the absolute `place`, as far as their names alone say so."""
        within = fold(place)
        return tuple(text for text, glob in self._globs if _is_plain(glob) and is_under(f"/{glob.literal}", within))


def _absolute(pattern: str, home: str, root: str) -> str:
    """Return the pattern from / on: `~` is the home directory, `**` stands anywhere, all else lies in the workspace."""
    if pattern.startswith("~/"):
        return f"{home}{pattern[1:]}"
    return pattern if pattern.startswith(("/", "**")) else f"{root}/{pattern}"


def _is_plain(glob: Glob) -> bool:
    return glob.literal == "/".join(glob.names)
