"""The chain finds every change, and a head that was kept elsewhere finds a chain that was made anew."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_room import Room, fields
from byleave.errors import StateError
from byleave.store.audit.chain import EMPTY, NOTHING, ChainHead, head_line, linked, read_head
from byleave.store.audit.query import Filter

COUNT = 6


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "id")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """A log that tests copy before they change it."""
    room = Room(tmp_path_factory.mktemp("original") / "id")
    room.filled(COUNT)
    room.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return room


def copy_of(original: Room, place: Path) -> Room:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(original.directory, place)
    return Room(place)


def alter(room: Room, number: int, column: str, at: int, bit: int) -> None:
    """Flip one bit of a record's text or hash, where it lies in the file: no index hears of it."""
    connection = sqlite3.connect(room.file("db"))
    (value,) = connection.execute(f"SELECT CAST({column} AS BLOB) FROM records WHERE sequence = {number}").fetchone()  # noqa: S608
    connection.close()
    content = bytearray(room.file("db").read_bytes())
    content[content.index(value) + at % len(value)] ^= 1 << bit
    room.file("db").write_bytes(content)


@given(
    number=st.integers(1, COUNT),
    column=st.sampled_from(["hash", "record"]),
    at=st.integers(0, 9999),
    bit=st.integers(0, 7),
)
def test_any_flipped_bit_of_a_text_or_a_hash_is_found(
    original: Room, tmp_path_factory: pytest.TempPathFactory, *, number: int, column: str, at: int, bit: int
) -> None:
    room = copy_of(original, tmp_path_factory.getbasetemp() / "flipped")
    assert room.log().verify().ok
    alter(room, number, column, at, bit)
    assert not room.log().verify().ok


@given(at=st.integers(0, 10_000_000), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_in_the_file_is_never_a_crash_and_never_changes_a_record_unseen(
    original: Room, tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    room = copy_of(original, tmp_path_factory.getbasetemp() / "anywhere")
    records = [kept.text for kept in room.log().query(Filter())]
    content = bytearray(room.file("db").read_bytes())
    content[at % len(content)] ^= 1 << bit
    room.file("db").write_bytes(content)
    found = room.log().verify()
    if found.ok:
        assert [kept.text for kept in room.log().query(Filter())] == records


@given(at=st.integers(0, 100_000), bit=st.integers(0, 7))
def test_a_flipped_bit_of_the_journal_is_found_after_the_fold(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    place = tmp_path_factory.getbasetemp() / "journal"
    shutil.rmtree(place, ignore_errors=True)
    room = Room(place)
    log = room.log()
    for number in range(3):
        log.append(fields(number))
    content = bytearray(room.file("journal").read_bytes())
    content[at % len(content)] ^= 1 << bit
    room.file("journal").write_bytes(content)
    assert room.problems() != []
    assert room.log().append(fields()) > 3
    assert room.problems() != []


CHANGES: dict[str, list[str]] = {
    "a deleted record": ["DELETE FROM records WHERE sequence = 3"],
    "a deleted first record": ["DELETE FROM records WHERE sequence = 1"],
    "a deleted last record": ["DELETE FROM records WHERE sequence = 6"],
    "all deleted": ["DELETE FROM records"],
    "swapped records": [
        "UPDATE records SET sequence = 99 WHERE sequence = 2",
        "UPDATE records SET sequence = 2 WHERE sequence = 3",
        "UPDATE records SET sequence = 3 WHERE sequence = 99",
    ],
    "an inserted record": ["INSERT INTO records (sequence, hash, record) SELECT 0, hash, record FROM records LIMIT 1"],
    "an appended record": [
        'INSERT INTO records (sequence, hash, record) VALUES (7, "x", \'{"sequence":7,"time":"x"}\')'
    ],
    "an altered decision": ["UPDATE records SET record = replace(record, 'deny', 'allow') || ' ' WHERE sequence = 2"],
    "a copied record": [
        "UPDATE records SET record = (SELECT record FROM records WHERE sequence = 1) WHERE sequence = 2"
    ],
    "a blob": ["UPDATE records SET record = CAST(record AS BLOB) WHERE sequence = 2"],
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"],
    "no table": ["DROP TABLE records"],
    "another table": ["ALTER TABLE records RENAME TO hidden", "CREATE VIEW records AS SELECT * FROM hidden"],
}


@pytest.mark.parametrize("statements", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_behind_our_back_is_found(statements: list[str], original: Room, tmp_path: Path) -> None:
    room = copy_of(original, tmp_path / "changed")
    room.sql(*statements)
    assert not room.log().verify().ok


def make_anew(room: Room) -> None:
    """Do what somebody with the user's rights can do: change a record, and compute the rest of the chain again."""
    connection = sqlite3.connect(room.file("db"))
    before = NOTHING
    for sequence, record in connection.execute("SELECT sequence, record FROM records ORDER BY sequence").fetchall():
        changed = record.replace("about 2", "about nothing")
        before = linked(before, changed.encode())
        connection.execute("UPDATE records SET record = ?, hash = ? WHERE sequence = ?", (changed, before, sequence))
    connection.commit()
    connection.close()
    room.file("head").write_bytes(head_line(ChainHead(sequence, before), 0))
    room.log().append(fields())


def test_a_chain_that_was_made_anew_is_found_by_a_head_kept_elsewhere(original: Room, tmp_path: Path) -> None:
    room = copy_of(original, tmp_path / "anew")
    kept = room.log().head()
    assert room.log().verify(kept).ok
    make_anew(room)
    assert room.log().verify().ok
    assert [one.problem for one in room.log().verify(kept).problems] == [
        "it has another hash than the head that was given: the chain was made anew"
    ]
    assert not room.log().verify(ChainHead(-1, kept.hash)).ok


def test_a_head_from_elsewhere_may_be_an_older_one(room: Room) -> None:
    log = room.filled(3)
    older = log.head()
    log.append(fields())
    assert [log.verify(head).ok for head in (older, ChainHead(-1, older.hash), EMPTY, log.head())] == [True] * 4
    assert not log.verify(ChainHead(9, older.hash)).ok
    assert not log.verify(ChainHead(2, older.hash)).ok


def test_a_cut_tail_is_found_by_the_kept_head(original: Room, tmp_path: Path) -> None:
    room = copy_of(original, tmp_path / "cut")
    room.sql("DELETE FROM records WHERE sequence >= 5")
    assert room.problems() == ["the records 5 to 6 are missing"]
    room.log().append(fields())
    assert "the records 5 to 6 are missing" in room.problems()


def test_a_table_that_was_removed_is_missed(original: Room, tmp_path: Path) -> None:
    room = copy_of(original, tmp_path / "removed")
    room.file("db").unlink()
    assert "the records 1 to 6 are missing" in room.problems()


def test_at_most_twenty_problems_are_told(room: Room) -> None:
    room.filled(100)
    room.sql("UPDATE records SET hash = 'x'")
    found = room.log().verify()
    assert (found.ok, len(found.problems), found.records) == (False, 20, 100)


HEADS: list[tuple[str, ChainHead | None]] = [
    (f"5:{'a' * 64}", ChainHead(5, "a" * 64)),
    (f" 5:{'A' * 64}\n", ChainHead(5, "a" * 64)),
    ("b" * 64, ChainHead(-1, "b" * 64)),
    (f"0:{NOTHING}", EMPTY),
    (f"-5:{'a' * 64}", None),
    ("5", None),
    ("5:", None),
    (f"5:{'g' * 64}", None),
    (f"\u0665:{'a' * 64}", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expect"), HEADS)
def test_a_head_is_read_as_it_was_printed(text: str, expect: ChainHead | None) -> None:
    assert read_head(text) == expect


def doctor(room: Room) -> list[str]:
    """Return what `doctor` would say about this log."""
    try:
        return room.log().doubts()
    except StateError as error:
        return [error.problem]


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "a blob"])
def test_doctor_finds_most_changes_by_itself(name: str, original: Room, tmp_path: Path) -> None:
    room = copy_of(original, tmp_path / "changed")
    assert doctor(room) == []
    room.sql(*CHANGES[name])
    assert doctor(room) != []


@pytest.mark.parametrize(
    "made", ["TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END", "VIEW t AS SELECT 1"]
)
def test_no_record_goes_to_a_table_with_a_trigger_or_a_view_in_it(made: str, room: Room) -> None:
    room.filled(3)
    room.sql(f"CREATE {made}")
    log = room.log()
    log.append(fields())
    with pytest.raises(StateError, match='"t" in it is none of ours'):
        log.fold()
    assert (room.numbers(), room.log().head().sequence) == ([1, 2, 3], 4)
    room.sql(f"DROP {made.partition(' ')[0]} t")
    assert (room.problems(), room.numbers()) == ([], [1, 2, 3, 4])


def test_doctor_remembers_what_a_verification_found(room: Room) -> None:
    room.filled(1000)
    altered = "UPDATE records SET record = replace(record, 'about 50', 'about 05') WHERE sequence = 501"
    room.sql(altered)
    assert doctor(room) == []  # it is neither at the beginning nor at the end
    assert room.problems() != []
    assert "`byleave audit verify` found at" in doctor(room)[0]
    room.sql(altered.replace("'about 50', 'about 05'", "'about 05', 'about 50'"))
    assert (room.problems(), doctor(room)) == ([], [])


def test_what_a_head_contradicted_is_remembered_until_one_agrees(original: Room, tmp_path: Path) -> None:
    room = copy_of(original, tmp_path / "anew")
    kept = room.log().head()
    make_anew(room)
    assert not room.log().verify(kept).ok
    assert room.log().verify().ok
    assert "the chain was made anew" in doctor(room)[0]
    assert room.log().verify(room.log().head()).ok
    assert doctor(room) == []


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"time": 3}', '{"time":"","records":0,"problems":"","contradicted":[]}']
)
def test_a_damaged_memory_of_what_was_found_is_a_finding(content: str, room: Room) -> None:
    room.filled(2)
    assert room.problems() == []
    room.file("verified").write_text(content)
    assert (len(doctor(room)), room.problems(), doctor(room)) == (1, [], [])
