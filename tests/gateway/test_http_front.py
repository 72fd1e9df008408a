"""MCP over HTTP as its revisions have it: sessions, streams, and answers in the form that the client takes."""

import asyncio

import pytest
from msgspec import structs

from byleave.gateway import http_endpoint, http_sessions
from fakes.mcp_front import BRISK, PATIENCE, Client, Settings, run, scene, until

MODERN = "2026-07-28"
PING = b'{"jsonrpc":"2.0","id":5,"method":"echo","params":{"a":1}}'


def test_a_session_begins_with_initialize_and_ends_with_delete() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            assert len(session) >= 22
            assert session.isascii()
            assert session.isprintable()
            answered = await client.post(PING, mcp_session_id=session)
            assert answered.tree["result"]["echo"] == {"a": 1}
            assert answered.fields["content-type"] == "application/json"
            assert "mcp-session-id" not in answered.fields
            assert (await client.ask("DELETE", "/mcp", mcp_session_id=session)).status == 200
            assert (await client.post(PING, mcp_session_id=session)).status == 404
            async with asyncio.timeout(PATIENCE):
                await opened.gateway.talks[0].closed.wait()

    run(scenario)


def test_a_message_outside_of_any_session_is_refused() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            missing, unknown = await client.post(PING), await client.post(PING, mcp_session_id="x" * 32)
            assert (missing.status, missing.tree["id"]) == (400, 5)
            assert (unknown.status, unknown.tree["id"]) == (404, 5)
            for odd in ("x" * 5000, {"a": 1}, [1]):
                assert (await client.post({"jsonrpc": "2.0", "id": odd, "method": "echo"})).tree["id"] is None
            for method in ("GET", "DELETE"):
                assert (await client.ask(method, "/mcp")).status == 400
                assert (await client.ask(method, "/mcp", mcp_session_id="x")).status == 404
            assert opened.gateway.talks == []

    run(scenario)


def test_an_initialize_that_fails_leaves_no_session() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            failed = await client.call("initialize", {"fail": True})
            assert (failed.status, failed.tree["error"]["code"]) == (200, -32602)
            assert "mcp-session-id" not in failed.fields
            assert opened.front.session_count == 0

    run(scenario)


def test_what_the_client_only_tells_is_accepted_and_heard() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            told = (
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": 3, "result": {}},
            )
            for message in told:
                accepted = await client.post(message, mcp_session_id=session)
                assert (accepted.status, accepted.body) == (202, b"")
            assert opened.gateway.talks[0].heard[1:] == list(told)
            wrong = await client.post({"jsonrpc": "2.0", "method": "notifications/wrong"}, mcp_session_id=session)
            assert (wrong.status, wrong.tree["error"]["message"]) == (400, "wrong")

    run(scenario)


def test_a_notification_that_takes_long_does_not_keep_the_client_waiting() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            assert (await client.post({"jsonrpc": "2.0", "method": "wait"}, mcp_session_id=session)).status == 202
            assert not opened.gateway.cancelled.is_set()
            await client.close()
            opened.gateway.go_on.set()

    run(scenario)


def test_an_answer_after_other_messages_ends_a_stream_of_events() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            answered = await client.call("chat", mcp_session_id=session)
            assert answered.fields["content-type"] == "text/event-stream"
            assert [message.get("method", message.get("id")) for message in answered.events] == [
                "notifications/progress",
                1,
            ]
            assert opened.gateway.sent == [True]
            assert (await client.call("echo", mcp_session_id=session)).status == 200

    run(scenario)


def test_a_client_that_takes_json_only_gets_the_answer_only() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            answered = await client.call("chat", mcp_session_id=session, accept="application/json")
            assert answered.tree["id"] == 1
            assert opened.gateway.sent == [False]

    run(scenario)


def test_a_client_that_takes_events_only_gets_events() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            answered = await client.call("echo", mcp_session_id=session, accept="text/event-stream")
            assert [message["id"] for message in answered.events] == [1]

    run(scenario)


def test_a_message_with_line_ends_stays_one_event() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            await client.send(client.request("POST", "/mcp", PING.replace(b"echo", b"lines"), mcp_session_id=session))
            await client.head()
            first = await client.chunk()
            assert first is not None
            assert first.count(b"\n") == 4
            assert first.count(b"\r") == 0

    run(scenario)


def test_a_request_that_is_never_answered_still_ends() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            ended = await client.call("mute", mcp_session_id=session)
            assert (ended.status, ended.tree["id"], ended.tree["error"]["code"]) == (200, 1, -32800)

    run(scenario)


def test_a_long_silence_is_broken_by_signs_of_life() -> None:
    async def scenario() -> None:
        async with scene(limits=structs.replace(BRISK, quiet=0.02)) as opened:
            client, standing = await opened.client(), await opened.client()
            session = await client.initialize()
            await client.send(client.request("POST", "/mcp", PING.replace(b"echo", b"wait"), mcp_session_id=session))
            await standing.send(standing.request("GET", "/mcp", mcp_session_id=session))
            for each in (client, standing):
                assert (await each.head())[1]["content-type"] == "text/event-stream"
                assert [await each.chunk(), await each.chunk()] == [b": alive\n\n"] * 2
            opened.gateway.go_on.set()
            assert (await client.event())["id"] == 5

    run(scenario)


def test_the_standing_stream_carries_what_belongs_to_no_request() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client, first, second = [await opened.client() for _ in range(3)]
            session = await client.initialize()
            talk = opened.gateway.talks[0]
            for stream in (first, second):
                await stream.send(stream.request("GET", "/mcp", mcp_session_id=session))
                assert (await stream.head())[0] == 200
                assert talk.standing is not None
                assert await talk.standing.send(b'{"jsonrpc":"2.0",', b'"method":"changed"}')
                assert await stream.event() == {"jsonrpc": "2.0", "method": "changed"}
            assert await first.chunk() is None  # the newer one has taken its place
            await second.close()
            left = talk.standing
            assert left is not None
            await until(lambda: not left.is_open())
            assert not await left.send(b"{}")

    run(scenario)


def test_a_session_ends_with_its_open_requests() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client, other = await opened.client(), await opened.client()
            session = await client.initialize()
            await client.send(client.request("POST", "/mcp", PING.replace(b"echo", b"wait"), mcp_session_id=session))
            await opened.gateway.waiting.wait()
            assert (await other.ask("DELETE", "/mcp", mcp_session_id=session)).status == 200
            assert (await client.response()).tree["error"]["code"] == -32800

    run(scenario)


BAD = {
    "no JSON": (b"{", {}, 400, -32700),
    "nothing": (b"", {}, 400, -32700),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"echo"}]', {}, 400, -32600),
    "a text": (b'"x"', {}, 400, -32600),
    "a method that is no text": (b'{"method":1}', {}, 400, -32600),
    "nested too deeply": (b'{"params":' + b"[" * 100_000, {}, 400, -32700),
    "text/plain": (PING, {"content_type": "text/plain"}, 415, -32600),
    "no type": (PING, {"content_type": ""}, 415, -32600),
    "packed": (PING, {"content_encoding": "gzip"}, 415, -32600),
    "an image wanted": (PING, {"accept": "image/png"}, 406, -32600),
    "an unknown revision": (PING, {"mcp_protocol_version": "1999-01-01"}, 400, -32022),
}


@pytest.mark.parametrize("case", BAD)
def test_a_post_that_is_no_message_is_refused(case: str) -> None:
    body, fields, status, code = BAD[case]

    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            session = await client.initialize()
            answered = await client.post(body, **{"mcp_session_id": session, **fields})
            assert (answered.status, answered.tree["error"]["code"]) == (status, code)

    run(scenario)


def test_an_unknown_revision_is_told_which_ones_are_spoken() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            data = (await client.post(PING, mcp_protocol_version="2999-01-01")).tree["error"]["data"]
            assert data["requested"] == "2999-01-01"
            assert {"2025-03-26", "2025-06-18", "2025-11-25", MODERN} <= set(data["supported"])

    run(scenario)


def test_a_revision_without_handshake_has_no_sessions() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            fields = {"mcp_protocol_version": MODERN, "mcp_method": "echo", "mcp_name": "x", "mcp_param_a": "1"}
            answered = await client.post(PING, **fields, x_other="2")
            assert (answered.status, answered.tree["id"]) == (200, 5)
            assert "mcp-session-id" not in answered.fields
            assert opened.gateway.talks == []
            talk = opened.gateway.lasting["user"]
            assert talk.told == [{name.replace("_", "-"): value for name, value in fields.items()}]
            for method in ("GET", "DELETE"):
                refused = await client.ask(method, "/mcp", mcp_protocol_version=MODERN)
                assert (refused.status, refused.fields["allow"]) == (405, "POST")
            unknown = await client.call("unknown", mcp_protocol_version=MODERN)
            assert (unknown.status, unknown.tree["error"]["code"]) == (404, -32601)
            response = await client.post({"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_protocol_version=MODERN)
            assert response.status == 400
            notified = await client.post({"jsonrpc": "2.0", "method": "n"}, mcp_protocol_version=MODERN)
            assert notified.status == 202

    run(scenario)


def test_a_routing_header_given_twice_is_a_mismatch() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            whole = client.request("POST", "/mcp", PING, mcp_protocol_version=MODERN, mcp_name="a")
            await client.send(whole.replace(b"mcp-name: a\r\n", b"mcp-name: a\r\nMcp-Name: b\r\n"))
            answered = await client.response()
            assert (answered.status, answered.tree["error"]["code"]) == (400, -32020)

    run(scenario)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("OPTIONS", "/mcp", "POST, GET, DELETE"),
        ("HEAD", "/mcp", "POST, GET, DELETE"),
        ("PUT", "/mcp", "POST, GET, DELETE"),
        ("POST", "/sse", "GET"),
        ("GET", "/messages", "POST"),
        ("DELETE", "/health", "GET"),
        ("BREW", "/metrics", "GET"),
    ],
)
def test_other_methods_are_told_which_ones_there_are(method: str, path: str, allowed: str) -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            answered = await client.ask(method, path)
            assert (answered.status, answered.fields["allow"]) == (405, allowed)
            assert (await client.ask("GET", "/health")).tree == {"status": "ok"}

    run(scenario)


def test_there_is_nothing_else() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            for path in ("/", "/mcp/x", "/%6dcp", "//mcp", "/mcp/../metrics", "/MCP"):
                assert (await client.ask("GET", path)).status == 404, path

    run(scenario)


def test_health_and_metrics_are_told() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            assert (await client.ask("GET", "/health")).tree == {"status": "ok"}
            measured = await client.ask("GET", "/metrics")
            assert (measured.status, measured.body) == (200, b"byleave_calls_total 7\n")

    run(scenario)


async def old_session(client: Client) -> str:
    """Open a stream of revision 2024-11-05, and return where its messages go."""
    await client.send(client.request("GET", "/sse"))
    assert (await client.head())[0] == 200
    event = await client.event()
    assert event["event"] == "endpoint"
    return str(event["data"])


def test_the_oldest_revision_is_answered_through_its_stream() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            stream, client = await opened.client(), await opened.client()
            path = await old_session(stream)
            assert path.startswith("/messages?session_id=")
            for method in ("initialize", "chat"):
                body = b'{"jsonrpc":"2.0","id":9,"method":"%b"}' % method.encode()
                assert (await client.ask("POST", path, body)).status == 202
            assert [(await stream.event()).get("id") for _ in range(3)] == [9, None, 9]
            assert (await client.ask("POST", path, PING.replace(b"echo", b"wait"))).status == 202
            await opened.gateway.waiting.wait()
            await stream.close()
            async with asyncio.timeout(PATIENCE):
                await opened.gateway.cancelled.wait()
                await opened.gateway.talks[0].closed.wait()
            assert (await client.ask("POST", path, PING)).status == 404

    run(scenario)


def test_sessions_of_the_two_kinds_are_not_mixed() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            stream, client = await opened.client(), await opened.client()
            old, new = (await old_session(stream)).partition("=")[2], await client.initialize()
            assert (await client.post(PING, mcp_session_id=old)).status == 404
            assert (await client.ask("POST", f"/messages?session_id={new}", PING)).status == 404
            assert (await client.ask("POST", "/messages", PING)).status == 404

    run(scenario)


def test_a_new_session_takes_the_place_of_the_one_that_rested_longest() -> None:
    async def scenario() -> None:
        async with scene(settings=Settings(max_sessions=2)) as opened:
            client = await opened.client()
            first, second = await client.initialize(), await client.initialize()
            assert (await client.post(PING, mcp_session_id=first)).status == 200
            third = await client.initialize()
            statuses = [(await client.post(PING, mcp_session_id=each)).status for each in (first, second, third)]
            assert statuses == [200, 404, 200]

    run(scenario)


def test_sessions_in_use_make_no_room() -> None:
    async def scenario() -> None:
        async with scene(settings=Settings(max_sessions=1)) as opened:
            client, other = await opened.client(), await opened.client()
            session = await client.initialize()
            await client.send(client.request("POST", "/mcp", PING.replace(b"echo", b"wait"), mcp_session_id=session))
            await opened.gateway.waiting.wait()
            assert (await other.call("initialize", {})).status == 503
            assert (await other.ask("GET", "/sse")).status == 503
            opened.gateway.go_on.set()
            assert (await client.response()).tree["id"] == 5
            assert (await other.call("initialize", {})).status == 200

    run(scenario)


def test_a_session_that_rests_too_long_ends_unless_its_stream_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sessions, "LONGEST_REST", 0.05)

    async def scenario() -> None:
        async with scene() as opened:
            client, standing = await opened.client(), await opened.client()
            session = await client.initialize()
            await standing.send(standing.request("GET", "/mcp", mcp_session_id=session))
            await standing.head()
            await client.initialize()
            async with asyncio.timeout(PATIENCE):
                await opened.gateway.talks[1].closed.wait()
            assert (await client.post(PING, mcp_session_id=session)).status == 200
            await standing.close()
            async with asyncio.timeout(PATIENCE):
                await opened.gateway.talks[0].closed.wait()

    run(scenario)


def test_what_is_told_cannot_pile_up_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "_MOST_OPEN", 3)

    async def scenario() -> None:
        async with scene() as opened:
            stream, client = await opened.client(), await opened.client()
            path, session = await old_session(stream), await client.initialize()
            told = b'{"jsonrpc":"2.0","method":"wait"}'
            old = [(await client.ask("POST", path, told)).status for _ in range(4)]
            new = [(await client.post(told, mcp_session_id=session)).status for _ in range(4)]
            assert old == new == [202, 202, 202, 429]

    run(scenario)
