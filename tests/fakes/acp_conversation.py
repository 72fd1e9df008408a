"""A conversation with an agent through the proxy, and whether anything of it is left."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command import COMMAND, PATIENCE, environment, readable
from sandbox.machine import alive

AGENTS = Path(__file__).parents[1] / "acp" / "fake_agents.py"
QUICK = AGENTS.with_name("quick_proxy.py")
FLOOD = b"x" * 999 + b"\n"  # what agents write that write a lot
COMMAND_LINE = (*COMMAND, "acp", "-q", "--")


def agent(place: Path, behaviour: str, *words: str, python: str = sys.executable) -> list[str]:
    """Return the command of an agent that behaves like this and leaves its notes there."""
    return [python, "-IS", str(AGENTS), behaviour, str(place), *words]


def quickly(relay: str = "passes") -> tuple[str, ...]:
    """Return the start of a command line that runs the proxy with little patience."""
    return (sys.executable, str(QUICK), relay, "--")


@dataclass
class Conversation:
    """The client's side: what it says and hears, and the process that it has started for that."""

    process: "subprocess.Popen[bytes]"
    place: Path
    deadline: float = field(default_factory=lambda: time.monotonic() + PATIENCE)

    @property
    def sending(self) -> int:
        assert self.process.stdin is not None
        return self.process.stdin.fileno()

    @property
    def hearing(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.sending, view) :]

    def send_meanwhile(self, *pieces: bytes) -> threading.Thread:
        """Send from another thread, so that nobody waits for us to read."""
        thread = threading.Thread(target=self.send, args=(b"".join(pieces),), daemon=True)
        thread.start()
        return thread

    def hear(self, length: int) -> bytes:
        """Return so many bytes of what the agent says."""
        heard = bytearray()
        while len(heard) < length:
            data = self._read(length - len(heard))
            assert data, f"the output ended after {bytes(heard[-200:])!r}"
            heard += data
        return bytes(heard)

    def hear_all(self) -> bytes:
        """Return everything up to the end of the output."""
        heard = bytearray()
        while data := self._read(1 << 16):
            heard += data
        return bytes(heard)

    def _read(self, most: int) -> bytes:
        assert readable(self.hearing, self.deadline - time.monotonic()), "nothing was heard for too long"
        return os.read(self.hearing, most)

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close_output(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()

    def close(self) -> None:
        self.close_input()
        self.close_output()

    def note(self, name: str) -> str:
        """Wait for a note of the agent's, and return what it says."""
        eventually((self.place / name).exists, f"there was never a note {name}")
        return (self.place / name).read_text()

    def code(self) -> int:
        """Wait for the end, and return the exit code."""
        return self.process.wait(timeout=max(0.1, self.deadline - time.monotonic()))

    def ends(self) -> tuple[int, bytes, bytes]:
        """Wait for the end without saying anything more; return the exit code and both outputs."""
        self.close_input()
        out = self.hear_all()
        assert self.process.stderr is not None
        err = self.process.stderr.read()
        return self.code(), out, err


@contextmanager
def conversation(
    words: list[str], place: Path, *, through: tuple[str, ...] = COMMAND_LINE, **how: Any
) -> Iterator[Conversation]:
    """Have a conversation. When it is over, nothing is left of it, whatever became of it."""
    env: Mapping[str, str | None] | None = how.pop("env", None)
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    usual = {"bufsize": 0, "cwd": place, "start_new_session": True, "env": environment(env)}
    process = subprocess.Popen([*through, *words], **{**streams, **usual, **how})
    try:
        yield Conversation(process, place)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(timeout=PATIENCE)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        for left in alive(str(place)):
            with suppress(ProcessLookupError):
                os.kill(left, 9)


def nothing_left(place: Path, *, within: float = PATIENCE) -> None:
    """Wait until no process is left that has anything to do with this place: byleave, keeper, agent, its children."""
    eventually(lambda: not alive(str(place)), f"something still runs: {alive(str(place))}", within=within)


def eventually(holds: Callable[[], object], otherwise: str, *, within: float = PATIENCE) -> None:
    """Look until something holds, for a bounded time."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.005)
