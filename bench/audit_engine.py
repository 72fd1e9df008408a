"""Append one audit record: by the journal, and by SQLite alone. See docs/decisions/0009-the-audit-engine.md.

    .venv/bin/python bench/audit_engine.py [DIRECTORY]

*cold* is a new process that appends one record, without the start of the interpreter itself; *warm* is one of many
appends of a process that stays. Medians, in microseconds.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

COLD, WARM = 25, 300
FIELDS = """
fields = {"event": "decision", "session": "default", "door": "hook", "agent": "claude-code", "identity": "default",
          "action": {"kind": "command", "command": "git status", "cwd": "/work"},
          "verdict": {"decision": "allow", "reason": "git status is allowed by a rule", "code": "ok", "because": []},
          "duration": 0.000321}
"""
JOURNAL = """
from byleave.store.audit.log import AuditLog
log = AuditLog(directory)
append = lambda: log.append(fields)
"""
SQLITE = """
import json, sqlite3
db = sqlite3.connect(directory + "/audit.db", isolation_level=None)
db.execute("pragma journal_mode=wal")
db.execute("pragma synchronous={level}")
db.execute("create table if not exists records (sequence integer primary key, time text, text text)")
append = lambda: db.execute("insert into records (time, text) values ('now', ?)", (json.dumps(fields),))
"""
ENGINES = {
    "journal": JOURNAL,
    "SQLite WAL, synchronous=NORMAL": SQLITE.format(level="normal"),
    "SQLite WAL, synchronous=FULL": SQLITE.format(level="full"),
}
MEASURE = """
import sys
from time import perf_counter
directory = sys.argv[1]
{fields}
started = perf_counter()
{engine}
append()
print((perf_counter() - started) * 1e6)
for _ in range(int(sys.argv[2])):
    started = perf_counter()
    append()
    print((perf_counter() - started) * 1e6)
"""


def times(engine: str, directory: str, more: int) -> list[float]:
    code = MEASURE.format(fields=FIELDS, engine=engine)
    done = subprocess.run(
        [sys.executable, "-c", code, directory, str(more)], check=True, capture_output=True, text=True
    )
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    place = sys.argv[1] if len(sys.argv) > 1 else None
    print(f"{'engine':34} {'cold':>8} {'warm':>8}")
    for name, engine in ENGINES.items():
        with tempfile.TemporaryDirectory(dir=place) as base:
            directory = str(Path(base) / "audit")
            Path(directory).mkdir(mode=0o700)
            times(engine, directory, 0)  # what is made at the first use
            cold = median(times(engine, directory, 0)[0] for _ in range(COLD))
            warm = median(times(engine, directory, WARM)[1:])
        print(f"{name:34} {cold:8.0f} {warm:8.0f}")


if __name__ == "__main__":
    main()
