"""An editor and an agent around the real proxy process, both played by the test.

The agent is a real child of the proxy: a puppet that hands its two pipes to the test. Each party hears whole lines, as
the bytes they are.
"""

import itertools
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command import COMMAND, PATIENCE, byleave

PUPPET = Path(__file__).with_name("acp_puppet.py")
PERMISSION = "session/request_permission"
SESSION = "s1"
OPTIONS = [
    {"optionId": "yes-for-ever", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    {"optionId": "no-for-ever", "name": "Always reject", "kind": "reject_always"},
]


def line_of(message: Any) -> bytes:
    """Return a message as a line, as most programs write it."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class Party:
    """One end of the conversation. What it hears is read at once, so that nobody waits for a full pipe."""

    def __init__(
        self, name: str, read: Callable[[int], bytes], write: Callable[[bytes], object], leave: Callable[[], None]
    ) -> None:
        self.name = name
        self._read, self._write, self._leave = read, write, leave
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def say(self, said: Any) -> None:
        """Say a line, or a message as a line."""
        self.write(said if isinstance(said, bytes) else line_of(said))

    def write(self, data: bytes) -> None:
        self._write(data)

    def line(self, within: float = PATIENCE) -> bytes:
        """Return the next line; b"" at the end."""
        try:
            return self._lines.get(timeout=within)
        except queue.Empty:
            raise AssertionError(f"the {self.name} waited for a line in vain") from None

    def hears(self) -> Any:
        """Return the next line as a message."""
        line = self.line()
        assert line, f"the {self.name} heard the end"
        return json.loads(line)

    def leaves(self) -> None:
        """Say nothing any more, and let that be seen; it still hears."""
        with suppress(OSError):
            self._leave()

    def join(self) -> None:
        self._listening.join(PATIENCE)

    def _listen(self) -> None:
        rest = b""
        with suppress(OSError, ValueError):
            while data := self._read(1 << 16):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._lines.put(line + b"\n")
        for last in filter(None, [rest]):
            self._lines.put(last)
        self._lines.put(b"")


@dataclass
class Scene:
    """A workspace with a file or two, a directory outside of it, and a policy that lies beside both."""

    base: Path
    rules: str = ""
    root: Path = field(init=False)
    out: Path = field(init=False)
    policy: Path = field(init=False)
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        base = self.base.resolve()
        self.root, self.out = base / "ws", base / "out"
        self.policy, self.log = base / "policy.toml", base / "log.jsonl"
        (self.root / ".git").mkdir(parents=True)  # the workspace's root is here, whatever lies above
        self.out.mkdir()
        (self.root / "README.md").write_text("hello world\nsecond line\n")
        self.policy.write_text(self.rules)

    def fill(self, text: str) -> str:
        """Return text with real places in it."""
        return text.replace("$WS", str(self.root)).replace("$OUT", str(self.out))

    def logged(self) -> list[dict[str, Any]]:
        """Return what was judged."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def audited(self) -> list[dict[str, Any]]:
        """Return the records of this door."""
        done = byleave("audit", "export", "--json", "--root", str(self.root))
        assert done.code == 0, done.err
        return [record for record in map(json.loads, done.out.splitlines()) if record["door"] == "acp"]


@dataclass
class Proxy:
    """A running proxy, and the two that it is between."""

    client: Party
    agent: Party
    process: "subprocess.Popen[bytes]"
    errors: Path
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def begin(self, scene: Scene, *, version: int = 1, agreed: int | None = None, session: str = SESSION) -> None:
        """Agree on a version of the protocol, and open a session in the workspace."""
        self.client.say(_request(1, "initialize", {"protocolVersion": version, "clientCapabilities": {}}))
        self.agent.hears()
        self.agent.say(_result(1, {"protocolVersion": version if agreed is None else agreed}))
        self.client.hears()
        self.client.say(_request(2, "session/new", {"cwd": str(scene.root), "mcpServers": []}))
        self.agent.hears()
        self.agent.say(_result(2, {"sessionId": session}))
        self.client.hears()

    def asks(self, **call: Any) -> int:
        """Have the agent ask for permission, and return the id of its request."""
        options = call.pop("options", OPTIONS)
        return self.requests(PERMISSION, {"toolCall": {"toolCallId": uuid.uuid4().hex, **call}, "options": options})

    def runs(self, command: str, **more: Any) -> int:
        """Have the agent ask whether it may run a command."""
        return self.asks(title=command, kind="execute", rawInput={"command": command}, **more)

    def requests(self, method: str, params: dict[str, Any]) -> int:
        """Have the agent send a request of its session, and return its id."""
        id_ = next(self._ids)
        self.agent.say(_request(id_, method, {"sessionId": SESSION, **params}))
        return id_

    def is_asked(self, id_: int) -> dict[str, Any]:
        """Let the editor hear the agent's own request, and return its parameters."""
        heard = self.client.hears()
        assert heard["id"] == id_, heard
        return dict(heard["params"])

    def answers(self, id_: Any, option: str | None) -> None:
        """Have the editor answer a request for permission, or cancel it."""
        self.client.say(chosen(id_, option))

    def nothing_came(self) -> None:
        """Make sure that neither of the two has anything left to hear: what is said now comes first."""
        mark = {"jsonrpc": "2.0", "method": "_mark", "params": {"mark": uuid.uuid4().hex}}
        self.agent.say(mark)
        assert self.client.hears() == mark
        self.client.say(mark)
        assert self.agent.hears() == mark

    def drain(self) -> None:
        """Let both forget what they have not listened to."""
        for speaker, listener in ((self.agent, self.client), (self.client, self.agent)):
            mark = line_of({"jsonrpc": "2.0", "method": "_drained", "params": {"mark": uuid.uuid4().hex}})
            speaker.say(mark)
            while (line := listener.line()) != mark:
                assert line, f"the {listener.name} heard the end"

    def warned(self, text: str) -> None:
        """Wait until standard error says this."""
        eventually(lambda: text in self.errors.read_text(), f"nobody said {text!r}")

    def ends(self) -> int:
        """Have the editor leave, and the agent after it; return the exit code."""
        self.client.leaves()
        self.agent.leaves()
        return self.process.wait(PATIENCE)


def chosen(id_: Any, option: str | None) -> dict[str, Any]:
    """Return the answer that picks an option; none: the outcome is `cancelled`."""
    outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
    return _result(id_, {"outcome": outcome})


def picked(answer: dict[str, Any]) -> str | None:
    """Return the option that an answer picks; None if the outcome is `cancelled`."""
    outcome = answer["result"]["outcome"]
    assert outcome["outcome"] == ("selected" if "optionId" in outcome else "cancelled")
    option = outcome.get("optionId")
    assert option is None or isinstance(option, str)
    return option


@contextmanager
def proxy(scene: Scene, *flags: str, code: int = 0, is_found: bool = False) -> Iterator[Proxy]:
    """Run the proxy between the two; whatever happens, nothing of it stays behind.

    The policy is the scene's, unless it `is_found` in the workspace and in the user's home.
    """
    name = f"byleave-{uuid.uuid4().hex}"
    errors = scene.base / f"{name}.stderr"
    with socket.socket(socket.AF_UNIX) as listener, errors.open("wb") as stderr:
        listener.bind(f"\0{name}")
        listener.listen(1)
        given = (*(() if is_found else ("--policy", str(scene.policy))), "--log", str(scene.log), *flags)
        agent = (sys.executable, "-IS", str(PUPPET), name, str(code))
        process = subprocess.Popen(
            [*COMMAND, "acp", *given, "--", *agent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            cwd=scene.base,
            start_new_session=True,
        )
        with process:
            try:
                yield from _introduced(process, _accepted(listener, process, errors), errors)
            finally:
                process.kill()


def _introduced(process: "subprocess.Popen[bytes]", strings: socket.socket, errors: Path) -> Iterator[Proxy]:
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    client = Party(
        "client",
        lambda most: os.read(stdout.fileno(), most),
        lambda data: _write_all(stdin.fileno(), data),
        stdin.close,
    )
    agent = Party("agent", strings.recv, strings.sendall, lambda: strings.shutdown(socket.SHUT_WR))
    with strings:
        try:
            yield Proxy(client, agent, process, errors)
            client.leaves()
            agent.leaves()
            process.wait(PATIENCE)
        finally:
            client.leaves()
            agent.leaves()
            process.kill()
            client.join()
            agent.join()


def _accepted(listener: socket.socket, process: "subprocess.Popen[bytes]", errors: Path) -> socket.socket:
    """Wait for the agent, as long as somebody may start it."""
    listener.settimeout(0.2)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(TimeoutError):
            strings = listener.accept()[0]
            strings.settimeout(None)
            return strings
    raise AssertionError(f"there never was an agent: {errors.read_text()}")


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _request(id_: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def _result(id_: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def eventually(holds: Callable[[], object], otherwise: str) -> None:
    """Look until something holds, for a bounded time."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)
