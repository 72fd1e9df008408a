"""Talk with one mediated tool, from its first line to its end: read, write, serve, keep time. One thread owns it.

Reading and writing never wait for each other. What is done at once is done here; what may take long (a person, a
server, a program, a search) is done in a thread of its own, and meanwhile the tool is heard, so that it can give up and
we can stop. Answers go out in the order of the requests. A tool may send many requests before it reads an answer: while
answers wait to be read, nothing more is served, but requests are still taken in. That is bounded: beyond so many
requests, or bytes of them, the tool is not read from until it reads. However much it has asked for, we look up from
serving every few milliseconds, so that nothing it does keeps us from stopping it.

With its last word a tool is closing: what it asked for before and is done at once is still done, nothing else is begun.

Start at `Conversation.run`. What is said: `protocol.vfs`. What it means: `serving`.
"""

from __future__ import annotations

import os
import select
from collections import Counter, deque
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import RequestError
from byleave.protocol.content import STOPPED, WAITING
from byleave.protocol.jsonrpc import CANCELLED, INTERNAL_ERROR, TIMED_OUT
from byleave.protocol.vfs import Bad, Failed, Finished, GivesUp, StateChanged, ToolRequest
from byleave.text import shown
from byleave.toolhost.conversation_io import Outbox, WakeupQueue
from byleave.toolhost.deadline import Deadline, announced
from byleave.toolhost.methods import MethodService, NeedsPersonError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from byleave.protocol.vfs import Heard, HostSide, Id
    from byleave.toolhost.process import ToolProcess

_PIECE = 64 << 10  # bytes read at once; what they hold is the most that can be queued beyond the bound
_MOST_WAITING = 10_000  # requests; some 20 MB of memory
_MOST_PILED = 16 << 20  # bytes of requests that wait, beyond the last one
_MOST_LEFT = 4  # requests that were given up, and still run: a person, for one, is not to be hurried
_SLICE = 0.02  # seconds of serving before we look up
_MOST_UNSENT = 256 << 10  # bytes of answers that the tool has not taken, beyond the last one
_STDERR = 64 << 10  # bytes of the last words that are kept
_LAST_PIECES = 64  # that are read when the process is gone; a pipe holds at most 16 of them
_GRACE = 1.0  # seconds that a slow request may be late with saying so itself, or with ending in the end
_LONGEST_WAIT = 3600_000  # milliseconds in one go; poll takes no more than a C int


class Timing(Struct, frozen=True):
    """How long things may take, in seconds: the tool between two requests, stopping, everything together."""

    request: float = 60.0
    cancel: float = 5.0
    wall: float | None = None


class ConversationEnd(Struct, frozen=True):
    """How a conversation ended: the tool's last word, if it had one, and what became of its process."""

    last: Finished | Failed | StateChanged | None
    cancelled: bool
    exit_code: int | None
    stderr: str
    problem: str | None = None
    odd: str = ""  # what the tool wrote that was no message, as far as people want to know


class _Slow:
    """A request that is being served elsewhere: in a thread of its own, by `serve`."""

    def __init__(self, wish: ToolRequest, turn: Deadline, serve: Callable[[_Slow], None]) -> None:
        self.wish = wish
        self.turn = turn
        self.thread = Thread(target=serve, args=(self,), name="byleave-request", daemon=True)


class Conversation:
    """One tool's process, its pipes and its requests. `cancel`, `apply` and `count` may be used from other threads."""

    def __init__(
        self,
        started: ToolProcess,
        side: HostSide,
        service: MethodService,
        timing: Timing,
        *,
        changed: Callable[[StateChanged], object] | None = None,
    ) -> None:
        self.count = 0
        self._started = started
        self._side = side
        self._service = service
        self._timing = timing
        self._changed = changed
        self._queue: deque[ToolRequest | Bad | Finished | Failed | StateChanged] = deque()
        self._piled = 0
        self._queued: Counter[Id] = Counter()  # how many requests of an id are in the queue
        self._given_up: Counter[Id] = Counter()  # and how many of those are to be refused when their turn comes
        self._closing = False
        self._slow: _Slow | None = None
        self._left: list[_Slow] = []
        self._unsent = Outbox(started)
        self._stderr = b""
        self._odd = b""  # the beginning of the first line that was no message
        self._last: Finished | Failed | StateChanged | None = None
        self._problem: str | None = None
        self._over = False
        self._waiting = False
        self._stop_step = 0
        self._stop_at: float | None = None
        self._begun = self._quiet_since = monotonic()
        self._left_early = False
        self._summons = WakeupQueue()
        self._open = set(started.readers)
        self._watching: tuple[object, ...] = ()
        self._poll = select.poll()
        for descriptor in (started.stdin, *started.readers):
            os.set_blocking(descriptor, False)

    def run(self, first: bytes) -> ConversationEnd:
        """Say `first`, and talk until the end. Whatever happens, nothing of the tool is left."""
        try:
            self._send(first)
            while not self._over:
                self._attend()
            return self._ending()
        finally:
            self._close()

    def cancel(self) -> None:
        """Have the tool stop: it is asked, then told, then ended."""
        self._summons.post(self._stop)

    def end(self) -> None:
        """End the tool at once, without a word."""
        self._summons.post(self._leave)

    @property
    def takes_input(self) -> bool:
        """Whether the tool has read enough of what it was sent to be sent more."""
        return self._unsent.bytes <= _MOST_UNSENT

    def apply(self, given: Any) -> None:
        """Hand input to a stateful tool; whoever may give it much looks at `takes_input` first."""
        self._summons.post(lambda: self._apply(given))

    # What happens: everything below runs in the one thread.

    def _attend(self) -> None:
        """Wait for whatever comes first, and deal with it."""
        wanted = (self._may_read(), bool(self._unsent), self._started.stdin, self._started.ended, len(self._open))
        if wanted != self._watching:
            self._watching, self._poll = wanted, self._watch()
        for descriptor, _event in self._poll.poll(self._patience()):
            self._come(descriptor)
        self._serve()
        self._look_at_the_clock()

    def _watch(self) -> select.poll:
        """Return what waits for everything that matters now."""
        poll = select.poll()
        poll.register(self._summons.descriptor, select.POLLIN)
        for descriptor in self._open:
            if descriptor != self._started.stdout or self._may_read():
                poll.register(descriptor, select.POLLIN)
        if self._unsent and self._started.stdin >= 0:
            poll.register(self._started.stdin, select.POLLOUT)
        if self._started.ended >= 0:
            poll.register(self._started.ended, select.POLLIN)
        return poll

    def _may_read(self) -> bool:
        """Whether more is to be heard: not if too much waits, and not after the last word."""
        if self._closing:
            return False
        return not self._queue or (len(self._queue) < _MOST_WAITING and self._piled < _MOST_PILED)

    def _may_serve(self) -> bool:
        if not self._queue or self._over:
            return False
        return self._closing or (
            self._slow is None and self._unsent.bytes <= _MOST_UNSENT and len(self._left) < _MOST_LEFT
        )

    def _come(self, descriptor: int) -> None:
        started = self._started
        if descriptor == self._summons.descriptor:
            self._summons.heed()
        elif descriptor == started.stdout:
            self._read()
        elif descriptor == started.stderr:
            self._read_stderr()
        elif descriptor == started.stdin:
            self._unsent.write()
            if self._unsent.holds_answers:  # it reads, if slowly
                self._quiet_since = monotonic()
        elif descriptor == started.ended:
            self._exited()

    def _read(self) -> None:
        data = self._read_piece(self._started.stdout)
        if data is None:
            return
        self._piled += len(data)
        for heard in self._side.receive(data) if data else self._side.end():
            self._hear(heard)
        if not data:
            self._open.discard(self._started.stdout)
            self._stop_at = self._stop_at or monotonic() + self._timing.cancel
            self._closing = self._closing or not self._open

    def _read_stderr(self) -> None:
        data = self._read_piece(self._started.stderr)
        if data:
            self._stderr = (self._stderr + data)[-_STDERR:]
        elif data is not None:
            self._open.discard(self._started.stderr)
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

    def _exited(self) -> None:
        """The process is gone; what it has said is still heard, but not what its orphans may add for ever."""
        self._started.reaped()
        for descriptor, read in ((self._started.stdout, self._read), (self._started.stderr, self._read_stderr)):
            for _ in range(_LAST_PIECES):
                if descriptor not in self._open or not self._ready(descriptor):
                    break
                read()
        self._closing = True

    @staticmethod
    def _ready(descriptor: int) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def _hear(self, heard: Heard) -> None:
        if isinstance(heard, Bad):  # which is no request: whoever says nothing else is as good as silent
            self._queue.append(heard)
            return
        self._quiet_since = monotonic()
        if isinstance(heard, ToolRequest):
            self._queue.append(heard)
            self._queued[heard.id] += 1
        elif isinstance(heard, GivesUp):
            self._give_up(heard)
        elif isinstance(heard, StateChanged) and heard.update.type != STOPPED:
            self._waiting = heard.update.type == WAITING
            self._tell(heard)
        else:
            self._closing = True
            self._queue.append(heard)
            self._let_go()

    def _tell(self, heard: StateChanged) -> None:
        if self._changed is not None:
            self._changed(heard)

    def _serve(self) -> None:
        """Serve what is queued, one after the other, as long as nothing takes its time and answers are taken."""
        until = 0.0
        while self._may_serve():
            following = self._queue.popleft()
            if isinstance(following, Bad):
                self._odd = self._odd or following.line
                self._send(following.reply, answers=False)
            elif isinstance(following, ToolRequest):
                self.count += 1
                if self._is_wanted(following):
                    self._serve_one(following)
                else:
                    self._send(self._refused(following, CANCELLED, "you gave it up"))
            else:
                self._finished(following)
            if self._queue:
                until = until or monotonic() + _SLICE
                if monotonic() >= until:
                    return
        if not self._queue:
            self._piled = 0
            self._over = self._over or self._closing

    def _finished(self, last: Finished | Failed | StateChanged) -> None:
        if isinstance(last, StateChanged):
            self._tell(last)
        self._last, self._over = last, True

    def _serve_one(self, wish: ToolRequest) -> None:
        turn = Deadline(monotonic() + self._timing.request)
        if self._service.is_quick(wish.method):
            try:
                self._send(self._reply(wish, turn, patient=False))
            except NeedsPersonError:
                pass
            else:
                return
            finally:
                self._service.settle()
        if self._stop_step or self._closing:
            self._send(self._refused(wish, CANCELLED, "the call is being cancelled"))
            return
        self._slow = _Slow(wish, turn, self._serve_slowly)
        self._slow.thread.start()

    def _serve_slowly(self, slow: _Slow) -> None:
        """Serve a request in a thread of its own."""
        with announced(
            slow.turn, lambda reason: self._summons.post(lambda: self._announce(slow, reason)), self._look_up
        ):
            reply = self._reply(slow.wish, slow.turn, patient=True)
        self._summons.post(lambda: self._finish(slow, reply))

    def _look_up(self) -> None:
        """Have the clock looked at: it runs again."""
        self._summons.post(lambda: None)

    def _reply(self, wish: ToolRequest, turn: Deadline, *, patient: bool) -> bytes:
        try:
            result = self._service.serve(wish.method, wish.params, turn, patient=patient)
            return self._side.answer(wish.id, result)
        except RequestError as error:
            return self._side.refuse(wish.id, error.number, error.problem, error.data)
        except NeedsPersonError:
            raise
        except Exception as error:  # noqa: BLE001 -- one bad request must not end the host; it is not done, and says so
            return self._refused(wish, INTERNAL_ERROR, f"the host failed: {shown(type(error).__name__)}")

    def _announce(self, slow: _Slow, reason: str) -> None:
        if self._slow is slow:
            self._send(self._side.pending(slow.wish.id, reason))

    def _finish(self, slow: _Slow, reply: bytes) -> None:
        if self._slow is slow:  # else it was given up, and answered then
            self._slow = None
            self._quiet_since = monotonic()
            self._send(reply)
        elif slow in self._left:
            self._left.remove(slow)

    def _give_up(self, heard: GivesUp) -> None:
        if self._queued[heard.id] > self._given_up[heard.id]:
            self._given_up[heard.id] += 1
        elif self._slow is not None and self._slow.wish.id == heard.id:
            self._abandon(CANCELLED, "you gave it up")
        if heard.asked is not None:  # answered in its turn, like everything: a tool may say so for ever
            self._queue.append(Bad(self._side.answer(heard.asked, {})))

    def _is_wanted(self, wish: ToolRequest) -> bool:
        """Take note that a request leaves the queue; whether the tool still wants it done."""
        given_up = wish.id in self._given_up
        for counted in (self._queued, self._given_up):
            if counted[wish.id] > 1:
                counted[wish.id] -= 1
            else:
                counted.pop(wish.id, None)
        return not given_up

    def _abandon(self, number: int, why: str) -> None:
        """Answer the slow request now; what its thread comes to say later is not heard."""
        slow = self._let_go()
        if slow is not None:
            self._quiet_since = monotonic()
            self._send(self._refused(slow.wish, number, why))

    def _let_go(self) -> _Slow | None:
        """Have the slow request stopped, and wait for it no longer."""
        slow, self._slow = self._slow, None
        if slow is not None:
            self._left.append(slow)
            slow.turn.cancel()
        return slow

    def _refused(self, wish: ToolRequest, number: int, why: str) -> bytes:
        return self._side.refuse(wish.id, number, why)

    def _send(self, line: bytes, *, answers: bool = True) -> None:
        if not self._closing:
            self._unsent.add(line, answers=answers)

    def _apply(self, given: Any) -> None:
        self._waiting = False
        self._quiet_since = monotonic()
        self._send(self._side.apply(given))

    # Time.

    def _patience(self) -> int | None:
        """Return how many milliseconds may pass before the clock matters, or there is something to do."""
        if self._may_serve():
            return 0
        times = [each for each in (self._quiet_until(), self._slow_until(), self._stop_at, self._end_at()) if each]
        if not times:
            return None
        return min(max(0, int((min(times) - monotonic()) * 1000) + 1), _LONGEST_WAIT)

    def _quiet_until(self) -> float | None:
        if self._waiting or self._slow is not None or self._stop_at is not None or self._owes():
            return None
        return self._quiet_since + self._timing.request

    def _owes(self) -> bool:
        """Whether something waits for us, and not for the tool to take its answers."""
        return bool(self._queue) and self._unsent.bytes <= _MOST_UNSENT

    def _slow_until(self) -> float | None:
        deadline = None if self._slow is None else self._slow.turn.deadline
        return None if deadline is None else deadline + _GRACE

    def _end_at(self) -> float | None:
        return None if self._timing.wall is None else self._begun + self._timing.wall

    def _look_at_the_clock(self) -> None:
        now = monotonic()
        if self._over:
            return
        if (slow := self._slow_until()) is not None and now >= slow:
            self._abandon(TIMED_OUT, "it took too long")
        if (end := self._end_at()) is not None and now >= end:
            self._end(f"the tool was ended: it took longer than {self._timing.wall:g} seconds")
        elif self._stop_at is not None and now >= self._stop_at:
            self._stop_harder()
        elif (quiet := self._quiet_until()) is not None and now >= quiet:
            did = (
                "did not read what it was sent"
                if self._unsent.holds_answers
                else "asked for nothing and did not finish"
            )
            self._end(f"the tool was ended: it {did} for {self._timing.request:g} seconds")

    def _end(self, problem: str) -> None:
        self._problem, self._over = problem, True

    def _leave(self) -> None:
        self._over = self._left_early = True

    def _stop(self) -> None:
        """Ask the tool to stop; asked a second time, end it at once."""
        if self._stop_step:
            self._leave()
            return
        self._stop_step = 1
        if self._slow is not None:
            self._abandon(CANCELLED, "the call is being cancelled")
        self._send(self._side.cancel())
        self._stop_at = monotonic() + self._timing.cancel

    def _stop_harder(self) -> None:
        if self._stop_step == 0 and self._closing:  # it is gone; what it asked for is still being done
            self._stop_at = None
        elif self._stop_step == 0:  # it closed its output, and still runs
            self._end("the tool closed its output without a result")
        elif self._stop_step == 1:
            self._stop_step, self._stop_at = 2, monotonic() + self._timing.cancel
            self._started.terminate()
        else:
            self._leave()

    def _ending(self) -> ConversationEnd:
        cancelled = self._stop_step > 0
        known = self._last is not None or self._problem is not None or self._left_early
        code = None if known else self._started.exit_code()
        if self._problem is None and self._started.problem is not None:
            self._problem = str(self._started.problem)
        stderr, odd = self._stderr.decode("utf-8", "replace"), self._odd.decode("utf-8", "replace")
        return ConversationEnd(self._last, cancelled, code, stderr, self._problem, odd)

    def _close(self) -> None:
        self._let_go()
        self._over = True
        self._started.close()
        until = monotonic() + _GRACE
        for slow in self._left:  # so that nothing is done for the tool when the call is over
            slow.thread.join(max(0.0, until - monotonic()))
        self._summons.close()
