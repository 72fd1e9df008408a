"""Sessions share a server's process where nothing of one reaches another, and processes are bounded."""

import asyncio
import contextlib
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import amounts
from byleave.gateway import gateway, limits, server_pool
from byleave.gateway.interfaces import Caller, DownError
from byleave.gateway.limits import ServerProcesses
from byleave.gateway.session import Session
from command import python
from fakes.mcp_sdk import Place, over_http
from fakes.mcp_talk import FakeClient, FakeLink, FakeServer, Talk, Tree
from sandbox.machine import needs_sandbox

AGENTS = {"agents": {"ops": {"allow": {"servers": ["*"]}}, "dev": {"allow": {"servers": ["*"]}}}}


def with_share(share: Any, **more: Any) -> Tree:
    return {**AGENTS, "servers": {"shop": {"command": ["shop"], "share": share}}, **more}


async def begun(talk: Talk, agent: str | None = "ops", **capabilities: Any) -> FakeClient:
    client = talk.client(agent, **capabilities)
    await client.begin()
    return client


CLIENTS: dict[str, tuple[Any, list[tuple[str, Tree]], int]] = {
    "auto, one caller": ("auto", [("ops", {}), ("ops", {}), ("ops", {})], 1),
    "auto, one client": ("auto", [("ops", {})], 1),
    "auto, two agents": ("auto", [("ops", {}), ("dev", {}), ("ops", {})], 2),
    "auto, clients that can be asked": ("auto", [("ops", {"roots": {}}), ("ops", {"roots": {}}), ("ops", {})], 3),
    "true, two agents": (True, [("ops", {}), ("dev", {}), ("ops", {"sampling": {}})], 1),
    "false": (False, [("ops", {}), ("ops", {})], 2),
}


@pytest.mark.parametrize(("share", "clients", "processes"), CLIENTS.values(), ids=CLIENTS)
def test_who_shares_a_process(
    play: Callable[..., None], share: Any, clients: list[tuple[str, Tree]], processes: int
) -> None:
    async def scene(talk: Talk) -> None:
        for agent, capabilities in clients:
            client = await begun(talk, agent, **capabilities)
            assert "shop__price" in await client.names()
        assert len(talk.servers["shop"].links) == processes

    play(scene, with_share(share))


def test_a_session_that_calls_has_a_process_of_its_own_from_then_on(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop = talk.servers["shop"]
        clients = [await begun(talk) for _ in range(3)]
        for client in clients:
            await client.names()
        assert len(shop.links) == 1
        for client, processes in zip(clients, (2, 3, 3), strict=True):  # the last one is alone with the shared one
            for _ in range(2):
                assert "result" in await client.call("shop__price")
            await asyncio.sleep(0.2)  # until it has left
            assert len(shop.links) == processes
        called = [[each.method for each in link.sent].count("tools/call") for link in shop.links]
        assert called == [2, 2, 2], "no process has had the calls of two sessions"

    play(scene, with_share("auto"))


def test_a_process_that_a_session_has_taken_rests_like_one_of_its_own(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop, client = talk.servers["shop"], await begun(talk)
        await client.names()
        await client.call("shop__price")
        assert len(shop.links) == 1, "it was alone with the shared one, and has taken it"
        assert await client.session.rest()
        assert [link.is_closed for link in shop.links] == [True]
        assert "result" in await client.call("shop__price")
        await (await begun(talk)).names()
        assert len(shop.links) == 3, "the next session does not join it"

    play(scene, with_share("auto"))


def test_what_a_session_asked_before_its_call_is_still_answered(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop = talk.servers["shop"]
        shop.listed["resources"] = [{"uri": "shop://a", "name": "a"}]
        clients = [await begun(talk) for _ in range(2)]
        for client in clients:
            await client.ask("resources/list")
        shop.is_hung = True
        reading = asyncio.create_task(clients[0].ask("resources/read", {"uri": "shop://a"}))
        while shop.methods()[-1] != "resources/read":  # noqa: ASYNC110 -- what is heard comes in a plain list
            await asyncio.sleep(0.001)
        request, shop.is_hung = shop.heard[-1], False
        assert "result" in await clients[0].call("shop__price")
        shop.links[0].say({"id": request["id"], "result": {"contents": [{"uri": "shop://a", "text": "late"}]}})
        assert (await reading)["result"]["contents"][0]["text"] == "late"

    play(scene, with_share("auto"))


def test_two_principals_of_one_agent_name_do_not_share_by_themselves(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        for principal in ("token:a", "token:b"):
            client = FakeClient(talk.gateway.converse(Caller("ops", "verified", principal)))
            await client.begin()
            await client.names()
        assert len(talk.servers["shop"].links) == 2

    play(scene, with_share("auto"))


def test_a_shared_server_is_told_that_its_client_offers_nothing_and_its_questions_are_refused(
    play: Callable[..., None],
) -> None:
    async def scene(talk: Talk) -> None:
        shop, client = talk.servers["shop"], await begun(talk, elicitation={}, sampling={}, roots={})
        asked: list[str] = []
        client.on_request = lambda request: asked.append(request["method"])

        def wants(link: FakeLink, request: Tree) -> Tree:
            for number, method in enumerate(("sampling/createMessage", "elicitation/create", "roots/list")):
                link.say({"id": f"q{number}", "method": method, "params": {}})
            return {"content": []} if request else {}

        shop.on_call = wants
        await client.call("shop__price")
        await asyncio.sleep(0.01)
        offered = next(each["params"]["capabilities"] for each in shop.heard if each.get("method") == "initialize")
        refused = [each for each in shop.heard if str(each.get("id", "")).startswith("q")]
        assert (offered, asked, client.aside.messages) == ({}, [], [])
        assert ['the server "shop" may not ask for it' in each["error"]["message"] for each in refused] == [True] * 3

    play(scene, with_share(True))


def test_progress_answers_and_cancellation_go_to_the_session_that_they_belong_to(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop = talk.servers["shop"]
        requests: list[Tree] = []
        shop.on_call = lambda _link, request: requests.append(request)
        clients = [await begun(talk, agent) for agent in ("ops", "dev")]
        sent = [{"name": "shop__price", "arguments": {"who": who}, "_meta": {"progressToken": "same"}} for who in "ab"]
        calls = [
            asyncio.create_task(each.tell({"id": 7, "method": "tools/call", "params": params}))
            for each, params in zip(clients, sent, strict=True)
        ]
        while len(requests) < 2:  # noqa: ASYNC110 -- what is heard comes in a plain list
            await asyncio.sleep(0.001)
        requests.sort(key=lambda request: request["params"]["arguments"]["who"])
        (link,) = shop.links
        for number, request in enumerate(requests):
            token = request["params"]["_meta"]["progressToken"]
            link.say({"method": "notifications/progress", "params": {"progressToken": token, "progress": number}})
        await asyncio.sleep(0.01)
        await clients[0].tell({"method": "notifications/cancelled", "params": {"requestId": 7}})
        await asyncio.sleep(0.01)
        cancelled = [each["params"]["requestId"] for each in shop.heard if each["method"] == "notifications/cancelled"]
        assert cancelled == [requests[0]["id"]]
        link.say({"id": requests[1]["id"], "result": {"content": [{"type": "text", "text": "for dev"}]}})
        sinks = await asyncio.gather(*calls)
        answers = [None if sink.final is None else sink.final["result"]["content"][0]["text"] for sink in sinks]
        assert answers == [None, "for dev"]
        assert [[each["params"]["progress"] for each in sink.messages] for sink in sinks] == [[0], [1]]

    play(scene, with_share(True))


def test_a_log_line_reaches_no_other_agent(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        def logs(link: FakeLink, _request: Tree) -> Tree:
            link.say({"method": "notifications/message", "params": {"level": "error", "data": "secret of ops"}})
            return {"content": []}

        talk.servers["shop"].on_call = logs
        clients = [await begun(talk, agent) for agent in ("ops", "dev")]
        for client in clients:
            await client.ask("logging/setLevel", {"level": "debug"})
            await client.ask("tools/list")
        sinks = [await clients[0].exchange("tools/call", {"name": "shop__price", "arguments": {}})]
        await asyncio.sleep(0.01)
        told = [each for sink in (*sinks, *(client.aside for client in clients)) for each in sink.messages]
        assert [each for each in told if each["method"] == "notifications/message"] == []

    play(scene, with_share(True))


def test_sessions_of_one_caller_hear_the_log_each_at_its_own_level(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        clients = [await begun(talk) for _ in range(2)]
        for client, level in zip(clients, ("debug", "error"), strict=True):
            await client.ask("tools/list")
            await client.ask("logging/setLevel", {"level": level})
        await asyncio.sleep(0.01)
        shop = talk.servers["shop"]
        levels = [each["params"]["level"] for each in shop.heard if each["method"] == "logging/setLevel"]
        assert levels == ["debug"]
        for level in ("debug", "error"):
            shop.links[0].say({"method": "notifications/message", "params": {"level": level, "data": "x"}})
        await asyncio.sleep(0.01)
        heard = [[each["params"]["level"] for each in client.aside.messages] for client in clients]
        assert heard == [["debug", "error"], ["error"]]

    play(scene, with_share("auto"))


def test_a_subscription_is_told_to_whom_it_belongs_and_ends_with_the_last(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop = talk.servers["shop"]
        shop.listed["resources"] = [{"uri": f"shop://{name}", "name": name} for name in "ab"]
        clients = [await begun(talk, agent) for agent in ("ops", "dev", "ops")]
        for client, uri in zip(clients, ("shop://a", "shop://b", "shop://a"), strict=True):
            await client.ask("resources/subscribe", {"uri": uri})
        shop.links[0].say({"method": "notifications/resources/updated", "params": {"uri": "shop://a"}})
        await asyncio.sleep(0.01)
        assert [len(client.aside.messages) for client in clients] == [1, 0, 1]
        await clients[0].ask("resources/unsubscribe", {"uri": "shop://a"})
        assert "resources/unsubscribe" not in shop.methods()
        await clients[2].session.close()
        await clients[1].ask("resources/unsubscribe", {"uri": "shop://b"})
        ended = [each["params"]["uri"] for each in shop.heard if each["method"] == "resources/unsubscribe"]
        assert ended == ["shop://a", "shop://b"]

    play(scene, with_share(True))


def test_what_a_client_tells_of_its_roots_reaches_no_shared_server(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = await begun(talk, roots={"listChanged": True})
        await client.ask("tools/list")
        await client.tell({"method": "notifications/roots/list_changed"})
        await asyncio.sleep(0.01)
        assert "notifications/roots/list_changed" not in talk.servers["shop"].methods()

    play(scene, with_share(True))


def test_a_changed_list_is_told_to_every_session(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        clients = [await begun(talk, agent) for agent in ("ops", "dev")]
        for client in clients:
            await client.ask("tools/list")
        talk.servers["shop"].links[0].say({"method": "notifications/tools/list_changed"})
        await asyncio.sleep(0.01)
        assert [[each["method"] for each in client.aside.messages] for client in clients] == [
            ["notifications/tools/list_changed"]
        ] * 2

    play(scene, with_share(True))


def test_a_flood_of_changed_lists_is_told_to_every_session_a_few_times(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(talk: Talk) -> None:
        clients = [await begun(talk) for _ in range(20)]
        for client in clients:
            await client.ask("tools/list")
        told: list[str] = []
        monkeypatch.setattr(Session, "notified", lambda _session, _upstream, method, _params: told.append(method))
        for _ in range(2000):
            talk.servers["shop"].links[0].say({"method": "notifications/tools/list_changed"})
        await asyncio.sleep(0.15)
        assert len(told) == 2 * len(clients), "at once, and once more after the last"

    play(scene, with_share("auto"))


def test_a_session_ends_at_once_although_a_shared_server_hangs(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop, client = talk.servers["shop"], await begun(talk)
        shop.listed["resources"] = [{"uri": "shop://a", "name": "a"}]
        await client.ask("resources/subscribe", {"uri": "shop://a"})
        shop.is_hung = True
        started = asyncio.get_running_loop().time()
        await client.session.close()
        assert asyncio.get_running_loop().time() - started < 1

    play(scene, with_share(True))


def test_a_session_that_ends_leaves_the_others_their_server_and_the_last_ends_it_after_a_while(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(talk: Talk) -> None:
        (shop,) = talk.servers.values()
        clients = [await begun(talk) for _ in range(2)]
        for client in clients:
            await client.names()
        await clients[0].session.close()
        assert "result" in await clients[1].ask("tools/list")
        await clients[1].session.close()
        assert [link.is_closed for link in shop.links] == [False]
        third = await begun(talk)
        await third.names()
        assert len(shop.links) == 1
        await third.session.close()
        monkeypatch.setattr(server_pool, "LINGER", 0.0)
        await talk.gateway.pool.rest(monotonic())
        assert [link.is_closed for link in shop.links] == [True]

    play(scene, with_share("auto"))


def test_a_server_that_is_shared_by_all_rests_when_nobody_asks_and_comes_back(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(talk: Talk) -> None:
        shop, client = talk.servers["shop"], await begun(talk)
        await client.call("shop__price")
        await talk.gateway.pool.rest(monotonic())
        assert [link.is_closed for link in shop.links] == [False]
        monkeypatch.setattr(server_pool, "IDLE", 0.0)
        await talk.gateway.pool.rest(monotonic())
        assert [link.is_closed for link in shop.links] == [True]
        assert "result" in await client.call("shop__price")
        assert len(shop.links) == 2

    play(scene, with_share(True))


def test_a_server_that_waits_for_a_place_gets_that_of_one_which_nobody_needs_now(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop, client = talk.servers["shop"], await begun(talk)
        await client.call("shop__price")
        await talk.gateway.pool.make_room()
        assert [link.is_closed for link in shop.links] == [True]
        assert "result" in await client.call("shop__price")
        shop.on_call = lambda _link, _request: None
        waiting = asyncio.create_task(client.call("shop__price"))
        while len(shop.calls()) < 3:  # noqa: ASYNC110 -- what is heard comes in a plain list
            await asyncio.sleep(0.001)
        await talk.gateway.pool.make_room()
        assert [link.is_closed for link in shop.links] == [True, False]
        waiting.cancel()

    play(scene, with_share(True))


def test_a_client_that_is_gone_gives_its_places_up_and_gets_them_back(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(talk: Talk) -> None:
        shop = talk.servers["shop"]
        older, newer = await begun(talk), await begun(talk)
        for client in (older, newer):
            await client.call("shop__price")
        await talk.gateway.make_room()
        assert [link.is_closed for link in shop.links] == [False, False]
        monkeypatch.setattr(gateway, "RESTING", 0.0)
        await talk.gateway.make_room()
        assert [link.is_closed for link in shop.links] == [True, False]
        assert "result" in await older.call("shop__price")
        assert len(shop.links) == 3

    play(scene, with_share(False))


def test_a_crash_ends_the_calls_of_all_and_the_next_call_starts_it_again(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        shop = talk.servers["shop"]
        clients = [await begun(talk, agent) for agent in ("ops", "dev")]
        echo, shop.on_call = shop.on_call, lambda _link, _request: None
        calls = [asyncio.create_task(client.call("shop__price")) for client in clients]
        while len(shop.calls()) < 2:  # noqa: ASYNC110 -- what is heard comes in a plain list
            await asyncio.sleep(0.001)
        shop.links[0].receiver.lost(None, "it fell over", "it fell over")
        assert ["it fell over" in (await call)["error"]["message"] for call in calls] == [True, True]
        shop.on_call = echo
        assert "result" in await clients[1].call("shop__price")

    play(scene, with_share(True))


def test_a_session_that_may_not_reach_a_shared_server_any_more_loses_its_calls_and_others_keep_theirs(
    play: Callable[..., None],
) -> None:
    async def scene(talk: Talk) -> None:
        shop = talk.servers["shop"]
        shop.on_call = lambda _link, _request: None
        clients = [await begun(talk, agent) for agent in ("ops", "dev")]
        calls = [asyncio.create_task(client.call("shop__price", {"n": n})) for n, client in enumerate(clients)]
        while len(shop.calls()) < 2:  # noqa: ASYNC110 -- what is heard comes in a plain list
            await asyncio.sleep(0.001)
        clients[0].session.drop({"shop"})
        assert "was closed" in (await calls[0])["error"]["message"]
        (kept,) = [each for each in shop.heard if each.get("params", {}).get("arguments") == {"n": 1}]
        shop.links[0].say({"id": kept["id"], "result": {"content": []}})
        assert "result" in await calls[1]
        assert "notifications/cancelled" in shop.methods()

    play(scene, with_share(True))


def test_an_agent_sees_and_calls_no_more_of_a_shared_server_than_its_own_policy_grants(
    play: Callable[..., None],
) -> None:
    async def scene(talk: Talk) -> None:
        ops, dev = await begun(talk, "ops"), await begun(talk, "dev")
        assert (await ops.names(), await dev.names()) == (
            ["shop__close", "shop__price", "shop__query"],
            ["shop__price"],
        )
        assert (await dev.call("shop__close"))["result"]["isError"] is True
        assert talk.servers["shop"].calls() == []

    narrow = {"ops": AGENTS["agents"]["ops"], "dev": {"allow": {"servers": ["shop"], "tools": {"shop": ["price"]}}}}
    play(scene, {**with_share(True), "agents": narrow})


def test_places_are_taken_in_turn_and_the_last_is_told_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(limits, "WAITS", 0.05)
        made = 0

        async def make_room() -> None:
            nonlocal made
            made += 1

        places = ServerProcesses(lambda: 2, make_room)
        await places.take("a")
        await places.take("b")
        assert made == 0
        with pytest.raises(DownError, match="the gateway runs 2 servers already") as raised:
            await places.take("c")
        assert ("max_processes" in raised.value.hint, raised.value.is_private, made) == (True, False, 1)
        waiting = asyncio.create_task(places.take("d"))
        await asyncio.sleep(0)
        places.give()
        await waiting
        assert places.running == 2
        first, second = (asyncio.create_task(places.take(name)) for name in "xy")
        await asyncio.sleep(0)
        places.give()
        first.cancel()  # it was given the place, and does not use it
        await second
        assert places.running == 2
        given_up = asyncio.create_task(places.take("e"))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        places.give()
        assert places.running == 1
        await places.take("f")
        assert places.running == 2

    asyncio.run(scene())


SERVER = """
import json, os, sys
calls = 0
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        calls += 1
        result = {"content": [{"type": "text", "text": str(calls)}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
TOKEN = "the-token-of-ops"


class HttpClient:
    """A client with a session over HTTP, as small as can be."""

    def __init__(self, url: str) -> None:
        self.port = int(url.split(":")[2].split("/", maxsplit=1)[0])
        self.session = ""

    async def begin(self) -> "HttpClient":
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        await self.ask("initialize", info)
        return self

    async def ask(self, method: str, params: Tree) -> Any:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        session = f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {TOKEN}\r\n{session}"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        said = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
        fields = {line.split(": ")[0].lower(): line.split(": ")[1] for line in said.decode().split("\r\n")[1:]}
        answer = await reader.readexactly(int(fields["content-length"]))
        self.session = fields.get("mcp-session-id", self.session)
        writer.close()
        return json.loads(answer)


def offspring(pid: int) -> int:
    """Return how many processes a gateway, or one of those, has started."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:  # which grows meanwhile
        found += [child for child, its in parents.items() if its == parent]
    return len(found) - 1


@needs_sandbox
def test_many_clients_of_many_servers_start_each_server_once(tmp_path: Path) -> None:
    script = tmp_path / "counting_server.py"
    script.write_text(SERVER)
    table = f"command = {json.dumps([sys.executable, str(script)])}\n"
    servers = "".join(f"[servers.s{number}]\n{table}share = true\n" for number in range(4))
    hashed = hashlib.sha256(TOKEN.encode()).hexdigest()
    policy = f'{servers}[agents.ops]\nallow.servers = ["*"]\ntoken = "sha256:{hashed}"\n'
    place = Place(tmp_path / "place", policy)
    with over_http(place) as running:

        async def scene() -> tuple[list[str], set[int]]:
            clients = [await HttpClient(running.url).begin() for _ in range(5)]
            said, counts = [], set()
            for client in clients:
                assert len((await client.ask("tools/list", {}))["result"]["tools"]) == 4
                answer = await client.ask("tools/call", {"name": "s1__t", "arguments": {}})
                said.append(answer["result"]["content"][0]["text"])
                counts.add(offspring(running.process.pid))
            return said, counts

        said, counts = asyncio.run(scene())
        assert said == ["1", "2", "3", "4", "5"], "one process has counted the calls of all"
        assert len(counts) == 1, "no client but the first has started a process"


# Runs the command line with another time for a server to wait until it may start.
CHECK = """
import sys
from byleave.gateway import limits
limits.WAITS = float(sys.argv[1])
from byleave.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@needs_sandbox
def test_more_servers_than_may_run_are_an_error_that_says_so(tmp_path: Path) -> None:
    script = tmp_path / "counting_server.py"
    script.write_text(SERVER)
    table = f"command = {json.dumps([sys.executable, str(script)])}\n"
    servers = "".join(f"[servers.s{number}]\n{table}" for number in range(3))
    policy = f'{servers}[gateway]\nmax_processes = 2\n[agents.ops]\nallow.servers = ["*"]\n'
    place = Place(tmp_path / "place", policy)
    words = ("mcp", "--check", "--json", "--policy", str(place.policy), "--root", str(place.root))
    checked = json.loads(python(CHECK, str(amounts.of(10, 1)), *words, cwd=place.root).out)
    problems = [each["problem"] for each in checked["servers"] if not each["ok"]]
    assert len(problems) == 1
    assert "cannot be started: the gateway runs 2 servers already" in problems[0]


def test_no_key_of_sharing_is_read_and_ignored(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        assert (talk.gateway.servers["shop"].share, talk.gateway.settings.max_processes) == (False, 7)

    play(scene, with_share(False, gateway={"max_processes": 7}), shop=FakeServer("price"))
