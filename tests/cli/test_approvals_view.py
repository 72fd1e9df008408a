"""`byleave approvals --ui`: questions at the terminal, answered by keys."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from byleave.hooks.event_reader import Hook
from byleave.hooks.hook import respond
from byleave.policy.load import Workspace
from command import at_terminal, byleave

RULES = '[[rules]]\nask = { command = "npm" }\n'


@pytest.fixture
def root(tmp_path: Path, own_home: Path) -> Path:
    (own_home / "config.toml").write_text(RULES)
    return tmp_path


def event(root: Path, text: str) -> bytes:
    return json.dumps(
        {"hook_event_name": "tool.execute.before", "tool": "bash", "call_id": "1", "session_id": "s",
         "args": {"command": text}, "directory": str(root), "servers": []}
    ).encode()  # fmt: skip


def hold_back(root: Path, text: str) -> str:
    said = respond(Hook("opencode", None, str(root)), event(root, text), os.environ).text
    return str(json.loads(said)["decision"])


def statuses(root: Path) -> dict[str, str]:
    found = Workspace(str(root)).approvals.all()
    return {re.findall('"([^"]*)"', each.subject)[0]: each.status for each in found}


def test_questions_are_shown_in_full_and_answered_by_keys(root: Path) -> None:
    for text in ("npm one", "npm two", "npm three", "cargo publish"):
        assert hold_back(root, text) == "deny"
    with at_terminal("approvals", "--ui", cwd=root) as terminal:
        terminal.wait_for("4 waiting")
        terminal.type(b"a")
        terminal.wait_for("3 waiting")
        terminal.type(b"d")
        terminal.wait_for("2 waiting")
        terminal.type(b"s")
        terminal.wait_for("1 waiting")
        terminal.type(b"w")
        terminal.wait_for("Write this rule?")
        terminal.type(b"y")
        terminal.wait_for("nothing waits for you")
        terminal.type(b"q")
        assert terminal.ends() == 0
    assert sorted(statuses(root).values()) == ["approved", "approved", "revoked"]
    assert 'command = "cargo"' in (Path(os.environ["BYLEAVE_HOME"]) / "config.toml").read_text()


def test_a_hook_waits_for_the_terminal_view(root: Path) -> None:
    with at_terminal("approvals", "--ui", cwd=root) as terminal:
        terminal.wait_for("nothing waits for you")
        words = [sys.executable, "-m", "byleave", "hook", "opencode", "--root", str(root)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hook:
            assert hook.stdin is not None
            assert hook.stdout is not None
            hook.stdin.write(event(root, "npm ci \x1b[31m"))
            hook.stdin.close()
            terminal.wait_for("npm ci \\x1b[31m")
            terminal.type(b"a")
            assert json.loads(hook.stdout.read())["decision"] == "allow"
        terminal.type(b"q")
        assert terminal.ends() == 0


def test_what_does_not_fit_the_screen_cannot_be_allowed_there(root: Path) -> None:
    hold_back(root, f"npm {'x' * 3500}")
    with at_terminal("approvals", "--ui", cwd=root) as terminal:
        terminal.wait_for("1 waiting")
        terminal.type(b"a")
        terminal.wait_for("it does not fit this terminal")
        terminal.type(b"d")
        terminal.wait_for("nothing waits for you")
        terminal.type(b"q")
        assert terminal.ends() == 0
    assert set(statuses(root).values()) == {"revoked"}


def test_without_a_terminal_it_is_refused(root: Path) -> None:
    assert byleave("approvals", "--ui", cwd=root).code != 0
    assert byleave("approvals", cwd=root).code == 2
