"""Every test has a home of its own: nothing is read from, or left in, the user's."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import forked
from stage import Stage

# How long one example takes says more about the machine than about us; timings never decide a test. Where a change is
# judged (CI) the examples are the same every time; elsewhere they are new ones, and what they find becomes a case.
settings.register_profile("patient", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("patient")

# A shell that starts the tests in the background has them ignore interrupts, and `nohup` has them ignore hang-ups. What
# a program ignores, its children ignore too: a handler, unlike that, does not outlive `exec`.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))


@pytest.fixture(scope="session", autouse=True)
def forking() -> Iterator[None]:
    """Have the process that commands are forked from be there from the beginning, whatever a test counts."""
    forked.forker()
    yield
    forked.close()


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point byleave at an empty home, and away from the developer's settings."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("BYLEAVE_HOME", str(home))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NO_COLOR", "1")
    return home


@pytest.fixture
def stage(tmp_path: Path) -> Callable[[dict[str, Any] | None], Stage]:
    """Return a function that builds a workspace, and two directories beside it, from a case's `root_setup`."""

    def build(setup: dict[str, Any] | None = None) -> Stage:
        return Stage.build(tmp_path, setup or {})

    return build
