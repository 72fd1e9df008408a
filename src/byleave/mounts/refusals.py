"""What no mount may show or change, whichever command makes it: byleave's own files, hook settings, the workspace.

`byleave mount`, and `--mount` on every command, ask here.
"""

import os

from byleave.config.homes import real_path
from byleave.core.fs import FsTarget, fold, is_under
from byleave.errors import MountError
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.api import Workspace
    from byleave.config.compile import Compiled
    from byleave.workspace.resolve import Root

_OF_THE_KERNEL = ("/proc", "/sys", "/dev")  # processes, settings and devices of the machine
_FOREIGN_STORAGE = (".jp",)  # of the program that the rules come from


def refuse_target(workspace: "Workspace", compiled: "Compiled", path: str, target: str, *, writes: bool) -> None:
    """Refuse a target that is in the workspace, holds it, or reaches what steers byleave and the agents."""
    root = workspace.root
    if root.relative(target) is not None:
        hint = "what lies in the workspace needs no mount: write a rule for its path"
        raise MountError(f"{quoted(path)} lies in the workspace", hint=hint, code="inside_workspace")
    if is_under(root.path, target):
        hint = "mount something that does not hold the workspace"
        raise MountError(f"{quoted(path)} contains the workspace", hint=hint, code="contains_workspace")
    kernel = next((place for place in _OF_THE_KERNEL if is_under(target, place)), None)
    if kernel is not None:
        hint = "a sandbox has its own: mount ordinary files and directories"
        raise MountError(f"{quoted(path)} lies in {kernel}, which is the kernel's", hint=hint, code="managed_storage")
    files = [real_path(layer.path) for layer in compiled.layers if layer.path]
    foreign = [place for place in _foreign_names(root) if place.startswith("/")]
    for place in (*workspace.homes.own_places(root.path), *files, *foreign):
        if is_under(place, target) or is_under(target, place):
            raise _managed(path, place)
    protection = compiled.policy.protected.of(
        FsTarget(target, None, directory=os.path.isdir(target)), subtree=os.path.isdir(target)
    )
    if writes and protection is not None and protection.final:
        raise _managed(path, protection.path)


def refuse_name(workspace: "Workspace", compiled: "Compiled", name: str, path: str) -> None:
    """Refuse names at, under and above what steers byleave and the agents: a mount would exchange all of it."""
    root = workspace.root
    protection = compiled.policy.protected.of(FsTarget(os.path.join(root.path, path), path), subtree=True)
    folded = fold(path)
    foreign = any(is_under(folded, place) or is_under(place, folded) for place in _foreign_names(root))
    if foreign or (protection is not None and protection.final):
        place = path if foreign or protection is None else protection.place
        problem = f"{quoted(name)} would change {quoted(place)}, which is not for mounts"
        raise MountError(problem, hint="choose another name", code="managed_storage")


def _managed(path: str, place: str) -> MountError:
    hint = "mount something that does not hold byleave's own files, or another program's"
    return MountError(f"{quoted(path)} reaches {quoted(place)}", hint=hint, code="managed_storage")


def _foreign_names(root: "Root") -> "Iterator[str]":
    """Yield the names of other programs' storage, and where they lead: in the workspace, or absolute."""
    for name in _FOREIGN_STORAGE:
        yield name
        place = root.resolve_rule(name)
        if isinstance(place, FsTarget) and place.relative != "":
            yield place.canonical if place.relative is None else fold(place.relative)
