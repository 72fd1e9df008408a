"""Converse with one mediated tool, from its first line to its end: read, write, serve, keep time. One thread owns it.

Reading and writing never wait for each other. A quick request is served at once; one that may take long (a person, a
server, a program, a search) is served in a thread of its own, and meanwhile the tool is read from, so that it can
cancel the request and the host can stop the tool. Replies go out in the order of the requests.

A tool may send many requests before it reads a reply. While replies wait to be read, nothing more is served, but
requests are still queued, up to a limit; beyond it the tool is not read from until it reads. However much a tool
requests, serving pauses every few milliseconds, so that no tool can keep the host from stopping it.

After its result a tool is closing: quick requests that it sent before are still served, no others are begun.

Start at `Conversation.run`. The messages: `protocol.vfs`. What the requests do: `methods`. The queues:
`conversation_queues`.
"""

from __future__ import annotations

import os
import select
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import RequestError
from byleave.protocol.content import STOPPED, WAITING
from byleave.protocol.jsonrpc import CANCELLED, INTERNAL_ERROR, TIMED_OUT
from byleave.protocol.vfs import BadMessage, Failed, Finished, RequestCancelled, StateChanged, ToolRequest
from byleave.text import shown
from byleave.toolhost.conversation_queues import Outbox, RequestQueue, WakeupQueue
from byleave.toolhost.deadline import Deadline, announced
from byleave.toolhost.methods import MethodService, NeedsPersonError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from byleave.protocol.vfs import HostSide, ToolMessage
    from byleave.toolhost.limits import Timing
    from byleave.toolhost.process import ToolProcess

_PIECE = 64 << 10  # bytes read at once; they are the most that can be queued beyond the limit
_MOST_ABANDONED = 4  # requests that were cancelled and still run: a person, for one, cannot be interrupted
_SLICE = 0.02  # seconds of serving before the pipes and the clock get their turn
_MOST_UNREAD = 256 << 10  # bytes of replies that the tool has not taken, beyond the last one
_STDERR = 64 << 10  # bytes of the end of standard error that are kept
_LAST_PIECES = 64  # that are read when the process is gone; a pipe holds at most 16 of them
_GRACE = 1.0  # seconds that a slow request may be late with its own time-out, or with its end
_SOON = 0.005  # seconds that the outcome of a request waits for the next decision, to be recorded with it
_LONGEST_WAIT = 3600_000  # milliseconds in one go; poll takes no more than a C int


class ConversationEnd(Struct, frozen=True):
    """How a conversation ended: the tool's last message, if there was one, and what became of its process."""

    last: Finished | Failed | StateChanged | None
    cancelled: bool
    exit_code: int | None
    stderr: str
    problem: str | None = None
    odd: str = ""  # the first line that was no message, shortened


class _SlowRequest:
    """A request that `serve` serves in a thread of its own."""

    def __init__(self, request: ToolRequest, deadline: Deadline, serve: Callable[[_SlowRequest], None]) -> None:
        self.request = request
        self.deadline = deadline
        self.thread = Thread(target=serve, args=(self,), name="byleave-request", daemon=True)


class Conversation:
    """One tool's process, its pipes and its requests.

    `cancel`, `end`, `apply`, `takes_input` and `count` may be used from other threads.
    """

    def __init__(
        self,
        process: ToolProcess,
        side: HostSide,
        service: MethodService,
        timing: Timing,
        *,
        changed: Callable[[StateChanged], object] | None = None,
    ) -> None:
        self.count = 0  # requests that were served
        self._process = process
        self._side = side
        self._service = service
        self._timing = timing
        self._changed = changed
        self._requests = RequestQueue()
        self._outbox = Outbox(process)
        self._wakeups = WakeupQueue()
        self._slow: _SlowRequest | None = None
        self._abandoned: list[_SlowRequest] = []
        self._closing = False  # no more is read or sent
        self._over = False  # no more is served
        self._waiting = False  # the tool has asked a question
        self._stderr = b""
        self._odd = b""
        self._last: Finished | Failed | StateChanged | None = None
        self._problem: str | None = None
        self._ended_at_once = False
        self._stop_step = 0  # 1: the tool was sent `cancel`; 2: it was sent SIGTERM
        self._stop_at: float | None = None
        self._settle_at: float | None = None  # when outcomes are recorded, if nothing comes before
        self._begun = self._quiet_since = monotonic()
        self._open = set(process.readers)
        self._watched: tuple[object, ...] = ()
        self._poll = select.poll()
        for descriptor in (process.stdin, *process.readers):
            os.set_blocking(descriptor, False)

    def run(self, first: bytes) -> ConversationEnd:
        """Send `first`, and converse until the end. Whatever happens, nothing of the tool is left."""
        try:
            self._send(first)
            while not self._over:
                self._step()
            self._service.settle()  # what follows may wait for the process
            return self._result()
        finally:
            self._close()

    def cancel(self) -> None:
        """Have the tool stop: it is sent `cancel`, then SIGTERM, then SIGKILL."""
        self._wakeups.post(self._stop)

    def end(self) -> None:
        """End the tool at once."""
        self._wakeups.post(self._end_at_once)

    @property
    def takes_input(self) -> bool:
        """Whether the tool has read enough of what it was sent to be sent more."""
        return self._outbox.bytes <= _MOST_UNREAD

    def apply(self, given: Any) -> None:
        """Send input to a stateful tool. A caller that may send much looks at `takes_input` first."""
        self._wakeups.post(lambda: self._apply(given))

    # The loop. Everything below runs in the one thread, but for `_serve_slow`.

    def _step(self) -> None:
        """Wait for whatever comes first, and handle it."""
        watched = (self._may_read(), bool(self._outbox), self._process.stdin, self._process.ended, len(self._open))
        if watched != self._watched:
            self._watched, self._poll = watched, self._watch()
        for descriptor, _event in self._poll.poll(self._milliseconds_left()):
            self._handle(descriptor)
        self._serve()
        self._check_clock()

    def _watch(self) -> select.poll:
        """Return a poll of every descriptor that matters now."""
        poll = select.poll()
        poll.register(self._wakeups.descriptor, select.POLLIN)
        for descriptor in self._open:
            if descriptor != self._process.stdout or self._may_read():
                poll.register(descriptor, select.POLLIN)
        if self._outbox and self._process.stdin >= 0:
            poll.register(self._process.stdin, select.POLLOUT)
        if self._process.ended >= 0:
            poll.register(self._process.ended, select.POLLIN)
        return poll

    def _may_read(self) -> bool:
        return not self._closing and not self._requests.is_full

    def _may_serve(self) -> bool:
        if not self._requests or self._over:
            return False
        return self._closing or (
            self._slow is None and self._outbox.bytes <= _MOST_UNREAD and len(self._abandoned) < _MOST_ABANDONED
        )

    def _handle(self, descriptor: int) -> None:
        process = self._process
        if descriptor == self._wakeups.descriptor:
            self._wakeups.run()
        elif descriptor == process.stdout:
            self._read_stdout()
        elif descriptor == process.stderr:
            self._read_stderr()
        elif descriptor == process.stdin:
            self._outbox.write()
            if self._outbox.holds_replies:  # the tool reads, if slowly
                self._quiet_since = monotonic()
        elif descriptor == process.ended:
            self._read_rest()

    # Reading.

    def _read_stdout(self) -> None:
        data = self._read_piece(self._process.stdout)
        if data is None:
            return
        self._requests.count_bytes(len(data))
        for message in self._side.receive(data) if data else self._side.end():
            self._receive(message)
        if not data:
            self._open.discard(self._process.stdout)
            self._stop_at = self._stop_at or monotonic() + self._timing.cancel
            self._closing = self._closing or not self._open

    def _read_stderr(self) -> None:
        data = self._read_piece(self._process.stderr)
        if data:
            self._stderr = (self._stderr + data)[-_STDERR:]
        elif data is not None:
            self._open.discard(self._process.stderr)
            self._closing = self._closing or not self._open

    @staticmethod
    def _read_piece(descriptor: int) -> bytes | None:
        """Return what there is to read, nothing at the end, None if there is nothing yet."""
        try:
            return os.read(descriptor, _PIECE)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _read_rest(self) -> None:
        """Read what the process wrote before it ended, but not what its orphans may add for ever."""
        self._process.reaped()
        for descriptor, read in ((self._process.stdout, self._read_stdout), (self._process.stderr, self._read_stderr)):
            for _ in range(_LAST_PIECES):
                if descriptor not in self._open or not self._is_ready(descriptor):
                    break
                read()
        self._closing = True

    @staticmethod
    def _is_ready(descriptor: int) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def _receive(self, message: ToolMessage) -> None:
        if isinstance(message, BadMessage):  # not a request: a tool that sends nothing else counts as quiet
            self._requests.add(message)
            return
        if isinstance(message, RequestCancelled):  # no request either
            self._cancel_request(message)
            return
        self._quiet_since = monotonic()
        if isinstance(message, ToolRequest):
            self._requests.add(message)
        elif isinstance(message, StateChanged) and message.update.type != STOPPED:
            self._waiting = message.update.type == WAITING
            self._report_change(message)
        else:
            self._closing = True
            self._requests.add(message)
            self._abandon()

    def _cancel_request(self, message: RequestCancelled) -> None:
        if not self._requests.cancel(message.id) and self._slow is not None and self._slow.request.id == message.id:
            self._refuse_slow(CANCELLED, "the tool cancelled this request")
        if message.asked is not None:  # answered in its turn, like everything: a tool may cancel for ever
            self._requests.add(BadMessage(self._side.answer(message.asked, {})))

    def _report_change(self, message: StateChanged) -> None:
        if self._changed is not None:
            self._changed(message)

    # Serving.

    def _serve(self) -> None:
        """Serve the queue in order, until a request is slow, replies are not read, or the slice of time is over."""
        until = 0.0
        while self._may_serve():
            message, cancelled = self._requests.take()
            if isinstance(message, BadMessage):
                self._odd = self._odd or message.line
                self._send(message.reply, is_reply=False)
            elif isinstance(message, ToolRequest):
                self.count += 1
                if cancelled:
                    self._refuse(message, CANCELLED, "the tool cancelled this request")
                else:
                    self._serve_request(message)
            else:
                if isinstance(message, StateChanged):
                    self._report_change(message)
                self._last, self._over = message, True
            if self._requests:
                until = until or monotonic() + _SLICE
                if monotonic() >= until:
                    return
        if not self._requests:
            self._over = self._over or self._closing

    def _serve_request(self, request: ToolRequest) -> None:
        deadline = Deadline(monotonic() + self._timing.request)
        if self._service.is_quick(request.method):
            try:
                self._send(self._reply_to(request, deadline, patient=False))
            except NeedsPersonError:
                pass
            else:
                return
        self._service.settle()  # before the thread records what it does
        if self._stop_step or self._closing:
            self._refuse(request, CANCELLED, "the call is being cancelled")
            return
        self._slow = _SlowRequest(request, deadline, self._serve_slow)
        self._slow.thread.start()

    def _serve_slow(self, slow: _SlowRequest) -> None:
        """Serve a request, in a thread of its own."""

        def announce(reason: str) -> None:
            self._wakeups.post(lambda: self._announce(slow, reason))

        def resume() -> None:  # the clock runs again: have it looked at
            self._wakeups.post(lambda: None)

        with announced(slow.deadline, announce, resume):
            reply = self._reply_to(slow.request, slow.deadline, patient=True)
        self._wakeups.post(lambda: self._finish_slow(slow, reply))

    def _reply_to(self, request: ToolRequest, deadline: Deadline, *, patient: bool) -> bytes:
        try:
            result = self._service.serve(request.method, request.params, deadline, patient=patient)
            return self._side.answer(request.id, result)
        except RequestError as error:
            return self._side.refuse(request.id, error.number, error.problem, error.data)
        except NeedsPersonError:
            raise
        except Exception as error:  # noqa: BLE001 -- one bad request must not end the host; it is refused
            return self._side.refuse(request.id, INTERNAL_ERROR, f"the host failed: {shown(type(error).__name__)}")

    def _announce(self, slow: _SlowRequest, reason: str) -> None:
        if self._slow is slow:
            self._send(self._side.pending(slow.request.id, reason))

    def _finish_slow(self, slow: _SlowRequest, reply: bytes) -> None:
        if self._slow is slow:  # else it was abandoned, and refused then
            self._slow = None
            self._quiet_since = monotonic()
            self._send(reply)
        elif slow in self._abandoned:
            self._abandoned.remove(slow)

    def _refuse_slow(self, number: int, why: str) -> None:
        """Refuse the slow request now; the reply that its thread makes later is dropped."""
        slow = self._abandon()
        if slow is not None:
            self._quiet_since = monotonic()
            self._refuse(slow.request, number, why)

    def _abandon(self) -> _SlowRequest | None:
        """Cancel the slow request, and wait for it no longer."""
        slow, self._slow = self._slow, None
        if slow is not None:
            self._abandoned.append(slow)
            slow.deadline.cancel()
        return slow

    def _refuse(self, request: ToolRequest, number: int, why: str) -> None:
        self._send(self._side.refuse(request.id, number, why))

    def _send(self, line: bytes, *, is_reply: bool = True) -> None:
        if not self._closing:
            self._outbox.add(line, is_reply=is_reply)

    def _apply(self, given: Any) -> None:
        self._waiting = False
        self._quiet_since = monotonic()
        self._send(self._side.apply(given))

    # Time.

    def _milliseconds_left(self) -> int | None:
        """Return how long to wait before the clock matters, or there is something to serve."""
        if self._may_serve():
            return 0
        times = [
            each
            for each in (self._quiet_until(), self._slow_until(), self._stop_at, self._wall_until(), self._settle_at)
            if each
        ]
        if not times:
            return None
        return min(max(0, int((min(times) - monotonic()) * 1000) + 1), _LONGEST_WAIT)

    def _quiet_until(self) -> float | None:
        """Return when a quiet tool is ended; None while the host owes it something, or a person does."""
        owes = self._requests.holds_requests and self._outbox.bytes <= _MOST_UNREAD
        if self._waiting or self._slow is not None or self._stop_at is not None or owes:
            return None
        return self._quiet_since + self._timing.request

    def _slow_until(self) -> float | None:
        deadline = None if self._slow is None else self._slow.deadline.deadline
        return None if deadline is None else deadline + _GRACE

    def _wall_until(self) -> float | None:
        return None if self._timing.wall is None else self._begun + self._timing.wall

    def _check_clock(self) -> None:
        now = monotonic()
        self._settle_soon(now)
        if self._over:
            return
        if (slow := self._slow_until()) is not None and now >= slow:
            self._refuse_slow(TIMED_OUT, "it took too long")
        if (wall := self._wall_until()) is not None and now >= wall:
            self._end_because(f"the tool was ended: it took longer than {self._timing.wall:g} seconds")
        elif self._stop_at is not None and now >= self._stop_at:
            self._stop_harder()
        elif (quiet := self._quiet_until()) is not None and now >= quiet:
            unread = self._outbox.holds_replies
            did = "did not read what it was sent" if unread else "asked for nothing and did not finish"
            self._end_because(f"the tool was ended: it {did} for {self._timing.request:g} seconds")

    def _settle_soon(self, now: float) -> None:
        """Have outcomes recorded, in some milliseconds at the latest, with which no decision was written by then."""
        if not self._service.unsettled:
            self._settle_at = None
        elif self._settle_at is None:
            self._settle_at = now + _SOON
        elif now >= self._settle_at:
            self._service.settle()
            self._settle_at = None

    # The end.

    def _end_because(self, problem: str) -> None:
        self._problem, self._over = problem, True

    def _end_at_once(self) -> None:
        self._over = self._ended_at_once = True

    def _stop(self) -> None:
        """Send the tool `cancel`; the second time, end it at once."""
        if self._stop_step:
            self._end_at_once()
            return
        self._stop_step = 1
        if self._slow is not None:
            self._refuse_slow(CANCELLED, "the call is being cancelled")
        self._send(self._side.cancel())
        self._stop_at = monotonic() + self._timing.cancel

    def _stop_harder(self) -> None:
        if self._stop_step == 0 and self._closing:  # the process is gone; what it requested is still being served
            self._stop_at = None
        elif self._stop_step == 0:  # it closed its output, and still runs
            self._end_because("the tool closed its output without a result")
        elif self._stop_step == 1:
            self._stop_step, self._stop_at = 2, monotonic() + self._timing.cancel
            self._process.terminate()
        else:
            self._end_at_once()

    def _result(self) -> ConversationEnd:
        known = self._last is not None or self._problem is not None or self._ended_at_once
        code = None if known else self._process.exit_code()
        if self._problem is None and self._process.problem is not None:
            self._problem = str(self._process.problem)
        stderr, odd = self._stderr.decode("utf-8", "replace"), self._odd.decode("utf-8", "replace")
        return ConversationEnd(self._last, self._stop_step > 0, code, stderr, self._problem, odd)

    def _close(self) -> None:
        try:
            self._service.settle()
        finally:  # whatever kept the outcomes from being recorded
            self._abandon()
            self._over = True
            self._process.close()
            until = monotonic() + _GRACE
            for slow in self._abandoned:  # so that nothing is done for the tool when the call is over
                slow.thread.join(max(0.0, until - monotonic()))
            self._wakeups.close()
