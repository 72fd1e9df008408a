"""`byleave run`: run a program so that the operating system holds it to the policy.

With `--explain` nothing is run: it prints what the program would be given, and which mechanism would hold it to that.
"""

from __future__ import annotations

import os
import sys
from textwrap import wrap
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.cli.output import complain, fitted, fitting_columns, room, say, say_json, say_verbose, warn
from byleave.cli.ticket_run import run_ticket
from byleave.cli.workspace import (
    confining_guard,
    confining_policy,
    decided_by,
    open_workspace,
    origins,
    refuse_both,
    shell_policy,
    warn_of_tampering,
    warn_of_weaker,
    working_directory,
)
from byleave.core.access import ProcessLimits
from byleave.core.fs_rules import is_under
from byleave.errors import InputError, SandboxError
from byleave.launch.foreground import Attendance, run_in_foreground, signals_held
from byleave.launch.shell_run import (
    ShellCommand,
    ShellReports,
    run_shell,
    shell_confinement,
    shell_start,
    surroundings,
)
from byleave.launch.start import ProgramStart
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.host import refuse_elsewhere, this_host
from byleave.sandbox.linux.backends import BWRAP, LANDLOCK, NAMESPACES
from byleave.sandbox.linux.steps import NOEXEC, RDONLY
from byleave.sandbox.plan.plan import BIN, NO_NETWORK
from byleave.sandbox.plan.private_files import NOT_FOR_EVERY_USER
from byleave.sandbox.sandbox import ToolSandbox
from byleave.sandbox.tamper_check import start_time
from byleave.text import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.sandbox.diagnose.diagnosis import Observer
    from byleave.sandbox.linux.steps import ViewMount
    from byleave.sandbox.plan.plan import AllowedPrograms, Approximation, PathGrant, SandboxPlan
    from byleave.sandbox.sandbox import Explained


def run(given: ParsedArguments) -> int:
    """Run the program, or say what it would be given; the exit code is the program's own."""
    if given.one("ticket") is not None:
        return run_ticket(given)
    text = given.one("shell")
    if text is None and given.one("cwd_file") is not None:
        raise InputError("--cwd-file is for --shell", hint="byleave run --shell TEXT --cwd-file FILE")
    if text is not None:
        return _run_shell(given, text)
    if not given.rest:
        raise InputError("no program was named", hint="byleave run -- PROGRAM ARGS...")
    refuse_both(given)
    refuse_elsewhere(sys.platform)
    from byleave.cli.mount_command import mount_first, own_mounts  # heavy: few runs need it

    workspace = open_workspace(given)
    mount_first(given, workspace, own=given.one("tool") is None)
    policy, tool = confining_policy(given, workspace)
    say_verbose(given, origins(policy))
    warn(given, policy.warnings)
    mounts = own_mounts(given, workspace, policy.compiled) if given.one("tool") is None else ()
    options = SandboxOptions(limits=policy.compiled.tools[tool].limits, mounts=tuple(mounts))
    with Confinement(workspace, policy, tool, options) as confinement:
        start = ProgramStart(command=given.rest)
        return _explain(given, confinement, start) if given.flag("explain") else _run(given, confinement, start)


def _run_shell(given: ParsedArguments, text: str) -> int:
    """Run a command line as [shell] says, or say what it would be given."""
    if given.rest or given.one("tool") is not None or given.one("access") is not None:
        raise InputError(
            "--shell runs one command line, with the access of [shell]",
            hint="leave out --tool, --access and the program",
        )
    refuse_elsewhere(sys.platform)
    workspace = open_workspace(given)
    mounting = not given.options.keys().isdisjoint(("mount", "no_mount"))
    if mounting:  # what it takes costs more than the sandbox
        from byleave.cli.mount_command import mount_first, own_mounts  # heavy: few runs need it

        mount_first(given, workspace, own=True)
    policy = shell_policy(given, workspace)
    say_verbose(given, (*origins(policy), *policy.warnings))  # an agent reads what stands on standard error
    command = ShellCommand(text=text, cwd=working_directory(), cwd_file=given.one("cwd_file"))
    mounts = tuple(own_mounts(given, workspace, policy.compiled)) if mounting else ()
    if given.flag("explain"):
        around = surroundings(workspace, os.environ)
        with shell_confinement(workspace, policy, command, around, mounts) as confinement:
            return _explain(given, confinement, shell_start(confinement, command, around))
    beside = _RunReport(given)
    reports = ShellReports(
        complain, lambda confinement: warn_of_weaker(given, confinement), beside.end, beside.observer
    )
    session = given.one("session")
    return run_shell(
        workspace,
        policy,
        command,
        store_session=session if session is not None else "default",
        mounts=mounts,
        beside=reports,
    )


def _explain(given: ParsedArguments, confinement: Confinement, start: ProgramStart) -> int:
    sandbox = ToolSandbox(confinement, confinement.policy.decide)
    explained = sandbox.explain(start.command, start.environment, variables=start.variables)
    if given.flag("json"):
        say_json(plan_tree(explained))
    else:
        for line in plan_lines(explained):
            say(fitted(line))
    return 0


def _run(given: ParsedArguments, confinement: Confinement, start: ProgramStart) -> int:
    with signals_held(), confining_guard(given, confinement.workspace, confinement.policy) as guard:
        shown_before = confinement.policy.warnings
        report = _RunReport(given, given.rest)
        attendance = Attendance(started=lambda: warn_of_weaker(given, confinement))
        start = structs.replace(start, observer=report.observer)
        try:
            end = run_in_foreground(confinement, start, decide=decided_by(guard), attendance=attendance)
            if end.longest is not None:
                complain(f"byleave: the program was ended: it took longer than {end.longest:g} seconds")
            elif end.problem is not None:
                complain(f"byleave: {shown_lines(str(end.problem))}")
        except SandboxError as error:
            complain(f"byleave: {shown_lines(str(error))}")
            return error.exit_code
        finally:
            warn(given, [each for each in guard.warnings if each not in shown_before])
            report.end(confinement)
    return end.code


class _RunReport:
    """What is said at the end of a run, beside what the program itself says.

    `command` is the program that is started, where a rule on commands has to list it.
    """

    def __init__(self, given: ParsedArguments, command: tuple[str, ...] = ()) -> None:
        self._given = given
        self._command = command
        self._since = start_time()
        self.observer: Observer | None = None
        if given.flag("diagnose"):
            from byleave.sandbox.diagnose.diagnosis import Observer  # heavy: few runs need it

            self.observer = Observer(this_host(namespaces=True).machine)

    def end(self, confinement: Confinement) -> None:
        """Say what the user should know of the run; with --diagnose, everything that was refused."""
        warn_of_tampering(self._given, confinement, self._since)
        if self.observer is not None:
            from byleave.cli.diagnose import report_refusals  # heavy: few runs need it

            report_refusals(self._given, confinement, self.observer, self._command)


WIDEST = 110  # columns of the list of names


_NAMESPACES = ("user", "mount", "net", "ipc", "pid", "uts", "cgroup")
_BACKENDS = {
    NAMESPACES: "namespaces of our own, Landlock, a filter of system calls",
    BWRAP: "namespaces made by bwrap, Landlock, a filter of system calls",
    LANDLOCK: "Landlock and a filter of system calls alone: there is no view of its own",
}
_NETWORK = {
    "none": "none: an empty network of its own, no unix sockets",
    "proxy": "only through the proxy, which decides every request by the rules",
}
_NAMED = "none: an empty network of its own; hosts that are asked for through the proxy are refused, and named"


def plan_tree(explained: Explained) -> dict[str, Any]:
    """Return the plan for programs."""
    plan, arrangement = explained.plan, explained.arrangement
    return {
        "root": plan.root,
        "program": explained.program,
        "directory": explained.directory,
        "launcher": explained.launcher,
        "backend": explained.backend,
        "places": [_place_tree(place) for place in plan.places],
        "mounts": [_mount_tree(mount) for mount in arrangement.mounts],
        "masked": list(arrangement.covered),
        "landlock": {"version": explained.host.landlock, "rules": [path for path, _r, _k in arrangement.grants]},
        "seccomp": True,
        "namespaces": [] if explained.backend == LANDLOCK else list(_NAMESPACES),
        "network": NO_NETWORK if plan.reaches_nothing else plan.network,
        "environment": list(explained.variables),
        "commands": None if plan.commands is None else sorted(plan.commands.rules),
        "broker": _programs_tree(plan.programs),
        "limits": {name: getattr(plan.limits, name) for name in ProcessLimits.field_names()},
        "held": [held.path for held in plan.held],
        "approximate": [
            {"path": each.path, "op": each.op, "why": each.why, "laxer": each.laxer} for each in arrangement.approximate
        ],
    }


def _place_tree(place: PathGrant) -> dict[str, Any]:
    tree = {"path": place.path, "kind": place.kind, "capabilities": sorted(place.capabilities), "why": place.why}
    return {**tree, "shows": place.source} if place.source else tree


def _mount_tree(mount: ViewMount) -> dict[str, Any]:
    return {"path": mount.path, "how": _how(mount)}


def plan_lines(explained: Explained) -> Iterator[str]:
    """Yield the plan for people."""
    plan, arrangement = explained.plan, explained.arrangement
    program = explained.program if explained.program is not None else "not found"
    yield f"program      {shown(program)}, started in {shown(explained.directory)}"
    yield f"launcher     {explained.launcher}"
    yield f"backend      {_BACKENDS[explained.backend]}"
    network = _NAMED if plan.reaches_nothing else _NETWORK[plan.network]
    yield f"network      {network if explained.backend != LANDLOCK else 'none: no sockets but pairs'}"
    yield f"environment  {', '.join(sorted(shown(name) for name in explained.variables))}"
    if plan.commands is not None:
        yield f"commands     {', '.join(sorted(shown(name) for name in plan.commands.rules)) or 'none'}"
        yield from _held_commands(plan)
    limits = [
        f"{name} {value}" for name in ProcessLimits.field_names() if (value := getattr(plan.limits, name)) is not None
    ]
    yield f"limits       {', '.join(limits) or 'the usual number of processes'}"
    yield ""
    yield "what it sees, and may do there"
    mounts = {mount.path: _how(mount) for mount in arrangement.mounts}
    held = {each.path for each in plan.held}
    listed = [place for place in plan.places if place.path not in held and place.why != NOT_FOR_EVERY_USER]
    rows = [(_path(plan, place), place.given, mounts.get(place.path, "Landlock"), shown(place.why)) for place in listed]
    yield from fitting_columns([("path", "may", "held by", "because"), *rows])
    covered = sum(place.why == NOT_FOR_EVERY_USER for place in plan.places)
    if covered:
        yield f"  and {covered} places in /etc are covered: {NOT_FOR_EVERY_USER}"
    if held:
        yield ""
        yield "names that do not exist and are kept free while it runs"
        names = ", ".join(shown(path[len(plan.root) + 1 :]) for path in sorted(held))
        yield from (f"  {line}" for line in wrap(names, min(WIDEST, room() - 2), break_on_hyphens=False))
    yield ""
    if arrangement.approximate:
        yield "what the kernel does not enforce exactly as `byleave check` answers"
        yield from _approximations(arrangement.approximate)
    else:
        yield "the kernel enforces all of this exactly as `byleave check` answers"
    if plan.network == NO_NETWORK or plan.reaches_nothing:
        return
    yield ""
    yield "a host with path rules is reached by plain http only: TLS hides the path"


def _approximations(found: Sequence[Approximation]) -> Iterator[str]:
    """Yield where the kernel is stricter or laxer, each reason once, below all places that it is about."""
    together: dict[tuple[str, str], list[str]] = {}
    for each in found:
        together.setdefault((each.op, each.why), []).append(shown(each.path))
    for (op, why), places in together.items():
        yield from (f"  {place}" for place in places)
        indent = " " * 6
        width = min(WIDEST, room())
        text = f"{op}: {shown(why)}"
        yield from wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _path(plan: SandboxPlan, place: PathGrant) -> str:
    """Name a place as people do: in the workspace, from its root."""
    inside = is_under(place.path, plan.root) and place.path != plan.root
    return shown(place.path[len(plan.root) + 1 :] if inside else place.path)


def _held_commands(plan: SandboxPlan) -> Iterator[str]:
    """Say how a program is kept from starting anything but what is listed."""
    programs = plan.programs
    if programs is None:
        return
    found = {name for name, _path in programs.listed}
    yield f"             a broker runs them; the program finds stand-ins in {BIN}, first on PATH"
    itself = ", ".join(shown(path) for path in programs.executed) or "itself"
    yield f"             beside them it executes nothing but {itself}"
    yield f"             {len(programs.covered)} directories of programs show it nothing else"
    missing = [name for name in sorted(plan.commands.rules if plan.commands else ()) if name not in found]
    if missing:
        yield f"             not found, or not to be started from here: {', '.join(shown(name) for name in missing)}"


def _programs_tree(programs: AllowedPrograms | None) -> dict[str, Any] | None:
    if programs is None:
        return None
    return {
        "stand_ins": [name for name, _path in programs.listed],
        "executes": list(programs.executed),
        "covered": list(programs.covered),
    }


def _how(mount: ViewMount) -> str:
    """Say how a mount holds its place."""
    if mount.is_mask:
        return "covered"
    words = [word for flag, word in ((RDONLY, "read-only"), (NOEXEC, "noexec")) if mount.attributes & flag]
    return f"mount{' ' if words else ''}{', '.join(words)}"
