"""A killed run leaves no program behind."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import left_behind

RUN = """
import subprocess, sys, left_behind
from pathlib import Path
base = Path(sys.argv[1])
left_behind.watch(base)
sleeper = subprocess.Popen(["sleep", "600"], cwd=base / "home", start_new_session=True)
print(sleeper.pid, flush=True)
sys.stdin.read()
"""


def test_a_program_of_a_killed_run_is_ended(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path)],
        cwd=Path(__file__).parent,
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with run:
        assert run.stdout is not None
        sleeper = os.pidfd_open(int(run.stdout.readline()))
        run.send_signal(signal.SIGKILL)
    ended, _, _ = select.select([sleeper], [], [], 30)
    os.close(sleeper)
    assert ended == [sleeper]


def test_only_programs_below_the_directory_belong_to_the_run(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one-more").mkdir()
    processes = [subprocess.Popen(["sleep", "600"], cwd=tmp_path / name, env={}) for name in ("one", "one-more")]
    try:
        assert list(left_behind.belonging(str(tmp_path / "one"))) == [processes[0].pid]
    finally:
        for process in processes:
            process.kill()
            process.wait()
