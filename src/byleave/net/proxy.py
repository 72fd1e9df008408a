"""The way out of a sandbox: an HTTP proxy that asks the policy about every request.

A sandboxed program has no network but a listener, whose connections are served here, in a thread of the host process
with an event loop of its own. What is judged: every request of plain http by its whole URL, every tunnel by host and
port (TLS hides the rest), and every address before it is dialled.

Start at `Proxy`. One connection: visit. What may pass: gate.

A sandbox's way into the network: the proxy, asking the policy about every request.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from byleave.core.access import PUBLIC
from byleave.core.decision import ALLOW
from byleave.core.matchers import All, AnyOf, Not, UrlMatcher
from byleave.core.net_rules import ANY_PUBLIC, NetTable
from byleave.core.url import BadUrl, normal_host, parse_url
from byleave.net.proxy_connection import ProxyConnection
from byleave.net.proxy_forward import ProxyLimits
from byleave.net.proxy_policy import ProxyPolicy, UrlVerdict
from byleave.net.streams import SocketStream, readable

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from typing import Any

    from byleave.core.decision import Verdict
    from byleave.core.matchers import Matcher
    from byleave.net.proxy_policy import HasPaths, Judge, ProxyTarget, Resolve, Settle, Told
    from byleave.policy.live_policy import LivePolicy

    Decide = Callable[[dict[str, Any]], Verdict]


PAUSE = 0.1  # seconds after a connection could not be accepted: file descriptors may be free again


class HttpProxy:
    """Serves one sandbox. Start it with the listener; close it when the sandbox is gone.

    `judge` answers for a URL, which never has a user name, password, query or fragment. `has_paths` says whether any
    rule for a host has a path prefix. `told` hears of every judgement, and of a tunnel that was closed after all
    because of what came through it. All are called in the proxy's own thread, one at a time, and should not wait for
    anything; an exception from them is a denial. `resolve` finds the addresses of a host instead of the system.
    `settle` records what came of a request: a refusal of the proxy's own with its reason, else what the policy says.
    With it, `judge` is given the method, too, and records nothing.
    `ech` admits TLS greetings with an encrypted part (browsers send them always), although it can hide another name.
    """

    def __init__(
        self,
        judge: Judge,
        has_paths: HasPaths,
        *,
        told: Told | None = None,
        resolve: Resolve | None = None,
        limits: ProxyLimits = ProxyLimits(),  # noqa: B008 -- a value, never changed
        ech: bool = False,
        settle: Settle | None = None,
    ) -> None:
        self._gate = ProxyPolicy(judge, has_paths, told, resolve, limits.connect, settle=settle)
        self._limits = limits
        self._ech = ech
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._over = asyncio.Event()

    def start(self, listener: socket.socket) -> None:
        """Serve what connects to `listener`, which belongs to the proxy from now on. Returns at once."""
        if self._thread is not None:
            raise RuntimeError("a proxy serves one sandbox, once")
        listener.setblocking(False)
        listener.set_inheritable(False)  # it may come from another process, which says nothing about ours
        self._loop = asyncio.new_event_loop()
        self._loop.set_debug(False)
        self._loop.set_exception_handler(_keep_quiet)
        self._thread = Thread(target=self._run, args=(self._loop, listener), name="byleave-proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End every connection and the thread. A second call does nothing."""
        if self._loop is None or self._thread is None:
            return
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        try:
            loop.run_until_complete(self._serve(listener))
        finally:
            listener.close()
            loop.close()

    async def _serve(self, listener: socket.socket) -> None:
        visits: set[asyncio.Task[None]] = set()
        accepting = asyncio.create_task(self._accept(listener, visits))
        await self._over.wait()
        accepting.cancel()
        await asyncio.wait([accepting])
        while visits:  # again and again: one that fails in the same moment does not notice
            for visit in visits:
                visit.cancel()
            await asyncio.wait(visits, timeout=PAUSE)

    async def _accept(self, listener: socket.socket, visits: set[asyncio.Task[None]]) -> None:
        """Take connections while there is room for them; the others wait in the kernel."""
        room = asyncio.Semaphore(self._limits.connections)
        while True:
            await room.acquire()
            connection = await _accepted(listener)
            visit = asyncio.create_task(self._visit(connection))
            visits.add(visit)
            visit.add_done_callback(partial(_left, connection, room, visits))

    async def _visit(self, connection: socket.socket) -> None:
        """Serve one client. Nothing that goes wrong with it reaches the others: its connection breaks, no more."""
        client = SocketStream(connection)
        try:
            await ProxyConnection(client, self._gate, self._limits, ech=self._ech).serve()
        except Exception:  # noqa: BLE001 -- the outermost loop of a server: what we cannot answer is not passed on
            client.abort()


def _left(
    connection: socket.socket, room: asyncio.Semaphore, visits: set[asyncio.Task[None]], visit: asyncio.Task[None]
) -> None:
    """Clean up after a visit, also after one that was cancelled before it began."""
    connection.close()
    visits.discard(visit)
    room.release()


async def _accepted(listener: socket.socket) -> socket.socket:
    while True:
        await readable(listener)
        try:
            connection, _address = listener.accept()
        except BlockingIOError:
            continue
        except OSError:
            await asyncio.sleep(PAUSE)
        else:
            return connection


def _keep_quiet(_loop: asyncio.AbstractEventLoop, _context: dict[str, object]) -> None:
    """Nothing is printed: what goes wrong is answered to the client."""


def open_proxy(
    policy: LivePolicy,
    tool: str,
    decide: Decide | None = None,
    told: Told | None = None,
    *,
    resolve: Resolve | None = None,
) -> HttpProxy:
    """Return the proxy of a tool's sandbox, not started yet. `decide` may record what it is asked; `told` hears it."""
    ask = decide if decide is not None else policy.decide

    def judge(url: str, method: str) -> UrlVerdict:
        """Consider a request: whether its host may be looked up. Nothing is recorded yet."""
        return judged(policy.decide({"kind": "url", "url": url, "method": method, "tool": tool}), url)

    def settle(place: ProxyTarget, refused: str | None) -> UrlVerdict:
        action = {"kind": "url", "url": place.url, "method": place.method, "tool": tool}
        return judged(ask(action if refused is None else {**action, "refused": refused}), place.url)

    def judged(verdict: Verdict, url: str) -> UrlVerdict:
        target = parse_url(url)
        tables = list(_tables(policy, tool))
        if policy.compiled.policy.tool(tool).access.net is PUBLIC:
            return UrlVerdict(verdict.decision is ALLOW, verdict.reason, ANY_PUBLIC)
        rule = None if isinstance(target, BadUrl) or not tables else tables[0].match(target)
        return UrlVerdict(verdict.decision is ALLOW, verdict.reason, rule)

    def has_paths(host: str) -> bool:
        return any(table.has_paths(host) for table in _tables(policy, tool)) or _rules_look_inside(policy, host)

    return HttpProxy(judge, has_paths, told=told, resolve=resolve, settle=settle)


def _tables(policy: LivePolicy, tool: str) -> Iterator[NetTable]:
    """Yield the network rules of every voice; the first are those that grant."""
    for voice in policy.compiled.policy.views:
        known = voice.tools.get(tool)
        if known is not None and isinstance(known.access.net, NetTable):
            yield known.access.net


def _rules_look_inside(policy: LivePolicy, host: str) -> bool:
    """Whether a rule that denies or asks about a host depends on the path or the method, which TLS hides."""
    named = normal_host(host)
    for table in policy.compiled.policy.rule_tables():
        for rule in table.rules:
            if rule.outcome is ALLOW:
                continue
            for matcher in _url_matchers(rule.matcher):
                if (matcher.path_prefix or matcher.methods) and matcher.host in (None, host, named):
                    return True
    return False


def _url_matchers(matcher: Matcher) -> Iterator[UrlMatcher]:
    if isinstance(matcher, UrlMatcher):
        yield matcher
    elif isinstance(matcher, All | AnyOf):
        for each in matcher.matchers:
            yield from _url_matchers(each)
    elif isinstance(matcher, Not):
        yield from _url_matchers(matcher.matcher)
