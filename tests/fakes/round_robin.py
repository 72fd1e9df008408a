"""A balancer that knows nothing: each connection goes to the next gateway."""

import socket
import threading
from contextlib import suppress
from itertools import cycle


class RoundRobin:
    """Listens on loopback, and moves bytes."""

    def __init__(self, *targets: tuple[str, int], port: int = 0) -> None:
        self._targets = cycle(targets)
        self._listener = socket.create_server(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self.connections += 1
                other = socket.create_connection(next(self._targets))
                for one, two in ((line, other), (other, line)):
                    threading.Thread(target=_pump, args=(one, two), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), source:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
