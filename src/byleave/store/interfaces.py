"""What the guard and the gateway need of a store, whatever keeps it: a workspace's own files, or a shared database.

| interface       | own files                            | shared                                      |
|-----------------|--------------------------------------|---------------------------------------------|
| `RecordStore`   | `store.audit.log.AuditLog`           | `store.postgres.audit_log.PostgresLog`      |
| `RecordReader`  | `store.audit.log.AuditLog`           | `store.postgres.audit_reader.PostgresRecords` |
| `ApprovalStore` | `store.approvals.Approvals`          | `store.postgres.approvals.SharedApprovals`  |
| `PinStore`      | `store.tool_definitions.Definitions` | `store.postgres.approvals.SharedDefinitions` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from byleave.core.redact import Redactor
    from byleave.errors import StateError
    from byleave.store.audit.chain import ChainHead
    from byleave.store.audit.query import Filter
    from byleave.store.audit.scan import Report
    from byleave.store.audit.table import StoredRecord
    from byleave.store.audit.verify import Verification
    from byleave.store.tool_definitions import Definition, ServerDefinitions


class StagedRecord(Protocol):
    """A record that is kept soon, with others. Records are kept in the order in which they were staged."""

    async def kept(self) -> int:
        """Return its number as soon as it is kept, for good; a StateError if it was not. May be cancelled."""
        ...

    def settled(self) -> int:
        """Do the same without giving others a turn: for a caller that was cancelled, and must know."""
        ...


class KeptRecord(Record):
    """A staged record of a store that keeps every record at once."""

    number: int

    async def kept(self) -> int:
        return self.number

    def settled(self) -> int:
        return self.number


class RecordStore(Protocol):
    """The audit log: records are only ever appended. `warnings` are about what failed in the background."""

    warnings: list[str]
    may_wait: bool  # whether `append` and `settled` may take seconds: an event loop calls neither

    def append(self, fields: Mapping[str, Any]) -> int:
        """Keep one record, for good when this returns, and return its number; a StateError if it was not kept."""
        ...

    def append_all(self, records: Sequence[Mapping[str, Any]]) -> list[int]:
        """Keep records in this order, in one write, and return their numbers; a StateError if one was not kept."""
        ...

    def stage(self, fields: Mapping[str, Any], on_failure: Callable[[StateError], None] | None = None) -> StagedRecord:
        """Have one record kept soon, in one write with others that are staged meanwhile; at the latest on `close`.

        Who acts on what it says awaits `kept` first. A caller that does not wait gives `on_failure`, which is called
        if the record was not kept. Only a thread with a running event loop stages, and always the same one. What that
        thread appends comes behind what it has staged.
        """
        ...

    def mask_with(self, mask: Redactor) -> None:
        """Mask other values from now on."""
        ...

    def close(self) -> None:
        """Keep what is staged, finish what is under way; nothing is appended any more."""
        ...


class RecordReader(Protocol):
    """The audit log for those who read it. `directory` is where the records are, for people."""

    directory: str
    warnings: list[str]
    may_begin_anew: bool  # whether moving the files away begins a new log

    def head(self) -> ChainHead:
        """Return the number and the hash of the newest record."""
        ...

    def lasting_head(self) -> ChainHead:
        """Return what to keep elsewhere: a record that covers all before it."""
        ...

    def query(self, matching: Filter) -> Iterator[StoredRecord]:
        """Yield the newest records that the filter means, the oldest of them first."""
        ...

    def get(self, sequence: int) -> StoredRecord | None:
        """Return one record, None if there is no such number."""
        ...

    def scan(
        self, *, since: str | None = None, holding: Sequence[str] = (), report: Report | None = None
    ) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each record since a time that holds one of these; `report` gets how far."""
        ...

    def verify(self, given: ChainHead | None = None) -> Verification:
        """Look at all records, also against a head that was kept elsewhere."""
        ...

    def close(self) -> None:
        """Let go of what was opened."""
        ...


class PinStore(Protocol):
    """The definitions of tools as they were first seen, and what became of changed ones."""

    def of(self, server: str) -> ServerDefinitions:
        """Return what is recorded of a server; a StateError if that cannot be known."""
        ...

    def stamp(self, server: str) -> tuple[int, ...]:
        """Return what changes whenever something about this server does."""
        ...

    def record(
        self, server: str, seen: Sequence[Definition], *, now: str, what: str = ..., asks_new: bool = False
    ) -> None:
        """Record what was seen, in one write: what is new is approved, what has changed waits."""
        ...


class ApprovalStore(Protocol):
    """What persons approved. `directory` is where a dashboard of this machine finds questions."""

    directory: str
    may_wait: bool  # whether a question to it may take seconds: a thread asks where others must not wait

    @property
    def definitions(self) -> PinStore:
        """The definitions of tools."""
        ...

    @property
    def workspace_id(self) -> str:
        """What stands for the workspace in the id of a definition."""
        ...

    def stamp(self) -> tuple[int, ...]:
        """Return what changes whenever an approval does."""
        ...

    def refresh(self) -> None:
        """Read again at the next question."""
        ...

    def approved_by(self, key: str, *, now: str = "", step: str = "") -> str | None:
        """Return on which way the action with this key was approved; None if it was not."""
        ...

    def spend(self, keys: Sequence[str], *, now: str, step: str = "", spent_until: str = "") -> bool:
        """Use up the approvals that are for one request, all or none; return whether all actions are approved."""
        ...

    def remember(
        self,
        key: str,
        *,
        kind: str,
        subject: str,
        session: str,
        status: str,
        now: str,
        by: str = "",
        asked: Mapping[str, Any] | None = None,
        spent: str = "",
        spent_until: str = "",
    ) -> None:
        """Keep an action as approved, or as one that waits for an answer."""
        ...
