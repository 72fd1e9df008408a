"""What a request to the gateway holds, as far as its way is concerned, and the words with which it is refused.

Of a message only its method and id are looked at; the conversation reads it strictly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from byleave.gateway.message import NO_ID, error_parts, error_tree
from byleave.gateway.revisions import HANDSHAKE, STATELESS, UNSUPPORTED_VERSION
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR

if TYPE_CHECKING:
    from byleave.gateway.http_request import HttpExchange
    from byleave.gateway.identity import RefusedCaller

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


def refuse(exchange: HttpExchange, refused: RefusedCaller) -> None:
    exchange.refuse(refused.status, INVALID_REQUEST, refused.why, fields=refused.fields)


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
