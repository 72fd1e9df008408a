"""Many rounds of work for a process that stays, and what it holds before and after them.

`make soak` goes on for BYLEAVE_SOAK_SECONDS, and shows what `Soak.ends` writes. Elsewhere the number of rounds ends it.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command import COMMAND, environment
from toolhost.hosting import eventually, memory, processes_below

SECONDS = float(os.environ.get("BYLEAVE_SOAK_SECONDS", "0"))
WARM = 0.25  # of the time, until caches are full and the audit log has folded its journal a few times
POOL = min(32, (os.cpu_count() or 1) + 4)  # threads that an event loop starts one by one, and keeps (asyncio)
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Size:
    """What a process holds: bytes of memory, descriptors, threads, and processes below it."""

    memory: int
    descriptors: int
    threads: int
    processes: int

    @classmethod
    def of(cls, process: int) -> "Size":
        opened, threads = (len(os.listdir(f"/proc/{process}/{each}")) for each in ("fd", "task"))
        return cls(memory(process), opened, threads, len(processes_below(process)))

    def is_within(self, other: "Size", threads: int) -> bool:
        """Whether it holds no more of anything but memory; so many threads are not too many."""
        return (
            self.descriptors <= other.descriptors
            and self.threads <= max(other.threads, threads)
            and self.processes <= other.processes
        )


class Soak:
    """Rounds of work for one process, each of so many calls: `warm`, then `rounds`, then `ends`.

    `threads`: how many a process may come to have after the first measurement.
    """

    def __init__(self, what: str, process: int, *, warm: int, rounds: int, calls: int = 1, threads: int = 0) -> None:
        self._what, self._process, self._threads = what, process, threads
        self._warm, self._rounds, self._calls = warm, rounds, calls
        self.number = 0

    def warm(self) -> Iterator[int]:
        """Count the rounds that are not measured."""
        return _counted(self._warm, SECONDS * WARM)

    def rounds(self) -> Iterator[int]:
        """Measure the process, and count the rounds that follow."""
        self._before, self._began = Size.of(self._process), time.monotonic()
        for number in _counted(self._rounds, SECONDS * (1 - WARM)):
            yield number
            self.number = number + 1

    def ends(self, most: int) -> None:
        """Measure again, and fail if memory grew by so many bytes, or anything else grew and stays so."""
        seconds, calls, before = time.monotonic() - self._began, self.number * self._calls, self._before
        with suppress(AssertionError):
            eventually(lambda: Size.of(self._process).is_within(before, self._threads))
        after = Size.of(self._process)
        sys.stdout.write(
            f"{self._what}: {calls:,} calls in {seconds:.0f} seconds; "
            f"memory {before.memory / MEGABYTE:.1f} to {after.memory / MEGABYTE:.1f} MB, "
            f"descriptors {before.descriptors} to {after.descriptors}, "
            f"threads {before.threads} to {after.threads}, processes {before.processes} to {after.processes}\n"
        )
        assert calls, "there was no time for a single call"
        assert after.is_within(before, self._threads), (before, after)
        assert after.memory - before.memory < most, f"{(after.memory - before.memory) / calls:.0f} bytes a call"


def _counted(number: int, seconds: float) -> Iterator[int]:
    end = time.monotonic() + seconds
    for count in itertools.count():
        if (time.monotonic() >= end) if SECONDS else (count >= number):
            return
        yield count


def records(root: Path, env: Mapping[str, str | None] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a workspace one by one: after a soak there are too many to hold."""
    words = [*COMMAND, "audit", "export", "--json", "--root", str(root)]
    with subprocess.Popen(words, env=environment(env), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    assert process.returncode == 0
