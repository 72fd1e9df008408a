"""Claude with its hook and the proxy together: the plan is its user's, the version is ours, and reads are seen."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.acp_editor import Editor, Turn, driving, lay_out, no, yes
from agents.real_agents import AGENTS, NotInstalledError, installed
from command import byleave

POLICY = """
[[rules]]
deny = { path = "**/.env" }
[[rules]]
allow = { path = "**", ops = ["read"] }
[[rules]]
allow = { operation = ["think", "switch_mode", "other"] }
"""


@pytest.fixture
def editor(tmp_path: Path, model_url: str) -> Iterator[Editor]:
    claude = replace(AGENTS["claude"], mode=None)
    try:
        installed(claude)
    except NotInstalledError as error:
        pytest.skip(str(error))
    base = tmp_path.resolve()
    lay_out(base, POLICY)
    home = base / "home"
    config = home / ".config" / "byleave"
    for directory in (config.parent, config):
        directory.mkdir(mode=0o700)
    home.chmod(0o700)
    (config / "config.toml").write_text(POLICY)
    done = byleave("hook", "--install", "claude-code", "--yes", env={"HOME": str(home), "BYLEAVE_HOME": None})
    assert done.code == 0, done.err
    (base / "ws" / ".env").write_text("secret=hunter2")
    with driving(claude, base, model_url) as started:
        yield started


def told(turn: Turn) -> str:
    return json.dumps(turn.updates)


def test_claude_is_asked_for_version_1_whatever_the_editor_wants(editor: Editor) -> None:
    params: dict[str, Any] = {"protocolVersion": 2, "clientCapabilities": {}}
    assert editor.call("initialize", params, Turn(), yes)["protocolVersion"] == 1


def test_a_plan_reaches_the_user_though_rules_and_hook_allow_everything(editor: Editor) -> None:
    session = editor.open()
    editor.call("session/set_mode", {"sessionId": session, "modeId": "plan"}, Turn(), yes)
    turn = editor.prompt(session, {"name": "ExitPlanMode", "args": {"plan": "do it"}}, decide=no)
    assert len(turn.asked) == 1, told(turn)


def test_a_read_that_claude_does_not_ask_about_is_denied_by_its_hook(editor: Editor) -> None:
    session = editor.open()
    steps = [{"name": "Read", "args": {"file_path": str(editor.root / name)}} for name in ("README.md", ".env")]
    turn = editor.prompt(session, *steps)
    assert turn.asked == []
    assert ("hello world" in told(turn), "hunter2" in told(turn)) == (True, False)
