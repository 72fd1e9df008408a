"""Observe mode, and what is left to the agent: no opinion, never an allow, and byleave's own denies and asks hold."""

import json
from pathlib import Path

import pytest

from hooks.hook_scene import HookScene, claude, gemini

RULES = """
[[rules]]
allow = { command = "ls" }

[[rules]]
deny = { command = "rm" }

[[rules]]
ask = { command = "make" }
"""
OBSERVE = f'[defaults]\nmode = "observe"\n{RULES}'
LEFT = f'[hooks]\nsilent = "agent"\n{RULES}'


def said(scene: HookScene, line: str, **more: str) -> str | None:
    text = scene.says("claude-code", claude("Bash", {"command": line}, scene.root, **more))
    return None if not text else str(json.loads(text)["hookSpecificOutput"]["permissionDecision"])


@pytest.mark.parametrize(("line", "would"), [("ls", "allow"), ("rm x", "deny"), ("make", "ask"), ("frob", "ask")])
def test_an_observing_hook_has_no_opinion_and_records_what_would_have_been(
    line: str, would: str, tmp_path: Path
) -> None:
    scene = HookScene.build(tmp_path, OBSERVE)
    assert said(scene, line) is None
    [record] = scene.records()
    assert (record["verdict"]["decision"], record["mode"], record["answer"]["choice"]) == (would, "observe", "unasked")


def test_an_observing_hook_has_no_opinion_about_files_either(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, f'{OBSERVE}\n[[rules]]\ndeny = {{ path = "src/**" }}\n')
    event = claude("Read", {"file_path": f"{scene.root}/src/old.txt"}, scene.root)
    assert scene.says("claude-code", event) == ""
    assert scene.records()[0]["verdict"]["decision"] == "deny"


def test_an_agent_that_cannot_ask_is_not_held_back_by_an_observing_hook(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, OBSERVE)
    assert scene.says("codex", claude("Bash", {"command": "make"}, scene.root)) == ""
    assert json.loads(scene.says("gemini", gemini("run_shell_command", {"command": "rm x"}, scene.root))) == {}
    assert said(scene, "make", permission_mode="bypassPermissions") is None


HELD = {
    "byleave's own commands": ("byleave trust", "deny"),
    "byleave's own files": ("echo x > ~/.config/byleave/config.toml", "deny"),
    "a protected place": ("echo x > .git/hooks/pre-commit", "ask"),
    "a line that is not understood": ("ls $((", "ask"),
}


@pytest.mark.parametrize(("line", "expected"), HELD.values(), ids=HELD.keys())
@pytest.mark.parametrize("rules", [OBSERVE, LEFT], ids=["observe", "silent"])
def test_what_byleave_decides_by_itself_holds(rules: str, line: str, expected: str, tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, rules)
    (scene.root / ".git/hooks").mkdir(parents=True)
    assert said(scene, line) == expected


CONFINED = """
[shell]
[[rules]]
deny = { path = "**/.env" }
[[rules]]
allow = { any_command = true, options = "any" }
sandbox = true
unread = true
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo x > .git/hooks/pre-commit #" + "x" * 40_000, "ask"),
        ("frob $((", "ask"),
        ("PATH=/x frob", "ask"),
        ('cp x "$(frob)"', "ask"),
        ("make", None),
        ('cat "$F"', None),
        ("grep -r x .", None),
    ],
)
def test_in_observe_mode_nothing_is_left_to_a_kernel_that_confines_nothing(
    line: str, expected: str | None, tmp_path: Path
) -> None:
    scene = HookScene.build(tmp_path, f'[defaults]\nmode = "observe"\n{CONFINED}')
    (scene.root / ".env").write_text("x")
    assert said(scene, line) == expected


def test_an_unknown_tool_still_needs_approval_in_observe_mode(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, OBSERVE)
    answer = json.loads(scene.says("claude-code", claude("Frobnicate", {"x": 1}, scene.root)))
    assert answer["hookSpecificOutput"]["permissionDecision"] == "ask"


SILENT = {
    "no rule matches": ("frob", None),
    "all of the line is read": ("cd src && frob -x", None),
    "a rule allows": ("ls", "allow"),
    "a rule denies": ("rm x", "deny"),
    "a rule asks": ("make", "ask"),
    "part of it is denied": ("frob; rm x", "deny"),
    "part of it is asked about": ("frob; make", "ask"),
    "a variable that changes what runs": ("LD_PRELOAD=x frob", "ask"),
    "a word known at run time": ('ls "$X" > "$Y"', "ask"),
    "outside": ("byleave outside -- frob", "ask"),
}


@pytest.mark.parametrize(("line", "expected"), SILENT.values(), ids=SILENT.keys())
def test_only_silence_is_left_to_the_agent(line: str, expected: str | None, tmp_path: Path) -> None:
    assert said(HookScene.build(tmp_path, LEFT), line) == expected


def test_the_agents_own_denies_hold_before_silence_is_left_to_it(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, f'[shell]\nconfine = "auto"\n{LEFT}')
    (scene.home / ".claude").mkdir()
    (scene.home / ".claude/settings.json").write_text('{"permissions": {"deny": ["Bash(frob -x:*)"]}}')
    assert (said(scene, "frob -x"), said(scene, "frob -y")) == ("deny", None)


def test_what_is_left_to_the_agent_is_recorded_as_such(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, LEFT)
    said(scene, "frob")
    [record] = scene.records()
    assert (record["verdict"]["decision"], record["answer"]["choice"]) == ("ask", "elsewhere")


def test_only_commands_are_left_to_the_agent(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, LEFT)
    answer = json.loads(scene.says("claude-code", claude("Read", {"file_path": f"{scene.root}/x"}, scene.root)))
    assert answer["hookSpecificOutput"]["permissionDecision"] == "ask"


def test_silence_is_not_left_to_a_mode_that_asks_no_person_nor_to_a_format_without_that_answer(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, LEFT)
    assert said(scene, "frob", permission_mode="bypassPermissions") == "deny"
    assert scene.says("codex", claude("Bash", {"command": "frob"}, scene.root)) == ""
    event = {"hook_event_name": "tool.execute.before", "tool": "bash", "args": {"command": "frob"}}
    answer = json.loads(scene.says("opencode", {**event, "directory": str(scene.root), "call_id": "1"}))
    assert answer["decision"] == "deny"


def test_a_lost_confinement_is_not_left_to_the_agent(tmp_path: Path) -> None:
    confined = '[shell]\nconfine = "auto"\n[[rules]]\nallow = { command = "frob" }\nsandbox = true\n'
    scene = HookScene.build(tmp_path, f'[hooks]\nsilent = "agent"\n{confined}')
    assert said(scene, "frob && other") == "ask"
    assert said(scene, "other") is None


@pytest.mark.parametrize("text", ['[defaults]\nmode = "observe"\n', '[hooks]\nsilent = "agent"\n'])
def test_a_project_file_cannot_have_the_hook_decide_less(text: str, tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, RULES)
    (scene.root / "byleave.toml").write_text(text)
    assert (said(scene, "rm x"), said(scene, "frob")) == ("deny", "ask")
