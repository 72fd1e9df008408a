"""Requests are read to the letter or not at all, and nobody can hold the server up."""

import asyncio
import json
import socket

import pytest

from byleave.net.http_admission import ServerLimits
from fakes.mcp_front import PATIENCE, Client, Response, Scene, Settings, run, scene, until

ECHO = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'


def request(client: Client, *fields: str, body: bytes = ECHO, line: str = "POST /mcp HTTP/1.1") -> bytes:
    """Return a request whose fields are these and no others."""
    usual = (f"Host: 127.0.0.1:{client.port}", "Content-Type: application/json")
    return "\r\n".join([line, *usual, *fields, "", ""]).encode("latin-1") + body


async def refused(client: Client, data: bytes) -> int:
    """Return the status of the last response on a connection, which is closed after it."""
    await client.send(data)
    answered = await client.response()
    assert answered.fields["connection"] == "close"
    assert await client.ended() == b""
    return answered.status


LENGTH = f"Content-Length: {len(ECHO)}"
SMUGGLED = {
    "length and chunks": (LENGTH, "Transfer-Encoding: chunked"),
    "two lengths": (LENGTH, "Content-Length: 5"),
    "the same length twice": (LENGTH, LENGTH),
    "a list of lengths": (f"Content-Length: {len(ECHO)}, {len(ECHO)}",),
    "a signed length": (f"Content-Length: +{len(ECHO)}",),
    "a folded line": (LENGTH, "X-A: 1", " Transfer-Encoding: chunked"),
    "a blank before the colon": ("Content-Length : 5", LENGTH),
    "an underscore for a hyphen": (LENGTH, "Transfer_Encoding: chunked"),
    "an unknown coding": ("Transfer-Encoding: gzip, chunked",),
    "a bare line feed": (LENGTH, "X-A: 1\nTransfer-Encoding: chunked"),
    "a bare carriage return": (LENGTH, "X-A: 1\rX-B: 2"),
    "a null byte": (LENGTH, "X-A: \0"),
    "two hosts": (LENGTH, "Host: evil.example"),
    "two authorizations": (LENGTH, "Authorization: Bearer a", "Authorization: Bearer b"),
    "two session ids": (LENGTH, "Mcp-Session-Id: a", "mcp-session-id: b"),
    "two agents": (LENGTH, "X-Byleave-Agent: a", "x-byleave-agent: b"),
    "two origins": (LENGTH, "Origin: http://localhost", "Origin: http://evil.example"),
}


def test_heads_that_two_readers_could_read_differently_are_refused() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            for name, fields in SMUGGLED.items():
                client = await opened.client()
                assert await refused(client, request(client, *fields)) == 400, name
            assert opened.gateway.talks == []

    run(scenario)


@pytest.mark.parametrize(
    "line",
    [
        "POST /mcp HTTP/2.0",
        "POST  /mcp HTTP/1.1",
        "POST http://127.0.0.1/mcp HTTP/1.1",
        "POST /mcp#x HTTP/1.1",
        "P\x00ST /mcp HTTP/1.1",
        "GET / HTTP/0.9",
    ],
)
def test_first_lines_that_are_no_plain_request_are_refused(line: str) -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            assert await refused(client, request(client, LENGTH, line=line)) == 400

    run(scenario)


def test_a_request_is_the_same_however_its_bytes_are_cut() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            chunked = b"5\r\n" + ECHO[:5] + b"\r\n%x;x=1\r\n" % (len(ECHO) - 5) + ECHO[5:] + b"\r\n0\r\nX: y\r\n\r\n"
            for fields, body in (((LENGTH,), ECHO), (("Transfer-Encoding: chunked",), chunked)):
                whole, cut = await opened.client(), await opened.client()
                data = request(whole, *fields, body=body)
                await whole.send(data)
                expected = await whole.response()
                assert expected.status == 200
                for at in range(0, len(data), 7):
                    await cut.send(data[at : at + 7])
                    await asyncio.sleep(0)
                assert (await cut.response()).body == expected.body

    run(scenario)


def test_chunks_that_break_their_framing_are_refused() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            for body in (b"zz\r\n", b"5\r\n123456\r\n", b"-1\r\n", b"1\nx", b"0\r\nno trailer\r\n\r\n"):
                client = await opened.client()
                assert await refused(client, request(client, "Transfer-Encoding: chunked", body=body)) == 400, body

    run(scenario)


def test_what_is_too_large_is_refused_before_it_is_read() -> None:
    async def scenario() -> None:
        async with scene(settings=Settings(max_body=1000)) as opened:
            sized, chunked, long = [await opened.client() for _ in range(3)]
            assert await refused(sized, request(sized, "Content-Length: 1001", body=b"")) == 413
            pieces = b"1f4\r\n" + b"x" * 500 + b"\r\n"
            assert await refused(chunked, request(chunked, "Transfer-Encoding: chunked", body=pieces * 3)) == 413
            assert await refused(long, request(long, "X-A: " + "x" * (1 << 15))) == 431

    run(scenario)


def test_a_client_that_is_still_writing_hears_why_its_body_is_refused() -> None:
    async def scenario() -> None:
        async with scene(settings=Settings(max_body=1000)) as opened:
            client = await opened.client()
            await client.send(request(client, f"Content-Length: {4 << 20}", body=b"x" * (4 << 20)))
            assert (await client.response()).status == 413

    run(scenario)


HURRIED = ServerLimits(tick=0.01, arrival=0.05, idle=0.1, stranger=0.1, parting=0.05)


def test_a_head_or_body_that_does_not_arrive_in_time_ends_the_connection() -> None:
    async def scenario() -> None:
        async with scene(limits=HURRIED) as opened:
            host = f"127.0.0.1:{opened.port}".encode()
            for start in (b"POST /mcp HT", b"POST /mcp HTTP/1.1\r\nHost: %b\r\nContent-Length: 9\r\n\r\n12" % host):
                client = await opened.client()
                await client.send(start)
                assert (await client.response()).status == 408
                assert await client.ended() == b""
            assert await (await opened.client()).ended() == b""  # one that says nothing at all

    run(scenario)


def test_a_client_that_drips_its_head_gets_no_more_time_for_it() -> None:
    async def scenario() -> None:
        async with scene(limits=HURRIED) as opened:
            client = await opened.client()
            dripping = asyncio.create_task(_drip(client))
            assert (await client.response()).status == 408
            dripping.cancel()

    run(scenario)


async def _drip(client: Client) -> None:
    await client.send(b"POST /mcp HTTP/1.1\r\n")
    while True:
        await client.send(b"X: y\r\n")
        await asyncio.sleep(0.005)


def test_an_idle_connection_is_closed_in_silence() -> None:
    async def scenario() -> None:
        async with scene(limits=HURRIED) as opened:
            client = await opened.client()
            assert (await client.ask("GET", "/health")).status == 200
            assert await client.ended() == b""

    run(scenario)


def test_a_head_that_follows_a_good_one_on_the_same_connection_is_no_better_than_alone() -> None:
    """Heads are known again but for their length: what stands in its place is still read to the letter."""

    async def scenario() -> None:
        async with scene() as opened:
            for fields in SMUGGLED.values():
                client = await opened.client()
                await client.send(request(client, LENGTH))
                assert (await client.response()).status == 200
                assert await refused(client, request(client, *fields)) == 400

    run(scenario)


def test_requests_sent_ahead_are_answered_in_order() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            calls = [
                json.dumps({"jsonrpc": "2.0", "id": number, "method": "chat" if number % 3 else "echo"}).encode()
                for number in range(50)
            ]
            await client.send(
                b"".join([client.request("POST", "/mcp", call, mcp_session_id=session) for call in calls])
            )
            for number in range(50):
                answered = await client.response()
                message = answered.events[-1] if number % 3 else answered.tree
                assert message["id"] == number

    run(scenario)


def test_garbage_behind_a_request_does_not_spoil_its_answer() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            await client.send(client.request("POST", "/mcp", ECHO) + b"\x16\x03\x01garbage\r\n\r\n")
            assert (await client.response()).status == 200
            assert (await client.response()).status == 400
            assert await client.ended() == b""

    run(scenario)


def test_a_client_that_sends_far_ahead_is_not_read_until_its_turn() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            wait = b'{"jsonrpc":"2.0","id":1,"method":"wait"}'
            await client.send(client.request("POST", "/mcp", wait, mcp_session_id=session))
            await opened.gateway.waiting.wait()
            flood = asyncio.create_task(client.send(client.request("GET", "/health") * 200_000))
            connection = next(iter(opened.front._server.connections))  # noqa: SLF001 -- how much it holds is the point
            await until(lambda: connection._resting)  # noqa: SLF001
            assert len(connection._held) < 1 << 20  # noqa: SLF001
            opened.gateway.go_on.set()
            assert (await client.response()).tree["id"] == 1
            for _ in range(100):
                assert (await client.response()).tree == {"status": "ok"}
            flood.cancel()
            client.writer.transport.abort()

    run(scenario)


def test_a_client_that_reads_nothing_is_dropped_and_costs_little() -> None:
    async def scenario() -> None:
        async with scene(limits=ServerLimits(tick=0.01, stalled=0.05)) as opened:
            end = socket.socket()
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            end.setblocking(False)
            await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", opened.port))
            client = await opened.client()
            session = await client.initialize()
            body = b'{"jsonrpc":"2.0","id":1,"method":"large","params":{"size":50000000}}'
            await asyncio.get_running_loop().sock_sendall(
                end, client.request("POST", "/mcp", body, mcp_session_id=session)
            )
            await until(lambda: opened.front.connection_count == 2)
            await until(lambda: opened.front.connection_count == 1)
            end.close()

    run(scenario)


def test_a_large_answer_arrives_whole() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            for accept in ("application/json", "text/event-stream"):
                for size in (0, 100, 1 << 16, 6 << 20):
                    answered = await client.call("large", {"size": size}, mcp_session_id=session, accept=accept)
                    message = answered.events[-1] if accept != "application/json" else answered.tree
                    assert len(message["result"]) == size

    run(scenario)


def test_a_client_that_goes_away_ends_the_work_on_its_request() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            wait = b'{"jsonrpc":"2.0","id":1,"method":"wait"}'
            await client.send(client.request("POST", "/mcp", wait, mcp_session_id=session))
            await opened.gateway.waiting.wait()
            await client.close()
            async with asyncio.timeout(PATIENCE):
                await opened.gateway.cancelled.wait()
            other = await opened.client()
            assert (await other.call("echo", mcp_session_id=session)).status == 200

    run(scenario)


def test_a_failure_of_ours_tells_the_client_nothing() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            broken = await client.call("break", mcp_session_id=session)
            assert broken.status == 500
            assert b"secret" not in broken.body
            assert opened.warnings == ["a request failed: RuntimeError"]
            assert (await client.call("echo", mcp_session_id=session)).status == 200

    run(scenario)


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            await client.send(request(client, LENGTH, "Expect: 100-continue", body=b""))
            assert (await client.head())[0] == 100
            await client.send(ECHO)
            assert (await client.response()).status == 200

    run(scenario)


def test_http_1_0_gets_one_response_and_an_end() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            body = b'{"jsonrpc":"2.0","id":4,"method":"chat"}'
            fields = (f"Content-Length: {len(body)}", f"Mcp-Session-Id: {session}", "Accept: text/event-stream")
            await client.send(request(client, *fields, body=body, line="POST /mcp HTTP/1.0"))
            status, head = await client.head()
            assert (status, "transfer-encoding" in head) == (200, False)
            streamed = Response(status, head, await client.ended())
            assert [message.get("id") for message in streamed.events] == [None, 4]

    run(scenario)


def test_two_hundred_clients_at_once_all_get_their_own_answers() -> None:
    async def one(opened: Scene, number: int) -> None:
        client = await opened.client()
        session = await client.initialize()
        for turn in range(3):
            answered = await client.call("echo", [number, turn], mcp_session_id=session)
            assert answered.tree["result"]["echo"] == [number, turn]
        assert (await client.ask("DELETE", "/mcp", mcp_session_id=session)).status == 200
        await client.close()

    async def scenario() -> None:
        async with scene() as opened:
            await asyncio.gather(*[one(opened, number) for number in range(200)])
            assert opened.front.session_count == 0
            await until(lambda: opened.front.connection_count == 0)

    run(scenario)


def test_the_end_waits_for_open_answers_and_closes_what_only_stands_open() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            idle, standing, busy = [await opened.client() for _ in range(3)]
            session = await busy.initialize()
            await idle.ask("GET", "/health")
            await standing.send(standing.request("GET", "/mcp", mcp_session_id=session))
            await standing.head()
            wait = b'{"jsonrpc":"2.0","id":8,"method":"wait"}'
            await busy.send(busy.request("POST", "/mcp", wait, mcp_session_id=session))
            await opened.gateway.waiting.wait()
            closing = asyncio.create_task(opened.front.close(grace=PATIENCE))
            assert await idle.ended() == b""
            assert (await standing.ended()).endswith(b"0\r\n\r\n")
            opened.gateway.go_on.set()
            answered = await busy.response()
            assert (answered.tree["id"], answered.fields["connection"]) == (8, "close")
            await closing
            assert opened.gateway.talks[0].closed.is_set()

    run(scenario)


def test_the_end_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            wait = b'{"jsonrpc":"2.0","id":8,"method":"wait"}'
            await client.send(client.request("POST", "/mcp", wait, mcp_session_id=session))
            await opened.gateway.waiting.wait()
            await opened.front.close(grace=0.01)
            assert opened.gateway.cancelled.is_set()

    run(scenario)
