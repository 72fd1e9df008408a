"""Ask a web server what may be asked, at the very addresses that may be dialled.

One request, one answer, under one permit: redirects are answers like others, and whoever follows one needs another
permit. A name is looked up once, and what it led to is dialled. Proxies of the environment are not used.

Start at `Client.request`. What is said on a connection: `http_exchange`.
"""

from __future__ import annotations

import ssl
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from byleave.core.action import UrlAction
from byleave.core.url import BadUrl, parse_url
from byleave.errors import RequestError
from byleave.net.addresses import dialable, is_address, look_up, not_dialable, why
from byleave.net.http_connection import ConnectionPool, RequestDeadline, connect
from byleave.net.http_exchange import (
    CodingError,
    DecodedTooLargeError,
    DiedError,
    HttpJob,
    exchange,
    too_large,
    written,
)
from byleave.protocol.http_body import MalformedBodyError
from byleave.protocol.jsonrpc import ACCESS_DENIED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from byleave.core.decision import Permit
    from byleave.core.net_rules import NetRule
    from byleave.core.url import Target
    from byleave.net.http_connection import HttpConnection, Resolve
    from byleave.net.http_exchange import HttpRequest, HttpResponse

    OnCancel = Callable[[Callable[[], None]], object]

LARGEST_BODY = 10 << 20  # `max_file_size` of a tool
LONGEST = 300.0  # seconds, where nobody sets a deadline
SCHEMES = ("http", "https")
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})  # RFC 9110, section 9.2.2: doing it twice is doing it once


class HttpClient:
    """Talks to web servers for many threads at once. Close it in the end."""

    def __init__(self, *, context: ssl.SSLContext | None = None, resolve: Resolve = look_up) -> None:
        self._context = context
        self._resolve = resolve
        self._lock = Lock()
        self._pool = ConnectionPool()

    def request(
        self,
        permit: Permit,
        ask: HttpRequest,
        rules: Sequence[NetRule | None],
        *,
        limit: int = LARGEST_BODY,
        deadline: float | None = None,
        on_cancel: OnCancel | None = None,
    ) -> HttpResponse:
        """Return the answer to what the permit allows; a RequestError if there is none.

        `rules` are those that allowed it: an address must pass all of them. `deadline` is a time of the monotonic
        clock. `on_cancel` is given what ends the request from another thread.
        """
        action, target = _permitted(permit, ask)
        patience = RequestDeadline(monotonic() + LONGEST if deadline is None else deadline)
        if on_cancel is not None:
            on_cancel(patience.end)
        job = HttpJob(ask, target, action.tool, tuple(rules), limit, patience, written(ask, target))
        try:
            return self._answer(job)
        except OSError as problem:
            patience.left()
            raise job.failed("cannot be reached", _said(problem)) from None
        except (MalformedBodyError, CodingError) as problem:
            raise job.failed("gave no answer that can be used", str(problem)) from None
        except DecodedTooLargeError:
            raise too_large(limit) from None

    def close(self) -> None:
        """Close the connections that were kept."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def _answer(self, job: HttpJob) -> HttpResponse:
        """Ask over a connection that was kept, where nothing is lost if that fails; else over a new one."""
        kept = self._pool.take(job.place, job.rules) if job.ask.method in _REPEATABLE else None
        if kept is not None:
            job.patience.hold(kept)
            try:
                return self._over(kept, job, kept=True)
            except DiedError:
                job.patience.left()
        return self._over(self._dial(job), job, kept=False)

    def _over(self, connection: HttpConnection, job: HttpJob, *, kept: bool) -> HttpResponse:
        keep = False
        try:
            reply, keep = exchange(connection, job, kept=kept)
        finally:
            job.patience.let_go()
            if keep and connection.is_quiet():
                self._pool.put(job.place, connection)
            else:
                connection.close()
        return reply

    def _dial(self, job: HttpJob) -> HttpConnection:
        """Return a new connection to an address that may be dialled."""
        host, port = job.target.host, job.place.port
        found = (host,) if is_address(host) else job.patience.look_up(self._resolve, host, port)
        usable = dialable(job.rules, found)
        if found and not usable:
            hint = "ask the user for a rule that opens it"
            raise RequestError(not_dialable(host, found), hint=hint, number=ACCESS_DENIED)
        connection = connect(usable, port, job.patience)
        try:
            if job.target.scheme == "https":
                connection.secure(self._tls(), host, job.patience)
        except BaseException:
            job.patience.let_go()
            connection.close()
            raise
        return connection

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:  # reads the system's certificates: some ten milliseconds
                self._context = ssl.create_default_context()
            return self._context


def _permitted(permit: Permit, ask: HttpRequest) -> tuple[UrlAction, Target]:
    """Return the place that the permit is for; what is not the permit's own is not asked."""
    action = permit.action
    if not isinstance(action, UrlAction) or (action.url, action.method) != (ask.url, ask.method):
        raise PermissionError("this permit is not for this request")
    target = parse_url(ask.url)
    if isinstance(target, BadUrl) or target.userinfo or target.scheme not in SCHEMES:
        raise PermissionError("this permit names no place on the web")
    return action, target


def _said(problem: OSError) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate does not prove that it is this host: {problem.verify_message}"
    if isinstance(problem, ssl.SSLError):
        return f"TLS failed: {problem.reason or 'the stream broke off'}"
    if isinstance(problem, TimeoutError):
        return "it did not answer in time"
    return why(problem)
