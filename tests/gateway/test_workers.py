"""`byleave mcp --http --workers`: several processes behind one port are one gateway, and end together."""

import json
import multiprocessing
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from byleave.cli.mcp_workers import hold_port
from byleave.errors import InputError
from byleave.gateway.metrics import added_up
from byleave.gateway.quotas import Quota
from byleave.gateway.worker_rates import WorkerRates, _digest
from command import byleave
from fakes.mcp_sdk import SHOP, Place, Running, eventually, over_http
from sandbox.machine import needs_sandbox

POLICY = f"""
[gateway]
rate = 40
approve = "client"
[servers.shop]
command = {json.dumps(SHOP)}
[agents.default]
allow.servers = ["*"]
[[rules]]
ask = {{ call = {{ server = "shop", tool = "query" }} }}
"""
STATELESS = "2026-07-28"
INFO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


@contextmanager
def asked(running: Running, method: str, path: str, body: object = None, **fields: str) -> Iterator[Any]:
    """Send a request on a connection of its own, which any of the workers may get."""
    address = urlsplit(running.url)
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    headers |= {name.replace("_", "-"): value for name, value in fields.items()}
    with closing(HTTPConnection(address.hostname or "", address.port, timeout=20)) as line:
        line.request(method, path, None if body is None else json.dumps(body), headers)
        yield line.getresponse()


def post(running: Running, method: str, params: object, **fields: str) -> tuple[int, Any, str]:
    """Return the status, the answer, and the session that the response names."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with asked(running, "POST", "/mcp", message, **fields) as response:
        said = response.read()
        if "event-stream" in response.headers.get("Content-Type", ""):
            events = [line[6:] for line in said.decode().splitlines() if line.startswith("data: ")]
            said = events[-1].encode()
        return response.status, json.loads(said), response.headers.get("Mcp-Session-Id", "")


def stateless(running: Running, tool: str, arguments: object, **more: object) -> Any:
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta, **more}
    words = {"Mcp_Protocol_Version": STATELESS, "Mcp_Method": "tools/call", "Mcp_Name": tool}
    return post(running, "tools/call", params, **words)[1]


def children_of(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def below(pid: int) -> list[int]:
    found = children_of(pid)
    return found + [each for child in found for each in below(child)]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except OSError:
        return True


@needs_sandbox
def test_workers_are_one_gateway(tmp_path: Path) -> None:
    place = Place(tmp_path, POLICY)
    with over_http(place, "--workers", "3") as running:
        eventually(lambda: len(children_of(running.process.pid)) == 3)
        # Sessions: whichever worker a connection leads to, the session is there.
        sessions = [post(running, "initialize", INFO)[2] for _ in range(6)]
        assert len({session.partition(".")[0] for session in sessions}) <= 3
        for session in sessions:
            for _ in range(3):
                status, said, _again = post(running, "tools/list", {}, Mcp_Session_Id=session)
                assert (status, "result" in said) == (200, True), said
        # Calls that wait for a stateless client.
        for number in range(4):
            first = stateless(running, "shop__query", {"sql": f"s{number}"})["result"]
            assert first["resultType"] == "input_required", first
            assert first["requestState"].partition(".")[1] == "."
            yes = {"byleave": {"action": "accept", "content": {}}}
            more = {"requestState": first["requestState"], "inputResponses": yes}
            last = stateless(running, "shop__query", {"sql": f"s{number}"}, **more)["result"]
            assert last["content"][0]["text"] == "shop: query done", last
            spent = stateless(running, "shop__query", {"sql": f"s{number}"}, **more)
            assert spent["error"]["code"] == -32602
        # The rate holds for all workers together.
        answers = [stateless(running, "shop__price", {"article": "x"}) for _ in range(40)]
        done = sum("result" in each for each in answers)
        assert 40 - 12 <= done < 40, done  # the calls before took twelve at most, and a second gives less than one back
        # Figures are those of all.
        with asked(running, "GET", "/metrics") as response:
            lines = response.read().decode().splitlines()
        (open_sessions,) = [int(line.split()[-1]) for line in lines if line.startswith("byleave_mcp_sessions ")]
        assert 6 <= open_sessions <= 6 + 3  # a worker has one for all stateless clients
        counted = sum(int(line.split()[-1]) for line in lines if line.startswith("byleave_mcp_calls_total{"))
        assert counted >= done + 4
        records = place.records()
        assert sum(each.get("event") == "decision" for each in records) >= done + 4
        # One that is killed is replaced, and the others' sessions go on.
        before = children_of(running.process.pid)
        os.kill(before[0], signal.SIGKILL)
        eventually(lambda: len(set(children_of(running.process.pid)) - {before[0]}) == 3)
        eventually(lambda: any("another one serves in its place" in line for line in running.said))
        left = {post(running, "tools/list", {}, Mcp_Session_Id=session)[0] for session in sessions}
        assert left <= {200, 404}
        everything = below(running.process.pid)
    assert running.process.returncode == 128 + signal.SIGTERM
    assert sum("listening at" in line for line in running.said) == 1
    assert [pid for pid in everything if not is_gone(pid)] == []


@needs_sandbox
def test_no_worker_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    with over_http(Place(tmp_path, POLICY), "--workers", "2") as running:
        eventually(lambda: len(children_of(running.process.pid)) == 2)
        session = post(running, "initialize", INFO)[2]
        assert post(running, "tools/list", {}, Mcp_Session_Id=session)[0] == 200
        everything = below(running.process.pid)
        running.process.kill()
        eventually(lambda: all(is_gone(pid) for pid in everything))
    assert len(everything) >= 2


def test_a_port_that_is_taken_is_refused() -> None:
    with closing(socket.create_server(("127.0.0.1", 0), reuse_port=True)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="cannot listen on"):
            hold_port("127.0.0.1", port)
    with closing(hold_port("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with closing(socket.create_server(("127.0.0.1", port), reuse_port=True)):
            pass
        with pytest.raises(ConnectionRefusedError):  # holding is not listening
            socket.create_connection(("127.0.0.1", port))


def test_what_is_wrong_is_reported_once_by_all_workers(tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text("[servers.x]\nwrong = 1\n")
    done = byleave(
        "mcp", "--http", "127.0.0.1:0", "--workers", "3", "--policy", str(policy), "--root", str(tmp_path), cwd=tmp_path
    )
    assert done.code == 2
    assert done.err.count("hint:") == 1, done.err


@pytest.mark.parametrize(
    "said",
    [["--workers", "2"], ["--stdio", "--workers", "2"], ["--check", "--workers", "2"]]
    + [["--http", "127.0.0.1:0", "--workers", each] for each in ("0", "-1", "65", "x", "", "1e1", "٣", "9" * 30)],
)
def test_a_number_of_workers_that_cannot_be_is_refused(tmp_path: Path, said: list[str]) -> None:
    done = byleave("mcp", *said, cwd=tmp_path)
    assert (done.code, "workers" in done.err, "hint:" in done.err) == (2, True, True), done


def takes(rates: WorkerRates, name: str, rate: float, now: float) -> bool:
    return rates.take_at(0, [Quota(name, rate)], now) is None


def _take(rates: WorkerRates, worker: int, times: int, found: Any) -> None:
    quotas = [Quota("agent a", 100.0), Quota("open", most=90)]
    found.put(sum(rates.take_at(worker, quotas, 5.0) is None for _ in range(times)))


def test_limits_are_those_of_all_processes_together_and_a_call_is_taken_from_all_or_none() -> None:
    rates, forked = WorkerRates(), multiprocessing.get_context("fork")
    found = forked.Queue()
    workers = [forked.Process(target=_take, args=(rates, number, 60, found)) for number in range(4)]
    for each in workers:
        each.start()
    taken = [found.get(timeout=20) for _ in workers]
    for each in workers:
        each.join(20)
    assert sum(taken) == 90
    assert [takes(rates, "agent a", 100.0, 5.0) for _ in range(11)] == [True] * 10 + [False]
    assert takes(rates, "agent b", 100.0, 5.0)
    assert takes(rates, "agent a", 100.0, 5.7)  # one comes back after 0.6 seconds


def test_open_calls_of_a_worker_that_ended_are_taken_out_and_no_others() -> None:
    rates, quotas = WorkerRates(), [Quota("open", most=3)]
    assert [rates.take_at(worker, quotas, 1.0) for worker in (0, 1, 1, 2)] == [None, None, None, (0, 1.0)]
    rates.give(0, quotas)
    assert [rates.take_at(2, quotas, 1.0) for _ in range(2)] == [None, (0, 1.0)]
    rates.forget(1)
    assert [rates.take_at(0, quotas, 1.0) for _ in range(3)] == [None, None, (0, 1.0)]


def test_open_calls_beyond_the_places_share_one_and_all_come_back() -> None:
    rates = WorkerRates()
    many = [[Quota(f"open {number}", most=1)] for number in range(4000)]
    taken = [each for each in many if rates.take_at(0, each, 1.0) is None]
    assert len(taken) < len(many)
    for each in taken:
        rates.give(0, each)
    assert sum(rates.take_at(0, each, 1.0) is None for each in many) == len(taken)


def test_agents_beyond_the_places_share_one() -> None:
    rates = WorkerRates()
    assert all(takes(rates, f"agent {number}", 2.0, 1.0) for number in range(5000))
    assert takes(rates, "agent 17", 2.0, 1.0)
    assert not takes(rates, "agent 17", 2.0, 1.0)
    assert all(takes(rates, f"other {number}", 2.0, 999.0) for number in range(5000))  # places are used again
    for number in range(12_000):
        takes(rates, f"many {number}", 2.0, 999.0)
    assert not takes(rates, "yet another", 2.0, 999.0)


def named_for(place: int, places: int, word: str) -> str:
    """Return a name that is looked for at this place first."""
    return next(name for number in count() if _digest(name := f"{word} {number}") % places == place)


def test_a_limit_keeps_its_place_though_what_it_has_left_is_more_than_another_ever_has() -> None:
    """A caller that made up names for a narrow limit had the calls of a wide one forgotten."""
    rates = WorkerRates()
    wide, narrow = named_for(7, 8191, "wide"), named_for(7, 8191, "narrow")
    assert sum(takes(rates, wide, 600.0, 1.0) for _ in range(500)) == 500
    assert takes(rates, narrow, 60.0, 1.0)
    assert sum(takes(rates, wide, 600.0, 1.0) for _ in range(200)) == 100


def test_two_limits_of_one_call_never_have_the_same_place() -> None:
    rates = WorkerRates()
    quotas = [Quota(named_for(7, 8191, word), 3.0) for word in ("one", "other")]
    quotas += [Quota(named_for(7, 2047, word), most=2) for word in ("one", "other")]
    assert [rates.take_at(0, quotas, 1.0) for _ in range(3)] == [None, None, (2, 1.0)]
    assert [rates.take_at(0, [each], 1.0) for each in quotas[2:]] == [(0, 1.0)] * 2
    for _ in range(2):
        rates.give(0, quotas)
    assert [sum(takes(rates, each.name, 3.0, 1.0) for _ in range(5)) for each in quotas[:2]] == [1, 1]
    assert [rates.take_at(0, quotas[2:], 1.0) for _ in range(3)] == [None, None, (0, 1.0)]


def test_a_limit_that_is_there_twice_is_counted_twice_and_comes_back_whole() -> None:
    rates, twice = WorkerRates(), [Quota("open", most=4)] * 2 + [Quota("rate", 4.0)] * 2
    assert [rates.take_at(0, twice, 1.0) for _ in range(3)] == [None, None, (0, 1.0)]
    for _ in range(2):
        rates.give(0, twice)
    assert [rates.take_at(0, twice[:2], 1.0) for _ in range(3)] == [None, None, (0, 1.0)]
    assert rates.take_at(0, twice[2:], 1.0) is not None


def test_figures_of_several_processes_are_added_up() -> None:
    one = (
        '# HELP a_total Calls.\n# TYPE a_total counter\na_total{x="1"} 2\n# HELP b_sum S.\n# TYPE b_sum h\nb_sum 0.5\n'
    )
    other = '# HELP a_total Calls.\n# TYPE a_total counter\na_total{x="1"} 3\na_total{x="2 "} 1\n'
    up = "# HELP byleave_mcp_server_up U.\n# TYPE byleave_mcp_server_up gauge\nbyleave_mcp_server_up 1\n"
    assert added_up([one, other, up, up]).splitlines() == [
        *("# HELP a_total Calls.", "# TYPE a_total counter", 'a_total{x="1"} 5', 'a_total{x="2 "} 1'),
        *("# HELP b_sum S.", "# TYPE b_sum h", "b_sum 0.500000"),
        *("# HELP byleave_mcp_server_up U.", "# TYPE byleave_mcp_server_up gauge", "byleave_mcp_server_up 1"),
    ]
