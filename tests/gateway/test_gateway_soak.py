"""Many sessions and calls in one gateway: it stays as small as it is, and every call is on record."""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import amounts
from fakes.mcp_sdk import SHOP, Place, over_http
from gateway.test_many_clients import Client, Downstream, policy_of, port_of, serving
from sandbox.machine import needs_sandbox
from soak import MEGABYTE, POOL, Soak, records
from toolhost.hosting import eventually, processes_below

CLIENTS = amounts.of(24, 1)  # at a time
CALLS = amounts.of(40, 4)  # of each of them in its session
GROWTH = 16 * MEGABYTE
OTHER_THREADS = 3  # the loop's own, the one that folds the journal, and the one that writes log lines


async def visit(client: Client, numbers: Iterator[int]) -> None:
    """Open a session, call both servers by turns, and end it."""
    await client.begin()
    for _ in range(CALLS // 2):
        said = {"number": next(numbers)}
        assert await client.call("web__echo", said) == said
        said = {"number": next(numbers)}
        assert await client.call("shop__echo", said) == {"arguments": said}
    await client.end()


async def crowd(port: int, numbers: Iterator[int]) -> None:
    await asyncio.gather(*(visit(Client(port, number), numbers) for number in range(CLIENTS)))


@amounts.slow
@needs_sandbox
def test_a_gateway_stays_as_small_as_it_is_and_loses_no_record(tmp_path: Path) -> None:
    server, numbers = Downstream(), itertools.count()
    with serving(server) as port:
        place = Place(tmp_path, f"{policy_of(port)}\n[servers.shop]\ncommand = {json.dumps(SHOP)}\n")
        with over_http(place) as running:
            process, listening = running.process.pid, port_of(running)
            alone = len(processes_below(process))
            soak = Soak(
                "the MCP gateway",
                process,
                warm=amounts.of(5, 1),
                rounds=amounts.of(20, 1),
                calls=CLIENTS * CALLS,
                threads=POOL + OTHER_THREADS,
            )
            for _ in soak.warm():
                asyncio.run(crowd(listening, numbers))
            eventually(lambda: len(processes_below(process)) <= alone)
            for _ in soak.rounds():
                asyncio.run(crowd(listening, numbers))
            soak.ends(GROWTH)
    calls, outcomes, called = next(numbers), Counter[str](), set[int]()
    for record in records(place.root, {"BYLEAVE_HOME": str(place.home)}):
        if record["event"] == "decision":
            called.add(record["action"]["arguments"]["number"])
            outcomes[record["verdict"]["decision"]] += 1
        elif record["event"] == "effect":
            outcomes[record["outcome"]] += 1
    assert (outcomes, called) == ({"allow": calls, "done": calls}, set(range(calls)))
