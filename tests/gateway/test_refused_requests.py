"""Who is turned away leaves a trace, which no flood makes long, and which holds no secret."""

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from byleave.gateway.limits import MINUTE, OTHERS, RECORDED, RefusalLog
from byleave.gateway.metrics import REFUSALS, Metrics
from fakes.mcp_front import Settings, run, scene
from fakes.mcp_sdk import Place, Running, over_http
from fakes.mcp_talk import OPEN, Talk

CALL = b'{"jsonrpc":"2.0","id":5,"method":"tools/list"}'
MODERN = "2026-07-28"


def digest(token: str) -> str:
    return "sha256:" + sha256(token.encode()).hexdigest()


class Book:
    """A log on paper."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.log = RefusalLog(self._write)

    def _write(self, told: dict[str, Any], agent: str | None) -> None:
        self.lines.append((told["why"], told["peer"], agent, told["count"], told["seconds"]))


def test_the_first_refusal_is_recorded_at_once_and_the_others_once_a_minute() -> None:
    book = Book()
    for number in range(1000):
        book.log.note("wrong_token", "a", None, number / 100)
    assert book.lines == [("wrong_token", "a", None, 1, 0)]
    book.log.tick(MINUTE - 1)
    assert len(book.lines) == 1
    book.log.tick(MINUTE)
    assert book.lines[1:] == [("wrong_token", "a", None, 999, 60)]
    book.log.note("wrong_token", "a", None, MINUTE + 1)
    assert len(book.lines) == 2, "it goes on: no record of its own"
    book.log.tick(2 * MINUTE)
    book.log.tick(3 * MINUTE)
    assert book.lines[2:] == [("wrong_token", "a", None, 1, 60)]
    book.log.note("wrong_token", "a", None, 4 * MINUTE)
    assert len(book.lines) == 4, "it had stopped, and begins again"


def test_kinds_peers_and_agents_are_told_apart() -> None:
    book = Book()
    for why, peer, agent in (
        ("wrong_token", "a", None),
        ("origin", "a", None),
        ("origin", "b", None),
        ("rate", "", "x"),
    ):
        for _ in range(3):
            book.log.note(why, peer, agent, 0.0)
    book.log.close(5.0)
    assert [(why, peer, agent, count) for why, peer, agent, count, _seconds in book.lines] == [
        ("wrong_token", "a", None, 1),
        ("origin", "a", None, 1),
        ("origin", "b", None, 1),
        ("rate", None, "x", 1),
        ("wrong_token", "a", None, 2),
        ("origin", "a", None, 2),
        ("origin", "b", None, 2),
        ("rate", None, "x", 2),
    ]


def test_a_flood_from_everywhere_is_a_bounded_number_of_records() -> None:
    book = Book()
    for number in range(100_000):
        book.log.note("wrong_token", f"peer {number}", None, 1.0)
    book.log.tick(1.0 + MINUTE)
    assert len(book.lines) <= 64 + 2
    assert ("wrong_token", OTHERS, None, 100_000 - 65, 60) in book.lines


def test_refusals_are_counted_by_words_of_ours() -> None:
    metrics = Metrics()
    for why in (*sorted(REFUSALS), "wrong_token", "a word of the caller"):
        metrics.refused(why)
    lines = [line for line in metrics.text().splitlines() if line.startswith("byleave_mcp_refused_total{")]
    assert 'byleave_mcp_refused_total{why="wrong_token"} 2' in lines
    assert 'byleave_mcp_refused_total{why="other"} 1' in lines
    assert len(lines) == len(REFUSALS) + 1
    assert RECORDED <= REFUSALS


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"authorization": "Bearer very-secret"}, "wrong_token"),
    ({"authorization": "Basic very-secret"}, "wrong_token"),
    ({"origin": "http://very-secret.example"}, "origin"),
    ({"sec_fetch_site": "cross-site"}, "origin"),
    ({"host": "very-secret.example"}, "host"),
    ({"via": "very-secret"}, "proxy"),
    ({"x_byleave_agent": "backend"}, "agent"),
    ({"x_byleave_agent": "very\tsecret"}, "agent"),
]


@pytest.mark.parametrize(("fields", "why"), REFUSED, ids=str)
def test_every_refusal_has_its_kind_and_tells_the_peer_and_nothing_that_was_sent(
    fields: dict[str, str], why: str
) -> None:
    async def scenario() -> None:
        async with scene(tokens={"backend": (digest("t-backend"),)}) as opened:
            client = await opened.client()
            large = b" " * 300_000
            for body in (CALL, large):  # read at once, and refused before it is read
                await client.send(client.request("POST", "/mcp", body, mcp_protocol_version=MODERN, **fields))
                assert (await client.response()).status in (400, 401, 403)
                client = await opened.client()
            assert [kind for kind, _peer in opened.gateway.refusals] == [why, why]
            assert "secret" not in str(opened.gateway.refusals)
            assert all(peer.startswith("this machine (user ") for _why, peer in opened.gateway.refusals)

    run(scenario)


def test_a_missing_token_a_foreign_page_and_bad_form_are_counted_too() -> None:
    async def scenario() -> None:
        tokens = {"backend": (digest("t-backend"),)}
        async with scene(tokens=tokens, settings=Settings(require_identity=True, max_body=100)) as opened:
            client = await opened.client()
            await client.post(CALL, mcp_protocol_version=MODERN)
            await client.ask("GET", "/health", origin="http://evil.example")
            await client.send(b"nonsense\r\n\r\n")
            await client.response()
            other = await opened.client()
            await other.post(b" " * 101, authorization="Bearer t-backend")
            assert [why for why, _peer in opened.gateway.refusals] == ["no_token", "origin", "malformed", "too_large"]

    run(scenario)


def test_an_agent_sees_its_own_figures_and_the_user_sees_all() -> None:
    async def scenario() -> None:
        tokens = {name: (digest(f"t-{name}"),) for name in ("a", "watcher")}
        async with scene(tokens=tokens, settings=Settings(metrics_agents=("watcher",))) as opened:
            client = await opened.client()
            every = b"byleave_calls_total 7\n"
            seen = {
                "Bearer t-a": b"byleave_calls_total_of_a 3\n",
                "Bearer t-watcher": every,
                "": every,
            }
            for proof, text in seen.items():
                assert (await client.ask("GET", "/metrics", authorization=proof)).body == text
            assert (await client.ask("GET", "/metrics", authorization="Bearer x")).status == 401

    run(scenario)


def test_the_figures_of_one_agent_tell_nothing_of_another() -> None:
    metrics = Metrics()
    metrics.configured(servers=["shop", "db"], agents=["a", "b"])
    metrics.called("shop", "a", "allow", "ok", 0.1)
    metrics.called("db", "b", "deny", "refused", 0.1)
    metrics.called("db", "unknown", "deny", "refused", 0.1)
    metrics.is_up("db", up=True)
    metrics.refused("wrong_token")
    head = "# HELP byleave_mcp_calls_total Tool calls that are over.\n# TYPE byleave_mcp_calls_total counter\n"
    own = 'byleave_mcp_calls_total{server="shop",agent="a",decision="allow",outcome="ok"} 1\n'
    assert metrics.text_for("a") == head + own
    for nobody in ("unknown", "other", None):
        assert metrics.text_for(nobody) == head


def test_calls_beyond_max_calls_leave_a_record_and_no_flood_of_them(play: Callable[..., None]) -> None:
    async def crowd(talk: Talk) -> None:
        client, shop = talk.client(), talk.servers["shop"]
        await client.begin()
        await client.names()
        shop.on_call = lambda _link, _request: None  # it never answers
        open_ = [asyncio.create_task(client.call("shop__price")) for _ in range(2)]
        await shop.called()
        refused = [await client.call("shop__price") for _ in range(30)]
        assert all("requests of this client are open" in each["error"]["message"] for each in refused)
        assert 'byleave_mcp_refused_total{why="calls"} 30' in talk.gateway.metrics_text()
        for task in open_:
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)
        await talk.gateway.close()
        told = [each for each in talk.records() if each["event"] == "refused"]
        assert [(each["agent"], each["refused"]["why"], each["refused"]["count"]) for each in told] == [
            ("ops", "calls", 1),
            ("ops", "calls", 29),
        ]

    play(crowd, {**OPEN, "gateway": {"max_calls": 2}})


POLICY = f"""
[gateway]
rate = 2
default_agent = "ops"
[servers.down]
url = "http://127.0.0.1:9/mcp"
[agents.ops]
allow.servers = ["*"]
[agents.a]
token = "{digest("t-a")}"
allow.servers = ["*"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, POLICY)


@pytest.fixture
def running(place: Place) -> Iterator[Running]:
    with over_http(place) as found:
        yield found


def ask(running: Running, line: str, *fields: str, body: bytes = b"") -> bytes:
    """Send one request as it stands; return the whole answer."""
    host = running.url.removeprefix("http://").removesuffix("/mcp")
    usual = [f"Host: {host}", "Connection: close", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    address, _colon, port = host.rpartition(":")
    with socket.create_connection((address, int(port)), timeout=10) as end:
        end.sendall("\r\n".join([line, *usual, *fields, "", ""]).encode() + body)
        found = b""
        while piece := end.recv(1 << 16):
            found += piece
    return found


def test_the_audit_log_and_the_figures_tell_of_it(place: Place, running: Running) -> None:
    for number in range(50):
        assert b" 401 " in ask(running, "GET /mcp HTTP/1.1", f"Authorization: Bearer guess-{number}")
    assert b" 403 " in ask(running, "GET /mcp HTTP/1.1", "Origin: http://evil.example")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "down__x", "arguments": {}}}
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    call["params"]["_meta"] = meta  # type: ignore[index]
    fields = (
        f"Mcp-Protocol-Version: {MODERN}",
        "Mcp-Method: tools/call",
        "Mcp-Name: down__x",
        "Authorization: Bearer t-a",
    )
    answers = [ask(running, "POST /mcp HTTP/1.1", *fields, body=json.dumps(call).encode()) for _ in range(4)]
    assert sum(b"times a minute" in each for each in answers) == 2, answers
    figures = ask(running, "GET /metrics HTTP/1.1").decode()
    assert 'byleave_mcp_refused_total{why="wrong_token"} 50' in figures
    assert 'byleave_mcp_refused_total{why="origin"} 1' in figures
    assert 'byleave_mcp_refused_total{why="rate"} 2' in figures
    own = ask(running, "GET /metrics HTTP/1.1", "Authorization: Bearer t-a").decode()
    assert "refused_total" not in own
    assert 'agent="a"' in own
    running.end()  # what was only counted so far is recorded now
    time.sleep(0.1)
    records = [each for each in place.records() if each["event"] == "refused"]
    told = sorted((each["refused"]["why"], each["agent"], each["refused"]["count"]) for each in records)
    assert told == [
        ("origin", None, 1),
        ("rate", "a", 1),
        ("rate", "a", 1),
        ("wrong_token", None, 1),
        ("wrong_token", None, 49),
    ]
    assert "guess" not in json.dumps(records)
    assert "evil" not in json.dumps(records)
    assert place.byleave("audit", "verify").code == 0
    assert "wrong_token x49 this machine (user" in place.byleave("audit", "list").out
