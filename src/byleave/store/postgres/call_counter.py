"""Calls in a minute, and open calls, counted in the database: the same for all replicas, to the call.

A limit of rate is a row that a transaction takes a call from. A limit of open calls has a row for each replica, which
says how many it has open. A replica that is killed leaves its rows behind; they count for `LEFT_BEHIND` seconds, and as
long again after the server of the database was started. Each replica confirms its rows in time.

All clocks are the database's; `maintenance` brings rows back that are ahead of it. What this process has open is
counted here, so that an end that could not be written is made good with the next write.
"""

from __future__ import annotations

import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING

from byleave.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from psycopg import Connection

    from byleave.store.postgres.database import Database

    class Limit(Protocol):
        """A limit that a call is counted against."""

        @property
        def name(self) -> str: ...
        @property
        def rate(self) -> float | None: ...
        @property
        def most(self) -> int | None: ...


LEFT_BEHIND = 30.0  # seconds
CONFIRM = 5.0  # seconds between two confirmations of what is open
OPEN_AGAIN = 1.0  # seconds after which a place may be free: no call says when it ends
_REFILLED = "least(%(full)s, r.calls_left + greatest(0, extract(epoch FROM now() - r.at)) * %(rate)s / 60.0)"
# What is put together here is a constant of ours.
_TAKE = f"""
INSERT INTO byleave.rates AS r (agent, calls_left, is_allowed, at) VALUES (%(name)s, %(full)s - 1, true, now())
ON CONFLICT (agent) DO UPDATE SET
  is_allowed = {_REFILLED} >= 1,
  calls_left = {_REFILLED} - CASE WHEN {_REFILLED} >= 1 THEN 1 ELSE 0 END,
  at = greatest(r.at, now())
RETURNING is_allowed, calls_left
"""  # noqa: S608
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('byleave.open_calls ' || %s, 0))"
_OF_OTHERS = """
SELECT coalesce(sum(calls), 0) FROM byleave.open_calls
WHERE name = %s AND replica <> %s
  AND greatest(at, pg_postmaster_start_time()) > now() - make_interval(secs => %s)
"""
_WRITE = """
INSERT INTO byleave.open_calls VALUES (%s, %s, %s, now())
ON CONFLICT (name, replica) DO UPDATE SET calls = excluded.calls, at = now()
"""


class _NoneLeft(Exception):  # noqa: N818 -- it ends a transaction, and never leaves this module
    """A limit has no call left: nothing of the transaction counts."""

    def __init__(self, number: int, wait: float) -> None:
        super().__init__()
        self.number = number
        self.wait = wait


class _Try:
    """One attempt to take a call. A caller that does not wait for its end any more has given it up."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.given_up = False


class SharedCounter:
    """The calls of all replicas, for one of them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._replica = secrets.token_hex(16)
        self._open: dict[str, int] = {}  # what this process has open; 0: its row is still to be removed
        self._unwritten: set[str] = set()  # of which calls have ended
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    async def take(self, limits: Sequence[Limit]) -> tuple[int, float] | None:
        """Take one call of each limit, or none of any: return which of them has none left, and the seconds to wait."""
        attempt = _Try()
        try:
            await self._database.run_async(lambda connection: self._take(connection, limits, attempt))
        except _NoneLeft as none:
            return none.number, none.wait
        except BaseException:
            with self._lock:
                attempt.given_up = True
                self._free(attempt.taken)
                attempt.taken = []
            raise
        return None

    def give(self, limits: Sequence[Limit]) -> None:
        """Note that a call has ended; its places are free as soon as that is written."""
        with self._lock:
            self._free([limit.name for limit in limits if limit.most is not None])

    def close(self) -> None:
        """Leave nothing behind, if the database can be asked."""
        self._ended = True
        self._changed.set()
        if self._thread is not None:
            self._thread.join(timeout=1)

    def _take(self, connection: Connection[Any], limits: Sequence[Limit], attempt: _Try) -> None:
        connection.execute("SET LOCAL synchronous_commit TO off")  # a crash of the server gives some calls back
        try:
            for number, limit in sorted(enumerate(limits), key=_place):
                if limit.rate is not None:
                    _take_one(connection, number, limit.name, limit.rate)
                if limit.most is not None:
                    self._open_one(connection, number, limit.name, limit.most, attempt)
        except BaseException:  # before the transaction ends, and others look
            with self._lock:
                self._free(attempt.taken)
                attempt.taken = []
            raise

    def _open_one(self, connection: Connection[Any], number: int, name: str, most: int, attempt: _Try) -> None:
        """Take a place among the open calls. Until the end of the transaction no other replica or thread does."""
        connection.execute(_ALONE, (name,))
        row = connection.execute(_OF_OTHERS, (name, self._replica, LEFT_BEHIND)).fetchone()
        others = int(row[0]) if row is not None else most
        with self._lock:
            own = self._open.get(name, 0)
            if others + own >= most or attempt.given_up:
                raise _NoneLeft(number, OPEN_AGAIN)
            self._open[name] = own + 1
            attempt.taken.append(name)
            self._start()
        connection.execute(_WRITE, (name, self._replica, own + 1))

    def _free(self, names: list[str]) -> None:
        for name in names:
            self._open[name] = max(0, self._open.get(name, 0) - 1)
        self._unwritten.update(names)
        if names:
            self._changed.set()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._confirm, name="byleave-open-calls", daemon=True)
            self._thread.start()

    def _confirm(self) -> None:
        """Write what is open as soon as a call has ended, and else now and then, so that it goes on to count."""
        while True:
            is_changed = self._changed.wait(CONFIRM)
            self._changed.clear()
            with self._lock:
                names = [*self._unwritten] if is_changed and not self._ended else [*self._open]
            try:
                self._database.run(partial(self._write_all, names))
            except StateError:  # it is written with the next ones
                pass
            else:
                with self._lock:
                    self._unwritten.difference_update(names)
            if self._ended:
                return

    def _write_all(self, names: list[str], connection: Connection[Any]) -> None:
        connection.execute("SET LOCAL synchronous_commit TO off")
        for name in sorted(names):
            self._written(connection, name)

    def _written(self, connection: Connection[Any], name: str) -> None:
        connection.execute(_ALONE, (name,))
        with self._lock:
            calls = 0 if self._ended else self._open.get(name, 0)
        if calls:
            connection.execute(_WRITE, (name, self._replica, calls))
            return
        connection.execute("DELETE FROM byleave.open_calls WHERE name = %s AND replica = %s", (name, self._replica))
        with self._lock:
            if not self._open.get(name, 0):
                self._open.pop(name, None)


def _place(numbered: tuple[int, Limit]) -> tuple[str, bool]:
    """Return the order in which limits are taken from: the same for all, so that no two wait for each other."""
    return numbered[1].name, numbered[1].rate is None


def _take_one(connection: Connection[Any], number: int, name: str, rate: float) -> None:
    row = connection.execute(_TAKE.encode(), {"name": name, "full": max(rate, 1.0), "rate": rate}).fetchone()
    is_allowed, left = row if row is not None else (False, 0.0)
    if not is_allowed:
        raise _NoneLeft(number, (1 - left) * 60 / rate)
