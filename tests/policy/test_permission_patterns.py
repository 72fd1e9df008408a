"""What each agent's spelling of a permission stands for: what it denies, what it allows, and what is not as it was.

The cases: `permission_patterns.jsonl`. Each has the reader, what it is given, and of each pattern the text, the table
for a deny or an ask, the table for an allow, what an allow loses, and what a deny means beyond its words.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.agent_patterns import (
    claude_pattern,
    cursor_call,
    cursor_pattern,
    gemini_pattern,
    gemini_rule_patterns,
    opencode_pattern,
)
from byleave.policy.permission_patterns import Pattern, prefix_pattern

ROOT, DIRECTORY = "/home/me/ws", "/home/me/.claude"
CASES = [json.loads(line) for line in Path(__file__).with_name("permission_patterns.jsonl").read_text().splitlines()]
READERS: dict[str, Callable[..., Iterable[Pattern]]] = {
    "claude-code": lambda text: [claude_pattern(text, DIRECTORY, ROOT)],
    "claude-code denies": lambda text: [claude_pattern(text, DIRECTORY, ROOT, denies=True)],
    "gemini": lambda text: [gemini_pattern(text)],
    "gemini rule": gemini_rule_patterns,
    "cursor": lambda text: [cursor_pattern(text, ROOT)],
    "cursor call": lambda text: [cursor_call(text, text)],
    "opencode": lambda tool, text: [opencode_pattern(tool, text)],
    "prefix": lambda words: [prefix_pattern(words)],
}


@pytest.mark.parametrize("case", CASES, ids=[f"{case['reader']} {json.dumps(case['given'])[:60]}" for case in CASES])
def test_a_permission_stands_for_these_tables(case: dict[str, Any]) -> None:
    found = READERS[case["reader"]](*case["given"])
    assert [[each.text, each.wide, each.narrow, each.lost, each.stricter] for each in found] == case["patterns"]


NOT_PLAIN = [
    {"toolName": 7},
    {"toolName": {"a": 1}},
    {"mcpName": 7, "toolName": "glob"},
    {"toolName": "glob", "whenever": "x"},
    {"mcpName": "d*"},
]


@pytest.mark.parametrize("rule", NOT_PLAIN, ids=str)
def test_an_allow_of_gemini_cli_that_is_not_understood_in_full_allows_nothing(rule: dict[str, Any]) -> None:
    found = list(gemini_rule_patterns(rule))
    assert [each.narrow for each in found] == [None] * len(found)
    assert all(each.wide for each in found)
