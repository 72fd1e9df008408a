"""Read `[TOOL:]NAME=PATH[:MODE]`, by its text alone.

Pure. What the name and the path lead to is `plan`'s.

How a mount is called: by the user, by the rule that is written for it, and by the compiler.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import RefusedPath
from byleave.core.paths import collapse, is_absolute, refuse_name
from byleave.errors import MountError
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.workspace.resolve import Root


READ_ONLY, READ_WRITE = "ro", "rw"
CAPABILITIES = {READ_ONLY: ("read",), READ_WRITE: ("read", "create", "update", "delete")}
_FORM = "write [TOOL:]NAME=PATH[:MODE], such as fork=~/code/forks/serde"
_TOOL_STARTS = frozenset("abcdefghijklmnopqrstuvwxyz_")
_TOOL_LETTERS = _TOOL_STARTS | frozenset("0123456789")


class MountSpec(Struct, frozen=True):
    """What the user typed: for which tool (None: all of them), under which name, which path, `ro` or `rw`."""

    tool: str | None
    name: str
    path: str
    mode: str


def parse_spec(text: str) -> MountSpec:
    """Return what a mount is asked to be; a `MountError` if the text is no such thing."""
    left, equals, right = text.partition("=")
    if not equals:
        raise MountError(f"{quoted(text)} has no `=` between name and path", hint=_FORM, code="missing_equals")
    tool, name = _split_tool(left)
    path, mode = _split_mode(right)
    if tool is not None and not is_tool_name(tool):
        hint = "a tool is named by small letters, digits and _; without a tool, leave the `:` out"
        raise MountError(f"{quoted(tool)} cannot be the name of a tool", hint=hint, code="invalid_tool")
    if not name:
        raise MountError(f"{quoted(text)} has no name before the `=`", hint=_FORM, code="empty")
    if not path:
        raise MountError(f"{quoted(text)} has no path after the `=`", hint=_FORM, code="empty")
    if mode == READ_WRITE and tool is None:
        hint = f"name the one tool that may write: TOOL:{text}"
        raise MountError(
            "rw needs a tool: writing is never given to all of them", hint=hint, code="write_requires_tool"
        )
    return MountSpec(tool, name, path, mode or READ_ONLY)


def is_tool_name(text: str) -> bool:
    """Whether the text is a name that can stand before the colon."""
    return text[:1] in _TOOL_STARTS and set(text) <= _TOOL_LETTERS if text else False


def _split_tool(left: str) -> tuple[str | None, str]:
    tool, colon, name = left.partition(":")
    return (tool, name) if colon else (None, left)


def _split_mode(right: str) -> tuple[str, str | None]:
    """Peel one mode off the end; drive letters and other colons stay with the path."""
    for mode in CAPABILITIES:
        if right.endswith(f":{mode}"):
            return right[: -len(mode) - 1], mode
    return right, None


def name_inside(root: Root, name: str, cwd: str) -> str:
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


def rule_path_of(root: Root, path: str) -> str:
    """Return the path that decides about a place outside: the last link that leads there."""
    place = root.resolve_rule(path)
    if isinstance(place, RefusedPath):
        return path
    return place.door or place.relative or path


def named_rule(rule: Mapping[str, Any], rule_path: str) -> bool:
    """Whether an external rule is written for this path, wherever that leads by now."""
    return bool(rule.get("external")) and collapse(rule["path"]) == rule_path
