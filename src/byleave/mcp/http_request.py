"""What the head of a request to the gateway says, read once and to the letter. Pure.

`wire.http_head` refuses what two programs could read differently; here follows what is ours: fields that must not be
given twice, the path, what the client accepts, and the fields that speak of MCP. A client sends the same head again and
again, but for the length of the body, so heads are remembered by their bytes without it; who is calling is asked anew
each time.

Start at `read_head`.
"""

import re
from functools import lru_cache
from types import MappingProxyType

from byleave.mcp.ends import Told
from byleave.mcp.proxies import passed_on_by
from byleave.mcp.revisions import HEADER_MISMATCH
from byleave.record import Record
from byleave.wire.codes import INVALID_REQUEST
from byleave.wire.http_head import LONGEST_LENGTH, NO_BODY, BadHead, Framing, read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.wire.http_head import Fields, Request

AGENT = "x-byleave-agent"
_PASSED_ON = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name", AGENT})
_PARAM = "mcp-param-"
# With two of them, two readers may take two different ones.
_ONCE = frozenset(
    {"authorization", "content-encoding", "content-length", "content-type", "expect", "host", "last-event-id", "origin"}
    | {"sec-fetch-site", "transfer-encoding", AGENT}
)
_JSON = frozenset({"application/json", "application/*", "*/*"})
_EVENTS = frozenset({"text/event-stream", "text/*", "*/*"})
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]{1,%d})\r\n" % LONGEST_LENGTH, re.IGNORECASE)
_MOST_FIELDS = 128  # each costs more to read than to send
_MOST_KINDS = 64  # of content that a client accepts
_REMEMBERED = 1024
_LONGEST_REMEMBERED = 4096


class BadRequest(Record):
    """Why a request is not taken: one sentence, the status of HTTP, and the code of JSON-RPC."""

    problem: str
    status: int = 400
    code: int = INVALID_REQUEST


class Head(Record):
    """One request without its body. `fields` have lower-case names; `told` are those for the conversation."""

    method: str
    path: str
    query: str
    fields: "Mapping[str, str]"
    keeps_alive: bool
    expects: bool
    is_old: bool  # of HTTP/1.0
    is_json: bool
    takes_json: bool
    takes_events: bool
    revision: str
    session: str
    told: Told
    told_unclaimed: Told  # without the name of an agent: for callers who have proved theirs
    passed_on: str  # the name of a field that only a proxy writes


def read_head(head: bytes) -> tuple[Head, Framing] | BadRequest:
    """Return what `head` (up to its empty line) asks for and where its body ends, or why it is refused."""
    if len(head) > _LONGEST_REMEMBERED:
        return _read(head)
    length = _LENGTH.search(head)
    if length is None:
        return _remembered(head)
    # Whatever else is wrong with the head, a second length included, is as wrong with another length.
    start, end = length.span(1)
    found = _remembered(b"%b0%b" % (head[:start], head[end:]))
    return found if isinstance(found, BadRequest) else (found[0], Framing(int(length[1])))


def _read(head: bytes) -> tuple[Head, Framing] | BadRequest:
    if head.count(b"\r\n") > _MOST_FIELDS + 2:
        return BadRequest("the head has too many fields", status=431)
    request = read_request(head)
    if isinstance(request, BadHead):
        return BadRequest(request.problem)
    fields = _by_name(request.fields)
    if isinstance(fields, BadRequest):
        return fields
    fields.pop("content-length", None)  # the framing says it
    return _problem(request, fields) or (_head(request, fields), request.framing or NO_BODY)


_remembered = lru_cache(_REMEMBERED)(_read)


def _by_name(fields: "Fields") -> "dict[str, str] | BadRequest":
    found: dict[str, str] = {}
    for field, value in fields:
        name = field.lower()
        if name not in found:
            found[name] = value
        elif name.startswith("mcp-"):
            return BadRequest(f"the {field} header appears more than once", code=HEADER_MISMATCH)
        elif name in _ONCE:
            return BadRequest(f"the {field} header appears more than once")
        else:
            found[name] = f"{found[name]}, {value}"
    return found


def _problem(request: "Request", fields: "Mapping[str, str]") -> BadRequest | None:
    if not request.target.startswith("/") or "#" in request.target:
        return BadRequest("the first line does not name a path of this server")
    if request.minor == 1 and "host" not in fields:
        return BadRequest("the Host header is missing")
    if fields.get("content-encoding", "identity").lower() != "identity":
        return BadRequest("a body is sent as it is, without a content encoding", status=415)
    return None


def _head(request: "Request", fields: "dict[str, str]") -> Head:
    path, _mark, query = request.target.partition("?")
    takes_json, takes_events = _accepted(fields.get("accept"))
    told = {name: value for name, value in fields.items() if name in _PASSED_ON or name.startswith(_PARAM)}
    return Head(
        method=request.method,
        path=path,
        query=query,
        fields=MappingProxyType(fields),
        keeps_alive=request.keeps_alive,
        expects=request.expects,
        is_old=request.minor == 0,
        is_json=_media(fields.get("content-type", "")) == "application/json",
        takes_json=takes_json,
        takes_events=takes_events,
        revision=fields.get("mcp-protocol-version", ""),
        session=fields.get("mcp-session-id", ""),
        told=Told(MappingProxyType(told)),
        told_unclaimed=Told(MappingProxyType({name: value for name, value in told.items() if name != AGENT})),
        passed_on=passed_on_by(fields),
    )


def _accepted(accept: str | None) -> tuple[bool, bool]:
    """Return whether the client takes JSON, and events. One that does not say takes the simpler form."""
    if accept is None:
        return True, False
    kinds = {_media(kind) for kind in accept.split(",", _MOST_KINDS)[:_MOST_KINDS]}
    return not kinds.isdisjoint(_JSON), not kinds.isdisjoint(_EVENTS)


def _media(text: str) -> str:
    return text.partition(";")[0].strip(" \t").lower()
