"""A client whose connection broke comes back with `Last-Event-ID`, to any replica, and gets what it has missed."""

import asyncio
from typing import Any

import pytest

from byleave.gateway import http_replay, http_resumable
from byleave.gateway.http_replay import STANDING, ReplayLog, ReplayRoom
from fakes.mcp_front import Client, Scene, read_events, run, scene, until
from gateway.test_replicas import ANN, BOB, begun, pair

NEWEST = "2025-11-25"
CALL = b'{"jsonrpc":"2.0","id":7,"method":"slow"}'


def note(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"notifications/%d"}' % number


def told(body: bytes) -> list[tuple[str, Any]]:
    """Return the ids and the methods of events; comments left out, and events without a message."""
    blocks = [each for each in body.decode().split("\n\n") if each.startswith("id: ") and "\nevent: " in each]
    return [(each.partition("\n")[0][4:], read_events(each.encode())[0]) for each in blocks]


async def listening(client: Client, session: str, last: str = "", **fields: str) -> bytes:
    """Open a stream; return the first piece of it."""
    words = {"mcp_session_id": session, "last_event_id": last, **fields}
    await client.send(client.request("GET", "/mcp", b"", **words))
    assert (await client.head())[0] == 200
    return await client.chunk() or b""


async def standing(opened: Scene, *numbers: int) -> None:
    sink = opened.gateway.talks[0].standing
    assert sink is not None
    for number in numbers:
        assert await sink.send(note(number))


async def calling(client: Client, opened: Scene, session: str, **fields: str) -> str:
    """Begin a call that says something before it waits; return the id of what it said."""

    async def slow(tree: dict[str, Any], sink: Any) -> None:
        await sink.send(note(1))
        opened.gateway.waiting.set()
        try:
            await opened.gateway.go_on.wait()
        except asyncio.CancelledError:
            opened.gateway.cancelled.set()
            raise
        await sink.send(note(2))
        await sink.answer(b'{"jsonrpc":"2.0","id":%d,"result":"x"}' % tree["id"])

    opened.gateway.talks[0]._slow = slow  # type: ignore[attr-defined]  # noqa: SLF001 -- a method of the fake
    await client.send(client.request("POST", "/mcp", CALL, mcp_session_id=session, **fields))
    assert (await client.head())[0] == 200
    await opened.gateway.waiting.wait()
    return told(await client.chunk() or b"")[-1][0]


def test_a_standing_stream_is_resumed_after_the_event_that_the_client_saw_last() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            await listening(client, session)
            await standing(opened, 1, 2, 3)
            seen = [told(await client.chunk() or b"")[0] for _ in range(3)]
            assert [each[0] for each in seen] == ["0-1", "0-2", "0-3"]
            back = await opened.client()
            missed = told(await listening(back, session, "0-1"))
            assert missed == seen[1:]
            await standing(opened, 4)
            assert told(await back.chunk() or b"")[0][0] == "0-4"
            plain = await opened.client()
            assert not told(await listening(plain, session))  # who names no event gets none again

    run(scenario)


def test_the_newest_revision_gets_an_id_before_the_first_message() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            assert await listening(client, session, mcp_protocol_version=NEWEST) == b"id: 0-0\ndata: \n\n"
            await standing(opened, 1)
            back = await opened.client()
            first = await listening(back, session, "0-0", mcp_protocol_version=NEWEST)
            assert first.startswith(b"id: 0-0\ndata: \n\n")
            assert [each[0] for each in told(first)] == ["0-1"]
            older = await opened.client()
            assert (await listening(older, session, mcp_protocol_version="2025-06-18")).startswith(b":")

    run(scenario)


@pytest.mark.parametrize("last", ["x", "0-99", "9-1", "-1-1", "0-0x", "1" * 5000, "0-\xb2", "00"])
def test_an_id_that_was_never_given_opens_a_stream_without_replay(last: str) -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            await listening(client, session)
            await standing(opened, 1)
            back = await opened.client()
            first = await listening(back, session, last)
            assert not told(first)
            await standing(opened, 2)
            assert told(await back.chunk() or b"")[0][0] == "0-2"

    run(scenario)


def test_a_call_goes_on_without_its_client_which_comes_back_at_another_replica() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            last = await calling(client, two.owner, session, authorization=ANN)
            await client.close()
            log = two.owner.front.endpoint.sessions._by_id[session].log  # noqa: SLF001
            await until(lambda: any(each.is_away for each in log.responses.values()))
            two.owner.gateway.go_on.set()
            await until(lambda: not log.responses)
            back = await two.other.client()
            words = {"mcp_session_id": session, "last_event_id": last, "authorization": ANN}
            found = await back.ask("GET", "/mcp", b"", **words)
            assert [each[1].get("method", each[1].get("result")) for each in told(found.body)] == [
                "notifications/2",
                "x",
            ]
            assert not two.owner.gateway.cancelled.is_set()
            thief = await two.other.client()
            assert (await thief.ask("GET", "/mcp", b"", **words | {"authorization": BOB})).status == 404

    run(scenario)


def test_a_client_that_comes_back_in_time_gets_the_rest_as_it_is_said() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client, back = await opened.client(), await opened.client()
            session = await client.initialize()
            last = await calling(client, opened, session)
            await listening(back, session, last)  # while the first connection is half open
            await back.close()
            again = await opened.client()
            await listening(again, session, last)
            opened.gateway.go_on.set()
            rest = told(b"".join([piece async for piece in again.chunks()]))
            assert [each[1].get("result") for each in rest] == [None, "x"]
            assert not opened.gateway.cancelled.is_set()

    run(scenario)


def test_a_call_ends_when_its_client_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_resumable, "AWAY", 0.05)

    async def scenario() -> None:
        async with scene() as opened:
            client, other = await opened.client(), await opened.client()
            session = await client.initialize()
            last = await calling(client, opened, session)
            await client.close()
            async with asyncio.timeout(5):
                await opened.gateway.cancelled.wait()
            late = await other.ask("GET", "/mcp", b"", mcp_session_id=session, last_event_id=last)
            assert late.status == 400

    run(scenario)


def test_too_many_calls_without_their_clients_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_replay, "MOST_AWAY", 0)

    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            await calling(client, opened, session)
            await client.close()
            async with asyncio.timeout(5):
                await opened.gateway.cancelled.wait()
            assert opened.front.session_count == 1  # the session goes on

    run(scenario)


def test_the_end_of_a_session_ends_a_call_whose_client_is_away() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client, other = await opened.client(), await opened.client()
            session = await client.initialize()
            await calling(client, opened, session)
            log = opened.front.endpoint.sessions._by_id[session].log  # noqa: SLF001
            await client.close()
            await until(lambda: any(each.is_away for each in log.responses.values()))
            assert (await other.ask("DELETE", "/mcp", b"", mcp_session_id=session)).status == 200
            async with asyncio.timeout(5):
                await opened.gateway.cancelled.wait()
            assert not log.responses

    run(scenario)


def test_a_stream_is_replayed_to_those_alone_who_name_it() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client, other = await opened.client(), await opened.client()
            session = await client.initialize()
            await calling(client, opened, session)  # stream 1, event 1
            await listening(other, session)
            await standing(opened, 5)  # stream 0, event 2
            back = await opened.client()
            assert [each[0] for each in told(await listening(back, session, "0-1"))] == ["0-2"]

    run(scenario)


def test_what_is_kept_is_bounded_for_a_session_and_for_all() -> None:
    room = ReplayRoom(1000)
    one, two = ReplayLog(room), ReplayLog(room)
    for number in range(100):
        one.keep(STANDING, (note(number),))
    kept = one.missed(STANDING, 0)
    assert 0 < sum(map(len, kept)) <= 1000
    assert kept[-1].startswith(b"id: 0-100\n")
    two.keep(STANDING, (b"x" * 900,))
    assert two.missed(STANDING, 0) == []  # no room is left, and nothing of others is dropped
    one.close()
    assert room.left == 1000
    many = ReplayLog(ReplayRoom())
    for number in range(http_replay.MOST_EVENTS + 5):
        many.keep(STANDING, (b"%d" % number,))
    assert len(many.missed(STANDING, 0)) == http_replay.MOST_EVENTS


def test_an_answer_too_large_to_keep_is_an_error_for_who_comes_back() -> None:
    log = ReplayLog(ReplayRoom())
    large = b"x" * (http_replay.MOST_BYTES + 1)
    assert large in b"".join(log.keep(1, (large,), instead=(b"too large",)))
    assert log.missed(1, 0) == [b"id: 1-1\nevent: message\ndata: too large\n\n"]
