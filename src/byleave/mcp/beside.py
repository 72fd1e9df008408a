"""Blocking work in a thread of its own, which nobody waits for in the end."""

import asyncio
from contextlib import suppress
from threading import Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Done = TypeVar("Done")


async def beside(work: "Callable[[], Done]", seconds: float) -> "Done":
    """Do `work` in a thread; a TimeoutError if it takes longer, and the thread is left alone."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Done] = loop.create_future()

    def tell(set_: "Callable[[Any], None]", value: "Any") -> None:
        if not done.done():
            set_(value)

    def do() -> None:
        set_: Callable[[Any], None] = done.set_result
        try:
            value: Any = work()
        except BaseException as problem:  # noqa: BLE001 -- whoever waits is told
            set_, value = done.set_exception, problem
        with suppress(RuntimeError):  # the gateway has ended
            loop.call_soon_threadsafe(tell, set_, value)

    Thread(target=do, name="byleave-beside", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done
