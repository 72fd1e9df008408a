"""Which mechanism holds a plan on this machine: the one that holds most of it, among those that really work here.

    namespaces   a view of its own, made by our launcher: holds everything
    bwrap        the same view, made by bubblewrap, which some systems allow where they refuse us
    landlock     no view: grants and a filter of calls. Stricter than the policy in places, laxer in a few

Where none works, nothing is run: a user who needs no sandbox needs no `byleave run`. `os_sandbox = "auto"` accepts a
mechanism that holds less, with a warning that says what is not held; "require" accepts none that is laxer. Callers know
the error by its `step`, LACKING.

bwrap may make namespaces where it is setuid, or AppArmor has a profile for it. It builds the view; our launcher, as
process 1 in there, does the rest: limits, Landlock, the filter, the program. bwrap passes no signals on, and dies of
those that a terminal sends to its group. So it gets none, and our launcher hands out the descriptor by which signals
are sent to it (`WrappedProcess`).
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.fs_rules import is_under
from byleave.errors import SandboxError
from byleave.sandbox.host import look, names_in
from byleave.sandbox.linux import landlock
from byleave.sandbox.linux.program import step, write_program
from byleave.sandbox.linux.seccomp import FilterOptions, known_architecture, make_filter
from byleave.sandbox.linux.steps import (
    COVER_DIRECTORY,
    EMPTY_DIRECTORY,
    PROXY_PORT,
    RDONLY,
    SHARED_DIRECTORIES,
    Arrangement,
    MachineFacts,
    arrange,
    program_steps,
    view_steps,
)
from byleave.sandbox.machine_stamp import machine_stamp
from byleave.sandbox.plan.plan import DIRECTORY, LINK, PROXY, Approximation, SandboxPlan
from byleave.sandbox.process import DEVNULL, LONGEST, PIPE, Process, problem_of
from byleave.text import quoted, sentence_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from byleave.sandbox.host import Base
    from byleave.sandbox.linux.program import Step
    from byleave.sandbox.linux.steps import ViewMount
    from byleave.sandbox.native.build import Launcher


PROGRAMS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap")  # never one that PATH merely names
LAUNCHER = "/.byleave/launcher"
UNREPORTED = ("start",)  # approximations without a warning
_MODES = {COVER_DIRECTORY: "0000", EMPTY_DIRECTORY: "0555"}
_BEGINNING = ("--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox")
_LENT = ("--cap-add", "CAP_SETPCAP")


def obstacle(plan: SandboxPlan) -> str | None:
    """Return why bwrap cannot hold a plan; None if it can."""
    if plan.commands is not None:
        return "a list of commands needs namespaces of our own"
    return None


def wrapping(
    bwrap: str,
    plan: SandboxPlan,
    arrangement: Arrangement,
    launcher: str,
    *,
    lends: bool = True,
    kernel_secrets: tuple[tuple[str, str], ...] = (),
) -> tuple[str, ...]:
    """Return the words that start the launcher in a view like the one that our own steps build.

    `lends`: bwrap may leave our launcher the one capability by which it empties the bounding set. One that is setuid
    leaves none to an ordinary user, and empties the set itself.
    """
    return (
        bwrap,
        *_BEGINNING,
        *(_LENT if lends else ()),
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        *(word for path, kind in kernel_secrets for word in _shaded(path, kind)),
        *(word for link in plan.links for word in ("--symlink", link.target, link.path)),
        *_shown(arrangement),
        "--ro-bind",
        launcher,
        LAUNCHER,
        "--remount-ro",
        "/",
        "--chdir",
        "/",
        "--",
        LAUNCHER,
    )


def _shown(arrangement: Arrangement) -> Iterator[str]:
    """Yield mounts and private directories, those around others first."""
    mounts = {mount.path: mount for mount in arrangement.mounts if mount.kind != LINK}
    for path in sorted({*mounts, *arrangement.private}, key=_names):
        mount = mounts.get(path)
        if mount is None:
            yield from ("--perms", "1777" if path in SHARED_DIRECTORIES else "0700", "--tmpfs", path)
        else:
            yield from _mounted(mount)
    for mount in arrangement.mounts:
        if mount.hollow:
            yield from ("--remount-ro", mount.path)


def _mounted(mount: ViewMount) -> tuple[str, ...]:
    if mount.hollow:
        return ("--perms", "0111", "--tmpfs", mount.path)
    if mount.cover in _MODES:
        return ("--perms", _MODES[mount.cover], "--tmpfs", mount.path, "--remount-ro", mount.path)
    if mount.cover is not None:  # a device on a mount without devices: no program opens it
        return ("--ro-bind", "/dev/null", mount.path)
    return ("--ro-bind" if mount.attributes & RDONLY else "--bind", mount.source or mount.path, mount.path)


def _shaded(path: str, kind: str) -> tuple[str, ...]:
    if kind == DIRECTORY:
        return ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
    return ("--ro-bind", "/dev/null", path)


def _names(path: str) -> list[str]:
    return path.strip("/").split("/")


def steps(plan: SandboxPlan, arrangement: Arrangement, host: MachineFacts, filtering: bytes) -> Iterator[Step]:
    """Yield what the launcher does in there, but for the last step, which names the program."""
    yield step("report")
    if plan.network == PROXY:
        yield step("listen", PROXY_PORT)
    yield step("spawn")
    yield from program_steps(plan, arrangement, host, filtering)


def approximations(plan: SandboxPlan, arrangement: Arrangement) -> Iterator[Approximation]:
    """Yield what bwrap does not hold as our own steps do."""
    for mount in arrangement.mounts:
        if mount.kind == LINK:
            name = mount.path[len(plan.root) :].strip("/") if is_under(mount.path, plan.root) else mount.path
            why = "it is a link, and bwrap mounts nothing on a link: what it leads to is held, its own name is not"
            yield Approximation(name, "any", why, laxer=True)
    why = "bwrap follows a link that is put in the place of a directory at the moment of the start"
    yield Approximation(".", "start", why, laxer=True)
    why = "what is put from outside in the place of something that is enforced here is not enforced any more"
    yield Approximation(".", "exchange", why, laxer=True)


_REPORT, _STATUS = b"P", b"S"


class WrappedProcess(Process):
    """A started sandbox of bwrap. A SandboxError if bwrap did not get as far as our launcher."""

    blocked = frozenset(signal.valid_signals())

    def __init__(self, words: tuple[str, ...], program: bytes, **streams: Any) -> None:
        self._inside = -1
        self._reported: int | None = None  # how the program ended, from its own init
        super().__init__(words, program, **streams)
        message, descriptors, _flags, _address = socket.recv_fds(self._control, LONGEST, 1)
        if message == _REPORT and descriptors:
            self._inside = descriptors[0]
            return
        self.problem = problem_of(message) or SandboxError(
            "bwrap could not build the sandbox", hint="what it said stands above", step="bwrap"
        )
        self.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal to the program, or end everything."""
        if self.returncode is None and self._inside >= 0:
            _send(self._inside, number)

    def _finish(self, status: int) -> None:
        super()._finish(status)
        code = self.returncode or 0
        if self.problem is None and code > 128:  # it ended by a signal before the launcher could report
            self.returncode = 128 - code
        if self._reported is not None:
            self.returncode = self._reported

    def _take(self, message: bytes) -> SandboxError | None:
        """Take note of how the program ended, too, which an exit code does not say."""
        if message.startswith(_STATUS):
            self._reported = os.waitstatus_to_exitcode(int(message[1:]))
            return None
        return super()._take(message)

    def close(self) -> None:
        """End everything in the sandbox, if it still runs, and let go of it."""
        inside, self._inside = self._inside, -1
        if inside >= 0:
            if self.returncode is None:
                _send(inside, signal.SIGKILL)
            os.close(inside)
        super().close()


def _send(process: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:  # it has ended, and was not waited for yet
        return


NAMESPACES, BWRAP, LANDLOCK = "namespaces", "bwrap", "landlock"
BACKENDS = (NAMESPACES, BWRAP, LANDLOCK)
LACKING = "lacking"
_NO_PLACE = "/nowhere"
_SCRATCH_BASES = ("/tmp", "/var/tmp")  # noqa: S108 -- a directory with an unguessable name, of the user's own
_SCRATCH_PREFIX = "byleave-"
_SCRATCH_NAME = len(_SCRATCH_PREFIX) + 24  # letters
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_SAID = 300  # letters of what bwrap says that are repeated


class Machine(Struct, frozen=True):
    """What a plan is to be held with: this host, its system view, our launcher, and where scratch directories go."""

    host: MachineFacts
    base: Base
    launcher: Launcher
    scratch: str = _NO_PLACE


class BackendSetup(Struct, frozen=True):
    """A plan as it is held: by what, what is left of it there, and what starts it."""

    backend: str
    plan: SandboxPlan
    arrangement: Arrangement
    program: bytes
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def weaker(self) -> str | None:
        """What is not held that namespaces would hold, as a sentence for people; None if nothing worth a warning.

        And where a program fails that would not fail in a view of its own.
        """
        known = [each for each in self.arrangement.approximate if each not in self.plan.approximate]
        laxer = [f"{each.path}: {each.why}" for each in known if each.laxer and each.op not in UNREPORTED]
        if not laxer:
            return None
        holder, missing = _WORDS[self.backend], "; ".join(laxer)
        closed = [each.path for each in known if each.op == "read" and not each.laxer]
        unlisted = [quoted(path) for path in closed if not path.startswith("/")]  # of the workspace
        lost = f". Closed besides: {sentence_list(unlisted)} cannot be listed, for some names there may not be read"
        held = f"namespaces do not work here, so {holder} holds the program. Not enforced: {missing}"
        return f"{held}{lost if unlisted else ''}"

    @property
    def process(self) -> type[Process]:
        """What a started one is."""
        return WrappedProcess if self.backend == BWRAP else Process


class Probe(Struct, frozen=True):
    """Whether a backend works here, and if it does not, why."""

    works: bool
    why: str = ""


def choose(plan: SandboxPlan, machine: Machine, *, exact: bool, commands: bool = False) -> str:
    """Return the best backend that can hold a plan here; a SandboxError if none can.

    With `exact`, nothing that is laxer than the policy by its nature will do: only namespaces of our own. With
    `commands`, it is for the commands of agents: then nothing will do that is much stricter either.
    """
    reasons = []
    for backend in BACKENDS:
        why = _obstacle(backend, plan, machine, exact=exact) or probe(backend, machine).why
        if not why and commands and backend == LANDLOCK:
            why = landlock.command_obstacle(plan) or ""
        if not why:
            return backend
        reasons.append(f"{_WORDS[backend]}: {why}")
    raise SandboxError(
        f"this machine cannot hold the program to the policy ({'; '.join(reasons)})",
        hint="`byleave doctor` says what would help; nothing was run",
        step=LACKING,
    )


def make(backend: str, plan: SandboxPlan, machine: Machine) -> BackendSetup:
    """Return how a backend holds a plan."""
    return _MAKERS[backend](plan, machine)


_WORDS = {NAMESPACES: "namespaces", BWRAP: "bwrap", LANDLOCK: "Landlock alone"}


def _obstacle(backend: str, plan: SandboxPlan, machine: Machine, *, exact: bool) -> str | None:
    if not known_architecture(machine.host.machine):
        return f"there is no filter of system calls for {machine.host.machine}"
    if backend == NAMESPACES:
        return None
    if exact:
        return 'os_sandbox = "require" asks for more than it can hold'
    if backend == BWRAP:
        return obstacle(plan)
    return landlock.obstacle(plan, machine.host)


def probe(backend: str, machine: Machine) -> Probe:
    """Find out once whether a backend works, by having it do everything but start a program.

    Namespaces that have worked for another process of the service work here as well, if nothing has changed on which
    that depends. What they cannot do all the same ends the start of the program: nothing runs in less.
    """
    key = (backend, machine.launcher.path)
    if key not in _probed:
        stamp = machine_stamp() if backend == NAMESPACES else ""
        if stamp and _worked.get(machine.launcher.path) == stamp:
            _probed[key] = Probe(works=True)
        else:
            _probed[key] = _try_out(backend, machine)
            if stamp and _probed[key].works:
                _tried.append((machine.launcher.path, stamp))
    return _probed[key]


_probed: dict[tuple[str, str], Probe] = {}
_worked: dict[str, str] = {}  # launchers whose namespaces have worked, and the stamp of the machine then
_tried: list[tuple[str, str]] = []


def doubt_namespaces(launcher: str) -> None:
    """Have namespaces tried out again that have worked before: a program could not be started in them."""
    if launcher in _worked:
        _tried.append((launcher, ""))


def take_tried() -> list[tuple[str, str]]:
    """Return the launchers that were tried out since the last time, with the stamp if their namespaces work."""
    taken = list(_tried)
    _tried.clear()
    return taken


def keep_tried(launcher: str, stamp: str) -> None:
    """Have the processes that are forked from this one know of namespaces that worked, as `take_tried` says it."""
    _worked[launcher] = stamp


def _try_out(backend: str, machine: Machine) -> Probe:
    if backend == BWRAP and find_bwrap() is None:
        return Probe(works=False, why="it is not installed")
    empty = (
        SandboxPlan(_NO_PLACE, machine.base.places, machine.base.links)
        if backend == BWRAP
        else SandboxPlan(_NO_PLACE, ())
    )
    if why := _obstacle(backend, empty, machine, exact=False):
        return Probe(works=False, why=why)
    setup = make(backend, empty, structs.replace(machine, scratch=_NO_PLACE))
    with setup.process(setup.words, setup.program, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE) as process:
        said = process.stderr.read() if process.stderr is not None else b""
        process.wait()
        problem = process.problem
    if problem is not None and problem.step == "program":  # it came to the end, where a program would follow
        return Probe(works=True)
    why = os.fsdecode(said).strip().removeprefix("bwrap: ")[:_LONGEST_SAID]
    return Probe(works=False, why=why or (problem.problem if problem is not None else "it ended for no known reason"))


def find_bwrap() -> str | None:
    """Return where bubblewrap is installed; None if it is not."""
    return next((path for path in PROGRAMS if os.access(path, os.X_OK)), None)


def _is_setuid(program: str) -> bool:
    try:
        return bool(os.stat(program).st_mode & stat.S_ISUID)
    except OSError:
        return False


def _filter(plan: SandboxPlan, host: MachineFacts) -> bytes:
    return make_filter(host.machine, FilterOptions(listed_programs_only=plan.commands is not None))


def _by_namespaces(plan: SandboxPlan, machine: Machine) -> BackendSetup:
    arrangement = without_landlock(arrange(plan), plan, machine.host)
    program = write_program(view_steps(plan, arrangement, machine.host, _filter(plan, machine.host)))
    return BackendSetup(NAMESPACES, plan, arrangement, program, (machine.launcher.path,))


def without_landlock(arrangement: Arrangement, plan: SandboxPlan, host: MachineFacts) -> Arrangement:
    """Say what mounts alone do not hold, on a kernel that has no Landlock."""
    if host.landlock:
        return arrangement
    why = "this kernel has no Landlock, and mounts do not distinguish creating, changing and removing"
    partly = [place for place in plan.places if "create" in place.capabilities or "update" in place.capabilities]
    notes = [Approximation(place.path, "any", why, laxer=True) for place in partly if len(place.capabilities) < 5]
    return structs.replace(arrangement, approximate=(*arrangement.approximate, *notes))


def _by_bwrap(plan: SandboxPlan, machine: Machine) -> BackendSetup:
    arrangement = landlock.hold_execution(plan, arrange(plan), look, names_in)
    arrangement = without_landlock(arrangement, plan, machine.host)
    arrangement = structs.replace(
        arrangement, approximate=(*arrangement.approximate, *approximations(plan, arrangement))
    )
    program = write_program(steps(plan, arrangement, machine.host, _filter(plan, machine.host)))
    bwrap = find_bwrap() or ""
    lends = machine.host.uid == 0 or not _is_setuid(bwrap)
    launcher, secrets = machine.launcher.path, machine.host.kernel_secrets
    words = wrapping(bwrap, plan, arrangement, launcher, lends=lends, kernel_secrets=secrets)
    return BackendSetup(BWRAP, plan, arrangement, program, words)


def _by_landlock(plan: SandboxPlan, machine: Machine) -> BackendSetup:
    scratch = landlock.ScratchPaths(machine.scratch)
    plan = landlock.reduced(plan, scratch)
    arrangement = landlock.hold(plan, machine.host, look, names_in)
    program = write_program(landlock.steps(plan, arrangement, machine.host, look))
    variables = {"TMPDIR": scratch.temporary, "HOME": scratch.home}
    kept = tuple((name, path) for name, path in variables.items() if plan.at(path) is not None)
    return BackendSetup(LANDLOCK, plan, arrangement, program, (machine.launcher.path,), kept)


_MAKERS: dict[str, Callable[[SandboxPlan, Machine], BackendSetup]] = {
    NAMESPACES: _by_namespaces,
    BWRAP: _by_bwrap,
    LANDLOCK: _by_landlock,
}


class ScratchDirectory:
    """A new directory of the user's own with `tmp` and `home` in it, where Landlock alone holds. Close it in the end.

    Its maker has a lock on it. What a killed process left is known by its lock being free, and the next one that makes
    a directory removes it.
    """

    def __init__(self) -> None:
        self.path, self._lock = _made_scratch()
        for name in ("tmp", "home"):
            os.mkdir(os.path.join(self.path, name), 0o700)

    def close(self) -> None:
        """Remove it with everything in it; what cannot be removed stays."""
        _remove(self.path)
        os.close(self._lock)


def _made_scratch() -> tuple[str, int]:
    for base in _SCRATCH_BASES:
        real = os.path.realpath(base)
        path = os.path.join(real, f"{_SCRATCH_PREFIX}{os.urandom(12).hex()}")
        try:
            _sweep(real)
            os.mkdir(path, 0o700)
            lock = os.open(path, _OPEN)
        except OSError:  # not here; or another one swept it away before it was locked
            continue
        if _is_free(lock) and os.path.isdir(path):
            return path, lock
        os.close(lock)
    raise SandboxError("there is no place for temporary files", hint="make /tmp writable, or /var/tmp")


def _sweep(base: str) -> None:
    """Remove what killed processes of ours left."""
    for name in os.listdir(base):
        if name.startswith(_SCRATCH_PREFIX) and len(name) == _SCRATCH_NAME:
            _remove_if_left(os.path.join(base, name))


def _remove_if_left(path: str) -> None:
    try:
        lock = os.open(path, _OPEN)
    except OSError:
        return
    try:
        found = os.fstat(lock)
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700 and _is_free(lock):
            _remove(path)
    finally:
        os.close(lock)


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
