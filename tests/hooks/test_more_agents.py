"""Copilot CLI, Qwen Code and Cline: events as they send them, answers as they take them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from byleave.hooks.event_reader import Hook, HookContext, UnreadableEventError
from byleave.hooks.install import carry_out, plan_install, plan_uninstall, settings_file
from byleave.hooks.outcomes import note_outcome
from hooks.hook_scene import HookScene, cline, copilot, qwen


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    return HookScene.build(tmp_path)


def answer(scene: HookScene, agent: str, event: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(scene.says(agent, event))
    return tree


def decided(scene: HookScene) -> list[tuple[str, str]]:
    """Return what was decided: the action in short, and the decision."""
    trees = [tree for tree in scene.records() if tree["event"] == "decision"]
    actions = [tree["action"] for tree in trees]
    whats = [action.get("command") or action.get("path") or action.get("url") or action["kind"] for action in actions]
    return [(what, tree["verdict"]["decision"]) for what, tree in zip(whats, trees, strict=True)]


def test_copilot_gets_each_decision_in_its_own_words(scene: HookScene) -> None:
    root = scene.root
    for name, decision in (("allowed", "allow"), ("denied", "deny"), ("asked", "ask")):
        said = answer(scene, "copilot", copilot("bash", {"command": f"touch {name}", "description": "d"}, root))
        assert said["permissionDecision"] == decision
        assert said["permissionDecisionReason"].startswith("byleave: ")
    assert decided(scene) == [("touch allowed", "allow"), ("touch denied", "deny"), ("touch asked", "ask")]


COPILOT_CALLS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("view", {"path": "{root}/src/old.txt"}, "allow"),
    ("view", {"path": "{root}/src/secret.txt"}, "deny"),
    ("create", {"path": "{root}/src/new.txt", "file_text": "x"}, "allow"),
    ("create", {"path": "{root}/new.txt", "file_text": "x"}, "ask"),
    ("edit", {"path": "{root}/src/old.txt", "old_str": "x", "new_str": "y"}, "allow"),
    ("edit", {"path": "{root}/src/secret.txt", "old_str": "x", "new_str": "y"}, "deny"),
    ("grep", {"pattern": "x", "paths": "{root}/src", "glob": "*.py"}, "allow"),
    ("report_intent", {"intent": "x"}, "allow"),
    ("write_bash", {"input": "x", "shellId": "1"}, "ask"),
    ("some_tool", {}, "ask"),
)


@pytest.mark.parametrize(("tool", "given", "decision"), COPILOT_CALLS)
def test_copilots_own_tools_are_known(scene: HookScene, tool: str, given: dict[str, str], decision: str) -> None:
    raw = {name: value.format(root=scene.root) for name, value in given.items()}
    assert answer(scene, "copilot", copilot(tool, raw, scene.root))["permissionDecision"] == decision


def test_copilots_arguments_may_come_as_a_text(scene: HookScene) -> None:
    event = copilot("bash", {}, scene.root, toolArgs='{"command": "touch denied"}')
    assert answer(scene, "copilot", event)["permissionDecision"] == "deny"
    with pytest.raises(UnreadableEventError):
        scene.says("copilot", {**event, "toolArgs": '{"command": "a", "command": "b"}'})


def test_other_events_of_copilot_are_not_decided(scene: HookScene) -> None:
    event = copilot("bash", {"command": "touch allowed"}, scene.root)
    for other in (
        {**event, "toolResult": {"resultType": "success"}},
        {**event, "hookName": "permissionRequest", "toolInput": {}},
        {"sessionId": "s", "timestamp": 1, "cwd": str(scene.root), "reason": "complete"},
    ):
        assert scene.says("copilot", other) == "{}"
    assert scene.records() == []


def test_copilot_reports_what_ran(scene: HookScene) -> None:
    event = copilot("bash", {"command": "touch allowed"}, scene.root)
    scene.says("copilot", event)
    hook, around = Hook("copilot", str(scene.home)), HookContext({}, str(scene.root), installed=True)
    assert note_outcome(hook, {**event, "toolResult": {"resultType": "success", "textResultForLlm": ""}}, around)
    assert [(tree["event"], tree.get("outcome")) for tree in scene.records()] == [
        ("decision", None),
        ("effect", "done"),
    ]


def test_qwen_is_told_of_a_deny_and_holds_back_what_needs_a_person(scene: HookScene) -> None:
    def said(command: str) -> dict[str, Any]:
        return answer(scene, "qwen", qwen("run_shell_command", {"command": command}, scene.root))

    assert said("touch allowed") == {}
    assert said("touch denied")["hookSpecificOutput"]["permissionDecision"] == "deny"
    held = said("touch asked")["hookSpecificOutput"]
    assert held["permissionDecision"] == "deny"
    assert "byleave approvals approve" in held["permissionDecisionReason"]
    assert [approval.status for approval in scene.approvals.all()] == ["pending"]


def test_qwens_own_tools_are_known(scene: HookScene) -> None:
    assert answer(scene, "qwen", qwen("read_file", {"file_path": str(scene.root / "src/old.txt")}, scene.root)) == {}
    closed = qwen("read_file", {"file_path": str(scene.root / "src/secret.txt")}, scene.root)
    assert answer(scene, "qwen", closed)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert answer(scene, "qwen", qwen("todo_write", {"todos": []}, scene.root)) == {}


def test_cline_ends_its_run_at_what_is_not_allowed(scene: HookScene) -> None:
    def said(*commands: Any) -> dict[str, Any]:
        return answer(scene, "cline", cline("run_commands", {"commands": list(commands)}, scene.root))

    assert said("touch allowed") == {}
    assert said("touch denied")["cancel"] is True
    assert "byleave" in said("touch asked")["errorMessage"]
    assert said("touch allowed", "touch denied")["cancel"] is True
    assert said("touch allowed", "touch allowed")["cancel"] is True  # it is not clear how they are put together
    assert said({"command": "touch", "args": ["allowed"]})["cancel"] is True


def test_clines_own_tools_are_known(scene: HookScene) -> None:
    new = cline("editor", {"path": str(scene.root / "src/new.txt"), "new_text": "x"}, scene.root)
    assert answer(scene, "cline", new) == {}
    closed = cline("editor", {"path": str(scene.root / "src/secret.txt"), "new_text": "x"}, scene.root)
    assert answer(scene, "cline", closed)["cancel"] is True
    assert answer(scene, "cline", cline("submit_and_exit", {"summary": "x"}, scene.root)) == {}


def run_script(script: Path, feed: bytes = b"{}") -> dict[str, Any]:
    done = subprocess.run(
        ["sh", str(script)],
        input=feed,
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "BYLEAVE_SERVICE": "off"},
    )
    tree: dict[str, Any] = json.loads(done.stdout)
    return tree


@pytest.mark.parametrize(
    ("words", "cancels"),
    [
        (["echo", "{}"], False),
        (["echo", '{"cancel": true}'], True),
        (["false"], True),
        (["/no/such/program"], True),
        (["true"], True),  # it says nothing
        (["sh", "-c", "kill -9 $$"], True),
        (["sh", "-c", "echo '{}'; exit 2"], True),
    ],
)
def test_clines_script_blocks_where_the_hook_does_not_answer(tmp_path: Path, words: list[str], cancels: bool) -> None:  # noqa: FBT001
    file = Path(settings_file("cline", str(tmp_path)))
    carry_out(plan_install("cline", str(file), words))
    assert run_script(file).get("cancel", False) is cancels
    carry_out(plan_uninstall("cline", str(file)))
    assert not file.exists()


def test_clines_script_passes_the_event_on(scene: HookScene) -> None:
    from byleave.hooks.install import our_words

    file = Path(settings_file("cline", str(scene.home)))
    carry_out(plan_install("cline", str(file), our_words("cline", ["--home", str(scene.home)])))
    event = cline("run_commands", {"commands": ["touch allowed"]}, scene.root)
    assert run_script(file, json.dumps(event).encode()) == {}
    event = cline("run_commands", {"commands": ["touch denied"]}, scene.root)
    assert run_script(file, json.dumps(event).encode())["cancel"] is True
    assert run_script(file, b"nonsense")["cancel"] is True


@pytest.mark.parametrize(
    "place",
    [".copilot/hooks/byleave.json", ".copilot/settings.json", ".qwen/settings.json", ".cline/hooks/PreToolUse.sh"],
)
def test_no_agent_may_write_the_settings_that_hold_a_hook(scene: HookScene, place: str) -> None:
    event = copilot("create", {"path": str(scene.home / place), "file_text": "x"}, scene.root)
    assert answer(scene, "copilot", event)["permissionDecision"] == "deny"
    event = copilot("bash", {"command": f"rm {scene.home / place}"}, scene.root)
    assert answer(scene, "copilot", event)["permissionDecision"] != "allow"
