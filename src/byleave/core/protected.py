"""Places that start programs or steer byleave and the agents: readable, but not writable by accident.

Pure. The table is built once per workspace from paths that the compiler resolved, so that a `.git` behind a symlink is
as protected as one that is not. Every door and the kernel take it from here.
"""

from byleave.core.fs import FsTarget, fold, is_under
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Writable only where a rule names the place (or something in it) exactly.
PROTECTED = (
    ".git/hooks",
    ".git/config",
    ".mcp.json",
    ".mcp-gateway-rules.json",
    ".claude",
    ".codex",
    ".gemini",
    ".cursor",
    ".vscode",
    ".idea",
    ".envrc",
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".config/fish",
)

# Never writable: byleave's own configuration, and the settings that hold an agent's hooks.
GUARDED = (
    "byleave.toml",
    ".byleave",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".gemini/settings.json",
    ".cursor/hooks.json",
    ".cursor/cli.json",
)


class Protection(Record):
    """A place an action would touch: its name, where it really is, and whether no rule at all can open it."""

    place: str
    path: str
    final: bool

    def named_by(self, rule_path: str) -> bool:
        """Whether a rule with this path names the place, or something in it, and not merely what lies around it."""
        named, place = fold(rule_path), fold(self.path)
        return named == place or named.startswith(f"{place}/")


class Protected:
    """The protected places of one workspace, by relative path, and byleave's own, by absolute path."""

    def __init__(self, inside: "Iterable[Protection]", outside: "Iterable[str]" = ()) -> None:
        self._inside = {fold(protection.path): protection for protection in sorted(inside, key=_final)}
        self._above = {ancestor: protection for path, protection in self._inside.items() for ancestor in _above(path)}
        self._outside = tuple(outside)

    def of(self, target: FsTarget, *, subtree: bool) -> Protection | None:
        """Return what protects `target`; with `subtree`, also what protects something below it."""
        for place in self._outside:
            if is_under(target.canonical, place) or (subtree and is_under(place, target.canonical)):
                return Protection(place, place, final=True)
        if target.relative is None:
            return None
        path = fold(target.relative)
        found = next((self._inside[name] for name in _upwards(path) if name in self._inside), None)
        below = self._above.get(path) if subtree else None
        return below if found is None or (below is not None and below.final) else found


def builtin_places() -> "Iterator[Protection]":
    """Yield every built-in place, each under its plain path."""
    for place in PROTECTED:
        yield Protection(place, place, final=False)
    for place in GUARDED:
        yield Protection(place, place, final=True)


def resolved_places(resolve: "Callable[[str], object]") -> list[Protection]:
    """Return every built-in place under its plain path, and under the one that it really leads to."""
    places = list(builtin_places())
    for place in list(places):
        found = resolve(place.path)
        if isinstance(found, FsTarget) and found.relative and found.relative != place.path:
            places.append(Protection(place.place, found.relative, place.final))
    return places


def _final(protection: Protection) -> bool:
    return protection.final


def _upwards(path: str) -> "Iterator[str]":
    while path:
        yield path
        path = path[: max(path.rfind("/"), 0)]


def _above(path: str) -> "Iterator[str]":
    """Yield every directory above the relative `path`, the workspace itself last."""
    while path:
        path = path[: max(path.rfind("/"), 0)]
        yield path
