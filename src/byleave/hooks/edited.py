"""Project files that were trusted and are not any more: said in the hook's own reason, once for each change.

A hook has no other way to reach its user, and a file that was edited makes everything ask that it allowed before.
"""

import os

from byleave.config.layers import LOCAL, PROJECT
from byleave.errors import StateError
from byleave.private import digest, make_private_directory, read_private, write_private
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.api import Workspace
    from byleave.config.compile import Compiled

_LARGEST = 1 << 16
_GONE = "gone"


def edited_files(workspace: "Workspace", compiled: "Compiled", session: str) -> str:
    """Return what changed since that was last said, to be put in front of a reason; "" if nothing did."""
    now = dict(_changed(workspace, compiled))
    path = os.path.join(os.path.dirname(workspace.files.session_file(session)), "edited")
    before = _read(path)
    if now.keys() != before:
        _write(path, now)
    new = [sentence for change, sentence in now.items() if change not in before]
    return "".join([f"{sentence}; " for sentence in new])


def _changed(workspace: "Workspace", compiled: "Compiled") -> "Iterator[tuple[str, str]]":
    """Yield each change that took trust away: what it is known by, and a sentence."""
    layers = {layer.file or "": layer for layer in compiled.layers if layer.name in (PROJECT, LOCAL)}
    for file in workspace.approvals.trusted_files():
        layer = layers.get(file)
        name = shown(file)
        if layer is None:
            yield f"{file} {_GONE}", f"{name}, which you trusted, is not read any more: its rules are gone"
        elif not layer.trusted:
            what = "a script that it starts" if workspace.approvals.knows(file, digest(layer.content)) else name
            print_ = workspace.print_of(file, layer.content, layer.tree)
            change = digest(repr((print_.sha256, print_.scripts)).encode("utf-8", "surrogatepass"))
            way = f"look at it, then run `byleave trust {name}` yourself"
            yield f"{file} {change}", f"{what} was changed since you trusted {name}, so that it only tightens: {way}"


def _read(path: str) -> set[str]:
    try:
        content = read_private(path, limit=_LARGEST)
    except StateError:
        return set()
    return set((content or b"").decode("utf-8", "surrogateescape").splitlines())


def _write(path: str, changes: "dict[str, str]") -> None:
    """Keep what was said; where that fails it is said again."""
    try:
        make_private_directory(os.path.dirname(path))
        write_private(
            path, "".join([f"{change}\n" for change in changes]).encode("utf-8", "surrogateescape"), durable=False
        )
    except (StateError, OSError):
        return
