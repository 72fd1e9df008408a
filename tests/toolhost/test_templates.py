"""How a plain tool is told what to do: inside of its words, or on its standard input."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from byleave.errors import InputError
from byleave.toolhost.stdio_runtime import fill

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
    words, _given = fill(["prog", "{{tool}}{{context}}"], TOLD)
    assert words[1].count('{"root":"/w"}') == 1


@pytest.mark.parametrize("words", [["{{tool}}"], ["sh", "-c", "echo {{tool}}"], ["bash", "-lc", "{{context}}"]])
def test_there_is_no_place_in_what_is_code(words: list[str]) -> None:
    with pytest.raises(InputError):
        fill(words, TOLD)


def test_a_script_may_have_it_as_its_argument() -> None:
    assert json.loads(fill(["sh", "-c", 'echo "$0"', "{{tool}}"], TOLD)[0][3]) == TOLD["tool"]


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
