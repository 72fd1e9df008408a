"""Streams of server-sent events: each piece of a stream may end anywhere, and no event takes more than its room."""

import pytest

from byleave.protocol.lines import TooLong
from byleave.protocol.sse import Event, EventReader, endpoint_event, message_event

STREAMS: dict[str, tuple[bytes, list[Event]]] = {
    "one event": (b"data: a\n\n", [Event(b"a")]),
    "lines of one event": (b"data: a\ndata:b\ndata:\n\n", [Event(b"a\nb\n")]),
    "only one blank is left out": (b"data:  a\n\n", [Event(b" a")]),
    "a type": (b"event: endpoint\ndata: /x\n\ndata: y\n\n", [Event(b"/x", "endpoint"), Event(b"y")]),
    "a type that is no UTF-8": (b"event: \xff\ndata: x\n\n", [Event(b"x", "\ufffd")]),
    "CR LF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [Event(b"a"), Event(b"b")]),
    "CR": (b"data: a\r\rdata: b\r\r", [Event(b"a"), Event(b"b")]),
    "a mark of the byte order": (b"\xef\xbb\xbfdata: a\n\n", [Event(b"a")]),
    "a second mark is a field of another name": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    "a comment, and fields that are not known": (b": alive\n\nwhat: x\ndata\n\n", [Event(b"")]),
    "no data, no event": (b"event: x\nid: 7\n\n", []),
    "an event without an end": (b"data: a\n", []),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_stream_is_read_as_it_says(name: str, size: int) -> None:
    stream, expected = STREAMS[name]
    reader = EventReader(limit=100)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [event for piece in pieces for event in reader.feed(piece)] == expected


@pytest.mark.parametrize(
    ("line", "last_id", "retry"),
    [
        (b"id: 7", "7", None),
        (b"id", "", None),
        (b"id: a\x00b", "", None),  # it would go back in a header
        (b"id: a\x7fb", "", None),
        (b"id: " + b"x" * 1025, "", None),
        (b"retry: 1500", "", 1.5),
        (b"retry: 99999999", "", None),
        (b"retry: -1", "", None),
        (b"retry: 1.5", "", None),
    ],
)
def test_what_a_stream_says_of_being_resumed_is_bounded(line: bytes, last_id: str, retry: float | None) -> None:
    reader = EventReader(limit=4096)
    assert list(reader.feed(line + b"\n\n")) == []
    assert (reader.last_id, reader.retry) == (last_id, retry)


def test_an_id_counts_when_its_event_is_complete() -> None:
    reader = EventReader(limit=100)
    assert list(reader.feed(b"id: 7\ndata: a\n")) == []
    assert reader.last_id == ""
    assert list(reader.feed(b"\n")) == [Event(b"a")]
    assert reader.last_id == "7"


@pytest.mark.parametrize(
    "event",
    [
        b"data: " + b"x" * 101 + b"\n",
        b"data: " + b"x" * 1000 + b"\ndata: y\n",
        b"data: 12345678901234567890\n" * 5,
        b"unknown: " + b"x" * 1000 + b"\n" + b"y" * 1000 + b"\n",
    ],
)
def test_an_event_that_is_too_long_is_left_out_and_the_next_one_read(event: bytes) -> None:
    reader = EventReader(limit=100)
    too_long, following = list(reader.feed(event + b"\ndata: next\n\n"))
    assert isinstance(too_long, TooLong)
    assert following == Event(b"next")


def test_very_many_lines_without_data_are_too_long() -> None:
    found = list(EventReader(limit=1 << 20).feed(b"data\n" * 100_001 + b"\n"))
    assert [type(each) for each in found] == [TooLong]


def test_a_message_is_one_event_whatever_line_ends_it_has() -> None:
    written = b"".join(message_event([b'{"a":\r\n', b"1}\n\ndata: forged"]))
    assert list(EventReader(limit=100).feed(written)) == [Event(b'{"a":  1}  data: forged')]


def test_the_event_that_names_the_endpoint_is_read_as_one() -> None:
    assert list(EventReader(limit=100).feed(b"".join(endpoint_event("/m?id=1")))) == [Event(b"/m?id=1", "endpoint")]
