"""Read and write the heads of HTTP/1 messages in the one way on which all programs agree, or not at all.

Pure: bytes in, an `HttpRequestHead`, an `HttpResponseHead` or a `BadHead` out. What two programs could read differently
(where a head or a body ends, which host is meant) is refused, never repaired. A head that is passed on is written anew
from what was read, without the fields that concern one connection only. Bodies are read in `http_body`. Compared with
h11: docs/decisions/0008.

Start at `read_request` and `read_response`. Where a request to the proxy goes: net.proxy_policy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Fields = tuple[tuple[str, str], ...]

Meaning = TypeVar("Meaning")

END = b"\r\n\r\n"
LONGEST_LENGTH = 18  # decimal digits of a Content-Length: more bytes than there are disks

WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110, section 5.6.2
_TEXT = r"[\t\x20-\x7e\x80-\xff]*"  # RFC 9110, section 5.5: no control characters
_REQUEST_LINE = re.compile(rf"({WORD}) ([\x21-\x7e]+) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rf"HTTP/1\.[01] ([1-5][0-9][0-9])(?: ({_TEXT}))?")
_FIELD = re.compile(rf"({WORD}):({_TEXT})")
_FIELDS = re.compile(rf"(?:{WORD}:{_TEXT}\r\n)*")
_LINE = re.compile(r"([^:]+):([^\r]*)\r\n")  # of lines that are fields

# They concern one connection (RFC 9110, section 7.6.1), or are written anew.
_OWN = frozenset(
    {"connection", "content-length", "host", "http2-settings", "keep-alive", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "x-byleave"}
)
# With these a client makes some servers answer for another host, path or method than the policy decided about.
REROUTING = frozenset(
    {"forwarded", "x-forwarded-host", "x-forwarded-path", "x-forwarded-prefix", "x-forwarded-server"}
    | {"x-forwarded-uri", "x-host", "x-http-host-override", "x-original-host", "x-original-uri", "x-original-url"}
    | {"x-proxy-url", "x-rewrite-url", "x-forwarded-url", "x-forwarded-method", "x-forwarded-request-uri"}
    | {"x-original-path", "x-original-request-uri", "x-original-method", "x-request-uri", "x-override-url", "x-url"}
    | {"x-envoy-original-path", "x-envoy-original-host", "x-envoy-original-method", "x-http-path-override"}
    | {"x-http-method", "x-http-method-override", "x-method-override", "x-http-destinationurl", "x-rewrite-uri"}
    | {"x-invoke-path", "x-matched-path", "x-middleware-rewrite", "x-middleware-subrequest"}
    | {"x-accel-redirect", "x-sendfile", "proxy"}  # the last one is a variable of CGI programs: http_proxy
)
# With these a request reads or writes a second place: copies and moves of WebDAV and of object stores.
_SECOND_PLACES = frozenset({"destination", "x-copy-from"})
_SECOND_PLACE_ENDS = ("-copy-source", "-rename-source")  # x-amz-copy-source, x-ms-rename-source and the like
_FRAMING = frozenset({"connection", "content-length", "host", "transfer-encoding"})
_SPECIAL = frozenset({"content-length", "expect", "transfer-encoding", "upgrade"})  # of a request
_BODILESS = frozenset({204, 304})  # RFC 9112, section 6.3
_LENGTH_FIELD = b"\r\ncontent-length:"
_LONGEST_KNOWN = 4096  # bytes of a head that a connection remembers


class Framing(Record):
    """Where a body ends: after `length` bytes; without one it is `chunked`, or ends with the connection."""

    length: int | None
    chunked: bool = False


NO_BODY = Framing(0)
CHUNKED = Framing(None, chunked=True)
UNTIL_CLOSE = Framing(None)


class HttpRequestHead(Record):
    """The head of a request. `framing` is what it says about its body, None if it says nothing."""

    method: str
    target: str
    minor: int
    fields: Fields
    framing: Framing | None

    @property
    def body(self) -> Framing:
        return self.framing or NO_BODY

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on the connection; clients of HTTP/1.0 get one response."""
        words = list_of(self.fields, "connection") + list_of(self.fields, "proxy-connection")
        return self.minor == 1 and "close" not in words

    @property
    def expects(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends the body."""
        return self.minor == 1 and bool(values_of(self.fields, "expect"))


class HttpResponseHead(Record):
    """The head of a response. `framing` is what it says about its body, None if it says nothing."""

    status: int
    phrase: str
    fields: Fields
    framing: Framing | None
    bodiless: bool

    @property
    def body(self) -> Framing:
        return NO_BODY if self.bodiless else self.framing or UNTIL_CLOSE


class BadHead(Record):
    """Why a head cannot be used: one sentence."""

    problem: str


class KnownHead(Generic[Meaning]):
    """A head that was read, and what it means. One that differs from it in its length alone need not be read again."""

    __slots__ = ("_after", "_before", "meaning")

    def __init__(self, before: bytes, after: bytes, meaning: Meaning) -> None:
        self._before = before
        self._after = after
        self.meaning = meaning

    def length_in(self, head: bytes) -> int | None:
        """Return the length that `head` states, if it is the same but for that; None if it has to be read."""
        if not (head.startswith(self._before) and head.endswith(self._after)):
            return None
        digits = head[len(self._before) : len(head) - len(self._after)]
        return int(digits) if digits.isdigit() and len(digits) <= LONGEST_LENGTH else None


def known_head(head: bytes, meaning: Meaning) -> KnownHead[Meaning] | None:
    """Return a head that was read and found good; None if it is long, or does not state one length, once."""
    if len(head) > _LONGEST_KNOWN:
        return None
    lowered = head.lower()
    at = lowered.find(_LENGTH_FIELD)
    if at < 0 or lowered.find(_LENGTH_FIELD, at + 1) >= 0:
        return None
    rest = head[at + len(_LENGTH_FIELD) :]
    digits = rest.lstrip(b" \t")
    after = digits.lstrip(b"0123456789")
    return KnownHead(head[: len(head) - len(digits)], after, meaning)


class _RefusedError(Exception):
    """Carries the problem from the place that finds it to the function that answers."""


def end_of_head(head: bytes | bytearray, start: int = 0) -> int:
    """Return where the first empty line ends, 0 if there is none. A bare LF counts, too: the head is refused for it."""
    proper, bare = head.find(b"\n\r\n", start), head.find(b"\n\n", start)
    if proper >= 0 and not 0 <= bare < proper:
        return proper + 3
    return bare + 2 if bare >= 0 else 0


def read_request(head: bytes) -> HttpRequestHead | BadHead:
    """Return the request that `head` (up to its empty line) makes, or why it is refused. Never raises."""
    try:
        line, fields = _split(head)
        return _request(line, fields)
    except _RefusedError as refusal:
        return BadHead(str(refusal))


def read_response(head: bytes, method: str) -> HttpResponseHead | BadHead:
    """Return the response to a request of this `method`, or why it cannot be passed on. Never raises."""
    try:
        line, fields = _split(head)
        return _response(line, fields, method)
    except _RefusedError as refusal:
        return BadHead(str(refusal))


def request_head(request: HttpRequestHead, *, path: str, authority: str, keep: bool = False) -> bytes:
    """Return the head that goes on to the server; unless it is to `keep` the connection, nothing else follows."""
    return _written(
        f"{request.method} {path} HTTP/1.1",
        [("Host", authority)],
        [field for field in _passed_on(request.fields) if not reroutes(field[0])],
        _framing_fields(request.framing),
        [] if keep else [("Connection", "close")],
    )


def response_head(response: HttpResponseHead, *, framing: Framing | None, keep: bool) -> bytes:
    """Return the head that goes back to the client; `framing` is how the body is sent there."""
    return _written(
        f"HTTP/1.1 {response.status} {response.phrase}",
        _passed_on(response.fields),
        _framing_fields(framing),
        [("Connection", "keep-alive" if keep else "close")],
    )


def own_head(status: str, fields: Iterable[tuple[str, str]], *, keep: bool) -> bytes:
    """Return the head of a response that the proxy itself gives, such as `403 Forbidden`."""
    return _written(f"HTTP/1.1 {status}", fields, [("Connection", "keep-alive" if keep else "close")])


def reroutes(name: str) -> bool:
    """Whether some server takes a field for one that leads elsewhere."""
    return as_servers_read(name) in REROUTING


def names_second_place(name: str) -> bool:
    """Whether a field names another path than the one that the request is for."""
    read = as_servers_read(name)
    return read in _SECOND_PLACES or read.endswith(_SECOND_PLACE_ENDS)


def as_servers_read(name: str) -> str:
    """Return the name of a field as servers compare it: some know but letters and digits, and take the rest for `_`."""
    lowered = name.lower()
    if lowered.replace("-", "").isalnum():  # nearly all of them
        return lowered
    return "".join([char if char.isalnum() else "-" for char in lowered])


def is_field(name: str, value: str) -> bool:
    """Whether a field with this name and value, one character a byte, is one field and no other."""
    found = _FIELD.fullmatch(f"{name}:{value}")
    return found is not None and found[1] == name


def values_of(fields: Iterable[tuple[str, str]], name: str) -> list[str]:
    """Return the values of all fields with this (lower-case) name."""
    return [value for field, value in fields if field.lower() == name]


def list_of(fields: Iterable[tuple[str, str]], name: str) -> list[str]:
    """Return the lower-case words of a field that is a list, such as `Connection`."""
    return [word.strip(" \t").lower() for value in values_of(fields, name) for word in value.split(",")]


def _split(head: bytes) -> tuple[str, Fields]:
    """Return the first line and the fields; every line must end in CR LF and hold no control characters."""
    if not head.endswith(END):
        _refuse("the head has no end: it is cut off or too long, or its lines do not end in CR LF")
    first, _end, lines = head[:-2].decode("latin-1").partition("\r\n")
    fields = _FIELDS.fullmatch(lines) and _LINE.findall(lines)
    if fields is None:
        _refuse("a line of the head is no field: it is folded, has no proper name or holds control characters")
    for name, _value in fields:
        if not name.replace("-", "").isalnum() and as_servers_read(name) in _FRAMING:
            _refuse(f"the field {name} can be taken for another one")
    return first, tuple([(name, value.strip(" \t")) for name, value in fields])


def _request(line: str, fields: Fields) -> HttpRequestHead:
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        _refuse("the first line is no request of HTTP/1.1")
    method, target, minor = found.groups()
    special = [(lowered, value) for name, value in fields if (lowered := name.lower()) in _SPECIAL]
    if len(special) == 1 and special[0][0] == "content-length":  # nearly all that have a body
        return HttpRequestHead(method, target, int(minor), fields, _framing(special))
    if "websocket" in list_of(special, "upgrade"):
        _refuse("websockets are not passed on over plain http: use wss://")
    if [value.lower() for value in values_of(special, "expect")] not in ([], ["100-continue"]):
        _refuse("the request expects something else than 100-continue")
    if minor == "0" and values_of(special, "transfer-encoding"):
        _refuse("a request of HTTP/1.0 has no transfer coding")
    return HttpRequestHead(method, target, int(minor), fields, _framing(special))


def _response(line: str, fields: Fields, method: str) -> HttpResponseHead:
    found = _STATUS_LINE.fullmatch(line)
    if found is None:
        _refuse("the first line is no status of HTTP/1.1")
    status = int(found[1])
    bodiless = method == "HEAD" or status in _BODILESS or status < 200
    return HttpResponseHead(status, found[2] or "", fields, _framing(fields), bodiless)


def _framing(fields: Sequence[tuple[str, str]]) -> Framing | None:
    codings: list[str] = []
    lengths: list[str] = []
    for name, value in fields:
        lowered = name.lower()
        if lowered == "content-length":
            lengths.append(value)
        elif lowered == "transfer-encoding":
            codings.append(value)
    if codings and lengths:
        _refuse("the head has both Content-Length and Transfer-Encoding")
    if codings:
        return CHUNKED if [coding.lower() for coding in codings] == ["chunked"] else _refuse("unknown transfer coding")
    if not lengths:
        return None
    length = lengths[0]
    if len(set(lengths)) > 1 or not (length.isascii() and length.isdigit() and len(length) <= LONGEST_LENGTH):
        _refuse("Content-Length is not one number")
    return Framing(int(length))


def _passed_on(fields: Fields) -> Fields:
    """Return the fields that are meant for the other end."""
    listed = {*list_of(fields, "connection"), *_OWN}
    return tuple([field for field in fields if not _stays(field[0], listed)])


def _stays(name: str, listed: set[str]) -> bool:
    """Whether a field ends here: it is for this connection, or a server may take it for such a one."""
    read = as_servers_read(name)
    return name.lower() in listed or read in listed or read.startswith("proxy-")


def _framing_fields(framing: Framing | None) -> Fields:
    if framing is None or framing == UNTIL_CLOSE:
        return ()
    return (("Transfer-Encoding", "chunked") if framing.chunked else ("Content-Length", str(framing.length)),)


def _written(line: str, *groups: Iterable[tuple[str, str]]) -> bytes:
    lines = [line, *[f"{name}: {value}" for group in groups for name, value in group]]
    return "\r\n".join(lines).encode("latin-1") + END


def _refuse(problem: str) -> NoReturn:
    raise _RefusedError(problem)
