"""Search the contents of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_results import NotFound
from byleave.text import shown
from byleave.tools.texts import clipped, counted, with_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.sdk.vfs import Host, Match

_MOST_LINES = 2000
_MOST_CONTEXT = 50


@tool
def fs_grep_files(
    host: Host,
    pattern: Annotated[str, "a regular expression that matches within a line"],
    paths: Annotated[list[str] | None, "files and directories to search; without them, everything"] = None,
    extensions: Annotated[list[str] | None, "only files with one of these extensions, such as rs"] = None,
    context: Annotated[int, "how many lines to show before and after each match"] = 0,
) -> list[dict[str, Any]]:
    """Search the contents of files for a regular expression.

    The first block shows each file and its lines: `12: text` matches, `13- text` stands beside a match, `--` is a gap.
    The second says how many lines matched, in how many files, and whether the rest was left out.
    """
    if not 0 <= context <= _MOST_CONTEXT:
        raise ToolError(f"context must be a number from 0 to {_MOST_CONTEXT}")
    try:
        matches = sorted(host.grep(pattern, paths, extensions, context), key=lambda match: match.path)
    except NotFound as error:
        raise ToolError(f"one of the paths does not exist: {error.message}") from None
    lines = [line for match in matches for line in _shown(match)]
    return with_note("\n".join(lines[:_MOST_LINES]).rstrip("\n"), _note(matches, cut=len(lines) > _MOST_LINES))


def _shown(match: Match) -> Iterator[str]:
    yield match.path
    before = None
    for line in match.lines:
        if before is not None and line.number != before + 1:
            yield "--"
        yield f"{line.number}{':' if line.is_match else '-'} {clipped(line.content)}"
        before = line.number
    yield ""


def _note(matches: Sequence[Match], *, cut: bool) -> str:
    count = sum(line.is_match for match in matches for line in match.lines)
    said = f"{counted(count, 'match')} in {counted(len(matches), 'file')}"
    return f"{said}; only the first {_MOST_LINES} lines are shown" if cut else said


@fs_grep_files.formatter
def _format(arguments: Mapping[str, Any]) -> str:
    where = ", ".join(arguments.get("paths") or ["all files"])
    return f"search {shown(where)} for {shown(arguments['pattern'])}"
