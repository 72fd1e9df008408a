"""A real agent that has its editor start commands: they run confined, with their output, exit code and end."""

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from agents import acp_editor
from agents.acp_editor import Decide, Editor, Turn, driving, lay_out
from agents.real_agents import AGENTS, Agent, NotInstalledError, installed
from sandbox.machine import needs_sandbox

pytestmark = needs_sandbox
POLICY = """
[shell]
[[rules]]
deny = { command = "rm" }
[[rules]]
allow = { any_command = true, options = "any" }
sandbox = true
[[rules]]
allow = { path = "**" }
"""
# Claude's earlier adapter: it runs every command in a terminal of its editor, if the editor has them.
AGENT = Agent(
    name="claude-terminals",
    package="@zed-industries/claude-code-acp",
    version="0.10.10",
    program="claude-code-acp",
    env=AGENTS["claude"].env,
    bash="mcp__acp__Bash",
    more={"description": "a step"},
)


class TerminalEditor(Editor):
    """An editor that has terminals, each a program with its arguments."""

    terminals: dict[str, "subprocess.Popen[bytes]"]
    created: list[dict[str, Any]]

    def _answer(self, method: str, params: dict[str, Any], turn: Turn, decide: Decide) -> dict[str, Any] | None:
        if method == "terminal/create":
            self.created.append(params)
            env = {**os.environ, **{each["name"]: each["value"] for each in params.get("env") or ()}}
            words = [params["command"], *params.get("args", ())]
            name = f"t{len(self.created)}"
            self.terminals[name] = subprocess.Popen(
                words if "args" in params else ["sh", "-c", params["command"]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=params.get("cwd") or self.root,
                env=env,
                start_new_session=True,
            )
            return {"result": {"terminalId": name}}
        if not method.startswith("terminal/"):
            return super()._answer(method, params, turn, decide)
        process = self.terminals[params["terminalId"]]
        if method == "terminal/kill":
            os.killpg(process.pid, signal.SIGKILL)
            return {"result": {}}
        if method == "terminal/release":
            return {"result": {}}
        if method == "terminal/wait_for_exit":
            code = process.wait(acp_editor.SLOW)
            return {"result": {"exitCode": code if code >= 0 else None, "signal": None if code >= 0 else str(-code)}}
        assert process.stdout is not None
        output = process.stdout.read().decode()
        return {"result": {"output": output, "truncated": False, "exitStatus": {"exitCode": process.wait()}}}


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory, model_url: str) -> Iterator[TerminalEditor]:
    try:
        installed(AGENT)
    except NotInstalledError as error:
        pytest.skip(str(error))
    base = tmp_path_factory.mktemp("terminals").resolve()
    lay_out(base, POLICY)
    patch = pytest.MonkeyPatch()
    patch.setattr(acp_editor, "Editor", TerminalEditor)
    patch.setattr(acp_editor, "TERMINALS", True)
    with driving(AGENT, base, model_url) as started:
        assert isinstance(started, TerminalEditor)
        started.terminals, started.created = {}, []
        yield started
        for process in started.terminals.values():
            with process:
                process.kill()
    patch.undo()


def test_a_command_of_a_real_agent_runs_confined_in_its_editors_terminal(editor: TerminalEditor) -> None:
    command = f"echo hello > made; cat {editor.out}/precious; echo ended; exit 3"
    turn = editor.prompt(editor.open(), AGENT.runs(command))
    assert turn.stopped == "end_turn"
    assert (editor.root / "made").read_text() == "hello\n"
    [created] = editor.created
    assert created["args"][-4::2] == ["--ticket", "--shell"]
    assert created["outputByteLimit"] == 32000
    reported = str(turn.updates)
    assert ("ended" in reported, "No such file" in reported) == (True, True)
    assert any(each["verdict"].get("sandbox") == {"table": "shell", "required": True} for each in editor.judged())


def test_what_is_denied_starts_no_terminal(editor: TerminalEditor) -> None:
    before = len(editor.created)
    editor.prompt(editor.open(), AGENT.runs(f"rm -rf {editor.out}"))
    assert (len(editor.created), (editor.out / "precious").exists()) == (before, True)
