"""Two hundred clients at once: everybody is answered, everything is on record, nothing of one reaches another."""

import asyncio
import hashlib
import itertools
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fakes.mcp_sdk import Place, Running, over_http

CLIENTS = 200
TOKEN = "the-token-of-ops"


class Downstream:
    """A server over HTTP, as small as can be, that keeps what it is sent."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.sessions = 0
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while True:
                head, body = await message_of(reader)
                self.heads.append(head)
                writer.write(self.answer(head, body))
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    def answer(self, head: str, body: bytes) -> bytes:
        if not head.startswith("POST"):
            return b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"
        asked = json.loads(body)
        if "id" not in asked:
            return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
        more = ""
        result: dict[str, Any] = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        if asked["method"] == "initialize":
            self.sessions += 1
            more = f"Mcp-Session-Id: s{self.sessions}\r\n"
            info = {"name": "d", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        elif asked["method"] == "tools/call":
            result = {"content": [], "structuredContent": asked["params"]["arguments"]}
        said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        kind = "Content-Type: application/json\r\n"
        return f"HTTP/1.1 200 OK\r\n{kind}{more}Content-Length: {len(said)}\r\n\r\n".encode() + said


async def message_of(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lengths = [line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length:")]
    return head, await reader.readexactly(int(lengths[0]) if lengths else 0)


class Client:
    """One client with a session of its own."""

    def __init__(self, port: int, number: int) -> None:
        self.port = port
        self.number = number
        self.session = ""
        self._ids = itertools.count(1)

    async def run(self) -> list[Any]:
        await self.begin()
        answers = [await self.call("web__echo", {"who": self.number, "turn": turn}) for turn in (1, 2)]
        await self.leave()
        return answers

    async def begin(self) -> None:
        """Open a session on a connection of its own."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        head, _answer = await self.post({"id": 0, "method": "initialize", "params": info})
        self.session = next(line.split(": ")[1] for line in head.split("\r\n") if "session-id" in line.lower())

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        params = {"name": tool, "arguments": arguments}
        _head, answer = await self.post({"id": next(self._ids), "method": "tools/call", "params": params})
        return answer["result"]["structuredContent"]

    async def end(self) -> None:
        """End the session, and leave."""
        head, _said = await self.send("DELETE", b"")
        assert head.startswith("HTTP/1.1 2"), head
        await self.leave()

    async def leave(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()

    async def post(self, message: dict[str, Any]) -> tuple[str, Any]:
        head, said = await self.send("POST", json.dumps({"jsonrpc": "2.0", **message}).encode())
        return head, json.loads(said)

    async def send(self, method: str, body: bytes) -> tuple[str, bytes]:
        session = f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
        fields = f"Host: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        accepted = "Accept: application/json, text/event-stream\r\n"
        self.writer.write(
            f"{method} /mcp HTTP/1.1\r\n{fields}{accepted}{session}Content-Length: {len(body)}\r\n\r\n".encode() + body
        )
        return await message_of(self.reader)


@contextmanager
def serving(server: Downstream) -> Iterator[int]:
    """Serve in a thread of its own, and yield the port."""
    ports: list[int] = []
    loop, ready = asyncio.new_event_loop(), threading.Event()
    over = asyncio.Event()

    async def serve() -> None:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        ports.append(listening.sockets[0].getsockname()[1])
        ready.set()
        await over.wait()
        listening.close()
        for writer in list(server.writers):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait(10)
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def test_two_hundred_clients_at_once_lose_nothing_and_learn_nothing_of_each_other(tmp_path: Path) -> None:
    server = Downstream()
    with serving(server) as port:
        place = Place(tmp_path, policy_of(port))
        with over_http(place) as running:
            gateway = port_of(running)
            clients = [Client(gateway, number) for number in range(CLIENTS)]
            answers = asyncio.run(_all(clients))
            descriptors = len(os.listdir(f"/proc/{running.process.pid}/fd"))
    assert answers == [[{"who": n, "turn": turn} for turn in (1, 2)] for n in range(CLIENTS)]
    assert server.sessions == CLIENTS
    assert len({client.session for client in clients}) == CLIENTS
    assert not any(TOKEN in head for head in server.heads), "a caller's token never goes downstream"
    assert descriptors < CLIENTS * 3
    kept = place.records()
    decisions = [each for each in kept if each["event"] == "decision"]
    assert {each["verdict"]["decision"] for each in decisions} == {"allow"}
    told = sorted((each["action"]["arguments"]["who"], each["action"]["arguments"]["turn"]) for each in decisions)
    assert told == [(n, turn) for n in range(CLIENTS) for turn in (1, 2)]
    assert [each["outcome"] for each in kept if each["event"] == "effect"] == ["done"] * 2 * CLIENTS


async def _all(clients: list[Client]) -> list[list[Any]]:
    return await asyncio.gather(*(client.run() for client in clients))


def port_of(running: Running) -> int:
    return int(running.url.split(":")[2].split("/")[0])


def policy_of(port: int) -> str:
    hashed = hashlib.sha256(TOKEN.encode()).hexdigest()
    return f"""
[servers.web]
url = "http://127.0.0.1:{port}/mcp"
[agents.ops]
allow.servers = ["*"]
token = "sha256:{hashed}"
"""
