"""A home with rules, a workspace, and an agent whose hook is about to be called."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import byleave.hooks
from byleave.core.redact import Redactor
from byleave.hooks.event_reader import Hook
from byleave.hooks.hook import respond
from byleave.policy.dirs import find_homes, own_packages
from byleave.policy.load import Workspace
from byleave.store.approvals import Approvals
from byleave.store.audit.log import AuditLog
from byleave.store.audit.query import Filter

ENTRY = Path(byleave.hooks.__file__).with_name("__main__.py")
SOURCE = ENTRY.parents[2]
PATIENCE = 30.0
RULES = """
[[rules]]
allow = { command = "touch", args = ["allowed"] }

[[rules]]
deny = { command = "touch", args = ["denied"] }

[[rules]]
deny = { path = "src/secret.txt" }

[[rules]]
allow = { path = "src/**", ops = ["read", "create", "update"] }

[[rules]]
allow = { url = { host = "example.com", scheme = "https" } }

[[rules]]
allow = { call = { server = "github", tool = "get_*" } }

[[rules]]
ask = { call = { server = "*" } }

[[rules]]
allow = { operation = "other" }
"""


@dataclass(frozen=True)
class HookScene:
    """One user, one workspace."""

    home: Path
    root: Path

    @classmethod
    def build(cls, base: Path, rules: str = RULES) -> "HookScene":
        scene = cls(base / "user", base / "ws")
        config = scene.home / ".config" / "byleave"
        for directory in (scene.home, config.parent, config, scene.root, scene.root / "src"):
            directory.mkdir(mode=0o700)
        (config / "config.toml").write_text(rules)
        (scene.root / "byleave.toml").write_text("")
        (scene.root / "src" / "old.txt").write_text("x")
        return scene

    def says(
        self,
        agent: str,
        event: Mapping[str, Any],
        *,
        variables: Mapping[str, str] | None = None,
        profile: str | None = None,
        root: Path | None = None,
    ) -> str:
        """Return what the hook writes to standard output, in this process."""
        hook = Hook(agent, str(self.home), None if root is None else str(root), profile=profile)
        return respond(hook, json.dumps(event).encode(), variables or {}).text

    def runs(
        self,
        *words: str,
        feed: bytes | Mapping[str, Any] = b"",
        python: tuple[str, ...] = ("-I",),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        home: bool = True,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the hook as agents do."""
        packages = [] if "--packages" in words else ["--packages", own_packages()]
        more = ["--home", str(self.home)] if home else []
        return subprocess.run(
            [sys.executable, *python, str(ENTRY), "hook", *words, *more, *packages],
            input=feed if isinstance(feed, bytes) else json.dumps(feed).encode(),
            capture_output=True,
            check=False,
            cwd=cwd or self.root,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "BYLEAVE_SERVICE": "off", **(env or {})},
            timeout=PATIENCE,
        )

    @property
    def approvals(self) -> Approvals:
        return Workspace(str(self.root), homes=find_homes({"HOME": str(self.home)})).approvals

    def records(self) -> list[dict[str, Any]]:
        """Return what was recorded, as it is kept."""
        homes = find_homes({"HOME": str(self.home)})
        log = AuditLog(homes.workspace(str(self.root)), mask=Redactor())
        try:
            return [kept.tree for kept in log.query(Filter())]
        finally:
            log.close()


def claude(tool: str, tool_input: Mapping[str, Any], cwd: Path | None, **more: Any) -> dict[str, Any]:
    """Return an event of Claude Code; Codex's has the same names."""
    return {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "transcript_path": "/t.jsonl",
        "cwd": str(cwd),
        "permission_mode": "default",
        "tool_name": tool,
        "tool_input": dict(tool_input),
        "tool_use_id": "toolu_1",
        **more,
    }


def gemini(tool: str, tool_input: Mapping[str, Any], cwd: Path, **more: Any) -> dict[str, Any]:
    return {
        "hook_event_name": "BeforeTool",
        "session_id": "s",
        "transcript_path": "/t.json",
        "cwd": str(cwd),
        "timestamp": "2026-01-01T00:00:00Z",
        "tool_name": tool,
        "tool_input": dict(tool_input),
        **more,
    }


def cursor(event: str, root: Path, **more: Any) -> dict[str, Any]:
    return {
        "hook_event_name": event,
        "conversation_id": "c",
        "generation_id": "g",
        "model": "m",
        "cursor_version": "3.0.0",
        "workspace_roots": [str(root)],
        "user_email": None,
        **more,
    }


def opencode(tool: str, args: Mapping[str, Any], directory: Path, **more: Any) -> dict[str, Any]:
    return {
        "hook_event_name": "tool.execute.before",
        "tool": tool,
        "call_id": "call_1",
        "args": dict(args),
        "directory": str(directory),
        "servers": [],
        **more,
    }


def copilot(tool: str, tool_args: Mapping[str, Any], cwd: Path, **more: Any) -> dict[str, Any]:
    """Return an event of Copilot CLI (1.0.102), which does not name it."""
    return {"sessionId": "s", "timestamp": 1, "cwd": str(cwd), "toolName": tool, "toolArgs": dict(tool_args), **more}


def qwen(tool: str, tool_input: Mapping[str, Any], cwd: Path, **more: Any) -> dict[str, Any]:
    """Return an event of Qwen Code (0.15.10), whose names are those of Claude Code."""
    return claude(tool, tool_input, cwd, permission_mode="yolo", timestamp="2026-01-01T00:00:00Z", **more)


def cline(tool: str, tool_input: Mapping[str, Any], root: Path, **more: Any) -> dict[str, Any]:
    """Return an event of Cline (3.0.65)."""
    return {
        "clineVersion": "",
        "timestamp": "2026-01-01T00:00:00Z",
        "taskId": "conv_1",
        "workspaceRoots": [str(root)],
        "userId": "unknown",
        "hookName": "tool_call",
        "iteration": 1,
        "tool_call": {"id": "call_1", "name": tool, "input": dict(tool_input)},
        "preToolUse": {"toolName": tool, "parameters": {}},
        **more,
    }
