"""What a read of 1 KB through the tool host takes, by this checkout and by another one, in turns.

.venv/bin/python bench/toolhost_beside.py OTHER_CHECKOUT [ROUNDS]

For each: the host's processor time of a read, all threads of it, and the time by the clock that the tool measures; the
least of the rounds, and their median. Processor time says more than the clock where the machine has other work. The
other checkout needs its launcher (`make launcher`).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 8
ONE = "--one-round"


def main() -> None:
    if sys.argv[1] == ONE:
        one_round()
        return
    trees = {"other": Path(sys.argv[1]).resolve(), "this": Path(__file__).resolve().parents[1]}
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in trees}
    for _ in range(rounds):
        for name, tree in trees.items():
            taken[name].append(measured(tree))
    for number, what in enumerate(("processor time", "by the clock")):
        found = {name: [each[number] for each in rows] for name, rows in taken.items()}
        for name, each in found.items():
            print(f"  {what}, {name:<6} least {min(each):.0f} µs, median {statistics.median(each):.0f} µs")
        print(f"  {what}, this beside other: {min(found['this']) / min(found['other']):.2f}x", flush=True)


def measured(tree: Path) -> tuple[float, float]:
    """Return the microseconds of a read by the host of a checkout, in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        variables = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree / 'bench'}", "BYLEAVE_HOME": home}
        words = [sys.executable, __file__, ONE]
        said = subprocess.run(words, env=variables, check=True, capture_output=True, text=True).stdout.split()
    return float(said[0]), float(said[1])


def one_round() -> None:
    import toolhost  # of the checkout that is measured

    toolhost.FILES = 1
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve() / "workspace"
        toolhost.lay_out(root)
        hosted = toolhost.Hosted(root)
        hosted.call("reads")  # fills caches
        before = time.process_time()
        took = hosted.call("reads")
        computed = time.process_time() - before
        hosted.close()
    print(computed / toolhost.READS * 1e6, took / toolhost.READS * 1e6)


if __name__ == "__main__":
    main()
