"""`byleave` with the launcher in Python, whatever compilers there are: `-m sandbox.launched_by_python run ...`."""

import sys

from byleave.cli.main import run
from byleave.sandbox import sandbox
from byleave.sandbox.native import build

if __name__ == "__main__":
    sandbox.find_launcher = lambda *_kind: build.python_launcher()  # type: ignore[attr-defined]
    sys.exit(run())
