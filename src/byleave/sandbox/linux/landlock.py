"""A plan held by Landlock and the filter of calls alone, where namespaces are not allowed. Pure.

Landlock only grants, and a grant reaches everything below. So a directory is granted what every place in it may do,
and the rest is granted to the names in it one by one, past those that may do less. Names that come into being directly
in such a directory have no grant: it is stricter than the policy there, and the plan says so. A few things Landlock
does not know of at all; they are laxer, and the plan says that too. Start at `obstacle`, then `hold`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from byleave.core.fs_rules import is_under
from byleave.sandbox.linux.program import IF_THERE, OTHER, step
from byleave.sandbox.linux.seccomp import FilterOptions, make_filter, make_shared_filter
from byleave.sandbox.linux.steps import (
    DEVICE_RIGHTS,
    DEVICES,
    FILE_RIGHTS,
    KINDS,
    SCOPES_SINCE,
    SYSTEM_LINK,
    Arrangement,
    grant_steps,
    limit_steps,
    rights_of,
)
from byleave.sandbox.plan.plan import (
    DIRECTORY,
    EVERYTHING,
    FILE,
    LINK,
    NO_NETWORK,
    PRIVATE,
    READING,
    Approximation,
    PathGrant,
    SandboxPlan,
    in_order,
    nested,
)
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from byleave.sandbox.linux.program import Step
    from byleave.sandbox.linux.steps import MachineFacts
    from byleave.sandbox.plan.filesystem_view import Look

    # The names in a directory, with their kinds; None if there are more than so many, or they cannot be listed.
    Names = Callable[[str, int], list[tuple[str, str]] | None]

MOST_NAMES = 4096  # in one directory that are granted one by one
NEEDED_VERSION = 3  # before it, every file of the user could be truncated
_KERNEL_FILES = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version")
_SETTINGS = (
    *("fs/aio-max-nr", "fs/epoll/max_user_watches", "fs/file-max", "fs/file-nr", "fs/inotify/max_user_instances"),
    *("fs/inotify/max_user_watches", "fs/nr_open", "fs/pipe-max-size", "kernel/cap_last_cap", "kernel/core_pattern"),
    *("kernel/domainname", "kernel/hostname", "kernel/ngroups_max", "kernel/osrelease", "kernel/ostype"),
    *("kernel/overflowgid", "kernel/overflowuid", "kernel/pid_max", "kernel/random/boot_id", "kernel/random/uuid"),
    *("kernel/sched_child_runs_first", "kernel/seccomp/actions_avail", "kernel/sem", "kernel/shmall", "kernel/shmmax"),
    *("kernel/threads-max", "kernel/version", "net/core/somaxconn", "net/ipv4/ip_local_port_range"),
    *("vm/max_map_count", "vm/mmap_min_addr", "vm/overcommit_memory", "vm/overcommit_ratio", "vm/swappiness"),
)
_LOST = {
    "execute": "Landlock grants no less than everything below it, so nothing new directly in it can be executed",
    "read": "Landlock grants no less than everything below it, and not all of that may be read: it cannot be listed",
    "create": "Landlock grants no less than everything below it, so no new names can be made directly in it",
    "delete": "Landlock grants no less than everything below it, so no names directly in it can be removed",
}


class ScratchPaths:
    """The names of two empty directories that stand for the private places, which there cannot be."""

    def __init__(self, base: str) -> None:
        self.temporary = f"{base}/tmp"  # noqa: S108 -- in a directory of our own
        self.home = f"{base}/home"


def obstacle(plan: SandboxPlan, host: MachineFacts) -> str | None:
    """Return why a plan cannot be held by Landlock and the filter alone; None if it can."""
    if host.landlock < NEEDED_VERSION:
        return f"version {NEEDED_VERSION} of Landlock is needed, and this kernel has " + (
            f"version {host.landlock}" if host.landlock else "none"
        )
    if plan.network != NO_NETWORK and not plan.reaches_nothing:
        return "the network rules need a network of the sandbox's own"
    if plan.commands is not None:
        return "a list of commands needs a view of the sandbox's own"
    shown = next((place for place in plan.places if place.source), None)
    if shown is not None:
        return "a place from outside cannot be shown under another name"
    return None


def command_obstacle(plan: SandboxPlan) -> str | None:
    """Return why the commands of agents are not held this way, where a tool would be; None if they are.

    A directory in which something may not be read cannot be listed either, and what is made in it has no rights: a
    tool was written for its access, and an agent's command would fail for no reason that it can see.
    """
    around: list[PathGrant] = []
    for place in plan.places:
        while around and not is_under(place.path, around[-1].path):
            around.pop()
        inside = is_under(place.path, plan.root) and place.path != plan.root
        if inside and "read" not in place.capabilities and any("read" in each.capabilities for each in around):
            name = quoted(_name(plan, place.path))
            return f"{name} may not be read, and Landlock alone cannot close it without the directory around it"
        around.append(place)
    return None


def reduced(plan: SandboxPlan, scratch: ScratchPaths) -> SandboxPlan:
    """Return the plan as far as there can be one without a view: no private places but two, no names that are held."""
    private = [place.path for place in plan.places if place.kind == PRIVATE]
    places = [place for place in plan.places if place.kind != PRIVATE]
    places.append(PathGrant(scratch.temporary, EVERYTHING, DIRECTORY, "TMPDIR, as there is no private /tmp"))
    if plan.home in private:
        places.append(PathGrant(scratch.home, EVERYTHING, DIRECTORY, "HOME, as there is no private one"))
    return structs.replace(plan, places=in_order(places), held=(), links=(), network=NO_NETWORK)


def hold(plan: SandboxPlan, host: MachineFacts, look: Look, names: Names) -> Arrangement:
    """Return the grants that hold a reduced plan, and what they cannot hold exactly."""
    return _Granter(plan, look, names).arrange([*_loadable(plan, look), *_always(plan, host)])


def hold_execution(plan: SandboxPlan, arrangement: Arrangement, look: Look, names: Names) -> Arrangement:
    """Return an arrangement whose grants hold what may be executed, where mounts cannot."""
    private = [place for place in plan.places if place.kind == PRIVATE]
    # What may not be read is covered; what is shown under another name is not found at its path.
    readable = [place for place in plan.places if place.kind != PRIVATE and "read" in place.capabilities]
    shown = [place for place in readable if not place.source]
    only = [structs.replace(place, capabilities=place.capabilities & _EXECUTE) for place in shown]
    found = _Granter(structs.replace(plan, places=tuple(only), approximate=()), look, names).arrange(
        _loadable(plan, look)
    )
    bit = rights_of(_EXECUTE, DIRECTORY)
    grants = {path: (rights & ~bit, kind) for path, rights, kind in arrangement.grants}
    elsewhere = [(place.path, bit, place.kind) for place in readable if place.source and place.capabilities >= _EXECUTE]
    for path, rights, kind in (*found.grants, *elsewhere, *_private_execution(private, shown)):
        grants[path] = (grants.get(path, (0, kind))[0] | rights, kind)
    return structs.replace(
        arrangement,
        grants=tuple((path, rights, kind) for path, (rights, kind) in grants.items()),
        approximate=tuple(dict.fromkeys([*arrangement.approximate, *found.approximate])),
    )


_EXECUTE = frozenset({"execute"})


def _loadable(plan: SandboxPlan, look: Look) -> Iterator[Approximation]:
    """Yield the outermost places whose files are no programs, which no grant says to the dynamic loader."""
    why = "what may be read can still be loaded as a library, or by the dynamic loader: only its start is refused"
    for place, around in nested([place for place in plan.places if place.kind != PRIVATE]):
        known = around is not None and _is_loadable(around)
        if _is_loadable(place) and not known and look(place.path) == place.kind:
            yield Approximation(_name(plan, place.path), "execute", why, laxer=True)


def _is_loadable(place: PathGrant) -> bool:
    return "read" in place.capabilities and "execute" not in place.capabilities


def _name(plan: SandboxPlan, path: str) -> str:
    return (path[len(plan.root) :].strip("/") or ".") if is_under(path, plan.root) else path


def _private_execution(private: Iterable[PathGrant], shown: list[PathGrant]) -> Iterator[tuple[str, int, str]]:
    """Yield the private places whose programs may be started, since nothing in them may not."""
    for place in private:
        inside = [other for other in shown if is_under(other.path, place.path)]
        if place.capabilities >= _EXECUTE and all(other.capabilities >= _EXECUTE for other in inside):
            yield place.path, rights_of(_EXECUTE, DIRECTORY), DIRECTORY


class _Granter:
    def __init__(self, plan: SandboxPlan, look: Look, names: Names) -> None:
        self._plan = plan
        self._look = look
        self._names = names
        # A link that must stay may be read, and no more: so nothing is removed from the directory that it is in.
        links = [PathGrant(path, READING, LINK, "a link that must stay") for path, _source in plan.kept_links]
        self._all = in_order([*plan.places, *links])
        self._places = {place.path: place for place in self._all}
        self._grants: dict[str, tuple[int, str]] = {}
        self._approximate = list(plan.approximate)

    def arrange(self, always: Iterable[Approximation]) -> Arrangement:
        for place in self._plan.places:
            self._grant_place(place)
        grants = tuple((path, rights, kind) for path, (rights, kind) in self._grants.items() if rights)
        self._approximate += always
        return Arrangement((), grants, (), executes=True, approximate=tuple(dict.fromkeys(self._approximate)))

    def _grant_place(self, place: PathGrant) -> None:
        kind = self._look(place.path)
        if kind != place.kind:
            self._note_missing(place)
        elif kind == FILE:
            self._grant(place.path, place.capabilities, FILE)
        else:
            self._descend(place.path, place.capabilities)

    def _descend(self, path: str, capabilities: frozenset[str]) -> None:
        """Grant to a directory what everything below may do, and the rest to the names in it."""
        common = capabilities.intersection(*[place.capabilities for place in self._below(path)])
        self._grant(path, common, DIRECTORY)
        rest = capabilities - common
        if not rest:
            return
        found = self._names(path, MOST_NAMES)
        for name, kind in found or ():
            below = f"{path.rstrip('/')}/{name}"
            if below in self._places:
                continue
            if kind == DIRECTORY and any(self._below(below)):
                self._descend(below, rest)
            elif kind in KINDS:
                self._grant(below, rest, kind)
        self._note_lost(path, rest, too_many=found is None)

    def _below(self, path: str) -> list[PathGrant]:
        return [place for place in self._all if place.path != path and is_under(place.path, path)]

    def _grant(self, path: str, capabilities: frozenset[str], kind: str) -> None:
        before = self._grants.get(path, (0, kind))[0]
        self._grants[path] = (before | rights_of(capabilities, kind), kind)

    def _note_lost(self, path: str, lost: frozenset[str], *, too_many: bool) -> None:
        for op in sorted(lost):
            if too_many:
                why = f"it cannot be granted name by name: it has more than {MOST_NAMES} names, or cannot be listed"
                self._approximate.append(Approximation(_name(self._plan, path), op, why))
            elif op in _LOST:
                self._approximate.append(Approximation(_name(self._plan, path), op, _LOST[op]))

    def _note_missing(self, place: PathGrant) -> None:
        why = "it is not there, and Landlock grants only what is: create it first"
        ops = sorted(place.capabilities) if "create" in place.capabilities else ()
        self._approximate.extend(Approximation(_name(self._plan, place.path), op, why) for op in ops)


def _always(plan: SandboxPlan, host: MachineFacts) -> Iterator[Approximation]:
    """Yield what differs from a sandbox with a view of its own, whatever the policy is."""
    why = "there is no private one: TMPDIR names a fresh directory, and nothing else there is granted"
    yield Approximation("/tmp", "any", why)  # noqa: S108 -- the name, not a file in it
    if plan.home:
        yield Approximation(plan.home, "any", "there is no empty one in its place: HOME names a fresh directory")
    yield Approximation("/dev/shm", "any", "it is the host's own, so nothing in it is granted")  # noqa: S108 -- the same
    yield Approximation("/proc", "read", "only the program itself can read its own entry, not what it starts")
    why = (
        "names, sizes and times outside can be seen, and permissions, times and attributes of your own files be changed"
    )
    yield Approximation("/", "metadata", why, laxer=True)
    why = "what the program leaves running is ended with it, but not if the launcher itself is killed"
    yield Approximation("processes", "outlive", why, laxer=True)
    if host.landlock < SCOPES_SINCE:
        why = "this version of Landlock does not keep signals from your other processes"
        yield Approximation("processes", "signal", why, laxer=True)
    if host.uid == 0:
        why = "root may start any number of processes where there is no namespace"
        yield Approximation("processes", "limit", why, laxer=True)
    else:
        yield Approximation(
            "processes", "limit", "the limit counts all processes of yours, not only those of the program"
        )


def steps(plan: SandboxPlan, arrangement: Arrangement, host: MachineFacts, look: Look) -> Iterator[Step]:
    """Yield every step but the last one, which names the program."""
    yield step("fork")
    yield step("spawn")
    yield from limit_steps(plan)
    yield step("drop")
    # Others go on meanwhile: a name that is gone when it is to be granted needs no grant.
    grants = {path: (rights, KINDS[kind] | IF_THERE) for path, rights, kind in arrangement.grants}
    grants |= {f"/dev/{name}": (DEVICE_RIGHTS & FILE_RIGHTS, OTHER) for name in DEVICES if look(f"/dev/{name}") == FILE}
    reading = rights_of(("read",), DIRECTORY)
    known = [f"/proc/{name}" for name in _KERNEL_FILES]
    grants |= {path: (reading & FILE_RIGHTS, OTHER) for path in known if look(path) == FILE}
    if host.uid:
        grants["/proc/sys"] = (reading, KINDS[DIRECTORY])
    else:  # root reads there what others may not
        settings = [f"/proc/sys/{name}" for name in _SETTINGS]
        grants |= {path: (reading & FILE_RIGHTS, OTHER) for path in settings if look(path) == FILE}
    grants["/proc/self"] = (reading, SYSTEM_LINK)
    yield from grant_steps(grants, host)
    yield step("seccomp", make_shared_filter(host.machine))
    yield step("seccomp", make_filter(host.machine, FilterOptions(sockets=False)))
