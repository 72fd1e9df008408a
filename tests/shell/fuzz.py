"""Fuzz the reader against real shells: `PYTHONPATH=tests python -m shell.fuzz [seconds] [seed] [bash|posix|zsh]`.

Without the name of a dialect, each that is installed gets a third of the time.
"""

import random
import sys
import time

from byleave.record import Record
from byleave.shell.reader import read_command
from byleave.shell.syntax import cursor
from shell.corpus import corpus
from shell.generator import Generator
from shell.oracle import BASH, DASH, HOSTILE, ZSH, Box, box, difference, safe_to_run

PROGRAMS = {cursor.BASH: BASH, cursor.POSIX: DASH, cursor.ZSH: ZSH}


class Result(Record):
    """How many texts were made, how many of them understood and run, and every (text, difference)."""

    made: int
    run: int
    differences: tuple[tuple[str, str], ...]


def fuzz(seed: int, seconds: float, where: Box, others: list[str], *, most: int = 1 << 60) -> Result:
    """Make texts from one seed, also by damaging `others`, and compare the reader with the shell of the box."""
    generator = Generator(seed)
    made = run = 0
    found: list[tuple[str, str]] = []
    end = time.monotonic() + seconds
    while made < most and time.monotonic() < end:
        text = generator.text(others)
        made += 1
        if not safe_to_run(text) or not read_command(text, dialect=where.dialect).understood:
            continue
        run += 1
        differs = difference(text, where, generator.random.choice([None, None, *HOSTILE]))
        if differs is not None:
            found.append((text, differs))
    return Result(made, run, tuple(found))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    dialects = sys.argv[3:] or [dialect for dialect, program in PROGRAMS.items() if program]
    failed = False
    for dialect in dialects:
        with box(dialect) as where:
            result = fuzz(seed, seconds / len(dialects), where, corpus())
        for text, differs in result.differences[:40]:
            sys.stdout.write(f"{text!r}\n    {differs}\n")
        shown = f"{result.made} texts, {result.run} understood and run, {len(result.differences)} differences"
        sys.stdout.write(f"{dialect}, seed {seed}: {shown}\n")
        failed = failed or bool(result.differences)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
