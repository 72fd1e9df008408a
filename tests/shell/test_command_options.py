"""Command lines against rules that only name programs: what an option, a script or a variable makes of them."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from byleave.policy.load import Workspace
from stage import load_cases

HERE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "cases")
with open(os.path.join(HERE, "commands", "policies.json"), encoding="utf-8") as _file:
    POLICIES: dict[str, Any] = json.load(_file)
with open(os.path.join(HERE, "command_options.json"), encoding="utf-8") as _file:
    OWN: dict[str, dict[str, list[str]]] = json.load(_file)

# The classes of the sample that options, scripts and variables decide.
CLASSES = frozenset(
    [
        *(
            "awk-script",
            "sed-script",
            "cmake",
            "compiler",
            "make",
            "npm-config",
            "option",
            "runner",
            "subcommand-decoy",
        ),
        *("harmless-prefix", "uv-python", "variable", "within", "stays"),
    ]
)
# Lines of the sample that ask: a name that another program prints could be an option.
ASKED = frozenset(["m405", "m060"])


Decide = Callable[[str, str], str]


@pytest.fixture(scope="module")
def decision(tmp_path_factory: pytest.TempPathFactory) -> Decide:
    """Return what says how a policy answers a line, in an empty workspace; each policy is compiled once."""
    workspace = Workspace(str(tmp_path_factory.mktemp("ws")))
    compiled = {name: workspace.compile_tree(tree) for name, tree in POLICIES.items()}
    return lambda policy, line: compiled[policy].decide({"kind": "command", "command": line}).decision.word


def batches(kind: str, size: int = 25) -> list[Any]:
    """Return the lines of a kind, some at a time: each test has its own cost, which is more than that of a line."""
    return [
        pytest.param(policy, lines[begin : begin + size], id=f"{policy}-{begin}")
        for policy, lines in OWN[kind].items()
        for begin in range(0, len(lines), size)
    ]


@pytest.mark.parametrize(("policy", "lines"), batches("evil"))
def test_a_rule_that_names_a_program_does_not_cover(policy: str, lines: list[str], decision: Decide) -> None:
    assert [line for line in lines if decision(policy, line) == "allow"] == []


@pytest.mark.parametrize(("policy", "lines"), batches("daily"))
def test_everyday_lines_are_allowed(policy: str, lines: list[str], decision: Decide) -> None:
    assert [line for line in lines if decision(policy, line) != "allow"] == []


@pytest.mark.parametrize(
    "case",
    [case for case in load_cases("commands/bypasses.jsonl") if case["class"] in CLASSES],
    ids=lambda case: case["id"],
)
def test_a_way_past_a_rule_is_closed(case: dict[str, Any], decision: Decide) -> None:
    assert decision(case["policy"], case["action"]["command"]) != "allow"


@pytest.mark.parametrize("case", load_cases("commands/benign.jsonl"), ids=lambda case: case["id"])
def test_what_agents_run_all_day_is_allowed(case: dict[str, Any], decision: Decide) -> None:
    wanted = "ask" if case["id"] in ASKED else "allow"
    assert decision(case["policy"], case["action"]["command"]) == wanted
