"""Run the command as users do: a process of its own, through pipes or at a terminal."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forked import forker

COMMAND = [sys.executable, "-m", "byleave"]
PATIENCE = 30.0

# Makes its standard input the controlling terminal of a session of its own, then becomes the command.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def byleave(
    *words: str | bytes,
    cwd: Path | str | None = None,
    feed: bytes = b"",
    env: Mapping[str, str | None] | None = None,
    timeout: float = PATIENCE,
) -> Done:
    """Run one command to its end, without a terminal."""
    return _run(COMMAND, None, words, cwd=cwd, feed=feed, env=env, timeout=timeout)


def python(
    program: str,
    *words: str,
    cwd: Path | str | None = None,
    env: Mapping[str, str | None] | None = None,
    timeout: float = PATIENCE,
) -> Done:
    """Run a program in Python to its end, in a process of its own, which may have byleave's modules loaded."""
    start = [sys.executable, "-c", program]
    return _run(start, program, words, cwd=cwd, feed=b"", env=env, timeout=timeout)


def _run(
    start: list[str],
    program: str | None,
    words: Sequence[str | bytes],
    *,
    cwd: Path | str | None,
    feed: bytes,
    env: Mapping[str, str | None] | None,
    timeout: float,
) -> Done:
    variables = environment(env)
    forking = forker()
    request = None if forking is None else forking.request(words, cwd, variables, program)
    if forking is not None and request is not None:
        code, out, err = forking.run(request, feed, timeout)
        return Done(code, _text(out), _text(err))
    done = subprocess.run(
        [*start, *words],
        cwd=cwd,
        input=feed,
        env=variables,
        capture_output=True,
        check=False,
        start_new_session=True,
        timeout=timeout,
    )
    return Done(done.returncode, _text(done.stdout), _text(done.stderr))


def environment(changes: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return our environment with some variables set, and those that are None unset."""
    merged: dict[str, str | None] = {**os.environ, **(changes or {})}
    return {name: value for name, value in merged.items() if value is not None}


@dataclass
class Terminal:
    """A command at a pseudo-terminal, and the person in front of it."""

    process: subprocess.Popen[bytes]
    master: int
    seen: str = ""
    deadline: float = field(default_factory=lambda: time.monotonic() + PATIENCE)

    def wait_for(self, text: str) -> None:
        """Read until `text` has appeared."""
        while text not in self.seen:
            assert self._read(), f"the terminal closed before {text!r} appeared: {self.seen!r}"

    def wait_for_more(self, texts: Sequence[str], number: int) -> None:
        """Read until these texts have appeared so often, all of them counted together."""
        while sum(self.seen.count(text) for text in texts) < number:
            assert self._read(), f"the terminal closed before {number} of {texts!r} appeared: {self.seen!r}"

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def ends(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=PATIENCE)

    def _read(self) -> bool:
        assert readable(self.master, self.deadline - time.monotonic()), f"nothing happened for too long: {self.seen!r}"
        try:
            data = os.read(self.master, 65536)
        except OSError:  # Linux says so when the last process has closed the terminal
            return False
        self.seen += _text(data)
        return bool(data)


@contextmanager
def at_terminal(
    *words: str,
    cwd: Path,
    env: Mapping[str, str | None] | None = None,
    stdout: int | None = None,
    before: tuple[str, ...] = (),
    columns: int = 120,
) -> Iterator[Terminal]:
    """Run a command whose controlling terminal is ours to type at; `stdout` may lead elsewhere."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, *before, *COMMAND, *words],
        cwd=cwd,
        env=environment(env),
        stdin=slave,
        stdout=slave if stdout is None else stdout,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=PATIENCE)
        os.close(master)


def readable(descriptor: int, seconds: float) -> bool:
    """Wait until something can be read, and return whether it can; whatever the descriptor's number."""
    watched = select.poll()
    watched.register(descriptor, select.POLLIN)
    return bool(watched.poll(max(0.0, seconds) * 1000))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
