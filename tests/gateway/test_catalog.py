"""Ten thousand tools are read once, filtered once for each policy, and nobody waits for that."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from byleave.gateway import catalog, server_listing
from byleave.gateway.catalog import Visibility
from byleave.gateway.server_listing import ListingOptions, ServerListings, TimeSlice, flat_name
from fakes.mcp_talk import OPEN, FakeClient, FakeServer, Talk, Tree

MANY = 10_000


def tools(count: int, description: str = "Say what it costs.") -> list[Tree]:
    schema = {"type": "object", "properties": {"article": {"type": "string"}}}
    return [{"name": f"t{number}", "description": description, "inputSchema": schema} for number in range(count)]


def server_with(listed: list[Tree]) -> FakeServer:
    return FakeServer(raw_tools=json.dumps(listed).encode())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every definition that was read and hashed."""
    seen: list[bytes] = []
    read = server_listing._read  # noqa: SLF001 -- the one place where definitions are read

    def counted(server: str, kind: Any, raw: bytes, reading: ListingOptions) -> Any:
        seen.append(raw)
        return read(server, kind, raw, reading)

    monkeypatch.setattr(server_listing, "_read", counted)
    return seen


async def begun(talk: Talk, agent: str = "ops") -> FakeClient:
    client = talk.client(agent)
    await client.begin()
    return client


def test_what_was_listed_before_is_not_read_again_by_anybody(play: Callable[..., None], reads: list[bytes]) -> None:
    async def scene(talk: Talk) -> None:
        first, second = await begun(talk), await begun(talk, "dev")
        names = [await client.names() for client in (first, first, second)]
        assert (len(names[0]), names[0] == names[1] == names[2]) == (50, True)
        assert len(reads) == 50

    both = {"agents": {name: {"allow": {"servers": ["*"]}} for name in ("ops", "dev")}}
    play(scene, both, shop=server_with(tools(50)))


def test_of_a_changed_list_only_what_is_new_is_read(play: Callable[..., None], reads: list[bytes]) -> None:
    async def scene(talk: Talk) -> None:
        client, listed = await begun(talk), tools(50)
        await client.names()
        reads.clear()
        talk.servers["shop"].raw_tools = json.dumps([*listed[:20], *tools(1, "other"), *listed[21:]]).encode()
        await client.names()
        assert [json.loads(raw)["description"] for raw in reads] == ["other"]

    play(scene, shop=server_with(tools(50)))


def test_a_server_that_alternates_is_not_read_at_every_turn(play: Callable[..., None], reads: list[bytes]) -> None:
    async def scene(talk: Talk) -> None:
        client, shop = await begun(talk), talk.servers["shop"]
        seen = []
        for number in range(10):
            shop.raw_tools = json.dumps(tools(20, f"{number % 2}")).encode()
            seen.append(len(await client.names()))
        assert seen == [20, 0] * 5
        assert len(reads) == 40

    play(scene, shop=server_with([]))


def test_what_is_kept_of_a_server_is_bounded(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client, shop = await begun(talk), talk.servers["shop"]
        for number in range(20):
            shop.raw_tools = json.dumps(tools(5, f"{number}")).encode()
            await client.names()
        (kept,) = talk.gateway.listings._kept.values()  # noqa: SLF001 -- it is about what is kept
        assert len(kept) == server_listing.MOST_KEPT

    play(scene, shop=server_with([]))


def test_a_list_is_filtered_once_for_each_policy_and_agent(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        asked: list[str] = []
        shows = Visibility.shows_tool

        def counted(sight: Visibility, server: str, tool: str) -> bool:
            asked.append(tool)
            return shows(sight, server, tool)

        monkeypatch.setattr(Visibility, "shows_tool", counted)
        assert [len(await client.names()) for _ in range(3)] == [10, 10, 10]
        assert len(asked) == 10
        talk.policy.compiled = talk.workspace.compile_tree(
            {"agents": {"ops": {"allow": {"servers": ["*"]}, "deny": {"tools": {"shop": ["t1"]}}}}, **SHOP}
        ).compiled
        assert len(await client.names()) == 9
        assert len(asked) == 20

    play(scene, shop=server_with(tools(10)))


SHOP: Tree = {"servers": {"shop": {"command": ["shop"]}}}


def test_a_revoked_tool_is_gone_from_the_next_list_although_nothing_was_listed_anew(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        assert len(await client.names()) == 3
        approvals = talk.workspace.approvals
        (one,) = [each for each in approvals.all() if each.subject == "shop/t1"]
        assert approvals.revoke(one, now="2025-01-01T00:00:00Z")
        assert await client.names() == ["shop__t0", "shop__t2"]

    play(scene, shop=server_with(tools(3)))


def test_others_have_their_turn_while_ten_thousand_tools_are_read() -> None:
    async def scene() -> int:
        turns = 0
        catalogs, is_over = ServerListings(), asyncio.Event()

        async def others() -> None:
            nonlocal turns
            while not is_over.is_set():
                turns += 1
                await asyncio.sleep(0)

        waiting = asyncio.create_task(others())
        page: Any = json.dumps(tools(MANY)).encode()
        await asyncio.gather(*(catalogs.page(f"s{n}", "tools", page, 0, ListingOptions(pins=True)) for n in range(2)))
        is_over.set()
        await waiting
        return turns

    assert asyncio.run(scene()) > 20


def test_long_work_of_many_takes_one_turn_at_a_time() -> None:
    """Forty servers that are read at once would else have forty turns before anybody else has one."""

    async def scene() -> list[int]:
        lock, working, most = asyncio.Lock(), 0, []

        async def work() -> None:
            nonlocal working
            async with TimeSlice(lock, 0.0) as turn:
                for _ in range(5):
                    working += 1
                    most.append(working)
                    working -= 1
                    await turn.give()

        await asyncio.gather(*(work() for _ in range(10)))
        ended = asyncio.create_task(work())
        await asyncio.sleep(0)
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)
        async with asyncio.timeout(1), TimeSlice(lock):
            return most

    assert set(asyncio.run(scene())) == {1}


def test_ten_thousand_tools_of_one_server_are_listed_with_one_search_in_the_policy(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        sinks = [await client.exchange("tools/list") for _ in range(2)]
        assert sinks[0].raw.count(b'"name":"shop__t') == MANY
        assert sinks[0].raw.partition(b"result")[2] == sinks[1].raw.partition(b"result")[2]

    play(scene, {**OPEN, "gateway": {"call_timeout": 60}}, shop=server_with(tools(MANY)))


def test_a_definition_is_shown_as_it_is_pinned_under_the_name_that_clients_call(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        (listed,) = (await client.ask("tools/list"))["result"]["tools"]
        offer = await client.session.catalog.tool("shop", "t0")
        assert listed == {**tools(1)[0], "name": "shop__t0"}
        assert offer.tree == tools(1)[0]
        assert json.loads(offer.definition.text) == tools(1)[0]

    play(scene, shop=server_with(tools(1)))


def test_two_tools_that_clients_would_call_by_one_name_are_both_left_out(play: Callable[..., None]) -> None:
    """A long name is cut, with a hash at its end; a server can give another tool that very name."""

    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        assert await client.names() == ["shop__t0"]
        assert any("lists it more than once" in note for note in talk.notes)

    long = {**tools(1)[0], "name": "x" * 100}
    twin = {**tools(1)[0], "name": flat_name("shop", "x" * 100).removeprefix("shop__")}
    play(scene, shop=server_with([*tools(1), long, twin]))


def test_a_listing_without_end_is_cut_and_said_so(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "MOST_BYTES", 1000)

    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        assert 0 < len(await client.names()) < 50
        assert any("the rest is left out" in note for note in talk.notes)

    shop = FakeServer()
    shop.tools = tools(50)
    play(scene, shop=shop)


def test_of_large_listings_only_the_last_is_kept(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_listing, "_LARGE", 100)

    async def scene(talk: Talk) -> None:
        client, shop = await begun(talk), talk.servers["shop"]
        for number in range(3):
            shop.raw_tools = json.dumps(tools(5, f"{number}")).encode()
            await client.names()
        (kept,) = talk.gateway.listings._kept.values()  # noqa: SLF001 -- it is about what is kept
        assert len(kept) == 1

    play(scene, shop=server_with([]))


SPELLINGS = {
    "the order of keys": ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', True),
    "escapes": ('{"a": "x"}', r'{"\u0061": "\u0078"}', True),
    "a key given twice": ('{"a": 2}', '{"a": 1, "a": 2}', True),
    "an exponent": ('{"a": 1.0}', '{"a": 1e0}', True),
    "a whole number and a float": ('{"a": 1}', '{"a": 1.0}', False),
    "a sign": ('{"a": 0.0}', '{"a": -0.0}', False),
    "null": ('{"a": null}', "{}", False),
    "the order of a list": ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
}


@pytest.mark.parametrize(("one", "other", "same"), SPELLINGS.values(), ids=SPELLINGS)
def test_definitions_that_are_spelled_otherwise(play: Callable[..., None], one: str, other: str, same: bool) -> None:  # noqa: FBT001 -- of a table
    async def scene(talk: Talk) -> None:
        client, shop, shown = await begun(talk), talk.servers["shop"], []
        for schema in (one, other):
            shop.raw_tools = b'[{"name": "t", "inputSchema": %b}]' % schema.encode()
            shown.append((await client.exchange("tools/list")).raw.partition(b"result")[2])
        assert (b"shop__t" in shown[1]) == same
        assert not same or json.loads(b'{"x' + shown[0]) == json.loads(b'{"x' + shown[1])

    play(scene, shop=server_with([]))


def test_two_servers_that_list_one_resource_or_one_tool_name_are_told_apart(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        for server in talk.servers.values():
            server.listed["resources"] = [{"uri": "x://same", "name": "same"}]
            server.listed["resourceTemplates"] = [{"uriTemplate": "x://{same}", "name": "same"}]
        assert await client.names() == ["one__price", "two__price"]
        assert (await client.ask("resources/list"))["result"]["resources"] == []
        assert (await client.ask("resources/templates/list"))["result"]["resourceTemplates"] == []
        await client.call("two__price")
        assert (talk.servers["one"].calls(), len(talk.servers["two"].calls())) == ([], 1)

    play(scene, one=FakeServer("price"), two=FakeServer("price"))


async def paged(client: FakeClient, size: Any) -> list[list[str]]:
    pages: list[list[str]] = []
    params: Tree = {"_meta": {"byleave/pageSize": size}}
    while True:
        result = (await client.ask("tools/list", params))["result"]
        pages.append([tool["name"] for tool in result["tools"]])
        if "nextCursor" not in result:
            return pages
        params = {"cursor": result["nextCursor"]}


def test_a_client_that_wants_pages_gets_them(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        whole = [tool["name"] for tool in (await client.ask("tools/list"))["result"]["tools"]]
        for size, lengths in ((3, [3, 3, 3, 1]), (5, [5, 5]), (10, [10]), (99, [10])):
            pages = await paged(client, size)
            assert ([len(page) for page in pages], [name for page in pages for name in page]) == (lengths, whole)

    play(scene, shop=server_with(tools(10)))


ODD_PAGES: list[Tree] = [
    {"cursor": "x"},
    {"cursor": 3},
    {"cursor": "3.3.00000000"},
    {"_meta": {"byleave/pageSize": 0}},
    {"_meta": {"byleave/pageSize": "3"}},
    {"_meta": {"byleave/pageSize": True}},
    {"_meta": {"byleave/pageSize": 10**9}},
]


@pytest.mark.parametrize("params", ODD_PAGES)
def test_a_page_that_is_none_is_an_error(play: Callable[..., None], params: Tree) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        assert (await client.ask("tools/list", params))["error"]["code"] == -32602

    play(scene, shop=server_with(tools(10)))


def test_a_page_of_a_list_that_has_changed_is_an_error(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk)
        first = (await client.ask("tools/list", {"_meta": {"byleave/pageSize": 3}}))["result"]
        talk.servers["shop"].raw_tools = json.dumps(tools(11)).encode()
        assert "error" in await client.ask("tools/list", {"cursor": first["nextCursor"]})

    play(scene, shop=server_with(tools(10)))


def test_of_many_tasks_with_long_work_one_has_its_turn_in_each_round_of_the_loop() -> None:
    async def scene() -> None:
        lock, rounds, worked = asyncio.Lock(), [0], []

        async def count() -> None:
            while True:
                await asyncio.sleep(0)
                rounds[0] += 1

        async def work() -> None:
            async with TimeSlice(lock, seconds=0.0) as turn:
                for _ in range(3):
                    worked.append(rounds[0])
                    await turn.give()

        counting = asyncio.create_task(count())
        await asyncio.gather(*(work() for _ in range(40)))
        counting.cancel()
        assert len(worked) == 120
        assert len(set(worked)) == 120

    asyncio.run(scene())


def test_a_task_that_is_cancelled_in_its_turn_gives_it_to_the_next() -> None:
    async def scene() -> None:
        lock, done = asyncio.Lock(), []

        async def work(number: int) -> None:
            async with TimeSlice(lock, seconds=0.0) as turn:
                for _ in range(100):
                    await turn.give()
            done.append(number)

        tasks = [asyncio.create_task(work(number)) for number in range(4)]
        for steps, task in enumerate(tasks[:3]):
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert done == [3]
        assert not lock.locked()

    asyncio.run(scene())
