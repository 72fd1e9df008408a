"""Texts that replicas share and that loosen something: approvals of calls, definitions of tools.

Each has a number that goes up with every change, and a MAC (HMAC-SHA256) over its name, that number and the text, by a
key that is not in the database. So who can only write to the database approves nothing: what was not written by a
holder of the key counts as damaged, and an older text that is put back is noticed by every process that has seen a
newer one.

The key is in `BYLEAVE_STORE_KEY`, or in the file `store.key` of the configuration directory: 64 hexadecimal digits, the
same for all replicas and for the people who approve calls.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.store.address import KEY_VARIABLE
from byleave.store.postgres.database import PATIENCE
from byleave.store.store_key import StoreKey
from byleave.text import shown
from byleave.user_files import read_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from psycopg import Connection

    from byleave.store.postgres.database import Database

KEY_FILE = "store.key"
LARGEST = 32 << 20  # bytes of one document
_KEY_DIGITS = 64
_AT_ONCE = 2  # changes of documents: one that works, and one that comes next
_READ = "SELECT version, body, mac FROM byleave.documents WHERE name = %s"
_WRITE = """
INSERT INTO byleave.documents VALUES (%(name)s, %(version)s, %(body)s, %(mac)s)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, body = excluded.body, mac = excluded.mac
"""


def read_key(config: str, environ: Mapping[str, str]) -> StoreKey | None:
    """Return the key of the environment or of the configuration directory; None if there is none."""
    text, source = environ.get(KEY_VARIABLE, ""), KEY_VARIABLE
    if not text:
        source = os.path.join(config, KEY_FILE)
        raw = read_private(source, limit=1 << 12)
        if raw is None:
            return None
        text = raw.decode("ascii", "replace").strip()
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(text) < _KEY_DIGITS or 2 * len(key) != len(text):
        hint = f"make one with `openssl rand -hex {_KEY_DIGITS // 2}`, the same for every replica"
        raise StateError(f"{shown(source)} holds no key: {_KEY_DIGITS} hexadecimal digits are needed", hint=hint)
    return StoreKey(key)


class SignedDocuments:
    """The documents of a database, as far as they were written by holders of the key."""

    def __init__(self, database: Database, key: StoreKey) -> None:
        self._database = database
        self._key = key
        self._newest: dict[str, int] = {}  # the highest number that this process has seen of each
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    def version(self, name: str) -> int:
        """Return the number of a document's last change, 0 if there is no such document."""
        query = "SELECT version FROM byleave.documents WHERE name = %s"

        def read(connection: Connection[Any]) -> int:
            row = connection.execute(query, (name,)).fetchone()
            return 0 if row is None else int(row[0])

        return self._database.run(read)

    def read(self, name: str) -> str | None:
        """Return the text of a document, None if there is none; a StateError if it does not count."""

        def read(connection: Connection[Any]) -> str | None:
            row = connection.execute(_READ, (name,)).fetchone()
            if self._is_older(name, row):  # than another thread has seen meanwhile
                row = connection.execute(_READ, (name,)).fetchone()
            return self._checked(name, row)

        return self._database.run(read)

    def names(self, start: str) -> list[str]:
        """Return the names of all documents that begin like this."""
        query = "SELECT name FROM byleave.documents WHERE starts_with(name, %s) ORDER BY name"
        return self._database.run(lambda connection: [row[0] for row in connection.execute(query, (start,))])

    def change(self, name: str, change: Callable[[str | None], str | None]) -> None:
        """Replace a document by what `change` makes of it while no other process does; None leaves it as it is."""
        self.change_all(lambda connection: self.change_in(connection, name, change))

    def change_all(self, work: Callable[[Connection[Any]], None]) -> None:
        """Do work that changes documents, in one transaction.

        Those who change one document wait for each other, and few of this process at a time: a flood of questions
        would else take all threads of the database, and calls that need no approval would wait behind it.
        """
        if not self._turns.acquire(timeout=PATIENCE):
            raise StateError("too many approvals are asked for at a time", hint="try again later")
        try:
            self._database.run(work)
        finally:
            self._turns.release()

    def change_in(self, connection: Connection[Any], name: str, change: Callable[[str | None], str | None]) -> None:
        """Do the same within a transaction: the document is held until its end."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('byleave.documents ' || %s, 0))", (name,))
        row = connection.execute(_READ, (name,)).fetchone()
        body = change(self._checked(name, row))
        if body is None:
            return
        if len(body) > LARGEST:
            raise StateError(f"{shown(name)} would be larger than {LARGEST >> 20} MB", hint="revoke what is not needed")
        version = (0 if row is None else int(row[0])) + 1
        mac = self._key.mac(name, str(version), body)
        connection.execute(_WRITE, {"name": name, "version": version, "body": body, "mac": mac})

    def _checked(self, name: str, row: tuple[int, str, bytes] | None) -> str | None:
        version, body, mac = (0, None, b"") if row is None else row
        if body is not None and not self._key.is_mac(bytes(mac), name, str(version), body):
            hint = "it was changed without the key, or the key is another one here; nothing in it counts"
            raise StateError(f"{shown(name)} in the store has no valid MAC", hint=hint)
        with self._lock:
            if self._is_older(name, row):
                hint = "an older state of the database was put back; restart every gateway if that was meant"
                raise StateError(f"{shown(name)} in the store is older than what this process has seen", hint=hint)
            self._newest[name] = version
        return body

    def _is_older(self, name: str, row: tuple[int, str, bytes] | None) -> bool:
        return (0 if row is None else row[0]) < self._newest.get(name, 0)
