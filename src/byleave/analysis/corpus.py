"""Command lines that agents really run, everyday ones and harmful ones, to try a policy on.

No table of programs is complete, so what a rule about commands lets through is shown by trying it. The lines are data:
`example_commands.txt`, one command line each.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def example_commands() -> tuple[str, ...]:
    """Return every command line of the corpus, in a fixed order."""
    return tuple(files(__package__).joinpath("example_commands.txt").read_text("utf-8").splitlines())
