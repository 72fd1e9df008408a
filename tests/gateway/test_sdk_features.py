"""Everything passes: the official SDK's client, through the gateway, to the official SDK's servers.

Each client (over a pipe, over HTTP; with a handshake, and without) does everything with each server: over a pipe, over
streamable HTTP, over HTTP with a stream, and over streamable HTTP without a handshake.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from amounts import SLOW
from fakes.mcp_sdk import (
    DOWNSTREAM,
    LEGACY,
    MODERN,
    SHOP,
    Person,
    Place,
    Talk,
    at,
    by_pipe,
    over_http,
    talking,
    web_servers,
    words,
)
from sandbox.machine import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")]

SERVERS = ("rich", "web", "stream", "modern")
FRONTS = [(front, mode) for front in ("pipe", "http") for mode in (LEGACY, MODERN)]
# Which clients usually go to which servers: each server, each front and each kind of client has its turn.
USUALLY: dict[tuple[str, str], tuple[str, ...]] = {
    ("pipe", LEGACY): ("rich", "modern"),
    ("pipe", MODERN): ("stream",),
    ("http", LEGACY): ("web",),
    ("http", MODERN): ("rich", "modern"),
}
PAIRS = [(front, server) for front in FRONTS for server in (SERVERS if SLOW else USUALLY[front])]


def policy(web: Any) -> str:
    return f"""
[gateway]
default_agent = "ops"
ask_timeout = 20
[servers.shop]
command = {json.dumps(SHOP)}
[servers.rich]
command = {json.dumps([sys.executable, DOWNSTREAM, "stdio"])}
[servers.web]
url = "{web["web"]}"
[servers.stream]
url = "{web["stream"]}"
transport = "sse"
[servers.modern]
url = "{web["modern"]}"
[agents.ops]
allow.servers = ["*"]
deny.tools.shop = ["refund_*"]
"""


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Talk]]:
    """Return a client of each kind, which all tests share."""
    with ExitStack() as stack:
        place = Place(tmp_path_factory.mktemp("place"), policy(stack.enter_context(web_servers())))
        known: dict[tuple[str, str], Talk] = {}
        url: list[str] = []

        def find(front: str, mode: str) -> Talk:
            if (front, mode) not in known:
                if front == "http" and not url:
                    url.append(stack.enter_context(over_http(place)).url)
                target = at(url[0]) if front == "http" else by_pipe(place, "--agent", "ops")
                known[front, mode] = stack.enter_context(talking(target, mode, Person(), log_level="info"))
            return known[front, mode]

        yield find


@pytest.fixture(params=FRONTS, ids="-".join)
def talk(request: pytest.FixtureRequest, talks: Callable[[str, str], Talk]) -> Talk:
    found = talks(*request.param)
    found.told.clear()
    found.logged.clear()
    found.person.forget()
    return found


def meeting(pairs: list[tuple[tuple[str, str], str]]) -> pytest.MarkDecorator:
    ids = ["-".join([*front, server]) for front, server in pairs]
    return pytest.mark.parametrize(("talk", "server"), pairs, indirect=["talk"], ids=ids)


servers = meeting(PAIRS)


@pytest.mark.sampled(2)
def test_the_revision_is_the_one_that_was_asked_for(talk: Talk) -> None:
    assert talk.client.protocol_version == (MODERN if talk.modern else "2025-11-25")
    if not talk.modern:
        assert talk.client.server_info is not None
        assert talk.client.server_info.name == "byleave"


def test_all_pages_of_all_servers_are_one_list(talk: Talk) -> None:
    listed = talk.tools()
    for server in SERVERS:
        assert {f"{server}__add", f"{server}__region", f"{server}__echo"} <= listed.keys()
    assert {"shop__price", "shop__crash"} <= listed.keys()
    assert "shop__refund_all" not in listed


@servers
def test_definitions_arrive_whole(talk: Talk, server: str) -> None:
    add = talk.definition(f"{server}__add")
    assert add.model_dump(by_alias=True, exclude_none=True) == {
        "name": f"{server}__add",
        "title": "Addition",
        "description": "It is called add.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
        "outputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]},
        "annotations": {"title": "Add", "readOnlyHint": True, "openWorldHint": False},
        "icons": [{"src": "data:image/png;base64,AA==", "mimeType": "image/png"}],
        "_meta": {"example.com/shelf": 3},
    }


@servers
def test_structured_content_passes_and_fits_its_schema(talk: Talk, server: str) -> None:
    result = talk.call(f"{server}__add", {"a": 2, "b": 40})
    assert (words(result), result.structured_content, result.is_error) == ("42", {"sum": 42}, False)


@servers
def test_an_error_result_passes(talk: Talk, server: str) -> None:
    result = talk.call(f"{server}__fail")
    assert (words(result), result.structured_content, result.is_error) == ("out of order", {"code": 7}, True)
    assert (result.meta or {}).get("example.com/try") == "later"


@servers
def test_an_error_of_the_protocol_passes(talk: Talk, server: str) -> None:
    with pytest.raises(MCPError) as caught:
        talk.call(f"{server}__broken")
    error = caught.value
    assert (error.code, error.message, error.data) == (-31999, "it is broken", {"part": "axle"})


@servers
def test_meta_passes_both_ways(talk: Talk, server: str) -> None:
    mine: Any = {"example.com/mine": {"deep": [1, 2.5, "ü"]}}
    result = talk.call(f"{server}__meta", meta=mine)
    assert result.structured_content == {"seen": mine}
    assert (result.meta or {})["example.com/answer"] == [1, {"b": None}]


@servers
def test_content_of_every_kind_passes(talk: Talk, server: str) -> None:
    content = talk.call(f"{server}__mixed").content
    assert [each.type for each in content] == ["text", "image", "audio", "resource", "resource", "resource_link"]
    plain = content[0]
    assert isinstance(plain, types.TextContent)
    assert plain.annotations is not None
    assert (plain.annotations.audience, plain.annotations.priority) == (["user"], 0.5)


@servers
def test_progress_is_reported_to_whom_it_concerns(talk: Talk, server: str) -> None:
    seen: list[Any] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    assert words(talk.call(f"{server}__steps", progress_callback=progress)) == "done"
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@servers
def test_what_a_server_logs_arrives_with_its_name(talk: Talk, server: str) -> None:
    if not talk.modern:
        talk.do(lambda client: client.set_logging_level("info"))
    assert words(talk.call(f"{server}__log")) == "logged"
    talk.wait_until(lambda: len(talk.logged) >= 2)
    assert [(each.level, each.data, each.logger) for each in talk.logged] == [
        ("info", {"said": "info"}, f"{server}.shelf"),
        ("error", {"said": "error"}, f"{server}.shelf"),
    ]


@servers
def test_a_server_gets_a_sample_and_says_who_it_is(talk: Talk, server: str) -> None:
    said = json.loads(words(talk.call(f"{server}__sample")))
    assert said["content"] == {"type": "text", "text": "a fish"}
    assert said["model"] == "scripted"
    (asked,) = talk.person.sampled
    assert (asked.max_tokens, (asked.meta or {}).get("byleave/server")) == (10, server)


@servers
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_a_server_asks_the_person(talk: Talk, server: str, action: Any) -> None:
    content: Any = {"sure": True} if action == "accept" else None
    talk.person.answer = types.ElicitResult(action=action, content=content)
    said = json.loads(words(talk.call(f"{server}__confirm")))
    assert said == ({"action": action, "content": content} if content else {"action": action})
    (asked,) = talk.person.asked
    assert isinstance(asked, types.ElicitRequestFormParams)
    assert (asked.message, asked.requested_schema["type"]) == (f"[{server}] Really?", "object")


@servers
def test_a_server_gets_the_roots(talk: Talk, server: str) -> None:
    said = json.loads(words(talk.call(f"{server}__roots")))
    assert said == {"roots": [{"uri": "file:///a/b", "name": "here"}]}


def test_resources_of_all_servers_are_listed_and_read(talk: Talk) -> None:
    listed = {str(each.uri): each for each in talk.do(lambda client: client.list_resources()).resources}
    assert listed.keys() == {f"{server}://{name}" for server in SERVERS for name in ("first", "second")}
    assert listed["web://first"].size == 5
    assert listed["web://first"].meta == {"example.com/n": "first"}
    for server in SERVERS:
        uri = f"{server}://second"
        text, blob = talk.do(lambda client, uri=uri: client.read_resource(uri)).contents  # type: ignore[misc]
        assert text.text == f"{server} has {uri}"
        assert blob.blob == "AAEC"


@servers
def test_resources_that_fit_a_template_are_read(talk: Talk, server: str) -> None:
    templates = talk.do(lambda client: client.list_resource_templates()).resource_templates
    assert {each.uri_template for each in templates} == {f"{each}://made/{{what}}" for each in SERVERS}
    uri = f"{server}://made/of%20wood"
    read = talk.do(lambda client: client.read_resource(uri)).contents[0]
    assert isinstance(read, types.TextResourceContents)
    assert read.text == f"{server} has {uri}"


@servers
def test_a_resource_that_is_not_there_is_the_servers_error(talk: Talk, server: str) -> None:
    with pytest.raises(MCPError) as caught:
        talk.do(lambda client: client.read_resource(f"{server}://made/missing"))
    assert (caught.value.code, caught.value.message) == (-32002, "there is none")


@servers
def test_a_server_asks_the_person_before_a_resource_is_read(talk: Talk, server: str) -> None:
    uri = f"{server}://made/asks"
    talk.person.answer = types.ElicitResult(action="accept", content={"sure": True})
    read = talk.do(lambda client: client.read_resource(uri)).contents[0]
    assert isinstance(read, types.TextResourceContents)
    assert json.loads(read.text) == {"action": "accept", "content": {"sure": True}}


@servers
def test_who_subscribes_hears_of_changes(talk: Talk, server: str) -> None:
    uri = f"{server}://first"

    async def listen(client: Client) -> None:
        async with client.listen(resource_subscriptions=[uri]) as stream:
            assert stream.honored.resource_subscriptions == [uri]
            await client.call_tool(f"{server}__touch", {"uri": f"{server}://second"})
            await client.call_tool(f"{server}__touch", {"uri": uri})
            event: Any = await anext(aiter(stream))
            assert event.uri == uri

    if talk.modern:
        talk.do(listen)
        return
    talk.do(lambda client: client.subscribe_resource(uri))
    talk.call(f"{server}__touch", {"uri": uri})
    talk.wait_until(lambda: talk.heard("notifications/resources/updated") >= 1)
    assert [str(each.params.uri) for each in talk.told if each.method == "notifications/resources/updated"] == [uri]
    talk.do(lambda client: client.unsubscribe_resource(uri))
    assert uri not in (talk.call(f"{server}__subscribed").structured_content or {})["uris"]


def test_prompts_of_all_servers_are_listed(talk: Talk) -> None:
    listed = {each.name: each for each in talk.do(lambda client: client.list_prompts()).prompts}
    assert listed.keys() == {f"{server}__{name}" for server in SERVERS for name in ("greet", "leave")}
    greet = listed["web__greet"]
    assert greet.title == "Greeting"
    assert [(each.name, each.required) for each in greet.arguments or ()] == [("whom", True)]
    assert listed["web__leave"].meta == {"example.com/n": 2}


@servers
def test_a_prompt_is_filled_in(talk: Talk, server: str) -> None:
    said = talk.do(lambda client: client.get_prompt(f"{server}__greet", {"whom": "Ö"}))
    (message,) = said.messages
    assert isinstance(message.content, types.TextContent)
    assert (said.description, message.role, message.content.text) == ("As asked.", "user", "greet Ö")
    assert (said.meta or {})["example.com/p"] is True
    with pytest.raises(MCPError, match="there is no such prompt"):
        talk.do(lambda client: client.get_prompt(f"{server}__nothing"))


@servers
def test_arguments_are_completed(talk: Talk, server: str) -> None:
    prompt = types.PromptReference(name=f"{server}__greet")
    found = talk.do(lambda client: client.complete(prompt, {"name": "whom", "value": "x"}, {"other": "y"}))
    assert (found.completion.values, found.completion.total) == (['greet:whom=x{"other": "y"}'], 1)
    template = types.ResourceTemplateReference(uri=f"{server}://made/{{what}}")
    found = talk.do(lambda client: client.complete(template, {"name": "what", "value": "z"}))
    assert found.completion.values == [f"{server}://made/{{what}}:what=z"]


@servers
def test_who_listens_hears_that_lists_have_changed(talk: Talk, server: str) -> None:
    async def listen(client: Client) -> None:
        kinds = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
        async with client.listen(**kinds) as stream:  # type: ignore[arg-type]
            await client.call_tool(f"{server}__grow", {})
            heard: set[str] = set()
            while len(heard) < 3:
                heard.add(type(await anext(aiter(stream))).__name__)

    if talk.modern:
        talk.do(listen)
    else:
        talk.call(f"{server}__grow")
        for kind in ("tools", "prompts", "resources"):
            talk.wait_until(lambda kind=kind: talk.heard(f"notifications/{kind}/list_changed") >= 1)  # type: ignore[misc]
    assert words(talk.call(f"{server}__grown")) == f"{server}: grown done"
    assert f"{server}__grown" in talk.tools()


@servers
def test_a_call_that_is_given_up_is_given_up_at_the_server(talk: Talk, server: str) -> None:
    async def count(client: Client, what: str) -> int:
        return int((await client.call_tool(f"{server}__waited", {})).structured_content[what])

    async def give_up(client: Client) -> None:
        before = {what: await count(client, what) for what in ("waiting", "cancelled")}
        call = asyncio.create_task(client.call_tool(f"{server}__wait", {}))
        while await count(client, "waiting") == before["waiting"]:
            assert not call.done()
        call.cancel()
        while await count(client, "cancelled") == before["cancelled"]:
            pass

    talk.do(give_up)
    assert words(talk.call(f"{server}__add", {"a": 1, "b": 1})) == "2"


@meeting(PAIRS if SLOW else list(zip(FRONTS, SERVERS, strict=True)))
def test_a_large_result_passes(talk: Talk, server: str) -> None:
    assert words(talk.call(f"{server}__big", {"length": 6_000_000})) == "x" * 6_000_000


@servers
def test_headers_that_repeat_an_argument_go_with_it(talk: Talk, server: str) -> None:
    talk.definition(f"{server}__region")  # a client learns from the list which arguments are repeated
    told = talk.call(f"{server}__region", {"region": "ö"}).structured_content or {}
    assert told["arguments"] == {"region": "ö"}
    if server == "modern":
        assert told["headers"] == {
            "mcp-param-region": "=?base64?w7Y=?=",
            "mcp-name": "region",
            "mcp-method": "tools/call",
            "mcp-protocol-version": MODERN,
        }


def test_a_stateless_server_may_take_its_time(talk: Talk) -> None:
    assert words(talk.call("modern__loop")) == "round 4"


def test_what_is_denied_says_why(talk: Talk) -> None:
    result = talk.call("shop__refund_all")
    assert result.is_error
    assert result.structured_content["decision"] == "deny"
    assert words(result) == result.structured_content["reason"]


def test_calls_beside_a_slow_one_do_not_wait_for_it(talk: Talk) -> None:
    async def both(client: Client) -> str:
        slow = asyncio.create_task(client.call_tool("shop__slow", {"seconds": 20}))
        quick = await client.call_tool("shop__price", {"article": "x"})
        assert not slow.done()
        slow.cancel()
        return words(quick)

    assert talk.do(both, patience=10) == '{"cents": 250}'
