"""Ends the programs that a test run leaves behind when it is killed: a process that outlives the run, and looks once.

A program belongs to the run if its environment, its words or its directory lie below the run's temporary directory, as
the home of every test does. The end of the run is seen by a pidfd: a pipe may be held open by what is left behind.
"""

import functools
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_SET_PDEATHSIG = 1  # linux/prctl.h
_SECONDS = 10.0  # for all of them to end


def watch(base: Path) -> None:
    """Start the process that ends what is left below `base` as soon as this process has ended."""
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(base)]
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    os.posix_spawn(sys.executable, command, {}, file_actions=nothing, setsid=True)


@functools.cache
def c_library() -> Any:
    """Return the C library; to load what calls it takes longer than to fork."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    c_library().prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def belonging(base: str) -> Iterator[int]:
    """Yield the processes that belong to the run with this temporary directory."""
    inside = os.fsencode(base) + b"/"
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        facts = b""
        for source in ("environ", "cmdline"):
            with suppress(OSError), open(f"/proc/{name}/{source}", "rb") as file:
                facts += file.read()
        with suppress(OSError):
            facts += os.readlink(f"/proc/{name}/cwd".encode()) + b"/"
        if inside in facts:
            yield int(name)


def main() -> None:
    """Wait for the end of the run, then kill until none is left."""
    run, base = int(sys.argv[1]), sys.argv[2]
    os.chdir("/")
    with suppress(ProcessLookupError):  # it has ended already
        ended = os.pidfd_open(run)
        select.select([ended], [], [])
    deadline = time.monotonic() + _SECONDS
    while (left := list(belonging(base))) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)  # the end of a process that is not our child gives no event but its pidfd; new ones may appear


if __name__ == "__main__":
    main()
