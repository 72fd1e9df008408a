"""`byleave run --explain`: what a program would be given, and which mechanism holds it to that."""

from byleave.cli.output import columns
from byleave.core.limits import Limits
from byleave.sandbox.linux import NOEXEC, RDONLY
from byleave.sandbox.plan import NO_NETWORK
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.sandbox.box import Explained
    from byleave.sandbox.linux import Mount
    from byleave.sandbox.plan import Place

_NETWORK = {
    "none": "none: an empty network of its own, no unix sockets",
    "proxy": "only through the proxy, which judges every request by the rules",
}


def plan_tree(explained: "Explained") -> "dict[str, Any]":
    """Return the plan for programs."""
    plan, arrangement = explained.plan, explained.arrangement
    return {
        "root": plan.root,
        "program": explained.program,
        "directory": explained.directory,
        "launcher": explained.launcher,
        "places": [_place_tree(place) for place in plan.places],
        "mounts": [_mount_tree(mount) for mount in arrangement.mounts],
        "masked": list(arrangement.covered),
        "landlock": {"version": explained.host.landlock, "rules": [path for path, _r, _k in arrangement.grants]},
        "seccomp": True,
        "namespaces": ["user", "mount", "net", "ipc", "pid", "uts", "cgroup"],
        "network": plan.network,
        "environment": list(explained.variables),
        "commands": None if plan.commands is None else sorted(plan.commands.rules),
        "limits": {name: getattr(plan.limits, name) for name in Limits.field_names()},
        "held": [held.path for held in plan.held],
        "approximate": [
            {"path": each.path, "op": each.op, "why": each.why, "laxer": each.laxer} for each in arrangement.approximate
        ],
    }


def _place_tree(place: "Place") -> "dict[str, Any]":
    tree = {"path": place.path, "kind": place.kind, "capabilities": sorted(place.capabilities), "why": place.why}
    return {**tree, "shows": place.source} if place.source else tree


def _mount_tree(mount: "Mount") -> "dict[str, Any]":
    return {"path": mount.path, "how": _how(mount)}


def plan_lines(explained: "Explained") -> "Iterator[str]":
    """Yield the plan for people."""
    plan, arrangement = explained.plan, explained.arrangement
    program = explained.program if explained.program is not None else "not found"
    yield f"program      {shown(program)}, started in {shown(explained.directory)}"
    yield f"launcher     {explained.launcher}"
    yield f"network      {_NETWORK[plan.network]}"
    yield f"environment  {', '.join(sorted(shown(name) for name in explained.variables))}"
    if plan.commands is not None:
        yield f"commands     {', '.join(sorted(shown(name) for name in plan.commands.rules)) or 'none'}"
    limits = [f"{name} {value}" for name in Limits.field_names() if (value := getattr(plan.limits, name)) is not None]
    yield f"limits       {', '.join(limits) or 'the usual number of processes'}"
    yield ""
    yield "what it sees, and may do there"
    mounts = {mount.path: _how(mount) for mount in arrangement.mounts}
    rows = [
        (shown(place.path), place.given, mounts.get(place.path, "Landlock"), shown(place.why)) for place in plan.places
    ]
    yield from columns([("path", "may", "held by", "because"), *rows])
    if plan.held:
        yield ""
        yield "names that are kept free while it runs"
        yield f"  {', '.join(shown(held.path[len(plan.root) + 1 :]) for held in plan.held)}"
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


def _how(mount: "Mount") -> str:
    """Say how a mount holds its place."""
    if mount.is_mask:
        return "covered"
    words = [word for flag, word in ((RDONLY, "read-only"), (NOEXEC, "noexec")) if mount.attributes & flag]
    return f"mount{' ' if words else ''}{', '.join(words)}"
