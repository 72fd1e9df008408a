"""A page that names a test names one that exists; every cell of the comparison and every promise has a source."""

import re
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PAGES = [page for page in [CHECKOUT / "README.md", *sorted(DOCS.rglob("*.md"))] if NAMED.search(page.read_text())]


@cache
def names_in(file: Path) -> frozenset[str]:
    if not file.exists():
        return frozenset()
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE))


def missing(text: str) -> list[str]:
    """Return the tests that a text names and that do not exist."""
    return [f"{file}::{name}" for file, name in NAMED.findall(text) if name not in names_in(CHECKOUT / file)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_tests_that_exist(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_a_test_that_does_not_exist_is_missed() -> None:
    here = "tests/docs/test_named_tests.py"
    text = f"`{here}::test_a_test_that_does_not_exist_is_missed` `{here}::test_nothing` `tests/no/test_x.py::test_y`"
    assert missing(text) == [f"{here}::test_nothing", "tests/no/test_x.py::test_y"]


def cells(text: str) -> list[str]:
    """Return the cells of all tables, without their first rows and columns."""
    rows = [row for row in text.splitlines() if row.startswith("| ") and not row.startswith("| |")]
    return [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]


def test_every_cell_of_the_comparison_has_a_source() -> None:
    text = (DOCS / "comparison.md").read_text()
    given = set(re.findall(r"^\[\^(\w+)\]:", text, re.MULTILINE))
    found = cells(text)
    assert len(found) == 80
    assert [cell for cell in found if not set(re.findall(r"\[\^(\w+)\]$", cell)) & given] == []


def promises() -> dict[str, list[str]]:
    """Return the promises of the threat model, each with the tests that it names."""
    text = (DOCS / "threat-model.md").read_text()
    section = text.partition("## What is promised in this version")[2].partition("\n## ")[0]
    found: dict[str, list[str]] = {}
    for row in section.splitlines():
        if row.startswith("- "):
            found[row] = []
        elif named := NAMED.search(row):
            found[list(found)[-1]].append(f"{named[1]}::{named[2]}")
    return found


def test_every_promise_names_the_test_that_holds_it() -> None:
    assert len(promises()) >= 30
    assert [promise for promise, tests in promises().items() if not tests] == []
