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


# The rows of README's table, by the rows of the page that they shorten.
SHORTENED = {
    "decides about tool calls of agents": "decides about an agent's tool calls",
    "the system holds what an allowed command does": "the operating system holds what an allowed command does",
    "network by host": "network by host",
    "asks a person about single actions": "asks a person about single actions",
    "a cloned repository cannot loosen the rules": "rules of a cloned repository",
    "record that shows tampering": "record of decisions that shows tampering",
    "also on": "systems",
}


def rows(text: str) -> dict[str, list[str]]:
    """Return the rows of all tables by their first cell, those of the same name joined in order."""
    found: dict[str, list[str]] = {}
    for row in text.splitlines():
        if row.startswith("| ") and not row.startswith("| |"):
            name, *others = (re.sub(r" *\[\^\w+\]$", "", cell.strip()) for cell in row.strip("|").split("|"))
            found.setdefault(name, []).extend(others)
    return found


def contradictions(short: dict[str, list[str]], long: dict[str, list[str]]) -> list[str]:
    """Return the cells that say yes where the page says no or nothing, or no where it says anything else."""
    pairs = [
        (name, brief, full)
        for name, whole in SHORTENED.items()
        for brief, full in zip(short[name], long[whole], strict=True)
    ]
    return [
        f"{name}: {brief!r}, and the page says {full!r}"
        for name, brief, full in pairs
        if (re.match(r"yes\b", brief) and re.match(r"(no|not stated)\b", full))
        or (re.match(r"no\b(?!t stated)", brief) and not re.match(r"no\b|on or off$", full))
    ]


def test_the_table_of_the_readme_says_no_more_than_the_comparison() -> None:
    section = (CHECKOUT / "README.md").read_text().partition("## Beside what you use today")[2].partition("\n## ")[0]
    short = rows(section)
    assert set(short) == set(SHORTENED)
    assert contradictions(short, rows((DOCS / "comparison.md").read_text())) == []


def test_a_cell_that_says_more_than_the_page_is_found() -> None:
    short = {name: ["yes", "no", "not stated"] for name in SHORTENED}
    long = {whole: ["yes", "no: none", "perhaps"] for whole in SHORTENED.values()}
    assert contradictions(short, long) == []
    long["network by host"] = ["not stated", "yes, all", ""]
    assert contradictions(short, long) == [
        "network by host: 'yes', and the page says 'not stated'",
        "network by host: 'no', and the page says 'yes, all'",
    ]


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
