"""Whatever bytes come, in whatever pieces: no failure of ours, nothing that stays behind, and others are served."""

import asyncio
import contextlib
import random
from hashlib import sha256

import pytest

from amounts import of
from byleave.net.http_admission import ServerLimits
from fakes.mcp_front import Client, Scene, run, scene, until

TOKENS = {"a": ("sha256:" + sha256(b"t-a").hexdigest(),)}
HURRIED = ServerLimits(tick=0.01, arrival=0.2, stranger=0.1, parting=0.05)
CALL = b'{"jsonrpc":"2.0","id":5,"method":"echo"}'
WORDS = (
    *(
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\0",
        b":",
        b" ",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"0\r\n\r\n",
    ),
    *(
        b"Host: x\r\n",
        b"Via: x\r\n",
        b"Authorization: Bearer t-a\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
    ),
    *(
        b"Mcp-Session-Id: x\r\n",
        b"X-Byleave-Agent: \xe4\r\n",
        b"HTTP/1.0",
        b"\xff" * 40,
        b"a: b\r\n" * 200,
        b"%",
        b"{",
        b"[",
    ),
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return a request with something in it that does not belong there, or without something that does."""
    for _ in range(chance.randint(0, 4)):
        at, end = sorted(chance.randint(0, len(data)) for _ in range(2))
        data = chance.choice(
            [
                data[:at] + chance.choice(WORDS) + data[at:],
                data[:at] + data[at + 1 :],
                data[:at] + data[min(end, at + 40) :],
                data[:at] + bytes([chance.randint(0, 255)]) + data[at + 1 :],
                data[:at],
                data + data,
            ]
        )
    return data


def request(client: Client, chance: random.Random) -> bytes:
    fields = {"authorization": "Bearer t-a"} if chance.random() < 0.5 else {}
    kind = chance.randint(0, 4)
    if kind == 0:
        return client.request("GET", chance.choice(["/mcp", "/sse", "/metrics", "/health", "/x"]), b"", **fields)
    if kind == 1:
        body = b"%x;a=b\r\n%b\r\n0\r\nX: y\r\n\r\n" % (len(CALL), CALL)
        return client.request("POST", "/mcp", body, transfer_encoding="chunked", content_length="", **fields)
    revision = "2026-07-28" if kind == 2 else ""
    return client.request("POST", "/mcp", CALL, mcp_protocol_version=revision, **fields)


async def throw(opened: Scene, chance: random.Random) -> None:
    client = await opened.client()
    with contextlib.suppress(OSError):
        data = b"".join([mutated(request(client, chance), chance) for _ in range(chance.randint(1, 3))])
        while data:
            size = chance.choice([1, 7, 100, len(data)])
            await client.send(data[:size])
            data = data[size:]
            await asyncio.sleep(0)
            if chance.random() < 0.02:
                break
        if chance.random() < 0.5:
            async with asyncio.timeout(0.01):
                await client.reader.read(100)
    with contextlib.suppress(OSError, TimeoutError):
        client.writer.transport.abort()


@pytest.mark.parametrize("seed", range(of(40, 4)))
def test_mutated_requests_do_no_harm(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- the same at every run

    async def scenario() -> None:
        async with scene(tokens=TOKENS, limits=HURRIED) as opened:
            for _ in range(100):
                with contextlib.suppress(TimeoutError):
                    await throw(opened, chance)
            steady = await opened.client()
            answered = await steady.post(CALL, authorization="Bearer t-a", mcp_protocol_version="2026-07-28")
            assert answered.status == 200
            await until(lambda: opened.front.connection_count == 1)
            server = opened.front._server  # noqa: SLF001 -- what stays behind is the point
            await until(lambda: not server.working and not server.leaving)
            assert (server.admission.counts(), dict(server.held_bytes)) == ({"caller": 1, "stranger": 0}, {})
            assert opened.warnings == []
            assert not opened.front.endpoint.open_without_session

    run(scenario)
