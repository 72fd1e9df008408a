"""Hosts for tools under test: one that is a script, one that drives a real process."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from byleave.protocol.vfs import BadMessage, Failed, Finished, HostSide, ToolRequest
from byleave.toolhost.codec import TOOLS

Answer = Callable[[HostSide, ToolRequest], bytes]
METHODS = ("fs.read", "fs.write")


def host_side(told: Mapping[str, Any] | None = None) -> tuple[HostSide, bytes]:
    """Return a host's side, and its first line."""
    side = HostSide(TOOLS)
    tool = {"name": "t", "arguments": {}, "answers": {}, "options": {}, **(told or {})}
    return side, side.init(tool, {"root": "/project", "action": "run", "access": None}, METHODS)


class ScriptedWire:
    """Gives out what a host is scripted to say, one piece at a time; None is a silence. Keeps what the tool says."""

    def __init__(self, *script: bytes | None, told: Mapping[str, Any] | None = None) -> None:
        self.side, first = host_side(told)
        self.script: list[bytes | None] = [first, *script]
        self.sent: list[bytes] = []
        self.patience: list[float | None] = []

    def fileno(self) -> None:
        """Say that there is no descriptor."""

    def send(self, data: bytes) -> None:
        """Keep it."""
        self.sent.append(data)

    def receive(self, timeout: float | None) -> bytes | None:
        """Return what comes next; b"" at the end of the script."""
        self.patience.append(timeout)
        return self.script.pop(0) if self.script else b""

    @property
    def heard(self) -> list[Any]:
        """What the tool has said so far, as events."""
        return list(self.side.receive(b"".join(self.sent)))


class Driven(NamedTuple):
    """What a process said to its host, what it said to nobody, and how it ended."""

    wishes: list[ToolRequest]
    last: Finished | Failed | None
    stderr: str
    exit_code: int

    @property
    def text(self) -> str:
        """The first text of its result."""
        assert isinstance(self.last, Finished), self
        return str(self.last.content[0]["text"])


def drive(argv: Sequence[str], answer: Answer, *, told: Mapping[str, Any] | None = None, **options: Any) -> Driven:
    """Be the host of a process until it ends. This host writes and reads by turns, as the simplest hosts do."""
    side, first = host_side(told)
    wishes: list[ToolRequest] = []
    last: Finished | Failed | None = None
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, **pipes, **options) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        os.write(process.stdin.fileno(), first)
        while last is None and (data := os.read(process.stdout.fileno(), 1 << 16)):
            for event in side.receive(data):
                if isinstance(event, ToolRequest):
                    wishes.append(event)
                    _write_all(process.stdin.fileno(), answer(side, event))
                elif isinstance(event, BadMessage):
                    _write_all(process.stdin.fileno(), event.reply)
                elif isinstance(event, Finished | Failed):
                    last = event
        process.stdin.close()
        stderr = process.stderr.read().decode()
        exit_code = process.wait(60)
    return Driven(wishes, last, stderr, exit_code)


def _write_all(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(number, rest) :]


def serving_files(files: Mapping[str, str]) -> Answer:
    """Return the answers of a host that has these files and nothing else."""

    def answer(side: HostSide, wish: ToolRequest) -> bytes:
        if wish.method != "fs.read":
            return side.refuse(wish.id, -32601, "there is no such method")
        if wish.params["path"] not in files:
            return side.refuse(wish.id, -32002, f"{wish.params['path']} does not exist")
        content = files[wish.params["path"]]
        return side.answer(wish.id, {"content": content, "size": len(content.encode())})

    return answer
