"""From a compiled policy to the places of a sandbox. Pure: `look` says what is there, `decide` says what is allowed.

A policy changes its answer only at certain paths: those that rules name, protected places, and what lies above them.
Each is decided by the same `decide` that answers `byleave check`, for every capability (`core.place_access`): the
kernel enforces what `check` answers. Start at `find_places`.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.closed_places import ClosedPlaces, Covered
from byleave.core.decision import ALLOW
from byleave.core.fs_rules import WRITES, FsTable, FsTarget, is_under
from byleave.core.matchers import All, AnyOf, Not, PathMatcher
from byleave.core.patterns import ANY_DEPTH, is_literal
from byleave.core.place_access import PlaceAccess, closed_places
from byleave.core.protected import LED_TO, OWN_CODE
from byleave.sandbox.plan.plan import (
    DIRECTORY,
    FILE,
    LINK,
    MISSING,
    NOTHING,
    Approximation,
    Held,
    PathGrant,
    in_order,
    nested,
    op_of,
)
from byleave.sandbox.plan.protected_paths import ProtectedBelow
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from byleave.core.decision import Decision
    from byleave.core.fs_rules import FsRule
    from byleave.core.matchers import Matcher
    from byleave.core.policy import CompiledPolicy

    # What is at an absolute path: DIRECTORY, FILE, LINK, or None if nothing is.
    Look = Callable[[str], str | None]
    Files = Callable[[str, int], list[str] | None]

MOST_PINNED = 256  # files that are made read-only one by one, where new ones may be created but none changed
_INSIDE = "byleave-any-name"  # stands for whatever lies in a directory
# What a held name inside `.git` must say so that git, here and outside, goes on as if it were not there.
_CONTENTS = {"commondir": b".\n", "hooks": None}
_NOT_HELD = (
    "a protected name that does not exist yet is held in the root of the workspace and in its repositories only: "
    "`byleave check` and every integration hold to it, the kernel does not"
)
_NOT_FOUND = "there are too many files to look for every protected name that exists: those that lie deep are not held"


class TooMuchToCoverError(Exception):
    """There is too much to find, or to cover, everything that rules close at a place; `found` is what was found."""

    def __init__(self, closed: ClosedPlaces, found: Covered, place: str, named: str) -> None:
        super().__init__(place)
        self.closed = closed
        self.found = found
        self.place = place
        self.named = named


class FilesystemView(Struct, frozen=True):
    """The places of a workspace, the names that must be held, what cannot be said exactly, and links that must stay."""

    places: tuple[PathGrant, ...]
    held: tuple[Held, ...]
    approximate: tuple[Approximation, ...]
    links: tuple[str, ...] = ()


def _nothing_covered(_closed: ClosedPlaces, _start: str, _named: str) -> Covered:
    return Covered()


def _nothing_below(_directory: str) -> ProtectedBelow:
    return ProtectedBelow()


class Eyes(Struct, frozen=True):
    """What looks at the disk: what is at a path, the files below one, and where a link leads (None: nowhere).

    `covered` finds what exists of closed places below a directory, which has a name of its own in the workspace.
    `protected` finds the protected names that exist below a directory.
    """

    look: Look
    files: Files
    follow: Callable[[str], str | None]
    covered: Callable[[ClosedPlaces, str, str], Covered] = _nothing_covered
    protected: Callable[[str], ProtectedBelow] = _nothing_below


def find_places(policy: CompiledPolicy, tool: str, root: str, eyes: Eyes, agent: str | None = None) -> FilesystemView:
    """Return what `tool` may touch in the workspace at `root` and through its approved ways out."""
    return _View(policy, tool, root, eyes, agent).find()


class _View:
    def __init__(self, policy: CompiledPolicy, tool: str, root: str, eyes: Eyes, agent: str | None) -> None:
        self._policy = policy
        self._tool = tool
        self._agent = agent
        self._access = PlaceAccess(policy, tool, agent)
        self._root = root
        self._look = eyes.look
        self._files = eyes.files
        self._follow = eyes.follow
        self._covered = eyes.covered
        self._below = eyes.protected
        self._own_code = {place.path for place in policy.protected.inside() if place.name == OWN_CODE}
        self._doors = {rule.path: rule for rule in _rules(policy, tool) if rule.approved_target and not rule.dropped}
        self._held: dict[str, Held] = {}
        self._links: dict[str, None] = {}
        self._ways: set[str] = set()  # names of links, perhaps, that decide where something is that is spoken of
        self._approximate: list[Approximation] = []

    def find(self) -> FilesystemView:
        named = set(self._named())
        above = {above for name in named for above in _with_parents(name)}
        spoken = [path for rule in _rules(self._policy, self._tool) for path in rule.written]
        written = {way for path in (*spoken, *_directories(self._policy)) for way in _upwards(path)}
        self._ways = written | (above - named)
        for way in sorted(written - above):
            if self._look(f"{self._root}/{way}") == LINK:
                self._keep_link(f"{self._root}/{way}")
        names = sorted({*above, ""})
        granted = in_order(place for name in names for place in self._grants_at(name))
        places = in_order(place for place, around in nested(granted) for place in self._kept(place, around))
        places = in_order([*places, *self._pinned(places)])
        held = [self._held[path] for path in sorted(self._held)]
        return FilesystemView(places, tuple(held), tuple(dict.fromkeys(self._approximate)), tuple(self._links))

    def _named(self) -> Iterator[str]:
        """Yield every relative path at which the answer may change."""
        for rule in _rules(self._policy, self._tool):
            yield rule.path
        for place in self._policy.protected.inside():
            if place.name != LED_TO or self._look(f"{self._root}/{place.path}") is not None:
                yield place.path
        for place in self._policy.protected.outside():  # byleave's own may lie in the workspace, there or not yet
            if place.path.startswith(f"{self._root}/"):
                yield place.path[len(self._root) + 1 :]
        yield from self._ruled()
        yield from self._protected_below()

    def _ruled(self) -> Iterator[str]:
        """Yield the paths at which the ordered rules may change the answer: those they name, and those that exist."""
        closes = False
        for outcome, text, literal in _patterns(self._policy):
            if literal is not None:
                yield literal
            elif outcome is ALLOW:
                why = "a pattern opens it, and it lies in a directory that a later rule closes: all of it stays closed"
                self._approximate.append(Approximation(text, "any", why))
            else:
                why = "what matches when the sandbox starts is covered; what comes to match while it runs is not"
                self._approximate.append(Approximation(text, "any", why, laxer=True))
            closes = closes or outcome is not ALLOW
        if closes:
            yield from self._closed(("read",), essential=True)
            yield from self._closed(("create", "update", "delete", "exec"), essential=False)

    def _closed(self, ops: tuple[str, ...], *, essential: bool) -> Iterator[str]:
        """Yield what exists of the places that rules close to some operations; all of it where that is `essential`."""
        closed = closed_places(self._policy, ops, self._root, self._agent)
        starts = [("", self._root), *((rule.path, rule.approved_target or "") for rule in self._doors.values())]
        for name, place in starts if closed else ():
            named = f"{self._root}/{name}".rstrip("/")
            found = self._covered(closed, place, named)
            yield from ("" if each.name == "." else each.name for each in found.places)
            if found.complete:
                continue
            if essential:
                raise TooMuchToCoverError(closed, found, place, named)
            for rule in closed.rules:
                why = "there is too much here to find everything that the pattern matches"
                self._approximate.append(Approximation(shown(rule.text), "any", why, laxer=True))

    def _protected_below(self) -> Iterator[str]:
        """Yield the protected names that exist at any depth, if something may be written at all."""
        table = self._policy.tool(self._tool).access.fs
        rules = table.rules if isinstance(table, FsTable) else ()
        if isinstance(table, FsTable) and not any(rule.grants(name) for rule in rules for name in WRITES):
            return
        found = self._below(self._root)
        yield from found.names
        for name, rule in self._doors.items():
            if any(rule.grants(each) for each in WRITES):
                yield from (f"{name}/{below}" for below in self._below(rule.approved_target or "").names)
        self._approximate.append(Approximation("**", "create", _NOT_HELD, laxer=True))
        if not found.complete:
            self._approximate.append(Approximation("**", "any", _NOT_FOUND, laxer=True))

    def _grants_at(self, name: str) -> Iterator[PathGrant]:
        path, mount_name = self._locate(name)
        kind = self._look(path)
        if kind == LINK:
            if name not in self._doors:
                yield from self._linked(name, path, mount_name)
            return
        if kind is None and not self._may_come(path):
            return
        if mount_name is None and self._outside(path):
            return
        given, because = self._access.at(self._target(path, mount_name, kind))
        yield PathGrant(path, given, MISSING if kind is None else kind, f"{because.rule} ({because.source})")

    def _locate(self, name: str) -> tuple[str, str | None]:
        """Return where a name of the workspace is, and the name itself if that is outside."""
        for above in _upwards(name):
            rule = self._doors.get(above)
            if rule is not None:
                return f"{rule.approved_target}{name[len(above) :]}", name
        return (f"{self._root}/{name}" if name else self._root), None

    def _outside(self, path: str) -> bool:
        """Whether a name leads through a link: then it is no place of its own."""
        relative = path[len(self._root) :].strip("/")
        parts = relative.split("/")[:-1]
        return any(self._look(f"{self._root}/{'/'.join(parts[: n + 1])}") == LINK for n in range(len(parts)))

    def _may_come(self, path: str) -> bool:
        """Whether a missing name could come into being: what lies above it is a directory, or missing as well."""
        above = path.rpartition("/")[0] or "/"
        kind = self._look(above)
        return kind == DIRECTORY or (kind is None and self._may_come(above))

    def _target(self, path: str, mount_name: str | None, kind: str | None) -> FsTarget:
        """Return a place as it is decided about; for a directory, what may come to lie in it."""
        relative = None if mount_name is not None else path[len(self._root) :].strip("/")
        if kind == DIRECTORY:  # what may be done in it; the directory itself cannot go, being a place
            path = f"{path}/{_INSIDE}"
            relative = relative if relative is None else f"{relative}/{_INSIDE}".lstrip("/")
            mount_name = mount_name if mount_name is None else f"{mount_name}/{_INSIDE}"
        return FsTarget(path, relative, mount_name, exists=kind == FILE, directory=False)

    def _kept(self, place: PathGrant, around: PathGrant | None) -> Iterator[PathGrant]:
        """Leave out what says nothing new; hold missing names that must not come into being."""
        if around is not None and place.capabilities == around.capabilities:
            return
        if place.kind != MISSING:
            yield place
            return
        outer = around.capabilities if around is not None else NOTHING
        grows = "create" in place.capabilities and "create" not in outer
        if "create" not in outer and not grows:
            return
        if not is_under(place.path, self._root):
            why = "it does not exist yet, and names are held in the workspace only, not in what is mounted"
            self._approximate.append(Approximation(place.path, "any", why, laxer=not grows))
            return
        name = place.path.rpartition("/")[2]
        if grows and "." in name.lstrip("."):
            why = "it does not exist yet, and the kernel opens directories, not names: create it first"
            self._approximate.extend(
                Approximation(self._name(place.path), op_of(each), why) for each in sorted(place.capabilities)
            )
            return
        self._hold(place.path)
        content = self._held[place.path].content
        closed = "create" not in place.capabilities
        if closed and self._access.gives("create", self._target(place.path, None, DIRECTORY)):
            why = "it does not exist yet, and something in it is protected: all of it is kept free"
            self._approximate.append(Approximation(self._name(place.path), "create", why))
        if place.capabilities - outer or grows:
            why = "it does not exist yet: an empty directory holds its place while the sandbox runs"
            self._approximate.append(Approximation(self._name(place.path), "create", why))
        yield structs.replace(place, kind=DIRECTORY if content is None else FILE)

    def _hold(self, path: str) -> None:
        above = path.rpartition("/")[0]
        if above not in self._held and self._look(above) is None:
            self._hold(above)
            why = "it does not exist yet: an empty directory is made ready, since something in it must not be created"
            self._approximate.append(Approximation(self._name(above), "create", why))
        relative = self._name(path)
        inside_git = "/.git/" in f"/{relative}"
        content = _CONTENTS.get(relative.rpartition("/")[2], b"") if inside_git else None
        self._held.setdefault(path, Held(path, content))

    def _pinned(self, places: Iterable[PathGrant]) -> Iterator[PathGrant]:
        """Yield what exists where only new files may be written, as places of their own that cannot be changed."""
        known = list(places)
        for place in known:
            given = place.capabilities
            if place.kind != DIRECTORY or "create" not in given or "update" in given:
                continue
            found = self._files(place.path, MOST_PINNED)
            if found is None:
                why = f"there are more than {MOST_PINNED} files here, too many to make each of them read-only"
                self._approximate.append(Approximation(self._name(place.path), "update", why, laxer=True))
                continue
            deeper = [other.path for other in known if other is not place and is_under(other.path, place.path)]
            for path in found:
                if any(is_under(path, other) for other in deeper):
                    continue
                yield PathGrant(path, given - {"create", "update", "delete"}, FILE, place.why)
                if "delete" in given:
                    why = "it is kept from being changed by a mount, and what is mounted cannot be removed"
                    self._approximate.append(Approximation(self._name(path), "delete", why))

    def _linked(self, name: str, path: str, mount_name: str | None) -> Iterator[PathGrant]:
        """Keep a link if its name may not be written, or if it is on the way to a name that something is said of.

        A program that replaces it chooses what is protected or closed at the next start. One that leads out of the
        workspace, or nowhere, is covered: what it leads to is not there.
        """
        if mount_name is None and self._outside(path):
            self._keep_link(path)
        elif mount_name is None and name not in self._own_code and not self._leads_inside(path):
            yield PathGrant(path, NOTHING, FILE, "a link that leads out of the workspace, or nowhere")
        else:
            target = self._target(path, mount_name, FILE)
            if name in self._ways or not all(self._access.gives(each, target) for each in WRITES):
                self._keep_link(path)

    def _keep_link(self, path: str) -> None:
        """Keep a link where it is: of one behind another link, at its own place, if that is in the workspace."""
        above, _, name = path.rpartition("/")
        real = self._follow(above) if is_under(above, self._root) and above != self._root else above
        if real is not None and (real == above or is_under(real, self._root)):
            self._links[f"{real}/{name}"] = None

    def _leads_inside(self, path: str) -> bool:
        target = self._follow(path)
        return target is not None and is_under(target, self._root)

    def _name(self, path: str) -> str:
        return path[len(self._root) :].strip("/") if is_under(path, self._root) else path


def _rules(policy: CompiledPolicy, tool: str) -> Iterator[FsRule]:
    for view in policy.views:
        known = view.tools.get(tool)
        if known is not None and isinstance(known.access.fs, FsTable):
            yield from known.access.fs.rules


def _patterns(policy: CompiledPolicy) -> Iterator[tuple[Decision, str, str | None]]:
    """Yield each path pattern of the ordered rules, with its outcome and the place it names if it names one.

    A pattern that opens something counts only in front of one that closes something.
    """
    for table in policy.rule_tables():
        closing = [number for number, rule in enumerate(table.rules) if rule.outcome is not ALLOW]
        for number, rule in enumerate(table.rules):
            for pattern in _path_matchers(rule.matcher):
                names = pattern.glob.names[:-1] if pattern.glob.names[-1:] == (ANY_DEPTH,) else pattern.glob.names
                named = not pattern.absolute and pattern.glob.literal == "/".join(names)
                if named or rule.outcome is not ALLOW or number < max(closing, default=0):
                    yield rule.outcome, shown(pattern.glob.text), pattern.glob.literal if named else None


def _directories(policy: CompiledPolicy) -> Iterator[str]:
    """Yield the directories of the workspace in front of patterns that close something: `vault` of `vault/**/*.key`."""
    for table in policy.rule_tables():
        for rule in table.rules:
            for pattern in _path_matchers(rule.matcher) if rule.outcome is not ALLOW else ():
                if not pattern.absolute:
                    yield "/".join(takewhile(is_literal, pattern.glob.text.split("/")))


def _path_matchers(matcher: Matcher) -> Iterator[PathMatcher]:
    if isinstance(matcher, PathMatcher):
        yield matcher
    elif isinstance(matcher, All | AnyOf):
        for each in matcher.matchers:
            yield from _path_matchers(each)
    elif isinstance(matcher, Not):
        yield from _path_matchers(matcher.matcher)


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition("/")[0]


def _upwards(name: str) -> Iterator[str]:
    """Yield a relative name and everything above it, without the workspace itself."""
    yield from _with_parents(name)
