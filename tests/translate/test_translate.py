"""One call means one thing: the recorded ones, shapes from the field, and those that want to be taken for less."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from byleave.core.action import action_tree
from byleave.core.matchers import OPERATIONS
from byleave.translate import translate as room
from byleave.translate.call import ToolCall, Where
from byleave.translate.translate import translate

CASES = Path(__file__).parent / "cases"
THERE = frozenset({"/ws", "/ws/README.md", "/ws/src", "/ws/src/.", "/ws/src/main.py"})


def load(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = tomllib.loads((CASES / name).read_text())["case"]
    return cases


def recorded() -> list[dict[str, Any]]:
    text = (CASES / "recorded_calls.json").read_text().replace("$WS", "/ws").replace("$OUT", "/out")
    cases: list[dict[str, Any]] = json.loads(text)
    return cases


def call_of(case: dict[str, Any]) -> ToolCall:
    """Return the call of a case; what TOML cannot say is JSON."""
    told = case["call"] if "call" in case else json.loads(case["call_json"])
    lists = {name: tuple(value) for name, value in told.items() if name in ("content", "locations", "kinds")}
    return ToolCall(**{**told, **lists})


def where(case: dict[str, Any]) -> Where:
    return Where("/ws", case.get("cwd", "/ws") or None, THERE.union(case.get("exists", ())).__contains__)


@pytest.mark.parametrize("case", recorded(), ids=lambda case: case["name"])
def test_a_recorded_call_amounts_to_its_action(case: dict[str, Any]) -> None:
    found = translate(call_of(case), where(case))
    if case["action"] is None:
        assert not found.understood
        assert found.problem
    else:
        assert [action_tree(action) for action in found.actions] == [case["action"]]
        assert found.understood, found.problem


@pytest.mark.parametrize(
    "case", load("shapes_from_the_field.toml") + load("hostile_calls.toml"), ids=lambda case: case["name"]
)
def test_a_call_amounts_to_what_the_case_says(case: dict[str, Any]) -> None:
    found = translate(call_of(case), where(case))
    assert [action_tree(action) for action in found.actions] == case["actions"]
    assert found.understood is case.get("understood", True), found.problem
    assert bool(found.problem) is not found.understood
    if "sources" in case:
        assert found.sources == case["sources"]


def test_every_operation_of_the_rules_is_a_kind_that_is_known() -> None:
    assert frozenset(OPERATIONS) == room.OPERATIONS
