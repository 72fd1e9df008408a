"""The front on pipes: it ends when the client does, starves nobody, and leaves the files as they were."""

import asyncio
import json
import os
import pty
from collections.abc import Iterator

import pytest

from byleave.gateway import stdio_front
from byleave.gateway.interfaces import MessageContext
from byleave.gateway.stdio_front import serve_stdio

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


class Echo:
    """A conversation that says back what it hears."""

    def __init__(self, size: int = 1) -> None:
        self.heard = 0
        self.size = size

    async def handle(self, message: bytes, sink: object, _told: MessageContext) -> None:
        self.heard += 1
        await sink.answer(message * self.size)  # type: ignore[attr-defined]

    def attach(self, _sink: object) -> None:
        return

    async def close(self) -> None:
        return


@pytest.fixture
def pipes() -> Iterator[tuple[int, int, int, int]]:
    """What the front reads, what the client writes; what the client reads, what the front writes."""
    ends = [*os.pipe(), *os.pipe()]
    yield ends[0], ends[1], ends[2], ends[3]
    for each in ends:
        try:
            os.close(each)
        except OSError:
            continue


def serve(conversation: Echo, reading: int, writing: int, seconds: float = 5.0) -> bool:
    """Serve a client to the end; return whether it ended by itself."""

    async def whole() -> None:
        async with asyncio.timeout(seconds):
            await serve_stdio(conversation, limit=1 << 20, reading=reading, writing=writing)

    try:
        asyncio.run(whole())
    except TimeoutError:
        return False
    return True


def test_what_was_asked_is_answered_before_the_end(pipes: tuple[int, int, int, int]) -> None:
    ours, client_writes, client_reads, theirs = pipes
    os.write(client_writes, PING * 3 + b"\n \n" + PING.rstrip())
    os.close(client_writes)
    assert serve(Echo(), ours, theirs)
    assert os.read(client_reads, 1000) == PING * 4


def test_a_client_that_does_not_read_any_more_is_noticed_though_it_writes_nothing(
    pipes: tuple[int, int, int, int],
) -> None:
    ours, _client_writes, client_reads, theirs = pipes
    os.close(client_reads)
    assert serve(Echo(), ours, theirs)


def test_a_client_that_reads_nothing_for_long_is_gone(
    pipes: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_front, "LONGEST_UNREAD", 0.1)
    ours, client_writes, _client_reads, theirs = pipes
    os.write(client_writes, PING)
    assert serve(Echo(size=10_000), ours, theirs)


def test_a_client_that_writes_without_end_starves_nobody() -> None:
    zeros, sink = os.open("/dev/zero", os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)

    async def whole() -> None:
        task = asyncio.ensure_future(serve_stdio(Echo(), limit=1 << 20, reading=zeros, writing=sink))
        for _ in range(5):
            await asyncio.sleep(0.001)  # each is a turn that others get
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])

    try:
        asyncio.run(asyncio.wait_for(whole(), 5))
    finally:
        os.close(zeros)
        os.close(sink)


def test_a_terminal_is_left_as_it_was() -> None:
    leader, follower = pty.openpty()
    try:

        async def whole() -> None:
            task = asyncio.ensure_future(serve_stdio(Echo(), limit=1 << 20, reading=follower, writing=follower))
            await asyncio.sleep(0.01)
            assert os.get_blocking(follower), "a shell has the same file open"
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(whole())
        assert os.get_blocking(follower)
    finally:
        os.close(leader)
        os.close(follower)


@pytest.mark.parametrize(
    ("start", "id_"),
    [
        ('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"', 7),
        ('{"method":"tools/call","id":"a","params":{"x":"', "a"),
        ('{"jsonrpc":"2.0","id":"byleave-1","result":{"x":"', None),
        ('{"jsonrpc":"2.0","method":"tools/call","params":{"x":"', None),
        ('{"id":1.5,"method":"tools/call","params":{"x":"', None),
    ],
)
def test_the_sender_of_a_request_that_is_too_long_learns_so(
    pipes: tuple[int, int, int, int], start: str, id_: int | str | None
) -> None:
    reading, client_end, answers, writing = pipes

    async def scene() -> None:
        front = asyncio.ensure_future(serve_stdio(Echo(), limit=1000, reading=reading, writing=writing))
        os.write(client_end, start.encode() + b"x" * 2000 + b'"}}\n')
        os.close(client_end)
        async with asyncio.timeout(5):
            await front

    asyncio.run(scene())
    said = json.loads(os.read(answers, 1 << 16))
    assert (said["id"], "longer than 1000 bytes" in said["error"]["message"]) == (id_, True)
