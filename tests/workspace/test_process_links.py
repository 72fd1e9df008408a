"""A path through a link of a running process leads elsewhere for each process, so it never becomes an allow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.decision import ALLOW, ASK, DENY, Decision
from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.workspace.resolve import Root

Judged = Callable[..., Decision]
SECRETS = [{"deny": {"path": "**/.env"}}, {"allow": {"path": "**"}}, {"allow": {"path": "/**"}}]
THROUGH_A_PROCESS = [
    "/proc/self/cwd/.env",
    "/proc/self/cwd",
    "//proc//self/./cwd/.env",
    "/proc/self/root/etc/shadow",
    "/proc/self/exe",
    "/proc/self/fd/0",
    "/proc/self/fd/9/.env",
    "/proc/self/task/1/cwd/.env",
    "/proc/self/task/../cwd/.env",
    "/proc/thread-self/cwd/.env",
    "/proc/thread-self/../../cwd/.env",
    "/proc/1/cwd/.env",
    "/proc/1/root/etc/shadow",
    "/proc/4194303/cwd/.env",  # nobody has this number here; in the agent's own namespace somebody may
    "/proc/4194303/task/7/root/etc/shadow",
    "/proc/self/ns/pid",
    "/proc/self/map_files/1-2",
    "/dev/fd/3",
    "/dev/fd/3/.env",
    "/dev/stdin",
    "/dev/stdout",
    "linked/.env",
    "descriptors/3",
    "../../../../../../../../../../proc/self/cwd/.env",
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "linked").symlink_to("/proc/self/cwd")
    (tmp_path / "descriptors").symlink_to("/dev/fd")
    (tmp_path / ".env").write_text("secret")
    monkeypatch.chdir(tmp_path)
    return tmp_path.resolve()


@pytest.fixture
def judged(root: Path) -> Judged:
    def decide(action: dict[str, Any], rules: list[dict[str, Any]] = SECRETS) -> Decision:
        return byleave.compile_policy({"rules": rules}, root=str(root)).decide(action).decision

    return decide


@pytest.mark.parametrize("path", THROUGH_A_PROCESS)
def test_a_path_through_a_process_is_refused_by_its_link(root: Path, path: str) -> None:
    found = Root(str(root)).resolve_any(path)
    assert isinstance(found, RefusedPath)
    assert "link of a running process" in found.problem


@pytest.mark.parametrize("path", THROUGH_A_PROCESS)
@pytest.mark.parametrize("kind", ["read", "update"])
def test_no_rule_allows_a_file_behind_a_link_of_a_process(judged: Judged, path: str, kind: str) -> None:
    assert judged({"kind": kind, "path": path}) == DENY


def test_other_files_of_proc_keep_the_name_that_rules_know(root: Path) -> None:
    for path in ("/proc/self/environ", "/proc/meminfo"):
        assert Root(str(root)).resolve_any(path) == FsTarget(path, None)
    mounts = Root(str(root)).resolve_any("/proc/mounts")
    assert isinstance(mounts, FsTarget)
    assert mounts.canonical == "/proc/self/mounts"


def test_a_deny_on_the_environment_of_a_process_holds_for_self(judged: Judged) -> None:
    rules = [{"deny": {"path": "/proc/*/environ"}}, {"allow": {"path": "/**"}}]
    assert judged({"kind": "read", "path": "/proc/self/environ"}, rules) == DENY
    assert judged({"kind": "read", "path": "/proc/1/environ"}, rules) == DENY


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("cat < /proc/self/cwd/.env", DENY),
        ("echo x > /proc/self/cwd/.env", DENY),
        ("cat < /proc/self/cwd/README.md", ASK),
        ("cat < linked/.env", ASK),
    ],
)
def test_a_redirection_through_a_process_is_not_allowed(judged: Judged, command: str, answer: Decision) -> None:
    rules = [*SECRETS, {"allow": {"command": ["cat", "echo"]}}]
    assert judged({"kind": "command", "command": command}, rules) == answer


ECHO = {"allow": {"command": ["echo", "cat", "tee", "sort"]}}


@pytest.mark.parametrize(
    "command",
    ["echo x >/dev/null", "echo x >/dev/stderr", "echo x 2>/dev/fd/1", "cat </dev/stdin", "sort </dev/fd/0 | cat"],
)
def test_streams_that_are_open_already_are_no_files(judged: Judged, command: str) -> None:
    assert judged({"kind": "command", "command": command}, [{"deny": {"path": "**/.env"}}, ECHO]) == ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "echo x <.env >/dev/stdin",
        "echo x 1<.env >/dev/stdout",
        "echo x 2<.env >/dev/stderr",
        "echo x 3<.env >/dev/fd/3",
        "echo x 3<.env >>/proc/self/fd/3",
        "echo x 3<.env 4<&3 >/dev/fd/4",
        "{ echo x >/dev/fd/3; } 3<.env",
        "echo x | tee /dev/fd/3 3<.env",
    ],
)
def test_a_file_that_is_opened_again_by_its_descriptor_counts_as_written(judged: Judged, command: str) -> None:
    rules = [{"deny": {"path": "**/.env", "ops": ["create", "update", "delete"]}}, ECHO]
    assert judged({"kind": "command", "command": command}, rules) == DENY


@pytest.mark.parametrize("command", ["cat 3>>.env </dev/fd/3", "cat /dev/fd/3 3>>.env", "cat 1>>.env /dev/stdout"])
def test_a_file_that_is_opened_again_by_its_descriptor_counts_as_read(judged: Judged, command: str) -> None:
    rules = [{"deny": {"path": "**/.env", "ops": ["read"]}}, {"allow": {"path": "**"}}, ECHO]
    assert judged({"kind": "command", "command": command}, rules) == DENY
