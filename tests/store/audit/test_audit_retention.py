"""The oldest records go, the chain explains it, and neither a clock nor a forged record removes anything by itself."""

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit_room import DAY, START, Room, acknowledged, appender, fields
from byleave.errors import StateError
from byleave.store.audit.chain import ChainHead, head_line, linked
from byleave.store.audit.log import AuditLog
from byleave.store.audit.query import Filter
from byleave.store.audit.retention import Retention

SECOND = 10**9
HOUR = 3600 * SECOND
TWO_DAYS = Retention(days=2, megabytes=None)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "id")


@dataclass
class Clock:
    """A wall clock that can be set, and the time since the machine was started, which cannot."""

    wall: int = START
    up: int = 1000 * SECOND
    boot: str = "one"

    def now(self) -> int:
        return self.wall

    def since_start(self) -> tuple[str, float]:
        return self.boot, self.up / SECOND

    def goes_on(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.up += nanoseconds


def opened(room: Room, clock: Clock, retention: Retention | None = None) -> AuditLog:
    return room.log(now=clock.now, up=clock.since_start, retention=retention)


def look(room: Room, clock: Clock, retention: Retention = TWO_DAYS) -> None:
    """Have a new process append a record and fold, as the child of a hook does."""
    log = opened(room, clock, retention)
    log.append(fields())
    log.fold()
    log.close()


def with_old_records(room: Room, clock: Clock, count: int = 20) -> None:
    log = opened(room, clock)
    for number in range(count):
        log.append(fields(number))
    log.fold()
    clock.goes_on(5 * DAY)


def pruned(room: Room, clock: Clock) -> None:
    """Have the retention remove twenty old records, in two looks a day apart."""
    with_old_records(room, clock)
    look(room, clock)
    clock.goes_on(DAY + HOUR)
    look(room, clock)


def own(room: Room) -> list[dict[str, Any]]:
    kept = room.log().query(Filter())
    return [each.tree for each in kept if each.tree["event"] in ("retention", "checkpoint")]


def problems(room: Room, clock: Clock, head: ChainHead | None = None) -> list[str]:
    return [one.problem for one in opened(room, clock).verify(head).problems]


def test_old_records_go_after_two_looks_and_the_chain_says_what_went(room: Room) -> None:
    clock = Clock()
    with_old_records(room, clock)
    look(room, clock)
    assert room.numbers() == list(range(1, 23))  # announced, and all still there
    clock.goes_on(DAY - HOUR)
    look(room, clock)
    assert room.numbers()[0] == 1
    clock.goes_on(2 * HOUR)
    look(room, clock)
    announced, confirmed = own(room)
    assert {key: announced[key] for key in ("event", "first", "last", "records", "why", "limit")} == {
        "event": "retention",
        "first": 1,
        "last": 20,
        "records": 20,
        "why": "age",
        "limit": 2,
    }
    assert {key: confirmed[key] for key in ("event", "through", "records", "why", "of")} == {
        "event": "checkpoint",
        "through": 20,
        "records": 20,
        "why": "age",
        "of": announced["sequence"],
    }
    assert announced["hash"] == confirmed["hash"]
    assert (room.numbers()[0], problems(room, clock)) == (21, [])
    found = opened(room, clock).verify().tree
    assert found["removed"] == [20]
    assert found["retention"] == [
        {
            "first": 1,
            "last": 20,
            "records": 20,
            "why": "age",
            "limit": 2,
            "announced": 22,
            "confirmed": confirmed["sequence"],
        }
    ]


def test_a_head_whose_record_the_retention_removed_proves_nothing(room: Room) -> None:
    clock = Clock()
    with_old_records(room, clock)
    last, young = opened(room, clock).head(), ChainHead(7, "a" * 64)
    look(room, clock)
    kept = opened(room, clock).head()
    clock.goes_on(DAY + HOUR)
    look(room, clock)
    said = "the head that was given can no longer be checked: its record is gone; record 22 says that the retention"
    for head in (last, young):
        (told,) = problems(room, clock, head)
        assert told.startswith(said)
    (told,) = problems(room, clock, ChainHead(20, "a" * 64))
    assert "names another hash for it: the chain was made anew" in told
    assert problems(room, clock, kept) == []


def test_what_is_gone_without_being_announced_is_missing(room: Room) -> None:
    clock = Clock()
    pruned(room, clock)
    room.sql("DELETE FROM records WHERE sequence = 21")
    assert problems(room, clock) != []


JUMPS = {
    "to 2099 for a minute": (2_200_000_000 * SECOND, 60 * SECOND),
    "a hundred days ahead for an hour": (START + 100 * DAY, HOUR),
    "ten days ahead for most of a day": (START + 15 * DAY, DAY - HOUR),
}


@pytest.mark.parametrize(("wall", "lasts"), JUMPS.values(), ids=JUMPS.keys())
def test_a_clock_that_jumps_ahead_for_a_while_erases_nothing(wall: int, lasts: int, room: Room) -> None:
    clock = Clock()
    look(room, clock)
    right = clock.wall
    clock.wall = wall
    for _ in range(6):
        look(room, clock)
        clock.goes_on(lasts // 6)
    clock.wall = right + lasts
    for _ in range(30):
        look(room, clock)
        clock.goes_on(HOUR)
    assert (room.numbers()[0], problems(room, clock)) == (1, [])


def test_a_clock_that_is_set_from_day_to_day_erases_nothing(room: Room) -> None:
    clock = Clock()
    look(room, clock)
    for _ in range(20):
        clock.wall += 3 * DAY  # set, while the machine has been up for a minute
        clock.up += 60 * SECOND
        look(room, clock)
    assert room.numbers()[0] == 1


def test_a_clock_that_stays_wrong_takes_a_tenth_a_day_at_most(room: Room) -> None:
    clock = Clock()
    with_old_records(room, clock, 12_000)
    clock.wall += 3000 * DAY
    look(room, clock)
    clock.goes_on(DAY + HOUR)
    look(room, clock)
    assert room.numbers()[0] == 1201
    assert problems(room, clock) == []


def test_a_clock_that_is_set_back_keeps_the_records_in_order(room: Room) -> None:
    clock = Clock()
    log = opened(room, clock, TWO_DAYS)
    log.append(fields(0))
    for number, back in enumerate((SECOND, 600 * SECOND, HOUR // 2)):
        clock.wall -= back // 3
        (log if number % 2 else opened(room, clock)).append(fields(number))
    kept = [each.tree["time"] for each in room.log().query(Filter())]
    assert (kept, room.numbers()) == (sorted(kept), [1, 2, 3, 4])
    clock.wall = START - 400 * DAY
    look(room, clock)
    clock.goes_on(2 * DAY)
    look(room, clock)
    assert room.numbers() == [1, 2, 3, 4, 5, 6]
    assert problems(room, Clock(START)) == []


def test_a_time_that_is_still_to_come_keeps_nothing_from_being_removed(room: Room) -> None:
    clock = Clock(START + 900 * DAY)
    opened(room, clock).append(fields())
    clock.wall = START
    pruned(room, clock)
    assert room.numbers()[0] == 22
    assert problems(room, clock) == []


def test_a_machine_that_was_started_anew_still_removes_what_is_old(room: Room) -> None:
    clock = Clock()
    with_old_records(room, clock)
    look(room, clock)
    clock.goes_on(DAY + HOUR)
    clock.boot, clock.up = "two", 5 * SECOND
    look(room, clock)
    assert room.numbers()[0] == 21


def test_a_log_that_is_too_large_loses_its_oldest_records_and_shrinks(room: Room) -> None:
    log = room.log(retention=Retention(days=None, megabytes=1))
    for number in range(2000):
        log.append(fields(number, more="x" * 1000))
    log.fold()
    room.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    assert room.file("db").stat().st_size < 1.1 * (1 << 20)
    found = room.log().verify()
    assert (found.ok, found.records < 1000, found.last) == (True, True, 2002)


def test_nothing_goes_if_it_is_to_stay_for_ever(room: Room) -> None:
    clock = Clock()
    with_old_records(room, clock)
    for _ in range(3):
        look(room, clock, Retention(days=None, megabytes=None))
        clock.goes_on(2 * DAY)
    found: dict[str, Any] = json.loads(json.dumps(opened(room, clock).verify().tree))
    assert (found["ok"], found["records"], found["first"]) == (True, 23, 1)


def forge(room: Room, *records: dict[str, Any], through: int) -> None:
    """Do what somebody with the user's rights can do: append records, remove older ones, write a head that fits."""
    connection = sqlite3.connect(room.file("db"))
    sequence, before = connection.execute("SELECT sequence, hash FROM records ORDER BY 1 DESC LIMIT 1").fetchone()
    (hash_,) = connection.execute("SELECT hash FROM records WHERE sequence = ?", (through,)).fetchone()
    first = sequence
    for record in records:
        sequence += 1
        filled = {key: {"HASH": hash_, "FIRST": first + 1}.get(str(value), value) for key, value in record.items()}
        text = json.dumps({"sequence": sequence, **filled}, separators=(",", ":"))
        before = linked(before, text.encode())
        connection.execute("INSERT INTO records (sequence, hash, record) VALUES (?, ?, ?)", (sequence, before, text))
    connection.execute("DELETE FROM records WHERE sequence <= ?", (through,))
    connection.commit()
    connection.close()
    room.file("head").write_bytes(head_line(ChainHead(sequence, before), 0))


def at(days: float) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(START // SECOND + days * 86_400))


CHECKPOINT = {"time": at(4), "event": "checkpoint", "through": 5, "hash": "HASH", "records": 5, "why": "age"}
ANNOUNCED = {
    "time": at(2.5),
    "event": "retention",
    "first": 1,
    "last": 5,
    "records": 5,
    "hash": "HASH",
    "newest": at(0),
    "why": "age",
    "limit": 2,
    "boot": "",
    "up": 0,
}
CONFIRMED = {**CHECKPOINT, "of": "FIRST"}
FORGERIES: dict[str, list[dict[str, Any]]] = {
    "a checkpoint alone": [CHECKPOINT],
    "a checkpoint that names no record": [{**CHECKPOINT, "of": 3}],
    "a checkpoint that confirms itself": [CONFIRMED],
    "an announcement alone": [ANNOUNCED],
    "confirmed at once": [ANNOUNCED, {**CONFIRMED, "time": at(2.6)}],
    "from a time to come": [{**ANNOUNCED, "time": at(100)}, {**CONFIRMED, "time": at(102)}],
    "young records": [{**ANNOUNCED, "newest": at(1)}, CONFIRMED],
    "another count": [{**ANNOUNCED, "records": 4}, {**CONFIRMED, "records": 4}],
    "another reason": [{**ANNOUNCED, "why": "taste"}, {**CONFIRMED, "why": "taste"}],
    "a size that was never there": [
        {**ANNOUNCED, "why": "size", "limit": 1},
        {**CONFIRMED, "why": "size", "time": at(2.6)},
    ],
    "a size that cannot be set": [
        {**ANNOUNCED, "why": "size", "limit": 0.000001},
        {**CONFIRMED, "why": "size", "time": at(2.6)},
    ],
    "an age that cannot be set": [{**ANNOUNCED, "newest": at(2.4), "limit": 0.01}, CONFIRMED],
    "a limit without end": [{**ANNOUNCED, "limit": 10**400}, CONFIRMED],
    "a machine that has been up for ever": [{**ANNOUNCED, "up": 10**400}, CONFIRMED],
    "a hash that is no text": [{**ANNOUNCED, "hash": "\ud800"}, {**CONFIRMED, "hash": "\ud800"}],
    "no limit": [{**ANNOUNCED, "limit": None}, CONFIRMED],
    "numbers as text": [{**ANNOUNCED, "last": "5"}, {**CONFIRMED, "through": "5"}],
}


@pytest.mark.parametrize("records", FORGERIES.values(), ids=FORGERIES.keys())
@pytest.mark.parametrize("head", ["none", "removed", "kept"])
def test_a_forged_removal_is_found(records: list[dict[str, Any]], head: str, room: Room) -> None:
    clock = Clock()
    log = opened(room, clock)
    heads: dict[str, ChainHead | None] = {"none": None}
    for number in range(10):
        log.append(fields(number))
        heads["removed" if number < 5 else "kept"] = log.head()
    log.fold()
    log.close()
    forge(room, *records, through=5)
    clock.goes_on(5 * DAY)
    assert problems(room, clock, heads[head]) != []


def test_a_log_that_an_older_version_pruned_is_broken_and_says_why(room: Room) -> None:
    clock = Clock()
    log = opened(room, clock)
    for number in range(10):
        log.append(fields(number))
    log.fold()
    log.close()
    forge(room, CHECKPOINT, through=5)
    missing, why = problems(room, clock)
    assert missing == "the records 1 to 5 are missing"
    assert why.startswith("an older byleave says here that its retention removed the records up to 5: that may be so")
    room.sql("DELETE FROM records WHERE sequence = 6")
    assert problems(room, clock) == ["the records 1 to 6 are missing"]  # it does not speak of these


def test_a_removal_forged_within_a_day_of_a_kept_head_is_always_found(room: Room) -> None:
    clock = Clock(START + 3 * DAY)
    log = opened(room, clock)
    for number in range(10):
        log.append(fields(number))
    log.fold()
    kept = log.head()
    log.close()
    forge(room, ANNOUNCED, CONFIRMED, through=5)  # as well forged as can be, on the fourth day
    clock.goes_on(DAY - HOUR)
    assert problems(room, Clock(START + 5 * DAY)) == []  # without a head nothing is wrong with it
    assert "it is older than the record of the head that was given, which it follows" in problems(room, clock, kept)
    assert problems(room, clock, ChainHead(5, "a" * 64)) != []


def test_a_head_that_is_gone_is_never_explained_by_a_forger(room: Room) -> None:
    clock = Clock()
    log = opened(room, clock)
    for number in range(6):
        log.append(fields(number))
        if number == 4:
            kept = log.head()
    log.fold()
    log.close()
    forge(room, ANNOUNCED, CONFIRMED, through=5)
    clock.goes_on(30 * DAY)
    assert problems(room, clock, kept) != []


KILLED = """
import signal
from byleave.store.audit import retention
from byleave.store.audit.retention import Retention
from store.audit.test_audit_retention import Clock, DAY, HOUR, START
clock = Clock(START + 5 * DAY + {later} * HOUR)
clock.up = {later} * 3600 * 10**9
log = AuditLog(sys.argv[1], now=clock.now, up=clock.since_start, retention=Retention(days=2, megabytes=None))
real, calls = {module}.{name}, 0
def faulty(*words, **more):
    global calls
    calls += 1
    if calls == {count}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*words, **more)
{module}.{name} = faulty
log.append(fields())
log.fold()
print("came through", flush=True)
"""
MOMENTS = [
    ("os", "pwrite", 2),
    ("os", "pwrite", 3),
    ("os", "pwrite", 4),
    ("os", "ftruncate", 1),
    ("os", "ftruncate", 2),
    ("retention", "_remove", 1),
    ("retention", "_is_whole", 1),
]


@pytest.mark.parametrize(("module", "name", "count"), MOMENTS)
def test_a_process_killed_in_the_retention_loses_nothing_and_another_ends_it(
    module: str, name: str, count: int, room: Room
) -> None:
    clock = Clock(up=0)
    with_old_records(room, clock)
    clock.up = 0
    look(room, clock)
    process = appender(room, 0, before=KILLED.format(module=module, name=name, count=count, later=26))
    said = process.communicate(timeout=60)
    assert (process.returncode, said[0]) == (-9, b""), said
    clock.goes_on(26 * HOUR)
    assert problems(room, clock) == []
    for _ in range(3):
        look(room, clock)
        clock.goes_on(DAY + HOUR)
    assert (room.numbers()[0] >= 21, problems(room, clock)) == (True, [])


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from byleave.store.audit.retention import Retention
from byleave.errors import StateError
from store.audit.test_audit_retention import Clock, DAY, HOUR, START
clock = Clock(START + 5 * DAY + 26 * HOUR)
clock.up = 26 * 3600 * 10**9
log = AuditLog(sys.argv[1], now=clock.now, up=clock.since_start, retention=Retention(days=2, megabytes=None))
log.append(fields())
size = os.stat(sys.argv[1] + "/audit.db").st_size
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, resource.RLIM_INFINITY))
try:
    log.fold()
except StateError as error:
    print("failed")
"""


@pytest.mark.parametrize("space", [100, 4096, 16384, 40960, 65536, 90000])
def test_a_disk_that_is_full_in_the_retention_loses_nothing(space: int, room: Room) -> None:
    clock = Clock(up=0)
    with_old_records(room, clock)
    clock.up = 0
    look(room, clock)
    process = appender(room, 0, before=FULL.format(room=space))
    _out, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")
    clock.goes_on(26 * HOUR)
    assert problems(room, clock) == []
    look(room, clock)
    look(room, clock)
    assert (room.numbers()[0], problems(room, clock)) == (21, [])


BUSY = """
from byleave.store.audit.retention import Retention
import byleave.store.audit.retention as retention
retention._PAUSE = 0.0
log = AuditLog(sys.argv[1], retention=Retention(days=None, megabytes=1))
for number in range(400):
    log.append(fields(number, more="x" * 3000))
    if number % 40 == 0:
        log.fold()
log.fold()
"""


def test_several_processes_in_the_retention_at_once_leave_a_whole_chain(room: Room) -> None:
    processes = [appender(room, 0, before=BUSY) for _ in range(3)]
    for process in processes:
        acknowledged(process)
        assert process.returncode == 0
    found = room.log().verify()
    assert (found.ok, found.problems) == (True, ())
    assert found.records < 1200


def test_processes_in_the_retention_whose_lock_is_taken_away_leave_a_whole_chain(room: Room) -> None:
    processes = [appender(room, 0, before=BUSY) for _ in range(3)]
    while any(process.poll() is None for process in processes):
        room.file("fold.lock").unlink(missing_ok=True)
    for process in processes:
        _out, said = process.communicate()
        assert (process.returncode, said) == (0, b"")
    assert [one.problem for one in room.log().verify().problems] == []


def test_twenty_writers_and_a_retention_lose_nothing_that_is_to_stay(room: Room) -> None:
    processes = [appender(room, 60) for _ in range(20)]
    log = room.log(retention=Retention(days=None, megabytes=1))
    while any(process.poll() is None for process in processes):
        log.append(fields(0, more="x" * 5000))
        log._folder._prune._next = 0.0  # type: ignore[union-attr] # noqa: SLF001 -- look at once
        log.fold()
    named = sorted(number for process in processes for number in acknowledged(process))
    found = room.log().verify()
    assert (found.ok, len(named), len(set(named))) == (True, 1200, 1200)
    first = found.first or 1
    assert {number for number in named if number >= first} <= set(room.numbers())


def test_what_was_altered_is_neither_announced_nor_removed(room: Room) -> None:
    clock = Clock()
    with_old_records(room, clock)
    room.sql("UPDATE records SET record = replace(record, 'about 3', 'about 4') WHERE sequence = 4")
    for _ in range(3):
        look(room, clock)
        clock.goes_on(DAY + HOUR)
    assert (room.numbers()[0], own(room)) == (1, [])


def test_a_table_of_an_older_byleave_gets_what_it_lacks(room: Room) -> None:
    room.filled(3)
    room.sql(
        "DROP INDEX records_own",
        "CREATE INDEX records_checkpoint ON records (event) WHERE event = 'checkpoint'",
        "PRAGMA user_version = 1",
    )
    assert room.problems() == []


def test_a_head_of_an_older_byleave_is_read(room: Room) -> None:
    from binascii import crc32

    log = room.filled(3)
    head = log.head()
    line = b"%020d %b %020d" % (head.sequence, head.hash.encode(), 0)
    room.file("head").write_bytes(b"%b %08x\n" % (line, crc32(line)))
    assert (room.problems(), room.log().append(fields()), room.problems()) == ([], 4, [])


def test_a_log_that_was_refused_once_goes_on(room: Room) -> None:
    log = room.filled(2)
    room.file("journal").unlink()
    with pytest.raises(StateError):
        log.append(fields())
    assert log.append(fields()) > 2
