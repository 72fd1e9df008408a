"""Connections to the database, and whether it can be used now.

Work on the database is done by threads of this class, so that a caller waits for it no longer than `PATIENCE`, whatever
became of the server. The first failure marks the database as down: from then on every request is refused at once, until
a thread that tries again, less and less often, has reached the server. No message holds a password.

Start at `Database.run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from queue import SimpleQueue
from time import time
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from byleave.errors import StateError
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from psycopg import Connection

    from byleave.store.address import StoreAddress

    Done = TypeVar("Done")
    Work = Callable[[Connection[Any]], Any]

PATIENCE = 3.0  # seconds that one request waits for the database
_FIRST_WAIT = 10.0  # seconds for the first connection
_IDLE = 5000  # milliseconds after which the server ends a transaction whose process does not go on
_LOCKED = 2000  # milliseconds that a request waits for what another replica holds: less than `PATIENCE`
_CONNECTIONS = 8  # that one process opens at most, beside the one that writes records
_LOOK_AGAIN = 1.0  # seconds between two looks while all is well
_FIRST_RETRY, _LONGEST_RETRY = 0.05, 5.0  # seconds between two attempts to reach a server that is gone
_SETTINGS: dict[str, Any] = {
    "application_name": "byleave",
    "connect_timeout": 2,  # for each host of the address: one that hangs leaves time for the next within PATIENCE
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "client_encoding": "UTF8",
}
_DOWN = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed)
_HELD = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)  # by another: the server is well
# What a database or a role may have as its default, and would make other transactions or other texts of ours. A
# transaction looks after it has a lock: one that looks as of its beginning would count what others have long changed.
_PREPARE = """
SELECT set_config('idle_in_transaction_session_timeout', %s::text, false), set_config('lock_timeout', %s::text, false),
  set_config('default_transaction_isolation', 'read committed', false), set_config('datestyle', 'ISO', false),
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END
"""
_HINT = "calls that must be recorded are refused until the database answers; `/ready` says when it does"


class StoreDownError(StateError):
    """The shared store cannot be used now."""


def prepare(connection: Connection[Any], *, lock_timeout: int = 0) -> None:
    """Have a commit wait for the disk of the server, and no transaction outlive a process that hangs in it.

    Transactions are such as the statements of this package need, whatever the database has as its default.
    """
    with cut_after(connection, PATIENCE):
        connection.execute(_PREPARE.encode(), (_IDLE, lock_timeout))
        connection.commit()


def connect(address: StoreAddress) -> Connection[Any]:
    """Return a connection of one's own; an error of psycopg if there is none, a StateError if the address is none."""
    try:
        connection = psycopg.connect(address.url, **_SETTINGS)
    except psycopg.ProgrammingError:  # it repeats what it could not read
        hint = "look at its parameters in [store] url, BYLEAVE_STORE; & is written as %26 in a value"
        raise StateError(f"the address of the store {address.shown} cannot be read", hint=hint) from None
    try:
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def cut(connection: Connection[Any] | None) -> None:
    """End the wait of the thread that uses a connection: a server that hangs may do so for ever."""
    with contextlib.suppress(OSError, psycopg.Error):
        if connection is not None:
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def cut_after(connection: Connection[Any], seconds: float) -> Iterator[None]:
    """Wait no longer than this for a server that took the connection, and may never answer."""
    timer = threading.Timer(seconds, cut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Database:
    """The database at an address. `problem` is why it cannot be used now; empty while it can."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.problem = ""
        self.ahead = 0  # seconds by which the clock of the server is ahead of that of this machine
        self._connections: WeakSet[Connection[Any]] = WeakSet()
        self._waiting: SimpleQueue[tuple[Future[Any], Work] | None] = SimpleQueue()
        self._working: dict[Future[Any], Connection[Any]] = {}  # what threads are at
        self._failed = threading.Event()
        self._ended = threading.Event()
        logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
        logging.getLogger("psycopg.pool").propagate = False
        self._pool = ConnectionPool(
            address.url,
            min_size=1,
            max_size=_CONNECTIONS,
            timeout=PATIENCE,
            kwargs=dict(_SETTINGS),
            configure=self._prepare,
            open=False,
            name="byleave",
        )

    def open(self) -> None:
        """Connect; a StateError says why that is not possible."""
        try:
            with connect(self.address) as connection:
                self._look(connection)
                self._pool.open(wait=True, timeout=_FIRST_WAIT)
        except (psycopg.Error, PoolTimeout) as error:
            self._pool.close(timeout=1)
            problem = f"the store {self.address.shown} cannot be reached: {reason(error)}"
            raise StateError(problem, hint="start the database, or look at [store] url, BYLEAVE_STORE") from None
        for number in range(_CONNECTIONS):
            threading.Thread(target=self._serve, name=f"byleave-store-{number}", daemon=True).start()
        threading.Thread(target=self._watch, name="byleave-store-watch", daemon=True).start()

    def run(self, work: Callable[[Connection[Any]], Done]) -> Done:
        """Do some work in one transaction, and return what it returns; a StoreDownError if it is not done in time.

        It may be done after all, later: work must be such that this does no harm.
        """
        future = self._begin(work)
        try:
            done: Done = future.result(timeout=PATIENCE)
        except LateError:
            raise self._late(future) from None
        return done

    async def run_async(self, work: Callable[[Connection[Any]], Done]) -> Done:
        """Do the same without blocking the event loop."""
        future = self._begin(work)
        try:
            async with asyncio.timeout(PATIENCE):
                done: Done = await asyncio.wrap_future(future)
        except TimeoutError:
            raise self._late(future) from None
        return done

    def refuse_if_down(self) -> None:
        """Raise a StoreDownError if the database is known to be down."""
        if self.problem or self._ended.is_set():
            raise self._down(self.problem or "it is closed")

    def failed(self, why: str) -> StoreDownError:
        """Note that the database cannot be used, and return the error that says so."""
        self.problem = self.problem or why  # what follows from the first is no news
        self._failed.set()
        return self._down(why)

    def _down(self, why: str) -> StoreDownError:
        """Return the error. Agents may read what happened, so that where and why is in the hint, for the operator."""
        return StoreDownError("the shared store cannot be used now", hint=f"{self.address.shown}: {why}; {_HINT}")

    def close(self) -> None:
        """End the threads and the connections; what waits for the server is left behind."""
        self._ended.set()
        self._failed.set()
        for _ in range(_CONNECTIONS):
            self._waiting.put(None)
        self._pool.close(timeout=1)

    def _late(self, future: Future[Any]) -> StoreDownError:
        """Return the error for work that takes too long, and have no thread of ours wait for it any more."""
        error = self.failed(f"no answer within {PATIENCE:g} seconds")
        future.cancel()
        cut(self._working.get(future))
        return error

    def _begin(self, work: Work) -> Future[Any]:
        self.refuse_if_down()
        future: Future[Any] = Future()
        self._waiting.put((future, work))
        return future

    def _serve(self) -> None:
        """Do what waits, one after the other. Errors of the work itself go to the one who wants its result."""
        while (item := self._waiting.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                with self._pool.connection() as connection:
                    self._working[future] = connection
                    done = work(connection)
                future.set_result(done)
            except _HELD:
                problem = "another replica holds this in the shared store"
                future.set_exception(StateError(problem, hint=f"try again in {_IDLE // 1000} seconds"))
            except _DOWN as error:
                future.set_exception(self.failed(reason(error)))
            except psycopg.Error as error:
                problem = f"the store {self.address.shown} refused this: {reason(error)}"
                future.set_exception(StateError(problem, hint="see the log of the database"))
            except BaseException as error:  # noqa: BLE001 -- the caller gets it
                future.set_exception(error)
            finally:
                self._working.pop(future, None)

    def _watch(self) -> None:
        """Look now and then whether the database answers; while it is down, less and less often."""
        wait = _FIRST_RETRY
        while not self._ended.is_set():
            if self.problem:
                self._ended.wait(wait)
            else:
                self._failed.wait(_LOOK_AGAIN)
                self._failed.clear()
            if self._ended.is_set():
                return
            wait = _FIRST_RETRY if self._answers() else min(_LONGEST_RETRY, wait * 2)

    def _answers(self) -> bool:
        was_down = bool(self.problem)
        try:
            if was_down:
                with connect(self.address) as connection, cut_after(connection, PATIENCE):
                    is_standby = self._look(connection)
            else:
                is_standby = self.run(self._look)  # one that hangs has failed after `PATIENCE`
            if is_standby:
                self.problem = "it is a standby, which takes no records"
                return False
            if was_down:
                self._renew()
        except (psycopg.Error, PoolTimeout, PoolClosed, StateError) as error:
            self.problem = self.problem if isinstance(error, StoreDownError) and self.problem else reason(error)
            return False
        self.problem = ""
        return True

    def _look(self, connection: Connection[Any]) -> bool:
        """Return whether the server is a standby, and compare its clock with that of this machine."""
        row = connection.execute("SELECT pg_is_in_recovery(), extract(epoch FROM clock_timestamp())").fetchone()
        if row is None:
            return False
        self.ahead = round(float(row[1]) - time())
        return bool(row[0])

    def _prepare(self, connection: Connection[Any]) -> None:
        self._connections.add(connection)
        prepare(connection, lock_timeout=_LOCKED)

    def _renew(self) -> None:
        """Throw away connections to a server that is gone, also one that never answers again."""
        working = {id(connection) for connection in [*self._working.values()]}
        for connection in [*self._connections]:
            if id(connection) not in working:
                cut(connection)
        self._pool.check()


def reason(error: BaseException) -> str:
    """Return the first line of what the database or the library says of an address that could be read."""
    return shown(str(error).strip().partition("\n")[0] or type(error).__name__)[:300]
