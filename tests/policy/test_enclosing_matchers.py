"""What a project's file says of paths, in whatever form, holds in a workspace inside of it."""

import json
from pathlib import Path

import pytest

from byleave.policy.load import Workspace
from policy.test_enclosing import homes_in

READ = {"kind": "read", "path": "keys/k"}
CALL = {"kind": "call", "agent": "a", "server": "files", "tool": "get", "arguments": {"path": "$OUTER/sub/keys/k"}}
RULES = {
    "absolute": ('deny = { path = "$OUTER/sub/keys/**" }', READ),
    "a name with a tilde": ('deny = { path = "~keys/**" }', {"kind": "read", "path": "$OUTER/~keys/k"}),
    "any": ('deny = { any = [{ path = "other/**" }, { path = "sub/keys/**" }] }', READ),
    "all": ('deny = { all = [{ path = "sub/**" }, { path = "**/k" }] }', READ),
    "not": ('deny = { all = [{ path = "sub/**" }, { not = { path = "sub/src/**" } }] }', READ),
    "several": ('deny = { path = ["other/**", "sub/keys/*"] }', READ),
    "a pattern for the directory": ('deny = { path = "s*/keys/**" }', READ),
    "inside": ('deny = { call = { server = "files", arg = "/path", inside = "sub/keys" } }', CALL),
    "within": ('deny = { command = "make", within = "sub" }', {"kind": "command", "command": "make"}),
    "within, absolute": ('deny = { command = "make", within = "$OUTER/sub" }', {"kind": "command", "command": "make"}),
}


@pytest.mark.parametrize("name", RULES)
def test_a_deny_of_the_project_holds_inside(tmp_path: Path, name: str) -> None:
    text, action = RULES[name]
    outer = tmp_path / "project"
    (outer / "sub/keys").mkdir(parents=True)
    (outer / "sub/src").mkdir()
    (outer / "sub/keys/k").write_text("")
    (outer / "byleave.toml").write_text(f"[[rules]]\n{text}\n".replace("$OUTER", str(outer)))
    (outer / "sub/byleave.toml").write_text("")
    workspace = Workspace(str(outer / "sub"), homes=homes_in(tmp_path))
    verdict = workspace.load().decide(json.loads(json.dumps(action).replace("$OUTER", str(outer))))
    assert verdict.decision.word == "deny", json.dumps(verdict.reason)
