"""The files of a workspace by their names, a bounded number of them: for what is tried on them, not for what is found.

Links are not followed, and directories that hold nothing of the project's own are passed over.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FILES = 2000
_MOST_DIRECTORIES = 4000
_PASSED_OVER = frozenset(
    {".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache", ".cache"}
)


def files_below(root: str, *, most: int = MOST_FILES) -> list[str]:
    """Return paths of files relative to `root`, those near it first."""
    found: list[str] = []
    waiting = [""]
    for number, directory in enumerate(waiting):  # which grows meanwhile
        if len(found) >= most or number >= _MOST_DIRECTORIES:
            break
        for name, is_directory in _entries(os.path.join(root, directory)):
            path = f"{directory}/{name}" if directory else name
            if not is_directory:
                found.append(path)
            elif name not in _PASSED_OVER:
                waiting.append(path)
    return found[:most]


def _entries(directory: str) -> Iterator[tuple[str, bool]]:
    """Yield the plain files and directories in one, in a fixed order."""
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                yield entry.name, True
            elif entry.is_file(follow_symlinks=False):
                yield entry.name, False
    except OSError:  # it is gone, or not for us
        return
