"""Retention: the oldest records go, and the chain says so itself, twice.

A record `retention` announces what is to go: its first and last number, how many, the last one's hash and time, and
why. A record `checkpoint` confirms it right before the records go. A chain that begins behind record N is whole if
such a pair in it names exactly N and its hash (`chain_walk`).

No single look at the clock removes anything. What is too old is announced by one look and goes after another, a day
later by the clock and by the time the machine has been up; a pass takes a tenth of the records at most. What is
beyond the size goes at once: that does not depend on the clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from byleave.record import Record
from byleave.store.audit.chain import CHECKPOINT, RETENTION
from byleave.store.audit.chain_walk import GRACE, OWN_ROWS, ROWS, ChainWalk, Removal
from byleave.store.audit.records import encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    Up = tuple[str, float]  # which start of the machine this is, and the seconds since

_SLACK = 3600  # seconds: without it every fold would announce one more record
_AHEAD = 86_400  # seconds: a record's time that is further ahead of the clock says nothing
_KEPT_SHARE = 0.9  # of the size, once it was too much
_MOST_SHARE, _LEAST = 10, 1000  # what is too old goes by a tenth of all, or by so many records
_MOST_AT_ONCE = 250_000  # records; the others wait for the next time
_PAUSE = 60.0  # seconds between two looks
_BOOT = "/proc/sys/kernel/random/boot_id"


class Retention(Record):
    """How long records are kept, and how much room they may take; None is for ever."""

    days: float | None = 90
    megabytes: float | None = 1024


def since_start() -> Up:
    """Return which start of the machine this is, "" where that is not known, and the seconds since, asleep or not."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            boot = file.read().strip()
        return boot, time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, AttributeError):
        return "", 0.0


class Pruner:
    """Removes what is beyond the retention. `append` writes to the chain, `fold` brings that into the table."""

    def __init__(
        self,
        retention: Retention,
        *,
        append: Callable[[str], int],
        fold: Callable[[sqlite3.Connection], None],
        now: Callable[[], int] = time.time_ns,
        up: Callable[[], Up] = since_start,
    ) -> None:
        self._retention = retention
        self._append = append
        self._fold = fold
        self._now = now
        self._up = up
        self._next = 0.0

    def __call__(self, connection: sqlite3.Connection) -> None:
        """Look now and then, and prune if it is time to."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PAUSE
        first, last = connection.execute(
            "SELECT (SELECT MIN(sequence) FROM records), (SELECT MAX(sequence) FROM records)"
        ).fetchone()
        if first is None:
            return
        known = _removals(connection)
        done = next((each for each in reversed(known) if each.is_confirmed and each.last >= first), None)
        if done is not None:  # the process that confirmed it was stopped before the removal
            if _is_whole(connection, known, done.last):
                _remove(connection, done.last)
            return
        too_much = self._by_size(connection, first, last)
        if too_much is not None:
            plan = self._announce(connection, known, first, too_much, "size")
            if plan is not None:
                self._carry_out(connection, plan)
            return
        waiting = next((each for each in reversed(known) if each.why == "age" and each.last >= first), None)
        state = "lapsed" if waiting is None else self._state_of(waiting)
        if state == "due" and waiting is not None and _is_whole(connection, known, waiting.last):
            self._carry_out(connection, waiting)
        elif state == "lapsed":
            too_old = self._by_age(connection, first, last)
            if too_old is not None:
                self._announce(connection, known, first, too_old, "age")

    def _state_of(self, plan: Removal) -> str:
        """Say whether an announcement is still to wait, is due, or has lapsed because the clock was set since."""
        passed = self._now() / 1e9 - plan.time
        boot, up = self._up()
        if passed < -_SLACK or self._retention.days is None:
            return "lapsed"
        if boot and boot == plan.boot:
            if abs(passed - (up - plan.up)) > _SLACK:
                return "lapsed"
            passed = min(passed, up - plan.up)
        if passed < GRACE:
            return "waits"
        return "due" if plan.newest < self._now() / 1e9 - self._retention.days * 86_400 else "lapsed"

    def _by_age(self, connection: sqlite3.Connection, first: int, last: int) -> int | None:
        """Return the last record that is too old, if the oldest is so by more than the slack."""
        if self._retention.days is None:
            return None
        limit = self._now() / 1e9 - self._retention.days * 86_400
        ahead = _stamp(self._now() / 1e9 + _AHEAD)  # a time that is still to come says nothing about age
        query = "SELECT time FROM records WHERE +time < ? ORDER BY sequence LIMIT 1"
        oldest = connection.execute(query, (ahead,)).fetchone()
        if oldest is None or oldest[0] is None or oldest[0] >= _stamp(limit - _SLACK):
            return None
        query = "SELECT sequence FROM records WHERE +time >= ? AND +time < ? ORDER BY sequence LIMIT 1"
        young = connection.execute(query, (_stamp(limit), ahead)).fetchone()
        through = int(young[0]) - 1 if young is not None else last
        return min(through, first + max(_LEAST, (last - first + 1) // _MOST_SHARE) - 1)

    def _by_size(self, connection: sqlite3.Connection, first: int, last: int) -> int | None:
        if self._retention.megabytes is None:
            return None
        limit = self._retention.megabytes * (1 << 20)
        size = _size(connection)
        if size <= limit:
            return None
        share = 1 - limit * _KEPT_SHARE / size
        return first + int((last - first + 1) * share) - 1

    def _announce(
        self, connection: sqlite3.Connection, known: list[Removal], first: int, through: int, why: str
    ) -> Removal | None:
        through = min(through, first + _MOST_AT_ONCE - 1)
        row = connection.execute("SELECT hash, time FROM records WHERE sequence = ?", (through,)).fetchone()
        if row is None or not _is_whole(connection, known, through):
            return None  # `verify` says why; to announce what was altered would make it look right
        boot, up = self._up()
        fields = {
            "event": RETENTION,
            "first": first,
            "last": through,
            "records": through - first + 1,
            "hash": row[0],
            "newest": row[1],
            "why": why,
            "boot": boot,
            "up": int(up),
            "limit": self._retention.days if why == "age" else self._retention.megabytes,
        }
        by = self._append(encode(fields))
        self._fold(connection)
        return next((each for each in _removals(connection) if each.by == by), None)

    def _carry_out(self, connection: sqlite3.Connection, plan: Removal) -> None:
        """Confirm an announcement in the chain, then let the records go."""
        fields = {"event": CHECKPOINT, "through": plan.last, "hash": plan.hash, "records": plan.records, "of": plan.by}
        confirmed = self._append(encode({**fields, "why": plan.why}))
        self._fold(connection)
        if connection.execute("SELECT 1 FROM records WHERE sequence = ?", (confirmed,)).fetchone() is not None:
            _remove(connection, plan.last)


def _removals(connection: sqlite3.Connection) -> list[Removal]:
    walk = ChainWalk(None)
    for sequence, record in connection.execute(OWN_ROWS):
        walk.note_own(sequence, record)
    return walk.removals


def _is_whole(connection: sqlite3.Connection, known: list[Removal], through: int) -> bool:
    """Whether the chain is whole up to the record behind the last that is to go."""
    walk = ChainWalk(None, removals=known)
    walk.over(connection.execute(f"{ROWS} WHERE sequence <= ? ORDER BY sequence", (through + 1,)))
    walk.check_start()
    return not walk.problems


def _remove(connection: sqlite3.Connection, through: int) -> None:
    connection.execute("DELETE FROM records WHERE sequence <= ?", (through,))
    connection.executescript("PRAGMA incremental_vacuum")  # `execute` would give back one page only


def _size(connection: sqlite3.Connection) -> int:
    pages, free, page = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * page)


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(max(0, int(seconds))))
