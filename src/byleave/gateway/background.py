"""Work that no caller waits for: kept until it is done, cancelled when its owner closes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from byleave.gateway.interfaces import DownError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any


class BackgroundTasks:
    """The tasks of one owner. A server that is down by then ends a task quietly."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Begin some work."""
        task = asyncio.get_running_loop().create_task(unless_down(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(self, seconds: float) -> None:
        """Wait a while for what is going on."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    def cancel(self) -> None:
        """Cancel what is going on."""
        for task in self._tasks:
            task.cancel()


async def unless_down(work: Coroutine[Any, Any, Any]) -> None:
    """Do some work, and end it quietly where its server is down."""
    try:
        await work
    except DownError:
        return
