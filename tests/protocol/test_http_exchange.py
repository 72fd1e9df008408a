"""The client's side of an HTTP exchange: which responses it accepts, however their bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.protocol.http_exchange import (
    LONGEST_HEAD,
    ClientExchange,
    FinalHead,
    LocalProtocolError,
    RemoteProtocolError,
    ResponseEnd,
    field_lines,
)
from byleave.protocol.http_head import HttpResponseHead, KnownHead
from protocol.odd_responses import ODD_RESPONSES, OK, Odd

Outcome = tuple[list[int], bytes, bool | None, str]  # the statuses, the body, whether it can be reused, the problem


def outcome(pieces: list[bytes], method: str, known: KnownHead[FinalHead] | None = None) -> Outcome:
    """Feed the pieces, then the end of the stream, and return everything that came out."""
    exchange = ClientExchange(method, known=known)
    statuses: list[int] = []
    body, reusable, problem = b"", None, ""
    try:
        for piece in [*pieces, b""]:
            for event in exchange.receive(piece) if piece else exchange.receive_eof():
                match event:
                    case HttpResponseHead():
                        statuses.append(event.status)
                    case ResponseEnd():
                        reusable = event.reusable
                        return statuses, body, reusable, problem  # a driver reads no further
                    case _:
                        body += event
    except RemoteProtocolError as error:
        problem = str(error)
    return statuses, body, reusable, problem


@pytest.mark.parametrize("odd", ODD_RESPONSES.values(), ids=ODD_RESPONSES)
def test_a_response_is_read_in_one_way_or_not_at_all(odd: Odd) -> None:
    statuses, body, reusable, problem = outcome([odd.sent], odd.method)
    if odd.status is None:
        assert (reusable, odd.problem in problem) == (None, True), problem
        assert problem
    else:
        assert (statuses[-1], body, reusable, problem) == (odd.status, odd.body, odd.reusable, "")


@pytest.mark.parametrize("odd", ODD_RESPONSES.values(), ids=ODD_RESPONSES)
def test_a_response_is_the_same_however_its_bytes_are_cut(odd: Odd) -> None:
    """At every place in two, and byte by byte; what follows a response in a later read is not seen by the exchange."""
    whole = outcome([odd.sent], odd.method)
    sent = odd.sent
    places = range(1, len(sent)) if len(sent) < 2000 else [*range(1, 40), *range(len(sent) - 40, len(sent))]
    cuts = [[sent[:place], sent[place:]] for place in places]
    if len(sent) < 2000:
        cuts.append([sent[number : number + 1] for number in range(len(sent))])
    for pieces in cuts:
        found = outcome(pieces, odd.method)
        if sent.startswith(OK) and len(sent) > len(OK):
            assert found[:2] == whole[:2]
        else:
            assert (found[0], found[2:]) == (whole[0], whole[2:]), pieces
            assert odd.status is None or found[1] == whole[1]


@pytest.mark.parametrize("odd", ODD_RESPONSES.values(), ids=ODD_RESPONSES)
@pytest.mark.parametrize("before", [OK, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_response_is_the_same_whatever_came_before_it(odd: Odd, before: bytes, method: str) -> None:
    """The head of the exchange before is only used for one that is the same but for its length."""
    earlier = ClientExchange(method)
    list(earlier.receive(before if method == "GET" else before[:-2]))
    assert earlier.known is not None
    assert outcome([odd.sent], odd.method, earlier.known) == outcome([odd.sent], odd.method)
    more = odd.sent.replace(b"Content-Length: 2\r\n", b"Content-Length: 3\r\n")
    assert outcome([more], odd.method, earlier.known) == outcome([more], odd.method)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([odd.sent for odd in ODD_RESPONSES.values()]), max_size=4))
def test_no_bytes_raise_anything_but_a_protocol_error(pieces: list[bytes]) -> None:
    statuses, _body, reusable, problem = outcome([piece for piece in pieces if piece], "GET")
    assert (reusable is None) == bool(problem)
    assert len(statuses) <= 16


def test_nothing_is_read_after_the_end_or_after_an_error() -> None:
    exchange = ClientExchange("GET")
    assert [type(event) for event in exchange.receive(OK)] == [HttpResponseHead, bytes, ResponseEnd]
    with pytest.raises(RemoteProtocolError, match="after its end"):
        list(exchange.receive(b"x"))
    assert list(exchange.receive_eof()) == []
    exchange = ClientExchange("GET")
    for data in (b"nonsense\r\n\r\n", OK):
        with pytest.raises(RemoteProtocolError):
            list(exchange.receive(data))


def test_events_before_a_wrong_byte_are_reported() -> None:
    exchange = ClientExchange("GET")
    events = exchange.receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert isinstance(next(events), HttpResponseHead)
    with pytest.raises(RemoteProtocolError, match="size"):
        next(events)


def test_an_exchange_holds_no_more_than_a_head() -> None:
    exchange = ClientExchange("GET")
    for _ in range(LONGEST_HEAD // 8):
        assert list(exchange.receive(b"HTTP/1.1")) == []
    with pytest.raises(RemoteProtocolError, match="too long"):
        list(exchange.receive(b" "))


def test_silence_is_known() -> None:
    exchange = ClientExchange("GET")
    assert exchange.is_silent
    list(exchange.receive(b"H"))
    assert not exchange.is_silent


KEEP_ALIVE = {
    "timeout=5": 4.0,
    "timeout=5, max=100": 4.0,
    "max=9": None,
    "timeout=x": None,
    "": None,
    "timeout=0": -1.0,
}


@pytest.mark.parametrize(("value", "seconds"), KEEP_ALIVE.items())
def test_a_server_says_for_how_long_it_keeps_a_connection(value: str, seconds: float | None) -> None:
    sent = f"HTTP/1.1 204 No Content\r\nKeep-Alive: {value}\r\n\r\n".encode()
    assert list(ClientExchange("GET").receive(sent))[-1] == ResponseEnd(True, seconds)


def test_a_field_of_ours_is_sent_as_one_field() -> None:
    assert field_lines([("X-A", " zwei \u00fc ")]) == b"X-A: zwei \xc3\xbc\r\n"
    for name, value in (("X", "1\r\nY: 2"), ("X", "1\nY"), ("X Y", "1"), ("X:", "1"), ("", "1"), ("X", "\0")):
        with pytest.raises(LocalProtocolError) as caught:
            field_lines([("Good", "1"), (name, value)])
        assert caught.value.field == name


def test_nothing_that_arrives_is_no_end() -> None:
    exchange = ClientExchange("GET")
    assert list(exchange.receive(b"")) == []
    assert exchange.is_silent
    assert [type(event) for event in exchange.receive(OK)] == [HttpResponseHead, bytes, ResponseEnd]
