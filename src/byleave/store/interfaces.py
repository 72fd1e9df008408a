"""What the guard needs of a store, whatever keeps it: this workspace's own files today, a database later.

Implemented by `store.audit.log.AuditLog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.core.redact import Redactor
    from byleave.errors import StateError


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

    def append(self, fields: Mapping[str, Any]) -> int:
        """Keep one record, for good when this returns, and return its number; a StateError if it was not kept."""
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
