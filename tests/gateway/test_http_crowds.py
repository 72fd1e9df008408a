"""No crowd keeps a caller out: connections that are idle, slow, half open, never read, or simply too many."""

import asyncio
import contextlib
import errno
import os
import resource
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from math import inf
from pathlib import Path

import pytest

from byleave.gateway import http_endpoint
from byleave.gateway.gateway import MOST_NAMES
from byleave.gateway.interfaces import Caller
from byleave.net import peers
from byleave.net.http_admission import ConnectionAdmission, ServerLimits
from byleave.net.http_server_connection import HttpServerConnection
from command import COMMAND
from fakes.http_application import Echo, serving
from fakes.mcp_front import Client, Scene, Settings, run, scene, until
from fakes.mcp_sdk import Place, Running
from fakes.mcp_talk import Talk

CALL = b'{"jsonrpc":"2.0","id":5,"method":"echo"}'
MODERN = {"mcp_protocol_version": "2026-07-28"}
WAIT = b'{"jsonrpc":"2.0","id":6,"method":"wait"}'
TOKENS = {name: ("sha256:" + sha256(f"t-{name}".encode()).hexdigest(),) for name in ("a", "b", "c")}
CROWD = 1500


def of(agent: str) -> dict[str, str]:
    return {"authorization": f"Bearer t-{agent}", **MODERN}


# ---- Who gives way, as a table of moves --------------------------------------------------------------------------


class Held:
    def __init__(self, peer: str | None) -> None:
        self.peer = peer
        self.principal: str | None = None
        self.is_idle, self.is_standing, self.is_ended = True, False, False

    def give_way(self) -> None:
        self.is_ended = True


def admission(connections: int, per_peer: int = 100, per_caller: int = 100) -> ConnectionAdmission:
    return ConnectionAdmission(ServerLimits(connections=connections, per_peer=per_peer, per_caller=per_caller))


def entered(room: ConnectionAdmission, peer: str | None, count: int = 1) -> list[Held]:
    found = [Held(peer) for _ in range(count)]
    for each in found:
        room.enter(each)
    return found


def proven(room: ConnectionAdmission, principal: str, count: int) -> list[Held]:
    found = entered(room, "peer", count)
    assert all(room.prove(each, principal) for each in found)
    return found


def ended(found: list[Held]) -> list[int]:
    return [number for number, each in enumerate(found) if each.is_ended]


def test_the_stranger_that_was_there_longest_gives_way_of_the_peer_that_holds_most() -> None:
    room = admission(8)
    one, many = entered(room, "one", 2), entered(room, "many", 6)
    entered(room, "third", 2)
    assert (ended(one), ended(many), len(room)) == ([], [0, 1], 8)


def test_a_peer_has_so_many_strangers_and_no_more() -> None:
    room = admission(100, per_peer=3)
    first = entered(room, "one", 3)
    entered(room, "one", 2)
    assert (ended(first), len(room)) == ([0, 1], 3)
    entered(room, None, 10)  # a proxy stands for many
    assert len(room) == 13


def test_strangers_never_take_the_place_of_a_caller() -> None:
    room = admission(8)
    callers = proven(room, "a", 7)
    for _ in range(50):
        entered(room, "peer")
    assert (ended(callers), len(room)) == ([], 8)


def test_a_caller_gives_up_its_own_idle_connections_then_its_streams_and_no_work() -> None:
    room = admission(100, per_caller=3)
    first = proven(room, "a", 3)
    first[0].is_idle, first[1].is_idle, first[1].is_standing = False, False, True
    assert [room.prove(each, "a") for each in entered(room, "p", 1)] == [True]
    assert ended(first) == [2]
    busy = Held("p")
    busy.is_idle = False
    room.enter(busy)
    newer = next(iter(room._callers["a"].keys() - set(first)))  # noqa: SLF001 -- the one that came just now
    newer.is_idle = False  # type: ignore[misc]
    assert room.prove(busy, "a")
    assert ended(first) == [1, 2]
    last = Held("p")
    room.enter(last)
    assert not room.prove(last, "a")
    assert len(room) == 4


def test_the_caller_that_holds_most_gives_way_to_one_that_holds_fewer() -> None:
    room = admission(8)
    most, few = proven(room, "a", 5), proven(room, "b", 2)
    for each in most:
        each.is_idle = False
    new = entered(room, "p")[0]
    assert room.prove(new, "c")
    assert (ended(most), ended(few)) == ([4], [])
    for each in few:
        each.is_idle = False
    own = entered(room, "p")[0]
    assert not room.prove(own, "a"), "it holds most itself"


def test_when_fewer_may_come_than_are_there_a_new_one_still_gets_in() -> None:
    room = admission(20)
    callers, strangers = proven(room, "a", 10), entered(room, "p", 10)
    room.limits = ServerLimits(connections=4, per_peer=2, per_caller=2)
    new = entered(room, "q")[0]
    assert (len(room), len(ended(strangers)), len(ended(callers)), new.is_ended) == (4, 10, 7, False)


def test_whoever_leaves_is_counted_once() -> None:
    room = admission(8)
    stranger, caller = entered(room, "p")[0], proven(room, "a", 1)[0]
    for each in (stranger, caller, stranger, caller):
        room.leave(each)
    assert (len(room), room.counts()) == (0, {"caller": 0, "stranger": 0})


def test_a_connection_that_is_used_for_another_caller_is_that_callers() -> None:
    room = admission(8)
    shared = proven(room, "a", 1)[0]
    assert room.prove(shared, "b")
    room.leave(shared)
    assert room.counts() == {"caller": 0, "stranger": 0}


# ---- The same over real connections ------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def crowd(opened: Scene, count: int, first: bytes = b"") -> AsyncIterator[list[socket.socket]]:
    """Open so many connections that say this and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 2000  # both ends of each are in this process
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"this process may have {hard} files open, and {wanted} are needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    loop, ends = asyncio.get_running_loop(), list[socket.socket]()
    try:
        for _ in range(count):
            end = socket.socket()
            end.setblocking(False)
            ends.append(end)
            await loop.sock_connect(end, ("127.0.0.1", opened.port))
            if first:
                with contextlib.suppress(OSError):
                    await loop.sock_sendall(end, first)
        yield ends
    finally:
        for end in ends:
            end.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


CROWDS = {
    "silent": b"",
    "one byte": b"P",
    "half a head": b"POST /mcp HTTP/1.1\r\nHost: x\r\n",
    "a health check, kept alive": b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    "a wrong token, kept alive": b"GET /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n",
}


@pytest.mark.parametrize("kind", CROWDS)
def test_a_crowd_of_strangers_keeps_no_caller_out(kind: str) -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            there = await opened.client()
            assert (await there.post(CALL, **of("a"))).status == 200
            async with crowd(opened, CROWD, CROWDS[kind]):
                assert opened.front.connection_count <= 1024
                for agent in ("a", "b"):
                    assert (await (await opened.client()).post(CALL, **of(agent))).status == 200
                assert (await there.post(CALL, **of("a"))).status == 200, "who was there stays"

    run(scenario)


def test_a_crowd_of_the_user_keeps_the_user_in() -> None:
    async def scenario() -> None:
        async with scene() as opened, crowd(opened, CROWD):
            assert (await (await opened.client()).post(CALL, **MODERN)).status == 200

    run(scenario)


def test_a_stranger_has_seconds_where_a_caller_has_minutes() -> None:
    assert (ServerLimits().stranger, ServerLimits().idle, ServerLimits().arrival) == (5.0, 300.0, 20.0)

    async def scenario() -> None:
        async with scene(tokens=TOKENS, limits=ServerLimits(tick=0.01, stranger=0.05)) as opened:
            silent, healthy, wrong, caller = [await opened.client() for _ in range(4)]
            assert (await caller.post(CALL, **of("a"))).status == 200
            assert (await healthy.ask("GET", "/health")).status == 200
            assert (await wrong.post(CALL, authorization="Bearer x", **MODERN)).status == 401
            for each in (silent, healthy, wrong):
                assert await each.ended() == b""
            assert (await caller.post(CALL, **of("a"))).status == 200

    run(scenario)


def test_a_stranger_that_asks_and_asks_is_shown_out() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            await client.send(client.request("GET", "/health") * 1000)
            answers = (await client.ended()).count(b"HTTP/1.1 200")
            assert answers == 100
            known = await opened.client()
            for _ in range(150):
                assert (await known.post(CALL, **of("a"))).status == 200

    run(scenario)


def test_a_stranger_that_does_not_read_is_dropped_in_seconds() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, limits=ServerLimits(tick=0.01, stranger=0.1, head_bytes=1 << 20)) as opened:
            end = socket.socket()
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            end.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(end, ("127.0.0.1", opened.port))
            with contextlib.suppress(OSError):
                await loop.sock_sendall(end, b"BREW /mcp HTTP/1.1\r\nHost: x\r\n\r\n" * 90)
            await until(lambda: opened.front.connection_count == 0)
            end.close()

    run(scenario)


async def opened_streams(opened: Scene, count: int, agent: str) -> list[Client]:
    found = []
    proof = {"authorization": f"Bearer t-{agent}"}
    for _ in range(count):
        client = await opened.client()
        session = await client.initialize(**proof)
        await client.send(client.request("GET", "/mcp", b"", mcp_session_id=session, **proof))
        assert (await client.head())[0] == 200
        found.append(client)
    return found


def test_a_caller_that_opens_too_many_streams_loses_its_own_and_nobody_elses() -> None:
    async def scenario() -> None:
        limits = Settings(max_connections=16, max_connections_per_caller=6)
        async with scene(tokens=TOKENS, settings=limits) as opened:
            mine = (await opened_streams(opened, 2, "b"))[0]
            theirs = await opened_streams(opened, 10, "a")
            first = await theirs[0].ended()
            assert first.endswith(b"0\r\n\r\n"), "the stream ends as streams do"
            held = [each.stream is not None for each in opened.front.endpoint.sessions._by_id.values()]  # noqa: SLF001
            assert (len(held), sum(held)) == (12, 8), "a session whose stream has ended rests"
            for agent in ("a", "b", "c"):
                assert (await (await opened.client()).post(CALL, **of(agent))).status == 200
            assert await mine.chunk() == b": alive\n\n"
            assert opened.front.connection_count <= 16

    run(scenario)


def test_a_session_of_the_oldest_revision_ends_with_the_stream_that_gave_way() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, settings=Settings(max_connections_per_caller=3)) as opened:
            for _ in range(5):
                client = await opened.client()
                await client.send(client.request("GET", "/sse", authorization="Bearer t-a"))
                assert (await client.head())[0] == 200
            assert opened.front.session_count == 3

    run(scenario)


def test_a_caller_whose_connections_are_all_at_work_is_told_so_and_others_get_in() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, settings=Settings(max_connections_per_caller=3)) as opened:
            for _ in range(3):
                busy = await opened.client()
                await busy.send(busy.request("POST", "/mcp", WAIT, **of("a")))
            await until(lambda: len(opened.front._server.working) == 3)  # noqa: SLF001
            refused = await (await opened.client()).post(CALL, **of("a"))
            assert (refused.status, "too many connections" in refused.tree["error"]["message"]) == (503, True)
            assert (await (await opened.client()).post(CALL, **of("b"))).status == 200
            assert ("connections", "") in opened.gateway.refusals
            opened.gateway.go_on.set()

    run(scenario)


def test_callers_together_keep_no_further_caller_out() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, settings=Settings(max_connections=8)) as opened:
            for number in range(7):
                busy = await opened.client()
                await busy.send(busy.request("POST", "/mcp", WAIT, **of("ab"[number % 2])))
            await until(lambda: len(opened.front._server.working) == 7)  # noqa: SLF001
            assert (await (await opened.client()).post(CALL, **of("c"))).status == 200
            opened.gateway.go_on.set()

    run(scenario)


def test_a_caller_has_so_many_sessions_and_keeps_to_them() -> None:
    async def scenario() -> None:
        limits = Settings(max_sessions=10, max_sessions_per_caller=3)
        async with scene(tokens=TOKENS, settings=limits) as opened:
            client = await opened.client()
            proof = {"authorization": "Bearer t-a"}
            sessions = [await client.initialize(**proof) for _ in range(5)]
            found = [(await client.post(CALL, mcp_session_id=each, **proof)).status for each in sessions]
            assert (found, opened.front.session_count) == ([404, 404, 200, 200, 200], 3)
            await opened_streams(opened, 3, "a")
            assert (await client.call("initialize", {}, **proof)).status == 503
            assert (await client.ask("GET", "/sse", b"", **proof)).status == 503
            assert await (await opened.client()).initialize(authorization="Bearer t-b")
            assert ("sessions", "") in opened.gateway.refusals

    run(scenario)


def test_large_bodies_of_a_caller_that_trickle_in_take_only_so_much_memory() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, settings=Settings(max_body=1 << 20)) as opened:
            slow = [await opened.client() for _ in range(12)]
            part = b" " * (1 << 20)
            for each in slow:
                whole = each.request("POST", "/mcp", part, **of("a"))
                with contextlib.suppress(OSError):
                    await each.send(whole[: -(1 << 10)])
            held = opened.front._server.held_bytes  # noqa: SLF001 -- what it is about
            async with asyncio.timeout(10):
                refused = await asyncio.wait(
                    [asyncio.create_task(each.head()) for each in slow], return_when=asyncio.FIRST_COMPLETED
                )
            assert next(task.result()[0] for task in refused[0]) == 429
            assert held["token:a"] <= 9 << 20
            for task in refused[1]:
                task.cancel()
            for each in slow:
                await each.close()
            await until(lambda: not held)
            assert (await (await opened.client()).post(CALL, **of("a"))).status == 200

    run(scenario)


def test_a_client_that_vanished_without_a_word_is_noticed() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            assert (await client.post(CALL, **MODERN)).status == 200
            end = next(iter(opened.front._server.connections))._transport.get_extra_info("socket")  # noqa: SLF001
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000

    run(scenario)


def test_a_process_that_may_open_few_files_survives_a_crowd(tmp_path: Path) -> None:
    place = Place(tmp_path, '[gateway]\ndefault_agent = "ops"\n[agents.ops]\nallow.servers = ["*"]\n')
    limited = ["bash", "-c", 'ulimit -n 120 && exec "$@"', "bash", *COMMAND]
    process = subprocess.Popen(
        [*limited, *place.words("--http", "127.0.0.1:0")],
        env=place.env,
        cwd=place.root,
        text=True,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    running = Running(process)
    port = int(running.url.removesuffix("/mcp").rpartition(":")[2])
    request = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    try:
        crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(400)]
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as end:
                end.sendall(request)
                assert end.recv(100).startswith(b"HTTP/1.1 200 OK")
        for each in crowd:
            each.close()
        assert process.poll() is None
        assert "there is room for 16 connections only" in "".join(running.said)
    finally:
        running.end()


def test_when_no_more_files_can_be_opened_idle_strangers_go_and_other_troubles_are_told() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        told: list[object] = []
        loop.set_exception_handler(lambda _loop, context: told.append(context["message"]))
        async with scene(tokens=TOKENS) as opened:
            idle, caller = await opened.client(), await opened.client()
            assert (await caller.post(CALL, **of("a"))).status == 200
            full = OSError(errno.EMFILE, "too many open files")
            loop.call_exception_handler({"message": "accept", "exception": full, "socket": None})
            assert await idle.ended() == b""
            assert (await caller.post(CALL, **of("a"))).status == 200
            loop.call_exception_handler({"message": "something else", "exception": ValueError()})
            assert told == ["something else"]
            assert "too many files are open" in "".join(opened.warnings)
        assert loop.get_exception_handler() is not None

    run(scenario)


def test_a_head_of_many_fields_is_refused_unread() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            for fields, status in ((120, 200), (130, 431), (6000, 431)):
                client = await opened.client()
                extra = "".join(f"a{number}:\r\n" for number in range(fields))
                start = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{opened.port}\r\n"
                with contextlib.suppress(OSError):
                    await client.send(f"{start}{extra}\r\n".encode())
                assert (await client.response()).status == status, fields

    run(scenario)


class Pipe(asyncio.Transport):
    """The way to a client that has so much left to read."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.1", 2)})
        self.left, self.is_aborted = 1 << 20, False

    def get_write_buffer_size(self) -> int:
        return self.left

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize(("step", "is_aborted"), [(1, True), (500, True), (1000, False)])
def test_a_client_that_reads_a_little_now_and_then_gets_no_more_time(step: int, *, is_aborted: bool) -> None:
    server = serving(Echo(), ServerLimits())
    server.now = 0.0
    pipe, connection = Pipe(), HttpServerConnection(server)
    connection.connection_made(pipe)
    connection.principal = "a"
    connection._deadline = inf  # noqa: SLF001 -- a response is open
    connection.pause_writing()
    for second in range(1, 200):
        pipe.left -= step
        connection.tick(float(second))
    assert pipe.is_aborted is is_aborted


def test_messages_without_a_session_cannot_pile_up_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "_MOST_OPEN", 3)

    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            told = b'{"jsonrpc":"2.0","method":"wait"}'
            found = [(await client.post(told, **of("a"))).status for _ in range(5)]
            assert found == [202, 202, 202, 429, 429]
            assert (await client.post(CALL, **of("b"))).status == 200
            opened.gateway.go_on.set()
            await until(lambda: not opened.front.endpoint.open_without_session)
            assert (await client.post(CALL, **of("a"))).status == 200

    run(scenario)


def test_all_addresses_of_this_machine_are_one_peer() -> None:
    here = [peers.PeerAddress(host, 1) for host in ("127.0.0.1", "127.9.9.9", "::1")]
    owner = peers.SocketOwner(1000, 7)
    assert {peers.group_of(each, owner) for each in here} == {"this machine (user 1000)"}
    assert {peers.group_of(each, None) for each in here} == {"this machine"}
    assert peers.group_of(here[0], peers.SocketOwner(0, 0)) == "this machine", "nobody holds it: it is not root's"
    assert peers.group_of(peers.PeerAddress("192.0.2.1", 1), None) == "192.0.2.1"
    there = [peers.PeerAddress(f"2001:db8:1:2::{number}", 1) for number in range(3)]
    assert {peers.group_of(each, None) for each in there} == {"2001:db8:1:2::/64"}


def test_a_caller_that_claims_name_after_name_keeps_only_so_many_open(play: Callable[..., None]) -> None:
    async def scenario(talk: Talk) -> None:
        gateway = talk.gateway
        first = gateway.stateless(Caller("first", "claimed", "user"))
        for number in range(MOST_NAMES * 3):
            gateway.stateless(Caller(f"x{number}", "claimed", "user"))
        other = gateway.stateless(Caller("a", "verified", "token:a"))
        assert len(gateway._stateless) == MOST_NAMES + 1  # noqa: SLF001 -- what it is about
        assert gateway.stateless(Caller("a", "verified", "token:a")) is other
        assert gateway.stateless(Caller("first", "claimed", "user")) is not first

    play(scenario)


@pytest.mark.parametrize("host", ["::1", "127.0.0.9", "localhost"])
def test_every_address_of_this_machine_is_served_alike(host: str) -> None:
    async def scenario() -> None:
        async with scene(host=host) as opened:
            address = opened.front.addresses[0].host
            client = await opened.client(address)
            shown = f"[{address}]" if ":" in address else address
            answered = await client.post(CALL, host=f"{shown}:{opened.port}", **MODERN)
            assert answered.tree["result"]["who"] == [None, "default", "user"]
            assert next(iter(opened.front._server.connections)).peer == f"this machine (user {os.geteuid()})"  # noqa: SLF001

    run(scenario)


def test_a_connection_of_another_user_is_turned_away_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "is_our_user", lambda _owner: False)

    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            refused = await client.response()
            assert (refused.status, "byleave agents token" in refused.tree["error"]["message"]) == (403, True)
            assert [why for why, _peer in opened.gateway.refusals] == ["user"]
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            assert (await client.post(CALL, **MODERN)).status == 401
            assert (await client.post(CALL, **of("a"))).status == 200
            assert [why for why, _peer in opened.gateway.refusals] == ["user"]

    run(scenario)


def test_requests_that_one_client_sends_ahead_leave_others_their_turn() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            eager, other = await opened.client(), await opened.client()
            assert (await other.ask("GET", "/health")).status == 200
            texts: list[str] = []

            def counted() -> str:
                texts.append("x")
                return "x\n"

            opened.gateway.metrics_text = counted  # type: ignore[method-assign]
            await eager.send(eager.request("GET", "/metrics") * 2000)
            assert (await other.ask("GET", "/health")).status == 200
            assert len(texts) < 2000
            for _ in range(2000):
                assert (await eager.response()).body == b"x\n"

    run(scenario)
