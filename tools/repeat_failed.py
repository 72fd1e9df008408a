"""Run tests that failed beside others once more, by themselves; print which they are.

A test of processes, signals and time-outs may fail because four workers share two processors. Such a test is named,
so that its cause can be found, and it must pass alone. More than a few failures are no accident: they stand.
"""

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 5


def main() -> int:
    """Return 0 if every test that failed in the last run passes alone."""
    failed = sorted(json.loads(FAILED.read_text("utf-8")))
    if not 0 < len(failed) <= MOST:
        return 1
    print(f"\n{len(failed)} failed beside other tests; once more, alone:", *failed, sep="\n  ", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-n", "0", *failed], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
