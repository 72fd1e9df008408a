"""What the logs and the telemetry of the gateway cost a call: seconds of a processor, with what is sent later.

.venv/bin/python bench/telemetry.py [--quick]

The gateways are called in turns. What one computes counts from one of its turns to the next: spans leave later.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from gateway import TOKEN, Program, gateway, policy_text
from gateway_parties import Client, Framed

CALLS = 200  # of one round, which find room in the queue of spans
ROUNDS = 40
OFF, TRACED, SAMPLED, LOGGED, BOTH = "neither", "telemetry", "telemetry, 1 in 10 traces", "an access log", "both"

Make = Callable[[Client], tuple[bytes, bytes]]  # a request, and what its response holds


class Collector(Framed):
    """Takes whatever it is sent."""

    def take(self, message: bytes) -> None:
        del message
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def collect() -> None:
    server = await asyncio.get_running_loop().create_server(Collector, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    for what, figure in telemetry_figures(rounds=2 if "--quick" in sys.argv else ROUNDS):
        print(f"  {what:<58} {figure}", flush=True)


def telemetry_figures(*, rounds: int = ROUNDS) -> Iterator[tuple[str, str]]:
    """Yield what a call, and a request that is refused, costs with each."""
    parties = str(Path(__file__).with_name("gateway_parties.py"))
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        server = stack.enter_context(Program([sys.executable, parties, "serve"]))
        collector = stack.enter_context(Program([sys.executable, __file__, "collect"]))
        table = f'[gateway.telemetry]\nendpoint = "http://127.0.0.1:{collector.port}"\n'
        log = f'[gateway]\naccess_log = "{place}/access.log"\n'
        tables = {OFF: "", TRACED: table, SAMPLED: f"{table}sample = 0.1\n", LOGGED: log, BOTH: log + table}
        ways = {
            name: stack.enter_context(gateway(place, policy_text(server.port) + more)) for name, more in tables.items()
        }
        for what, make in (("a call", allowed), ("a request that is refused for its token", refused)):
            taken = asyncio.run(in_turn(ways, make, rounds=rounds))
            for name, each in taken.items():
                parts = ((part(each), part(each) - part(taken[OFF])) for part in (statistics.median, statistics.fmean))
                p50, mean = (f"{figure * 1e6:,.0f} µs computed, {added * 1e6:+,.0f} µs" for figure, added in parts)
                yield f"{what}, {name}", f"p50 {p50}; mean {mean}"


def allowed(client: Client) -> tuple[bytes, bytes]:
    return client.call(client.tool), b'"result"'


def refused(client: Client) -> tuple[bytes, bytes]:
    return client.call(client.tool).replace(TOKEN.encode(), b"x" * len(TOKEN)), b"HTTP/1.1 401"


async def in_turn(ways: dict[str, Program], make: Make, *, rounds: int) -> dict[str, list[float]]:
    clients = {name: (await way.clients(1))[0] for name, way in ways.items()}
    read: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 2):
        for name, way in ways.items():
            if number:  # the first round filled caches
                read[name].append(way.computed)
            await calls(clients[name], *make(clients[name]))
    for client in clients.values():
        client.transport.abort()
    await asyncio.sleep(0)
    return {name: [(after - before) / CALLS for before, after in pairwise(each)] for name, each in read.items()}


async def calls(client: Client, request: bytes, expected: bytes) -> None:
    for _ in range(CALLS):
        said = await client.send(request)
        assert expected in said, said


if __name__ == "__main__":
    if sys.argv[1:] == ["collect"]:
        asyncio.run(collect())
    else:
        main()
