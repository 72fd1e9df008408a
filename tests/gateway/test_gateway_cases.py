"""The given cases through the gateway itself: what is listed, in each way of listing, and what a call does.

The gateway runs in this process; the servers behind it are a small web server that has whatever a case says.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from byleave.gateway.context import client_approval
from byleave.gateway.gateway import Gateway
from byleave.gateway.interfaces import Caller, MessageContext
from byleave.gateway.session import Session
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from command import COMMAND
from fakes.mcp_servers import Asked, plain, run, web
from stage import load_cases

LISTINGS = load_cases("mcp/listings.jsonl")
CALLS = [case for case in load_cases("mcp/policy.jsonl") if "tool" in case["action"]]
DISCOVERY = ["execute_tool", "get_server_tools", "list_servers"]
Inventory = Mapping[str, list[str]]


class Sink:
    """Keeps the answer."""

    def __init__(self) -> None:
        self.said: Any = None

    async def send(self, *_parts: bytes) -> bool:
        return True

    async def answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:  # noqa: ARG002
        assert status in (200, 400)
        self.said = json.loads(b"".join(parts))

    def is_open(self) -> bool:
        return True


class Inside:
    """A client in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def exchange(self, message: bytes) -> Any:
        sink = Sink()
        await self._session.handle(message, sink, MessageContext())
        return sink.said

    async def ask(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.exchange(json.dumps(message).encode())

    async def begin(self) -> None:
        said = await self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
        assert said["result"]["protocolVersion"] == "2025-11-25"

    async def names(self) -> list[str]:
        said = await self.ask("tools/list")
        assert "_meta" not in said["result"], said
        return sorted(tool["name"] for tool in said["result"]["tools"])

    async def call(self, name: str, **arguments: Any) -> Any:
        said = await self.ask("tools/call", name=name, arguments=arguments)
        return said.get("result", said)


class Outside(Inside):
    """A client of a process."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self._writer, self._reader = writer, reader

    async def exchange(self, message: bytes) -> Any:
        self._writer.write(message + b"\n")
        return json.loads(await self._reader.readline())


def answering(inventory: Inventory) -> Callable[[Asked, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
    """Return servers that have these tools; every tool says its name and what it was called with."""

    def result(server: str, asked: Any) -> Any:
        if asked["method"] == "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
        if asked["method"] == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in inventory[server]]}
        called = asked["params"]
        done = [server, called["name"], called.get("arguments")]
        return {"content": [], "structuredContent": {"done": done}}

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.method != "POST":
            writer.write(plain("405 Method Not Allowed"))
            return
        message = json.loads(asked.body)
        if "id" not in message:
            writer.write(plain("202 Accepted"))
            return
        said = {"jsonrpc": "2.0", "id": message["id"], "result": result(asked.path.lstrip("/"), message)}
        writer.write(plain("200 OK", json.dumps(said).encode()))

    return handle


@asynccontextmanager
async def gateway(root: Path, policy: Mapping[str, Any], inventory: Inventory, **how: Any) -> AsyncIterator[Gateway]:
    async with web(answering(inventory)) as servers:
        tables = {name: {"url": f"http://127.0.0.1:{servers.port}/{name}"} for name in inventory}
        workspace = Workspace(str(root))
        tree = {**policy, "servers": tables, "gateway": {"pin_tools": False, **how}}
        guard = guard_for(
            workspace, "mcp", client_approves=client_approval(over_http=False), policy=workspace.compile_tree(tree)
        )
        notes: list[str] = []
        made = Gateway(workspace, guard, note=notes.append)
        try:
            yield made
        finally:
            await made.close()
            guard.close()
        assert notes == []


@asynccontextmanager
async def client(made: Gateway, agent: str | None = None) -> AsyncIterator[Inside]:
    identity = "default" if agent is None else "verified"
    session = made.converse(Caller(agent, identity, f"{identity}:{agent}"))
    inside = Inside(session)
    await inside.begin()
    yield inside
    await session.close()


@pytest.mark.parametrize("case", LISTINGS, ids=lambda case: case["name"])
@pytest.mark.parametrize("expose", ["flat", "discovery", "both"])
def test_what_is_listed_is_what_the_case_says(case: dict[str, Any], expose: str, tmp_path: Path) -> None:
    expect = case["expect"]
    flat = [] if expose == "discovery" else expect["flat"]
    found = [] if expose == "flat" else DISCOVERY

    async def scenario() -> None:
        async with (
            gateway(tmp_path, case["policy"], case["inventory"], expose=expose) as made,
            client(made, case["agent"]) as inside,
        ):
            assert await inside.names() == sorted([*flat, *found])
            if expose != "flat":
                await discovers(inside, expect, case["inventory"])

    run(scenario())


async def discovers(inside: Inside, expect: Any, inventory: Inventory, **agent: str) -> None:
    """Find, with the three tools, what the case says, and nothing else."""
    listed = (await inside.call("list_servers", **agent))["structuredContent"]["servers"]
    assert sorted(each["name"] for each in listed) == expect["list_servers"]
    for server in inventory:
        said = await inside.call("get_server_tools", server=server, **agent)
        if server in expect["get_server_tools"]:
            names = sorted(tool["name"] for tool in said["structuredContent"]["tools"])
            assert names == expect["get_server_tools"][server]
        else:
            assert said["error"]["code"] == -32602


@pytest.mark.parametrize("case", LISTINGS, ids=lambda case: case["name"])
def test_an_agent_that_is_only_named_sees_the_same(case: dict[str, Any], tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            gateway(tmp_path, case["policy"], case["inventory"], expose="discovery") as made,
            client(made) as inside,
        ):
            await discovers(inside, case["expect"], case["inventory"], agent_id=case["agent"])
            listed = (await inside.call("list_servers"))["structuredContent"]["servers"]
            assert listed == []  # nobody was named

    run(scenario())


@pytest.mark.parametrize("case", LISTINGS, ids=lambda case: case["name"])
def test_what_is_listed_can_be_called_and_nothing_else(case: dict[str, Any], tmp_path: Path) -> None:
    asks = {("shop", "price")} if "rules" in case["policy"] else set()

    async def scenario() -> None:
        async with (
            gateway(tmp_path, case["policy"], case["inventory"], expose="both") as made,
            client(made, case["agent"]) as inside,
        ):
            for server, names in case["inventory"].items():
                for name in names:
                    flat = await inside.call(f"{server}__{name}", x=1)
                    assert flat == await inside.call("execute_tool", server=server, tool=name, arguments={"x": 1})
                    told = flat["structuredContent"]
                    if f"{server}__{name}" not in case["expect"]["flat"]:
                        assert (flat["isError"], told["decision"]) == (True, "deny")
                    elif (server, name) in asks:
                        assert (flat["isError"], told["decision"]) == (True, "ask")
                    else:
                        assert told == {"done": [server, name, {"x": 1}]}

    run(scenario())


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case["id"])
@pytest.mark.parametrize("way", ["flat", "discovery", "named"])
def test_a_call_is_decided_as_the_case_says(case: dict[str, Any], way: str, tmp_path: Path) -> None:
    action, expect = case["action"], case["expect"]
    server, tool, arguments = action["server"], action["tool"], action.get("arguments", {})

    async def scenario() -> None:
        agent = action["agent"] if way != "named" else None
        async with (
            gateway(tmp_path, case["policy"], {server: [tool]}, expose="both") as made,
            client(made, agent) as inside,
        ):
            if way == "flat":
                said = await inside.call(f"{server}__{tool}", **arguments)
            else:
                named = {"agent_id": action["agent"]} if way == "named" else {}
                said = await inside.call("execute_tool", server=server, tool=tool, arguments=arguments, **named)
            told = said["structuredContent"]
            if expect["decision"] == "allow":
                assert told == {"done": [server, tool, arguments]}
            else:
                assert (told["decision"], said["isError"]) == (expect["decision"], True)
                assert told["code"] == expect.get("code", told["code"])
                assert said["content"] == [{"type": "text", "text": told["reason"]}]

    run(scenario())


@pytest.mark.parametrize("case", [LISTINGS[2], LISTINGS[-1]], ids=lambda case: case["name"])
def test_the_command_lists_what_the_case_says(case: dict[str, Any], tmp_path: Path) -> None:
    """The same through a process of its own, and a file."""

    async def scenario() -> None:
        async with web(answering(case["inventory"])) as servers:
            tables = {name: {"url": f"http://127.0.0.1:{servers.port}/{name}"} for name in case["inventory"]}
            tree = {**case["policy"], "servers": tables, "gateway": {"expose": "both"}}
            (tmp_path / "p.json").write_text(json.dumps(tree))
            words = ("mcp", "--policy", str(tmp_path / "p.json"), "--root", str(tmp_path), "--agent", case["agent"])
            process = await asyncio.create_subprocess_exec(
                *COMMAND, *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            assert process.stdin is not None
            assert process.stdout is not None
            inside = Outside(process.stdin, process.stdout)
            await inside.begin()
            assert await inside.names() == sorted([*case["expect"]["flat"], *DISCOVERY])
            await discovers(inside, case["expect"], case["inventory"])
            process.stdin.close()
            assert await process.wait() == 0

    run(scenario())


def test_who_has_proven_to_be_somebody_cannot_name_somebody_else(tmp_path: Path) -> None:
    policy = {"agents": {"ops": {"allow": {"servers": ["*"]}}, "guest": {}}}

    async def scenario() -> None:
        async with gateway(tmp_path, policy, {"shop": ["price"]}, expose="both") as made:
            async with client(made, "guest") as inside:
                said = await inside.call("execute_tool", server="shop", tool="price", agent_id="ops")
                assert said["structuredContent"]["decision"] == "deny"
                assert (await inside.call("list_servers", agent_id="ops"))["structuredContent"]["servers"] == []
            async with client(made) as inside:
                said = await inside.call("execute_tool", server="shop", tool="price", agent_id="ops")
                assert said["structuredContent"] == {"done": ["shop", "price", None]}
                # Elsewhere it is the tool's own argument.
                said = await inside.call("shop__price", agent_id="ops")
                assert said["structuredContent"]["decision"] == "deny"

    run(scenario())


@pytest.mark.parametrize("agent_id", ["", 7, None, ["ops"], {"a": 1}, "o\u0000ps", "x" * 100_000])
def test_a_strange_name_is_nobody_or_refused(agent_id: Any, tmp_path: Path) -> None:
    policy = {"agents": {"ops": {"allow": {"servers": ["*"]}}, "default": {}}}

    async def scenario() -> None:
        async with gateway(tmp_path, policy, {"shop": ["price"]}, expose="discovery") as made, client(made) as inside:
            said = await inside.call("execute_tool", server="shop", tool="price", agent_id=agent_id)
            assert said.get("isError") or said["error"]["code"] == -32602, said

    run(scenario())


NAMES = ["shop", "mail", "vault-eu", "s_h"]
TOOLS = ["price", "refund_all", "refund_small", "Close", "close"]
GLOBS = st.sampled_from(["*", "s*", "[ms]*", "vault?eu", *NAMES])
PATTERNS = st.lists(st.sampled_from(["*", "refund_*", "[!c]*", "?lose", *TOOLS]), max_size=3)
TABLE = st.fixed_dictionaries(
    {}, optional={"servers": st.lists(GLOBS, max_size=3), "tools": st.dictionaries(GLOBS, PATTERNS, max_size=3)}
)
RULE = st.builds(
    lambda decision, server, tool: {decision: {"call": {"server": server, "tool": tool}}},
    st.sampled_from(["allow", "ask", "deny"]),
    GLOBS,
    st.sampled_from(["*", "refund_*", *TOOLS]),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(allow=TABLE, deny=TABLE, rules=st.lists(RULE, max_size=3))
def test_listing_and_calling_never_disagree(allow: Any, deny: Any, rules: Any, tmp_path: Path) -> None:
    policy = {"agents": {"x": {"allow": allow, "deny": deny}}, "rules": rules}
    inventory = dict.fromkeys(NAMES, TOOLS)

    async def scenario() -> None:
        async with gateway(tmp_path, policy, inventory, expose="both") as made, client(made, "x") as inside:
            listed = set(await inside.names()) - set(DISCOVERY)
            called = set()
            for server in NAMES:
                for tool in TOOLS:
                    said = (await inside.call(f"{server}__{tool}"))["structuredContent"]
                    if said.get("decision") != "deny":
                        called.add(f"{server}__{tool}")
            assert listed == called

    run(scenario())
