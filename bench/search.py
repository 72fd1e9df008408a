"""What a search of open files costs, with ripgrep and without: python bench/search.py DIRECTORY PATTERN."""

import resource
import sys
from unittest import mock

from byleave.workspace import grep
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.project import Query
from byleave.workspace.resolve import Root

TIMES = 4


def processor_seconds() -> float:
    """Return what this process and its children have used."""
    used = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(project: ProjectOnDisk, pattern: str) -> tuple[float, int]:
    """Return the least of several times, and how many lines were found."""
    times, lines = [], 0
    for _ in range(TIMES):
        before = processor_seconds()
        lines = sum(len(each.lines) for each in project.grep(Query(pattern), lambda _path: True))
        times.append(processor_seconds() - before)
    return min(times), lines


def main() -> None:
    project = ProjectOnDisk(Root.at(sys.argv[1]))
    if grep.find_ripgrep(sys.argv[1]) is not None:
        print("ripgrep: {:.3f} s, {} lines".format(*measure(project, sys.argv[2])))
    with mock.patch.object(grep, "find_ripgrep", return_value=None):
        print("RE2:     {:.3f} s, {} lines".format(*measure(project, sys.argv[2])))


if __name__ == "__main__":
    main()
