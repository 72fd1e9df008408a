"""A proxy between a program and PostgreSQL that hangs, is slow, or cuts connections at a chosen moment."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

_STARTS = 2  # messages of a client before its first statement, at most: an offer of encryption, and its name


class PostgresProxy:
    """Listens on loopback. `is_mute`: no statement on a new connection is answered; `delay`: seconds before each.

    `cut_at`: the next message of a client that holds this text ends its connection: with `cut_after`, the server has
    got the message, and its answer is lost.
    """

    def __init__(self, directory: Path) -> None:
        self.is_mute = False
        self.delay = 0.0
        self.cut_at = b""
        self.cut_after = False
        self.cuts = 0
        self._server = str(directory / ".s.PGSQL.5432")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lines: list[socket.socket] = []
        self._mute: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def url(self) -> str:
        """The address of the database behind it."""
        return f"postgresql://byleave@127.0.0.1:{self._listener.getsockname()[1]}/postgres?sslmode=disable"

    def hang(self) -> None:
        """Have all connections that are there now hang for ever; new ones work."""
        self._mute.update(self._lines)

    def close(self) -> None:
        """End all connections, and wait until nothing works on them."""
        _end(self._listener)
        self._threads[0].join()  # no connection comes any more
        for line in self._lines:
            _end(line)
        for thread in self._threads:
            thread.join()
        for line in (self._listener, *self._lines):
            line.close()

    def _start(self, work: Callable[..., None], *lines: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=lines, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._server)
                except OSError:
                    client.close()
                    server.close()
                    continue
                self._lines += [client, server]
                for work in (self._to_server, self._to_client):
                    self._start(work, client, server)

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        heard = 0
        with contextlib.suppress(OSError):
            while said := client.recv(1 << 16):
                heard += 1
                if self.is_mute and heard >= _STARTS:
                    self._mute.add(client)
                if client in self._mute:
                    continue
                if self.delay and heard >= _STARTS:
                    time.sleep(self.delay)
                if self.cut_at and self.cut_at in said:
                    self._cut(client, server, said)
                    break
                server.sendall(said)
        _end(client)
        _end(server)

    def _cut(self, client: socket.socket, server: socket.socket, said: bytes) -> None:
        self.cut_at = b""
        self.cuts += 1
        if self.cut_after:
            _end(client)
            server.sendall(said)
            time.sleep(0.2)  # the server has done it

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while said := server.recv(1 << 16):
                client.sendall(said)
        _end(client)
        _end(server)


def _end(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
