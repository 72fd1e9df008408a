"""The search for closed places takes a step by its name alone, and finds what a look at every pattern finds."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
import byleave
from byleave.core import closed_places as module
from byleave.core.closed_places import ClosedPlaces, advance
from byleave.core.place_access import closed_places

ROOT = str(Path(__file__).resolve().parent)
names = st.sampled_from(["a", "A", "b", "src", ".env", "Ä", "a.pem", "x. ", "deep", "*", "*.pem", "?", "[ab]", "**"])
plain = st.sampled_from(["a", "A", "b", "src", ".env", "ä", "Ä", "a.pem", "x", "x. ", "deep"])
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


def compiled(rules: list[dict[str, Any]]) -> Any:
    return byleave.compile_policy({"rules": rules}, root=ROOT).compiled.policy


@settings(max_examples=amounts.of(1000, 150))
@given(st.lists(paths, min_size=1, max_size=6), st.lists(plain, max_size=6), st.sampled_from([0, 1]))
def test_a_step_by_name_is_a_step_by_every_pattern(given_paths: list[str], below: list[str], opens: int) -> None:
    rules: list[dict[str, Any]] = [{"allow": {"path": "**/src/**"}}] if opens else []
    rules += [{"deny": {"path": path}} for path in given_paths]
    try:
        closed = ClosedPlaces(compiled(rules), "read", root=ROOT)
    except byleave.ConfigError:
        return
    progress = plainly = closed.begin("/")
    for name in (*ROOT.strip("/").split("/"), *below):
        progress, plainly = closed.advance(progress, name), advance(plainly, name)
        assert progress == plainly
        assert closed.advance(progress, name) == advance(plainly, name)
        left = closed.without_opened(progress, name)
        assert left == frozenset(each for each in progress if name not in each[0].opened)


def test_patterns_are_looked_at_once_however_many_names_there_are() -> None:
    """Beside the patterns themselves, a walk through a thousand names looks at none of them that is no match."""
    looked = []
    for count in (10, 1000):
        policy = compiled([{"deny": {"path": f"**/.key{number}"}} for number in range(count)])
        closed = closed_places(policy, ("read",), ROOT, None)
        progress = closed.begin(ROOT)
        plainly = patch.object(module, "name_matches", side_effect=AssertionError)
        with plainly, patch.object(module, "_Steps", wraps=module._Steps) as steps:  # noqa: SLF001 -- counted
            for number in range(1000):
                assert closed.advance(progress, f"name{number}") is progress
            looked.append(steps.call_count)
        assert closed.is_match(closed.advance(progress, ".key5"))
    assert looked == [1, 1]


def test_the_places_of_commands_and_searches_are_kept_with_the_policy() -> None:
    policy = compiled([{"deny": {"path": "**/.env"}}, {"ask": {"path": "b", "agent": "x"}}])
    first = closed_places(policy, ("read",), ROOT, "a", "search")
    assert closed_places(policy, ("read",), ROOT, "a", "search") is first
    for other in (
        (("update",), ROOT, "a", "search"),
        (("read",), "/else", "a", "search"),
        (("read",), ROOT, "a", "edit"),
    ):
        assert closed_places(policy, *other) is not first
    assert closed_places(compiled([]), ("read",), ROOT, "a", "search") is not first
