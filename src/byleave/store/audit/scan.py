"""Read the records of a table from one end to the other, a bounded number at a time.

For what counts many records: the text of each is handed on as it is, to be decoded as far as it is needed. Where only
few of them matter, `holding` names what their text has to contain; that costs less than SQLite's own search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    Report = Callable[[int, int], object]  # how many of how many records are read

_STEP = 4000  # records that are in memory at once
_SOME = "SELECT sequence, record FROM records WHERE sequence >= ? ORDER BY sequence LIMIT ?"
_FIRST = "SELECT MIN(sequence) FROM records WHERE time >= ?"
_ENDS = "SELECT (SELECT MIN(sequence) FROM records), (SELECT MAX(sequence) FROM records)"


def scan(
    connection: sqlite3.Connection, *, since: str | None, holding: Sequence[str], report: Report | None
) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each record since a time, the oldest first.

    The clock may have been set meanwhile: the first of them says where to begin, and older ones may follow.
    """
    first, last = connection.execute(_ENDS).fetchone()
    start = first if since is None else connection.execute(_FIRST, (since,)).fetchone()[0]
    if start is None:
        return
    position = start
    while rows := connection.execute(_SOME, (position, _STEP)).fetchall():
        position = rows[-1][0] + 1
        if holding:
            found = {row[0]: row for mark in holding for row in rows if mark in row[1]}
            yield from (found[number] for number in sorted(found))
        else:
            yield from rows
        if report is not None:
            report(position - start, max(last, position) - start + 1)
