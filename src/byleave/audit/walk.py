"""A walk along the chain, record by record, that remembers everything which does not fit. Pure."""

from byleave.audit.chain import CHECKPOINT, EMPTY, NOTHING, RECOVERY, Head, linked, sequence_of
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MOST_TOLD = 20
# A value that is missing where it cannot be is read as an empty one, and its type tells.
ROWS = """
SELECT sequence, coalesce(CAST(hash AS BLOB), x''), coalesce(CAST(record AS BLOB), x''), typeof(hash) || typeof(record)
FROM records
"""
_MARK = b'"event":"checkpoint"'
_RECOVERED = b'"event":"recovery"'
_STORED = "texttext"


class Problem(Record):
    """One thing that does not fit, and the record it was seen at, if it was at one."""

    problem: str
    sequence: int | None = None


class Walk:
    """One walk along the chain, from the first record to the last."""

    def __init__(self, wanted: Head | None) -> None:
        self._wanted = wanted
        self._checkpoints: dict[int, str] = {}
        self._start: tuple[bytes, str] | None = None
        self.read = True
        self.problems: list[Problem] = []
        self.records = 0
        self.first: int | None = None
        self.head = EMPTY
        self.found: Head | None = None

    def tell(self, problem: str, sequence: int | None = None) -> None:
        """Remember a problem, up to a number that people read."""
        if len(self.problems) < MOST_TOLD:
            self.problems.append(Problem(problem, sequence))

    def over(self, rows: "Iterable[tuple[int, bytes, bytes, str]]") -> None:
        """Walk over the rows in the order of their numbers."""
        from hashlib import sha256

        before, number = b"", 0
        wanted, wanted_hash = (self._wanted.sequence, self._wanted.hash.encode()) if self._wanted else (None, b"")
        for sequence, hash_, record, kind in rows:
            if not self.records:
                self._begin(sequence, hash_, record)
            elif sequence != number + 1:
                self._tell_missing(number + 1, sequence - 1)
            elif sha256(b"%b\n%b" % (before, record)).hexdigest().encode() != hash_:
                self.tell("its text or its hash was altered, or the record before it", sequence)
            if not record.startswith(b'{"sequence":%d,' % sequence):
                self._tell_other_number(sequence, record)
            if kind != _STORED:
                self.tell("it is not stored as text", sequence)
            if _MARK in record:
                self.note_checkpoint(record)
            elif _RECOVERED in record:
                self._tell_recovery(sequence, record)
            if sequence == wanted or (wanted == -1 and hash_ == wanted_hash):
                self.found = Head(sequence, hash_.decode("ascii", "replace"))
            before, number = hash_, sequence
            self.records += 1
        if self.records:
            self.head = Head(number, before.decode("ascii", "replace"))

    def check_start(self) -> None:
        """Whether the first record follows from nothing, or from where a checkpoint says that older ones ended."""
        if self._start is None or self.first is None:
            return
        record, hash_ = self._start
        before = NOTHING if self.first == 1 else self._checkpoints.get(self.first - 1)
        if before is None:
            self._tell_missing(1, self.first - 1)
        elif linked(before, record) != hash_:
            self.tell("its text or its hash was altered, or what came before it", self.first)

    def check_kept(self, kept: Head, now: Head) -> None:
        """Whether the table ends where the kept head says; records may have come while we walked."""
        if self.head.sequence < kept.sequence:
            self._tell_missing(self.head.sequence + 1, kept.sequence)
        elif self.head.sequence > now.sequence:
            self.tell(f"the table goes on behind the kept head, which is record {now.sequence}", now.sequence + 1)
        elif self.head.sequence == now.sequence and self.head.hash != now.hash:
            self.tell("the last record is not the one that the kept head names", self.head.sequence)

    def check_wanted(self) -> None:
        """Whether the chain holds the record of a head that was kept elsewhere."""
        wanted = self._wanted
        if wanted is None or wanted == EMPTY:
            return
        if self.found is not None:
            if self.found.hash != wanted.hash:
                self.tell("it has another hash than the head that was given: the chain was made anew", wanted.sequence)
        elif self._is_checkpoint(wanted):
            return
        elif wanted.sequence == -1:
            self.tell("no record has the hash that was given")
        elif self.first is not None and wanted.sequence < self.first:
            self.tell("the head that was given can no longer be checked: its record is no longer kept", wanted.sequence)
        else:
            self.tell("the chain does not reach the head that was given", wanted.sequence)

    def _is_checkpoint(self, wanted: Head) -> bool:
        if wanted.sequence == -1:
            return wanted.hash in self._checkpoints.values()
        return self._checkpoints.get(wanted.sequence) == wanted.hash

    @property
    def removed(self) -> tuple[int, ...]:
        """The last numbers of what the retention has removed, as checkpoints say."""
        return tuple(sorted(self._checkpoints))

    def _tell_recovery(self, sequence: int, record: bytes) -> None:
        """Repeat what a writer found to be wrong before this record: nobody else remembers it."""
        tree = _tree(record)
        if tree.get("event") == RECOVERY and tree.get("alarm") and isinstance(tree.get("problems"), list):
            for problem in tree["problems"]:
                self.tell(f"before this record: {problem}", sequence)

    def _begin(self, sequence: int, hash_: bytes, record: bytes) -> None:
        self.first = sequence
        self._start = (record, hash_.decode("ascii", "replace"))

    def _tell_missing(self, first: int, last: int) -> None:
        if last < first:
            self.tell(f"record {first} stands where record {last + 1} should", first)
        elif first == last:
            self.tell("the record is missing", first)
        else:
            self.tell(f"the records {first} to {last} are missing", first)

    def _tell_other_number(self, sequence: int, record: bytes) -> None:
        inside = sequence_of(record)
        self.tell(f"the record says that it is number {inside}" if inside else "the record has no number", sequence)

    def note_checkpoint(self, record: bytes) -> None:
        """Remember where a record says that older ones ended."""
        tree = _tree(record)
        if tree.get("event") == CHECKPOINT and isinstance(tree.get("through"), int):
            self._checkpoints[tree["through"]] = str(tree.get("hash"))


def _tree(record: bytes) -> "dict[str, Any]":
    import json

    try:
        tree = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
