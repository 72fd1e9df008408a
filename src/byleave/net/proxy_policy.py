"""Decide whether a request may leave the sandbox, and to which addresses.

The policy is asked through `judge`. What it allows is resolved here, and every address must pass
`core.net_rules.may_dial`; the addresses that did are the ones that are dialled, so that a name cannot lead elsewhere in
between. Whatever fails on the way is a denial. What came of a request is recorded once that is known: a refusal here is
no allow in the records.

Start at `Gate.admit`.

Say where a request to the proxy wants to go.

Pure: a `Request` in, a `Place` or a `BadHead` out. The URL in it is what the policy judges and what records show: it
has no user name, no password, no query. Host and port in it are the ones that are dialled.

Start at `place_of`.
"""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.net_rules import USERINFO
from byleave.core.url import BadUrl, parse_url
from byleave.net import addresses
from byleave.net.addresses import dialable, is_address, not_dialable
from byleave.protocol.http_head import BadHead, values_of
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from byleave.core.net_rules import NetRule

    Judge = Callable[..., "UrlVerdict"]
    HasPaths = Callable[[str], bool]
    Told = Callable[[str, "UrlVerdict"], None]
    Settle = Callable[["ProxyTarget", str | None], "UrlVerdict"]
    Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
    from typing import NoReturn

    from byleave.core.url import Target
    from byleave.protocol.http_head import HttpRequestHead


FAILED = "the policy could not be asked"


class UrlVerdict(Struct, frozen=True):
    """What was decided about a URL, and why. `rule` is the one that decided, if one did."""

    allowed: bool
    reason: str
    rule: NetRule | None


class ProxyAdmission(Struct, frozen=True):
    """A judgement, and the addresses that it opens: none unless it is allowed."""

    judgement: UrlVerdict
    addresses: tuple[str, ...] = ()


class ProxyPolicy:
    """Asks the policy, and tells what was decided. Everything here is called from one thread, one at a time."""

    def __init__(
        self,
        judge: Judge,
        has_paths: HasPaths,
        told: Told | None,
        resolve: Resolve | None,
        limit: float,
        *,
        settle: Settle | None = None,
    ) -> None:
        self._judge = judge
        self._has_paths = has_paths
        self._told = told
        self._resolve = resolve or look_up
        self._limit = limit
        self._settle = settle

    async def admit(self, place: ProxyTarget, *, tunnel: bool) -> ProxyAdmission:
        """Return whether and where `place` may be reached. OSError if its host has no address, or none in time."""
        judgement, refused = self._judged(place, tunnel=tunnel)
        recorded = refused is None and not judgement.allowed
        if recorded:  # an approval may still allow it
            judgement = self._settled(place, judgement)
            if not judgement.allowed:
                return ProxyAdmission(self.tell(place, judgement))
            refused = self._hidden(place) if tunnel else None
        if refused is not None:
            return ProxyAdmission(self.refuse(place, judgement, refused))
        try:
            async with asyncio.timeout(self._limit):
                found = await self._addresses(place)
        except OSError:
            self.tell(place, judgement if recorded else self._settled(place, judgement))
            raise
        usable = dialable((judgement.rule,), found)
        if found and not usable:
            return ProxyAdmission(self.refuse(place, judgement, not_dialable(place.host, found)))
        judgement = self.tell(place, judgement if recorded else self._settled(place, judgement))
        return ProxyAdmission(judgement, usable if judgement.allowed else ())

    def refuse(self, place: ProxyTarget, judgement: UrlVerdict, refused: str) -> UrlVerdict:
        """Record and report a refusal of the gate's own, and why."""
        denied = self._settled(place, judgement, refused)
        return self.tell(place, UrlVerdict(False, denied.reason, judgement.rule))

    def _settled(self, place: ProxyTarget, judgement: UrlVerdict, refused: str | None = None) -> UrlVerdict:
        """Record what came of a request, and return it; what cannot be recorded is denied."""
        try:
            if self._settle is not None:
                return self._settle(place, refused)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return UrlVerdict(False, FAILED, judgement.rule)
        return judgement if refused is None else UrlVerdict(False, refused, judgement.rule)

    def tell(self, place: ProxyTarget, judgement: UrlVerdict) -> UrlVerdict:
        """Report the judgement and return it; what cannot be reported is denied."""
        try:
            if self._told is not None:
                self._told(place.url, judgement)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return UrlVerdict(False, "the decision could not be recorded", judgement.rule)
        return judgement

    def _judged(self, place: ProxyTarget, *, tunnel: bool) -> tuple[UrlVerdict, str | None]:
        """Return what the policy says, and why the gate refuses whatever that is, if it does."""
        if place.userinfo:
            return UrlVerdict(False, USERINFO, None), USERINFO
        try:
            judgement = self._judge(place.url) if self._settle is None else self._judge(place.url, place.method)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return UrlVerdict(False, FAILED, None), FAILED
        return judgement, self._hidden(place) if tunnel and judgement.allowed else None

    def _hidden(self, place: ProxyTarget) -> str | None:
        """Return why a tunnel cannot be opened that hides what rules look at; None if they look at nothing in it."""
        try:
            hidden = self._has_paths(place.host)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return FAILED
        told = f"rules for {place.host} name paths, and TLS hides the path: only rules without one can open https"
        return told if hidden else None

    async def _addresses(self, place: ProxyTarget) -> Sequence[str]:
        return (place.host,) if is_address(place.host) else await self._resolve(place.host, place.port)


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of `host`, best first; OSError if there are none.

    Each question has a thread of its own, which nobody waits for at the end: a question cannot be taken back.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()
    Thread(target=_ask, args=(loop, answer, host, port), name="byleave-lookup", daemon=True).start()
    return await answer


def _ask(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[list[str]], host: str, port: int) -> None:
    found: list[str] | OSError
    try:
        found = addresses.look_up(host, port)
    except OSError as problem:
        found = problem
    try:
        loop.call_soon_threadsafe(_settle, answer, found)
    except RuntimeError:  # the loop is closed: nobody wants to know any more
        return


def _settle(answer: asyncio.Future[list[str]], found: list[str] | OSError) -> None:
    if answer.done():
        return
    if isinstance(found, OSError):
        answer.set_exception(found)
    else:
        answer.set_result(found)


USAGE = (
    "this is a proxy for programs in the sandbox: the request line must hold a whole URL "
    "(GET http://host/path), or CONNECT host:port for https"
)
_PLAIN = "http://"


class ProxyTarget(Struct, frozen=True):
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


def place_of(request: HttpRequestHead) -> ProxyTarget | BadHead:
    """Return the place that `request` names, or why it names none. Never raises."""
    try:
        return _tunnel_place(request.target) if request.method == "CONNECT" else _plain_place(request)
    except _RefusedError as refusal:
        return BadHead(str(refusal))


def _tunnel_place(target: str) -> ProxyTarget:
    """Return the place of a CONNECT, which is taken for TLS: nothing else gets through."""
    _name, colon, port = target.rpartition(":")
    if not colon or not port.isdigit() or any(mark in target for mark in "/?#@"):
        _refuse("CONNECT must name host:port and nothing else")
    parsed = _parsed(f"https://{target}/")
    authority = f"{_bracketed(parsed.host)}:{parsed.port}"
    return ProxyTarget(f"https://{authority}/", parsed.host, _port(parsed), authority, "", parsed.userinfo)


def _plain_place(request: HttpRequestHead) -> ProxyTarget:
    authority, path, query = _split_target(request.target)
    parsed = _parsed(f"{_PLAIN}{authority}{path}")
    _check_host(request, parsed)
    own = _bracketed(parsed.host) if parsed.default_port else f"{_bracketed(parsed.host)}:{parsed.port}"
    url, sent = f"{_PLAIN}{own}{path}", f"{path}{query}"
    return ProxyTarget(
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


def _check_host(request: HttpRequestHead, parsed: Target) -> None:
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


def _parsed(url: str) -> Target:
    parsed = parse_url(url)
    return _refuse(parsed.problem) if isinstance(parsed, BadUrl) else parsed


def _port(parsed: Target) -> int:
    return parsed.port or _refuse("the URL has no port")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refuse(problem: str) -> NoReturn:
    raise _RefusedError(problem)
