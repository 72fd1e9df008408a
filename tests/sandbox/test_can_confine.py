"""Whether commands can be confined here is found out once, for each sandbox that the caller is in by itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from byleave.errors import SandboxError
from byleave.policy.load import Workspace
from byleave.sandbox.can_confine import _sentence, can_confine, machine_problem
from byleave.sandbox.linux import backends
from command import COMMAND, environment
from sandbox.machine import needs_sandbox
from sandbox.without_namespaces import needs_unshare, on_such_a_machine

pytestmark = needs_sandbox

POLICY = '[shell]\nconfine = "auto"\n\n[[rules]]\ndeny = { path = "**/.env" }\n'
ASK = """
import sys
from byleave.policy.load import Workspace
from byleave.sandbox.can_confine import can_confine
workspace = Workspace(sys.argv[1])
print(can_confine(workspace.compile_tree({"shell": {}, "rules": [{"deny": {"path": "**/.env"}}]}), workspace))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "workspace"
    (found / "sub").mkdir(parents=True)
    (found / "a").touch()
    return found


def there(root: Path, *words: str, feed: bytes = b"") -> tuple[int, str]:
    """Run something on a machine without namespaces and bwrap, as inside an agent's own sandbox."""
    done = subprocess.run(
        [*on_such_a_machine(bwrap=False, place=root.parent), *words],
        cwd=root,
        env=environment(None),
        input=feed,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, (done.stdout + done.stderr).decode()


def test_what_was_found_out_is_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(str(root))
    policy = workspace.compile_tree({"shell": {}})
    assert can_confine(policy, workspace) is None
    monkeypatch.setattr(backends, "probe", None)
    assert can_confine(policy, workspace) is None
    assert machine_problem(workspace.homes.memory) == ""


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe\0", b"x" * (1 << 15)])
def test_what_is_remembered_may_be_damaged(root: Path, damage: bytes) -> None:
    workspace = Workspace(str(root))
    policy = workspace.compile_tree({"shell": {}})
    assert can_confine(policy, workspace) is None
    Path(workspace.homes.memory, "confines").write_bytes(damage)
    assert can_confine(policy, workspace) is None


def test_a_sandbox_around_us_is_asked_about_by_itself(root: Path) -> None:
    for before in (["setpriv", "--no-new-privs"], []):
        done = subprocess.run(
            [*before, sys.executable, "-c", ASK, str(root)], env=environment(None), capture_output=True, check=False
        )
        assert done.stdout == b"None\n"
    remembered = Path(Workspace(str(root)).homes.memory, "confines").read_text().splitlines()
    assert len({line.split()[0] for line in remembered}) == 2


@needs_unshare
def test_where_namespaces_fail_landlock_holds_commands_that_it_can_hold(root: Path) -> None:
    assert there(root, sys.executable, "-c", ASK, str(root)) == (0, "None\n")
    (root / "byleave.toml").write_text(POLICY)
    assert subprocess.run([*COMMAND, "trust", "--yes"], cwd=root, env=environment(None), check=False).returncode == 0
    code, said = there(root, *COMMAND, "run", "-q", "--shell", "echo in > sub/x; echo out > ../x; cat sub/x")
    assert (code, said.splitlines()[0]) == (0, "in"), said
    assert not (root.parent / "x").exists()


@needs_unshare
def test_where_landlock_cannot_close_a_file_alone_nothing_runs_and_the_sentence_names_it(root: Path) -> None:
    (root / ".env").write_text("secret")
    (root / "byleave.toml").write_text(POLICY)
    assert subprocess.run([*COMMAND, "trust", "--yes"], cwd=root, env=environment(None), check=False).returncode == 0
    code, said = there(root, sys.executable, "-c", ASK, str(root))
    assert (code, '".env" may not be read, and Landlock alone cannot close it' in said) == (0, True), said
    code, said = there(root, *COMMAND, "run", "-q", "--shell", "touch sub/ran")
    assert (code, '".env" may not be read' in said) == (125, True), said
    assert os.listdir(root / "sub") == []


HOOK_POLICY = POLICY + "\n[[rules]]\nallow = { any_command = true }\nsandbox = true\n"


def asked_there(root: Path, command: str) -> dict[str, Any]:
    """Send the event of a command through the hook of Claude Code on such a machine, and return the answer."""
    (root / "byleave.toml").write_text(HOOK_POLICY)
    assert subprocess.run([*COMMAND, "trust", "--yes"], cwd=root, env=environment(None), check=False).returncode == 0
    event = {
        "session_id": "s",
        "cwd": str(root),
        "hook_event_name": "PreToolUse",
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": "1",
    }
    code, said = there(root, *COMMAND, "hook", "claude-code", feed=json.dumps(event).encode())
    assert code == 0, said
    return dict(json.loads(said)["hookSpecificOutput"])


@needs_unshare
def test_a_hook_confines_by_landlock_alone_where_that_holds_the_policy(root: Path) -> None:
    answer = asked_there(root, "echo in > sub/x; echo out > ../x; cat sub/x")
    assert answer["permissionDecision"] == "allow", answer
    code, said = there(root, "bash", "-c", answer["updatedInput"]["command"])
    assert (code, "in" in said.splitlines()) == (0, True), said
    assert not (root.parent / "x").exists()
    assert said.count("byleave: warning: ") == 1, said  # of what Landlock alone does not enforce
    code, said = there(root, "bash", "-c", asked_there(root, "true")["updatedInput"]["command"])
    assert (code, said) == (0, "")


@needs_unshare
def test_a_hook_asks_where_landlock_alone_cannot_hold_the_policy_and_says_why(root: Path) -> None:
    (root / ".env").write_text("secret")
    answer = asked_there(root, "make")
    assert (answer["permissionDecision"], "updatedInput" in answer) == ("ask", False)
    assert '".env" may not be read, and Landlock alone cannot close it' in answer["permissionDecisionReason"]


def test_a_reason_with_a_hint_is_one_line() -> None:
    error = SandboxError("there is no launcher", hint="install a C compiler", step="launcher")
    assert _sentence(error) == "there is no launcher; install a C compiler"
    assert _sentence("one\ntwo") == "one"
