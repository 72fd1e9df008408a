"""A log in a directory of its own, records to put into it, and processes that append until they are killed."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byleave.store.audit.log import AuditLog
from byleave.store.audit.query import Filter

DAY = 86_400 * 10**9
START = 1_700_000_000 * 10**9


def fields(number: int = 0, **more: Any) -> dict[str, Any]:
    """Return what a door says about one decision."""
    decision = "deny" if number % 10 == 9 else "allow"
    return {
        "event": "decision",
        "session": "default",
        "door": "hook",
        "agent": "claude-code",
        "identity": "claimed",
        "action": {"kind": "read", "path": f"src/d{number % 3}/f{number}.py", "tool": "reader"},
        "verdict": {
            "decision": decision,
            "reason": f"a rule says so about {number}",
            "code": "ok" if decision == "allow" else "denied",
            "because": [{"rule": "fs src: read", "source": "byleave.toml:3", "decision": decision}],
        },
        **more,
    }


@dataclass(frozen=True)
class Room:
    """The private directory of one workspace's log."""

    directory: Path

    def log(self, **options: Any) -> AuditLog:
        """Return the log as a new process would open it."""
        return AuditLog(str(self.directory), **options)

    def filled(self, count: int = 5) -> AuditLog:
        """Return a log with some records in the table."""
        log = self.log()
        for number in range(count):
            log.append(fields(number))
        log.fold()
        return log

    def file(self, name: str) -> Path:
        return self.directory / f"audit.{name}"

    def sql(self, *statements: str) -> None:
        """Change the table behind the log's back."""
        connection = sqlite3.connect(self.file("db"))
        with connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def numbers(self) -> list[int]:
        return [kept.sequence for kept in self.log().query(Filter())]

    def problems(self) -> list[str]:
        return [one.problem for one in self.log().verify().problems]


APPENDER = """
import os, sys
sys.path[:0] = sys.argv[3:]
from byleave.store.audit.log import AuditLog
from audit_room import fields
log = AuditLog(sys.argv[1])
{before}
for number in range(int(sys.argv[2])):
    sequence = log.append(fields(number))
    os.write(1, b"%d\\n" % sequence)
"""


def appender(room: Room, count: int, *, before: str = "") -> "subprocess.Popen[bytes]":
    """Start a process that appends, and names each number as soon as it has it."""
    here = str(Path(__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-c", APPENDER.format(before=before), str(room.directory), str(count), here],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def acknowledged(process: "subprocess.Popen[bytes]") -> list[int]:
    """Return every number that the process named before its end."""
    out, _err = process.communicate(timeout=60)
    return [int(word) for word in out.split(b"\n")[:-1] if word]


def killed_after(process: "subprocess.Popen[bytes]", count: int) -> list[int]:
    """Kill the process when it has named `count` numbers, and return all that it named."""
    assert process.stdout is not None
    first = [int(process.stdout.readline()) for _ in range(count)]
    os.kill(process.pid, signal.SIGKILL)
    return first + acknowledged(process)


def clock(start: int = START) -> Callable[[], int]:
    """Return a clock that goes on by a second each time somebody looks."""
    now = [start]

    def look() -> int:
        now[0] += 10**9
        return now[0]

    return look
