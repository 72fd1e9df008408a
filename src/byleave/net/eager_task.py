"""Tasks that lose no turn of the event loop: they begin at once, and go on at once when what they wait for is there.

A task of asyncio begins in the next turn of the loop, and goes on in the turn after the one in which its future got a
result. Each turn is a look at all sockets. For a call that is answered within a fraction of a millisecond, that is a
tenth of all it costs. An `EagerTask` runs within the call that makes it until it has to wait. Where it waits for a
`DirectFuture`, `DirectFuture.wake` runs it on before it returns. All other futures wake it as they wake any task.

`asyncio.current_task`, `asyncio.timeout`, `cancel` and `uncancel` work as in tasks of asyncio, of which all versions
let others make tasks by the functions used here. Python 3.12 has tasks that begin at once, but none that go on so.
"""

from __future__ import annotations

import asyncio
from asyncio import _enter_task, _leave_task  # "Extending asyncio" describes both
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class DirectFuture(asyncio.Future[None]):
    """A future that one task waits for. To other tasks than eager ones it is like any."""

    waiting: EagerTask | None = None

    def wake(self) -> None:
        """Have its task go on: an eager one within this call, so the caller must be done with its own affairs."""
        task = self._settled()
        if task is not None:
            task.go_on(self)

    def wake_soon(self) -> None:
        """Have its task go on in the next turn of the loop."""
        task = self._settled()
        if task is not None:
            self.get_loop().call_soon(task.go_on, self)

    def cancel(self, msg: Any | None = None) -> bool:
        task, is_cancelled = self.waiting, super().cancel(msg)
        if task is not None and is_cancelled:
            self.waiting = None
            self.get_loop().call_soon(task.go_on, self)
        return is_cancelled

    def _settled(self) -> EagerTask | None:
        """Have the result; return the eager task that waits for it."""
        if self.done():
            return None
        self.set_result(None)
        task, self.waiting = self.waiting, None
        return task


class EagerTask(asyncio.Future[None]):
    """A coroutine that has begun. Its maker keeps a reference to it, as to any task."""

    def __init__(self, work: Coroutine[Any, Any, None], *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._work = work
        self._context = copy_context()
        self._awaited: asyncio.Future[Any] | None = None
        self._cancels = 0
        self._must_cancel = False
        self._context.run(self._step)

    def cancel(self, msg: Any | None = None) -> bool:
        """Have a CancelledError raised where it waits, in the next turn; return whether it was not done."""
        if self.done():
            return False
        self._cancels += 1
        if self._awaited is None or not self._awaited.cancel(msg):
            self._must_cancel = True
        return True

    def cancelling(self) -> int:
        """Return how many cancellations were not taken back."""
        return self._cancels

    def uncancel(self) -> int:
        """Take one cancellation back; return how many are left."""
        self._cancels = max(0, self._cancels - 1)
        if not self._cancels:
            self._must_cancel = False
        return self._cancels

    def go_on(self, awaited: asyncio.Future[Any]) -> None:
        """Go on: what it waits for is there, or will not be."""
        try:
            awaited.result()
        except BaseException as problem:  # noqa: BLE001 -- it is raised where the task waits
            self._context.run(self._step, problem)
        else:
            self._context.run(self._step)

    def _step(self, problem: BaseException | None = None) -> None:
        """Run the coroutine until it waits again, or ends."""
        loop, self._awaited = self._loop, None
        if self._must_cancel:
            self._must_cancel = False
            if not isinstance(problem, asyncio.CancelledError):
                problem = asyncio.CancelledError()
        outer = None
        try:
            _enter_task(loop, self)  # type: ignore[arg-type] # any kind of task may
        except RuntimeError:  # this is within the step of another task
            outer = asyncio.current_task(loop)
            _leave_task(loop, outer)  # type: ignore[arg-type]
            _enter_task(loop, self)  # type: ignore[arg-type]
        try:
            awaited = self._work.send(None) if problem is None else self._work.throw(problem)
        except StopIteration:
            if self._must_cancel:  # it was cancelled in its very last step
                super().cancel()
            else:
                self.set_result(None)
        except asyncio.CancelledError:
            super().cancel()
        except BaseException as failure:
            self.set_exception(failure)
            if not isinstance(failure, Exception):
                raise
        else:
            self._wait_for(awaited)
        finally:
            problem = None  # it holds this frame
            _leave_task(loop, self)  # type: ignore[arg-type]
            if outer is not None:
                _enter_task(loop, outer)

    def _wait_for(self, awaited: Any) -> None:
        if awaited is None:  # a bare yield: it only lets others have their turn
            self._loop.call_soon(self._step, context=self._context)
            return
        awaited._asyncio_future_blocking = False  # noqa: SLF001 -- what a task says to a future that it waits for
        self._awaited = awaited
        if isinstance(awaited, DirectFuture):
            awaited.waiting = self
        else:
            awaited.add_done_callback(self.go_on)
        if self._must_cancel and awaited.cancel():
            self._must_cancel = False
