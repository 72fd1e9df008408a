"""What a mediated tool costs: requests through the host, beside the same bytes without one, measured in turns.

.venv/bin/python bench/toolhost.py
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.host import ToolHost, ToolInvocation
from byleave.toolhost.outcome import CompletedOutcome
from byleave.workspace.grep import find_ripgrep
from byleave.workspace.safe_open import Anchor

PYTHON = "/usr/bin/python3"  # in every sandbox's view
READS = 3_000
WRITES = 2_000
FILES = 3_000
LARGE = 10_000_000  # bytes; a file of 10 MB is the largest that is read
ROUNDS = 5

# Asks for the same thing again and again, and says how long it took. Without an init it begins at once.
TOOL = """
import json, sys, time
first = sys.stdin.readline()
method, params, times = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
began = time.perf_counter()
for number in range(times):
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    sys.stdout.write(line + "\\n")
    sys.stdout.flush()
    answer = json.loads(sys.stdin.readline())
    assert "error" not in answer, answer
took = time.perf_counter() - began
sys.stdout.write(json.dumps({"jsonrpc": "2.0", "method": "result", "params": {"content": str(took)}}) + "\\n")
"""
# Answers every line with what a host would say, without doing anything for it.
ECHO = """
import json, subprocess, sys
content = open(sys.argv[1]).read()
tool = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
tool.stdin.write("{}\\n")
tool.stdin.flush()
for line in tool.stdout:
    asked = json.loads(line)
    if "id" not in asked:
        print(asked["params"]["content"])
        break
    result = {"content": content, "size": len(content)}
    tool.stdin.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\\n")
    tool.stdin.flush()
tool.wait()
"""


def main() -> None:
    for what, figure, ratio in toolhost_figures():
        print(f"  {what:<58} {figure:>16}   {ratio}", flush=True)


def toolhost_figures() -> Iterator[tuple[str, str, str]]:
    """Yield what was measured, the figure, and how it compares to the same without a host."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve() / "workspace"
        lay_out(root)
        yield from reads(root)
        yield from writes(root)
        yield from searches(root)
        yield from single_calls(root)


def lay_out(root: Path) -> None:
    (root / "tree").mkdir(parents=True)
    (root / "small.txt").write_text("x" * 1023 + "\n")
    (root / "large.txt").write_text(("x" * 99 + "\n") * (LARGE // 100))
    for number in range(FILES):
        directory = root / "tree" / f"d{number % 50}"
        directory.mkdir(exist_ok=True)
        text = "".join(f"line {line} of file {number}\n" for line in range(100))
        (directory / f"f{number}.txt").write_text(f"{text}{'needle' if number % 100 == 0 else ''}\n")
    (root.parent / "tool.py").write_text(TOOL)
    (root.parent / "echo.py").write_text(ECHO)
    tables = [
        f'[tools.{name}]\nsource = "local"\nruntime = "vfs"\ncommand = {json.dumps(tool(root, *words))}\n'
        'access.fs = [{ path = ".", read = true }]\n'
        for name, words in TOOLS.items()
    ]
    (root.parent / "policy.toml").write_text("\n".join(tables))


def tool(root: Path, method: str, params: str, times: str) -> list[str]:
    return [PYTHON, "-IS", str(root.parent / "tool.py"), method, params, times]


TOOLS = {
    "reads": ("fs.read", '{"path": "small.txt"}', str(READS)),
    "large": ("fs.read", '{"path": "large.txt"}', "1"),
    "greps": ("fs.grep", '{"pattern": "needle", "paths": ["tree"]}', "1"),
    "once": ("fs.read", '{"path": "small.txt"}', "1"),
}


class Hosted:
    """A host in this process, with everything that `byleave call` has: guard, audit, sandbox."""

    def __init__(self, root: Path) -> None:
        workspace = Workspace(str(root))
        self.guard = guard_for(workspace, "call", files=[str(root.parent / "policy.toml")], client_approves=None)
        self.host = ToolHost(workspace, self.guard)

    def call(self, name: str) -> float:
        """Call a tool, and return how long it says that it took."""
        outcome = self.host.execute(ToolInvocation(name, {}), Deadline())
        assert isinstance(outcome, CompletedOutcome), outcome
        return float(outcome.content[0]["text"])

    def close(self) -> None:
        self.host.close()
        self.guard.close()


def reads(root: Path) -> Iterator[tuple[str, str, str]]:
    hosted = Hosted(root)

    def echo(name: str, file: str) -> float:
        words = [sys.executable, "-IS", str(root.parent / "echo.py"), str(root / file), *tool(root, *TOOLS[name])]
        return float(subprocess.run(words, check=True, capture_output=True).stdout)

    figures = in_turns(
        {
            "reads": lambda: hosted.call("reads"),
            "reads echoed": lambda: echo("reads", "small.txt"),
            "large": lambda: hosted.call("large"),
            "large echoed": lambda: echo("large", "large.txt"),
        }
    )
    hosted.close()
    for name, what in (("reads", "1 KB reads, one after the other"), ("large", "a read of 10 MB")):
        took, floor = figures[name], figures[f"{name} echoed"]
        figure = f"{READS / took:,.0f} a second" if name == "reads" else f"{took * 1e3:.0f} ms"
        yield what, figure, f"{took / floor:.2f}x an echo between two processes"


def writes(root: Path) -> Iterator[tuple[str, str, str]]:
    """Measure what it costs that a write is whole or not there, without anything of the host around it."""
    content = b"x" * 1024
    path = root / "written.txt"
    path.write_bytes(content)

    def in_place(anchor: Anchor) -> None:
        descriptor = anchor.open_file("written.txt", os.O_WRONLY | os.O_TRUNC)
        os.write(descriptor, content)
        os.close(descriptor)

    def at_once(anchor: Anchor) -> None:
        anchor.write_bytes("written.txt", content, create=False, update=True)

    def timed(write: Callable[[Anchor], None]) -> float:
        with Anchor.open(str(root)) as anchor:
            began = time.perf_counter()
            for _ in range(WRITES):
                write(anchor)
            return time.perf_counter() - began

    figures = in_turns({"in place": lambda: timed(in_place), "at once": lambda: timed(at_once)})
    took, floor = figures["at once"], figures["in place"]
    yield (
        "1 KB written at once over a file",
        f"{took / WRITES * 1e6:.0f} µs",
        f"{took / floor:.2f}x of a write in place",
    )


def searches(root: Path) -> Iterator[tuple[str, str, str]]:
    program = find_ripgrep(str(root))
    if program is None:
        yield f"grep of {FILES:,} files", "-", "there is no ripgrep"
        return
    hosted = Hosted(root)
    words = [program, "--json", "--hidden", "--no-ignore", "needle", "tree"]

    def plain() -> float:
        began = time.perf_counter()
        subprocess.run(words, cwd=root, check=True, capture_output=True)
        return time.perf_counter() - began

    figures = in_turns({"hosted": lambda: hosted.call("greps"), "plain": plain})
    hosted.close()
    took = figures["hosted"]
    yield f"grep of {FILES:,} files", f"{took * 1e3:.0f} ms", f"{took / figures['plain']:.2f}x ripgrep itself"


def single_calls(root: Path) -> Iterator[tuple[str, str, str]]:
    flags = ["--root", str(root), "--policy", str(root.parent / "policy.toml"), "--no-input", "-q"]
    command = [str(Path(sys.executable).with_name("byleave")), "call", "once", *flags]
    answer = json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"content": "x" * 1024}})

    def run(words: list[str], feed: bytes) -> float:
        began = time.perf_counter()
        subprocess.run(words, input=feed, check=True, capture_output=True)
        return time.perf_counter() - began

    figures = in_turns(
        {
            "call": lambda: run(command, b""),
            "plain": lambda: run(tool(root, *TOOLS["once"]), f"{{}}\n{answer}\n".encode()),
        },
        rounds=3 * ROUNDS,
    )
    took, floor = figures["call"], figures["plain"]
    more = f"{took / floor:.2f}x of the tool alone, {(took - floor) * 1e3:.0f} ms more"
    yield "byleave call of a tool that reads one file", f"{took * 1e3:.0f} ms", more


def in_turns(ways: dict[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the best time of each: what it takes when nothing gets in the way."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds + 1):
        for what, way in ways.items():
            best[what] = min(best[what], way())
    return best


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["BYLEAVE_HOME"] = home
        main()
