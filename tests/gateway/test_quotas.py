"""Limits of calls by agent, server and tool: in a minute, and open at a time."""

import asyncio
from collections.abc import Callable

import pytest

from byleave.errors import ConfigErrors
from byleave.gateway.quotas import LocalCounter, Quota, Quotas
from byleave.policy.gateway_settings import CallLimit, GatewaySettings
from fakes.mcp_talk import FakeLink, Talk, Tree

OPEN = {"agents": {"ops": {"allow": {"servers": ["*"]}}, "dev": {"allow": {"servers": ["*"]}}}}


def limited(*limits: Tree) -> Tree:
    return {**OPEN, "gateway": {"limits": list(limits)}}


def named(settings: GatewaySettings, *calls: tuple[str | None, str, str | None]) -> list[list[str]]:
    quotas = Quotas(settings)
    return [[each.name for each in quotas.of(*call)] for call in calls]


def test_each_says_what_is_counted_apart() -> None:
    calls = [("a", "shop", "price"), ("b", "shop", "price"), ("a", "shop", "query"), ("a", "mail", "price")]
    for each, apart in [((), 1), (("agent",), 2), (("tool",), 2), (("server",), 2), (("agent", "server", "tool"), 4)]:
        found = named(GatewaySettings(limits=(CallLimit(each=each, rate=1),)), *calls)
        assert len({name for (name,) in found}) == apart


def test_a_limit_is_about_what_its_patterns_match() -> None:
    limit = CallLimit(agent="ci-*", server="shop", tool="get_*", rate=1)
    about = [
        limit.covers(*call) for call in [("ci-1", "shop", "get_x"), ("dev", "shop", "get_x"), (None, "shop", "get_x")]
    ]
    about += [
        limit.covers(*call) for call in [("ci-1", "mail", "get_x"), ("ci-1", "shop", "set"), ("ci-1", "shop", None)]
    ]
    assert about == [True, False, False, False, False, False]
    assert CallLimit(rate=1).covers(None, "shop", None)


def test_a_call_is_taken_from_all_its_limits_or_from_none() -> None:
    counter, wide, narrow = LocalCounter(), Quota("wide", 10.0), Quota("narrow", 1.0)
    assert counter.take_at([wide, narrow], 0.0) is None
    for _ in range(20):
        assert counter.take_at([wide, narrow], 0.0) == (1, 60.0)
    assert [counter.take_at([wide], 0.0) for _ in range(9)] == [None] * 9
    assert counter.take_at([wide], 0.0) == (0, 6.0)


def test_made_up_names_of_tools_share_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byleave.gateway.limits._MOST", 10)
    settings = GatewaySettings(limits=(CallLimit(each=("tool",), max_calls=1),))
    found = named(settings, *[("a", "shop", f"tool-{number}") for number in range(100)])
    assert len({name for (name,) in found}) == 11


def test_a_refused_call_says_which_limit_and_when_to_come_back(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client, other = talk.client("ops"), talk.client("dev")
        for each in (client, other):
            await each.begin()
        assert [("error" in await client.call("shop__price")) for _ in range(3)] == [False, False, True]
        error = (await client.call("shop__price"))["error"]
        assert error["message"] == (
            "this agent calls more often than 2 times a minute, the limit of agent = ops, server = shop, tool = pr*"
        )
        assert error["data"]["limit"] == "agent = ops, server = shop, tool = pr*"
        assert 0 < error["data"]["retryAfter"] <= 30
        assert "result" in await client.call("shop__query")
        assert "result" in await other.call("shop__price")

    play(scene, limited({"agent": "ops", "server": "shop", "tool": "pr*", "rate": 2}))


def test_open_calls_of_a_server_are_limited_and_their_end_frees_the_place(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop, clients = talk.servers["shop"], [talk.client("ops"), talk.client("dev")]
        for each in clients:
            await each.begin()
            await each.names()
        answer, waiting = shop.on_call, []
        shop.on_call = lambda link, request: waiting.append((link, request))
        calling = [asyncio.create_task(clients[number].call("shop__price", {"n": number})) for number in range(2)]
        await shop.called()
        while len(waiting) < 2:  # noqa: ASYNC110 -- what is heard comes in a plain list
            await asyncio.sleep(0.001)
        refused = (await clients[0].call("shop__price"))["error"]
        assert refused["message"] == "2 calls are open, the limit of server = shop"
        assert refused["data"] == {"retryAfter": 1.0, "limit": "server = shop"}
        calling[0].cancel()
        await asyncio.gather(calling[0], return_exceptions=True)
        shop.on_call = answer
        assert "result" in await clients[0].call("shop__price")
        link, request = waiting[1]
        assert isinstance(link, FakeLink)
        link.say({"id": request["id"], "result": answer(link, request)})
        assert "result" in await calling[1]

    play(scene, limited({"server": "shop", "each": [], "max_calls": 2}))


@pytest.mark.parametrize(
    ("limit", "problem"),
    [({"server": "shop"}, "this limits nothing"), ({"tool": "[", "rate": 1}, "is not closed")],
)
def test_a_limit_that_cannot_be_meant_is_refused(play: Callable[..., None], limit: Tree, problem: str) -> None:
    async def scene(_talk: Talk) -> None:
        raise AssertionError("the policy was taken")

    with pytest.raises(ConfigErrors) as caught:
        play(scene, limited(limit))
    assert problem in str(caught.value)
