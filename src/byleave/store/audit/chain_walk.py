"""A walk along the chain, record by record, that notes everything which does not fit. It does no input or output."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from byleave.record import Record
from byleave.store.audit.chain import (
    CHECKPOINT,
    EMPTY,
    NOTHING,
    RECOVERY,
    RETENTION,
    ChainHead,
    is_hash,
    linked,
    sequence_of,
    time_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_SHOWN = 20  # problems of one walk
GRACE = 86_400  # seconds between the announcement that old records go and its confirmation
_AHEAD = 300  # seconds that another clock may be ahead of ours
_LEAST_LIMIT = 1  # day or megabyte: no configuration asks for less
_MOST = 1 << 63  # what no number of ours reaches
_LEAST_SHARE = 8  # of the size that the retention leaves, at least an eighth is the text of the records
# A value that is missing where it cannot be is read as an empty one, and its type shows that.
ROWS = """
SELECT sequence, coalesce(CAST(hash AS BLOB), x''), coalesce(CAST(record AS BLOB), x''), typeof(hash) || typeof(record)
FROM records
"""
OWN_ROWS = f"""
SELECT sequence, CAST(record AS BLOB) FROM records
WHERE event IN ('{CHECKPOINT}', '{RETENTION}') ORDER BY sequence
"""  # noqa: S608 -- both are constants
_MARKS = (b'"event":"checkpoint"', b'"event":"retention"')
_RECOVERED = b'"event":"recovery"'
_STORED = "texttext"


class ChainProblem(Record):
    """One thing that does not fit, and the record it was seen at, if it was at one."""

    problem: str
    sequence: int | None = None


class Removal(Record):
    """What a record of the chain says about older ones that the retention removes, and the record that confirms it.

    `by` is the number of the announcement, `of` of the confirmation; times are in seconds since 1970. `kept` is how
    many bytes of text stood between what goes and the announcement, None if that was not counted.
    """

    first: int
    last: int
    records: int
    hash: str
    why: str
    limit: float
    newest: float
    by: int
    time: float
    boot: str = ""
    up: float = 0.0
    kept: int | None = None
    of: int | None = None
    confirmed: float = 0.0

    @property
    def is_confirmed(self) -> bool:
        return self.of is not None

    def problem(self, now: float | None = None) -> str | None:
        """Say why this cannot explain that records are gone; None if it does."""
        if self.of is None:
            return "it was never confirmed"
        if not 0 < self.first <= self.last < self.by < self.of or self.records != self.last - self.first + 1:
            return "its numbers contradict each other"
        if self.limit < _LEAST_LIMIT:
            return "it names a limit that cannot be set"
        if now is not None and max(self.time, self.confirmed) > now + _AHEAD:
            return "it is from a time that is still to come"
        if self.why == "age":
            if self.confirmed - self.time < GRACE:
                return "it was confirmed too early"
            return "what it removed was not that old" if self.time - self.newest < self.limit * 86_400 else None
        if self.why != "size":
            return "it gives no reason"
        too_little = self.kept is not None and self.kept < self.limit * (1 << 20) / _LEAST_SHARE
        return "what it left is far below the size it names" if too_little else None

    @property
    def tree(self) -> dict[str, Any]:
        """The removal for programs."""
        return {
            "first": self.first,
            "last": self.last,
            "records": self.records,
            "why": self.why,
            "limit": self.limit,
            "announced": self.by,
            "confirmed": self.of,
        }


class ChainWalk:
    """One walk along the chain, from the first record to the last.

    `given` is a head that the user kept, `now` the clock in seconds, `removals` what is known of the retention.
    """

    def __init__(self, given: ChainHead | None, *, now: float | None = None, removals: Iterable[Removal] = ()) -> None:
        self._given = given
        self._now = now
        self.removals = list(removals)
        # Checkpoints of an older byleave: number, last removed, its hash.
        self._older: list[tuple[int, object, str]] = []
        self._start: tuple[bytes, str] | None = None
        self.read = True
        self.problems: list[ChainProblem] = []
        self.records = 0
        self.first: int | None = None
        self.head = EMPTY
        self.found: ChainHead | None = None
        self._found_at = 0.0
        self.contradicted = False  # whether the chain is another than the one that the head was taken from

    def report(self, problem: str, sequence: int | None = None) -> None:
        """Remember a problem, up to a number that people read."""
        if len(self.problems) < MOST_SHOWN:
            self.problems.append(ChainProblem(problem, sequence))

    def over(self, rows: Iterable[tuple[int, bytes, bytes, str]]) -> None:
        """Walk over the rows in the order of their numbers."""
        from hashlib import sha256  # heavy: loads OpenSSL

        before, number, size = b"", 0, 0
        given, given_hash = (self._given.sequence, self._given.hash.encode()) if self._given else (None, b"")
        for sequence, hash_, record, kind in rows:
            if not self.records:
                self._begin(sequence, hash_, record)
            elif sequence != number + 1:
                self._report_missing(number + 1, sequence - 1)
            elif sha256(b"%b\n%b" % (before, record)).hexdigest().encode() != hash_:
                self.report("its text or its hash was altered, or the record before it", sequence)
            if not record.startswith(b'{"sequence":%d,' % sequence):
                self._report_other_number(sequence, record)
            if kind != _STORED:
                self.report("it is not stored as text", sequence)
            if _MARKS[0] in record or _MARKS[1] in record:
                self.note_own(sequence, record, size)
            elif _RECOVERED in record:
                self._report_recovery(sequence, record)
            if sequence == given or (given == -1 and hash_ == given_hash):
                self.found = ChainHead(sequence, hash_.decode("ascii", "replace"))
                self._found_at = seconds_of(time_of(record))
            before, number, size = hash_, sequence, size + len(record)
            self.records += 1
        if self.records:
            self.head = ChainHead(number, before.decode("ascii", "replace"))

    def check_start(self) -> None:
        """Whether the first record follows from nothing, or from where the retention says that older ones ended."""
        if self._start is None or self.first is None:
            return
        record, hash_ = self._start
        if self.first == 1:
            before: str | None = NOTHING
        else:
            explained = self._explained(self.first - 1)
            before = None if explained is None else explained.hash
        if before is None:
            self._report_missing(1, self.first - 1)
            self._report_older(self.first - 1, record, hash_)
        elif linked(before, record) != hash_:
            self.report("its text or its hash was altered, or what came before it", self.first)

    def _report_older(self, last: int, record: bytes, hash_: str) -> None:
        """Report a checkpoint of an older byleave that fits what is missing; any program could have written it."""
        for by, through, before in self._older:
            if through == last and linked(before, record) == hash_:
                claim = f"an older byleave says here that its retention removed the records up to {last}"
                self.report(f"{claim}: that may be so, but one record alone proves nothing", by)
                return

    def _explained(self, last: int) -> Removal | None:
        """Return what explains that the records up to `last` are gone; say why not, where something claims to."""
        claimed = [each for each in self.removals if each.last == last]
        found = next((each for each in reversed(claimed) if each.problem(self._now) is None), None)
        if found is None and claimed:
            problem = claimed[-1].problem(self._now)
            self.report(f"it says that the retention removed the records up to {last}, but {problem}", claimed[-1].by)
        return found

    def check_kept(self, kept: ChainHead, now: ChainHead) -> None:
        """Whether the table ends where the kept head says; records may have come while we walked."""
        if self.head.sequence < kept.sequence:
            self._report_missing(self.head.sequence + 1, kept.sequence)
        elif self.head.sequence > now.sequence:
            self.report(f"the table goes on behind the kept head, which is record {now.sequence}", now.sequence + 1)
        elif self.head.sequence == now.sequence and self.head.hash != now.hash:
            self.report("the last record is not the one that the kept head names", self.head.sequence)

    def check_given(self) -> None:
        """Whether the chain holds the record of a head that was kept elsewhere."""
        given = self._given
        if given is None or given == EMPTY:
            return
        if self.found is not None:
            if self.found.hash != given.hash:
                self.contradicted = True
                self.report("it has another hash than the head that was given: the chain was made anew", given.sequence)
            self._check_order(self.found)
        elif given.sequence == -1:
            self.contradicted = True
            self.report("no record has the hash that was given")
        elif self.first is not None and given.sequence < self.first:
            self.report(f"the head that was given can no longer be checked: {self._why_gone(given)}", given.sequence)
        else:
            self.contradicted = True
            self.report("the chain does not reach the head that was given", given.sequence)

    def _check_order(self, found: ChainHead) -> None:
        """Whether what was announced behind the head that was given is also later than its record."""
        used = [each for each in self.removals if self.first is not None and each.last == self.first - 1]
        for each in used:
            if each.by > found.sequence and each.time < self._found_at:
                self.contradicted = True
                self.report("it is older than the record of the head that was given, which it follows", each.by)

    def _why_gone(self, given: ChainHead) -> str:
        """Return why a record is gone. A head cannot prove that: a chain that is made anew can say the same."""
        end = (self.first or 1) - 1
        by = next(
            (each.by for each in reversed(self.removals) if each.last == end and not each.problem(self._now)), None
        )
        if by is None:
            return "its record is no longer kept"
        known = next((each for each in self.removals if each.last == given.sequence), None)
        if known is not None and known.hash != given.hash:
            return f"its record is gone, and record {known.by} names another hash for it: the chain was made anew"
        return f"its record is gone; record {by} says that the retention removed it. Keep newer heads"

    @property
    def removed(self) -> tuple[Removal, ...]:
        """What the retention has removed, as far as records that are still kept say so."""
        return tuple(each for each in self.removals if each.is_confirmed)

    def _report_recovery(self, sequence: int, record: bytes) -> None:
        """Report what a writer found to be wrong before this record: only the record remembers it."""
        tree = _tree(record)
        if tree.get("event") == RECOVERY and tree.get("alarm") and isinstance(tree.get("problems"), list):
            for problem in tree["problems"]:
                self.report(f"before this record: {problem}", sequence)

    def _begin(self, sequence: int, hash_: bytes, record: bytes) -> None:
        self.first = sequence
        self._start = (record, hash_.decode("ascii", "replace"))

    def _report_missing(self, first: int, last: int) -> None:
        if last < first:
            self.report(f"record {first} stands where record {last + 1} should", first)
        elif first == last:
            self.report("the record is missing", first)
        else:
            self.report(f"the records {first} to {last} are missing", first)

    def _report_other_number(self, sequence: int, record: bytes) -> None:
        inside = sequence_of(record)
        self.report(f"the record says that it is number {inside}" if inside else "the record has no number", sequence)

    def note_own(self, sequence: int, record: bytes, kept: int | None = None) -> None:
        """Remember what a record says about older ones that go; `kept` is how many bytes were walked before it."""
        tree = _tree(record)
        if tree.get("event") == RETENTION:
            found = _announced(tree, sequence, time_of(record), kept)
            if found is not None:
                self.removals.append(found)
        elif tree.get("event") == CHECKPOINT:
            if "of" not in tree and _names_hash(tree.get("hash")):
                self._older.append((sequence, tree.get("through"), str(tree["hash"])))
            for number, each in enumerate(self.removals):
                same = (each.by, each.last, each.hash, each.records, each.why)
                if same == tuple(tree.get(name) for name in ("of", "through", "hash", "records", "why")):
                    self.removals[number] = each.replace(of=sequence, confirmed=seconds_of(time_of(record)))


def _announced(tree: dict[str, Any], by: int, time: str, kept: int | None) -> Removal | None:
    types = {"first": int, "last": int, "records": int, "hash": str, "why": str, "newest": str, "boot": str, "up": int}
    given: Any = [tree.get(name) for name in types]
    limit: Any = tree.get("limit")
    if [type(each) for each in given] != list(types.values()) or type(limit) not in (int, float):
        return None
    first, last, records, hash_, why, newest, boot, up = given
    if not _names_hash(hash_) or not all(0 <= each < _MOST for each in (first, last, records, up, limit)):
        return None
    written, at = seconds_of(newest), seconds_of(time)
    return Removal(first, last, records, hash_, why, float(limit), written, by, at, boot, up, kept)


def _names_hash(value: object) -> bool:
    return isinstance(value, str) and is_hash(value.encode("utf-8", "replace"))


def seconds_of(stamp: str) -> float:
    """Return the time of a record in seconds since 1970; infinity if it is none: nothing is older than that."""
    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp.endswith("Z") else float("inf")
    except ValueError:
        return float("inf")


def _tree(record: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
