"""What byleave costs, as ratios within one run: absolute times depend on the machine, ratios hardly do.

make bench
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

import byleave
from acp import acp_figures
from audit import audit_figures
from byleave.core.action import CallAction, EnvAction, FileAction, SpawnAction, UrlAction
from byleave.core.decide import decide
from byleave.core.fs_rules import FsTarget
from byleave.core.redact import Redactor
from byleave.guard.guard import Guard
from byleave.policy.load import Workspace
from byleave.shell.reader import read_command
from byleave.store.audit.chain import load_fast_hash
from byleave.workspace.resolve import Root
from byleave.workspace.safe_open import Anchor
from dashboard import dashboard_figures
from fleet import fleet_figures
from gateway import mcp_figures
from hook import hook_figures
from large import large_figures
from policy_tools import policy_tool_figures
from proxy import proxy_figures
from sandbox import sandbox_figures
from service import service_figures
from shell_run import shell_figures
from telemetry import telemetry_figures
from toolhost import toolhost_figures

SIZES = (10, 1_000, 100_000)
BATCH_LINES = 40_000


def main() -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["BYLEAVE_HOME"] = str(Path(scratch, "home"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        root = Path(scratch, "workspace").resolve()
        (root / "src" / "deep").mkdir(parents=True)
        (root / "src" / "deep" / "file.txt").write_text("x")
        for title, rows in (
            ("decide: one action against N rules", decisions(root)),
            ("commands: read and decide", commands(root)),
            ("compile", compiling(root)),
            ("start-up", starting(root)),
            ("check --batch", batches(root)),
            ("paths", paths(root)),
            ("the guard: decide, recall, record", guarding(root)),
            ("the service", service_figures()),
            ("the sandbox", sandbox_figures()),
            ("commands that run confined", shell_figures()),
            ("the sandbox's proxy", ((what, figure, "") for what, figure in proxy_figures())),
            ("the audit log", auditing()),
            ("tools about the policy", policy_tool_figures()),
            ("the dashboard", dashboard_figures()),
            ("the tool host", toolhost_figures()),
            ("the proxy between editor and agent", acp_figures()),
            ("the hook", hook_figures()),
            ("large policies and workspaces", large_figures()),
            ("the gateway before MCP servers", mcp_figures()),
            ("several gateways on one database", fleet_figures(clients=(1, 16), records=400)),
            ("telemetry of the gateway", telemetry()),
        ):
            print(f"\n{title}")
            for what, figure, ratio in rows:
                print(f"  {what:<58} {figure:>16}   {ratio}")


def guarding(root: Path) -> "Iterator[tuple[str, str, str]]":
    """Compare answering with deciding: the difference is what a record and a permit cost on the caller's path."""
    config = Path(os.environ["BYLEAVE_HOME"], "config.toml")
    config.parent.mkdir(mode=0o700, exist_ok=True)
    config.write_text('[tools.t]\nsource = "local"\n[[rules]]\nallow = { command = "git" }\n')
    workspace, who = Workspace(str(root)), byleave.Who("bot", "verified")
    policy = workspace.load()
    mask = Redactor(["a-secret-of-some-length"])
    log = workspace.audit_log({}, mask)
    load_fast_hash()
    mask.prepare()
    guard = Guard(policy, workspace.approvals, log, door="bench", now=lambda: "", mask=Redactor(), client_approves=None)
    actions = {
        "a file": {"kind": "read", "path": "src/deep/file.txt", "tool": "t"},
        "a command": {"kind": "command", "command": "git status"},
    }
    for what, action in actions.items():
        decided = timed(lambda action=action: policy.decide(action))  # type: ignore[misc]
        answered = timed(lambda action=action: guard.check(action, who))  # type: ignore[misc]
        more = f"{answered / decided:.2f}x of deciding, {(answered - decided) * 1e6:.1f} µs more"
        yield f"answer about {what}", f"{answered * 1e6:.1f} µs", more
    guard.close()
    config.unlink()


def telemetry() -> "Iterator[tuple[str, str, str]]":
    """Yield what logs and telemetry cost a call; without the packages, only that they are missing."""
    if find_spec("opentelemetry") is None:
        yield "telemetry", "not measured", "pip install 'byleave[otel]'"
        return
    for what, figure in telemetry_figures(rounds=8):
        yield what, "", figure


def auditing() -> "Iterator[tuple[str, str, str]]":
    yield from ((what, figure, "") for what, figure in audit_figures())


def tool(access: dict[str, Any]) -> dict[str, Any]:
    return {"tools": {"t": {"source": "local", "runtime": "stdio", "access": access}}}


def rules(count: int) -> dict[str, Any]:
    """Return an access table with `count` rules of each type."""
    return {
        "fs": [{"path": f"src/d{number % 997}/f{number}", "read": True} for number in range(count - 1)]
        + [{"path": "src", "read": True}],
        "net": [{"host": "api.example.com", "path_prefix": f"/p{number}/x", "allow": True} for number in range(count)],
        "env": [{"name": f"VAR_{number}", "read": True} for number in range(count)],
        "commands": {f"prog{number}": {"args": [["run", "**"]]} for number in range(count)},
    }


def agents(count: int) -> dict[str, Any]:
    """Return one agent with `count` lists and denies, and as many others."""
    busy = {
        "allow": {"servers": ["*"], "tools": {f"srv-{number}": [f"get_{number}_*"] for number in range(count)}},
        "deny": {"tools": {"*": [f"drop_{number}_*" for number in range(count)]}},
    }
    return {"agents": {"busy": busy, **{f"agent-{n}": {"allow": {"servers": [f"srv-{n}"]}} for n in range(count)}}}


def timed(work: Callable[[], object], *, least: float = 0.2) -> float:
    """Return the seconds of one call: the best of five rounds, each long enough to be measured."""
    rounds = 1
    while True:
        started = time.perf_counter()
        for _ in range(rounds):
            work()
        if time.perf_counter() - started > least / 5:
            break
        rounds *= 2
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(rounds):
            work()
        best = min(best, (time.perf_counter() - started) / rounds)
    return best


def decisions(root: Path) -> "Iterator[tuple[str, str, str]]":
    table = {f"src/d{number % 997}/f{number}": number for number in range(100_000)}
    floor = timed(lambda: table.get("src/d5/f5"))
    yield "a plain dictionary look-up", f"{floor * 1e6:.3f} µs", "1x"
    place = FsTarget(f"{root}/src/deep/file.txt", "src/deep/file.txt")
    actions: dict[str, tuple[Any, tuple[FsTarget, ...]]] = {
        "file": (FileAction("read", "src/deep/file.txt", "t"), (place,)),
        "url": (UrlAction("https://api.example.com/p5/x/y", tool="t"), ()),
        "env": (EnvAction("VAR_5", "t"), ()),
        "spawn": (SpawnAction("prog5", ("run", "it"), "t"), ()),
        "call": (CallAction("srv-5", "get_5_x", {"sql": "select 1"}, "busy"), ()),
    }
    first: dict[str, float] = {}
    for size in SIZES:
        policy = byleave.compile_policy({**tool(rules(size)), **agents(size)}, root=str(root)).compiled.policy
        for kind, (action, places) in actions.items():
            took = timed(lambda a=action, p=places, policy=policy: decide(policy, a, p))  # type: ignore[misc]
            first.setdefault(kind, took)
            grown = f"{took / floor:5.0f}x a look-up, {took / first[kind]:.2f}x of 10 rules"
            yield f"{kind}, {size:,} rules", f"{took * 1e6:.2f} µs", grown


LINE = "git status && npm test | tail -5"


def commands(root: Path) -> "Iterator[tuple[str, str, str]]":
    first = timed(lambda: read_command(LINE))
    yield f"read {LINE}", f"{first * 1e6:.1f} µs", "1x"
    script = "\n".join(f"for f in src/*.py; do grep -n 'x{n}' \"$f\" | head -3 > out{n}.txt; done" for n in range(32))
    took = timed(lambda: read_command(script))
    yield f"read a script of {len(script):,} characters", f"{took * 1e6:.0f} µs", f"{took / first:.0f}x"
    for what, hostile in (("deep nesting", "(" * 30_000), ("1 MB of quotes", "'" * 1_000_000)):
        took = timed(lambda hostile=hostile: read_command(hostile))  # type: ignore[misc]
        yield f"read {what}", f"{took * 1e6:.0f} µs", f"{took / first:.0f}x"
    base = [{"allow": {"group": "read_only_git"}}, {"allow": {"command": "npm", "subcommand": "test"}}]
    for count in (0, 1_000):
        others = [{"allow": {"command": f"prog{n}", "subcommand": "run"}} for n in range(count)]
        tree = {"rules": [*others, *base, {"allow": {"command": "tail"}}]}
        policy = byleave.compile_policy(tree, root=str(root))
        took = timed(lambda policy=policy: policy.decide({"kind": "command", "command": LINE}))  # type: ignore[misc]
        yield (
            f"decide it among {count:,} other rules, reading remembered",
            f"{took * 1e6:.1f} µs",
            f"{took / first:.2f}x",
        )
    yield from named_files(root, first)


def named_files(root: Path, first: float) -> "Iterator[tuple[str, str, str]]":
    """Commands that name files, with and without rules about paths."""
    closing = [{"deny": {"path": "**/.env"}}, {"ask": {"path": "migrations/**"}}]
    anything: dict[str, Any] = {"allow": {"any_command": True, "options": "any"}}
    for title, rules_ in (("no path rule", []), ("2 path rules", closing), ("1,000 path rules", closing * 500)):
        policy = byleave.compile_policy({"rules": [*rules_, anything]}, root=str(root))
        for line in ("cp src/deep/file.txt src/deep/copy.txt", "grep -rn x ."):
            action = {"kind": "command", "command": line}
            took = timed(lambda policy=policy, action=action: policy.decide(action))  # type: ignore[misc]
            yield f"decide {line}, {title}", f"{took * 1e6:.0f} µs", f"{took / first:.1f}x"


def compiling(root: Path) -> "Iterator[tuple[str, str, str]]":
    tree = tool({"fs": rules(1_000)["fs"]})
    plain = timed(lambda: json.loads(json.dumps(tree)))
    took = timed(lambda: byleave.compile_policy(tree, root=str(root)))
    yield (
        "1,000 file rules from a tree, paths resolved",
        f"{took * 1e3:.1f} ms",
        f"{took / plain:.1f}x a JSON round trip",
    )
    blocks = [
        f'[[tools.t.access.fs]]\npath = "{rule["path"]}"\nread = true\n' for rule in tree["tools"]["t"]["access"]["fs"]
    ]
    file = root / "many.toml"
    file.write_text('[tools.t]\nsource = "local"\n' + "\n".join(blocks))
    started = time.perf_counter()
    byleave.load_policy(str(root), files=[str(file)])
    cold = time.perf_counter() - started
    warm = timed(lambda: byleave.load_policy(str(root), files=[str(file)]))
    yield "1,000 file rules from TOML, seen for the first time", f"{cold * 1e3:.1f} ms", ""
    yield "1,000 file rules from TOML, remembered", f"{warm * 1e3:.1f} ms", f"{warm / cold:.2f}x of the first time"


def starting(root: Path) -> "Iterator[tuple[str, str, str]]":
    (root / "policy.toml").write_text('[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "src"\nread = true\n')
    python, command = sys.executable, str(Path(sys.executable).with_name("byleave"))
    policy = ["--root", str(root), "--policy", str(root / "policy.toml")]
    programs = {
        "python -c pass": [python, "-c", "pass"],
        "python -c 'import byleave.sdk'": [python, "-c", "import byleave.sdk"],
        "byleave --help": [command, "--help"],
        "byleave check read": [command, "check", "read", "src/x", "--tool", "t", *policy],
        "byleave check read --json": [command, "check", "read", "src/x", "--tool", "t", "--json", *policy],
        "byleave check url": [command, "check", "url", "https://example.com/", "--tool", "t", *policy],
    }
    took = in_turn(programs, rounds=25)
    floor = took["python -c pass"]
    for name, seconds in took.items():
        yield name, f"{seconds * 1e3:.1f} ms", f"{seconds / floor:.2f}x"


def in_turn(programs: dict[str, list[str]], *, rounds: int) -> dict[str, float]:
    """Return the median time of each program, run in turn so that the machine's moods hit all alike."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(rounds + 2):
        for name, argv in programs.items():
            started = time.perf_counter()
            subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            if number >= 2:  # the first rounds fill caches
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def batches(root: Path) -> "Iterator[tuple[str, str, str]]":
    policy = tool({"fs": [{"path": "src", "read": True}], "env": [{"name": "A*", "read": True}]})
    env_action = {"kind": "env", "name": "AWS_REGION", "tool": "t"}
    file_action = {"kind": "read", "path": "src/deep/file.txt", "tool": "t"}
    without = lines_per_second(root, {"root": str(root), "policy": policy, "action": env_action})
    yield "lines without files", f"{without:,.0f} /s", ""
    with_files = lines_per_second(root, {"root": str(root), "policy": policy, "action": file_action})
    question = json.dumps({"id": 1, "root": str(root), "policy": policy, "action": file_action}).encode()
    answer = {
        "id": 1,
        "verdict": {"decision": "allow", "reason": "x" * 60, "code": "ok", "because": [{"rule": "y" * 20}]},
    }

    def bare_loop() -> None:
        msgspec.json.decode(question)
        for part in ("src", "src/deep", "src/deep/file.txt"):
            os.lstat(f"{root}/{part}")
        msgspec.json.encode(answer)

    bare = 1 / timed(bare_loop)
    yield "lines with files", f"{with_files:,.0f} /s", f"{bare / with_files:.2f}x a loop of decode, lstat, encode"


def lines_per_second(root: Path, question: dict[str, Any]) -> float:
    line = json.dumps({"id": 1, **question}).encode() + b"\n"
    argv = [sys.executable, "-m", "byleave", "check", "--batch"]
    (root / "lines").write_bytes(line * BATCH_LINES)
    seconds = []
    for count in (1, BATCH_LINES):
        with (root / "lines").open("rb") as given:
            source = given if count > 1 else subprocess.DEVNULL
            started = time.perf_counter()
            subprocess.run(argv, stdin=source, stdout=subprocess.DEVNULL, check=True)
            seconds.append(time.perf_counter() - started)
    return BATCH_LINES / (seconds[1] - seconds[0])


def paths(root: Path) -> "Iterator[tuple[str, str, str]]":
    place = Root.at(str(root))

    def lstats() -> None:
        for part in ("src", "src/deep", "src/deep/file.txt"):
            os.lstat(f"{root}/{part}")

    floor = timed(lstats)
    took = timed(lambda: place.resolve_input("src/deep/file.txt"))
    yield "resolve a path of three names", f"{took * 1e6:.1f} µs", f"{took / floor:.2f}x lstat of each"
    plain = timed(lambda: os.close(os.open(f"{root}/src/deep/file.txt", os.O_RDONLY)))
    with Anchor.open(str(root)) as anchor:
        safe = timed(lambda: os.close(anchor.open_file("src/deep/file.txt", os.O_RDONLY)))
    yield "open it race-free and check it is a file", f"{safe * 1e6:.1f} µs", f"{safe / plain:.2f}x open and close"


if __name__ == "__main__":
    main()
