"""Retention: the oldest records go, and the chain says so itself.

Before records are removed, a record `checkpoint` is appended that names the last of them and its hash. A chain that
begins behind record N is whole if a checkpoint in it names exactly N and that hash.
"""

import time

from byleave.audit.chain import CHECKPOINT
from byleave.audit.encode import encode
from byleave.audit.walk import ROWS, Walk
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

_SLACK = 3600  # seconds: without it every fold would remove a record and write a checkpoint about it
_KEPT_SHARE = 0.9  # of the size, once it was too much
_MOST_AT_ONCE = 100_000  # records; the others wait for the next time
_PAUSE = 60.0  # seconds between two looks


class Retention(Record):
    """How long records are kept, and how much room they may take; None is for ever."""

    days: float | None = 90
    megabytes: float | None = 1024


class Pruner:
    """Removes what is beyond the retention. `append` writes to the chain, `fold` brings that into the table."""

    def __init__(
        self,
        retention: Retention,
        *,
        append: "Callable[[str], int]",
        fold: "Callable[[sqlite3.Connection], None]",
        now: "Callable[[], int]" = time.time_ns,
    ) -> None:
        self._retention = retention
        self._append = append
        self._fold = fold
        self._now = now
        self._next = 0.0

    def __call__(self, connection: "sqlite3.Connection") -> None:
        """Look now and then, and prune if it is time to."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PAUSE
        for why, through in (("age", self._by_age(connection)), ("size", self._by_size(connection))):
            if through is not None:
                self._prune(connection, through, why)
                return

    def _by_age(self, connection: "sqlite3.Connection") -> int | None:
        """Return the last record that is too old, if the oldest is so by more than the slack."""
        if self._retention.days is None:
            return None
        limit = self._now() / 1e9 - self._retention.days * 86_400
        now = _stamp(self._now() / 1e9 + _SLACK)  # a time that is still to come says nothing about age
        query = "SELECT time FROM records WHERE +time < ? ORDER BY sequence LIMIT 1"
        oldest = connection.execute(query, (now,)).fetchone()
        if oldest is None or oldest[0] is None or oldest[0] >= _stamp(limit - _SLACK):
            return None
        query = "SELECT sequence FROM records WHERE +time >= ? AND +time < ? ORDER BY sequence LIMIT 1"
        young = connection.execute(query, (_stamp(limit), now)).fetchone()
        return int(young[0]) - 1 if young is not None else _last(connection)

    def _by_size(self, connection: "sqlite3.Connection") -> int | None:
        if self._retention.megabytes is None:
            return None
        limit = self._retention.megabytes * (1 << 20)
        size = _size(connection)
        first, last = connection.execute("SELECT MIN(sequence), MAX(sequence) FROM records").fetchone()
        if size <= limit or first is None:
            return None
        share = 1 - limit * _KEPT_SHARE / size
        return int(first) + int((last - first + 1) * share) - 1

    def _prune(self, connection: "sqlite3.Connection", through: int, why: str) -> None:
        first = connection.execute("SELECT MIN(sequence) FROM records").fetchone()[0]
        through = min(through, first + _MOST_AT_ONCE - 1)
        row = connection.execute("SELECT hash FROM records WHERE sequence = ?", (through,)).fetchone()
        if row is None or not _is_whole(connection, through):
            return  # `verify` tells why; a checkpoint would make what was altered look as if it had been right
        count = connection.execute("SELECT COUNT(*) FROM records WHERE sequence <= ?", (through,)).fetchone()[0]
        told = {"event": CHECKPOINT, "through": through, "hash": row[0], "records": count, "why": why}
        self._append(encode(told))
        self._fold(connection)
        connection.execute("DELETE FROM records WHERE sequence <= ?", (through,))
        connection.executescript("PRAGMA incremental_vacuum")  # `execute` would give back one page only


def _is_whole(connection: "sqlite3.Connection", through: int) -> bool:
    """Whether the chain is whole up to the record behind the last that is to go."""
    walk = Walk(None)
    for (record,) in connection.execute("SELECT CAST(record AS BLOB) FROM records WHERE event = 'checkpoint'"):
        walk.note_checkpoint(record)
    walk.over(connection.execute(f"{ROWS} WHERE sequence <= ? ORDER BY sequence", (through + 1,)))
    walk.check_start()
    return not walk.problems


def _size(connection: "sqlite3.Connection") -> int:
    pages, free, page = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * page)


def _last(connection: "sqlite3.Connection") -> int:
    last: int = connection.execute("SELECT MAX(sequence) FROM records").fetchone()[0]
    return last


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(max(0, int(seconds))))
