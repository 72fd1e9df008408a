"""`byleave audit summary`: what each agent did, what was refused, and what observe mode would have asked and denied."""

import json
import os
from pathlib import Path

import pytest

from byleave.core.redact import Redactor
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from command import byleave
from hooks.hook_scene import HookScene, claude, gemini

RULES = '[[rules]]\nallow = { command = "ls" }\n[[rules]]\ndeny = { command = "rm" }\n'
NOTHING = {"changed": [], "commands": [], "denied": [], "would_ask": [], "would_deny": [], "hosts": [], "unasked": 0}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HookScene:
    scene = HookScene.build(tmp_path, RULES)
    monkeypatch.delenv("BYLEAVE_HOME")
    monkeypatch.setenv("HOME", str(scene.home))
    return scene


def runs(scene: HookScene, *lines: str) -> None:
    for line in lines:
        scene.says("claude-code", claude("Bash", {"command": line}, scene.root))


def test_decisions_are_counted_by_agent(scene: HookScene) -> None:
    runs(scene, "ls", "ls -l", "rm x", "rm x", "make")
    scene.says("gemini", gemini("run_shell_command", {"command": "rm y"}, scene.root))
    found = json.loads(byleave("audit", "summary", "--json", cwd=scene.root).out)
    assert set(found) == {"since", "until", "agents", "silent"}
    first, second = found["agents"]
    expected = {"agent": "claude-code", "workspace": str(scene.root), "allow": 2, "ask": 1, "deny": 2}
    none = {"allow": 0, "ask": 0, "deny": 0}
    assert first == {**NOTHING, **expected, "denied": [["command rm x", 2]], "observed": none}
    assert (second["agent"], second["deny"]) == ("gemini", 1)


def test_what_observe_mode_would_have_asked_and_denied_is_beside_it(scene: HookScene) -> None:
    (scene.home / ".config/byleave/config.toml").write_text(f'[defaults]\nmode = "observe"\n{RULES}')
    runs(scene, "ls", "rm x", "rm x", "make", "byleave trust")
    [found] = json.loads(byleave("audit", "summary", "--json", cwd=scene.root).out)["agents"]
    assert (found["allow"], found["ask"], found["deny"]) == (0, 0, 1)
    assert found["observed"] == {"allow": 1, "ask": 1, "deny": 2}
    assert (found["would_deny"], found["would_ask"]) == ([["command rm x", 2]], [["command make", 1]])
    shown = byleave("audit", "summary", cwd=scene.root).out
    assert "would have been denied:" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_what_ran_comes_from_effects_that_were_performed(scene: HookScene) -> None:
    workspace = Workspace(str(scene.root))
    (scene.home / ".config/byleave/config.toml").write_text(
        '[[rules]]\nallow = { any_command = true }\n[[rules]]\nallow = { path = "**" }\n'
    )
    with guard_for(workspace, "hook", client_approves=None) as guard:
        for action in (
            {"kind": "command", "command": "ls"},
            {"kind": "create", "path": "a"},
            {"kind": "create", "path": "b"},
        ):
            evaluation = guard.check(action)
            if action.get("path") != "b":
                guard.perform(evaluation, lambda _permit: None)
    [found] = json.loads(byleave("audit", "summary", "--json", cwd=scene.root).out)["agents"]
    assert (found["agent"], found["allow"], found["commands"], found["changed"]) == (None, 3, [["ls", 1]], ["a"])


def test_an_agent_that_works_without_its_hook_is_named(scene: HookScene) -> None:
    session = scene.home / ".claude/projects/p/s.jsonl"
    session.parent.mkdir(parents=True)
    settings = scene.home / ".claude/settings.json"
    settings.write_text("{}")
    os.utime(settings, (1, 1))
    session.write_text('{"type":"tool_use"}\n')
    done = byleave("audit", "summary", cwd=scene.root)
    assert "Claude Code" in done.err
    assert "Claude Code" in json.loads(byleave("audit", "summary", "--json", cwd=scene.root).out)["silent"][0]


def test_every_workspace_is_named_by_its_root(scene: HookScene, tmp_path: Path) -> None:
    runs(scene, "ls")
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    scene.says("claude-code", claude("Bash", {"command": "rm x"}, other))
    here = json.loads(byleave("audit", "summary", "--json", cwd=scene.root).out)["agents"]
    everywhere = json.loads(byleave("audit", "summary", "--all", "--json", cwd=scene.root).out)["agents"]
    assert [each["workspace"] for each in here] == [str(scene.root)]
    assert {each["workspace"] for each in everywhere} == {str(scene.root), str(other)}


def test_an_earlier_time_and_an_empty_log_are_said(scene: HookScene) -> None:
    assert byleave("audit", "summary", cwd=scene.root).out == "there are no records yet\n"
    runs(scene, "ls")
    assert json.loads(byleave("audit", "summary", "--since", "0s", "--json", cwd=scene.root).out)["agents"] == []
    assert byleave("audit", "summary", "--since", "soon", cwd=scene.root).code == 2
    log = Workspace(str(scene.root)).audit_log(None, Redactor())
    assert log.head().sequence >= 1
    log.close()
