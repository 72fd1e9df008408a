"""Stop every process of confined commands for a moment, from outside.

They are stopped by tracing them, not by SIGSTOP: a program can have the kernel send SIGCONT to itself (a timer, a lease
on a file), and would go on. A traced one goes on when we let it, or when we end, however that comes about: nothing
stays stopped for ever. What the user's job control had stopped before stays stopped after.

Our own launcher is not stopped: the first process of a command, and the init of its namespace. Neither acts for the
program, except where it starts programs for it (`RunRoot.brokered`), which the caller has to rule out.

A process belongs to a command if it descends from its first one: the launcher adopts all orphans. Nothing is stopped
before it is traced and found to be still the same.

A process can fork the next one and end, faster than we look. The kernel lists processes by ascending numbers and gives
new ones higher numbers, so some process of such a chain is always in the list; by the time that we look at it, it may
have ended. What was listed and has ended since the last look makes a look worthless (`_Look.missed`): its child may be
anywhere. Two looks in a row that miss nothing and find the same, all of it stopped, are the proof that all is stopped.
Start at `StoppedProcesses`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Self

from byleave.record import Record
from byleave.user_files import first_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from byleave.store.live_runs import RunRoot

    Table = Mapping[int, "ProcessFacts"]

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17  # linux/ptrace.h
_NEW_ONES = 0b1110  # what a traced process forks, by whichever call, is traced from its beginning
_ALL = 0x40000000  # __WALL: threads, too
_GONE = (b"Z", b"X")
_NAP = 0.001
_LARGEST = 4096


class ProcessFacts(Record):
    """What the kernel says about a process."""

    state: bytes
    parent: int
    started: int


def process_facts(pid: int | str) -> ProcessFacts | None:
    """Return the facts about a process; None if there is none."""
    # The name may hold anything, parentheses too; the rest is behind the last one.
    fields = first_bytes(f"/proc/{pid}/stat", _LARGEST).rpartition(b")")[2].split()
    return ProcessFacts(fields[0], int(fields[1]), int(fields[19])) if len(fields) > 19 else None


def is_running(root: RunRoot) -> bool:
    """Whether the first process of a command is there, and no later one with its number."""
    found = process_facts(root.pid)
    return found is not None and found.started == root.started and found.state not in _GONE


class StoppedProcesses:
    """The processes that this process, and it alone, keeps stopped. It must have no children of its own."""

    def __init__(self) -> None:
        import ctypes

        self._ptrace: Any = ctypes.CDLL(None).ptrace
        self._ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._ptrace.restype = ctypes.c_long
        self._tasks: dict[int, int | None] = {}  # what is stopped, by the signal that it has not got yet; None: not yet

    def stop(self, roots: Sequence[RunRoot], until: float) -> bool:
        """Stop all processes of these commands; False if that was not possible until then: end this process."""
        before: AbstractSet[int] | None = None
        last = _Look()
        while time.monotonic() < until:
            look = _Look.take(roots, last)
            for task, (process, root) in look.tasks.items():
                if task not in self._tasks and not self._trace(task, look.table[process].started, process, root):
                    return False
            self.collect()
            found = None if look.missed else look.tasks.keys()
            if found is not None and found == before and all(self._tasks.get(task) is not None for task in found):
                return True
            before, last = found, look
            time.sleep(_NAP)
        return False

    def _trace(self, task: int, started: int, process: int, root: RunRoot) -> bool:
        """Begin to trace a thread, and have it stop; False if it turns out to be another's."""
        if self._ptrace(_SEIZE, task, None, _NEW_ONES) != 0:
            return True  # it has ended, it is ours from its birth, or it cannot be traced: the next look shows
        if not _descends(process, started, root):
            return False
        self._tasks[task] = None
        self._ptrace(_INTERRUPT, task, None, None)
        return True

    def collect(self) -> None:
        """Take note of what has stopped, and of what has ended."""
        while True:
            try:
                task, status = os.waitpid(-1, os.WNOHANG | _ALL)
            except ChildProcessError:
                return
            if task == 0:
                return
            if os.WIFSTOPPED(status):
                self._tasks[task] = 0 if status >> 16 else os.WSTOPSIG(status)
            else:
                self._tasks.pop(task, None)

    def let_go(self) -> None:
        """Have all of them go on."""
        for task, undelivered in self._tasks.items():
            self._ptrace(_DETACH, task, None, undelivered or None)
        self._tasks.clear()


class _Look:
    """All processes of the machine as they were listed and read one after the other, and those of some commands."""

    def __init__(self) -> None:
        self.table: dict[int, ProcessFacts] = {}
        self.tasks: dict[int, tuple[int, RunRoot]] = {}  # threads of the commands: their processes, and which command
        self.missed = False  # whether something may run that is not in here
        self.settled: set[int] = set()  # what belongs to no command, and what had ended: its end means nothing

    @classmethod
    def take(cls, roots: Sequence[RunRoot], last: _Look) -> Self:
        """Look at the machine; the last look says which processes have nothing to do with the commands."""
        look = cls()
        look._read_table(last)
        children: dict[int, list[int]] = {}
        for pid, facts in look.table.items():
            children.setdefault(facts.parent, []).append(pid)
        inside: set[int] = set()
        for root in roots:
            if is_running(root):
                programs = _programs(children, root)
                look.missed = look.missed or not programs  # its program is not there yet
                look._find_tasks(programs, children, root, last, inside)
        look.settled |= look.table.keys() - inside
        return look

    def _read_table(self, last: _Look) -> None:
        for name in os.listdir("/proc"):
            if name.isdigit():
                pid = int(name)
                facts = process_facts(pid)
                if facts is not None:
                    self.table[pid] = facts
                elif pid not in last.settled:
                    self.missed = True
        for pid, facts in list(self.table.items()):
            if facts.parent not in self.table and facts.parent > 0:  # it has ended meanwhile, and its child was adopted
                now = process_facts(pid)
                if now is not None:
                    self.table[pid] = now

    def _find_tasks(
        self, todo: list[int], children: Mapping[int, list[int]], root: RunRoot, last: _Look, inside: set[int]
    ) -> None:
        """Find the threads of a command, without those of our launcher."""
        while todo:
            pid = todo.pop()
            todo += children.get(pid, ())
            inside.add(pid)
            try:
                threads = os.listdir(f"/proc/{pid}/task")
            except OSError:
                self.missed = self.missed or pid not in last.settled
                continue
            for thread in threads:
                seen = process_facts(f"{pid}/task/{thread}")
                if seen is not None and seen.state not in _GONE:
                    self.tasks[int(thread)] = (pid, root)
                    continue
                self.missed = self.missed or int(thread) not in last.settled
                if seen is not None:
                    self.settled.add(int(thread))


def _programs(children: Mapping[int, list[int]], root: RunRoot) -> list[int]:
    """Return the processes of a command that our launcher has started."""
    level = len(_numbers(root.pid))
    found: list[int] = []
    for pid in children.get(root.pid, ()):
        numbers = _numbers(pid)
        is_init = len(numbers) == level + 1 and numbers[-1] == b"1"
        found += children.get(pid, ()) if is_init else [pid]
    return found


def _numbers(pid: int) -> list[bytes]:
    """Return the numbers of a process, from our namespace down to its own."""
    for line in first_bytes(f"/proc/{pid}/status", _LARGEST).splitlines():
        if line.startswith(b"NSpid:"):
            return line.split()[1:]
    return []


def _descends(pid: int, started: int, root: RunRoot) -> bool:
    """Whether a process is still the one that was seen, and one of this command."""
    facts = process_facts(pid)
    known = facts is not None and facts.started == started
    while known and facts is not None and facts.parent > 0:
        if facts.parent == root.pid:
            return is_running(root)
        facts = process_facts(facts.parent)
    return False
