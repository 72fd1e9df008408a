"""Have the confined commands of a workspace stopped while the agent's own file tool runs.

The tool opens a path after the hook's answer, and unconfined: a command in the background that exchanges the path in
between would choose what is opened. So before a path is looked at, all of them are stopped (`pause`); after an allow
they stay so until the agent reports the outcome, or three seconds have passed.

A child of the hook, the holder, keeps them stopped as long as there is a hold of some call (store.live_runs). They go
on when it ends, also if it is killed. Only loaded where a confined command runs.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, NoReturn

from byleave.sandbox.stopping import StoppedProcesses, is_running
from byleave.store.live_runs import DIRECTORY, PATIENCE, Gate, Hold, holds, live_runs, open_holder

if TYPE_CHECKING:
    from byleave.store.live_runs import RunRoot

NOT_STOPPED = "a confined command that still runs could exchange the file meanwhile, and it cannot be stopped"
_ROUND = 0.3  # seconds; a process that waits for its stopped child is free again in the next round
_NAP = 0.02
_STUCK = 5  # seconds, after which a holder that does nothing any more is ended by the kernel


def pause(state: str, *, patience: float = PATIENCE) -> Hold | str | None:
    """Stop all confined commands; None if there are none, a sentence if they cannot be stopped.

    They go on when the hold is released, or its time is over.
    """
    place = os.path.join(state, DIRECTORY)
    end = time.monotonic() + patience
    with Gate(place) as gate:
        if not gate.enter(end):
            return NOT_STOPPED
        roots = _roots(place)
        if roots is None:
            return NOT_STOPPED
        if not roots:
            return None
        hold = Hold(place)
        while time.monotonic() < end:
            lock = open_holder(place)
            if lock is None or _start_holder(place, roots, lock, min(end, time.monotonic() + _ROUND)):
                return hold
        hold.release()
        return NOT_STOPPED


def _roots(place: str) -> list[RunRoot] | None:
    """Return the first processes of all commands, None if one of them cannot be stopped; sweep what has ended."""
    found, here = [], os.stat("/proc/self/ns/pid").st_ino
    for path, root, alive in live_runs(place):
        seen = root is not None and root.numbers == here and is_running(root)
        if alive and (root is None or root.numbers != here or (seen and root.brokered)):
            return None
        if root is not None and seen:
            found.append(root)
        elif not alive:
            os.unlink(path)
    return found


def _start_holder(place: str, roots: list[RunRoot], lock: int, until: float) -> bool:
    """Have a child stop the commands and keep the lock; return whether it has."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _be_holder(place, roots, (lock, writing), until)
        finally:
            os._exit(1)
    os.close(writing)
    os.close(lock)
    try:
        if os.read(reading, 1):
            return True
    finally:
        os.close(reading)
    os.waitpid(child, 0)
    return False


def _be_holder(place: str, roots: list[RunRoot], kept: tuple[int, int], until: float) -> NoReturn:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_STUCK)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # the agent waits until no process has them open
        os.dup2(nowhere, number)
    _close_all_but(kept)
    stopped = StoppedProcesses()
    if not stopped.stop(roots, until):
        os._exit(1)
    os.write(kept[1], b".")
    os.close(kept[1])
    idle = 0.0
    while idle < PATIENCE:  # one who has the gate for longer than that does not get to decide about this
        signal.alarm(_STUCK)
        time.sleep(_NAP)
        stopped.collect()
        if holds(place):
            idle = 0.0
            continue
        idle += _NAP
        with Gate(place) as gate:
            if gate.enter(0) and not holds(place):
                break_free(stopped)
    break_free(stopped)


def break_free(stopped: StoppedProcesses) -> NoReturn:
    """Let all of them go on, and end: the locks are free only after that."""
    stopped.let_go()
    os._exit(0)


def _close_all_but(kept: tuple[int, int]) -> None:
    """Close what the hook has open: a lock among it would stay locked."""
    low, high = sorted(kept)
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, os.sysconf("SC_OPEN_MAX"))
