"""Read a file, or some of its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_results import NotFound, NotText
from byleave.text import shown
from byleave.tools.texts import counted, lines_of, with_note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.sdk.vfs import Host


@tool
def fs_read_file(
    host: Host,
    path: Annotated[str, "the file, relative to the workspace"],
    start_line: Annotated[int | None, "the first line to read; lines count from 1"] = None,
    end_line: Annotated[int | None, "the last line to read, which is read too"] = None,
) -> list[dict[str, Any]]:
    """Read a text file, or some of its lines.

    The first block is the text as it is in the file, the second says which lines these are, and of how many. A first
    line that the file does not have is an error; a last line beyond the end means the end.
    """
    lines = lines_of(_text(host, path))
    first, last = _range(path, len(lines), start_line, end_line)
    return with_note("".join(lines[first - 1 : last]), _note(first, last, len(lines)))


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except NotFound:
        raise ToolError(f"{path} does not exist") from None
    except NotText:
        raise ToolError(f"{path} is not a text: it is not UTF-8") from None


def _range(path: str, count: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return the first and the last line of the request, if they make sense."""
    first, last = 1 if start is None else start, count if end is None else end
    if first < 1:
        raise ToolError(f"start_line is {first}, and lines count from 1")
    if end is not None and last < first:
        raise ToolError(f"end_line is {last}, which is before line {first}")
    if start is not None and first > count:
        raise ToolError(f"{path} has {counted(count, 'line')}, and start_line is {first}")
    return first, min(last, count)


def _note(first: int, last: int, count: int) -> str:
    if (first, last) == (1, count):
        return counted(count, "line")
    return f"line {first} of {count}" if first == last else f"lines {first} to {last} of {count}"


@fs_read_file.formatter
def _format(arguments: Mapping[str, Any]) -> str:
    start, end = arguments.get("start_line"), arguments.get("end_line")
    if start is None and end is None:
        return f"read {shown(arguments['path'])}"
    return f"read {shown(arguments['path'])}, lines {start or 1} to {end or 'the end'}"
