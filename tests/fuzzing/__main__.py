"""Fuzz one reader, or all: `PYTHONPATH=tests python -m fuzzing TARGET SECONDS [NUMBER]`.

An input that breaks a promise is printed, with the number from which it is made again.
"""

import random
import sys
import time
import traceback

from fuzzing.mutate import Mutator
from fuzzing.native import NATIVE
from fuzzing.targets import TARGETS

SLOW = 5.0  # seconds for one input: a reader that takes longer can be held up


def fuzz(name: str, seconds: float, number: int, *, most: int = 1 << 60) -> tuple[int, list[tuple[bytes, str]]]:
    """Return how many inputs were tried, and each that broke something, with what it broke."""
    if name in NATIVE:
        return NATIVE[name](seconds, number, most)
    target, seeds = TARGETS[name]
    mutator = Mutator(number, seeds())
    tried = 0
    broken: list[tuple[bytes, str]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and tried < most and len(broken) < 5:
        data = mutator.next()
        tried += 1
        began = time.process_time()
        try:
            target(data)
        except Exception:  # noqa: BLE001 -- any error of a reader is what is looked for
            broken.append((data, traceback.format_exc(limit=-3)))
        if time.process_time() - began > SLOW:
            broken.append((data, f"it took {time.process_time() - began:.1f} seconds"))
    return tried, broken


def main() -> int:
    name, seconds = sys.argv[1], float(sys.argv[2])
    number = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    failed = False
    for each in [*TARGETS, *NATIVE] if name == "all" else [name]:
        tried, broken = fuzz(each, seconds, number)
        for data, why in broken:
            sys.stdout.write(f"{each}: {data!r}\n{why}\n")
        sys.stdout.write(f"{each}, number {number}: {tried} inputs, {len(broken)} broke a promise\n")
        sys.stdout.flush()
        failed = failed or bool(broken)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
