"""The given conversations, played by a real tool in its sandbox against the real host."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from command import COMMAND, PATIENCE, byleave
from toolhost.workshop import toml

CASES = Path(__file__).parent.parent / "cases" / "vfs"
PLAYER = Path(__file__).parent / "player.py"


class Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.headers.get("Authorization", "").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def echo_server() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def lay_out(root: Path, case: list[dict[str, Any]]) -> None:
    head = case[0]
    for name, content in head["files"].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    # What the tool needs stands beside the project: the listing of the root is part of a case.
    tools = root.parent / "tools"
    tools.mkdir()
    (tools / "player.py").write_text(PLAYER.read_text())
    (tools / "case.ndjson").write_text("\n".join(json.dumps(line) for line in case))
    tool: dict[str, Any] = {
        "source": "local",
        "runtime": "vfs",
        "command": ["python3", str(tools / "player.py"), str(tools / "case.ndjson")],
    }
    if head["access"] is not None:
        tool["access"] = head["access"]
    if head.get("stateful"):
        tool["stateful"] = True
    (root.parent / "policy.toml").write_text(f"tools = {toml({'t': tool})}\n")


def filled(tree: Any, port: int) -> Any:
    """Return the case with the port of the server in it, which is a number in a rule."""
    if isinstance(tree, dict):
        return {key: port if value == "PORT" else filled(value, port) for key, value in tree.items()}
    if isinstance(tree, list):
        return [filled(value, port) for value in tree]
    return tree.replace("PORT", str(port)) if isinstance(tree, str) else tree


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text().splitlines() if line]


ONE_SHOT = sorted(path.name for path in CASES.glob("*.ndjson") if "stateful" not in path.name)


@pytest.mark.parametrize("name", ONE_SHOT)
def test_a_conversation_goes_as_it_was_recorded(name: str, tmp_path: Path) -> None:
    with echo_server() as port:
        case = filled(load(name), port)
        root = tmp_path / "ws"
        root.mkdir()
        lay_out(root, case)
        done = byleave(
            *("call", "t", "{}", "--json", "--no-input", "-q", "--root", str(root)),
            *("--policy", str(tmp_path / "policy.toml")),
            env=case[0].get("env"),
        )
    assert (json.loads(done.out), done.code) == (case[-1]["outcome"], case[-1]["exit"]), done.err


def test_a_handle_lives_from_spawn_to_stopped(tmp_path: Path) -> None:
    case = load("15-stateful.ndjson")
    root = tmp_path / "ws"
    root.mkdir()
    lay_out(root, case)
    words = ("call", "t", "--keep", "--json", "--no-input", "-q", "--root", str(root))
    with talking(*words, "--policy", str(tmp_path / "policy.toml")) as say:
        expected = [(line["ask"], case[number + 1 :]) for number, line in enumerate(case) if "ask" in line]
        for ask, following in expected:
            answer = next(line["answer"] for line in following if "answer" in line)
            assert say(ask, until=answer) == answer


@contextmanager
def talking(*words: str) -> Iterator[Callable[..., Any]]:
    """Run a command that answers lines; a fetch is repeated until it says what it is to say, or long enough."""
    process = subprocess.Popen([*COMMAND, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def say(ask: dict[str, Any], *, until: dict[str, Any]) -> Any:
        answer = None
        for _ in range(10_000 if ask["action"] == "fetch" else 1):
            stdin.write(json.dumps(ask).encode() + b"\n")
            stdin.flush()
            answer = json.loads(stdout.readline())
            if answer == until:
                break
        return answer

    try:
        yield say
        stdin.close()
        assert process.wait(PATIENCE) == 1  # the last answer was an error
    finally:
        process.kill()
        process.wait()
        stdout.close()
