"""Where a body ends does not depend on how its bytes arrive."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.protocol.http_body import LAST_CHUNK, LONGEST_LINE, ChunkedBody, MalformedBodyError, body_reader, chunk
from byleave.protocol.http_head import CHUNKED, UNTIL_CLOSE, Framing

if TYPE_CHECKING:
    from byleave.protocol.http_body import Body


def read(body: Body, pieces: list[bytes]) -> tuple[bytes, bytes] | str:
    """Return the body and what came after it, or what is wrong with it."""
    found, left = b"", list(pieces)
    try:
        while left and not body.done:
            found += body.take(left.pop(0))
        if not body.done:
            body.end()
    except MalformedBodyError as problem:
        return str(problem)
    return found, body.rest + b"".join(left)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


CHUNKS = {
    "one": (b"3\r\nabc\r\n0\r\n\r\n", (b"abc", b"")),
    "none": (b"0\r\n\r\n", (b"", b"")),
    "the next request stays": (b"3\r\nabc\r\n0\r\n\r\nGET", (b"abc", b"GET")),
    "leading zeros and large letters": (b"00A\r\n0123456789\r\n000\r\n\r\n", (b"0123456789", b"")),
    "extensions are dropped": (b'3;a="b;c"\r\nabc\r\n0;x\r\n\r\n', (b"abc", b"")),
    "trailers are dropped": (b"3\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\nrest", (b"abc", b"rest")),
}
NO_SIZE = "a chunk does not start with its size"
NO_LINE = "a line between chunks is too long, or does not end in CR LF"
NO_TRAILERS = "what follows the last chunk are no trailers"
BROKEN = "the body breaks off before its last chunk"
BAD_CHUNKS = {
    "bare LF after the size": (b"3\nabc\r\n0\r\n\r\n", NO_LINE),
    "bare LF in the extension": (b"3;a\nabc\r\n0\r\n\r\n", NO_LINE),
    "bare CR in the extension": (b"3;\rabc\r\n0\r\n\r\n", NO_SIZE),
    "a sign": (b"+3\r\nabc\r\n0\r\n\r\n", NO_SIZE),
    "a prefix": (b"0x3\r\nabc\r\n0\r\n\r\n", NO_SIZE),
    "an underscore": (b"1_0\r\nabc\r\n0\r\n\r\n", NO_SIZE),
    "a space after the size": (b"3 \r\nabc\r\n0\r\n\r\n", NO_SIZE),
    "a space before the size": (b" 3\r\nabc\r\n0\r\n\r\n", NO_SIZE),
    "no size": (b"\r\nabc\r\n0\r\n\r\n", NO_SIZE),
    "an endless size": (b"0" * 16 + b"3\r\nabc\r\n0\r\n\r\n", NO_SIZE),
    "too much data": (b"3\r\nabcd\r\n0\r\n\r\n", "a chunk is longer than its size says"),
    "bare LF after the data": (b"3\r\nabc\n0\r\n\r\n", "a chunk is longer than its size says"),
    "bare LF at the end": (b"3\r\nabc\r\n0\r\n\n", NO_LINE),
    "no trailer": (b"0\r\nGET / HTTP/1.1\r\n\r\n", NO_TRAILERS),
    "a folded trailer": (b"0\r\nA: b\r\n c\r\n\r\n", NO_TRAILERS),
    "too many trailers": (b"0\r\n" + b"A: b\r\n" * 65 + b"\r\n", NO_TRAILERS),
    "a line without end": (b"3;" + b"a" * LONGEST_LINE, NO_LINE),
    "no last chunk": (b"3\r\nabc\r\n", BROKEN),
    "no end of the last chunk": (b"3\r\nabc\r\n0\r\n", BROKEN),
}
ALL_CHUNKS = {**CHUNKS, **BAD_CHUNKS}


@pytest.mark.parametrize(("data", "expected"), ALL_CHUNKS.values(), ids=ALL_CHUNKS.keys())
def test_chunks_are_read_to_the_letter_however_they_arrive(data: bytes, expected: tuple[bytes, bytes] | str) -> None:
    assert read(ChunkedBody(), [data]) == expected
    assert read(ChunkedBody(), [data[at : at + 1] for at in range(len(data))]) == expected


@given(
    st.sampled_from([CHUNKED, UNTIL_CLOSE, Framing(0), Framing(5), Framing(9000)]),
    st.lists(st.sampled_from([b"0", b"3", b"a", b"\r\n", b"\n", b";", b"abc", b"\r", b"A: b"]) | st.binary(max_size=9)),
    st.lists(st.integers(0, 200)),
)
def test_a_body_is_the_same_however_it_is_cut(framing: Framing, parts: list[bytes], places: list[int]) -> None:
    data = b"".join(parts)
    whole, pieces = read(body_reader(framing), [data] if data else []), read(body_reader(framing), cut(data, places))
    assert whole == pieces


@given(st.lists(st.binary(min_size=1)), st.lists(st.integers(0, 500)), st.binary())
def test_what_is_written_in_chunks_is_read_back(parts: list[bytes], places: list[int], rest: bytes) -> None:
    data = b"".join([chunk(part) for part in parts]) + LAST_CHUNK + rest
    assert read(ChunkedBody(), cut(data, places)) == (b"".join(parts), rest)


def test_a_body_of_known_length_must_arrive_whole() -> None:
    assert read(body_reader(Framing(5)), [b"abc", b"defg"]) == (b"abcde", b"fg")
    assert read(body_reader(Framing(5)), [b"abc"]) == "the body breaks off 2 bytes before its end"


def test_many_small_chunks_cost_no_more_than_their_length() -> None:
    body, data = ChunkedBody(), b"1\r\na\r\n" * 100_000
    assert len(body.take(data)) == 100_000
    assert re.fullmatch(b"a*", body.take(data))
