"""What the guard needs of a store, whatever keeps it: this workspace's own files today, a database later.

Implemented by `store.audit.log.AuditLog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.core.redact import Redactor


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
