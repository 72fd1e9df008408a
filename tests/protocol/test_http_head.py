"""Heads are read to the letter: what two programs could read differently is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.net.proxy_policy import USAGE, ProxyTarget, read_target
from byleave.protocol.http_head import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    BadHead,
    Framing,
    HttpRequestHead,
    HttpResponseHead,
    known_head,
    own_head,
    read_request,
    read_response,
    request_head,
    response_head,
)

LINE = b"GET http://h.com/ HTTP/1.1\r\n"
HOST = b"Host: h.com\r\n"
FRAMED_TWICE = "the head has both Content-Length and Transfer-Encoding"
NO_FIELD = "a line of the head is no field: it is folded, has no proper name or holds control characters"
NO_END = "the head has no end: it is cut off or too long, or its lines do not end in CR LF"
NO_REQUEST = "the first line is no request of HTTP/1.1"
NO_LENGTH = "Content-Length is not one number"
NO_CODING = "unknown transfer coding"


def fields(*lines: bytes) -> bytes:
    return LINE + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def request(head: bytes) -> HttpRequestHead:
    read = read_request(head)
    assert isinstance(read, HttpRequestHead), read
    return read


BAD_REQUESTS = {
    "nothing": (b"", NO_END),
    "no empty line": (LINE + HOST, NO_END),
    "bare LF after the request line": (b"GET http://h.com/ HTTP/1.1\nHost: h.com\r\n\r\n", NO_REQUEST),
    "bare LF only": (b"GET http://h.com/ HTTP/1.1\nHost: h.com\n\n", NO_END),
    "bare LF before the empty line": (LINE + b"Host: h.com\n\r\n", NO_END),
    "bare LF between fields": (fields(b"A: b\nTransfer-Encoding: chunked"), NO_FIELD),
    "bare CR in a field": (fields(b"A: b\rTransfer-Encoding: chunked"), NO_FIELD),
    "an empty line first": (b"\r\n" + LINE + HOST + b"\r\n", NO_FIELD),
    "folded field": (fields(b"A: b", b" c"), NO_FIELD),
    "field before any name": (LINE + b" A: b\r\n\r\n", NO_FIELD),
    "space before the colon": (fields(b"Content-Length : 5"), NO_FIELD),
    "tab before the colon": (fields(b"Content-Length\t: 5"), NO_FIELD),
    "vertical tab in a name": (fields(b"Transfer-Encoding\x0b: chunked"), NO_FIELD),
    "no colon": (fields(b"Transfer-Encoding chunked"), NO_FIELD),
    "no name": (fields(b": chunked"), NO_FIELD),
    "NUL in a value": (fields(b"A: b\0c"), NO_FIELD),
    "DEL in a value": (fields(b"A: b\x7f"), NO_FIELD),
    "latin letters in a name": (fields(b"Conn\xe9ction: close"), NO_FIELD),
    "framing look-alike": (fields(b"Content_Length: 5"), "the field Content_Length can be taken for another one"),
    "coding look-alike": (fields(b"transfer_encoding: x"), "the field transfer_encoding can be taken for another one"),
    "length and coding": (fields(b"Content-Length: 5", b"Transfer-Encoding: chunked"), FRAMED_TWICE),
    "coding and length": (fields(b"Transfer-Encoding: chunked", b"content-length: 0"), FRAMED_TWICE),
    "unknown coding": (fields(b"Transfer-Encoding: xchunked"), NO_CODING),
    "coded twice": (fields(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), NO_CODING),
    "coded in a list": (fields(b"Transfer-Encoding: gzip, chunked"), NO_CODING),
    "chunked, then not": (fields(b"Transfer-Encoding: chunked, identity"), NO_CODING),
    "identity": (fields(b"Transfer-Encoding: identity"), NO_CODING),
    "empty coding": (fields(b"Transfer-Encoding:"), NO_CODING),
    "quoted coding": (fields(b'Transfer-Encoding: "chunked"'), NO_CODING),
    "differing lengths": (fields(b"Content-Length: 5", b"Content-Length: 6"), NO_LENGTH),
    "the same length spelled twice": (fields(b"Content-Length: 5", b"Content-Length: 05"), NO_LENGTH),
    "lengths in a list": (fields(b"Content-Length: 5, 5"), NO_LENGTH),
    "signed length": (fields(b"Content-Length: +5"), NO_LENGTH),
    "negative length": (fields(b"Content-Length: -5"), NO_LENGTH),
    "hex length": (fields(b"Content-Length: 0x5"), NO_LENGTH),
    "length with underscores": (fields(b"Content-Length: 1_0"), NO_LENGTH),
    "superscript length": (fields(b"Content-Length: \xb2"), NO_LENGTH),
    "empty length": (fields(b"Content-Length:"), NO_LENGTH),
    "endless length": (fields(b"Content-Length: " + b"9" * 19), NO_LENGTH),
    "two spaces in the request line": (b"GET  http://h.com/ HTTP/1.1\r\n\r\n", NO_REQUEST),
    "a tab in the request line": (b"GET\thttp://h.com/ HTTP/1.1\r\n\r\n", NO_REQUEST),
    "a space in the URL": (b"GET http://h.com/a b HTTP/1.1\r\n\r\n", NO_REQUEST),
    "letters that are not ASCII in the URL": (b"GET http://h.com/\xc3\xa9 HTTP/1.1\r\n\r\n", NO_REQUEST),
    "HTTP/0.9": (b"GET http://h.com/\r\n\r\n", NO_REQUEST),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\n", NO_REQUEST),
    "HTTP/1.2": (b"GET http://h.com/ HTTP/1.2\r\n\r\n", NO_REQUEST),
    "no proper method": (b"G(T http://h.com/ HTTP/1.1\r\n\r\n", NO_REQUEST),
    "coding in HTTP/1.0": (
        b"GET http://h.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "a request of HTTP/1.0 has no transfer coding",
    ),
    "a websocket": (
        fields(b"Connection: Upgrade", b"Upgrade: WebSocket"),
        "websockets are not passed on over plain http: use wss://",
    ),
    "an unknown expectation": (fields(b"Expect: more"), "the request expects something else than 100-continue"),
}


@pytest.mark.parametrize(("head", "problem"), BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_request_that_can_be_read_in_two_ways_is_refused(head: bytes, problem: str) -> None:
    assert read_request(head) == BadHead(problem)


@pytest.mark.parametrize(
    ("lines", "framing"),
    [
        ([], None),
        ([b"Content-Length: 0"], NO_BODY),
        ([b"content-length:12"], Framing(12)),
        ([b"Content-Length: 7", b"Content-Length: 7"], Framing(7)),
        ([b"Transfer-Encoding: Chunked"], CHUNKED),
    ],
)
def test_a_request_says_where_its_body_ends(lines: list[bytes], framing: Framing | None) -> None:
    assert request(fields(*lines)).framing == framing


def test_only_what_the_server_should_know_goes_on() -> None:
    head = fields(
        b"Accept: */*",
        b"Connection: close, X-Private",
        b"X-Private: 1",
        b"Keep-Alive: 5",
        b"Proxy-Authorization: Basic abc",
        b"Proxy-Connection: keep-alive",
        b"TE: trailers",
        b"Trailer: X",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAM",
        b"X-Original-URL: /admin",
        b"X-Forwarded-Host: other.com",
        b"Cookie: \xc3\xa9",
        b"Content-Length: 3",
        b"X-Byleave: denied",
    )
    assert request_head(request(head), path="/a?b", authority="h.com:8080") == (
        b"GET /a?b HTTP/1.1\r\nHost: h.com:8080\r\nAccept: */*\r\nCookie: \xc3\xa9\r\n"
        b"Content-Length: 3\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (fields(), True),
        (fields(b"Connection: keep-alive"), True),
        (fields(b"Connection: X, Close"), False),
        (fields(b"Proxy-Connection: close"), False),
        (b"GET http://h.com/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False),
    ],
)
def test_a_client_says_whether_it_goes_on(head: bytes, keeps: bool) -> None:  # noqa: FBT001 -- a case
    assert request(head).keeps_alive is keeps


def test_a_response_goes_back_without_what_concerned_one_connection() -> None:
    head = (
        b"HTTP/1.0 200 F\xefne\r\nSet-Cookie: a\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nSet-Cookie: b\r\n"
        b"Proxy-Authenticate: Basic\r\nX-Byleave: denied\r\nKeep-Alive: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    response = read_response(head, "GET")
    assert isinstance(response, HttpResponseHead)
    assert response_head(response, framing=UNTIL_CLOSE, keep=False) == (
        b"HTTP/1.1 200 F\xefne\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("method", "status", "lines", "body"),
    [
        ("GET", 200, b"", UNTIL_CLOSE),
        ("GET", 200, b"Content-Length: 5\r\n", Framing(5)),
        ("GET", 200, b"Transfer-Encoding: chunked\r\n", CHUNKED),
        ("HEAD", 200, b"Content-Length: 5\r\n", NO_BODY),
        ("GET", 204, b"Content-Length: 5\r\n", NO_BODY),
        ("GET", 304, b"Transfer-Encoding: chunked\r\n", NO_BODY),
        ("GET", 103, b"", NO_BODY),
    ],
)
def test_a_response_says_where_its_body_ends(method: str, status: int, lines: bytes, body: Framing) -> None:
    response = read_response(b"HTTP/1.1 %d X\r\n%b\r\n" % (status, lines), method)
    assert isinstance(response, HttpResponseHead)
    assert response.body == body


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\nA: b\n\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 999 OK\r\n\r\n",
        b"200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 200 \x1b[2J\r\n\r\n",
    ],
)
def test_a_response_that_can_be_read_in_two_ways_is_refused(head: bytes) -> None:
    assert isinstance(read_response(head, "GET"), BadHead)


@given(st.binary(max_size=200), st.sampled_from([b"", LINE, LINE + HOST, b"HTTP/1.1 200 OK\r\n"]))
def test_reading_never_raises_and_what_is_read_is_read_again_the_same(noise: bytes, start: bytes) -> None:
    head = start + noise + b"\r\n\r\n"
    read = read_request(head)
    if isinstance(read, HttpRequestHead):
        again = request(request_head(read, path="/p", authority="h.com"))
        assert (again.method, again.framing) == (read.method, read.framing)
        read_target(read)
    answer = read_response(head, "GET")
    if isinstance(answer, HttpResponseHead):
        back = read_response(response_head(answer, framing=answer.framing, keep=True), "GET")
        assert isinstance(back, HttpResponseHead)
        assert (back.status, back.framing) == (answer.status, answer.framing)


@given(st.lists(st.sampled_from([*b"\r\n :aA;,0\t\0\x0b\x85\xff", *b"Host", *b"HTTP/1.1"]).map(lambda x: bytes([x]))))
def test_no_line_of_a_head_that_goes_on_was_made_by_its_fields(pieces: list[bytes]) -> None:
    read = read_request(LINE + HOST + b"X: " + b"".join(pieces) + b"\r\n\r\n")
    if isinstance(read, HttpRequestHead):
        written = request_head(read, path="/", authority="h.com")
        assert len(written.replace(b"\r\n", b"").splitlines()) == len(written.replace(b"\r\n", b"").split(b"\n"))
        assert written.count(b"\r\n") == written.count(b"\r") == written.count(b"\n") <= len(read.fields) + 3


def place(target: str, *lines: bytes, method: str = "GET", minor: int = 1) -> ProxyTarget | BadHead:
    head = f"{method} {target} HTTP/1.{minor}\r\n".encode() + b"".join(line + b"\r\n" for line in lines)
    return read_target(request(head + b"\r\n"))


PLACES = {
    "http://h.com/a?b": ProxyTarget("http://h.com/a", "h.com", 80, "h.com", "/a?b", False),
    "HTTP://H.com.:80": ProxyTarget("http://h.com/", "h.com", 80, "h.com", "/", False),
    "http://h.com:8080?q": ProxyTarget("http://h.com:8080/", "h.com", 8080, "h.com:8080", "/?q", False),
    "http://0x7f.1/": ProxyTarget("http://127.0.0.1/", "127.0.0.1", 80, "127.0.0.1", "/", False),
    "http://2130706433/": ProxyTarget("http://127.0.0.1/", "127.0.0.1", 80, "127.0.0.1", "/", False),
    "http://[::1]:81/": ProxyTarget("http://[::1]:81/", "::1", 81, "[::1]:81", "/", False),
    "http://[::ffff:127.0.0.1]/": ProxyTarget("http://127.0.0.1/", "127.0.0.1", 80, "127.0.0.1", "/", False),
    "http://u:p@h.com/a/b?c": ProxyTarget("http://h.com/a/b", "h.com", 80, "h.com", "/a/b?c", True),
    "http://h.com//x/%2e%2e/y": ProxyTarget("http://h.com//x/%2e%2e/y", "h.com", 80, "h.com", "//x/%2e%2e/y", False),
}


@pytest.mark.parametrize(("target", "expected"), PLACES.items(), ids=PLACES.keys())
def test_the_url_that_is_judged_names_the_place_that_is_dialled(target: str, expected: ProxyTarget) -> None:
    assert place(target, minor=0) == expected


def test_a_tunnel_is_judged_as_https() -> None:
    assert place("H.com:443", method="CONNECT") == ProxyTarget(
        "https://h.com:443/", "h.com", 443, "h.com:443", "", False
    )
    assert place("[::1]:80", method="CONNECT") == ProxyTarget("https://[::1]:80/", "::1", 80, "[::1]:80", "", False)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("/", USAGE),
        ("/http://h.com/", USAGE),
        ("*", USAGE),
        ("h.com:80", USAGE),
        ("ftp://h.com/", USAGE),
        ("https://h.com/", "https goes through CONNECT host:port, not through a whole URL in the request line"),
        ("http://h.com/a#b", "the URL in the request line has a fragment"),
        ("http:///a", "the URL names no host"),
        ("http://h.com:0/", "the port is not a number from 1 to 65535"),
        ("http://h.com\\@evil.com/", "the URL holds the character U+005C, which parsers read differently"),
        ("http://1.2.3.999/", 'the host "1.2.3.999" is neither a name nor an address'),
        ("http://h.com/../../a", "the path climbs above /"),
    ],
)
def test_a_request_that_names_no_place_is_refused(target: str, problem: str) -> None:
    assert place(target, minor=0) == BadHead(problem)


@pytest.mark.parametrize(
    "target", ["h.com", "h.com:", "h.com:x", "http://h.com:80", "u@h.com:443", "h.com:443/", "h.com:443?x", ":443"]
)
def test_a_tunnel_needs_host_and_port_and_nothing_else(target: str) -> None:
    assert isinstance(place(target, method="CONNECT"), BadHead)


@pytest.mark.parametrize("host", ["h.com", "H.COM:80", "h.com."])
def test_the_host_of_a_request_is_that_of_its_url(host: str) -> None:
    assert isinstance(place("http://h.com/", f"Host: {host}".encode()), ProxyTarget)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b"Host: h.com", b"Host: h.com"],
        [b"Host: evil.com"],
        [b"Host: h.com:81"],
        [b"Host: u@h.com"],
        [b"Host: h.com/x"],
        [b"Host: h.com?x"],
        [b"Host:"],
        [b"Host: h.com, evil.com"],
    ],
)
def test_a_host_that_differs_from_the_url_is_refused(lines: list[bytes]) -> None:
    assert isinstance(place("http://h.com/", *lines), BadHead)


KNOWN = fields(b"A: b", b"content-Length: \t12 ", b"C: 3")
SIMILAR = {
    "another length": (KNOWN.replace(b"12", b"34567"), 34567),
    "the same": (KNOWN, 12),
    "zeros in front": (KNOWN.replace(b"12", b"0007"), 7),
    "no digits": (KNOWN.replace(b"12", b""), None),
    "a sign": (KNOWN.replace(b"12", b"+12"), None),
    "a list": (KNOWN.replace(b"12", b"1, 2"), None),
    "digits of another script": (KNOWN.replace(b"12", "\u0661".encode()), None),
    "a longer number than there is": (KNOWN.replace(b"12", b"1" * 19), None),
    "a second length": (KNOWN.replace(b"12", b"12\r\nContent-Length: 5"), None),
    "chunks besides": (KNOWN.replace(b"12", b"12\r\nTransfer-Encoding: chunked"), None),
    "a second head": (KNOWN.replace(b"12", b"0\r\n\r\nGET / HTTP/1.1\r\nContent-Length: 5"), None),
    "another field": (KNOWN.replace(b"A: b", b"A: c"), None),
    "another order": (KNOWN.replace(b"C: 3", b"").replace(b"A: b", b"C: 3\r\nA: b"), None),
    "cut off": (KNOWN[:-2], None),
    "its two ends alone": (KNOWN[: KNOWN.index(b"12")][:-3] + KNOWN[KNOWN.index(b"12") + 2 :], None),
}


@pytest.mark.parametrize(("head", "length"), SIMILAR.values(), ids=SIMILAR)
def test_a_head_that_is_known_but_for_its_length_means_what_it_would_if_it_were_read(
    head: bytes, length: int | None
) -> None:
    known = known_head(KNOWN, request(KNOWN))
    assert known is not None
    assert known.length_in(head) == length
    if length is not None:
        assert request(head).replace(framing=None, fields=()) == known.meaning.replace(framing=None, fields=())
        assert request(head).framing == Framing(length)


@given(st.binary(max_size=30))
def test_nothing_in_place_of_a_length_passes_but_a_length(given: bytes) -> None:
    known = known_head(KNOWN, request(KNOWN))
    assert known is not None
    head = KNOWN.replace(b"12", given)
    length = known.length_in(head)
    assert length is None or request(head).framing == Framing(length)


UNKNOWN = {
    "no length": fields(b"A: b"),
    "two that agree": fields(b"Content-Length: 5", b"Content-Length: 5"),
    "chunks": fields(b"Transfer-Encoding: chunked"),
    "long": fields(b"A: " + b"b" * 5000, b"Content-Length: 5"),
}


@pytest.mark.parametrize("head", UNKNOWN.values(), ids=UNKNOWN)
def test_a_head_that_does_not_say_its_length_once_is_read_each_time(head: bytes) -> None:
    assert known_head(head, request(head)) is None


def test_a_request_that_says_nothing_of_its_body_has_none() -> None:
    assert request(fields()).body == NO_BODY
    assert request(fields(b"Content-Length: 3")).body == Framing(3)
    assert request(fields(b"Transfer-Encoding: chunked")).body == CHUNKED


@pytest.mark.parametrize(
    ("line", "field", "expects"),
    [
        (LINE, b"Expect: 100-continue\r\n", True),
        (LINE, b"", False),
        (LINE.replace(b"1.1", b"1.0"), b"Expect: 100-continue\r\n", False),
    ],
)
def test_only_a_client_of_http_1_1_waits_before_it_sends_a_body(*, line: bytes, field: bytes, expects: bool) -> None:
    assert request(line + HOST + field + b"\r\n").expects is expects


@pytest.mark.parametrize(("keep", "connection"), [(True, b"keep-alive"), (False, b"close")])
def test_a_response_of_the_proxys_own_says_whether_the_connection_stays(*, keep: bool, connection: bytes) -> None:
    head = own_head("403 Forbidden", [("Content-Length", "0")], keep=keep)
    assert head == b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: %s\r\n\r\n" % connection
    assert isinstance(read_response(head, "GET"), HttpResponseHead)
