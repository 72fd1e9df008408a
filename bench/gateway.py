"""What the gateway costs a call, beside no gateway, a proxy that only moves bytes, and FastMCP's proxy, in turns.

.venv/bin/python bench/gateway.py [--quick]

FastMCP's proxy takes part where this Python has the package, or where BYLEAVE_BENCH_FASTMCP names a Python that has.
"""

import asyncio
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway_parties import ECHO_BYTES, GREETING, LARGE, Client, connect

CLIENTS = (1, 16, 64)
RULES = (1, 100, 10_000)
SESSIONS = 100
LISTED = 10_000  # tools, of one server or of many
SERVERS = (1, 40)
FLEET = 100  # servers with a hundred tools each
PROCESSES = 10  # sessions that have a server's process each
ROUNDS = 4
SLICE = 0.3  # seconds of one round
PACE = 300  # calls per second, of all clients together
TOKEN = "a-token-of-the-bench"  # noqa: S105 -- of this bench alone
PARTIES = str(Path(__file__).with_name("gateway_parties.py"))
DIRECT, RAW, OURS, THEIRS = "direct", "a raw proxy", "byleave", "FastMCP's proxy"
FASTMCP = """
import asyncio, socket, sys
from fastmcp.server import create_proxy
taken = socket.create_server(("127.0.0.1", 0), backlog=1024)
proxy = create_proxy(f"http://127.0.0.1:{sys.argv[1]}/mcp")
print(taken.getsockname()[1], flush=True)
uvicorn = {"access_log": False, "timeout_keep_alive": 600}
how = {"show_banner": False, "log_level": "error", "json_response": True, "uvicorn_config": uvicorn}
asyncio.run(proxy.run_http_async(sockets=[taken], **how))
"""

Rows = Iterator[tuple[str, str, str]]
Part = Callable[[list[float]], float]


def main() -> None:
    for what, figure, ratio in mcp_figures(quick="--quick" in sys.argv):
        print(f"  {what:<58} {figure:>16}   {ratio}", flush=True)


def mcp_figures(*, quick: bool = False) -> Rows:
    """Yield what was measured, the figure, and how it compares. Quick: only that everything can be measured."""
    with tempfile.TemporaryDirectory() as scratch, Program([sys.executable, PARTIES, "serve"]) as server:
        place = Path(scratch).resolve()
        for part in (calls, large_results, many_rules, long_lists, many_servers, over_pipes, memory):
            yield from part(place, server.port, quick=quick)


class Way:
    """A port at which MCP is spoken."""

    port, tool, token = 0, "echo", ""

    async def clients(self, count: int) -> list[Client]:
        return await asyncio.gather(*(connect(self.port, self.tool, self.token) for _ in range(count)))

    @property
    def computed(self) -> float:
        """Seconds for which it has used a processor."""
        return 0.0


class Program(Way):
    """A program that says at which port it listens."""

    def __init__(self, argv: list[str], *, says_on_errors: bool = False) -> None:
        pipe = subprocess.PIPE
        out, errors = (None, pipe) if says_on_errors else (pipe, None)
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, text=True)
        said = self._process.stderr if says_on_errors else self._process.stdout
        assert said is not None
        self._said = said

    def __enter__(self) -> Self:
        while not self.port:
            line = self._said.readline()
            assert line, "it ended instead of listening"
            digits = line.strip().removesuffix("/mcp").rpartition(":")[2]
            self.port = int(digits) if digits.isdecimal() else 0
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        self._said.close()

    @property
    def computed(self) -> float:
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def offspring(self) -> list[int]:
        """Return every process that it, or one of those, has started."""
        parents = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        found = [self._process.pid]
        for parent in found:  # which grows meanwhile
            found += [child for child, its in parents.items() if its == parent]
        return found[1:]


def python_with_fastmcp() -> str | None:
    return os.environ.get("BYLEAVE_BENCH_FASTMCP") or (sys.executable if find_spec("fastmcp") is not None else None)


def relayed(port: int) -> Program:
    return Program([sys.executable, PARTIES, "relay", str(port)])


def direct(port: int) -> Way:
    way = Way()
    way.port = port
    return way


def gateway(place: Path, policy: str) -> Program:
    """Return a gateway with this policy, and a home of its own."""
    program = Program(gateway_argv(place, policy, "--http", "127.0.0.1:0"), says_on_errors=True)
    program.tool, program.token = "far__echo", TOKEN
    return program


def gateway_argv(place: Path, policy: str, *arguments: str) -> list[str]:
    home = Path(tempfile.mkdtemp(dir=place))
    (home / "workspace").mkdir()
    (home / "policy.toml").write_text(policy)
    command = str(Path(sys.executable).with_name("byleave"))
    files = ["--root", str(home / "workspace"), "--policy", str(home / "policy.toml")]
    return ["env", f"BYLEAVE_HOME={home}/home", command, "mcp", *arguments, *files]


def policy_text(port: int, count: int = 1, *, command: list[str] | None = None) -> str:
    """Return a policy with `count` rules, and as many agents beside the one who calls."""
    how = f'url = "http://127.0.0.1:{port}/mcp"' if command is None else f"command = {json.dumps(command)}"
    lines = [
        f"[servers.far]\n{how}\n",
        f'[agents.bench]\ntoken = "sha256:{sha256(TOKEN.encode()).hexdigest()}"\nallow.servers = ["*"]',
        'deny.tools.far = ["delete_*", "drop_*"]\n',
        *(f'[agents.a{n}]\nallow.servers = ["far"]\ndeny.tools.far = ["x{n}_*"]\n' for n in range(count)),
        *(f'[[rules]]\ndeny = {{ call = {{ server = "far", tool = "t{n}" }} }}\n' for n in range(count)),
        '[[rules]]\ndeny = { call = { server = "far", arg = "/path", glob = "**/.env" } }\n',
    ]
    return "\n".join(lines)


class Taken:
    """How calls went one way."""

    def __init__(self) -> None:
        self.paced: list[float] = []  # seconds of each call, while there was no hurry
        self.hurried: list[float] = []
        self.rates: list[float] = []
        self.computed = 0.0

    async def call(self, way: Way, clients: list[Client], seconds: float) -> None:
        """Have all clients call as fast as they can."""
        before, began = way.computed, time.perf_counter()
        times = await asyncio.gather(*(client.hurry(seconds) for client in clients))
        self.computed += way.computed - before
        self.hurried += [took for each in times for took in each]
        self.rates.append(sum(map(len, times)) / (time.perf_counter() - began))

    async def pace(self, clients: list[Client], seconds: float) -> None:
        """Have all clients call now and then, which together is a steady pace."""
        every = len(clients) / PACE
        times = await asyncio.gather(
            *(client.pace(seconds, every, first=every * at / len(clients)) for at, client in enumerate(clients))
        )
        self.paced += [took for each in times for took in each]

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def computed_each(self) -> float:
        return self.computed / len(self.hurried)


def median(times: list[float]) -> float:
    return statistics.median(times)


def tenth(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[0]


async def in_turn(ways: "dict[str, Way]", count: int, *, quick: bool) -> dict[str, Taken]:
    """Have so many clients call each way in turn, so that the machine's moods hit all alike."""
    clients = {name: await way.clients(count) for name, way in ways.items()}
    taken = {name: Taken() for name in ways}
    rounds, seconds = (1, 0.1) if quick else (ROUNDS, SLICE)
    for number in range(rounds + 1):
        for name, way in ways.items():
            if name == THEIRS and number != 1:  # it is too slow for more than once
                continue
            if number == 1:  # the first round filled caches
                taken[name] = Taken()
            await taken[name].call(way, clients[name], seconds)
            if name != THEIRS:
                await taken[name].pace(clients[name], seconds)
    for client in [client for each in clients.values() for client in each]:
        client.transport.abort()
    await asyncio.sleep(0)
    return taken


def calls(place: Path, port: int, *, quick: bool) -> Rows:
    """Yield what a call costs each way, at several numbers of clients."""
    with contextlib.ExitStack() as stack:
        ways: dict[str, Way] = {DIRECT: direct(port), RAW: stack.enter_context(relayed(port))}
        ways[OURS] = stack.enter_context(gateway(place, policy_text(port)))
        python = None if quick else python_with_fastmcp()
        if python is not None:
            ways[THEIRS] = stack.enter_context(Program([python, "-c", FASTMCP, str(port)]))
        elif not quick:
            yield THEIRS, "not installed", "pip install fastmcp, or BYLEAVE_BENCH_FASTMCP=/path/to/its/python"
        for count in CLIENTS[:2] if quick else CLIENTS:
            yield from compared(count, asyncio.run(in_turn(ways, count, quick=quick)))


def compared(count: int, taken: dict[str, Taken]) -> Rows:
    clients = "1 client" if count == 1 else f"{count} clients"
    floor, raw, ours = taken[DIRECT], taken[RAW], taken[OURS]
    for name, each in taken.items():
        steady = "" if not each.paced else f"p10 {tenth(each.paced) * 1e6:,.0f}, p50 {median(each.paced) * 1e6:,.0f} µs"
        hurried = f"at full speed p50 {median(each.hurried) * 1e6:,.0f} µs"
        computed = f"{each.computed_each * 1e6:,.0f} µs computed" if each is not floor else ""
        note = ", ".join(part for part in (steady, hurried, computed) if part)
        yield f"{clients}, {name}", f"{each.rate:,.0f} calls/s", note
    added = [more(ours.paced, floor.paced, part) / more(raw.paced, floor.paced, part) for part in (median, tenth)]
    full = more(ours.hurried, floor.hurried, median) / more(raw.hurried, floor.hurried, median)
    figure = f"{more(ours.paced, floor.paced, median) * 1e6:,.0f} µs"
    note = f"p50 {added[0]:.2f}x, p10 {added[1]:.2f}x of what a raw proxy adds; at full speed {full:.2f}x"
    yield f"{clients}, added by byleave at {PACE} calls/s", figure, note
    if THEIRS in taken:
        theirs = taken[THEIRS]
        ratio = more(theirs.hurried, floor.hurried, median) / more(ours.hurried, floor.hurried, median)
        note = f"p50 at full speed {ratio:.1f}x of what byleave adds; {ours.rate / theirs.rate:.1f}x fewer calls/s"
        yield f"{clients}, added by {THEIRS}", f"{more(theirs.hurried, floor.hurried, median) * 1e6:,.0f} µs", note


def more(times: list[float], floor: list[float], part: Part) -> float:
    return part(times) - part(floor)


def large_results(place: Path, port: int, *, quick: bool) -> Rows:
    """Yield what a large result takes."""
    with relayed(port) as relay, gateway(place, policy_text(port)) as ours:
        ways: dict[str, Way] = {DIRECT: direct(port), RAW: relay, OURS: ours}
        took = asyncio.run(large_in_turn(ways, rounds=2 if quick else 15))
    added = f"{(took[OURS] - took[DIRECT]) / (took[RAW] - took[DIRECT]):.2f}x of what a raw proxy adds"
    yield (
        f"a result of {LARGE / 1e6:.0f} MB",
        f"{took[OURS] * 1e3:.1f} ms",
        f"{took[OURS] / took[RAW]:.2f}x of a raw proxy, {added}",
    )


async def large_in_turn(ways: "dict[str, Way]", *, rounds: int) -> dict[str, float]:
    clients = {name: (await way.clients(1))[0] for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, client in clients.items():
            request = client.call(client.tool.replace("echo", "large"))
            began = time.perf_counter()
            said = await client.send(request)
            times[name].append(time.perf_counter() - began)
            assert len(said) > LARGE * 0.99, said[:1000]
    for client in clients.values():
        client.transport.abort()
    return {name: median(taken) for name, taken in times.items()}


def many_rules(place: Path, port: int, *, quick: bool) -> Rows:
    """Yield what a call costs among few rules and agents, and among many."""
    with contextlib.ExitStack() as stack:
        ways: dict[str, Way] = {}
        for count in RULES[:2] if quick else RULES:
            ways[f"{count:,}"] = stack.enter_context(gateway(place, policy_text(port, count)))
        taken = asyncio.run(in_turn(ways, 1, quick=quick))
    few = taken["1"]
    for name, each in taken.items():
        p50 = f"p50 {median(each.paced) / median(few.paced):.2f}x, p10 {tenth(each.paced) / tenth(few.paced):.2f}x"
        note = f"{p50}, {each.computed_each / few.computed_each:.2f}x computed"
        yield f"a call among {name} rules and agents", f"{median(each.paced) * 1e6:,.0f} µs", note


def long_lists(place: Path, _port: int, *, quick: bool) -> Rows:
    """Yield what a list of many tools takes, and how long the calls of another client wait meanwhile."""
    for count in SERVERS:
        each = (200 if quick else LISTED) // count
        with Program([sys.executable, PARTIES, "serve", str(each)]) as server:
            policy = policy_text(server.port)
            policy += "".join(
                f'[servers.far{n}]\nurl = "http://127.0.0.1:{server.port}/mcp"\n' for n in range(1, count)
            )
            with gateway(place, policy) as ours:
                taken = asyncio.run(listed(ours, direct(server.port), count, rounds=3 if quick else 20))
        first, ours_, floor, alone, meanwhile = taken
        what = f"{each * count:,} tools of {count} server{'' if count == 1 else 's'}"
        note = f"{ours_ / floor:.2f}x of asking the servers themselves; the first time {first * 1e3:.0f} ms"
        yield f"a list of {what}", f"{ours_ * 1e3:.1f} ms", note
        worst = statistics.quantiles(meanwhile, n=20)[-1]
        ratios = f"p50 {median(meanwhile) / median(alone):.1f}x, p95 {worst / median(alone):.1f}x"
        note = f"{ratios} of a call without lists"
        yield f"a call while {what} are listed", f"{median(meanwhile) * 1e3:.1f} ms", note


async def listed(
    ours: Way, floor: Way, count: int, *, rounds: int
) -> tuple[float, float, float, list[float], list[float]]:
    """Return what the first list took, a later one, and the servers' own; and calls without lists, and during some."""
    began = time.perf_counter()
    (lister,) = await ours.clients(1)
    first = time.perf_counter() - began
    (caller,), (far,) = await ours.clients(1), await floor.clients(1)
    times: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        await lister.tools()
        between = time.perf_counter()
        for _server in range(count):
            await far.tools()
        times[0].append(between - began)
        times[1].append(time.perf_counter() - between)
    alone = await caller.pace(rounds / 10, 0.01, first=0.0)
    meanwhile, _lists = await asyncio.gather(caller.pace(rounds / 10, 0.01, first=0.0), lists(lister, rounds / 10))
    for client in (lister, caller, far):
        client.transport.abort()
    return first, median(times[0]), median(times[1]), alone, meanwhile


def many_servers(place: Path, _port: int, *, quick: bool) -> Rows:
    """Yield what a start among many servers takes, the first list of all their tools, and another start later."""
    most = 8 if quick else FLEET
    serve = [sys.executable, PARTIES, "serve", "98"]
    with Program(serve) as one, Program(serve) as other:  # more than 64 connections to one are not kept
        ports = one.port, other.port
        taken = [(count, started_with(place, ports, count)) for count in (most // 4, most // 2, most)]
    for at, what in enumerate(STARTED):
        figures = [each[at] for _count, each in taken]
        unit, scale = ("MB", 1e-6) if what.startswith("memory") else ("ms", 1e3)
        shown = ", ".join(
            f"{count}: {figure * scale:,.0f}" for (count, _all), figure in zip(taken, figures, strict=True)
        )
        note = f"{figures[-1] / figures[0]:.1f}x of a quarter of them ({shown})"
        yield f"{most} servers, {most * 100:,} tools: {what}", f"{figures[-1] * scale:,.0f} {unit}", note


STARTED = (
    "start, to the address (computed)",
    "first list of all (computed)",
    "the same, by the clock",
    "first call (computed)",
    "another list (computed)",
    "start again (computed)",
    "its first list (computed)",
    "memory",
)


def started_with(place: Path, ports: tuple[int, int], count: int) -> tuple[float, ...]:
    """Return what each of these took with so many servers."""
    policy = "".join(f'[servers.far{n}]\nurl = "http://127.0.0.1:{ports[n % 2]}/mcp"\n' for n in range(count))
    digest = sha256(TOKEN.encode()).hexdigest()
    policy += f'[agents.bench]\ntoken = "sha256:{digest}"\nallow.servers = ["*"]\n'
    argv = gateway_argv(place, policy, "--http", "127.0.0.1:0")
    with started(argv) as ours:
        start = ours.computed
        first, clock, call, again = asyncio.run(first_answers(ours))
        memory = ours.memory
    with started(argv) as ours:
        restart = ours.computed
        relist = asyncio.run(first_answers(ours))[0]
    return start, first, clock, call, again, restart, relist, float(memory)


def started(argv: list[str]) -> Program:
    program = Program(argv, says_on_errors=True)
    program.tool, program.token = "far0__echo", TOKEN
    return program


async def first_answers(ours: Way) -> tuple[float, float, float, float]:
    """Return what the first list of tools took, computed and by the clock; then a call, and another list."""
    marks, began = [ours.computed], time.perf_counter()
    (client,) = await ours.clients(1)
    clock = time.perf_counter() - began
    marks.append(ours.computed)
    assert ECHO_BYTES in await client.send(client.call(client.tool))
    for _ in range(5):
        marks.append(ours.computed)
        await client.tools()
    marks.append(ours.computed)
    client.transport.abort()
    first, call, *again = (after - before for before, after in itertools.pairwise(marks))
    return first, clock, call, min(again)


async def lists(client: Client, seconds: float) -> None:
    """List again and again for a while."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        await client.tools()


def over_pipes(place: Path, port: int, *, quick: bool) -> Rows:
    """Yield what a call takes to a gateway that is spoken to on its standard input."""
    argv = gateway_argv(place, policy_text(port), "--agent", "bench", "-q")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        call = Client("far__echo").call("far__echo").partition(b"\r\n\r\n")[2]
        times = []
        for message in [GREETING, *[call] * (50 if quick else 1500)]:
            began = time.perf_counter()
            process.stdin.write(message + b"\n")
            said = process.stdout.readline()
            times.append(time.perf_counter() - began)
            assert b'"result"' in said, said
        process.stdin.close()
        process.wait(timeout=20)
    yield "a call by pipes", f"{median(times[10:]) * 1e6:,.0f} µs", f"p10 {tenth(times[10:]) * 1e6:,.0f} µs"


def memory(place: Path, port: int, *, quick: bool) -> Rows:
    """Yield what sessions take that are open and have called."""
    for count, kind, command in (
        (10 if quick else SESSIONS, "a server over HTTP", None),
        (2 if quick else PROCESSES, "a server's process each", [sys.executable, "-IS", PARTIES, "stdio"]),
    ):
        with gateway(place, policy_text(port, command=command)) as ours:
            first, grown, processes, theirs = asyncio.run(with_sessions(ours, count))
        note = f"the gateway, from {first / 1e6:.1f} MB with one session"
        if processes:
            note += f"; {processes / count:.0f} processes each, {theirs / count / 1e6:.1f} MB"
        yield f"memory of {count} sessions, {kind}", f"{grown / 1e6:.1f} MB", note


async def with_sessions(ours: Program, count: int) -> tuple[int, int, int, int]:
    """Return the gateway's memory with a session, and how it grows with so many more; their processes and memory."""
    clients = await ours.clients(1)
    await clients[0].hurry(0.2)
    before, known = ours.memory, set(ours.offspring())
    clients += await ours.clients(count)
    for client in clients:
        await client.send(client.call(client.tool))
    after, started = ours.memory, set(ours.offspring()) - known
    theirs = sum(map(shared_out, started))
    for client in clients:
        client.transport.abort()
    return before, after - before, len(started), theirs


def shared_out(pid: int) -> int:
    """Return the resident bytes of a process, with its share of what several have in common."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
