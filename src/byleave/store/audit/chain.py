"""The chain: every record is hashed together with the hash before it, so that none can change unseen.

    hash of record n = sha256(hash of record n-1, as hex, newline, the text of record n); before the first stand zeros

A line of the journal is the hash, a space and the text. The head is the last record's number and hash; its line has a
fixed width, names the size that the journal has with that record and the record's time, and ends with a checksum.

Where a journal and its head do not fit, `recover` decides where the chain goes on. Nothing here does input or output.

| what is found                              | what it means                          | what is done                  |
|--------------------------------------------|----------------------------------------|-------------------------------|
| a tail without a newline                   | its writer died before it answered     | cut it                        |
| records behind the head, following from it | a writer died before it wrote the head | they count                    |
| a head ahead of the journal and the table  | records were cut off, or lost          | go on from the head: it shows |
| lines that follow from nothing             | damage                                 | keep them apart, and say so   |
| no head                                    | it was lost                            | take it from what there is    |
"""

from __future__ import annotations

from binascii import crc32
from typing import TYPE_CHECKING

from byleave.record import Record
from byleave.user_files import digest

TABLE = "audit.db"  # the file that the journal is folded into
if TYPE_CHECKING:
    from collections.abc import Iterator


NOTHING = "0" * 64  # what the first record is chained to
CHECKPOINT, RECOVERY, RETENTION = "checkpoint", "recovery", "retention"
OWN_EVENTS = (CHECKPOINT, RECOVERY, RETENTION)  # that only the log itself writes
NO_TIME = "-" * 27  # as wide as the time of a record, and before all of them
HEAD_WIDTH = 144
_WIDTH_WITHOUT_TIME = 116  # of a head that an older byleave wrote
_HEX = b"0123456789abcdef"
_START = b'{"sequence":'
_MOST_DIGITS = 18  # SQLite counts with 64 bits


class ChainHead(Record):
    """Where a chain ends: the number and the hash of its last record."""

    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"


EMPTY = ChainHead(0, NOTHING)


class JournalLine(Record):
    """One line of the journal as it stands there; its hash may or may not be right."""

    sequence: int
    hash: str
    payload: bytes

    @property
    def head(self) -> ChainHead:
        return ChainHead(self.sequence, self.hash)


def linked(before: str, payload: bytes) -> str:
    """Return the hash of a record whose predecessor has the hash `before`."""
    return _digest(b"%b\n%b" % (before.encode(), payload))


def load_fast_hash() -> None:
    """Use OpenSSL's hash from now on: slow to load, then four times as fast. For processes that stay."""
    from hashlib import sha256  # heavy: loads OpenSSL

    global _digest  # noqa: PLW0603 -- both compute the same
    _digest = lambda content: sha256(content).hexdigest()  # noqa: E731 -- a name for it is what follows


_digest = digest


def follows(head: ChainHead, line: JournalLine) -> bool:
    """Whether this very line comes next in the chain."""
    return line.sequence == head.sequence + 1 and linked(head.hash, line.payload) == line.hash


def read_line(raw: bytes) -> JournalLine | None:
    """Return a line of the journal, without its newline; None if it cannot be one of ours."""
    hash_, space, payload = raw[:64], raw[64:65], raw[65:]
    sequence = sequence_of(payload)
    if space != b" " or not is_hash(hash_) or sequence is None or not payload.endswith(b"}"):
        return None
    if not payload.isascii() or b"\0" in payload:
        return None
    return JournalLine(sequence, hash_.decode(), payload)


def sequence_of(payload: bytes) -> int | None:
    """Return the number that a record gives itself: it is always its first member."""
    if not payload.startswith(_START):
        return None
    digits = payload[len(_START) : len(_START) + _MOST_DIGITS + 1].partition(b",")[0]
    if not digits.isdigit() or len(digits) > _MOST_DIGITS or digits.startswith(b"0"):
        return None
    return int(digits)


def time_of(payload: bytes) -> str:
    """Return the time of a record as it stands in it: always its second member."""
    mark = b',"time":"'
    at = payload.find(mark, 0, len(_START) + _MOST_DIGITS + len(mark)) + len(mark)
    found = payload[at : at + len(NO_TIME)]
    return found.decode() if at >= len(mark) and len(found) == len(NO_TIME) and found.endswith(b"Z") else NO_TIME


def head_line(head: ChainHead, size: int, time: str = NO_TIME) -> bytes:
    """Return the head as it is kept, beside the size that the journal has with it and the time of its record."""
    line = b"%020d %b %020d %b" % (head.sequence, head.hash.encode(), size, time.encode())
    return b"%b %08x\n" % (line, crc32(line))


def time_in_head(raw: bytes) -> str:
    """Return what stands where a head has the time of its record."""
    return raw[-len(NO_TIME) - 10 : -10].decode("ascii", "replace")


def read_head_line(raw: bytes) -> tuple[ChainHead, int, str] | None:
    """Return the kept head, the size of the journal and the time of the last record, None if this is no head."""
    line, checksum = raw[:-10], raw[-10:]
    words = line.split(b" ")
    if len(raw) == _WIDTH_WITHOUT_TIME:
        words.append(NO_TIME.encode())
    elif len(raw) != HEAD_WIDTH:
        return None
    if checksum != b" %08x\n" % crc32(line) or len(words) != 4 or not words[3].isascii():
        return None
    sequence, hash_, size, time = words
    if not sequence.isdigit() or not size.isdigit() or not is_hash(hash_):
        return None
    return ChainHead(int(sequence), hash_.decode()), int(size), time.decode()


def read_head(text: str) -> ChainHead | None:
    """Return a head that the user kept, from `SEQUENCE:HASH`; a hash alone has -1 for its number."""
    sequence, colon, hash_ = text.strip().rpartition(":")
    hash_ = hash_.lower()
    if not is_hash(hash_.encode("utf-8", "replace")):
        return None
    if not colon:
        return ChainHead(-1, hash_)
    known = sequence.isascii() and sequence.isdigit() and len(sequence) <= _MOST_DIGITS
    return ChainHead(int(sequence), hash_) if known else None


def is_hash(raw: bytes) -> bool:
    """Whether this is a SHA-256 as it is written here: 64 lower-case hex digits."""
    return len(raw) == 64 and not raw.translate(None, _HEX)


class Recovery(Record):
    """Where the chain goes on, how much of the journal stays, and what has to be said. `damaged`: keep a copy."""

    head: ChainHead
    size: int
    problems: tuple[str, ...] = ()
    damaged: bool = False
    alarm: bool = False  # no accident of a writer explains it
    time: str = NO_TIME  # of the last record, if the journal holds it


def recover(content: bytes, kept: ChainHead | None, table: ChainHead | None, *, raw: bytes = b"") -> Recovery:
    """Return how the chain goes on, from the journal's content, the kept head and the table's last record.

    `raw` is the head as it stands there. One that cannot be read is no accident, unless a writer died at it.
    """
    whole = content.rfind(b"\n") + 1
    lines = list(journal_lines(content[:whole]))
    start = _start(lines, kept, table)
    head, size = _adopt(start, lines)
    problems = []
    if kept is None and (lines or table is not None):
        problems.append(f"the kept head was missing or damaged; the chain goes on from record {head.sequence}")
    if size < whole:
        problems.append(f"{whole - size} bytes of the journal are no records that follow from {start.sequence}")
    if kept is not None and _is_lost(kept, lines, table):
        problems.append(f"records up to {kept.sequence} were written and are no longer there")
    alarm = kept is None and bool(problems) and not _is_torn(raw, start, lines)
    time = next((time_of(line.payload) for line, _end in lines if line is not None and line.head == head), NO_TIME)
    return Recovery(head, size, tuple(problems), damaged=size < whole, alarm=alarm, time=time)


def journal_lines(content: bytes) -> Iterator[tuple[JournalLine | None, int]]:
    """Yield every whole line, None for one that is not ours, and the place where it ends."""
    start = 0
    while (end := content.find(b"\n", start)) >= 0:
        yield read_line(content[start:end]), end + 1
        start = end + 1


def _start(lines: list[tuple[JournalLine | None, int]], kept: ChainHead | None, table: ChainHead | None) -> ChainHead:
    """Return the furthest head that is known without the journal; without any, what its first record follows."""
    known = [head for head in (kept, table) if head is not None]
    if known:
        return max(known, key=lambda head: head.sequence)
    first = next((line for line, _end in lines if line is not None), None)
    return EMPTY if first is None or first.sequence == 1 else first.head


def _adopt(head: ChainHead, lines: list[tuple[JournalLine | None, int]]) -> tuple[ChainHead, int]:
    """Return the head after the lines that follow from it, and the end of the last line that counts."""
    size = 0
    for line, end in lines:
        if line is None:
            continue
        if line.sequence <= head.sequence:
            size = end
        elif follows(head, line):
            head, size = line.head, end
    return head, size


def _is_torn(raw: bytes, start: ChainHead, lines: list[tuple[JournalLine | None, int]]) -> bool:
    """Whether this is the head of the last record as far as its writer came, and an earlier one from there on.

    Records that were written together have one head, so the earlier one need not be that of the record before.
    """
    # The time of a record that has left the journal is not known here; the checksum covers the one that stands there.
    found = [(line.head, end, time_of(line.payload)) for line, end in lines if line is not None]
    states = [(start, 0, time_in_head(raw)), *found]
    if len(states) < 2 or not raw.isascii():
        return False
    new = head_line(*states[-1])
    same = next((at for at, pair in enumerate(zip(raw, new, strict=False)) if pair[0] != pair[1]), len(new))
    return len(raw) == len(new) and any(raw[same:] == head_line(*state)[same:] for state in states[:-1])


def _is_lost(kept: ChainHead, lines: list[tuple[JournalLine | None, int]], table: ChainHead | None) -> bool:
    last = max((line.sequence for line, _end in lines if line is not None), default=0)
    return kept.sequence > max(last, table.sequence if table is not None else 0)
