"""Tokens of issuers, telemetry and the access log: what is refused for want of one is there, and nothing of a token."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from byleave.gateway.access_log import AccessLog
from byleave.gateway.http_front import ROUTES, serve_http
from byleave.gateway.log_lines import JSON, Log
from byleave.gateway.telemetry import Telemetry
from fakes.mcp_front import Client, Jwt, Response, Settings, run, scene
from fakes.mcp_talk import META, FakeServer, Talk
from fakes.otlp_collector import Collector, attributes
from fakes.token_issuer import AUDIENCE, TokenIssuer, issuing

CANARY = "canary-3Hw8"
SERVER = 2  # a kind of spans, as OTLP has it
MODERN = "2026-07-28"
METADATA = "/.well-known/oauth-protected-resource/mcp"
SCOPES = {"base": {"all": True}, "shop:write": {"tools": {"shop": ["close"]}}}
# What identity providers put into tokens beside what we look at.
PERSON = {
    "sub": f"{CANARY}-sub",
    "email": f"{CANARY}@example.com",
    "name": f"{CANARY} Name",
    "jti": f"{CANARY}-jti",
    "client_id": f"{CANARY}-client",
    "realm_access": {"roles": [f"{CANARY}-role"]},
}


def policy(issuer: TokenIssuer) -> dict[str, Any]:
    gateway = {
        "public_url": AUDIENCE,
        "require_identity": True,
        "issuers": [{"issuer": issuer.issuer}],
        "identities": [{"match": {"groups": "builders"}, "agent": "ops"}],
        "scopes": SCOPES,
    }
    return {"gateway": gateway, "agents": {"ops": {"allow": {"servers": ["*"]}}}}


async def called(client: Client, tool: str, **fields: str) -> Response:
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    params = {"name": f"shop__{tool}", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    named = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": f"shop__{tool}"}
    return await client.post(message, **named, **fields)


@asynccontextmanager
async def served(talk: Talk, access_log: AccessLog) -> AsyncIterator[Client]:
    front = await serve_http(
        talk.gateway, "127.0.0.1", 0, warn=talk.gateway.note, access_log=access_log, **talk.gateway.proofs
    )
    port = front.addresses[0].port
    client = Client(*await asyncio.open_connection("127.0.0.1", port), port)
    try:
        yield client
    finally:
        await client.close()
        await front.close(grace=1)
        await talk.close()
        access_log.close()


def test_no_token_and_no_claim_shows_up_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path, tokens = tmp_path / "access.log", list[str]()

    async def refuse_some(client: Client, bearer: Callable[..., str]) -> None:
        refused = {
            "no token": "",
            "no token of ours": f"Bearer {CANARY}",
            "no JSON": f"Bearer {CANARY}.{CANARY}.{CANARY}",
            "another signature": f"{bearer('base')[:-8]}AAAAAAAA",
            "expired": bearer("base", exp=1),
            "for another": bearer("base", aud=f"https://{CANARY}.example"),
            "of another": bearer("base", iss=f"https://{CANARY}.example"),
            "no agent": bearer("base", groups=[CANARY]),
            "lacks what all need": bearer("shop:write"),
        }
        for case, authorization in refused.items():
            id_ = case.replace(" ", "-")
            found = await called(client, "price", authorization=authorization, x_request_id=id_)
            assert (case, found.status) == (case, 403 if case == "lacks what all need" else 401)
            assert (found.fields["x-request-id"], "www-authenticate" in found.fields) == (id_, True)
            assert CANARY not in str(found.fields)

    async def whole() -> None:
        async with issuing() as issuer, asyncio.timeout(10):
            issuer.publish()

            def bearer(scope: str, **claims: Any) -> str:
                given = {**PERSON, "groups": ["builders", CANARY], "scope": f"{scope} {CANARY}-scope", **claims}
                tokens.append(issuer.token(None, **given))
                return f"Bearer {tokens[-1]}"

            talk = Talk(tmp_path, monkeypatch, policy(issuer), shop=FakeServer("price", "close"))
            access_log = AccessLog(Log(JSON), where=str(path), paths=ROUTES, knows=talk.gateway.metrics.knows)
            with Collector() as collector:
                talk.gateway.send_telemetry(Telemetry(collector.plan(), talk.gateway.note))
                async with served(talk, access_log) as client:
                    await refuse_some(client, bearer)
                    few = await called(client, "close", authorization=bearer("base"), x_request_id="few")
                    assert (few.status, few.fields["x-request-id"]) == (403, "few")
                    done = await called(client, "close", authorization=bearer("base shop:write"))
                    assert done.status == 200
                    text = talk.gateway.metrics_text()
                lines = [json.loads(line) for line in path.read_text().splitlines()]
                known = [(each["status"], each.get("agent"), each.get("principal")) for each in lines]
                assert known == [*[(401, None, None)] * 8, (403, None, None), (403, "ops", "jwt"), (200, "ops", "jwt")]
                check_spans(collector)
                doors = [span.trace_id.hex() for span in collector.spans() if span.name == "refused"]
                assert [each["trace_id"] for each in lines[:9]] == doors
                assert 'byleave_mcp_refused_total{why="scope"} 1\n' in text
                assert 'byleave_mcp_calls_total{server="shop",agent="ops",decision="deny",outcome="refused"} 1' in text
                labels = '{server="shop",method="tools/call",decision="deny"}'
                assert f"byleave_mcp_request_seconds_count{labels} 1\n" in text
                written = capfd.readouterr()
                sent = b"".join(collector.bodies).decode("latin-1") + str(collector.spans())
                said = "\n".join([path.read_text(), written.out, written.err, text, sent, str(talk.notes)])
                parts = [part for token in tokens for part in token.split(".")[1:]]
                assert [secret for secret in (CANARY, *tokens, *parts) if secret in said] == []
                assert "shop:write" not in said, "what a challenge says is for the client"

    asyncio.run(whole())


def check_spans(collector: Collector) -> None:
    """A call that lacks a scope has a span like every other refusal; a request that is turned away says only why."""
    judged = [attributes(span) for span in collector.spans() if span.kind == SERVER and span.name != "refused"]
    wanted = ("byleave.agent", "byleave.decision", "byleave.code", "byleave.outcome", "byleave.rule.file")
    assert [tuple(each[key] for key in wanted) for each in judged] == [
        ("ops", "deny", "insufficient_scope", "refused", "built-in"),
        ("ops", "allow", "ok", "ok", "inline"),
    ]
    doors = [attributes(span) for span in collector.spans() if span.name == "refused"]
    usual = {"byleave.outcome": "refused", "error.type": "refused", "network.transport": "tcp"}
    reasons = [("no_token", 401), *[("wrong_token", 401)] * 7, ("scope", 403)]
    assert doors == [{**usual, "byleave.refused": why, "http.response.status_code": status} for why, status in reasons]


def test_the_metadata_has_its_line_and_its_id_while_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    log = AccessLog(Log(JSON), where=str(path), paths=ROUTES, knows=lambda _agent: False)

    async def scenario() -> None:
        async with issuing() as issuer:
            issuer.publish()
            settings = Settings(
                public_url="https://mcp.example.com/team/mcp", issuers=(Jwt(issuer=issuer.issuer, audience=AUDIENCE),)
            )
            async with scene(access_log=log, settings=settings) as opened:
                client = await opened.client()
                for asked in (METADATA, "/.well-known/oauth-protected-resource/team/mcp", f"{METADATA}/{CANARY}"):
                    found = await client.ask("GET", asked, x_request_id="mine")
                    assert found.fields["x-request-id"] == "mine"
                foreign = await client.ask("GET", METADATA, origin=f"https://{CANARY}.example")
                assert (foreign.status, bool(foreign.fields["x-request-id"])) == (403, True)
                await opened.front.renew(settings=Settings(), tokens={})
                assert (await client.ask("GET", METADATA)).status == 404
        log.close()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [(each["status"], each["path"]) for each in lines] == [
            (200, METADATA),
            (200, "/.well-known/oauth-protected-resource/team/mcp"),
            (404, "other"),
            (403, METADATA),
            (404, "other"),
        ]
        assert CANARY not in path.read_text()

    run(scenario)
