"""Downstream servers that do as a test says, and whoever hears what links to them have to tell."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from byleave.gateway.interfaces import Outgoing
from byleave.gateway.links import LinkContext, make_link
from byleave.policy.load import Workspace
from byleave.policy.servers import ExpandedServer, ServerConfig
from byleave.record import Record
from sandbox.machine import PYTHON

SCRIPT = Path(__file__).with_name("mcp_stdio_server.py")
PATIENCE = 20.0  # seconds until a test gives up


def far(transport: str = "stdio", **more: Any) -> ServerConfig:
    """Return a server as the configuration describes one."""
    return ServerConfig("far", transport, **more)


def reached(**how: Any) -> ExpandedServer:
    """Return how it is reached."""
    usual: dict[str, Any] = {"command": None, "url": None, "env": {}, "headers": {}, "secrets": ()}
    return ExpandedServer(**{**usual, **how})


class Ear:
    """Hears a link, and lets a test wait for what it wants to have heard."""

    def __init__(self) -> None:
        self.told: list[tuple[bytes, str | None]] = []
        self.losses: list[tuple[str | None, str]] = []
        self._news = asyncio.Event()

    def received(self, message: bytes, about: str | None) -> None:
        self.told.append((message, about))
        self._news.set()

    def lost(self, id_: str | None, why: str, _public: str = "") -> None:
        self.losses.append((id_, why))
        self._news.set()

    async def until(self, is_there: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_there():
                self._news.clear()
                await self._news.wait()

    async def answer(self, count: int = 1) -> bytes:
        """Return the message that is the `count`th to be heard."""
        await self.until(lambda: len(self.told) >= count)
        return self.told[count - 1][0]

    async def loss(self, count: int = 1) -> tuple[str | None, str]:
        await self.until(lambda: len(self.losses) >= count)
        return self.losses[count - 1]


async def settled(is_there: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of."""
    async with asyncio.timeout(PATIENCE):
        while not is_there():  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.001)


def request(id_: str, method: str = "echo", params: str = '"x"', **more: Any) -> Outgoing:
    message = f'{{"jsonrpc":"2.0","id":"{id_}","method":"{method}","params":{params}}}'
    return Outgoing(message.encode(), method, id_, **more)


def notification(method: str = "notifications/initialized") -> Outgoing:
    return Outgoing(f'{{"jsonrpc":"2.0","method":"{method}"}}'.encode(), method)


def result(id_: str, value: str = "1") -> bytes:
    return f'{{"jsonrpc":"2.0","id":"{id_}","result":{value}}}'.encode()


def surroundings(root: Path, access: Mapping[str, Any] | None = None, **more: Any) -> LinkContext:
    """Return what links need, in a workspace whose server is held to this access, or to what others get."""
    server: dict[str, Any] = {"command": [PYTHON], **({} if access is None else {"access": access})}
    defaults = {"os_sandbox": more.pop("os_sandbox", "auto")}
    workspace = Workspace(str(root))
    policy = workspace.compile_tree({"servers": {"far": server}, "defaults": defaults})
    environment = more.pop("environment", {"PATH": "/usr/bin:/bin", "HOME": str(root.parent)})
    return LinkContext(workspace, policy, environment, **{"decide": policy.decide, **more})


class Asked(Record):
    """A request that came to a fake web server. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.body.partition(b'"id":"')[2].partition(b'"')[0].decode()


class Web:
    """A web server on loopback that answers as `handle` says; what it was asked stays in `asked`."""

    def __init__(self, handle: "Handle") -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def start(self, **how: Any) -> None:
        self._server = await asyncio.start_server(self._visit, "127.0.0.1", 0, **how)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        self.connections += 1
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                await self._handle(asked, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._visits.discard(task)
            writer.close()


Handle = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _colon, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _version = first.split(" ")
    return Asked(method, path, headers, body)


def plain(status: str, body: bytes = b"", kind: str = "application/json", *fields: str) -> bytes:
    """Return a whole answer."""
    more = "".join(f"{field}\r\n" for field in fields)
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def web(handle: Handle, **how: Any) -> AsyncIterator[Web]:
    server = Web(handle)
    await server.start(**how)
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def linked(
    root: Path, server: ServerConfig, expanded: ExpandedServer, shared: LinkContext | None = None
) -> AsyncIterator[tuple[Any, Ear]]:
    """Open a link; in the end it is closed, and so is everything else."""
    shared = shared if shared is not None else surroundings(root)
    ear = Ear()
    link: Any = make_link(server, expanded, ear, shared)
    try:
        await link.open()
        yield link, ear
    finally:
        await link.close()
        await shared.close()


def over_http(url: str, transport: str = "http", **more: Any) -> tuple[ServerConfig, ExpandedServer]:
    return far(transport), reached(url=url, **more)


def behaving(behaviour: str, **more: Any) -> ExpandedServer:
    """Return how a server is started that behaves like this."""
    return reached(command=(PYTHON, "-IS", str(SCRIPT), behaviour), **more)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario to its end, in a time that no test needs."""

    async def bounded() -> None:
        async with asyncio.timeout(2 * PATIENCE):
            await scenario

    asyncio.run(bounded())
