"""What grows with the size of a policy and of a workspace: each command with n, 2n and 4n rules or files.

.venv/bin/python bench/large.py [RULES [FILES [COMMAND...]]]

RULES and FILES are the largest of the three sizes. Times are processor time of the command and all it waited for. A
growth of 4.0x from n to 4n is in line with the input; what is said of an answer is to stay at 1.0x. A served hook is
waited for by the clock: the service does its work.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import byleave
from byleave.core.place_access import closed_places
from byleave.policy.dirs import own_command, own_packages
from byleave.sandbox.native.build import find_front
from byleave.service.client import service_status
from byleave.workspace.closed_paths import covered_below
from byleave.workspace.resolve import Root
from service import in_turn, running

RULES, FILES = 2_000, 8_000  # of `make bench`
HOOKS = Path(__file__).resolve().parents[1] / "src" / "byleave" / "hooks" / "__main__.py"
PER_DIRECTORY = 100
ANSWERS = 30


def main() -> None:
    rules, files = (int(each) for each in (*sys.argv[1:3], *(str(RULES), str(FILES))[len(sys.argv[1:3]) :]))
    for what, figure, ratio in large_figures(rules, files, only=sys.argv[3:]):
        print(f"  {what:<58} {figure:>16}   {ratio}", flush=True)


def large_figures(
    rules: int = RULES, files: int = FILES, only: list[str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield what was measured, the figure at the largest size, and how it has grown from a quarter of that size."""
    with tempfile.TemporaryDirectory(prefix="byleave-bench-", ignore_cleanup_errors=True) as scratch:
        base = Path(scratch).resolve()
        for kind in RULES_OF if rules > RULES else ("mixed",):
            wanted = only or (list(COMMANDS) if kind == "mixed" else ["check", "check again"])
            yield from grown(f"{rules:,} {kind} rules", base / kind, rules, only=wanted, lay_out=lay_out_rules(kind))
        yield from resident(base / "resident", rules)
        yield from answers(base / "answers", rules)
        yield from trees(base / "trees", files)


def file_rule(number: int) -> str:
    return f'deny = {{ path = "area{number % 97}/part{number}/**/.env{number}" }}'


def command_rule(number: int) -> str:
    return f'allow = {{ command = "prog{number}", subcommand = "run" }}'


def url_rule(number: int) -> str:
    return f'allow = {{ url = {{ host = "host{number}.example.com" }} }}'


RULES_OF: dict[str, tuple[Callable[[int], str], ...]] = {
    "file": (file_rule,),
    "command": (command_rule,),
    "url": (url_rule,),
    "mixed": (file_rule, command_rule, url_rule),
    "mixed, layered": (file_rule, command_rule, url_rule),
}
COMMANDS: dict[str, list[str]] = {
    "check": ["check", "-q", "command", "git status"],
    "check again": ["check", "-q", "command", "git status"],
    "hook": [],
    "policy lint": ["policy", "lint", "-q"],
    "doctor": ["doctor", "-q"],
}
REPEATED = ("check again", "hook")


def lay_out_rules(kind: str) -> Callable[[Path, int], None]:
    """Return what writes a configuration with so many rules, in one file or in two."""

    def lay_out(base: Path, count: int) -> None:
        root, home = base / "workspace", base / "home" / ".config" / "byleave"
        for directory in (root, home):
            directory.mkdir(parents=True)
        made = RULES_OF[kind]
        rules = [f"[[rules]]\n{made[number % len(made)](number)}\n" for number in range(count)]
        rules.append('[[rules]]\nallow = { group = "read_only_git" }\n')
        own = len(rules) // 2 if "layered" in kind else len(rules)
        (home / "config.toml").write_text("".join(rules[:own]))
        if own < len(rules):
            (root / "byleave.toml").write_text("".join(rules[own:]))
            run(["trust", "--yes", "-q"], base)

    return lay_out


def grown(
    title: str, base: Path, most: int, *, only: list[str], lay_out: Callable[[Path, int], None]
) -> Iterator[tuple[str, str, str]]:
    """Yield what each command takes at the largest size, beside a half and a quarter of it."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS if name in only}
    for size in (most // 4, most // 2, most):
        place = base / str(size)
        lay_out(place, size)
        for name, figures in taken.items():
            figures.append(run(COMMANDS[name], place, again=name in REPEATED))
        shutil.rmtree(place)
    for name, ((first, _), (half, _), (whole, memory)) in taken.items():
        ratio = f"{half / first:.2f}x and {whole / first:.2f}x of half, a quarter; {memory:.0f} MB"
        yield f"{title}: {name}", f"{whole * 1e3:.0f} ms", ratio


def run(words: list[str], base: Path, *, again: bool = False) -> tuple[float, float]:
    """Run a command to its end; return its processor time in seconds, and the most memory it had, in MB."""
    variables = {**variables_of(base), "BYLEAVE_SERVICE": "off"}
    argv, said = ([*own_command(), *words], b"") if words else hook_of(base)
    best, memory = float("inf"), 0.0
    for _ in range(3 if again else 1):
        read, write = os.pipe()
        os.write(write, said)
        os.close(write)
        child = os.fork()
        if not child:
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor, target in ((read, 0), (null, 1), (null, 2)):
                os.dup2(descriptor, target)
            os.chdir(base / "workspace")
            os.execve(argv[0], argv, variables)  # noqa: S606 -- waited for with what it used
        os.close(read)
        _pid, status, used = os.wait4(child, 0)
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            raise RuntimeError(f"{argv} failed")
        best, memory = min(best, used.ru_utime + used.ru_stime), used.ru_maxrss / 1e3
    return best, memory


def variables_of(base: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(base / "home"), "LC_ALL": "C.UTF-8"}


def hook_of(base: Path) -> tuple[list[str], bytes]:
    """Return an agent's hook as a command, and the event that it reads."""
    packages = own_packages()
    argv = [sys.executable, "-I", "-S", str(HOOKS), "hook", "claude-code", "--home", str(base / "home")]
    argv += ["--packages", packages] if packages else []
    event: dict[str, Any] = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t"}
    said = {**event, "cwd": str(base / "workspace"), "tool_input": {"command": "git status"}}
    return argv, json.dumps(said).encode()


def resident(base: Path, most: int) -> Iterator[tuple[str, str, str]]:
    """Yield what a hook takes with the service, the service's memory, and what the dashboard takes to start."""
    served, boards = [], []
    for size in (most // 4, most // 2, most):
        place = base / str(size)
        lay_out_rules("mixed")(place, size)
        boards.append(dashboard(place))
        front = find_front(str(base / "cache"))
        if front is not None:
            served.append(with_service(front, place))
    title = f"{most:,} mixed rules"
    for name, figures in (("hook, served", served), ("dashboard, to its address", boards)):
        if figures:
            (first, _), (half, _), (whole, memory) = figures
            ratio = f"{half / first:.2f}x and {whole / first:.2f}x of half, a quarter; {memory:.0f} MB"
            yield f"{title}: {name}", f"{whole * 1e3:.1f} ms", ratio


def with_service(front: str, base: Path) -> tuple[float, float]:
    """Return what a hook takes with the service, in seconds by the clock, and the memory of the service in MB."""
    place, (argv, said) = base / "service", hook_of(base)
    place.mkdir(mode=0o700)
    root, variables = base / "workspace", variables_of(base)
    with running(front, place, root, variables):
        times = in_turn({"hook": ([front, "--service", str(place), *argv], said)}, root, variables, ANSWERS)
        return times["hook"][0], service_status(str(place))["memory"] / 1e6


def dashboard(base: Path) -> tuple[float, float]:
    """Return the processor time until the dashboard says its address, in seconds, and its memory in MB."""
    words = [*own_command(), "dashboard", "--no-open", "--json"]
    variables = {**variables_of(base), "BYLEAVE_SERVICE": "off"}
    board = subprocess.Popen(words, cwd=base / "workspace", env=variables, stdout=subprocess.PIPE)
    try:
        assert board.stdout is not None
        assert b"url" in board.stdout.readline()
        fields = Path(f"/proc/{board.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15]))  # its own time and that of its children, user and system
        lines = Path(f"/proc/{board.pid}/status").read_text().splitlines()
        memory = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        return ticks / os.sysconf("SC_CLK_TCK"), memory / 1e3
    finally:
        board.terminate()
        board.wait()


def answers(base: Path, most: int) -> Iterator[tuple[str, str, str]]:
    """Yield what one answer takes once a policy is there: it is not to grow at all."""
    base.mkdir()
    questions: dict[str, dict[str, str]] = {
        "read a file": {"kind": "read", "path": "src/file"},
        "git status": {"kind": "command", "command": "git status"},
        "grep -rn x .": {"kind": "command", "command": "grep -rn x ."},
        "a url": {"kind": "url", "url": "https://other.example.org/x"},
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in questions}
    for size in (most // 4, most // 2, most):
        policy = byleave.compile_policy({"rules": [rule_tree(number) for number in range(size)]}, root=str(base))
        for name, action in questions.items():
            times = []
            for _ in range(ANSWERS):
                began = time.process_time()
                policy.decide(action)
                times.append(time.process_time() - began)
            taken[name].append((times[0], sorted(times)[len(times) // 2]))
    for name, (first, half, whole) in taken.items():
        ratio = f"{half[1] / first[1]:.2f}x and {whole[1] / first[1]:.2f}x; the first one {whole[0] * 1e3:.1f} ms"
        yield f"{most:,} mixed rules: answer about {name}", f"{whole[1] * 1e6:.0f} µs", ratio


def rule_tree(number: int) -> dict[str, Any]:
    return (
        {"deny": {"path": f"area{number % 97}/part{number}/**/.env{number}"}},
        {"allow": {"command": f"prog{number}", "subcommand": "run"}},
        {"allow": {"url": {"host": f"host{number}.example.com"}}},
    )[number % 3]


def trees(base: Path, most: int) -> Iterator[tuple[str, str, str]]:
    """Yield what the search for closed files takes in a workspace, by few patterns and by many, and a confined run."""
    root, home = base / "workspace", base / "home" / ".config" / "byleave"
    for directory in (root, home):
        directory.mkdir(parents=True)
    patterns = {
        "3 patterns": ("**/.env", "**/*.pem", "**/secrets/**"),
        "1,000 patterns": [f"**/.key{n}" for n in range(1000)],
    }
    denies = [f'[[rules]]\ndeny = {{ path = "{path}" }}\n' for path in ("**/*.pem", "**/secrets/**")]
    (home / "config.toml").write_text("".join([*denies, '[shell]\nconfine = "auto"\n']))
    taken: dict[str, list[float]] = {name: [] for name in patterns}
    runs = []
    there = 0
    for size in (most // 4, most // 2, most):
        there = grow_tree(root, there, size)
        for name, each in patterns.items():
            taken[name].append(search(root, each, most))
        runs.append(run(["run", "--shell", "true"], base))
    for name, (first, half, whole) in taken.items():
        ratio = f"{half / first:.2f}x and {whole / first:.2f}x of half, a quarter; {whole / most * 1e6:.1f} µs a file"
        yield f"{most:,} files: search for closed ones by {name}", f"{whole * 1e3:.0f} ms", ratio
    (quarter, _), (middle, _), (all_, memory) = runs
    ratio = f"{middle / quarter:.2f}x and {all_ / quarter:.2f}x of half, a quarter; {memory:.0f} MB"
    yield f"{most:,} files: run --shell true, two ** denies", f"{all_ * 1e3:.0f} ms", ratio


def grow_tree(root: Path, there: int, size: int) -> int:
    """Add files to a workspace until there are so many."""
    for number in range(there // PER_DIRECTORY, size // PER_DIRECTORY):
        directory = root / f"a{number % 20}" / f"b{number}"
        directory.mkdir(parents=True)
        for file in range(PER_DIRECTORY - 1):
            (directory / f"file{file}.py").touch()
        (directory / ".env").touch()
    return size


def search(root: Path, denied: Sequence[str], most: int) -> float:
    """Return what one search for closed files takes, in seconds."""
    policy = byleave.compile_policy({"rules": [{"deny": {"path": path}} for path in denied]}, root=str(root))
    began = time.process_time()
    closed = closed_places(policy.compiled.policy, ("read",), str(root), None)
    covered_below(Root.at(str(root)), str(root), closed, most_found=most, most_entries=10 * most, seconds=600)
    return time.process_time() - began


if __name__ == "__main__":
    main()
