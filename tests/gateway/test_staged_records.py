"""Calls under way share writes of the audit log: each is on record before it goes out, and none goes out without."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from byleave.errors import StateError
from byleave.store.audit.journal import AuditJournal
from byleave.store.audit.log import AuditLog
from byleave.store.audit.staging import StagedRecords
from fakes.mcp_talk import OPEN, FakeClient, FakeLink, Talk, Tree

CROWD = 12


async def crowd_of(talk: Talk) -> list[FakeClient]:
    clients = [talk.client() for _ in range(CROWD)]
    for client in clients:
        await client.begin()
        await client.call("shop__close")  # everything is open, and was listed
    return clients


async def calls(clients: list[FakeClient]) -> list[Tree]:
    answers = await asyncio.gather(*(client.call("shop__price", {"n": n}) for n, client in enumerate(clients)))
    return [each["result"] for each in answers]


def about(records: list[Tree], tool: str) -> list[Tree]:
    return [each for each in records if each["action"]["tool"] == tool]


def test_each_call_of_a_crowd_is_on_record_before_its_server_hears_of_it(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        clients = await crowd_of(talk)
        shop, unrecorded = talk.servers["shop"], []
        journal = AuditLog(talk.guard._log.directory)  # type: ignore[attr-defined]  # noqa: SLF001
        echo = shop.on_call

        def on_call(link: FakeLink, request: Tree) -> Tree | None:
            kept = [each.tree for each in journal.texts(0)] if request["params"]["name"] == "price" else []
            given = request["params"]["arguments"]
            if kept and not [each for each in about(kept, "price") if each["action"].get("arguments") == given]:
                unrecorded.append(given)
            return echo(link, request)

        shop.on_call = on_call
        for each in await calls(clients):
            assert not each.get("isError")
        assert unrecorded == []
        records = about(talk.records(), "price")
        decisions = {each["sequence"]: each for each in records if each["event"] == "decision"}
        effects = [each for each in records if each["event"] == "effect"]
        assert (len(decisions), len(effects)) == (CROWD, CROWD)
        assert all(each["of"] in decisions and each["of"] < each["sequence"] for each in effects)
        assert talk.guard.troubles == []

    play(scene)


def test_a_client_that_calls_twice_at_once_has_its_records_in_that_order(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        clients = await crowd_of(talk)
        await asyncio.gather(*(client.call("shop__price", {"n": n}) for client in clients[:3] for n in range(3)))
        given = [each["action"]["arguments"]["n"] for each in about(talk.records(), "price") if "verdict" in each]
        assert given == [0, 1, 2] * 3

    play(scene)


def test_a_write_that_fails_refuses_every_call_that_waits_for_it(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_journal: AuditJournal, _texts: Any) -> int:
        raise StateError("the journal cannot be written: No space left on device", hint="make room")

    async def scene(talk: Talk) -> None:
        clients = await crowd_of(talk)
        before = len(talk.servers["shop"].calls())
        with monkeypatch.context() as patch:
            patch.setattr(AuditJournal, "append_all", full)
            for each in await calls(clients):
                assert each["isError"]
                assert "could not be recorded" in each["content"][0]["text"]
        assert len(talk.servers["shop"].calls()) == before
        for each in await calls(clients):
            assert not each.get("isError")

    play(scene)


def test_a_client_that_is_gone_while_its_record_is_staged_has_not_called(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        clients = await crowd_of(talk)
        tasks = [asyncio.ensure_future(client.call("shop__price", {"n": n})) for n, client in enumerate(clients)]
        await asyncio.sleep(0)
        for task in tasks[3:6]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        heard = [each["arguments"]["n"] for each in talk.servers["shop"].calls() if each["name"] == "price"]
        assert sorted(heard) == [n for n in range(CROWD) if n not in (3, 4, 5)]
        records = about(talk.records(), "price")
        outcomes = {each["of"]: each["outcome"] for each in records if each["event"] == "effect"}
        came_of = {
            each["action"]["arguments"]["n"]: outcomes[each["sequence"]] for each in records if "verdict" in each
        }
        assert {n: came_of[n] for n in (2, 3, 4, 5, 6)} == {
            2: "done",
            **dict.fromkeys((3, 4, 5), "failed: it was cancelled before it began"),
            6: "done",
        }

    play(scene)


def test_a_call_that_its_client_cancels_while_its_record_is_staged_does_not_go_out(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        clients = await crowd_of(talk)
        others = [asyncio.ensure_future(client.call("shop__price", {"n": 1})) for client in clients[1:]]
        request = {"id": 77, "method": "tools/call", "params": {"name": "shop__price", "arguments": {"n": 77}}}
        mine = asyncio.ensure_future(clients[0].tell(request))
        await asyncio.sleep(0)
        await clients[0].tell({"method": "notifications/cancelled", "params": {"requestId": 77}})
        await asyncio.gather(mine, *others)
        assert 77 not in [each.get("arguments", {}).get("n") for each in talk.servers["shop"].calls()]
        assert about(talk.records(), "price")[-1] is not None
        ended = [each["outcome"] for each in about(talk.records(), "price") if each["event"] == "effect"]
        assert sorted(ended) == [*["done"] * (CROWD - 1), "failed: it was cancelled before it began"]

    play(scene)


def test_a_policy_that_denies_by_the_time_the_record_is_kept_holds(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(talk: Talk) -> None:
        clients = await crowd_of(talk)
        before = len(talk.servers["shop"].calls())
        denying: Tree = {**OPEN, "rules": [{"deny": {"call": {"server": "shop", "tool": "price"}}}]}
        other = talk.workspace.compile_tree({**denying, "servers": {"shop": {"command": ["shop"]}}})
        write = StagedRecords.write

        def written(records: StagedRecords) -> None:
            is_theirs = any('"price"' in each.text for each in records._staged)  # noqa: SLF001 -- not what came before
            write(records)
            if is_theirs:
                talk.policy.compiled = other.compiled

        with monkeypatch.context() as patch:
            patch.setattr(StagedRecords, "write", written)
            for each in await calls(clients):
                assert each["isError"]
                assert "denied" in each["content"][0]["text"]
        assert len(talk.servers["shop"].calls()) == before
        records = about(talk.records(), "price")
        outcomes = [each["outcome"] for each in records if each["event"] == "effect"]
        assert set(outcomes) == {"failed: it is denied by now"}
        assert [each["verdict"]["decision"] for each in records if "verdict" in each].count("deny") == CROWD

    play(scene)


def test_what_is_staged_at_the_end_is_on_record(play: Callable[..., None]) -> None:
    kept: list[Talk] = []

    async def scene(talk: Talk) -> None:
        kept.append(talk)
        client = talk.client()
        await client.begin()
        await client.call("shop__price")  # its outcome is staged, and the loop has no turn before the gateway closes

    play(scene)
    log = AuditLog(kept[0].guard._log.directory)  # type: ignore[attr-defined]  # noqa: SLF001
    assert [each.tree["event"] for each in log.texts(0)] == ["decision", "effect"]
