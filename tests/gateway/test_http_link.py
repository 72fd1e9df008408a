"""Servers over streamable HTTP, and everything that they do wrong."""

import asyncio
import ssl
import subprocess
from asyncio import StreamWriter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.gateway import http_link
from byleave.gateway.http_link import HttpLink
from byleave.gateway.http_response import read_server_url
from byleave.gateway.interfaces import DownError
from byleave.net import http_async_client
from byleave.net.http_async_client import AsyncHttpClient, ClientConnection
from fakes.mcp_servers import (
    PATIENCE,
    STREAM,
    Asked,
    Ear,
    Handle,
    Web,
    chunk,
    far,
    linked,
    notification,
    over_http,
    plain,
    reached,
    request,
    result,
    run,
    settled,
    web,
)


def always(*pieces: bytes) -> Handle:
    """Return a server that answers everything like this; `ID` in it becomes the id that was asked with."""

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece.replace(b"ID", asked.id.encode()))
            await writer.drain()

    return handle


def good(asked: Asked) -> bytes:
    return plain("200 OK", result(asked.id)) if asked.id else plain("202 Accepted")


async def handle_well(asked: Asked, writer: StreamWriter) -> None:
    writer.write(good(asked))


def test_a_request_gets_its_answer_as_it_was_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with web(handle_well) as far_away:
            how = over_http(far_away.url, headers={"Authorization": "Bearer ü"})
            async with linked(tmp_path, *how) as (link, ear):
                link.revision = "2025-06-18"
                await link.send(notification())
                await link.send(request("1", headers=(("Mcp-Name", "echo"),)))
                await ear.answer()
                assert (ear.told, ear.losses) == ([(result("1"), "1")], [])
            asked = far_away.asked[-1]
            assert (asked.method, asked.path, asked.body) == ("POST", "/mcp", request("1").message)
            expected = {
                "host": f"127.0.0.1:{far_away.port}",
                "accept": "application/json, text/event-stream",
                "content-type": "application/json",
                "authorization": "Bearer \xc3\xbc",
                "mcp-protocol-version": "2025-06-18",
                "mcp-name": "echo",
            }
            assert expected.items() <= dict(asked.headers).items()
            assert "mcp-session-id" not in asked.headers

    run(scenario())


def test_connections_are_used_again_and_many_requests_run_at_once(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        if asked.id.startswith("slow"):
            await gate.wait()
        writer.write(good(asked))

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            for number in range(20):
                await link.send(request(str(number)))
                await ear.answer(number + 1)
            assert far_away.connections == 1
            for number in range(5):
                await link.send(request(f"slow{number}"))
            gate.set()
            await ear.answer(25)
            assert (far_away.connections, ear.losses) == (5, [])

    run(scenario())


def test_a_session_is_carried_from_the_first_answer_to_the_goodbye(tmp_path: Path) -> None:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        if asked.method == "DELETE":
            writer.write(plain("200 OK"))
        else:
            writer.write(plain("200 OK", result(asked.id), "application/json", "MCP-Session-Id: s-1"))

    async def scenario() -> None:
        async with web(handle) as far_away:
            async with linked(tmp_path, *over_http(far_away.url)) as (link, ear):
                await link.send(request("1", "initialize"))
                await ear.answer()
                await link.send(request("2"))
                await ear.answer(2)
            methods = [(asked.method, asked.headers.get("mcp-session-id")) for asked in far_away.asked]
            assert methods == [("POST", None), ("POST", "s-1"), ("DELETE", "s-1")]

    run(scenario())


@pytest.mark.parametrize("session", ["a b", "x" * 2000, "caf\xe9"])
def test_a_session_id_that_cannot_be_sent_back_is_refused(tmp_path: Path, session: str) -> None:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: {session}\r\n"
        body = result(asked.id)
        writer.write(head.encode("latin-1") + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1", "initialize"))
            id_, why = await ear.loss()
            assert (id_, ear.told, link.session) == ("1", [], "")
            assert "session id" in why

    run(scenario())


def test_the_end_of_a_session_loses_the_link_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with web(always(plain("404 Not Found"))) as far_away:
            async with linked(tmp_path, *over_http(far_away.url)) as (link, ear):
                await link.send(request("0"))
                assert await ear.loss() == ("0", "the server far answered 404 Not Found")
                link.session = "s"
                await link.send(request("1"))
                await link.send(request("2"))
                assert await ear.loss(2) == (None, "the server far has ended the session")
                await settled(lambda: not link._open)  # noqa: SLF001 -- the second refusal has come as well
            assert len(ear.losses) == 2

    run(scenario())


def test_a_stream_of_events_is_told_as_it_comes(tmp_path: Path) -> None:
    progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
    going_on = asyncio.Event()

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        writer.write(STREAM + chunk(b": hi\n\ndata: " + progress + b"\n\n"))
        await going_on.wait()
        data = result(asked.id).replace(b',"result"', b',\ndata: "result"')
        writer.write(chunk(b"data: " + data + b"\n\n") + b"0\r\n\r\n")

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            assert await ear.answer() == progress
            going_on.set()
            await ear.answer(2)
            await link.send(request("2"))
            await ear.answer(4)
            assert ear.told == [(progress, "1"), (result("1"), "1"), (progress, "2"), (result("2"), "2")]
            assert (far_away.connections, ear.losses) == (1, [])

    run(scenario())


def test_a_stream_that_goes_on_after_the_answer_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_link, "LINGERING", 0.02)
    gone = asyncio.Event()

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        writer.write(STREAM + chunk(b"data: " + result(asked.id) + b"\n\n"))
        try:
            while True:
                writer.write(chunk(b": still here\n\n"))
                await writer.drain()
                await asyncio.sleep(0.005)
        finally:
            gone.set()

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await ear.answer()
            await gone.wait()
            assert ear.losses == []

    run(scenario())


def test_a_stream_with_ids_is_gone_on_with(tmp_path: Path) -> None:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        known = asked.headers.get("last-event-id")
        if asked.method == "POST":
            writer.write(STREAM + chunk(b"id: e1\nretry: 1\ndata:\n\n") + b"0\r\n\r\n")
        elif known == "e1":
            writer.write(STREAM + chunk(b'id: e2\ndata: {"method":"x"}\n\n'))
            writer.close()
        else:
            writer.write(STREAM + chunk(b"data: " + result("1") + b"\n\n") + b"0\r\n\r\n")

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await ear.answer(2)
            assert (ear.told, ear.losses) == ([(b'{"method":"x"}', "1"), (result("1"), "1")], [])
            assert [asked.headers.get("last-event-id") for asked in far_away.asked] == [None, "e1", "e2"]

    run(scenario())


def test_a_stream_that_never_goes_on_is_given_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        stream = STREAM + chunk(b"id: e1\nretry: 1\ndata:\n\n") + b"0\r\n\r\n"
        async with web(always(stream)) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            assert await ear.loss() == ("1", "the server far ended the stream before it had answered")
            assert len(far_away.asked) == 1 + http_link.MOST_RESUMED

    run(scenario())


def test_an_abandoned_request_is_not_gone_on_with(tmp_path: Path) -> None:
    waiting = asyncio.Event()

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        if asked.method == "POST":
            writer.write(STREAM + chunk(b"id: e1\nretry: 1\ndata:\n\n") + b"0\r\n\r\n")
            return
        writer.write(STREAM)
        await writer.drain()
        waiting.set()
        await asyncio.sleep(60)

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await waiting.wait()
            await link.abandon("1")
            await asyncio.gather(*link._tasks)  # noqa: SLF001 -- nothing goes on
            assert (ear.told, ear.losses) == ([], [])

    run(scenario())


def test_an_abandoned_request_has_its_stream_closed(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        writer.write(STREAM)
        try:
            while True:
                writer.write(chunk(b": waiting\n\n"))
                await writer.drain()
                await asyncio.sleep(0.005)
        finally:
            gone.set()

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await asyncio.sleep(0.01)
            await link.abandon("1")
            await link.abandon("1")
            await gone.wait()
            assert (ear.told, ear.losses) == ([], [])

    run(scenario())


REFUSALS = {
    "401": (plain("401 Unauthorized", b"who are\nyou? s3cret \x1b[2J", "text/plain"), "answered 401 Unauthorized"),
    "500": (plain("500 Oops", b"x" * 100_000, "text/html"), "answered 500 Oops: xxx"),
    "redirect": (
        plain("307 Moved", b"", "text/plain", "Location: https://evil.example/mcp"),
        'wants to be asked at "https://evil.example/mcp" instead, and redirects are not followed',
    ),
    "a redirect that says our token": (
        plain("302 s3cret", b"", "text/plain", "Location: https://evil.example/?s3cret"),
        'wants to be asked at "https://evil.example/?[REDACTED]" instead',
    ),
    "a status that says our token": (plain("400 s3cret"), "answered 400 [REDACTED]"),
    "html": (plain("200 OK", b"<p>hello", "text/html"), 'something else than JSON or events: "text/html"'),
    "accepted": (plain("202 Accepted"), "ended its answer without having answered"),
    "empty": (plain("200 OK"), "ended its answer without having answered"),
    "not json": (plain("200 OK", b'{"a":\n]'), "said something that is not JSON"),
    "compressed": (plain("200 OK", b"xx", "application/json", "Content-Encoding: gzip"), "a compressed body"),
    "no http": (b"SSH-2.0-OpenSSH\r\n\r\n", "gave no response that can be used"),
    "two lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "Content-Length is not one number",
    ),
    "chunked garbage": (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        "a chunk does not start with its size",
    ),
    "switching": (
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "it changes the protocol, which the request did not ask for",
    ),
    "endless interim": (b"HTTP/1.1 100 Continue\r\n\r\n" * 30, "it has too many interim responses"),
    "never-ending head": (b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 20_000, "its head is too long"),
    "a stream without the answer": (
        STREAM + chunk(b'data: {"id":"other","result":1}\n\n') + b"0\r\n\r\n",
        "ended its answer without having answered",
    ),
}


@pytest.mark.parametrize(("answer", "why"), REFUSALS.values(), ids=REFUSALS)
def test_an_answer_that_is_none_loses_that_request_only(tmp_path: Path, answer: bytes, why: str) -> None:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        writer.write(answer if asked.id == "1" else good(asked))

    async def scenario() -> None:
        async with web(handle) as far_away:
            how = over_http(far_away.url, secrets=("s3cret",), headers={"Authorization": "Bearer s3cret"})
            async with linked(tmp_path, *how) as (link, ear):
                await link.send(request("1", "tools/call"))
                id_, said = await ear.loss()
                assert id_ == "1"
                assert why in said
                assert "s3cret" not in said
                assert said.isprintable()
                assert len(said) < 500
                await link.send(request("2"))
                await ear.until(lambda: (result("2"), "2") in ear.told)
                assert len(ear.losses) == 1

    run(scenario())


def test_an_error_of_the_protocol_is_an_answer_whatever_its_status(tmp_path: Path) -> None:
    error = b'{"jsonrpc":"2.0","id":"1","error":{"code":-32022,"message":"old"}}'

    async def scenario() -> None:
        handle = always(plain("400 Bad Request", error))
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await ear.answer()
            assert (ear.told, ear.losses) == ([(error, "1")], [])

    run(scenario())


def test_a_refused_notification_is_noted_and_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        handle = always(plain("400 Bad Request", b"no", "text/plain"))
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(notification())
            await settled(lambda: bool(link.warnings))
            assert link.warnings == ["the server far answered 400 Bad Request: no (to notifications/initialized)"]
            assert ear.losses == []

    run(scenario())


@pytest.mark.parametrize(
    "beginning",
    [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", STREAM + b"9\r\nda"],
    ids=["json", "events"],
)
def test_a_connection_reset_in_mid_answer_loses_that_request(tmp_path: Path, beginning: bytes) -> None:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        writer.write(beginning)
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER: close with a reset
        writer.transport.abort()

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1", "tools/call"))
            id_, why = await ear.loss()
            assert (id_, ear.told) == ("1", [])
            assert "the connection" in why

    run(scenario())


def closing_second(counts: list[str]) -> Handle:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        counts.append(asked.id)
        if len(counts) == 2:
            writer.transport.abort()
        else:
            writer.write(good(asked))

    return handle


@pytest.mark.parametrize(("method", "times"), [("tools/list", ["1", "2", "2"]), ("tools/call", ["1", "2"])])
def test_only_what_changes_nothing_is_sent_again_when_a_kept_connection_was_closed(
    tmp_path: Path, method: str, times: list[str]
) -> None:
    counts: list[str] = []

    async def scenario() -> None:
        async with web(closing_second(counts)) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await ear.answer()
            await link.send(request("2", method))
            await ear.until(lambda: len(ear.told) + len(ear.losses) == 2)
            assert (counts, [id_ for id_, _why in ear.losses]) == (times, ["2"] if len(times) == 2 else [])

    run(scenario())


def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next_one(tmp_path: Path) -> None:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        writer.write(good(asked) + (plain("200 OK", result("2", '"planted"')) if asked.id == "1" else b""))

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await ear.answer()
            await link.send(request("2"))
            assert await ear.answer(2) == result("2")
            assert (far_away.connections, len(ear.told)) == (2, 2)

    run(scenario())


class Wire:
    """Stands where a transport would."""

    def __init__(self) -> None:
        self.is_open = True

    def write(self, data: bytes) -> None:
        """Send nothing."""

    def abort(self) -> None:
        self.is_open = False

    def is_closing(self) -> bool:
        return not self.is_open

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> None:
        """Know nothing."""


ANSWERS = {
    "json": plain("200 OK", result("1")),
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + plain("200 OK", result("1")),
    "chunks": STREAM.replace(b"text/event-stream", b"application/json")
    + b"".join(chunk(bytes([byte])) for byte in result("1"))
    + b"0\r\nTrailer: x\r\n\r\n",
    "events": STREAM + chunk(b"data: {}\r\n\r\nda") + chunk(b"ta: " + result("1") + b"\r\n\r\n") + b"0\r\n\r\n",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@given(cuts=st.lists(st.integers(0, 400), max_size=20))
def test_an_answer_is_the_same_however_it_is_cut(answer: bytes, cuts: list[int]) -> None:
    async def scenario() -> None:
        client, ear, wire = AsyncHttpClient(), Ear(), Wire()
        link = HttpLink(far("http"), reached(url="http://h.test/"), ear, client)
        link._target = read_server_url("http://h.test/")  # noqa: SLF001 -- nothing is dialled
        connection = ClientConnection(client, link._target.endpoint, "192.0.2.1")  # noqa: SLF001
        connection.connection_made(wire)  # type: ignore[arg-type] # as much of one as is needed
        client.keep(connection)
        await link.send(request("1"))
        start = 0
        for cut in (*sorted(cuts), len(answer)):
            if answer[start:cut]:
                connection.data_received(answer[start:cut])
            start = max(start, cut)
        assert (ear.told[-1], ear.losses, wire.is_open) == ((result("1"), "1"), [], True)
        wire.abort()
        connection.connection_lost(None)
        await link.close()
        await client.close()

    run(scenario())


def test_a_body_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    sized = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n"
    endless = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * 5000
    events = STREAM + chunk(b"data: " + b"x" * 5000)

    async def scenario() -> None:
        for answer in (sized, endless, events):
            async with web(always(answer)) as far_away:
                client, ear = AsyncHttpClient(), Ear()
                link = HttpLink(far("http"), reached(url=far_away.url), ear, client, limit=4096)
                await link.open()
                await link.send(request("1"))
                id_, why = await ear.loss()
                assert (id_, "sent a message that is larger than" in why) == ("1", True)
                await link.close()
                await client.close()

    run(scenario())


def test_a_body_of_five_megabytes_comes_whole(tmp_path: Path) -> None:
    large = result("1", '"' + "x" * (5 << 20) + '"')

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        if asked.id == "1":
            writer.write(plain("200 OK", large))
        else:
            data = b"data: " + large + b"\n\n"
            writer.write(STREAM + b"".join(chunk(data[at : at + 65536]) for at in range(0, len(data), 65536)))
            writer.write(b"0\r\n\r\n")

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            assert await ear.answer() == large
            await link.send(request("2"))
            assert await ear.answer(2) == large

    run(scenario())


BAD_HEADERS = {
    "a second header": {"Authorization": "Bearer x\r\nX-Admin: 1"},
    "a second header by LF": {"Authorization": "Bearer x\nX-Admin: 1"},
    "a NUL": {"Authorization": "x\0"},
    "no name": {"": "x"},
    "a name with a colon": {"A: b\r\nC": "x"},
    "a name with a blank": {"Transfer-Encoding ": "chunked"},
    "another host": {"host": "internal"},
    "another length": {"Content-Length": "0"},
    "another session": {"mcp-session-id": "stolen"},
}


@pytest.mark.parametrize("headers", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_a_header_that_would_become_something_else_keeps_the_server_down(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with web(handle_well) as far_away:
            with pytest.raises(DownError, match="header"):
                async with linked(tmp_path, *over_http(far_away.url, headers=headers)):
                    pass
            assert far_away.asked == []

    run(scenario())


def test_a_header_of_a_message_cannot_become_two(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with web(handle_well) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, _ear):
            with pytest.raises(DownError, match="header"):
                await link.send(request("1", headers=(("Mcp-Name", "x\r\nMcp-Session-Id: stolen"),)))
            assert far_away.asked == []

    run(scenario())


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://x/", "https://user:pw@x/", "gopher://x/", "http://", "nonsense", "http://x\r\ny/"],
)
def test_a_url_that_is_no_place_on_the_web_keeps_the_server_down(tmp_path: Path, url: str) -> None:
    async def scenario() -> None:
        with pytest.raises(DownError, match="url") as raised:
            async with linked(tmp_path, *over_http(url)):
                pass
        assert "pw" not in str(raised.value)

    run(scenario())


def test_a_path_keeps_its_query_and_loses_its_fragment() -> None:
    assert read_server_url("http://h:81/a/b?key=1 2#x".replace(" ", "%20")).path == "/a/b?key=1%202"
    assert read_server_url("https://h").request_line("POST").startswith(b"POST / HTTP/1.1\r\nHost: h\r\n")


def test_a_server_that_is_not_there_is_down(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(DownError, match=r"http://127.0.0.1:1 cannot be reached: Connection refused"):
            async with linked(tmp_path, *over_http("http://127.0.0.1:1/")):
                pass

    run(scenario())


def test_a_server_that_goes_away_is_down_for_the_next_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with web(handle_well) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await ear.answer()
            await far_away.stop()
            await settled(lambda: not link.client._all)  # noqa: SLF001 -- the end has come through
            with pytest.raises(DownError, match="cannot be reached"):
                await link.send(request("2"))

    run(scenario())


def test_a_name_that_was_public_is_not_dialled_at_a_private_address_later() -> None:
    led_to: list[str] = []

    async def scenario() -> None:
        client = AsyncHttpClient(resolve=lambda _host, _port: list(led_to))
        origin = read_server_url("http://rebound.example/").endpoint
        led_to[:] = ["127.0.0.1"]
        assert await client._addresses(origin) == ("127.0.0.1",)  # noqa: SLF001 -- nobody dials in a test
        led_to[:] = ["93.184.215.14", "127.0.0.1"]
        assert await client._addresses(origin) == ("93.184.215.14",)  # noqa: SLF001
        led_to[:] = ["127.0.0.1", "169.254.169.254"]
        assert await client._addresses(origin) == ()  # noqa: SLF001
        other = read_server_url("http://metadata.example/").endpoint
        led_to[:] = ["169.254.169.254"]
        with pytest.raises(ConnectionError, match="no address that may be dialled"):
            await client.connection(other)

    run(scenario())


def test_what_a_server_says_unasked_is_heard_again_after_its_stream_ended(tmp_path: Path) -> None:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        known = asked.headers.get("last-event-id")
        if known == "2":
            writer.write(plain("405 Method Not Allowed"))
        else:
            number = b"2" if known else b"1"
            event = b'retry: 1\nid: %b\ndata: {"method":"%b"}\n\n' % (number, number)
            writer.write(STREAM + chunk(event) + b"0\r\n\r\n")

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            link.session = "s"
            link.listen()
            link.listen()
            await ear.answer(2)
            await asyncio.gather(*link._tasks)  # noqa: SLF001 -- 405: there is no such stream any more
            assert ear.told == [(b'{"method":"1"}', None), (b'{"method":"2"}', None)]
            assert (len(far_away.asked), ear.losses, link.warnings) == (3, [], [])

    run(scenario())


def test_closing_ends_everything_that_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_link, "LONGEST_GOODBYE", PATIENCE)  # how long it takes on a busy machine decides nothing

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        if asked.method == "DELETE":
            writer.write(plain("200 OK"))
            return
        writer.write(STREAM)
        await writer.drain()
        await asyncio.sleep(60)

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            link.session = "s"
            link.listen()
            await link.send(request("1"))
            await link.send(request("2"))
            await settled(lambda: len(far_away.asked) == 3)
            await link.close()
            await link.close()
            assert (ear.told, ear.losses, link._tasks, link._open) == ([], [], set(), {})  # noqa: SLF001
            methods = [asked.method for asked in far_away.asked]
            assert (sorted(methods[:3]), methods[3:]) == (["GET", "POST", "POST"], ["DELETE"])
            with pytest.raises(DownError):
                await link.send(request("3"))

    run(scenario())


def test_closing_does_not_wait_for_a_server_that_never_answers_the_goodbye(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_link, "LONGEST_GOODBYE", 0.05)

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        await asyncio.sleep(60)

    async def scenario() -> None:
        async with web(handle) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, _ear):
            link.session = "s"
            async with asyncio.timeout(PATIENCE):
                await link.close()
            assert link.closed

    run(scenario())


def test_a_connection_that_waits_is_closed_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_async_client, "LONGEST_KEPT", 0.02)

    async def scenario() -> None:
        async with web(handle_well) as far_away, linked(tmp_path, *over_http(far_away.url)) as (link, ear):
            await link.send(request("1"))
            await ear.answer()
            await settled(lambda: not link.client._all)  # noqa: SLF001 -- it is gone by itself
            assert not link.client._pool.sweep()  # noqa: SLF001

    run(scenario())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and a certificate for h.test."""
    place = tmp_path_factory.mktemp("certificate") / "h.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-subj", "/CN=h.test", "-addext", "subjectAltName=DNS:h.test", "-days", "3"]
    made = [*command, *names, "-keyout", str(place), "-out", f"{place}.crt"]
    subprocess.run(made, check=True, capture_output=True)
    place.write_bytes(place.read_bytes() + Path(f"{place}.crt").read_bytes())
    return place


def over_tls(certificate: Path) -> dict[str, ssl.SSLContext]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return {"ssl": context}


async def asked_over_tls(far_away: Web, host: str) -> list[tuple[bytes, str | None]]:
    """Ask one thing of a host, whose name leads here."""
    client, ear = AsyncHttpClient(resolve=lambda _host, _port: ["127.0.0.1"]), Ear()
    link = HttpLink(far("http"), reached(url=f"https://{host}:{far_away.port}/"), ear, client)
    try:
        await link.open()
        await link.send(request("1"))
        await ear.answer()
    finally:
        await link.close()
        await client.close()
    return ear.told


def test_https_is_spoken_with_a_host_that_proves_itself_by_the_users_certificates(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.crt")

    async def scenario() -> None:
        async with web(handle_well, **over_tls(certificate)) as far_away:
            assert await asked_over_tls(far_away, "h.test") == [(result("1"), "1")]
            with pytest.raises(DownError, match="its certificate does not prove that it is this host"):
                await asked_over_tls(far_away, "other.test")

    run(scenario())


def test_a_certificate_that_nobody_vouches_for_keeps_the_server_down(certificate: Path) -> None:
    async def scenario() -> None:
        async with web(handle_well, **over_tls(certificate)) as far_away:
            with pytest.raises(DownError, match="its certificate does not prove that it is this host"):
                await asked_over_tls(far_away, "h.test")

    run(scenario())


def test_a_server_that_does_not_speak_tls_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_async_client, "LONGEST_CONNECT", 0.1)

    async def scenario() -> None:
        async with web(handle_well) as far_away:
            with pytest.raises(DownError, match="cannot be reached: it did not answer in time"):
                async with linked(tmp_path, *over_http(far_away.url.replace("http:", "https:"))):
                    pass

    run(scenario())
