"""A connection to a web server, read and written under a request's `Patience`, and those that wait for the next one.

Addresses are numbers that were judged; no name is looked up here. Start at `connect`. Kept connections: `Pool`.
"""

import contextlib
import select
import socket
from ssl import SSLSocket
from threading import Lock
from time import monotonic

from byleave.effects.addresses import dialable
from byleave.record import Record
from byleave.wire.http_head import end_of_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from ssl import SSLContext

    from byleave.core.net import NetRule
    from byleave.effects.http_patience import Patience

PIECE = 1 << 16
LONGEST_HEAD = 1 << 16
LONGEST_CONNECT = 20.0  # seconds for all addresses of a host together
MOST_KEPT = 8
LONGEST_KEPT = 30.0  # seconds; servers close after some more


class Place(Record):
    """Where a connection leads, and for whom: what one tool has said on it is nobody else's."""

    tool: str | None
    scheme: str
    host: str
    port: int


class Connection:
    """One connection. What has arrived and was not wanted yet is kept for whoever reads next."""

    def __init__(self, end: socket.socket, address: str) -> None:
        self.address = address
        self.held = b""
        self._end = end

    def secure(self, context: "SSLContext", host: str, patience: "Patience") -> None:
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

    def send(self, data: bytes, patience: "Patience") -> None:
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._end.settimeout(patience.left())
            self._end.sendall(view[start : start + PIECE])

    def read(self, patience: "Patience") -> bytes:
        """Return what arrives next, empty at the end of the stream."""
        if self.held:
            piece, self.held = self.held, b""
            return piece
        self._end.settimeout(patience.left())
        return self._end.recv(PIECE)

    def read_head(self, patience: "Patience") -> bytes:
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


def connect(addresses: "Sequence[str]", port: int, patience: "Patience") -> Connection:
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


def _connected(address: str, port: int, seconds: float, patience: "Patience") -> Connection:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    connection = Connection(made, address)
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


class Pool:
    """Connections that wait for another request to the same place: few, and none for long."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: list[tuple[Place, Connection, float]] = []
        self._closed = False

    def take(self, place: Place, rules: "Sequence[NetRule | None]") -> Connection | None:
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

    def put(self, place: Place, connection: Connection) -> None:
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
