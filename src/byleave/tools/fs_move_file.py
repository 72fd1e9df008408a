"""Move or rename a file or a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_results import AccessDenied, AlreadyExists, NotFound
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.sdk.vfs import Host


@tool
def fs_move_file(
    host: Host,
    source: Annotated[str, "the file or directory, relative to the workspace"],
    target: Annotated[str, "its new path; with a slash at the end, the directory to move it into"],
    overwrite: Annotated[bool, "replace a file that is at the target"] = False,  # noqa: FBT002 -- arguments come by name
) -> str:
    """Move or rename a file or a directory; directories above the target are made.

    What is at the target already is left alone, and is an error, unless it is a file that may be overwritten.
    """
    to = f"{target}{source.rstrip('/').rpartition('/')[2]}" if target.endswith("/") else target
    try:
        if not overwrite and _exists(host, to):
            raise ToolError(f"{to} exists already")
        host.rename(source, to, exclusive=not overwrite)
    except NotFound:
        raise ToolError(f"{source} does not exist") from None
    except AlreadyExists:
        raise ToolError(f"{to} exists already") from None
    return f"Moved {source} to {to}."


def _exists(host: Host, path: str) -> bool:
    try:
        return host.exists(path)
    except AccessDenied as error:  # to replace a file unseen needs the option
        raise ToolError(f"whether {path} exists may not be seen, so nothing is moved there: {error}") from None


@fs_move_file.formatter
def _format(arguments: Mapping[str, Any]) -> str:
    return f"move {shown(arguments['source'])} to {shown(arguments['target'])}"
