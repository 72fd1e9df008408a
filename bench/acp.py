"""What the proxy costs between an editor and an agent, beside a forwarder that only moves bytes, measured in turns.

.venv/bin/python bench/acp.py
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

ROUNDS = 12
MESSAGES = {1_000: 400, 100_000: 150}  # how many of each size in one round
FLOOD = 100_000  # messages one way
FLOOD_SIZE = 1_000

# Sends back whatever comes.
ECHO = """
import os
while data := os.read(0, 1 << 16):
    while data:
        data = data[os.write(1, data):]
"""
# Takes whatever comes, and says at the end how much it was.
SINK = """
import os
taken = 0
while data := os.read(0, 1 << 16):
    taken += len(data)
    if data.endswith(b"end\\n"):
        os.write(1, b"%d\\n" % taken)
"""
# Says as many times a hundred messages as the line that comes says; the message is in a file.
FOUNTAIN = """
import os, sys
piece = open(sys.argv[1], "rb").read() * 100
while data := os.read(0, 1 << 16):
    for _ in range(int(data)):
        left = piece
        while left:
            left = left[os.write(1, left):]
"""
# Moves bytes between us and a program, both ways, and does nothing else.
FORWARDER = """
import os, subprocess, sys, threading
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

def move(source, target):
    while data := os.read(source, 1 << 16):
        while data:
            data = data[os.write(target, data):]

def move_in():
    move(0, agent.stdin.fileno())
    agent.stdin.close()

threading.Thread(target=move_in, daemon=True).start()
move(agent.stdout.fileno(), 1)
"""


def main() -> None:
    for what, figure, ratio in acp_figures():
        print(f"  {what:<58} {figure:>16}   {ratio}", flush=True)


def acp_figures() -> Iterator[tuple[str, str, str]]:
    """Yield what was measured, the figure, and how it compares to a forwarder of bytes."""
    with tempfile.TemporaryDirectory() as scratch, on_one_processor():
        place = Path(scratch).resolve()
        programs = {"echo.py": ECHO, "sink.py": SINK, "fountain.py": FOUNTAIN, "forwarder.py": FORWARDER}
        for name, text in programs.items():
            (place / name).write_text(text)
        (place / "message").write_bytes(message(FLOOD_SIZE))
        (place / "workspace").mkdir()
        yield from round_trips(place)
        yield from one_way(place)
        yield from other_way(place)


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Run everything on one processor: how long it takes to wake another one says nothing about who moves the bytes."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def ways(place: Path, agent: str, *given: str) -> dict[str, list[str]]:
    """Return how an agent is started: by itself, behind the forwarder, behind the proxy."""
    direct = [sys.executable, "-IS", str(place / agent), *given]
    return {
        "direct": direct,
        "forwarded": [sys.executable, "-IS", str(place / "forwarder.py"), *direct],
        "proxied": [str(Path(sys.executable).with_name("byleave")), "acp", "-q", "--", *direct],
    }


def round_trips(place: Path) -> Iterator[tuple[str, str, str]]:
    """Yield how long a message takes to the agent and back, beyond what it takes without anybody between."""
    with ExitStack() as stack:
        sides = {name: stack.enter_context(Side(argv, place)) for name, argv in ways(place, "echo.py").items()}
        for size, count in MESSAGES.items():
            line = message(size)
            times: dict[str, list[float]] = {name: [] for name in sides}
            for number in range(ROUNDS + 2):
                for name, side in sides.items():
                    took = side.echo(line, count)
                    if number >= 2:  # the first rounds fill caches
                        times[name].append(took)
            best = {name: min(taken) for name, taken in times.items()}
            ours, theirs = best["proxied"], best["forwarded"]
            added = (ours - best["direct"]) / (theirs - best["direct"])
            ratio = f"{ours / theirs:.2f}x of a forwarder, {added:.2f}x of what one adds"
            yield f"a message of {size:,} bytes there and back", f"{ours * 1e6:.0f} µs", ratio


def one_way(place: Path) -> Iterator[tuple[str, str, str]]:
    """Yield how many messages go to the agent in a second, and what remembering nothing of them takes."""
    rates: dict[str, float] = {}
    line = message(FLOOD_SIZE)
    for name, argv in ways(place, "sink.py").items():
        with Side(argv, place) as side:
            side.flood(line, 1000)
            before = side.memory()
            rates[name] = FLOOD / side.flood(line, FLOOD)
            memory = side.memory()  # in the end that of the proxy, which is last
    ratio = rates["forwarded"] / rates["proxied"]
    yield (
        f"messages of {FLOOD_SIZE:,} bytes, to the agent",
        f"{rates['proxied']:,.0f} /s",
        f"{ratio:.2f}x of a forwarder",
    )
    grown = (memory - before) / 1e6
    yield f"memory after {FLOOD:,} messages", f"{memory / 1e6:.1f} MB", f"{grown:+.1f} MB since the first 1,000"


def other_way(place: Path) -> Iterator[tuple[str, str, str]]:
    """Yield how many messages come from the agent in a second: what it says while it thinks."""
    rates: dict[str, float] = {}
    with ExitStack() as stack:
        started = ways(place, "fountain.py", str(place / "message"))
        sides = {name: stack.enter_context(Side(argv, place)) for name, argv in started.items()}
        for _ in range(4):
            for name, side in sides.items():
                rates[name] = max(rates.get(name, 0.0), FLOOD / 4 / side.drink(FLOOD // 4))
    ratio = rates["forwarded"] / rates["proxied"]
    what = f"messages of {FLOOD_SIZE:,} bytes, from the agent"
    yield what, f"{rates['proxied']:,.0f} /s", f"{ratio:.2f}x of a forwarder"


def message(size: int) -> bytes:
    """Return a line of this size, such as agents write most: a piece of text."""
    head = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"01234567-89ab-cdef-0123-456789abcdef",'
    head += '"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
    text = r"One of the lines that an agent says, with \"a word\" in quotes.\n" * (size // 60 + 1)
    room = size - len(head) - len('"}}}}\n')
    return f'{head}{text[:room].rstrip(chr(92)).ljust(room)}"}}}}}}}}\n'.encode()


class Side:
    """An agent, however it is started, and us at the other end of its pipes."""

    def __init__(self, argv: list[str], place: Path) -> None:
        self._process = subprocess.Popen(
            argv, cwd=place / "workspace", stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._write, self._read = self._process.stdin.fileno(), self._process.stdout.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait(timeout=20)

    def echo(self, line: bytes, count: int) -> float:
        """Return the seconds of one round trip, the median of several."""
        times = []
        for _ in range(count):
            began = time.perf_counter()
            self._send(line)
            left = len(line)
            while left:
                left -= len(os.read(self._read, left))
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    def flood(self, line: bytes, count: int) -> float:
        """Return the seconds that the agent takes to have read all of them."""
        piece = line * 100
        began = time.perf_counter()
        for _ in range(count // 100):
            self._send(piece)
        self._send(b"end\n")
        os.read(self._read, 100)
        return time.perf_counter() - began

    def drink(self, count: int) -> float:
        """Return the seconds until we have read as many messages of the agent."""
        began = time.perf_counter()
        self._send(b"%d\n" % (count // 100))
        left = count * FLOOD_SIZE
        while left:
            left -= len(os.read(self._read, 1 << 20))
        return time.perf_counter() - began

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._write, view) :]

    def memory(self) -> int:
        """Return the resident memory of what was started, in bytes."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["BYLEAVE_HOME"] = home
        main()
