"""The list of what no test reaches: it names lines that are there, and every other gap is an error."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
REPORT = {
    "functions": {
        "f": {"executed_lines": [1, 2, 5], "missing_lines": [3, 4], "missing_branches": [[2, 3], [5, 1]]},
        "g": {"executed_lines": [6], "missing_lines": [], "missing_branches": []},
    }
}
LINES = ["def f():", "    if a:", "        one()", "        two()", "    while b:", "def g(): ..."]


@pytest.fixture(scope="module")
def gaps() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_gaps", HERE.parent / "tools/coverage_gaps.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_gap_is_the_first_line_that_is_not_reached_or_the_branch_not_taken(gaps: ModuleType) -> None:
    found = list(gaps.gaps_of("a.py", REPORT, LINES))
    assert found == [gaps.Gap("a.py", "f", "one()"), gaps.Gap("a.py", "f", "while b:")]


def test_a_gap_that_is_not_listed_and_a_listed_one_that_is_gone_are_problems(gaps: ModuleType) -> None:
    one, two = gaps.Gap("a.py", "f", "one()"), gaps.Gap("a.py", "f", "two()")
    assert gaps.compare({one}, {one}) == []
    assert gaps.compare({one}, set()) == ["no test reaches it: a.py, f: one()"]
    assert gaps.compare(set(), {two}) == ["listed, but reached or gone: a.py, f: two()"]


def test_every_listed_line_is_there(gaps: ModuleType) -> None:
    listed = gaps.listed_gaps(HERE / "coverage_gaps.toml")
    sources = {gap.file: (HERE.parent / gaps.SOURCES / gap.file).read_text("utf-8").splitlines() for gap in listed}
    lines = {file: {line.strip() for line in text} for file, text in sources.items()}
    assert [gap for gap in listed if gap.line not in lines[gap.file]] == []
