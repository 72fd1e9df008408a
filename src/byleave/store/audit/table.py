"""The table: an ordinary SQLite file with one row per record, for reading and searching.

A row is the number, the hash and the record's text. Every other column is made from that text by SQLite itself, so that
none of them can say anything else than the record.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

from byleave.errors import StateError
from byleave.record import Record
from byleave.store.audit.chain import CHECKPOINT, RETENTION, TABLE, ChainHead
from byleave.text import quoted, shown
from byleave.user_files import refuse_detours, refuse_shared

if TYPE_CHECKING:
    import sqlite3

PATIENCE = 10.0  # seconds to wait for another process that writes
_VERSION = 2
_COLUMNS = {
    "time": ("$.time",),
    "event": ("$.event",),
    "session": ("$.session",),
    "door": ("$.door",),
    "agent": ("$.agent",),
    "identity": ("$.identity",),
    "kind": ("$.action.kind",),
    "tool": ("$.action.tool",),
    "path": ("$.places[0]", "$.action.path"),
    "decision": ("$.verdict.decision",),
    "code": ("$.verdict.code",),
    "reason": ("$.verdict.reason",),
}
INDEXED = ("time", "session", "door", "agent", "kind", "tool", "path", "decision")


class StoredRecord(Record):
    """One record as it is kept: its number, its hash, and its text."""

    sequence: int
    hash: str
    text: str

    @property
    def tree(self) -> dict[str, Any]:
        """The record's fields; nothing but its number if the text is damaged."""
        try:
            tree = json.loads(self.text)
        except (ValueError, RecursionError):
            tree = None
        return tree if isinstance(tree, dict) else {"sequence": self.sequence}


def create_table_text() -> str:
    """Return the statement that makes the table."""
    columns = [f"{name} TEXT GENERATED ALWAYS AS ({_found(*at)}) VIRTUAL" for name, at in _COLUMNS.items()]
    own = ["sequence INTEGER PRIMARY KEY", "hash TEXT NOT NULL", "record TEXT NOT NULL"]
    return f"CREATE TABLE records ({', '.join([*own, *columns])})"


def _found(*at: str) -> str:
    """Return the expression for the first of these members that a record has."""
    members = [f"json_extract(record, '{each}')" for each in at]
    return members[0] if len(members) == 1 else f"coalesce({', '.join(members)})"


def index_texts() -> list[str]:
    """Return the statements that make the indexes."""
    made = [f"CREATE INDEX records_{name} ON records ({name}) WHERE {name} IS NOT NULL" for name in INDEXED]
    return [*made, f"CREATE INDEX records_own ON records (event) WHERE event IN ('{CHECKPOINT}', '{RETENTION}')"]


def open_table(directory: str) -> sqlite3.Connection:
    """Open the table for writing, and make it if it is not there yet."""
    import sqlite3  # heavy: appending does not need the table

    path = os.path.join(directory, TABLE)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    found = os.fstat(descriptor)
    os.close(descriptor)
    refuse_shared(path, found)
    _refuse_odd(path, found)
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            _make(connection)
        _has_table(connection)
        _refuse_strangers(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def strangers(connection: sqlite3.Connection) -> list[str]:
    """Return the names of triggers and views: none is ours, and each could change what is read or written."""
    query = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    return [shown(str(name)) for (name,) in connection.execute(query)]


def _refuse_strangers(connection: sqlite3.Connection, path: str) -> None:
    """Leave the records in the journal rather than hand them to a trigger that may remove them."""
    found = strangers(connection)
    if found:
        hint = (
            f"see who made it, then remove it from {TABLE} (DROP TRIGGER, DROP VIEW); new records wait in the journal"
        )
        raise StateError(f"{quoted(path)} is not written to: {quoted(found[0])} in it is none of ours", hint=hint)


def read_table(directory: str) -> sqlite3.Connection | None:
    """Open the table for reading, None if there is none."""
    path = os.path.join(directory, TABLE)
    try:
        found = os.lstat(path)
        refuse_shared(path, found)
        refuse_shared(directory, os.stat(directory))
    except FileNotFoundError:
        return None
    refuse_detours(path)
    _refuse_odd(path, found)
    import sqlite3  # heavy: appending does not need the table

    try:
        return _connect(path, "mode=ro")
    except sqlite3.OperationalError as error:
        # To read beside writers SQLite writes a little, which a full or read-only disk does not let it.
        if not is_about_the_disk(error) or _has_wal(path):
            raise
        return _connect(path, "immutable=1")


def _connect(path: str, how: str) -> sqlite3.Connection | None:
    import sqlite3  # heavy: appending does not need the table

    connection = sqlite3.connect(f"file:{_in_uri(path)}?{how}", timeout=PATIENCE, isolation_level=None, uri=True)
    connection.text_factory = _readable
    try:
        known = _has_table(connection)
    except BaseException:
        connection.close()
        raise
    if not known:
        connection.close()
        return None
    return connection


def _has_wal(path: str) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except OSError:
        return False


def _refuse_odd(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise StateError(f"{quoted(path)} is not a plain file", hint="move it away")


def is_about_the_disk(error: Exception) -> bool:
    """Whether the disk is to blame, and not what stands in the file."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_BUSY"))


def table_head(directory: str) -> ChainHead | None:
    """Return the last record of the table; None if it has none, or cannot be read, which `verify` says."""
    if not os.path.lexists(os.path.join(directory, TABLE)):
        return None
    try:
        connection = read_table(directory)
        if connection is None:
            return None
        try:
            return last_head(connection)
        finally:
            connection.close()
    except table_errors():
        return None


def last_head(connection: sqlite3.Connection) -> ChainHead | None:
    """Return the number and the hash of the last record."""
    row = connection.execute("SELECT sequence, hash FROM records ORDER BY sequence DESC LIMIT 1").fetchone()
    return ChainHead(*row) if row is not None else None


def table_errors() -> tuple[type[Exception], ...]:
    """Return what SQLite raises over a damaged file: its complaint may quote bytes that are no text."""
    import sqlite3  # heavy: appending does not need the table

    return (sqlite3.Error, UnicodeError, OverflowError)


def damaged_table(directory: str, error: Exception) -> StateError:
    """Return the error for a table that SQLite cannot use."""
    path = os.path.join(directory, TABLE)
    hint = "run `byleave audit verify`; if the file is damaged, move it away: new records go to a new one"
    if is_about_the_disk(error):
        hint = "make room on the disk, and check that it can be written to; the records are safe"
    return StateError(f"{quoted(path)} cannot be used: {shown(str(error))}", hint=hint)


def _make(connection: sqlite3.Connection) -> None:
    """Make the table once, though several processes may start at the same time."""
    if connection.execute("PRAGMA user_version").fetchone()[0] > _VERSION:
        raise StateError("the audit table was written by a newer byleave", hint="use that version to read it")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    if not _has_table(connection):
        connection.execute(create_table_text())
    made = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index'")}
    for statement in index_texts():
        if statement not in made:  # of a table that an older byleave has made, one is missing
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


def _has_table(connection: sqlite3.Connection) -> bool:
    """Whether the table is there; an error if it is another than ours: nothing it says could be relied on."""
    import sqlite3  # heavy: appending does not need the table

    made = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'records'").fetchone()
    if made is not None and made[0] != create_table_text():
        raise sqlite3.DatabaseError("the table is not the one that byleave makes")
    return made is not None


def _in_uri(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _readable(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
