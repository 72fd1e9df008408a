"""What a hook costs before every tool call, beside an interpreter that does nothing, measured in turns.

.venv/bin/python bench/hook.py [ROUNDS]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from byleave.hooks.install import our_words

ROUNDS = 40
RULES = """
[[rules]]
allow = { command = "git", subcommand = ["status", "log", "diff"] }

[[rules]]
deny = { command = "rm" }

[[rules]]
allow = { path = "src/**", ops = ["read", "update"] }
"""
FLOOR = "python -I -c pass"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for what, figure, ratio in hook_figures(rounds):
        print(f"  {what:<58} {figure:>16}   {ratio}", flush=True)


def hook_figures(rounds: int = ROUNDS) -> Iterator[tuple[str, str, str]]:
    """Yield what was measured, the median, and how it compares to an interpreter that does nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        home, root = Path(scratch).resolve() / "home", Path(scratch).resolve() / "workspace"
        for directory in (home, home / ".config", home / ".config" / "byleave", root, root / "src"):
            directory.mkdir(mode=0o700)
        for file in (home / ".config/byleave/config.toml", root / "byleave.toml"):
            file.write_text(RULES)
        took = in_turn(programs(home, root), cwd=root, rounds=rounds)
    floor = took[FLOOR]
    for name, seconds in took.items():
        yield name, f"{seconds * 1e3:.1f} ms", f"{seconds / floor:.2f}x"


def programs(home: Path, root: Path) -> dict[str, tuple[list[str], bytes]]:
    """Return what is started, each with what it reads from standard input."""
    installed = our_words("claude-code", ["--home", str(home)])
    command = [str(Path(sys.executable).with_name("byleave")), "hook", "claude-code", "--home", str(home)]

    def event(tool: str, given: dict[str, Any], name: str = "PreToolUse") -> bytes:
        fields = {"hook_event_name": name, "tool_name": tool, "tool_input": given, "cwd": str(root), "tool_use_id": "t"}
        return json.dumps(fields).encode()

    return {
        FLOOR: ([sys.executable, "-I", "-c", "pass"], b""),
        "a command that is allowed": (installed, event("Bash", {"command": "git status"})),
        "a command that is denied": (installed, event("Bash", {"command": "rm -rf build"})),
        "a command that is asked about": (installed, event("Bash", {"command": "make"})),
        "a file that may be read": (installed, event("Read", {"file_path": f"{root}/src/x"})),
        "a list of things to do": (installed, event("TodoWrite", {"todos": []})),
        "an event of no interest": (installed, event("Bash", {}, "PostToolUse")),
        "a command that is allowed, by `byleave hook`": (command, event("Bash", {"command": "git status"})),
    }


def in_turn(wanted: dict[str, tuple[list[str], bytes]], *, cwd: Path, rounds: int) -> dict[str, float]:
    """Return the median time of each program, run in turn so that the machine's moods hit all alike."""
    times: dict[str, list[float]] = {name: [] for name in wanted}
    variables = {"PATH": os.environ["PATH"], "HOME": str(cwd), "BYLEAVE_SERVICE": "off"}  # bench/service.py has it
    for number in range(rounds + 2):
        for name, (argv, feed) in wanted.items():
            started = time.perf_counter()
            done = subprocess.run(argv, input=feed, capture_output=True, check=True, cwd=cwd, env=variables)
            if number >= 2:  # the first rounds fill caches
                times[name].append(time.perf_counter() - started)
            assert not done.stderr, done.stderr
    return {name: statistics.median(taken) for name, taken in times.items()}


if __name__ == "__main__":
    main()
