"""From a plan to the steps of the launcher: mounts, Landlock rules, limits. Pure.

Two mechanisms hold a place. Landlock only grants, and a grant reaches everything below; mounts take away: read-only,
noexec, or covered by something empty. So a place that may do less than what lies around it is a mount of its own, and
every directory above it as well, or renaming that directory would leave the mount behind. Where even both together
cannot say it, the place may do less than the policy allows, and the plan says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import WRITES, is_under
from byleave.sandbox.linux.program import DIRECTORY as A_DIRECTORY
from byleave.sandbox.linux.program import ITSELF, LINKED, OTHER, step
from byleave.sandbox.plan.plan import DIRECTORY, FILE, LINK, NOTHING, PRIVATE, PROXY, Approximation, op_of
from byleave.sandbox.plan.private_files import NOT_FOR_EVERY_USER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from byleave.sandbox.linux.program import Step
    from byleave.sandbox.plan.plan import Link, PathGrant, SandboxPlan

# Mount attributes of mount_setattr(2).
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
# Rights of Landlock, in the order of their bits.
RIGHTS = (
    "execute",
    "write_file",
    "read_file",
    "read_dir",
    "remove_dir",
    "remove_file",
    "make_char",
    "make_dir",
    "make_reg",
    "make_sock",
    "make_fifo",
    "make_block",
    "make_sym",
    "refer",
    "truncate",
    "ioctl_dev",
)
_BITS = {name: 1 << place for place, name in enumerate(RIGHTS)}
_RIGHTS_OF = {
    "read": ("read_file", "read_dir"),
    "create": ("make_dir", "make_reg", "make_sock", "make_fifo", "make_sym", "refer", "write_file", "truncate"),
    "update": ("write_file", "truncate"),
    "delete": ("remove_dir", "remove_file", "refer"),
    "execute": ("execute",),
}
FILE_RIGHTS = sum(_BITS[name] for name in ("execute", "write_file", "read_file", "truncate", "ioctl_dev"))
DEVICE_RIGHTS = FILE_RIGHTS & ~_BITS["execute"] | _BITS["read_dir"]
# How much of each structure a version of Landlock knows: (rights on files, on the network, scopes, size).
_CONNECT_TCP, _BIND_TCP = 2, 1
_VERSIONS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NET_SINCE, SCOPES_SINCE = 4, 6
_ALL_SCOPES = 3  # abstract unix sockets, signals

COVER_DIRECTORY, COVER_FILE, EMPTY_DIRECTORY = "/.byleave/void", "/.byleave/blank", "/.byleave/empty"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
    ("core", "/proc/kcore"),
)
_NAMESPACES = 0x7E020000  # user, mount, net, ipc, pid, uts, cgroup
_NET_NAMESPACE = 0x40000000
_HOLDER_NAMESPACES = 0x50020000  # user, mount, net
SESSION_DIRECTORY = "/tmp"  # noqa: S108 -- what the runs of an agent session share
PROXY_PORT = 3128
NOTES_SINCE = (5, 19)  # since then signals do not interrupt a call that is being looked at
_RLIMITS = {"core": 4, "file_size": 1, "memory": 2, "processes": 6, "open_files": 7}  # RLIMIT_DATA is the memory
_OWN_PID_MAX = (6, 14)  # since then the setting belongs to a namespace; before, it was the whole machine's
_RESERVED_PIDS = 302  # numbers that are not given out twice, and a few of our own
USUAL_PROCESSES = 2048  # a fork bomb ends in the sandbox, also without a configured limit
_STAGING = ("/mnt", "/run", "/tmp", "/srv", "/media", "/opt", "/var")  # noqa: S108 -- a directory to mount on
SHARED_DIRECTORIES = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 -- of the sandbox alone; all write there


class MachineFacts(Struct, frozen=True):
    """What this machine offers: its kind, its version of Landlock, who we are, and where a view can be built."""

    machine: str
    landlock: int
    namespaces: bool
    uid: int
    gid: int
    release: tuple[int, int] = (0, 0)  # of the kernel
    directories: tuple[str, ...] = _STAGING
    kernel_secrets: tuple[tuple[str, str], ...] = ()  # what is covered in /proc, and its kind


class ViewMount(Struct, frozen=True):
    """One mount of the view. `cover` replaces what is there; without it the host's own place is shown."""

    path: str
    kind: str
    attributes: int
    cover: str | None = None
    hollow: bool = False  # an empty directory in which deeper places are shown
    source: str = ""  # what is shown, if it is not what the host has at that path
    held: bool = False  # whether it stands for a name that must not come into being
    content: bytes = b""  # of the file that holds the name, if it is one
    passing: bool = False  # a file of the system's that may be gone before it is covered, and then needs no cover

    @property
    def is_mask(self) -> bool:
        """Whether no program can look into it."""
        return self.hollow or self.cover in (COVER_DIRECTORY, COVER_FILE)


class Arrangement(Struct, frozen=True):
    """How the places of a plan are held."""

    mounts: tuple[ViewMount, ...]
    grants: tuple[tuple[str, int, str], ...]  # path, rights, kind of place
    private: tuple[str, ...]
    executes: bool  # whether private places may hold programs
    approximate: tuple[Approximation, ...]

    @property
    def covered(self) -> tuple[str, ...]:
        """The paths that no program can look into."""
        return tuple(mount.path for mount in self.mounts if mount.is_mask)


class _Level(Struct, frozen=True):
    """A place on the way down: what Landlock grants here by now, and the mount that it lies in."""

    path: str
    granted: frozenset[str]
    attributes: int
    bound: bool  # whether the mount shows the host's files; otherwise it is ours, and names in it must be made


_TOP = _Level("/", NOTHING, NOSUID | NODEV, bound=False)


def arrange(plan: SandboxPlan) -> Arrangement:
    """Return the mounts and grants that hold a plan, and what they cannot hold exactly."""
    return _Arranger(plan).arrange()


class _Arranger:
    def __init__(self, plan: SandboxPlan) -> None:
        self._plan = plan
        self._mounts: dict[str, ViewMount] = {}
        self._grants: dict[str, tuple[int, str]] = {}
        self._private: list[str] = []
        self._levels: dict[str, _Level] = {}
        self._above_open = {above for place in plan.places if place.capabilities for above in _upwards(place.path)}
        self._approximate = list(plan.approximate)
        self._held = {held.path: held.content or b"" for held in plan.held}

    def arrange(self) -> Arrangement:
        levels = [_TOP]
        executes = any(
            "execute" in place.capabilities and is_under(place.path, self._plan.root) for place in self._plan.places
        )
        for place in self._plan.places:
            while not is_under(place.path, levels[-1].path):
                levels.pop()
            levels.append(self._level(place, levels[-1]))
            self._levels[place.path] = levels[-1]
        for link, source in self._plan.kept_links:
            self._keep_link(link, source)
        self._note_limits()
        return Arrangement(
            tuple(self._mounts[path] for path in sorted(self._mounts, key=_names)),
            tuple((path, rights, kind) for path, (rights, kind) in self._grants.items()),
            tuple(self._private),
            executes,
            tuple(dict.fromkeys(self._approximate)),
        )

    def _level(self, place: PathGrant, around: _Level) -> _Level:
        if place.kind == PRIVATE:
            return self._make_private(place, around)
        granted, held = place.capabilities, around.granted
        if not granted or ("read" in held and "read" not in granted):
            return self._cover(place, around)
        writes, outer = granted & WRITES, held & WRITES
        attributes = NOSUID | NODEV
        if not writes or not outer <= writes:
            attributes |= RDONLY
            self._note(
                place, writes, "it may be changed less than what lies around it, so the kernel keeps it unchanged"
            )
        if "execute" not in granted:
            attributes |= NOEXEC
        if not around.bound or attributes != around.attributes or place.source:
            self._show(place, around, attributes)
        effective = granted if not attributes & RDONLY else granted - WRITES
        if effective - held:
            self._grants[place.path] = (rights_of(effective, place.kind), place.kind)
        self._note_partial(place, effective)
        return _Level(place.path, held | effective, attributes, bound=True)

    def _show(self, place: PathGrant, around: _Level, attributes: int) -> None:
        self._pin(place.path, around)
        empty = place.kind == DIRECTORY and attributes & RDONLY and place.path in self._held and not place.source
        cover = EMPTY_DIRECTORY if empty else None
        attributes |= NOEXEC if empty else 0
        held = place.path in self._held and not place.source and not place.capabilities & WRITES
        self._mounts[place.path] = ViewMount(
            place.path,
            place.kind,
            attributes,
            cover,
            source=place.source,
            held=held,
            content=self._held[place.path] if held else b"",
        )
        if place.kind == FILE and "delete" in place.capabilities:
            why = "it is a mount of its own, and what is mounted can be neither removed nor replaced"
            self._approximate.append(Approximation(self._name(place.path), "delete", why))

    def _cover(self, place: PathGrant, around: _Level) -> _Level:
        self._note(place, place.capabilities, "it may not be read while what lies around it may, so it is covered")
        self._pin(place.path, around)
        # The program has to be able to stand at the root.
        hollow = place.path == self._plan.root or place.path in self._above_open
        attributes = NOSUID | NODEV | NOEXEC | RDONLY
        if hollow:
            self._mounts[place.path] = ViewMount(place.path, place.kind, attributes, hollow=True)
        else:
            cover = COVER_FILE if place.kind == FILE else COVER_DIRECTORY
            held = place.path in self._held
            passing = place.why == NOT_FOR_EVERY_USER
            self._mounts[place.path] = ViewMount(place.path, place.kind, attributes, cover, held=held, passing=passing)
        return _Level(place.path, around.granted, attributes, bound=False)

    def _keep_link(self, path: str, source: str) -> None:
        """Mount a link upon itself, where it could be removed or replaced otherwise: it leads where it led."""
        around = next((self._levels[above] for above in _upwards(path) if above in self._levels), _TOP)
        if around.bound and not around.attributes & RDONLY:
            self._pin(path, around)
            self._mounts[path] = ViewMount(path, LINK, NOSUID | NODEV | NOEXEC | RDONLY, source=source)

    def _make_private(self, place: PathGrant, around: _Level) -> _Level:
        """Make an empty directory of the sandbox's own, unless the host's place is shown around it."""
        if around.bound:
            return _Level(place.path, around.granted, around.attributes, around.bound)
        self._private.append(place.path)
        if any(_needs_landlock(other) for other in self._plan.places if is_under(other.path, place.path)):
            return _Level(place.path, around.granted, around.attributes, bound=False)
        self._grants[place.path] = (rights_of(place.capabilities, DIRECTORY), DIRECTORY)
        return _Level(place.path, around.granted | place.capabilities, around.attributes, bound=False)

    def _pin(self, path: str, around: _Level) -> None:
        """Make a mount of every directory between a mount and the one around it, so that none can be renamed."""
        if not around.bound or around.attributes & RDONLY:
            return
        for above in _between(around.path, path):
            self._mounts.setdefault(above, ViewMount(above, DIRECTORY, around.attributes))

    def _note(self, place: PathGrant, lost: Iterable[str], why: str) -> None:
        self._approximate.extend(Approximation(self._name(place.path), op_of(name), why) for name in sorted(lost))

    def _note_partial(self, place: PathGrant, effective: frozenset[str]) -> None:
        """Where something may be written but not all, Landlock distinguishes files only in part."""
        if "execute" in effective and "read" not in effective:
            why = "the kernel reads what it executes, so nothing is executed here"
            self._approximate.append(Approximation(self._name(place.path), "exec", why))
        writes = effective & WRITES
        if not writes or "update" in effective:
            return
        why = "times and permissions of what exists can still be changed; its content cannot"
        self._approximate.append(Approximation(self._name(place.path), "metadata", why, laxer=True))

    def _note_limits(self) -> None:
        if self._plan.limits.memory is not None:
            why = "it holds for each process; memory that processes share, and files in memory, are not counted"
            self._approximate.append(Approximation(".", "memory", why, laxer=True))

    def _name(self, path: str) -> str:
        root = self._plan.root
        return (path[len(root) :].strip("/") or ".") if is_under(path, root) else path


def _needs_landlock(place: PathGrant) -> bool:
    """Whether mounts alone cannot say what a place may do, so that nothing around it may grant more."""
    writes = place.capabilities & WRITES
    return bool(writes) and (writes != WRITES or "read" not in place.capabilities)


def rights_of(capabilities: Iterable[str], kind: str) -> int:
    """Return Landlock's rights for what may be done at a place of a kind."""
    rights = 0
    for capability in capabilities:
        for name in _RIGHTS_OF[capability]:
            rights |= _BITS[name]
    return rights & FILE_RIGHTS if kind == FILE else rights


def _between(outer: str, inner: str) -> Iterator[str]:
    """Yield the directories strictly between two paths, the outer ones first."""
    at = inner.find("/", len(outer.rstrip("/")) + 1)
    while at >= 0:
        yield inner[:at]
        at = inner.find("/", at + 1)


def _upwards(path: str) -> Iterator[str]:
    """Yield what lies around a path, the innermost first, without the root of all."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _names(path: str) -> list[str]:
    return path.strip("/").split("/")


class LaunchedProgram(Struct, frozen=True):
    """What is started: its path, its working directory, its words and its environment."""

    path: str
    directory: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


def traced_steps(steps: Iterable[Step], calls: bytes, stopping: bytes) -> Iterator[Step]:
    """Yield the same steps for a program that is traced: which calls are looked at, and what stops it there."""
    for each in steps:
        if each[0] == "spawn":
            yield step("trace", calls)
        yield each
    yield step("seccomp", stopping)


def view_steps(plan: SandboxPlan, arrangement: Arrangement, host: MachineFacts, filtering: bytes) -> list[Step]:
    """Return every step but the last one, which names the program."""
    return [*outer_steps(plan, arrangement, host), *program_steps(plan, arrangement, host, filtering)]


def noted_steps(steps: Iterable[Step], root: str, noting: bytes) -> Iterator[Step]:
    """Yield the same steps for a program whose vain attempts to write in the workspace are noted."""
    for each in steps:
        if each[0] == "spawn":
            yield step("notes", root)
        elif each[0] == "seccomp":
            yield step("notify", noting)
        yield each


def exec_step(program: LaunchedProgram) -> Step:
    """Return the last step: run the program."""
    words = [_encode(word) for word in program.arguments]
    variables = [_encode(f"{name}={value}") for name, value in program.environment]
    return step("exec", program.path, program.directory, words, variables)


def outer_steps(plan: SandboxPlan, arrangement: Arrangement, host: MachineFacts) -> Iterator[Step]:
    """Yield what builds the view and makes it the root, and lets the program come into being."""
    if plan.session:
        yield step("join")
    yield _namespaces(host, _NAMESPACES & ~_NET_NAMESPACE, 0 if plan.session else _NET_NAMESPACE)
    yield step("fork")
    size = [f"size={plan.limits.memory}"] if plan.limits.memory is not None else []
    yield step("root", _staging(plan, host), _options("mode=0755", *size))
    yield step("directory", "/.byleave", 0o755)
    yield step("directory", COVER_DIRECTORY, 0)
    yield step("directory", EMPTY_DIRECTORY, 0o555)
    yield step("file", COVER_FILE, 0, b"")
    covered = set(arrangement.covered)
    for link in plan.links:
        if _parent_of(link.path) not in covered:
            yield from _parent(link.path)
            yield step("link", link.target, link.path)
    yield from _shown(arrangement, plan.links, session=plan.session)
    yield from _devices()
    yield from _kernel_files(host)
    yield step("hostname", "sandbox")
    if host.release >= _OWN_PID_MAX:
        # The limit on a user's processes does not count for root; this one counts for every user in there.
        processes = plan.limits.processes or USUAL_PROCESSES
        yield step("setting", "/proc/sys/kernel/pid_max", str(processes + _RESERVED_PIDS), 0)
    if not plan.session:  # the network of a session is ready, and a run's proxy has its socket in it
        yield step("network")  # with its loopback
        if plan.network == PROXY:
            yield step("listen", PROXY_PORT)
    yield step("pivot", NOSUID | NODEV | (0 if arrangement.executes else NOEXEC))
    yield step("watch")
    for mount in arrangement.mounts:
        if mount.held:
            above, _, name = mount.path.rpartition("/")
            yield step("hide", above, name)
    yield step("spawn")


def holder_steps(host: MachineFacts, memory: int | None) -> Iterator[Step]:
    """Yield what makes a process hold the network and the /tmp of an agent session."""
    yield _namespaces(host, _HOLDER_NAMESPACES)
    yield step("adopt")
    size = [f"size={memory}"] if memory is not None else []
    yield step("root", host.directories[0], _options("mode=1777", *size))
    yield step("pivot", NOSUID | NODEV)
    yield step("loopback")
    yield step("hold")


def _namespaces(host: MachineFacts, kinds: int, meanwhile: int = 0) -> Step:
    """Enter new namespaces of some kinds; others are made while the view is built, and entered by `network`."""
    return step("namespaces", kinds | meanwhile << 32, f"{host.uid} {host.uid} 1", f"{host.gid} {host.gid} 1", 0)


def _staging(plan: SandboxPlan, host: MachineFacts) -> str:
    """Return a directory of the host to build the view on: none that the view shows anything of."""
    shown = [each.source or each.path for each in plan.places if each.kind != PRIVATE]
    for place in host.directories:
        if not any(is_under(path, place) or is_under(place, path) for path in shown):
            return place
    return host.directories[0]


def _shown(arrangement: Arrangement, links: Sequence[Link], *, session: bool) -> Iterator[Step]:
    """Yield mounts and private directories, those around others first."""
    attributes = NOSUID | NODEV | (0 if arrangement.executes else NOEXEC)
    mounts = {mount.path: mount for mount in arrangement.mounts}
    private = set(arrangement.private)
    made = [_TOP]
    hollow = []
    for path in sorted({*mounts, *private}, key=_names):
        while not is_under(path, made[-1].path):
            made.pop()
        ours = not made[-1].bound
        mount = mounts.get(path)
        if mount is None:
            yield step("directory", path, 0o1777 if path in SHARED_DIRECTORIES else 0o700)
            if session and path == SESSION_DIRECTORY:
                yield step("shared", path, attributes)
            elif session and is_under(path, SESSION_DIRECTORY):  # a home directory there is the run's alone
                yield step("mount", "tmpfs", path, _options("mode=0700"), attributes)
            continue
        if ours:
            yield from _mount_point(mount, around=made[-1].path)
        else:  # before the mount, so that no exchange in between is missed
            yield _guard(mount)
        yield _mounted(mount)
        if mount.hollow:
            hollow.append(mount)
            yield from (step("link", link.target, link.path) for link in links if _parent_of(link.path) == path)
        made.append(_Level(path, NOTHING, mount.attributes, bound=mount.cover is None and not mount.hollow))
    for mount in hollow:
        yield step("seal", mount.path, mount.attributes)


def _guard(mount: ViewMount) -> Step:
    """Return what has a place mounted again when what it stands on is replaced from outside."""
    closed = mount.hollow or mount.source  # what it shows cannot be shown a second time from in there
    cover = mount.cover or (COVER_DIRECTORY if closed else "")
    attributes = mount.attributes | (RDONLY if closed else 0)
    return step("guard", mount.path, cover, attributes, int(mount.held), mount.content)


def _mount_point(mount: ViewMount, around: str) -> Iterator[Step]:
    """Yield what makes a place to mount on. Where a hollow is around it, no program lists what lies in between."""
    if around != "/":
        for above in _between(around, mount.path):
            yield step("directory", above, 0o111)
    if mount.kind == FILE:
        yield from _parent(mount.path)
        yield step("file", mount.path, 0o400, b"")
    else:
        yield step("directory", mount.path, 0o755)


def _mounted(mount: ViewMount) -> Step:
    if mount.hollow:
        return step("mount", "tmpfs", mount.path, _options("mode=0111", "size=64k"), NOSUID | NODEV | NOEXEC)
    if mount.cover is not None:
        return step("shade" if mount.passing else "cover", mount.cover, mount.path, mount.attributes)
    kind = {FILE: OTHER, LINK: ITSELF}.get(mount.kind, A_DIRECTORY)
    return step("bind", mount.source or mount.path, mount.path, mount.attributes, kind)


def _parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def _parent(path: str) -> Iterator[Step]:
    above = _parent_of(path)
    if above:
        yield step("directory", above, 0o755)


def _devices() -> Iterator[Step]:
    yield step("directory", "/dev/pts", 0o755)
    for name in DEVICES:
        yield step("file", f"/dev/{name}", 0o600, b"")
        yield step("bind", f"/dev/{name}", f"/dev/{name}", NOSUID | NOEXEC, OTHER)
    yield step("mount", "devpts", "/dev/pts", _options("newinstance", "ptmxmode=0666", "mode=0620"), NOSUID | NOEXEC)
    for name, target in _DEVICE_LINKS:
        yield step("link", target, f"/dev/{name}")


def _kernel_files(host: MachineFacts) -> Iterator[Step]:
    yield step("directory", "/proc", 0o555)
    yield step("mount", "proc", "/proc", b"", NOSUID | NODEV | NOEXEC | RDONLY)
    for path, kind in host.kernel_secrets:
        cover = COVER_DIRECTORY if kind == DIRECTORY else COVER_FILE
        yield step("shade", cover, path, NOSUID | NODEV | NOEXEC | RDONLY)


def program_steps(plan: SandboxPlan, arrangement: Arrangement, host: MachineFacts, filtering: bytes) -> Iterator[Step]:
    """Yield what the program gives up, in a view that is finished."""
    yield from limit_steps(plan)
    yield step("drop")
    if host.landlock:
        yield from grant_steps(grants_of(plan, arrangement), host)
    yield step("seccomp", filtering)


def limit_steps(plan: SandboxPlan) -> Iterator[Step]:
    """Yield what keeps the program's processes within their limits."""
    limits = plan.limits
    yield step("limit", _RLIMITS["core"], 0)
    yield step("limit", _RLIMITS["processes"], limits.processes or USUAL_PROCESSES)
    for name in ("file_size", "memory", "open_files"):
        value = getattr(limits, name)
        if value is not None:
            yield step("limit", _RLIMITS[name], value)


def grants_of(plan: SandboxPlan, arrangement: Arrangement) -> dict[str, tuple[int, int]]:
    """Return the rights that Landlock grants in this plan, and the kind of place, by path."""
    grants = {path: (rights, KINDS[kind]) for path, rights, kind in arrangement.grants}
    if all("read" in place.capabilities for place in plan.places if place.capabilities):
        grants.setdefault("/", (_BITS["read_dir"], A_DIRECTORY))
    grants["/dev"] = (DEVICE_RIGHTS, A_DIRECTORY)
    grants["/proc"] = (rights_of(("read",), DIRECTORY), A_DIRECTORY)
    return grants


def grant_steps(grants: Mapping[str, tuple[int, int]], host: MachineFacts) -> Iterator[Step]:
    """Yield what makes Landlock refuse everything but these rights, each at a path that is of a kind."""
    handled = (1 << _VERSIONS[min(host.landlock, max(_VERSIONS))]) - 1
    scopes = _ALL_SCOPES if host.landlock >= SCOPES_SINCE else 0
    size = 24 if scopes else 16 if host.landlock >= _NET_SINCE else 8
    yield step("landlock", handled, 0, scopes, size)
    for path, (rights, kind) in grants.items():
        yield step("grant", path, rights & handled, kind)
    yield step("streams", DEVICE_RIGHTS & handled & FILE_RIGHTS)
    yield step("restrict")


KINDS = {DIRECTORY: A_DIRECTORY, FILE: OTHER}
SYSTEM_LINK = LINKED


def _options(*options: str) -> bytes:
    return b"".join(option.encode() + b"\0" for option in options)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def minimal(environment: Mapping[str, str], passes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables whose names, or beginnings of names with a `*`, are among those that pass."""
    exact = {name for name in passes if not name.endswith("*")}
    beginnings = tuple(name[:-1] for name in passes if name.endswith("*"))
    for name, value in environment.items():
        if name in exact or (beginnings and name.startswith(beginnings)):
            yield name, value
