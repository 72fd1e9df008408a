"""Put a plan together: what the policy says of the workspace, the system's own view, what a program needs to start."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.access import NAMED, PUBLIC, Default
from byleave.core.action import FileAction
from byleave.core.closed_places import Covered
from byleave.core.command_rules import CommandTable
from byleave.core.decide import decide
from byleave.core.decision import ALLOW
from byleave.core.env_rules import EnvTable
from byleave.core.fs_rules import CAPABILITIES, WRITES, FsTarget, is_under
from byleave.core.place_access import closed_places
from byleave.errors import SandboxError
from byleave.sandbox import host
from byleave.sandbox.plan.closed_files import cover_closed, too_much, walk_ahead
from byleave.sandbox.plan.filesystem_view import Eyes, TooMuchToCoverError, find_places
from byleave.sandbox.plan.plan import (
    DIRECTORY,
    EVERYTHING,
    FILE,
    LINK,
    NO_NETWORK,
    NOTHING,
    PRIVATE,
    PROXY,
    READING,
    Held,
    Link,
    PathGrant,
    PlanRequest,
    SandboxPlan,
    in_order,
    nested,
    op_of,
    place_at,
)
from byleave.sandbox.plan.private_files import prefix_secrets, started_among, without_chosen
from byleave.sandbox.plan.protected_paths import ProtectedBelow, keep_protected, protected_below
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from byleave.core.access import Access
    from byleave.core.closed_places import ClosedPlaces
    from byleave.core.policy import CompiledPolicy
    from byleave.sandbox.plan.filesystem_view import FilesystemView
    from byleave.sandbox.plan.plan import AllowedPrograms, Approximation

_MOST_LINKS = 1000  # of one directory
_LONGEST_LOOK, _LONGEST_REHEARSAL = 0.2, 0.5  # seconds: at one directory, and at all of them
_PRIVATE = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 -- empty ones of the sandbox's own


class Seen(Struct, frozen=True):
    """What was looked at for a plan, so that a change is noticed before the next start."""

    kinds: dict[str, str | None]
    covered: tuple[tuple[ClosedPlaces, str, str, Covered], ...] = ()  # what was looked for, where, and found
    root: str = ""

    def still_holds(self) -> bool:
        """Whether everything is as it was."""
        if not host.all_look_like(self.kinds):
            return False
        return all(
            cover_closed(self.root, closed, start, named) == found for closed, start, named, found in self.covered
        )

    def has_no_link(self, root: str, path: str) -> bool:
        """Whether every name on the way to a relative path was seen, and none was a link."""
        while path:
            if self.kinds.get(f"{root}/{path}", LINK) == LINK:
                return False
            path = path.rpartition("/")[0]
        return True


def make_plan(
    policy: CompiledPolicy,
    request: PlanRequest,
    base: host.Base,
    program: str | None,
    search: str,
    *,
    held: Container[str] = (),
    trusted: Callable[[str], bool] | None = None,
    protected: Callable[[str], ProtectedBelow] = protected_below,
) -> tuple[SandboxPlan, Seen]:
    """Return the plan for a program, which may be None where only the plan is asked for, and what it rests on.

    Listed programs are only those that are `trusted`: no program inside can have put them there.

    What is `held` already, by whomever, counts as missing: it stands for a name that is kept free.
    """
    if request.root == "/":
        raise SandboxError(
            "the workspace is the whole file system, and a sandbox cannot keep that out",
            hint="give a directory with --root",
        )
    kinds: dict[str, str | None] = {}

    def look(path: str) -> str | None:
        if path not in kinds:
            kinds[path] = host.look(path)
        return None if path in held else kinds[path]

    noted = _Covering(request.root)
    eyes = Eyes(look, host.files_below, host.follow, protected=protected)
    found = _find(policy, request, eyes, noted)
    access = policy.tool(request.tool).access
    brought = list(_brought(request))
    kept = keep_protected(policy.protected, request)
    own = [*_private(request, found.places), *base.places, *_extra(request), *kept.lent]
    places = [*own, *found.places, *brought, *kept.brought]
    links = [*base.links, *extra_links(request), *_links_in_hollows(in_order(places))]
    names = [Held(place.path, b"" if place.kind == FILE else None) for place in brought if place.source]
    commands = access.commands if isinstance(access.commands, CommandTable) else None
    listed = _listed(commands, search, trusted)
    started = [*((program,) if program is not None else ()), *(path for _name, path in listed)]
    needed = _needed(started, search, request, places, links, writable=_writable(policy, request))
    places = [*needed.places, *places]
    places = [*places, *prefix_secrets(needed.places, request.home)]
    places = _uncovered(without_chosen(places, [*_extra(request), *found.places, *brought]), started, search)
    programs = None if commands is None else _programs(program, search, listed, (*base.places, *needed.places), places)
    elsewhere = _closed_elsewhere(policy, request, in_order(places), noted)
    plan = SandboxPlan(
        request.root,
        in_order([*places, *elsewhere, *_own(request, places)]),
        (*links, *needed.links),
        (*found.held, *names),
        network=_network(access),
        reaches_nothing=access.net is NAMED,
        variables=tuple(_variables(access)),
        commands=commands,
        limits=request.limits,
        home=request.home,
        approximate=(*found.approximate, *kept.approximate, *_approximations(programs, commands, request.root)),
        programs=programs,
        kept_links=(*((path, "") for path in found.links), *kept.links),
        session=request.session,
    )
    return plan, Seen(kinds, tuple(noted.found), request.root)


def rehearse_plan(policy: CompiledPolicy, tool: str, root: str) -> None:
    """Ask the policy what `make_plan` asks it, so that it knows the answers when they are needed.

    A name that is there now may be reserved by a sandbox that runs: so they are asked of an empty workspace as well.
    On a slow disk, less is looked at: requests wait for this.
    """
    if tool not in policy.views[0].tools:
        return
    end = monotonic() + _LONGEST_REHEARSAL

    def look_at_empty(path: str) -> str | None:
        return DIRECTORY if is_under(root, path) else None

    def ahead(closed: ClosedPlaces, start: str, named: str) -> None:
        walk_ahead(root, closed, start, named, min(_LONGEST_LOOK, end - monotonic()))

    def begin(closed: ClosedPlaces, start: str, named: str) -> Covered:
        ahead(closed, start, named)
        return Covered()

    for look in (host.look, look_at_empty):
        find_places(policy, tool, root, Eyes(look, _no_files, host.follow, begin))
    _closed, closing = _closing(policy, root, None)
    for path in host.SYSTEM:
        ahead(closing, path, path)


def _closing(policy: CompiledPolicy, root: str, agent: str | None) -> tuple[dict[str, ClosedPlaces], ClosedPlaces]:
    """Return the places that rules close to each capability, and those that they close to any."""
    closed = {name: closed_places(policy, (op_of(name),), root, agent) for name in CAPABILITIES}
    return closed, closed_places(policy, tuple(op_of(name) for name in CAPABILITIES), root, agent)


class _Covering:
    """Finds what exists of closed places, and notes what was looked for."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.found: list[tuple[ClosedPlaces, str, str, Covered]] = []

    def cover(self, closed: ClosedPlaces, start: str, named: str) -> Covered:
        """Return what exists of closed places below a directory, which has a name of its own in the view."""
        found = cover_closed(self._root, closed, start, named)
        self.found.append((closed, start, named, found))
        return found


def _find(policy: CompiledPolicy, request: PlanRequest, eyes: Eyes, noted: _Covering) -> FilesystemView:
    """Return the places of the workspace."""
    try:
        return find_places(
            policy, request.tool, request.root, structs.replace(eyes, covered=noted.cover), request.agent
        )
    except TooMuchToCoverError as error:
        raise too_much(request.root, error.closed, error.found, error.place, error.named) from None


def _closed_elsewhere(
    policy: CompiledPolicy, request: PlanRequest, places: Sequence[PathGrant], noted: _Covering
) -> Iterator[PathGrant]:
    """Yield what rules close outside of the workspace: by absolute paths, or by names that mounts have in it."""
    closed, closing = _closing(policy, request.root, request.agent)
    names = {each.target: each.name for each in request.brought}
    known = {place.path: place for place in places}
    for place in places if closing else ():
        if place.kind == PRIVATE or not place.capabilities or (is_under(place.path, request.root) and not place.source):
            continue
        start = place.source or place.path
        named = names.get(start, place.path)
        found = noted.cover(closing, start, named)
        if not found.complete:
            raise too_much(request.root, closing, found, start, named)
        for each in found.places:
            kept = [name for name in place.capabilities if closed[name].decision(each.place) is None]
            path, kind = f"{place.path}{each.path[len(named) :]}", DIRECTORY if each.place.directory else FILE
            if place_at(known, path) is not place or len(kept) == len(place.capabilities):
                continue  # what may be done there is said by another place, or is not less
            source = f"{start}{each.path[len(named) :]}" if place.source else ""
            yield PathGrant(path, frozenset(kept), kind, f"{each.rule.text} ({each.rule.source})", source)


def _uncovered(places: list[PathGrant], started: Sequence[str], search: str) -> list[PathGrant]:
    """Return the same places with the programs that are started in sight, also where other users may not read them."""
    hops = [hop for program in started for path in host.interpreters(program, search) for hop in host.hops(path)]
    return [*places, *started_among(places, hops)]


def make_reading_plan(
    policy: CompiledPolicy, request: PlanRequest, base: host.Base, program: str | None
) -> tuple[SandboxPlan, Seen]:
    """Return the plan for a program of ours that reads what the tool may read, and what the plan rests on.

    Nothing is written or executed but the program, no name is held, and of the system only programs and libraries are
    shown. A name that another sandbox reserves counts as what stands there: it is not reserved here.
    """
    kinds: dict[str, str | None] = {}

    def look(path: str) -> str | None:
        if path not in kinds:
            kinds[path] = host.look(path)
        return kinds[path]

    noted = _Covering(request.root)
    found = _find(policy, request, Eyes(look, _no_files, host.follow), noted)
    held = {each.path for each in found.held}
    readable = [_only_read(place) for place in found.places if place.path not in held]
    system = without_chosen((place for place in base.places if not is_under(place.path, "/etc")), found.places)
    shown = in_order([*system, *_only_program(program), *readable])
    places = in_order([*_news(shown), *_own(request, shown)])
    return SandboxPlan(request.root, places, base.links, limits=request.limits), Seen(
        kinds, tuple(noted.found), request.root
    )


def _no_files(_path: str, _most: int) -> list[str]:
    """Find nothing: files are made read-only one by one, and here all of them are."""
    return []


def _only_read(place: PathGrant) -> PathGrant:
    return structs.replace(place, capabilities=place.capabilities & {"read"})


def _only_program(program: str | None) -> Iterator[PathGrant]:
    if program is not None:
        yield PathGrant(os.path.realpath(program), READING, FILE, "the program itself")


def _news(places: Sequence[PathGrant]) -> Iterator[PathGrant]:
    """Yield the places that say something else than what lies around them: each is a mount."""
    for place, around in nested(places):
        if around is None or place.capabilities != around.capabilities:
            yield place


def _listed(
    commands: CommandTable | None, search: str, trusted: Callable[[str], bool] | None
) -> tuple[tuple[str, str], ...]:
    if commands is None:
        return ()
    from byleave.sandbox.programs import find_listed

    return find_listed(commands, search, trusted)


def _writable(policy: CompiledPolicy, request: PlanRequest) -> Callable[[str], bool]:
    """Return what says of a path whether some sandbox could have written it: this one, or that of another tool."""
    table = policy.tool(request.tool).access.fs
    rules = () if isinstance(table, Default) else table.rules
    mounted = [rule.approved_target for rule in rules if any(rule.grants(name) for name in WRITES)]
    brought = [each.target for each in request.brought if each.capabilities & WRITES]
    outside = [os.path.realpath(path) for path in (*request.write, *(path for path in mounted if path), *brought)]

    def writable(path: str) -> bool:
        if not is_under(path, request.root):
            return any(is_under(path, place) for place in outside)
        relative = path[len(request.root) :].strip("/")
        target = FsTarget(path, relative, directory=False)
        if policy.protected.of(target, subtree=False) is None:
            return True
        return decide(policy, FileAction("update", relative, request.tool), (target,)).decision is ALLOW

    return writable


def _needed(
    started: Sequence[str],
    search: str,
    request: PlanRequest,
    places: Sequence[PathGrant],
    links: Sequence[Link],
    *,
    writable: Callable[[str], bool],
) -> host.Needed:
    """Return what programs need to start, beside what is shown already."""
    found = host.Needed()
    for program in started:
        visible = [place.path for place in (*places, *found.places) if place.kind != PRIVATE and place.capabilities]
        visible += [link.path for link in (*links, *found.links)]
        kept_out = (request.root, *request.own_places)
        more = host.needs_of(program, search, visible, home=request.home, kept_out=kept_out, writable=writable)
        found = host.Needed((*found.places, *more.places), (*found.links, *more.links))
    return found


def _programs(
    program: str | None,
    search: str,
    listed: tuple[tuple[str, str], ...],
    readable: Sequence[PathGrant],
    places: Sequence[PathGrant],
) -> AllowedPrograms:
    """Return how only listed programs are started. Code is mapped from what is `readable`, unless it is written to."""
    from byleave.sandbox.programs import find_programs

    closed = {"/etc", *(place.path for place in places if place.capabilities & WRITES)}
    libraries = [place.path for place in readable if place.capabilities and place.path not in closed]
    return find_programs(program, search, listed, tuple(dict.fromkeys(libraries)))


def _approximations(
    programs: AllowedPrograms | None, commands: CommandTable | None, root: str
) -> Iterator[Approximation]:
    if programs is None or commands is None:
        return
    from byleave.sandbox.programs import approximations

    yield from approximations(programs, commands, root)


def _private(request: PlanRequest, workspace: Sequence[PathGrant]) -> Iterator[PathGrant]:
    """Yield the empty directories of the sandbox's own; the home directory too, unless it is part of the workspace."""
    home = (request.home,) if request.home.count("/") and request.home != "/" else ()
    for path in (*_PRIVATE, *home):
        if not any(is_under(path, place.path) for place in workspace if place.capabilities):
            yield PathGrant(path, EVERYTHING, PRIVATE, "private to the sandbox, and empty")


def _extra(request: PlanRequest) -> Iterator[PathGrant]:
    for key, paths, capabilities in (("read", request.read, READING), ("write", request.write, EVERYTHING)):
        for path in paths:
            real = os.path.realpath(path)
            kind = host.look(real)
            if kind is None or kind == LINK:
                continue  # not on this machine
            yield PathGrant(
                real, capabilities, DIRECTORY if kind == DIRECTORY else FILE, f"[sandbox] {key}: {quoted(path)}"
            )


def _brought(request: PlanRequest) -> Iterator[PathGrant]:
    """Yield what this run brings along; where a link leads there already, at its own path."""
    for each in request.brought:
        kind = DIRECTORY if host.look(each.target) == DIRECTORY else FILE
        linked = host.look(each.name) == LINK
        path, source = (each.target, "") if linked else (each.name, each.target)
        yield PathGrant(path, each.capabilities, kind, f"--mount {quoted(each.target)}", source)


def _links_in_hollows(places: Sequence[PathGrant]) -> Iterator[Link]:
    """Yield the links in directories that grant nothing themselves: by them people reach the places that do."""
    open_places = [place.path for place in places if place.capabilities and place.kind != PRIVATE]
    for place in places:
        if place.capabilities or place.kind != DIRECTORY:
            continue
        if any(is_under(path, place.path) for path in open_places):
            yield from host.links_in(place.path, _MOST_LINKS)


def extra_links(request: PlanRequest) -> Iterator[Link]:
    """Yield the links by which people name what is shown: the path itself, or a directory above it."""
    shown = (*request.read, *request.write)
    places = [request.root, *(os.path.realpath(path) for path in shown)]
    for path in shown:
        if host.look(path) == LINK:
            yield Link(path, os.path.realpath(path))
    above = dict.fromkeys(way for path in shown for way in _above(path))
    for way in above:
        inside = any(is_under(way, place) for place in places)  # there the link itself is seen
        if not inside and host.look(way) == LINK and os.path.realpath(os.path.dirname(way)) == os.path.dirname(way):
            yield Link(way, os.path.realpath(way))


def _above(path: str) -> Iterator[str]:
    """Yield the directories above a path that programs do not find among the system's own links."""
    way = os.path.dirname(path)
    while way.count("/") > 1:
        yield way
        way = os.path.dirname(way)


def _own(request: PlanRequest, places: Sequence[PathGrant]) -> Iterator[PathGrant]:
    """Yield byleave's own places, covered wherever something would show them. Files of the workspace have rules.

    What lies in a place that is covered needs no cover, and has no place where one could be put: a policy in
    /etc/byleave, which is covered as a whole.
    """
    around = [place for place in places if place.kind != PRIVATE]
    for path in sorted(request.own_places, key=len):
        kind = host.look(path)
        inside = is_under(path, request.root)
        if kind not in (DIRECTORY, FILE) or (inside and kind == FILE):
            continue
        nearest = max((place for place in around if is_under(path, place.path)), key=_depth, default=None)
        if nearest is not None and (nearest.capabilities or nearest.path == path):
            around.append(PathGrant(path, NOTHING, kind, "byleave's own files"))
            yield around[-1]


def _depth(place: PathGrant) -> int:
    return len(place.path)


def _network(access: Access) -> str:
    table = access.net
    if isinstance(table, Default):
        return PROXY if table in (PUBLIC, NAMED) else NO_NETWORK
    return PROXY if any(rule.allow for rule in table.rules) else NO_NETWORK


def _variables(access: Access) -> Iterator[str]:
    if isinstance(access.env, EnvTable):
        yield from (rule.name for rule in access.env.rules if rule.read)
