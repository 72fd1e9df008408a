"""A sandbox that only reads: for programs of ours, which work on what a tool may read."""

from pathlib import Path
from typing import Any

from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.plan.plan import NO_NETWORK
from byleave.sandbox.process import DEVNULL, PIPE
from byleave.sandbox.sandbox import ToolSandbox
from sandbox.machine import listing, needs_sandbox

pytestmark = needs_sandbox

ACCESS: dict[str, Any] = {
    "fs": [
        {"path": ".", "read": True, "write": True, "execute": True},
        {"path": "secret", "read": False},
        {"path": "later", "read": False},
    ],
    "net": [{"host": "example.com", "allow": True}],
    "env": [{"name": "TOKEN", "read": True}],
    "commands": {"git": {}},
}


def sandbox(workspace: Workspace, policy: LivePolicy, *, reads_only: bool = False) -> ToolSandbox:
    return ToolSandbox(Confinement(workspace, policy, "t", SandboxOptions(reads_only=reads_only)), policy.decide)


def reading(root: Path) -> ToolSandbox:
    workspace = Workspace(str(root))
    tool = {"source": "local", "runtime": "stdio", "access": ACCESS}
    return sandbox(workspace, workspace.compile_tree({"tools": {"t": tool}}), reads_only=True)


def said(box: ToolSandbox, script: str, **options: Any) -> str:
    with box.spawn(["/bin/sh", "-c", script], stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, **options) as process:
        assert process.stdout is not None
        return process.stdout.read().decode()


def test_it_reads_what_the_tool_may_read_and_does_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("key")
    (tmp_path / "a").write_text("readable\n")
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho executed\n")
    (tmp_path / "run.sh").chmod(0o755)
    before = listing(tmp_path)
    with reading(tmp_path) as box:
        script = "cat a; cat secret/key; ls secret; echo x > a; echo x > new; mkdir d; rm a; ./run.sh; cat /etc/passwd"
        assert said(box, script, cwd=str(tmp_path)) == "readable\n"
        assert listing(tmp_path) == before
        plan = box.confinement.prepare("/bin/sh", "/bin").plan
    assert (plan.network, plan.held, plan.commands, plan.variables) == (NO_NETWORK, (), None, ())
    assert listing(tmp_path) == before


def test_a_denied_name_that_came_into_being_is_covered_at_the_next_start(tmp_path: Path) -> None:
    with reading(tmp_path) as box:
        assert said(box, "cat later", cwd=str(tmp_path)) == ""
        (tmp_path / "later").write_text("denied")
        assert said(box, "cat later; echo done", cwd=str(tmp_path)) == "done\n"


def test_a_name_that_somebody_else_holds_is_covered_too(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    tool = {"source": "local", "runtime": "stdio", "access": {"fs": ACCESS["fs"]}}
    policy = workspace.compile_tree({"tools": {"t": tool}})
    with sandbox(workspace, policy) as other, sandbox(workspace, policy, reads_only=True) as box:
        said(other, "true", cwd=str(tmp_path))
        assert said(box, "ls later; echo done", cwd=str(tmp_path)) == "done\n"
    (tmp_path / "later").mkdir(exist_ok=True)
    (tmp_path / "later/x").write_text("denied")
    assert said(box, "ls later; cat later/x; echo done", cwd=str(tmp_path)) == "done\n"


def test_variables_that_the_caller_has_judged_reach_the_program_beside_the_rules(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    policy = workspace.compile_tree({"tools": {"t": {"source": "local", "runtime": "stdio"}}})
    with sandbox(workspace, policy) as box:
        given = {"PATH": "/usr/bin:/bin", "OTHER": "kept out"}
        script = 'echo "$JUDGED/$OTHER"'
        assert said(box, script, env=given, variables={"JUDGED": "a=b"}) == "a=b/\n"
