"""The text of project files as the user trusted them, so that a later version can be shown as what it changes.

Kept in the private directory of the workspace, one file each, named after the project file. A text counts only where
its hash is the one that the approval has; without it, or where it was too large to keep, a new version is shown whole.
"""

from __future__ import annotations

import os

from byleave.errors import StateError
from byleave.user_files import digest, make_private_directory, read_private, write_private

LARGEST_TEXT = 1 << 20


class TrustedTexts:
    """The texts of one workspace's trusted project files."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "trusted")

    def keep(self, file: str, content: bytes) -> None:
        """Keep what the user has just trusted. What cannot be kept costs only the comparison later."""
        kept = content if len(content) <= LARGEST_TEXT else b""
        try:
            make_private_directory(self._directory)
            write_private(self._path(file), kept)
        except (OSError, StateError):
            return

    def text(self, file: str, sha256: str | None) -> bytes | None:
        """Return the text that was trusted, if it is kept and is the one with this hash."""
        try:
            content = read_private(self._path(file), limit=LARGEST_TEXT)
        except (OSError, StateError):
            return None
        return content if content is not None and digest(content) == sha256 else None

    def forget(self, file: str) -> None:
        """Remove the text of a file that is not trusted any more."""
        try:
            os.unlink(self._path(file))
        except OSError:
            return

    def _path(self, file: str) -> str:
        return os.path.join(self._directory, digest(os.fsencode(file))[:32])
