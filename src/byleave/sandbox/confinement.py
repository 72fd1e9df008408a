"""What the programs of one sandbox are held to: from the policy to a plan, and from the plan to the launcher's program.

A `Confinement` is made once and kept for many starts: it makes a plan anew only if the policy or a path that the plan
rests on has changed. It knows nothing of the programs' words, variables and streams, and decides nothing: that is
`sandbox.ToolSandbox`. Start at `Confinement.prepare`.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.access import SHELL_TOOL, ProcessLimits
from byleave.core.fs_rules import WRITES
from byleave.errors import SandboxError
from byleave.sandbox import host
from byleave.sandbox.linux.backends import (
    LANDLOCK,
    NAMESPACES,
    BackendSetup,
    Machine,
    ScratchDirectory,
    choose,
    make,
    without_landlock,
)
from byleave.sandbox.linux.program import write_program
from byleave.sandbox.linux.seccomp import FilterOptions, make_filter, make_noting_filter
from byleave.sandbox.linux.steps import NOTES_SINCE, Arrangement, arrange, noted_steps, view_steps
from byleave.sandbox.native.build import FULL, LEAN, find_launcher
from byleave.sandbox.placeholders import NameReservation, Placeholder, Placeholders
from byleave.sandbox.plan.build import Seen, make_plan, make_reading_plan
from byleave.sandbox.plan.plan import DIRECTORY, FILE, PROXY, Brought, PlanRequest, SandboxPlan, place_at
from byleave.sandbox.plan.private_files import NOT_FOR_EVERY_USER
from byleave.sandbox.plan.protected_paths import Remembered
from byleave.sandbox.programs import TrustedPrograms
from byleave.sandbox.session import AgentSession, JoinedSession, join_session

MOST_MOUNTS = 8192  # MOST_GUARDS of native/launcher.h

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.sandbox.linux.program import Step
    from byleave.sandbox.native.build import Launcher
    from byleave.sandbox.tamper_check import TamperReport


class SandboxOptions(Struct, frozen=True, kw_only=True):
    """What differs between the sandboxes of one tool."""

    limits: ProcessLimits = ProcessLimits()
    agent: str | None = None  # for which agent it runs, if that is known: a rule may name one agent only
    mounts: tuple[Brought, ...] = ()  # paths outside that are shown under names of the workspace
    shown: tuple[str, ...] = ()  # paths of this machine that are read and executed
    lent: tuple[str, ...] = ()  # paths of this machine that are written, too
    # A program of ours that works for the tool: it reads what the tool may read, and neither writes nor executes. The
    # tool's rules on programs and variables do not hold for it.
    reads_only: bool = False
    reserves_names: bool = True  # False where nothing of the workspace is written: other sandboxes may go on
    # Reserve names only while a program runs, for a sandbox that stays open long after.
    releases_between: bool = False
    notes_writes: bool = False  # whether `Process.unwritten` names what the program tried to write in vain
    session: AgentSession | None = None  # whose /tmp and loopback are shared, where namespaces of our own work


class Prepared(Struct, frozen=True):
    """A plan, what enforces it, the launcher's program for it, and what it rests on."""

    plan: SandboxPlan
    arrangement: Arrangement
    program: bytes
    seen: Seen
    unlinked: frozenset[str] = frozenset()  # paths of rules, seen name by name: none of them leads through a link
    setup: BackendSetup | None = None  # what enforces it where namespaces of our own do not work

    @property
    def backend(self) -> str:
        """The name of what enforces it."""
        return NAMESPACES if self.setup is None else self.setup.backend


class Confinement:
    """The access of one tool, ready to be enforced. Close it in the end; it can be used again after that."""

    def __init__(
        self, workspace: Workspace, policy: LivePolicy, tool: str, options: SandboxOptions | None = None
    ) -> None:
        self.workspace = workspace
        self.policy = policy
        self.tool = tool
        self.options = SandboxOptions() if options is None else options
        self.host = host.this_host(namespaces=True)
        self.setup: BackendSetup | None = None  # what enforces the last plan, if not namespaces of our own
        self._last_plan: SandboxPlan | None = None
        self._reserved_for: Prepared | None = None  # whose names are all reserved, until they are released
        self._running = 0  # programs that run, or are being started
        self._counting = Lock()
        self._base = host.base_view()
        self._launchers: dict[str, Launcher] = {}
        self._scratch: ScratchDirectory | None = None
        self._prepared: dict[tuple[str | None, str], tuple[object, Prepared]] = {}
        root = workspace.root.path
        self._names = NameReservation(Placeholders(workspace.homes.workspace(root), root))

    @property
    def weaker(self) -> str | None:
        """What the last plan's backend does not enforce, as a sentence for people; None if nothing."""
        return None if self.setup is None else self.setup.weaker

    def launcher(self, kind: str = LEAN) -> Launcher:
        """Return the launcher, built when it is first needed. Only the FULL one brokers and traces."""
        if kind not in self._launchers:
            self._launchers[kind] = find_launcher(self.workspace.homes.memory, kind)
        return self._launchers[kind]

    def prepare(self, program: str | None, search: str) -> Prepared:
        """Return what a start of `program` needs, made anew if the policy or a path that it rests on has changed."""
        known = self._prepared.get((program, search))
        if known is not None and known[0] is self.policy.compiled and self._is_current(known[1]):
            return known[1]
        self.policy.look_again()
        compiled = self.policy.compiled
        root = self.workspace.root.path
        self._base = host.base_view()  # what is private in it may have changed since the last plan
        plan, seen = self._plan(program, search)
        arrangement = arrange(plan)
        _refuse_too_many(arrangement)
        written = write_program(self._steps(plan, arrangement, self._filter(plan), noted=True))
        unlinked = frozenset(path for path in compiled.places if seen.has_no_link(root, path))
        prepared = self._by_what_works(Prepared(plan, arrangement, written, seen, unlinked))
        self._last_plan = prepared.plan
        if prepared.backend != LANDLOCK:  # which grants names as they are found, so it has to look again
            self._prepared[program, search] = (compiled, prepared)
        return prepared

    def traced_program(self, prepared: Prepared) -> bytes:
        """Return the launcher's program for a program that is traced. It is held to exactly the same."""
        from byleave.sandbox.diagnose.traced_calls import write_rows
        from byleave.sandbox.linux.seccomp import column_of, make_watching_filter
        from byleave.sandbox.linux.steps import traced_steps

        machine = self.host.machine
        steps = self._steps(prepared.plan, prepared.arrangement, self._filter(prepared.plan, reported=True))
        return write_program(traced_steps(steps, write_rows(column_of(machine)), make_watching_filter(machine)))

    def join(self, prepared: Prepared) -> JoinedSession | None:
        """Return what a program shares with the other runs of its agent session; None if it shares nothing."""
        session = self.options.session
        if session is None or prepared.backend != NAMESPACES:
            return None
        plan = prepared.plan
        launcher = self.launcher(launcher_kind(plan)).path
        listens = plan.network == PROXY
        return join_session(session, launcher, self.host, listens=listens, memory=plan.limits.memory)

    def trusted(self) -> TrustedPrograms:
        """Return what says whether a program is one that the tool cannot have put there."""
        return TrustedPrograms(self.policy, self.tool, self._written_elsewhere())

    def _plan(self, program: str | None, search: str) -> tuple[SandboxPlan, Seen]:
        policy, request = self.policy.compiled.policy, self._request()
        if self.options.reads_only:
            return make_reading_plan(policy, request, self._base, program)
        if self.options.reserves_names:  # from here on no reserved name vanishes; those of crashed runs are removed
            self._names.begin()
        held = frozenset(f"{request.root}/{name}" for name in self._names.present())
        state = self.workspace.homes.workspace(request.root)
        protected = Remembered(request.root, os.path.join(state, "protected-names"))
        trusted = self.trusted().is_trusted
        return make_plan(policy, request, self._base, program, search, held=held, trusted=trusted, protected=protected)

    def _request(self) -> PlanRequest:
        compiled, options = self.policy.compiled, self.options
        listed = compiled.settings.get("sandbox", {})
        home = self.workspace.homes.user
        return PlanRequest(
            self.tool,
            self.workspace.root.path,
            os.path.realpath(home) if home else "",
            self.workspace.own_places(compiled.layers),
            (*(os.path.expanduser(path) for path in listed.get("read", ())), *options.shown),
            self._written_elsewhere(),
            options.limits,
            options.mounts,
            options.agent,
            options.session is not None,
        )

    def _written_elsewhere(self) -> tuple[str, ...]:
        """Return the paths of this machine that are written, beside the workspace."""
        listed = self.policy.compiled.settings.get("sandbox", {})
        return (*(os.path.expanduser(path) for path in listed.get("write", ())), *self.options.lent)

    def _filter(self, plan: SandboxPlan, *, reported: bool = False) -> bytes:
        options = FilterOptions(listed_programs_only=plan.commands is not None, reported=reported)
        return make_filter(self.host.machine, options)

    def _steps(
        self, plan: SandboxPlan, arrangement: Arrangement, filtering: bytes, *, noted: bool = False
    ) -> Iterable[Step]:
        """Return every step but the last one; where only listed programs may be started, the program is detached."""
        if plan.programs is None:
            steps = view_steps(plan, arrangement, self.host, filtering)
            notes = noted and self.options.notes_writes and self.host.release >= NOTES_SINCE
            return noted_steps(steps, plan.root, make_noting_filter(self.host.machine)) if notes else steps
        from byleave.sandbox.broker import detached_steps

        if not self.host.landlock:
            raise SandboxError(
                "only listed programs may be started here, and this machine cannot enforce that",
                hint="it takes a kernel with Landlock",
            )
        stand_in = os.path.realpath(self.launcher(FULL).path)
        return detached_steps(plan, arrangement, self.host, stand_in=stand_in, filtering=filtering)

    def _by_what_works(self, prepared: Prepared) -> Prepared:
        """Return the same plan, enforced by another backend where namespaces of our own do not work."""
        self.setup = None
        exact = self.policy.compiled.settings.get("defaults", {}).get("os_sandbox") == "require"
        machine = Machine(self.host, self._base, self.launcher(launcher_kind(prepared.plan)))
        backend = choose(prepared.plan, machine, exact=exact, commands=self.tool == SHELL_TOOL)
        if backend == NAMESPACES:
            arrangement = without_landlock(prepared.arrangement, prepared.plan, self.host)
            return structs.replace(prepared, arrangement=arrangement)
        if backend == LANDLOCK:
            self._scratch = self._scratch or ScratchDirectory()
            machine = structs.replace(machine, scratch=self._scratch.path)
        self.setup = setup = make(backend, prepared.plan, machine)
        return structs.replace(
            prepared, plan=setup.plan, arrangement=setup.arrangement, program=setup.program, setup=setup
        )

    def _is_current(self, prepared: Prepared) -> bool:
        """Whether a plan may be used again: every path is as it was, and every rule leads where it led."""
        private = [place.path for place in prepared.plan.places if place.why == NOT_FOR_EVERY_USER]
        if not all(os.path.lexists(path) for path in private):  # a cover for what is gone cannot be made
            return False
        return prepared.seen.still_holds() and self.policy.is_as_before(prepared.unlinked.__contains__)

    def reserve_names(self, prepared: Prepared) -> None:
        """Reserve the names that must not be created, as long as this is open."""
        if self.options.reads_only or not (self.options.reserves_names or prepared.plan.held):
            return
        if self._reserved_for is prepared and self._names.descriptor is not None:
            return
        root = self.workspace.root.path
        self._names.reserve([Placeholder(held.path[len(root) + 1 :], held.content) for held in prepared.plan.held])
        for held in prepared.plan.held:
            prepared.seen.kinds[held.path] = DIRECTORY if held.content is None else FILE
        self._reserved_for = prepared

    @property
    def lock(self) -> int | None:
        """The descriptor by which a launcher keeps the names reserved, however this process ends."""
        return self._names.descriptor

    def program_starts(self) -> None:
        """Count a program that is being started."""
        with self._counting:
            self._running += 1

    def program_ended(self) -> None:
        """Count a program that has ended, or was not started; after the last one, names may be released."""
        with self._counting:
            self._running -= 1
            if self.options.releases_between and not self._running:
                self.close()
                self._names.wait_until_gone()

    def tampered_since(self, since: float, seconds: float | None = None) -> TamperReport | None:
        """Return what changed that other programs run by themselves later; None if nothing was started.

        `seconds`: how long to look for it, if not as long as usual.
        """
        plan = self._last_plan
        if plan is None:
            return None
        from byleave.sandbox.tamper_check import LONGEST, find_appeared

        held = {each.path for each in plan.held}
        places = {place.path: place for place in plan.places}

        def could_write(path: str) -> bool:
            place = place_at(places, path)
            return path not in held and place is not None and not place.capabilities.isdisjoint(WRITES)

        return find_appeared(
            plan.root,
            since,
            self.policy.compiled.policy.protected,
            could_write=could_write,
            held=held,
            seconds=LONGEST if seconds is None else seconds,
        )

    def close(self) -> None:
        """Release the names, and remove what was made for the programs in here."""
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
        self._reserved_for = None
        self._names.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_too_many(arrangement: Arrangement) -> None:
    """Refuse what the launcher cannot hold, with a sentence that says why."""
    number = len(arrangement.mounts)
    if number > MOST_MOUNTS:
        raise SandboxError(
            f"{number} places would have to be held one by one, and a sandbox holds at most {MOST_MOUNTS}",
            hint="`byleave doctor` says how many files rules close; close whole directories instead",
        )


def launcher_kind(plan: SandboxPlan) -> str:
    """Return which launcher a plan needs."""
    return FULL if plan.commands is not None else LEAN
