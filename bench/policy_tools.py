"""What the tools about a policy cost on a long audit log: `policy learn`, `audit summary`, `audit list`.

The log is written by the store itself. `python bench/policy_tools.py 1000000 DIRECTORY` makes one of a million records
there, and prints the same figures; a directory that has one already is used again.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from byleave.core.redact import Redactor
from byleave.policy.load import Workspace
from byleave.store.audit.chain import load_fast_hash
from byleave.store.audit.log import AuditLog
from byleave.store.audit.records import load_fast_encoder

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = 20_000
_DAYS = 30
_FOLD_AFTER = 100_000
_COMMANDS = (
    "git status",
    "ls -la src",
    "cat README.md",
    "pytest -q tests/test_{n}.py",
    "git diff HEAD~{n}",
    "rg name{n}",
)
_ASKED = ("npm run build", "git push origin feature-{n}", "make test", "gh pr view {n}", "cargo test -p part{n}")
_TOOLS: tuple[tuple[list[str], str], ...] = (
    (["policy", "learn", "--json"], "policy learn"),
    (["audit", "summary", "--since", "365d", "--json"], "audit summary, all of it"),
    (["audit", "summary"], "audit summary, since yesterday evening"),
    (["audit", "list"], "audit list"),
    (["audit", "list", "--decision", "deny", "--agent", "codex"], "audit list, by decision and agent"),
)


def policy_tool_figures(records: int = RECORDS) -> "Iterator[tuple[str, str, str]]":
    """Yield the seconds that each command takes on a log of so many records."""
    with tempfile.TemporaryDirectory() as scratch:
        yield from _figures(Path(scratch), records)


def _figures(scratch: Path, records: int) -> "Iterator[tuple[str, str, str]]":
    root = scratch / "workspace"
    root.mkdir(exist_ok=True)
    variables = {**os.environ, "BYLEAVE_HOME": str(scratch / "home"), "BYLEAVE_SERVICE": "off"}
    make_log(root, scratch / "home", records)
    for words, what in _TOOLS:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "byleave", *words, "--root", str(root)],
            env=variables,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        yield f"{what}, {records:,} records", f"{time.perf_counter() - started:.2f} s", ""


def make_log(root: Path, home: Path, records: int) -> None:
    os.environ["BYLEAVE_HOME"] = str(home)
    workspace = Workspace(str(root))
    clock = [0]
    log = AuditLog(workspace.homes.workspace(workspace.root.path), mask=Redactor(), now=lambda: clock[0])
    load_fast_hash()
    load_fast_encoder()
    workspace.remember_root()
    known = log.head().sequence
    start = time.time_ns() - _DAYS * 86_400 * 10**9
    for number in range(known, records):
        clock[0] = start + number * (_DAYS * 86_400 * 10**9 // records)
        log.append(_record(number))
        if number % _FOLD_AFTER == 0:
            log.fold()
    log.fold()
    log.close()


def _record(number: int) -> dict[str, Any]:
    """Return one record: half of them decisions, of which some are answered or denied, half of them effects."""
    turn = number // 2
    agent = ("claude-code", "codex", "gemini")[turn % 3]
    shared = {"session": "default", "door": "hook", "agent": agent, "identity": "default"}
    if turn % 3 == 0:
        path = f"src/part{turn % 400}/file{turn % 7}.py"
        action: dict[str, Any] = {"kind": ("read", "update")[turn % 2], "path": path, "agent": agent}
    else:
        lines = _ASKED if turn % 20 == 1 else _COMMANDS
        action = {"kind": "command", "command": lines[turn % len(lines)].format(n=turn % 300), "agent": agent}
    if number % 2:
        return {"event": "effect", **shared, "of": number, "action": action, "outcome": "done", "duration": 0.01}
    verdict = {"decision": "allow", "reason": "it is allowed by the rule `allow git`", "code": "ok"}
    because = [{"rule": "allow git", "source": "byleave.toml:12", "decision": "allow"}]
    fields: dict[str, Any] = {"event": "decision", **shared, "action": action, "duration": 0.002}
    if turn % 20 == 1:
        fields["answer"] = {"by": "claude-code", "choice": "once", "who": "person"}
    elif turn % 50 == 7:
        fields["action"] = {"kind": "command", "command": f"rm -rf build{turn % 100}", "agent": agent}
        verdict = {"decision": "deny", "reason": "it is denied by the rule `deny rm`", "code": "denied"}
        because = [{"rule": "deny rm", "source": "byleave.toml:3", "decision": "deny"}]
    return {**fields, "verdict": {**verdict, "because": because}}


if __name__ == "__main__":
    records, place = int(sys.argv[1]), Path(sys.argv[2])
    place.mkdir(parents=True, exist_ok=True)
    print(json.dumps([[what, figure] for what, figure, _ratio in _figures(place, records)], indent=2))
