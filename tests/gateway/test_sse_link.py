"""Servers of the first revision over HTTP: a stream of events, and a place to post to."""

import asyncio
from asyncio import StreamWriter
from pathlib import Path

import pytest

from byleave.gateway import sse_link
from byleave.gateway.interfaces import DownError
from fakes.mcp_servers import (
    STREAM,
    Asked,
    Handle,
    chunk,
    linked,
    notification,
    over_http,
    plain,
    request,
    result,
    run,
    settled,
    web,
)


class Old:
    """A server of that time: answers go to the stream that was opened last."""

    def __init__(self, place: str = "/messages?session=1", posted: bytes = plain("202 Accepted")) -> None:
        self.place = place
        self.posted = posted
        self.stream: StreamWriter | None = None
        self.gone = asyncio.Event()

    async def __call__(self, asked: Asked, writer: StreamWriter) -> None:
        if asked.method == "POST":
            writer.write(self.posted)
            if asked.id and self.stream is not None and self.posted.startswith(b"HTTP/1.1 2"):
                self.stream.write(chunk(b"event: message\r\ndata: " + result(asked.id) + b"\r\n\r\n"))
            return
        self.stream = writer
        writer.write(STREAM + chunk(f"event: endpoint\r\ndata: {self.place}\r\n\r\n".encode()))
        await writer.drain()
        await self.gone.wait()
        writer.transport.abort()


def test_messages_are_posted_where_the_server_says_and_answered_over_the_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with web(Old()) as far_away:
            how = over_http(far_away.url, "sse", headers={"Authorization": "Bearer x"})
            async with linked(tmp_path, *how) as (link, ear):
                link.listen()
                await link.send(notification())
                await link.send(request("1"))
                await link.abandon("1")
                await ear.answer()
                assert (ear.told, ear.losses) == ([(result("1"), None)], [])
            assert [(asked.method, asked.path) for asked in far_away.asked] == [
                ("GET", "/mcp"),
                ("POST", "/messages?session=1"),
                ("POST", "/messages?session=1"),
            ]
            assert {asked.headers["authorization"] for asked in far_away.asked} == {"Bearer x"}

    run(scenario())


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.example/messages",
        "//evil.example/messages",
        "http://127.0.0.1:1/messages",
        "http://127.0.0.1@evil.example/",
        "file:///etc/passwd",
        "http://[",
        "/\t//evil.example/ messages",
    ],
)
def test_a_place_of_another_origin_keeps_the_server_down(tmp_path: Path, place: str) -> None:
    async def scenario() -> None:
        async with web(Old(place)) as far_away:
            with pytest.raises(DownError, match="says that messages go to"):
                async with linked(tmp_path, *over_http(far_away.url, "sse", headers={"Authorization": "x"})):
                    pass
            assert len(far_away.asked) == 1

    run(scenario())


def test_a_second_place_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        old = Old()
        async with web(old) as far_away, linked(tmp_path, *over_http(far_away.url, "sse")) as (link, ear):
            assert old.stream is not None
            old.stream.write(chunk(b"event: endpoint\ndata: https://evil.example/\n\n"))
            await link.send(request("1"))
            await ear.answer()
            assert far_away.asked[-1].path == "/messages?session=1"

    run(scenario())


def test_the_end_of_the_stream_loses_the_link(tmp_path: Path) -> None:
    async def scenario() -> None:
        old = Old()
        async with web(old) as far_away, linked(tmp_path, *over_http(far_away.url, "sse")) as (link, ear):
            old.gone.set()
            id_, why = await ear.loss()
            assert (id_, "connection" in why) == (None, True)
            with pytest.raises(DownError):
                await link.send(request("1"))

    run(scenario())


def test_a_message_that_is_not_taken_loses_its_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        old = Old(posted=plain("400 Bad Request", b"which\x1b session?", "text/plain"))
        async with web(old) as far_away, linked(tmp_path, *over_http(far_away.url, "sse")) as (link, ear):
            await link.send(request("1"))
            why = "the server far answered 400 Bad Request: which\\x1b session?"
            assert await ear.loss() == ("1", why)
            await link.send(notification())
            await settled(lambda: bool(link.warnings))
            assert link.warnings == [f"{why} (to notifications/initialized)"]

    run(scenario())


def always(answer: bytes) -> Handle:
    async def handle(asked: Asked, writer: StreamWriter) -> None:
        writer.write(answer)

    return handle


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (plain("401 Unauthorized", b"who?", "text/plain"), "answered 401 Unauthorized: who?"),
        (plain("500 Oops", b"x" * 100_000, "text/plain"), "answered 500 Oops"),
        (plain("302 Found", b"", "text/plain", "Location: http://evil.example/"), "redirects are not followed"),
        (plain("200 OK", b"{}"), "something else than a stream"),
        (STREAM + b"0\r\n\r\n", "ended the stream"),
        (STREAM + b"garbage\r\n", "a chunk does not start with its size"),
    ],
)
def test_a_stream_that_is_none_keeps_the_server_down(tmp_path: Path, answer: bytes, why: str) -> None:
    async def scenario() -> None:
        async with web(always(answer)) as far_away:
            with pytest.raises(DownError, match=why):
                async with linked(tmp_path, *over_http(far_away.url, "sse")):
                    pass

    run(scenario())


def test_a_server_that_names_no_place_in_time_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_link, "LONGEST_OPENING", 0.05)

    async def scenario() -> None:
        async with web(always(STREAM + chunk(b": patience\n\n"))) as far_away:
            with pytest.raises(DownError, match="did not say in time where messages go"):
                async with linked(tmp_path, *over_http(far_away.url, "sse")):
                    pass

    run(scenario())
