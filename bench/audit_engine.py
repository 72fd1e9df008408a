"""Append one audit record: by the journal, and by SQLite alone. See docs/decisions/0009 and 0015.

    .venv/bin/python bench/audit_engine.py [DIRECTORY]

*cold* is a new process that appends one record, without the start of the interpreter itself; *forked* is a child of a
process that has loaded everything, as the resident service's are; *warm* is one of many appends of a process that
stays; *twenty* is one of the appends of twenty processes at once, all of them through. The tenth percentile of wall
time in microseconds, and behind the slash the time of the processor (user and system) for one record.

SQLite does what the journal and the fold do together: it masks, hashes the record with the one before it, and keeps the
columns and indexes of the table.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import quantiles

COLD, FORKED, WARM, TWENTY = 15, 40, 400, 50
FIELDS = """
fields = {"event": "decision", "session": "default", "door": "hook", "agent": "claude-code", "identity": "default",
          "action": {"kind": "command", "command": "git status", "cwd": "/work"},
          "verdict": {"decision": "allow", "reason": "git status is allowed by a rule", "code": "ok", "because": []},
          "duration": 0.000321}
"""
JOURNAL = """
def load():
    from byleave.store.audit.log import AuditLog
def opened():
    from byleave.store.audit.log import AuditLog
    log = AuditLog(directory)
    return lambda: log.append(fields)
"""
SQLITE = """
def load():
    import sqlite3
    from byleave.core.redact import Redactor
    from byleave.store.audit.chain import linked
    from byleave.store.audit.records import record_text
    from byleave.store.audit.table import create_table_text, index_texts
def opened():
    import sqlite3, time
    from byleave.core.redact import Redactor
    from byleave.store.audit.chain import linked
    from byleave.store.audit.records import record_text
    mask = Redactor()
    db = sqlite3.connect(directory + "/audit.db", isolation_level=None, timeout=60)
    if db.execute("pragma user_version").fetchone()[0] != 2:
        from byleave.store.audit.table import create_table_text, index_texts
        db.execute("pragma journal_mode=wal")
        db.execute("begin immediate")
        if db.execute("pragma user_version").fetchone()[0] != 2:
            for text in [create_table_text(), *index_texts()]:
                db.execute(text)
            db.execute("pragma user_version=2")
        db.execute("commit")
    db.execute("pragma synchronous={level}")
    last = "select sequence, hash from records order by sequence desc limit 1"
    def append():
        text = record_text(fields, mask)
        db.execute("begin immediate")
        row = db.execute(last).fetchone()
        number, before = row if row is not None else (0, "0" * 64)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        record = '{{"sequence":%d,"time":"%s.000000Z",%s' % (number + 1, stamp, text[1:])
        after = linked(before, record.encode())
        db.execute("insert into records (sequence, hash, record) values (?, ?, ?)", (number + 1, after, record))
        db.execute("commit")
    return append
"""
ENGINES = {
    "journal": JOURNAL,
    "SQLite WAL, synchronous=NORMAL": SQLITE.format(level="normal"),
    "SQLite WAL, synchronous=FULL": SQLITE.format(level="full"),
}
MEASURE = """
import os, sys
from time import perf_counter, process_time
directory, how, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
{fields}
{engine}
def timed(work):
    wall, cpu = perf_counter(), process_time()
    work()
    print((perf_counter() - wall) * 1e6, (process_time() - cpu) * 1e6, flush=True)
if how == "cold":
    timed(lambda: opened()())
elif how == "forked":
    load()
    for _ in range(count):
        child = os.fork()
        if not child:
            timed(lambda: opened()())
            os._exit(0)
        os.waitpid(child, 0)
else:
    append = opened()
    append()
    for _ in range(count):
        timed(append)
"""
Times = list[tuple[float, float]]


def start(engine: str, directory: str, how: str, count: int) -> "subprocess.Popen[str]":
    code = MEASURE.format(fields=FIELDS, engine=engine)
    argv = [sys.executable, "-c", code, directory, how, str(count)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def times(*processes: "subprocess.Popen[str]") -> Times:
    found = []
    for process in processes:
        out, _ = process.communicate()
        assert process.returncode == 0
        found += [(float(wall), float(cpu)) for wall, cpu in (line.split() for line in out.splitlines())]
    return found


def shown(found: Times) -> str:
    """Return the tenth percentile of wall time, and the mean time of the processor."""
    wall = quantiles([each[0] for each in found], n=10)[0]
    return f"{wall:8.0f} / {sum(each[1] for each in found) / len(found):6.0f}"


def main() -> None:
    place = sys.argv[1] if len(sys.argv) > 1 else None
    print(f"{'engine':34} {'cold':>17} {'forked':>17} {'warm':>17} {'twenty':>17}")
    for name, engine in ENGINES.items():
        with tempfile.TemporaryDirectory(dir=place) as base:
            directory = str(Path(base) / "audit")
            Path(directory).mkdir(mode=0o700)
            times(start(engine, directory, "cold", 0))  # what is made at the first use
            cold = [each for _ in range(COLD) for each in times(start(engine, directory, "cold", 0))]
            forked = times(start(engine, directory, "forked", FORKED))
            warm = times(start(engine, directory, "warm", WARM))
            twenty = times(*[start(engine, directory, "warm", TWENTY) for _ in range(20)])
        print(f"{name:34} {shown(cold)} {shown(forked)} {shown(warm)} {shown(twenty)}")


if __name__ == "__main__":
    main()
