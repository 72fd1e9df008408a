"""One blocking connection to a web server, and how long the request on it may take.

Addresses are numbers that passed the rules; no name is dialled here. Start at `connect`. `RequestDeadline` ends a
request at its time, or from another thread. Who keeps connections for the next request: `endpoints.ConnectionPool`.
"""

from __future__ import annotations

import contextlib
import select
import socket
from ssl import SSLSocket
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

from byleave.errors import RequestError
from byleave.protocol.jsonrpc import CANCELLED, TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ssl import SSLContext

    Resolve = Callable[[str, int], Sequence[str]]

PIECE = 1 << 16
LONGEST_CONNECT = 20.0  # seconds for all addresses of a host together


class HttpConnection:
    """One connection, with at most one request on it."""

    def __init__(self, end: socket.socket, address: str) -> None:
        self.address = address
        self._end = end

    def secure(self, context: SSLContext, host: str, deadline: RequestDeadline) -> None:
        """Speak TLS from here on, with the very host; an OSError if that fails, or the host cannot prove itself."""
        self._end.settimeout(deadline.left())
        # A stream that breaks off is an error: the end of a body may be nothing but the end of the stream.
        try:
            self._end = context.wrap_socket(
                self._end, server_hostname=host, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
        except ValueError:
            raise OSError("no certificate can be for a host of that name") from None
        deadline.hold(self)
        self._end.do_handshake()

    def send(self, data: bytes, deadline: RequestDeadline) -> None:
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._end.settimeout(deadline.left())
            self._end.sendall(view[start : start + PIECE])

    def read(self, deadline: RequestDeadline) -> bytes:
        """Return what arrives next, empty at the end of the stream."""
        self._end.settimeout(deadline.left())
        return self._end.recv(PIECE)

    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has arrived since the last response."""
        if isinstance(self._end, SSLSocket) and self._end.pending():
            return False
        watched = select.poll()
        watched.register(self._end, select.POLLIN)
        return not watched.poll(0)

    def shut(self) -> None:
        """Make a thread that waits for it fail; it still has to be closed."""
        with contextlib.suppress(OSError):  # the TLS layer must not notice: it would go on in the clear
            socket.socket.shutdown(self._end, socket.SHUT_RDWR)

    def close(self) -> None:
        self._end.close()


def connect(addresses: Sequence[str], port: int, deadline: RequestDeadline) -> HttpConnection:
    """Return a connection to the first of the addresses that answers; OSError if none does.

    Each gets an equal share of the time that is left.
    """
    end = monotonic() + min(deadline.left(), LONGEST_CONNECT)
    last: OSError = ConnectionRefusedError("it has no address")
    for tried, address in enumerate(addresses):
        try:
            return _connected(address, port, (end - monotonic()) / (len(addresses) - tried), deadline)
        except OSError as problem:
            deadline.left()
            last = problem
    raise last


def _connected(address: str, port: int, seconds: float, deadline: RequestDeadline) -> HttpConnection:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    connection = HttpConnection(made, address)
    try:
        made.settimeout(max(seconds, 0.001))
        deadline.hold(connection)
        deadline.left()  # what was shut before it was connected can be connected nevertheless
        made.connect((address, port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        deadline.release()
        connection.close()
        raise
    return connection


class RequestDeadline:
    """The time that one request has. `cancel` may be called from any thread, at any time, and more than once."""

    def __init__(self, at: float) -> None:
        self._at = at
        self._lock = Lock()
        self._woken = Event()
        self._cancelled = False
        self._held: HttpConnection | None = None

    def cancel(self) -> None:
        """Give the request up: what it waits for fails now."""
        with self._lock:
            self._cancelled = True
            if self._held is not None:
                self._held.shut()
        self._woken.set()

    def hold(self, connection: HttpConnection) -> None:
        """Have the connection shut when the request is cancelled; at once, if it has been."""
        with self._lock:
            self._held = connection
            if self._cancelled:
                connection.shut()

    def release(self) -> None:
        """Leave the connection alone from here on: it waits for another request, or is closed."""
        with self._lock:
            self._held = None

    def left(self) -> float:
        """Return how many seconds there are, always some; a RequestError if there are none."""
        if self._cancelled:
            raise RequestError(
                "the request was cancelled", hint="send it again if it is still needed", number=CANCELLED
            )
        left = self._at - monotonic()
        if left <= 0:
            raise RequestError("the request took too long", hint="ask for less, or try again later", number=TIMED_OUT)
        return left

    def look_up(self, resolve: Resolve, host: str, port: int) -> Sequence[str]:
        """Return what `resolve` finds; OSError if it finds nothing.

        It has a thread of its own, which is left alone when the time is over: a resolver cannot be interrupted.
        """
        self._woken.clear()
        found: list[Sequence[str] | OSError] = []

        def find() -> None:
            try:
                found.append(tuple(resolve(host, port)))
            except OSError as problem:
                found.append(problem)
            except Exception as problem:  # noqa: BLE001 -- the request fails by it, whatever it was
                found.append(OSError(f"it could not be looked up ({type(problem).__name__})"))
            finally:
                self._woken.set()

        Thread(target=find, name="byleave-lookup", daemon=True).start()
        while not found:
            self._woken.wait(self.left())
        if isinstance(found[0], OSError):
            raise found[0]
        self.left()
        return found[0]
