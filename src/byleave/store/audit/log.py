"""The audit log of one workspace: append, fold, search, verify. Nothing is written before the first record.

A process that stays calls `start`, and a thread folds; one that goes calls `fold_later`, and a child does.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from msgspec import structs

from byleave.core.redact import Redactor
from byleave.errors import InputError, StateError
from byleave.store.audit.chain import EMPTY, OWN_EVENTS, TABLE, ChainHead, load_fast_hash
from byleave.store.audit.journal import HEAD, JOURNAL, AuditJournal
from byleave.store.audit.query import find, find_oldest
from byleave.store.audit.records import load_fast_encoder, record_text
from byleave.store.audit.retention import Pruner, since_start
from byleave.store.audit.scan import scan
from byleave.store.audit.table import StoredRecord, damaged_table, read_table, table_errors
from byleave.store.audit.verify import Verification, head_problem, quick_problems, recalled, remember, walk_table

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from byleave.store.audit.query import Filter
    from byleave.store.audit.retention import Retention
    from byleave.store.audit.scan import Report
    from byleave.store.audit.staging import StagedRecord, StagedRecords
    from byleave.store.audit.table_writer import FoldThread, TableWriter

    Read = TypeVar("Read")

_OURS = ("sequence", "time")  # the log sets them


class AuditLog:
    """Records of what was decided and done, in the workspace's private directory. What went wrong is in `warnings`.

    Without a `retention` nothing is removed: a command that only reads does not know what the user wants to keep.
    """

    may_begin_anew = True
    may_wait = False

    def __init__(
        self,
        directory: str,
        *,
        mask: Redactor | None = None,
        retention: Retention | None = None,
        now: Callable[[], int] = time.time_ns,
        up: Callable[[], tuple[str, float]] | None = None,
    ) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        self._mask = mask if mask is not None else Redactor()
        self._retention = retention
        self._now = now
        self._up = up
        self._journal = AuditJournal(directory, warnings=self.warnings, now=now)
        self._staged: StagedRecords | None = None
        self._made: TableWriter | None = None
        self._thread: FoldThread | None = None

    def mask_with(self, mask: Redactor) -> None:
        """Mask what is appended from now on with another mask."""
        self._mask = mask
        if self._thread is not None:
            mask.prepare()

    def append(self, fields: Mapping[str, Any]) -> int:
        """Keep one record and return its number. It survives this process; a StateError says that it was not kept."""
        return self.append_all((fields,))[0]

    def append_all(self, records: Sequence[Mapping[str, Any]]) -> list[int]:
        """Keep records in one write and return their numbers; a StateError says that none was kept."""
        texts = [self._text(fields) for fields in records]
        staged = self._staged
        behind = staged if staged is not None and staged.are_ours else self._journal
        first = behind.append_all(texts)
        return list(range(first, first + len(texts)))

    def stage(self, fields: Mapping[str, Any], on_failure: Callable[[StateError], None] | None = None) -> StagedRecord:
        """Have one record kept soon, with others in one write: await its `kept`. Needs a running event loop."""
        if self._staged is None:
            from byleave.store.audit.staging import StagedRecords  # heavy: for callers that have an event loop

            self._staged = StagedRecords(self._journal)
        return self._staged.add(self._text(fields), on_failure)

    def _text(self, fields: Mapping[str, Any]) -> str:
        if not isinstance(fields, dict) or "sequence" in fields or "time" in fields:
            fields = {key: value for key, value in fields.items() if key not in _OURS}
        if fields.get("event") in OWN_EVENTS:
            raise InputError(f"the event {fields['event']} is the log's own", hint="name what happened otherwise")
        return record_text(fields, self._mask)

    def head(self) -> ChainHead:
        """Return where the chain ends: the number and the hash of the last record."""
        self._settle()
        return self._journal.settled()[0] if self._exists() else EMPTY

    def lasting_head(self) -> ChainHead:
        """Return what to keep elsewhere: every record covers all before it, so the last one."""
        return self.head()

    def query(self, matching: Filter) -> Iterator[StoredRecord]:
        """Yield the newest records that the filter means, the oldest of them first."""
        return self._reading(lambda connection: find(connection, matching))

    def scan(
        self, *, since: str | None = None, holding: Sequence[str] = (), report: Report | None = None
    ) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each record since a time that holds one of these; `report` gets how far."""
        return self._reading(lambda connection: scan(connection, since=since, holding=holding, report=report))

    def query_before(self, matching: Filter, before: int | None, limit: int) -> Iterator[StoredRecord]:
        """Yield the newest `limit` records that match, of those before a number if one is given; oldest first."""
        end = None if before is None else before - 1
        return self.query(structs.replace(matching, through=end, limit=limit))

    def query_from(self, matching: Filter, after: int, limit: int) -> Iterator[StoredRecord]:
        """Yield the oldest `limit` records that match, of those after a number; oldest first."""
        return self._reading(lambda connection: find_oldest(connection, structs.replace(matching, after=after), limit))

    def texts(self, after: int) -> Iterator[StoredRecord]:
        """Yield every record after a number, oldest first: nothing is searched, and none is held in memory."""
        query = "SELECT sequence, hash, record FROM records WHERE sequence > ? ORDER BY sequence"
        return self._reading(lambda connection: (StoredRecord(*row) for row in connection.execute(query, (after,))))

    def first(self) -> int:
        """Return the number of the oldest record that is left, 0 if there is none."""
        query = "SELECT sequence, hash, record FROM records ORDER BY sequence LIMIT 1"
        found = self._reading(lambda connection: (StoredRecord(*row) for row in connection.execute(query)))
        return next((each.sequence for each in list(found)), 0)

    def get(self, sequence: int) -> StoredRecord | None:
        """Return one record, None if there is no such number."""
        query = "SELECT sequence, hash, record FROM records WHERE sequence = ?"
        found = self._reading(lambda connection: (StoredRecord(*row) for row in connection.execute(query, (sequence,))))
        return next(iter(list(found)), None)

    def verify(self, given: ChainHead | None = None) -> Verification:
        """Walk the whole chain, also against a head that was kept elsewhere."""
        problems: list[str | None] = []
        kept: ChainHead | None = None
        try:
            problems.append(head_problem(self.directory))
            kept = self.head()
            if self._exists():
                self._folder.fold()
        except StateError as error:
            problems.append(error.problem)
        walk = walk_table(self.directory, given, now=self._now() / 1e9)
        for problem in problems:
            if problem is not None:
                walk.report(problem)
        if kept is not None and walk.read:  # what could not be looked at is neither whole nor missing
            walk.check_kept(kept, max(kept, self._quiet_head(), key=lambda head: head.sequence))
        own = len(walk.problems)
        walk.check_given()
        if self._exists():
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now() / 1e9))
            remember(self.directory, walk, own, given=given is not None, now=now)
        last = walk.head.sequence if walk.records else None
        return Verification(walk.records, walk.first, last, walk.head, tuple(walk.problems), walk.removed)

    def doubts(self) -> list[str]:
        """Say what the last verification found, and what a short look at both ends of the chain finds now."""
        known = recalled(self.directory)
        found = [] if known is None else [str(each) for each in (*known["problems"], *known["contradicted"])]
        when = "" if known is None else str(known["time"])
        said = [f"`byleave audit verify` found at {when}: {each}" for each in found]
        if not self._exists():
            return said
        kept = self.head()
        self.fold()
        return [*said, *quick_problems(self.directory, kept)]

    def fold(self) -> None:
        """Move all records into the table; a StateError says why not. They are safe in the journal either way."""
        self._settle()
        if self._exists():
            self._folder.fold()

    def start(self) -> None:
        """Fold from now on in a thread of this process, which stays."""
        from byleave.store.audit.table_writer import FoldThread  # heavy: appending does not need the table

        if self._thread is None:
            load_fast_hash()
            load_fast_encoder()
            self._mask.prepare()
            self._thread = FoldThread(self._folder, self.warnings)

    def fold_later(self) -> None:
        """Leave a child behind that folds in a moment: for a process that ends before that."""
        from byleave.store.audit.table_writer import fold_behind  # heavy: appending does not need the table

        if self._exists():
            fold_behind(self.directory, self.fold)

    def close(self) -> None:
        """Write what is staged, fold a last time, if this process folded at all, and let go of the files."""
        if self._staged is not None:
            self._staged.write()
        if self._thread is not None:
            from byleave.store.audit.table_writer import fold_or_keep  # heavy: appending does not need the table

            self._thread.stop()
            self._thread = None
            if self._folder.waiting():
                fold_or_keep(self._folder, self.warnings, patient=False)
        self._journal.close()

    @property
    def _folder(self) -> TableWriter:
        if self._made is None:
            from byleave.store.audit.table_writer import TableWriter  # heavy: appending does not need the table

            self._made = TableWriter(self._journal, warnings=self.warnings, pruning=self._pruning)
        return self._made

    def _pruning(self, writer: TableWriter) -> Pruner | None:
        if self._retention is None:
            return None
        up = self._up or since_start
        return Pruner(self._retention, append=self._journal.append, fold=writer.move, now=self._now, up=up)

    def _settle(self) -> None:
        """Write what this thread has staged: who reads the log sees what was recorded before."""
        if self._staged is not None and self._staged.are_ours:
            self._staged.write()

    def _exists(self) -> bool:
        return any(os.path.lexists(os.path.join(self.directory, name)) for name in (JOURNAL, HEAD, TABLE))

    def _quiet_head(self) -> ChainHead:
        try:
            return self.head()
        except StateError:
            return EMPTY

    def _reading(self, read: Callable[[sqlite3.Connection], Iterator[Read]]) -> Iterator[Read]:
        """Fold, then read from the table; what cannot be folded is a warning, what can be read is read."""
        from byleave.store.audit.table_writer import fold_or_keep  # heavy: appending does not need the table

        self._settle()
        if self._exists():
            fold_or_keep(self._folder, self.warnings, patient=True)
        return self._from_table(read)

    def _from_table(self, read: Callable[[sqlite3.Connection], Iterator[Read]]) -> Iterator[Read]:
        try:
            connection = read_table(self.directory)
            if connection is None:
                return
            try:
                yield from read(connection)
            finally:
                connection.close()
        except table_errors() as error:
            raise damaged_table(self.directory, error) from None
