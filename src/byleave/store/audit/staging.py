"""Records that are staged: kept a moment later, together with others, in one write of the journal.

A process with an event loop has many calls under way. Each stages the record of its decision, and waits until it is
kept before anything acts on it (`StagedRecord.kept`). All that are staged in one turn of the loop share a write, in the
order in which they were staged. What no caller waits for, the record of an outcome, is written with the next ones, at
the latest after 5 milliseconds. Where calls come one after the other, so that each has its outcome before the next is
decided, a decision is written at once: a turn more would cost its caller more than the write.

Only the thread of the loop stages. Where a write fails, none of its records is kept, and every caller that waits for
one of them learns so.
"""

from __future__ import annotations

from _thread import get_ident
from asyncio import get_running_loop
from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.store.audit.journal import leave_after_fork

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Sequence

    from byleave.store.audit.journal import AuditJournal


_SOON = 0.005  # seconds that a record waits for others which no caller waits for


class StagedRecord:
    """A record that is kept soon. `number` is 0 until it is, and stays 0 if it could not be."""

    __slots__ = ("_records", "error", "number", "on_failure", "text", "waiter")

    def __init__(self, text: str, records: StagedRecords, on_failure: Callable[[StateError], None] | None) -> None:
        self.text = text
        self.number = 0
        self.error: StateError | None = None
        self.waiter: Future[None] | None = None
        self.on_failure = on_failure
        self._records = records

    async def kept(self) -> int:
        """Return its number as soon as it is kept; a StateError if it was not."""
        if not self.number and self.error is None:
            await self._records.wait_for(self)
        return self.settled()

    def settled(self) -> int:
        """Return its number, having all written that is staged if it was not yet; a StateError if it was not kept."""
        if not self.number and self.error is None:
            self._records.write()
        if not self.number:
            error = self.error or _failed(self)
            raise StateError(error.problem, hint=error.hint)  # one for each caller: to raise an error changes it
        return self.number


class StagedRecords:
    """The records of one journal that are not written yet, in order."""

    def __init__(self, journal: AuditJournal) -> None:
        self._journal = journal
        self._staged: list[StagedRecord] = []
        self._thread = 0  # whose event loop stages
        self._due: AbstractEventLoop | None = None  # whose next turn writes
        self._soon: AbstractEventLoop | None = None  # which writes in a moment
        self._waits = self._shared = 0  # how many callers wait for the next turn, and have waited for the last one
        self._is_decided = False  # whether a decision was written at once, and neither outcome nor turn came since
        leave_after_fork(self)

    @property
    def are_ours(self) -> bool:
        """Whether this very thread has staged something, so that what it appends comes behind that."""
        return bool(self._staged) and self._thread == get_ident()

    def add(self, text: str, on_failure: Callable[[StateError], None] | None = None) -> StagedRecord:
        """Stage one record. `on_failure` is for a caller that does not wait: it is called if it could not be kept."""
        try:
            loop = get_running_loop()
        except RuntimeError:  # a task that ends after its loop: this is written with the next one, or on `close`
            loop = None
        if loop is not None:
            self._thread = get_ident()
            if on_failure is not None:
                self._is_decided = False
                if self._soon is not loop:
                    self._soon = loop
                    loop.call_later(_SOON, self._moment)
            elif self._due is not loop and (self._is_decided or self._shared > 1):
                self._due = loop
                loop.call_soon(self._turn)
        staged = StagedRecord(text, self, on_failure)
        self._staged.append(staged)
        return staged

    def append_all(self, texts: Sequence[str]) -> int:
        """Write records at once, behind all that are staged, and return the first number; a StateError if it failed."""
        added = [StagedRecord(text, self, None) for text in texts]
        self._staged += added
        return added[0].settled()

    async def wait_for(self, staged: StagedRecord) -> None:
        """Return when a record is written, or could not be."""
        loop = get_running_loop()
        if self._due is not loop or staged.waiter is not None:  # a record has one waiter: a second one does not wait
            self._is_decided = True
            self.write()
            return
        self._waits += 1
        staged.waiter = loop.create_future()
        await staged.waiter

    def _turn(self) -> None:
        """Write what the turn before has staged."""
        self._due, self._is_decided = None, False
        self._waits, self._shared = 0, self._waits
        self.write()

    def _moment(self) -> None:
        """Write what no caller waits for, and was not written with other records."""
        self._soon = None
        self.write()

    def write(self) -> None:
        """Write everything that is staged, in one write, and wake those who wait for it."""
        taken, self._staged = self._staged, []
        if not taken:
            return
        try:
            first = self._journal.append_all([each.text for each in taken])
        except Exception as problem:  # noqa: BLE001 -- whatever it was: none of them counts as kept
            error = problem if isinstance(problem, StateError) else _failed(problem)
            for each in taken:
                each.error = error
        else:
            for number, each in enumerate(taken, first):
                each.number = number
        for each in taken:
            if each.waiter is not None and not each.waiter.done():
                each.waiter.set_result(None)
            if each.error is not None and each.on_failure is not None:
                each.on_failure(each.error)

    def leave_to_parent(self) -> None:
        """After a fork: the parent writes what it has staged."""
        self._staged, self._due, self._soon = [], None, None


def _failed(problem: object) -> StateError:
    hint = "this is a defect of byleave; nothing is allowed that could not be recorded"
    return StateError(f"the record was not kept: {type(problem).__name__}", hint=hint)
