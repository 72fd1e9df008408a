"""What a shared store costs a call, and what a fleet needs: figures for docs/fleet.md.

    .venv/bin/python bench/fleet.py [--quick]

In turns: no gateway, a raw proxy, FastMCP's proxy (where BYLEAVE_BENCH_FASTMCP names a Python that has it), one process
with own files, one and two on PostgreSQL. It starts a PostgreSQL of its own, which keeps its promises (fsync), in a
scratch directory. Then what one record costs: one after the other, and by batches that many calls share. Sizes are
those of the table with its indexes. All of it takes about two minutes.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway import (
    DIRECT,
    FASTMCP,
    PARTIES,
    RAW,
    THEIRS,
    Program,
    Rows,
    Taken,
    Way,
    direct,
    gateway,
    in_turn,
    policy_text,
    python_with_fastmcp,
    relayed,
)
from gateway_parties import Client

FILES, ONE, TWO = "own files", "one on PostgreSQL", "two on PostgreSQL"
CLIENTS = (1, 16, 64)
RECORDS = 2000
TICKS = os.sysconf("SC_CLK_TCK")


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


class WithDatabase(Way):
    """A way that counts what the database computes, beside what the gateway does."""

    def __init__(self, way: Way, postmaster: int) -> None:
        self._way = way
        self._postmaster = postmaster
        self.by_database = 0.0

    async def clients(self, count: int) -> list[Client]:
        return await self._way.clients(count)

    @property
    def computed(self) -> float:
        self.by_database = computed_by(self._postmaster)
        return self._way.computed


def computed_by(process: int) -> float:
    """Return the processor seconds of a process, of its children, and of those that have ended."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(entry.parent.name) == process:
                total += sum(int(each) for each in fields[11:15])
            elif int(fields[1]) == process:
                total += sum(int(each) for each in fields[11:13])
    return total / TICKS


def main() -> None:
    for what, figure, note in fleet_figures(quick="--quick" in sys.argv):
        print(f"  {what:<44} {figure:>18}   {note}", flush=True)


def fleet_figures(*, quick: bool = False, clients: tuple[int, ...] = CLIENTS, records: int = RECORDS) -> Rows:
    """Yield what was measured, the figure, and how it compares. Quick: only that everything can be measured."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    try:
        from postgres_server import PostgresServer, missing

        why = missing()
    except ImportError as error:
        why = f"{error.name} is not installed: pip install 'byleave[postgres]'"
    if why:
        yield "several gateways on one database", "not measured", why
        return
    server = PostgresServer(durable=True)
    try:
        server.start()
        url = server.emptied()
        yield from calls(url, server.postmaster, quick=quick, counts=clients[:2] if quick else clients)
        yield from one_record(url, 100 if quick else records)
    finally:
        server.remove()


def calls(url: str, postmaster: int, *, quick: bool, counts: tuple[int, ...]) -> Rows:
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        port = stack.enter_context(Program([sys.executable, PARTIES, "serve"])).port
        ways: dict[str, Way] = {DIRECT: direct(port), RAW: stack.enter_context(relayed(port))}
        python = None if quick else python_with_fastmcp()
        if python is not None:
            ways[THEIRS] = stack.enter_context(Program([python, "-c", FASTMCP, str(port)]))
        elif not quick:
            yield THEIRS, "not installed", "pip install fastmcp, and BYLEAVE_BENCH_FASTMCP=/path/to/its/python"
        ways[FILES] = stack.enter_context(gateway(place, policy_text(port)))
        stack.enter_context(shared(url))
        replicas = [stack.enter_context(gateway(place, policy_text(port))) for _ in range(3)]
        ways |= {ONE: replicas[0], TWO: Both(replicas[1:])}
        for count in counts:
            taken = asyncio.run(in_turn(ways, count, quick=quick))
            for name, each in taken.items():
                yield f"{count} clients, {name}", f"{each.rate:,.0f} calls/s", compared(name, each, taken[FILES])
        yield from by_database(replicas[0], postmaster, quick=quick)


@contextlib.contextmanager
def shared(url: str) -> Iterator[None]:
    """Have gateways that are started now share this database."""
    from postgres_server import KEY

    before = dict(os.environ)
    os.environ |= {"BYLEAVE_STORE": url, "BYLEAVE_STORE_KEY": KEY}
    try:
        yield
    finally:
        for name in ("BYLEAVE_STORE", "BYLEAVE_STORE_KEY"):
            os.environ.pop(name, None)
        os.environ |= before


def compared(name: str, taken: Taken, own: Taken) -> str:
    ratio = f"{taken.rate / own.rate:.2f}x of own files"
    return ratio if name == DIRECT else f"{ratio}, {taken.computed_each * 1e6:,.0f} µs computed by it"


def by_database(replica: Program, postmaster: int, *, quick: bool) -> Rows:
    """Yield what the database computes for a call, with many clients."""
    way = WithDatabase(replica, postmaster)
    taken = Taken()

    async def hurry() -> None:
        clients = await way.clients(16)
        await taken.call(way, clients, 0.2)  # which fills caches
        before = way.by_database
        taken.hurried.clear()
        await taken.call(way, clients, 0.2 if quick else 3.0)
        way.by_database -= before
        for client in clients:
            client.transport.abort()

    asyncio.run(hurry())
    each = way.by_database / len(taken.hurried)
    yield "computed by the database for a call", f"{each * 1e6:,.0f} µs", "16 clients, one gateway"
    yield "memory of a gateway on PostgreSQL", f"{replica.memory / 1e6:.0f} MB", "after these calls"


def one_record(url: str, count: int) -> Rows:
    import psycopg  # where the extra is missing, the figures above are not there either

    from byleave.core.redact import Redactor
    from byleave.store.address import StoreAddress
    from byleave.store.postgres.shared_store import open_store
    from postgres_server import KEY

    store = open_store(StoreAddress(url, "the bench"), "", {"BYLEAVE_STORE_KEY": KEY})
    log = store.log(Redactor())
    fields: dict[str, Any] = {
        "event": "decision",
        "agent": "bench",
        "action": {"kind": "call", "server": "far", "tool": "echo"},
    }
    fields["verdict"] = {"decision": "allow", "reason": "a rule allows it", "because": []}

    def append(number: int) -> None:
        for _ in range(number):
            log.append(fields)

    began = time.perf_counter()
    append(count // 10)
    alone = (time.perf_counter() - began) / (count // 10)
    yield "a record, one after the other", f"{alone * 1e6:,.0f} µs", ""
    for writers in (16, 64):
        began = time.perf_counter()
        threads = [threading.Thread(target=append, args=(count // writers,)) for _ in range(writers)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        together = (time.perf_counter() - began) / (count // writers * writers)
        yield f"a record, {writers} calls at a time", f"{together * 1e6:,.0f} µs", f"{together / alone:.2f}x"
    log.close()
    store.close()
    with psycopg.connect(url) as connection:
        days = "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'byleave.records'::regclass"
        size = f"SELECT sum(pg_total_relation_size(inhrelid)) FROM ({days}) AS days"  # noqa: S608 -- a constant
        total, rows = (connection.execute(each).fetchone() for each in (size, "SELECT count(*) FROM byleave.records"))
        assert total is not None
        assert rows is not None
        yield "a record with its indexes", f"{float(total[0]) / rows[0]:,.0f} bytes", f"of {rows[0]:,}"


if __name__ == "__main__":
    main()
