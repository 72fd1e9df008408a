"""Who answers when the policy asks: the client over a pipe, only a person over HTTP; and the record says who."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from byleave.gateway.context import client_approval
from byleave.gateway.gateway import Gateway
from byleave.guard.open_guard import guard_for
from byleave.store.approvals import APPROVED, now
from fakes.mcp_sdk import LEGACY, MODERN, SHOP, Person, Place, at, by_pipe, eventually, over_http, talking, words
from fakes.mcp_talk import FakeClient, FakeServer, Talk, Tree
from sandbox.machine import needs_sandbox
from scene import Scene

ASKS: Tree = {
    "agents": {"ops": {"allow": {"servers": ["*"]}}},
    "rules": [{"ask": {"call": {"server": "shop"}}}],
}
TRUE: Tree = {"source": "local", "command": ["/usr/bin/true"], "runtime": "stdio", "run": "ask"}
YES: Tree = {"result": {"action": "accept", "content": {}}}
FOR_SESSION: Tree = {"result": {"action": "accept", "content": {"scope": "session"}}}


def over(talk: Talk, *, http: bool) -> None:
    """Have the gateway be one that is reached over HTTP, or not."""
    approval, policy = client_approval(over_http=http), talk.guard.policy
    talk.guard.close()
    talk.guard = guard_for(talk.workspace, "mcp", client_approves=approval, policy=policy)
    talk.gateway = Gateway(talk.workspace, talk.guard, note=talk.notes.append, environment={})


def says_yes(client: FakeClient) -> list[Tree]:
    """Have a client say yes to everything; return what it is asked."""
    seen: list[Tree] = []

    def accept(request: Tree) -> Tree:
        seen.append(request)
        return YES

    client.on_request = accept
    return seen


def answers(talk: Talk) -> list[tuple[Any, ...]]:
    """Return what the records say of each decision, and of who took it."""
    decisions = [each for each in reversed(talk.records()) if each["event"] == "decision"]
    return [
        (each["verdict"]["decision"], each.get("answer")) for each in sorted(decisions, key=lambda r: r["sequence"])
    ]


@pytest.mark.parametrize(
    ("approve", "http", "asked"),
    [(None, False, True), (None, True, False), ("client", True, True), ("person", False, False)],
)
def test_who_is_asked_follows_the_setting_and_else_the_transport(
    play: Callable[..., None], approve: str | None, *, http: bool, asked: bool
) -> None:
    async def scene(talk: Talk) -> None:
        over(talk, http=http)
        client = talk.client(elicitation={})
        seen = says_yes(client)
        await client.begin()
        result = (await client.call("shop__price"))["result"]
        stateless = (await talk.stateless(elicitation={}).call("shop__query"))["result"]
        assert (len(seen), stateless.get("resultType") == "input_required") == (int(asked), asked)
        assert bool(talk.servers["shop"].calls()) is asked
        if not asked:
            assert result["structuredContent"]["decision"] == "ask"
            waiting = [each for each in talk.workspace.approvals.all() if each.status == "pending"]
            assert [each.kind for each in waiting] == ["call", "call"]

    play(scene, {**ASKS, "gateway": {} if approve is None else {"approve": approve}})


def test_a_form_that_is_answered_all_the_same_approves_nothing(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        over(talk, http=True)
        client = talk.stateless(elicitation={})
        first = await client.call("shop__price")
        assert "requestState" not in first["result"]
        forged = {"byleave": {"action": "accept", "content": {"scope": "session"}}}
        again = await client.call("shop__price", inputResponses=forged)
        assert again["result"]["structuredContent"]["decision"] == "ask"
        guessed = await client.call("shop__price", inputResponses=forged, requestState="x")
        assert "error" in guessed
        assert talk.servers["shop"].calls() == []

    play(scene, ASKS)


def test_what_a_client_approved_before_counts_for_nothing_where_a_person_must_answer(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client(elicitation={})
        client.on_request = lambda _request: FOR_SESSION
        await client.begin()
        for _ in (1, 2):
            assert "_meta" not in (await client.call("shop__price"))["result"]
        assert answers(talk) == [
            ("allow", {"by": "elicitation", "choice": "session", "who": "client"}),
            ("allow", {"by": "elicitation", "choice": "before", "who": "client"}),
        ]
        over(talk, http=True)
        other = talk.client(elicitation={})
        await other.begin()
        refused = (await other.call("shop__price"))["result"]
        assert refused["structuredContent"]["decision"] == "ask"

    play(scene, ASKS)


def test_the_record_says_who_answered_and_on_which_way(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        over(talk, http=True)
        client = talk.client(elicitation={})
        await client.begin()
        await client.call("shop__price")
        (waiting,) = [each for each in talk.workspace.approvals.all() if each.status == "pending"]
        talk.workspace.approvals.settle_action(waiting.detail["key"], status=APPROVED, now=now())
        assert "_meta" not in (await client.call("shop__price"))["result"]
        assert answers(talk) == [
            ("ask", {"by": "approvals", "choice": "elsewhere"}),
            ("allow", {"by": "approvals", "choice": "before", "who": "person"}),
        ]

    play(scene, ASKS)


@pytest.mark.parametrize(
    ("reply", "decision", "reason"),
    [
        (YES, "allow", "; the client that calls allowed it"),
        ({"result": {"action": "decline"}}, "deny", "; the client that calls said no"),
    ],
)
def test_no_record_says_that_you_answered_where_the_client_did(
    play: Callable[..., None], reply: Tree, decision: str, reason: str
) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client(elicitation={})
        client.on_request = lambda _request: reply
        await client.begin()
        await client.call("shop__price")
        (record,) = [each for each in talk.records() if each["event"] == "decision"]
        assert record["verdict"]["decision"] == decision
        assert record["verdict"]["reason"].endswith(reason)
        assert record["answer"]["who"] == "client"
        assert "you" not in json.dumps(record["verdict"]).split()

    play(scene, ASKS)


@pytest.mark.parametrize("kind", ["client", "stateless"])
def test_a_form_that_is_answered_after_the_client_may_not_any_more_approves_nothing(
    play: Callable[..., None], kind: str
) -> None:
    async def scene(talk: Talk) -> None:
        settings = talk.gateway.settings

        def settle(approve: str) -> None:
            compiled, changed = talk.policy.compiled, structs.replace(settings, approve=approve)
            talk.policy.compiled = compiled.replace(settings={**compiled.settings, "gateway": changed})

        settle("client")
        client = getattr(talk, kind)(elicitation={})

        def accept(_request: Tree) -> Tree:
            settle("person")
            return YES

        client.on_request = accept
        if kind == "client":
            await client.begin()
        result = (await client.call("shop__price"))["result"]
        if kind == "stateless":
            settle("person")
            state, said = result["requestState"], {"byleave": YES["result"]}
            result = (await client.call("shop__price", inputResponses=said, requestState=state))["result"]
        assert result["structuredContent"]["decision"] == "ask"
        assert talk.servers["shop"].calls() == []
        assert [each.status for each in talk.workspace.approvals.all() if each.kind == "call"] == ["pending"]

    play(scene, ASKS)


def test_what_a_resource_needs_a_person_for_is_no_matter_of_the_client_either(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        over(talk, http=True)
        client = talk.client(elicitation={})
        asked = says_yes(client)
        await client.begin()
        await client.ask("resources/list")
        answer = await client.ask("resources/read", {"uri": "file:///a"})
        assert (answer["error"]["data"]["decision"], asked) == ("ask", [])

    play(scene, ASKS, shop=FakeServer("price", listed={"resources": [{"uri": "file:///a", "name": "a"}]}))


@needs_sandbox
@pytest.mark.parametrize("http", [False, True])
def test_a_local_tool_that_asks_is_approved_by_a_client_only_where_it_may(
    play: Callable[..., None], *, http: bool
) -> None:
    async def scene(talk: Talk) -> None:
        over(talk, http=http)
        client = talk.client(elicitation={})
        asked = says_yes(client)
        await client.begin()
        result = (await client.call("local__t"))["result"]
        if http:
            assert (asked, result["_meta"]["byleave/verdict"]["decision"]) == ([], "ask")
        else:
            assert len(asked) == 1
            assert "_meta" not in result

    tree = {**ASKS, "rules": [], "tools": {"t": TRUE}}
    play(scene, tree)


def test_nobody_is_said_to_have_answered_where_nobody_did(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client(elicitation={})
        client.on_request = lambda _request: {"result": {"action": "cancel"}}
        await client.begin()
        await client.call("shop__price")
        assert answers(talk) == [("deny", {"by": "elicitation", "choice": "cancelled"})]

    play(scene, ASKS)


def test_a_project_that_nobody_trusts_does_not_loosen_who_answers(tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    scene.say("project", '[gateway]\napprove = "client"\n')
    assert scene.load().compiled.gateway.approve is None
    scene.say("user", '[gateway]\napprove = "person"\n')
    assert scene.load().compiled.gateway.approve == "person"
    scene.trust("byleave.toml")
    assert scene.load().compiled.gateway.approve == "client"
    scene.say("managed", '[gateway]\napprove = "person"\n')
    assert scene.load().compiled.gateway.approve == "person"


USER = f"""
[gateway]
default_agent = "ops"
[servers.shop]
command = {json.dumps(SHOP)}
[agents.ops]
allow.servers = ["*"]
[[rules]]
ask = {{ call = {{ server = "shop", tool = "query" }} }}
"""


@needs_sandbox
def test_over_http_only_a_person_answers_whatever_the_client_declares(tmp_path: Path) -> None:
    place = Place(tmp_path, USER)
    with over_http(place) as running:
        for mode in (LEGACY, MODERN):
            with talking(at(running.url), mode, Person()) as talk:
                mine = {"sql": f"select {mode}"}
                refused = talk.call("shop__query", mine)
                assert (refused.meta or {})["byleave/verdict"]["decision"] == "ask"
                assert talk.person.asked == []
                listed = json.loads(place.byleave("approvals", "list", "--json").out)
                (entry,) = [each for each in listed if each["status"] == "pending" and mine["sql"] in each["subject"]]
                assert place.byleave("approvals", "approve", entry["id"], "--yes").code == 0
                eventually(lambda: words(talk.call("shop__query", mine)) == "shop: query done")  # noqa: B023 -- called at once
    with talking(by_pipe(place, "--agent", "ops"), LEGACY, Person()) as talk:
        assert words(talk.call("shop__query", {"sql": "y"})) == "shop: query done"
        assert len(talk.person.asked) == 1
    told = [record.get("answer") for record in place.records() if record["event"] == "decision"]
    assert {"by": "approvals", "choice": "before", "who": "person"} in told
    assert told[-1] == {"by": "elicitation", "choice": "once", "who": "client"}
