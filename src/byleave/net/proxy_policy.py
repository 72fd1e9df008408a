"""Decide whether a request may leave the sandbox, and to which addresses.

`read_target` says where a request goes: host and port are those that are dialled, and the URL is the one that the
policy decides about and that records show, without user name, password and query. `ProxyPolicy.admit` asks the policy,
resolves what it allows, and lets only addresses pass that `core.net_rules.may_dial` admits; those are the ones that are
dialled, so that a name cannot lead elsewhere in between. An error in between is a denial. The outcome is recorded once
it is known: a refusal here is no allow in the records.

Start at `ProxyPolicy.admit` and `read_target`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.net_rules import USERINFO
from byleave.core.url import BadUrl, parse_url
from byleave.net import endpoints
from byleave.net.endpoints import dialable, is_address, not_dialable
from byleave.protocol.http_head import BadHead, names_second_place, values_of
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import NoReturn

    from byleave.core.net_rules import NetRule
    from byleave.core.url import Target
    from byleave.protocol.http_head import HttpRequestHead

    Evaluate = Callable[..., "UrlVerdict"]
    HasPaths = Callable[[str], bool]
    OnVerdict = Callable[[str, "UrlVerdict"], None]
    RecordOutcome = Callable[["ProxyTarget", str | None], "UrlVerdict"]
    Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

FAILED = "the policy could not be asked"


class UrlVerdict(Struct, frozen=True):
    """The decision about a URL, and why. `rule` is the one that decided, if one did."""

    allowed: bool
    reason: str
    rule: NetRule | None


class ProxyAdmission(Struct, frozen=True):
    """A verdict, and the addresses that it opens: none unless it allows."""

    verdict: UrlVerdict
    addresses: tuple[str, ...] = ()


class ProxyPolicy:
    """Asks the policy, and reports what it decided. Everything here is called from one thread, one at a time."""

    def __init__(
        self,
        evaluate: Evaluate,
        has_paths: HasPaths,
        on_verdict: OnVerdict | None,
        resolve: Resolve | None,
        limit: float,
        *,
        record: RecordOutcome | None = None,
    ) -> None:
        self._evaluate = evaluate
        self._has_paths = has_paths
        self._on_verdict = on_verdict
        self._resolve = resolve or look_up
        self._limit = limit
        self._record = record

    async def admit(self, target: ProxyTarget, *, tunnel: bool) -> ProxyAdmission:
        """Return whether and where `target` may be reached. OSError if its host has no address, or none in time."""
        verdict, refused = self._evaluated(target, tunnel=tunnel)
        recorded = refused is None and not verdict.allowed
        if recorded:  # an approval may still allow it
            verdict = self._recorded(target, verdict)
            if not verdict.allowed:
                return ProxyAdmission(self.report(target, verdict))
            refused = self._hidden(target, tunnel=tunnel)
        if refused is not None:
            return ProxyAdmission(self.refuse(target, verdict, refused))
        try:
            async with asyncio.timeout(self._limit):
                found = await self._addresses(target)
        except OSError:
            self.report(target, verdict if recorded else self._recorded(target, verdict))
            raise
        usable = dialable((verdict.rule,), found)
        if found and not usable:
            return ProxyAdmission(self.refuse(target, verdict, not_dialable(target.host, found)))
        verdict = self.report(target, verdict if recorded else self._recorded(target, verdict))
        return ProxyAdmission(verdict, usable if verdict.allowed else ())

    def refuse(self, target: ProxyTarget, verdict: UrlVerdict, refused: str) -> UrlVerdict:
        """Record and report a refusal of the proxy's own, and why."""
        denied = self._recorded(target, verdict, refused)
        return self.report(target, UrlVerdict(False, denied.reason, verdict.rule))

    def _recorded(self, target: ProxyTarget, verdict: UrlVerdict, refused: str | None = None) -> UrlVerdict:
        """Record the outcome of a request, and return it; what cannot be recorded is denied."""
        try:
            if self._record is not None:
                return self._record(target, refused)
        except Exception:  # noqa: BLE001 -- an error of any kind is a denial
            return UrlVerdict(False, FAILED, verdict.rule)
        return verdict if refused is None else UrlVerdict(False, refused, verdict.rule)

    def report(self, target: ProxyTarget, verdict: UrlVerdict) -> UrlVerdict:
        """Report the verdict and return it; what cannot be reported is denied."""
        try:
            if self._on_verdict is not None:
                self._on_verdict(target.url, verdict)
        except Exception:  # noqa: BLE001 -- an error of any kind is a denial
            return UrlVerdict(False, "the decision could not be recorded", verdict.rule)
        return verdict

    def _evaluated(self, target: ProxyTarget, *, tunnel: bool) -> tuple[UrlVerdict, str | None]:
        """Return what the policy says, and why the proxy refuses regardless of that, if it does."""
        if target.userinfo:
            return UrlVerdict(False, USERINFO, None), USERINFO
        try:
            verdict = self._evaluate(target.url) if self._record is None else self._evaluate(target.url, target.method)
        except Exception:  # noqa: BLE001 -- an error of any kind is a denial
            return UrlVerdict(False, FAILED, None), FAILED
        return verdict, self._hidden(target, tunnel=tunnel) if verdict.allowed else None

    def _hidden(self, target: ProxyTarget, *, tunnel: bool) -> str | None:
        """Return why a request is not made that has a path which rules would have to see; None if it has none."""
        if not tunnel and not target.second_place:
            return None
        try:
            hidden = self._has_paths(target.host)
        except Exception:  # noqa: BLE001 -- an error of any kind is a denial
            return FAILED
        problem = "TLS hides the path: only rules without one can open https"
        if not tunnel:
            problem = f"the field {shown(target.second_place)} names a path beside that of the URL"
        return f"rules for {target.host} name paths, and {problem}" if hidden else None

    async def _addresses(self, target: ProxyTarget) -> Sequence[str]:
        return (target.host,) if is_address(target.host) else await self._resolve(target.host, target.port)


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of `host`, best first; OSError if there are none. The caller limits the time."""
    return await endpoints.in_thread(lambda: endpoints.look_up(host, port), None)


USAGE = (
    "this is a proxy for programs in the sandbox: the request line must hold a whole URL "
    "(GET http://host/path), or CONNECT host:port for https"
)
_PLAIN = "http://"


class ProxyTarget(Struct, frozen=True):
    """Where a request goes. `url` is decided about and recorded; `path` (with the query) goes to the server."""

    url: str
    host: str
    port: int
    authority: str
    path: str
    userinfo: bool
    other_method: str | None = None  # if it is not GET
    second_place: str = ""  # the name of a field that names another path

    @property
    def method(self) -> str:
        """The method of the request; a tunnel has no path."""
        return "CONNECT" if not self.path else self.other_method or "GET"


class _RefusedError(Exception):
    """Carries the problem from the target that finds it to the function that answers."""


def read_target(request: HttpRequestHead) -> ProxyTarget | BadHead:
    """Return where `request` goes, or why it goes nowhere. Never raises."""
    try:
        return _tunnel_target(request.target) if request.method == "CONNECT" else _plain_target(request)
    except _RefusedError as refusal:
        return BadHead(str(refusal))


def _tunnel_target(target: str) -> ProxyTarget:
    """Return the target of a CONNECT, which is taken for TLS: nothing else gets through."""
    _name, colon, port = target.rpartition(":")
    if not colon or not port.isdigit() or any(mark in target for mark in "/?#@"):
        _refuse("CONNECT must name host:port and nothing else")
    parsed = _parsed(f"https://{target}/")
    authority = f"{_bracketed(parsed.host)}:{parsed.port}"
    return ProxyTarget(f"https://{authority}/", parsed.host, _port(parsed), authority, "", parsed.userinfo)


def _plain_target(request: HttpRequestHead) -> ProxyTarget:
    authority, path, query = _split_target(request.target)
    parsed = _parsed(f"{_PLAIN}{authority}{path}")
    _check_host(request, parsed)
    own = _bracketed(parsed.host) if parsed.default_port else f"{_bracketed(parsed.host)}:{parsed.port}"
    url, sent = f"{_PLAIN}{own}{path}", f"{path}{query}"
    method = None if request.method == "GET" else request.method
    second = next((name for name, _value in request.fields if names_second_place(name)), "")
    return ProxyTarget(url, parsed.host, _port(parsed), own, sent, parsed.userinfo, method, second)


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
    named = parse_url(f"{_PLAIN}{hosts[0]}/")
    if any(mark in hosts[0] for mark in "/?#@") or isinstance(named, BadUrl):
        _refuse(f"the Host {shown(hosts[0][:80])} is no host")
    if (named.host, named.port) != (parsed.host, parsed.port):
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
