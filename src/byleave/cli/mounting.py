"""--mount and --no-mount, the flag forms of `mount` and `unmount` on commands that start something."""

import os

from byleave.cli.workspace import working_directory
from byleave.errors import MountError
from byleave.mounts.spec import CAPABILITIES, parse_spec
from byleave.sandbox.plan import Brought
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.api import Workspace
    from byleave.cli.arguments import Given


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


def own_mounts(given: "Given", workspace: "Workspace") -> "list[Brought]":
    """Return the mounts that hold for this run; a MountError if one cannot be made."""
    return [_own(spec, workspace) for spec in given.options.get("mount", ())]


def _own(text: str, workspace: "Workspace") -> Brought:
    left = text.partition("=")[0]
    spec = parse_spec(text if ":" in left else f"run:{text}")  # it is for this run alone, so it may be written to
    root = workspace.root.path
    name = os.path.normpath(os.path.join(working_directory(), spec.name))
    if not name.startswith(f"{root}/"):
        name = os.path.normpath(os.path.join(root, spec.name))
    if not name.startswith(f"{root}/"):
        hint = "name a place in the workspace"
        raise MountError(f"{quoted(spec.name)} lies outside the workspace", hint=hint, code="outside_workspace")
    target = os.path.realpath(os.path.join(working_directory(), os.path.expanduser(spec.path)))
    if not os.path.lexists(target):
        raise MountError(f"{quoted(spec.path)} does not exist", hint="create it first", code="missing_target")
    if target == root or root.startswith(f"{target.rstrip('/')}/"):
        raise MountError(
            f"{quoted(spec.path)} holds the workspace", hint="mount a directory beside it", code="contains_workspace"
        )
    if target.startswith(f"{root}/"):
        raise MountError(
            f"{quoted(spec.path)} is in the workspace already", hint="grant it by a rule", code="inside_workspace"
        )
    if os.path.lexists(name) and not (os.path.islink(name) and os.path.realpath(name) == target):
        raise MountError(f"{quoted(spec.name)} exists already", hint="choose another name", code="not_a_symlink")
    return Brought(name, target, frozenset(CAPABILITIES[spec.mode]))
