"""A dashboard in this process, a workspace with rules, and a client that speaks HTTP to it."""

import asyncio
import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from byleave.dashboard.machine import Machine
from byleave.dashboard.server import Dashboard, serve_dashboard
from byleave.hooks.event_reader import Hook
from byleave.hooks.hook import respond
from byleave.policy.load import Workspace
from byleave.store.approvals import now
from byleave.store.questions import AskedAction, Questions, StoredQuestion, this_process

RULES = """
[defaults]
ask_timeout = 15

[[rules]]
allow = { command = "git", subcommand = "status" }

[[rules]]
deny = { command = "git", subcommand = "push" }
why = "publishing is for people"

[[rules]]
ask = { command = "npm" }
"""


@dataclass
class Reply:
    """A response of the dashboard."""

    status: int
    fields: Mapping[str, str]
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


@dataclass
class Room:
    """A dashboard that serves, and the workspace around it."""

    root: Path
    home: Path
    url: str
    dashboard: Dashboard
    cookie: str = ""
    token: str = ""
    warned: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://{urlsplit(self.url).netloc}"

    def ask(self, method: str, path: str, body: Any = None, *, fields: Mapping[str, str | None] | None = None) -> Reply:
        """Send one request as a page would, with changes to its fields; None takes one away."""
        usual: dict[str, str | None] = {"Cookie": self.cookie or None}
        if method == "POST":
            usual |= {"X-Byleave-Token": self.token, "Origin": self.origin}
        sent = {name: value for name, value in {**usual, **(fields or {})}.items() if value is not None}
        where = urlsplit(self.url)
        client = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
        try:
            content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
            client.request(method, path, content, sent)
            found = client.getresponse()
            return Reply(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            client.close()

    def sign_in(self) -> "Room":
        """Take the cookie for the token, and the token of the pages."""
        where = urlsplit(self.url)
        found = self.ask("GET", f"{where.path}?{where.query}")
        assert found.status == 303
        self.cookie = found.fields["set-cookie"].partition(";")[0]
        page = self.ask("GET", "/").body.decode()
        self.token = page.partition('name="byleave-token" content="')[2].partition('"')[0]
        return self

    def pending(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", "/api/pending").tree["pending"]
        return found

    def wait_for(self, status: str = "pending") -> dict[str, Any]:
        """Return the first question with this status, as soon as there is one."""
        for _ in range(200):
            for each in self.pending():
                if each["status"] == status:
                    return each
            threading.Event().wait(0.05)
        raise AssertionError(f"nothing is {status}: {self.pending()}")

    def answer(self, id_: str, **body: Any) -> Reply:
        return self.ask("POST", f"/api/pending/{id_}", body)

    def command(self, text: str, agent: str = "codex") -> dict[str, Any]:
        """Return what a hook says about a command."""
        said: dict[str, Any] = json.loads(
            respond(Hook(agent, None, str(self.root)), self.event(text, agent), os.environ).text
        )
        return said

    def event(self, text: str, agent: str = "codex") -> bytes:
        if agent == "opencode":
            tree = {"hook_event_name": "tool.execute.before", "tool": "bash", "call_id": "1", "session_id": "s",
                    "args": {"command": text}, "directory": str(self.root), "servers": []}  # fmt: skip
        else:
            tree = {"hook_event_name": "PreToolUse", "cwd": str(self.root), "tool_name": "Bash", "session_id": "s",
                    "tool_input": {"command": text}, "tool_use_id": "1", "turn_id": "1"}  # fmt: skip
        return json.dumps(tree).encode()

    def start_hook(self, text: str) -> "subprocess.Popen[bytes]":
        """Start a hook that waits: opencode's plugin blocks a call that is not answered."""
        words = [sys.executable, "-m", "byleave", "hook", "opencode", "--root", str(self.root)]
        hook = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert hook.stdin is not None
        hook.stdin.write(self.event(text, "opencode"))
        hook.stdin.close()
        hook.stdin = None
        return hook

    def said_by(self, hook: "subprocess.Popen[bytes]") -> dict[str, Any]:
        out, err = hook.communicate(timeout=30)
        assert out, err
        tree: dict[str, Any] = json.loads(out)
        return tree


def ask_about(
    board: Room, *actions: AskedAction, given: dict[str, Any] | None = None, once: bool = False
) -> StoredQuestion:
    """Have this process hold a question open."""
    question = StoredQuestion(
        str(board.root), "hook", "default", "codex", "default", "why", actions, now(), "2999-01-01T00:00:00Z",
        this_process(), given, once,
    )  # fmt: skip
    Questions(Workspace(str(board.root)).approvals.directory).put(question)
    return question


def ask_to_write(board: Room, path: str, content: str) -> StoredQuestion:
    """Have this process ask whether a file may be written."""
    asked = AskedAction("k" * 64, {"kind": "update", "path": path}, {"decision": "ask"})
    return ask_about(board, asked, given={"file_path": path, "content": content})


@contextmanager
def room(tmp_path: Path, home: Path, rules: str = RULES) -> Iterator[Room]:
    """Serve a dashboard in a thread of this process."""
    root = tmp_path / "ws"
    root.mkdir(exist_ok=True)
    (root / "byleave.toml").touch()
    if not (home / "config.toml").exists():
        (home / "config.toml").write_text(rules)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    dashboard = Dashboard(Machine(Workspace(str(root))))
    warned: list[str] = []
    try:
        serving = serve_dashboard(dashboard, 0, warned.append)
        server = asyncio.run_coroutine_threadsafe(serving, loop).result(20)
        yield Room(root, home, dashboard.access.new_address(), dashboard, warned=warned)
        dashboard.close()
        asyncio.run_coroutine_threadsafe(server.close(grace=0.5), loop).result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
