"""The story that `make demo` tells: every step ends as it promises, and a terminal of 80 columns shows it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import amounts
from sandbox.machine import needs_sandbox

STORY = Path(__file__).parents[1] / "demo" / "story.sh"
_STYLE = re.compile(r"\x1b\[[0-9]*m")


@amounts.slow
@needs_sandbox
def test_the_story_ends_well_and_fits_a_terminal() -> None:
    programs = os.path.dirname(sys.executable)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", STORY], env=environment, capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    lines = [_STYLE.sub("", line).rstrip() for line in done.stdout.splitlines()]
    assert [line for line in lines if len(line) > 80] == []
    assert "deny:" in done.stdout
