"""Create a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_results import AlreadyExists
from byleave.text import shown
from byleave.tools.texts import counted, lines_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.sdk.vfs import Host

_MOST_SHOWN = 20  # lines of the content, where a person is asked


@tool
def fs_create_file(
    host: Host,
    path: Annotated[str, "the file, relative to the workspace; directories above it are made"],
    content: Annotated[str, "what the file holds"] = "",
    overwrite: Annotated[bool, "replace a file that is there"] = False,  # noqa: FBT002 -- arguments come by name
) -> str:
    """Create a file. One that is there already is left alone, and is an error, unless it may be overwritten.

    Directories are made with the first file in them; a directory alone is not created.
    """
    if path.endswith("/"):
        raise ToolError(f"{path} names a directory; directories are made with the first file in them")
    try:
        host.write(path, content, exclusive=not overwrite)
    except AlreadyExists:
        raise ToolError(f"{path} exists already; change it with fs_modify_file, or say overwrite") from None
    return f"Wrote {path} ({counted(len(lines_of(content)), 'line')})."


@fs_create_file.formatter
def _format(arguments: Mapping[str, Any]) -> str:
    lines = lines_of(arguments.get("content", ""))
    verb = "write" if arguments.get("overwrite") else "create"
    begins = "".join(f"\n  {shown(line.rstrip())}" for line in lines[:_MOST_SHOWN])
    more = f"\n  and {counted(len(lines) - _MOST_SHOWN, 'line')} more" if len(lines) > _MOST_SHOWN else ""
    return f"{verb} {shown(arguments['path'])} ({counted(len(lines), 'line')}){begins}{more}"
