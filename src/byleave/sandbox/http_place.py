"""Say where a request to the proxy wants to go.

Pure: a `Request` in, a `Place` or a `BadHead` out. The URL in it is what the policy judges and what records show: it
has no user name, no password, no query. Host and port in it are the ones that are dialled.

Start at `place_of`.
"""

from byleave.core.url import BadUrl, parse_url
from byleave.record import Record
from byleave.text import shown
from byleave.wire.http_head import BadHead, values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from byleave.core.url import Target
    from byleave.wire.http_head import Request

USAGE = (
    "this is a proxy for programs in the sandbox: the request line must hold a whole URL "
    "(GET http://host/path), or CONNECT host:port for https"
)
_PLAIN = "http://"


class Place(Record):
    """What a request asks for. `url` is judged and recorded; `path` (with the query) goes to the server."""

    url: str
    host: str
    port: int
    authority: str
    path: str
    userinfo: bool
    other_method: str | None = None  # if it is not GET

    @property
    def method(self) -> str:
        """The method of the request; a tunnel has no path."""
        return "CONNECT" if not self.path else self.other_method or "GET"


class _RefusedError(Exception):
    """Carries the problem from the place that finds it to the function that answers."""


def place_of(request: "Request") -> Place | BadHead:
    """Return the place that `request` names, or why it names none. Never raises."""
    try:
        return _tunnel_place(request.target) if request.method == "CONNECT" else _plain_place(request)
    except _RefusedError as refusal:
        return BadHead(str(refusal))


def _tunnel_place(target: str) -> Place:
    """Return the place of a CONNECT, which is taken for TLS: nothing else gets through."""
    _name, colon, port = target.rpartition(":")
    if not colon or not port.isdigit() or any(mark in target for mark in "/?#@"):
        _refuse("CONNECT must name host:port and nothing else")
    parsed = _parsed(f"https://{target}/")
    authority = f"{_bracketed(parsed.host)}:{parsed.port}"
    return Place(f"https://{authority}/", parsed.host, _port(parsed), authority, "", parsed.userinfo)


def _plain_place(request: "Request") -> Place:
    authority, path, query = _split_target(request.target)
    parsed = _parsed(f"{_PLAIN}{authority}{path}")
    _check_host(request, parsed)
    own = _bracketed(parsed.host) if parsed.default_port else f"{_bracketed(parsed.host)}:{parsed.port}"
    url, sent = f"{_PLAIN}{own}{path}", f"{path}{query}"
    return Place(
        url, parsed.host, _port(parsed), own, sent, parsed.userinfo, None if request.method == "GET" else request.method
    )


def _split_target(target: str) -> tuple[str, str, str]:
    """Return authority, path and query (with its question mark) of the URL in a request line."""
    scheme = target[: len(_PLAIN)].lower()
    if scheme.startswith("https:/"):
        _refuse("https goes through CONNECT host:port, not through a whole URL in the request line")
    if scheme != _PLAIN:
        _refuse(USAGE)
    if "#" in target:
        _refuse("the URL in the request line has a fragment")
    before, mark, query = target[len(_PLAIN) :].partition("?")
    authority, _slash, path = before.partition("/")
    return authority, f"/{path}", f"{mark}{query}"


def _check_host(request: "Request", parsed: "Target") -> None:
    """Refuse a `Host` that differs from the URL: servers and proxies disagree about which of the two counts."""
    hosts = values_of(request.fields, "host")
    if not hosts and request.minor == 0:
        return
    if len(hosts) != 1:
        _refuse("the request does not have exactly one Host")
    told = parse_url(f"{_PLAIN}{hosts[0]}/")
    if any(mark in hosts[0] for mark in "/?#@") or isinstance(told, BadUrl):
        _refuse(f"the Host {shown(hosts[0][:80])} is no host")
    if (told.host, told.port) != (parsed.host, parsed.port):
        _refuse(f"the Host {shown(hosts[0][:80])} is not the host of the URL")


def _parsed(url: str) -> "Target":
    parsed = parse_url(url)
    return _refuse(parsed.problem) if isinstance(parsed, BadUrl) else parsed


def _port(parsed: "Target") -> int:
    return parsed.port or _refuse("the URL has no port")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refuse(problem: str) -> "NoReturn":
    raise _RefusedError(problem)
