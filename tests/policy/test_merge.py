"""How the lists of several layers become one."""

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.policy.normalize import NOTHING, Item, Patch, compose, patch


def merged(*patches: tuple[str, list[Any]]) -> list[Any]:
    """Return the list that these layers make, weakest first."""
    return list(reduce(compose, [patch(strategy, items) for strategy, items in patches], NOTHING).items)


TWO_LAYERS = [
    ("append", ["a", "b"], ["a", "x", "a", "b"]),
    ("prepend", ["a", "b"], ["a", "b", "a", "x"]),
    ("replace", ["a", "b"], ["a", "b"]),
    ("dedup", ["a", "b"], ["x", "a", "b"]),
    ("append", [], ["a", "x"]),
    ("prepend", [], ["a", "x"]),
    ("replace", [], []),
    ("dedup", [], ["a", "x"]),
    ("dedup", ["b", "b", "a", "b"], ["x", "a", "b"]),
]


@pytest.mark.parametrize(("strategy", "items", "expect"), TWO_LAYERS)
def test_a_list_joins_the_weaker_one_as_it_says(strategy: str, items: list[str], expect: list[str]) -> None:
    assert merged(("append", ["a", "x"]), (strategy, items)) == expect


THREE_LAYERS = [
    (("append", ["a"]), ("replace", ["b"]), ("append", ["c"]), ["b", "c"]),
    (("append", ["a"]), ("replace", ["b"]), ("prepend", ["c"]), ["c", "b"]),
    (("replace", ["a"]), ("append", ["b"]), ("replace", ["c"]), ["c"]),
    (("prepend", ["a"]), ("prepend", ["b"]), ("append", ["c"]), ["b", "a", "c"]),
    (("append", ["a"]), ("append", ["b"]), ("dedup", ["a"]), ["b", "a"]),
]


@pytest.mark.parametrize(("one", "two", "three", "expect"), THREE_LAYERS)
def test_three_layers_join_from_the_weakest_up(one: Any, two: Any, three: Any, expect: list[str]) -> None:
    assert merged(one, two, three) == expect


def test_entries_are_equal_by_what_they_say_and_not_by_where_they_stand() -> None:
    here, there = Item({"path": "a", "#line": 1}, "user"), Item({"path": "a", "#line": 9}, "project")
    assert [item.layer for item in merged(("append", [here]), ("dedup", [there]))] == ["project"]


WORDS = st.lists(st.sampled_from("abc"), max_size=4)
FREE = st.builds(patch, st.sampled_from(["append", "prepend", "replace"]), WORDS)
ANY = st.builds(patch, st.sampled_from(["append", "prepend", "replace", "dedup"]), WORDS)


@given(FREE, FREE, FREE)
def test_it_does_not_matter_which_neighbours_are_joined_first(one: Patch, two: Patch, three: Patch) -> None:
    assert compose(compose(one, two), three) == compose(one, compose(two, three))


@given(ANY)
def test_a_layer_that_says_nothing_changes_nothing(one: Patch) -> None:
    assert compose(one, NOTHING) == one


def last_of_each(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items[::-1]))[::-1]


@given(ANY, WORDS)
def test_dedup_is_append_with_the_last_of_equal_entries_kept(weaker: Patch, words: list[str]) -> None:
    below = compose(NOTHING, weaker)
    appended = list(compose(below, patch("append", words)).items)
    deduped = list(compose(below, patch("dedup", words)).items)
    kept = [item for item in deduped if item in words]
    assert kept == last_of_each(words)
    assert last_of_each(deduped) == last_of_each(appended)
