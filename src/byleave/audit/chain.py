"""The chain: every record is hashed together with the hash before it, so that none can change unseen.

    hash of record n = sha256(hash of record n-1, as hex, newline, the text of record n); before the first stand zeros

A line of the journal is the hash, a space and the text. The head is the last record's number and hash; its line has a
fixed width, names the size that the journal has with that record and the record's time, and ends with a checksum.
"""

from binascii import crc32

from byleave.private import digest
from byleave.record import Record

NOTHING = "0" * 64  # what the first record is chained to
CHECKPOINT, RECOVERY, RETENTION = "checkpoint", "recovery", "retention"
OWN_EVENTS = (CHECKPOINT, RECOVERY, RETENTION)  # that only the log itself writes
NO_TIME = "-" * 27  # as wide as the time of a record, and before all of them
HEAD_WIDTH = 144
_WIDTH_WITHOUT_TIME = 116  # of a head that an older byleave wrote
_HEX = b"0123456789abcdef"
_START = b'{"sequence":'
_MOST_DIGITS = 18  # SQLite counts with 64 bits


class Head(Record):
    """Where a chain ends: the number and the hash of its last record."""

    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"


EMPTY = Head(0, NOTHING)


class Line(Record):
    """One line of the journal as it stands there; its hash may or may not be right."""

    sequence: int
    hash: str
    payload: bytes

    @property
    def head(self) -> Head:
        return Head(self.sequence, self.hash)


def linked(before: str, payload: bytes) -> str:
    """Return the hash of a record whose predecessor has the hash `before`."""
    return _digest(b"%b\n%b" % (before.encode(), payload))


def load_fast_hash() -> None:
    """Use OpenSSL's hash from now on: slow to load, then four times as fast. For processes that stay."""
    from hashlib import sha256

    global _digest  # noqa: PLW0603 -- both compute the same
    _digest = lambda content: sha256(content).hexdigest()  # noqa: E731 -- a name for it is what follows


_digest = digest


def follows(head: Head, line: Line) -> bool:
    """Whether this very line comes next in the chain."""
    return line.sequence == head.sequence + 1 and linked(head.hash, line.payload) == line.hash


def read_line(raw: bytes) -> Line | None:
    """Return a line of the journal, without its newline; None if it cannot be one of ours."""
    hash_, space, payload = raw[:64], raw[64:65], raw[65:]
    sequence = sequence_of(payload)
    if space != b" " or not is_hash(hash_) or sequence is None or not payload.endswith(b"}"):
        return None
    if not payload.isascii() or b"\0" in payload:
        return None
    return Line(sequence, hash_.decode(), payload)


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


def head_line(head: Head, size: int, time: str = NO_TIME) -> bytes:
    """Return the head as it is kept, beside the size that the journal has with it and the time of its record."""
    line = b"%020d %b %020d %b" % (head.sequence, head.hash.encode(), size, time.encode())
    return b"%b %08x\n" % (line, crc32(line))


def time_in_head(raw: bytes) -> str:
    """Return what stands where a head has the time of its record."""
    return raw[-len(NO_TIME) - 10 : -10].decode("ascii", "replace")


def read_head_line(raw: bytes) -> tuple[Head, int, str] | None:
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
    return Head(int(sequence), hash_.decode()), int(size), time.decode()


def read_head(text: str) -> Head | None:
    """Return the head that somebody kept, as `SEQUENCE:HASH`; a hash alone has -1 for its number."""
    sequence, colon, hash_ = text.strip().rpartition(":")
    hash_ = hash_.lower()
    if not is_hash(hash_.encode("utf-8", "replace")):
        return None
    if not colon:
        return Head(-1, hash_)
    known = sequence.isascii() and sequence.isdigit() and len(sequence) <= _MOST_DIGITS
    return Head(int(sequence), hash_) if known else None


def is_hash(raw: bytes) -> bool:
    """Whether this is a SHA-256 as it is written here: 64 lower-case hex digits."""
    return len(raw) == 64 and not raw.translate(None, _HEX)
