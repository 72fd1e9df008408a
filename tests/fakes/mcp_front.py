"""A gateway in small behind the HTTP front, and a client that says exactly what it is told to say."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Any

import msgspec

from byleave.gateway.access_log import AccessLog
from byleave.gateway.http_front import HttpFront, serve_http
from byleave.gateway.interfaces import Caller, MessageContext
from byleave.gateway.metrics import Metrics
from byleave.gateway.replicas import Replicas
from byleave.net.http_admission import ServerLimits
from byleave.policy.gateway_settings import IdentityRule, ScopeRule
from byleave.record import Record

if TYPE_CHECKING:
    from byleave.gateway.interfaces import Sink

PATIENCE = 10.0
BRISK = ServerLimits(tick=0.01)


class Jwt(Record):
    issuer: str = "https://id.example.com"
    audience: str | tuple[str, ...] = "byleave"
    jwks: str = ""
    agent_claim: str | None = "sub"
    algorithms: tuple[str, ...] = ()


class Settings(Record):
    require_identity: bool = False
    max_body: int = 8 << 20
    max_sessions: int = 1000
    max_sessions_per_caller: int = 1000
    max_connections: int = 1024
    max_connections_per_caller: int = 512
    max_connections_per_peer: int = 512
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    proxy_header: str = "x-forwarded-for"
    metrics_agents: tuple[str, ...] = ()
    public_url: str | None = None
    jwt: Jwt | None = None
    issuers: tuple[Jwt, ...] = ()
    identities: tuple[IdentityRule, ...] = ()
    scopes: tuple[ScopeRule, ...] = ()


class Talk:
    """A conversation that does what the method of each request names."""

    def __init__(self, gateway: "FakeGateway", caller: Caller) -> None:
        self.gateway = gateway
        self.caller = caller
        self.heard: list[dict[str, Any]] = []
        self.told: list[dict[str, str]] = []
        self.standing: Sink | None = None
        self.closed = asyncio.Event()

    async def handle(self, message: bytes, sink: "Sink", told: MessageContext) -> None:
        tree = json.loads(message)
        self.heard.append(tree)
        self.told.append(dict(told.headers))
        method = tree.get("method", "")
        act = getattr(self, f"_{method.replace('/', '_')}", self._echo)
        await act(tree, sink)

    async def _echo(self, tree: dict[str, Any], sink: "Sink") -> None:
        if "id" in tree and "method" in tree:
            who = [self.caller.agent, self.caller.identity, self.caller.principal]
            await sink.answer(answer(tree["id"], {"echo": tree.get("params"), "who": who}))

    async def _initialize(self, tree: dict[str, Any], sink: "Sink") -> None:
        if tree.get("params", {}).get("fail"):
            await sink.answer(error(tree["id"], -32602, "no"))
        else:
            await sink.answer(answer(tree["id"], {"protocolVersion": "2025-11-25"}))

    async def _chat(self, tree: dict[str, Any], sink: "Sink") -> None:
        self.gateway.sent.append(await sink.send(b'{"jsonrpc":"2.0",', b'"method":"notifications/progress"}'))
        await self._echo(tree, sink)

    async def _wait(self, tree: dict[str, Any], sink: "Sink") -> None:
        self.gateway.waiting.set()
        try:
            await self.gateway.go_on.wait()
        except asyncio.CancelledError:
            self.gateway.cancelled.set()
            raise
        await self._echo(tree, sink)

    async def _large(self, tree: dict[str, Any], sink: "Sink") -> None:
        size = tree["params"]["size"]
        raw: Any = msgspec.Raw(b'"%b"' % (b"x" * size))  # servers' results are passed on like this
        await sink.answer(b'{"jsonrpc":"2.0","id":%d,"result":' % tree["id"], raw, b"}")

    async def _break(self, _tree: dict[str, Any], _sink: "Sink") -> None:
        raise RuntimeError("something secret")

    async def _mute(self, _tree: dict[str, Any], _sink: "Sink") -> None:
        pass

    async def _unknown(self, tree: dict[str, Any], sink: "Sink") -> None:
        await sink.answer(error(tree["id"], -32601, "there is no such method"), status=404)

    async def _lines(self, tree: dict[str, Any], sink: "Sink") -> None:
        await sink.send(b'{"jsonrpc":"2.0",\r\n\r\nevent: message\ndata: "method":"x"}')
        await self._echo(tree, sink)

    async def _notifications_wrong(self, _tree: dict[str, Any], sink: "Sink") -> None:
        await sink.answer(error(None, -32600, "wrong"))

    def attach(self, sink: "Sink") -> None:
        self.standing = sink

    async def close(self) -> None:
        self.closed.set()


class FakeGateway:
    def __init__(self) -> None:
        self.talks: list[Talk] = []
        self.lasting: dict[str, Talk] = {}
        self.sent: list[bool] = []
        self.waiting = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.metrics = Metrics()
        self.problem = ""
        self.is_spooling = False
        self.tokens_used: list[bytes] = []
        self.refusals: list[tuple[str, str]] = []

    def token_used(self, digest: bytes, /) -> None:
        self.tokens_used.append(digest)

    def converse(self, caller: Caller) -> Talk:
        self.talks.append(Talk(self, caller))
        return self.talks[-1]

    def stateless(self, caller: Caller) -> Talk:
        return self.lasting.setdefault(caller.principal, Talk(self, caller))

    def metrics_text(self) -> str:
        return "byleave_calls_total 7\n"

    def metrics_text_for(self, agent: str | None) -> str:
        return f"byleave_calls_total_of_{agent} 3\n"

    def refused(self, why: str, peer: str = "", *, status: int) -> str:
        self.refusals.append((why, peer))
        assert status in (400, 401, 403, 408, 413, 429, 431, 503)
        return ""


def answer(id_: object, result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode()


def error(id_: object, code: int, text: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text}}).encode()


class Response(Record):
    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The messages in a stream of events; comments left out."""
        return read_events(self.body)


def read_events(body: bytes) -> list[Any]:
    blocks = [block for block in body.decode().split("\n\n") if block and not block.startswith(":")]
    lines = [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]
    return [json.loads(each["data"]) if each["event"] == "message" else each for each in lines]


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.reader = reader
        self.writer = writer
        self.port = port

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def request(self, method: str, path: str, body: bytes = b"", **fields: str) -> bytes:
        """Return the bytes of a request; `fields` with underscores for hyphens, an empty one left out."""
        usual = {"host": f"127.0.0.1:{self.port}", "accept": "application/json, text/event-stream"}
        if method == "POST":
            usual |= {"content-type": "application/json", "content-length": str(len(body))}
        all_fields = usual | {name.replace("_", "-"): value for name, value in fields.items()}
        lines = [f"{name}: {value}" for name, value in all_fields.items() if value]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body

    async def ask(self, method: str, path: str, body: bytes = b"", **fields: str) -> Response:
        await self.send(self.request(method, path, body, **fields))
        return await self.response(method)

    async def post(self, message: object, **fields: str) -> Response:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.ask("POST", "/mcp", body, **fields)

    async def call(self, method: str, params: object = None, **fields: str) -> Response:
        return await self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **fields)

    async def initialize(self, **fields: str) -> str:
        opened = await self.call("initialize", {}, **fields)
        assert opened.status == 200, opened
        return opened.fields["mcp-session-id"]

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        return int(first.split(" ")[1]), {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in lines}

    async def response(self, method: str = "POST") -> Response:
        status, fields = await self.head()
        async with asyncio.timeout(PATIENCE):
            if fields.get("transfer-encoding") == "chunked":
                return Response(status, fields, b"".join([piece async for piece in self.chunks()]))
            size = 0 if method == "HEAD" else int(fields.get("content-length", "0"))
            return Response(status, fields, await self.reader.readexactly(size))

    async def chunks(self) -> AsyncIterator[bytes]:
        while (piece := await self.chunk()) is not None:
            yield piece

    async def chunk(self) -> bytes | None:
        """Return the next chunk, None after the last."""
        async with asyncio.timeout(PATIENCE):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            piece = await self.reader.readexactly(size + 2)
        return piece[:-2] if size else None

    async def event(self) -> Any:
        """Return the next event of a stream."""
        while True:
            piece = await self.chunk()
            assert piece is not None
            if not piece.startswith(b":"):
                return read_events(piece)[0]

    async def ended(self) -> bytes:
        """Return what comes until the server hangs up."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class Scene:
    """A front that is open, and ways to reach it."""

    def __init__(self, gateway: FakeGateway, front: HttpFront) -> None:
        self.gateway = gateway
        self.front = front
        self.port = front.addresses[0].port
        self.warnings: list[str] = []
        self._clients: list[Client] = []

    async def client(self, host: str = "127.0.0.1") -> Client:
        reader, writer = await asyncio.open_connection(host, self.port, limit=1 << 24)
        self._clients.append(Client(reader, writer, self.port))
        return self._clients[-1]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        await self.front.close(grace=PATIENCE)


@contextlib.asynccontextmanager
async def scene(
    *,
    settings: Settings | None = None,
    tokens: Mapping[str, tuple[str, ...]] | None = None,
    bound: tuple[str, ...] = (),
    subjects: Mapping[str, str] | None = None,
    limits: ServerLimits = BRISK,
    host: str = "127.0.0.1",
    access_log: AccessLog | None = None,
    replicas: Replicas | None = None,
) -> AsyncIterator[Scene]:
    gateway, warnings = FakeGateway(), list[str]()
    front = await serve_http(
        gateway,
        host,
        0,
        settings=settings or Settings(),
        tokens=tokens or {},
        bound=bound,
        subjects=subjects,
        limits=limits,
        warn=warnings.append,
        access_log=access_log,
        replicas=replicas,
    )
    opened = Scene(gateway, front)
    opened.warnings = warnings
    try:
        yield opened
    finally:
        gateway.go_on.set()
        await opened.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nothing tells of."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 -- there is no event for it
            await asyncio.sleep(0)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Play a scenario to its end, which comes soon; anything that goes wrong beside it counts, too."""
    asyncio.run(_watched(scenario))


async def _watched(scenario: Callable[[], Awaitable[None]]) -> None:
    wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: wrong.append(context))
    async with asyncio.timeout(30):
        await scenario()
    assert wrong == []
