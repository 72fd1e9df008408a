"""Tasks that begin at once, and go on at once; in all else they are like those of asyncio."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest

from byleave.net.eager_task import DirectFuture, EagerTask

MARK: ContextVar[str] = ContextVar("mark", default="outside")


def eager(work: Awaitable[None]) -> EagerTask:
    async def run() -> None:
        await work

    return EagerTask(run(), loop=asyncio.get_running_loop())


def plays(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 5))


def test_it_runs_until_it_waits_and_goes_on_within_the_call_that_wakes_it() -> None:
    async def scene() -> None:
        steps, awaited = [], DirectFuture()

        async def work() -> None:
            steps.append("begun")
            await awaited
            steps.append("woken")

        task = eager(work())
        assert (steps, task.done()) == (["begun"], False)
        awaited.wake()
        assert (steps, task.done()) == (["begun", "woken"], True)
        awaited.wake()  # nothing happens: it was woken

    plays(scene)


def test_what_wakes_it_soon_lets_the_caller_finish_first() -> None:
    async def scene() -> None:
        awaited = DirectFuture()
        task = eager(awaited)
        awaited.wake_soon()
        assert not task.done()
        await asyncio.sleep(0)
        assert task.done()

    plays(scene)


def test_a_task_of_asyncio_waits_for_a_direct_future_as_for_any() -> None:
    async def scene() -> None:
        awaited = DirectFuture()

        async def work() -> None:
            await awaited

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        awaited.wake()
        assert not task.done()
        await task

    plays(scene)


@pytest.mark.parametrize("make", [DirectFuture, lambda: asyncio.get_running_loop().create_future()])
def test_who_cancels_it_raises_where_it_waits(make: Callable[[], "asyncio.Future[None]"]) -> None:
    async def scene() -> None:
        said: list[str] = []

        async def work() -> None:
            try:
                await awaited
            except asyncio.CancelledError:
                said.append("cancelled")
                raise

        awaited = make()
        task = eager(work())
        assert task.cancel()
        assert said == []
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (said, task.cancelled(), task.cancel()) == (["cancelled"], True, False)

    plays(scene)


def test_an_answer_after_the_cancellation_does_not_wake_it_twice() -> None:
    async def scene() -> None:
        awaited = DirectFuture()
        task = eager(awaited)
        task.cancel()
        awaited.wake()
        assert not task.done()
        await asyncio.sleep(0)
        assert task.cancelled()

    plays(scene)


def test_a_cancellation_that_is_taken_back_does_not_end_it() -> None:
    async def scene() -> None:
        awaited = DirectFuture()
        goes_on = DirectFuture()

        async def work() -> None:
            try:
                await awaited
            except asyncio.CancelledError:
                current = asyncio.current_task()
                assert current is not None
                assert (current.cancelling(), current.uncancel()) == (1, 0)
            await goes_on

        task = eager(work())
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        goes_on.wake()
        assert (task.done(), task.cancelled()) == (True, False)

    plays(scene)


def test_one_that_cancels_itself_ends_where_it_waits_next() -> None:
    async def scene() -> None:
        reached = []

        async def work() -> None:
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            reached.append("before")
            await DirectFuture()
            reached.append("behind")

        task = eager(work())
        await asyncio.sleep(0)
        assert (task.cancelled(), reached) == (True, ["before"])

    plays(scene)


def test_a_time_limit_within_it_holds() -> None:
    async def scene() -> None:
        said = []

        async def work() -> None:
            try:
                async with asyncio.timeout(0.01):
                    await DirectFuture()
            except TimeoutError:
                said.append("late")

        await eager(work())
        assert said == ["late"]

    plays(scene)


def test_it_is_the_current_task_also_within_the_step_of_another() -> None:
    async def scene() -> None:
        seen: list[object] = []

        async def work() -> None:
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())

        outer = asyncio.current_task()
        task = eager(work())
        assert asyncio.current_task() is outer
        await task
        assert seen == [task, task]

    plays(scene)


def test_what_it_sets_in_its_context_is_its_own() -> None:
    async def scene() -> None:
        awaited, seen = DirectFuture(), []

        async def work() -> None:
            MARK.set("inside")
            await awaited
            seen.append(MARK.get())

        eager_task = eager(work())
        assert MARK.get() == "outside"
        awaited.wake()
        assert (seen, MARK.get(), eager_task.done()) == (["inside"], "outside", True)

    plays(scene)


def test_what_it_sets_in_its_context_is_there_after_a_turn_of_the_loop() -> None:
    async def scene() -> None:
        awaited, seen = DirectFuture(), []

        async def work() -> None:
            token = MARK.set("first")
            await asyncio.sleep(0)
            MARK.reset(token)
            MARK.set("second")
            await awaited
            seen.append(MARK.get())

        task = eager(work())
        while not task.done():
            await asyncio.sleep(0)
            awaited.wake()
        await task
        assert seen == ["second"]

    plays(scene)


def test_what_it_raises_is_for_those_who_await_it() -> None:
    async def scene() -> None:
        async def work() -> None:
            raise ValueError("it went wrong")

        with pytest.raises(ValueError, match="went wrong"):
            await eager(work())

    plays(scene)


def test_an_error_of_what_it_waits_for_is_raised_in_it() -> None:
    async def scene() -> None:
        awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = eager(awaited)
        awaited.set_exception(OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            await task

    plays(scene)
