"""Whether the user trusts a project file as it is now: its content, and the scripts that it starts.

Start at `ProjectTrust.trusts`. What trust means for a layer: `policy.compile`. Where it is kept: `store.approvals`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from byleave.core.fs_rules import RefusedPath
from byleave.errors import ConfigError, UnsafePathError
from byleave.store.approvals import UNREAD, fingerprint
from byleave.user_files import digest, digest_file
from byleave.workspace.openat import walk
from byleave.workspace.safe_open import Anchor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.store.approvals import Approvals, Fingerprint
    from byleave.workspace.resolve import Root

LARGEST_SCRIPT = 256 << 20  # hashed at every start: about a second


class ProjectTrust:
    """What the user trusts in one workspace. `scripts` are those that trusted files start: a change ends the trust."""

    def __init__(self, root: Root, approvals: Approvals) -> None:
        self._root = root
        self._approvals = approvals
        self.scripts: set[str] = set()

    def trusts(self, name: str, content: bytes, tree: Mapping[str, Any]) -> bool:
        """Whether the user trusts this project file with this content."""
        # Scripts are hashed only for content that was trusted once: no other file makes us read gigabytes.
        if not self._approvals.knows(name, digest(content)):
            return False
        found = self.fingerprint(name, content, tree)
        self.scripts.update(script for script, _sha256 in found.scripts)
        return self._approvals.trusts(found)

    def fingerprint(self, name: str, content: bytes, tree: Mapping[str, Any]) -> Fingerprint:
        """Return what trusting this project file would mean now."""
        return fingerprint(name, content, tree, self._read_script)

    def _read_script(self, word: str) -> tuple[str, str] | None:
        """Return name and hash of a word that names a file of the workspace; of a link that leads out, its target."""
        place = self._root.resolve_any(word)
        if isinstance(place, RefusedPath):  # a name that no tool may pass can still be run: it must count
            named = "\0" not in word and os.path.lexists(os.path.join(self._root.path, word))
            return (word, UNREAD) if named else None
        if place.relative is None:
            return None if place.door is None else (place.door, digest(os.fsencode(f"outside: {place.canonical}")))
        if place.directory or not place.exists:
            return None
        try:
            descriptor = open_project_file(self._root, place.relative)
        except (OSError, ConfigError, UnsafePathError):
            return place.relative, UNREAD
        try:
            return place.relative, digest_file(descriptor, limit=LARGEST_SCRIPT) or UNREAD
        except OSError:
            return place.relative, UNREAD
        finally:
            os.close(descriptor)


def open_project_file(root: Root, name: str) -> int:
    """Open a file of the workspace for reading; what leads out of it is refused."""
    place = root.resolve_input(name)
    if isinstance(place, RefusedPath):
        raise ConfigError(place.problem, hint="keep the configuration in a plain file of the workspace")
    if place.relative is None:
        raise ConfigError(
            f"{name} is a link that leads out of the workspace", hint="keep the configuration inside the workspace"
        )
    # The walk is as safe as openat2, and spares every start the import of ctypes.
    with Anchor.open(root.path, opener=walk) as anchor:
        return anchor.open_file(place.relative, os.O_RDONLY)
