"""Killed writers, full disks, several writers at once: what was acknowledged is there, and the chain is whole."""

import signal
import threading
from pathlib import Path

import pytest

import amounts
from audit_room import Room, acknowledged, appender, fields, killed_after
from byleave.errors import StateError
from byleave.store.audit.query import Filter


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "id")


def assert_kept(room: Room, named: list[int]) -> None:
    """Every acknowledged record is there, the chain is whole, and it goes on."""
    log = room.log()
    following = log.append(fields())
    numbers = room.numbers()
    assert (numbers, set(named) - set(numbers), room.problems()) == (list(range(1, following + 1)), set(), [])


def test_a_writer_killed_at_any_moment_loses_nothing_it_acknowledged(room: Room) -> None:
    for count in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233):
        assert_kept(room, killed_after(appender(room, 100_000), count))


def test_a_writer_killed_while_it_folds_loses_nothing_it_acknowledged(room: Room) -> None:
    for count in (1, *range(500, amounts.of(6001, 2001), 500)):
        assert_kept(room, killed_after(appender(room, 100_000, before="log.start()"), count))


STEPS = [
    (name, when, count) for name in ("write", "pwrite") for when in ("before", "after", "half") for count in (1, 4)
]
FAULT = """
import signal
real, calls = os.{name}, 0
def faulty(descriptor, data, *rest):
    global calls
    if descriptor == 1:
        return real(descriptor, data, *rest)
    calls += 1
    if calls == {count}:
        if "{when}" != "before":
            real(descriptor, data[: len(data) // 2] if "{when}" == "half" else data, *rest)
        os.kill(os.getpid(), signal.SIGKILL)
    return real(descriptor, data, *rest)
os.{name} = faulty
"""


@pytest.mark.parametrize(("name", "when", "count"), STEPS)
def test_a_writer_killed_at_each_step_loses_nothing(name: str, when: str, count: int, room: Room) -> None:
    process = appender(room, 10, before=FAULT.format(name=name, when=when, count=count))
    named = acknowledged(process)
    assert process.returncode == -signal.SIGKILL
    log = room.log()
    following = log.append(fields())
    numbers = room.numbers()
    assert (numbers, set(named) <= set(numbers), room.problems()) == (list(range(1, following + 1)), True, [])


FOLD_FAULT = """
import signal
log.append(fields()); log.append(fields())
real, calls = os.{name}, 0
def faulty(*words):
    global calls
    calls += 1
    if calls == {count}:
        {after}
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*words)
os.{name} = faulty
log.fold()
"""
FOLD_STEPS = [
    (name, count, after)
    for name, counts in {"fdatasync": (1, 2), "pwrite": (1,), "ftruncate": (1,), "close": (1, 2, 3)}.items()
    for count in counts
    for after in ("pass", "real(*words)")
]


@pytest.mark.parametrize(("name", "count", "after"), FOLD_STEPS)
def test_a_folder_killed_at_each_step_loses_nothing(name: str, count: int, after: str, room: Room) -> None:
    process = appender(room, 0, before=FOLD_FAULT.format(name=name, count=count, after=after))
    _out, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, said
    assert_kept(room, [1, 2])


def test_several_processes_and_threads_append_while_another_folds(room: Room) -> None:
    processes = [appender(room, 1000) for _ in range(2)]
    log = room.log()
    named: list[int] = []
    threads = [
        threading.Thread(target=lambda: named.extend(log.append(fields(n)) for n in range(300))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while any(process.poll() is None for process in processes) or any(thread.is_alive() for thread in threads):
        room.log().fold()
    for thread in threads:
        thread.join()
    for process in processes:
        named += acknowledged(process)
    assert sorted(named) == list(range(1, 2601))
    assert (room.numbers(), room.problems()) == (list(range(1, 2601)), [])


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log.append(fields())
size = os.stat(sys.argv[1] + "/audit.journal").st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))
from byleave.errors import StateError
for _ in range(2):
    try:
        log.append(fields())
    except StateError as error:
        print(error)
assert os.stat(sys.argv[1] + "/audit.journal").st_size == size
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert log.append(fields()) == 2
"""


def test_a_record_for_which_there_is_no_room_is_an_error_and_leaves_nothing(room: Room) -> None:
    out, said = appender(room, 0, before=FULL).communicate(timeout=60)
    assert (out.count(b'audit.journal" cannot be written, the record was not kept: File too large'), said) == (2, b"")
    assert b"hint: the file may not grow any further" in out
    assert (room.numbers(), room.problems()) == ([1, 2], [])


FOLD_FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for number in range(50):
    log.append(fields(number))
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
from byleave.errors import StateError
try:
    log.fold()
except StateError as error:
    print("failed", error)
"""


def test_a_fold_for_which_there_is_no_room_leaves_the_journal_as_it_is(room: Room) -> None:
    out, said = appender(room, 0, before=FOLD_FULL).communicate(timeout=60)
    assert (out.startswith(b"failed"), said) == (True, b"")
    assert_kept(room, list(range(1, 51)))


def test_a_torn_tail_is_cut(room: Room) -> None:
    log = room.log()
    log.append(fields())
    with room.file("journal").open("ab") as journal:
        journal.write(b"0123456789abcdef")
    assert_kept(room, [1])
    assert log.warnings == []


def test_records_behind_the_head_count(room: Room) -> None:
    log = room.log()
    log.append(fields())
    kept = room.file("head").read_bytes()
    for _ in range(3):
        log.append(fields())
    room.file("head").write_bytes(kept)
    assert_kept(room, [1, 2, 3, 4])


def test_a_cut_journal_shows_for_ever(room: Room) -> None:
    log = room.filled(2)
    for _ in range(3):
        log.append(fields())
    content = room.file("journal").read_bytes()
    room.file("journal").write_bytes(content[: content.index(b"\n") + 1])
    assert room.log().append(fields()) == 7
    for _ in range(2):
        assert "the records 4 to 5 are missing" in room.problems()
    recovery = room.log().get(6)
    assert recovery is not None
    assert recovery.tree["problems"] == ["records up to 5 were written and are no longer there"]


def test_a_journal_that_is_gone_shows_for_ever(room: Room) -> None:
    log = room.log()
    for _ in range(3):
        log.append(fields())
    room.file("journal").unlink()
    room.file("journal").touch(mode=0o600)
    assert "the records 1 to 3 are missing" in room.problems()
    room.log().append(fields())
    assert "the records 1 to 3 are missing" in room.problems()


def test_a_head_that_is_gone_is_found_again_and_told(room: Room) -> None:
    room.filled(3)
    room.file("head").unlink()
    told = "before this record: the kept head was missing or damaged; the chain goes on from record 3"
    lost = "the kept head is missing or damaged: a tail that was cut off would not show"
    assert room.problems() == [told, lost]
    assert (room.log().append(fields()), room.problems()) == (5, [told])  # for as long as that record is kept


@pytest.mark.parametrize("content", [b"", b"\0" * 107, b"x" * 107, b"9" * 107, b"\xff\n" * 500])
@pytest.mark.parametrize("name", ["head", "journal", "db"])
def test_damaged_files_are_told_and_never_a_crash(name: str, content: bytes, room: Room) -> None:
    log = room.filled(3)
    log.append(fields())
    room.file(name).write_bytes(content)
    for file in ("db-wal", "db-shm"):
        if name == "db":
            room.file(file).unlink(missing_ok=True)
    assert room.problems() != []
    log = room.log()
    assert log.append(fields()) > 3
    try:
        list(log.query(Filter()))
    except StateError as error:
        assert "audit.db" in error.problem  # noqa: PT017 -- either is fine


def test_garbage_behind_the_records_is_put_aside(room: Room) -> None:
    log = room.log()
    log.append(fields())
    with room.file("journal").open("ab") as journal:
        journal.write(b"garbage\nmore\n")
    assert (log.append(fields()), len(log.warnings)) == (3, 1)
    assert room.file("journal.damaged-1").read_bytes().endswith(b"garbage\nmore\n")
    assert (room.numbers(), room.problems()) == ([1, 2, 3], [])


def test_a_damaged_line_is_put_aside_and_missed(room: Room) -> None:
    log = room.log()
    for _ in range(3):
        log.append(fields())
    first, second, third, _ = room.file("journal").read_bytes().split(b"\n")
    room.file("journal").write_bytes(b"\n".join([first, second[:-1] + b"]", third, b""]))
    log.fold()
    assert (room.numbers(), room.problems()) == ([1, 3], ["the record is missing"])
    assert len(log.warnings) == 1
    assert room.file("journal.damaged-1").exists()
