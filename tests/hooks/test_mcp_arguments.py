"""A hook knows no schema of an MCP tool: its arguments are judged in every reading that a server may have of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from command import byleave

POLICY = """
[[rules]]
deny = { call = { server = "s", arg = "/force", equals = true } }
[[rules]]
deny = { call = { server = "s", arg = "/paths", inside = "/etc" } }
[[rules]]
allow = { call = { server = "s" } }
"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"force": "yes"}, "deny"),
        ({"force": 1}, "deny"),
        ({"paths": '["/etc/shadow"]'}, "deny"),
        ({"Force": True}, "ask"),
        ({"force": False, "paths": ["/srv/a"], "text": "hello, [world]"}, "allow"),
    ],
)
def test_a_call_of_an_mcp_tool_is_judged_as_its_server_may_read_it(
    tmp_path: Path, given: dict[str, Any], wanted: str
) -> None:
    (tmp_path / "p.toml").write_text(POLICY)
    event = {"hook_event_name": "PreToolUse", "session_id": "x", "cwd": str(tmp_path)}
    text = json.dumps({**event, "tool_name": "mcp__s__t", "tool_input": given})
    done = byleave(
        *("hook", "claude-code", "--root", str(tmp_path), "--policy", str(tmp_path / "p.toml")), feed=text.encode()
    )
    assert json.loads(done.out)["hookSpecificOutput"]["permissionDecision"] == wanted
