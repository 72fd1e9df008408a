"""Every call is on record, with who called and how we know; what a client was told is on record whatever happens."""

import asyncio
import hashlib
import json
import os
import signal
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fakes.mcp_sdk import LEGACY, MODERN, SHOP, Person, Place, at, by_pipe, eventually, over_http, talking, words
from sandbox.machine import needs_sandbox

pytestmark = needs_sandbox

TOKEN = "a token that only ops knows"


def policy(name: str = "shop", more: str = "") -> str:
    return f"""
[servers.shop]
command = {json.dumps([*SHOP[:2], name])}
[agents.ops]
allow.servers = ["*"]
deny.tools.shop = ["refund_*"]
{more}
[agents.clerk]
allow.servers = ["shop"]
allow.tools.shop = ["price", "query", "echo"]
[agents.default]
allow.servers = ["shop"]
allow.tools.shop = ["stock"]
[[rules]]
ask = {{ call = {{ server = "shop", tool = "query" }} }}
"""


def told(record: dict[str, Any]) -> tuple[Any, ...]:
    action = record["action"]
    assert (record["door"], action["kind"], action["server"]) == ("mcp", "call", "shop")
    return (action["tool"], record["agent"], record["identity"], record["verdict"]["decision"])


def test_each_call_is_recorded_with_who_called_and_how_we_know(tmp_path: Path) -> None:
    hashed = hashlib.sha256(TOKEN.encode()).hexdigest()
    place = Place(tmp_path, policy(more=f'token = "sha256:{hashed}"'))
    with over_http(place) as running:
        with talking(at(running.url, Authorization=f"Bearer {TOKEN}"), LEGACY, Person()) as talk:
            talk.call("shop__price", {"article": "x"})
            talk.call("shop__refund_all")
            talk.call("shop__query", {"sql": "s"})
        with talking(at(running.url, X_Byleave_Agent="clerk"), MODERN) as talk:
            talk.call("shop__price", {"article": "x"})
            talk.call("shop__close")
            talk.call("shop__query", {"sql": "s"})
        with talking(at(running.url), LEGACY) as talk:
            talk.call("shop__stock")
            talk.call("shop__price", {"article": "x"})
        # Who has a token cannot merely be named.
        headers = {"X-Byleave-Agent": "ops", "Accept": "application/json, text/event-stream"}
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
        said = httpx2.post(running.url, json=message, headers=headers, trust_env=False)
        assert said.status_code == 401
        assert said.headers["www-authenticate"].startswith("Bearer")
    with talking(by_pipe(place, "--agent", "ops"), LEGACY) as talk:
        talk.call("shop__echo", {"secret": "words"})
    records = place.records()
    decisions = [told(each) for each in records if each["event"] == "decision"]
    assert decisions == [
        ("price", "ops", "verified", "allow"),
        ("refund_all", "ops", "verified", "deny"),
        ("query", "ops", "verified", "ask"),
        ("price", "clerk", "claimed", "allow"),
        ("close", "clerk", "claimed", "deny"),
        ("query", "clerk", "claimed", "ask"),
        ("stock", "default", "default", "allow"),
        ("price", "default", "default", "deny"),
        ("echo", "ops", "verified", "allow"),
    ]
    effects = [(each["action"]["tool"], each["outcome"]) for each in records if each["event"] == "effect"]
    assert effects == [(name, "done") for name in ("price", "price", "stock", "echo")]
    assert TOKEN not in json.dumps(records)
    assert json.loads(place.byleave("audit", "verify", "--json").out)["ok"]


def test_nothing_that_was_acknowledged_is_missing_after_a_kill(tmp_path: Path) -> None:
    name = f"shop-{uuid.uuid4().hex}"
    place = Place(tmp_path, policy(name))
    acknowledged: list[int] = []

    def request(number: int) -> dict[str, Any]:
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        params = {"name": "shop__echo", "arguments": {"n": number}, "_meta": meta}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    async def calls(url: str, pid: int) -> None:
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "shop__echo",
            "X-Byleave-Agent": "clerk",
        }
        room = asyncio.Semaphore(16)

        async def one(number: int) -> None:
            async with room:
                said = await client.post(url, json=request(number), headers=headers)
            assert said.json()["result"]["structuredContent"] == {"arguments": {"n": number}}
            acknowledged.append(number)
            if len(acknowledged) == 100:
                os.kill(pid, signal.SIGKILL)

        async with httpx2.AsyncClient(timeout=20, trust_env=False) as client:
            await one(0)
            done = await asyncio.gather(*(one(number) for number in range(1, 200)), return_exceptions=True)
        assert any(isinstance(each, httpx2.HTTPError) for each in done)
        assert not [each for each in done if each is not None and not isinstance(each, httpx2.HTTPError)]

    with over_http(place) as running:
        asyncio.run(calls(running.url, running.process.pid))
        assert running.process.wait(5) == -signal.SIGKILL
    assert len(acknowledged) >= 100
    recorded = {each["action"]["arguments"]["n"] for each in place.records() if each["event"] == "decision"}
    assert set(acknowledged) <= recorded
    assert json.loads(place.byleave("audit", "verify", "--json").out)["ok"]
    eventually(lambda: not [pid for pid in os.listdir("/proc") if name in command_line(pid)], patience=5)


def command_line(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_a_server_that_dies_in_a_call_is_an_error_and_on_record(tmp_path: Path) -> None:
    place = Place(tmp_path, policy())
    with over_http(place) as running, talking(at(running.url, X_Byleave_Agent="ops"), LEGACY) as talk:
        with pytest.raises(Exception, match="shop"):
            talk.call("shop__crash")
        eventually(lambda: answered(talk), patience=10)
    outcomes = {each["action"]["tool"]: each["outcome"] for each in place.records() if each["event"] == "effect"}
    assert outcomes["crash"].startswith("failed: ")
    assert outcomes["price"] == "done"


def answered(talk: Any) -> bool:
    try:
        return words(talk.call("shop__price", {"article": "x"})) == '{"cents": 250}'
    except Exception as error:  # noqa: BLE001 -- it is started again after a pause
        assert "shop" in str(error)  # noqa: PT017
        return False
