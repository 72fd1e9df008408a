"""Every request that leaves a sandbox is judged, and nothing else leaves it."""

import contextlib
import gc
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.client import IncompleteRead
from pathlib import Path
from time import monotonic

import pytest

from byleave.core.net_rules import USERINFO, NetRule
from byleave.net.proxy import HttpProxy
from byleave.net.proxy_connection import ProxyLimits
from byleave.net.proxy_policy import USAGE, UrlVerdict
from net.test_client_hello import extension, hello, record, server_name
from sandbox.proxy_scene import (
    HOST,
    OK,
    PATIENCE,
    Client,
    Handler,
    Origin,
    Replies,
    Resolve,
    Scene,
    allow,
    get,
    loopback,
    proxied,
    read_message,
)


@pytest.fixture(autouse=True)
def quiet(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Nothing is ever printed, not even when the garbage is collected."""
    yield
    gc.collect()
    assert capfd.readouterr().err == ""


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and a certificate for itself."""
    made = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    options = ["-subj", f"/CN={HOST}", "-days", "2", "-keyout", str(made), "-out", str(made.with_suffix(".crt"))]
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=60)
    with made.open("a") as both:
        both.write(made.with_suffix(".crt").read_text())
    return made


@contextlib.contextmanager
def answering(reply: bytes = OK) -> Iterator[tuple[Replies, Origin, Scene]]:
    """Run a server with one reply, and a proxy that lets everything through to it."""
    replies = Replies(reply)
    with Origin(replies) as origin, proxied(allow(origin)) as scene:
        yield replies, origin, scene


def test_a_request_that_is_allowed_reaches_the_server_and_its_query_no_record() -> None:
    with answering() as (replies, origin, scene):
        assert scene.ask(get(origin, "/a/b?secret=1", "Accept: x")) == (200, "ok")
    head = f"GET /a/b?secret=1 HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\nAccept: x\r\nConnection: close\r\n\r\n"
    assert replies.heard == [head.encode()]
    assert scene.told == [(f"http://{HOST}:{origin.port}/a/b", True)]


def test_a_request_that_is_denied_is_answered_with_the_reason() -> None:
    with answering() as (replies, origin, scene), scene.client() as client:
        client.send(get(origin, "/", host="evil.test"))
        with client.response() as response:
            assert (response.status, response.headers["X-Byleave"]) == (403, "denied")
            assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
            assert response.read() == b"decided by nobody\n"
    assert (replies.heard, scene.told) == ([], [(f"http://evil.test:{origin.port}/", False)])


def test_every_request_of_a_connection_is_judged_by_itself() -> None:
    replies = Replies()
    with Origin(replies) as origin:
        deny = NetRule(HOST, port=origin.port, path_prefix="/private")
        with proxied(allow(origin), deny) as scene, scene.client() as client:
            for path, status in (("/a", 200), ("/private/x", 403), ("/%70rivate", 403), ("/a/../private", 403)):
                client.send(get(origin, path))
                assert client.answer()[0] == status
            client.send(get(origin, "/b", "Connection: close"))
            assert client.answer() == (200, "ok")
            assert client.rest() == b""
    assert [heard.split()[1] for heard in replies.heard] == [b"/a", b"/b"]


def test_pipelined_requests_are_answered_in_turn() -> None:
    with answering() as (replies, origin, scene), scene.client() as client:
        body = get(origin, "/2", "Content-Length: 3", method="POST") + b"abc"
        client.send(get(origin, "/1") + body + get(origin, "/3", host="evil.test") + get(origin, "/4"))
        client.send(get(origin, "/5", "Connection: close"))
        answers = client.rest()
    assert answers.count(b"HTTP/1.1 200 OK") == 4
    assert answers.count(b"HTTP/1.1 403 Forbidden") == 1
    assert [heard.split()[1] for heard in replies.heard] == [b"/1", b"/2", b"/4", b"/5"]
    assert [url[-2:] for url, _allowed in scene.told] == ["/1", "/2", "/3", "/4", "/5"]


def test_the_reason_cannot_act_on_a_terminal() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    proxy = HttpProxy(lambda _url: UrlVerdict(False, "no\x1b[2J\u202e\ud800\r\n", None), lambda _host: False)
    proxy.start(listener)
    with Client(port) as client:
        client.send(b"GET http://h.test/ HTTP/1.0\r\n\r\n")
        assert client.answer() == (403, "no\\x1b[2J\\u202e\\ud800\\r\\n\n")
    proxy.close()


@pytest.mark.parametrize("failing", ["evaluate", "has_paths", "on_verdict"])
def test_a_policy_that_cannot_be_asked_or_recorded_denies(failing: str) -> None:
    def fail(*_given: object) -> UrlVerdict:
        raise RuntimeError

    listener = socket.create_server(("127.0.0.1", 0))
    rule = NetRule("127.0.0.1", allow=True)
    hooks = {"evaluate": lambda _url: UrlVerdict(True, "yes", rule), "has_paths": lambda _host: False, failing: fail}
    proxy = HttpProxy(hooks.pop("evaluate"), hooks.pop("has_paths"), **hooks)  # type: ignore[arg-type]
    port = listener.getsockname()[1]
    proxy.start(listener)
    with Client(port) as client:
        client.send(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")
        assert client.answer()[0] == 403
    proxy.close()


def test_a_body_of_known_length_goes_through() -> None:
    body = os.urandom(3 << 20)
    with answering() as (replies, origin, scene):
        assert scene.ask(get(origin, "/", f"Content-Length: {len(body)}", method="PUT") + body) == (200, "ok")
    assert replies.heard[0].endswith(b"\r\n\r\n" + body)


def test_a_body_in_chunks_is_cut_into_new_ones() -> None:
    with answering() as (replies, origin, scene), scene.client() as client:
        client.send(get(origin, "/", "Transfer-Encoding: chunked", method="POST"))
        for piece in (b"3;x=y\r", b"\nab", b"c\r\n", b"00\r\nTrailer: x\r\n\r\n"):
            client.send(piece)
        assert client.answer() == (200, "ok")
    head, _end, body = replies.heard[0].partition(b"\r\n\r\n")
    assert b"\r\nTransfer-Encoding: chunked\r\n" in head
    assert body.replace(b"\r\n", b"").replace(b"2ab1c0", b"3abc0") == b"3abc0"


def test_a_client_that_waits_to_be_told_to_continue_is_told() -> None:
    def handler(connection: socket.socket) -> None:
        assert b"Expect: 100-continue\r\n" in connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        assert connection.recv(1 << 16) == b"abc"
        connection.sendall(OK)

    with Origin(handler) as origin, proxied(allow(origin)) as scene, scene.client() as client:
        client.send(get(origin, "/", "Content-Length: 3", "Expect: 100-continue", method="POST"))
        assert client.socket.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"abc")
        assert client.answer() == (200, "ok")
        client.send(get(origin, "/", host="evil.test"))
        assert client.answer()[0] == 403


def test_an_answer_that_comes_before_the_body_ends_the_connection() -> None:
    def handler(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")

    with Origin(handler) as origin, proxied(allow(origin)) as scene, scene.client() as client:
        client.send(get(origin, "/", "Content-Length: 3", "Expect: 100-continue", method="POST"))
        with client.response("POST") as response:
            assert (response.status, response.headers["Connection"]) == (413, "close")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest() == b""


def test_a_denied_upload_gets_its_answer_though_nobody_reads_it() -> None:
    with answering() as (_replies, origin, scene), scene.client() as client:
        client.send(get(origin, "/", "Content-Length: 2000000", method="POST", host="evil.test") + bytes(1_000_000))
        assert client.answer("POST") == (403, "decided by nobody\n")


CHUNKED = b"Transfer-Encoding: chunked\r\n"
RESPONSES = {
    "of known length": ("GET", 1, b"Content-Length: 3\r\n\r\nabcXX", "Content-Length: 3", b"abc"),
    "in chunks": ("GET", 1, CHUNKED + b"\r\n3\r\nabc\r\n0\r\n\r\nXX", "Transfer-Encoding: chunked", b"abc"),
    "until the end": ("GET", 1, b"\r\nabc", "Transfer-Encoding: chunked", b"abc"),
    "without a body": ("GET", 1, b"Content-Length: 0\r\n\r\nXX", "Content-Length: 0", b""),
    "to HEAD": ("HEAD", 1, b"Content-Length: 3\r\n\r\nXX", "Content-Length: 3", b""),
    "in chunks, to HTTP/1.0": ("GET", 0, CHUNKED + b"\r\n3\r\nabc\r\n0\r\n\r\n", None, b"abc"),
    "until the end, to HTTP/1.0": ("GET", 0, b"\r\nabc", None, b"abc"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("method", "minor", "reply", "framed", "body"), RESPONSES.values(), ids=RESPONSES.keys())
def test_a_response_is_framed_for_the_client(method: str, minor: int, reply: bytes, framed: str, body: bytes) -> None:
    with answering(b"HTTP/1.1 200 OK\r\n" + reply) as (_replies, origin, scene), scene.client() as client:
        client.send(get(origin, method=method, minor=minor))
        with client.response(method) as response:
            told = [f"{name}: {value}" for name, value in response.getheaders() if name != "Connection"]
            assert (told, response.read()) == ([framed] if framed else [], body)
            assert response.headers["Connection"] == ("keep-alive" if minor else "close")
        if minor:
            client.send(get(origin, "/", host="evil.test"))
            assert client.answer()[0] == 403
        else:
            assert client.rest() == b""


@pytest.mark.parametrize("status", [204, 304])
def test_a_response_that_cannot_have_a_body_has_none(status: int) -> None:
    with answering(b"HTTP/1.1 %d X\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" % status) as (_replies, origin, scene):
        assert scene.ask(get(origin, "/", "Connection: close")) == (status, "")


def test_a_response_is_passed_on_while_it_is_made() -> None:
    seen = threading.Event()

    def handler(connection: socket.socket) -> None:
        read_message(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        assert seen.wait(PATIENCE)
        connection.sendall(b"4\r\nlast\r\n0\r\n\r\n")

    with Origin(handler) as origin, proxied(allow(origin)) as scene, scene.client() as client:
        client.send(get(origin))
        with client.response() as response:
            assert response.read(5) == b"first"
            seen.set()
            assert response.read() == b"last"


BAD_RESPONSES = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-x\r\n\r\n",
    "framed twice": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "no end of interim responses": b"HTTP/1.1 103 X\r\n\r\n" * 100,
    "a huge head": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n",
    "cut off": b"HTTP/1.1 200 OK\r\nContent-",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reply", BAD_RESPONSES.values(), ids=BAD_RESPONSES.keys())
def test_a_response_that_cannot_be_followed_is_not_passed_on(reply: bytes) -> None:
    with answering(reply) as (_replies, origin, scene), scene.client() as client:
        client.send(get(origin))
        status, text = client.answer()
        assert status == 502
        assert text.startswith(f"{HOST} gave no response that can be passed on: ")
        client.send(get(origin, "/", host="evil.test"))
        assert client.answer()[0] == 403


@pytest.mark.parametrize("minor", [0, 1])
@pytest.mark.parametrize(
    "reply", [b"Content-Length: 9\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx\r\n0\r\n\r\n"]
)
def test_a_response_that_breaks_off_is_seen_to_break(reply: bytes, minor: int) -> None:
    with answering(b"HTTP/1.1 200 OK\r\n" + reply) as (_replies, origin, scene), scene.client() as client:
        client.send(get(origin, minor=minor))
        with pytest.raises((ConnectionError, IncompleteRead)), client.response() as response:
            response.read()


INNER = b"GET http://PLACE/smuggled HTTP/1.1\r\nHost: PLACE\r\n\r\n"
START = b"POST http://PLACE/ HTTP/1.1\r\nHost: PLACE\r\n"
BAD_REQUESTS = {
    "CL.TE": START + b"Content-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "TE.CL": START + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n8\r\n",
    "TE.TE": START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    "space before the colon": START + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "two lengths": START + b"Content-Length: 0\r\nContent-Length: 38\r\n\r\n",
    "a folded coding": START + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "bare LF": START + b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare CR": START + b"X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an empty line in LF": START + b"X: y\n\n",
    "NUL": START + b"X: y\0\r\n\r\n",
    "another host": b"GET http://PLACE/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "two hosts": START + b"Host: evil.test\r\n\r\n",
    "no host": b"GET http://PLACE/ HTTP/1.1\r\n\r\n",
    "origin form": b"GET / HTTP/1.1\r\nHost: PLACE\r\n\r\n",
    "https": b"GET https://PLACE/ HTTP/1.1\r\nHost: PLACE\r\n\r\n",
    "a fragment": b"GET http://PLACE/#x HTTP/1.1\r\nHost: PLACE\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\n\n",
    "a huge head": START + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
    "a tunnel with a body": b"CONNECT PLACE HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    "a tunnel without a port": b"CONNECT h.test HTTP/1.1\r\n\r\n",
    "a websocket": START + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("request_", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_after_a_bad_request_nothing_more_is_read(request_: bytes) -> None:
    with answering() as (replies, origin, scene), scene.client() as client:
        client.send((request_ + INNER).replace(b"PLACE", f"{HOST}:{origin.port}".encode()))
        answers = client.rest()
    assert answers.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert (answers.count(b"HTTP/1.1"), replies.heard, scene.told) == (
        answers.count(b"request of HTTP/1.1") + 1,
        [],
        [],
    )


@pytest.mark.parametrize("chunks", [b"0x0\r\n\r\n", b"1\nZ\r\n0\r\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"-1\r\n\r\n"])
def test_after_a_bad_body_nothing_more_is_read(chunks: bytes) -> None:
    with answering() as (replies, origin, scene), scene.client() as client:
        inner = INNER.replace(b"PLACE", f"{HOST}:{origin.port}".encode())
        client.send(get(origin, "/", "Transfer-Encoding: chunked", method="POST") + chunks + inner)
        answers = client.rest()
    assert answers.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert (answers.count(b"HTTP/1.1"), len(scene.told)) == (1, 1)
    assert b"smuggled" not in b"".join(replies.heard)


def test_a_request_to_the_proxy_itself_is_told_how_to_ask() -> None:
    with answering() as (_replies, _origin, scene):
        assert scene.ask(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == (400, f"{USAGE}\n")


def test_a_password_in_the_url_denies_it_and_is_told_to_nobody() -> None:
    with answering() as (replies, origin, scene):
        assert scene.ask(get(origin, host=f"u:secret@{HOST}").replace(b"Host: u:secret@", b"Host: ")) == (
            403,
            f"{USERINFO}\n",
        )
    assert (replies.heard, scene.told) == ([], [(f"http://{HOST}:{origin.port}/", False)])


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]", "127.0.0.1."]
)
def test_an_address_is_the_same_however_it_is_written(host: str) -> None:
    replies = Replies()
    with Origin(replies) as origin:
        with proxied(NetRule("127.0.0.1", port=origin.port, allow=True)) as scene:
            assert scene.ask(get(origin, host=host)) == (200, "ok")
        with proxied(allow(origin, "evil.test")) as scene:
            assert scene.ask(get(origin, host=host))[0] == 403
            assert scene.told == [(f"http://127.0.0.1:{origin.port}/", False)]
    assert b"\r\nHost: 127.0.0.1:%d\r\n" % origin.port in replies.heard[0]


def test_ipv6_is_dialled() -> None:
    with Origin(Replies(), "::1") as origin, proxied(NetRule("::1", port=origin.port, allow=True)) as scene:
        assert scene.ask(get(origin, host="[0::1]")) == (200, "ok")


PRIVATE = {
    "loopback": (NetRule(HOST, allow=True), ["127.0.0.1"]),
    "private": (NetRule(HOST, allow=True), ["10.0.0.1", "192.168.1.1", "fd00::1"]),
    "mapped": (NetRule(HOST, allow=True), ["::ffff:127.0.0.1"]),
    "in a tunnel of IPv6": (NetRule(HOST, allow=True), ["64:ff9b::7f00:1", "2002:7f00:1::"]),
    "with a zone": (NetRule(HOST, allow=True, private=True), ["fe80::1%lo"]),
    "no address": (NetRule(HOST, allow=True, private=True), ["localhost"]),
    "private, for localhost": (NetRule("localhost", allow=True), ["10.0.0.1"]),
}


@pytest.mark.parametrize(("rule", "addresses"), PRIVATE.values(), ids=PRIVATE.keys())
def test_a_name_that_leads_to_a_private_address_is_denied(rule: NetRule, addresses: list[str]) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return addresses

    with proxied(rule, resolve=resolve) as scene:
        status, text = scene.ask(b"CONNECT %b:443 HTTP/1.1\r\n\r\n" % rule.host.encode())
        assert (status, "private range" in text, addresses[0] in text) == (403, True, True)
        assert scene.told == [(f"https://{rule.host}:443/", False)]


@pytest.mark.parametrize("address", ["169.254.169.254", "168.63.129.16", "64:ff9b::a9fe:a9fe"])
def test_a_name_that_leads_to_credentials_is_denied_with_the_one_way_to_open_it(address: str) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return [address]

    with proxied(NetRule(HOST, allow=True, private=True), resolve=resolve) as scene:
        status, text = scene.ask(b"CONNECT %b:443 HTTP/1.1\r\n\r\n" % HOST.encode())
        where = f"leads to {address}, which is where a cloud hands out credentials"
        assert (status, where in text, "private = true" in text) == (403, True, False)
        assert scene.told == [(f"https://{HOST}:443/", False)]


CUTS = (b"\0", b"%00", b"\n", b"\r", b"\t", b" ", b"#", b"?", b"/", b"\\", b"@", b"%2f", b"\xc0\x80")
FORMS = (b"CONNECT %b:443 HTTP/1.1\r\n\r\n", b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\n\r\n")


@pytest.mark.parametrize("cut", [b"", *CUTS])
@pytest.mark.parametrize("form", FORMS, ids=["tunnel", "plain"])
def test_a_host_that_another_reader_would_cut_is_not_looked_up(form: bytes, cut: bytes) -> None:
    """A name that ends like the allowed one where texts are compared, and sooner where names are resolved."""
    asked: list[str] = []

    async def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.2"]

    host = b"evil.test%b.h.test" % cut if cut else b"h.test"
    with proxied(NetRule("h.test", allow=True, private=True), resolve=resolve) as scene:
        status, _text = scene.ask(form.replace(b"%b", host))
    assert (status in (400, 403), asked) == ((True, []) if cut else (False, ["h.test"]))


def test_a_name_that_leads_elsewhere_the_second_time_is_dialled_where_it_led_when_it_was_checked() -> None:
    asked: list[str] = []

    async def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    with Origin(Replies()) as origin, proxied(allow(origin), resolve=resolve) as scene, scene.client() as client:
        client.send(get(origin))
        assert (client.answer(), asked) == ((200, "ok"), [HOST])
        client.send(get(origin))
        assert (client.answer()[0], asked) == (502, [HOST, HOST])


def test_only_addresses_that_pass_are_tried_and_all_of_them_in_turn() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["10.255.255.1", "127.0.0.9", "127.0.0.1"]

    with Origin(Replies()) as origin:
        rule = NetRule("localhost", port=origin.port, allow=True)  # loopback, nothing else
        with proxied(rule, resolve=resolve, limits=ProxyLimits(connect=PATIENCE)) as scene:
            started = monotonic()
            assert scene.ask(get(origin, host="localhost")) == (200, "ok")
            assert monotonic() - started < PATIENCE / 3


def test_the_system_is_asked_for_names() -> None:
    with Origin(Replies()) as origin, proxied(allow(origin, "localhost"), resolve=None) as scene:
        assert scene.ask(get(origin, host="localhost")) == (200, "ok")


def test_a_server_that_is_not_there_is_not_reached() -> None:
    with Origin(Replies()) as origin:
        gone = allow(origin)
    with proxied(gone) as scene:
        assert scene.ask(get(origin)) == (502, f"{HOST} could not be reached: Connection refused\n")
        assert scene.told == [(f"http://{HOST}:{origin.port}/", True)]


async def no_such_name(_host: str, _port: int) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def no_address(_host: str, _port: int) -> list[str]:
    return []


async def never(_host: str, _port: int) -> list[str]:
    import asyncio

    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("resolve", "status", "text"),
    [
        (no_such_name, 502, "h.test could not be reached: Name or service not known\n"),
        (no_address, 502, "h.test could not be reached: it has no address\n"),
        (never, 504, "h.test could not be reached in time\n"),
    ],
)
def test_a_name_without_an_address_is_not_reached(resolve: Resolve, status: int, text: str) -> None:
    limits = ProxyLimits(connect=0.2)
    with proxied(NetRule(HOST, allow=True), resolve=resolve, limits=limits) as scene, scene.client() as client:
        client.send(b"GET http://h.test/ HTTP/1.1\r\nHost: h.test\r\n\r\n")
        assert client.answer() == (status, text)
        client.send(b"CONNECT h.test:443 HTTP/1.1\r\n\r\n")
        assert client.answer() == (status, text)


def test_a_server_that_never_answers_times_out() -> None:
    with Origin(assert_ended) as origin, proxied(allow(origin), limits=ProxyLimits(idle=0.2)) as scene:
        assert scene.ask(get(origin)) == (504, f"{HOST} did not answer in time\n")


def assert_ended(connection: socket.socket) -> None:
    """Read until the other side ends."""
    while connection.recv(1 << 16):
        pass


def tls(client: Client, name: str | None) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(client.socket, server_hostname=name)


def greeter(certificate: Path, *, curve: str = "", newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Handler:
    """Return a TLS server that greets back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.maximum_version = newest
    if curve:
        context.set_ecdh_curve(curve)

    def handler(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            read_message(secure)
            secure.sendall(OK)

    return handler


def open_tunnel(scene: Scene, origin: Origin, client: Client, host: str = HOST) -> None:
    client.send(f"CONNECT {host}:{origin.port} HTTP/1.1\r\nHost: whatever\r\n\r\n".encode())
    assert client.socket.recv(1 << 16) == b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.mark.parametrize(("host", "name"), [(HOST, HOST), (HOST, "H.TEST"), ("127.0.0.1", None)])
def test_tls_that_names_the_host_goes_through(certificate: Path, host: str, name: str | None) -> None:
    with Origin(greeter(certificate)) as origin, proxied(allow(origin, host)) as scene, scene.client() as client:
        open_tunnel(scene, origin, client, host)
        with tls(client, name) as secure:
            secure.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert secure.recv(1 << 16) == OK
    assert scene.told == [(f"https://{host}:{origin.port}/", True)]


NAME = server_name(HOST.encode())
REFUSED_GREETINGS = {
    "another name": (hello(server_name(b"evil.test")), 'the TLS greeting names "evil.test", not h.test'),
    "a name below": (hello(server_name(b"x.h.test")), 'the TLS greeting names "x.h.test", not h.test'),
    "a name with NUL": (hello(server_name(b"h.test\0.x")), 'the TLS greeting names "h.test\\x00.x", not h.test'),
    "no name": (hello(), "the TLS greeting names no server (SNI)"),
    "ECH": (
        hello(NAME, extension(0xFE0D, b"\0")),
        "the TLS greeting has an encrypted part (ECH), which may name another server",
    ),
    "two names": (hello(server_name(b"h.test", b"evil.test")), "only TLS goes through a tunnel, and"),
    "plain http": (b"GET / HTTP/1.1\r\n\r\n", "only TLS goes through a tunnel, and what was sent is not TLS"),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", "only TLS goes through a tunnel, and what was sent is not TLS"),
    "a greeting that never ends": (
        hello(NAME)[:-1],
        "only TLS goes through a tunnel, and no TLS greeting came in time",
    ),
    "silence": (b"", "only TLS goes through a tunnel, and no TLS greeting came in time"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("greeting", "reason"), REFUSED_GREETINGS.values(), ids=REFUSED_GREETINGS.keys())
def test_a_tunnel_carries_nothing_but_tls_for_its_host(greeting: bytes, reason: str) -> None:
    heard: list[bytes] = []
    with (
        Origin(lambda connection: heard.append(connection.recv(1 << 16))) as origin,
        proxied(allow(origin), limits=ProxyLimits(head=0.2)) as scene,
        scene.client() as client,
    ):
        open_tunnel(scene, origin, client)
        client.send(greeting)
        assert client.rest() in (b"", b"\x15\x03\x03\x00\x02\x02\x31")
    url = f"https://{HOST}:{origin.port}/"
    assert (b"".join(heard), scene.told) == (b"", [(url, True), (url, False)])
    assert scene.reasons[-1].startswith(reason)


@pytest.mark.parametrize("name", [b"127.0.0.2", b"localhost"])
def test_a_tunnel_to_an_address_carries_no_other_name(name: bytes) -> None:
    with Origin(assert_ended) as origin, proxied(allow(origin, "127.0.0.1")) as scene, scene.client() as client:
        open_tunnel(scene, origin, client, "127.0.0.1")
        client.send(hello(server_name(name)))
        assert client.rest() == b"\x15\x03\x03\x00\x02\x02\x31"


def test_who_accepts_encrypted_greetings_still_sees_the_outer_name() -> None:
    heard: list[bytes] = []
    greeting = hello(NAME, extension(0xFE0D, b"\0"))
    with (
        Origin(lambda connection: heard.append(connection.recv(1 << 16))) as origin,
        proxied(allow(origin), ech=True) as scene,
    ):
        for sent in (greeting, hello(server_name(b"evil.test"), extension(0xFE0D, b"\0"))):
            with scene.client() as client:
                open_tunnel(scene, origin, client)
                client.send(sent)
                client.rest()
    assert b"".join(heard) == greeting


def test_a_tunnel_passes_on_each_end_by_itself() -> None:
    greeting = b"".join([record(piece) for piece in (hello(NAME)[5:20], hello(NAME)[20:])])
    greeting += record(b"early data", kind=23)
    heard: list[bytes] = []

    def handler(connection: socket.socket) -> None:
        received = b""
        while data := connection.recv(1 << 16):
            received += data
        heard.append(received)
        connection.sendall(b"bye")

    with Origin(handler) as origin, proxied(allow(origin)) as scene, scene.client() as client:
        client.send(f"CONNECT {HOST}:{origin.port} HTTP/1.0\r\n\r\n".encode() + greeting[:3])
        for at in range(3, len(greeting)):
            client.send(greeting[at : at + 1])
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest() == b"HTTP/1.1 200 Connection established\r\n\r\nbye"
    assert heard == [greeting]


def test_a_tunnel_in_which_nothing_moves_is_closed() -> None:
    limits = ProxyLimits(idle=0.2)
    with Origin(assert_ended) as origin, proxied(allow(origin), limits=limits) as scene, scene.client() as client:
        open_tunnel(scene, origin, client)
        client.send(hello(NAME))
        with contextlib.suppress(ConnectionResetError):
            assert client.rest() == b""


@pytest.mark.parametrize("curve", ["", "secp384r1"], ids=["asked once", "asked for a second greeting"])
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_every_kind_of_handshake_goes_through(certificate: Path, curve: str, newest: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = newest
    session: ssl.SSLSession | None = None
    with Origin(greeter(certificate, curve=curve, newest=newest)) as origin, proxied(allow(origin)) as scene:
        for _ in range(3):
            with scene.client() as client:
                open_tunnel(scene, origin, client)
                with context.wrap_socket(client.socket, server_hostname=HOST, session=session) as secure:
                    assert secure.session_reused is (session is not None)
                    secure.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    assert secure.recv(1 << 16) == OK
                    session = secure.session
    assert [allowed for _url, allowed in scene.told] == [True] * 3


@pytest.mark.parametrize("before", [b"", record(b"\1", kind=20), record(bytes(900), kind=23)])
def test_a_second_greeting_cannot_name_another_server(before: bytes) -> None:
    heard: list[bytes] = []

    def handler(connection: socket.socket) -> None:
        while data := connection.recv(1 << 16):
            heard.append(data)

    with Origin(handler) as origin, proxied(allow(origin)) as scene, scene.client() as client:
        open_tunnel(scene, origin, client)
        client.send(hello(NAME))
        client.send(before + hello(server_name(b"evil.test")))
        with contextlib.suppress(ConnectionResetError):
            assert client.rest() == b""
    assert b"evil" not in b"".join(heard)
    assert scene.reasons[-1] == 'the TLS greeting names "evil.test", not h.test'


def test_a_host_whose_rules_name_paths_has_no_tunnel() -> None:
    with Origin(Replies()) as origin, proxied(allow(origin, path_prefix="/a"), allow(origin)) as scene:
        status, text = scene.ask(f"CONNECT {HOST}:{origin.port} HTTP/1.1\r\n\r\n".encode())
        assert (status, text) == (
            403,
            f"rules for {HOST} name paths, and TLS hides the path: only rules without one can open https\n",
        )
        assert scene.ask(get(origin, "/a/b")) == (200, "ok")
    assert scene.told[0] == (f"https://{HOST}:{origin.port}/", False)


@pytest.mark.parametrize("field", ["Destination", "x-amz-copy-source", "X_Amz_Copy_Source", "X-Copy-From"])
def test_a_field_that_names_a_second_path_passes_no_rule_about_paths(field: str) -> None:
    with Origin(Replies()) as origin:
        with proxied(allow(origin, path_prefix="/a")) as scene:
            status, text = scene.ask(get(origin, "/a/b", f"{field}: /secret/c"))
            said = f"rules for {HOST} name paths, and the field {field} names a path beside that of the URL\n"
            assert (status, text) == (403, said)
            assert [allowed for _url, allowed in scene.told] == [False]
        assert origin.accepted == 0
        with proxied(allow(origin)) as scene:
            assert scene.ask(get(origin, "/a/b", f"{field}: /secret/c")) == (200, "ok")


def test_a_tunnel_that_is_denied_leaves_the_connection_usable() -> None:
    with answering() as (_replies, origin, scene), scene.client() as client:
        client.send(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
        assert client.answer() == (403, "decided by nobody\n")
        client.send(get(origin))
        assert client.answer() == (200, "ok")


def test_a_head_that_never_ends_is_not_waited_for() -> None:
    with proxied(limits=ProxyLimits(head=0.2)) as scene, scene.client() as slow, scene.client() as silent:
        slow.send(b"GET http://h.test/ HTTP/1.1\r\n")
        assert slow.rest().startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert silent.rest() == b""


@pytest.mark.parametrize(("length", "status"), [(65_000, 200), (65_536, 400), (120_000, 400)])
def test_a_head_has_a_longest_length(length: int, status: int) -> None:
    with answering() as (_replies, origin, scene):
        assert scene.ask(get(origin, "/", f"X: {'y' * length}"))[0] == status


def test_an_idle_connection_is_closed() -> None:
    with proxied(limits=ProxyLimits(keep_alive=0.2)) as scene, scene.client() as client:
        client.send(b"GET http://h.test/ HTTP/1.1\r\nHost: h.test\r\n\r\n")
        assert client.answer()[0] == 403
        assert client.rest() == b""


def test_three_hundred_clients_are_served_though_not_all_at_once() -> None:
    with Origin(Replies()) as origin, proxied(allow(origin), limits=ProxyLimits(connections=64)) as scene:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(scene.client()) for _ in range(300)]
            for client in clients:
                client.send(get(origin, "/", "Connection: close"))
            assert [client.answer() for client in clients] == [(200, "ok")] * 300
        assert origin.accepted == 300


def test_what_exceeds_the_limit_waits_for_its_turn() -> None:
    with proxied(limits=ProxyLimits(connections=1)) as scene, scene.client() as first:
        first.send(b"GET http://h.test/ HTTP/1.1\r\nHost: h.test\r\n\r\n")
        assert first.answer()[0] == 403
        with scene.client() as second:
            second.send(b"GET http://h.test/ HTTP/1.0\r\n\r\n")
            second.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                second.socket.recv(1)
            first.socket.close()
            second.socket.settimeout(PATIENCE)
            assert second.answer()[0] == 403


def test_a_client_that_does_not_read_stops_the_server() -> None:
    sent: list[int] = []

    def handler(connection: socket.socket) -> None:
        read_message(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.settimeout(0.5)
        count = 0
        with contextlib.suppress(TimeoutError):
            while count < 256 << 20:
                count += connection.send(bytes(1 << 16))
        sent.append(count)

    with Origin(handler) as origin, proxied(allow(origin)) as scene, scene.client() as client:
        client.send(get(origin))
        with client.response() as response:
            while not sent:
                threading.Event().wait(0.05)
            assert sent[0] < 64 << 20  # what the kernel holds for three sockets
            response.close()


def test_a_client_that_leaves_takes_its_request_along() -> None:
    ended = threading.Event()

    def handler(connection: socket.socket) -> None:
        read_message(connection)
        assert_ended(connection)
        ended.set()

    with Origin(handler) as origin, proxied(allow(origin)) as scene:
        with scene.client() as client:
            client.send(get(origin))
            while not origin.accepted:
                threading.Event().wait(0.01)
        assert ended.wait(PATIENCE)


@pytest.mark.parametrize("data", [b"", b"GET", b"GET http://PLACE/ HTTP/1.1\r\nHost: PLACE\r\n\r\n", b"\xff" * 70_000])
def test_a_client_that_breaks_off_does_not_disturb_the_others(data: bytes) -> None:
    with answering() as (_replies, origin, scene):
        for _ in range(5):
            with scene.client() as client:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                with contextlib.suppress(OSError):
                    client.send(data.replace(b"PLACE", f"{HOST}:{origin.port}".encode()))
        assert scene.ask(get(origin)) == (200, "ok")


def test_closing_ends_every_kind_of_connection_at_once() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return await (never if host == "never.test" else loopback)(host, port)

    with contextlib.ExitStack() as stack:
        origin = stack.enter_context(Origin(assert_ended))
        with proxied(allow(origin), NetRule("never.test", allow=True), resolve=resolve) as scene:
            silent, half, tunnel, greeting, waiting, uploading, looking = [
                stack.enter_context(scene.client()) for _ in range(7)
            ]
            half.send(b"GET http://")
            for client in (tunnel, greeting):
                open_tunnel(scene, origin, client)
            tunnel.send(hello(NAME))
            waiting.send(get(origin))
            uploading.send(get(origin, "/", "Content-Length: 100", method="POST"))
            looking.send(b"CONNECT never.test:443 HTTP/1.1\r\n\r\n")
            while origin.accepted < 4:
                threading.Event().wait(0.01)
            started = monotonic()
        assert monotonic() - started < PATIENCE / 5
        for client in (silent, half, tunnel, greeting, waiting, uploading, looking):
            with contextlib.suppress(ConnectionResetError):
                assert client.rest() == b""


def test_a_proxy_is_closed_as_often_as_one_likes_and_started_once() -> None:
    proxy = HttpProxy(lambda _url: UrlVerdict(False, "no", None), lambda _host: False)
    proxy.close()
    listener = socket.create_server(("127.0.0.1", 0))
    proxy.start(listener)
    with pytest.raises(RuntimeError):
        proxy.start(listener)
    proxy.close()
    proxy.close()
    assert listener.fileno() == -1


def test_closing_while_clients_arrive_leaves_no_socket_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with contextlib.ExitStack() as clients, proxied() as scene:
            for _ in range(8):
                clients.enter_context(scene.client())
    assert len(os.listdir("/proc/self/fd")) == before


def curl(scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["curl", "--silent", "--show-error", "--max-time", "10", "--proxy", f"http://127.0.0.1:{scene.port}"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=30)


def test_curl_gets_http() -> None:
    with answering() as (replies, origin, scene):
        done = curl(scene, f"http://{HOST}:{origin.port}/a", "--data", "x" * 5000, "--header", "Expect: 100-continue")
    assert (done.returncode, done.stdout) == (0, "ok")
    assert replies.heard[0].endswith(b"x" * 5000)


def test_curl_uses_one_connection_for_requests_that_are_judged_apart() -> None:
    with answering() as (_replies, origin, scene):
        urls = [f"http://{HOST}:{origin.port}/", "http://evil.test/", f"http://{HOST}:{origin.port}/2"]
        written = ["--write-out", " %{http_code} %{num_connects}\n"]
        done = curl(scene, *urls, *written)
    assert done.stdout.splitlines() == ["ok 200 1", "decided by nobody", " 403 0", "ok 200 0"]


def test_curl_gets_https(certificate: Path) -> None:
    with Origin(greeter(certificate)) as origin, proxied(allow(origin)) as scene:
        done = curl(scene, "--insecure", f"https://{HOST}:{origin.port}/")
        assert (done.returncode, done.stdout) == (0, "ok")
        done = curl(scene, "--insecure", f"https://evil.test:{origin.port}/")
        assert (done.returncode, "403" in done.stderr) == (56, True)


def test_curl_cannot_tunnel_anything_but_tls(certificate: Path) -> None:
    with Origin(greeter(certificate)) as origin, proxied(allow(origin)) as scene:
        place = f"{HOST}:{origin.port}"
        assert curl(scene, "--proxytunnel", f"http://{place}/").returncode == 52  # an empty answer
        connect_to = ["--connect-to", f"evil.test:{origin.port}:{place}"]
        done = curl(scene, "--insecure", *connect_to, f"https://evil.test:{origin.port}/")
        assert (done.returncode, "access denied" in done.stderr) == (35, True)


def test_a_redirect_to_a_private_place_is_judged_when_it_is_followed() -> None:
    secret = Replies()
    with Origin(secret) as private:
        location = f"http://127.0.0.1:{private.port}/"
        reply = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
        with answering(reply) as (_replies, origin, scene):
            done = curl(scene, "--location", "--write-out", "%{http_code}", f"http://{HOST}:{origin.port}/")
            assert done.stdout == "decided by nobody\n403"
            assert scene.told[-1] == (location, False)
    assert secret.heard == []
