"""Clients and servers of either kind, in each of the four ways to put them together: what passes between them."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from byleave.gateway.interfaces import MessageContext
from fakes.mcp_talk import FakeClient, FakeLink, FakeServer, FakeSink, Talk, Tree

FOUR = pytest.mark.parametrize(
    ("stateless_client", "stateless_server"), [(False, False), (False, True), (True, False), (True, True)]
)
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
WISHES: dict[str, tuple[str, Tree, Tree]] = {
    "elicitation": (
        "elicitation/create",
        {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
        {"action": "accept", "content": {"name": "Alice"}},
    ),
    "sampling": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 9},
        {"role": "assistant", "content": {"type": "text", "text": "ho"}, "model": "m"},
    ),
    "roots": ("roots/list", {}, {"roots": [{"uri": "file:///a"}]}),
}


def server_of(kind: bool, *tools: str) -> FakeServer:  # noqa: FBT001 -- as the table above says it
    server = FakeServer(*tools, refuses_handshake=kind)
    server.abilities = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")} | {"logging": {}}
    return server


async def client_of(talk: Talk, kind: bool, **capabilities: Any) -> FakeClient:  # noqa: FBT001 -- as above
    if kind:
        return talk.stateless(**capabilities)
    client = talk.client(**capabilities)
    await client.begin()
    return client


@FOUR
def test_progress_comes_under_the_clients_own_token(
    play: Callable[..., None], *, stateless_client: bool, stateless_server: bool
) -> None:
    def call(link: FakeLink, request: Tree) -> Tree:
        token = request["params"]["_meta"]["progressToken"]
        for done in (1, 2):
            link.say({"method": "notifications/progress", "params": {"progressToken": token, "progress": done}})
        return {"content": []}

    async def scene(talk: Talk) -> None:
        client = await client_of(talk, stateless_client)
        sink = await client.exchange("tools/call", {"name": "shop__a", "_meta": {"progressToken": "mine"}})
        assert [each["params"] for each in sink.messages] == [
            {"progressToken": "mine", "progress": 1},
            {"progressToken": "mine", "progress": 2},
        ]

    server = server_of(stateless_server, "a")
    server.on_call = call
    play(scene, shop=server)


@FOUR
def test_a_call_that_is_given_up_is_given_up_at_the_server(
    play: Callable[..., None], *, stateless_client: bool, stateless_server: bool
) -> None:
    async def scene(talk: Talk) -> None:
        client, server = await client_of(talk, stateless_client), talk.servers["shop"]
        calling = asyncio.create_task(client.exchange("tools/call", {"name": "shop__a"}))
        await server.called()
        if stateless_client:
            calling.cancel()  # as when its stream is closed
        else:
            await client.tell({"method": "notifications/cancelled", "params": {"requestId": 2}})
        await asyncio.wait([calling])
        link = server.links[-1]
        while not link.abandoned:  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.001)
        given_up = next(each for each in server.heard if each.get("method") == "notifications/cancelled")
        asked = next(each for each in server.heard if each.get("method") == "tools/call")
        assert given_up["params"]["requestId"] == asked["id"] == link.abandoned[-1]

    server = server_of(stateless_server, "a")
    server.on_call = lambda _link, _request: None
    play(scene, shop=server)


def test_over_http_the_newer_revision_has_no_message_for_that(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeLink, "sends_headers", True, raising=False)

    async def scene(talk: Talk) -> None:
        client, server = talk.stateless(), talk.servers["shop"]
        calling = asyncio.create_task(client.exchange("tools/call", {"name": "shop__a"}))
        await server.called()
        calling.cancel()
        await asyncio.wait([calling])
        while not server.links[-1].abandoned:  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.001)
        assert "notifications/cancelled" not in server.methods()

    server = server_of(True, "a")
    server.on_call = lambda _link, _request: None
    play(scene, shop=server)


@FOUR
@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
def test_a_list_that_changes_is_told_of(
    play: Callable[..., None], kind: str, *, stateless_client: bool, stateless_server: bool
) -> None:
    method = f"notifications/{kind}/list_changed"

    async def scene(talk: Talk) -> None:
        client, server = await client_of(talk, stateless_client), talk.servers["shop"]
        sink: FakeSink = client.aside
        listening = None
        if stateless_client:
            sink = FakeSink()
            listening = asyncio.create_task(listen(client, sink, f"{kind}ListChanged"))
        await client.names()
        if stateless_server:
            while "subscriptions/listen" not in server.methods():  # noqa: ASYNC110 -- nobody tells
                await asyncio.sleep(0.001)
        server.links[-1].say({"method": method})
        while not any(each.get("method") == method for each in sink.messages):  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.001)
        if stateless_client:
            assert next(each for each in sink.messages if each["method"] == method)["params"]["_meta"][SUBSCRIPTION]
        if listening is not None:
            listening.cancel()
            await asyncio.wait([listening])

    play(scene, shop=server_of(stateless_server, "a"))


async def listen(client: FakeClient, sink: FakeSink, what: str) -> None:
    """Have a stateless client hear of changes there."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": client.capabilities,
    }
    params = {"notifications": {what: True}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": "listening", "method": "subscriptions/listen", "params": params}
    await client.session.handle(msgspec.json.encode(message), sink, MessageContext())


def asking(server: FakeServer, method: str, params: Tree, *, stateless: bool) -> None:
    """Have a server want something of the client before it answers a call, in the way of its revision."""
    waiting: dict[str, tuple[FakeLink, str]] = {}

    def call(link: FakeLink, request: Tree) -> Tree | None:
        if stateless:
            answers = request["params"].get("inputResponses", {})
            if "w" in answers:
                return {"resultType": "complete", "content": [], "structuredContent": {"got": answers["w"]}}
            return {"resultType": "input_required", "inputRequests": {"w": {"method": method, "params": params}}}
        waiting["q"] = link, request["id"]
        link.say({"id": "q", "method": method, "params": params})
        asyncio.get_running_loop().create_task(finish())
        return None

    async def finish() -> None:
        while not any(each.get("id") == "q" for each in server.heard):  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.001)
        got = next(each for each in server.heard if each.get("id") == "q")
        link, id_ = waiting["q"]
        link.say({"id": id_, "result": {"content": [], "structuredContent": {"got": got.get("result")}}})

    server.on_call = call


@FOUR
@pytest.mark.parametrize("wish", WISHES)
def test_what_a_server_wants_of_the_client_goes_there_and_back(
    play: Callable[..., None], wish: str, *, stateless_client: bool, stateless_server: bool
) -> None:
    method, params, answer = WISHES[wish]

    async def scene(talk: Talk) -> None:
        client = await client_of(talk, stateless_client, **{wish: {}})
        if stateless_client:
            asked = (await client.call("shop__a"))["result"]
            assert asked["resultType"] == "input_required"
            (key, question), *others = asked["inputRequests"].items()
            assert not others
            done = await client.call("shop__a", inputResponses={key: answer}, requestState=asked["requestState"])
        else:
            seen: list[Tree] = []

            def answering(request: Tree) -> Tree:
                seen.append(request)
                return {"result": answer}

            client.on_request = answering
            done = await client.call("shop__a")
            question = seen[0]
        assert (question["method"], question["params"]["_meta"]["byleave/server"]) == (method, "shop")
        assert done["result"]["structuredContent"] == {"got": answer}

    server = server_of(stateless_server, "a")
    asking(server, method, params, stateless=stateless_server)
    play(scene, shop=server)


@FOUR
def test_a_client_that_cannot_is_not_asked(
    play: Callable[..., None], *, stateless_client: bool, stateless_server: bool
) -> None:
    method, params, _answer = WISHES["sampling"]

    async def scene(talk: Talk) -> None:
        client = await client_of(talk, stateless_client, elicitation={})
        said = await client.call("shop__a")
        assert "error" in said or said["result"]["structuredContent"] == {"got": None}

    server = server_of(stateless_server, "a")
    asking(server, method, params, stateless=stateless_server)
    play(scene, shop=server)
