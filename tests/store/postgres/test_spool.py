"""`[store] on_failure = "spool"`: records wait on this machine, and come to the database once, in order."""

import asyncio
import errno
import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.gateway.quotas import Quota
from byleave.store.address import StoreAddress
from byleave.store.audit.query import Filter
from byleave.store.postgres import spool_file, spooling
from byleave.store.postgres.audit_reader import PostgresRecords
from byleave.store.postgres.shared_store import SharedStore, open_store
from byleave.store.postgres.spool_file import SpoolFile, new_file, spool_directory, waiting_records
from byleave.store.store_key import StoreKey
from postgres_server import KEY, PostgresServer

SHARED_KEY = StoreKey(bytes.fromhex(KEY))


class Opened:
    """A store whose log may spool, and what it says to the operator."""

    def __init__(self, server: PostgresServer, state: Path, **settings: Any) -> None:
        address = StoreAddress(server.url("postgres"), "it")
        self.store: SharedStore = open_store(address, "/nonexistent", {"BYLEAVE_STORE_KEY": KEY})
        self.notes: list[str] = []
        self.store.use_spool(str(state), {"store": {"on_failure": "spool", **settings}}, self.notes.append)
        self.log = self.store.log(Redactor())

    def append(self, number: int, **more: Any) -> int:
        return self.log.append({"event": "decision", "agent": f"a{number}", **more})

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(600):
            if condition():
                return
            time.sleep(0.02)
        raise AssertionError((self.notes, self.store.problem))

    def close(self) -> None:
        self.log.close()
        self.store.close()


@contextmanager
def opened(server: PostgresServer, state: Path, **settings: Any) -> Iterator[Opened]:
    each = Opened(server, state, **settings)
    try:
        yield each
    finally:
        each.close()


def records(server: PostgresServer) -> list[dict[str, Any]]:
    found = PostgresRecords(StoreAddress(server.url("postgres"), "it"), SHARED_KEY)
    try:
        assert found.verify().problems == ()
        return [each.tree for each in found.query(Filter())]
    finally:
        found.close()


def agents(server: PostgresServer) -> list[str]:
    return [each["agent"] for each in records(server) if each["event"] == "decision"]


def files(state: Path) -> list[Path]:
    return sorted(Path(spool_directory(str(state), SHARED_KEY)).glob("*"))


def test_records_wait_while_the_server_is_away_and_come_in_order_once(own: PostgresServer, tmp_path: Path) -> None:
    with opened(own, tmp_path) as one:
        first = one.append(1)
        assert first > 0
        own.stop()
        numbers = [one.append(number) for number in range(2, 40)]
        assert numbers == [-number for number in range(1, 39)]  # they have none in the database yet
        one.log.append({"event": "effect", "of": numbers[-1], "outcome": "done"})
        assert (one.store.problem, one.store.is_spooling) == ("", True)
        (file,) = files(tmp_path)
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        own.start()
        one.until(lambda: not one.store.is_spooling)
        later = one.append(40)
        assert later > first
        one.log.append({"event": "effect", "of": numbers[0], "outcome": "late"})
    found = records(own)
    assert agents(own) == [f"a{number}" for number in range(1, 41)]
    by_agent = {each["agent"]: each for each in found if each["event"] == "decision"}
    assert [each["of"] for each in found if each["event"] == "effect"] == [
        by_agent["a39"]["sequence"],
        by_agent["a2"]["sequence"],
    ]
    assert by_agent["a2"]["spooled"]["number"] == 1
    assert by_agent["a2"]["spooled"]["time"] < by_agent["a2"]["time"]
    assert files(tmp_path) == []
    assert [note.partition(":")[0] for note in one.notes] == [
        "the shared store cannot be used",
        "the shared store can be used again",
    ]


def test_what_a_process_left_is_delivered_by_the_next_one_on_this_machine(own: PostgresServer, tmp_path: Path) -> None:
    with opened(own, tmp_path) as one:
        one.append(1)
        own.stop()
        one.append(2)
        one.append(3)
    assert len(files(tmp_path)) == 1
    assert waiting_records(str(files(tmp_path)[0].parent)) == (2, 0)
    own.start()
    with opened(own, tmp_path, on_failure="deny") as other:  # which spools nothing of its own
        other.until(lambda: files(tmp_path) == [] and bool(other.notes))
        assert other.notes == ["2 records that an earlier gateway of this machine left are in the shared store"]
    assert agents(own) == ["a1", "a2", "a3"]


def test_two_gateways_of_one_machine_deliver_what_was_left_once(own: PostgresServer, tmp_path: Path) -> None:
    for number in range(3):  # three that ended while records waited
        with opened(own, tmp_path) as one:
            own.stop()
            for each in range(20):
                one.append(100 * number + each)
        own.start()
    assert files(tmp_path)
    with opened(own, tmp_path) as first, opened(own, tmp_path) as second:
        first.until(lambda: files(tmp_path) == [])
        own.stop()
        first.append(1000)
        second.append(1001)
        assert len(files(tmp_path)) == 2
        own.start()
        first.until(lambda: not first.store.is_spooling and not second.store.is_spooling)
    assert sorted(agents(own), key=lambda agent: int(agent[1:])) == [
        *[f"a{100 * number + each}" for number in range(3) for each in range(20)],
        *("a1000", "a1001"),
    ]


def test_a_file_of_another_key_is_not_delivered(own: PostgresServer, tmp_path: Path) -> None:
    directory = spool_directory(str(tmp_path), SHARED_KEY)
    file = new_file(directory, "foreign", StoreKey(b"another key" * 4))
    file.begin("chain of another", 1)
    file.append(['{"event":"decision","agent":"a1"}'])
    file.close()
    with opened(own, tmp_path) as one:
        one.until(lambda: bool(one.notes))
        assert "were changed" in one.notes[0]
    assert agents(own) == []
    assert [each.name for each in files(tmp_path)] == ["foreign.spool.damaged"]


@pytest.mark.parametrize("at", ["begin_chain", "write_records", "remove"])
def test_a_delivery_that_dies_anywhere_delivers_each_record_once(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setattr(spooling, "_AT_ONCE", 4)
    with opened(own, tmp_path) as one:
        own.stop()
        for number in range(10):
            one.append(number)
    own.start()
    for deaths in range(4):
        pid = os.fork()
        if not pid:
            kill_after(at, deaths)
            with suppress(BaseException):
                other = Opened(own, tmp_path)
                other.until(lambda: files(tmp_path) == [])
            os._exit(0)
        os.waitpid(pid, 0)
    with opened(own, tmp_path) as last:
        last.until(lambda: files(tmp_path) == [])
    assert agents(own) == [f"a{number}" for number in range(10)]


def kill_after(at: str, times: int) -> None:
    """Have this process killed at the end of a step of the delivery, when it was taken so many times before."""
    place: Any = SpoolFile if at == "remove" else spooling
    whole, left = getattr(place, at), [times if at == "write_records" else 0]

    def dies(*words: Any, **named: Any) -> Any:
        if at == "remove":  # all is committed, and the file still there
            os.kill(os.getpid(), signal.SIGKILL)
        done = whole(*words, **named)
        if at == "write_records" and left[0]:
            left[0] -= 1
            return done
        os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(place, at, dies)


def test_a_spool_that_is_full_refuses_and_what_waits_is_whole(own: PostgresServer, tmp_path: Path) -> None:
    with opened(own, tmp_path, spool_megabytes=1) as one:
        own.stop()
        taken: list[int] = []

        def fill() -> None:
            for number in range(100):
                one.append(number, text="x" * 60_000)
                taken.append(number)

        with pytest.raises(StateError, match="cannot wait for it") as refused:
            fill()
        assert "1 MB of records wait already" in refused.value.hint
        assert 5 < len(taken) < 20
        assert "MB of records" in one.store.problem  # `/ready` says so
        own.start()
        one.until(lambda: not one.store.is_spooling)
        assert one.store.problem == ""
        assert one.append(1000) > 0
    assert agents(own) == [*[f"a{number}" for number in taken], "a1000"]


def test_a_disk_that_is_full_refuses_and_the_next_record_is_kept(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwrite

    def half(descriptor: int, raw: bytes, at: int) -> int:
        if b'"a2"' in raw:
            write(descriptor, raw[: len(raw) // 2], at)
            raise OSError(28, "No space left on device")
        return write(descriptor, raw, at)

    monkeypatch.setattr("byleave.store.postgres.spool_file.os.pwrite", half)
    with opened(own, tmp_path) as one:
        own.stop()
        one.append(1)
        with pytest.raises(StateError) as refused:
            one.append(2)
        assert "No space left on device" in refused.value.hint
        assert one.append(3) == -2
        own.start()
        one.until(lambda: not one.store.is_spooling)
    assert agents(own) == ["a1", "a3"]


def change_line(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[3].replace(b'"a2"', b'"b2"'), *lines[4:]]


@pytest.mark.parametrize(
    ("change", "delivered"),
    [
        (change_line, ["a0", "a1"]),
        (lambda lines: [*lines[:3], *lines[4:]], ["a0", "a1"]),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], ["a0", "a1"]),
        (lambda lines: [lines[0].replace(b"spool/", b"spoof/"), *lines[1:]], []),
        (lambda lines: [*lines, lines[1]], ["a0", "a1", "a2", "a3", "a4"]),
        (lambda lines: [*lines[:-1], lines[-1][:50]], ["a0", "a1", "a2", "a3"]),  # torn: no call went out for it
    ],
    ids=["changed", "removed", "moved", "head", "repeated", "torn"],
)
def test_what_was_changed_on_the_disk_is_not_delivered_and_shows(
    own: PostgresServer, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], delivered: list[str]
) -> None:
    with opened(own, tmp_path) as one:
        own.stop()
        for number in range(5):
            one.append(number)
    (file,) = files(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(change(lines)))
    own.start()
    with opened(own, tmp_path) as other:
        other.until(lambda: file not in files(tmp_path))
        is_torn = len(change(lines)) == len(lines) and not change(lines)[-1].endswith(b"\n")
        assert files(tmp_path) == ([] if is_torn else [file.with_name(f"{file.name}.damaged")])
        assert any("were changed" in note for note in other.notes) is not is_torn
    assert agents(own) == delivered
    said = [each for each in records(own) if each["event"] == "spool"]
    assert len(said) == (0 if is_torn or not delivered else 1)


def test_what_is_cut_off_behind_the_back_of_its_process_shows(own: PostgresServer, tmp_path: Path) -> None:
    with opened(own, tmp_path) as one:
        own.stop()
        for number in range(3):
            one.append(number)
        (file,) = files(tmp_path)
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:-1]))
        own.start()
        one.until(lambda: not one.store.is_spooling)
        assert any("its end is missing" in note for note in one.notes)
        assert one.append(9) > 0
    assert agents(own) == ["a0", "a1", "a9"]


def test_a_file_of_a_process_that_lives_is_left_to_it(tmp_path: Path) -> None:
    directory = spool_directory(str(tmp_path), SHARED_KEY)
    file = new_file(directory, "living", SHARED_KEY)
    file.begin("chain", 1)
    assert list(spool_file.left_behind(directory, SHARED_KEY)) == []
    file.close()
    (left,) = spool_file.left_behind(directory, SHARED_KEY)
    left.close()


@pytest.mark.parametrize("begun", [b"", b"0123"])
def test_a_file_that_was_left_without_its_first_line_is_removed(
    own: PostgresServer, tmp_path: Path, begun: bytes
) -> None:
    """It stayed for ever, open in every gateway that had found it."""
    directory = Path(spool_directory(str(tmp_path), SHARED_KEY))
    directory.mkdir(parents=True, mode=0o700)
    (directory / "killed.spool").write_bytes(begun)
    with opened(own, tmp_path) as one:
        one.until(lambda: files(tmp_path) == [])
        links = [
            os.readlink(f"/proc/self/fd/{each}")
            for each in os.listdir("/proc/self/fd")
            if each.isdigit() and os.path.lexists(f"/proc/self/fd/{each}")
        ]
        assert not [each for each in links if "killed.spool" in each]
        assert one.notes == []


def test_a_new_file_that_is_taken_for_an_empty_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may lock it before the one that makes it, and remove it."""
    directory = spool_directory(str(tmp_path), SHARED_KEY)
    lock = fcntl.flock
    removed: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        if not removed:
            removed.append(descriptor)
            (left,) = spool_file.left_behind(directory, SHARED_KEY)
            left.read_head()
            left.remove()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    file = new_file(directory, "new", SHARED_KEY)
    file.begin("chain", 1)
    assert [each.name for each in files(tmp_path)] == ["new.spool"]
    assert os.path.samestat(os.stat(file.path), files(tmp_path)[0].stat())
    file.close()


def test_links_and_foreign_files_in_the_directory_are_not_followed(tmp_path: Path) -> None:
    directory = Path(spool_directory(str(tmp_path), SHARED_KEY))
    directory.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("x\n")
    (directory / "link.spool").symlink_to(tmp_path / "elsewhere")
    assert list(spool_file.left_behind(str(directory), SHARED_KEY)) == []
    with pytest.raises(FileExistsError):
        new_file(str(directory), "link", SHARED_KEY)
    assert (tmp_path / "elsewhere").read_text() == "x\n"


def test_what_is_no_file_is_neither_read_nor_waited_for(tmp_path: Path) -> None:
    """A named pipe kept `byleave doctor` waiting without an end."""
    directory = Path(spool_directory(str(tmp_path), SHARED_KEY))
    directory.mkdir(parents=True)
    os.mkfifo(directory / "pipe.spool")
    (directory / "directory.spool").mkdir()
    assert list(spool_file.left_behind(str(directory), SHARED_KEY)) == []
    assert spool_file.waiting_records(str(directory)) == (0, 0)


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_delivered(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(own, tmp_path) as one:
        own.stop()
        one.append(1)
    (file,) = files(tmp_path)
    bad = file.with_name(f"0{file.name}")  # the first that is found
    bad.write_bytes(file.read_bytes())
    number, pread = bad.stat().st_ino, os.pread

    def reading(descriptor: int, size: int, at: int) -> bytes:
        if os.fstat(descriptor).st_ino == number:
            raise OSError(errno.EIO, "Input/output error")
        return pread(descriptor, size, at)

    monkeypatch.setattr(os, "pread", reading)
    own.start()
    with opened(own, tmp_path) as other:
        other.until(lambda: file not in files(tmp_path))
        assert "records that an earlier gateway of this machine left cannot be read: Input/output error" in other.notes
    assert agents(own) == ["a1"]
    assert files(tmp_path) == [bad]


def test_a_server_that_hangs_is_waited_for_once_and_then_records_wait(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("database", "audit_log", "spooling"):
        monkeypatch.setattr(f"byleave.store.postgres.{module}.PATIENCE", 0.5)
    with opened(own, tmp_path) as one:
        one.append(1)
        own.freeze()
        with suppress(StateError):
            one.append(2)  # whether it was kept is not known
        assert one.append(3) < 0
        own.thaw()
        one.until(lambda: not one.store.is_spooling)
        assert one.append(4) > 0
    found = agents(own)
    assert [each for each in found if each != "a2"] == ["a1", "a3", "a4"]
    assert found.count("a2") <= 1


def test_nothing_acknowledged_is_lost_or_doubled_by_crashes_of_the_server_under_load(
    own: PostgresServer, tmp_path: Path
) -> None:
    acknowledged: list[str] = []
    ended = threading.Event()
    with opened(own, tmp_path) as one:

        def call(worker: int) -> None:
            number = 0
            while not ended.is_set():
                number += 1
                name = f"w{worker}-{number}"
                with suppress(StateError):
                    one.log.append({"event": "decision", "agent": name})
                    acknowledged.append(name)
                time.sleep(0.001)

        threads = [threading.Thread(target=call, args=(worker,)) for worker in range(4)]
        for each in threads:
            each.start()
        for number in range(amounts.of(10, 2)):
            time.sleep(0.2)
            own.stop(signal.SIGQUIT if number % 2 else signal.SIGINT)
            time.sleep(0.2)
            own.start()
            one.until(lambda: not one.store.is_spooling)
        time.sleep(0.1)
        ended.set()
        for each in threads:
            each.join()
    found = agents(own)
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))
    for worker in range(4):  # each in its order
        mine = [int(each.partition("-")[2]) for each in found if each.startswith(f"w{worker}-")]
        assert mine == sorted(mine)


def test_what_needs_shared_state_is_refused_meanwhile(own: PostgresServer, tmp_path: Path) -> None:
    with opened(own, tmp_path) as one:
        own.stop()
        one.append(1)
        with pytest.raises(StateError):
            asyncio.run(one.store.counter.take([Quota("r", 5.0)]))
        assert json.loads(files(tmp_path)[0].read_bytes().splitlines()[1][65:])["agent"] == "a1"
