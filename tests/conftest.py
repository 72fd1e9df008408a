"""Every test has a home of its own: nothing is read from, or left in, the user's."""

import fcntl
import gc
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import amounts
import forked
import left_behind
from stage import Stage

# Twenty thousand tests are collected, and none of them becomes garbage: to look through them again and again takes a
# third of the time of collecting them. `pytest_collection_finish` ends this.
gc.disable()

# How long one example takes says more about the machine than about us; timings never decide a test. Where a change is
# checked (CI) the examples are the same every time; elsewhere they are new ones, and what they find becomes a case.
settings.register_profile("patient", deadline=None, derandomize="CI" in os.environ, max_examples=amounts.of(100, 30))
settings.load_profile("patient")

# `make unit`: enough to see that a property still holds.
settings.register_profile("quick", parent=settings.get_profile("patient"), max_examples=20)

UNIT = ("core", "shell", "protocol", "translate", "policy", "test_text.py")  # the Makefile has the same list


def children_start_with_default_signals() -> None:
    """Keep what this process ignores or blocks from the programs that tests start.

    A shell starts a program in the background with interrupts ignored, and `nohup` with hang-ups ignored. An ignored
    signal stays ignored in children, also after `exec`; a handler does not.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    own = {signal.SIGPIPE, signal.SIGXFSZ}  # Python ignores these itself, and `subprocess` restores them
    ignored = [number for number in signal.valid_signals() - own if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)

    def restore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)

    os.register_at_fork(after_in_child=restore)


children_start_with_default_signals()
os.environ["BYLEAVE_SERVICE"] = "off"  # the tests of the service start their own
if "PYTEST_XDIST_WORKER" in os.environ:
    left_behind.die_with_parent()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark each test with its make target, by its directory; leave most of those marked `sampled` to `make slow`."""
    for item in items:
        package = item.path.relative_to(Path(__file__).parent).parts[0]
        if package == "sandbox":
            item.add_marker("sandbox")
        elif package in UNIT and item.get_closest_marker("long") is None:
            item.add_marker("unit")
        else:
            item.add_marker("integration")
    yield  # -k and -m have chosen
    if left := amounts.left_out(items):
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


def pytest_collection_finish() -> None:
    """Look for garbage again, but only among what tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start the processes that help the tests, before a test counts processes."""
    left_behind.watch(tmp_path_factory.getbasetemp())
    forked.forker()
    yield
    forked.close()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield an endless row of new directories: `mktemp` lists all that there are for each, and there are thousands."""
    below = tmp_path_factory.mktemp("homes")

    def make() -> Iterator[Path]:
        for number in itertools.count():
            home = below / str(number)
            home.mkdir(mode=0o700)
            yield home

    return make()


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point byleave at an empty home, and away from the developer's settings."""
    home = next(homes)
    monkeypatch.setenv("BYLEAVE_HOME", str(home))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it
    return home


@pytest.fixture
def stage(tmp_path: Path) -> Callable[[dict[str, Any] | None], Stage]:
    """Return a function that builds a workspace, and two directories beside it, from a case's `root_setup`."""

    def build(setup: dict[str, Any] | None = None) -> Stage:
        return Stage.build(tmp_path, setup or {})

    return build


@pytest.fixture
def system_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Keep the system's files as they are during a test; `system_files_alone` is for those that change them.

    Every sandbox of the machine covers what a test puts there, and bwrap cannot start where it goes at that moment:
    such a test runs while no other test of sandboxes does.
    """
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
