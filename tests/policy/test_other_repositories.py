"""Git obeys the configuration of the repository it works in: an allow reaches only the workspace's own."""

from pathlib import Path
from typing import Any

import pytest

from byleave.core.decision import verdict_tree
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace

RULES = {"rules": [{"allow": {"any": [{"group": "read_only_git"}, {"group": "read_only_files"}]}}]}
WRITES = [{"allow": {"path": "**", "ops": ["create", "update"]}}, {"allow": {"command": ["cd", "mkdir", "cp"]}}]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("work/.git", "work/src/deep", "outside"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "work"


def decided(root: Path, command: str, **action: str) -> dict[str, Any]:
    homes = find_homes({"HOME": str(root.parent / "home"), "BYLEAVE_HOME": str(root.parent / "state")})
    policy = Workspace(str(root), homes=homes).compile_tree({"rules": [*WRITES, *RULES["rules"]]})
    return verdict_tree(policy.decide({"kind": "command", "command": command, **action}))


@pytest.mark.parametrize("parts", [[".git/"], ["HEAD"], ["commondir"], ["objects/", "refs/"]])
@pytest.mark.parametrize(
    "command", ["git -C src status", "cd src && git diff", "cd src/deep; git log", "(cd src; git log)"]
)
def test_git_in_another_repository_below_the_workspace_asks(root: Path, command: str, parts: list[str]) -> None:
    assert decided(root, command)["decision"] == "allow"
    for part in parts:
        (root / "src" / part).mkdir() if part.endswith("/") else (root / "src" / part).write_text("")
    verdict = decided(root, command)
    assert verdict["decision"] == "ask"
    assert "another repository" in verdict["reason"]


def test_a_directory_that_an_agent_names_beside_the_command_counts_as_one_in_it(root: Path) -> None:
    (root / "src/HEAD").write_text("ref: refs/heads/main\n")
    assert decided(root, "git status", cwd="src")["decision"] == "ask"
    assert decided(root, "git status", cwd=str(root.parent / "outside"))["decision"] == "ask"
    assert decided(root, "git status", cwd=str(root))["decision"] == "allow"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo x > src/HEAD; git -C src status", "ask"),
        ("cd src && echo x > HEAD && git status", "ask"),
        ("mkdir -p src/objects src/refs; git -C src status", "ask"),
        ("cp -r deep/. src; git -C src status", "ask"),
        ("git -C src status > out.txt", "allow"),
        ("echo x > src/HEAD; git status", "allow"),
        ("ls src; git -C src log 2>/dev/null", "allow"),
    ],
)
def test_a_line_may_not_make_the_repository_that_its_git_obeys(root: Path, command: str, expected: str) -> None:
    assert decided(root, command)["decision"] == expected


def test_the_work_tree_of_the_workspace_s_own_repository_is_no_other(root: Path) -> None:
    (root / "HEAD").write_text("")
    assert decided(root, "git -C src/deep status")["decision"] == "allow"
