"""The HTTP client: what it asks, where it dials, how long it waits, and what it makes of servers that misbehave."""

import contextlib
import gzip
import os
import socket
import ssl
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from byleave import __version__
from byleave.core.action import FileAction, UrlAction
from byleave.core.decision import ALLOW, RuleRef, Verdict
from byleave.core.net_rules import NetRule
from byleave.core.permit import Permit
from byleave.errors import RequestError
from byleave.net.http_client import MOST_KEPT, HttpClient, HttpRequest, HttpResponse
from byleave.protocol.http_body import CodingError, DecodedTooLargeError, decoded
from byleave.protocol.http_exchange import LONGEST_HEAD
from byleave.protocol.jsonrpc import ACCESS_DENIED, CANCELLED, INTERNAL_ERROR, INVALID_PARAMS, TIMED_OUT
from sandbox.proxy_scene import HOST, OK, PATIENCE, Origin, Replies, allow, read_message

ALLOWED = Verdict(ALLOW, "allowed", "ok", (RuleRef("a rule", "test", ALLOW),))


def loopback(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
def client() -> Iterator[HttpClient]:
    """Return a client for which every name leads to the loopback address; nothing of it is left open."""
    before = len(os.listdir("/proc/self/fd"))
    with HttpClient(resolve=loopback) as made:
        yield made
    assert len(os.listdir("/proc/self/fd")) == before


def permit_for(ask: HttpRequest, **fields: Any) -> Permit:
    return Permit(UrlAction(ask.url, ask.method, **fields), (), ALLOWED)


def asked(client: HttpClient, origin: Origin, path: str = "/", **more: Any) -> HttpResponse:
    """Ask the origin for something, by a rule that opens it."""
    options = {name: more.pop(name) for name in ("limit", "deadline", "on_cancel") if name in more}
    rules = more.pop("rules", (allow(origin),))
    tool = more.pop("tool", "t")
    ask = HttpRequest(more.pop("method", "GET"), f"http://{HOST}:{origin.port}{path}", **more)
    options.setdefault("deadline", monotonic() + PATIENCE)
    return client.request(permit_for(ask, tool=tool), ask, rules, **options)


def refused(client: HttpClient, origin: Origin, path: str = "/", **more: Any) -> tuple[int, str]:
    with pytest.raises(RequestError) as caught:
        asked(client, origin, path, **more)
    return caught.value.number, caught.value.problem


def says(data: bytes) -> Callable[[socket.socket], None]:
    """Return a server that hears one request, says this and closes."""
    return Replies(data)


def keeps(*replies: bytes) -> "Keeps":
    return Keeps(replies)


class Keeps:
    """A server that gives one reply after the other on the same connection, then closes it."""

    def __init__(self, replies: tuple[bytes, ...]) -> None:
        self._replies = replies
        self.heard: list[bytes] = []

    def __call__(self, connection: socket.socket) -> None:
        for reply in self._replies:
            message = read_message(connection)
            if not message:
                return
            self.heard.append(message)
            connection.sendall(reply)


class Holds:
    """A server that hears a request, says something, and then nothing until the client leaves."""

    def __init__(self, said: bytes = b"") -> None:
        self._said = said
        self.reached = threading.Event()

    def __call__(self, connection: socket.socket) -> None:
        read_message(connection)
        connection.sendall(self._said)
        self.reached.set()
        while connection.recv(1 << 16):
            pass


def body_of(data: bytes, *fields: str) -> bytes:
    head = ["HTTP/1.1 200 OK", f"Content-Length: {len(data)}", *fields, "", ""]
    return "\r\n".join(head).encode() + data


# What is asked


def test_a_request_says_what_it_was_told_and_no_more(client: HttpClient) -> None:
    replies = Replies()
    with Origin(replies) as origin:
        headers = (("X-A", "1"), ("X-A", "zwei \u00fc"))
        reply = asked(client, origin, "/a%7e/b?q=\u00fc&r=%20#part", method="POST", headers=headers, body=b"hi")
    assert (reply.status, reply.body, reply.headers) == (200, b"ok", (("Content-Length", "2"),))
    assert reply.url == f"http://{HOST}:{origin.port}/a~/b?q=%C3%BC&r=%20"
    head, _end, body = replies.heard[0].partition(b"\r\n\r\n")
    assert body == b"hi"
    assert head.decode().split("\r\n") == [
        "POST /a~/b?q=%C3%BC&r=%20 HTTP/1.1",
        f"Host: {HOST}:{origin.port}",
        f"User-Agent: byleave/{__version__}",
        "Accept: */*",
        "Accept-Encoding: identity",
        "X-A: 1",
        "X-A: zwei \u00fc",
        "Content-Length: 2",
    ]


PATHS = {
    "nothing": ("", "/"),
    "a query alone": ("?a=1", "/?a=1"),
    "a slash at the end": ("/a/", "/a/"),
    "dots": ("/a/../b/./c", "/b/c"),
    "encoded dots": ("/a/%2e%2e/b", "/b"),
    "several slashes": ("/a//b", "/a//b"),
    "a question in the query": ("/a?b?c", "/a?b?c"),
    "a fragment alone": ("#a/b", "/"),
}


@pytest.mark.parametrize(("path", "sent"), PATHS.values(), ids=PATHS.keys())
def test_the_path_that_is_asked_for_is_the_one_that_was_judged(client: HttpClient, path: str, sent: str) -> None:
    replies = Replies()
    with Origin(replies) as origin:
        asked(client, origin, path)
    assert replies.heard[0].split()[1].decode() == sent


def test_a_permit_for_something_else_opens_nothing(client: HttpClient) -> None:
    ask = HttpRequest("GET", "http://h.test/")
    others = [
        Permit(FileAction("read", "x"), (), ALLOWED),
        permit_for(HttpRequest("POST", ask.url)),
        permit_for(HttpRequest("GET", "http://h.test/other")),
    ]
    for permit in others:
        with pytest.raises(PermissionError):
            client.request(permit, ask, (NetRule("h.test", allow=True),))
    for url in ("http://a:b@h.test/", "ftp://h.test/", "nonsense"):
        with pytest.raises(PermissionError):
            client.request(
                permit_for(HttpRequest("GET", url)), HttpRequest("GET", url), (NetRule("h.test", allow=True),)
            )


@pytest.mark.parametrize(
    "header", [("X-A", "1\r\nX-B: 2"), ("X-A", "1\nX-B: 2"), ("X A", "1"), ("X-A\r\nX-B", "1"), ("X-A", "\0")]
)
def test_no_header_becomes_two(client: HttpClient, header: tuple[str, str]) -> None:
    replies = Replies()
    with Origin(replies) as origin:
        number, said = refused(client, origin, headers=(header,))
    assert (number, replies.heard) == (INVALID_PARAMS, [])
    assert "X-B" not in said


# Where it dials


def test_a_name_is_looked_up_once_and_what_was_judged_is_dialled() -> None:
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    with Origin(Replies()) as origin, HttpClient(resolve=lambda _host, _port: next(answers)) as client:
        assert asked(client, origin).status == 200
        assert next(answers) == ["127.0.0.2"]


def test_addresses_that_no_rule_opens_are_not_dialled() -> None:
    with Origin(Replies()) as origin, HttpClient(resolve=loopback) as client:
        number, said = refused(client, origin, rules=(NetRule(HOST, port=origin.port, allow=True),))
        assert number == ACCESS_DENIED
        assert "h.test leads to 127.0.0.1, which is in a private range" in said
        both = (allow(origin), NetRule(HOST, port=origin.port, allow=True))
        assert refused(client, origin, rules=both)[0] == ACCESS_DENIED
        assert refused(client, origin, rules=())[0] == ACCESS_DENIED
        assert refused(client, origin, rules=(None,))[0] == ACCESS_DENIED
        assert origin.accepted == 0


def test_the_addresses_that_are_left_are_tried_one_after_the_other() -> None:
    def resolve(_host: str, _port: int) -> list[str]:
        return ["169.254.169.254", "127.0.0.9", "127.0.0.1"]

    with Origin(Replies()) as origin, HttpClient(resolve=resolve) as client:
        assert asked(client, origin).status == 200


def test_a_name_without_an_address_cannot_be_reached() -> None:
    def resolve(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with Origin(Replies()) as origin, HttpClient(resolve=resolve) as client:
        assert refused(client, origin) == (INTERNAL_ERROR, "h.test cannot be reached: Name or service not known")
    with Origin(Replies()) as origin, HttpClient(resolve=lambda _host, _port: []) as client:
        assert refused(client, origin)[0] == INTERNAL_ERROR

    def broken(_host: str, _port: int) -> list[str]:
        raise RuntimeError

    with Origin(Replies()) as origin, HttpClient(resolve=broken) as client:
        assert refused(client, origin)[0] == INTERNAL_ERROR


def test_a_closed_port_cannot_be_reached(client: HttpClient) -> None:
    with Origin(Replies()) as origin:
        pass
    assert refused(client, origin) == (INTERNAL_ERROR, "h.test cannot be reached: Connection refused")


# Answers

CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWERS = {
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "not modified, with a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
    "until the end": (b"HTTP/1.1 200 OK\r\n\r\nall of it", 200, b"all of it"),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nold", 200, b"old"),
    "chunks": (
        CHUNKS + b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\nT: 1\r\n\r\n",
        200,
        b"abc",
    ),
    "interim answers": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, 200, b"ok"),
    "no phrase": (b"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", 404, b""),
    "an error": (b"HTTP/1.1 500 Oh\r\nContent-Length: 1\r\n\r\nx", 500, b"x"),
}


@pytest.mark.parametrize(("said", "status", "body"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answers_are_read_to_their_end(client: HttpClient, said: bytes, status: int, body: bytes) -> None:
    with Origin(says(said)) as origin:
        reply = asked(client, origin)
    assert (reply.status, reply.body) == (status, body)


def test_the_answer_to_head_has_a_length_and_no_body(client: HttpClient) -> None:
    with Origin(keeps(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", OK)) as origin:
        reply = asked(client, origin, method="HEAD")
        assert (reply.body, reply.headers) == (b"", (("Content-Length", "99999999999"),))
        assert asked(client, origin).body == b"ok"
        assert origin.accepted == 1


def test_headers_are_text_and_those_of_the_way_are_left_out(client: HttpClient) -> None:
    said = b"HTTP/1.1 200 \xff\xfe\r\nX-A: \xc3\xbc\r\nX-B: \xfc\r\nSet-Cookie: a=b\r\nKeep-Alive: 5\r\n"
    with Origin(says(said + b"Content-Length: 0\r\n\r\n")) as origin:
        reply = asked(client, origin)
    assert reply.headers == (("X-A", "\u00fc"), ("X-B", "\u00fc"), ("Set-Cookie", "a=b"), ("Content-Length", "0"))


BAD_ANSWERS = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "lines without CR": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a folded line": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a control character": b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a body that breaks off": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab",
    "chunks that break off": CHUNKS + b"2\r\nab\r\n",
    "a chunk without a size": CHUNKS + b"zz\r\nab\r\n0\r\n\r\n",
    "a negative chunk": CHUNKS + b"-2\r\nab\r\n0\r\n\r\n",
    "a huge chunk": CHUNKS + b"ffffffffffffffffff\r\nab\r\n0\r\n\r\n",
    "a chunk that is too long": CHUNKS + b"1\r\nab\r\n0\r\n\r\n",
    "an unknown transfer coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "interim answers without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"X: aaaaaaaa\r\n" * (LONGEST_HEAD // 10),
    "a line without end": b"HTTP/1.1 200 " + b"a" * (LONGEST_HEAD + 1),
    "an unknown coding": body_of(b"x", "Content-Encoding: br"),
    "no gzip": body_of(b"x", "Content-Encoding: gzip"),
    "half a gzip": body_of(gzip.compress(b"x" * 999)[:-9], "Content-Encoding: gzip"),
    "many codings": body_of(b"x", "Content-Encoding: gzip, gzip, gzip, gzip, gzip"),
}


@pytest.mark.parametrize("said", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_what_can_be_read_in_several_ways_is_no_answer(client: HttpClient, said: bytes) -> None:
    with Origin(says(said)) as origin:
        number, problem = refused(client, origin)
    assert number == INTERNAL_ERROR
    assert problem.startswith("h.test gave no response that can be used: ")
    assert problem.isprintable()


def test_a_server_that_answers_before_it_has_heard_everything_is_heard(client: HttpClient) -> None:
    def hasty(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass

    with Origin(hasty) as origin:
        assert asked(client, origin, method="POST", body=bytes(8 << 20)).status == 413


# Compressed all the same

CODED = {
    "gzip": (gzip.compress(b"plain"), "gzip"),
    "two gzips, one after the other": (gzip.compress(b"pl") + gzip.compress(b"ain"), "GZIP"),
    "deflate": (zlib.compress(b"plain"), "deflate"),
    "deflate without its frame": (zlib.compress(b"plain")[2:-4], "deflate"),
    "one over the other": (gzip.compress(zlib.compress(b"plain")), "deflate, x-gzip"),
    "not at all": (b"plain", "identity"),
}


@pytest.mark.parametrize(("body", "coding"), CODED.values(), ids=CODED.keys())
def test_a_body_that_was_compressed_unasked_is_undone(client: HttpClient, body: bytes, coding: str) -> None:
    with Origin(says(body_of(body, f"Content-Encoding: {coding}"))) as origin:
        reply = asked(client, origin)
    assert reply.body == b"plain"
    assert coding == "identity" or [name for name, _value in reply.headers] == []


def test_a_small_body_cannot_become_a_huge_one(client: HttpClient) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    for body, coding in ((bomb, "gzip"), (gzip.compress(bomb), "gzip, gzip"), (bomb * 9, "gzip")):
        with Origin(says(body_of(body, f"Content-Encoding: {coding}"))) as origin:
            assert refused(client, origin, limit=1 << 20)[0] == INVALID_PARAMS
    with pytest.raises(DecodedTooLargeError):
        decoded(gzip.compress(b"four") * 3, ["gzip"], 11)
    assert decoded(gzip.compress(b"four") * 3, ["gzip"], 12) == b"fourfourfour"
    with pytest.raises(CodingError):
        decoded(b"x", ["zstd"], 9)


# Too much, too slow, not wanted any more


def test_a_body_over_the_limit_is_refused_with_the_limit(client: HttpClient) -> None:
    def endless(connection: socket.socket) -> None:
        read_message(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(bytes(1 << 16))

    told = b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"
    for handler in (endless, says(told + bytes(1001)), Holds(told)):
        with Origin(handler) as origin, pytest.raises(RequestError) as caught:
            asked(client, origin, limit=1000)
        assert (caught.value.number, caught.value.data) == (INVALID_PARAMS, {"limit": 1000})
    with Origin(says(body_of(bytes(1000)))) as origin:
        assert len(asked(client, origin, limit=1000).body) == 1000


def trickle(connection: socket.socket) -> None:
    read_message(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n")
    connection.settimeout(0.01)
    gone = False
    while not gone:
        connection.sendall(b"x")
        with contextlib.suppress(TimeoutError):
            gone = not connection.recv(1)


SLOW = {
    "a server that never answers": Holds(),
    "half a head": Holds(b"HTTP/1.1 200 OK\r\n"),
    "half a body": Holds(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"),
    "a byte now and then": trickle,
}


@pytest.mark.parametrize("handler", SLOW.values(), ids=SLOW.keys())
def test_a_request_has_one_deadline_for_everything(
    client: HttpClient, handler: Callable[[socket.socket], None]
) -> None:
    with Origin(handler) as origin:
        started = monotonic()
        number, _problem = refused(client, origin, deadline=started + 0.2)
        assert (number, monotonic() - started < PATIENCE / 2) == (TIMED_OUT, True)


def test_a_deadline_that_has_passed_asks_nothing(client: HttpClient) -> None:
    with Origin(Replies()) as origin:
        assert refused(client, origin, deadline=monotonic() - 1)[0] == TIMED_OUT
        assert origin.accepted == 0


def test_a_server_that_does_not_take_what_is_sent_is_given_up(client: HttpClient) -> None:
    released = threading.Event()

    def deaf(_connection: socket.socket) -> None:
        released.wait(PATIENCE)

    with Origin(deaf) as origin:
        number, _problem = refused(client, origin, method="POST", body=bytes(64 << 20), deadline=monotonic() + 0.3)
        released.set()
    assert number == TIMED_OUT


def test_a_request_is_cancelled_while_it_waits_for_an_answer(client: HttpClient) -> None:
    for held in (Holds(), Holds(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")):
        stops: list[Callable[[], None]] = []

        def cancel(reached: threading.Event = held.reached, stops: list[Callable[[], None]] = stops) -> None:
            reached.wait(PATIENCE)
            stops[0]()
            stops[0]()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with Origin(held) as origin:
            assert refused(client, origin, on_cancel=stops.append)[0] == CANCELLED
        canceller.join()


def test_a_request_is_cancelled_while_it_connects() -> None:
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    waiting = [socket.socket() for _ in range(8)]
    for one in waiting:  # nobody accepts: once the queue is full, connecting takes for ever
        one.setblocking(False)
        one.connect_ex(full.getsockname())
    ask = HttpRequest("GET", f"http://127.0.0.1:{full.getsockname()[1]}/")
    rule = NetRule("127.0.0.1", port=full.getsockname()[1], allow=True)
    outcome: list[int] = []
    stops: list[Callable[[], None]] = []
    registered = threading.Event()

    def on_cancel(stop: Callable[[], None]) -> None:
        stops.append(stop)
        registered.set()

    def request(client: HttpClient) -> None:
        try:
            client.request(permit_for(ask), ask, (rule,), on_cancel=on_cancel)
        except RequestError as error:
            outcome.append(error.number)

    with HttpClient() as client:
        thread = threading.Thread(target=request, args=(client,))
        thread.start()
        registered.wait(PATIENCE)
        stops[0]()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    for one in (full, *waiting):
        one.close()
    assert outcome == [CANCELLED]


def test_a_request_is_cancelled_while_a_name_is_looked_up() -> None:
    asked_for, released = threading.Event(), threading.Event()
    stops: list[Callable[[], None]] = []

    def resolve(_host: str, _port: int) -> list[str]:
        asked_for.set()
        released.wait(PATIENCE)
        return ["127.0.0.1"]

    def cancel() -> None:
        asked_for.wait(PATIENCE)
        stops[0]()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with Origin(Replies()) as origin, HttpClient(resolve=resolve) as client:
        assert refused(client, origin, on_cancel=stops.append)[0] == CANCELLED
        assert origin.accepted == 0
        assert refused(client, origin, deadline=monotonic() + 0.1)[0] == TIMED_OUT
    canceller.join()
    released.set()


def test_what_was_cancelled_before_is_not_asked(client: HttpClient) -> None:
    with Origin(Replies()) as origin:
        assert refused(client, origin, on_cancel=lambda stop: stop())[0] == CANCELLED


def test_a_late_cancel_leaves_the_next_request_on_the_connection_alone(client: HttpClient) -> None:
    stops: list[Callable[[], None]] = []

    def serve(connection: socket.socket) -> None:
        read_message(connection)
        connection.sendall(OK)
        read_message(connection)
        stops[0]()
        connection.sendall(OK)

    with Origin(serve) as origin:
        asked(client, origin, on_cancel=stops.append)
        assert asked(client, origin).body == b"ok"
        assert origin.accepted == 1


# Connections that are kept


def test_a_connection_is_used_again_by_the_same_tool_for_the_same_place(client: HttpClient) -> None:
    with Origin(keeps(OK, OK, OK)) as origin:
        for _ in range(3):
            assert asked(client, origin).body == b"ok"
        assert origin.accepted == 1
        asked(client, origin)
        asked(client, origin, tool="other")
        assert origin.accepted == 3
        client.close()


def test_a_connection_is_used_again_only_by_a_rule_that_opens_its_address(client: HttpClient) -> None:
    with Origin(keeps(OK, OK)) as origin:
        asked(client, origin)
        closed = NetRule(HOST, port=origin.port, allow=True)
        assert refused(client, origin, rules=(closed,))[0] == ACCESS_DENIED
        assert asked(client, origin).body == b"ok"
        assert origin.accepted == 1


NOT_KEPT = {
    "the server closes": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "more than was asked for": OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
}


@pytest.mark.parametrize("said", NOT_KEPT.values(), ids=NOT_KEPT.keys())
def test_a_connection_is_not_kept_where_the_next_answer_may_be_wrong(client: HttpClient, said: bytes) -> None:
    with Origin(keeps(said, said)) as origin:
        assert [asked(client, origin).body for _ in range(2)] == [b"ok", b"ok"]
        assert origin.accepted == 2


def test_a_kept_connection_that_died_is_made_anew_once(client: HttpClient) -> None:
    """The server closes when it hears the second request, so that nothing can be seen before it is sent."""
    first = threading.Event()

    def serve(connection: socket.socket) -> None:
        read_message(connection)
        connection.sendall(OK)
        if not first.is_set():
            first.set()
            read_message(connection)

    with Origin(serve) as origin:
        assert [asked(client, origin).body for _ in range(2)] == [b"ok", b"ok"]
        assert origin.accepted == 2


def test_what_must_not_be_done_twice_is_never_sent_on_a_kept_connection(client: HttpClient) -> None:
    handler = keeps(OK, OK)
    with Origin(handler) as origin:
        for _ in range(3):
            asked(client, origin, method="POST", body=b"x")
        assert (origin.accepted, len(handler.heard)) == (3, 3)
        client.close()


def test_few_connections_are_kept(client: HttpClient) -> None:
    with contextlib.ExitStack() as stack:
        origins = [stack.enter_context(Origin(keeps(OK, OK))) for _ in range(MOST_KEPT + 4)]
        for origin in origins:
            asked(client, origin)
        for origin in reversed(origins):
            asked(client, origin)
        assert sum(origin.accepted for origin in origins) == MOST_KEPT + 4 + 4
        client.close()


def test_many_threads_share_a_client(client: HttpClient) -> None:
    wrong: list[object] = []

    def serve(connection: socket.socket) -> None:
        while message := read_message(connection):
            connection.sendall(body_of(message.split()[1]))

    def work(number: int, origin: Origin) -> None:
        for turn in range(20):
            path = f"/{number}/{turn}"
            reply = asked(client, origin, path)
            if reply.body != path.encode():
                wrong.append(reply)

    with Origin(serve) as origin:
        threads = [threading.Thread(target=work, args=(number, origin)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
    assert wrong == []


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and a certificate for h.test."""
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(file), "-out", f"{file}.crt", "-subj", f"/CN={HOST}"]
    subprocess.run([*command, "-addext", f"subjectAltName=DNS:{HOST}"], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + Path(f"{file}.crt").read_bytes())
    return file


def over_tls(certificate: Path, handler: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            handler(secured)

    return serve


def over_https(client: HttpClient, origin: Origin, host: str = HOST, **options: Any) -> HttpResponse:
    ask = HttpRequest("GET", f"https://{host}:{origin.port}/")
    options.setdefault("deadline", monotonic() + PATIENCE)
    return client.request(permit_for(ask), ask, (allow(origin, host),), **options)


def test_https_is_spoken_with_a_host_that_proves_itself(certificate: Path) -> None:
    context = ssl.create_default_context(cafile=f"{certificate}.crt")
    with (
        Origin(over_tls(certificate, keeps(OK, OK))) as origin,
        HttpClient(context=context, resolve=loopback) as client,
    ):
        assert [over_https(client, origin).body for _ in range(2)] == [b"ok", b"ok"]
        with pytest.raises(RequestError) as caught:
            over_https(client, origin, "other.test")
    assert caught.value.number == INTERNAL_ERROR
    assert "its certificate does not prove that it is this host" in caught.value.problem


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    serve = over_tls(certificate, keeps(OK))
    with Origin(serve) as origin, HttpClient(resolve=loopback) as client, pytest.raises(RequestError) as caught:
        over_https(client, origin)
    assert "certificate" in caught.value.problem


def test_a_server_that_speaks_no_tls_cannot_be_reached_by_https() -> None:
    def plain(connection: socket.socket) -> None:
        connection.sendall(OK)

    with Origin(plain) as origin, HttpClient(resolve=loopback) as client, pytest.raises(RequestError) as caught:
        over_https(client, origin)
    assert (caught.value.number, "TLS failed" in caught.value.problem) == (INTERNAL_ERROR, True)


def test_a_handshake_that_never_ends_is_given_up() -> None:
    with Origin(Mute()) as origin, HttpClient(resolve=loopback) as client, pytest.raises(RequestError) as caught:
        over_https(client, origin, deadline=monotonic() + 0.2)
    assert caught.value.number == TIMED_OUT


class Mute:
    """A server that hears and says nothing."""

    def __init__(self) -> None:
        self.reached = threading.Event()

    def __call__(self, connection: socket.socket) -> None:
        connection.recv(1)
        self.reached.set()
        while connection.recv(1 << 16):
            pass


def test_a_handshake_is_cancelled() -> None:
    mute, stops = Mute(), list[Callable[[], None]]()

    def cancel() -> None:
        mute.reached.wait(PATIENCE)
        stops[0]()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with Origin(mute) as origin, HttpClient(resolve=loopback) as client, pytest.raises(RequestError) as caught:
        over_https(client, origin, on_cancel=stops.append)
    canceller.join()
    assert caught.value.number == CANCELLED


def test_a_body_over_tls_that_is_cut_is_no_body(certificate: Path) -> None:
    def cut(connection: socket.socket) -> None:
        read_message(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf of")
        os.close(connection.detach())  # without a word of farewell

    context, serve = ssl.create_default_context(cafile=f"{certificate}.crt"), over_tls(certificate, cut)
    with Origin(serve) as origin, HttpClient(context=context, resolve=loopback) as client:
        with pytest.raises(RequestError) as caught:
            over_https(client, origin)
        assert caught.value.number == INTERNAL_ERROR
