"""What a gateway has answered, read or kept before is no answer to what comes after a change."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace
from byleave.store.approvals import APPROVED
from fakes.mcp_talk import OPEN, FakeClient, Talk, Tree

SHOP: Tree = {"servers": {"shop": {"command": ["shop"]}}}
ASK: Tree = {**OPEN, "rules": [{"ask": {"call": {"server": "shop", "tool": "query"}}}]}
NOW = "2026-01-01T00:00:00Z"


def changed(talk: Talk, tree: Tree) -> None:
    """Have another policy, as a changed file would."""
    other = talk.workspace.compile_tree({**tree, **SHOP})
    talk.policy._source = other._source  # noqa: SLF001 -- it is compiled again when approvals have changed
    talk.policy.compiled = other.compiled


async def begun(talk: Talk, agent: str = "ops") -> FakeClient:
    """Return a client whose calls went through, more than once."""
    client = talk.client(agent)
    await client.begin()
    for _ in range(3):
        assert await is_done(client)
    return client


async def is_done(client: FakeClient, tool: str = "price", **arguments: Any) -> bool:
    """Whether a call goes through."""
    answer = await client.call(f"shop__{tool}", arguments)
    return "error" not in answer and not answer["result"].get("isError")


DENIALS: dict[str, Tree] = {
    "a rule denies the tool": {**OPEN, "rules": [{"deny": {"call": {"server": "shop", "tool": "price"}}}]},
    "a rule asks about the tool": {**OPEN, "rules": [{"ask": {"call": {"server": "shop", "tool": "price"}}}]},
    "the agent's list denies the tool": {
        "agents": {"ops": {"allow": {"servers": ["*"]}, "deny": {"tools": {"shop": ["pr*"]}}}}
    },
    "the agent's list does not name the server": {"agents": {"ops": {"allow": {"servers": ["other"]}}}},
    "the agent is gone": {"agents": {"someone": {"allow": {"servers": ["*"]}}}},
}


@pytest.mark.parametrize("tree", DENIALS.values(), ids=DENIALS)
def test_a_policy_that_changes_between_two_calls_decides_the_second(play: Callable[..., None], tree: Tree) -> None:
    async def scene(talk: Talk) -> None:
        client, stateless = await begun(talk), talk.stateless()
        assert await is_done(stateless)
        changed(talk, tree)
        before = len(talk.servers["shop"].calls())
        assert not await is_done(client)
        assert not await is_done(stateless)
        assert len(talk.servers["shop"].calls()) == before
        changed(talk, OPEN)
        assert await is_done(client)

    play(scene)


def test_a_rule_about_an_argument_that_changes_holds_for_the_next_call(play: Callable[..., None]) -> None:
    def tree(pointer: str) -> Tree:
        return {**OPEN, "rules": [{"deny": {"call": {"server": "shop", "arg": pointer, "equals": "x"}}}]}

    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        for _ in range(2):
            assert not await is_done(client, a="x")
            assert await is_done(client, b="x")
        changed(talk, tree("/b"))
        assert await is_done(client, a="x")
        assert not await is_done(client, b="x")
        assert await is_done(client, b="y")

    play(scene, tree("/a"))


def test_two_agents_with_different_rules_never_get_each_others_answers(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        ops, guest = talk.client("ops"), talk.client("guest")
        await ops.begin()
        await guest.begin()
        for _ in range(3):
            assert [await is_done(ops), await is_done(guest)] == [True, False]
            assert [await is_done(ops, "close"), await is_done(guest, "close")] == [False, True]
        both = await asyncio.gather(*(is_done(each) for _ in range(5) for each in (ops, guest)))
        assert both == [True, False] * 5
        decided = [(each["agent"], each["verdict"]["decision"]) for each in talk.records() if "verdict" in each]
        assert {agent for agent, _decision in decided} == {"ops", "guest"}

    lists = {"ops": ["close"], "guest": ["price"]}
    agents = {name: {"allow": {"servers": ["*"]}, "deny": {"tools": {"shop": deny}}} for name, deny in lists.items()}
    play(scene, {"agents": agents})


def test_an_approval_that_is_revoked_counts_for_no_further_call(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client()
        await client.begin()
        assert not await is_done(client, "query", sql="x")
        (waiting,) = [each for each in talk.workspace.approvals.all() if "query" in each.subject and each.asked]
        assert talk.workspace.approvals.settle_action(waiting.detail["key"], status=APPROVED, now=NOW)
        assert [await is_done(client, "query", sql="x") for _ in range(3)] == [True] * 3
        assert not await is_done(client, "query", sql="y")
        (approved,) = [
            each for each in talk.workspace.approvals.all() if each.detail.get("key") == waiting.detail["key"]
        ]
        assert talk.workspace.approvals.revoke(approved, now=NOW)
        assert not await is_done(client, "query", sql="x")

    play(scene, ASK)


def test_a_definition_that_is_revoked_is_not_called_again(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        pins = talk.gateway.context.pin_store
        (pinned,) = [each for each in talk.workspace.approvals.all() if each.subject == "shop/price"]
        assert talk.workspace.approvals.revoke(pinned, now=NOW)
        pins.known("shop", ())  # looks at the file now, as it does by itself after a moment
        assert not await is_done(client)
        assert await is_done(client, "close")

    play(scene)


def test_a_file_of_the_policy_that_changes_and_a_trust_that_is_revoked_hold_for_the_next_call(
    play: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's file opens nothing; the project's file does, as long as it is trusted and says so."""
    project = tmp_path / "ws" / "byleave.toml"
    allowing = '[servers.shop]\ncommand = ["shop"]\n[agents.ops]\nallow.servers = ["*"]\n'

    def written(text: str) -> None:
        project.parent.mkdir(exist_ok=True)
        project.write_text(text)
        os.utime(project, (time.time() - 60,) * 2)  # it is whole

    def trusted(workspace: Workspace) -> None:
        [layer] = [each for each in workspace.load().compiled.layers if each.file == project.name]
        workspace.approvals.trust(workspace.print_of(project.name, layer.content, layer.tree), now=NOW)

    def loaded(workspace: Workspace, _tree: Tree) -> LivePolicy:
        trusted(workspace)
        return workspace.load()

    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        written(allowing + 'deny.tools.shop = ["price"]\n')
        trusted(talk.workspace)
        talk.policy.expire()
        assert not await is_done(client)
        assert await is_done(client, "close")
        assert talk.workspace.approvals.untrust(project.name)
        talk.policy.expire()
        assert not await is_done(client, "close")

    written(allowing)
    monkeypatch.setattr(Workspace, "compile_tree", loaded)
    play(scene)
