"""Prove that an installed hook works: start the command that stands in the agent's settings, with a real event.

The event asks for a command that no policy allows an agent, whatever its rules: one that changes what byleave trusts.
Only a deny is a proof. What the agent itself does with the answer, the agent has to show.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from byleave.hooks.agents import CLAUDE_CODE, CLINE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE, QWEN
from byleave.hooks.event_reader import BEFORE_SHELL
from byleave.hooks.install import installed_commands, settings_file
from byleave.hooks.snippets import PATIENCE, PLACES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

PROBE = "byleave trust # byleave setup tries the hook"
_ID = "byleave-setup"
_NO = ("deny", "block")


def _claude_like(root: str) -> dict[str, Any]:
    given = {"tool_name": "Bash", "tool_input": {"command": PROBE}, "tool_use_id": _ID, "permission_mode": "default"}
    return {"hook_event_name": "PreToolUse", "session_id": _ID, "cwd": root, **given}


def _gemini(root: str) -> dict[str, Any]:
    given = {"tool_name": "run_shell_command", "tool_input": {"command": PROBE}}
    return {"hook_event_name": "BeforeTool", "session_id": _ID, "cwd": root, **given}


def _cursor(root: str) -> dict[str, Any]:
    given = {"command": PROBE, "cwd": root, "workspace_roots": [root]}
    return {"hook_event_name": BEFORE_SHELL, "conversation_id": _ID, **given}


def _opencode(root: str) -> dict[str, Any]:
    given = {"tool": "bash", "args": {"command": PROBE}, "call_id": _ID, "servers": []}
    return {"hook_event_name": "tool.execute.before", "session_id": _ID, "directory": root, **given}


def _copilot(root: str) -> dict[str, Any]:
    return {"sessionId": _ID, "timestamp": 0, "cwd": root, "toolName": "bash", "toolArgs": {"command": PROBE}}


def _qwen(root: str) -> dict[str, Any]:
    return {**_claude_like(root), "tool_name": "run_shell_command"}


def _cline(root: str) -> dict[str, Any]:
    call = {"id": _ID, "name": "run_commands", "input": {"commands": [PROBE]}}
    return {"hookName": "tool_call", "taskId": _ID, "workspaceRoots": [root], "tool_call": call}


_EVENTS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    CLAUDE_CODE: _claude_like,
    CODEX: _claude_like,
    GEMINI: _gemini,
    CURSOR: _cursor,
    OPENCODE: _opencode,
    COPILOT: _copilot,
    QWEN: _qwen,
    CLINE: _cline,
}


def probe(agent: str, home: str, root: str) -> str | None:
    """Send the event through the hook; return what is wrong, None if the hook denied the command."""
    make = _EVENTS.get(agent)
    if make is None:
        return f"byleave has no event of {PLACES[agent].title} to try it with"
    commands = list(installed_commands(agent, home))
    if not commands:
        return f"there is no hook of byleave in {settings_file(agent, home)}"
    for command in commands:
        problem = _answer_problem(command, make(root), root)
        if problem is not None:
            return problem
    return None


def _answer_problem(command: str | list[str], event: dict[str, Any], root: str) -> str | None:
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    variables = {**os.environ, "CLAUDE_PROJECT_DIR": root}
    try:
        done = subprocess.run(  # noqa: S603 -- the very command that the agent would start
            argv,
            input=json.dumps(event).encode(),
            capture_output=True,
            cwd=root,
            env=variables,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the hook gives no answer within {PATIENCE} seconds"
    except OSError as error:
        return f"the hook cannot be started: {error.strerror}"
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        return f"the hook blocks every call: {said}"
    try:
        answer = json.loads(done.stdout or b"null")
    except ValueError:
        return "the answer of the hook is not JSON"
    return None if _says_no(answer) else "the hook does not deny what it has to deny"


def _says_no(tree: Any) -> bool:
    """Whether an answer holds a deny, whatever the agent calls the field."""
    if isinstance(tree, dict):
        return tree.get("cancel") is True or any(_says_no(value) for value in tree.values())
    return tree in _NO
