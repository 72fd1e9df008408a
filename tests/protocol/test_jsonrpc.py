"""A line is a request, a notification, a response or none of them; whatever it is, reading it raises nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.protocol.json_codec import PLAIN
from byleave.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MOST_DEPTH,
    PARSE_ERROR,
    Codec,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    is_blank,
    read_message,
    write_error,
    write_notification,
    write_request,
    write_result,
)
from byleave.protocol.lines import TooLong
from byleave.toolhost.codec import TOOLS

CODECS = {"the standard library's": PLAIN, "the host's": TOOLS}
BOTH = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())

READINGS: dict[str, tuple[str, Message]] = {
    "a request": ('{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}', Request(1, "m", {"a": 1})),
    "a request whose id is a text": ('{"jsonrpc":"2.0","id":"x","method":"m"}', Request("x", "m")),
    "a request with a list": ('{"jsonrpc":"2.0","id":-5,"method":"m","params":[]}', Request(-5, "m", [])),
    "a notification": ('{"jsonrpc":"2.0","method":"m"}', Notification("m")),
    "a result": ('{"jsonrpc":"2.0","id":1,"result":null}', Response(1)),
    "an error": (
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}',
        Response(None, None, {"code": -32600, "message": "no"}),
    ),
    "unknown fields are passed over": ('{"jsonrpc":"2.0","method":"m","x":{}}', Notification("m")),
    "blanks around it": (' {"jsonrpc" : "2.0", "method" : "m"} \r', Notification("m")),
}
MISTAKES = {
    "no JSON": ("nonsense", None, PARSE_ERROR),
    "NaN": ('{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}', None, PARSE_ERROR),
    "a list": ("[1,2]", None, INVALID_REQUEST),
    "a number": ("1", None, INVALID_REQUEST),
    "no version": ('{"id":1,"method":"m"}', 1, INVALID_REQUEST),
    "another version": ('{"jsonrpc":"1.0","id":1,"method":"m"}', 1, INVALID_REQUEST),
    "neither method nor answer": ('{"jsonrpc":"2.0","id":9}', 9, INVALID_REQUEST),
    "result and error": ('{"jsonrpc":"2.0","id":9,"result":1,"error":{"code":1,"message":""}}', 9, INVALID_REQUEST),
    "an answer without id": ('{"jsonrpc":"2.0","result":1}', None, INVALID_REQUEST),
    "an error without message": ('{"jsonrpc":"2.0","id":1,"error":{"code":1}}', 1, INVALID_REQUEST),
    "an error whose code is a text": ('{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}', 1, INVALID_REQUEST),
    "a null id": ('{"jsonrpc":"2.0","id":null,"method":"m"}', None, INVALID_REQUEST),
    "a true id": ('{"jsonrpc":"2.0","id":true,"method":"m"}', None, INVALID_REQUEST),
    "an id that is a list": ('{"jsonrpc":"2.0","id":[1],"method":"m"}', None, INVALID_REQUEST),
    "an endless id": (f'{{"jsonrpc":"2.0","id":"{"x" * 300}","method":"m"}}', None, INVALID_REQUEST),
    "an id that is a fraction": ('{"jsonrpc":"2.0","id":1.5,"method":"m"}', None, INVALID_REQUEST),
    "an id that is a whole number in other words": ('{"jsonrpc":"2.0","id":1.0,"method":"m"}', None, INVALID_REQUEST),
    "an id that some readers round": ('{"jsonrpc":"2.0","id":9007199254740992,"method":"m"}', None, INVALID_REQUEST),
    "a null id of a result": ('{"jsonrpc":"2.0","id":null,"result":1}', None, INVALID_REQUEST),
    "a result and no error": ('{"jsonrpc":"2.0","id":1,"result":1,"error":null}', 1, INVALID_REQUEST),
    "a request that is an answer": ('{"jsonrpc":"2.0","id":1,"method":"m","result":1}', 1, INVALID_REQUEST),
    "params that are null": ('{"jsonrpc":"2.0","id":1,"method":"m","params":null}', 1, INVALID_REQUEST),
    "a name given twice": ('{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}', 1, INVALID_REQUEST),
    "a name given twice, once with an escape": (
        '{"jsonrpc":"2.0","id":1,"method":"m","\\u006dethod":"n"}',
        1,
        INVALID_REQUEST,
    ),
    "a name given twice in the params": (
        '{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[{"b":1,"b":1}]}}',
        1,
        INVALID_REQUEST,
    ),
    "a name in another case": ('{"jsonrpc":"2.0","id":1,"method":"m","Method":"n"}', 1, INVALID_REQUEST),
    "a number that is endless": ('{"jsonrpc":"2.0","id":1,"method":"m","params":[1e400]}', None, PARSE_ERROR),
    "nested a little too deeply": (
        f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{"[" * MOST_DEPTH}{"]" * MOST_DEPTH}}}',
        None,
        INVALID_REQUEST,
    ),
    "a method that is a number": ('{"jsonrpc":"2.0","id":1,"method":2}', 1, INVALID_REQUEST),
    "params that are a text": ('{"jsonrpc":"2.0","id":1,"method":"m","params":"p"}', 1, INVALID_REQUEST),
    "nested too deeply": ("[" * 200_000, None, INVALID_REQUEST),
}


@BOTH
@pytest.mark.parametrize(("line", "expected"), READINGS.values(), ids=READINGS.keys())
def test_a_line_is_read_as_what_it_is(line: str, expected: Message, codec: Codec) -> None:
    assert read_message(line.encode(), codec) == expected


@BOTH
@pytest.mark.parametrize(("line", "id_", "number"), MISTAKES.values(), ids=MISTAKES.keys())
def test_what_is_no_message_is_told_with_the_id_it_called_itself(
    line: str, id_: Any, number: int, codec: Codec
) -> None:
    read = read_message(line.encode(), codec)
    assert isinstance(read, Malformed)
    # How deep is too deep, and whether that is seen before the missing brackets are, is for the codec to say.
    assert (read.id, read.number) == (id_, number) or line.startswith("[[")


@BOTH
def test_bytes_that_are_no_text_are_no_json(codec: Codec) -> None:
    read = read_message(b'{"jsonrpc":"2.0","method":"\xff"}', codec)
    assert isinstance(read, Malformed)
    assert read.number == PARSE_ERROR


@pytest.mark.parametrize("length", [256, 257])
def test_an_id_that_is_too_long_is_refused_for_that(length: int) -> None:
    line = b'{"jsonrpc": "2.0", "id": "%b", "method": "m"}' % (b"x" * length)
    read = read_message(line, PLAIN)
    said = read.problem if isinstance(read, Malformed) else ""
    assert ("at most 256 characters" in said) == (length > 256)


def test_a_mistake_does_not_repeat_what_the_line_holds() -> None:
    read = read_message(b"hunter2-4711", PLAIN)
    assert "hunter2" not in str(read)


def test_a_line_that_is_too_long_is_answered_under_its_id_if_that_came_first() -> None:
    beginning = b'{"jsonrpc":"2.0","id":7,"method":"fs.write","params":{"content":"xxxx'
    assert read_message(TooLong(100, beginning), PLAIN) == Malformed(
        "a line is longer than 100 bytes", 7, INVALID_PARAMS, 100
    )
    unknown = read_message(TooLong(100, b'{"params":{"content":"xxxx'), PLAIN)
    assert isinstance(unknown, Malformed)
    assert (unknown.id, unknown.number, unknown.limit) == (None, INVALID_REQUEST, 100)


@given(st.binary())
def test_no_bytes_raise_anything(line: bytes) -> None:
    for codec in CODECS.values():
        assert read_message(line, codec) is not None
    assert is_blank(line) in {True, False}


TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
IDS = st.integers(1 - 2**53, 2**53 - 1) | st.text(max_size=20)


@given(IDS, st.text(), st.dictionaries(st.text(), TREES, max_size=4))
def test_what_is_written_is_read_again_by_either_codec(id_: int | str, method: str, params: dict[str, Any]) -> None:
    for writing in CODECS.values():
        for reading in CODECS.values():
            assert read_message(write_request(writing, id_, method, params)[:-1], reading) == Request(
                id_, method, params
            )
            said = write_notification(writing, method, params)
            assert read_message(said[:-1], reading) == Notification(method, params)
            assert read_message(write_result(writing, id_, params)[:-1], reading) == Response(id_, params)


@given(st.text(alphabet=st.characters(exclude_categories=[])), st.integers(-40000, 40000))
def test_a_line_is_one_line_whatever_it_holds_also_half_a_character(text: str, number: int) -> None:
    for codec in CODECS.values():
        line = write_error(codec, 1, number, text, {"more": text})
        assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
        assert json.loads(line)["error"] == {"code": number, "message": text, "data": {"more": text}}


def test_only_blanks_are_blank() -> None:
    assert [is_blank(line) for line in (b"", b" \t\r", b"x", b"\x0b", TooLong(1))] == [True, True, False, False, False]
