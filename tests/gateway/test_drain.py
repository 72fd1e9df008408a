"""A gateway that is to end: balancers see it, open calls end first, and standing streams go elsewhere."""

import asyncio
import sys
from pathlib import Path

import pytest

from byleave.cli.mcp_command import event_loop
from byleave.errors import InputError
from fakes.mcp_front import run, scene, until
from gateway.test_replicas import ANN, begun, pair

CALL = b'{"jsonrpc":"2.0","id":1,"method":"wait"}'


def test_open_calls_end_and_no_session_begins() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client, other = await opened.client(), await opened.client()
            session = await client.initialize()
            await client.send(client.request("POST", "/mcp", CALL, mcp_session_id=session, accept="application/json"))
            await opened.gateway.waiting.wait()
            assert (await other.ask("GET", "/ready")).status == 200
            draining = asyncio.create_task(opened.front.drain())
            await asyncio.sleep(0)
            ready = await other.ask("GET", "/ready")
            assert (ready.status, ready.tree["why"]) == (503, "the gateway is ending here")
            assert (await other.ask("GET", "/health")).status == 200
            refused = await other.call("initialize", {})
            assert (refused.status, refused.fields["retry-after"]) == (503, "1")
            assert (await other.ask("GET", "/sse")).status == 503
            assert (await other.call("x", {}, mcp_session_id=session)).status == 200  # sessions go on
            assert not draining.done()
            opened.gateway.go_on.set()
            assert (await client.response()).status == 200
            await draining

    run(scenario)


def test_a_call_that_does_not_end_is_not_waited_for_without_end() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            await client.send(client.request("POST", "/mcp", CALL, mcp_session_id=session))
            await opened.gateway.waiting.wait()
            async with asyncio.timeout(5):
                await opened.front.drain(seconds=0.05)
            assert not opened.gateway.cancelled.is_set()

    run(scenario)


def test_a_standing_stream_ends_with_when_to_come_back() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            await client.send(client.request("GET", "/mcp", b"", mcp_session_id=session))
            await client.head()
            await opened.front.drain()
            pieces = b"".join([piece async for piece in client.chunks()])
            assert pieces.endswith(b"\n\n")
            assert 500 <= int(pieces.rpartition(b"retry: ")[2]) < 1000
            assert opened.front.session_count == 1

    run(scenario)


def test_a_stream_through_a_replica_that_ends_goes_on_at_another() -> None:
    async def scenario() -> None:
        async with pair() as two:
            client, session = await begun(two)
            words = {"mcp_session_id": session, "authorization": ANN}
            await client.send(client.request("GET", "/mcp", b"", **words))
            await client.head()
            await two.other.front.drain()
            assert b"retry: " in b"".join([piece async for piece in client.chunks()])
            talk = two.owner.gateway.talks[0]
            await until(lambda: talk.standing is not None and not talk.standing.is_open())
            back = await two.owner.client()
            await back.send(back.request("GET", "/mcp", b"", **words))
            assert (await back.head())[0] == 200
            assert talk.standing is not None
            await talk.standing.send(b'{"jsonrpc":"2.0","method":"notifications/one"}')
            assert (await back.event())["method"] == "notifications/one"

    run(scenario)


def test_the_event_loop_is_that_of_the_library_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert event_loop({"BYLEAVE_LOOP": "asyncio"}) is None
    with pytest.raises(InputError, match="BYLEAVE_LOOP"):
        event_loop({"BYLEAVE_LOOP": "twisted"})
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop({}) is None
    with pytest.raises(InputError, match="not here"):
        event_loop({"BYLEAVE_LOOP": "uvloop"})
    monkeypatch.setitem(sys.modules, "uvloop", Path)  # anything that has the name, as a module would
    monkeypatch.setattr(Path, "new_event_loop", asyncio.new_event_loop, raising=False)
    assert event_loop({}) is asyncio.new_event_loop
