"""What the guard needs of a store, whatever keeps it: this workspace's own files today, a database later.

Implemented by `store.audit.log.AuditLog` (records) and `store.approvals.Approvals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.core.redact import Redactor
    from byleave.store.tool_definitions import Definitions


class RecordStore(Protocol):
    """The audit log: records are only ever appended. `warnings` are about what failed in the background."""

    warnings: list[str]

    def append(self, fields: Mapping[str, Any]) -> int:
        """Keep one record, for good when this returns, and return its number; a StateError if it was not kept."""
        ...

    def mask_with(self, mask: Redactor) -> None:
        """Mask other values from now on."""
        ...

    def close(self) -> None:
        """Finish what is under way; nothing is appended any more."""
        ...


class ApprovalStore(Protocol):
    """What people have approved, by the key of an action."""

    @property
    def definitions(self) -> Definitions:
        """The definitions of tools that MCP servers offer, as people approved them."""
        ...

    def stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the approvals do."""
        ...

    def refresh(self) -> None:
        """Read again what another process may have changed."""
        ...

    def approved_by(self, key: str) -> str | None:
        """Return the asker through which this key was approved; None if it is not."""
        ...

    def remember(self, key: str, *, kind: str, subject: str, session: str, status: str, now: str, by: str = "") -> None:
        """Keep an approval, or a question that waits for one."""
        ...
