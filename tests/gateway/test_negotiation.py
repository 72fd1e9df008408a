"""Which revision is spoken with a server, whatever it makes of questions that it does not know: over HTTP and pipes."""

import asyncio
from asyncio import StreamWriter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, structs

from byleave.gateway import server_connection
from byleave.gateway.interfaces import DownError
from byleave.gateway.limits import Backoff
from byleave.gateway.links import make_link
from byleave.gateway.requests import ServerAnswer, ServerLost
from byleave.gateway.server_connection import BY_HANDSHAKE, WITHOUT, NegotiationMemory
from byleave.gateway.upstream import Upstream
from fakes.mcp_servers import SCRIPT, Asked, far, over_http, plain, reached, result, run, surroundings, web
from fakes.mcp_talk import FakeServer, Talk
from sandbox.machine import PYTHON, needs_sandbox

DISCOVER, INITIALIZE = "server/discover", "initialize"
MODERN = "2026-07-28"
LONGEST = {"start": 15.0}
SHORT = 0.4  # seconds for which one that says nothing is waited for
FOUND = '{"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}'
SHAKEN = '{"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}}'


class Client:
    """A client's session, as far as an upstream has to do with it."""

    is_shared = False

    def __init__(self, *, shakes: bool = False) -> None:
        self._shakes = shakes

    def client_capabilities(self, _server: str) -> Mapping[str, Any]:
        return {"sampling": {}} if self._shakes else {}

    def shakes_hands(self, _server: str) -> bool:
        return self._shakes

    def notified(self, *_told: Any) -> None: ...

    def asked(self, *_told: Any) -> None: ...

    def opened(self, *_told: Any) -> None: ...

    def warned(self, *_told: Any) -> None: ...

    def gone(self, *_told: Any) -> None: ...


def upstream_of(server: Any, how: Any, shared: Any, memory: NegotiationMemory, *, shakes: bool = False) -> Upstream:
    return Upstream(
        "far",
        lambda receiver: make_link(server, how, receiver, shared),
        Client(shakes=shakes),
        Backoff(),
        patience=5.0,
        longest_start=LONGEST["start"],
        memory=memory,
        starting=asyncio.Semaphore(4),
    )


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "PROBE_TIME", SHORT)
    monkeypatch.setattr(server_connection, "SHAKE_TIME", SHORT)


# ---- Over HTTP -----------------------------------------------------------------------------------------------------

HTML = b"<html><body>Not here</body></html>"
NO_ID = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}'
ODD: dict[str, bytes | None] = {
    "an error of any status": plain("400 Bad Request", NO_ID),
    "404": plain("404 Not Found"),
    "405": plain("405 Method Not Allowed", b"", "text/plain", "Allow: GET"),
    "406": plain("406 Not Acceptable", NO_ID),
    "415": plain("415 Unsupported Media Type", HTML, "text/html"),
    "500": plain("500 Internal Server Error", HTML, "text/html"),
    "a page": plain("200 OK", HTML, "text/html"),
    "a redirect": plain("302 Found", b"", "text/plain", "Location: http://127.0.0.1:9/"),
    "nothing": plain("202 Accepted"),
    "no JSON": plain("200 OK", b"{nonsense"),
    "an answer to another": plain("200 OK", NO_ID),
    "a closed connection": b"",
    "silence": None,
}


def errors() -> dict[str, bytes]:
    numbers = (-32601, -32600, -32602, -32603, -32700, -32000, -32001, -32002, 0, 404)
    return {str(each): b'{"jsonrpc":"2.0","id":"ID","error":{"code":%d,"message":"no"}}' % each for each in numbers}


ODD |= {
    f"the error {number} with {status}": plain(status, body.replace(b"ID", b"b1"))
    for number, body in errors().items()
    for status in ("200 OK", "400 Bad Request")
}


@asynccontextmanager
async def asked_at(reactions: Mapping[str, bytes | None]) -> AsyncIterator[tuple[str, list[Asked]]]:
    """Run a web server that does this with methods; None: it says nothing, and closes nothing."""

    async def handle(asked: Asked, writer: StreamWriter) -> None:
        method = asked.body.partition(b'"method":"')[2].partition(b'"')[0].decode()
        reaction = reactions.get(method, plain("202 Accepted"))
        if reaction is None:
            await asyncio.sleep(20)
        elif not reaction:
            writer.close()
        else:
            writer.write(reaction.replace(b'"id":"b1"', b'"id":"%b"' % asked.id.encode()))

    async with web(handle) as server:
        yield server.url, server.asked


def yes(text: str) -> bytes:
    return plain("200 OK", result("b1", text))


def methods(asked: list[Asked]) -> list[str]:
    found = [each.body.partition(b'"method":"')[2].partition(b'"')[0].decode() for each in asked if each.body]
    return [each for each in found if each in (DISCOVER, INITIALIZE)]


def meet_over_http(
    root: Path, reactions: Mapping[str, bytes | None], check: Callable[[Upstream, list[Asked]], None], **more: Any
) -> None:
    async def scenario() -> None:
        async with asked_at(reactions) as (url, asked):
            shared = surroundings(root)
            upstream = upstream_of(*over_http(url), shared, NegotiationMemory(), **more)
            try:
                await upstream.ready()
                check(upstream, asked)
            finally:
                await upstream.close()
                await shared.close()

    run(scenario())


@pytest.mark.parametrize("odd", ODD)
def test_an_older_web_server_may_make_anything_of_discovery(tmp_path: Path, odd: str) -> None:
    def check(upstream: Upstream, asked: list[Asked]) -> None:
        assert upstream.revision == "2025-06-18"
        assert list(dict.fromkeys(methods(asked))) == [DISCOVER, INITIALIZE]
        first, begun = asked[0], next(each for each in asked if b'"initialize"' in each.body)
        assert first.headers["mcp-protocol-version"] == MODERN
        assert first.headers["mcp-method"] == DISCOVER
        assert "mcp-protocol-version" not in begun.headers

    meet_over_http(tmp_path, {DISCOVER: ODD[odd], INITIALIZE: yes(SHAKEN)}, check)


@pytest.mark.parametrize("odd", ODD)
def test_a_newer_web_server_may_make_anything_of_a_handshake(tmp_path: Path, odd: str) -> None:
    def check(upstream: Upstream, asked: list[Asked]) -> None:
        assert upstream.revision == MODERN
        assert methods(asked)[0] == INITIALIZE  # for a client that shook hands, and can be asked something
        assert DISCOVER in methods(asked)

    meet_over_http(tmp_path, {DISCOVER: yes(FOUND), INITIALIZE: ODD[odd]}, check, shakes=True)


def test_a_newer_web_server_is_not_asked_to_shake_hands(tmp_path: Path) -> None:
    def check(upstream: Upstream, asked: list[Asked]) -> None:
        assert (upstream.revision, methods(asked)) == (MODERN, [DISCOVER])

    meet_over_http(tmp_path, {DISCOVER: yes(FOUND), INITIALIZE: yes(SHAKEN)}, check)


def test_a_client_that_can_be_asked_keeps_its_own_way_where_a_server_has_both(tmp_path: Path) -> None:
    def check(upstream: Upstream, asked: list[Asked]) -> None:
        assert (upstream.revision, methods(asked)) == ("2025-06-18", [INITIALIZE])

    meet_over_http(tmp_path, {DISCOVER: yes(FOUND), INITIALIZE: yes(SHAKEN)}, check, shakes=True)


@pytest.mark.parametrize(
    ("reactions", "why"),
    [
        ({DISCOVER: plain("401 Unauthorized"), INITIALIZE: plain("401 Unauthorized")}, "answered 401"),
        ({DISCOVER: plain("500 Oops"), INITIALIZE: yes('{"protocolVersion": "1999-01-01"}')}, "1999-01-01"),
        ({DISCOVER: yes('{"supportedVersions": ["2031-01-01"]}'), INITIALIZE: plain("404 Not Found")}, "2031-01-01"),
        ({DISCOVER: ODD["the error -32601 with 200 OK"], INITIALIZE: ODD["the error -32603 with 200 OK"]}, "refused"),
    ],
)
def test_a_server_that_speaks_nothing_that_we_do_is_down_and_says_why(
    tmp_path: Path, reactions: dict[str, bytes | None], why: str
) -> None:
    with pytest.raises(DownError, match=why):
        meet_over_http(tmp_path, reactions, lambda *_: None)


def test_a_refusal_that_names_our_revision_is_asked_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        seen: list[Asked] = []

        async def handle(asked: Asked, writer: StreamWriter) -> None:
            seen.append(asked)
            data = b'{"supported":["2026-07-28"],"requested":"2026-07-28"}'
            refusal = b'{"jsonrpc":"2.0","id":"%b","error":{"code":-32022,"message":"no","data":%b}}'
            body = refusal % (asked.id.encode(), data) if len(seen) == 1 else result(asked.id, FOUND)
            writer.write(plain("400 Bad Request" if len(seen) == 1 else "200 OK", body))

        async with web(handle) as server:
            shared = surroundings(tmp_path)
            upstream = upstream_of(*over_http(server.url), shared, NegotiationMemory())
            await upstream.ready()
            assert (upstream.revision, methods(seen)) == (MODERN, [DISCOVER, DISCOVER])
            await upstream.close()
            await shared.close()

    run(scenario())


def test_one_that_is_always_refused_is_not_asked_for_ever(tmp_path: Path) -> None:
    data = b'{"supported":["2026-07-28"],"requested":"2026-07-28"}'
    refusal = plain(
        "400 Bad Request", b'{"jsonrpc":"2.0","id":"b1","error":{"code":-32022,"message":"never","data":%b}}' % data
    )
    with pytest.raises(DownError, match="never"):
        meet_over_http(tmp_path, {DISCOVER: refusal, INITIALIZE: refusal}, lambda *_: None)


# ---- Over a pipe ---------------------------------------------------------------------------------------------------


def meet_over_a_pipe(
    root: Path, discover: str, initialize: str, memory: NegotiationMemory, **more: Any
) -> tuple[str, list[str]]:
    """Return what is spoken with a server that reacts like this, and what it was asked, over all its lives."""
    heard: list[str] = []

    async def scenario() -> None:
        shared = surroundings(root, os_sandbox="off", on_stderr=lambda _name, line: heard.append(line.decode().strip()))
        how = reached(command=(PYTHON, "-IS", str(SCRIPT), "negotiates", discover, initialize))
        upstream = upstream_of(far(), how, shared, memory, **more)
        try:
            await upstream.ready()
            found.append(upstream.revision)
        finally:
            await upstream.close()
            await shared.close()

    found: list[str] = []
    run(scenario())
    said = "\n".join(heard)
    return found[0], [each for each in said.split() if each in (DISCOVER, INITIALIZE)]


REACTIONS = ["-32601", "-32600", "-32602", "-32603", "0", "nonsense", "silence", "exit"]


@needs_sandbox
@pytest.mark.parametrize("odd", REACTIONS)
def test_an_older_program_may_make_anything_of_discovery_but_once(tmp_path: Path, odd: str) -> None:
    memory = NegotiationMemory()
    assert meet_over_a_pipe(tmp_path, odd, "yes", memory) == ("2025-06-18", [DISCOVER, INITIALIZE])
    assert memory.worked == {False: BY_HANDSHAKE}
    assert meet_over_a_pipe(tmp_path, odd, "yes", memory) == ("2025-06-18", [INITIALIZE])


@needs_sandbox
@pytest.mark.parametrize("odd", [each for each in REACTIONS if each != "exit"])
def test_a_newer_program_may_make_anything_of_a_handshake_but_once(tmp_path: Path, odd: str) -> None:
    memory = NegotiationMemory()
    assert meet_over_a_pipe(tmp_path, "yes", odd, memory, shakes=True) == (MODERN, [INITIALIZE, DISCOVER])
    assert memory.worked == {True: WITHOUT}
    assert meet_over_a_pipe(tmp_path, "yes", odd, memory, shakes=True) == (MODERN, [DISCOVER])


@needs_sandbox
def test_a_program_that_is_stuck_after_discovery_works_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = NegotiationMemory()
    with monkeypatch.context() as patch:
        patch.setitem(LONGEST, "start", 2.0)
        with pytest.raises(DownError, match="did not finish"):
            meet_over_a_pipe(tmp_path, "stuck", "yes", memory)
    assert meet_over_a_pipe(tmp_path, "stuck", "yes", memory) == ("2025-06-18", [INITIALIZE])


def test_one_that_is_late_again_is_asked_in_both_ways_again() -> None:
    memory = NegotiationMemory()
    known = []
    for _ in range(4):
        memory.was_late(handshake_first=False)
        known.append(memory.worked.get(False))
    assert known == [BY_HANDSHAKE, None, BY_HANDSHAKE, None]


@needs_sandbox
def test_a_program_that_ends_whatever_it_is_asked_is_started_twice_and_not_more(tmp_path: Path) -> None:
    with pytest.raises(DownError, match="exit code 1"):
        meet_over_a_pipe(tmp_path, "exit", "exit", NegotiationMemory())


# ---- In a gateway --------------------------------------------------------------------------------------------------


def begun(server: FakeServer) -> list[str]:
    return [each for each in server.methods() if each in (DISCOVER, INITIALIZE)]


def test_both_revisions_are_spoken_in_one_gateway_and_each_is_found_out_once(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        for _ in (1, 2):
            client, modern = talk.client(), talk.stateless()
            await client.begin()
            assert await client.names() == ["both__c", "new__b", "old__a"]
            assert await modern.names() == ["both__c", "new__b", "old__a"]
            for name in ("both__c", "new__b", "old__a"):
                assert (await client.call(name))["result"]["content"][0]["text"] == name[-1]
                assert (await modern.call(name))["result"]["content"][0]["text"] == name[-1]
            await client.session.close()
            await modern.session.close()
        assert begun(talk.servers["old"]).count(DISCOVER) <= 2  # by the two clients that came at once
        assert INITIALIZE not in begun(talk.servers["new"])
        assert INITIALIZE not in begun(talk.servers["both"])

    play(
        scene,
        old=FakeServer("a"),
        new=FakeServer("b", refuses_handshake=True),
        both=FakeServer("c", discovers=True),
    )


def test_what_was_learnt_is_forgotten_when_the_server_is_another_one(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client()
        await client.begin()
        await client.names()
        server = talk.gateway.servers["old"]
        known = talk.gateway.pool.memory_of(server)
        assert known.worked == {False: BY_HANDSHAKE}
        assert talk.gateway.pool.memory_of(server) is known
        assert talk.gateway.pool.memory_of(structs.replace(server, description="other")).worked == {}

    play(scene, old=FakeServer("a"))


def test_a_server_that_learnt_the_other_way_is_found_out_anew(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        server = talk.servers["shop"]
        for refuses in (False, True, False):
            server.refuses_handshake = refuses
            client = talk.client()
            await client.begin()
            assert (await client.call("shop__a"))["result"]["content"][0]["text"] == "a"
            await client.session.close()

    play(scene, shop=FakeServer("a"))


def test_a_server_over_the_older_transport_is_never_asked_for_the_newer_revision(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        server = structs.replace(talk.gateway.servers["shop"], transport="sse")
        memory = talk.gateway.pool.memory_of(server)
        asked: list[str] = []

        async def ask(method: str, params: Mapping[str, Any], revision: str) -> ServerAnswer | ServerLost:
            assert (params["protocolVersion"], revision) == ("2025-11-25", "")
            asked.append(method)
            return ServerAnswer(None, Raw(b'{"code": -32601, "message": "no"}'))

        with pytest.raises(DownError, match="no"):
            await server_connection.negotiate(ask, memory, {}, handshake_first=False, hint="")
        assert asked == [INITIALIZE]

    play(scene)
