"""The stateless revision, from what a client says to what a server hears, with servers of both kinds behind it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared import inbound

import amounts
from byleave.core.arguments import ArgumentTest, CallArguments
from byleave.core.input_schema import InputSchema
from byleave.gateway.revisions import wrong_annotation
from fakes.mcp_talk import FakeLink, FakeServer, StatelessClient, Talk, Tree

FORM = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {"type": "object"}}}
ALICE = {"action": "accept", "content": {"name": "Alice"}}
REGION: Tree = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


def wanting(server: FakeServer, state: str | None = None) -> None:
    """Have a server of the stateless revision want to know a name first."""

    def call(_link: FakeLink, request: Tree) -> Tree:
        answers = request["params"].get("inputResponses", {})
        if "name" in answers:
            return {"resultType": "complete", "content": [], "structuredContent": {"said": answers}}
        more = {} if state is None else {"requestState": state}
        return {"resultType": "input_required", "inputRequests": {"name": FORM}, **more}

    server.on_call = call


def modern(*tools: str, **more: Any) -> FakeServer:
    return FakeServer(*tools, refuses_handshake=True, **more)


@pytest.mark.parametrize("kind", [{}, {"refuses_handshake": True}])
@pytest.mark.parametrize(
    ("said", "kept"), [({}, 0), ({"ttlMs": 500, "cacheScope": "public"}, 500), ({"ttlMs": -1}, 0), ({"ttlMs": "9"}, 0)]
)
def test_what_is_read_may_be_kept_as_long_as_its_server_says_and_by_nobody_else(
    play: Callable[..., None], kind: Tree, said: Tree, kept: int
) -> None:
    server = FakeServer(**kind)
    server.listed["resources"] = [{"uri": "a://b", "name": "b"}]
    made = server._made  # noqa: SLF001 -- what it says to a read is ours to choose
    server._made = lambda method, params: (  # type: ignore[method-assign] # noqa: SLF001 -- as above
        {"contents": [], **said} if method == "resources/read" else made(method, params)
    )

    async def scene(talk: Talk) -> None:
        read = (await talk.stateless().ask("resources/read", {"uri": "a://b"}))["result"]
        assert read == {"contents": [], "resultType": "complete", "ttlMs": kept, "cacheScope": "private"}
        for method in ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            listed = (await talk.stateless().ask(method))["result"]
            assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")

    play(scene, shop=server)


def test_a_call_is_not_to_be_kept_at_all(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        assert (await talk.stateless().call("shop__a"))["result"].keys() == {
            "content",
            "structuredContent",
            "resultType",
        }

    play(scene, shop=FakeServer("a"))


@pytest.mark.parametrize("method", ["ping", "initialize", "logging/setLevel", "resources/subscribe", "no/such"])
def test_a_method_that_the_revision_does_not_have_is_not_found(play: Callable[..., None], method: str) -> None:
    async def scene(talk: Talk) -> None:
        sink = await talk.stateless().exchange(method)
        assert sink.final is not None
        assert (sink.status, sink.final["error"]["code"]) == (404, -32601)

    play(scene)


def test_an_older_client_may_still_ping(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client()
        await client.begin()
        assert (await client.ask("ping"))["result"] == {}

    play(scene)


def test_a_resource_that_is_not_there_has_the_number_of_the_clients_revision(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client()
        await client.begin()
        asked = {"uri": "c://d"}
        assert (await client.ask("resources/read", asked))["error"]["code"] == -32002
        missing = (await talk.stateless().ask("resources/read", asked))["error"]
        assert (missing["code"], missing["data"]) == (-32602, {"uri": "c://d"})

    play(scene, one=FakeServer(), other=FakeServer())


# ---- What is known beforehand, and what is asked in between --------------------------------------------------------


@pytest.mark.parametrize("state", [None, "half way"])
def test_a_question_of_a_server_goes_to_the_client_and_back_with_the_servers_own_state(
    play: Callable[..., None], state: str | None
) -> None:
    async def scene(talk: Talk) -> None:
        client, server = talk.stateless(elicitation={}), talk.servers["shop"]
        wanting(server, state)
        asked = (await client.call("shop__a"))["result"]
        assert (asked["resultType"], list(asked["inputRequests"])) == ("input_required", ["name"])
        done = await client.call("shop__a", inputResponses={"name": ALICE}, requestState=asked["requestState"])
        assert done["result"]["structuredContent"] == {"said": {"name": ALICE}}
        assert server.calls()[-1].get("requestState") == state

    play(scene, shop=modern("a"))


def test_answers_that_come_with_the_first_call_reach_the_server(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client, server = talk.stateless(elicitation={}), talk.servers["shop"]
        wanting(server)
        more = {"other": ALICE}
        done = await client.call("shop__a", inputResponses={"name": ALICE, **more})
        assert done["result"]["structuredContent"] == {"said": {"name": ALICE, **more}}
        again = await client.call("shop__a", inputResponses=more)
        assert again["result"]["resultType"] == "input_required"
        server.listed["prompts"] = [{"name": "p"}]
        got = await client.ask("prompts/get", {"name": "shop__p", "inputResponses": {"name": ALICE}})
        assert got["result"]["params"]["inputResponses"] == {"name": ALICE}

    play(scene, shop=modern("a"))


def test_but_not_a_server_that_does_not_know_them_nor_one_that_a_person_was_asked_about(
    play: Callable[..., None],
) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.stateless(elicitation={})
        await client.call("old__a", inputResponses={"name": ALICE})
        assert "inputResponses" not in talk.servers["old"].calls()[-1]
        asked = (await client.call("new__a", inputResponses={"name": ALICE}))["result"]
        key = next(iter(asked["inputRequests"]))
        yes = {key: {"action": "accept", "content": {}}, "name": ALICE}
        await client.call("new__a", inputResponses=yes, requestState=asked["requestState"])
        assert [each.get("inputResponses") for each in talk.servers["new"].calls()] == [None]

    ask = {"rules": [{"ask": {"call": {"server": "new"}}}], "agents": {"ops": {"allow": {"servers": ["*"]}}}}
    play(scene, ask, old=FakeServer("a"), new=modern("a"))


@pytest.mark.parametrize("given_", [None, [], 7, "x"])
def test_answers_that_are_no_object_are_refused(play: Callable[..., None], given_: Any) -> None:
    async def scene(talk: Talk) -> None:
        sink = await talk.stateless().exchange("tools/call", {"name": "shop__a", "inputResponses": given_})
        assert sink.final is not None
        assert (sink.status, sink.final["error"]["code"], talk.servers["shop"].calls()) == (400, -32602, [])

    play(scene, shop=modern("a"))


# ---- Headers that repeat arguments ---------------------------------------------------------------------------------


def header_of(server: FakeServer, name: str) -> list[str | None]:
    """Return what a header said in each call that a server got."""
    sent = [each for link in server.links for each in link.sent if each.method == "tools/call"]
    return [dict(each.headers).get(name) for each in sent]


@pytest.mark.parametrize("how", ["stateless", "handshake"])
def test_headers_repeat_arguments_also_when_a_call_goes_on(play: Callable[..., None], how: str) -> None:
    async def scene(talk: Talk) -> None:
        server = talk.servers["shop"]
        wanting(server)
        arguments = {"region": "north"}
        if how == "stateless":
            client: Any = talk.stateless(elicitation={})
            asked = (await client.call("shop__a", arguments))["result"]
            state = asked["requestState"]
            await client.call("shop__a", arguments, inputResponses={"name": ALICE}, requestState=state)
        else:
            client = talk.client(elicitation={})
            client.on_request = lambda _request: {"result": ALICE}
            await client.begin()
            await client.call("shop__a", arguments)
        assert header_of(server, "Mcp-Param-Region") == ["north", "north"]

    play(scene, shop=modern(tools=[{"name": "a", "inputSchema": REGION}]))


WRONG: dict[str, Any] = {
    "empty": {"type": "string", "x-mcp-header": ""},
    "no text": {"type": "string", "x-mcp-header": 7},
    "a space": {"type": "string", "x-mcp-header": "My Region"},
    "a colon": {"type": "string", "x-mcp-header": "a:b"},
    "a tab": {"type": "string", "x-mcp-header": "a\tb"},
    "a letter": {"type": "string", "x-mcp-header": "Région"},
    "a number": {"type": "number", "x-mcp-header": "N"},
    "an object": {"type": "object", "x-mcp-header": "N"},
    "a list": {"type": "array", "items": {"type": "string"}, "x-mcp-header": "N"},
    "null": {"type": "null", "x-mcp-header": "N"},
    "two types": {"type": ["string", "null"], "x-mcp-header": "N"},
    "no type": {"x-mcp-header": "N"},
    "elements": {"type": "array", "items": {"type": "string", "x-mcp-header": "N"}},
    "a choice": {"anyOf": [{"type": "string", "x-mcp-header": "N"}]},
    "deeper": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "two words"}}},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_header_that_breaks_the_rules_is_found(what: str) -> None:
    assert wrong_annotation({"type": "object", "properties": {"b": WRONG[what]}})


def test_two_headers_of_one_name_are_found_and_the_root_has_none() -> None:
    twice = {"b": {"type": "string", "x-mcp-header": "N"}, "c": {"type": "string", "x-mcp-header": "n"}}
    assert wrong_annotation({"type": "object", "properties": twice})
    assert wrong_annotation({"type": "string", "x-mcp-header": "N"})
    assert not wrong_annotation(REGION)
    named = {"type": "object", "properties": {"x-mcp-header": {"type": "array"}}}
    assert not wrong_annotation(named)  # which is the name of an argument
    assert not wrong_annotation({"type": "object", "default": {"x-mcp-header": ""}, "properties": {}})


leaves = st.sampled_from([*WRONG.values(), *REGION["properties"].values(), {"type": "string"}, True, None, []])
words = st.sampled_from(["properties", "items", "anyOf", "$defs", "default", "if", "additionalProperties", "b"])
schemas = st.recursive(
    leaves,
    lambda inner: st.dictionaries(words, st.one_of(inner, st.lists(inner, max_size=2)), max_size=3),
    max_leaves=8,
)


@settings(max_examples=amounts.of(300, 80), deadline=None)
@given(schema=schemas)
def test_headers_are_wrong_where_the_sdk_finds_them_wrong(schema: Any) -> None:
    found = inbound.find_invalid_x_mcp_header(copy.deepcopy(schema))
    assert found is None or wrong_annotation(schema)  # we also look where a schema is no longer one


@pytest.mark.parametrize(
    ("kind", "over_http", "listed"),
    [
        ({"refuses_handshake": True}, True, ["shop__good"]),
        ({"refuses_handshake": True}, False, ["shop__bad", "shop__good"]),
        ({}, True, ["shop__bad", "shop__good"]),
    ],
)
def test_a_tool_with_a_wrong_header_is_none_where_headers_are_sent(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, kind: Tree, *, over_http: bool, listed: list[str]
) -> None:
    monkeypatch.setattr(FakeLink, "sends_headers", over_http, raising=False)

    async def scene(talk: Talk) -> None:
        assert await talk.stateless().names() == listed
        called = await talk.stateless().call("shop__bad")
        assert ("result" in called) == ("shop__bad" in listed)
        assert any("tools of shop are left out: bad (" in note for note in talk.notes) == ("shop__bad" not in listed)

    bad = {"type": "object", "properties": {"b": WRONG["a space"]}}
    tools = [{"name": "bad", "inputSchema": bad}, {"name": "good", "inputSchema": REGION}]
    play(scene, shop=FakeServer(tools=tools, **kind))


def test_null_means_not_given_where_a_header_repeats_the_argument() -> None:
    flag = {"type": "boolean", "x-mcp-header": "Flag", "default": True}
    schema = InputSchema({"type": "object", "properties": {"flag": flag, "plain": {"type": "boolean"}}})
    assert schema.problem({"flag": None}) is None
    assert schema.problem({"plain": None}) == "/plain is not true or false"
    needed = InputSchema({"type": "object", "properties": {"flag": flag}, "required": ["flag"]})
    assert needed.problem({"flag": None}) == "/flag is not true or false"
    test = ArgumentTest("/flag", "equals", True)
    assert test.holds(CallArguments({"flag": None}, schema), granting=False) is True  # as the default is
    assert not test.holds(CallArguments({"flag": None}, schema), granting=True)


def test_a_client_that_declares_nothing_is_asked_nothing(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client: StatelessClient = talk.stateless()
        wanting(talk.servers["shop"])
        refused = (await client.call("shop__a"))["error"]
        assert "elicitation" in refused["message"]

    play(scene, shop=modern("a"))
