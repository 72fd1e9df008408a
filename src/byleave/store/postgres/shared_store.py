"""Open the store that gateways share: connect, bring its tables up to date, and hand out its parts.

Start at `open_store`, for a gateway and for commands that approve; `open_records` is for commands that only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from byleave.errors import StateError
from byleave.store.address import KEY_VARIABLE
from byleave.store.audit.retention import Retention
from byleave.store.postgres.approvals import SharedApprovals
from byleave.store.postgres.audit_log import PostgresLog
from byleave.store.postgres.audit_reader import PostgresRecords
from byleave.store.postgres.call_counter import SharedCounter
from byleave.store.postgres.database import Database, connect, reason
from byleave.store.postgres.maintenance import Maintainer, MaintenanceThread
from byleave.store.postgres.replicas import SharedReplicas
from byleave.store.postgres.schema import migrate
from byleave.store.postgres.signed_documents import KEY_FILE, SignedDocuments, StoreKey, read_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.core.redact import Redactor
    from byleave.store.address import StoreAddress
    from byleave.store.approvals import Approvals
    from byleave.user_files import ParseCache


class SharedStore:
    """The parts of one shared store."""

    def __init__(self, database: Database, key: StoreKey) -> None:
        self.database = database
        self.counter = SharedCounter(database)
        self.replicas = SharedReplicas(database)
        self.replica_key = key.derived("replicas")  # by which replicas know each other
        self._key = key
        self._documents = SignedDocuments(database, key)
        self._maintenance: MaintenanceThread | None = None

    @property
    def problem(self) -> str:
        """Why the store cannot be used now; empty while it can."""
        return self.database.problem

    def log(self, mask: Redactor) -> PostgresLog:
        """Return the audit log of this process."""
        return PostgresLog(self.database, mask=mask)

    def approvals(self, directory: str, memory: ParseCache) -> Approvals:
        """Return the approvals of a workspace, whose calls are those of the store."""
        return SharedApprovals(directory, memory, self.database, self._documents)

    def maintain(self, settings: Mapping[str, Any], note: Callable[[str], None]) -> None:
        """Write checkpoints and drop old records from now on, in turn with the other replicas."""
        kept = settings.get("audit", {})
        retention = Retention(kept.get("keep_days", Retention().days), kept.get("keep_megabytes"))
        self._maintenance = MaintenanceThread(self.database.address, Maintainer(self._key, retention), note)

    def close(self) -> None:
        """End what was begun."""
        if self._maintenance is not None:
            self._maintenance.stop()
        self.counter.close()
        self.database.close()


def open_store(address: StoreAddress, config: str, environ: Mapping[str, str]) -> SharedStore:
    """Connect to a store and bring its tables up to date; `config` is the directory of the user's configuration."""
    key = read_key(config, environ)
    if key is None:
        hint = f"put the output of `openssl rand -hex 32` into {KEY_VARIABLE}, or into {KEY_FILE} beside config.toml"
        raise StateError("a shared store needs a key that is not in the database", hint=hint)
    database = Database(address)
    database.open()
    try:
        with connect(address) as connection:  # one of its own: others may take their time to migrate
            migrate(connection)
    except BaseException as error:
        database.close()
        if isinstance(error, psycopg.Error):
            problem = f"the tables of {address.shown} cannot be brought up to date: {reason(error)}"
            raise StateError(problem, hint="the user of the database must own its schema byleave") from None
        raise
    return SharedStore(database, key)


def open_records(address: StoreAddress, config: str, environ: Mapping[str, str]) -> PostgresRecords:
    """Return the records of a store, to be read."""
    return PostgresRecords(address, read_key(config, environ))
