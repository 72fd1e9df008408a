"""The official SDK's client in front of the gateway, and the person behind it; the gateway is a process of its own.

A client lives in a thread with an event loop, so that many tests can share it: `Talk.do` runs something there.
"""

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from command import COMMAND, Done, byleave, environment

T = TypeVar("T")

PATIENCE = 30.0
LEGACY, MODERN = "legacy", "2026-07-28"
CASES = Path(__file__).parents[1] / "cases" / "mcp"
SHOP = ["/usr/bin/python3", str(CASES / "sample_server.py"), "shop"]
DOWNSTREAM = str(Path(__file__).with_name("mcp_downstream.py"))


class Person:
    """Who is at the client: says what a test has told it to say, and remembers what it was asked."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Become somebody who says yes, and was never asked."""
        self.asked: list[types.ElicitRequestParams] = []
        self.sampled: list[types.CreateMessageRequestParams] = []
        self.rooted: list[Any] = []
        self.answer: types.ElicitResult | types.ErrorData | None = types.ElicitResult(action="accept", content={})

    async def elicit(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        self.asked.append(params)
        if self.answer is None:
            await asyncio.sleep(PATIENCE)  # it never says a word
        return self.answer or types.ElicitResult(action="cancel")

    async def sample(
        self, _context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        self.sampled.append(params)
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(text="a fish"), model="scripted", stop_reason="endTurn"
        )

    async def roots(self, context: Any) -> types.ListRootsResult | types.ErrorData:
        self.rooted.append(context.meta)
        return types.ListRootsResult(roots=[types.Root(uri="file:///a/b", name="here")])  # type: ignore[arg-type]


class Talk:
    """A client's connection with the gateway."""

    def __init__(self, target: "Callable[[], Any]", mode: str, person: Person | None, **more: Any) -> None:
        self.mode = mode
        self.person = person or Person()
        self.told: list[Any] = []
        self.logged: list[types.LoggingMessageNotificationParams] = []
        self.client: Client
        able = {
            "elicitation_callback": self.person.elicit,
            "sampling_callback": self.person.sample,
            "list_roots_callback": self.person.roots,
        }
        self._target = target
        self._known: dict[str, types.Tool] = {}
        self._options = {**(able if person is not None else {}), **more}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._news = asyncio.Event()
        self._end = asyncio.Event()
        self._living: Any = None

    @property
    def modern(self) -> bool:
        return self.mode == MODERN

    def open(self) -> None:
        self._thread.start()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._living = asyncio.run_coroutine_threadsafe(self._live(ready), self._loop)

        async def opened() -> None:
            await asyncio.wait([ready, asyncio.wrap_future(self._living)], return_when=asyncio.FIRST_COMPLETED)

        asyncio.run_coroutine_threadsafe(opened(), self._loop).result(PATIENCE)
        if self._living.done():
            self._living.result()

    async def _live(self, ready: "asyncio.Future[None]") -> None:
        client = Client(
            self._target(),
            mode=self.mode,
            message_handler=self._hear,
            logging_callback=self._log,
            cache=None,
            read_timeout_seconds=PATIENCE,
            **self._options,
        )
        async with client as self.client:
            ready.set_result(None)
            await self._end.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        try:
            self._living.result(PATIENCE)
        except BaseExceptionGroup as group:  # the SDK may get an answer while it closes, which it takes for a failure
            if group.split(anyio.BrokenResourceError)[1] is not None:
                raise
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
            self._loop.close()

    async def _hear(self, message: Any) -> None:
        self.told.append(message)
        self._news.set()

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logged.append(params)
        self._news.set()

    def do(self, work: "Callable[[Client], Awaitable[T]]", patience: float = PATIENCE) -> T:
        """Have the client do something, and return what came of it."""

        async def bounded() -> T:
            async with asyncio.timeout(patience):
                return await work(self.client)

        return asyncio.run_coroutine_threadsafe(bounded(), self._loop).result(patience + 5)

    def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> types.CallToolResult:
        return self.do(lambda client: client.call_tool(name, arguments or {}, **more))

    def tools(self) -> dict[str, types.Tool]:
        return {tool.name: tool for tool in self.do(lambda client: client.list_tools()).tools}

    def definition(self, name: str) -> types.Tool:
        """Return a tool as it was listed once."""
        if name not in self._known:
            self._known = self.tools()
        return self._known[name]

    def wait_until(self, is_so: Callable[[], bool], patience: float = 10) -> None:
        """Wait until what was told to the client makes something so."""

        async def waiting(_client: Client) -> None:
            while not is_so():
                self._news.clear()
                await self._news.wait()

        self.do(waiting, patience)

    def heard(self, method: str) -> int:
        """How often the client was told this."""
        return sum(1 for each in self.told if getattr(each, "method", None) == method)


def words(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    return "".join(each.text for each in result.content if isinstance(each, types.TextContent))


class Place:
    """A workspace, a home beside it, and the policy that gateways there go by."""

    def __init__(self, base: Path, policy: str) -> None:
        self.root, self.home = base / "ws", base / "home"
        self.root.mkdir(parents=True)
        self.home.mkdir()
        self.policy = base / "p.toml"
        self.policy.write_text(policy)
        self.env = environment({"BYLEAVE_HOME": str(self.home), "HOME": str(self.home), "BYLEAVE_AGENT": None})

    def words(self, *more: str) -> list[str]:
        return ["mcp", *more, "--root", str(self.root), "--policy", str(self.policy)]

    def write(self, policy: str) -> None:
        self.policy.write_text(policy)

    def byleave(self, *said: str) -> Done:
        """Run another command in the same place."""
        own = {"BYLEAVE_HOME": str(self.home), "HOME": str(self.home)}
        return byleave(*said, "--root", str(self.root), cwd=self.root, env=own)

    def records(self) -> list[dict[str, Any]]:
        """Return the whole audit log."""
        done = self.byleave("audit", "export", "--json")
        assert done.code == 0, done
        return [json.loads(line) for line in done.out.splitlines()]


class Running:
    """A gateway that serves HTTP."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said: list[str] = []
        assert process.stderr is not None
        self._stderr = process.stderr
        self.url = self._address()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _address(self) -> str:
        for line in self._stderr:
            self.said.append(line)
            found = re.search(r"listening at (http://\S+)", line)
            if found:
                return found[1]
        raise AssertionError(f"the gateway ended: {''.join(self.said)}")

    def _read(self) -> None:
        for line in self._stderr:
            self.said.append(line)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        self._stderr.close()


@contextmanager
def over_http(place: Place, *more: str, address: str = "127.0.0.1:0") -> Iterator[Running]:
    """Run a gateway that listens somewhere on loopback."""
    argv = [*COMMAND, *place.words("--http", address, *more)]
    process = subprocess.Popen(
        argv,
        env=place.env,
        cwd=place.root,
        text=True,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    running = Running(process)
    try:
        yield running
    finally:
        running.end()


@contextmanager
def talking(target: "Callable[[], Any]", mode: str, person: Person | None = None, **more: Any) -> Iterator[Talk]:
    talk = Talk(target, mode, person, **more)
    talk.open()
    try:
        yield talk
    finally:
        talk.close()


def at(url: str, **headers: str) -> "Callable[[], AbstractAsyncContextManager[Any]]":
    """Return how a gateway is reached over HTTP."""

    @asynccontextmanager
    async def target() -> AsyncIterator[Any]:
        plain = {name.replace("_", "-"): value for name, value in headers.items()}
        timeout = httpx2.Timeout(PATIENCE)
        async with (
            httpx2.AsyncClient(headers=plain, timeout=timeout, trust_env=False) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=None) as streams,
        ):
            yield streams

    return target


def by_pipe(place: Place, *more: str) -> "Callable[[], AbstractAsyncContextManager[Any]]":
    """Return how a gateway is started by its client."""

    def target() -> AbstractAsyncContextManager[Any]:
        command, *args = [*COMMAND, *place.words("--stdio", *more)]
        return stdio_client(StdioServerParameters(command=command, args=args, env=place.env, cwd=str(place.root)))

    return target


@contextmanager
def web_servers() -> Iterator[Mapping[str, str]]:
    """Run the SDK's servers; yield their addresses by name: `web`, `stream`, `modern`."""
    argv = [sys.executable, DOWNSTREAM, "web"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


def eventually(is_so: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Return what is so in the end, and fail if that takes too long."""
    deadline = time.monotonic() + patience
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
    return found
