"""List files, directory by directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from byleave.core.paths import collapse
from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_results import AccessDenied, NotFound
from byleave.text import shown
from byleave.tools.texts import counted, with_note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.sdk.vfs import Host

_MOST_FILES = 2000
_MOST_DIRECTORIES = 1000  # each is a request
_DEEPEST = 50


@tool
def fs_list_files(
    host: Host,
    path: Annotated[str, "the directory, relative to the workspace"] = ".",
    prefix: Annotated[str | None, "only files whose name begins with this"] = None,
    extensions: Annotated[list[str] | None, "only files with one of these extensions, such as rs"] = None,
    depth: Annotated[int, "how many directories deep; 1 is this directory alone"] = 20,
) -> list[dict[str, Any]]:
    """List the files in a directory and below it, one a line, sorted.

    The first block is the list, the second says how many there are and whether something was left out: entries that the
    tool may not read, directories that lie too deep (they are listed, with a slash), or more files than can be listed.
    What is in a directory `.git` is not listed.
    """
    if not 1 <= depth <= _DEEPEST:
        raise ToolError(f"depth must be a number from 1 to {_DEEPEST}")
    walk = _Walk(host, prefix or "", tuple(f".{each.lstrip('.')}" for each in extensions or ()), depth)
    try:
        kind = host.metadata(path).kind
    except NotFound:
        raise ToolError(f"{path} does not exist") from None
    if kind != "dir":
        raise ToolError(f"{path} is a file, not a directory")
    walk.run(collapse(path) or "")
    return with_note("\n".join(sorted(walk.found)), walk.note())


class _Walk:
    """What has been found so far, and what was left out."""

    def __init__(self, host: Host, prefix: str, endings: tuple[str, ...], depth: int) -> None:
        self.found: list[str] = []
        self._host = host
        self._prefix = prefix
        self._endings = endings
        self._depth = depth
        self._hidden = 0
        self._visited = 0
        self._cut = False

    def run(self, path: str) -> None:
        """Visit a directory and those below it, nearer ones first: what is cut off is what lies deepest."""
        ahead = [(f"{path}/" if path else "", 1)]
        for place, depth in ahead:
            if self._visited >= _MOST_DIRECTORIES or len(self.found) >= _MOST_FILES:
                self._cut = True
                return
            ahead.extend((below, depth + 1) for below in self._visit(place, depth))

    def _visit(self, place: str, depth: int) -> list[str]:
        """Note the files of one directory; return the directories in it that are to be visited too."""
        self._visited += 1
        try:
            listing = self._host.list_dir(place or ".")
        except (AccessDenied, NotFound):  # denied as a whole, or removed meanwhile
            self._hidden += 1
            return []
        self._hidden += listing.hidden
        below = [f"{place}{entry.path}/" for entry in listing.entries if entry.kind == "dir" and entry.path != ".git"]
        self._note_files([f"{place}{entry.path}" for entry in listing.entries if self._wants(entry.path, entry.kind)])
        if depth < self._depth:
            return below
        self._note_files(below if not (self._prefix or self._endings) else [])
        return []

    def _note_files(self, names: list[str]) -> None:
        room = _MOST_FILES - len(self.found)
        self._cut = self._cut or len(names) > room
        self.found.extend(sorted(names)[:room])

    def _wants(self, name: str, kind: str) -> bool:
        fits = not self._endings or name.endswith(self._endings)
        return kind != "dir" and fits and name.startswith(self._prefix)

    def note(self) -> str:
        """Say how much was found, and what is missing."""
        said = [counted(sum(not name.endswith("/") for name in self.found), "file")]
        if self._hidden:
            said.append(f"{'1 entry' if self._hidden == 1 else f'{self._hidden} entries'} may not be read")
        if self._cut:
            said.append("there are more: ask for a directory further down, or for some extensions")
        return "; ".join(said)


@fs_list_files.formatter
def _format(arguments: Mapping[str, Any]) -> str:
    kinds = f" with the extensions {shown(', '.join(arguments['extensions']))}" if arguments.get("extensions") else ""
    return f"list the files in {shown(arguments.get('path', '.'))}{kinds}"
