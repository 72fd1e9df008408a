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
    ".git/config.worktree",  # read like .git/config
    ".git/commondir",  # says where .git/config and .git/hooks are
    ".mcp.json",
    ".mcp-gateway-rules.json",
    ".claude",
    ".codex",
    ".gemini",
    ".cursor",
    ".opencode",
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
    """A place an action would touch: its name, where it really is, and whether no rule at all can open it.

    `path` is relative to the workspace, or absolute where the place lies outside.
    """

    place: str
    path: str
    final: bool

    def named_by(self, rule_path: str) -> bool:
        """Whether a rule with this path names the place, or something in it, and not merely what lies around it."""
        named = fold(rule_path)
        return any(is_under(named, fold(own)) for own in (self.place, self.path))


class Protected:
    """The protected places of one workspace, and byleave's own, by absolute path: nobody writes there."""

    def __init__(self, inside: "Iterable[Protection]", outside: "Iterable[str]" = ()) -> None:
        places = [*inside, *(Protection(place, place, final=True) for place in outside)]
        self._inside = _Index(place for place in places if not place.path.startswith("/"))
        self._outside = _Index(place for place in places if place.path.startswith("/"))

    def inside(self) -> "Iterator[Protection]":
        """Yield the places that lie in the workspace, each under every path that it has there."""
        return self._inside.places()

    def outside(self) -> "Iterator[Protection]":
        """Yield the places that are known by their absolute paths, byleave's own among them."""
        return self._outside.places()

    def of(self, target: FsTarget, *, subtree: bool) -> Protection | None:
        """Return what protects `target`; with `subtree`, also what protects something below it.

        A name above a protected place is protected too, unless it is a directory: as a file or as a link it would
        decide what the names below it mean, as a `.git` that says `gitdir: evil` does.
        """
        name = target.relative if target.relative is not None else target.door
        views = [(self._outside, fold(target.canonical).rstrip("/"))]
        if name is not None:
            views.append((self._inside, fold(name)))
        found = None
        for index, path in views:
            found = _strictest(found, index.over(path))
        if subtree or (found is None and not target.directory):
            for index, path in views:
                found = _strictest(found, index.below(path))
        return found


class _Index:
    """Places by folded path, and by every directory above them. The workspace, and the root of all, is ""."""

    def __init__(self, places: "Iterable[Protection]") -> None:
        # The final ones come last, and so replace others under the same name.
        self._at = {fold(place.path).rstrip("/"): place for place in sorted(places, key=_final)}
        self._above = {name: place for path, place in self._at.items() for name in _above(path)}

    def places(self) -> "Iterator[Protection]":
        """Yield every place once."""
        return iter(self._at.values())

    def over(self, path: str) -> Protection | None:
        """Return the place that `path` is or lies in; a final one if there are several."""
        places, found = self._at, None
        while True:
            place = places.get(path)
            if place is not None:
                found = _strictest(found, place)
            if not path:
                return found
            path = path[: max(path.rfind("/"), 0)]

    def below(self, path: str) -> Protection | None:
        """Return a place that lies below `path`; a final one if there are several."""
        return self._above.get(path)


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
        if isinstance(found, FsTarget):
            path = found.canonical if found.relative is None else found.relative
            if path not in ("", place.path):
                places.append(Protection(place.place, path, place.final))
    return places


def _final(protection: Protection) -> bool:
    return protection.final


def _strictest(one: Protection | None, other: Protection | None) -> Protection | None:
    if one is None or (other is not None and other.final and not one.final):
        return other
    return one


def _above(path: str) -> "Iterator[str]":
    """Yield everything above `path`, the workspace itself last."""
    while path:
        path = path[: max(path.rfind("/"), 0)]
        yield path
