"""The parties of the gateway's bench: a small MCP server, a proxy that only moves bytes, and clients that count.

Server and proxy run as programs of their own and say their port first:

    python bench/gateway_parties.py serve [TOOLS] | stdio | relay PORT
"""

import asyncio
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

REVISION = "2025-11-25"
ECHO = "x" * 200  # what a call brings along and gets back
ECHO_BYTES = ECHO.encode()
LARGE = 5_000_000  # bytes of the large result
_TOOL = {"inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
_TOOLS = [{"name": name, "description": "bench", **_TOOL} for name in ("echo", "large")]
_ITSELF = {"name": "bench", "version": "1"}
_WELCOME = {"protocolVersion": REVISION, "capabilities": {"tools": {}}, "serverInfo": _ITSELF}
_TOLD = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": _ITSELF}
GREETING = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _TOLD}).encode()


class Framed(asyncio.Protocol):
    """One end of an HTTP connection: takes in messages one after the other, framed by their length or in chunks."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._come = bytearray()
        self._whole = 0  # how long the message is with its body; 0 while that is not known, -1 for chunks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._come += data
        while self._come and self._has_whole():
            message = bytes(self._come[: self._whole])
            del self._come[: self._whole]
            self._whole = 0
            self.take(message)

    def _has_whole(self) -> bool:
        if not self._whole:
            end = self._come.find(b"\r\n\r\n")
            if end < 0:
                return False
            self._whole = _length(bytes(self._come[: end + 4]).lower(), end + 4)
        if self._whole < 0 and self._come.endswith(b"0\r\n\r\n"):
            self._whole = len(self._come)
        return 0 < self._whole <= len(self._come)

    def take(self, message: bytes) -> None:
        """Take one whole message, head and body."""
        raise NotImplementedError


def _length(head: bytes, size: int) -> int:
    if b"transfer-encoding: chunked" in head:
        return -1
    at = head.find(b"content-length:")
    return size + (int(head[at + 15 : head.find(b"\r\n", at)]) if at >= 0 else 0)


class Server(Framed):
    """An MCP server over HTTP that answers at once, in JSON."""

    def take(self, message: bytes) -> None:
        head, _empty, body = message.partition(b"\r\n\r\n")
        if not head.startswith(b"POST"):
            self.transport.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % _without_body(head))
            return
        said = answer(json.loads(body))
        if said is None:
            self.transport.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            return
        session = b"Mcp-Session-Id: bench\r\n" if b'"initialize"' in body[:200] else b""
        fields = b"Content-Type: application/json\r\n%bContent-Length: %d" % (session, len(said))
        self.transport.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (fields, said))


def _without_body(head: bytes) -> bytes:
    return b"200 OK" if head.startswith(b"DELETE") else b"405 Method Not Allowed"


def answer(request: dict[str, Any]) -> bytes | None:
    """Return the answer to one message; None if there is none."""
    if "id" not in request or "method" not in request:
        return None
    if request["method"] == "tools/list":
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(request["id"]).encode(), _listed())
    result: dict[str, Any] = _WELCOME if request["method"] == "initialize" else {}
    if request["method"] == "tools/call":
        params = request["params"]
        text = _LONG if params["name"] == "large" else params["arguments"]["text"]
        result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()


@functools.cache
def _listed() -> bytes:
    """Return the list of tools; as many more as the command line says."""
    more = int(sys.argv[2]) if sys.argv[1:2] == ["serve"] and len(sys.argv) > 2 else 0
    words = "Say what an article costs, in euros, and how many of it there are. " * 2
    tools = [{"name": f"tool_{number}", "description": words, **_TOOL} for number in range(more)]
    return json.dumps({"tools": [*_TOOLS, *tools]}).encode()


_LONG = "All of it is one line of text. " * (LARGE // 31)


class Relay(Framed):
    """A reverse proxy that does nothing but move whole messages, over connections that it keeps."""

    idle: "list[Far]" = []
    port = 0

    def __init__(self) -> None:
        super().__init__()
        self._waiting: asyncio.Task[None] | None = None

    def take(self, message: bytes) -> None:
        while self.idle:
            far = self.idle.pop()
            if not far.transport.is_closing():
                far.ask(message, self)
                return
        self._waiting = asyncio.get_running_loop().create_task(self._dial(message))

    async def _dial(self, message: bytes) -> None:
        _transport, far = await asyncio.get_running_loop().create_connection(Far, "127.0.0.1", self.port)
        far.ask(message, self)


class Far(Framed):
    """The proxy's connection to the server."""

    asker: Relay | None = None

    def ask(self, message: bytes, asker: Relay) -> None:
        self.asker = asker
        self.transport.write(message)

    def take(self, message: bytes) -> None:
        asker, self.asker = self.asker, None
        Relay.idle.append(self)
        if asker is not None:
            asker.transport.write(message)


async def serve(make: Callable[[], asyncio.Protocol]) -> None:
    """Serve at a free port, which is said first."""
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def serve_stdio() -> None:
    for line in sys.stdin.buffer:
        said = answer(json.loads(line))
        if said is not None:
            os.write(1, said + b"\n")


class Client(Framed):
    """One client with a session of its own."""

    def __init__(self, tool: str, token: str = "", port: int = 0) -> None:
        super().__init__()
        self.tool = tool
        self._port = port
        self._fields = f"Authorization: Bearer {token}\r\n" if token else ""
        self._answered: asyncio.Future[bytes] | None = None
        self._call = b""
        self._times: list[float] = []
        self._sent = self._until = 0.0

    async def connect(self) -> None:
        """Connect, and again if the other end had enough of waiting."""
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self._port)

    async def open(self) -> None:
        """Shake hands, and see that the tool is there."""
        await self.connect()
        said = await self.send(self.request(GREETING))
        lines = [line.split(": ") for line in said.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")]
        session = [line[1] for line in lines if line[0].lower() == "mcp-session-id"]
        assert session, said
        self._fields += f"Mcp-Session-Id: {session[0]}\r\nMCP-Protocol-Version: {REVISION}\r\n"
        await self.send(self.request(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'))
        listed = await self.send(self.request(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'))
        assert f'"{self.tool}"'.encode() in listed, listed

    def request(self, message: bytes) -> bytes:
        return (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{self._fields}Content-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nContent-Length: {len(message)}\r\n\r\n"
        ).encode() + message

    def call(self, tool: str) -> bytes:
        """Return one call as it is sent."""
        params = {"name": tool, "arguments": {"text": ECHO}}
        return self.request(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).encode())

    async def tools(self) -> bytes:
        """Return the list of tools, as the response to a request for it."""
        return await self.send(self.request(b'{"jsonrpc":"2.0","id":3,"method":"tools/list"}'))

    async def send(self, request: bytes) -> bytes:
        """Send a request, and return the whole response."""
        if self.transport.is_closing():
            await self.connect()
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answered

    async def hurry(self, seconds: float) -> list[float]:
        """Call as often as possible for a while, and return how long each call took."""
        self._call, self._times = self.call(self.tool), []
        if self.transport.is_closing():
            await self.connect()
        self._sent = time.perf_counter()
        self._until = self._sent + seconds
        await self.send(self._call)
        return self._times

    async def pace(self, seconds: float, every: float, *, first: float) -> list[float]:
        """Call once in so many seconds, for a while, and return how long each call took."""
        call, times = self.call(self.tool), []
        start = time.perf_counter()
        at = start + first
        while at < start + seconds:
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            began = time.perf_counter()
            said = await self.send(call)
            times.append(time.perf_counter() - began)
            assert ECHO_BYTES in said, said[:2000]
            at += every
        return times

    def take(self, message: bytes) -> None:
        if self._until:
            now = time.perf_counter()
            self._times.append(now - self._sent)
            assert ECHO_BYTES in message, message[:2000]
            if now < self._until:
                self._sent = now
                self.transport.write(self._call)
                return
            self._until = 0.0
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(message)

    def connection_lost(self, _problem: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionError("the connection was closed in the middle of a call"))


async def connect(port: int, tool: str, token: str = "") -> Client:
    """Return a client with an open session."""
    client = Client(tool, token, port)
    await client.open()
    return client


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        serve_stdio()
    else:
        Relay.port = int(sys.argv[2]) if sys.argv[1] == "relay" else 0
        asyncio.run(serve(Server if sys.argv[1] == "serve" else Relay))
