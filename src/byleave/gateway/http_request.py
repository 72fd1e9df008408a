"""What the head of a request to the gateway says about MCP, read once and to the letter. Pure.

`net.http_server_exchange` refuses heads that two programs could read differently; here follow the media types that the
client sends and accepts, and the fields that speak of MCP.

Start at `read_mcp_head`.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from byleave.gateway.http_trust import passed_on_by
from byleave.gateway.interfaces import MessageContext
from byleave.gateway.revisions import HEADER_MISMATCH
from byleave.net.http_server_exchange import BadRequest, ServerExchange, ServerRequestHead

if TYPE_CHECKING:
    from collections.abc import Sequence

AGENT = "x-byleave-agent"
_PASSED_ON = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name", AGENT})
_PARAM = "mcp-param-"
_JSON = frozenset({"application/json", "application/*", "*/*"})
_EVENTS = frozenset({"text/event-stream", "text/*", "*/*"})
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
    context = MessageContext(MappingProxyType(passed))
    unclaimed = context
    if AGENT in passed:
        unclaimed = MessageContext(MappingProxyType({name: value for name, value in passed.items() if name != AGENT}))
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
        context=context,
        unclaimed_context=unclaimed,
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
