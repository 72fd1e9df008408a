"""A standby that is promoted, servers that stop and hang, gateways that are killed: nothing acknowledged is lost.

The standby is synchronous: what the first server has acknowledged is on the disk of the second.
"""

import json
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import amounts
from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.store.address import StoreAddress
from byleave.store.audit.query import Filter
from byleave.store.postgres.audit_reader import PostgresRecords
from byleave.store.postgres.shared_store import open_store
from byleave.store.store_key import StoreKey
from fakes.mcp_sdk import Place, Running, over_http
from postgres_server import KEY, PostgresServer, missing
from sandbox.machine import needs_sandbox

SHARED_KEY = StoreKey(bytes.fromhex(KEY))
STATELESS = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# Writes down what it is called with, before it answers.
SERVER = """
import json, os, sys
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
tool = {"name": "note", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}}
for line in sys.stdin.buffer:
    asked = json.loads(line)
    method, result = asked.get("method"), {}
    if "id" not in asked:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "notes", "version": "1"}
    elif method == "tools/list":
        result = {"tools": [tool]}
    elif method == "tools/call":
        os.write(out, (asked["params"]["arguments"]["id"] + "\\n").encode())
        result = {"content": [{"type": "text", "text": "noted"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@contextmanager
def pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Run a server and its standby."""
    why = missing()
    if why:
        pytest.skip(why)
    with ExitStack() as stack:
        first = PostgresServer(durable=True)
        stack.callback(first.remove)
        first.start()
        standby = PostgresServer(durable=True, of=first)
        stack.callback(standby.remove)
        standby.start()
        first.wait_for_standby()
        yield first, standby


def records(url: str) -> list[dict[str, Any]]:
    found = PostgresRecords(StoreAddress(url, "it"), SHARED_KEY)
    try:
        assert found.verify().problems == ()
        return [each.tree for each in found.query(Filter())]
    finally:
        found.close()


@amounts.slow
@pytest.mark.parametrize("on_failure", ["deny", "spool"])
@pytest.mark.parametrize("how", ["crash", "freeze"])
def test_a_standby_that_is_promoted_has_every_record_that_was_acknowledged(
    tmp_path: Path, on_failure: str, how: str
) -> None:
    acknowledged: list[str] = []
    ended = threading.Event()
    with pair() as (first, standby), ExitStack() as stack:
        url = first.url_with(standby)
        logs = []
        for _ in range(3):
            store = open_store(StoreAddress(url, "it"), "/nonexistent", {"BYLEAVE_STORE_KEY": KEY})
            stack.callback(store.close)
            store.use_spool(str(tmp_path), {"store": {"on_failure": on_failure}}, lambda _note: None)
            logs.append(store.log(Redactor()))
            stack.callback(logs[-1].close)

        def call(worker: int) -> None:
            number = 0
            while not ended.is_set():
                number += 1
                with suppress(StateError):
                    logs[worker % 3].append({"event": "decision", "agent": f"{worker}-{number}"})
                    acknowledged.append(f"{worker}-{number}")
                time.sleep(0.002)

        threads = [threading.Thread(target=call, args=(worker,)) for worker in range(12)]
        for each in threads:
            each.start()
        time.sleep(1)
        before = len(acknowledged)
        if how == "crash":
            first.stop(signal.SIGQUIT)
        else:
            first.freeze()
        standby.promote()
        for _ in range(300):
            time.sleep(0.1)
            if len(acknowledged) > before + 500 and not any(log.spooler and log.spooler.active for log in logs):
                break
        ended.set()
        for each in threads:
            each.join()
        stack.close()
        found = [each["agent"] for each in records(standby.url("postgres")) if each["event"] == "decision"]
    assert before > 0
    assert len(acknowledged) > before + 500  # all of them went on with the other server
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))


class Fleet:
    """Gateways, of which some are killed and started again, and clients that go to any of them."""

    def __init__(self, place: Place, count: int) -> None:
        self.place = place
        self.running: list[Running] = []
        self._stack = [ExitStack() for _ in range(count)]
        self.acknowledged: list[str] = []
        self.refused = 0
        self.ended = threading.Event()
        for stack in self._stack:
            self.running.append(stack.enter_context(over_http(place)))

    def kill(self, number: int, *, while_away: Callable[[], None] = lambda: None) -> None:
        """Kill a gateway, and start another in its place."""
        self.running[number].process.kill()
        self._stack[number].close()
        while_away()
        self._stack[number] = ExitStack()
        self.running[number] = self._stack[number].enter_context(over_http(self.place))

    def call(self, client: int) -> None:
        """Call until the end, one after the other, each time at some gateway."""
        chosen = random.Random(client)  # noqa: S311 -- the same in every run
        number = 0
        while not self.ended.is_set():
            number += 1
            name = f"{client}-{number}"
            with suppress(OSError, HTTPException, ValueError, KeyError):
                if self._ask(chosen.choice(self.running), name):
                    self.acknowledged.append(name)
                else:
                    self.refused += 1
            self.ended.wait(chosen.random())

    def _ask(self, running: Running, name: str) -> bool:
        address = urlsplit(running.url)
        params = {"name": "notes__note", "arguments": {"id": name}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        heads = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        heads |= {"Mcp-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "notes__note"}
        with closing(HTTPConnection(address.hostname or "", address.port, timeout=30)) as line:
            line.request("POST", "/mcp", json.dumps(message), heads)
            said = line.getresponse().read()
        answer = json.loads(said) if said.startswith(b"{") else json.loads(said.partition(b"data: ")[2])
        return bool(answer["result"]["content"][0]["text"] == "noted")

    def close(self) -> None:
        for stack in self._stack:
            stack.close()


def processes_of(mark: str) -> list[int]:
    found = []
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and mark.encode() in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


@needs_sandbox
@amounts.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("on_failure", ["deny", "spool"])
def test_three_replicas_and_500_clients_lose_nothing_whatever_happens_to_databases_and_gateways(
    tmp_path: Path, on_failure: str
) -> None:
    place = Place(tmp_path / "place", "")
    script, called = place.root / "notes_server.py", place.root / "called"
    script.write_text(SERVER)
    policy = f"""
[servers.notes]
command = ["/usr/bin/python3", {json.dumps(str(script))}, {json.dumps(str(called))}]
share = true
[[servers.notes.access.fs]]
path = "."
read = true
write = true
[agents.default]
allow.servers = ["*"]
[gateway]
max_connections = 4000
max_connections_per_caller = 4000
max_connections_per_peer = 4000
[store]
on_failure = "{on_failure}"
"""
    with pair() as (first, standby):
        place.write(policy)
        place.env |= {"BYLEAVE_STORE": first.url_with(standby), "BYLEAVE_STORE_KEY": KEY}
        with closing(Fleet(place, 3)) as fleet:
            threading.stack_size(256 << 10)
            threads = [threading.Thread(target=fleet.call, args=(client,)) for client in range(500)]
            threading.stack_size(0)
            for each in threads:
                each.start()
            try:
                time.sleep(8)
                first.freeze()  # slowed
                time.sleep(1)
                first.thaw()
                fleet.kill(0)
                first.stop(signal.SIGINT)  # stopped, and started
                time.sleep(2)
                first.start()
                time.sleep(6)
                first.stop(signal.SIGQUIT)  # gone, and the other promoted
                fleet.kill(1, while_away=standby.promote)
                before = len(fleet.acknowledged)
                time.sleep(12)
                fleet.kill(2)
                time.sleep(3)
            finally:
                fleet.ended.set()
                for each in threads:
                    each.join(60)
            assert len(fleet.acknowledged) > before > 0
            time.sleep(7)  # until what waits is delivered, and the end of every call is recorded
        assert processes_of(str(script)) == []
        found = records(standby.url("postgres"))
    asked = [each["action"]["arguments"]["id"] for each in found if each["event"] == "decision"]
    run = called.read_text().splitlines()
    said = f"acknowledged {len(fleet.acknowledged)}, run {len(run)}, recorded {len(asked)}, refused {fleet.refused}"
    sys.stderr.write(f"{on_failure}: {said}\n")
    assert set(fleet.acknowledged) <= set(asked)
    assert set(run) <= set(asked)  # none ran unrecorded
    assert len(run) == len(set(run))
    assert len(asked) == len(set(asked))
