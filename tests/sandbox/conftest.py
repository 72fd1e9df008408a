"""The launcher is compiled once for all tests, although each has a home, and so a cache, of its own.

Some tests put files among the system's. Every sandbox of the machine covers those while they are there, and bwrap
cannot start where one of them goes at that moment: such a test runs while no other test of sandboxes does.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def carried_cache(own_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Carry byleave's cache from test to test, and between the processes that run them."""
    cache, carried = own_home / "cache", tmp_path_factory.getbasetemp().parent / "byleave-cache"
    if carried.exists():
        shutil.copytree(carried, cache)
    yield
    if cache.exists() and not carried.exists():
        unfinished = carried.with_name(f"byleave-cache-{os.getpid()}")
        shutil.copytree(cache, unfinished)
        try:
            unfinished.rename(carried)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)


@pytest.fixture(autouse=True)
def system_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Keep the system's files as they are during a test; `system_files_alone` is for those that change them."""
    lock = os.open(tmp_path_factory.getbasetemp().parent / "system-files", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield lock
    finally:
        os.close(lock)


@pytest.fixture
def system_files_alone(system_files: int) -> None:
    """Wait until no other test of sandboxes runs."""
    fcntl.flock(system_files, fcntl.LOCK_UN)  # two that hold it shared would wait for each other
    fcntl.flock(system_files, fcntl.LOCK_EX)
