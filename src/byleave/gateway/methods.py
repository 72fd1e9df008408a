"""What a client may ask for, one function per method, and the table of them.

Tools are called in `calling`. Lists are merged over all servers that the caller may see; what belongs to one server is
relayed to it once the policy allows it.
"""

from __future__ import annotations

import asyncio
import functools
import re
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec import Struct

from byleave.gateway.discovery import DISCOVERY, call_discovery
from byleave.gateway.forward import passed
from byleave.gateway.message import decoded, encode, members_of, notification, text_of
from byleave.gateway.notifications import Listener
from byleave.gateway.revisions import HANDSHAKE, LATEST, NO_RESOURCE, SERVER_KEY, STATELESS, SUBSCRIPTION_KEY
from byleave.gateway.server_info import introduce
from byleave.gateway.server_listing import KINDS
from byleave.gateway.upstream import INFO
from byleave.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from byleave.gateway.client_request import ClientRequest
    from byleave.gateway.message import Members
    from byleave.gateway.session import Session

SILENT_KEY = "byleave/unavailable"
PAGE_KEY = "byleave/pageSize"  # in the `_meta` of a request for a list: how many a page has
_LONGEST_PAGE = 10_000
_CURSOR = re.compile(r"([0-9]{1,9})\.([0-9]{1,5})\.([0-9a-f]{8})")
_LEVELS = frozenset({"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"})
_WORTH_SAYING = 100  # letters of a name that somebody else chose


class Method(Struct, frozen=True):
    """A method, and whether revisions with a handshake and those without one have it."""

    serve: Callable[[Session, ClientRequest], Awaitable[None]]
    handshake: bool = True
    stateless: bool = True

    def spoken(self, *, stateless: bool) -> bool:
        """Whether the client's revision has it."""
        return self.stateless if stateless else self.handshake


async def _initialize(session: Session, exchange: ClientRequest) -> None:
    if session.shakes:
        await exchange.error(INVALID_REQUEST, "the session has begun already")
        return
    wanted = text_of(exchange.params.get("protocolVersion"))
    capabilities = decoded(exchange.params.get("capabilities", b"{}"))
    if wanted is None or not isinstance(capabilities, dict):
        await exchange.error(INVALID_PARAMS, "initialize names a protocolVersion, and capabilities")
        return
    session.shakes, session.capabilities = True, capabilities
    told = await introduce(session, exchange)
    session.revision = wanted if wanted in HANDSHAKE else LATEST
    await exchange.result({"protocolVersion": session.revision, "serverInfo": INFO, **told})
    session.welcomed.set()


async def _discover(session: Session, exchange: ClientRequest) -> None:
    told = await introduce(session, exchange)
    result = {"supportedVersions": [*STATELESS, *HANDSHAKE], **told, "_meta": {SERVER_KEY: INFO}}
    await exchange.result(result)


async def _ping(_session: Session, exchange: ClientRequest) -> None:
    await exchange.result(b"{}")


async def _list(kind: str, session: Session, exchange: ClientRequest) -> None:
    what = KINDS[kind]
    written: list[bytes] = []
    single: list[bytes] = []  # the same, one by one
    silent: Mapping[str, str] = {}
    expose = session.settings.expose
    if kind == "tools" and expose != "flat":
        written += map(encode, DISCOVERY.values())
        single += written
    if kind != "tools" or expose != "discovery":
        found = await session.offers.listing(kind, session.sight(exchange.who))
        written += found.written
        single += [offer.written for offer in found.offers]
        silent = found.silent
    page = page_of(exchange.params, single, written)
    if page is None:
        await exchange.error(INVALID_PARAMS, "there is no such page, or the list has changed: begin at its beginning")
        return
    more = b"" if page.following is None else b',"nextCursor":%b' % encode(page.following)
    meta = b',"_meta":%b' % encode({SILENT_KEY: silent}) if silent else b""
    await exchange.result(b"{%b:[%b]%b%b}" % (encode(what.field), page.written, more, meta))


class ListPage(Struct, frozen=True):
    """A part of a list as clients get it, and how the client asks for the one that follows."""

    written: bytes
    following: str | None = None


def page_of(params: Members, single: list[bytes], written: list[bytes]) -> ListPage | None:
    """Return the page that a client asks for; all of the list if it wants no pages, None if there is no such page.

    A client that wants pages says how long. The cursor holds where the next one begins, and of which list.
    """
    given = decoded(params.get("cursor", b"null"))
    size = decoded(members_of(params.get("_meta")).get(PAGE_KEY, b"null"))
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


async def _call(session: Session, exchange: ClientRequest) -> None:
    name = text_of(exchange.params.get("name"))
    if not name:
        await exchange.error(INVALID_PARAMS, "tools/call names a tool")
        return
    expose = session.settings.expose
    if expose != "flat" and name in DISCOVERY:
        await call_discovery(session, exchange, name)
        return
    found = None if expose == "discovery" else await session.offers.find("tools", name, session.sight(exchange.who))
    if found is None:
        await exchange.error(INVALID_PARAMS, f"there is no tool {quoted(name[:_WORTH_SAYING])}")
        return
    await session.calling.call(exchange, *found, exchange.params)


async def _get_prompt(session: Session, exchange: ClientRequest) -> None:
    name = text_of(exchange.params.get("name"))
    found = None if not name else await session.offers.find("prompts", name, session.sight(exchange.who))
    if found is None:  # whether there is such a server is nobody's business before it is judged
        await exchange.error(INVALID_PARAMS, f"there is no prompt {quoted((name or '')[:_WORTH_SAYING])}")
        return
    server, own = found
    await session.calling.use(
        exchange, server, "prompts", own, {**passed(exchange.method, exchange.params), "name": own}
    )


async def _use_resource(session: Session, exchange: ClientRequest) -> str | None:
    """Have the server of a resource answer a request about it, if it may be used; return that server, if so."""
    uri = text_of(exchange.params.get("uri"))
    if not uri:
        await exchange.error(INVALID_PARAMS, "a resource is named by its uri")
        return None
    owner = await session.offers.owner(uri, session.sight(exchange.who))
    server = owner.server
    if server is None:
        because = f": {owner.problem}" if owner.problem else ""
        number = NO_RESOURCE if exchange.envelope is None else INVALID_PARAMS
        await exchange.error(number, f"there is no resource {quoted(uri[:_WORTH_SAYING])} here{because}", {"uri": uri})
        return None
    used = await session.calling.use(exchange, server, "resources", uri, passed(exchange.method, exchange.params))
    return server if used else None


async def _read_resource(session: Session, exchange: ClientRequest) -> None:
    await _use_resource(session, exchange)


async def _subscribe(session: Session, exchange: ClientRequest) -> None:
    server = await _use_resource(session, exchange)
    if server is not None:
        session.subscribed[text_of(exchange.params["uri"]) or ""] = server


async def _unsubscribe(session: Session, exchange: ClientRequest) -> None:
    uri = text_of(exchange.params.get("uri")) or ""
    server = session.subscribed.pop(uri, None)
    if server is None:
        await exchange.error(INVALID_PARAMS, f"there is no subscription to {quoted(uri[:_WORTH_SAYING])}")
        return
    await session.reach(server).unsubscribe(uri)
    await exchange.result(b"{}")


async def _complete(session: Session, exchange: ClientRequest) -> None:
    reference = members_of(exchange.params.get("ref"))
    kind, sight = text_of(reference.get("type")), session.sight(exchange.who)
    params = passed(exchange.method, exchange.params)
    server = None
    if kind == "ref/prompt":
        found = await session.offers.find("prompts", text_of(reference.get("name")) or "", sight)
        if found is not None:
            server, own = found
            params["ref"] = {"type": kind, "name": own}
            used = ("prompts", own)
    elif kind == "ref/resource":
        uri = text_of(reference.get("uri")) or ""
        server = (await session.offers.owner(uri, sight)).server
        params["ref"] = {"type": kind, "uri": uri}
        used = ("resources", uri)
    if server is None:
        await exchange.error(INVALID_PARAMS, "completion/complete names a prompt or a resource that is there")
        return
    await session.calling.use(exchange, server, *used, params)


async def _set_level(session: Session, exchange: ClientRequest) -> None:
    if text_of(exchange.params.get("level")) not in _LEVELS:
        await exchange.error(INVALID_PARAMS, "there is no such level")
        return
    session.log_level = exchange.params["level"]
    for upstream in session.opened_servers:
        session.chore(upstream.log(session.log_level))
    await exchange.result(b"{}")


async def _listen(session: Session, exchange: ClientRequest) -> None:
    """Keep a stream open for a stateless client until it goes away."""
    wanted = decoded(exchange.params.get("notifications", b"null"))
    if not isinstance(wanted, dict):
        await exchange.error(INVALID_PARAMS, "subscriptions/listen says which notifications are wanted")
        return
    kept: dict[str, Any] = {key: True for key, value in wanted.items() if key.endswith("ListChanged") and value is True}
    uris: list[str] = kept.setdefault("resourceSubscriptions", [])
    try:
        await _subscribe_all(session, exchange, wanted.get("resourceSubscriptions"), uris)
        await _tell_changes(session, exchange, kept)
    finally:
        _unsubscribe_all(session, uris)


async def _tell_changes(session: Session, exchange: ClientRequest, kept: Mapping[str, Any]) -> None:
    """Tell a stateless client of what it listens for, until it goes away."""
    meta = {SUBSCRIPTION_KEY: decoded(exchange.id)}
    told = {"notifications": kept, "_meta": meta}
    if not await exchange.sink.send(notification("notifications/subscriptions/acknowledged", told)):
        await exchange.error(INVALID_REQUEST, "what is listened for comes as a stream, and none is accepted here")
        return
    listener = Listener(kept, meta, exchange.sink)
    session.listeners.add(listener)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        session.listeners.discard(listener)
        listener.aside.close()


async def _subscribe_all(session: Session, exchange: ClientRequest, uris: Any, kept: list[str]) -> None:
    """Have servers tell us of changes to resources; add to `kept` those that the caller may see, and hears of."""
    sight = session.sight(exchange.who)
    for uri in uris if isinstance(uris, list) else ():
        if session.too_busy(exchange.who) is not None:  # each is as good as a request
            break
        server = (await session.offers.owner(uri, sight)).server if isinstance(uri, str) else None
        if server is not None and session.calling.allows(exchange, server, "resources", uri):
            kept.append(uri)
            session.listened_for[uri] += 1
            session.subscribed[uri] = server
            await session.reach(server).subscribe(uri)


def _unsubscribe_all(session: Session, uris: list[str]) -> None:
    """Hear no longer of changes to resources, but for those that another client of the session listens for."""
    for uri in uris:
        session.listened_for[uri] -= 1
        if session.listened_for[uri] <= 0:
            del session.listened_for[uri]
            server = session.subscribed.pop(uri, None)
            if server is not None and session.is_up(server):
                session.chore(session.reach(server).unsubscribe(uri))


def _list_of(kind: str) -> Callable[[Session, ClientRequest], Awaitable[None]]:
    return functools.partial(_list, kind)


METHODS = {
    "initialize": Method(_initialize, stateless=False),
    "ping": Method(_ping, stateless=False),
    "server/discover": Method(_discover, handshake=False),
    "tools/list": Method(_list_of("tools")),
    "tools/call": Method(_call),
    "prompts/list": Method(_list_of("prompts")),
    "prompts/get": Method(_get_prompt),
    "resources/list": Method(_list_of("resources")),
    "resources/templates/list": Method(_list_of("templates")),
    "resources/read": Method(_read_resource),
    "resources/subscribe": Method(_subscribe, stateless=False),
    "resources/unsubscribe": Method(_unsubscribe, stateless=False),
    "subscriptions/listen": Method(_listen, handshake=False),
    "completion/complete": Method(_complete),
    "logging/setLevel": Method(_set_level, stateless=False),
}


def _cancelled(session: Session, params: Members) -> None:
    if "requestId" in params:
        session.withdraw(encode(decoded(params["requestId"])))


def _roots_changed(session: Session, _params: Members) -> None:
    for upstream in session.opened_servers:
        upstream.notify("notifications/roots/list_changed")


def _progress(session: Session, params: Members) -> None:
    session.questions.report(params)


def _initialized(session: Session, _params: Members) -> None:
    session.begun.set()


NOTICES: Mapping[str, Callable[[Session, Members], None]] = {
    "notifications/initialized": _initialized,
    "notifications/cancelled": _cancelled,
    "notifications/roots/list_changed": _roots_changed,
    "notifications/progress": _progress,
}
