"""How a plain tool is told what to do: inside of its words, or on its standard input."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from byleave.toolhost.templates import fill

TOLD: dict[str, Any] = {
    "context": {"root": "/w"},
    "tool": {"name": "t", "arguments": {"a": "{{context}}; rm -rf $HOME"}},
}


def test_without_a_place_for_it_everything_goes_to_standard_input() -> None:
    words, given = fill(["prog", "--x"], TOLD)
    assert (words, json.loads(given)) == (["prog", "--x"], TOLD)


def test_a_place_is_filled_inside_of_its_word_and_nothing_is_read() -> None:
    words, given = fill(["prog", "--context={{context}}", "{{tool}}"], TOLD)
    assert words[1] == '--context={"root":"/w"}'
    assert json.loads(words[2]) == TOLD["tool"]
    assert (len(words), given) == (3, b"")


def test_what_was_filled_in_is_not_filled_again() -> None:
    words, _given = fill(["{{tool}}{{context}}"], TOLD)
    assert words[0].count('{"root":"/w"}') == 1


def test_other_braces_are_left_alone() -> None:
    words, given = fill(["{{ tool }}", "{{tool.name}}", "{tool}"], TOLD)
    assert words == ["{{ tool }}", "{{tool.name}}", "{tool}"]
    assert given


@given(some.dictionaries(some.text(), some.text()))
def test_any_arguments_stay_one_word_that_can_be_read_back(arguments: dict[str, str]) -> None:
    words, _given = fill(["prog", "{{tool}}"], {"context": {}, "tool": arguments})
    assert len(words) == 2
    assert "\0" not in words[1]
    assert json.loads(words[1]) == arguments
