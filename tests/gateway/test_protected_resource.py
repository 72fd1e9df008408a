"""A client without a token learns where to get one, and one whose token does not do learns why: by headers alone."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import httpx2
import pytest
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth, extract_scope_from_www_auth
from mcp.shared.auth import ProtectedResourceMetadata

from byleave.gateway.protected_resource import Challenge, ProtectedResource, resource_at
from byleave.net.peers import PeerAddress
from byleave.policy.gateway_settings import IdentityRule, ScopeRule
from fakes.mcp_front import Client, Jwt, Scene, Settings, run, scene, until
from fakes.token_issuer import AUDIENCE, TokenIssuer, issuing

CALL = b'{"jsonrpc":"2.0","id":5,"method":"echo"}'
MODERN = "2026-07-28"
PLACE = "/.well-known/oauth-protected-resource"
METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"


def play(scenario: Callable[[Scene, TokenIssuer, Client], Awaitable[None]], **settings: Any) -> None:
    """Play a scenario with one issuer, whose agents are known by their group, and a client of the gateway."""

    async def whole() -> None:
        async with issuing() as issuer:
            issuer.publish()
            known = Jwt(issuer=issuer.issuer, audience=AUDIENCE, agent_claim=None)
            rules = (IdentityRule("builder", (("groups", "builders"),)),)
            given = {"public_url": AUDIENCE, "issuers": (known,), "identities": rules, **settings}
            tokens = {"ours": (sha256(b"ours").hexdigest(),)}
            async with scene(settings=Settings(**given), tokens=tokens, bound=("builder",)) as opened:
                await scenario(opened, issuer, await opened.client())

    run(whole)


def bearer(issuer: TokenIssuer, **claims: Any) -> dict[str, str]:
    token = issuer.token(**{"groups": ["builders"], **claims})
    return {"authorization": f"Bearer {token}", "mcp_protocol_version": MODERN}


def test_the_metadata_is_open_to_all_and_comes_from_the_configuration() -> None:
    async def scenario(_opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        for path in (PLACE, f"{PLACE}/mcp"):
            found = await client.ask("GET", path, host="evil.example:80")
            assert (found.status, found.fields["content-type"]) == (200, "application/json")
            assert found.fields["cache-control"] == "public, max-age=300"
            assert found.tree == {
                "resource": AUDIENCE,
                "authorization_servers": [issuer.issuer],
                "bearer_methods_supported": ["header"],
                "resource_name": "byleave MCP gateway",
                "scopes_supported": ["mcp", "tools:write"],
            }
        assert (await client.ask("POST", PLACE, b"{}")).status == 405
        assert (await client.ask("DELETE", PLACE)).status == 405
        assert (await client.ask("GET", f"{PLACE}/other")).status == 404
        assert (await client.ask("GET", PLACE, origin="https://evil.example")).status == 403

    scopes = (ScopeRule("mcp", all=True), ScopeRule("tools:write", ("github",)))
    play(scenario, require_identity=True, scopes=scopes)


def test_without_a_public_url_the_resource_is_the_loopback_address() -> None:
    async def scenario(opened: Scene, _issuer: TokenIssuer, client: Client) -> None:
        found = await client.ask("GET", f"{PLACE}/mcp", host="evil.example")
        assert found.tree["resource"] == f"http://127.0.0.1:{opened.port}/mcp"
        refused = await client.post(CALL, mcp_protocol_version=MODERN, authorization="Bearer x")
        place = f'resource_metadata="http://127.0.0.1:{opened.port}{PLACE}/mcp"'
        assert place in refused.fields["www-authenticate"]

    play(scenario, public_url=None)


def test_where_there_is_no_issuer_there_is_no_metadata() -> None:
    async def scenario() -> None:
        async with scene(tokens={"a": (sha256(b"x").hexdigest(),)}) as opened:
            client = await opened.client()
            assert (await client.ask("GET", PLACE)).status == 404
            refused = await client.post(CALL, authorization="Bearer wrong")
            assert "resource_metadata" not in refused.fields["www-authenticate"]

    run(scenario)


@pytest.mark.parametrize(
    ("url", "addresses", "expected"),
    [
        (None, [PeerAddress("192.0.2.1", 80)], None),
        (None, [PeerAddress("0.0.0.0", 80)], None),  # noqa: S104
        (None, [PeerAddress("127.0.0.1", 80), PeerAddress("192.0.2.1", 80)], None),
        (None, [], None),
        (None, [PeerAddress("::1", 80)], "http://[::1]:80/.well-known/oauth-protected-resource/mcp"),
        ("https://e.com", [], "https://e.com/.well-known/oauth-protected-resource"),
        ("https://e.com/", [], "https://e.com/.well-known/oauth-protected-resource"),
        ("https://e.com/a/mcp", [], "https://e.com/.well-known/oauth-protected-resource/a/mcp"),
    ],
)
def test_only_a_public_url_or_this_machine_names_the_resource(
    url: str | None, addresses: list[PeerAddress], expected: str | None
) -> None:
    found = resource_at(url, addresses, ["https://id.example.com"], [])
    assert (None if found is None else found.metadata) == expected
    assert resource_at(url, addresses, ["an issuer of no URL"], []) is None


def test_the_path_of_a_proxy_is_served_too() -> None:
    assert f"{PLACE}/a/mcp" in ProtectedResource("https://e.com/a/mcp", ("https://id.example.com",)).paths


def test_a_challenge_says_what_is_missing() -> None:
    async def scenario(_opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        none = await client.post(CALL, mcp_protocol_version=MODERN)
        assert none.status == 401
        assert none.fields["www-authenticate"] == f'Bearer realm="byleave", scope="mcp", resource_metadata="{METADATA}"'
        wrong = await client.post(CALL, **bearer(issuer, aud="https://other.example/mcp"))
        assert wrong.status == 401
        assert wrong.fields["www-authenticate"] == (
            'Bearer realm="byleave", error="invalid_token", error_description="the token is for another audience", '
            f'scope="mcp", resource_metadata="{METADATA}"'
        )
        few = await client.post(CALL, **bearer(issuer, scope="other"))
        assert few.status == 403
        assert few.fields["www-authenticate"].startswith('Bearer realm="byleave", error="insufficient_scope"')
        assert f'scope="mcp", resource_metadata="{METADATA}"' in few.fields["www-authenticate"]
        good = await client.post(CALL, **bearer(issuer, scope="mcp"))
        assert good.tree["result"]["who"][:2] == ["builder", "verified"]

    play(scenario, require_identity=True, scopes=(ScopeRule("mcp", all=True),))


def test_a_scope_for_everything_means_a_token_for_everything() -> None:
    async def scenario(opened: Scene, _issuer: TokenIssuer, client: Client) -> None:
        assert (await client.post(CALL, mcp_protocol_version=MODERN)).status == 401
        ours = await client.post(CALL, mcp_protocol_version=MODERN, authorization="Bearer ours")
        assert ours.status == 200  # a token of byleave's own is the operator's: no scopes
        assert [why for why, _peer in opened.gateway.refusals] == ["no_token"]

    play(scenario, scopes=(ScopeRule("mcp", all=True),))


def test_what_stands_in_a_challenge_cannot_end_it() -> None:
    odd = 'x"\r\nSet-Cookie: a=b\\", resource_metadata="https://evil.example\x7f\u00e9'
    for line in (
        Challenge("https://e.com/", ("a",)).wrong_token(odd),
        Challenge(odd, (odd,)).no_token(),
        Challenge().few_scopes([odd]),
    ):
        assert line.count(b"\r\n") == 1
        assert line.isascii()
        assert line.count(b'"') == 2 * line.count(b'="')
        assert b"\\" not in line


def test_an_agent_by_claims_cannot_be_merely_claimed() -> None:
    async def scenario(_opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        fields = {"mcp_protocol_version": MODERN}
        assert (await client.post(CALL, **fields, x_byleave_agent="builder")).status == 401
        beside = await client.post(CALL, **bearer(issuer), x_byleave_agent="other")
        assert beside.tree["result"]["who"][0] == "builder"
        none = await client.post(CALL, **bearer(issuer, groups=["others"]))
        assert (none.status, "does not speak of an agent" in none.fields["www-authenticate"]) == (401, True)

    play(scenario)


def test_a_session_belongs_to_the_subject_not_to_the_agent() -> None:
    async def scenario(_opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        def fields(sub: str, **more: Any) -> dict[str, str]:
            return {"authorization": bearer(issuer, sub=sub, **more)["authorization"]}

        session = await client.initialize(**fields("one"))
        assert (await client.post(CALL, mcp_session_id=session, **fields("one", scope="more"))).status == 200
        assert (await client.post(CALL, mcp_session_id=session, **fields("two"))).status == 404

    play(scenario)


def test_the_scopes_of_each_request_are_those_of_its_own_token() -> None:
    async def scenario(opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        heard: list[object] = []
        first = {"authorization": bearer(issuer, scope="a")["authorization"]}
        session = await client.initialize(**first)
        talk: Any = opened.gateway.talks[0]
        real = talk.handle

        async def handle(message: bytes, sink: Any, context: Any) -> None:
            heard.append(context.scopes)
            await real(message, sink, context)

        talk.handle = handle
        await client.post(CALL, mcp_session_id=session, **first)
        await client.post(CALL, mcp_session_id=session, authorization=bearer(issuer, scope="a b")["authorization"])
        assert heard == [frozenset({"a"}), frozenset({"a", "b"})]

    play(scenario)


def test_a_stream_ends_with_the_token_that_opened_it() -> None:
    async def scenario(opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        soon = {"authorization": bearer(issuer, exp=int(time.time()) + 5)["authorization"]}
        session = await client.initialize(**soon)
        await client.send(client.request("GET", "/mcp", b"", mcp_session_id=session, **soon))
        status, _fields = await client.head()
        assert status == 200
        stream: Any = opened.gateway.talks[0].standing
        assert await stream.send(b'{"jsonrpc":"2.0","method":"x"}')
        assert 30 < stream._until - stream.now <= 35  # noqa: SLF001 -- clocks may differ by 30 seconds
        stream._until = stream.now  # noqa: SLF001 -- as if they had passed
        assert not await stream.send(b'{"jsonrpc":"2.0","method":"secret"}')
        assert not stream.is_open()
        assert b"secret" not in b"".join([piece async for piece in client.chunks()])

    play(scenario)


def test_a_listener_without_a_session_ends_when_its_proof_does() -> None:
    async def scenario(opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        listen = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}).encode()
        talk = opened.gateway.stateless
        waits = asyncio.Event()

        def stateless(caller: Any) -> Any:
            made: Any = talk(caller)

            async def handle(_message: bytes, sink: Any, _context: Any) -> None:
                await sink.send(b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}')
                waits.set()
                await asyncio.Event().wait()

            made.handle = handle
            return made

        opened.gateway.stateless = stateless  # type: ignore[method-assign]
        await client.send(client.request("POST", "/mcp", listen, **bearer(issuer)))
        await waits.wait()
        assert (await client.head())[0] == 200
        await opened.front.renew(settings=Settings(), tokens={"ours": (sha256(b"new").hexdigest(),)})
        pieces = [piece async for piece in client.chunks()]  # it comes to its end
        assert b"acknowledged" in pieces[0]

        other = await opened.client()
        waits.clear()
        await opened.front.renew(settings=Settings(), tokens={"ours": (sha256(b"ours").hexdigest(),)})
        fields = {"authorization": "Bearer ours", "mcp_protocol_version": MODERN}
        await other.send(other.request("POST", "/mcp", listen, **fields))
        await waits.wait()
        standing = opened.front.endpoint.standing
        assert len(standing) == 1
        standing._until = dict.fromkeys(standing._until, 0.0)  # noqa: SLF001 -- an hour later
        await until(lambda: not len(standing))

    play(scenario)


def test_the_stream_of_the_oldest_revision_ends_with_its_token_too() -> None:
    async def scenario(opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        soon = {"authorization": bearer(issuer, exp=int(time.time()) + 5)["authorization"]}
        await client.send(client.request("GET", "/sse", b"", **soon))
        assert (await client.head())[0] == 200
        stream: Any = opened.gateway.talks[0].standing
        assert 30 < stream._until - stream.now <= 35  # noqa: SLF001

    play(scenario)


def test_the_official_client_understands_the_metadata_and_the_challenges() -> None:
    async def scenario(_opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        found = await client.ask("GET", f"{PLACE}/mcp")
        metadata = ProtectedResourceMetadata.model_validate_json(found.body)
        assert (str(metadata.resource), [str(each).rstrip("/") for each in metadata.authorization_servers]) == (
            AUDIENCE,
            [issuer.issuer],
        )
        refused = await client.post(CALL, mcp_protocol_version=MODERN)
        response = httpx2.Response(401, headers={"www-authenticate": refused.fields["www-authenticate"]})
        assert extract_resource_metadata_from_www_auth(response) == METADATA
        assert extract_scope_from_www_auth(response) == "mcp"

    play(scenario, require_identity=True, scopes=(ScopeRule("mcp", all=True),))


def test_a_reload_takes_an_issuer_away_at_once() -> None:
    async def scenario(opened: Scene, issuer: TokenIssuer, client: Client) -> None:
        good = bearer(issuer)
        assert (await client.post(CALL, **good)).status == 200
        known = Jwt(issuer="https://other.example", audience=AUDIENCE)
        await opened.front.renew(settings=Settings(public_url=AUDIENCE, issuers=(known,)), tokens={})
        assert (await client.post(CALL, **good)).status == 401
        assert (await client.ask("GET", PLACE)).tree["authorization_servers"] == ["https://other.example"]

    play(scenario)
