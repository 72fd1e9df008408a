"""`byleave outside` in a hook: always a question, in every mode; held back where an agent cannot ask."""

import json
from pathlib import Path

import pytest

from hooks.hook_scene import HookScene, claude

OPEN = """
[shell]
[[rules]]
deny = { command = "rm" }
[[rules]]
allow = { any_command = true, options = "any" }
sandbox = true
unread = true
"""
LINE = "byleave outside -- npm install"


def said(scene: HookScene, line: str, agent: str = "claude-code") -> tuple[str, str]:
    event = claude("Bash", {"command": line}, scene.root)
    text = scene.says(agent, event, root=scene.root)
    if not text:  # what says to Codex that a call may be made
        return "allow", ""
    answer = json.loads(text)["hookSpecificOutput"]
    assert "updatedInput" not in answer
    return answer["permissionDecision"], answer["permissionDecisionReason"]


@pytest.mark.parametrize("before", ["", '[defaults]\nmode = "observe"\n', '[hooks]\nsilent = "agent"\n'])
def test_it_needs_approval_in_every_mode_and_is_not_changed(before: str, tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, f"{before}{OPEN}")
    decision, reason = said(scene, LINE)
    assert (decision, '"npm install" needs your approval: it runs outside of the sandbox' in reason) == ("ask", True)


@pytest.mark.parametrize("line", ["byleave outside -- rm x", f"{LINE}; ls", f"sh -c '{LINE}'", "byleave outside -- $X"])
def test_what_is_denied_or_written_otherwise_is_denied(line: str, tmp_path: Path) -> None:
    assert said(HookScene.build(tmp_path, OPEN), line)[0] == "deny"


def test_where_an_agent_cannot_ask_it_waits_for_an_approval_of_exactly_this_command(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, OPEN)
    assert said(scene, LINE, "codex")[0] == "deny"
    (waiting,) = [one for one in scene.approvals.all() if one.status == "pending" and "key" in one.detail]
    scene.approvals.settle_action(waiting.detail["key"], status="approved", now="2026-01-01T00:00:00Z")
    assert said(scene, LINE, "codex")[0] == "allow"
    for other in ("byleave outside -- npm install x", "byleave outside -- npm ci"):
        assert said(scene, other, "codex")[0] == "deny"
