"""`byleave doctor`, the part about the OS sandbox: what this machine has, what works, and what is not enforced."""

import os
import sys

from byleave.cli.finding import BAD, GOOD, NOTE, Finding
from byleave.errors import ByleaveError, SandboxError
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.api import Workspace
    from byleave.guard.judge import Policy
    from byleave.sandbox.backends import Machine

WHAT = "OS sandbox"
_HELP = {
    "namespaces": "a container may need --security-opt or --privileged; on Ubuntu see "
    "kernel.apparmor_restrict_unprivileged_userns, elsewhere user.max_user_namespaces",
}


def sandbox_findings(workspace: "Workspace", policy: "Policy | None") -> "Iterator[Finding]":
    """Yield what the doctor finds about the sandbox on this machine."""
    from byleave.sandbox.platforms import obstacle_on

    obstacle = obstacle_on(sys.platform)
    if obstacle is not None:
        yield Finding(NOTE, WHAT, obstacle)
        return
    from byleave.sandbox import host
    from byleave.sandbox.backends import Machine
    from byleave.sandbox.build import find_launcher

    found = host.this_host(namespaces=True)
    yield Finding(GOOD, "kernel", f"Linux {shown(os.uname().release)} on {shown(found.machine)}")
    yield _landlock(found.landlock)
    try:
        launcher = find_launcher(workspace.homes.memory)
    except ByleaveError as error:
        yield Finding(BAD, "launcher", f"{error.problem}; {error.hint}")
        return
    slow = len(launcher.command) > 1
    yield Finding(NOTE if slow else GOOD, "launcher", f"{launcher.origin}: {shown(launcher.command[-1])}")
    machine = Machine(found, host.base_view(), launcher)
    yield from _backends(machine)
    yield _enforced(machine, policy)


def _landlock(version: int) -> Finding:
    from byleave.sandbox.linux import SCOPES_SINCE

    if not version:
        return Finding(NOTE, "Landlock", "this kernel has none: creating, changing and removing are not told apart")
    if version < SCOPES_SINCE:
        return Finding(NOTE, "Landlock", f"version {version}; from {SCOPES_SINCE} on it also holds signals and sockets")
    return Finding(GOOD, "Landlock", f"version {version}")


def _backends(machine: "Machine") -> "Iterator[Finding]":
    """Yield whether each backend works; one that is not needed is no reason to worry."""
    from byleave.sandbox.backends import BWRAP, LANDLOCK, NAMESPACES, probe

    works = {name: probe(name, machine) for name in (NAMESPACES, BWRAP, LANDLOCK)}
    needed = True
    for name, what in ((NAMESPACES, "namespaces"), (BWRAP, "bwrap"), (LANDLOCK, "Landlock alone")):
        found = works[name]
        if found.works:
            yield Finding(GOOD, what, "works" if needed else "works, and is not needed")
            needed = False
        else:
            state = NOTE if needed else GOOD
            hint = f"; {_HELP[name]}" if needed and name in _HELP else ""
            yield Finding(state, what, f"{found.why}{hint}" if needed else f"not needed ({found.why})")


def _enforced(machine: "Machine", policy: "Policy | None") -> Finding:
    """Say by what `byleave run` would hold a program of the default policy, and what of it is not held."""
    from byleave.sandbox.backends import NAMESPACES, choose, make
    from byleave.sandbox.plan import Plan

    settings = {} if policy is None else policy.compiled.settings
    required = settings.get("defaults", {}).get("os_sandbox") == "require"
    plan = Plan("/", machine.base.places, machine.base.links)
    try:
        backend = choose(plan, machine, exact=required)
    except SandboxError as error:
        return Finding(BAD if required else NOTE, WHAT, f"`byleave run` refuses to run anything: {error.problem}")
    if backend == NAMESPACES:
        return Finding(GOOD, WHAT, "namespaces, Landlock and a filter of system calls hold every program")
    weaker = make(backend, plan, machine).weaker
    return Finding(NOTE, WHAT, weaker or f"{backend} holds every program, as namespaces of our own do not work")
