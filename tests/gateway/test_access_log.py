"""The log of the gateway and its access log: one line each that nobody else can write, and that nobody waits for."""

import asyncio
import json
import os
import re
import select
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from byleave.errors import ConfigError
from byleave.gateway.access_log import AccessLog, request_id
from byleave.gateway.http_front import ROUTES
from byleave.gateway.log_lines import JSON, REQUEST, TEXT, LineWriter, Log, RequestMark
from fakes.mcp_front import Settings, run, scene, until

MODERN = "2026-07-28"
CALL = {"jsonrpc": "2.0", "id": 5, "method": "tools/list"}
CANARY = "canary-9Zk3"
TOKENS = {"backend": ("sha256:" + sha256(b"t-backend").hexdigest(),)}


class Kept(AccessLog):
    """An access log whose lines are kept, and written to a file."""

    def __init__(self, path: Path, form: str = JSON) -> None:
        super().__init__(Log(form), where=str(path), paths=ROUTES, knows=lambda agent: agent == "backend")
        self._path = path

    def lines(self) -> list[str]:
        self.close()
        return self._path.read_text().splitlines()

    def trees(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]


def test_a_line_says_what_was_asked_by_whom_and_what_came_of_it(tmp_path: Path) -> None:
    log = Kept(tmp_path / "access.log")

    async def scenario() -> None:
        async with scene(access_log=log, tokens=TOKENS) as opened:
            client = await opened.client()
            proof = {"authorization": "Bearer t-backend", "mcp_protocol_version": MODERN}
            answer = await client.post(CALL, x_request_id="from-the-proxy.7", **proof)
            assert answer.fields["x-request-id"] == "from-the-proxy.7"
            made = (await client.post(CALL, **proof)).fields["x-request-id"]
            assert re.fullmatch("[0-9a-f]{16}", made)
            refused = await client.post(CALL, authorization="Bearer wrong")
            assert re.fullmatch("[0-9a-f]{16}", refused.fields["x-request-id"])
            first, second, third = log.trees()
            assert {key: first[key] for key in first if key not in ("time", "seconds")} == {
                "level": "info",
                "kind": "access",
                "method": "POST",
                "path": "/mcp",
                "status": 200,
                "bytes": len(answer.body),
                "agent": "backend",
                "identity": "verified",
                "principal": "token",
                "request_id": "from-the-proxy.7",
            }
            assert 0 < first["seconds"] < 10
            assert second["request_id"] == made
            assert (third["status"], "agent" in third) == (401, False)

    run(scenario)


def test_without_an_access_log_requests_have_no_ids() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            answer = await client.post(CALL, x_request_id="mine", mcp_protocol_version=MODERN)
            assert "x-request-id" not in answer.fields

    run(scenario)


@pytest.mark.parametrize("given", [None, "", "a b", "a\tb", "-a", "é", "a" * 65, 'a"b', "{}", "a=b", "a, a", "a\n"])
def test_an_id_that_is_no_plain_word_is_replaced(given: str | None) -> None:
    assert re.fullmatch("[0-9a-f]{16}", request_id(given))


@pytest.mark.parametrize("form", [TEXT, JSON])
def test_nothing_that_a_caller_writes_is_in_a_line(tmp_path: Path, form: str) -> None:
    log = Kept(tmp_path / "access.log", form)

    async def scenario() -> None:
        async with scene(access_log=log, settings=Settings(max_body=4000)) as opened:
            odd = (("POST", f"/{CANARY}"), (CANARY, "/mcp"), ("GET", f"/messages?session_id={CANARY}"))
            for method, path in odd:
                client = await opened.client()
                await client.ask(method, path, b"{}" if method == "POST" else b"")
            client = await opened.client()
            fields = {"mcp_session_id": CANARY, "x_byleave_agent": CANARY, "cookie": CANARY, "referer": CANARY}
            bad = {"x_request_id": f'{CANARY} "}} 1', "authorization": f"Bearer {CANARY}", "user_agent": CANARY}
            await client.post({**CALL, "params": {"name": CANARY}}, **fields)
            await client.post({**CALL, "params": {"name": CANARY}}, **bad)
            await client.post(CALL, mcp_protocol_version=MODERN, x_byleave_agent=CANARY)
            await client.send(f"{CANARY}\r\n\r\n".encode())
            await client.response()
            large = await opened.client()
            await large.send(large.request("POST", "/mcp", b"x" * 4001))
            await large.response()
        lines = log.lines()
        assert len(lines) == 8
        assert CANARY not in "\n".join(lines)
        assert sum("other" in line for line in lines) == 6
        if form == TEXT:
            assert all(re.fullmatch(r"byleave: access( [a-z_]+=[\w./\"-]+)+", line) for line in lines)

    run(scenario)


def test_a_client_that_goes_away_and_a_stream_have_their_line(tmp_path: Path) -> None:
    log = Kept(tmp_path / "access.log")

    async def scenario() -> None:
        async with scene(access_log=log) as opened:
            client = await opened.client()
            session = await client.initialize()
            streamed = await client.call("chat", accept="text/event-stream", mcp_session_id=session)
            assert streamed.fields["x-request-id"]
            leaving = await opened.client()
            await leaving.send(leaving.request("POST", "/mcp", json.dumps({**CALL, "method": "wait"}).encode(),
                                               mcp_session_id=session))  # fmt: skip
            await opened.gateway.waiting.wait()
            await leaving.close()
            await until(opened.gateway.cancelled.is_set)
        _opened, stream, lost = log.trees()
        assert (stream["status"], stream["bytes"] >= len(streamed.body)) == (200, True)
        assert (lost["status"], lost["lost"]) == (0, True)

    run(scenario)


def test_what_is_done_for_a_request_knows_its_id(tmp_path: Path) -> None:
    """Two requests on one connection, and one beside them: each task has its own."""
    log = Kept(tmp_path / "access.log")
    seen: list[str] = []

    async def scenario() -> None:
        async with scene(access_log=log) as opened:
            before = opened.gateway.stateless

            def watched(caller: Any) -> Any:
                talk = before(caller)
                echo = talk._echo  # noqa: SLF001 -- a fake of ours

                async def marked(tree: Any, sink: Any) -> None:
                    await asyncio.sleep(0.001)
                    mark = REQUEST.get()
                    assert mark is not None
                    seen.append(mark.id)
                    await echo(tree, sink)

                talk._echo = marked  # type: ignore[method-assign] # noqa: SLF001
                opened.gateway.stateless = before  # type: ignore[method-assign]
                return talk

            opened.gateway.stateless = watched  # type: ignore[method-assign]
            one, two = await opened.client(), await opened.client()
            for client, name in ((one, "a"), (two, "b"), (one, "c")):
                await client.post({**CALL, "method": "x"}, mcp_protocol_version=MODERN, x_request_id=name)
            assert seen == ["a", "b", "c"]

    run(scenario)


# ---- Lines ---------------------------------------------------------------------------------------------------------


class Pipe:
    """A reader of standard error that reads when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reading, self.writing = os.pipe()
        self._monkeypatch = monkeypatch

    def log(self, form: str) -> Log:
        log = Log(form)
        self._monkeypatch.setattr(log.writer, "_descriptor", self.writing)
        return log

    def close(self) -> str:
        os.close(self.writing)
        with os.fdopen(self.reading, "rb") as reader:
            return reader.read().decode()


@pytest.mark.parametrize("form", [TEXT, JSON])
def test_no_sentence_makes_two_lines_or_steers_a_terminal(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    pipe = Pipe(monkeypatch)
    log = pipe.log(form)
    token = REQUEST.set(RequestMark("id-1", "f" * 32))
    log.note("it said: no\nbyleave: warning: all is well\r\x1b[2J\u202e\udc80\u2028x")
    REQUEST.reset(token)
    log.say("listening")
    log.close()
    written = pipe.close()
    first, *rest = written.splitlines()
    assert not set(written) & set("\r\x1b\u202e\u2028")
    if form == JSON:
        tree = json.loads(first)
        assert (tree["level"], tree["request_id"], tree["trace_id"]) == ("warning", "id-1", "f" * 32)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", tree["time"])
        assert json.loads(rest[0])["message"] == "listening"
        assert len(rest) == 1
    else:
        assert first == "byleave: warning: it said: no"
        assert rest[0].startswith("  byleave: warning: all is well")
        assert rest[1:] == ["byleave: listening"]


def test_a_reader_that_does_not_read_holds_up_nobody_and_learns_what_was_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe = Pipe(monkeypatch)
    log = pipe.log(JSON)
    began = time.monotonic()
    for number in range(4000):
        log.note(f"{number} {'x' * 100}")
    assert time.monotonic() - began < 5, "no line waits for the reader"
    dropped = log.writer.dropped
    assert dropped > 1000
    assert log.writer._size <= 1 << 20  # noqa: SLF001
    got = b""
    while sum(map(int, re.findall(rb"(\d+) lines of the log were dropped", got))) < dropped:
        assert select.select([pipe.reading], [], [], 5)[0], "all of it is said, at once or by and by"
        got += os.read(pipe.reading, 1 << 16)
    assert log.writer.dropped == dropped
    log.writer.close(0.1)
    pipe.close()


def test_an_end_does_not_wait_for_a_reader_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch)
    log = pipe.log(TEXT)
    for _ in range(2000):
        log.note("x" * 200)
    began = time.monotonic()
    log.writer.close(0.1)
    assert time.monotonic() - began < 2
    os.close(pipe.reading)
    os.close(pipe.writing)


def test_with_quiet_only_what_was_asked_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch)
    log = Log(is_quiet=True)
    monkeypatch.setattr(log.writer, "_descriptor", pipe.writing)
    log.note("a warning")
    log.say("listening")
    log.close()
    assert pipe.close() == "byleave: listening\n"


def test_a_log_file_can_be_rotated_and_is_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byleave.gateway.log_lines._LOOK_AGAIN", 0.0)
    path, tell = tmp_path / "log", "{} dropped".format
    writer = LineWriter(tell, str(path))
    writer.put("one")
    ends = time.monotonic() + 5
    while not path.read_text() and time.monotonic() < ends:
        time.sleep(0.005)
    path.rename(tmp_path / "log.1")
    writer.put("two")
    writer.close()
    assert ((tmp_path / "log.1").read_text(), path.read_text()) == ("one\n", "two\n")
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(path)
    for bad in (tmp_path / "link", tmp_path / "nowhere" / "log", tmp_path):
        with pytest.raises(ConfigError, match="the access log cannot be written") as raised:
            LineWriter(tell, str(bad))
        assert str(tmp_path) not in str(raised.value)


def test_a_log_file_whose_directory_is_gone_goes_on_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byleave.gateway.log_lines._LOOK_AGAIN", 0.0)
    place, moved = tmp_path / "logs", tmp_path / "moved"
    place.mkdir()
    writer = LineWriter("{} dropped".format, str(place / "log"))
    place.rename(moved)
    place.write_text("no directory")
    writer.put("one")
    writer.close()
    assert ((moved / "log").read_text(), writer.dropped) == ("one\n", 0)


def test_a_named_pipe_that_no_program_reads_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byleave.gateway.log_lines._LOOK_AGAIN", 0.0)
    pipe, path, tell = tmp_path / "pipe", tmp_path / "log", "{} dropped".format
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="the access log cannot be written"):
        LineWriter(tell, str(pipe))
    writer = LineWriter(tell, str(path))
    path.rename(tmp_path / "log.1")
    pipe.rename(path)
    writer.put("one")
    began = time.monotonic()
    writer.close()
    assert time.monotonic() - began < 1
    assert (tmp_path / "log.1").read_text() == "one\n"


def test_a_line_waits_where_no_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    path = tmp_path / "log"
    writer = LineWriter("{} dropped".format, str(path))
    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", fails)
        writer.put("one")
    writer.put("two")
    writer.close()
    assert path.read_text() == "one\ntwo\n"
