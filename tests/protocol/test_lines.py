"""Lines are cut out of any stream, and names out of any object, whatever the other side sends."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.protocol.json_members import members, repeats_a_name
from byleave.protocol.lines import LineBuffer, TooLong

PIECES = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\0", b"\n")), max_size=12)


def cut(pieces: list[bytes], limit: int) -> list[bytes | TooLong]:
    buffer = LineBuffer(limit=limit)
    lines = [line for piece in pieces for line in buffer.feed(piece)]
    return [*lines, *buffer.finish()]


@given(PIECES, st.integers(1, 20))
def test_lines_are_the_same_however_the_bytes_are_cut(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    assert cut(pieces, limit) == cut([whole], limit) == cut([bytes([byte]) for byte in whole], limit)


@given(PIECES, st.integers(1, 20))
def test_every_line_is_there_or_reported_as_too_long(pieces: list[bytes], limit: int) -> None:
    *lines, last = b"".join(pieces).split(b"\n")
    expected = [
        line if len(line) <= limit else TooLong(limit, line[:limit]) for line in [*lines, *([last] if last else [])]
    ]
    assert cut(pieces, limit) == expected


def test_a_line_that_is_too_long_is_reported_before_its_end_arrives() -> None:
    buffer = LineBuffer(limit=4)
    assert list(buffer.feed(b"abcde")) == [TooLong(4, b"abcd")]
    assert list(buffer.feed(b"fgh")) == []
    assert list(buffer.feed(b"i\nok\n")) == [b"ok"]


def test_a_carriage_return_is_left_to_the_reader() -> None:
    assert cut([b"a\r\nb\r\n"], 9) == [b"a\r", b"b\r"]


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), TREES, max_size=5), st.sampled_from([None, 2]))
def test_members_are_those_that_json_reads(tree: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(tree, indent=indent)
    assert {name: json.loads(value) for name, value in members(text)} == tree
    assert not repeats_a_name(text)


MEMBERS = {
    "the text of a value is kept as it is": ('{"id": 1.50 , "x": [1,  2]}', [("id", "1.50"), ("x", "[1,  2]")]),
    "a number of any length": (f'{{"id":{"9" * 5000}}}', [("id", "9" * 5000)]),
    "half a surrogate pair": ('{"id":"\\ud800"}', [("id", '"\\ud800"')]),
    "a name given twice": ('{"id":1,"id":2}', [("id", "1"), ("id", "2")]),
    "nothing": (" { } ", []),
}


@pytest.mark.parametrize(("text", "expected"), MEMBERS.values(), ids=MEMBERS.keys())
def test_members_are_kept_as_they_are_written(text: str, expected: list[tuple[str, str]]) -> None:
    assert members(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        '"a"',
        "{",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{"a":1}x',
        "{1:2}",
        '{"a":NaN}',
        '{"a":1 "b":2}',
        "{,}",
    ],
)
def test_what_is_no_object_has_no_members(text: str) -> None:
    with pytest.raises(ValueError):
        members(text)


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', '[{"x":{"a":1,"b":2,"a":3}}]', '{"\\u0061":1,"a":2}'], ids=["flat", "deep", "escaped"]
)
def test_a_name_given_twice_is_noticed(text: str) -> None:
    assert repeats_a_name(text)
