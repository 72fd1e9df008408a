"""A gateway without processes or sockets: clients and servers are plain objects, and every message is kept."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from byleave.gateway import server_pool
from byleave.gateway.context import client_approval
from byleave.gateway.gateway import Gateway
from byleave.gateway.interfaces import Caller, MessageContext, Outgoing
from byleave.guard.open_guard import guard_for
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace
from byleave.store.audit.query import Filter
from byleave.toolhost.authorize import WithRunModes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest

    from byleave.gateway.interfaces import Receiver
    from byleave.gateway.session import Session, SessionPool

Tree = dict[str, Any]
META = "io.modelcontextprotocol/"
OPEN: Tree = {"agents": {"ops": {"allow": {"servers": ["*"]}}}}


class FakeServer:
    """A downstream server as a function: what it lists, and what it does with a call."""

    def __init__(self, *tools: str, **more: Any) -> None:
        self.tools: list[Tree] = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
        self.listed: dict[str, list[Tree]] = {"prompts": [], "resources": [], "resourceTemplates": []}
        self.abilities: Tree = {"tools": {}, "prompts": {}, "resources": {}, "logging": {}, "completions": {}}
        self.heard: list[Tree] = []
        self.links: list[FakeLink] = []
        self.on_call: Callable[[FakeLink, Tree], Tree | None] = self._echo
        self.page = 2
        self.refuses_handshake = False
        self.instructions = ""
        self.unknown: set[str] = set()  # methods that it does not have
        self.discovers = False  # whether it knows the stateless revision, besides the handshake
        self.raw_tools = b""  # the very bytes of its list, where they matter
        self.is_hung = False  # whether it answers nothing at all
        self.never_ends = False  # whether every page of its tools leads to the same one again
        self.__dict__.update(more)

    async def called(self) -> None:
        """Wait until a call has come."""
        while not self.calls():  # noqa: ASYNC110 -- what is heard comes in a plain list
            await asyncio.sleep(0.001)

    async def answered(self) -> None:
        """Wait until a question of the server's was answered."""
        while not any("result" in each for each in self.heard):  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0.001)

    def calls(self) -> list[Tree]:
        return [each["params"] for each in self.heard if each.get("method") == "tools/call"]

    def methods(self) -> list[str]:
        return [each["method"] for each in self.heard if "method" in each]

    @staticmethod
    def _echo(_link: FakeLink, request: Tree) -> Tree:
        params = request["params"]
        return {"content": [{"type": "text", "text": params["name"]}], "structuredContent": params.get("arguments", {})}

    def answer(self, link: FakeLink, request: Tree) -> None:
        method, params = request["method"], request.get("params", {})
        if method == "tools/call":
            result = self.on_call(link, request)
            if result is not None:
                link.say(
                    {"id": request["id"], **({"error": result["error"]} if "error" in result else {"result": result})}
                )
            return
        if method == "tools/list" and self.raw_tools:
            link.receiver.received(
                b'{"jsonrpc":"2.0","id":"%b","result":{"tools":%b}}' % (request["id"].encode(), self.raw_tools), None
            )
            return
        made = self._made(method, params)
        key = "error" if "code" in made else "result"
        link.say({"id": request["id"], key: made})

    def _made(self, method: str, params: Tree) -> Tree:
        if method in self.unknown:
            return {"code": -32601, "message": "no such method"}
        if method == "initialize":
            if self.refuses_handshake:
                return {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": self.abilities,
                "serverInfo": {"name": "fake", "version": "1"},
                **({"instructions": self.instructions} if self.instructions else {}),
            }
        if method == "server/discover":
            if not (self.discovers or self.refuses_handshake):
                return {"code": -32601, "message": "no such method"}
            more = {"instructions": self.instructions} if self.instructions else {}
            return {"supportedVersions": ["2026-07-28"], "capabilities": self.abilities, **more}
        lists = {"tools/list": ("tools", self.tools)} | {
            f"{name}/list".replace("resourceTemplates", "resources/templates"): (name, listed)
            for name, listed in self.listed.items()
        }
        if method == "tools/list" and self.never_ends:
            return {"tools": self.tools[:1], "nextCursor": "1"}
        if method in lists:
            name, listed = lists[method]
            start = int(params.get("cursor", 0))
            page: Tree = {name: listed[start : start + self.page]}
            return page | ({"nextCursor": str(start + self.page)} if start + self.page < len(listed) else {})
        if method in ("prompts/get", "resources/read", "completion/complete"):
            return {"did": method, "params": params}
        return {}


class FakeLink:
    """The connection of one client to a fake server."""

    def __init__(self, server: FakeServer, receiver: Receiver) -> None:
        self.revision = ""
        self.server = server
        self.receiver = receiver
        self.is_closed = False
        self.reads = True  # whether what is sent is ever taken
        self.abandoned: list[str] = []
        self.sent: list[Outgoing] = []
        server.links.append(self)

    async def open(self) -> None:
        await asyncio.sleep(0)

    async def send(self, outgoing: Outgoing) -> None:
        if not self.reads:
            await asyncio.get_running_loop().create_future()
        self.sent.append(outgoing)
        message = msgspec.json.decode(outgoing.message)
        self.server.heard.append(message)
        if "method" in message and "id" in message and not self.server.is_hung:
            asyncio.get_running_loop().call_soon(self.server.answer, self, message)

    def say(self, message: Tree) -> None:
        self.receiver.received(msgspec.json.encode({"jsonrpc": "2.0", **message}), None)

    def listen(self) -> None:
        return

    async def abandon(self, id_: str) -> None:
        self.abandoned.append(id_)

    async def close(self) -> None:
        self.is_closed = True


class FakeSink:
    """What a client gets to read."""

    def __init__(self) -> None:
        self.messages: list[Tree] = []
        self.final: Tree | None = None
        self.raw = b""
        self.status = 0
        self.scopes: tuple[str, ...] = ()
        self.on_request: Callable[[Tree], None] | None = None

    async def send(self, *parts: bytes) -> bool:
        message = msgspec.json.decode(b"".join(bytes(part) for part in parts))
        self.messages.append(message)
        if "id" in message and "method" in message and self.on_request is not None:
            self.on_request(message)
        return True

    async def answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:
        assert self.final is None, "answered twice"
        self.raw = b"".join(bytes(part) for part in parts)
        self.final = msgspec.json.decode(self.raw)
        self.status, self.scopes = status, scopes

    def is_open(self) -> bool:
        return True


class FakeClient:
    """A client with a session."""

    def __init__(self, session: Session | SessionPool, capabilities: Tree | None = None) -> None:
        self.session: Any = session
        self.aside = FakeSink()
        self.sinks: list[FakeSink] = []  # one for each message that was sent
        self.capabilities = capabilities or {}
        self.on_request: Callable[[Tree], Tree | None] | None = None
        self.scopes: frozenset[str] | None = None  # of its token
        self._ids = itertools.count(1)
        session.attach(self.aside)

    async def begin(self, revision: str = "2025-11-25") -> Tree:
        return await self.ask(
            "initialize",
            {
                "protocolVersion": revision,
                "capabilities": self.capabilities,
                "clientInfo": {"name": "c", "version": "1"},
            },
        )

    async def tell(self, message: Tree) -> FakeSink:
        sink = FakeSink()
        self.sinks.append(sink)
        sink.on_request = self._asked
        await self.session.handle(
            msgspec.json.encode({"jsonrpc": "2.0", **message}), sink, MessageContext(scopes=self.scopes)
        )
        return sink

    def _asked(self, request: Tree) -> None:
        answer = None if self.on_request is None else self.on_request(request)
        if answer is not None:
            asyncio.get_running_loop().create_task(self.tell({"id": request["id"], **answer}))

    async def exchange(self, method: str, params: Tree | None = None) -> FakeSink:
        return await self.tell({"id": next(self._ids), "method": method, "params": params or {}})

    async def ask(self, method: str, params: Tree | None = None) -> Tree:
        sink = await self.exchange(method, params)
        assert sink.final is not None
        return sink.final

    async def call(self, name: str, arguments: Tree | None = None, **more: Any) -> Tree:
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}, **more})

    async def names(self) -> list[str]:
        listed = await self.ask("tools/list")
        return sorted(tool["name"] for tool in listed["result"]["tools"])


class StatelessClient(FakeClient):
    """A client of the revision without sessions."""

    async def exchange(self, method: str, params: Tree | None = None) -> FakeSink:
        meta = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": self.capabilities}
        asked = params or {}
        meta |= asked.get("_meta", {})
        return await super().exchange(method, {**asked, "_meta": meta})


class Talk:
    """A gateway, its servers and its clients."""

    def __init__(self, tmp: Path, patch: pytest.MonkeyPatch, tree: Mapping[str, Any], **servers: FakeServer) -> None:
        self.servers = {name.replace("_", "-"): server for name, server in servers.items()}
        root = tmp / "ws"
        root.mkdir(exist_ok=True)
        self.workspace = Workspace(
            str(root), homes=find_homes({"BYLEAVE_HOME": str(tmp / "home"), "HOME": str(tmp / "user")})
        )
        known = {name: {"command": [name]} for name in self.servers} | dict(tree.get("servers", {}))
        self.policy = self.workspace.compile_tree({**tree, "servers": known})
        judged_by: Any = WithRunModes(self.policy, by_hand=False)
        self.guard = guard_for(
            self.workspace, "mcp", client_approves=client_approval(over_http=False), policy=judged_by
        )
        self.notes: list[str] = []
        patch.setattr(server_pool, "make_link", self._link)
        self.gateway = Gateway(self.workspace, self.guard, note=self.notes.append, environment={})

    def _link(self, server: Any, _expanded: Any, receiver: Receiver, _surroundings: Any, **_more: Any) -> FakeLink:
        return FakeLink(self.servers[server.name], receiver)

    def client(self, agent: str | None = "ops", **capabilities: Any) -> FakeClient:
        caller = Caller(agent, "verified" if agent else "default", "stdio")
        return FakeClient(self.gateway.converse(caller), capabilities)

    def stateless(self, agent: str | None = "ops", **capabilities: Any) -> StatelessClient:
        caller = Caller(agent, "verified" if agent else "default", f"token:{agent}")
        return StatelessClient(self.gateway.stateless(caller), capabilities)

    def records(self) -> list[Tree]:
        """What the audit log holds by now, of decisions and effects."""
        return [kept.tree for kept in self.guard._log.query(Filter())]  # type: ignore[attr-defined] # noqa: SLF001

    async def close(self) -> None:
        await self.gateway.close()
        self.guard.close()
