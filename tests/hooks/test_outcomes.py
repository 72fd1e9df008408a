"""What agents report after a call: records bound to the decision, a person's yes as theirs, and never an answer."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from byleave.hooks.agents import AGENTS
from byleave.hooks.event_reader import Hook, HookContext
from byleave.hooks.outcome_events import outcome_names
from byleave.hooks.outcomes import ENOUGH, note_outcome
from byleave.policy.dirs import find_homes
from byleave.store.open_calls import LARGEST, MOST, OpenCall, close, keep_open, note_request, open_calls
from hooks.hook_scene import ENTRY, HookScene, claude, cursor, gemini, opencode

TERMINAL = {"CLAUDE_CODE_ENTRYPOINT": "cli"}


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    return HookScene.build(tmp_path)


def report(
    scene: HookScene, event: Mapping[str, Any], agent: str = "claude-code", variables: Mapping[str, str] = TERMINAL
) -> bool:
    """Have the agent report something, in this process."""
    return note_outcome(Hook(agent, str(scene.home)), event, HookContext(variables, str(scene.root), installed=True))


def asked(scene: HookScene, name: str = "touch asked", call: str = "toolu_1", **more: Any) -> dict[str, Any]:
    """Have byleave leave a question to Claude Code, and return the event."""
    event = claude("Bash", {"command": name}, scene.root, tool_use_id=call, **more)
    scene.says("claude-code", event)
    return event


def of(event: Mapping[str, Any], name: str, **more: Any) -> dict[str, Any]:
    return {**event, "hook_event_name": name, **more}


def request(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return Claude Code's own question about a call, which has no id of the call (2.1.325)."""
    return {name: value for name, value in of(event, "PermissionRequest").items() if name != "tool_use_id"}


def state(scene: HookScene) -> str:
    return find_homes({"HOME": str(scene.home)}).workspace(str(scene.root))


def later(scene: HookScene, first: int = 1) -> list[dict[str, Any]]:
    """Return the records behind the first of them, and of each what tells it from others."""
    names = ("event", "of", "outcome", "answer", "tool_call", "agent", "door")
    return [{name: tree[name] for name in names if name in tree} for tree in scene.records()[first:]]


def test_a_call_that_ran_has_a_record_bound_to_its_decision(scene: HookScene) -> None:
    event = claude("Bash", {"command": "touch allowed"}, scene.root)
    scene.says("claude-code", event)
    assert report(scene, of(event, "PostToolUse", tool_response={"stdout": ""}))
    decision, effect = scene.records()
    assert (effect["event"], effect["of"], effect["outcome"]) == ("effect", decision["sequence"], "done")
    assert (effect["action"]["kind"], effect["action"]["command"]) == ("command", "touch allowed")
    assert (effect["agent"], effect["door"], effect["tool_call"]) == ("claude-code", "hook", "toolu_1")


def test_a_call_that_failed_says_so_and_why(scene: HookScene) -> None:
    event = claude("Bash", {"command": "touch allowed"}, scene.root)
    scene.says("claude-code", event)
    assert report(scene, of(event, "PostToolUseFailure", error="Exit code 3\nlong output", is_interrupt=False))
    assert scene.records()[1]["outcome"] == "failed: Exit code 3"


def test_the_files_that_an_edit_changed_are_in_its_effect(scene: HookScene) -> None:
    event = claude("Write", {"file_path": str(scene.root / "src/new.txt"), "content": "x"}, scene.root)
    scene.says("claude-code", event)
    report(scene, of(event, "PostToolUse"))
    effect = scene.records()[1]
    assert (effect["action"]["kind"], effect["action"]["path"], effect["outcome"]) == ("create", "src/new.txt", "done")


def test_a_yes_in_the_agents_own_prompt_is_recorded_as_the_persons(scene: HookScene) -> None:
    event = asked(scene)
    assert report(scene, request(event))
    assert report(scene, of(event, "PostToolUse"))
    about = {"of": 1, "tool_call": "toolu_1", "agent": "claude-code", "door": "hook"}
    answer = {"by": "claude-code", "choice": "once", "who": "person"}
    assert later(scene) == [
        {"event": "reply", "answer": answer, **about},
        {"event": "effect", "outcome": "done", **about},
    ]


def test_a_command_that_ran_after_the_yes_and_failed_was_allowed_all_the_same(scene: HookScene) -> None:
    event = asked(scene)
    report(scene, request(event))
    report(scene, of(event, "PostToolUseFailure", error="Exit code 1"))
    assert [tree["event"] for tree in scene.records()] == ["decision", "reply", "effect"]


@pytest.mark.parametrize("error", ["interrupted by the user", "The user doesn't want to proceed", ""])
def test_a_failure_that_may_be_a_no_is_no_yes(scene: HookScene, error: str) -> None:
    event = asked(scene)
    report(scene, request(event))
    report(scene, of(event, "PostToolUseFailure", error=error))
    assert [tree["event"] for tree in scene.records()] == ["decision", "effect"]


def test_without_the_calls_own_question_there_is_no_yes(scene: HookScene) -> None:
    event = asked(scene)
    other = claude("Bash", {"command": "touch other"}, scene.root)
    assert not report(scene, request(other))
    assert not report(scene, request({**event, "session_id": "another"}))
    report(scene, of(event, "PostToolUse"))
    assert [tree["event"] for tree in scene.records()] == ["decision", "effect"]


@pytest.mark.parametrize("mode", ["auto", "bypassPermissions"])
def test_in_a_mode_that_does_not_ask_there_is_no_yes(scene: HookScene, mode: str) -> None:
    event = asked(scene)
    assert not report(scene, {**request(event), "permission_mode": mode})
    report(scene, request(event))
    report(scene, of(event, "PostToolUse", permission_mode=mode))
    assert "reply" not in [tree["event"] for tree in scene.records()]


@pytest.mark.parametrize("variables", [{}, {"CLAUDE_CODE_ENTRYPOINT": "sdk-ts"}])
def test_the_yes_of_a_program_that_drives_the_agent_is_not_a_persons(
    scene: HookScene, variables: Mapping[str, str]
) -> None:
    event = asked(scene)
    report(scene, request(event), variables=variables)
    report(scene, of(event, "PostToolUse"), variables=variables)
    assert scene.records()[1]["answer"]["who"] == "client"


@pytest.mark.parametrize("content", ['{"hooks": {"PermissionRequest": [{"hooks": [{"command": "yes"}]}]}}', "{", "[1]"])
def test_where_another_hook_may_answer_the_yes_is_not_a_persons(scene: HookScene, content: str) -> None:
    (scene.root / ".claude").mkdir()
    (scene.root / ".claude/settings.local.json").write_text(content)
    event = asked(scene)
    report(scene, request(event))
    report(scene, of(event, "PostToolUse"))
    assert scene.records()[1]["answer"]["who"] == "client"


def test_an_outcome_is_recorded_once(scene: HookScene) -> None:
    event = asked(scene)
    report(scene, request(event))
    assert report(scene, of(event, "PostToolUse"))
    assert not report(scene, of(event, "PostToolUse"))
    assert not report(scene, of(event, "PostToolUseFailure"))
    assert len(scene.records()) == 3


def test_an_outcome_of_a_call_that_byleave_did_not_decide_is_not_recorded(scene: HookScene) -> None:
    assert not report(scene, of(claude("Bash", {"command": "x"}, scene.root), "PostToolUse"))
    assert not os.path.exists(state(scene))


def test_what_was_denied_and_ran_all_the_same_is_recorded(scene: HookScene) -> None:
    event = claude("Bash", {"command": "touch denied"}, scene.root)
    scene.says("claude-code", event)
    report(scene, of(event, "PostToolUse"))
    assert later(scene) == [
        {"event": "effect", "of": 1, "outcome": "done", "tool_call": "toolu_1", "agent": "claude-code", "door": "hook"}
    ]


def test_what_was_denied_and_failed_for_that_reason_is_not(scene: HookScene) -> None:
    event = claude("Bash", {"command": "touch denied"}, scene.root)
    scene.says("claude-code", event)
    assert not report(scene, of(event, "PostToolUseFailure", error="denied by a hook"))
    assert len(scene.records()) == 1


def test_of_two_calls_that_are_the_same_each_has_its_own_question(scene: HookScene) -> None:
    first, second = asked(scene), asked(scene, call="toolu_2")
    assert report(scene, request(first))
    report(scene, of(second, "PostToolUse"))
    report(scene, of(first, "PostToolUse"))
    assert [(tree["event"], tree["of"]) for tree in scene.records()[2:]] == [("effect", 2), ("reply", 1), ("effect", 1)]


def test_the_end_of_a_session_forgets_its_open_calls_and_no_others(scene: HookScene) -> None:
    event = asked(scene)
    other = asked(scene, session_id="another")
    report(scene, of(event, "SessionEnd", reason="exit"))
    assert open_calls(state(scene), "claude-code", "s") == []
    assert not report(scene, of(event, "PostToolUse"))
    assert report(scene, of(other, "PostToolUse"))


def test_after_some_yeses_the_question_names_the_rule_that_would_end_it(scene: HookScene) -> None:
    for number in range(ENOUGH):
        event = claude("Bash", {"command": "make"}, scene.root, tool_use_id=f"t{number}")
        assert "would end the question" not in scene.says("claude-code", event)
        report(scene, request(event))
        report(scene, of(event, "PostToolUse"))
    said = scene.says("claude-code", claude("Bash", {"command": "make"}, scene.root))
    assert json.loads(said)["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert 'allow = { command = "make"' in json.loads(said)["hookSpecificOutput"]["permissionDecisionReason"]
    assert "would end the question" in said
    assert "would end" not in scene.says("claude-code", claude("Bash", {"command": "cmake"}, scene.root))


def test_the_yes_of_a_client_offers_no_rule(scene: HookScene) -> None:
    for number in range(ENOUGH + 1):
        event = claude("Bash", {"command": "make"}, scene.root, tool_use_id=f"t{number}")
        assert "would end the question" not in scene.says("claude-code", event)
        report(scene, request(event), variables={})
        report(scene, of(event, "PostToolUse"), variables={})


def test_gemini_cli_reports_a_call_by_its_input_and_a_question_by_what_it_is_about(scene: HookScene) -> None:
    event = gemini("run_shell_command", {"command": "touch asked", "description": "d"}, scene.root)
    scene.says("gemini", event)
    details = {"type": "exec", "title": "Confirm", "command": "touch asked", "rootCommand": "touch"}
    common = {"session_id": "s", "cwd": str(scene.root)}
    question = {"hook_event_name": "Notification", "notification_type": "ToolPermission", "details": details, **common}
    assert report(scene, question, "gemini")
    assert not report(scene, {**question, "notification_type": "Other"}, "gemini")
    assert report(scene, of(event, "AfterTool", tool_response={"llmContent": "x"}), "gemini")
    assert [tree["event"] for tree in scene.records()] == ["decision", "reply", "effect"]
    assert scene.records()[1]["answer"] == {"by": "gemini", "choice": "once", "who": "person"}


def test_codex_cursor_and_opencode_report_effects(scene: HookScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scene.root)
    event = claude("Bash", {"command": "touch allowed"}, scene.root, turn_id="t")
    scene.says("codex", event)
    assert report(scene, of(event, "PostToolUse", tool_response="x"), "codex")
    event = cursor(
        "preToolUse", scene.root, tool_name="Shell", tool_input={"command": "touch allowed"}, tool_use_id="c"
    )
    scene.says("cursor", event)
    assert report(scene, of(event, "postToolUseFailure", error_message="Exit code 2"), "cursor")
    event = opencode("bash", {"command": "touch allowed"}, scene.root, session_id="o")
    scene.says("opencode", event)
    assert report(scene, of(event, "tool.execute.after", exit=3), "opencode")
    told = [(tree["agent"], tree["outcome"]) for tree in scene.records() if tree["event"] == "effect"]
    assert told == [("codex", "done"), ("cursor", "failed: Exit code 2"), ("opencode", "failed: Exit code 3")]


ODD: tuple[Any, ...] = (None, 1, [], {}, "", "x" * 5000, "\0", "\ud800", {"a": {"b": []}}, True)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_odd_event_is_no_outcome_and_no_error(scene: HookScene, agent: str) -> None:
    usual = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "t", "session_id": "s"}
    usual |= {"cwd": str(scene.root), "directory": str(scene.root), "workspace_roots": [str(scene.root)]}
    for event in (*outcome_names(agent), "Unknown", ""):
        for name in (*usual, "details", "notification_type", "error", "exit", "permission_mode", "hook_event_name"):
            for value in ODD:
                given = {"hook_event_name": event, **usual, name: value}
                report(scene, given, agent)
    assert scene.records() == []


def serve(scene: HookScene, feed: bytes, *, agent: str = "claude-code", **env: str) -> tuple[int, bytes]:
    """Run the hook as an agent does where it only reports."""
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            str(ENTRY),
            "hook",
            agent,
            "--home",
            str(scene.home),
            *packages(),
            "--only",
            "outcome",
        ],
        input=feed,
        capture_output=True,
        check=False,
        cwd=scene.root,
        env={"PATH": os.environ["PATH"], **env},
        timeout=30,
    )
    return done.returncode, done.stdout


def packages() -> list[str]:
    return ["--packages", ":".join(path for path in sys.path if path.endswith("site-packages"))]


def test_as_a_process_it_records_and_says_nothing(scene: HookScene) -> None:
    event = asked(scene)
    assert serve(scene, json.dumps(request(event)).encode(), CLAUDE_CODE_ENTRYPOINT="cli") == (0, b"")
    assert serve(scene, json.dumps(of(event, "PostToolUse")).encode(), CLAUDE_CODE_ENTRYPOINT="cli") == (0, b"")
    assert [tree["event"] for tree in scene.records()] == ["decision", "reply", "effect"]


@pytest.mark.parametrize("feed", [b"", b"{", b"[]", b"\xff", b'{"hook_event_name": 1}', b'{"a": 1, "a": 2}'])
def test_as_a_process_it_never_blocks(scene: HookScene, feed: bytes) -> None:
    assert serve(scene, feed) == (0, b"")


def test_a_call_that_waits_for_a_decision_gets_none_where_only_outcomes_are_taken(scene: HookScene) -> None:
    for agent in AGENTS:
        event = claude("Bash", {"command": "touch allowed"}, scene.root)
        code, out = serve(scene, json.dumps(event).encode(), agent=agent)
        assert (code, b"allow" in out) == (0, False)
    assert scene.records() == []


def test_a_log_that_cannot_be_written_stops_nothing(scene: HookScene) -> None:
    event = asked(scene)
    journal = Path(state(scene)) / "audit.journal"
    journal.unlink()
    journal.mkdir()
    assert serve(scene, json.dumps(of(event, "PostToolUse")).encode())[0] == 0


# What is kept of open calls


def kept(call: str, **more: Any) -> OpenCall:
    return OpenCall("claude-code", "s", call, "Bash", ("m",), (1,), created=time.time(), **more)


def test_calls_that_are_never_reported_do_not_pile_up(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    for number in range(MOST + 10):
        assert keep_open(str(tmp_path), kept(f"c{number}"))
    assert len(os.listdir(tmp_path / "calls")) <= MOST
    assert close(str(tmp_path), "claude-code", "s", f"c{MOST + 9}") is not None


def test_a_call_that_is_too_large_is_kept_without_its_actions(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert keep_open(str(tmp_path), kept("c", actions=({"command": "x" * LARGEST},)))
    found = close(str(tmp_path), "claude-code", "s", "c")
    assert found is not None
    assert (found.actions, found.sequences) == ((), (1,))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"agent": 1}', b"\xff" * 100])
def test_a_damaged_call_is_none(tmp_path: Path, content: bytes) -> None:
    tmp_path.chmod(0o700)
    keep_open(str(tmp_path), kept("c"))
    (file,) = (tmp_path / "calls").iterdir()
    file.write_bytes(content)
    assert not note_request(str(tmp_path), "claude-code", "s", "m")
    assert close(str(tmp_path), "claude-code", "s", "c") is None


def test_a_link_in_the_place_of_a_call_is_not_followed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    keep_open(str(tmp_path), kept("c"))
    (file,) = (tmp_path / "calls").iterdir()
    content = file.read_bytes()
    file.unlink()
    (tmp_path / "elsewhere").write_bytes(content)
    file.symlink_to(tmp_path / "elsewhere")
    assert close(str(tmp_path), "claude-code", "s", "c") is None
    assert (tmp_path / "elsewhere").exists()


def test_a_call_that_is_decided_again_needs_another_question(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    keep_open(str(tmp_path), kept("c", asked=True))
    assert note_request(str(tmp_path), "claude-code", "s", "m")
    assert not note_request(str(tmp_path), "claude-code", "s", "m")
    keep_open(str(tmp_path), kept("c", asked=True))
    found = close(str(tmp_path), "claude-code", "s", "c")
    assert found is not None
    assert not found.requested
