"""The tools that come with byleave, written with the SDK like all others. Each runs as `vfs` and `stdio` alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from byleave.sdk.tool import Tool

NAMES = (
    "fs_create_file",
    "fs_delete_file",
    "fs_grep_files",
    "fs_list_files",
    "fs_modify_file",
    "fs_move_file",
    "fs_read_file",
    "unix_utils",
)


def load(name: str) -> Tool:
    """Return the tool of that name; KeyError if there is none. Only that one is loaded."""
    if name not in NAMES:
        raise KeyError(name)
    from importlib import import_module

    found: Tool = getattr(import_module(f"byleave.tools.{name}"), name)
    return found
