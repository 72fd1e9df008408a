"""How a mount is called: by the user, by the rule that is written for it, and by the compiler that judges it."""

import os

from byleave.core.fs import Refused
from byleave.core.paths import collapse, is_absolute, refuse_name
from byleave.errors import MountError
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.workspace.resolve import Root


def name_inside(root: "Root", name: str, cwd: str) -> str:
    """Return the lexical, workspace-relative form of a name that is relative to the working directory."""
    refused = refuse_name(name)
    if is_absolute(name):
        hint = "name it relative to the working directory"
        raise MountError(f"the name {quoted(name)} is absolute", hint=hint, code="outside_workspace")
    if refused is not None:
        raise MountError(refused.problem, hint="choose a plain name", code="invalid_name")
    inside = root.relative(cwd)
    lexical = collapse(f"{inside}/{name}") if inside is not None else root.relative(os.path.normpath(f"{cwd}/{name}"))
    if lexical is None:
        hint = "the link must stand inside the workspace"
        raise MountError(f"the name {quoted(name)} leads out of the workspace", hint=hint, code="outside_workspace")
    return lexical


def rule_path_of(root: "Root", path: str) -> str:
    """Return by which path a place outside is judged: by the last link that leads there."""
    place = root.resolve_rule(path)
    if isinstance(place, Refused):
        return path
    return place.door or place.relative or path


def named_rule(rule: "Mapping[str, Any]", rule_path: str) -> bool:
    """Whether an external rule is written for this path, wherever that leads by now."""
    return bool(rule.get("external")) and collapse(rule["path"]) == rule_path
