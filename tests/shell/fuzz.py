"""Fuzz the reader against bash for as long as you like: `PYTHONPATH=tests python -m shell.fuzz [seconds] [seed]`."""

import random
import sys
import time

from byleave.record import Record
from byleave.shell.reader import read_command
from shell.corpus import corpus
from shell.generator import Generator
from shell.oracle import HOSTILE, Box, box, difference, safe_to_run


class Result(Record):
    """How many texts were made, how many of them understood and run, and every (text, difference)."""

    made: int
    run: int
    differences: tuple[tuple[str, str], ...]


def fuzz(seed: int, seconds: float, where: Box, others: list[str], *, most: int = 1 << 60) -> Result:
    """Make texts from one seed, also by damaging `others`, and compare the reader with bash."""
    generator = Generator(seed)
    made = run = 0
    found: list[tuple[str, str]] = []
    end = time.monotonic() + seconds
    while made < most and time.monotonic() < end:
        text = generator.text(others)
        made += 1
        if not safe_to_run(text) or not read_command(text).understood:
            continue
        run += 1
        differs = difference(text, where, generator.random.choice([None, None, *HOSTILE]))
        if differs is not None:
            found.append((text, differs))
    return Result(made, run, tuple(found))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    with box() as where:
        result = fuzz(seed, seconds, where, corpus())
    for text, differs in result.differences[:40]:
        sys.stdout.write(f"{text!r}\n    {differs}\n")
    shown = f"{result.made} texts, {result.run} understood and run, {len(result.differences)} differences"
    sys.stdout.write(f"seed {seed}: {shown}\n")
    sys.exit(1 if result.differences else 0)


if __name__ == "__main__":
    main()
