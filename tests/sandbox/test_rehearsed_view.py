"""What a process learns ahead of a request changes nothing of what the request finds."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from byleave.core.access import SHELL_TOOL
from byleave.core.policy import CompiledPolicy
from byleave.policy import compiled_cache
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace
from byleave.policy.sandbox_settings import shell_layer
from byleave.sandbox.host import files_below, follow, look
from byleave.sandbox.plan.build import rehearse_plan
from byleave.sandbox.plan.filesystem_view import Eyes, FilesystemView, find_places

RULES = """
[[rules]]
deny = { path = ["**/.env", "**/*.pem", "vault/**"] }

[[rules]]
deny = { all = [{ path = "notes/**" }, { agent = "codex" }] }

[[rules]]
allow = { path = "**" }
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    base = tmp_path.resolve()
    for name in ("ws/.git/hooks", "ws/vault", "ws/notes", "home/.config/byleave"):
        (base / name).mkdir(parents=True)
    (base / "ws/.git/config").write_text("")
    (base / "home/.config/byleave/config.toml").write_text(RULES)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compiled_cache, "_kept", [])
        yield Workspace(str(base / "ws"), homes=find_homes({"HOME": str(base / "home")}))


def loaded(workspace: Workspace) -> CompiledPolicy:
    return workspace.load(extra=[shell_layer()]).compiled.policy


def rehearsed(workspace: Workspace) -> None:
    policy = workspace.warm(session="default", extra=[shell_layer()])
    assert policy is not None
    rehearse_plan(policy, SHELL_TOOL, workspace.root.path)


def view(policy: CompiledPolicy, workspace: Workspace, agent: str | None = None) -> FilesystemView:
    return find_places(policy, SHELL_TOOL, workspace.root.path, Eyes(look, files_below, follow), agent)


@pytest.mark.parametrize("agent", [None, "codex", "claude-code"])
def test_places_are_the_same_with_and_without_a_rehearsal(workspace: Workspace, agent: str | None) -> None:
    plain = view(loaded(workspace), workspace, agent)
    rehearsed(workspace)
    recalled = loaded(workspace)
    assert recalled.known is not None
    assert recalled.known
    assert view(recalled, workspace, agent) == plain


def test_a_policy_that_is_kept_has_not_looked_for_protected_places(workspace: Workspace) -> None:
    before = workspace.load(extra=[shell_layer()]).compiled
    rehearsed(workspace)
    kept = workspace.load(extra=[shell_layer()]).compiled
    assert kept.places == before.places
    assert kept.machine is not None
    assert not kept.machine.changed()
    assert "_inside" not in vars(kept.policy.protected)


def test_what_comes_to_be_protected_after_the_rehearsal_is_protected(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed(workspace)
    root = Path(workspace.root.path)
    (root / "made.git").mkdir()
    (root / ".git/config").write_text(f'[core]\n\thooksPath = "{root}/tools"\n')
    (root / "tools").mkdir()
    recalled = view(loaded(workspace), workspace)
    monkeypatch.setattr(compiled_cache, "_kept", [])
    assert recalled == view(loaded(workspace), workspace)
    assert f"{root}/tools" in {place.path for place in recalled.places}


def test_a_policy_without_shell_is_left_alone(workspace: Workspace) -> None:
    policy = workspace.warm(session="default", extra=[])
    assert policy is not None
    rehearse_plan(policy, "no such tool", workspace.root.path)
    assert policy.known is not None
    assert not policy.known


def test_a_slow_disk_keeps_no_rehearsal_going(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that rehearses answers nothing meanwhile."""
    root = Path(workspace.root.path)
    for number in range(20):
        (root / f"d{number}").mkdir()
    looked: list[str] = []
    usual = os.scandir

    def scandir(path: str) -> Any:
        if path.startswith(str(root)):
            looked.append(path)
            time.sleep(0.1)
        return usual(path)

    monkeypatch.setattr("byleave.workspace.closed_paths.os.scandir", scandir)
    rehearsed(workspace)
    assert 1 <= len(looked) <= 6


def test_policies_of_many_tools_leave_the_one_of_the_files(workspace: Workspace) -> None:
    workspace.warm(session="default", extra=[])
    for number in range(20):
        tool = {"source": "local", "runtime": "stdio", "access": {"fs": [{"path": "."}]}}
        workspace.warm_tree({"tools": {f"tool{number}": tool}})
    before = compiled_cache.misses[0]
    workspace.load(extra=[])
    assert compiled_cache.misses[0] == before
    assert len(compiled_cache._kept) == 9  # noqa: SLF001 -- there is no other way to see it
