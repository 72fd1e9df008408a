"""Text from outside cannot act on a terminal, hide, or pass for something else."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.text import nearest_word, quoted, sentence_list, shown, shown_lines

SHOWN = {
    "plain text stays": ("src/main.py", "src/main.py"),
    "accents stay": ("café", "café"),
    "an escape sequence is written out": ("\x1b[31m", "\\x1b[31m"),
    "a newline is written out": ("a\nb\r\tc", "a\\nb\\r\\tc"),
    "a bidi override is written out": ("a\u202eb", "a\\u202eb"),
    "a zero width space is written out": ("a\u200bb", "a\\u200bb"),
    "a byte that is not UTF-8 is written out": ("caf\udce9", "caf\\xe9"),
    "a control character of Latin-1 differs from such a byte": ("\x9b\udc9b", "\\u009b\\x9b"),
    "a filler that looks like nothing is written out": ("a\u3164\u115f\u2800", "a\\u3164\\u115f\\u2800"),
    "a variation selector is written out": ("a\ufe0f\U000e0101", "a\\ufe0f\\U000e0101"),
    "a tag character is written out": ("\U000e0041", "\\U000e0041"),
    "a line separator is written out": ("a\u2028b", "a\\u2028b"),
}


@pytest.mark.parametrize(("text", "expected"), SHOWN.values(), ids=SHOWN.keys())
def test_what_cannot_be_seen_is_written_out(text: str, expected: str) -> None:
    assert shown(text) == expected


@given(st.text(alphabet=st.characters(codec=None)))
def test_nothing_shown_is_a_control_a_format_or_a_surrogate(text: str) -> None:
    assert {unicodedata.category(char) for char in shown(text)} & {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"} == set()


@given(st.text(alphabet=st.characters(codec=None)), st.text(alphabet=st.characters(codec=None)))
def test_two_texts_never_look_alike_between_quotes(one: str, other: str) -> None:
    assert (quoted(one) == quoted(other)) == (one == other)


def test_a_quote_inside_cannot_end_the_quotes() -> None:
    assert quoted('x" is granted by "fs .') == '"x\\" is granted by \\"fs ."'
    assert quoted("a\\") == '"a\\\\"'


def test_lines_of_ours_stay_lines() -> None:
    assert shown_lines("problem \x1b[2J\n  hint: \u202e") == "problem \\x1b[2J\n  hint: \\u202e"


LISTS = {
    "nothing": ([], ""),
    "one": (["a"], "a"),
    "two": (["a", "b"], "a and b"),
    "three": (["a", "b", "c"], "a, b and c"),
    "more than are worth listing": (list("abcdefghij"), "a, b, c, d, e, f, g, h and 2 more"),
    "hostile": (["\x1b", "b"], "\\x1b and b"),
}


@pytest.mark.parametrize(("words", "expected"), LISTS.values(), ids=LISTS.keys())
def test_words_are_listed_as_a_person_would(words: list[str], expected: str) -> None:
    assert sentence_list(words) == expected


def test_letters_that_changed_places_come_before_a_word_that_is_as_alike() -> None:
    assert nearest_word("--prot", ("--root", "--port")) == "--port"
    assert nearest_word("gti", ("git", "gtk")) == "git"


def test_a_word_that_is_like_none_has_no_nearest_word() -> None:
    assert nearest_word("entirely", ("--root", "--port")) is None
    assert nearest_word("", ("a",)) is None
