"""Where an HTTP request goes: the host and path of its URL, the addresses to dial, and the connections that wait there.

A URL becomes what the request line holds in `authority_of` and `path_of`: the host and the path that the policy decided
about. A name is looked up once, for the sandbox's proxy and both HTTP clients; what passed `dialable` is what is
dialled, so that a name cannot lead elsewhere in between. The system's resolver blocks and cannot be interrupted: an
event loop asks it in a thread (`in_thread`).

`Endpoint` is the one key under which both HTTP clients keep connections, `ConnectionPool` the one place.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from ipaddress import ip_address
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from msgspec import Struct

from byleave import __version__
from byleave.core.net_rules import hands_out_credentials, may_dial
from byleave.text import sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from byleave.core.net_rules import NetRule
    from byleave.core.url import Target


Result = TypeVar("Result")

MOST_ADDRESSES = 16


def is_address(host: str) -> bool:
    """Whether the host of a place is an address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of `host`, best first; OSError if there are none. Blocks as long as the resolver does."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError("it is no name") from None
    return list(dict.fromkeys([str(entry[4][0]) for entry in entries]))


async def in_thread(work: Callable[[], Result], seconds: float | None) -> Result:
    """Do blocking `work` in a thread of its own; a TimeoutError if it takes longer, and the thread is left alone."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(set_: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            set_(value)

    def run() -> None:
        set_: Callable[[Any], None] = done.set_result
        try:
            value: Any = work()
        except BaseException as problem:  # noqa: BLE001 -- the caller gets it
            set_, value = done.set_exception, problem
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, set_, value)

    Thread(target=run, name="byleave-blocking", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done


def dialable(rules: Sequence[NetRule | None], found: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses that every one of the rules lets a connection go to; without a rule there are none."""
    usable = [address for address in found if rules and all(may_dial(rule, address) for rule in rules)]
    return tuple(usable[:MOST_ADDRESSES])


def not_dialable(host: str, found: Sequence[str]) -> str:
    """Return why none of the addresses of a host is dialled."""
    leads = "is" if is_address(host) else f"leads to {sentence_list(list(found))}, which is"
    if found and all(map(hands_out_credentials, found)):
        return f"{shown(host)} {leads} where a cloud hands out credentials; only a rule for that very address opens it"
    return (
        f"{shown(host)} {leads} in a private range, or not an address that may be dialled; "
        "a rule opens it by naming that very address, or with private = true"
    )


def why(problem: OSError) -> str:
    """Return what went wrong in the system's own words, without file names."""
    if isinstance(problem, socket.gaierror) or problem.errno is None:
        return problem.strerror or str(problem)
    return os.strerror(problem.errno)


SCHEMES = ("http", "https")
USER_AGENT = f"byleave/{__version__}"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Endpoint(Struct, frozen=True):
    """Where a connection leads, and for which tool: a connection of one tool is never used for another."""

    scheme: str
    host: str
    port: int
    tool: str | None = None

    @property
    def authority(self) -> str:
        """Host and port as the `Host` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if _DEFAULT_PORTS[self.scheme] == self.port else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


def endpoint_of(target: Target, tool: str | None = None) -> Endpoint:
    """Return where requests for a URL of http or https go."""
    return Endpoint(target.scheme, target.host, target.port or 0, tool)


def path_of(url: str, target: Target) -> str:
    """Return the path in its literal form, which the policy decided about, and the query as written, in ASCII."""
    rest = url.partition("://")[2].partition("#")[0]
    before, mark, query = rest.partition("?")
    written = before[before.find("/") :] if "/" in before else ""
    slashes = written[len(written.rstrip("/")) :] if target.segments else ""
    return f"/{'/'.join(target.segments)}{slashes}{mark}{in_ascii(query)}"


def in_ascii(text: str) -> str:
    """Return a part of a URL with everything escaped that a request line cannot hold."""
    return "".join([char if "!" <= char <= "~" else "".join(f"%{byte:02X}" for byte in char.encode()) for char in text])


def failure(problem: BaseException) -> str:
    """Return why a connection failed, in words for people; it may hold text of the other end."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate does not prove that it is this host: {problem.verify_message}"
    if isinstance(problem, ssl.SSLError):
        return f"TLS failed: {problem.reason or 'the stream broke off'}"
    if isinstance(problem, TimeoutError):
        return "it did not answer in time"
    return why(problem) if isinstance(problem, OSError) else "it broke off"


class PooledConnection(Protocol):
    """A connection on which no request is open."""

    address: str

    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has arrived on it since the last response."""

    def close(self) -> None: ...


PooledT = TypeVar("PooledT", bound=PooledConnection)


class ConnectionPool(Generic[PooledT]):
    """Connections that wait for another request to the same endpoint: few, and none for long. For many threads."""

    def __init__(self, *, most: int, most_each: int) -> None:
        self._most = most  # in all
        self._most_each = most_each  # of one endpoint
        self._lock = Lock()
        self._waiting: dict[Endpoint, list[tuple[float, PooledT]]] = {}  # each with the end of its time
        self._count = 0
        self._closed = False

    def take(self, endpoint: Endpoint, may_use: Callable[[str], bool] | None = None) -> PooledT | None:
        """Return the connection to the endpoint that was put here last, at an address that `may_use` admits."""
        now = monotonic()
        with self._lock:
            waiting = self._waiting.get(endpoint, ())
            for number in range(len(waiting) - 1, -1, -1):
                until, connection = waiting[number]
                if may_use is not None and not may_use(connection.address):
                    continue
                self._remove(endpoint, number)
                if until > now and connection.is_quiet():
                    return connection
                connection.close()
        return None

    def put(self, endpoint: Endpoint, connection: PooledT, seconds: float) -> None:
        """Keep a connection for so long; the oldest one gives way if there are too many."""
        with self._lock:
            if self._closed or seconds <= 0:
                connection.close()
                return
            waiting = self._waiting.setdefault(endpoint, [])
            waiting.append((monotonic() + seconds, connection))
            self._count += 1
            if len(waiting) > self._most_each:
                self._remove(endpoint, 0).close()
            elif self._count > self._most:
                self._remove(min(self._waiting, key=lambda each: self._waiting[each][0][0]), 0).close()

    def discard(self, endpoint: Endpoint, connection: PooledT) -> None:
        """Forget a connection that is closed."""
        with self._lock:
            for number, (_until, known) in enumerate(self._waiting.get(endpoint, ())):
                if known is connection:
                    self._remove(endpoint, number)
                    return

    def sweep(self) -> bool:
        """Close what has waited too long; return whether anything still waits."""
        now = monotonic()
        with self._lock:
            for endpoint, waiting in list(self._waiting.items()):
                for number in range(len(waiting) - 1, -1, -1):
                    if waiting[number][0] <= now:
                        self._remove(endpoint, number).close()
            return self._count > 0

    def close(self) -> None:
        """Close all; a connection that is put here later is closed at once."""
        with self._lock:
            self._closed = True
            for waiting in self._waiting.values():
                for _until, connection in waiting:
                    connection.close()
            self._waiting.clear()
            self._count = 0

    def _remove(self, endpoint: Endpoint, number: int) -> PooledT:
        waiting = self._waiting[endpoint]
        _until, connection = waiting.pop(number)
        self._count -= 1
        if not waiting:
            del self._waiting[endpoint]
        return connection
