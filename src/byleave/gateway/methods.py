"""The methods of MCP that a client may send, one function for each, and the tables of them.

Lists are merged over all servers that the caller may see. What belongs to one server is authorized, then forwarded to
it: `Methods.use_server` is that way for tools, prompts, resources and completions alike.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec import Struct

from byleave.core.action import LOCAL
from byleave.errors import InputError
from byleave.gateway.authorize import CALL, NeedsAnswer, Refused, ServerCall, passed_params
from byleave.gateway.catalog import Visibility
from byleave.gateway.client_questions import ELICIT, KEY, Continuation
from byleave.gateway.message import decoded, encode, notification
from byleave.gateway.notifications import LOG_LEVELS, Listener
from byleave.gateway.revisions import (
    HANDSHAKE,
    LATEST,
    NO_RESOURCE,
    SERVER_DOWN,
    SERVER_KEY,
    STATELESS,
    SUBSCRIPTION_KEY,
)
from byleave.gateway.server_connection import INFO
from byleave.gateway.server_info import DISCOVERY
from byleave.gateway.server_listing import KINDS
from byleave.gateway.tracing import TracedCall
from byleave.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Any

    from byleave.gateway.authorize import Authorizer
    from byleave.gateway.background import BackgroundTasks
    from byleave.gateway.catalog import Catalog
    from byleave.gateway.client_questions import ClientQuestions, Continuations
    from byleave.gateway.context import GatewayContext
    from byleave.gateway.forward import Forwarder
    from byleave.gateway.local_tools import LocalTools
    from byleave.gateway.message import ClientParams
    from byleave.gateway.notifications import Notifications
    from byleave.gateway.opened_servers import OpenedServers
    from byleave.gateway.quotas import Quota
    from byleave.gateway.requests import Client, ClientRequest
    from byleave.gateway.server_info import ServerInfo

SILENT_KEY = "byleave/unavailable"
PAGE_KEY = "byleave/pageSize"  # in the `_meta` of a request for a list: how many a page has
_CLIENTS_SHARING = 16  # how many clients of one principal may call as much as one
_LONGEST_PAGE = 10_000
_LONGEST_NAME = 100  # letters of a name that a client chose
_CURSOR = re.compile(r"([0-9]{1,9})\.([0-9]{1,5})\.([0-9a-f]{8})")


class Method(Struct, frozen=True):
    """A method, and whether revisions with a handshake and those without one have it."""

    serve: Callable[[Methods, ClientRequest], Awaitable[Any]]
    handshake: bool = True
    stateless: bool = True

    def spoken(self, *, stateless: bool) -> bool:
        """Whether the client's revision has it."""
        return self.stateless if stateless else self.handshake


class Methods:
    """The methods of one session."""

    def __init__(
        self,
        context: GatewayContext,
        client: Client,
        open_requests: Mapping[bytes, ClientRequest],
        *,
        servers: OpenedServers,
        catalog: Catalog,
        info: ServerInfo,
        authorizer: Authorizer,
        forwarder: Forwarder,
        continuations: Continuations,
        questions: ClientQuestions,
        notifications: Notifications,
        local: LocalTools,
        background: BackgroundTasks,
    ) -> None:
        self.context = context
        self.client = client
        self.servers = servers
        self.catalog = catalog
        self.info = info
        self.questions = questions
        self.notifications = notifications
        self.background = background
        self._open_requests = open_requests
        self._authorizer = authorizer
        self._forwarder = forwarder
        self._continuations = continuations
        self._local = local

    def view_of(self, request: ClientRequest) -> Visibility:
        """Return what the caller of a request may see."""
        return Visibility(self.context.guard.policy, request.who.agent)

    async def too_busy(self, request: ClientRequest, quotas: Sequence[Quota]) -> tuple[str, Any] | None:
        """Take a call of all these limits; return why no further call is taken now, None if there is room."""
        most = self.context.settings.max_calls * (_CLIENTS_SHARING if self.client.is_shared else 1)
        if len(self._open_requests) > most:
            self.context.refused_call("calls", request.who)
            return f"more than {most} requests of this client are open", None
        return await self.context.too_many(request.who, quotas)

    async def use_server(self, request: ClientRequest, call: ServerCall) -> bool:
        """Authorize a call, forward it, and answer the client; return whether it was done."""
        tracer = self.context.tracer
        if tracer is None:
            return await self._use_server(request, call)
        with tracer.begin_call(self._traced(request, call)) as request.trace:
            return await self._use_server(request, call)

    def _traced(self, request: ClientRequest, call: ServerCall) -> TracedCall:
        kind, name = call.used or ("tools", call.tool)
        return TracedCall(
            call.method,
            call.server,
            kind,
            name,
            call.who.agent,
            call.who.identity,
            revision=self.client.revision if request.envelope is None else STATELESS[0],
            over_pipe=self.client.caller.principal == "stdio",
            meta=call.params.meta,
            headers=request.transport_headers,
            lists=self.catalog.lists,
        )

    async def _use_server(self, request: ClientRequest, call: ServerCall) -> bool:
        tree, again = request.params.tree, False
        if request.envelope is not None:
            if not isinstance(tree.get("inputResponses", {}), dict):
                await request.error(INVALID_PARAMS, "inputResponses are an object")
                return False
            again = "requestState" in tree
        tool = call.tool if call.used is None else None
        quotas = self.context.quotas.of(call.who.agent, call.server, tool, again=again)
        busy = await (self.context.too_many(call.who, quotas) if again else self.too_busy(request, quotas))
        if busy is not None:
            self.context.metrics.called(call.server, request.who.agent, "allow", "limited")
            self._forwarder.finished(request, call, "allow", "limited")
            await request.error(SERVER_DOWN, *busy)
            return False
        try:
            return await self._use_counted(request, call, again=again)
        finally:
            self.context.counter.give(quotas)

    async def _use_counted(self, request: ClientRequest, call: ServerCall, *, again: bool) -> bool:
        """Do so with a call that is counted; `again`: one that waited for the client's answer."""
        continuation = None
        if again:
            continuation = self._continuations.take(request, call.fingerprint)
            if continuation is None:
                await request.error(INVALID_PARAMS, "this state belongs to no call that waits, or to another one")
                return False
        if continuation is not None and continuation.allowed is not None:
            denied = await self._authorizer.recheck(call)
            if denied is None:
                allowed = self._authorizer.allowed(call, continuation.allowed)
                return await self._forwarder.resume(request, call, allowed, continuation)
            await self._forwarder.refuse(request, call, denied.verdict)
            self._continuations.give_up(continuation)
            return False
        if continuation is not None and continuation.pending is not None:
            decided: Any = await self._authorizer.complete(call, continuation.pending)
        else:
            decided = await self._authorizer.authorize(request, call)
        if isinstance(decided, NeedsAnswer):
            questions = {KEY: {"method": ELICIT, "params": decided.form}}
            waiting = Continuation(call.fingerprint, pending=decided.pending)
            await self._continuations.suspend(request, questions, waiting)
            return False
        if isinstance(decided, Refused):
            await self._forwarder.refuse(request, call, decided.verdict)
            return False
        return await self._forwarder.forward(request, call, decided)

    async def call_tool(self, request: ClientRequest, server: str, tool: str, arguments: Any) -> None:
        """Answer one call of a tool."""
        if arguments is not None and not isinstance(arguments, dict):
            await request.error(INVALID_PARAMS, "the arguments of a tool are an object")
            return
        sent: dict[str, Any] = {"name": tool}
        if arguments is not None:
            sent["arguments"] = arguments  # as they were evaluated, and may have been shown; not as they were written
        pin = None
        if server == LOCAL:
            try:
                pin = await self._local.pin(tool, request.who, principal=self.client.caller.principal)
            except InputError:  # there is no such tool; its call says so
                pin = None
        call = ServerCall(CALL, server, sent, request.params, request.who, tool, arguments, pin, scopes=request.scopes)
        await self.use_server(request, call)

    async def use(self, request: ClientRequest, server: str, kind: str, name: str, sent: Mapping[str, Any]) -> bool:
        """Answer a request about a resource or a prompt; return whether it may be used, and was."""
        used, scopes = (kind, name), request.scopes
        call = ServerCall(request.method, server, sent, request.params, request.who, used=used, scopes=scopes)
        return await self.use_server(request, call)

    async def use_resource(self, request: ClientRequest) -> str | None:
        """Have the server of a resource answer a request about it, if it may be used; return that server, if so."""
        uri = request.params.text("uri")
        if not uri:
            await request.error(INVALID_PARAMS, "a resource is named by its uri")
            return None
        owner = await self.catalog.owner(uri, self.view_of(request))
        if owner.server is None:
            because = f": {owner.problem}" if owner.problem else ""
            number = NO_RESOURCE if request.envelope is None else INVALID_PARAMS
            what = f"there is no resource {quoted(uri[:_LONGEST_NAME])} here{because}"
            await request.error(number, what, {"uri": uri})
            return None
        sent = passed_params(request.method, request.params)
        return owner.server if await self.use(request, owner.server, "resources", uri, sent) else None

    async def subscribe_all(self, request: ClientRequest, uris: Any, kept: list[str]) -> None:
        """Subscribe to resources for a client that listens; add to `kept` those that the caller may see."""
        view, notifications = self.view_of(request), self.notifications
        for uri in uris if isinstance(uris, list) else ():
            if not isinstance(uri, str) or notifications.why_not_subscribed(uri):
                continue
            server = (await self.catalog.owner(uri, view)).server
            quotas = self.context.quotas.of(request.who.agent, server or "", None)
            if await self.too_busy(request, quotas) is not None:  # each is as good as a request
                break
            self.context.counter.give(quotas)
            if server is None:
                continue
            used, scopes = ("resources", uri), request.scopes
            call = ServerCall(request.method, server, {}, request.params, request.who, used=used, scopes=scopes)
            if await self._authorizer.allows_use(call):
                kept.append(uri)
                notifications.listened_for[uri] += 1
                notifications.subscribed[uri] = server
                await self.servers.reach(server).subscribe(uri)

    def unsubscribe_all(self, uris: list[str]) -> None:
        """Unsubscribe from resources, but for those that another client of the session listens for."""
        notifications = self.notifications
        for uri in uris:
            notifications.listened_for[uri] -= 1
            if notifications.listened_for[uri] <= 0:
                del notifications.listened_for[uri]
                server = notifications.subscribed.pop(uri, None)
                if server is not None and self.servers.is_up(server):
                    self.background.start(self.servers.reach(server).unsubscribe(uri))


# ---- The beginning -------------------------------------------------------------------------------------------------


async def _initialize(session: Methods, request: ClientRequest) -> None:
    client = session.client
    if client.shakes_hands:
        await request.error(INVALID_REQUEST, "the session has begun already")
        return
    revision = request.params.text("protocolVersion")
    capabilities = request.params.tree.get("capabilities", {})
    if revision is None or not isinstance(capabilities, dict):
        await request.error(INVALID_PARAMS, "initialize names a protocolVersion, and capabilities")
        return
    client.shakes_hands, client.capabilities = True, capabilities
    introduction = await session.info.introduce(session.view_of(request))
    client.revision = revision if revision in HANDSHAKE else LATEST
    await request.result({"protocolVersion": client.revision, "serverInfo": INFO, **introduction})
    client.welcomed.set()


async def _discover(session: Methods, request: ClientRequest) -> None:
    introduction = await session.info.introduce(session.view_of(request))
    versions = [*STATELESS, *HANDSHAKE]
    await request.result({"supportedVersions": versions, **introduction, "_meta": {SERVER_KEY: INFO}})


async def _ping(_session: Methods, request: ClientRequest) -> None:
    await request.result(b"{}")


# ---- Lists ---------------------------------------------------------------------------------------------------------


async def _list(session: Methods, request: ClientRequest, *, kind: str) -> None:
    written: list[bytes] = []
    single: list[bytes] = []  # the same, one by one
    silent: Mapping[str, str] = {}
    expose = session.context.settings.expose
    if kind == "tools" and expose != "flat":
        written += map(encode, DISCOVERY.values())
        single += written
    if kind != "tools" or expose != "discovery":
        found = await session.catalog.listing(kind, session.view_of(request))
        written += found.written
        single += [offer.written for offer in found.offers]
        silent = found.silent
    page = page_of(request.params, single, written)
    if page is None:
        await request.error(INVALID_PARAMS, "there is no such page, or the list has changed: begin at its beginning")
        return
    more = b"" if page.following is None else b',"nextCursor":%b' % encode(page.following)
    meta = b',"_meta":%b' % encode({SILENT_KEY: silent}) if silent else b""
    await request.result(b"{%b:[%b]%b%b}" % (encode(KINDS[kind].field), page.written, more, meta))


class ListPage(Struct, frozen=True):
    """A part of a list as clients get it, and the cursor of the one that follows."""

    written: bytes
    following: str | None = None


def page_of(params: ClientParams, single: list[bytes], written: list[bytes]) -> ListPage | None:
    """Return the page that a client asks for; all of the list if it wants no pages, None if there is no such page.

    A client that wants pages says how long. The cursor holds where the next one begins, and of which list.
    """
    given, size = params.tree.get("cursor"), params.meta.get(PAGE_KEY)
    if given is None and size is None:
        return ListPage(b",".join(written))
    mark = f"{crc32(b','.join(written)):08x}"
    start = 0
    if given is not None:
        found = _CURSOR.fullmatch(given) if isinstance(given, str) else None
        if found is None or found[3] != mark:
            return None
        start, size = int(found[1]), int(found[2])
    if type(size) is not int or not 1 <= size <= _LONGEST_PAGE or start > len(single):
        return None
    end = start + size
    return ListPage(b",".join(single[start:end]), f"{end}.{size}.{mark}" if end < len(single) else None)


# ---- What belongs to one server ------------------------------------------------------------------------------------


async def _call(session: Methods, request: ClientRequest) -> None:
    name = request.params.text("name")
    if not name:
        await request.error(INVALID_PARAMS, "tools/call names a tool")
        return
    expose = session.context.settings.expose
    if expose != "flat" and name in DISCOVERY:
        await _call_discovery(session, request, name)
        return
    found = None if expose == "discovery" else await session.catalog.find("tools", name, session.view_of(request))
    if found is None:
        await request.error(INVALID_PARAMS, f"there is no tool {quoted(name[:_LONGEST_NAME])}")
        return
    await session.call_tool(request, *found, request.params.tree.get("arguments"))


async def _call_discovery(session: Methods, request: ClientRequest, name: str) -> None:
    """Answer a call of one of the tools that find others."""
    given = request.params.tree.get("arguments")
    arguments: dict[str, Any] = given if isinstance(given, dict) else {}
    agent, server, tool = (
        value if isinstance(value := arguments.get(key), str) else None for key in ("agent_id", "server", "tool")
    )
    if agent is not None:
        request.who = session.context.who(session.client.caller, agent)
    view = session.view_of(request)
    if name == "list_servers":
        await request.result(session.info.list_servers(view))
    elif name == "get_server_tools":
        if server is None or server not in view.servers():
            await request.error(INVALID_PARAMS, f"there is no server {quoted(server or '')} for you")
            return
        found = await session.info.server_tools(server, view)
        await (request.error(SERVER_DOWN, found) if isinstance(found, str) else request.result(found))
    else:
        if not server or not tool:
            await request.error(INVALID_PARAMS, "execute_tool names a server and a tool")
            return
        await session.call_tool(request, server, tool, arguments.get("arguments"))


async def _get_prompt(session: Methods, request: ClientRequest) -> None:
    name = request.params.text("name")
    found = None if not name else await session.catalog.find("prompts", name, session.view_of(request))
    if found is None:  # whether there is such a server is not said before the policy is asked
        await request.error(INVALID_PARAMS, f"there is no prompt {quoted((name or '')[:_LONGEST_NAME])}")
        return
    server, own = found
    await session.use(request, server, "prompts", own, {**passed_params(request.method, request.params), "name": own})


async def _read_resource(session: Methods, request: ClientRequest) -> None:
    await session.use_resource(request)


async def _subscribe(session: Methods, request: ClientRequest) -> None:
    why = session.notifications.why_not_subscribed(request.params.text("uri") or "")
    if why:
        await request.error(INVALID_REQUEST, why)
        return
    server = await session.use_resource(request)
    if server is not None:
        session.notifications.subscribed[request.params.tree["uri"]] = server


async def _unsubscribe(session: Methods, request: ClientRequest) -> None:
    uri = request.params.text("uri") or ""
    server = session.notifications.subscribed.pop(uri, None)
    if server is None:
        await request.error(INVALID_PARAMS, f"there is no subscription to {quoted(uri[:_LONGEST_NAME])}")
        return
    await session.servers.reach(server).unsubscribe(uri)
    await request.result(b"{}")


async def _complete(session: Methods, request: ClientRequest) -> None:
    given = request.params.tree.get("ref")
    kind, name, uri = (
        value if isinstance(given, dict) and isinstance(value := given.get(key), str) else ""
        for key in ("type", "name", "uri")
    )
    view = session.view_of(request)
    params = passed_params(request.method, request.params)
    server = None
    if kind == "ref/prompt":
        found = await session.catalog.find("prompts", name, view)
        if found is not None:
            server, own = found
            params["ref"] = {"type": kind, "name": own}
            used = ("prompts", own)
    elif kind == "ref/resource":
        server = (await session.catalog.owner(uri, view)).server
        params["ref"] = {"type": kind, "uri": uri}
        used = ("resources", uri)
    if server is None:
        await request.error(INVALID_PARAMS, "completion/complete names a prompt or a resource that is there")
        return
    await session.use(request, server, *used, params)


async def _set_level(session: Methods, request: ClientRequest) -> None:
    if request.params.text("level") not in LOG_LEVELS:
        await request.error(INVALID_PARAMS, "there is no such level")
        return
    level = session.client.log_level = request.params.written["level"]
    for upstream in session.servers.up:
        session.background.start(upstream.log(level))
    await request.result(b"{}")


async def _listen(session: Methods, request: ClientRequest) -> None:
    """Keep a stream of notifications open for a stateless client until it goes away."""
    asked = request.params.tree.get("notifications")
    if not isinstance(asked, dict):
        await request.error(INVALID_PARAMS, "subscriptions/listen says which notifications it listens for")
        return
    kept: dict[str, Any] = {key: True for key, value in asked.items() if key.endswith("ListChanged") and value is True}
    uris: list[str] = kept.setdefault("resourceSubscriptions", [])
    try:
        await session.subscribe_all(request, asked.get("resourceSubscriptions"), uris)
        meta = {SUBSCRIPTION_KEY: decoded(request.id)}
        acknowledged = notification("notifications/subscriptions/acknowledged", {"notifications": kept, "_meta": meta})
        if not await request.sink.send(acknowledged):
            await request.error(INVALID_REQUEST, "what is listened for comes as a stream, and none is accepted here")
            return
        listener = Listener(kept, meta, request.sink)
        session.notifications.listeners.add(listener)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            session.notifications.listeners.discard(listener)
            listener.queue.close()
    finally:
        session.unsubscribe_all(uris)


METHODS: Mapping[str, Method] = {
    "initialize": Method(_initialize, stateless=False),
    "ping": Method(_ping, stateless=False),
    "server/discover": Method(_discover, handshake=False),
    "tools/list": Method(partial(_list, kind="tools")),
    "tools/call": Method(_call),
    "prompts/list": Method(partial(_list, kind="prompts")),
    "prompts/get": Method(_get_prompt),
    "resources/list": Method(partial(_list, kind="resources")),
    "resources/templates/list": Method(partial(_list, kind="templates")),
    "resources/read": Method(_read_resource),
    "resources/subscribe": Method(_subscribe, stateless=False),
    "resources/unsubscribe": Method(_unsubscribe, stateless=False),
    "subscriptions/listen": Method(_listen, handshake=False),
    "completion/complete": Method(_complete),
    "logging/setLevel": Method(_set_level, stateless=False),
}


def _roots_changed(session: Methods, _params: ClientParams) -> None:
    for upstream in session.servers.up:
        upstream.notify("notifications/roots/list_changed")


def _progress(session: Methods, params: ClientParams) -> None:
    session.questions.pass_on_progress(params)


def _initialized(session: Methods, _params: ClientParams) -> None:
    session.client.begun.set()


# `notifications/cancelled` is about an open request, so the session takes it itself.
NOTIFICATIONS: Mapping[str, Callable[[Methods, ClientParams], None]] = {
    "notifications/initialized": _initialized,
    "notifications/roots/list_changed": _roots_changed,
    "notifications/progress": _progress,
}
