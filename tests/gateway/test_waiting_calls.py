"""A call that needs approval, of a client that shows no questions, waits for the dashboard while one is open."""

import asyncio
from collections.abc import Callable

import pytest

from byleave.gateway import authorize
from byleave.store.questions import Answer, OpenView, Questions
from fakes.asking import answer_first
from fakes.mcp_talk import Talk, Tree

ASKS: Tree = {
    "agents": {"ops": {"allow": {"servers": ["*"]}}},
    "gateway": {"approve": "person"},
    "rules": [{"ask": {"call": {"server": "shop"}}}],
}


def test_an_mcp_call_waits_for_the_dashboard_and_goes_through(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        store = Questions(talk.workspace.approvals.directory)
        client = talk.client()
        await client.begin()
        with OpenView(talk.workspace.homes.state):
            answering = asyncio.create_task(asyncio.to_thread(answer_first, store, "once"))
            result = (await client.call("shop__price"))["result"]
            await answering
            assert not result.get("isError")
            assert len(talk.servers["shop"].calls()) == 1
            answering = asyncio.create_task(asyncio.to_thread(answer_first, store, "no", reason="not today"))
            refused = (await client.call("shop__price"))["result"]
            await answering
            assert "you said no: not today" in refused["structuredContent"]["reason"]
        assert list(store.all()) == []
        waiting = (await client.call("shop__price"))["result"]  # no dashboard is open: as before
        assert "byleave approvals" in waiting["structuredContent"]["reason"]
        assert len(talk.servers["shop"].calls()) == 1

    play(scene, ASKS)


async def question_in(store: Questions) -> str:
    for _ in range(400):
        for question in store.all():
            return question.id
        await asyncio.sleep(0.02)
    raise AssertionError("no question came")


def test_a_cancelled_call_takes_its_question_with_it(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        store = Questions(talk.workspace.approvals.directory)
        client = talk.client()
        await client.begin()
        with OpenView(talk.workspace.homes.state):
            request = {"id": 77, "method": "tools/call", "params": {"name": "shop__price", "arguments": {}}}
            calling = asyncio.create_task(client.tell(request))
            id_ = await question_in(store)
            await client.tell({"method": "notifications/cancelled", "params": {"requestId": 77}})
            await calling
            for _ in range(200):
                if not list(store.all()):
                    break
                await asyncio.sleep(0.02)
            assert not store.answer(Answer(id_, "once", "dashboard"))
            assert talk.servers["shop"].calls() == []
            records = [each for each in talk.records() if each["event"] == "decision"]
            assert records[-1]["answer"]["choice"] == "cancelled"

    play(scene, ASKS)


def test_a_call_waits_less_than_clients_do(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    assert authorize.LONGEST_HOLD <= 50  # they give up after 60 seconds
    monkeypatch.setattr(authorize, "LONGEST_HOLD", 0.3)

    async def scene(talk: Talk) -> None:
        client = talk.client()
        await client.begin()
        with OpenView(talk.workspace.homes.state):
            waiting = (await client.call("shop__price"))["result"]
            assert "it waits in `byleave approvals list`" in waiting["structuredContent"]["reason"]

    play(scene, ASKS)
