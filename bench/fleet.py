"""What a shared store costs a call: one process with own files, one and two on PostgreSQL, a raw proxy, in turns.

    PYTHONPATH=tests .venv/bin/python bench/fleet.py [--quick]

It starts a PostgreSQL of its own, which keeps its promises (fsync), in a scratch directory. Then what one record costs:
one after the other, and by batches that many calls share. Sizes are those of the table with its indexes.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psycopg

from byleave.core.redact import Redactor
from byleave.store.address import StoreAddress
from byleave.store.postgres.audit_log import PostgresLog
from byleave.store.postgres.shared_store import open_store
from gateway import PARTIES, Program, Taken, Way, direct, gateway, in_turn, policy_text, relayed
from gateway_parties import Client
from postgres_server import KEY, PostgresServer, missing

DIRECT, RAW, FILES, ONE, TWO = "direct", "a raw proxy", "own files", "one on PostgreSQL", "two on PostgreSQL"
CLIENTS = (1, 16, 64)
RECORDS = 2000


class Both(Way):
    """Two replicas, whose clients are spread over them."""

    def __init__(self, ways: list[Program]) -> None:
        self._ways = ways

    async def clients(self, count: int) -> list[Client]:
        shares = [(count + at) // len(self._ways) for at in range(len(self._ways))]
        each = await asyncio.gather(*(way.clients(share) for way, share in zip(self._ways, shares, strict=True)))
        return [client for some in each for client in some]

    @property
    def computed(self) -> float:
        return sum(way.computed for way in self._ways)


def main() -> None:
    quick = "--quick" in sys.argv
    why = missing()
    if why:
        sys.exit(why)
    server = PostgresServer(durable=True)
    try:
        server.start()
        url = server.emptied()
        calls(url, quick=quick)
        records(url, 100 if quick else RECORDS)
    finally:
        server.remove()


def calls(url: str, *, quick: bool) -> None:
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        port = stack.enter_context(Program([sys.executable, PARTIES, "serve"])).port
        ways: dict[str, Way] = {DIRECT: direct(port), RAW: stack.enter_context(relayed(port))}
        ways[FILES] = stack.enter_context(gateway(place, policy_text(port)))
        os.environ |= {"BYLEAVE_STORE": url, "BYLEAVE_STORE_KEY": KEY}
        shared = [stack.enter_context(gateway(place, policy_text(port))) for _ in range(3)]
        ways |= {ONE: shared[0], TWO: Both(shared[1:])}
        for count in CLIENTS[:2] if quick else CLIENTS:
            taken = asyncio.run(in_turn(ways, count, quick=quick))
            for name, each in taken.items():
                print(f"  {count:>3} clients, {name:<20} {_figures(each, taken[FILES])}", flush=True)


def _figures(taken: Taken, own: Taken) -> str:
    rate = f"{taken.rate:>8,.0f} calls/s, {taken.rate / own.rate:.2f}x of own files"
    return f"{rate}, {taken.computed_each * 1e6:,.0f} µs computed by the gateway"


def records(url: str, count: int) -> None:
    store = open_store(StoreAddress(url, "the bench"), "", {"BYLEAVE_STORE_KEY": KEY})
    log = store.log(Redactor())
    fields: dict[str, Any] = {
        "event": "decision",
        "agent": "bench",
        "action": {"kind": "call", "server": "far", "tool": "echo"},
    }
    fields["verdict"] = {"decision": "allow", "reason": "a rule allows it", "because": []}
    began = time.perf_counter()
    for _ in range(count // 10):
        log.append(fields)
    alone = (time.perf_counter() - began) / (count // 10)
    for writers in (16, 64):
        began = time.perf_counter()
        threads = [threading.Thread(target=_append, args=(log, fields, count // writers)) for _ in range(writers)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        together = (time.perf_counter() - began) / (count // writers * writers)
        print(f"  a record, {writers} calls at a time: {together * 1e6:,.0f} µs; alone {alone * 1e6:,.0f} µs")
    log.close()
    store.close()
    with psycopg.connect(url) as connection:
        days = "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'byleave.records'::regclass"
        size = f"SELECT sum(pg_total_relation_size(inhrelid)) FROM ({days}) AS days"  # noqa: S608 -- a constant
        total, rows = (connection.execute(each).fetchone() for each in (size, "SELECT count(*) FROM byleave.records"))
        assert total is not None
        assert rows is not None
        print(f"  {float(total[0]) / rows[0]:,.0f} bytes a record, of {rows[0]:,}")


def _append(log: PostgresLog, fields: dict[str, Any], count: int) -> None:
    for _ in range(count):
        log.append(fields)


if __name__ == "__main__":
    main()
