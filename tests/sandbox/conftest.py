"""The launcher is compiled once for all tests, although each has a home, and so a cache, of its own."""

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
def settled(system_files: int) -> None:
    """Have the system's files stay as they are during every test here."""
