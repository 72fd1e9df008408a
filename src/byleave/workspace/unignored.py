"""Find the files of a workspace by the ending of their names, without those that git ignores.

git itself says what it ignores. Where there is no git, or no repository, the directories are walked; links are not
followed. Both are bounded: a workspace may be a whole disk.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_FILES = 10_000
MOST_ENTRIES = 500_000  # of all directories together: some seconds of walking
_PATIENCE = 20.0  # seconds for git
_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"})  # nothing in them is written by hand
# What a hook of git sets for its own repository, which need not be this one.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")
_NO_PROGRAMS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


class FoundFiles(Struct, frozen=True):
    """Names relative to the root, in order; `complete` is false where not everything could be looked at."""

    names: tuple[str, ...]
    complete: bool = True


def find_unignored(root: str, suffix: str, environ: Mapping[str, str]) -> FoundFiles:
    """Return the plain files below `root` whose names end so, except those that git ignores."""
    listed = _listed_by_git(root, suffix, environ)
    found = _walked(root, suffix) if listed is None else FoundFiles(tuple(listed))
    names = sorted(name for name in found.names if _is_plain(root, name))
    return FoundFiles(tuple(names[:MOST_FILES]), found.complete and len(names) <= MOST_FILES)


def _listed_by_git(root: str, suffix: str, environ: Mapping[str, str]) -> list[str] | None:
    """Return what git lists, None where it cannot say."""
    program = _git(root, environ.get("PATH", os.defpath))
    if program is None:
        return None
    kept = {name: value for name, value in environ.items() if name not in _OF_HOOKS}
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", f":(glob)**/*{suffix}")
    try:
        done = subprocess.run(  # noqa: S603 -- an absolute path outside of the workspace, and words of ours
            [program, *_NO_PROGRAMS, *words],
            cwd=root,
            env={**kept, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        return None
    return list(dict.fromkeys(os.fsdecode(name) for name in done.stdout.split(b"\0") if name))


def _git(root: str, path: str) -> str | None:
    """Return where git is; a program of that name in the workspace is not the user's."""
    for directory in path.split(os.pathsep):
        program = os.path.join(directory, "git")
        if os.path.isabs(directory) and os.access(program, os.X_OK) and os.path.isfile(program):
            real = os.path.realpath(program)
            if not real.startswith(f"{os.path.realpath(root)}/"):
                return program
    return None


def _walked(root: str, suffix: str) -> FoundFiles:
    found: list[str] = []
    seen, waiting = 0, [""]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(os.path.join(root, directory)) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_ENTRIES:
                        return FoundFiles(tuple(found), complete=False)
                    name = os.path.join(directory, entry.name)
                    if entry.name.endswith(suffix):
                        found.append(name)
                    elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                        waiting.append(name)
        except OSError:  # it may not be read, or is gone: what is in it is not found
            continue
    return FoundFiles(tuple(found))


def _is_plain(root: str, name: str) -> bool:
    path = os.path.join(root, name)
    return os.path.isfile(path) and not os.path.islink(path)
