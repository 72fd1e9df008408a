"""The policy as a tool is told it: read back, it says what the host says."""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.core.action import EnvAction, FileAction, SpawnAction
from byleave.core.decision import ALLOW
from byleave.errors import FsAccessError
from byleave.policy.load import Workspace
from byleave.sdk import Context
from byleave.toolhost.context import access_tree, context_tree

ACCESSES: dict[str, tuple[str, dict[str, Any] | None]] = {
    "a vfs tool that declares nothing": ("vfs", None),
    "a stdio tool that declares nothing": ("stdio", None),
    "a vfs tool with files": ("vfs", {"fs": [{"path": "src", "read": True, "write": True}, {"path": "src/no"}]}),
    "a stdio tool with everything": (
        "stdio",
        {
            "fs": [{"path": ".", "read": True}, {"path": "out", "create": True}],
            "net": [{"host": "example.com", "allow": True}],
            "env": [{"name": "A_*", "read": True}],
            "commands": {"git": {"args": [["status", "**"]]}},
        },
    ),
    "a tool that declares a way out which nobody approved": (
        "stdio",
        {"fs": [{"path": ".", "read": True}, {"path": "fork", "read": True, "external": True}]},
    ),
}
PATHS = ("a", "src/x", "src/no/x", "out/new", "fork/x", "fork")


@pytest.mark.parametrize(("runtime", "access"), ACCESSES.values(), ids=ACCESSES.keys())
def test_a_tool_checks_as_the_host_decides(runtime: str, access: dict[str, Any] | None, tmp_path: Path) -> None:
    (tmp_path / "ws" / "src").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ws" / "fork").symlink_to(tmp_path / "elsewhere")
    workspace = Workspace(str(tmp_path / "ws"))
    tool: dict[str, Any] = {"source": "local", "runtime": runtime} | ({} if access is None else {"access": access})
    policy = workspace.compile_tree({"tools": {"t": tool}})
    tree = context_tree(workspace.root.path, "run", policy.compiled.policy.tool("t").access)
    context = Context.from_json(json.dumps(tree))
    assert context.access is not None
    for path in PATHS:
        for kind in ("read", "create", "update", "delete"):
            allowed = policy.decide(FileAction(kind, path, "t")).decision is ALLOW
            assert _passes(context, kind, path) == allowed, (kind, path)
    for program in ("git", "rm"):
        allowed = policy.decide(SpawnAction(program, ("status",), "t")).decision is ALLOW
        table = context.access.commands
        told = table.match(program, ("status",))[1] if hasattr(table, "match") else table.decision is ALLOW
        assert told == allowed
    for name in ("A_B", "PATH", "SECRET"):
        allowed = policy.decide(EnvAction(name, "t")).decision is ALLOW
        rule = context.access.env.match(name) if hasattr(context.access.env, "match") else None
        assert bool(rule is not None and rule.read) == allowed, name


def _passes(context: Context, kind: str, path: str) -> bool:
    try:
        getattr(context, f"check_{kind}")(path)
    except FsAccessError:
        return False
    return True


def test_a_rule_that_leads_nowhere_approved_goes_out_without_a_target(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    access = {"fs": [{"path": "fork", "read": True, "external": True}]}
    policy = workspace.compile_tree({"tools": {"t": {"source": "local", "access": access}}})
    (rule,) = access_tree(policy.compiled.policy.tool("t").access)["fs"]
    assert (rule["path"], rule["external"], rule["approved_target"]) == ("fork", True, None)


def test_without_a_sandbox_a_tool_is_told_of_no_access() -> None:
    assert context_tree("/w", "format_arguments", None) == {"root": "/w", "action": "format_arguments", "access": None}
