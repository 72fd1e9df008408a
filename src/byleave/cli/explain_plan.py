"""`byleave run --explain`: what a program would be given, and which mechanism holds it to that."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from byleave.cli.output import columns
from byleave.core.access import ProcessLimits
from byleave.core.fs_rules import is_under
from byleave.sandbox.linux.backends import BWRAP, LANDLOCK, NAMESPACES
from byleave.sandbox.linux.steps import NOEXEC, RDONLY
from byleave.sandbox.plan.plan import BIN, NO_NETWORK
from byleave.sandbox.plan.private_files import NOT_FOR_EVERYBODY
from byleave.text import shown

WIDEST = 110  # columns of the list of names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.sandbox.linux.steps import ViewMount
    from byleave.sandbox.plan.plan import AllowedPrograms, PathGrant, SandboxPlan
    from byleave.sandbox.sandbox import Explained

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
    listed = [place for place in plan.places if place.path not in held and place.why != NOT_FOR_EVERYBODY]
    rows = [(_path(plan, place), place.given, mounts.get(place.path, "Landlock"), shown(place.why)) for place in listed]
    yield from columns([("path", "may", "held by", "because"), *rows])
    covered = sum(place.why == NOT_FOR_EVERYBODY for place in plan.places)
    if covered:
        yield f"  and {covered} places in /etc are covered: {NOT_FOR_EVERYBODY}"
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
