"""What agents are told through their hooks: each in its own format, and the same policy behind all of them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from byleave.hooks.agents import AGENTS
from hooks.hook_scene import HookScene, claude, cline, copilot, cursor, gemini, opencode, qwen

COMMANDS = {"allow": "touch allowed", "deny": "touch denied", "ask": "touch asked"}
REASONS = {
    "allow": '"touch allowed" is allowed: the rule `allow touch allowed` matches it',
    "deny": '"touch denied" is denied: the rule `deny touch denied` matches it',
    "ask": '"touch asked" needs your approval: no rule matches it',
}
HELD = "; no person can be asked here; approve it with `byleave approvals approve`, then have it tried again"

Event = Callable[[str, Path], dict[str, Any]]
COMMAND_EVENTS: Mapping[str, Event] = {
    "claude-code": lambda command, root: claude("Bash", {"command": command}, root),
    "codex": lambda command, root: claude("Bash", {"command": command}, root),
    "gemini": lambda command, root: gemini("run_shell_command", {"command": command, "description": "x"}, root),
    "cursor": lambda command, root: cursor("beforeShellExecution", root, command=command, cwd=str(root)),
    "opencode": lambda command, root: opencode("bash", {"command": command, "description": "x"}, root),
    "copilot": lambda command, root: copilot("bash", {"command": command, "description": "x"}, root),
    "qwen": lambda command, root: qwen("run_shell_command", {"command": command, "description": "x"}, root),
    "cline": lambda command, root: cline("run_commands", {"commands": [command]}, root),
}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HookScene:
    made = HookScene.build(tmp_path)
    monkeypatch.chdir(made.root)  # where Codex starts its hooks
    return made


def told(decision: str) -> str:
    return f"byleave: {REASONS[decision]}"


def of_claude(decision: str, reason: str) -> dict[str, Any]:
    said = {"permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}


def of_cursor(decision: str) -> dict[str, Any]:
    return {"permission": decision, "user_message": told(decision), "agent_message": told(decision)}


ANSWERS: Mapping[tuple[str, str], dict[str, Any] | None] = {
    ("claude-code", "allow"): of_claude("allow", told("allow")),
    ("claude-code", "ask"): of_claude("ask", told("ask")),
    ("claude-code", "deny"): of_claude("deny", told("deny")),
    ("codex", "allow"): None,
    ("codex", "ask"): of_claude("deny", told("ask") + HELD),
    ("codex", "deny"): of_claude("deny", told("deny")),
    ("gemini", "allow"): {"decision": "allow"},
    ("gemini", "ask"): {"decision": "ask", "reason": told("ask"), "systemMessage": told("ask")},
    ("gemini", "deny"): {"decision": "deny", "reason": told("deny"), "systemMessage": told("deny")},
    ("cursor", "allow"): {"permission": "allow"},
    ("cursor", "ask"): of_cursor("ask"),
    ("cursor", "deny"): of_cursor("deny"),
    ("opencode", "allow"): {"decision": "allow", "reason": told("allow")},
    ("opencode", "ask"): {"decision": "deny", "reason": told("ask") + HELD},
    ("opencode", "deny"): {"decision": "deny", "reason": told("deny")},
    ("copilot", "allow"): {"permissionDecision": "allow", "permissionDecisionReason": told("allow")},
    ("copilot", "ask"): {"permissionDecision": "ask", "permissionDecisionReason": told("ask")},
    ("copilot", "deny"): {"permissionDecision": "deny", "permissionDecisionReason": told("deny")},
    ("qwen", "allow"): {},
    ("qwen", "ask"): of_claude("deny", told("ask") + HELD),
    ("qwen", "deny"): of_claude("deny", told("deny")),
    ("cline", "allow"): {},
    ("cline", "ask"): {"cancel": True, "errorMessage": told("ask") + HELD},
    ("cline", "deny"): {"cancel": True, "errorMessage": told("deny")},
}


@pytest.mark.parametrize(("agent", "decision"), list(ANSWERS))
def test_a_command_is_answered_in_the_format_of_the_agent(agent: str, decision: str, scene: HookScene) -> None:
    text = scene.says(agent, COMMAND_EVENTS[agent](COMMANDS[decision], scene.root))
    assert (json.loads(text) if text else None) == ANSWERS[agent, decision]
    assert text.isascii()


def decision_of(text: str) -> str:
    """Return the decision that an answer carries, whoever it is for."""
    tree: dict[str, Any] = json.loads(text) if text else {"decision": "allow"}
    specific = tree.get("hookSpecificOutput", {})
    return str(specific.get("permissionDecision") or tree.get("decision") or tree.get("permission"))


# Agent, tool, its input ($ROOT is the workspace), and what comes of it.
CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("claude-code", "Read", {"file_path": "$ROOT/src/old.txt"}, "allow"),
    ("claude-code", "Read", {"file_path": "$ROOT/src/secret.txt"}, "deny"),
    ("claude-code", "Read", {"file_path": "/etc/passwd"}, "ask"),
    ("claude-code", "Write", {"file_path": "$ROOT/src/new.txt", "content": "x"}, "allow"),
    ("claude-code", "Write", {"file_path": "$ROOT/other.txt", "content": "x"}, "ask"),
    ("claude-code", "Edit", {"file_path": "$ROOT/src/secret.txt", "old_string": "a", "new_string": "b"}, "deny"),
    ("claude-code", "MultiEdit", {"file_path": "$ROOT/src/old.txt", "edits": [{"old_string": "a"}]}, "allow"),
    ("claude-code", "NotebookEdit", {"notebook_path": "$ROOT/src/n.ipynb", "new_source": "rm"}, "allow"),
    ("claude-code", "Grep", {"pattern": "x", "path": "$ROOT/src"}, "allow"),
    ("claude-code", "Glob", {"pattern": "**/*.py"}, "ask"),
    ("claude-code", "WebFetch", {"url": "https://example.com/a", "prompt": "p"}, "allow"),
    ("claude-code", "WebFetch", {"url": "http://169.254.169.254/", "prompt": "p"}, "ask"),
    ("claude-code", "WebSearch", {"query": "x"}, "allow"),
    ("claude-code", "TodoWrite", {"todos": [{"content": "rm -rf /", "status": "pending"}]}, "allow"),
    ("claude-code", "Task", {"description": "d", "prompt": "rm -rf /", "subagent_type": "x"}, "allow"),
    ("claude-code", "Bash", {"command": "touch allowed", "dangerouslyDisableSandbox": True}, "ask"),
    ("claude-code", "Bash", {"command": "touch denied", "dangerouslyDisableSandbox": True}, "deny"),
    ("claude-code", "Bash", {}, "ask"),
    ("claude-code", "NewTool", {"command": "touch allowed"}, "ask"),
    ("claude-code", "NewTool", {"command": "touch denied"}, "deny"),
    ("claude-code", "mcp__github__get_issue", {"n": 1}, "allow"),
    ("claude-code", "mcp__github__drop", {"n": 1}, "ask"),
    ("claude-code", "mcp__github", {}, "ask"),
    ("codex", "apply_patch", {"command": "*** Begin Patch\n*** Add File: src/p\n+x\n*** End Patch"}, "allow"),
    ("codex", "apply_patch", {"command": "*** Begin Patch\n*** Delete File: src/old.txt\n*** End Patch"}, "deny"),
    ("codex", "apply_patch", {"command": "*** Begin Patch\n*** Add File: src/secret.txt\n+x\n*** End Patch"}, "deny"),
    ("codex", "apply_patch", {"command": "no patch"}, "deny"),
    ("codex", "view_image", {"path": "src/old.txt"}, "allow"),
    ("codex", "update_plan", {"plan": []}, "allow"),
    ("codex", "mcp__github__get_issue", {}, "allow"),
    ("codex", "write_stdin", {"chars": "touch allowed\n"}, "deny"),
    ("gemini", "write_file", {"file_path": "src/new.txt", "content": "x"}, "allow"),
    ("gemini", "replace", {"file_path": "$ROOT/src/secret.txt", "old_string": "a", "new_string": "b"}, "deny"),
    ("gemini", "run_shell_command", {"command": "touch allowed", "dir_path": "src"}, "allow"),
    ("gemini", "list_directory", {"dir_path": "src"}, "allow"),
    ("gemini", "web_fetch", {"prompt": "look at https://example.com"}, "allow"),
    ("gemini", "web_fetch", {"prompt": "look at https://example.com and www.example.org"}, "ask"),
    ("gemini", "web_fetch", {"prompt": "sum it up"}, "ask"),
    ("gemini", "write_todos", {"todos": []}, "allow"),
    ("gemini", "mcp_github_get_issue", {}, "ask"),
    ("opencode", "read", {"filePath": "src/old.txt"}, "allow"),
    ("opencode", "edit", {"filePath": "$ROOT/src/secret.txt", "oldString": "a", "newString": "b"}, "deny"),
    ("opencode", "bash", {"command": "touch allowed", "workdir": "$ROOT/src"}, "allow"),
    ("opencode", "webfetch", {"url": "https://example.com", "format": "text"}, "allow"),
    ("opencode", "todowrite", {"todos": []}, "allow"),
    ("opencode", "unknown_tool", {}, "deny"),
]
EVENTS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "claude-code": claude,
    "codex": claude,
    "gemini": gemini,
    "opencode": opencode,
}


@pytest.mark.parametrize(("agent", "tool", "given", "expected"), CALLS)
def test_a_tool_call_is_judged_by_what_it_does(
    agent: str, tool: str, given: dict[str, Any], expected: str, scene: HookScene
) -> None:
    filled = json.loads(json.dumps(given).replace("$ROOT", str(scene.root)))
    assert decision_of(scene.says(agent, EVENTS[agent](tool, filled, scene.root))) == expected


# Cursor has an event for each of several things; $ROOT as above.
CURSOR_EVENTS: list[tuple[str, dict[str, Any], str]] = [
    ("beforeReadFile", {"file_path": "$ROOT/src/old.txt", "content": "x", "attachments": []}, "allow"),
    ("beforeReadFile", {"file_path": "$ROOT/src/secret.txt", "content": "x"}, "deny"),
    ("beforeReadFile", {"file_path": "$ROOT/other.txt", "content": "x"}, "deny"),  # it cannot ask
    ("beforeTabFileRead", {"file_path": "$ROOT/src/secret.txt", "content": "x"}, "deny"),
    ("beforeMCPExecution", {"tool_name": "get_x", "tool_input": '{"a": 1}', "mcp_server_name": "github"}, "allow"),
    ("beforeMCPExecution", {"tool_name": "drop", "tool_input": {"a": 1}, "mcp_server_name": "github"}, "ask"),
    ("beforeMCPExecution", {"tool_name": "get_x", "tool_input": "{}", "command": "npx some-server"}, "ask"),
    ("beforeShellExecution", {"command": "touch allowed", "cwd": ""}, "ask"),  # where?
    ("preToolUse", {"tool_name": "Write", "tool_input": {"path": "$ROOT/src/a", "contents": "x"}}, "allow"),
    ("preToolUse", {"tool_name": "Write", "tool_input": {"path": "$ROOT/b", "contents": "x"}}, "deny"),
    ("preToolUse", {"tool_name": "Delete", "tool_input": {"path": "$ROOT/src/old.txt"}}, "deny"),
    ("preToolUse", {"tool_name": "Shell", "tool_input": {"command": "touch asked"}}, "ask"),
    ("preToolUse", {"tool_name": "Shell", "tool_input": {"command": "touch denied"}}, "deny"),
    ("preToolUse", {"tool_name": "MCP:get_x", "tool_input": {}, "mcp_server_name": "github"}, "allow"),
    ("preToolUse", {"tool_name": "MCP:get_x", "tool_input": {}}, "ask"),
    ("preToolUse", {"tool_name": "TodoWrite", "tool_input": {}}, "allow"),
    ("preToolUse", {"tool_name": "EditNotebook", "tool_input": {"target_notebook": "src/a.ipynb"}}, "allow"),
    ("preToolUse", {"tool_name": "EditNotebook", "tool_input": {"target_notebook": "src/secret.txt"}}, "deny"),
    ("preToolUse", {"tool_name": "LS", "tool_input": {"target_directory": "src"}}, "allow"),
    (
        "preToolUse",
        {"tool_name": "SemanticSearch", "tool_input": {"query": "x", "target_directories": ["src"]}},
        "allow",
    ),
    (
        "preToolUse",
        {"tool_name": "SemanticSearch", "tool_input": {"query": "x", "target_directories": ["/etc"]}},
        "deny",
    ),
    ("preToolUse", {"tool_name": "Unheard", "tool_input": {}}, "deny"),
]


@pytest.mark.parametrize(("event", "given", "expected"), CURSOR_EVENTS)
def test_every_event_of_cursor_is_judged(event: str, given: dict[str, Any], expected: str, scene: HookScene) -> None:
    filled = json.loads(json.dumps(given).replace("$ROOT", str(scene.root)))
    assert decision_of(scene.says("cursor", cursor(event, scene.root, **filled))) == expected


NEUTRAL = {
    "claude-code": ("PostToolUse", ""),
    "codex": ("PermissionRequest", ""),
    "gemini": ("AfterTool", "{}"),
    "cursor": ("afterFileEdit", "{}"),
    "opencode": ("tool.execute.after", "{}"),
    "copilot": ("postToolUse", "{}"),
    "qwen": ("PostToolUse", "{}"),
    "cline": ("tool_result", "{}"),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_an_event_that_is_not_about_a_call_to_come_is_answered_neutrally(agent: str, scene: HookScene) -> None:
    event, expected = NEUTRAL[agent]
    assert scene.says(agent, {"hook_event_name": event, "hookName": event, "tool_name": "x"}) == expected
    assert scene.records() == []


def test_a_workspace_that_is_reached_through_a_link_is_the_same_workspace(scene: HookScene, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(scene.root)
    spelled = tmp_path / "link"
    event = claude("Read", {"file_path": f"{spelled}/src/old.txt"}, spelled)
    assert decision_of(scene.says("claude-code", event, variables={"CLAUDE_PROJECT_DIR": str(spelled)})) == "allow"
    denied = claude("Read", {"file_path": f"{spelled}/src/secret.txt"}, spelled)
    assert decision_of(scene.says("claude-code", denied)) == "deny"
    (scene.root / "src" / "way").symlink_to("secret.txt")
    there = claude("Read", {"file_path": f"{spelled}/src/way"}, spelled)
    assert decision_of(scene.says("claude-code", there)) == "deny"


def test_a_call_is_recorded_with_its_id_and_where_each_part_was_found(scene: HookScene) -> None:
    scene.says("claude-code", claude("Bash", {"command": "touch allowed"}, scene.root))
    scene.says("claude-code", claude("Bash", {"command": "touch asked"}, scene.root), profile="reviewer")
    first, second = scene.records()
    assert (first["door"], first["agent"], first["identity"]) == ("hook", "claude-code", "default")
    assert first["action"] == {
        "kind": "command",
        "command": "touch allowed",
        "cwd": str(scene.root),
        "agent": "claude-code",
    }
    assert first["tool_call"] == "toolu_1"
    assert first["sources"] == {"kind": "kind", "command": "rawInput.command", "cwd": "session"}
    assert (second["agent"], second["identity"], second["verdict"]["decision"]) == ("reviewer", "verified", "ask")
    assert second["answer"] == {"by": "claude-code", "choice": "elsewhere"}


def test_rules_can_speak_to_one_agent(tmp_path: Path) -> None:
    rules = '[[rules]]\nallow = { command = "ls", agent = "reviewer" }\n[[rules]]\ndeny = { command = "ls" }\n'
    scene = HookScene.build(tmp_path, rules)
    event = claude("Bash", {"command": "ls"}, scene.root)
    assert decision_of(scene.says("claude-code", event)) == "deny"
    assert decision_of(scene.says("claude-code", event, profile="reviewer")) == "allow"


def test_the_agent_of_an_mcp_call_is_the_profile_else_the_hooks_name(tmp_path: Path) -> None:
    rule = 'allow = { call = { server = "github" }, agent = "claude-code" }'
    scene = HookScene.build(tmp_path, f'[[rules]]\n{rule}\n[[rules]]\ndeny = {{ call = {{ server = "github" }} }}\n')
    event = claude("mcp__github__get", {}, scene.root)
    assert decision_of(scene.says("claude-code", event)) == "allow"
    assert decision_of(scene.says("claude-code", event, profile="other")) == "deny"


def test_an_mcp_tool_is_split_at_the_first_double_underscore(scene: HookScene) -> None:
    scene.says("claude-code", claude("mcp__my_server__a__b", {"x": 1}, scene.root))
    (record,) = scene.records()
    assert record["action"] == {
        "kind": "call",
        "server": "my_server",
        "tool": "a__b",
        "arguments": {"x": 1},
        "agent": "claude-code",
    }


def test_gemini_tells_itself_which_server_a_tool_is_on(scene: HookScene) -> None:
    context = {"server_name": "github", "tool_name": "get_issue", "command": "npx"}
    event = gemini("mcp_github_get_issue", {"n": 1}, scene.root, mcp_context=context)
    assert decision_of(scene.says("gemini", event)) == "allow"
    hidden = gemini("write_todos", {}, scene.root, mcp_context={"server_name": "evil", "tool_name": "x"})
    assert decision_of(scene.says("gemini", hidden)) == "ask"


# The tool, the servers that opencode has, and what comes of it: opencode writes both names into one.
OPENCODE_SERVERS = [
    ("github_get_issue", ["github"], "allow"),
    ("github_drop", ["github"], "deny"),
    ("github_get_issue", [], "deny"),
    ("github_get_issue", ["github", "github_get"], "deny"),
    ("plan_exit", [], "allow"),
    ("plan_exit", ["plan"], "deny"),
]


@pytest.mark.parametrize(("tool", "servers", "expected"), OPENCODE_SERVERS)
def test_the_server_of_a_tool_in_opencode_is_known_or_held_back(
    tool: str, servers: list[str], expected: str, scene: HookScene
) -> None:
    assert decision_of(scene.says("opencode", opencode(tool, {}, scene.root, servers=servers))) == expected


def test_what_is_held_back_goes_through_once_the_user_has_approved_it(scene: HookScene) -> None:
    event = claude("Bash", {"command": "touch asked"}, scene.root)
    assert decision_of(scene.says("codex", event)) == "deny"
    (waiting,) = scene.approvals.all()
    assert (waiting.kind, waiting.status) == ("action", "pending")
    assert 'command="touch asked"' in waiting.subject
    assert scene.approvals.settle_action(waiting.detail["key"], status="approved", now="2026-01-01T00:00:00Z")
    assert scene.says("codex", event) == ""
    assert decision_of(scene.says("codex", claude("Bash", {"command": "touch asked2"}, scene.root))) == "deny"


def test_what_cannot_be_understood_does_not_wait_for_an_approval(scene: HookScene) -> None:
    text = scene.says("codex", claude("Unheard", {"a": 1}, scene.root))
    assert text.endswith('no person can be asked here; do it yourself"}}')
    assert scene.approvals.all() == []


@pytest.mark.parametrize("mode", ["auto", "bypassPermissions", "BYPASSPERMISSIONS", "unheard", "", 5, ["default"]])
def test_a_question_is_held_back_where_claude_code_might_not_ask_it(mode: Any, scene: HookScene) -> None:
    def said(command: str) -> str:
        event = claude("Bash", {"command": command}, scene.root, permission_mode=mode)
        return decision_of(scene.says("claude-code", event))

    assert [said(command) for command in COMMANDS.values()] == ["allow", "deny", "deny"]


def test_the_workspace_does_not_move_with_the_agents_directory(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, "")
    (scene.root / "byleave.toml").write_text('[[rules]]\ndeny = { command = "ls" }\n')
    inner = scene.root / "inner"
    inner.mkdir()
    (inner / "byleave.toml").write_text("")  # whoever may write here could otherwise choose the rules
    event = claude("Bash", {"command": "ls"}, inner)
    project = {"CLAUDE_PROJECT_DIR": str(scene.root)}
    assert decision_of(scene.says("claude-code", event, variables=project)) == "deny"
    shell = cursor("beforeShellExecution", scene.root, command="ls", cwd=str(inner))
    assert decision_of(scene.says("cursor", shell)) == "deny"
    there = opencode("bash", {"command": "ls", "workdir": str(inner)}, scene.root)
    assert "denied: the rule `deny ls` matches it" in scene.says("opencode", there)
    ran = scene.runs("codex", feed=event, cwd=scene.root)
    assert b"denied: the rule `deny ls` matches it" in ran.stdout


def test_a_root_of_the_command_line_is_the_workspace_wherever_the_agent_is(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, "")
    (scene.root / "byleave.toml").write_text('[[rules]]\ndeny = { command = "ls" }\n')
    event = claude("Bash", {"command": "ls"}, tmp_path)
    assert decision_of(scene.says("claude-code", event)) == "ask"
    assert decision_of(scene.says("claude-code", event, root=scene.root)) == "deny"


def test_of_several_folders_in_cursor_the_one_that_is_meant_counts(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, "")
    (scene.root / "byleave.toml").write_text('[[rules]]\ndeny = { path = "a.txt" }\n')
    event = cursor("beforeReadFile", tmp_path / "elsewhere", file_path=str(scene.root / "a.txt"))
    event["workspace_roots"].append(str(scene.root))
    assert "; no person can be asked" not in (said := scene.says("cursor", event))
    assert decision_of(said) == "deny"


def test_a_reason_is_one_plain_line_whatever_the_command_holds(scene: HookScene) -> None:
    command = "touch \x1b[31m\ud800\u202e" + "x" * 9000
    for agent in AGENTS:
        text = scene.says(agent, COMMAND_EVENTS[agent](command, scene.root))
        assert text.isascii()
        assert "\\ud800" not in text.replace("\\\\ud800", "")
        assert len(text) < 9000
        json.loads(text)


def test_an_input_with_halves_of_characters_is_recorded_and_answered(scene: HookScene) -> None:
    event = claude("Write", {"file_path": f"{scene.root}/src/\ud800", "content": "\udfff"}, scene.root)
    assert decision_of(scene.says("claude-code", event)) in ("ask", "deny")
    assert len(scene.records()) == 1
