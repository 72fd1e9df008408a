"""What the sandbox's proxy costs a request and a download, beside asking the server directly.

.venv/bin/python bench/proxy.py
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection

from byleave.core.net_rules import NetRule, NetTable, decide_net
from byleave.core.url import Target, parse_url
from byleave.net.proxy import HttpProxy
from byleave.net.proxy_policy import UrlVerdict

REQUESTS = 1_000
LARGE = 256 << 20
HELLO = bytes.fromhex(  # the shortest TLS greeting for localhost
    "16030100470100004303030000000000000000000000000000000000000000000000000000000000000000"
    "0000021301010000180000000e000c0000096c6f63616c686f7374000a00020000"
)


def main() -> None:
    for what, figure in proxy_figures():
        print(f"  {what:<58} {figure:>16}", flush=True)


def proxy_figures() -> Iterator[tuple[str, str]]:
    """Yield what was measured, and the figure."""
    with origin() as port, proxied(port) as way:
        direct, again = timed(partial(fresh, port)), timed(partial(kept, port))
        passed, tunnelled = timed(partial(kept_proxied, port, way)), timed(partial(tunnel, port, way))
        yield "a request, directly, on a connection of its own", f"{direct * 1e6:.0f} µs"
        yield "a request, directly, on a kept connection", f"{again * 1e6:.0f} µs"
        yield "a request through the proxy, on a kept connection", f"{passed * 1e6:.0f} µs"
        yield "more than a connection of its own takes", f"{(passed - direct) * 1e6:.0f} µs"
        yield "a tunnel, from CONNECT to the first byte back", f"{tunnelled * 1e6:.0f} µs"
        yield "a download, directly", f"{LARGE / (1 << 20) / download(port, None):.0f} MB/s"
        yield "a download through the proxy", f"{LARGE / (1 << 20) / download(port, way):.0f} MB/s"


@contextlib.contextmanager
def origin() -> Iterator[int]:
    """Run the server in a process of its own."""
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while (start := await reader.readexactly(1)) != HELLO[:1]:
            head = start + await reader.readuntil(b"\r\n\r\n")
            size = LARGE if b"/large" in head else 2
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(max(1, size >> 20)):
                writer.write(bytes(min(size, 1 << 20)))
                await writer.drain()
        writer.write(start)
    writer.close()


@contextlib.contextmanager
def proxied(port: int) -> Iterator[int]:
    table = NetTable([NetRule("localhost", port=port, allow=True)])

    def judge(url: str) -> UrlVerdict:
        target = parse_url(url)
        assert isinstance(target, Target)
        answered = decide_net(table, target)
        return UrlVerdict(answered.allowed, "", answered.rule)

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    listener = socket.create_server(("127.0.0.1", 0))
    proxy = HttpProxy(judge, table.has_paths, resolve=resolve)
    proxy.start(listener)
    try:
        yield listener.getsockname()[1]
    finally:
        proxy.close()


def fresh(port: int) -> Iterator[None]:
    while True:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/")
        assert connection.getresponse().read() == bytes(2)
        connection.close()
        yield


def kept(port: int, target: str = "/", headers: dict[str, str] | None = None) -> Iterator[None]:
    connection = HTTPConnection("127.0.0.1", port)
    while True:
        connection.request("GET", target, headers=headers or {})
        assert connection.getresponse().read() == bytes(2)
        yield


def kept_proxied(port: int, way: int) -> Iterator[None]:
    return kept(way, f"http://localhost:{port}/", {"Host": f"localhost:{port}"})


def tunnel(port: int, way: int) -> Iterator[None]:
    while True:
        with socket.create_connection(("127.0.0.1", way)) as client:
            client.sendall(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
            assert client.recv(100).endswith(b"\r\n\r\n")
            client.sendall(HELLO)
            assert client.recv(100) == HELLO[:1]
        yield


def timed(work: Callable[[], Iterator[None]]) -> float:
    """Return the seconds of one round, the best of five times many."""
    rounds = []
    for _ in range(5):
        running = work()
        next(running)
        started = time.perf_counter()
        for _ in range(REQUESTS // 5):
            next(running)
        rounds.append((time.perf_counter() - started) / (REQUESTS // 5))
    return min(rounds)


def download(port: int, way: int | None) -> float:
    """Return the seconds that a large response takes."""
    connection = HTTPConnection("127.0.0.1", way or port)
    target = "/large" if way is None else f"http://localhost:{port}/large"
    started = time.perf_counter()
    connection.request("GET", target, headers={"Host": f"localhost:{port}"})
    response = connection.getresponse()
    while response.read(1 << 20):
        pass
    connection.close()
    return time.perf_counter() - started


if __name__ == "__main__":
    asyncio.run(serve()) if "serve" in sys.argv else main()
