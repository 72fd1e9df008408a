"""`byleave run`: run a program so that the operating system holds it to the policy.

With `--explain` nothing is run: it prints what the program would be given, and which mechanism would hold it to that.
"""

from __future__ import annotations

import os
import signal
import sys
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING

from byleave.cli.mount_command import mount_first, own_mounts
from byleave.cli.output import columns, complain, say, say_json, say_verbose, warn
from byleave.cli.workspace import (
    confining_guard,
    confining_policy,
    decided_by,
    open_workspace,
    origins,
    refuse_both,
    warn_of_tampering,
    warn_of_weaker,
)
from byleave.core.access import ProcessLimits
from byleave.core.fs_rules import is_under
from byleave.errors import InputError, SandboxError
from byleave.launch.start import ProgramStart, start_confined
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.host import refuse_elsewhere
from byleave.sandbox.linux.backends import BWRAP, LANDLOCK, NAMESPACES
from byleave.sandbox.linux.steps import NOEXEC, RDONLY
from byleave.sandbox.plan.plan import BIN, NO_NETWORK
from byleave.sandbox.plan.private_files import NOT_FOR_EVERY_USER
from byleave.sandbox.sandbox import ToolSandbox
from byleave.sandbox.tamper_check import start_time
from byleave.text import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.net.proxy import Decide
    from byleave.sandbox.diagnose.diagnosis import Observer
    from byleave.sandbox.linux.steps import ViewMount
    from byleave.sandbox.plan.plan import AllowedPrograms, PathGrant, SandboxPlan
    from byleave.sandbox.process import Process
    from byleave.sandbox.sandbox import Explained
    from byleave.sandbox.terminal import OwnTerminal


TIMED_OUT = 124  # as timeout(1) says it
# What reaches the program: it is in a session of its own, where the terminal does not send it anything.
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_WAITING = (*_PASSED_ON, signal.SIGCHLD, signal.SIGTSTP, signal.SIGWINCH)


def run(given: ParsedArguments) -> int:
    """Run the program, or say what it would be given; the exit code is the program's own."""
    if not given.rest:
        raise InputError("no program was named", hint="byleave run -- PROGRAM ARGS...")
    refuse_both(given)
    refuse_elsewhere(sys.platform)
    workspace = open_workspace(given)
    mount_first(given, workspace, own=given.one("tool") is None)
    policy, tool = confining_policy(given, workspace)
    say_verbose(given, origins(policy))
    warn(given, policy.warnings)
    mounts = own_mounts(given, workspace, policy.compiled) if given.one("tool") is None else ()
    options = SandboxOptions(limits=policy.compiled.tools[tool].limits, mounts=tuple(mounts))
    with Confinement(workspace, policy, tool, options) as confinement:
        return _explain(given, confinement) if given.flag("explain") else _run(given, confinement)


def _explain(given: ParsedArguments, confinement: Confinement) -> int:

    explained = ToolSandbox(confinement, confinement.policy.decide).explain(list(given.rest))
    if given.flag("json"):
        say_json(plan_tree(explained))
    else:
        for line in plan_lines(explained):
            say(line)
    return 0


def _run(given: ParsedArguments, confinement: Confinement) -> int:
    # Signals wait from here on: none is lost between the start of the program and our waiting for it, and none reaches
    # a thread of the guard, where it would end this process.
    waiting = set(_WAITING)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # our parent may ignore it, and then we would never get it
    signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    shown_before = confinement.policy.warnings
    guard = confining_guard(given, confinement.workspace, confinement.policy)
    observer = _observer(confinement) if given.flag("diagnose") else None
    since = start_time()
    try:
        process, terminal = _start(given, confinement, observer, decided_by(guard))
        return _outcome(process, terminal, confinement.options.limits)
    except SandboxError as error:
        complain(f"byleave: {shown_lines(str(error))}")
        return error.exit_code
    finally:
        warn(given, [each for each in guard.warnings if each not in shown_before])
        warn_of_tampering(given, confinement, since)
        if observer is not None:
            from byleave.cli.diagnose import report_refusals

            report_refusals(given, confinement, observer)
        guard.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waiting)


def _start(
    given: ParsedArguments, confinement: Confinement, observer: Observer | None, decide: Decide
) -> tuple[Process, OwnTerminal | None]:
    """Start the program, at a terminal of its own if one of our streams is a terminal."""
    from byleave.sandbox.terminal import own_terminal

    terminal = own_terminal()
    start = ProgramStart(command=given.rest, stdin=None, stdout=None, stderr=None, terminal=terminal, observer=observer)
    try:
        process = start_confined(confinement, start, decide=decide)
    except BaseException:
        if terminal is not None:
            terminal.close()
        raise
    warn_of_weaker(given, confinement)
    if terminal is not None:
        terminal.serve(process, lambda: os.kill(os.getpid(), signal.SIGTSTP))
    return process, terminal


def _observer(confinement: Confinement) -> Observer:
    from byleave.sandbox.diagnose.diagnosis import Observer

    return Observer(confinement.host.machine)


def _outcome(process: Process, terminal: OwnTerminal | None, limits: ProcessLimits) -> int:
    """Wait for the end, passing signals on; return the exit code as a shell says it."""
    try:
        with process:
            in_time = _attend(process, terminal, limits.wall_time)
            code = process.wait()
    finally:
        if terminal is not None:
            terminal.close()
    if not in_time:
        complain(f"byleave: the program was ended: it took longer than {limits.wall_time:g} seconds")
        return TIMED_OUT
    if process.problem is not None:
        complain(f"byleave: {shown_lines(str(process.problem))}")
        return process.problem.exit_code
    return code if code >= 0 else 128 - code


def _attend(process: Process, terminal: OwnTerminal | None, longest: float | None) -> bool:
    """Pass signals on until the program has ended; return False if it had to be ended because it took too long."""
    end = None if longest is None else monotonic() + longest
    while process.poll() is None:
        if end is None:
            got = signal.sigwaitinfo(_WAITING)
        else:
            timed = signal.sigtimedwait(_WAITING, max(end - monotonic(), 0))
            if timed is None:
                process.kill()
                process.wait()
                return False
            got = timed
        _pass_on(process, terminal, got)
    return True


def _pass_on(process: Process, terminal: OwnTerminal | None, got: signal.struct_siginfo) -> None:
    """Do for the program what a signal asks of us."""
    number = got.si_signo
    if number == signal.SIGTSTP:
        _suspend(process, terminal, whole_job=got.si_pid == os.getpid())
    elif number == signal.SIGWINCH:
        if terminal is not None:
            terminal.resize()
    elif number in _PASSED_ON and got.si_code <= 0:  # sent to this process alone
        process.send_signal(number)
    elif number in (signal.SIGINT, signal.SIGQUIT) and terminal is not None and terminal.controls:
        terminal.signal(number)
    elif number in _PASSED_ON:
        process.signal_all(number)


def _suspend(process: Process, terminal: OwnTerminal | None, *, whole_job: bool) -> None:
    """Stop with the program until we are continued; the `whole_job`, if a key at the terminal stopped it."""
    process.signal_all(signal.SIGSTOP)
    if terminal is not None:
        terminal.pause()
    stopping = {signal.SIGTSTP}
    os.kill(0 if whole_job else os.getpid(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)  # here we stop
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    if terminal is not None:
        terminal.resume()
        terminal.resize()
    process.signal_all(signal.SIGCONT)


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
        "network": plan.network,
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
    yield f"network      {_NETWORK[plan.network] if explained.backend != LANDLOCK else 'none: no sockets but pairs'}"
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
    yield from columns([("path", "may", "held by", "because"), *rows])
    covered = sum(place.why == NOT_FOR_EVERY_USER for place in plan.places)
    if covered:
        yield f"  and {covered} places in /etc are covered: {NOT_FOR_EVERY_USER}"
    if held:
        yield ""
        yield "names that do not exist and are kept free while it runs"
        names = ", ".join(shown(path[len(plan.root) + 1 :]) for path in sorted(held))
        yield from (f"  {line}" for line in wrap(names, WIDEST, break_on_hyphens=False))
    yield ""
    if arrangement.approximate:
        yield "what the kernel does not enforce exactly as `byleave check` answers"
        yield from columns([(shown(each.path), each.op, shown(each.why)) for each in arrangement.approximate])
    else:
        yield "the kernel enforces all of this exactly as `byleave check` answers"
    if plan.network == NO_NETWORK:
        return
    yield ""
    yield "a host with path rules is reached by plain http only: TLS hides the path"


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
