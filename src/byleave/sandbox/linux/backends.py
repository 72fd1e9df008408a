"""Which mechanism holds a plan on this machine: the one that holds most of it, among those that really work here.

    namespaces   a view of its own, made by our launcher: holds everything
    bwrap        the same view, made by bubblewrap, which some systems allow where they refuse us
    landlock     no view: grants and a filter of calls. Stricter than the policy in places, laxer in a few

Where none does, nothing is run: `byleave run` was asked for a sandbox; a user who wants none needs no `run`. So
`os_sandbox = "auto"` lets less do (with a warning that says what is not held), "require" nothing that is laxer, and
neither runs a program with nothing around it. Callers know the error by its `step`, LACKING.
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.errors import SandboxError
from byleave.sandbox.host import look, names_in
from byleave.sandbox.linux import bubblewrap, landlock
from byleave.sandbox.linux.bubblewrap import WrappedProcess
from byleave.sandbox.linux.program import write_program
from byleave.sandbox.linux.seccomp import FilterOptions, known_architecture, make_filter
from byleave.sandbox.linux.steps import Arrangement, MachineFacts, arrange, view_steps
from byleave.sandbox.plan.plan import Approximation, SandboxPlan
from byleave.sandbox.process import DEVNULL, PIPE, Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.sandbox.host import Base
    from byleave.sandbox.native.build import Launcher

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
        """What is not held that namespaces would hold, as a sentence for people; None if nothing worth a warning."""
        known = [each for each in self.arrangement.approximate if each.laxer and each not in self.plan.approximate]
        laxer = [f"{each.path}: {each.why}" for each in known if each.op not in bubblewrap.UNREPORTED]
        if not laxer:
            return None
        holder, missing = _WORDS[self.backend], "; ".join(laxer)
        return f"namespaces do not work here, so {holder} holds the program. Not enforced: {missing}"

    @property
    def process(self) -> type[Process]:
        """What a started one is."""
        return WrappedProcess if self.backend == BWRAP else Process


class Probe(Struct, frozen=True):
    """Whether a backend works here, and if it does not, why."""

    works: bool
    why: str = ""


def choose(plan: SandboxPlan, machine: Machine, *, exact: bool) -> str:
    """Return the best backend that can hold a plan here; a SandboxError if none can.

    With `exact`, nothing that is laxer than the policy by its nature will do: only namespaces of our own.
    """
    reasons = []
    for backend in BACKENDS:
        why = _obstacle(backend, plan, machine, exact=exact) or probe(backend, machine).why
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
        return bubblewrap.obstacle(plan)
    return landlock.obstacle(plan, machine.host)


def probe(backend: str, machine: Machine) -> Probe:
    """Find out once whether a backend works, by having it do everything but start a program."""
    key = (backend, machine.launcher.path)
    if key not in _probed:
        _probed[key] = _try_out(backend, machine)
    return _probed[key]


_probed: dict[tuple[str, str], Probe] = {}


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
    return next((path for path in bubblewrap.PROGRAMS if os.access(path, os.X_OK)), None)


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
        arrangement, approximate=(*arrangement.approximate, *bubblewrap.approximations(plan, arrangement))
    )
    program = write_program(bubblewrap.steps(plan, arrangement, machine.host, _filter(plan, machine.host)))
    bwrap = find_bwrap() or ""
    lends = machine.host.uid == 0 or not _is_setuid(bwrap)
    launcher, secrets = machine.launcher.path, machine.host.kernel_secrets
    words = bubblewrap.wrapping(bwrap, plan, arrangement, launcher, lends=lends, kernel_secrets=secrets)
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
