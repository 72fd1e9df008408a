"""`byleave audit summary`: what each agent did, what was refused, and what observe mode would have asked and denied."""

import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from byleave.cli.audit_summary import yesterday_evening
from byleave.cli.output import width_of
from byleave.core.redact import Redactor
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.store.audit.log import AuditLog
from command import byleave
from hooks.hook_scene import HookScene, claude, gemini

RULES = '[[rules]]\nallow = { command = "ls" }\n[[rules]]\ndeny = { command = "rm" }\n'
LISTS = ("changed", "commands", "denied", "held", "done_unasked", "would_ask", "would_deny", "hosts")
NOTHING = {**{name: [] for name in LISTS}, "unasked": 0}


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
    expected |= {"denied": [["command rm x", 2]], "held": [["command make", 1]], "observed": none}
    assert first == {**NOTHING, **expected}
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


def kept(root: Path, *records: dict[str, Any], at: float | None = None) -> None:
    """Write records into the log of a workspace, at a time."""
    workspace = Workspace(str(root))
    directory = workspace.homes.workspace(workspace.root.path)
    log = AuditLog(directory, mask=Redactor(), now=lambda: int((at if at is not None else time.time()) * 1e9))
    for fields in records:
        log.append({"door": "hook", "agent": "codex", "identity": "default", "session": "default", **fields})
    log.close()


def summary(root: Path, *words: str) -> dict[str, Any]:
    [found] = json.loads(byleave("audit", "summary", "--json", *words, cwd=root).out)["agents"]
    tree: dict[str, Any] = found
    return tree


def test_a_failed_change_has_changed_nothing_and_a_confined_run_counts_once(scene: HookScene) -> None:
    line = {"kind": "command", "command": "make"}
    update = {"kind": "update", "path": "a"}
    kept(
        scene.root,
        {"event": "redeemed", "of": 1, "action": line, "outcome": "started"},
        {"event": "effect", "of": 1, "action": line, "outcome": "done"},
        {"event": "effect", "of": 2, "action": update, "outcome": "failed: no space"},
        {"event": "effect", "of": 3, "action": {**update, "path": "b"}, "outcome": "refused"},
        {"event": "effect", "of": 4, "action": {"kind": "move", "path": "c", "to": "d"}, "outcome": "done"},
    )
    found = summary(scene.root)
    assert (found["commands"], found["changed"]) == ([["make", 1]], ["c", "d"])


def test_what_was_done_unasked_and_where_it_was_held_is_named(scene: HookScene) -> None:
    action = {"kind": "command", "command": "make"}
    ask: dict[str, Any] = {"event": "decision", "action": action, "verdict": {"decision": "ask"}}
    answered = {**ask, "verdict": {"decision": "allow"}, "answer": {"by": "editor", "choice": "once"}}
    kept(scene.root, ask, answered, {**ask, "event": "observed", "unasked": True, "outcome": "completed"})
    found = summary(scene.root)
    assert (found["held"], found["unasked"]) == ([["command make", 2]], 1)
    assert found["done_unasked"] == [["command make (unasked)", 1]]


def test_it_begins_yesterday_evening(scene: HookScene) -> None:
    since = datetime.fromisoformat(yesterday_evening(1_780_000_000.0)).astimezone()
    assert (since.hour, since.minute) == (18, 0)
    assert 6 * 3600 <= 1_780_000_000 - since.timestamp() <= 31 * 3600
    kept(scene.root, {"event": "decision", "verdict": {"decision": "deny"}}, at=time.time() - 3 * 86_400)
    assert byleave("audit", "summary", cwd=scene.root).out.startswith("there are no records since ")
    assert summary(scene.root, "--since", "7d")["deny"] == 1


def test_a_note_is_markdown_in_which_nothing_from_outside_is_markup(scene: HookScene) -> None:
    odd = "echo `x` **bold** <b> \u202e [a](b)"
    kept(scene.root, {"event": "effect", "action": {"kind": "command", "command": odd}, "outcome": "done"})
    lines = byleave("audit", "summary", "--markdown", cwd=scene.root).out.splitlines()
    assert lines[0].startswith("## Agents, ")
    assert "- ``echo `x` **bold** <b> \\u202e [a](b)``" in lines
    assert byleave("audit", "summary", "--markdown", "--json", cwd=scene.root).code == 2


def test_wide_characters_fit_80_columns(scene: HookScene) -> None:
    kept(
        scene.root,
        {
            "event": "effect",
            "agent": "漢" * 30,
            "action": {"kind": "command", "command": "echo " + "漢" * 90},
            "outcome": "done",
        },
    )
    rows = byleave("audit", "summary", cwd=scene.root).out.splitlines()
    assert any(row.startswith("漢") for row in rows)
    assert max(width_of(row) for row in rows) <= 80


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
