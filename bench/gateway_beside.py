"""What a call through the gateway computes, by this checkout and by another one, in turns: a fixed number of calls.

.venv/bin/python bench/gateway_beside.py OTHER_CHECKOUT [ROUNDS]

Processor time of the gateway's process, all threads of it; the least of the rounds, and their median. It says more than
the clock where the machine has other work.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
from pathlib import Path

from gateway import CLIENTS, PARTIES, TOKEN, Program, gateway_argv, policy_text
from gateway_parties import ECHO_BYTES, Client

CALLS = 1920  # of all clients together, in one round
ROUNDS = 8


def main() -> None:
    trees = {"other": Path(sys.argv[1]).resolve(), "this": Path(__file__).resolve().parents[1]}
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        policy = policy_text(stack.enter_context(Program([sys.executable, PARTIES, "serve"])).port)
        ways = {name: stack.enter_context(gateway_of(tree, place, policy)) for name, tree in trees.items()}
        for count in CLIENTS:
            report(count, asyncio.run(in_turns(ways, count, rounds)))


def gateway_of(tree: Path, place: Path, policy: str) -> Program:
    """Return a gateway that is run from the sources of a checkout."""
    argv = gateway_argv(place, policy, "--http", "127.0.0.1:0")
    at = argv.index("mcp")
    start = [*argv[: at - 1], f"PYTHONPATH={tree / 'src'}", sys.executable, "-m", "byleave"]
    program = Program([*start, *argv[at:]], says_on_errors=True)
    program.tool, program.token = "far__echo", TOKEN
    return program


async def in_turns(ways: dict[str, Program], count: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of a call in each round, for each of the gateways."""
    clients = {name: await way.clients(count) for name, way in ways.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            before = way.computed
            await asyncio.gather(*(call(client, CALLS // count) for client in clients[name]))
            taken[name].append((way.computed - before) / CALLS)
    for client in [client for each in clients.values() for client in each]:
        client.transport.abort()
    return {name: each[1:] for name, each in taken.items()}  # the first round filled caches


async def call(client: Client, times: int) -> None:
    request = client.call(client.tool)
    for _ in range(times):
        assert ECHO_BYTES in await client.send(request)


def report(count: int, taken: dict[str, list[float]]) -> None:
    for name, each in taken.items():
        least, middle = min(each) * 1e6, statistics.median(each) * 1e6
        print(f"  {count:>2} clients, {name:<6} least {least:,.0f} µs, median {middle:,.0f} µs", flush=True)
    ratio = min(taken["this"]) / min(taken["other"])
    print(f"  {count:>2} clients, this beside other: {ratio:.2f}x", flush=True)


if __name__ == "__main__":
    main()
