"""What `hook`, `check`, `run` and `call` take by themselves and with the service, in turns within one run.

.venv/bin/python bench/service.py [ROUNDS]

Beside them: an interpreter that does nothing, bwrap, and nono-py where BYLEAVE_BENCH_NONO names an interpreter with it.
The rules are those that `byleave init` writes. Each figure is the median of all rounds, in brackets the least, which
other work on the machine changes less.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from byleave.policy.dirs import own_command, own_packages
from byleave.sandbox.native.build import find_front
from byleave.service.client import service_status

ROUNDS = 30
FLOOR = "python -I -c pass"
PLAIN = "true"
SHELL = "bash -c true"
HOOKS = Path(__file__).resolve().parents[1] / "src" / "byleave" / "hooks" / "__main__.py"
_PATIENCE = 20.0
# A tool that reads one file.
TOOL = """
import sys
sys.stdin.readline()
print('{"jsonrpc": "2.0", "id": 0, "method": "fs.read", "params": {"path": "src/file.txt"}}', flush=True)
assert '"result"' in sys.stdin.readline()
print('{"jsonrpc": "2.0", "method": "result", "params": {"content": "done"}}', flush=True)
"""
# A program that confines itself, as nono-py is used, and becomes another.
NONO = """
import os, nono_py
given = nono_py.CapabilitySet()
given.allow_path("/", nono_py.AccessMode.READ)
nono_py.apply(given)
os.execv("/bin/true", ["true"])
"""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for what, figure, ratio in service_figures(rounds):
        print(f"  {what:<58} {figure:>16}   {ratio}", flush=True)


def service_figures(rounds: int = ROUNDS) -> Iterator[tuple[str, str, str]]:
    """Yield what was measured, the median, and how it compares to an interpreter that does nothing."""
    with tempfile.TemporaryDirectory(prefix="byleave-bench-") as scratch:
        base = Path(scratch).resolve()
        home, root, place = base / "home", base / "workspace", base / "service"
        for directory in (home, root, place):
            directory.mkdir(mode=0o700)
        front = find_front(str(base / "cache"))
        if front is None:
            yield "no front can be built here", "-", ""
            return
        variables = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}
        prepare(root, variables)
        with running(front, place, root, variables):
            yield from figures(measured(front, place, root, variables, rounds))
            state = service_status(str(place))
            yield "memory of the service and its worker", f"{state['memory'] / 1e6:.0f} MB", ""


def prepare(root: Path, variables: dict[str, str]) -> None:
    """Lay out a project, and put the usual rules into effect."""
    (root / "package.json").write_text('{"name": "bench", "scripts": {"test": "true"}}')
    (root / "src").mkdir()
    (root / "src" / "file.txt").write_text("x")
    tool = json.dumps(["/usr/bin/python3", "-IS", str(root.parent / "tool.py")])
    (root.parent / "tool.py").write_text(TOOL)
    settings = Path(variables["HOME"], ".config", "byleave", "config.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[tools.reads]\nsource = "local"\nruntime = "vfs"\ncommand = {tool}\n'
        'access.fs = [{ path = ".", read = true }]\n'
    )
    off = {**variables, "BYLEAVE_SERVICE": "off"}
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for words in (["init", "-q"], ["trust", "--yes", "-q"]):
        subprocess.run([*own_command(), *words], cwd=root, env=off, check=True, capture_output=True)


@contextmanager
def running(front: str, place: Path, root: Path, variables: dict[str, str]) -> Iterator[None]:
    """Have a service run at a place of its own: the first command starts it."""
    words = [front, "--service", str(place), *own_command(), "check", "-q", "env", "PATH"]
    end = time.monotonic() + _PATIENCE
    while not service_status(str(place))["running"] and time.monotonic() < end:
        subprocess.run(words, cwd=root, env=variables, check=False, capture_output=True)
        time.sleep(0.1)
    try:
        yield
    finally:
        pid = service_status(str(place))["pid"]
        if pid is not None:
            os.kill(pid, 15)


def measured(
    front: str, place: Path, root: Path, variables: dict[str, str], rounds: int
) -> dict[str, tuple[float, float]]:
    """Return the median and the least of each program in seconds."""
    packages, home = own_packages(), variables["HOME"]
    hook = [sys.executable, "-I", "-S", str(HOOKS), "hook", "claude-code", "--home", home]
    hook += ["--packages", packages] if packages else []
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": str(root), "tool_use_id": "t"}
    feeds = {"hook": json.dumps({**event, "tool_input": {"command": "git status"}}).encode()}
    cold = {
        "hook": hook,
        "check": [*own_command(), "check", "-q", "command", "git status"],
        "run": [*own_command(), "run", "--shell", "true"],
        "call": [*own_command(), "call", "reads", "--no-input", "-q"],
    }
    wanted = {
        FLOOR: ([sys.executable, "-I", "-c", "pass"], b""),
        PLAIN: (["/bin/true"], b""),
        SHELL: (["bash", "-c", "true"], b""),
    }
    for name, words in cold.items():
        wanted[f"{name}, by itself"] = (words, feeds.get(name, b""))
        wanted[f"{name}, with the service"] = ([front, "--service", str(place), *words], feeds.get(name, b""))
    bwrap = shutil.which("bwrap")
    if bwrap is not None:
        wanted["bwrap --ro-bind / / --unshare-all true"] = (
            [bwrap, "--ro-bind", "/", "/", "--unshare-all", "true"],
            b"",
        )
    nono = os.environ.get("BYLEAVE_BENCH_NONO")
    if nono is not None:
        wanted["nono-py: read all, then true"] = ([nono, "-I", "-c", NONO], b"")
    return in_turn(wanted, root, variables, rounds)


def in_turn(
    wanted: dict[str, tuple[list[str], bytes]], root: Path, variables: dict[str, str], rounds: int
) -> dict[str, tuple[float, float]]:
    """Run all programs in turn, so that the machine's moods hit all alike; the first rounds do not count."""
    times: dict[str, list[float]] = {name: [] for name in wanted}
    for number in range(rounds + 3):
        for name, (words, feed) in wanted.items():
            env = {**variables, "BYLEAVE_SERVICE": "off"} if "by itself" in name else variables
            started = time.perf_counter()
            subprocess.run(words, input=feed, cwd=root, env=env, capture_output=True, check=False)
            if number >= 3:
                times[name].append(time.perf_counter() - started)
            time.sleep(0.005)
    return {name: (statistics.median(each), min(each)) for name, each in times.items()}


def figures(took: dict[str, tuple[float, float]]) -> Iterator[tuple[str, str, str]]:
    middle, least = took[FLOOR]
    for name, (seconds, shortest) in took.items():
        ratios = f"{seconds / middle:.2f}x ({shortest / least:.2f}x)"
        yield name, f"{seconds * 1e3:.1f} ms ({shortest * 1e3:.1f})", ratios


if __name__ == "__main__":
    main()
