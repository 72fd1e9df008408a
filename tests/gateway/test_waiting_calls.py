"""A call that needs approval, of a client that shows no questions, waits for the dashboard while one is open."""

import asyncio
from collections.abc import Callable

from byleave.store.questions import OpenView, Questions
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
