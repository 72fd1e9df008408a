"""The diagrams of docs/architecture.md are what the code gives: `make architecture` draws them again."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
SCRIPT = CHECKOUT / "tools" / "architecture.py"
OUT_OF_DATE = "docs/architecture.md is out of date: run `make architecture`"

if not SCRIPT.exists():
    pytest.skip("not run from a checkout", allow_module_level=True)


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("architecture", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


architecture = load()


def test_the_page_has_the_import_graph_of_the_code() -> None:
    page = architecture.PAGE.read_text()
    assert architecture.with_graph(page) == page, OUT_OF_DATE


def test_the_journeys_name_modules_that_exist() -> None:
    _, _, rest = architecture.PAGE.read_text().partition("<!-- journeys: ")
    drawn = re.findall(r"```\n(.*?)```", rest.partition("<!-- end of journeys -->")[0], re.DOTALL)
    named = {name for text in drawn for name in text.replace("->", " ").split()}
    modules = {architecture.module_name(file) for file in architecture.SOURCE.rglob("*.py")}
    assert len(drawn) == 4
    assert named - modules == set(), OUT_OF_DATE


def test_the_journey_of_a_check_is_the_one_on_the_page() -> None:
    """The others have threads, or fold the audit log now and then: what they enter differs from run to run."""
    page = architecture.PAGE.read_text()
    drawn = re.search(r"^`check`: \d+ modules\n\n```\n(.*?)\n```$", page, re.DOTALL | re.MULTILINE)
    assert drawn is not None
    assert architecture.journeys("check")["check"] == drawn[1], OUT_OF_DATE


def test_every_package_is_described() -> None:
    described = {
        name
        for row in re.findall(r"^\| (`.*?) \|", architecture.PAGE.read_text(), re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert set(architecture.packages()) - {"__main__", "matchers", "ruleset"} <= described
