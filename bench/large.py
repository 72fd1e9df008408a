"""What grows with the size of a policy and of a workspace: each command with n, 2n and 4n rules or files.

.venv/bin/python bench/large.py [RULES [FILES [COMMAND...]]]

RULES and FILES are the largest of the three sizes. Times are processor time of the command and all it waited for. A
growth of 4.0x from n to 4n is in line with the input; what is said of an answer is to stay at 1.0x. In front of a
command: `first` is with nothing remembered from before.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import byleave
from byleave.core.place_access import closed_places
from byleave.policy.dirs import own_command
from byleave.workspace.closed_paths import covered_below
from byleave.workspace.resolve import Root

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
    with tempfile.TemporaryDirectory(prefix="byleave-bench-") as scratch:
        base = Path(scratch).resolve()
        for kind in RULES_OF if rules > RULES else ("mixed",):
            wanted = only or (list(COMMANDS) if kind == "mixed" else ["check", "check again"])
            yield from grown(f"{rules:,} {kind} rules", base / kind, rules, only=wanted, lay_out=lay_out_rules(kind))
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
            figures.append(run(COMMANDS[name], place, again=name != "check"))
        shutil.rmtree(place)
    for name, ((first, _), (half, _), (whole, memory)) in taken.items():
        ratio = f"{half / first:.2f}x and {whole / first:.2f}x of half, a quarter; {memory:.0f} MB"
        yield f"{title}: {name}", f"{whole * 1e3:.0f} ms", ratio


def run(words: list[str], base: Path, *, again: bool = False) -> tuple[float, float]:
    """Run a command to its end; return its processor time in seconds, and the most memory it had, in MB."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(base / "home"), "LC_ALL": "C.UTF-8", "BYLEAVE_SERVICE": "off"}
    argv, said = [*own_command(), *words], b""
    if not words:
        argv = [sys.executable, "-I", str(HOOKS), "hook", "claude-code", "--home", str(base / "home")]
        event: dict[str, Any] = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t"}
        said = json.dumps({**event, "cwd": str(base / "workspace"), "tool_input": {"command": "git status"}}).encode()
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
    """Yield what the search for closed files takes in a workspace, by a few patterns and by many."""
    base.mkdir()
    patterns = {
        "3 patterns": ("**/.env", "**/*.pem", "**/secrets/**"),
        "1,000 patterns": [f"**/.key{n}" for n in range(1000)],
    }
    taken: dict[str, list[float]] = {name: [] for name in patterns}
    there = 0
    for size in (most // 4, most // 2, most):
        for number in range(there // PER_DIRECTORY, size // PER_DIRECTORY):
            directory = base / f"a{number % 20}" / f"b{number}"
            directory.mkdir(parents=True)
            for file in range(PER_DIRECTORY - 1):
                (directory / f"file{file}.py").touch()
            (directory / ".env").touch()
        there = size
        for name, each in patterns.items():
            policy = byleave.compile_policy({"rules": [{"deny": {"path": path}} for path in each]}, root=str(base))
            root, compiled = Root.at(str(base)), policy.compiled.policy
            began = time.process_time()
            closed = closed_places(compiled, ("read",), str(base), None)
            covered_below(root, str(base), closed, most_found=most, most_entries=10 * most, seconds=600)
            taken[name].append(time.process_time() - began)
    for name, (first, half, whole) in taken.items():
        ratio = f"{half / first:.2f}x and {whole / first:.2f}x of half, a quarter; {whole / most * 1e6:.1f} µs a file"
        yield f"{most:,} files: search for closed ones by {name}", f"{whole * 1e3:.0f} ms", ratio


if __name__ == "__main__":
    main()
