"""Delete a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_results import InvalidParams, NotFound
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.sdk.vfs import Host


@tool
def fs_delete_file(host: Host, path: Annotated[str, "the file, relative to the workspace"]) -> str:
    """Delete a file. Directories are not deleted."""
    try:
        host.delete(path)
    except NotFound:
        raise ToolError(f"{path} does not exist") from None
    except InvalidParams:
        raise ToolError(f"{path} is a directory, and only files are deleted") from None
    return f"Deleted {path}."


@fs_delete_file.formatter
def _format(arguments: Mapping[str, Any]) -> str:
    return f"delete {shown(arguments['path'])}"
