"""The case files about commands, put to the library."""

from collections.abc import Callable
from typing import Any

import pytest

import byleave
from stage import Stage, load_cases
from test_cases import ask_library, expected

Build = Callable[[dict[str, Any] | None], Stage]
FILES = ("rules.jsonl", "command_bypasses.jsonl", "command_benign.jsonl")


@pytest.mark.parametrize("case", [case for file in FILES for case in load_cases(file)], ids=lambda case: case["id"])
def test_rules_answer_as_the_case_says(case: dict[str, Any], stage: Build) -> None:
    scene = stage(case.get("root_setup"))
    case = scene.fill(case)
    answer = ask_library(scene.root, case)
    assert expected(answer, case["expect"]), answer


@pytest.mark.parametrize("case", load_cases("read_command.jsonl"), ids=lambda case: case["id"])
def test_commands_are_read_as_the_case_says(case: dict[str, Any]) -> None:
    reading = byleave.read_command(case["command"])
    assert reading.understood
    argvs = [list(command.argv) for command in reading.commands]
    if "names" in case:
        assert [argv[0] for argv in argvs] == case["names"]
    else:
        assert (argvs[:1] if case.get("first_only") else argvs) == case["argv"]
