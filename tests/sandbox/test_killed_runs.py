"""What a run that was killed with everything in it leaves on the disk goes with the next command of byleave's."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from command import COMMAND, byleave, environment
from sandbox.machine import alive, needs_sandbox

pytestmark = needs_sandbox


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "workspace"
    found.mkdir()
    return found


def start(root: Path, token: str) -> "subprocess.Popen[bytes]":
    words = [*COMMAND, "run", "-q", "--root", str(root), "--", "/bin/sh", "-c", f"echo up > up; sleep 60 # {token}"]
    process = subprocess.Popen(words, cwd=root, env=environment(None), start_new_session=True)
    end = time.monotonic() + 20
    while not (root / "up").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return process


def kill(process: "subprocess.Popen[bytes]", token: str) -> None:
    """Kill a run and everything that belongs to it, at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
    end = time.monotonic() + 20
    while alive(token):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("words", [["doctor", "-q"], ["check", "read", "up"], ["policy", "show"]], ids=lambda it: it[0])
def test_names_that_a_killed_run_has_left_go_with_the_next_command(root: Path, words: list[str]) -> None:
    token = f"token-{os.getpid()}-{words[0]}"
    kill(start(root, token), token)
    assert (root / ".claude").is_dir()
    (root / ".vscode" / "settings.json").write_text("{}")  # made meanwhile, so it is the user's
    end = time.monotonic() + 20
    while (root / ".claude").exists():  # the kernel may keep the lock of a killed process for some moments
        assert time.monotonic() < end
        byleave(*words, cwd=root)
    assert sorted(os.listdir(root)) == [".vscode", "up"]


def test_names_of_a_run_that_goes_on_stay(root: Path) -> None:
    token = f"token-{os.getpid()}-on"
    process = start(root, token)
    byleave("doctor", "-q", cwd=root)
    assert (root / ".claude").is_dir()
    kill(process, token)
