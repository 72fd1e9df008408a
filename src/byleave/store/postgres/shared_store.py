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
from byleave.store.postgres.signed_documents import KEY_FILE, SignedDocuments, read_key
from byleave.store.postgres.spool_file import spool_directory, spooled_bytes
from byleave.store.postgres.spooling import MEGABYTES, SpoolSettings, describe_waiting
from byleave.store.postgres.token_uses import SharedTokenUses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.core.redact import Redactor
    from byleave.store.address import StoreAddress
    from byleave.store.approvals import Approvals
    from byleave.store.store_key import StoreKey
    from byleave.user_files import ParseCache

SPOOL = "spool"  # of `[store] on_failure`


class SharedStore:
    """The parts of one shared store."""

    def __init__(self, database: Database, key: StoreKey) -> None:
        self.database = database
        self.counter = SharedCounter(database)
        self.token_uses = SharedTokenUses(database)
        self.replicas = SharedReplicas(database)
        self.replica_key = key.derived("replicas")  # by which replicas know each other
        self._key = key
        self._documents = SignedDocuments(database, key)
        self._maintenance: MaintenanceThread | None = None
        self._spool: SpoolSettings | None = None
        self._log: PostgresLog | None = None
        self._note: Callable[[str], None] | None = None

    @property
    def problem(self) -> str:
        """Why calls cannot be recorded now; empty while they can."""
        spooler = None if self._log is None else self._log.spooler
        if spooler is None or not spooler.may_write:
            return self.database.problem
        return self.database.problem and spooler.problem

    @property
    def is_spooling(self) -> bool:
        """Whether records wait on this machine for the database."""
        return self._log is not None and self._log.spooler is not None and self._log.spooler.active

    @property
    def spooled_bytes(self) -> int:
        """How many bytes of records wait on this machine."""
        return 0 if self._spool is None else spooled_bytes(self._spool.directory)

    def use_spool(self, state: str, settings: Mapping[str, Any], note: Callable[[str], None]) -> None:
        """Deliver what earlier gateways of this machine have left; where the settings say so, records may wait, too.

        `state` is the directory of the user's state. For a process that stays, before it takes its log.
        """
        table = settings.get("store", {})
        self._spool = SpoolSettings(
            spool_directory(state, self._key),
            self._key,
            may_write=table.get("on_failure") == SPOOL,
            megabytes=table.get("spool_megabytes", MEGABYTES),
        )
        self._note = note

    def log(self, mask: Redactor) -> PostgresLog:
        """Return the audit log of this process."""
        self._log = PostgresLog(self.database, mask=mask, spool=self._spool, note=self._note)
        return self._log

    def approvals(self, directory: str, memory: ParseCache) -> Approvals:
        """Return the approvals of a workspace, whose calls are those of the store."""
        spools = self._spool is not None and self._spool.may_write
        return SharedApprovals(directory, memory, self.database, self._documents, spools=spools)

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


def open_records(address: StoreAddress, config: str, environ: Mapping[str, str], state: str = "") -> PostgresRecords:
    """Return the records of a store, to be read; `warnings` say what still waits for it on this machine."""
    key = read_key(config, environ)
    records = PostgresRecords(address, key)
    waiting = describe_waiting(spool_directory(state, key)) if key is not None and state else ""
    if waiting:
        records.warnings.append(waiting)
    return records
