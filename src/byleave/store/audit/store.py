"""What every store of records promises: this workspace's own files (log), or a database that machines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Protocol

    from byleave.store.audit.chain import ChainHead
    from byleave.store.audit.query import Filter
    from byleave.store.audit.table import StoredRecord
    from byleave.store.audit.verify import Verification

    class Store(Protocol):
        """A log of records that is only ever appended to."""

        warnings: list[str]

        def append(self, fields: Mapping[str, Any]) -> int:
            """Keep one record, for good when this returns, and return its number; a StateError if it was not kept."""
            ...

        def head(self) -> ChainHead:
            """Return where the chain ends."""
            ...

        def query(self, wanted: Filter) -> Iterator[StoredRecord]:
            """Yield the newest records that the filter means, the oldest of them first."""
            ...

        def get(self, sequence: int) -> StoredRecord | None:
            """Return one record, None if there is no such number."""
            ...

        def verify(self, wanted: ChainHead | None = None) -> Verification:
            """Walk the whole chain, also against a head that was kept elsewhere."""
            ...

        def close(self) -> None:
            """Let go of everything."""
            ...
