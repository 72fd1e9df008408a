"""One request to the gateway over HTTP: what its head says about MCP, and the errors with which it is refused.

`net.http_server_exchange` refuses heads that two programs could read differently. `read_mcp_head` adds the media types
that the client sends and accepts, and the fields of MCP. `look_at` reads the method and the id of the message in the
body, by which `http_endpoint` chooses a session; the session reads the whole message strictly.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from byleave.gateway.http_trust import passed_on_by
from byleave.gateway.interfaces import MessageContext
from byleave.gateway.message import NO_ID, error_parts, error_tree
from byleave.gateway.revisions import HANDSHAKE, HEADER_MISMATCH, STATELESS, UNSUPPORTED_VERSION
from byleave.gateway.trace_context import NAMES as TRACE_NAMES
from byleave.net.http_server_exchange import BadRequest, ServerExchange, ServerRequestHead
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR

if TYPE_CHECKING:
    from collections.abc import Sequence


AGENT = "x-byleave-agent"
_PASSED_ON = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name", AGENT}) | TRACE_NAMES
_PARAM = "mcp-param-"
_JSON = frozenset({"application/json", "application/*", "*/*"})
_EVENTS = frozenset({"text/event-stream", "text/*", "*/*"})
_NO_SCOPES: frozenset[str] = frozenset()  # of a caller without a token
_MOST_KINDS = 64  # of content that a client accepts


class RequestHead(ServerRequestHead, frozen=True):
    """One request without its body. `context` are the fields that the session reads."""

    is_json: bool
    takes_json: bool
    takes_events: bool
    revision: str
    session: str
    context: MessageContext
    unclaimed_context: MessageContext  # without the name of an agent: for callers who have proved theirs
    passed_on: str  # the name of a field that only a proxy writes


HttpExchange = ServerExchange[RequestHead]


def read_mcp_head(head: ServerRequestHead, repeated: Sequence[str]) -> RequestHead | BadRequest:
    """Return the head with what it says about MCP; a BadRequest if a field that must be there once is repeated."""
    for name in repeated:
        lowered = name.lower()
        if lowered.startswith("mcp-") or lowered == AGENT:
            code = HEADER_MISMATCH if lowered != AGENT else 0
            return BadRequest(f"the {name} header appears more than once", code=code)
    fields = head.fields
    takes_json, takes_events = _accepted(fields.get("accept"))
    passed = {name: value for name, value in fields.items() if name in _PASSED_ON or name.startswith(_PARAM)}
    shown = unclaimed = MappingProxyType(passed)
    if AGENT in passed:
        unclaimed = MappingProxyType({name: value for name, value in passed.items() if name != AGENT})
    return RequestHead(
        head.method,
        head.path,
        head.query,
        fields,
        head.keeps_alive,
        head.expects,
        head.is_old,
        is_json=_media_type(fields.get("content-type", "")) == "application/json",
        takes_json=takes_json,
        takes_events=takes_events,
        revision=fields.get("mcp-protocol-version", ""),
        session=fields.get("mcp-session-id", ""),
        context=MessageContext(shown, _NO_SCOPES),
        unclaimed_context=MessageContext(unclaimed),
        passed_on=_passed_on(tuple(fields)),
    )


@lru_cache(64)  # clients send few different ones
def _accepted(accept: str | None) -> tuple[bool, bool]:
    """Return whether the client takes JSON, and events. One that does not say takes the simpler form."""
    if accept is None:
        return True, False
    kinds = {_media_type(kind) for kind in accept.split(",", _MOST_KINDS)[:_MOST_KINDS]}
    return not kinds.isdisjoint(_JSON), not kinds.isdisjoint(_EVENTS)


@lru_cache(64)  # the names of fields, which hold no credentials; a client sends the same ones again and again
def _passed_on(names: tuple[str, ...]) -> str:
    return passed_on_by(names)


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip(" \t").lower()


_LONGEST_ID = 256  # bytes
_REVISIONS = (*HANDSHAKE, *STATELESS)


class RequestContext(msgspec.Struct):
    """As much of a message as concerns the way it takes."""

    method: str | msgspec.UnsetType = msgspec.UNSET
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OUTSIDE = msgspec.json.Decoder(RequestContext)


def look_at(exchange: HttpExchange) -> RequestContext | None:
    """Return the outside of the one message in the body; None if it was refused."""
    head = exchange.head
    if not head.is_json:
        exchange.refuse(415, INVALID_REQUEST, "the Content-Type must be application/json")
        return None
    if not (head.takes_json or head.takes_events):
        exchange.refuse(406, INVALID_REQUEST, "the client must accept application/json or text/event-stream")
        return None
    try:
        return _OUTSIDE.decode(exchange.body)
    except msgspec.ValidationError:
        is_batch = exchange.body.lstrip(b" \t\r\n").startswith(b"[")
        kind = "a batch; send its messages one by one" if is_batch else "no message of JSON-RPC"
        exchange.refuse(400, INVALID_REQUEST, f"the body is {kind}")
    except (ValueError, RecursionError):
        exchange.refuse(400, PARSE_ERROR, "the body is not JSON")
    return None


def takes_events(exchange: HttpExchange) -> bool:
    if not exchange.head.takes_events:
        exchange.refuse(406, INVALID_REQUEST, "the client must accept text/event-stream")
    return exchange.head.takes_events


def is_opening(message: RequestContext) -> bool:
    return message.method == "initialize" and message.id is not msgspec.UNSET


def id_of(message: RequestContext | None) -> bytes:
    """Return the id of a message as it is written, for a refusal that repeats it; null where it is not worth it."""
    raw = NO_ID if message is None or message.id is msgspec.UNSET else bytes(message.id)
    return raw if len(raw) <= _LONGEST_ID and raw[0] not in b"[{" else NO_ID


def not_allowed(exchange: HttpExchange, allowed: str) -> None:
    fields = b"Allow: %b\r\n" % allowed.encode()
    exchange.refuse(405, INVALID_REQUEST, f"the method {exchange.head.method} is not allowed here", fields=fields)


def no_session(exchange: HttpExchange, id_: bytes = NO_ID) -> None:
    exchange.refuse(404, INVALID_REQUEST, "there is no such session; begin a new one with initialize", id_=id_)


def no_room(exchange: HttpExchange) -> None:
    exchange.refuse(503, INTERNAL_ERROR, "there are too many sessions, and all of them are in use")


def too_many_connections(exchange: HttpExchange) -> None:
    exchange.refuse(503, INTERNAL_ERROR, "this caller has too many connections, and all of them are in use")


def too_many(exchange: HttpExchange) -> None:
    exchange.refuse(429, INVALID_REQUEST, "too many messages of this client are open")


def unspoken(exchange: HttpExchange, id_: bytes) -> None:
    data = {"supported": list(_REVISIONS), "requested": exchange.head.revision}
    problem = "this revision of the protocol is not spoken here"
    exchange.reply(400, *error_parts(id_, error_tree(UNSUPPORTED_VERSION, problem, data)))
