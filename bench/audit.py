"""What the audit log costs, and how fast a million records are searched and verified.

.venv/bin/python bench/audit.py [RECORDS]
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from byleave.core.redact import Redactor
from byleave.store.audit.chain import NOTHING, ChainHead, JournalLine, head_line, linked, load_fast_hash
from byleave.store.audit.log import AuditLog
from byleave.store.audit.query import Filter
from byleave.store.audit.records import encode
from byleave.store.audit.table import open_table
from byleave.store.audit.table_writer import insert_lines

MILLION = 1_000_000
APPENDS = 20_000
STEP = 20_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else MILLION
    for what, figure in audit_figures(count):
        print(f"  {what:<58} {figure:>16}", flush=True)


def audit_figures(count: int = MILLION) -> Iterator[tuple[str, str]]:
    """Yield what was measured, and the figure."""
    with tempfile.TemporaryDirectory() as scratch:
        yield "append, in a process that stays", f"{appending(Path(scratch, 'small')) * 1e6:.1f} µs"
        log = AuditLog(str(Path(scratch, "large")))
        started = time.perf_counter()
        fill(log, count)
        yield f"fold {count:,} records", f"{time.perf_counter() - started:.1f} s"
        yield "size of the table", f"{Path(scratch, 'large', 'audit.db').stat().st_size >> 20} MB"
        for what, wanted in SEARCHES.items():
            found, took = timed(partial(searched, log, wanted))
            yield f"{what} ({found} found)", f"{took * 1e3:.1f} ms"
        started = time.perf_counter()
        verified = log.verify()
        yield f"verify {verified.records:,} records", f"{time.perf_counter() - started:.1f} s"
        assert verified.ok


SEARCHES = {
    "list the newest 50": Filter(limit=50),
    "--decision deny, one in a thousand": Filter(decision="deny", limit=50),
    "--path 'src/deep/**', one in a thousand": Filter(path="src/deep/**", limit=50),
    "--path '**/*.pem', one in ten thousand": Filter(path="**/*.pem", limit=50),
    "--path '**/*.nothing'": Filter(path="**/*.nothing", limit=50),
    "--agent codex, one in a hundred": Filter(agent="codex", limit=50),
    "--agent 'c*', all": Filter(agent="c*", limit=50),
    "--since, all": Filter(since="2020-01-01", limit=50),
    "--until, half": Filter(until="2026-01-01T00:00:00.5", limit=50),
    "--decision deny --path 'src/**'": Filter(decision="deny", path="src/**", limit=50),
    "--text that is nowhere": Filter(text="nowhere to be found", limit=50),
}


def appending(directory: Path) -> float:
    """Return the seconds of one append, the best of five rounds."""
    mask = Redactor()
    mask.prepare()  # as `start` does
    load_fast_hash()
    log = AuditLog(str(directory), mask=mask)
    rounds, given = [], [fields(number) for number in range(APPENDS)]
    for _ in range(5):
        started = time.perf_counter()
        for one in given:
            log.append(one)
        rounds.append((time.perf_counter() - started) / APPENDS)
        log.fold()
    log.close()
    return min(rounds)


def fill(log: AuditLog, count: int) -> None:
    """Bring records into the table as the fold does, without a journal."""
    load_fast_hash()
    log.append({"event": "start"})
    log.fold()
    connection = open_table(log.directory)
    connection.execute("DELETE FROM records")
    lines: list[JournalLine | None] = []
    before = NOTHING
    for number in range(1, count + 1):
        rest = encode(fields(number))[1:]
        payload = f'{{"sequence":{number},"time":"2026-01-01T00:00:{number / count:09.6f}Z",{rest}'.encode()
        before = linked(before, payload)
        lines.append(JournalLine(number, before, payload))
        if len(lines) == STEP or number == count:
            insert_lines(connection, lines)
            lines = []
    connection.close()
    Path(log.directory, "audit.head").write_bytes(head_line(ChainHead(count, before), 0))


def fields(number: int) -> dict[str, Any]:
    """Return a record of usual length: nearly 500 bytes as it is kept."""
    folder = "deep" if number % 1000 == 7 else f"d{number % 97}"
    path = f"src/{folder}/f{number % 10_007}.{'pem' if number % 10_000 == 3 else 'py'}"
    decision = "deny" if number % 1000 == 5 else "allow"
    return {
        "event": "decision",
        "session": "default",
        "door": "hook",
        "agent": "codex" if number % 100 == 0 else "claude-code",
        "identity": "claimed",
        "action": {"kind": "read", "path": path, "tool": "reader"},
        "verdict": {
            "decision": decision,
            "reason": f"the rule of the tool reader about src grants reading {path}",
            "code": "ok",
            "because": [{"rule": "fs src: read, update", "source": "byleave.toml:12", "decision": decision}],
        },
    }


def searched(log: AuditLog, wanted: Filter) -> int:
    return len(list(log.query(wanted)))


def timed(work: Callable[[], int]) -> tuple[int, float]:
    """Return the answer, and the seconds of the best of three rounds."""
    rounds = []
    for _ in range(3):
        started = time.perf_counter()
        answer = work()
        rounds.append(time.perf_counter() - started)
    return answer, min(rounds)


if __name__ == "__main__":
    main()
