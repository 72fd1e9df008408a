"""`python -m byleave`."""

import sys

from byleave.cli.main import run

sys.exit(run())
