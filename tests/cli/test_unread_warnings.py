"""What nobody reads on standard error keeps nobody waiting."""

import subprocess
import sys

PROGRAM = """
import os
from byleave.cli.output import warn_if_read
class Plain:
    def flag(self, _name):
        return False
for _ in range(2000):
    warn_if_read(Plain(), ["x" * 200])
os.write(1, b"done")
"""


def test_a_full_pipe_drops_warnings_and_does_not_block() -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.read() == b"done"  # though nobody has read a word of the 400 KB
        assert process.wait(timeout=10) == 0
        assert 4096 < len(process.stderr.read()) < 200 * 2000
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
