"""Two replicas of one gateway: a client may come to either, and neither takes another program for a replica."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

from byleave.gateway.interfaces import Caller
from byleave.gateway.replica_directory import StaticDirectory, new_name
from byleave.gateway.replica_envelope import (
    ENVELOPE,
    MAC,
    NONCE,
    PassedRequest,
    ReplicaChannel,
    digest,
    new_nonce,
    pack,
)
from byleave.gateway.replicas import HELLO, PASS, Replicas
from byleave.net.peers import PeerAddress
from byleave.store.store_key import StoreKey
from fakes.mcp_front import Client, Scene, Settings, run, scene, until

KEY = StoreKey(b"k" * 32)
OTHER_KEY = StoreKey(b"o" * 32)
TOKENS = {agent: (f"sha256:{hashlib.sha256(agent.encode()).hexdigest()}",) for agent in ("ann", "bob")}
STATELESS = "2026-07-28"
ANN, BOB = "Bearer ann", "Bearer bob"


class Pair:
    """Two replicas; `owner` holds what clients begin there, `other` is where they come next."""

    def __init__(self, owner: Scene, other: Scene, places: dict[str, PeerAddress], names: tuple[str, str]) -> None:
        self.owner = owner
        self.other = other
        self.places = places
        self.names = names
        self.clients: list[Client] = []


@contextlib.asynccontextmanager
async def pair(
    *, keys: tuple[StoreKey, StoreKey] = (KEY, KEY), settings: Settings | None = None
) -> AsyncIterator[Pair]:
    places: dict[str, PeerAddress] = {}
    names = new_name(), new_name()
    async with contextlib.AsyncExitStack() as stack:
        scenes = []
        for name, key in zip(names, keys, strict=True):
            replicas = Replicas(name, key, StaticDirectory(places), PeerAddress("127.0.0.1", 0))
            opened = await stack.enter_async_context(scene(replicas=replicas, tokens=TOKENS, settings=settings))
            places[name] = opened.front.replica_addresses[0]
            scenes.append(opened)
        two = Pair(scenes[0], scenes[1], places, names)
        yield two
        for client in two.clients:
            await client.close()


async def begun(two: Pair, token: str = ANN) -> tuple[Client, str]:
    """Begin a session at the owner; return a client of the other replica, and the session."""
    session = await (await two.owner.client()).initialize(authorization=token)
    return await two.other.client(), session


def test_a_session_goes_on_at_another_replica() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            assert session.startswith(f"{two.names[0]}.")
            for _ in range(3):
                found = await client.call("x", {"a": 1}, mcp_session_id=session, authorization=ANN)
                assert (found.status, found.tree["result"]) == (
                    200,
                    {"echo": {"a": 1}, "who": ["ann", "verified", "token:ann"]},
                )
            assert two.other.gateway.talks == []
            assert [each["method"] for each in two.owner.gateway.talks[0].heard] == ["initialize", "x", "x", "x"]

    run(scenario)


def test_notifications_answers_and_the_end_of_a_session_are_passed_on() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            words = {"mcp_session_id": session, "authorization": ANN}
            noted = await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **words)
            assert (noted.status, noted.body) == (202, b"")
            ended = await client.ask("DELETE", "/mcp", b"", **words)
            assert ended.status == 200
            await until(two.owner.gateway.talks[0].closed.is_set)
            assert (await client.call("x", **words)).status == 404

    run(scenario)


def test_events_pass_as_they_come() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            words = {"mcp_session_id": session, "authorization": ANN}
            found = await client.call("chat", {}, **words)
            assert [each.get("method", "answer") for each in found.events] == ["notifications/progress", "answer"]
            await client.send(client.request("GET", "/mcp", b"", **words))
            status, fields = await client.head()
            assert (status, fields["mcp-session-id"]) == (200, session)
            standing = two.owner.gateway.talks[0].standing
            assert standing is not None
            await standing.send(b'{"jsonrpc":"2.0","method":"notifications/one"}')
            assert (await client.event())["method"] == "notifications/one"
            await standing.send(b'{"jsonrpc":"2.0","method":"notifications/two"}')
            assert (await client.event())["method"] == "notifications/two"

    run(scenario)


def test_a_session_of_the_oldest_revision_goes_on_at_another_replica() -> None:
    async def scenario() -> None:
        async with pair() as two:
            listener = await two.owner.client()
            await listener.send(listener.request("GET", "/sse", authorization=ANN))
            await listener.head()
            path = (await listener.event())["data"]
            client = await two.other.client()
            body = json.dumps({"jsonrpc": "2.0", "id": 4, "method": "x", "params": {}}).encode()
            sent = await client.ask("POST", path, body, authorization=ANN)
            assert sent.status == 202
            assert (await listener.event())["id"] == 4

    run(scenario)


def test_a_large_answer_passes_whole() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            words = {"mcp_session_id": session, "authorization": ANN, "accept": "application/json"}
            found = await client.call("large", {"size": 3 << 20}, **words)
            assert len(found.tree["result"]) == 3 << 20

    run(scenario)


def test_a_slow_client_slows_the_owner_down() -> None:
    """What the client does not read waits at the owner, not in the memory of the replica in between."""

    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            await client.send(client.request("GET", "/mcp", mcp_session_id=session, authorization=ANN))
            await client.head()
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001 -- nothing else does
            standing = two.owner.gateway.talks[0].standing
            assert standing is not None
            big = b'{"jsonrpc":"2.0","method":"%b"}' % (b"x" * (1 << 18))
            sent = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    for _ in range(400):
                        await standing.send(big)
                        sent += 1
            assert 0 < sent < 200  # else 50 MB or more would be on their way
            client.reader._transport.resume_reading()  # type: ignore[attr-defined]  # noqa: SLF001
            came = 0
            while came < sent:
                came += (await client.chunk() or b"").count(b"\n\n")
            assert came >= sent

    run(scenario)


def test_work_ends_when_the_client_goes_away() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "wait"}).encode()
            await client.send(client.request("POST", "/mcp", body, mcp_session_id=session, authorization=ANN))
            await two.owner.gateway.waiting.wait()
            await client.close()
            async with asyncio.timeout(5):
                assert await two.owner.gateway.cancelled.wait()

    run(scenario)


def test_the_session_of_another_agent_is_no_session() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            assert (await client.call("x", {}, mcp_session_id=session, authorization=BOB)).status == 404
            assert (await client.ask("DELETE", "/mcp", mcp_session_id=session, authorization=BOB)).status == 404
            assert (await client.ask("GET", "/mcp", mcp_session_id=session, authorization=BOB)).status == 404
            unknown = await client.call("x", {}, mcp_session_id=session, authorization="Bearer nobody")
            assert unknown.status == 401
            assert (await client.call("x", {}, mcp_session_id=session, authorization=ANN)).status == 200

    run(scenario)


def test_a_caller_may_not_claim_more_at_another_replica() -> None:
    async def scenario() -> None:
        async with pair() as two:
            session = await (await two.owner.client()).initialize()
            client = await two.other.client()
            found = await client.call("x", {}, mcp_session_id=session, x_byleave_agent="carl")
            assert found.tree["result"]["who"] == [None, "default", "user"]  # who began it; the claim goes along
            assert two.owner.gateway.talks[0].told[-1]["x-byleave-agent"] == "carl"
            refused = await client.call("x", {}, mcp_session_id=session, x_byleave_agent="ann")
            assert refused.status == 401

    run(scenario)


def test_a_call_that_waits_at_another_replica_goes_on_there() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client = await two.other.client()
            state = f"{two.names[0]}.secret"
            words = {"mcp_protocol_version": STATELESS, "authorization": ANN}
            here = await client.call("x", {"requestState": "plain"}, **words)
            there = await client.call("x", {"requestState": state}, **words)
            assert here.tree["result"]["who"] == there.tree["result"]["who"] == ["ann", "verified", "token:ann"]
            assert [each["params"]["requestState"] for each in two.other.gateway.lasting["token:ann"].heard] == [
                "plain"
            ]
            assert [each["params"]["requestState"] for each in two.owner.gateway.lasting["token:ann"].heard] == [state]

    run(scenario)


def test_a_call_that_waited_at_a_replica_that_is_gone_is_not_known() -> None:
    """The replica that the client came to answers by itself: a state that it does not know."""

    async def scenario() -> None:
        async with pair() as two:
            client = await two.other.client()
            state = f"{new_name()}.secret"
            found = await client.call("x", {"requestState": state}, mcp_protocol_version=STATELESS, authorization=ANN)
            assert found.status == 200
            assert two.other.gateway.lasting["token:ann"].heard[0]["params"] == {"requestState": state}

    run(scenario)


def test_ids_that_name_no_replica_are_no_sessions() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client = await two.other.client()
            for session in ("none", f"{new_name()}.x", f"{two.names[0]}.x", f"{two.names[1]}.x", ".", "..", "a.b"):
                found = await client.call("x", {}, mcp_session_id=session, authorization=ANN)
                assert found.status == 404, session

    run(scenario)


def test_the_session_of_a_replica_that_is_gone_is_gone() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            words = {"mcp_session_id": session, "authorization": ANN}
            assert (await client.call("x", {}, **words)).status == 200
            await two.owner.front.close(grace=0)
            assert (await client.call("x", {}, **words)).status == 404
            assert await client.initialize(authorization=ANN)

    run(scenario)


def test_an_owner_that_ends_in_the_middle_ends_the_request_and_not_the_client() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            words = {"mcp_session_id": session, "authorization": ANN}
            body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "wait"}).encode()
            await client.send(client.request("POST", "/mcp", body, accept="application/json", **words))
            await two.owner.gateway.waiting.wait()
            server: Any = two.owner.front._for_replicas  # noqa: SLF001 -- as when the process is killed
            server._server._server.close()  # noqa: SLF001
            for connection in list(server._server.connections):  # noqa: SLF001
                connection.abort()
            found = await client.response()
            assert (found.status, found.tree["id"]) == (404, 7)
            assert await client.initialize(authorization=ANN)

    run(scenario)


def test_a_stream_of_an_owner_that_ends_in_the_middle_ends_with_an_error() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            two.owner.gateway.go_on.clear()
            body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "wait"}).encode()
            await client.send(client.request("POST", "/mcp", body, mcp_session_id=session, authorization=ANN))
            await two.owner.gateway.waiting.wait()
            server: Any = two.owner.front._for_replicas  # noqa: SLF001 -- as when the process is killed
            exchange = next(iter(server._server.working))  # noqa: SLF001
            exchange.begin_events((b": alive\n\n",))
            await client.head()
            for connection in list(server._server.connections):  # noqa: SLF001
                connection.abort()
            last = await client.event()
            assert (last["id"], last["error"]["code"]) == (7, -32603)
            assert await client.chunk() is None

    run(scenario)


def test_replicas_with_other_keys_do_not_know_each_other() -> None:
    async def scenario() -> None:
        async with pair(keys=(KEY, OTHER_KEY)) as two:
            client, session = await begun(two)
            assert (await client.call("x", {}, mcp_session_id=session, authorization=ANN)).status == 404
            assert [each["method"] for each in two.owner.gateway.talks[0].heard] == ["initialize"]

    run(scenario)


def test_a_program_at_the_address_of_a_replica_gets_nothing() -> None:
    """A port may be another program's by now: it sees a random number, and no message, token or session."""

    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            seen = bytearray()

            async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                seen.extend(await reader.readuntil(b"\r\n\r\n"))
                said = b'{"nonce":"%b","mac":"%b"}' % (b"a" * 32, b"b" * 64)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
                seen.extend(await reader.read())
                writer.close()

            server = await asyncio.start_server(pretend, "127.0.0.1", 0)
            two.places[two.names[0]] = PeerAddress("127.0.0.1", server.sockets[0].getsockname()[1])
            found = await client.call("secret", {"a": "hidden"}, mcp_session_id=session, authorization=ANN)
            assert found.status == 404
            server.close()
            assert seen.startswith(b"GET /replica HTTP/1.1\r\n")
            for secret in (session.encode(), session.partition(".")[2].encode(), b"hidden", b"ann"):
                assert secret not in seen

    run(scenario)


class Stranger:
    """A program that speaks to a replica as replicas do, with or without the key."""

    def __init__(self, client: Client, owner: str, key: StoreKey) -> None:
        self.client = client
        self.owner = owner
        self.key = key
        self.channel: ReplicaChannel | None = None

    async def greet(self) -> None:
        nonce = new_nonce()
        said = await self.client.ask("GET", HELLO, b"", **{NONCE: nonce})
        self.channel = ReplicaChannel(self.key, self.owner, nonce, said.tree["nonce"])

    def letter(self, session: str, body: bytes, *, says: str | None = None) -> bytes:
        assert self.channel is not None
        fields = {"mcp-session-id": session, "content-type": "application/json", "accept": "application/json"}
        caller = Caller("ann", "verified", "token:ann")
        envelope = pack(PassedRequest("POST", "/mcp", "", fields, caller, says or digest(body)))
        return self.client.request("POST", PASS, body, **{ENVELOPE: envelope, MAC: self.channel.seal(envelope)})


async def stranger(two: Pair, key: StoreKey = KEY) -> Stranger:
    place = two.owner.front.replica_addresses[0]
    reader, writer = await asyncio.open_connection(place.host, place.port, limit=1 << 24)
    found = Stranger(Client(reader, writer, place.port), two.names[0], key)
    two.clients.append(found.client)
    await found.greet()
    return found


BODY = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{}}'


def test_a_request_of_a_replica_counts_once_on_one_connection() -> None:
    async def scenario() -> None:
        async with pair() as two:
            _client, session = await begun(two)
            one, another = await stranger(two), await stranger(two)
            letter = one.letter(session, BODY)
            await one.client.send(letter)
            assert (await one.client.response()).status == 200
            await one.client.send(letter)
            assert (await one.client.response()).status == 403
            assert await one.client.ended() == b""
            await another.client.send(letter)
            assert (await another.client.response()).status == 403
            assert ("replica", two.owner.gateway.refusals[0][1]) in two.owner.gateway.refusals
            assert len(two.owner.gateway.talks[0].heard) == 2

    run(scenario)


def test_what_no_replica_wrote_is_refused() -> None:
    async def scenario() -> None:
        async with pair() as two:
            _client, session = await begun(two)
            forged = await stranger(two, OTHER_KEY)
            await forged.client.send(forged.letter(session, BODY))
            assert (await forged.client.response()).status == 403
            changed = await stranger(two)
            await changed.client.send(changed.letter(session, BODY).replace(b'"method":"x"', b'"method":"y"'))
            assert (await changed.client.response()).status == 403
            misled = await stranger(two)
            misled.owner = two.names[1]
            misled.channel = ReplicaChannel(KEY, two.names[1], "a" * 32, "b" * 32)
            await misled.client.send(misled.letter(session, BODY))
            assert (await misled.client.response()).status == 403
            plain = await stranger(two)
            found = await plain.client.post(BODY, mcp_session_id=session, authorization=ANN)
            assert found.status == 403  # the port of replicas serves no clients
            assert len(two.owner.gateway.talks[0].heard) == 1

    run(scenario)


def test_a_body_of_no_replica_is_not_waited_for() -> None:
    async def scenario() -> None:
        async with pair() as two:
            _client, session = await begun(two)
            forged = await stranger(two, OTHER_KEY)
            letter = forged.letter(session, b"x" * (1 << 20))
            await forged.client.send(letter[: letter.index(b"\r\n\r\n") + 4])
            assert (await forged.client.response()).status == 403
            large = await stranger(two)
            await large.client.send(large.letter(session, b"x" * (9 << 20))[: 1 << 16])
            assert (await large.client.response()).status == 413

    run(scenario)


def test_a_client_cannot_speak_as_a_replica() -> None:
    """At the port of clients the fields of replicas mean nothing, and are not passed on."""

    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            caller = Caller("ann", "verified", "token:ann")
            channel = ReplicaChannel(KEY, two.names[1], "a" * 32, "b" * 32)
            envelope = pack(PassedRequest("POST", "/mcp", "", {"mcp-session-id": session}, caller, digest(BODY)))
            words = {ENVELOPE: envelope, MAC: channel.seal(envelope), NONCE: "a" * 32}
            for path in (PASS, HELLO):
                assert (await client.ask("POST", path, BODY, **words)).status == 404
            found = await client.post(BODY, mcp_session_id=session, authorization=BOB, **words)
            assert found.status == 404
            passed = await client.post(BODY, mcp_session_id=session, authorization=ANN, **words)
            assert passed.status == 200
            assert not [name for told in two.owner.gateway.talks[0].told for name in told if "envelope" in name]

    run(scenario)


def test_a_request_is_passed_on_once() -> None:
    """Each replica takes only what is its own, whatever another one sends it: there are no loops."""

    async def scenario() -> None:
        async with pair() as two:
            _client, _session = await begun(two)
            sender = await stranger(two)
            await sender.client.send(sender.letter(f"{two.names[1]}.x", BODY))
            assert (await sender.client.response()).status == 404
            await sender.client.send(sender.letter(f"{new_name()}.x", BODY))
            assert (await sender.client.response()).status == 404
            assert two.other.gateway.refusals == []

    run(scenario)


def test_a_replica_that_does_not_answer_is_not_waited_for() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)

            async def silent_until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.read()
                writer.close()

            silent = await asyncio.start_server(silent_until_closed, "127.0.0.1", 0)
            two.places[two.names[0]] = PeerAddress("127.0.0.1", silent.sockets[0].getsockname()[1])
            replicas: Any = two.other.front._replicas  # noqa: SLF001
            replicas.patience = 0.05
            found = await client.call("x", {}, mcp_session_id=session, authorization=ANN)
            assert found.status == 503
            silent.close()

    run(scenario)


def test_many_clients_come_to_both_replicas_at_once() -> None:
    async def scenario() -> None:
        async with pair() as two:
            session = await (await two.owner.client()).initialize(authorization=ANN)

            async def calls(number: int) -> None:
                client = await (two.other if number % 2 else two.owner).client()
                for turn in range(5):
                    found = await client.call("x", [number, turn], mcp_session_id=session, authorization=ANN)
                    assert found.tree["result"]["echo"] == [number, turn]

            await asyncio.gather(*(calls(number) for number in range(20)))
            assert len(two.owner.gateway.talks[0].heard) == 101

    run(scenario)


def test_limits_of_the_front_hold_for_replicas() -> None:
    async def scenario() -> None:
        async with pair(settings=Settings(max_body=1 << 10)) as two:
            _client, session = await begun(two)
            sender = await stranger(two)
            await sender.client.send(sender.letter(session, b"x" * (1 << 11)))
            assert (await sender.client.response()).status == 413

    run(scenario)
