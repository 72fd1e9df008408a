"""The network of a sandbox: an HTTP proxy that asks the policy about every request.

A sandboxed program has no network but a listener, whose connections are served here, in a thread of the host process
with an event loop of its own. The policy decides about every request of plain http by its whole URL, about every tunnel
by host and port (TLS hides the rest), and about every address before it is dialled.

Start at `open_proxy`. One connection: `proxy_connection`. What may pass: `proxy_policy`.
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
from byleave.net.proxy_connection import ProxyConnection, ProxyLimits
from byleave.net.proxy_policy import ProxyPolicy, UrlVerdict
from byleave.net.streams import SocketStream, readable

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from typing import Any

    from byleave.core.decision import Verdict
    from byleave.core.matchers import Matcher
    from byleave.net.proxy_policy import Evaluate, HasPaths, OnVerdict, ProxyTarget, RecordOutcome, Resolve
    from byleave.policy.live_policy import LivePolicy

    Decide = Callable[[dict[str, Any]], Verdict]


PAUSE = 0.1  # seconds after a connection could not be accepted: file descriptors may be free again


class HttpProxy:
    """Serves one sandbox. Start it with the listener; close it when the sandbox is gone.

    `evaluate` decides about a URL, which never has a user name, password, query or fragment. `has_paths` says whether
    any rule for a host has a path prefix. `on_verdict` gets every verdict, and the denial of a tunnel that was closed
    after all because of what came through it. All are called in the proxy's own thread, one at a time, and should not
    wait for anything; an exception from them is a denial. `resolve` finds the addresses of a host in place of the
    system. `record` records the outcome of a request: a refusal of the proxy's own with its reason, else what the
    policy says. With it, `evaluate` gets the method, too, and records nothing.
    `ech` admits TLS greetings with an encrypted part (browsers send them always), although it can hide another name.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        has_paths: HasPaths,
        *,
        on_verdict: OnVerdict | None = None,
        resolve: Resolve | None = None,
        limits: ProxyLimits = ProxyLimits(),  # noqa: B008 -- a value, never changed
        ech: bool = False,
        record: RecordOutcome | None = None,
    ) -> None:
        self._policy = ProxyPolicy(evaluate, has_paths, on_verdict, resolve, limits.connect, record=record)
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
        connections: set[asyncio.Task[None]] = set()
        accepting = asyncio.create_task(self._accept(listener, connections))
        await self._over.wait()
        accepting.cancel()
        await asyncio.wait([accepting])
        while connections:  # again and again: one that fails in the same moment does not notice
            for connection in connections:
                connection.cancel()
            await asyncio.wait(connections, timeout=PAUSE)

    async def _accept(self, listener: socket.socket, connections: set[asyncio.Task[None]]) -> None:
        """Take connections while there is room for them; the others wait in the kernel."""
        room = asyncio.Semaphore(self._limits.connections)
        while True:
            await room.acquire()
            connection = await _accepted(listener)
            serving = asyncio.create_task(self._serve_one(connection))
            connections.add(serving)
            serving.add_done_callback(partial(_left, connection, room, connections))

    async def _serve_one(self, connection: socket.socket) -> None:
        """Serve one client. Nothing that goes wrong with it reaches the others: its connection breaks, no more."""
        client = SocketStream(connection)
        try:
            await ProxyConnection(client, self._policy, self._limits, ech=self._ech).serve()
        except Exception:  # noqa: BLE001 -- the outermost loop of a server: what we cannot answer is not passed on
            client.abort()


def _left(
    connection: socket.socket, room: asyncio.Semaphore, connections: set[asyncio.Task[None]], visit: asyncio.Task[None]
) -> None:
    """Clean up after a visit, also after one that was cancelled before it began."""
    connection.close()
    connections.discard(visit)
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
    on_verdict: OnVerdict | None = None,
    *,
    resolve: Resolve | None = None,
) -> HttpProxy:
    """Return the proxy of a tool's sandbox, not started yet. `decide` records what it decides; `on_verdict` gets it."""
    recorded = decide if decide is not None else policy.decide

    def evaluate(url: str, method: str) -> UrlVerdict:
        """Decide whether the host of a request may be looked up. Nothing is recorded yet."""
        return with_rule(policy.decide({"kind": "url", "url": url, "method": method, "tool": tool}), url)

    def record(target: ProxyTarget, refused: str | None) -> UrlVerdict:
        action = {"kind": "url", "url": target.url, "method": target.method, "tool": tool}
        return with_rule(recorded(action if refused is None else {**action, "refused": refused}), target.url)

    def with_rule(verdict: Verdict, url: str) -> UrlVerdict:
        target = parse_url(url)
        tables = list(_tables(policy, tool))
        if policy.compiled.policy.tool(tool).access.net is PUBLIC:
            return UrlVerdict(verdict.decision is ALLOW, verdict.reason, ANY_PUBLIC)
        rule = None if isinstance(target, BadUrl) or not tables else tables[0].match(target)
        return UrlVerdict(verdict.decision is ALLOW, verdict.reason, rule)

    def has_paths(host: str) -> bool:
        return any(table.has_paths(host) for table in _tables(policy, tool)) or _rules_look_inside(policy, host)

    return HttpProxy(evaluate, has_paths, on_verdict=on_verdict, resolve=resolve, record=record)


def _tables(policy: LivePolicy, tool: str) -> Iterator[NetTable]:
    """Yield the network rules of every policy layer; the first are those that grant."""
    for layer in policy.compiled.policy.views:
        known = layer.tools.get(tool)
        if known is not None and isinstance(known.access.net, NetTable):
            yield known.access.net


def _rules_look_inside(policy: LivePolicy, host: str) -> bool:
    """Whether a rule that denies or needs an approval for a host depends on the path or the method, which TLS hides."""
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
