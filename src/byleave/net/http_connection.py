"""A connection to a web server, read and written under a request's `Patience`, and those that wait for the next one.

Addresses are numbers that were judged; no name is looked up here. Start at `connect`. Kept connections: `Pool`.

How long a request may take, and the way to end it from outside.
"""

from __future__ import annotations

import contextlib
import select
import socket
from ssl import SSLSocket
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import RequestError
from byleave.net.addresses import dialable
from byleave.protocol.http_head import end_of_head
from byleave.protocol.jsonrpc import CANCELLED, TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ssl import SSLContext
    from typing import Protocol

    from byleave.core.net_rules import NetRule

    Resolve = Callable[[str, int], Sequence[str]]

    class Shuttable(Protocol):
        """Something that can be made to fail for whoever waits for it, from another thread."""

        def shut(self) -> None: ...


PIECE = 1 << 16
LONGEST_HEAD = 1 << 16
LONGEST_CONNECT = 20.0  # seconds for all addresses of a host together
MOST_KEPT = 8
LONGEST_KEPT = 30.0  # seconds; servers close after some more


class Endpoint(Struct, frozen=True):
    """Where a connection leads, and for whom: what one tool has said on it is nobody else's."""

    tool: str | None
    scheme: str
    host: str
    port: int


class HttpConnection:
    """One connection. What has arrived and was not wanted yet is kept for whoever reads next."""

    def __init__(self, end: socket.socket, address: str) -> None:
        self.address = address
        self.held = b""
        self._end = end

    def secure(self, context: SSLContext, host: str, patience: RequestDeadline) -> None:
        """Speak TLS from here on, with the very host; an OSError if that fails, or the host cannot prove itself."""
        self._end.settimeout(patience.left())
        # A stream that breaks off is an error: the end of a body may be nothing but the end of the stream.
        try:
            self._end = context.wrap_socket(
                self._end, server_hostname=host, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
        except ValueError:
            raise OSError("no certificate can be for a host of that name") from None
        patience.hold(self)
        self._end.do_handshake()

    def send(self, data: bytes, patience: RequestDeadline) -> None:
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._end.settimeout(patience.left())
            self._end.sendall(view[start : start + PIECE])

    def read(self, patience: RequestDeadline) -> bytes:
        """Return what arrives next, empty at the end of the stream."""
        if self.held:
            piece, self.held = self.held, b""
            return piece
        self._end.settimeout(patience.left())
        return self._end.recv(PIECE)

    def read_head(self, patience: RequestDeadline) -> bytes:
        """Return everything up to an empty line; what there is if none comes, or none in time."""
        head = b""
        while len(head) < LONGEST_HEAD and (data := self.read(patience)):
            searched = max(0, len(head) - 2)
            head += data
            if (end := end_of_head(head, searched)) and end <= LONGEST_HEAD:
                self.held = head[end:]
                return head[:end]
        return head[:LONGEST_HEAD]

    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has arrived that nobody asked for."""
        if self.held or (isinstance(self._end, SSLSocket) and self._end.pending()):
            return False
        watched = select.poll()
        watched.register(self._end, select.POLLIN)
        return not watched.poll(0)

    def shut(self) -> None:
        """Make whoever waits for it fail; it still has to be closed."""
        with contextlib.suppress(OSError):  # the TLS layer must not notice: it would go on in the clear
            socket.socket.shutdown(self._end, socket.SHUT_RDWR)

    def close(self) -> None:
        self._end.close()


def connect(addresses: Sequence[str], port: int, patience: RequestDeadline) -> HttpConnection:
    """Return a connection to the first of the addresses that answers; OSError if none does.

    Each gets an equal share of the time that is left.
    """
    end = monotonic() + min(patience.left(), LONGEST_CONNECT)
    last: OSError = ConnectionRefusedError("it has no address")
    for tried, address in enumerate(addresses):
        try:
            return _connected(address, port, (end - monotonic()) / (len(addresses) - tried), patience)
        except OSError as problem:
            patience.left()
            last = problem
    raise last


def _connected(address: str, port: int, seconds: float, patience: RequestDeadline) -> HttpConnection:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    connection = HttpConnection(made, address)
    try:
        made.settimeout(max(seconds, 0.001))
        patience.hold(connection)
        patience.left()  # what was shut before it was connected can be connected nevertheless
        made.connect((address, port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        patience.let_go()
        connection.close()
        raise
    return connection


class ConnectionPool:
    """Connections that wait for another request to the same place: few, and none for long."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: list[tuple[Endpoint, HttpConnection, float]] = []
        self._closed = False

    def take(self, place: Endpoint, rules: Sequence[NetRule | None]) -> HttpConnection | None:
        """Return a connection to the place, if there is one at an address that the rules let it have."""
        with self._lock:
            self._drop_old()
            for number in range(len(self._kept) - 1, -1, -1):
                known, connection, _since = self._kept[number]
                if known == place and dialable(rules, (connection.address,)):
                    del self._kept[number]
                    if connection.is_quiet():
                        return connection
                    connection.close()
        return None

    def put(self, place: Endpoint, connection: HttpConnection) -> None:
        """Keep a connection on which everything has been said and heard."""
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._kept.append((place, connection, monotonic()))
            self._drop_old()

    def close(self) -> None:
        """Close all; what is put here later is closed at once."""
        with self._lock:
            self._closed = True
            for _place, connection, _since in self._kept:
                connection.close()
            self._kept.clear()

    def _drop_old(self) -> None:
        oldest = monotonic() - LONGEST_KEPT
        fresh = [kept for kept in self._kept if kept[2] >= oldest][-MOST_KEPT:]
        for kept in self._kept:
            if kept not in fresh:
                kept[1].close()
        self._kept = fresh


class RequestDeadline:
    """The time that one request has. `end` may be called from any thread, at any time, and more than once."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._lock = Lock()
        self._woken = Event()
        self._ended = False
        self._held: Shuttable | None = None

    def end(self) -> None:
        """Give the request up: whatever it waits for fails now."""
        with self._lock:
            self._ended = True
            if self._held is not None:
                self._held.shut()
        self._woken.set()

    def hold(self, waiting: Shuttable) -> None:
        """Have `waiting` shut when the request is given up; at once, if it has been."""
        with self._lock:
            self._held = waiting
            if self._ended:
                waiting.shut()

    def let_go(self) -> None:
        """Leave alone what was held: from here on it belongs to somebody else, or is closed."""
        with self._lock:
            self._held = None

    def left(self) -> float:
        """Return how many seconds there are, always some; a RequestError if there are none."""
        if self._ended:
            raise RequestError("the request was cancelled", hint="ask again if it is still wanted", number=CANCELLED)
        left = self._deadline - monotonic()
        if left <= 0:
            raise RequestError("the request took too long", hint="ask for less, or try again later", number=TIMED_OUT)
        return left

    def look_up(self, resolve: Resolve, host: str, port: int) -> Sequence[str]:
        """Return what `resolve` finds; OSError if it finds nothing.

        It has a thread of its own, which nobody waits for in the end: a question to a resolver cannot be taken back.
        """
        self._woken.clear()
        answer = _Answer()
        Thread(target=answer.find, args=(resolve, host, port, self._woken), name="byleave-lookup", daemon=True).start()
        while answer.found is None:
            self._woken.wait(self.left())
        if isinstance(answer.found, OSError):
            raise answer.found
        self.left()
        return answer.found


class _Answer:
    """What a thread has found, once it has."""

    found: Sequence[str] | OSError | None = None

    def find(self, resolve: Resolve, host: str, port: int, told: Event) -> None:
        try:
            self.found = tuple(resolve(host, port))
        except OSError as problem:
            self.found = problem
        except Exception as problem:  # noqa: BLE001 -- whoever waits must hear of it, whatever it was
            self.found = OSError(f"it could not be looked up ({type(problem).__name__})")
        finally:
            told.set()
