"""`python -m byleave`."""

import os
import sys


def _leave_the_workspace() -> None:
    """Look for no module where Python was started: that is the workspace, whose code is not ours."""
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        here = ""
    if sys.path and sys.path[0] in ("", here):
        del sys.path[0]


_leave_the_workspace()

from byleave.cli.main import run  # noqa: E402 -- only now

sys.exit(run())
