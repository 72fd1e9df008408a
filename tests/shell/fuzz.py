"""Fuzz the reader against bash for as long as you like: `python -m tests.shell.fuzz [seconds] [seed]`."""

import random
import sys
import time

from byleave.shell.reader import read_command
from tests.shell.generator import Generator
from tests.shell.oracle import Box, box, difference, safe_to_run


def fuzz(seed: int, seconds: float, where: Box, others: list[str], most: int = 1 << 60) -> tuple[int, int, list[tuple[str, str]]]:
    """Return how many texts were made, how many were understood and run, and every difference."""
    generator = Generator(seed)
    made = run = 0
    found: list[tuple[str, str]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and made < most:
        text = generator.text(others)
        made += 1
        if not safe_to_run(text) or not read_command(text).understood:
            continue
        run += 1
        differs = difference(text, where)
        if differs is not None:
            found.append((text, differs))
    return made, run, found


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    with box() as where:
        made, run, found = fuzz(seed, seconds, where, [])
    for text, differs in found[:40]:
        sys.stdout.write(f"{text!r}\n    {differs}\n")
    sys.stdout.write(f"seed {seed}: {made} texts, {run} understood and run, {len(found)} differences\n")


if __name__ == "__main__":
    main()
