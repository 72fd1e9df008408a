"""Where records and approvals may take seconds, no call waits for them on the event loop: others go on meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from byleave.gateway.limits import RefusalLog
from byleave.store.approvals import Approvals
from byleave.store.audit.log import AuditLog
from byleave.store.audit.staging import StagedRecord
from fakes.mcp_talk import FakeServer, Talk, Tree

RULES = [{"ask": {"call": {"server": "shop", "tool": name}}} for name in ("query", "close")]
POLICY: Tree = {
    "agents": {"ops": {"allow": {"servers": ["*"]}, "deny": {"tools": {"shop": ["secret"]}}}},
    "rules": RULES,
}
FORM: Any = {"elicitation": {}}


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was waited for on an event loop, with a store of which every part may take seconds."""
    found: list[str] = []

    def watched(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def do(*words: Any, **named: Any) -> Any:
            try:
                asyncio.get_running_loop()
                found.append(name)
            except RuntimeError:
                pass
            return work(*words, **named)

        return do

    monkeypatch.setattr(AuditLog, "may_wait", True)
    monkeypatch.setattr(Approvals, "may_wait", True)
    monkeypatch.setattr(AuditLog, "append", watched("append", AuditLog.append))
    for name in ("approved_by", "spend", "remember"):
        monkeypatch.setattr(Approvals, name, watched(name, getattr(Approvals, name)))
    return found


def test_replies_and_refusals_by_the_gateway_are_not_waited_for_on_the_loop(
    play: Callable[..., None], blocked: list[str]
) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client(**FORM)
        await client.begin()
        reply: Tree = {"action": "accept", "content": {"scope": "session"}}
        client.on_request = lambda _asked: {"result": reply}
        assert not (await client.call("shop__query"))["result"].get("isError")
        assert not (await client.call("shop__query"))["result"].get("isError")  # by the earlier reply
        reply = {"action": "decline"}
        assert (await client.call("shop__close"))["result"]["isError"]
        mute = talk.client()  # shows no forms: its call waits among the approvals
        await mute.begin()
        waiting = (await mute.call("shop__close"))["result"]
        assert "byleave approvals" in waiting["structuredContent"]["reason"]
        assert (await mute.call("shop__price", {"wrong": 1}))["result"]["isError"]
        RefusalLog(talk.guard.record_refusal).note("rate", "", "ops", 0.0)
        await asyncio.sleep(0)
        assert blocked == []
        choices = [each.get("answer", {}).get("choice") for each in talk.records() if each["event"] == "decision"]
        assert choices == ["session", "before", "no", "elsewhere", None]
        assert [each["refused"]["why"] for each in talk.records() if each["event"] == "refused"] == ["rate"]

    shop = FakeServer("price", "query", "close", "secret")
    shop.tools[0]["inputSchema"] = {"type": "object", "properties": {"n": {}}, "additionalProperties": False}
    play(scene, POLICY, shop=shop)


def test_a_caller_that_is_gone_while_its_record_is_written_leaves_the_loop_free_and_the_log_says_so(
    play: Callable[..., None], blocked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written, kept = asyncio.Event(), StagedRecord.kept

    async def late(staged: StagedRecord) -> int:
        if "price" in staged.text:
            await written.wait()
        return await kept(staged)

    async def scene(talk: Talk) -> None:
        client = talk.client()
        await client.begin()
        await client.call("shop__secret")
        monkeypatch.setattr(StagedRecord, "kept", late)
        calling = asyncio.create_task(client.call("shop__price"))
        await asyncio.sleep(0.05)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        written.set()
        for _ in range(50):
            await asyncio.sleep(0.01)
            effects = [each for each in talk.records() if each["event"] == "effect"]
            if effects:
                break
        assert [each["outcome"] for each in effects] == ["failed: it was cancelled before it began"]
        assert [each["name"] for each in talk.servers["shop"].calls()] == []
        assert blocked == []

    play(scene, POLICY, shop=FakeServer("price", "secret"))
