"""Two gateways on one database are one gateway: approvals, limits and records hold across them, and outages show."""

import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import amounts
from fakes.mcp_sdk import LEGACY, MODERN, SHOP, Place, Running, Talk, at, eventually, over_http, talking, words
from fakes.round_robin import RoundRobin
from postgres_server import KEY, PostgresServer
from sandbox.machine import needs_sandbox

pytestmark = needs_sandbox

TOKEN = "a token that only ops knows"
POLICY = f"""
[servers.shop]
command = {json.dumps(SHOP)}
[agents.ops]
token = "sha256:{sha256(TOKEN.encode()).hexdigest()}"
allow.servers = ["*"]
[[rules]]
ask = {{ call = {{ server = "shop", tool = "query" }} }}
"""
LENDS = 'env = { LENT = "${BYLEAVE_STORE_KEY:-nothing}" }\n'


def look(running: Running, path: str) -> tuple[int, Any]:
    """Return what a probe sees."""
    address = urlsplit(running.url)
    line = HTTPConnection(address.hostname or "", address.port, timeout=10)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        line.close()


@contextmanager
def replicas(place: Place, count: int = 2) -> Iterator[list[tuple[Running, Talk]]]:
    """Run gateways, each with a client of its own."""
    with ExitStack() as stack:
        running = [stack.enter_context(over_http(place)) for _ in range(count)]
        yield [
            (each, stack.enter_context(talking(at(each.url, Authorization=f"Bearer {TOKEN}"), MODERN)))
            for each in running
        ]


def price(talk: Talk) -> str:
    return words(talk.call("shop__price", {"article": "x"}))


def test_a_yes_and_its_end_hold_at_every_replica(tmp_path: Path, url: str) -> None:
    place = Place(tmp_path, POLICY)
    with replicas(place) as ((_, one), (_, other)):
        assert "needs your approval" in words(one.call("shop__query", {"sql": "s"}))
        (pending,) = [
            each for each in json.loads(place.byleave("approvals", "list", "--json").out) if each["status"] == "pending"
        ]
        assert (pending["kind"], "tool=" in pending["subject"]) == ("call", True)
        assert place.byleave("approvals", "approve", pending["id"], "--yes").code == 0
        assert [words(talk.call("shop__query", {"sql": "s"})) for talk in (other, one)] == ["shop: query done"] * 2
        assert place.byleave("approvals", "revoke", pending["id"], "--yes").code == 0
        for talk in (one, other):
            assert "needs your approval" in words(talk.call("shop__query", {"sql": "s"}))
        assert "needs your approval" in words(one.call("shop__query", {"sql": "another"}))
        (agent,) = json.loads(place.byleave("agents", "list", "--json", "--policy", str(place.policy)).out)
        assert (agent["name"], agent["last_used"][:2]) == ("ops", "20")
    decisions = [(each["door"], each["event"]) for each in place.records() if each["event"] != "effect"]
    assert decisions.count(("mcp", "decision")) == 6
    assert decisions.count(("cli", "approval")) == 2
    verified = place.byleave("audit", "verify", "--json")
    assert (verified.code, json.loads(verified.out)["ok"]) == (0, True)
    assert list(place.home.rglob("audit.db")) == []  # nothing of it is in the files of this machine


def test_the_rate_of_an_agent_is_that_of_all_replicas_together(tmp_path: Path, url: str) -> None:
    place = Place(tmp_path, POLICY + "[gateway]\nrate = 5\n")
    with replicas(place) as ((_, one), (_, other)):
        allowed = 0
        for number in range(8):
            try:
                price(one if number % 2 else other)
                allowed += 1
            except Exception as error:  # noqa: BLE001 -- of the SDK
                assert "more often than 5 times a minute" in str(error)  # noqa: PT017 -- some of them are answered
        assert allowed == 5


def lent(running: Running) -> list[bytes]:
    """Return the environments of all programs that a gateway has started."""
    found, waiting = [], [running.process.pid]
    while waiting:
        pid = waiting.pop()
        children = [
            int(each)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for each in (task / "children").read_text().split()
        ]
        found += [Path(f"/proc/{child}/environ").read_bytes() for child in children]
        waiting += children
    return found


def test_an_outage_refuses_calls_at_once_shows_and_loses_nothing(
    tmp_path: Path, url: str, server: PostgresServer
) -> None:
    place = Place(tmp_path, POLICY.replace("[agents", f"{LENDS}[agents", 1))
    with replicas(place, 1) as ((running, talk),):
        assert look(running, "/ready") == (200, {"status": "ok"})
        acknowledged = [price(talk) for _ in range(3)]
        environments = lent(running)
        assert any(b"LENT=nothing" in each for each in environments)
        assert not any(KEY.encode() in each or url.encode() in each for each in environments)
        server.stop(signal.SIGINT)
        try:
            refusal = price(talk)
            assert "could not be recorded: the shared store cannot be used now" in refusal
            assert "byleave-pg" not in refusal  # where the database is concerns the operator alone
            eventually(
                lambda: look(running, "/ready") == (503, {"status": "not ready", "why": "the store cannot be used"})
            )
            assert look(running, "/health")[0] == 200
        finally:
            server.start()
        eventually(lambda: look(running, "/ready")[0] == 200)
        acknowledged += [price(talk) for _ in range(3)]
    decisions = [each for each in place.records() if each["event"] == "decision"]
    assert len(decisions) == len(acknowledged) == 6  # a call that was refused for want of a record has none
    assert place.byleave("audit", "verify").code == 0
    assert all("password" not in line.lower() for line in running.said)


def test_with_a_spool_calls_go_on_without_the_database_and_a_killed_gateway_loses_no_record(
    tmp_path: Path, url: str, server: PostgresServer
) -> None:
    place = Place(tmp_path, POLICY + '[store]\non_failure = "spool"\n')
    with over_http(place) as running:
        talk = PlainClient(running)
        assert talk.price()["structuredContent"] == {"cents": 250}
        server.stop(signal.SIGINT)
        try:
            eventually(lambda: look(running, "/ready") == (200, {"status": "ok", "store": "spooling"}))
            assert [talk.price()["structuredContent"] for _ in range(3)] == [{"cents": 250}] * 3
            asked = talk.use("shop__query", {"sql": "s"})["result"]  # what was approved cannot be known now
            assert asked["isError"]
            assert "it cannot be kept for `byleave approvals` now" in asked["content"][0]["text"]
            running.process.kill()
            running.process.wait(20)
            talk.close()
        finally:
            server.start()
    said = place.byleave("audit", "verify")
    assert (said.code, "wait on this machine" in said.err) == (0, True), said
    with over_http(place) as running:
        eventually(lambda: any("that an earlier gateway" in line for line in running.said))
    decisions = [each for each in place.records() if each["event"] == "decision"]
    assert [each["verdict"]["decision"] for each in decisions] == ["allow"] * 4 + ["ask"]
    effects = [each["of"] for each in place.records() if each["event"] == "effect"]
    assert set(effects) <= {each["sequence"] for each in decisions}
    assert len(effects) >= 3  # of the last calls before the end, what came of them may be missing
    said = place.byleave("audit", "verify")
    assert (said.code, "wait on this machine" in said.err) == (0, False), said


def test_a_database_that_hangs_holds_up_nobody_else(tmp_path: Path, url: str, own: PostgresServer) -> None:
    place = Place(tmp_path, POLICY)
    with over_http(place) as running:
        clients = [PlainClient(running) for _ in range(3)]
        assert clients[0].price()["structuredContent"] == {"cents": 250}
        time.sleep(0.3)  # until what is known of approved definitions is looked up again
        own.freeze()
        answers: list[Any] = []
        # One is allowed, one needs an approval, and one is refused by the gateway itself.
        given = [("shop__price", {"article": "x"}), ("shop__query", {"sql": "s"}), ("shop__price", {"article": 1})]
        threads = [
            threading.Thread(target=lambda client=client, call=call: answers.append(client.use(*call)))
            for client, call in zip(clients, given, strict=True)
        ]
        for each in threads:
            each.start()
        took: list[float] = []
        while any(each.is_alive() for each in threads) and len(took) < 200:
            began = time.monotonic()
            assert look(running, "/health")[0] == 200
            took.append(time.monotonic() - began)
            time.sleep(0.1)
        own.thaw()
        for each in threads:
            each.join(30)
        assert len(took) > 5  # they waited for the database, and the gateway did not
        assert max(took) < 1
        assert len(answers) == 3
        assert all("result" not in each or each["result"]["isError"] for each in answers)
        eventually(lambda: look(running, "/ready")[0] == 200)
        for client in clients:
            client.close()


class PlainClient:
    """A client with a handshake that does without the SDK, which says much when its gateway is killed."""

    def __init__(self, running: Running) -> None:
        self._session: dict[str, str] = {}
        self._line: HTTPConnection | None = None
        self.status = 0
        self.visit(running)
        self.begin()

    def visit(self, running: Running) -> None:
        """Go on at another gateway."""
        if self._line is not None:
            self._line.close()
        address = urlsplit(running.url)
        self._line = HTTPConnection(address.hostname or "", address.port, timeout=10)

    def begin(self) -> None:
        """Shake hands."""
        self._session = {}
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "plain", "version": "1"}}
        self.ask("initialize", about)

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        heads = {"Content-Type": "application/json", "Accept": "application/json", "Authorization": f"Bearer {TOKEN}"}
        assert self._line is not None
        self._line.request("POST", "/mcp", json.dumps(message), heads | self._session)
        answer = self._line.getresponse()
        self.status = answer.status
        named = answer.getheader("Mcp-Session-Id")
        self._session = {"Mcp-Session-Id": named} if named else self._session
        return json.loads(answer.read())

    def use(self, name: str, arguments: dict[str, Any]) -> Any:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def price(self) -> Any:
        return self.use("shop__price", {"article": "x"})["result"]

    def call_until_lost(self, done: list[Any]) -> None:
        with suppress(OSError, HTTPException):
            done.extend(self.price() for _ in range(500))
        self.close()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()


def test_replicas_that_are_killed_lose_no_record_and_no_other_replica(tmp_path: Path, url: str) -> None:
    place = Place(tmp_path, POLICY)
    done: list[Any] = []
    with over_http(place) as steady, closing(PlainClient(steady)) as talk:
        for _ in range(amounts.of(5, 1)):
            with over_http(place) as victim:
                doomed = PlainClient(victim)
                done += [doomed.price() for _ in range(3)]
                thread = threading.Thread(target=doomed.call_until_lost, args=(done,))
                thread.start()
                done += [talk.price() for _ in range(3)]
                victim.process.kill()
                thread.join(30)
                done += [talk.price() for _ in range(3)]
    assert all(each["structuredContent"] == {"cents": 250} for each in done)
    decisions = [each for each in place.records() if each["event"] == "decision"]
    assert len(decisions) >= len(done) >= 9
    assert place.byleave("audit", "verify").code == 0


def proxy_to(*running: Running) -> RoundRobin:
    addresses = [urlsplit(each.url) for each in running]
    return RoundRobin(*[(each.hostname or "", each.port or 0) for each in addresses])


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
def test_behind_a_proxy_that_knows_nothing_every_client_is_served(tmp_path: Path, url: str, mode: str) -> None:
    place = Place(tmp_path, POLICY)
    with over_http(place) as one, over_http(place) as other, closing(proxy_to(one, other)) as proxy:
        for _ in range(2):
            with talking(at(proxy.url, Authorization=f"Bearer {TOKEN}"), mode) as talk:
                assert [price(talk) for _ in range(3)] == ['{"cents": 250}'] * 3
        assert proxy.connections >= 2


def calls_until_refused(*talks: Talk, why: str) -> int:
    """Call by turns, and return how many calls were answered."""
    answered, by_turns = 0, itertools.cycle(talks)
    while True:
        try:
            price(next(by_turns))
        except Exception as error:  # noqa: BLE001 -- of the SDK
            assert why in str(error)  # noqa: PT017 -- some of them are answered
            return answered
        answered += 1


FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def with_clock(place: Place, off: str) -> Place:
    """Return the same place for programs whose clock is off; the one that only counts on is not."""
    odd = copy(place)
    odd.env = place.env | {"LD_PRELOAD": str(FAKETIME), "FAKETIME": off, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return odd


@amounts.slow
@pytest.mark.skipif(FAKETIME is None, reason="needs libfaketime (apt-get install faketime)")
def test_clocks_that_are_hours_apart_change_nothing_between_replicas(tmp_path: Path, url: str) -> None:
    place = Place(tmp_path, POLICY + "[gateway]\nrate = 10\n")
    with ExitStack() as stack:
        running = [stack.enter_context(over_http(with_clock(place, off))) for off in ("+5h", "-5h")]
        began = time.monotonic()
        assert all("libfaketime" in Path(f"/proc/{each.process.pid}/maps").read_text() for each in running)
        ahead, behind = (
            stack.enter_context(talking(at(each.url, Authorization=f"Bearer {TOKEN}"), MODERN)) for each in running
        )
        assert "needs your approval" in words(ahead.call("shop__query", {"sql": "s"}))
        pending = next(
            each for each in json.loads(place.byleave("approvals", "list", "--json").out) if each["status"] == "pending"
        )
        assert place.byleave("approvals", "approve", pending["id"], "--yes").code == 0
        assert [words(talk.call("shop__query", {"sql": "s"})) for talk in (behind, ahead)] == ["shop: query done"] * 2
        moved = stack.enter_context(closing(PlainClient(running[0])))
        for each in (*running, running[0]):
            moved.visit(each)
            assert moved.price()["structuredContent"] == {"cents": 250}
        taken = 6 + calls_until_refused(ahead, behind, why="more often than 10 times a minute")
        assert taken <= 10 + (time.monotonic() - began) / 6 + 1
    records = place.records()
    assert len([each for each in records if each["event"] == "effect" and each["outcome"] == "done"]) == taken - 1
    times = [each["time"] for each in records]
    assert times == sorted(times)  # by the clock of the database
    assert abs(datetime.fromisoformat(times[-1]) - datetime.now(UTC)) < timedelta(hours=1)
    assert place.byleave("audit", "verify").code == 0


def test_a_session_goes_on_at_every_replica_and_ends_with_its_own(tmp_path: Path, url: str) -> None:
    place = Place(tmp_path, POLICY)
    with (
        over_http(place, "--workers", "2") as one,
        over_http(place) as other,
        closing(PlainClient(other)) as moved,
        closing(PlainClient(one)) as steady,
    ):
        for running in (one, other, one):
            moved.visit(running)
            assert moved.price()["structuredContent"] == {"cents": 250}
            steady.visit(running)
            assert steady.price()["structuredContent"] == {"cents": 250}
        other.process.kill()
        other.process.wait()
        assert "begin a new one with initialize" in moved.ask("tools/list", {})["error"]["message"]
        assert moved.status == 404
        moved.begin()
        assert moved.price()["structuredContent"] == {"cents": 250}
        assert steady.price()["structuredContent"] == {"cents": 250}
        with over_http(place) as another:  # a name is not given twice, so nothing is taken for another's
            moved.visit(another)
            assert moved.price()["structuredContent"] == {"cents": 250}
    with psycopg.connect(url) as connection:
        left = connection.execute("SELECT count(*) FROM byleave.replicas").fetchone()
    assert left == (1,)  # the one that was killed: the others have said that they end
    assert place.byleave("audit", "verify").code == 0


def test_a_replica_with_another_key_is_no_replica(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with over_http(Place(tmp_path / "a", POLICY)) as one, closing(PlainClient(one)) as client:
        monkeypatch.setenv("BYLEAVE_STORE_KEY", "cd" * 32)
        with over_http(Place(tmp_path / "b", POLICY)) as other:
            client.visit(other)
            client.ask("tools/list", {})
            assert client.status == 404
            client.visit(one)
            assert "result" in client.ask("ping", {})
