"""Records that are staged: several share a write, in order; what was kept is there whatever happens to the writer."""

import asyncio
import errno
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from audit_room import Room, acknowledged, appender, fields
from byleave.errors import StateError
from byleave.store.audit import journal
from byleave.store.audit.journal import AuditJournal
from byleave.store.audit.log import AuditLog


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "id")


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each write of a journal had."""
    sizes: list[int] = []
    real = AuditJournal.append_all

    def counted(journal: AuditJournal, texts: Sequence[str]) -> int:
        sizes.append(len(texts))
        return real(journal, texts)

    monkeypatch.setattr(AuditJournal, "append_all", counted)
    return sizes


def staging(room: Room, scene: Callable[[AuditLog], Awaitable[None]]) -> AuditLog:
    """Play a scene with a log, in an event loop."""
    log = room.log()

    async def whole() -> None:
        async with asyncio.timeout(10):
            await scene(log)

    asyncio.run(whole())
    return log


async def keep(log: AuditLog, number: int) -> int:
    return await log.stage(fields(number)).kept()


def unkept(error: StateError) -> None:
    """Be what hears that an outcome was not kept: here, all are."""
    raise AssertionError(str(error))


async def written(writes: list[int], count: int) -> None:
    """Wait for so many writes, which happen by a timer."""
    for _ in range(5000):
        if len(writes) >= count:
            return
        await asyncio.sleep(0.001)


def paths(room: Room) -> list[str]:
    return [each.tree["action"]["path"] for each in room.log().texts(0) if "action" in each.tree]


def assert_whole(room: Room, count: int) -> None:
    assert (room.numbers(), room.problems()) == (list(range(1, count + 1)), [])


def test_records_of_one_turn_share_a_write_in_the_order_of_staging(room: Room, writes: list[int]) -> None:
    async def scene(log: AuditLog) -> None:
        for _ in range(2):
            numbers = await asyncio.gather(*(keep(log, number) for number in range(20)))
            assert numbers == sorted(numbers)

    staging(room, scene).fold()
    assert writes == [1, 19, 20]  # the very first comes alone, as far as it is known
    assert paths(room) == [fields(number)["action"]["path"] for number in [*range(20)] * 2]
    assert_whole(room, 40)


def test_a_decision_after_the_outcome_of_the_one_before_is_written_at_once(room: Room) -> None:
    async def scene(log: AuditLog) -> None:
        for number in (1, 3, 5):
            staged = log.stage(fields())
            with pytest.raises(StopIteration):  # it does not wait for the next turn
                staged.kept().send(None)
            assert staged.number == number
            await asyncio.sleep(0)
            log.stage(fields(), unkept)

    staging(room, scene).close()
    assert_whole(room, 6)


def test_decisions_without_outcomes_wait_for_one_turn_at_most(room: Room, writes: list[int]) -> None:
    async def scene(log: AuditLog) -> None:
        for number in range(1, 7):
            staged = log.stage(fields())
            waiting = asyncio.create_task(staged.kept())
            for _turn in range(3):  # the task begins, the record is written, the task goes on
                await asyncio.sleep(0)
            assert (waiting.done(), staged.number) == (True, number)

    staging(room, scene)
    assert writes == [1] * 6


def test_a_second_decision_shares_the_write_of_the_next_turn(room: Room, writes: list[int]) -> None:
    async def scene(log: AuditLog) -> None:
        await keep(log, 0)
        assert writes == [1]
        log.stage(fields(1))
        log.stage(fields(2))
        assert writes == [1]
        await asyncio.sleep(0)
        assert writes == [1, 2]

    staging(room, scene)


def test_outcomes_are_written_with_the_next_decision_and_in_their_order(room: Room, writes: list[int]) -> None:
    async def scene(log: AuditLog) -> None:
        for number in range(0, 10, 2):
            await keep(log, number)
            log.stage(fields(number + 1), unkept)

    log = staging(room, scene)
    log.close()
    assert writes == [1, 2, 2, 2, 2, 1]
    assert paths(room) == [fields(number)["action"]["path"] for number in range(10)]
    assert_whole(room, 10)


def test_an_outcome_after_which_nothing_is_decided_is_written_in_a_moment(room: Room, writes: list[int]) -> None:
    async def scene(log: AuditLog) -> None:
        for number in range(3):
            log.stage(fields(number), unkept)
            await asyncio.sleep(0)
        assert writes == []
        await written(writes, 1)
        log.stage(fields(3), unkept)
        await written(writes, 2)

    staging(room, scene)
    assert writes == [3, 1]
    assert_whole(room, 4)


def test_an_outcome_left_by_a_loop_that_ended_is_written_by_the_next(room: Room, writes: list[int]) -> None:
    log = room.log()

    async def scene(number: int) -> None:
        log.stage(fields(number), unkept)

    async def last() -> None:
        await scene(2)
        await written(writes, 1)

    for number in range(2):
        asyncio.run(scene(number))
    assert writes == []
    asyncio.run(last())
    assert writes == [3]
    assert_whole(room, 3)


def test_what_is_appended_comes_behind_what_was_staged(room: Room, writes: list[int]) -> None:
    async def scene(log: AuditLog) -> None:
        first, second = log.stage(fields(1)), log.stage(fields(2))
        assert log.append(fields(3)) == 3
        assert (first.settled(), await second.kept()) == (1, 2)

    staging(room, scene)
    assert writes == [3]
    assert_whole(room, 3)


def test_several_are_appended_in_one_write_behind_what_was_staged(room: Room, writes: list[int]) -> None:
    async def scene(log: AuditLog) -> None:
        log.stage(fields(1), lambda _error: None)
        assert log.append_all([fields(2), fields(3)]) == [2, 3]
        assert log.append_all([fields(4), fields(5)]) == [4, 5]

    staging(room, scene).close()
    assert writes == [3, 2]


def test_another_thread_appends_while_records_are_staged(room: Room) -> None:
    async def scene(log: AuditLog) -> None:
        staged = log.stage(fields(1))
        other = threading.Thread(target=log.append, args=(fields(2),))
        other.start()
        other.join()
        assert await staged.kept() == 2

    staging(room, scene)
    assert_whole(room, 2)


def test_who_reads_the_log_sees_what_was_staged(room: Room) -> None:
    async def scene(log: AuditLog) -> None:
        log.stage(fields())
        assert log.head().sequence == 1
        log.stage(fields())
        assert log.get(2) is not None

    staging(room, scene)


def test_closing_the_log_writes_what_is_staged(room: Room) -> None:
    log = room.log()
    loop = asyncio.new_event_loop()

    async def scene() -> None:
        log.stage(fields())
        loop.stop()  # it never has another turn

    loop.create_task(scene())  # noqa: RUF006 -- it is done at once
    loop.run_forever()
    loop.close()
    log.close()
    assert (room.numbers(), room.problems()) == ([1], [])


def test_a_loop_that_ended_in_between_keeps_no_caller_of_the_next_waiting(room: Room) -> None:
    log = room.log()
    loop = asyncio.new_event_loop()

    async def scene() -> None:
        log.stage(fields())
        loop.stop()

    loop.create_task(scene())  # noqa: RUF006 -- it is done at once
    loop.run_forever()
    loop.close()

    async def crowd() -> None:
        async with asyncio.timeout(5):
            assert await asyncio.gather(*(keep(log, number) for number in range(3))) == [2, 3, 4]

    asyncio.run(crowd())
    assert_whole(room, 4)


def test_the_outcome_of_a_task_that_ends_after_its_loop_is_kept_on_close(room: Room) -> None:
    log = room.log()

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            log.stage(fields())

    left = work()
    left.send(None)
    left.close()
    log.close()
    assert (room.numbers(), room.problems()) == ([1], [])


def test_a_caller_that_is_cancelled_leaves_its_record_and_those_of_others(room: Room) -> None:
    async def scene(log: AuditLog) -> None:
        tasks = [asyncio.ensure_future(keep(log, number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in done if isinstance(each, int)] == [1, 2, 4]
        assert isinstance(done[2], asyncio.CancelledError)

    staging(room, scene)
    assert_whole(room, 4)


def test_a_record_that_two_callers_wait_for_keeps_neither_of_them(room: Room) -> None:
    async def scene(log: AuditLog) -> None:
        await asyncio.gather(*(keep(log, number) for number in range(3)))
        staged = log.stage(fields())
        assert list(await asyncio.gather(staged.kept(), staged.kept())) == [4, 4]

    staging(room, scene)
    assert_whole(room, 4)


def test_a_child_that_is_forked_does_not_write_what_its_parent_has_staged(room: Room) -> None:
    async def scene(log: AuditLog) -> None:
        staged = log.stage(fields(1))
        child = os.fork()
        if child == 0:
            try:
                log.append(fields(2))
                os._exit(0 if room.log().head().sequence == 1 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222 -- nothing else has a turn
        assert await staged.kept() == 2

    staging(room, scene)
    assert_whole(room, 2)


def test_a_shared_write_under_which_the_files_were_exchanged_keeps_none_then_goes_on(room: Room) -> None:
    refused: list[StateError] = []

    async def outcome(log: AuditLog) -> None:
        log.stage(fields(), refused.append)

    async def scene(log: AuditLog) -> None:
        await asyncio.gather(*(keep(log, number) for number in range(3)))
        for name in ("journal", "head"):
            room.file(name).unlink()
        crowd = [outcome(log), *(keep(log, number) for number in range(3))]
        done = await asyncio.gather(*crowd, return_exceptions=True)
        assert [type(each) for each in done[1:]] == [StateError] * 3
        assert await keep(log, 5) > 0

    staging(room, scene)
    assert len(refused) == 1
    assert "were removed, exchanged or put back" in refused[0].problem
    assert any("under a running process" in problem for problem in room.problems())


def test_a_defect_while_writing_refuses_all_who_wait(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_journal: AuditJournal, _texts: Sequence[str]) -> int:
        raise MemoryError

    async def scene(log: AuditLog) -> None:
        await keep(log, 0)
        monkeypatch.setattr(AuditJournal, "append_all", broken)
        done = await asyncio.gather(*(keep(log, number) for number in range(5)), return_exceptions=True)
        assert [type(each) for each in done] == [StateError] * 5

    staging(room, scene)


FULL = """
import asyncio, resource, signal
from byleave.errors import StateError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def keep(number):
    return await log.stage(fields(number)).kept()
unkept = []
async def outcome():
    log.stage(fields(), unkept.append)
async def crowd():
    done = await asyncio.gather(*(keep(number) for number in range(6)), outcome(), return_exceptions=True)
    return done[:6]
async def scene():
    await crowd()
    size = os.stat(sys.argv[1] + "/audit.journal").st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + size // 3, resource.RLIM_INFINITY))  # room for two, not for seven
    assert [type(each) for each in await crowd()] == [StateError] * 6
    assert len(unkept) == 1
    assert os.stat(sys.argv[1] + "/audit.journal").st_size == size
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert await crowd() == [8, 9, 10, 11, 12, 13]
asyncio.run(scene())
"""


def test_a_disk_that_is_full_in_the_middle_of_a_shared_write_keeps_none_of_it(room: Room) -> None:
    out, said = appender(room, 0, before=FULL).communicate(timeout=60)
    assert (out, said) == (b"", b"")
    assert_whole(room, 14)


KILLED = """
import asyncio, signal
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
async def keep(number):
    for turn in range(50):
        sequence = await log.stage(fields(number)).kept()
        os.write(1, b"%d\\n" % sequence)
async def scene():
    await asyncio.gather(*(keep(number) for number in range(9)))
asyncio.run(scene())
"""
STEPS = [
    (name, when, count) for name in ("write", "pwrite") for when in ("before", "after", "half") for count in (2, 5)
]


@pytest.mark.parametrize(("name", "when", "count"), STEPS)
def test_a_writer_killed_at_each_step_of_a_shared_write_loses_nothing(
    name: str, when: str, count: int, room: Room
) -> None:
    process = appender(room, 0, before=KILLED.format(name=name, when=when, count=count))
    named = acknowledged(process)
    assert process.returncode == -signal.SIGKILL
    following = room.log().append(fields())
    numbers = room.numbers()
    assert (numbers, set(named) <= set(numbers), room.problems()) == (list(range(1, following + 1)), True, [])


class FailingDisk:
    """A disk that takes the first half of a write, then nothing, and cannot even cut a file back."""

    def __init__(self) -> None:
        self.is_failing = True
        self._took = False

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def write(self, descriptor: int, content: bytes) -> int:
        if self.is_failing and self._took:
            raise OSError(errno.ENOSPC, "full")
        half = content.index(b"\n", len(content) // 2) + 1
        self._took = True
        return os.write(descriptor, content[:half] if self.is_failing else content)

    def ftruncate(self, descriptor: int, size: int) -> None:
        if self.is_failing:
            raise OSError(errno.EIO, "broken")
        os.ftruncate(descriptor, size)


async def refused_by(disk: FailingDisk, log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a shared write fail that leaves four of its records behind."""
    await keep(log, 0)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "os", disk)
        staged = [log.stage(fields(number)) for number in range(1, 7)]
        for each in staged:
            with pytest.raises(StateError, match="not kept"):
                await each.kept()


def test_records_of_a_failed_write_that_could_not_be_cut_off_are_cut_off_before_the_next(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(log: AuditLog) -> None:
        disk = FailingDisk()
        await refused_by(disk, log, monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(journal, "os", disk)
            with pytest.raises(StateError, match="not kept"):  # nothing is written behind them
                await keep(log, 7)
            disk.is_failing = False
            assert await keep(log, 8) == 2

    staging(room, scene)
    assert paths(room) == [fields(number)["action"]["path"] for number in (0, 8)]
    assert_whole(room, 2)


def test_records_of_a_failed_write_that_another_process_has_adopted_are_marked(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(log: AuditLog) -> None:
        await refused_by(FailingDisk(), log, monkeypatch)
        assert room.log().append(fields(7)) > 2
        await keep(log, 8)

    staging(room, scene)
    marks = [each.tree["problems"] for each in room.log().texts(0) if each.tree["event"] == "recovery"]
    assert marks == [["what follows record 1 may have been refused, and could not be taken back"]]
