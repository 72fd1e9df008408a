"""An editor that drives a real agent through the real proxy: it serves files, and answers as it is told."""

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.real_agents import Agent, installed, script
from command import COMMAND, PATIENCE
from fakes.acp_parties import PERMISSION, Party, eventually

SLOW = 120.0  # seconds that a turn may take on a busy machine
SILENCE = "silence"
TERMINALS = False  # whether the editor starts commands for the agent
Decide = Callable[["Editor", str], str | None]


@dataclass
class Turn:
    """What came of a prompt: the requests for permission that reached the editor, and why the turn ended."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    stopped: str | None = None


class Editor:
    """An editor that serves files and answers questions, one thing after the other."""

    def __init__(self, agent: Agent, party: Party, base: Path) -> None:
        self.agent = agent
        self.root, self.out, self.log = base / "ws", base / "out", base / "log.jsonl"
        self._party = party
        self._ids = 0

    def call(self, method: str, params: dict[str, Any], turn: Turn, decide: Decide) -> dict[str, Any]:
        """Send a request, serve the agent until it answers, and return the result."""
        self._ids += 1
        self._party.say({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        deadline = time.monotonic() + SLOW
        while True:
            message = json.loads(self._party.line(deadline - time.monotonic()) or b"null")
            assert isinstance(message, dict), f"the agent ended, or wrote {message!r}"
            if "method" not in message and message.get("id") == self._ids:
                assert "result" in message, message
                return dict(message["result"])
            self._serve(message, turn, decide)

    def open(self) -> str:
        """Open a session in the workspace."""
        result = self.call("session/new", {"cwd": str(self.root), "mcpServers": []}, Turn(), yes)
        session = str(result["sessionId"])
        if self.agent.mode is not None:
            self.call("session/set_mode", {"sessionId": session, "modeId": self.agent.mode}, Turn(), yes)
        return session

    def prompt(self, session: str, *steps: Any, decide: Decide | None = None) -> Turn:
        """Have the agent take some steps."""
        turn = Turn()
        params = {"sessionId": session, "prompt": [{"type": "text", "text": script(*steps)}]}
        turn.stopped = self.call("session/prompt", params, turn, decide or yes)["stopReason"]
        return turn

    def cancels(self, session: str) -> None:
        self._party.say({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})

    def judged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def _serve(self, message: dict[str, Any], turn: Turn, decide: Decide) -> None:
        params = message.get("params") or {}
        if message.get("method") == "session/update":
            turn.updates.append(params["update"])
        elif "id" in message and "method" in message:
            answer = self._answer(message["method"], params, turn, decide)
            if answer is not None:
                self._party.say({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _answer(self, method: str, params: dict[str, Any], turn: Turn, decide: Decide) -> dict[str, Any] | None:
        if method == PERMISSION:
            turn.asked.append(params)
            return _outcome(params["options"], decide(self, params["sessionId"]))
        path = Path(params.get("path", ""))
        if method == "fs/write_text_file":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(params["content"])
            return {"result": {}}
        if method == "fs/read_text_file" and path.is_file():
            return {"result": {"content": path.read_text()}}
        return {"error": {"code": -32002, "message": "Resource not found", "data": {"uri": str(path)}}}


def _outcome(options: list[dict[str, Any]], kind: str | None) -> dict[str, Any] | None:
    if kind == SILENCE:
        return None
    if kind is None:
        return {"result": {"outcome": {"outcome": "cancelled"}}}
    option = next(each["optionId"] for each in options if each["kind"] == kind)
    return {"result": {"outcome": {"outcome": "selected", "optionId": option}}}


def yes(_editor: Editor, _session: str) -> str | None:
    return "allow_once"


def no(_editor: Editor, _session: str) -> str | None:
    return "reject_once"


def always(_editor: Editor, _session: str) -> str | None:
    return "allow_always"


def cancelled(editor: Editor, session: str) -> str | None:
    editor.cancels(session)
    return None


def cancelled_in_silence(editor: Editor, session: str) -> str | None:
    editor.cancels(session)
    return SILENCE


@contextmanager
def driving(agent: Agent, base: Path, url: str, *flags: str, env: Mapping[str, str] | None = None) -> Iterator[Editor]:
    """Start an agent through the proxy in the workspace below `base`; in the end nothing is left of it."""
    mark = uuid.uuid4().hex
    own = {"BYLEAVE_HOME": str(base / "byleave"), "BYLEAVE_TEST_MARK": mark}
    given = ("--policy", str(base / "policy.toml"), "--log", str(base / "log.jsonl"), "--agent-profile", agent.name)
    with open(base / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            [*COMMAND, "acp", *given, *flags, "--", installed(agent), *agent.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            cwd=base / "ws",  # as editors do; some agents work there, whatever the session says
            env={**agent.prepared(base / "home", url), **own, **(env or {})},
            start_new_session=True,
        )
        with process:
            try:
                yield from _started(agent, process, base)
                process.wait(PATIENCE)
                eventually(lambda: not marked(mark), "something of the agent is left")
            finally:
                process.kill()
                for left in marked(mark):
                    os.kill(left, signal.SIGKILL)


def lay_out(base: Path, policy: str) -> None:
    """Make a workspace, a directory outside of it with something to lose, a home and a policy."""
    (base / "ws" / ".git").mkdir(parents=True)
    (base / "ws" / "README.md").write_text("hello world\n")
    (base / "out").mkdir()
    (base / "out" / "precious").write_text("x")
    (base / "home").mkdir()
    (base / "policy.toml").write_text(policy)


def _started(agent: Agent, process: "subprocess.Popen[bytes]", base: Path) -> Iterator[Editor]:
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    party = Party("editor", lambda most: os.read(stdout.fileno(), most), stdin.write, stdin.close)
    editor = Editor(agent, party, base)
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": TERMINALS}
    info = {"name": "byleave-tests", "version": "1"}
    params = {"protocolVersion": 1, "clientInfo": info, "clientCapabilities": capabilities}
    editor.call("initialize", params, Turn(), yes)
    yield editor
    party.leaves()


def marked(mark: str) -> list[int]:
    """Return the processes that run with this mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found
