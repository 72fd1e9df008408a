"""Verify: walk the whole chain over exactly what is stored, and tell everything that does not fit.

The head that is kept beside the table shows a tail that was cut off. A head that was kept elsewhere also shows a chain
that somebody computed anew.
"""

import os
import time

from byleave.audit.chain import HEAD_WIDTH, Head, read_head_line
from byleave.audit.journal import HEAD
from byleave.audit.table import TABLE, index_texts, is_about_the_disk, read_table, table_errors
from byleave.audit.walk import MOST_TOLD, ROWS, Problem, Walk
from byleave.errors import StateError
from byleave.record import Record
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any


_TRIES, _NAP = 5, 0.002


class Verification(Record):
    """What a walk over the chain found; it is whole if there are no problems."""

    records: int
    first: int | None
    last: int | None
    head: Head
    problems: tuple[Problem, ...]
    removed: tuple[int, ...] = ()  # through which records the retention has removed them, as checkpoints say

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def tree(self) -> "dict[str, Any]":
        """The result for programs."""
        told = [
            {"problem": one.problem} if one.sequence is None else {"sequence": one.sequence, "problem": one.problem}
            for one in self.problems
        ]
        return {
            "ok": self.ok,
            "records": self.records,
            "first": self.first,
            "last": self.last,
            "head": str(self.head),
            "problems": told,
            "removed": list(self.removed),
        }


def walk_table(directory: str, wanted: Head | None) -> Walk:
    """Walk over the table and look at the file itself; whatever SQLite cannot read is a problem."""
    walk = Walk(wanted)
    try:
        connection = read_table(directory)
        if connection is not None:
            try:
                _look_at_file(connection, walk)
                walk.over(connection.execute(f"{ROWS} ORDER BY sequence"))
            finally:
                connection.close()
    except table_errors() as error:
        walk.tell(f"{TABLE} cannot be read: {shown(str(error))}")
        walk.read = not is_about_the_disk(error)
    except StateError as error:
        walk.tell(error.problem)
        walk.read = False
    walk.check_start()
    walk.check_wanted()
    return walk


def head_problem(directory: str) -> str | None:
    """Say what is wrong with the kept head, before anything sets it right; None if it is well or nothing is kept."""
    for _ in range(_TRIES):  # a writer may be at it
        if _read_head(os.path.join(directory, HEAD)) is not None:
            return None
        time.sleep(_NAP)
    if not os.path.lexists(os.path.join(directory, TABLE)):
        return None
    return "the kept head is missing or damaged: a tail that was cut off would not show"


def _read_head(path: str) -> object:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return read_head_line(os.pread(descriptor, HEAD_WIDTH + 1, 0))
    except OSError:  # no plain file
        return None
    finally:
        os.close(descriptor)


def _look_at_file(connection: "sqlite3.Connection", walk: Walk) -> None:
    """Have SQLite look at its pages and indexes, and see that nothing stands between us and the table."""
    for (found,) in connection.execute(f"PRAGMA integrity_check({MOST_TOLD})"):
        if found != "ok":
            walk.tell(f"{TABLE}: {shown(str(found))}")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"):
        walk.tell(f"{TABLE}: {shown(str(name))} is none of ours: it could change what is read or written")
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index'")}
    if not found.issuperset(index_texts()):
        walk.tell(f"{TABLE}: an index is missing or changed: searches could miss records")
