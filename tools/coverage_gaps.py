"""Compare what no test reaches with what `tests/coverage_gaps.toml` lists; print what is covered, by package.

Reads `coverage.json`, which `make coverage` writes. A gap is a run of statements that no test reaches, or a branch that
none takes. It is named by its file, its function and the text of its first line: so it keeps its name when lines move.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

SOURCES = "src/byleave/"
COUNTED = Path("coverage.json")
LISTED = Path("tests/coverage_gaps.toml")


class Gap(NamedTuple):
    file: str
    function: str
    line: str


def gaps_of(file: str, counted: Mapping[str, Any], lines: list[str]) -> Iterator[Gap]:
    """Yield the gaps of one file of coverage's report, of which these are the lines."""
    for name, function in counted["functions"].items():
        missing = set(function["missing_lines"])
        reached = True
        for number in sorted(missing.union(function["executed_lines"])):
            if number in missing and reached:
                yield Gap(file, name, lines[number - 1].strip())
            reached = number not in missing
        for number, target in function["missing_branches"]:
            if number not in missing and target not in missing:
                yield Gap(file, name, lines[number - 1].strip())


def listed_gaps(path: Path = LISTED) -> dict[Gap, str]:
    """Return the listed gaps, each with why no test reaches it; "" for one that is open."""
    tree = tomllib.loads(path.read_text("utf-8"))
    explained = {
        Gap(file, function, line): gap["why"]
        for file, functions in tree["explained"].items()
        for function, gap in functions.items()
        for line in gap["lines"]
    }
    still_open = {
        Gap(file, function, line): ""
        for file, functions in tree["open"].items()
        for function, lines in functions.items()
        for line in lines
    }
    return still_open | explained


def compare(found: set[Gap], listed: set[Gap]) -> list[str]:
    """Return what must change: a gap that is not listed, and an entry of the list that is no gap."""
    return [
        *(f"no test reaches it: {gap.file}, {gap.function}: {gap.line}" for gap in sorted(found - listed)),
        *(f"listed, but reached or gone: {gap.file}, {gap.function}: {gap.line}" for gap in sorted(listed - found)),
    ]


def table(files: Mapping[str, Any], listed: Mapping[Gap, str]) -> Iterator[str]:
    """Yield the table of docs/testing.md: what of each package is covered, and how its gaps are listed."""
    yield "| package | covered | statements missed | branches missed | gaps explained | gaps open |"
    yield "|---|---|---|---|---|---|"
    for package in sorted({name.removeprefix(SOURCES).partition("/")[0] for name in files}):
        of = [file["summary"] for name, file in files.items() if name.startswith(f"{SOURCES}{package}/")]
        statements, lost = (sum(each[key] for each in of) for key in ("num_statements", "missing_lines"))
        branches, untaken = (sum(each[key] for each in of) for key in ("num_branches", "missing_branches"))
        covered = 100 * (statements + branches - lost - untaken) / (statements + branches)
        whys = [why for gap, why in listed.items() if gap.file.startswith(f"{package}/")]
        counts = f"{lost} of {statements} | {untaken} of {branches} | {len(whys) - whys.count('')} | {whys.count('')}"
        yield f"| `{package}` | {covered:.1f} % | {counts} |"


def main() -> int:
    """Return 0 if every gap is listed, and every entry of the list is a gap."""
    files = json.loads(COUNTED.read_text("utf-8"))["files"]
    found: set[Gap] = set()
    for name, file in files.items():
        found.update(gaps_of(name.removeprefix(SOURCES), file, Path(name).read_text("utf-8").splitlines()))
    listed = listed_gaps()
    problems = compare(found, set(listed))
    print(*table(files, listed), *problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
