"""Processor time of one gateway for a request over HTTP, with the event loop of Python and with uvloop.

Run it as `PYTHONPATH=tests .venv/bin/python bench/event_loop.py`, with uvloop installed. Each loop is taken four
times, in turn; what is printed is the least time of the process of the gateway (user and system) for one request.
"""

import asyncio
import json
import os
import tempfile
from pathlib import Path

from fakes.mcp_sdk import SHOP, Place, over_http

ROUNDS = 4
CLIENTS = 8
INFO: dict[str, object] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
POLICY = f'[servers.shop]\ncommand = {json.dumps(SHOP)}\n[agents.default]\nallow.servers = ["*"]\n'
REQUESTS: dict[str, tuple[dict[str, object], int]] = {
    "ping": ({}, 8000),
    "tools/call": ({"name": "shop__price", "arguments": {"article": "x"}}, 2400),
}


def spent(pid: int) -> float:
    """Return the seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """One client with a session."""

    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._port, self._reader, self._writer = port, reader, writer
        self._session = ""

    async def ask(self, method: str, params: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        lines = [f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self._port}", "Accept: application/json"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", *self._session.splitlines()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        fields = dict(line.split(": ", 1) for line in head[1:] if line)
        answer = await self._reader.readexactly(int(fields["Content-Length"]))
        if b'"result"' not in answer:
            raise SystemExit(answer.decode())
        if "Mcp-Session-Id" in fields:
            self._session = f"Mcp-Session-Id: {fields['Mcp-Session-Id']}"

    async def run(self, method: str, params: dict[str, object], times: int) -> None:
        await self.ask("initialize", INFO)
        for _ in range(times):
            await self.ask(method, params)
        self._writer.close()


async def load(port: int, method: str, params: dict[str, object], times: int) -> None:
    """Send so many requests, of several clients at a time."""
    clients = [Client(port, *await asyncio.open_connection("127.0.0.1", port)) for _ in range(CLIENTS)]
    await asyncio.gather(*(each.run(method, params, times // CLIENTS) for each in clients))


def measured(loop: str, method: str, params: dict[str, object], times: int) -> float:
    """Return the microseconds of one request."""
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory), POLICY)
        place.env["BYLEAVE_LOOP"] = loop
        with over_http(place) as running:
            port = int(running.url.rpartition(":")[2].partition("/")[0])
            asyncio.run(load(port, method, params, CLIENTS * CLIENTS))
            before = spent(running.process.pid)
            asyncio.run(load(port, method, params, times))
            return (spent(running.process.pid) - before) / times * 1e6


def main() -> None:
    for method, (params, times) in REQUESTS.items():
        least = {"asyncio": float("inf"), "uvloop": float("inf")}
        for _ in range(ROUNDS):
            for loop in ("asyncio", "uvloop"):
                least[loop] = min(least[loop], measured(loop, method, params, times))
        print(f"{method}: " + ", ".join(f"{loop} {time:.0f} us" for loop, time in least.items()))


if __name__ == "__main__":
    main()
