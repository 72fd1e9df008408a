"""The tables, and how a database gets them: step by step, forward only, by one process at a time.

Each step is a text of SQL that is never changed once it was released; a database says how many of them it has. A
database with more steps than this version knows belongs to a newer byleave, and is refused.

`records` is split by day, so that old days are dropped as a whole (`maintenance`). `writers` has one row for each
process whose records are there: the place and the hash where its chain ends. `documents` are texts that replicas change
one at a time, each with a MAC (`signed_documents`). `rates` are the calls that agents have left, `open_calls`
those that replicas have open (`call_counter`), `replicas` where each replica can be reached by the others.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from psycopg.sql import SQL, Identifier, Literal

from byleave.errors import StateError
from byleave.text import shown

if TYPE_CHECKING:
    from typing import Any

    from psycopg import Connection

LOCK_MIGRATION, LOCK_ORDER, LOCK_MAINTENANCE = 0x62796C31, 0x62796C32, 0x62796C33  # keys of advisory locks
PARTITION = "records_"  # the name of a day's table begins with it
DAYS_AHEAD = 7  # partitions that are there before they are needed
_ENCODINGS = ("UTF8", "SQL_ASCII")  # the second keeps bytes as they come
_SEARCHED = ("event", "session", "door", "agent", "kind", "tool", "path", "decision")
STEPS = (
    """
    CREATE TABLE byleave.writers (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE,
        started timestamptz NOT NULL DEFAULT now(),
        place bigint NOT NULL DEFAULT 0,
        hash text NOT NULL,
        checkpointed bigint NOT NULL DEFAULT 0
    );
    CREATE SEQUENCE byleave.record_ids;
    CREATE TABLE byleave.records (
        id bigint NOT NULL,
        writer bigint NOT NULL,
        place bigint NOT NULL,
        time timestamptz NOT NULL,
        hash text NOT NULL,
        record text NOT NULL,
        {searched},
        PRIMARY KEY (id, time)
    ) PARTITION BY RANGE (time);
    CREATE INDEX records_chain ON byleave.records (writer, place);
    CREATE INDEX records_time ON byleave.records (time);
    CREATE INDEX records_agent ON byleave.records (agent, id) WHERE agent IS NOT NULL;
    CREATE INDEX records_refused ON byleave.records (decision, id) WHERE decision <> 'allow';
    CREATE INDEX records_own ON byleave.records (id) WHERE event IN ('checkpoint', 'retention');
    CREATE TABLE byleave.documents (
        name text PRIMARY KEY,
        version bigint NOT NULL,
        body text NOT NULL,
        mac bytea NOT NULL
    );
    CREATE TABLE byleave.rates (
        agent text PRIMARY KEY,
        calls_left double precision NOT NULL,
        is_allowed boolean NOT NULL,
        at timestamptz NOT NULL
    );
    """.replace("{searched}", ", ".join(f"{name} text" for name in _SEARCHED)),
    """
    CREATE TABLE byleave.open_calls (
        name text NOT NULL,
        replica text NOT NULL,
        calls int NOT NULL,
        at timestamptz NOT NULL,
        PRIMARY KEY (name, replica)
    );
    """,
    """
    CREATE TABLE byleave.replicas (
        name text PRIMARY KEY,
        holder text NOT NULL,
        host text NOT NULL,
        port int NOT NULL,
        seen timestamptz NOT NULL
    );
    """,
    """
    CREATE TABLE byleave.token_uses (
        digest text PRIMARY KEY,
        used timestamptz NOT NULL
    );
    """,
)


def migrate(connection: Connection[Any]) -> int:
    """Bring the database to the newest step, and return how many were added. Others wait meanwhile."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_MIGRATION,))
    _refuse_encoding(connection)
    if connection.execute("SELECT to_regnamespace('byleave') IS NULL").fetchone() == (True,):
        connection.execute("CREATE SCHEMA byleave")  # for which one must be allowed to make schemas, there or not
    connection.execute("CREATE TABLE IF NOT EXISTS byleave.steps (number int PRIMARY KEY, taken timestamptz NOT NULL)")
    done = _done(connection)
    _refuse_newer(done)
    for number in range(done, len(STEPS)):
        connection.execute(STEPS[number].encode())
        connection.execute("INSERT INTO byleave.steps VALUES (%s, now())", (number + 1,))
    ensure_partitions(connection)
    return len(STEPS) - done


def _refuse_encoding(connection: Connection[Any]) -> None:
    """Refuse a database that cannot hold every name: one record with such a name would be refused with all others."""
    row = connection.execute("SHOW server_encoding").fetchone()
    encoding = "" if row is None else row[0]
    if encoding not in _ENCODINGS:
        hint = "make a database with `createdb --encoding UTF8 --template template0 byleave`"
        raise StateError(
            f"the database has the encoding {shown(encoding)}, which does not hold every letter", hint=hint
        )


def ensure_partitions(connection: Connection[Any]) -> None:
    """Make the partitions of today and of the days that follow, by the clock of the database.

    A table is made by itself and attached: that waits for no reader, and no writer waits for it.
    """
    if not _missing_days(connection):
        return
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_MIGRATION,))
    for day in _missing_days(connection):
        table = Identifier(partition_name(day))
        start, end = (Literal(f"{each.isoformat()} 00:00:00+00") for each in (day, day + timedelta(days=1)))
        connection.execute(SQL("CREATE TABLE byleave.{} (LIKE byleave.records)").format(table))
        attach = SQL("ALTER TABLE byleave.records ATTACH PARTITION byleave.{} FOR VALUES FROM ({}) TO ({})")
        connection.execute(attach.format(table, start, end))


def _missing_days(connection: Connection[Any]) -> list[date]:
    row = connection.execute("SELECT (now() AT TIME ZONE 'UTC')::date").fetchone()
    today: date = row[0] if row is not None else date.min
    days = [today + timedelta(days=ahead) for ahead in range(-1, DAYS_AHEAD + 1)]  # a clock may be set back a little
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'byleave'::regnamespace AND relname = ANY(%s)"
    there = {name for (name,) in connection.execute(query, ([partition_name(day) for day in days],))}
    return [day for day in days if partition_name(day) not in there]


def partition_name(day: date) -> str:
    """Return the name of the table with the records of a day."""
    return f"{PARTITION}{day.strftime('%Y%m%d')}"


def check_version(connection: Connection[Any]) -> None:
    """Refuse a database without our tables, with older ones, or with newer ones: for commands that only read."""
    row = connection.execute("SELECT to_regclass('byleave.steps') IS NOT NULL").fetchone()
    done = _done(connection) if row is not None and row[0] else 0
    _refuse_newer(done)
    if done < len(STEPS):
        hint = "start a gateway of this version once: `byleave mcp --http`"
        raise StateError("the database has no tables of this version of byleave", hint=hint)


def _done(connection: Connection[Any]) -> int:
    row = connection.execute("SELECT coalesce(max(number), 0) FROM byleave.steps").fetchone()
    return int(row[0]) if row is not None else 0


def _refuse_newer(done: int) -> None:
    if done > len(STEPS):
        problem = f"the database has tables of a newer byleave: step {done}, and this one knows {len(STEPS)}"
        raise StateError(problem, hint="update byleave on this machine")
