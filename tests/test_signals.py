"""Programs that tests start have the signals of a program that a user starts, however the tests were started."""

import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SHOW = "import subprocess; import conftest; subprocess.run(['cat', '/proc/self/status'], check=True)"
MAYBE_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def test_what_nohup_and_background_shells_ignore_is_not_ignored_by_children() -> None:
    ignoring = f"trap '' HUP INT QUIT TERM; exec {sys.executable} -c \"{SHOW}\""
    done = subprocess.run(["sh", "-c", ignoring], cwd=HERE, capture_output=True, text=True, timeout=60, check=True)
    status = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    ignored, blocked = int(status["SigIgn"], 16), int(status["SigBlk"], 16)
    assert [number.name for number in MAYBE_IGNORED if ignored >> (number - 1) & 1] == []
    assert blocked == 0
