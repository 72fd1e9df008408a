"""--mount and --no-mount, the flag forms of `mount` and `unmount` on commands that start something."""

import os

from byleave.cli.workspace import working_directory
from byleave.core.fs import WRITES, Refused
from byleave.errors import MountError
from byleave.mounts.refusals import refuse_name, refuse_target
from byleave.mounts.spec import CAPABILITIES, parse_spec
from byleave.sandbox.plan import Brought
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.api import Workspace
    from byleave.cli.arguments import Given
    from byleave.config.compile import Compiled
    from byleave.workspace.resolve import Root


def mount_first(given: "Given", workspace: "Workspace", *, own: bool) -> None:
    """Change the session's mounts as the flags say, with the consent that `mount` and `unmount` ask for.

    With `own`, --mount is not the session's business: it holds for this run.
    """
    if "no_mount" in given.options:
        from byleave.cli.unmount_command import unmount_named

        for name in dict.fromkeys(given.options["no_mount"]):
            unmount_named(given, workspace, name or None)
    if "mount" in given.options and not own:
        from byleave.cli.mount_command import mount_specs

        mount_specs(given, workspace, tuple(given.options["mount"]))
    if not own:
        _review(given, workspace)


def _review(given: "Given", workspace: "Workspace") -> None:
    """Ask about ways out of the workspace that nobody has approved yet, if somebody is there to ask."""
    from byleave.approvals.store import now
    from byleave.cli.terminal import YES, ask_person, may_ask
    from byleave.cli.workspace import load_policy
    from byleave.mounts.review import settle, waiting

    bindings = waiting(load_policy(given, workspace).compiled, workspace.approvals)
    if not bindings or not may_ask(given):
        return

    def ask(lines: list[str], question: str) -> bool:
        text = "".join(f"{line}\n" for line in lines)
        return (ask_person(f"{text}{question} [y/N] ") or "").lower() in YES

    settle(workspace, bindings, ask, now=now())


def own_mounts(given: "Given", workspace: "Workspace", compiled: "Compiled") -> "list[Brought]":
    """Return the mounts that hold for this run; a MountError for one that `byleave mount` would refuse as well."""
    return [_own(spec, workspace, compiled) for spec in given.options.get("mount", ())]


def _own(text: str, workspace: "Workspace", compiled: "Compiled") -> Brought:
    left = text.partition("=")[0]
    spec = parse_spec(text if ":" in left else f"run:{text}")  # it is for this run alone, so it may be written to
    name = _name(spec.name, workspace.root)
    refuse_name(workspace, compiled, spec.name, name)
    target = os.path.realpath(os.path.join(working_directory(), os.path.expanduser(spec.path)))
    if not os.path.lexists(target):
        raise MountError(f"{quoted(spec.path)} does not exist", hint="create it first", code="missing_target")
    given = frozenset(CAPABILITIES[spec.mode])
    refuse_target(workspace, compiled, spec.path, target, writes=not given.isdisjoint(WRITES))
    place = os.path.join(workspace.root.path, name)
    if os.path.lexists(place) and not (os.path.islink(place) and os.path.realpath(place) == target):
        raise MountError(f"{quoted(spec.name)} exists already", hint="choose another name", code="not_a_symlink")
    return Brought(place, target, given)


def _name(written: str, root: "Root") -> str:
    """Return where in the workspace a name stands, the directories above it being canonical."""
    path = os.path.normpath(os.path.join(working_directory(), written))
    if not path.startswith(f"{root.path}/"):
        path = os.path.normpath(os.path.join(root.path, written))
    above, last = os.path.split(path)
    parent = root.resolve_place(above, "/")
    if not path.startswith(f"{root.path}/") or isinstance(parent, Refused) or parent.relative is None:
        hint = "name a place in the workspace"
        raise MountError(f"{quoted(written)} lies outside the workspace", hint=hint, code="outside_workspace")
    return os.path.join(parent.relative, last)
