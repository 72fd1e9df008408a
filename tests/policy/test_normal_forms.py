"""What a configuration file says in normal form: every key, with its line and its path in the file.

The cases: `normal_forms.jsonl`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.normalize import NOTHING, Item, compose, patch
from byleave.policy.parse import parse_file

CASES = [json.loads(line) for line in Path(__file__).with_name("normal_forms.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_file_has_this_normal_form(case: dict[str, Any]) -> None:
    assert json.loads(json.dumps(parse_file(case["text"].encode(), "f.toml"))) == case["tree"]


def test_items_are_equal_by_what_they_say_deep_inside_and_not_to_anything_else() -> None:
    one = Item({"args": ["a", {"b": 1, "#line": 2}], "#at": (1,)}, "x")
    same = Item({"#at": (2,), "args": ("a", {"b": 1})}, "y")
    assert one == same
    assert hash(one) == hash(same)
    assert one != Item({"args": ["a", {"b": 2}]}, "x")
    assert one != one.tree
    assert one != "x"


def test_what_stands_twice_is_left_out_of_both_ends() -> None:
    weaker = compose(patch("append", ["a", "b"]), patch("prepend", ["c", "a"]))
    assert compose(weaker, patch("dedup", ["a", "c"])).items == ("b", "a", "c")
    assert compose(NOTHING, patch("dedup", ["a", "b", "a"])).items == ("b", "a")
