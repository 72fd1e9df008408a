"""The HTTP server by itself: however a client cuts, pipelines or breaks off its bytes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from byleave.net.http_admission import ServerLimits
from fakes.http_application import Echo, serving

PATIENCE = 10.0
Scenario = Callable[[Echo, int], Awaitable[None]]


def served(scenario: Scenario, limits: ServerLimits | None = None) -> Echo:
    """Run a scenario against a server; return the application. No connection is left in the end."""
    echo = Echo()

    async def run() -> None:
        server = serving(echo, limits or ServerLimits(tick=0.02))
        await server.listen("127.0.0.1", 0)
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(echo, server.addresses[0].port)
        finally:
            await server.close(grace=1)
            assert not server.connections

    asyncio.run(run())
    return echo


async def sent(port: int, *pieces: bytes, end: bool = True) -> bytes:
    """Send the pieces, each in a packet of its own, and return everything until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    try:
        return await reader.read() if end else await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


HALF = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf"
LAST = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
REQUESTS = (
    b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\none"
    b"POST /late HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ntw\r\n1\r\no\r\n0\r\n\r\n"
    b"HEAD /b HTTP/1.1\r\nHost: h\r\n\r\n" + LAST
)
HANDLED = [("POST", "/a", b"one"), ("POST", "/late", b"two"), ("HEAD", "/b", b""), ("GET", "/last", b"")]


def test_pipelined_requests_are_the_same_however_their_bytes_are_cut() -> None:
    async def scenario(echo: Echo, port: int) -> None:
        whole = await sent(port, REQUESTS)
        assert (whole.count(b"HTTP/1.1 200 "), whole.count(b"HTTP/1.1 ")) == (4, 4)
        assert echo.handled == HANDLED
        for place in range(1, len(REQUESTS)):
            echo.handled.clear()
            assert await sent(port, REQUESTS[:place], REQUESTS[place:]) == whole, place
            assert echo.handled == HANDLED
        echo.handled.clear()
        assert await sent(port, *[REQUESTS[at : at + 1] for at in range(len(REQUESTS))]) == whole
        assert echo.handled == HANDLED

    served(scenario)


REFUSED = {
    "a head that is too long": (b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 15) + b"\r\n\r\n", 431),
    "a head without end": (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 8000, 431),
    "too many fields": (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
    "a body that is too long": (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n", 413),
    "a body in a content coding": (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\n\r\n", 415),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "what the application wants once": (b"GET / HTTP/1.1\r\nHost: h\r\nX-Once: 1\r\nx-once: 1\r\n\r\n", 400),
    "a whole URL": (b"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "chunks that are none": (
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        400,
    ),
}


@pytest.mark.parametrize(("request_", "status"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_is_refused_is_the_last_one(request_: bytes, status: int) -> None:
    async def scenario(echo: Echo, port: int) -> None:
        said = await sent(port, request_ + LAST)
        assert int(said.split()[1]) == status
        assert said.count(b"HTTP/1.1 ") == 1
        assert b"Connection: close" in said
        assert echo.handled == []

    assert [problem.status for problem in served(scenario).problems] == [status]


def test_a_failure_is_reported_without_its_words_and_ends_nothing_else() -> None:
    async def scenario(_echo: Echo, port: int) -> None:
        said = await sent(port, b"GET /fail HTTP/1.1\r\nHost: h\r\n\r\n" + LAST)
        assert said.startswith(b"HTTP/1.1 500 ")
        assert b"9 it failed null" in said
        assert b"secret" not in said
        assert said.endswith(b"GET /last ")

    served(scenario)


def test_a_request_is_screened_before_its_body_is_read() -> None:
    async def scenario(echo: Echo, port: int) -> None:
        said = await sent(port, b"POST /screened HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 403 ")
        assert echo.handled == []

    served(scenario)


@pytest.mark.parametrize("beginning", [b"", b"GET / HT", HALF])
def test_a_client_that_ends_its_side_or_goes_away_leaves_nothing_behind(beginning: bytes) -> None:
    async def scenario(echo: Echo, port: int) -> None:
        for half in (True, False):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(beginning)
            await writer.drain()
            if half:
                writer.write_eof()
                assert await reader.read() == b""
            writer.close()
        assert echo.handled == []

    served(scenario)


@pytest.mark.parametrize("beginning", [b"GET / HT", HALF])
def test_a_request_that_does_not_arrive_in_time_is_refused(beginning: bytes) -> None:
    async def scenario(_echo: Echo, port: int) -> None:
        assert (await sent(port, beginning)).startswith(b"HTTP/1.1 408 ")

    served(scenario, ServerLimits(arrival=0.05, stranger=0.05, tick=0.01))


def test_slow_bytes_do_not_gain_time() -> None:
    async def scenario(_echo: Echo, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 10_000
        reading = asyncio.create_task(reader.read())
        for at in range(len(head)):
            if reading.done():
                break
            writer.write(head[at : at + 1])
            await asyncio.sleep(0.005)
        assert (await reading).startswith(b"HTTP/1.1 408 ")
        writer.close()

    served(scenario, ServerLimits(arrival=0.2, tick=0.01))
