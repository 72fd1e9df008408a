"""Streams of events, however they are cut and however their lines end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.gateway.limits import LIVED, Backoff
from byleave.gateway.message import answers, excerpt, one_line
from byleave.protocol.lines import TooLong
from byleave.protocol.sse import Event, EventReader

STREAM = (
    b": hello\n\nevent: message\nid: 7\ndata: {\ndata:  1}\n\n"
    b"data\n\nretry: 1500\nunknown: x\ndata:a:b\n\nevent: endpoint\ndata: /here\n\nid: 8\n\ndata: unfinished"
)
EVENTS = [Event(b"{\n 1}"), Event(b""), Event(b"a:b"), Event(b"/here", "endpoint")]


def read(stream: bytes, *cuts: int, limit: int = 1000) -> tuple[list[Event | TooLong], EventReader]:
    found: list[Event | TooLong] = []
    reader, start = EventReader(limit=limit), 0
    for cut in (*sorted(cuts), len(stream)):
        found += reader.feed(stream[start:cut])
        start = cut
    return found, reader


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CR LF", "CR"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_events_are_the_same_however_they_are_cut_and_ended(end: bytes, mark: bytes, cuts: list[int]) -> None:
    stream = mark + STREAM.replace(b"\n", end)
    found, reader = read(stream, *[min(cut, len(stream)) for cut in cuts])
    assert (found, reader.last_id, reader.retry) == (EVENTS, "8", 1.5)


def test_an_event_that_ends_in_cr_is_told_at_once() -> None:
    reader = EventReader(limit=100)
    assert list(reader.feed(b"data: x\r\r")) == [Event(b"x")]
    assert list(reader.feed(b"\ndata: y\r\n\r")) == [Event(b"y")]


def test_a_mark_of_the_byte_order_counts_at_the_beginning_only() -> None:
    assert read(b"data: x\n\n\xef\xbb\xbfdata: y\n\n")[0] == [Event(b"x")]


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 300 + b"\ndata: y\n\n", b"data: yyyyyyyyyy\n" * 30 + b"\n", b"data\n" * 102 + b"\n"]
)
def test_an_event_that_is_too_long_is_told_once_and_the_next_is_heard(stream: bytes) -> None:
    found, _reader = read(stream + b"data: z\n\n", limit=100)
    assert [type(one) for one in found] == [TooLong, Event]
    assert found[1] == Event(b"z")


def test_an_event_of_nothing_but_line_ends_takes_little_room() -> None:
    found, _reader = read(b"data\n" * 200_000 + b"\ndata: z\n\n", limit=64 << 20)
    assert [type(one) for one in found] == [TooLong, Event]


@pytest.mark.parametrize("field", [b"id: a\0b", b"id: \x1b[1m", b"retry: -1", b"retry: 99999999999", b"retry: 1.5"])
def test_fields_that_cannot_be_used_are_passed_over(field: bytes) -> None:
    found, reader = read(field + b"\ndata: x\n\n")
    assert (found, reader.last_id, reader.retry) == ([Event(b"x")], "", None)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (b'{"a":1}', b'{"a":1}'),
        (b'{"a":1}\r\n', b'{"a":1}'),
        (b'{\n  "a": 1.50,\r\n "b": 1e400\n}', b'{"a":1.50,"b":1e400}'),
        (b'{"a":\r{"jsonrpc":"2.0"}\r}', b'{"a":{"jsonrpc":"2.0"}}'),
        (b'{"a":"x\ny"}', None),
        (b"not\njson", None),
        (b"[\n" * 100_000, None),
    ],
)
def test_a_message_goes_on_in_one_line(message: bytes, line: bytes | None) -> None:
    assert one_line(message) == line


LARGE = "x" * 100_000


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('{"jsonrpc":"2.0","id":"7","result":{}}', True),
        ('{"result":{"id":"8"},"id":"7"}', True),
        ('{"id":"\\u0037","error":{}}', True),
        ('{"id":7,"result":{}}', False),
        ('{"id":"8","result":{}}', False),
        ('{"id":"7","method":"sampling/createMessage"}', False),
        ('{"method":"notifications/progress"}', False),
        ("[]", False),
        ("{", False),
        (f'{{"jsonrpc":"2.0","id":"7","result":"{LARGE}"}}', True),
        (f'{{"jsonrpc":"2.0","result":"{LARGE}","id":"7"}}', True),
        (f'{{"jsonrpc":"2.0","method":"x","params":"{LARGE}","id":"7"}}', False),
    ],
)
def test_an_answer_is_told_from_everything_else(message: str, *, expected: bool) -> None:
    assert answers(message.encode(), "7") is expected


def test_what_a_server_says_on_the_side_is_shown_without_secrets_and_escapes() -> None:
    said = excerpt(b"bad\n token s3cret\x1b[2J \xff", ("s3cret", ""), most=100)
    assert said == "bad / token [REDACTED]\\x1b[2J \ufffd"


def test_a_server_that_fails_is_tried_again_less_and_less_often() -> None:
    backoff = Backoff()
    assert [backoff.failed(0.0) for _ in range(9)] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert (backoff.may_try(29.9), backoff.may_try(30.0), backoff.left(20.0)) == (False, True, 10.0)


def test_a_server_that_has_lived_for_long_is_tried_again_at_once() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.failed(0.0)
    backoff.started(100.0)
    assert backoff.failed(100.0 + LIVED - 1) == 8.0
    backoff.started(200.0)
    assert backoff.failed(200.0 + LIVED) == 0.0
