"""The real proxy, a real confined run, and an editor that starts what it is given: streams, exit codes, ends."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command import COMMAND, PATIENCE, environment, readable
from sandbox.machine import needs_sandbox
from sandbox.without_namespaces import needs_unshare, on_such_a_machine

pytestmark = needs_sandbox
POLICY = """
[shell]
[[rules]]
deny = { path = "**/.env" }
[[rules]]
allow = { any_command = true, options = "any" }
sandbox = true
unread = true
"""
AGENT = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "session/new":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "s"}}), flush=True)
    elif message.get("method") == "say":
        print(json.dumps(message["params"]), flush=True)
"""


class Editor:
    """An editor whose agent says whatever the editor wants."""

    def __init__(self, base: Path, process: "subprocess.Popen[bytes]", env: dict[str, str]) -> None:
        self.root = base / "ws"
        self._process, self._env, self._ids = process, env, 10

    def say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        assert readable(self._process.stdout.fileno(), PATIENCE), "nothing reached the editor"
        return dict(json.loads(self._process.stdout.readline()))

    def terminal(self, command: str, **params: Any) -> dict[str, Any]:
        """Have the agent request a terminal, and return what reaches the editor."""
        self._ids += 1
        given = {"sessionId": "s", "command": command, "cwd": str(self.root), **params}
        request = {"jsonrpc": "2.0", "id": self._ids, "method": "terminal/create", "params": given}
        self.say({"method": "say", "params": request})
        return self.hear()

    def start(self, request: dict[str, Any], **how: Any) -> "subprocess.Popen[bytes]":
        """Start what a request names, as editors do that start programs."""
        params = request["params"]
        env = {**self._env, **{each["name"]: each["value"] for each in params.get("env") or ()}}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        words = [params["command"], *params.get("args", ())]
        return subprocess.Popen(words, cwd=params["cwd"], env=env, start_new_session=True, **{**streams, **how})

    def run(self, command: str, **params: Any) -> tuple[int, str, str]:
        process = self.start(self.terminal(command, **params))
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out.decode(), err.decode()


@contextmanager
def editing(base: Path, policy: str = POLICY, before: Sequence[str] = (), *options: str) -> Iterator[Editor]:
    """Yield an editor with the proxy; `before` are the words that start the proxy on another kind of machine."""
    for name in ("ws", "home"):
        (base / name).mkdir()
    (base / "policy.toml").write_text(policy)
    (base / "agent.py").write_text(AGENT)
    env = environment({"HOME": str(base / "home"), "BYLEAVE_HOME": str(base / "state")})
    words = [*COMMAND, "acp", *options, "--policy", str(base / "policy.toml"), "--root", str(base / "ws"), "--"]
    process = subprocess.Popen(
        [*before, *words, sys.executable, "-IS", str(base / "agent.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=base,
        env=env,
    )
    with process:
        editor = Editor(base, process, env)
        editor.say({"id": 1, "method": "session/new", "params": {"cwd": str(editor.root), "mcpServers": []}})
        editor.hear()
        yield editor
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    with editing(tmp_path.resolve()) as made:
        yield made


def test_a_confined_command_has_its_output_its_directory_its_variables_and_its_exit_code(editor: Editor) -> None:
    (editor.root / "sub").mkdir()
    script = 'printf "%s|%s\\n" "$X" "$PWD"; echo wrong >&2; exit 7'
    env = [{"name": "X", "value": "it's a\\b $HOME"}]
    done = editor.run("sh", args=["-c", script], env=env, cwd=str(editor.root / "sub"))
    assert done == (7, f"it's a\\b $HOME|{editor.root}/sub\n", "wrong\n")
    assert editor.run("echo", args=["it's", "a  b", "", "$X", "*"])[1] == "it's a  b  $X *\n"
    assert editor.run("echo one; echo two | tr a-z A-Z")[1] == "one\nTWO\n"


def test_what_the_policy_closes_is_closed_however_it_is_reached(editor: Editor, tmp_path: Path) -> None:
    (editor.root / ".env").write_text("secret")
    (tmp_path / "outside").write_text("secret")
    script = f"cat .env {tmp_path}/outside; echo x > {tmp_path}/made; ls -a\n"
    (editor.root / "probe.sh").write_text(script)
    code, out, _err = editor.run("sh", args=["probe.sh"])
    assert (code, "secret" in out, (tmp_path / "made").exists()) == (0, False, False)


def test_output_streams_while_the_command_runs_and_a_kill_ends_all_of_it(editor: Editor) -> None:
    request = editor.terminal("sh", args=["-c", "echo begun; sleep 1000 & echo $! > child; wait"])
    process = editor.start(request)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    with process:
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        assert ready
        assert process.stdout.read() == b""  # what still ran would hold it open


def test_a_terminate_reaches_the_command(editor: Editor) -> None:
    process = editor.start(editor.terminal("trap 'echo ended; kill $!; exit 3' TERM; echo begun; sleep 1000 & wait"))
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.terminate()
    with process:
        assert (process.stdout.read(), process.wait(PATIENCE)) == (b"ended\n", 3)


def test_a_ticket_starts_one_command_once(editor: Editor) -> None:
    request = editor.terminal("echo once >> made")
    for code in (0, 125):
        with editor.start(request) as process:
            process.communicate(timeout=PATIENCE)
        assert process.returncode == code
    assert (editor.root / "made").read_text() == "once\n"


def test_an_editor_that_changes_the_text_runs_the_text_behind_the_ticket(editor: Editor) -> None:
    request = editor.terminal("echo mine")
    request["params"]["args"][-1] = "touch other"
    with editor.start(request) as process:
        assert process.communicate(timeout=PATIENCE)[0] == b"mine\n"
    assert not (editor.root / "other").exists()


def test_an_editor_where_this_byleave_is_not_runs_nothing(editor: Editor) -> None:
    request = editor.terminal("touch made")
    request["params"]["command"] = "/nonexistent/python"
    with pytest.raises(FileNotFoundError):
        editor.start(request)
    assert not (editor.root / "made").exists()


def test_variables_of_the_agent_do_not_reach_byleave_outside_of_the_sandbox(editor: Editor, tmp_path: Path) -> None:
    evil = {"PYTHONPATH": str(tmp_path), "LD_PRELOAD": "/nonexistent.so", "BYLEAVE_HOME": str(tmp_path / "evil")}
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')\n")
    (tmp_path / "encodings.py").write_text("raise SystemExit(9)\n")
    code, out, err = editor.run("echo done", env=[{"name": name, "value": value} for name, value in evil.items()])
    assert (code, out.strip().endswith("done"), (tmp_path / "pwned").exists()) == (0, True, False)
    assert not (tmp_path / "evil").exists()
    assert "byleave" not in err


def test_runs_of_one_session_share_what_they_leave_in_tmp(editor: Editor) -> None:
    assert editor.run("echo kept > /tmp/byleave-kept")[0] == 0
    assert editor.run("cat /tmp/byleave-kept")[1] == "kept\n"
    assert not os.path.exists("/tmp/byleave-kept")  # the sandbox has its own


def test_byleave_outside_inside_of_a_confined_command_leads_nowhere(editor: Editor, tmp_path: Path) -> None:
    (editor.root / "run.sh").write_text(f"{sys.executable} -m byleave outside -- touch {tmp_path}/out\n")
    code, _out, _err = editor.run("sh", args=["run.sh"])
    assert (code != 0, (tmp_path / "out").exists()) == (True, False)


def test_the_end_of_the_conversation_ends_what_is_left_running(tmp_path: Path) -> None:
    with editing(tmp_path.resolve()) as editor:
        assert editor.run("sh -c 'while :; do date > beat; sleep 0.1; done' >/dev/null 2>&1 &")[0] == 0
        until = time.monotonic() + PATIENCE
        while not (editor.root / "beat").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert (editor.root / "beat").exists()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        before = (tmp_path / "ws" / "beat").stat().st_mtime_ns
        time.sleep(0.5)
        if (tmp_path / "ws" / "beat").stat().st_mtime_ns == before:
            return
    pytest.fail("it goes on")


@needs_unshare
def test_where_namespaces_fail_terminals_are_confined_by_landlock_if_it_holds_the_policy(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    machine = on_such_a_machine(bwrap=False, place=base)
    with editing(base, POLICY, machine, "--strict") as editor:
        request = editor.terminal("touch sub/made; touch ../outside")
        assert (request["method"], "--ticket" in request["params"]["args"]) == ("terminal/create", True)
        (editor.root / "sub").mkdir()
        words = [request["params"]["command"], *request["params"]["args"]]
        env = environment({"HOME": str(base / "home"), "BYLEAVE_HOME": str(base / "state")})
        subprocess.run([*machine, *words], cwd=editor.root, env=env, capture_output=True, check=False, timeout=PATIENCE)
        assert ((editor.root / "sub/made").exists(), (base / "outside").exists()) == (True, False)
        (editor.root / ".env").write_text("secret")  # which Landlock alone cannot close
        found = editor.terminal("make")
        assert found["method"] == "session/request_permission", found
