"""A sandbox: a policy that was made into steps for the kernel, and the programs that run in it."""

from __future__ import annotations

import os
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.access import ProcessLimits
from byleave.core.action import EnvAction
from byleave.core.decide import decide
from byleave.core.decision import ALLOW
from byleave.core.env_rules import MINIMAL_ENVIRONMENT
from byleave.core.fs_rules import WRITES, is_under
from byleave.errors import SandboxError
from byleave.sandbox import host
from byleave.sandbox.linux.backends import LANDLOCK, NAMESPACES, BackendSetup, Machine, choose, make, without_landlock
from byleave.sandbox.linux.program import write_tape
from byleave.sandbox.linux.seccomp import FilterOptions, make_filter
from byleave.sandbox.linux.steps import (
    PROXY_PORT,
    Arrangement,
    LaunchedProgram,
    MachineFacts,
    arrange,
    exec_step,
    minimal,
    view_steps,
)
from byleave.sandbox.native.build import FULL, LEAN, find_launcher
from byleave.sandbox.placeholders import Placeholder, Placeholders
from byleave.sandbox.plan.build import PlanRequest, Seen, make_plan, make_reading_plan
from byleave.sandbox.plan.plan import BIN, DIRECTORY, FILE, PROXY, Brought, SandboxPlan
from byleave.sandbox.plan.private_files import NOT_FOR_EVERYBODY
from byleave.sandbox.plan.protected_paths import Remembered
from byleave.sandbox.process import Process
from byleave.sandbox.programs import PlantedProgram
from byleave.sandbox.scratch import ScratchDirectory
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Self

    from byleave.api import Workspace
    from byleave.net.proxy import Decide
    from byleave.net.proxy_policy import Told
    from byleave.policy.live_policy import LivePolicy
    from byleave.sandbox.broker import Broker
    from byleave.sandbox.diagnose.diagnosis import Observer
    from byleave.sandbox.linux.program import Step
    from byleave.sandbox.native.build import Launcher
    from byleave.sandbox.placeholders import Hold
    from byleave.sandbox.process import Stream
    from byleave.sandbox.tamper_check import TamperReport

TOOL = "sandbox"
_LOOKS, _MOMENT = 10, 0.003  # seconds; another sandbox may hold the names for as long as it likes
_PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy")


class Prepared(Struct, frozen=True):
    """A plan, how it is held, its steps as bytes, and what it rests on."""

    plan: SandboxPlan
    arrangement: Arrangement
    tape: bytes
    seen: Seen
    unlinked: frozenset[str] = frozenset()  # paths of rules, seen name by name: none of them leads through a link
    setup: BackendSetup | None = None  # where namespaces of our own do not work: what holds it instead

    @property
    def backend(self) -> str:
        """What holds it."""
        return NAMESPACES if self.setup is None else self.setup.backend


class Explained(Struct, frozen=True):
    """A plan with everything that surrounds it, for people."""

    plan: SandboxPlan
    arrangement: Arrangement
    host: MachineFacts
    launcher: str
    program: str | None
    directory: str
    variables: tuple[str, ...]
    backend: str = NAMESPACES


class Sandbox:
    """Runs programs so that the kernel holds them to an access policy. Close it in the end.

    `access` is shaped like an `[access]` table; None is the default of a stdio tool: the workspace read, written and
    executed, no network, any command, a minimal environment.
    """

    def __init__(
        self, access: Mapping[str, Any] | None = None, *, root: str | None = None, limits: ProcessLimits | None = None
    ) -> None:
        from byleave.api import Workspace

        workspace = Workspace(root)
        tool: dict[str, Any] = {"source": "local", "runtime": "stdio"}
        if access is not None:
            tool["access"] = dict(access)
        self._set_up(workspace, workspace.compile_tree({"tools": {TOOL: tool}}), TOOL, limits or ProcessLimits())

    @classmethod
    def for_tool(
        cls, workspace: Workspace, policy: LivePolicy, tool: str, limits: ProcessLimits | None = None
    ) -> Sandbox:
        """Return the sandbox of a configured tool."""
        box = cls.__new__(cls)
        box._set_up(workspace, policy, tool, limits or ProcessLimits())  # noqa: SLF001 -- another way to make one of us
        return box

    @classmethod
    def for_reading(cls, workspace: Workspace, policy: LivePolicy, tool: str) -> Sandbox:
        """Return a sandbox for a program of ours that works for a tool: it reads what the tool may read, no more.

        The tool's rules on programs and variables do not hold for it. No network, and nothing is written or executed.
        """
        box = cls.for_tool(workspace, policy, tool)
        box._reads_only = True  # noqa: SLF001 -- another way to make one of us
        return box

    def _set_up(self, workspace: Workspace, policy: LivePolicy, tool: str, limits: ProcessLimits) -> None:
        self.workspace = workspace
        self.policy = policy
        self.tool = tool
        self.limits = limits
        self.agent: str | None = None  # for whom it runs, if somebody said so: rules may speak of one agent only
        self._brought: tuple[Brought, ...] = ()
        self._reads_only = False
        self._last_plan: SandboxPlan | None = None
        self._shown: tuple[str, ...] = ()
        self._lent: tuple[str, ...] = ()
        self._lets_go = False
        self._holds = True
        self._inside = 0  # programs that run, or are being started
        self._counting = Lock()
        self._base = host.base_view()
        self.host = host.this_host(namespaces=True)
        self._launchers: dict[str, Launcher] = {}
        self._scratch: ScratchDirectory | None = None
        self.setup: BackendSetup | None = (
            None  # what holds the program that was prepared last, if not namespaces of our own
        )
        self._prepared: dict[tuple[str | None, str], tuple[object, Prepared]] = {}
        self._placeholders = Placeholders(workspace.homes.workspace(workspace.root.path), workspace.root.path)
        self._hold: Hold | None = None
        self._held: tuple[Placeholder, ...] | None = None
        self._passing: tuple[object, dict[str, bool]] = (None, {})  # which variables pass, by the policy that said so
        self.decide: Decide = policy.decide  # a door puts its guard here, so that everything is recorded

    def launcher(self, kind: str = LEAN) -> Launcher:
        """Return what starts programs here; built when it is first needed. Only the FULL one brokers and traces."""
        if kind not in self._launchers:
            self._launchers[kind] = find_launcher(self.workspace.homes.memory, kind)
        return self._launchers[kind]

    def prepare(self, program: str | None, search: str) -> Prepared:
        """Return what a start of `program` needs, made anew if the policy or a place it rests on has changed."""
        known = self._prepared.get((program, search))
        if known is not None and known[0] is self.policy.compiled and self._still_holds(known[1]):
            return known[1]
        self.policy.look_again()
        compiled = self.policy.compiled
        root = self.workspace.root.path
        self._base = host.base_view()  # what is private in it may have changed since the last plan
        plan, seen = self._plan(program, search)
        arrangement = arrange(plan)
        filtering = make_filter(self.host.machine, FilterOptions(listed_programs_only=plan.commands is not None))
        tape = write_tape(self._steps(plan, arrangement, filtering))
        unlinked = frozenset(path for path in compiled.places if seen.has_no_link(root, path))
        prepared = self._by_what_works(Prepared(plan, arrangement, tape, seen, unlinked))
        self._last_plan = prepared.plan
        if prepared.backend != LANDLOCK:  # which grants names as they are found, so it has to look again
            self._prepared[program, search] = (compiled, prepared)
        return prepared

    def _plan(self, program: str | None, search: str) -> tuple[SandboxPlan, Seen]:
        policy, wishes = self.policy.compiled.policy, self._wishes()
        if self._reads_only:
            return make_reading_plan(policy, wishes, self._base, program)
        if self._hold is None and self._holds:  # from here on nothing vanishes that is held; crashed ones are tidied up
            self._hold = self._placeholders.hold(())
        held = frozenset(f"{wishes.root}/{name}" for name in self._placeholders.names())
        trusted = self._planting().is_trusted
        state = self.workspace.homes.workspace(wishes.root)
        protected = Remembered(wishes.root, os.path.join(state, "protected-names"))
        return make_plan(policy, wishes, self._base, program, search, held=held, trusted=trusted, protected=protected)

    def _by_what_works(self, prepared: Prepared) -> Prepared:
        """Return the same plan, held by something else where namespaces of our own do not work."""
        self.setup = None
        exact = self.policy.compiled.settings.get("defaults", {}).get("os_sandbox") == "require"
        machine = Machine(self.host, self._base, self.launcher(_kind(prepared.plan)))
        backend = choose(prepared.plan, machine, exact=exact)
        if backend == NAMESPACES:
            return structs.replace(
                prepared, arrangement=without_landlock(prepared.arrangement, prepared.plan, self.host)
            )
        if backend == LANDLOCK:
            self._scratch = self._scratch or ScratchDirectory()
            machine = structs.replace(machine, scratch=self._scratch.path)
        self.setup = setup = make(backend, prepared.plan, machine)
        return structs.replace(prepared, plan=setup.plan, arrangement=setup.arrangement, tape=setup.tape, setup=setup)

    def _steps(self, plan: SandboxPlan, arrangement: Arrangement, filtering: bytes) -> Iterable[Step]:
        """Return every step but the last one; where only listed programs may be started, the program is kept apart."""
        if plan.programs is None:
            return view_steps(plan, arrangement, self.host, filtering)
        from byleave.sandbox.detach import steps_apart

        if not self.host.landlock:
            raise SandboxError(
                "only listed programs may be started here, and this machine cannot enforce that",
                hint="it takes a kernel with Landlock",
            )
        stand_in = os.path.realpath(self.launcher(FULL).path)
        return steps_apart(plan, arrangement, self.host, stand_in=stand_in, filtering=filtering)

    def _still_holds(self, prepared: Prepared) -> bool:
        """Whether a plan may be used again: every place is as it was, and every rule leads where it led."""
        private = [place.path for place in prepared.plan.places if place.why == NOT_FOR_EVERYBODY]
        if not all(os.path.lexists(path) for path in private):  # a cover for what is gone cannot be made
            return False
        return prepared.seen.still_holds() and self.policy.is_as_before(prepared.unlinked.__contains__)

    def _wishes(self) -> PlanRequest:
        compiled, root = self.policy.compiled, self.workspace.root.path
        listed = compiled.settings.get("sandbox", {})
        home = self.workspace.homes.user
        return PlanRequest(
            self.tool,
            root,
            os.path.realpath(home) if home else "",
            self.workspace.own_places(compiled.layers),
            (*(os.path.expanduser(path) for path in listed.get("read", ())), *self._shown),
            (*(os.path.expanduser(path) for path in listed.get("write", ())), *self._lent),
            self.limits,
            self._brought,
            self.agent,
        )

    def mount_for_this_run(self, brought: Sequence[Brought]) -> None:
        """Show places from outside under names of the workspace, to what is started from now on."""
        self._brought = tuple(brought)
        self._prepared.clear()

    def show(self, path: str) -> None:
        """Show a place of this machine, to be read and executed, to what is started from now on."""
        self._shown = (*self._shown, path)
        self._prepared.clear()

    def lend(self, path: str) -> None:
        """Show a place of this machine, to be written too, to what is started from now on."""
        self._lent = (*self._lent, path)
        self._prepared.clear()

    def hold_nothing(self) -> None:
        """Keep no name for the sake of this sandbox, in which nothing of the workspace is written: others may go on."""
        self._holds = False

    def let_go_between(self) -> None:
        """Hold names only as long as a program runs in here, for a sandbox that stays open long after."""
        self._lets_go = True

    def appeared_since(self, since: float) -> TamperReport | None:
        """Return what changed that other programs run by themselves later; None if nothing was started."""
        plan = self._last_plan
        if plan is None:
            return None
        from byleave.sandbox.tamper_check import find_appeared

        held = {each.path for each in plan.held}

        def could_write(path: str) -> bool:
            place = plan.at(path)
            return path not in held and place is not None and not place.capabilities.isdisjoint(WRITES)

        return find_appeared(plan.root, since, self.policy.compiled.policy.protected, could_write=could_write)

    def explain(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Explained:
        """Return everything that a start of this command would mean."""
        given = os.environ if env is None else env
        directory, search = self._directory(None), given.get("PATH", os.defpath)
        path = host.find_program(argv[0], search, directory, self._planting().is_trusted) if argv else None
        prepared = self.prepare(path, search)
        directory = self._standing(prepared.plan, directory)
        names = tuple(name for name, _value in self._variables(given, prepared))
        origin = self.launcher(_kind(prepared.plan)).origin
        return Explained(
            prepared.plan, prepared.arrangement, self.host, origin, path, directory, names, prepared.backend
        )

    def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        observer: Observer | None = None,
        also: Mapping[str, str] | None = None,
        apart: bool = False,
        controlling: str | None = None,
        own: bool = False,
    ) -> Process:
        """Start a program in the sandbox; a SandboxError if it may not or cannot be started.

        With an `observer` it runs slower, and the observer hears of everything that it was refused. The variables in
        `also` reach the program whatever the rules say: the caller has judged them. `apart`, it is in a session of its
        own whatever its streams are; `controlling` is the path of a terminal made for it. `own`: it is the tool itself,
        which the user has configured, so no command has to list it.
        """
        self._refuse_unlisted(argv, own=own)
        given = os.environ if env is None else env
        directory = self._directory(cwd)
        search = given.get("PATH", os.defpath)
        path = self._find(argv[0], search, directory, own=own)
        with self._counting:
            self._inside += 1
        try:
            prepared = self._hold_names(self.prepare(path, search))
            variables = tuple({**(also or {}), **dict(self._variables(given, prepared))}.items())
            program = LaunchedProgram(path, self._standing(prepared.plan, directory), tuple(argv), variables)
            streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            process = self._launch(prepared, program, search, observer, apart=apart, controlling=controlling, **streams)
        except BaseException:
            self._one_ended()
            raise
        process.at_end(self._one_ended)
        return process

    def _find(self, name: str, search: str, directory: str, *, own: bool = False) -> str:
        """Return the program of that name; unless it is the tool itself, one that the tool cannot have put there."""
        path = host.find_program(name, search, directory, None if own else self._planting().is_trusted)
        if path is not None:
            return path
        planted = host.find_program(name, search, directory)
        if planted is None:
            raise SandboxError(f"{quoted(name)} was not found", hint="check the name and PATH", exit_code=127)
        raise SandboxError(
            f"{quoted(name)} is only found at {quoted(planted)}, where the tool itself may write",
            hint=f"grant {quoted(os.path.dirname(planted))} without write, create and update",
            exit_code=127,
        )

    def _planting(self) -> PlantedProgram:
        return PlantedProgram(self.policy, self.tool, self._wishes().write)

    def _one_ended(self) -> None:
        with self._counting:
            self._inside -= 1
            if self._lets_go and not self._inside:
                self.close()
                self._wait_for_names()

    def _wait_for_names(self) -> None:
        """Have the names go that were held: what was killed holds on to them for some moments more."""
        for _ in range(_LOOKS):
            if not self._placeholders.names():
                return
            sleep(_MOMENT)
            self._placeholders.recover()

    def _launch(
        self, prepared: Prepared, program: LaunchedProgram, search: str, observer: Observer | None, **how: Any
    ) -> Process:
        """Start the launcher with everything the program needs, and serve what it asks for."""
        last = exec_step(program if prepared.plan.programs is None else _by_interpreter(program, search))
        lock = self._hold.descriptor if self._hold is not None else None
        kind, words = self._starter(prepared, observer)
        if observer is not None:
            observer.begin(prepared.plan, prepared.arrangement)
        process = kind(
            words,
            (prepared.tape if observer is None else self._watched_tape(prepared)) + write_tape([last]),
            lock=lock,
            **how,
        )
        if prepared.plan.network == PROXY:
            self._serve(process, None if observer is None else observer.judged)
        broker = None if prepared.plan.programs is None else self._broker(prepared, search, observer)
        if observer is not None or broker is not None:
            process.listen(_ignore if observer is None else observer.hear, None if broker is None else broker.answer)
        return process

    def _broker(self, prepared: Prepared, search: str, observer: Observer | None) -> Broker:
        """Return who decides about the programs that a program in this sandbox asks for."""
        from byleave.sandbox.broker import Broker
        from byleave.sandbox.detach import Listed

        listed = Listed(
            prepared.plan,
            prepared.arrangement,
            self.host,
            search,
            passes=self._passes,
            more=self._proxied(prepared.plan),
            watched=observer is not None,
        )
        return Broker(self.decide if observer is None else observer.asking(self.decide), self.tool, listed.tape)

    def _starter(self, prepared: Prepared, observer: Observer | None) -> tuple[type[Process], Sequence[str]]:
        """Return the words that start the launcher, and what becomes of them."""
        if prepared.setup is None:
            return Process, (self.launcher(_kind(prepared.plan) if observer is None else FULL).path,)
        if observer is not None:
            raise SandboxError(
                "what a program is refused cannot be listed here: that needs namespaces of our own",
                hint="`byleave doctor` says why there are none; leave --diagnose out",
            )
        return prepared.setup.process, prepared.setup.words

    def _watched_tape(self, prepared: Prepared) -> bytes:
        """Return the steps for a program that is watched, which is held by exactly the same."""
        from byleave.sandbox.diagnose.traced_calls import write_rows
        from byleave.sandbox.linux.seccomp import column_of, make_watching_filter
        from byleave.sandbox.linux.steps import watched_steps

        machine, plan = self.host.machine, prepared.plan
        filtering = make_filter(machine, FilterOptions(listed_programs_only=plan.commands is not None, told=True))
        steps = self._steps(plan, prepared.arrangement, filtering)
        return write_tape(watched_steps(steps, write_rows(column_of(machine)), make_watching_filter(machine)))

    def _refuse_unlisted(self, argv: Sequence[str], *, own: bool) -> None:
        if not argv:
            raise SandboxError("there is no program to run", hint="name one", exit_code=127)
        if own or self._reads_only:  # a program of ours, which the tool neither chose nor starts
            return
        verdict = self.decide({"kind": "spawn", "program": argv[0], "args": list(argv[1:]), "tool": self.tool})
        if verdict.decision is not ALLOW:
            raise SandboxError(verdict.reason, hint="list the command under access.commands", exit_code=20)

    def _directory(self, cwd: str | None) -> str:
        """Return the working directory: the one that is asked for, if it lies in the workspace, else the root."""
        root = self.workspace.root.path
        try:
            wanted = os.path.realpath(os.path.join(root, cwd) if cwd is not None else os.getcwd())
        except OSError:
            return root
        return wanted if is_under(wanted, root) and os.path.isdir(wanted) else root

    def _variables(self, given: Mapping[str, str], prepared: Prepared) -> Iterable[tuple[str, str]]:
        own = prepared.setup.variables if prepared.setup is not None else ()
        return {**dict(self._environment(given, prepared.plan)), **dict(own)}.items()

    def _standing(self, plan: SandboxPlan, directory: str) -> str:
        """Return where the program starts: at the root, if nothing at all may be done in the directory."""
        place = plan.at(directory)
        return directory if place is not None and place.capabilities else self.workspace.root.path

    def _environment(self, given: Mapping[str, str], plan: SandboxPlan) -> Iterable[tuple[str, str]]:
        """Return what the program gets of the caller's variables, and those that lead it to the proxy."""
        kept = dict(minimal(given, MINIMAL_ENVIRONMENT))
        if plan.variables:
            for name, value in given.items():
                if name not in kept and "=" not in name and self._passes(name):
                    kept[name] = value
        if plan.programs is not None:
            kept["PATH"] = f"{BIN}:{given.get('PATH', os.defpath)}"
        return {**kept, **self._proxied(plan)}.items()

    def _proxied(self, plan: SandboxPlan) -> dict[str, str]:
        """Return the variables that lead programs to the proxy, if there is one."""
        if plan.network != PROXY:
            return {}
        address = f"http://127.0.0.1:{PROXY_PORT}"
        proxied = {each: address for name in _PROXY_NAMES for each in (name, name.upper())}
        return {**proxied, "no_proxy": "", "NO_PROXY": ""}

    def _passes(self, name: str) -> bool:
        compiled = self.policy.compiled
        if self._passing[0] is not compiled:
            self._passing = (compiled, {})
        known = self._passing[1]
        if name not in known:
            known[name] = decide(compiled.policy, EnvAction(name, self.tool)).decision is ALLOW
        return known[name]

    def _hold_names(self, prepared: Prepared) -> Prepared:
        """Hold the names that must not come into being, as long as this sandbox is open."""
        if self._reads_only or not (self._holds or prepared.plan.held):
            return prepared
        root = self.workspace.root.path
        wanted = tuple(Placeholder(held.path[len(root) + 1 :], held.content) for held in prepared.plan.held)
        if self._hold is None or not set(wanted) <= set(self._held or ()):
            before = self._hold
            self._hold = self._placeholders.hold(wanted)
            self._held = tuple(dict.fromkeys([*(self._held or ()), *wanted]))
            if before is not None:
                before.close()
            if self._hold.skipped:
                name, why = self._hold.skipped[0]
                raise SandboxError(
                    f"{quoted(name)} must not be created, and its name cannot be held: {why}",
                    hint="check the directories above it",
                )
        for held in prepared.plan.held:
            prepared.seen.kinds[held.path] = DIRECTORY if held.content is None else FILE
        return prepared

    def _serve(self, process: Process, told: Told | None) -> None:
        """Serve the sandbox's way into the network until it is gone."""
        from byleave.net.proxy import open_proxy

        try:
            listener = process.listener()
        except SandboxError:
            process.wait()
            raise
        proxy = open_proxy(self.policy, self.tool, self.decide, told)
        proxy.start(listener)
        process.at_end(proxy.close)

    def close(self) -> None:
        """Let go of what was held for the programs in here."""
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
        if self._hold is not None:
            self._hold.release()
            self._hold = self._held = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _by_interpreter(program: LaunchedProgram, search: str) -> LaunchedProgram:
    """Return a program that is no script: where few may be executed, the kernel is not to look for interpreters."""
    from byleave.sandbox.programs import follow

    start = follow(program.path, search)
    words = start.arguments(program.arguments)
    return LaunchedProgram(start.path, program.directory, words, program.environment)


def _ignore(_message: bytes) -> None:
    """Hear, and do nothing."""


def _kind(plan: SandboxPlan) -> str:
    """Return which launcher a plan needs."""
    return FULL if plan.commands is not None else LEAN
