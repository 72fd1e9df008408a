"""The official SDK gets tokens for the gateway by itself, from a real issuer: by discovery and step-up. On demand."""

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from agents.real_agents import NotInstalledError, program_of
from fakes.mcp_sdk import LEGACY, MODERN, PATIENCE, SHOP, Place, Running, eventually, over_http, talking, words
from sandbox.machine import needs_sandbox

pytestmark = [
    needs_sandbox,
    pytest.mark.skipif(
        os.environ.get("BYLEAVE_AGENT_TESTS") != "1",
        reason="a real issuer is driven by `make test-agents` (BYLEAVE_AGENT_TESTS=1)",
    ),
]
VERSION = "9.13.3"
SCRIPT = Path(__file__).parents[1] / "agents" / "oidc_issuer.mjs"
SECRET = "a-secret-of-the-test-0123456789abcdef"  # of an issuer on loopback
PLACE = "/.well-known/oauth-protected-resource"


def policy(issuer: str, url: str) -> str:
    return f"""
[gateway]
public_url = "{url}"
require_identity = true
[[gateway.issuers]]
issuer = "{issuer}"
[[gateway.identities]]
match = {{ groups = "builders" }}
agent = "builder"
[gateway.scopes]
shop = {{ all = true }}
"shop:write" = {{ tools = {{ shop = ["close"] }} }}
[servers.shop]
command = {json.dumps(SHOP)}
[agents.builder]
allow.servers = ["*"]
"""


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    node = shutil.which("node")
    try:
        package = Path(program_of("oidc-provider", VERSION, "")).parents[0] / "oidc-provider" / "lib" / "index.js"
    except NotInstalledError as error:
        pytest.fail(str(error))
    assert node is not None
    argv = [node, str(SCRIPT), str(package)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def running(issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Place]]:
    """A gateway whose public URL is set while it runs: only then its port is known."""
    place = Place(tmp_path_factory.mktemp("place"), policy(issuer, "http://127.0.0.1:1/mcp"))
    with over_http(place) as found:
        place.write(policy(issuer, found.url))
        metadata = found.url.replace("/mcp", f"{PLACE}/mcp")
        eventually(lambda: httpx2.get(metadata, trust_env=False).json()["resource"] == found.url)
        yield found, place


class Storage:
    """Keeps tokens for as long as the test runs."""

    def __init__(self) -> None:
        self.tokens: list[OAuthToken] = []
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens[-1] if self.tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens.append(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def signed_in(url: str, issuer: str, client: str, storage: Storage) -> Any:
    @asynccontextmanager
    async def target() -> AsyncIterator[Any]:
        auth = ClientCredentialsOAuthProvider(url, storage, client, SECRET, issuer=issuer)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=httpx2.Timeout(PATIENCE), trust_env=False) as made,
            streamable_http_client(url, http_client=made) as streams,
        ):
            yield streams

    return target


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_a_client_finds_the_issuer_and_gets_a_token_for_this_gateway(
    running: tuple[Running, Place], issuer: str, mode: str
) -> None:
    storage = Storage()
    with talking(signed_in(running[0].url, issuer, "robot", storage), mode) as talk:
        assert "shop__close" in talk.tools()
        assert not talk.call("shop__price", {"article": "fish"}).is_error
        assert [each.scope for each in storage.tokens] == ["shop"]  # what the challenge says, and no more
        stepped_up = talk.call("shop__close")
        assert words(stepped_up)
        assert sorted((storage.tokens[-1].scope or "").split()) == ["shop", "shop:write"]
    kept = [each for each in running[1].records() if each.get("verdict", {}).get("code") == "insufficient_scope"]
    assert kept
    assert (kept[-1]["agent"], kept[-1]["identity"], kept[-1]["action"]["tool"]) == ("builder", "verified", "close")


def token(issuer: str, client: str, resource: str, scope: str = "shop") -> str:
    form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
    found = httpx2.post(f"{issuer}/token", data=form, auth=(client, SECRET), trust_env=False)
    made: str = found.json()["access_token"]
    return made


def asked(url: str, said: str) -> httpx2.Response:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    return httpx2.post(url, json=ping, headers={"authorization": f"Bearer {said}"}, trust_env=False)


def test_tokens_of_a_real_issuer_that_do_not_do(running: tuple[Running, Place], issuer: str) -> None:
    url = running[0].url
    assert asked(url, token(issuer, "robot", url)).status_code == 200
    other = asked(url, token(issuer, "robot", "http://127.0.0.1:1/mcp"))
    assert (other.status_code, "another audience" in other.headers["www-authenticate"]) == (401, True)
    stranger = asked(url, token(issuer, "stranger", url))
    assert (stranger.status_code, "speak of an agent" in stranger.headers["www-authenticate"]) == (401, True)
    few = asked(url, token(issuer, "robot", url, scope="shop:write"))
    assert (few.status_code, 'error="insufficient_scope"' in few.headers["www-authenticate"]) == (403, True)
