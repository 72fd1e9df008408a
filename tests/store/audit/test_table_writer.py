"""A journal that grows while it is folded: the next fold goes on from there, if both files are the same."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit_room import Room
from byleave.store.audit.journal import AuditJournal
from byleave.store.audit.table import open_table
from byleave.store.audit.table_writer import TableWriter

LOOKED_AT_AGAIN = "WHERE sequence BETWEEN"  # the query about lines that the table has already


class Fold:
    """A writer and its table; `statements` are what the last fold asked of SQLite."""

    def __init__(self, room: Room) -> None:
        self.journal = AuditJournal(str(room.directory), warnings=[])
        self._writer = TableWriter(self.journal, warnings=[], pruning=lambda _writer: None)
        self.append(3)
        self.connection = open_table(str(room.directory))
        self.statements: list[str] = []

    def append(self, count: int) -> None:
        for _ in range(count):
            self.journal.append('{"event":"x"}')

    def once(self, *, grows: bool = False) -> str:
        """Fold; `grows`: a record is appended while the table commits. Return all that was asked of SQLite."""

        def asked(statement: str) -> None:
            self.statements.append(statement)
            if grows and statement == "COMMIT":
                self.append(1)

        self.statements.clear()
        self.connection.set_trace_callback(asked)
        self._writer.move(self.connection)
        self.connection.set_trace_callback(None)
        return " ".join(self.statements)

    @property
    def numbers(self) -> list[int]:
        return [number for (number,) in self.connection.execute("SELECT sequence FROM records")]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "id")


@pytest.fixture
def fold(room: Room) -> Iterator[Fold]:
    made = Fold(room)
    yield made
    made.connection.close()
    made.journal.close()


def test_a_fold_does_not_read_again_what_the_one_before_has_moved(room: Room, fold: Fold) -> None:
    fold.once(grows=True)
    assert (fold.numbers, room.file("journal").stat().st_size > 0) == ([1, 2, 3], True)
    assert LOOKED_AT_AGAIN not in fold.once()
    assert (fold.numbers, room.file("journal").stat().st_size) == ([1, 2, 3, 4], 0)
    assert room.problems() == []


@pytest.mark.parametrize("change", ["DELETE FROM records", "DELETE FROM records WHERE sequence = 3"])
def test_records_that_a_table_has_lost_are_taken_from_the_journal_again(change: str, room: Room, fold: Fold) -> None:
    fold.once(grows=True)
    room.sql(change)
    fold.once()
    assert (fold.numbers, room.problems()) == ([1, 2, 3, 4], [])


def test_a_journal_that_another_process_has_emptied_is_read_from_its_beginning(room: Room, fold: Fold) -> None:
    fold.once(grows=True)
    room.log().fold()
    fold.append(5)  # as long as it was, and longer
    fold.once()
    assert (fold.numbers, room.file("journal").stat().st_size, room.problems()) == ([*range(1, 10)], 0, [])


def test_a_record_that_is_no_json_keeps_none_of_the_others_out_of_the_table(room: Room, fold: Fold) -> None:
    fold.journal.append('{"event":}')
    fold.append(2)
    with pytest.raises(sqlite3.OperationalError, match="malformed"):
        fold.connection.execute("SELECT json_extract('{\"event\":}', '$.event')")
    fold.once()
    assert fold.numbers == [1, 2, 3, 5, 6]
    assert len(list(room.directory.glob("*.damaged-1"))) == 1
