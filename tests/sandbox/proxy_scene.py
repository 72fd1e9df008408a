"""A proxy, the servers behind it and the clients before it, all on the loopback interface."""

import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from http.client import HTTPResponse
from typing import Self

from byleave.core.net_rules import NetRule, NetTable, decide_net
from byleave.core.url import Target, parse_url
from byleave.net.proxy import HttpProxy
from byleave.net.proxy_connection import ProxyLimits
from byleave.net.proxy_policy import UrlVerdict

PATIENCE = 10.0  # seconds after which a test is stuck
HOST = "h.test"  # every name is resolved to the loopback address
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Handler = Callable[[socket.socket], None]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def loopback(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


class Scene:
    """A running proxy, and what it told."""

    def __init__(self, rules: Sequence[NetRule]) -> None:
        self.table = NetTable(rules)
        self.told: list[tuple[str, bool]] = []
        self.reasons: list[str] = []
        self.port = 0

    def judge(self, url: str) -> UrlVerdict:
        target = parse_url(url)
        assert isinstance(target, Target), url
        answer = decide_net(self.table, target)
        return UrlVerdict(answer.allowed, f"decided by {answer.rule.text if answer.rule else 'nobody'}", answer.rule)

    def tell(self, url: str, judgement: UrlVerdict) -> None:
        self.told.append((url, judgement.allowed))
        self.reasons.append(judgement.reason)

    def client(self) -> "Client":
        return Client(self.port)

    def ask(self, data: bytes, *, method: str = "GET") -> tuple[int, str]:
        """Return status and body of the answer to one request."""
        with self.client() as client:
            client.send(data)
            return client.answer(method)


@contextlib.contextmanager
def proxied(
    *rules: NetRule, resolve: Resolve | None = loopback, limits: ProxyLimits | None = None, ech: bool = False
) -> Iterator[Scene]:
    """Run a proxy under these rules; no thread and no socket of it is left behind."""
    scene = Scene(rules)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    scene.port = listener.getsockname()[1]
    proxy = HttpProxy(
        scene.judge,
        scene.table.has_paths,
        on_verdict=scene.tell,
        resolve=resolve,
        limits=limits or ProxyLimits(),
        ech=ech,
    )
    proxy.start(listener)
    try:
        yield scene
    finally:
        proxy.close()
        assert listener.fileno() == -1
        assert "byleave-proxy" not in [thread.name for thread in threading.enumerate()]


class Client:
    """A connection to the proxy that sends what it is told to, byte by byte."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, method: str = "GET") -> tuple[int, str]:
        """Return status and body of the next response; further ones must not have arrived yet."""
        with self.response(method) as response:
            return response.status, response.read().decode()

    def response(self, method: str = "GET") -> HTTPResponse:
        response = HTTPResponse(self.socket, method=method)
        try:
            response.begin()
        except BaseException:
            response.close()
            raise
        return response

    def rest(self) -> bytes:
        """Return everything until the proxy closes the connection."""
        found = b""
        while data := self.socket.recv(1 << 16):
            found += data
        return found


class Origin:
    """A server that records what it hears. Each connection is handled in a thread of its own."""

    def __init__(self, handler: Handler, address: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, 0), family=family, backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._handler = handler
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()
        self.accepted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _address = self._listener.accept()
                self.accepted += 1
                self._threads.append(threading.Thread(target=self._handle, args=(connection,)))
                self._threads[-1].start()

    def _handle(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        with connection, contextlib.suppress(OSError):
            self._handler(connection)


class Replies:
    """Handles connections: hears one request to its end, and gives one reply."""

    def __init__(self, reply: bytes = OK) -> None:
        self.reply = reply
        self.heard: list[bytes] = []

    def __call__(self, connection: socket.socket) -> None:
        self.heard.append(read_message(connection))
        connection.sendall(self.reply)


def read_message(connection: socket.socket) -> bytes:
    """Return one message as it was sent."""
    data = b""
    while not is_whole(data):
        piece = connection.recv(1 << 16)
        if not piece:
            break
        data += piece
    return data


def is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    if b"transfer-encoding: chunked" in lines:
        return body.endswith(b"0\r\n\r\n")
    lengths = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")]
    return bool(end) and len(body) >= sum(lengths)


def allow(origin: Origin, host: str = HOST, **more: object) -> NetRule:
    """Return a rule that opens everything at the origin."""
    rule: NetRule = NetRule(host, port=origin.port, allow=True, private=True).replace(**more)
    return rule


def get(origin: Origin, path: str = "/", *fields: str, host: str = HOST, method: str = "GET", minor: int = 1) -> bytes:
    """Return a request to the proxy for a path of the origin."""
    place = f"{host}:{origin.port}"
    return "\r\n".join([f"{method} http://{place}{path} HTTP/1.{minor}", f"Host: {place}", *fields, "", ""]).encode()
