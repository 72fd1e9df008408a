"""A workspace that is searched: by ripgrep in its sandbox, and by ripgrep over open files."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from byleave.core.fs_rules import FsTarget
from byleave.policy.load import Workspace
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.toolhost.sandboxed_search import SandboxedSearch
from byleave.workspace import grep
from byleave.workspace.grep import find_ripgrep
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.project import FileMatches, Query

if TYPE_CHECKING:
    from byleave.policy.live_policy import LivePolicy

TOOL = "t"
PROGRAM = find_ripgrep("/nowhere")
needs_ripgrep = pytest.mark.skipif(PROGRAM is None, reason="there is no ripgrep here: pip install 'ripgrep>=14.1,<15'")


class Scene(NamedTuple):
    """A workspace, its policy, and both ways to search it."""

    workspace: Workspace
    policy: "LivePolicy"
    sandboxed: SandboxedSearch
    fast: ProjectOnDisk
    plain: ProjectOnDisk

    @property
    def root(self) -> Path:
        return Path(self.workspace.root.path)

    def may_read(self, path: str) -> bool:
        return self.policy.decide({"kind": "read", "path": path, "tool": TOOL}).decision.word == "allow"

    def find(self, path: str) -> FsTarget:
        found = self.fast.find(path)
        assert isinstance(found, FsTarget)
        return found

    def both(self, query: Query, may_read: Callable[[str], bool] | None = None) -> list[FileMatches]:
        """Return what both find, and a search without ripgrep, which must be the same."""
        one, other = (list(project.grep(query, may_read or self.may_read)) for project in (self.fast, self.plain))
        assert one == other
        with without_ripgrep():
            assert list(self.plain.grep(query, may_read or self.may_read)) == one
        return one


@contextmanager
def without_ripgrep() -> Iterator[None]:
    """Let searches run as on a machine that has no ripgrep."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grep, "find_ripgrep", lambda *_writable: None)
        yield


@contextmanager
def scene(root: Path, fs: list[dict[str, Any]] | None = None) -> Iterator[Scene]:
    """Build the scene of a workspace whose tool may read all of it, or what `fs` says."""
    root.mkdir(exist_ok=True)
    workspace = Workspace(str(root))
    access = {"fs": fs if fs is not None else [{"path": ".", "read": True}]}
    policy = workspace.compile_tree({"tools": {TOOL: {"source": "local", "runtime": "vfs", "access": access}}})
    assert PROGRAM is not None
    with Confinement(workspace, policy, TOOL, SandboxOptions(reads_only=True)) as confinement:
        sandboxed = SandboxedSearch(PROGRAM, confinement)
        fast = ProjectOnDisk(workspace.root, search=sandboxed.search)
        yield Scene(workspace, policy, sandboxed, fast, ProjectOnDisk(workspace.root))


def plant(root: Path, files: Mapping[str, bytes | str]) -> None:
    """Make files, and the directories above them."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def clear(root: Path) -> None:
    """Remove everything in a directory."""
    for entry in os.scandir(root):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def paths(found: list[FileMatches]) -> list[str]:
    return [each.path for each in found]
