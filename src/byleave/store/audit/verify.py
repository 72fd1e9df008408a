"""Verify: walk the whole chain over exactly what is stored, and report everything that does not fit.

The head that is kept beside the table shows a tail that was cut off. A head that was kept elsewhere also shows a chain
that was computed anew.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import StateError
from byleave.store.audit.chain import HEAD_WIDTH, TABLE, ChainHead, read_head_line
from byleave.store.audit.chain_walk import MOST_SHOWN, OWN_ROWS, ROWS, ChainProblem, ChainWalk, Removal
from byleave.store.audit.journal import HEAD
from byleave.store.audit.table import index_texts, is_about_the_disk, read_table, strangers, table_errors
from byleave.text import shown
from byleave.user_files import read_private, write_private

if TYPE_CHECKING:
    import sqlite3
    from typing import Any


VERIFIED = "audit.verified"
_TRIES, _NAP = 5, 0.002
_ENDS = 200  # records at either end of the chain that a short look reads
_MOST_KEPT = 3  # problems that are remembered


class Verification(Struct, frozen=True):
    """What a walk over the chain found; it is whole if there are no problems."""

    records: int
    first: int | None
    last: int | None
    head: ChainHead
    problems: tuple[ChainProblem, ...]
    removed: tuple[Removal, ...] = ()  # what the retention has removed, as records say that are still kept

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def tree(self) -> dict[str, Any]:
        """The result for programs."""
        problems = [
            {"problem": one.problem} if one.sequence is None else {"sequence": one.sequence, "problem": one.problem}
            for one in self.problems
        ]
        return {
            "ok": self.ok,
            "records": self.records,
            "first": self.first,
            "last": self.last,
            "head": str(self.head),
            "problems": problems,
            "removed": [each.last for each in self.removed],
            "retention": [each.tree for each in self.removed],
        }


def walk_table(directory: str, given: ChainHead | None, *, now: float) -> ChainWalk:
    """Walk over the table and look at the file itself; whatever SQLite cannot read is a problem."""
    walk = ChainWalk(given, now=now)
    try:
        connection = read_table(directory)
        if connection is not None:
            try:
                _look_at_file(connection, walk)
                walk.over(connection.execute(f"{ROWS} ORDER BY sequence"))
            finally:
                connection.close()
    except table_errors() as error:
        walk.report(f"{TABLE} cannot be read: {shown(str(error))}")
        walk.read = not is_about_the_disk(error)
    except StateError as error:
        walk.report(error.problem)
        walk.read = False
    walk.check_start()
    return walk


def quick_problems(directory: str, kept: ChainHead) -> list[str]:
    """Say what a short look at both ends of the chain finds: what `verify` would say, but not all of it.

    `kept` is where the chain ends. The records in between are counted, not read.
    """
    try:
        connection = read_table(directory)
        if connection is None:
            return ["there is no table, though records were written"] if kept.sequence else []
        try:
            return _look_at_ends(connection, kept)
        finally:
            connection.close()
    except table_errors() as error:
        return [f"{TABLE} cannot be read: {shown(str(error))}"]


def _look_at_ends(connection: sqlite3.Connection, kept: ChainHead) -> list[str]:
    connection.execute("BEGIN")  # one view of a table that others write to
    count, first, last = connection.execute("SELECT COUNT(*), MIN(sequence), MAX(sequence) FROM records").fetchone()
    start, end = ChainWalk(None), ChainWalk(None)
    for sequence, record in connection.execute(OWN_ROWS):
        start.note_own(sequence, record)
    start.over(connection.execute(f"{ROWS} WHERE sequence <= ? ORDER BY sequence", ((first or 0) + _ENDS,)))
    start.check_start()
    end.over(connection.execute(f"{ROWS} WHERE sequence > ? ORDER BY sequence", ((last or 0) - _ENDS,)))
    if count and count != last - first + 1:
        end.report(f"{last - first + 1 - count} records between {first} and {last} are missing")
    if end.head.sequence < kept.sequence or (end.head.sequence == kept.sequence and end.head != kept and count):
        end.report(f"the table does not end in the record {kept.sequence} that the kept head names")
    _look_for_strangers(connection, end)
    problems = [*start.problems, *end.problems]
    return [f"record {one.sequence}: {one.problem}" if one.sequence else one.problem for one in problems]


def remember(directory: str, walk: ChainWalk, own: int, *, given: bool, now: str) -> None:
    """Keep what a verification found, for `recalled`: the first `own` problems are of the chain itself.

    What a head that was given has contradicted stays until one that is given has not.
    """
    before = recalled(directory)
    contradicted = [one.problem for one in walk.problems[own:]] if walk.contradicted else []
    if not given and before is not None:
        contradicted = before["contradicted"]
    problems = [one.problem for one in walk.problems[:own]][:_MOST_KEPT]
    tree = {"time": now, "records": walk.records, "problems": problems, "contradicted": contradicted[:_MOST_KEPT]}
    try:
        write_private(os.path.join(directory, VERIFIED), json.dumps(tree).encode())
    except (OSError, StateError):  # of a full disk: what was found is said all the same
        return


def recalled(directory: str) -> dict[str, Any] | None:
    """Return what the last verification found: its `time`, `problems`, and what a head has `contradicted`."""
    raw: bytes | None = b""
    try:
        raw = read_private(os.path.join(directory, VERIFIED), limit=1 << 20)
        tree = None if raw is None else json.loads(raw)
    except (OSError, StateError, ValueError, RecursionError):
        tree = {}
    shape = {"time": str, "records": int, "problems": list, "contradicted": list}
    if raw is None:
        return None
    if isinstance(tree, dict) and all(type(tree.get(name)) is kind for name, kind in shape.items()):
        return tree
    return {"time": "", "records": 0, "problems": ["what was found cannot be read any more"], "contradicted": []}


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


def _look_at_file(connection: sqlite3.Connection, walk: ChainWalk) -> None:
    """Have SQLite look at its pages and indexes, and see that nothing stands between us and the table."""
    for (found,) in connection.execute(f"PRAGMA integrity_check({MOST_SHOWN})"):
        if found != "ok":
            walk.report(f"{TABLE}: {shown(str(found))}")
    _look_for_strangers(connection, walk)
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index'")}
    if not found.issuperset(index_texts()):
        walk.report(f"{TABLE}: an index is missing or changed: searches could miss records")


def _look_for_strangers(connection: sqlite3.Connection, walk: ChainWalk) -> None:
    for name in strangers(connection):
        walk.report(f"{TABLE}: {name} is none of ours: it could change what is read or written")
