"""The revisions of the protocol that we speak, and what each message of the stateless one says about itself. Pure.

Up to 2025-11-25 a session begins with a handshake. From 2026-07-28 on there is none: every request carries its revision
and the client's capabilities, and over HTTP its headers repeat what the body says. Where the two disagree, a proxy
that routes by the headers would see another request than the server does, so that is refused.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.gateway.message import text_of
from byleave.protocol.http_head import is_field
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from byleave.gateway.message import ClientParams

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
LATEST = HANDSHAKE[-1]
MODERN = STATELESS[-1]

_OURS = "io.modelcontextprotocol/"
VERSION_KEY = f"{_OURS}protocolVersion"
CLIENT_KEY = f"{_OURS}clientInfo"
CAPABILITIES_KEY = f"{_OURS}clientCapabilities"
LOG_KEY = f"{_OURS}logLevel"
SUBSCRIPTION_KEY = f"{_OURS}subscriptionId"
SERVER_KEY = f"{_OURS}serverInfo"

HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
SERVER_DOWN = -32000
NO_RESOURCE = -32002  # a resource that is not there; a stateless revision says that the parameters are invalid
STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    -32021: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
    INTERNAL_ERROR: 200,
}
"""With which HTTP status an error goes to a client of a stateless revision; all others with 200."""

_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PARAM = "mcp-param-"
_ANNOTATION = "x-mcp-header"
_SCALARS = ("string", "integer", "boolean")
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_SCHEMAS = frozenset(
    {"items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties", "not"}
    | {"if", "then", "else", "contentSchema", "allOf", "anyOf", "oneOf", "prefixItems"}
)
_LONGEST_NUMBER = 400  # digits
_BEGIN, _END = "=?base64?", "?="


class RequestMeta(Struct, frozen=True):
    """What one stateless request says about the client: its revision, its capabilities, what it wants to be logged."""

    revision: str
    capabilities: Mapping[str, Any]
    log_level: str | None = None


class Mismatch(Struct, frozen=True):
    """Why a stateless request is not taken."""

    number: int
    problem: str
    data: Any = None


def is_stateless(params: ClientParams) -> bool:
    """Whether a request speaks a revision without sessions: only there is its name in every request."""
    return VERSION_KEY in params.meta


def read_envelope(method: str, params: ClientParams, headers: Mapping[str, str]) -> RequestMeta | Mismatch:
    """Return what a stateless request says about itself. Without any headers it did not come over HTTP."""
    meta = params.meta
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        return Mismatch(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}")
    revision, capabilities, log_level = meta[VERSION_KEY], meta[CAPABILITIES_KEY], meta.get(LOG_KEY)
    if headers:
        wrong = _disagreeing(method, params, headers, revision)
        if wrong:
            return Mismatch(HEADER_MISMATCH, f"the {wrong} header does not say what the body says")
    if not isinstance(revision, str) or not isinstance(capabilities, dict):
        return Mismatch(INVALID_PARAMS, "the revision is a text, and the client's capabilities are an object")
    if revision not in STATELESS:
        given = {"supported": list(STATELESS), "requested": revision}
        return Mismatch(UNSUPPORTED_VERSION, "this revision of the protocol is not spoken here", given)
    return RequestMeta(revision, capabilities, log_level if isinstance(log_level, str) else None)


def _disagreeing(method: str, params: ClientParams, headers: Mapping[str, str], revision: Any) -> str:
    if headers.get("mcp-protocol-version") != revision:
        return "MCP-Protocol-Version"
    if headers.get("mcp-method") != method:
        return "Mcp-Method"
    key = _NAMED_BY.get(method)
    named = None if key is None else params.text(key)
    return "Mcp-Name" if named is not None and header_text(headers.get("mcp-name")) != named else ""


def wrong_param_header(schema: Any, arguments: Any, headers: Mapping[str, str]) -> str:
    """Return the header of an argument that does not say what the argument says; empty if all do."""
    for name, path, kind in _annotated(schema):
        given, value = headers.get(f"{_PARAM}{name.lower()}"), _at(arguments, path)
        rendered = _rendered(value)
        if (given is None) != (rendered is None) or (given is not None and not _same(given, rendered or "", kind)):
            return f"Mcp-Param-{name}"
    return ""


def param_headers(schema: Any, arguments: Any) -> Iterator[tuple[str, str]]:
    """Yield the headers that repeat arguments, as the tool's own schema says."""
    for name, path, _kind in _annotated(schema):
        rendered = _rendered(_at(arguments, path))
        if rendered is not None:
            yield f"Mcp-Param-{name}", header_value(rendered)


def routing_headers(method: str, params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the headers that repeat what a stateless request is called."""
    yield "Mcp-Method", method
    key = _NAMED_BY.get(method)
    value = None if key is None else params.get(key)
    named = value if isinstance(value, str) or value is None else text_of(value)
    if named is not None:
        yield "Mcp-Name", header_value(named)


def header_value(text: str) -> str:
    """Return a text as a header may carry it; wrapped in base64 where it could not be read back as it is."""
    plain = text.isascii() and text.isprintable() and text == text.strip() and not text.startswith(_BEGIN)
    return text if plain else f"{_BEGIN}{base64.b64encode(text.encode()).decode()}{_END}"


def header_text(value: str | None) -> str | None:
    """Return the text that a header carries; None for one that is wrapped wrongly."""
    if value is None or not (value.startswith(_BEGIN) and value.endswith(_END)):
        return value
    wrapped = value[len(_BEGIN) : -len(_END)]
    try:
        content = base64.b64decode(wrapped, validate=True)
        return content.decode() if base64.b64encode(content).decode() == wrapped else None
    except (binascii.Error, ValueError):
        return None


def wrong_annotation(schema: Any) -> str:
    """Return what is wrong with how a schema has headers repeat arguments; empty if nothing is.

    Over HTTP a tool that does it wrongly is none at all: who routes by headers could be made to see another call.
    """
    known: set[str] = set()
    for path, node in _positions(schema):
        if _ANNOTATION not in node:
            continue
        name = node[_ANNOTATION]
        if not path:
            return f"{_ANNOTATION} stands where no argument is"
        if not isinstance(name, str) or not is_field(name, ""):
            return f"{_ANNOTATION} of {shown(path[-1])} is no name of a header"
        if node.get("type") not in _SCALARS:
            return f"{_ANNOTATION} of {shown(path[-1])} is on something else than a text, a whole number, or yes and no"
        if name.lower() in known:
            return f"two arguments have one {_ANNOTATION}, {shown(name)}"
        known.add(name.lower())
    return ""


def _annotated(schema: Any) -> list[tuple[str, tuple[str, ...], str]]:
    """Return header name, place and type of each argument that a header repeats; none if a schema does it wrongly."""
    found = [(path, node) for path, node in _positions(schema) if _ANNOTATION in node]
    if not found or wrong_annotation(schema):
        return []
    return [(node[_ANNOTATION], path, node["type"]) for path, node in found if path]


def _positions(schema: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Yield every schema inside of a schema, with the names that lead to it; None where it is no argument's own."""
    waiting: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for word, inner in node.items():
            if word in _NAMED_SCHEMAS and isinstance(inner, dict):
                leads = path if word == "properties" else None
                waiting += ((None if leads is None else (*leads, key), each) for key, each in inner.items())
            elif word in _SCHEMAS:
                waiting += ((None, each) for each in (inner if isinstance(inner, list) else [inner]))


def _at(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        arguments = arguments.get(key) if isinstance(arguments, dict) else None
    return arguments


def _rendered(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _same(given: str, rendered: str, kind: str) -> bool:
    text = header_text(given)
    if text is None or text == rendered or kind != "integer":
        return text is not None and text == rendered
    return _whole(text) is not None and _whole(text) == _whole(rendered)


def _whole(text: str) -> int | None:
    """Return the whole number that 42 and 42.0 are."""
    number, _point, rest = text.partition(".")
    digits = number.removeprefix("-")
    plain = digits.isascii() and digits.isdecimal() and len(digits) < _LONGEST_NUMBER and not rest.strip("0")
    return int(number) if plain else None
