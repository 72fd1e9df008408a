"""What a call needs of its caller's token: a scope that is missing is refused with what would help, and recorded."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from byleave.gateway.http_front import serve_http
from byleave.policy.gateway_settings import GatewaySettings, ScopeRule
from fakes.mcp_front import Client
from fakes.mcp_talk import META, FakeServer, Talk, Tree
from fakes.token_issuer import AUDIENCE, issuing

ISSUERS = [{"issuer": "https://id.example.com", "audience": "a"}]
SCOPES = {
    "shop": {"servers": ["shop"]},
    "shop:write": {"tools": {"shop": ["close", "del_*"]}},
    "read": {"servers": ["lib*"]},
}
POLICY: Tree = {
    "gateway": {"issuers": ISSUERS, "scopes": SCOPES},
    "agents": {"ops": {"allow": {"servers": ["*"]}, "deny": {"tools": {"shop": ["query"]}}}},
}


def test_a_scope_is_needed_for_what_it_lists() -> None:
    rules = (
        ScopeRule("all", all=True),
        ScopeRule("server", ("git*",)),
        ScopeRule("tool", tools=(("github", ("create_*",)), ("other", ("*",)))),
    )
    settings = GatewaySettings(scopes=rules)
    assert settings.scopes_for("github", "create_issue") == ("all", "server", "tool")
    assert settings.scopes_for("github", "list") == ("all", "server")
    assert settings.scopes_for("github", None) == ("all", "server")
    assert settings.scopes_for("other", None) == ("all",)
    assert settings.scopes_for("shop", "create_issue") == ("all",)
    assert GatewaySettings().scopes_for("github", "x") == ()


GRANTED: dict[str, tuple[set[str] | None, bool]] = {
    "a token of ours": (None, True),
    "all of them": ({"shop", "shop:write", "more"}, True),
    "one of them": ({"shop"}, False),
    "none": (set(), False),
    "a glob is no scope": ({"*", "shop*"}, False),
}


@pytest.mark.parametrize("case", GRANTED)
@pytest.mark.parametrize("kind", ["client", "stateless"])
def test_a_call_needs_every_scope_that_covers_it(play: Callable[..., None], kind: str, case: str) -> None:
    scopes, passes = GRANTED[case]

    async def scene(talk: Talk) -> None:
        client = getattr(talk, kind)()
        client.scopes = None if scopes is None else frozenset(scopes)
        if kind == "client":
            await client.begin()
        sink = await client.exchange("tools/call", {"name": "shop__close", "arguments": {}})
        assert ("result" in sink.final) is passes
        if not passes:
            assert (sink.status, sink.scopes) == (403, ("shop", "shop:write"))
            assert sink.final["error"]["data"]["code"] == "insufficient_scope"
            assert talk.servers["shop"].calls() == []
            kept = talk.records()[-1]
            assert (kept["verdict"]["decision"], kept["verdict"]["code"]) == ("deny", "insufficient_scope")
            assert kept["action"]["tool"] == "close"

    play(scene, POLICY)


def test_what_the_policy_denies_is_denied_whatever_the_scopes(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client()
        client.scopes = frozenset()
        await client.begin()
        given = {"server": "shop", "tool": "query", "arguments": {}}
        sink = await client.exchange("tools/call", {"name": "execute_tool", "arguments": given})
        assert (sink.status, sink.scopes) == (200, ())
        found: Tree = sink.final or {}
        verdict = found["result"]["_meta"]["byleave/verdict"]
        assert (verdict["decision"], verdict["code"] != "insufficient_scope") == ("deny", True)
        assert talk.records()[-1]["verdict"]["code"] == verdict["code"]

    play(scene, {**POLICY, "gateway": {**POLICY["gateway"], "expose": "both"}})


def test_a_tool_by_its_name_is_covered_like_one_of_the_list(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client()
        client.scopes = frozenset({"shop"})
        await client.begin()
        given = {"server": "shop", "tool": "close", "arguments": {}}
        sink = await client.exchange("tools/call", {"name": "execute_tool", "arguments": given})
        assert (sink.status, sink.scopes) == (403, ("shop", "shop:write"))
        assert "shop__close" in await client.names()  # it can be seen: a client may ask for the scope

    play(scene, {**POLICY, "gateway": {**POLICY["gateway"], "expose": "both"}})


def test_a_caller_without_a_token_has_no_scopes(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client(None)
        client.scopes = frozenset()
        await client.begin()
        sink = await client.exchange("tools/call", {"name": "shop__close", "arguments": {}})
        assert (sink.status, sink.scopes) == (401, ("shop", "shop:write"))

    open_to_all = {"agents": {"default": {"allow": {"servers": ["*"]}}}}
    play(scene, {**POLICY, **open_to_all, "defaults": {"deny_on_missing_agent": False}})


def test_resources_and_prompts_are_covered_by_their_server(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client()
        client.scopes = frozenset({"shop"})
        await client.begin()
        for method, params in (
            ("resources/read", {"uri": "lib://one"}),
            ("resources/subscribe", {"uri": "lib://one"}),
            ("prompts/get", {"name": "lib__hello"}),
        ):
            sink = await client.exchange(method, params)
            assert (method, sink.status, sink.scopes) == (method, 403, ("read",))
        client.scopes = frozenset({"read"})
        assert "result" in await client.ask("resources/read", {"uri": "lib://one"})

    listed = {"prompts": [{"name": "hello"}], "resources": [{"uri": "lib://one", "name": "one"}]}
    play(scene, POLICY, lib=FakeServer("x", listed={**listed, "resourceTemplates": []}))


def test_a_person_is_not_asked_about_a_call_without_its_scopes(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.stateless(elicitation={})
        client.scopes = frozenset({"shop"})
        call = {"name": "shop__close", "arguments": {}}
        assert (await client.exchange("tools/call", call)).status == 403
        client.scopes = frozenset({"shop", "shop:write"})
        asked = (await client.ask("tools/call", call))["result"]
        assert asked["resultType"] == "input_required"
        key = next(iter(asked["inputRequests"]))
        answers = {"inputResponses": {key: {"action": "accept", "content": {}}}, "requestState": asked["requestState"]}
        client.scopes = frozenset({"shop"})  # it comes back with another token
        sink = await client.exchange("tools/call", {**call, **answers})
        assert (sink.status, sink.scopes) == (403, ("shop", "shop:write"))
        assert talk.servers["shop"].calls() == []

    asks = [{"ask": {"call": {"server": "shop", "tool": "close"}}}]
    play(scene, {**POLICY, "rules": asks, "gateway": {**POLICY["gateway"], "approve": "client"}})


def test_a_scope_that_is_added_holds_for_calls_that_wait(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed: list[tuple[str, ...]] = [(), ("shop",)]  # as if the policy had changed in between

    def scopes_for(_self: GatewaySettings, _server: str, _tool: str | None) -> tuple[str, ...]:
        return needed.pop(0) if len(needed) > 1 else needed[0]

    async def scene(talk: Talk) -> None:
        client = talk.client()
        client.scopes = frozenset()
        await client.begin()
        monkeypatch.setattr(GatewaySettings, "scopes_for", scopes_for)
        sink = await client.exchange("tools/call", {"name": "shop__price", "arguments": {}})
        assert (sink.status, sink.scopes) == (403, ("shop",))
        assert talk.servers["shop"].calls() == []

    play(scene, {**POLICY, "servers": {"shop": {"command": ["shop"], "stateful": False}}})


def test_over_http_a_client_learns_which_token_would_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def whole() -> None:
        async with issuing() as issuer, asyncio.timeout(10):
            issuer.publish()
            gateway = {
                "public_url": AUDIENCE,
                "issuers": [{"issuer": issuer.issuer}],
                "identities": [{"match": {"groups": "builders"}, "agent": "ops"}],
                "scopes": SCOPES,
            }
            talk = Talk(
                tmp_path, monkeypatch, {**POLICY, "gateway": gateway}, shop=FakeServer("price", "query", "close")
            )
            front = await serve_http(talk.gateway, "127.0.0.1", 0, **talk.gateway.proofs)
            port = front.addresses[0].port
            client = Client(*await asyncio.open_connection("127.0.0.1", port), port)

            async def called(tool: str, accept: str = "application/json, text/event-stream", **claims: str) -> Tree:
                meta = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}
                params = {"name": f"shop__{tool}", "arguments": {}, "_meta": meta}
                said = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
                found = await client.post(
                    said,
                    accept=accept,
                    mcp_protocol_version="2026-07-28",
                    mcp_method="tools/call",
                    mcp_name=f"shop__{tool}",
                    authorization="Bearer " + issuer.token(None, groups=["builders"], **claims),
                )
                body = (
                    json.loads(found.body) if found.fields["content-type"] == "application/json" else found.events[-1]
                )
                return {"status": found.status, "challenge": found.fields.get("www-authenticate"), **body}

            try:
                for accept in ("application/json", "text/event-stream", "application/json, text/event-stream"):
                    few = await called("close", accept, scope="shop")
                    assert (few["status"], few["id"], few["error"]["data"]["decision"]) == (403, 7, "deny")
                    assert few["challenge"] == (
                        'Bearer realm="byleave", error="insufficient_scope", '
                        'error_description="the token lacks a scope that this needs", scope="shop shop:write", '
                        'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
                    )
                assert talk.servers["shop"].calls() == []
                good = await called("close", scope="shop shop:write")
                assert (good["status"], good["challenge"], "result" in good) == (200, None, True)
                denied = await called("query", scope="")
                assert (denied["status"] in (200, 400), denied["challenge"]) == (True, None)
            finally:
                await client.close()
                await front.close(grace=1)
                await talk.close()

    asyncio.run(whole())
