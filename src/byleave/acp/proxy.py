"""The proxy as a process: moves the bytes between the client and the agent, and sees to it that everything ends.

What is forwarded is decided by the relay, which is asked about every line, under one lock. Two threads read, one from
each side; the main thread waits for signals and for the end of the agent, and keeps the relay's clock. Whatever goes
wrong here ends the conversation: nothing is forwarded that was not evaluated.

Start at `Proxy.run`.

Read whole lines from one side, write to the other in the order in which the relay decided.

Each side is written to by the thread that reads from the other, which waits as long as it takes: so a side that writes
faster than the other reads is held back. Answers of our own come from the opposite thread. That one must not wait for a
side that is itself waiting to be read from: `WriteQueue.nudge` leaves the waiting to a thread of its own.
"""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

from byleave.acp.agent_process import enlarge
from byleave.acp.relay import TO_AGENT, TO_CLIENT
from byleave.acp.supervisor import GIVE_UP, KILL, TERMINATE, Shutdown, ShutdownTimes, WakeupPipe
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Data = bytes | memoryview
    from collections.abc import Sequence
    from typing import Protocol

    from byleave.acp.agent_process import Agent
    from byleave.acp.relay import Send

    DecideLine = Callable[[bytes], list[Send] | None]
    PassLines = Callable[[bytes], bool]

    class Relaying(Protocol):
        """What a relay does (see `relay.Relay`): it is asked by one thread at a time."""

        @property
        def is_waiting(self) -> bool: ...

        def from_agent(self, line: bytes, /) -> list[Send] | None: ...

        def from_client(self, line: bytes, /) -> list[Send] | None: ...

        def tick(self) -> list[Send]: ...

        def notices(self) -> list[str]: ...

        def close(self) -> None: ...


READ_SIZE = 120 << 10  # bytes; from 128 KiB on, memory is mapped anew for every read
LONGEST_LINE = 1 << 29  # bytes; what is longer is no message, and would take all memory
_PIECE = 1 << 18  # bytes of one write, so that it shows whether the other side still reads
MOST_WAITING = 16 << 20  # bytes; a side that leaves so many answers of ours unread is waited for after all


class TooLongError(Exception):
    """A line does not come to its end."""


class Source:
    """Reads a descriptor in whole lines, copied as little as possible."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_waiting = False  # for the other end to write
        self.reads = 0

    def whole_lines(self) -> Iterator[bytes]:
        """Yield what comes, cut only behind line ends; last what is left, if it has no end."""
        pending: list[bytes] = []
        length = 0
        for data in self._pieces():
            end = data.rfind(b"\n") + 1
            if not end:
                pending.append(data)
                length += len(data)
                if length > LONGEST_LINE:
                    raise TooLongError
            elif end == len(data) and not pending:  # nearly always
                yield data
            else:
                yield b"".join([*pending, memoryview(data)[:end]])
                pending = [data[end:]] if end < len(data) else []
                length = len(data) - end
            del data  # a message may be large, and the next may be long in coming
        if pending:
            yield b"".join(pending)

    def has_news(self) -> bool:
        """Whether something could be read now, be it the end."""
        ready = select.poll()
        ready.register(self._descriptor, select.POLLIN)
        return bool(ready.poll(0))

    def _pieces(self) -> Iterator[bytes]:
        while True:
            self.is_waiting = True
            try:
                data = os.read(self._descriptor, READ_SIZE)
            except BlockingIOError:  # a process that shares it has made it so
                _wait_for(self._descriptor, select.POLLIN)
                continue
            except OSError:  # a terminal that hung up
                return
            self.is_waiting = False
            self.reads += 1
            if not data:
                return
            yield data
            del data


class WriteQueue:
    """What is to be written to one side. `add` is called under the relay's lock, which makes the order, no other is.

    `shut` closes it for good. A pipe of our own (`is_own`) is written to without waiting in the kernel; one that may be
    shared with other processes is left as it is.
    """

    def __init__(self, descriptor: int, *, is_own: bool, shut: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._is_own = is_own
        self._shut = shut
        self.waiting: deque[Data] = deque()  # to be written
        self._added = self.written = 0  # bytes; each is only ever counted up, by one thread at a time
        self._turn = Lock()  # of the thread that writes
        self._helping = Lock()
        self.is_open = True  # what is added will be written
        self._is_there = True
        self.is_broken = False  # the other side reads no longer
        if is_own:
            os.set_blocking(descriptor, False)

    def add(self, data: Data) -> None:
        """Have something written after everything that was added before; dropped if the queue is closed."""
        if self.is_open:
            self._added += len(data)
            self.waiting.append(data)

    def flush(self) -> None:
        """Write everything that was added, however long the other side takes to read it."""
        while self.waiting or (not self.is_open and self._is_there):
            with self._turn:
                self._work()

    def nudge(self) -> None:
        """Have everything written soon, without waiting for it."""
        while self.waiting or (not self.is_open and self._is_there):
            if not self._turn.acquire(blocking=False):
                return  # the thread that has it will look again
            try:
                self._work(patient=False)
            finally:
                self._turn.release()
            if self.waiting:
                if self._helping.acquire(blocking=False):
                    Thread(target=self._help, name="byleave-writer", daemon=True).start()
                return

    def hold_back(self) -> None:
        """Wait if the other side has left far too much unread."""
        if self._added - self.written > MOST_WAITING:
            self.flush()

    def finish(self) -> None:
        """Close the queue when everything that was added is written."""
        self.flush()
        self.cut()

    def cut(self) -> None:
        """Close the queue as soon as a write that is under way has ended; what waits behind it is dropped."""
        self.is_open = False
        self.nudge()

    def _help(self) -> None:
        try:
            self.flush()
        finally:
            self._helping.release()
        self.nudge()  # for a thread that counted on this one a moment ago

    def _work(self, *, patient: bool = True) -> None:
        """Write what waits, or close; the turn is ours. Not `patient`: as far as that goes without waiting."""
        queue = self.waiting
        while queue and self.is_open and (patient or self._is_own):
            data = queue[0]
            try:
                written = os.write(self._descriptor, data if len(data) <= _PIECE else memoryview(data)[:_PIECE])
            except BlockingIOError:
                if not patient:
                    break
                _wait_for(self._descriptor, select.POLLOUT)
            except OSError:
                self.is_broken = True
                self.is_open = False
            else:
                self.written += written
                if written == len(data):
                    queue.popleft()
                else:
                    queue[0] = memoryview(data)[written:]
        if not self.is_open:
            self._close()

    def _close(self) -> None:
        self.waiting.clear()
        if self._is_there:
            self._is_there = False
            self._shut()


def _wait_for(descriptor: int, event: int) -> None:
    ready = select.poll()
    ready.register(descriptor, event)
    ready.poll()


TIMED_OUT = 124  # as timeout(1) says it
FAILED = 1
_KILLED = 128 + signal.SIGKILL
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TICK, _ATTENTIVE_TICK = 1.0, 0.25  # seconds; the second while the relay waits for an answer
_LOOK = 0.05  # seconds between two looks at output that is still being sent when everything has ended
_PATIENT_LOCK = 1.0  # seconds; a relay that takes longer does not keep us from ending everything else


class AcpProxy:
    """One conversation between a client, at two descriptors, and an agent that was started."""

    def __init__(
        self,
        agent: Agent,
        relay: Relaying,
        warn: Callable[[Sequence[str]], None],
        *,
        patience: ShutdownTimes | None = None,
        longest: float | None = None,
        client: tuple[int, int] = (0, 1),
        passes: tuple[PassLines, PassLines] | None = None,  # see `_decide`; of the client's lines, of the agent's
    ) -> None:
        self._agent = agent
        self._relay = relay
        self._client_passes, self._agent_passes = passes or (_never, _never)
        self._warn = warn
        self._patience = patience or ShutdownTimes()
        self._ending = Shutdown(self._patience)
        self._reasons: set[str] = set()  # why the end has begun
        self._until = None if longest is None else monotonic() + longest
        self._lock = Lock()  # of the relay
        self._is_stopped = False  # nothing more is handed to the relay, so nothing more is forwarded
        self.problem: str | None = None  # what has gone wrong here, for people
        self._is_waiting = self._is_attentive = False  # the relay waits for an answer; we know
        self._is_client_silent = self._is_agent_silent = False  # it will write nothing more
        self._is_late = self._has_given_up = self._is_gone = False
        self._moved, self._moved_at = (-1, -1), 0.0  # what was read and written in the end, when it was last more
        self._next_tick = 0.0
        self._input, self._output = Source(client[0]), Source(agent.stdout)
        self._to_agent = WriteQueue(agent.stdin, is_own=True, shut=lambda: os.close(agent.stdin))
        self._to_client = WriteQueue(client[1], is_own=False, shut=lambda: _lead_nowhere(client[1]))
        self._lanes = {TO_AGENT: self._to_agent, TO_CLIENT: self._to_client}
        self._sink = client[1]
        for descriptor in client:
            enlarge(descriptor)

    def run(self) -> int:
        """Carry the conversation to its end, and return the exit code: the agent's own."""
        self._waking = WakeupPipe(_SIGNALS)
        self._watched = select.poll()
        self._watched.register(self._waking.descriptor, select.POLLIN)
        self._watched.register(self._agent.descriptor, select.POLLIN)
        self._watched.register(self._sink, 0)  # it always reports when no process reads there any more
        if self._until is not None:
            self._ending.kill_at(self._until)
        for work in (self._from_client, self._from_agent):
            Thread(target=self._guarded, args=(work,), name="byleave-acp", daemon=True).start()
        while not self._is_over(monotonic()):
            self._attend()
        return self._leave()

    # What the two threads do.

    def _from_client(self) -> None:
        for whole in self._input.whole_lines():
            self._hand(whole, (self._relay.from_client, self._client_passes), self._to_agent, self._to_client)
            del whole  # it may be large, and the next may be long in coming
        self._is_client_silent = True
        self._waking.wake()  # before the rest is written, for which an agent may take its time
        self._to_agent.finish()

    def _from_agent(self) -> None:
        try:
            for whole in self._output.whole_lines():
                self._hand(whole, (self._relay.from_agent, self._agent_passes), self._to_client, self._to_agent)
                del whole
            self._to_client.finish()
        finally:
            self._is_agent_silent = True
            self._waking.wake()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TooLongError:
            self._fail("a line is longer than any message, so the conversation was ended")
        except Exception as error:  # noqa: BLE001 -- whatever it is, nothing may be forwarded any more
            self._fail(_defect(error))

    def _hand(self, whole: bytes, deciding: tuple[DecideLine, PassLines], ahead: WriteQueue, back: WriteQueue) -> None:
        """Hand lines to the relay, and send what it says: the very bytes that came, unless it has others."""
        with self._lock:
            if self._is_stopped or not ahead.is_open:
                return
            if self._decide(whole, *deciding, ahead):
                self._is_waiting = self._relay.is_waiting
        if back.waiting:
            back.nudge()
            back.hold_back()
        ahead.flush()
        if ahead.is_broken or (self._is_waiting and not self._is_attentive):
            self._waking.wake()

    def _decide(self, whole: bytes, decide: DecideLine, passes: PassLines, ahead: WriteQueue) -> bool:
        """Decide on every line, and return whether one was not simply forwarded; those that are become one write.

        `passes` says of all lines at once that `decide` would forward each.
        """
        if passes(whole):
            ahead.add(whole)
            return False
        begin = start = 0
        length = len(whole)
        others = False
        while start < length:
            end = whole.find(b"\n", start) + 1 or length
            sends = decide(whole[start:end])
            if sends is not None:
                others = True
                if begin < start:
                    ahead.add(memoryview(whole)[begin:start])
                self._add(sends)
                begin = end
            start = end
        if begin < length:
            ahead.add(memoryview(whole)[begin:] if begin else whole)
        return others

    def _add(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self._lanes[send.to].add(send.data)

    def _fail(self, problem: str) -> None:
        """Stop at once: what cannot be evaluated is not forwarded."""
        self._is_stopped = True
        self.problem = self.problem or problem
        self._waking.wake()

    # What the main thread does.

    def _attend(self) -> None:
        """Wait until something happens or is due, and do what follows from it."""
        ready = dict(self._watched.poll(self._pause(monotonic()) * 1000))
        now = monotonic()
        for _number in self._waking.signals():
            self._to_agent.cut()
            self._begin("insisted" if "requested" in self._reasons else "requested", now)
        if self._agent.descriptor in ready:
            self._agent.look()
            self._note_end(now)
        if self._sink in ready:
            self._watched.unregister(self._sink)
            self._to_client.is_broken = True
        self._note_client(now)
        self._tick(now)
        self._end(now)

    def _pause(self, now: float) -> float:
        """Return for how many seconds nothing is to be done, unless something happens."""
        if self._is_gone:
            return _LOOK
        self._is_attentive = self._is_waiting
        if self._is_attentive:
            self._next_tick = min(self._next_tick, now + _ATTENTIVE_TICK)
        due = self._ending.next()
        return max(0.0, min(self._next_tick, self._next_tick if due is None else due) - now)

    def _note_end(self, now: float) -> None:
        """Take note that the agent has ended, and later that nothing is left of it."""
        if self._agent.code is not None:
            self._to_agent.cut()
            self._begin("left", now)
        if self._agent.is_gone:
            self._is_gone = True
            self._watched.unregister(self._agent.descriptor)

    def _note_client(self, now: float) -> None:
        """Begin the end if the client is gone, or if we cannot go on."""
        if self._to_client.is_broken or self.problem is not None:
            self._to_client.cut()
            self._to_agent.cut()
        if self.problem is not None:
            self._begin("requested", now)
        elif self._is_client_silent or self._to_client.is_broken:
            self._begin("closed", now)

    def _begin(self, reason: str, now: float) -> None:
        """Begin the end, once for each reason; `Patience` says how long it takes."""
        if reason not in self._reasons:
            self._reasons.add(reason)
            self._ending.begin(getattr(self._patience, reason), now)

    def _tick(self, now: float) -> None:
        """Keep the relay's clock; not now, if it is busy."""
        if now < self._next_tick:
            return
        if not self._lock.acquire(blocking=False):
            self._next_tick = now + _LOOK
            return
        try:
            self._next_tick = now + _TICK
            if self._is_stopped:
                return
            self._add(self._relay.tick())
            notices = self._relay.notices()
            self._is_waiting = self._relay.is_waiting
        except Exception as error:  # noqa: BLE001 -- as in `_guarded`
            self._fail(_defect(error))
            return
        finally:
            self._lock.release()
        for lane in self._lanes.values():
            lane.nudge()
        self._warn(notices)

    def _end(self, now: float) -> None:
        step = None if self._agent.is_gone else self._ending.due(now)
        if step == TERMINATE:
            self._agent.terminate()
        elif step == KILL:
            if self._until is not None and now >= self._until:
                self._is_late = True
                self.problem = "the agent was ended: it took longer than it may"
            self._agent.kill()
        elif step == GIVE_UP:
            self._has_given_up = True

    def _is_over(self, now: float) -> bool:
        """Whether everything has ended, and the client has everything that was written to it, or does not want it."""
        if not self._is_gone:
            return self._has_given_up
        moved = (self._output.reads, self._to_client.written)
        if moved != self._moved:
            self._moved, self._moved_at = moved, now
        return self._is_agent_silent or now - self._moved_at > self._still_patient()

    def _still_patient(self) -> float:
        """Return for how long nothing may move: another process may hold the pipe, or no process may read it."""
        if self._output.is_waiting and not self._output.has_news():
            return self._patience.last_words
        return self._patience.killed if "requested" in self._reasons else self._patience.unread

    def _leave(self) -> int:
        """Let go of everything but the agent, which is our caller's, and return the exit code."""
        self._is_stopped = True
        notices: list[str] = []
        if self._lock.acquire(timeout=_PATIENT_LOCK):  # for good: the relay hears nothing more
            try:
                self._relay.close()
                notices = self._relay.notices()
            except Exception as error:  # noqa: BLE001 -- as in `_guarded`
                self.problem = self.problem or _defect(error)
        self._warn(notices)
        self._waking.close()
        return self._code()

    def _code(self) -> int:
        if self._is_late:
            return TIMED_OUT
        if self.problem is not None:
            return FAILED
        return _KILLED if self._agent.code is None else self._agent.code


def _never(_lines: bytes) -> bool:
    """Leave every line to the relay."""
    return False


def _lead_nowhere(descriptor: int) -> None:
    """Close our end of what may be standard output: nothing that is opened later may take its number."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _defect(error: Exception) -> str:
    return f"internal error, so the conversation was ended: {type(error).__name__}: {shown(str(error))}"
