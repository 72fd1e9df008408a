"""The standing stream to a client: what belongs to none of its requests, in order, without keeping anybody waiting.

Those who hear what belongs to no request: stateless clients that listen, and the standing stream of a session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.gateway.interfaces import Sink


MOST_WAITING = 500  # messages for a client that does not read, or has no stream; the oldest go first


class NotificationQueue:
    """Messages on their way to the standing stream. Saying twice that a list has changed is saying it once."""

    def __init__(self) -> None:
        self._sink: Sink | None = None
        self._waiting: deque[bytes] = deque(maxlen=MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._sink is not None and self._sink.is_open()

    def attach(self, sink: Sink) -> None:
        """Send there from now on, first of all what has waited."""
        self._sink = sink
        self._go_on()

    def put(self, message: bytes) -> None:
        """Have a message sent; at most once, if the very same still waits."""
        if message not in self._waiting:
            self._waiting.append(message)
        self._go_on()

    def _go_on(self) -> None:
        if self._task is None and self._waiting and self.is_open:
            self._task = asyncio.get_running_loop().create_task(self._send())
            self._task.add_done_callback(self._sent)

    async def _send(self) -> None:
        while self._waiting and self._sink is not None and self._sink.is_open():
            message = self._waiting.popleft()
            if not await self._sink.send(message):
                self._waiting.appendleft(message)
                return

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is None and self._waiting and self.is_open:
            asyncio.get_running_loop().call_later(0.05, self._go_on)

    def close(self) -> None:
        """Send nothing any more."""
        self._sink = None
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()


class Listener:
    """A stateless client that listens: what it wants to hear of, on a stream of its own."""

    def __init__(self, wanted: Mapping[str, Any], meta: Mapping[str, Any], sink: Sink) -> None:
        self.wanted = wanted
        self.meta = meta
        self.aside = NotificationQueue()
        self.aside.attach(sink)


class StandingStream:
    """The standing stream, as a place where a question is put."""

    def __init__(self, aside: NotificationQueue) -> None:
        self._aside = aside

    async def send(self, *parts: bytes) -> bool:
        self._aside.put(b"".join(parts))
        return True

    async def answer(self, *_parts: bytes, status: int = 200) -> None:
        raise AssertionError(f"nothing is answered here ({status})")

    def is_open(self) -> bool:
        return self._aside.is_open
