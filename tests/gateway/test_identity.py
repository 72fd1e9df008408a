"""Who is calling is proven, or claimed from this machine by its user, or nobody."""

import asyncio
from hashlib import sha256

import pytest

from byleave.errors import ConfigError, InputError
from byleave.gateway.http_front import serve_http
from byleave.gateway.http_trust import check_address, is_foreign, names_us
from byleave.gateway.identity import Identity
from fakes.mcp_front import FakeGateway, Settings, run, scene

CALL = b'{"jsonrpc":"2.0","id":5,"method":"echo"}'
MODERN = "2026-07-28"


def hashed(token: str) -> tuple[str, ...]:
    return ("sha256:" + sha256(token.encode()).hexdigest(),)


TOKENS = {"backend": hashed("t-backend"), "other": (hashed("t-other")[0].removeprefix("sha256:"), *hashed("t-second"))}

CALLERS: list[tuple[dict[str, str], object]] = [
    ({"authorization": "Bearer t-backend"}, ["backend", "verified", "token:backend"]),
    ({"authorization": "bearer t-other"}, ["other", "verified", "token:other"]),
    ({"authorization": "Bearer t-second"}, ["other", "verified", "token:other"]),
    ({"authorization": "Bearer t-backend", "x_byleave_agent": "admin"}, ["backend", "verified", "token:backend"]),
    ({}, [None, "default", "user"]),
    ({"x_byleave_agent": "someone"}, ["someone", "claimed", "user"]),
    ({"x_byleave_agent": "backend"}, 401),
    ({"x_byleave_agent": "ci-7"}, 401),
    ({"x_byleave_agent": "a\tb"}, 400),
    ({"x_byleave_agent": "\xe4"}, 400),
    ({"x_byleave_agent": "x" * 300}, 400),
    ({"authorization": "Bearer wrong"}, 401),
    ({"authorization": "Bearer t-backend "}, ["backend", "verified", "token:backend"]),
    ({"authorization": "Bearer  t-backend"}, 401),
    ({"authorization": "Bearer"}, 401),
    ({"authorization": "Basic dC1iYWNrZW5k"}, 401),
    ({"authorization": "t-backend"}, 401),
    ({"authorization": "Bearer \xfc"}, 401),
    ({"authorization": "Bearer " + hashed("t-backend")[0]}, 401),
]


@pytest.mark.parametrize(("fields", "expected"), CALLERS, ids=str)
def test_a_caller_is_who_it_proves_or_else_claims_to_be(fields: dict[str, str], expected: object) -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, bound=("ci-*",)) as opened:
            client = await opened.client()
            answered = await client.post(CALL, mcp_protocol_version=MODERN, **fields)
            found = answered.tree["result"]["who"] if answered.status == 200 else answered.status
            assert found == expected
            assert answered.status != 401 or answered.fields["www-authenticate"].startswith("Bearer ")

    run(scenario)


def test_a_proven_caller_does_not_pass_on_what_it_claims() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            for fields in ({"authorization": "Bearer t-backend"}, {}):
                await client.post(CALL, mcp_protocol_version=MODERN, x_byleave_agent="x", **fields)
            told = [opened.gateway.lasting[name].told[0] for name in ("token:backend", "user")]
            assert [each.get("x-byleave-agent") for each in told] == [None, "x"]

    run(scenario)


def test_where_identity_is_required_nothing_else_will_do() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, settings=Settings(require_identity=True)) as opened:
            client = await opened.client()
            for fields in ({}, {"x_byleave_agent": "someone"}):
                answered = await client.post(CALL, mcp_protocol_version=MODERN, **fields)
                assert (answered.status, answered.fields["www-authenticate"]) == (401, 'Bearer realm="byleave"')
            for path in ("/metrics", "/sse", "/mcp"):
                assert (await client.ask("GET", path)).status == 401, path
            assert (await client.ask("GET", "/health")).status == 200
            assert (await client.ask("GET", "/metrics", authorization="Bearer t-other")).status == 200
            assert not opened.front.identity.may_claim("someone")

    run(scenario)


def test_a_stolen_session_id_is_worth_nothing() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            session = await client.initialize(authorization="Bearer t-backend")
            unknown = await client.post(CALL, mcp_session_id="x" * 32, authorization="Bearer t-other")
            for fields in ({"authorization": "Bearer t-other"}, {}, {"x_byleave_agent": "someone"}):
                stolen = await client.post(CALL, mcp_session_id=session, **fields)
                assert (stolen.status, stolen.body) == (404, unknown.body)
                for method in ("GET", "DELETE"):
                    assert (await client.ask(method, "/mcp", b"", mcp_session_id=session, **fields)).status == 404
            assert (await client.post(CALL, mcp_session_id=session, authorization="Bearer t-backend")).status == 200
            assert len(opened.gateway.talks[0].heard) == 2

    run(scenario)


def test_a_stolen_stream_of_the_oldest_revision_is_worth_nothing() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            stream, thief = await opened.client(), await opened.client()
            await stream.send(stream.request("GET", "/sse", authorization="Bearer t-backend"))
            await stream.head()
            path = (await stream.event())["data"]
            assert (await thief.ask("POST", path, CALL, authorization="Bearer t-other")).status == 404
            assert (await thief.ask("POST", path, CALL, authorization="Bearer t-backend")).status == 202

    run(scenario)


REBOUND: list[tuple[dict[str, str], int]] = [
    ({"host": "evil.example"}, 403),
    ({"host": "evil.example:{port}"}, 403),
    ({"host": "127.0.0.1:1"}, 403),
    ({"host": "localhost"}, 403),
    ({"host": "localhost.evil.example:{port}"}, 403),
    ({"host": "127.0.0.1.evil.example:{port}"}, 403),
    ({"host": "evil.example@127.0.0.1:{port}"}, 403),
    ({"host": "localhost.:{port}"}, 403),
    ({"host": "0.0.0.0:{port}"}, 403),
    ({"host": "2130706433:{port}"}, 403),
    ({"host": "LocalHost:{port}"}, 200),
    ({"host": "[::1]:{port}"}, 200),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "http://evil.example:{port}", "host": "evil.example:{port}"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://localhost.evil.example"}, 403),
    ({"origin": "http://localhost@evil.example"}, 403),
    ({"origin": "file://"}, 403),
    ({"origin": "chrome-extension://abcdef"}, 403),
    ({"sec_fetch_site": "cross-site"}, 403),
    ({"origin": "http://localhost:6274"}, 200),
    ({"origin": "HTTPS://127.0.0.1"}, 200),
    ({"origin": "http://[::1]:{port}", "sec_fetch_site": "same-site"}, 200),
]


def test_a_page_of_another_origin_gets_nowhere_whatever_name_leads_here() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            client = await opened.client()
            for fields, status in REBOUND:
                named = {name: value.replace("{port}", str(opened.port)) for name, value in fields.items()}
                assert (await client.post(CALL, mcp_protocol_version=MODERN, **named)).status == status, fields
                if status == 403 and "host" not in fields:
                    assert (await client.ask("GET", "/health", b"", **named)).status == 403, fields
            assert (await client.ask("GET", "/sse", host="evil.example")).status == 403
            assert (await client.ask("GET", "/metrics", host="evil.example")).status == 403

    run(scenario)


def test_with_a_token_the_host_is_free_but_the_origin_must_be_ours_or_the_same() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            proof = {"authorization": "Bearer t-backend", "mcp_protocol_version": MODERN, "host": "gate.example"}
            expected = {"": 200, "http://gate.example": 200, "http://gate.example:81": 403, "http://evil.example": 403}
            for origin, status in {**expected, "https://gate.example": 200, "http://localhost:1": 200}.items():
                assert (await client.post(CALL, **proof, origin=origin)).status == status, origin
            assert (await client.post(CALL, **{**proof, "authorization": ""})).status == 401

    run(scenario)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "192.0.2.1", "example.com", "localhost.example.com", "::ffff:8.8.8.8"],  # noqa: S104 -- refused
)
def test_without_tokens_only_this_machine_is_listened_to(host: str) -> None:
    with pytest.raises(InputError) as caught:
        check_address(host, has_identity=False)
    assert caught.value.exit_code == 2
    check_address(host, has_identity=True)
    with pytest.raises(InputError):
        asyncio.run(_serve(host))


async def _serve(host: str) -> None:
    await serve_http(FakeGateway(), host, 0, settings=Settings(), tokens={"a": ()})


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "[::1]"])
def test_this_machine_needs_no_tokens(host: str) -> None:
    try:
        check_address(host, has_identity=False)
    except InputError as refused:
        pytest.fail(f"refused: {refused}")


def test_an_address_that_is_taken_is_an_error_for_people() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            with pytest.raises(InputError, match="cannot listen on"):
                await serve_http(FakeGateway(), "127.0.0.1", opened.port, settings=Settings(), tokens={})

    run(scenario)


def test_new_settings_hold_at_once_and_end_the_streams_that_old_tokens_opened() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client, standing = await opened.client(), await opened.client()
            proof = {"authorization": "Bearer t-backend"}
            session = await client.initialize(**proof)
            await standing.send(standing.request("GET", "/mcp", b"", mcp_session_id=session, **proof))
            await standing.head()
            assert await standing.chunk() == b": alive\n\n"
            await opened.front.renew(settings=Settings(max_body=100), tokens=TOKENS)
            talk = opened.gateway.talks[0]
            assert talk.standing is not None
            assert talk.standing.is_open()  # nothing that concerns it has changed
            await opened.front.renew(settings=Settings(max_body=100), tokens={"backend": hashed("t-new")})
            assert await standing.chunk() is None
            assert (await client.post(CALL, mcp_session_id=session, **proof)).status == 401
            renewed = {"authorization": "Bearer t-new"}
            assert (await client.post(CALL, mcp_session_id=session, **renewed)).status == 200
            assert (await client.post(b"x" * 101, mcp_session_id=session, **renewed)).status == 413

    run(scenario)


def test_a_token_that_is_revoked_is_refused_on_a_connection_that_has_sent_it_before() -> None:
    """A head that was read before means the same caller only as long as the settings say so."""

    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            for body in (CALL, CALL + b" " * 30):
                answered = await client.post(body, mcp_protocol_version=MODERN, authorization="Bearer t-backend")
                assert answered.tree["result"]["who"][0] == "backend"
            await opened.front.renew(settings=Settings(), tokens={"other": hashed("t-backend"), "backend": ()})
            answered = await client.post(CALL, mcp_protocol_version=MODERN, authorization="Bearer t-backend")
            assert answered.tree["result"]["who"][0] == "other"
            await opened.front.renew(settings=Settings(), tokens={"other": hashed("t-new")})
            answered = await client.post(CALL, mcp_protocol_version=MODERN, authorization="Bearer t-backend")
            assert answered.status == 401

    run(scenario)


def test_new_settings_that_would_open_the_gateway_to_all_are_refused() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, host="0.0.0.0") as opened:  # noqa: S104 -- the point
            with pytest.raises(InputError, match="without tokens"):
                await opened.front.renew(settings=Settings(), tokens={})
            client = await opened.client()
            gone = await client.ask("GET", "/metrics", authorization="Bearer t-other")
            assert gone.status == (await client.ask("GET", "/metrics")).status == 401, (
                "what is gone is not good any more"
            )
            await opened.front.renew(settings=Settings(), tokens=TOKENS)
            assert (await client.ask("GET", "/metrics", authorization="Bearer t-other")).status == 200

    run(scenario)


def test_a_flood_of_sessions_pushes_out_only_its_own() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, settings=Settings(max_sessions=5)) as opened:
            client = await opened.client()
            mine, theirs = {"authorization": "Bearer t-backend"}, {"authorization": "Bearer t-other"}
            session = await client.initialize(**mine)
            for _ in range(20):
                await client.initialize(**theirs)
            assert (await client.post(CALL, mcp_session_id=session, **mine)).status == 200

    run(scenario)


def test_nobody_fills_our_memory_without_being_let_in() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, settings=Settings(require_identity=True)) as opened:
            for framing in ("Content-Length: 8000000", "Transfer-Encoding: chunked"):
                client = await opened.client()
                fields = f"Host: x\r\nContent-Type: application/json\r\n{framing}"
                await client.send(f"POST /mcp HTTP/1.1\r\n{fields}\r\n\r\n1\r\n".encode())
                answered = await client.response()
                assert (answered.status, answered.fields["connection"]) == (401, "close")
                assert await client.ended() == b""

    run(scenario)


def test_one_token_for_two_agents_is_refused() -> None:
    with pytest.raises(ConfigError, match="have the same token"):
        Identity(tokens={"a": hashed("x"), "b": hashed("x")})


def test_a_bound_agent_is_never_merely_claimed() -> None:
    identity = Identity(tokens={"a": hashed("x"), "free": ()}, bound=["ci-*", "b"])
    assert [identity.may_claim(name) for name in ("a", "b", "ci-1", "free", "c")] == [False, False, False, True, True]


def test_the_default_port_may_be_left_out() -> None:
    assert names_us("localhost", "127.0.0.1", 80)
    assert names_us("127.0.0.9:80", "127.0.0.9", 80)
    assert not is_foreign({"origin": "http://gate.example:80", "host": "gate.example"})


def test_sessions_with_streams_make_room_for_others_too() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS, settings=Settings(max_sessions=5)) as opened:
            mine, theirs = {"authorization": "Bearer t-backend"}, {"authorization": "Bearer t-other"}
            for _ in range(5):
                client = await opened.client()
                session = await client.initialize(**theirs)
                stream = await opened.client()
                await stream.send(
                    stream.request("GET", "/mcp", b"", accept="text/event-stream", mcp_session_id=session, **theirs)
                )
                assert (await stream.head())[0] == 200
            client = await opened.client()
            assert await client.initialize(**mine)

    run(scenario)
