"""A module that Python runs has options of its own, wherever `-m` stands."""

from pathlib import Path

import pytest

import byleave

ALLOWED = ("python3 -m pytest", "python3 -B -m pytest -q", "python3 -Wignore -m pytest -q", "python3 -mpytest tests")


def decision(root: Path, command: str) -> str:
    rules = [{"allow": {"command": ["python3", "pypy3"], "flags": ["-m"]}}]
    policy = byleave.compile_policy({"rules": rules}, root=str(root))
    return str(policy.decide({"kind": "command", "command": command}).decision)


@pytest.mark.parametrize("command", ALLOWED)
def test_a_module_is_covered_with_options_that_are_harmless(command: str, tmp_path: Path) -> None:
    assert decision(tmp_path, command) == "allow"


@pytest.mark.parametrize(
    "start",
    ["python3 -m ", "python3 -m", "python3 -Bm ", "python3 -W ignore -m ", "python3 -X dev -m ", "pypy3 -m "],
)
def test_a_module_is_not_covered_with_an_option_that_executes(start: str, tmp_path: Path) -> None:
    assert decision(tmp_path, f"{start}pytest -p evil") == "ask"


def test_what_stands_behind_code_is_no_module(tmp_path: Path) -> None:
    assert decision(tmp_path, "python3 -c 1 -m pytest") == "ask"
