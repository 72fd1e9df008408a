"""What to make of a journal and a head that do not fit: who was killed, what was cut, where the chain goes on. Pure.

| what is found                              | what it means                          | what is done                  |
|--------------------------------------------|----------------------------------------|-------------------------------|
| a tail without a newline                   | its writer died before it answered     | cut it                        |
| records behind the head, following from it | a writer died before it wrote the head | they count                    |
| a head ahead of the journal and the table  | records were cut off, or lost          | go on from the head: it shows |
| lines that follow from nothing             | damage                                 | put them aside, and say so    |
| no head                                    | it was lost                            | take it from what there is    |
"""

from byleave.audit.chain import EMPTY, NO_TIME, Head, Line, follows, head_line, read_line, time_in_head, time_of
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Recovery(Record):
    """Where the chain goes on, how much of the journal stays, and what has to be said. `damaged`: keep a copy."""

    head: Head
    size: int
    problems: tuple[str, ...] = ()
    damaged: bool = False
    alarm: bool = False  # no accident of a writer explains it
    time: str = NO_TIME  # of the last record, if the journal holds it


def recover(content: bytes, kept: Head | None, table: Head | None, *, raw: bytes = b"") -> Recovery:
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


def journal_lines(content: bytes) -> "Iterator[tuple[Line | None, int]]":
    """Yield every whole line, None for one that is not ours, and the place where it ends."""
    start = 0
    while (end := content.find(b"\n", start)) >= 0:
        yield read_line(content[start:end]), end + 1
        start = end + 1


def _start(lines: "list[tuple[Line | None, int]]", kept: Head | None, table: Head | None) -> Head:
    """Return the furthest head that is known without the journal; without any, what its first record follows."""
    known = [head for head in (kept, table) if head is not None]
    if known:
        return max(known, key=lambda head: head.sequence)
    first = next((line for line, _end in lines if line is not None), None)
    return EMPTY if first is None or first.sequence == 1 else first.head


def _adopt(head: Head, lines: "list[tuple[Line | None, int]]") -> tuple[Head, int]:
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


def _is_torn(raw: bytes, start: Head, lines: "list[tuple[Line | None, int]]") -> bool:
    """Whether this is the head of the last record as far as its writer came, and the one before it from there on."""
    # The time of a record that has left the journal is not known here; the checksum covers the one that stands there.
    found = [(line.head, end, time_of(line.payload)) for line, end in lines if line is not None]
    states = [(start, 0, time_in_head(raw)), *found]
    if len(states) < 2 or not raw.isascii():
        return False
    old, new = (head_line(*state) for state in states[-2:])
    return len(raw) == len(new) and any(raw == new[:cut] + old[cut:] for cut in range(len(new)))


def _is_lost(kept: Head, lines: "list[tuple[Line | None, int]]", table: Head | None) -> bool:
    last = max((line.sequence for line, _end in lines if line is not None), default=0)
    return kept.sequence > max(last, table.sequence if table is not None else 0)
