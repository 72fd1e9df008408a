"""What an agent asks its user in its own name is left to the agent: byleave answers no plan and no question."""

import json
from pathlib import Path
from typing import Any

import pytest

from hooks.hook_scene import HookScene, claude, cursor
from hooks.test_hook_answers import EVENTS

LEFT: dict[str, str] = {"claude-code": "", "codex": "", "gemini": "{}", "cursor": "{}"}
QUESTIONS = [
    ("claude-code", "ExitPlanMode", {"plan": "rm -rf /", "planFilePath": "/p"}),
    ("claude-code", "exit_plan_mode", {"plan": "p"}),
    ("claude-code", "ExitPlanMode", {}),
    ("claude-code", "EnterPlanMode", {}),
    ("claude-code", "AskUserQuestion", {"questions": [{"question": "which?"}]}),
    ("codex", "request_user_input", {"questions": []}),
    ("codex", "request_permissions", {"reason": "r", "permissions": {}}),
    ("gemini", "ask_user", {"questions": []}),
    ("gemini", "exit_plan_mode", {"plan_filename": "p.md"}),
    ("gemini", "enter_plan_mode", {"reason": "r"}),
    ("cursor", "AskQuestion", {"questions": []}),
    ("cursor", "CreatePlan", {"plan": "p"}),
    ("cursor", "SwitchMode", {"mode": "agent"}),
    ("opencode", "question", {"questions": []}),
    ("opencode", "plan_exit", {}),
    ("opencode", "plan_enter", {}),
]
PERMISSIVE = '[[rules]]\nallow = { operation = ["think", "switch_mode", "other"] }\n'
DENYING = '[[rules]]\ndeny = { operation = "think" }\n'


def event_of(agent: str, tool: str, given: dict[str, Any], root: Path) -> dict[str, Any]:
    if agent == "cursor":
        return cursor("preToolUse", root, tool_name=tool, tool_input=given)
    return EVENTS[agent](tool, given, root)


@pytest.mark.parametrize("rules", ["", PERMISSIVE])
@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_question_to_the_user_gets_no_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, str, dict[str, Any]], rules: str
) -> None:
    agent, tool, given = asked
    scene = HookScene.build(tmp_path, rules)
    monkeypatch.chdir(scene.root)  # where Codex starts its hooks
    said = scene.says(agent, event_of(agent, tool, given, scene.root))
    if agent == "opencode":  # its plugin is ours: what it lets go on asks by itself
        assert json.loads(said)["decision"] == "allow"
    else:
        assert said == LEFT[agent]
    [record] = scene.records()
    assert (record["verdict"]["decision"], record["answer"]) == ("ask", {"by": agent, "choice": "elsewhere"})
    assert record["action"]["title"] == tool


@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits", "auto", "bypassPermissions", "dontAsk"])
def test_a_plan_is_the_user_s_to_answer_in_every_mode(tmp_path: Path, mode: str) -> None:
    scene = HookScene.build(tmp_path)
    event = {**claude("ExitPlanMode", {"plan": "p"}, scene.root), "permission_mode": mode}
    assert scene.says("claude-code", event) == ""


@pytest.mark.parametrize(("agent", "tool", "given"), QUESTIONS)
def test_a_rule_can_still_deny_that_the_agent_asks(
    tmp_path: Path, agent: str, tool: str, given: dict[str, Any]
) -> None:
    scene = HookScene.build(tmp_path, DENYING)
    assert '"deny"' in scene.says(agent, event_of(agent, tool, given, scene.root))


def test_bookkeeping_is_no_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = HookScene.build(tmp_path)
    monkeypatch.chdir(scene.root)
    assert '"allow"' in scene.says("claude-code", claude("TodoWrite", {"todos": []}, scene.root))
    assert scene.says("codex", claude("update_plan", {"plan": []}, scene.root)) == ""
    assert [record["verdict"]["decision"] for record in scene.records()] == ["allow", "allow"]
