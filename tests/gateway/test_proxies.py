"""A proxy on this machine makes nobody its user, whatever it writes; a named one is believed about addresses."""

from hashlib import sha256
from ipaddress import ip_network

import pytest

from byleave.gateway.http_trust import FORWARDED, Proxies, passed_on_by
from fakes.mcp_front import Settings, run, scene

CALL = b'{"jsonrpc":"2.0","id":5,"method":"echo"}'
MODERN = "2026-07-28"
TOKENS = {"backend": ("sha256:" + sha256(b"t-backend").hexdigest(),)}
NAMES = (
    *("Forwarded", "FORWARDED", "X-Forwarded-For", "x-forwarded-for", "X_Forwarded_For", "X-Forwarded_For"),
    *(
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Forwarded",
        "X.Forwarded.For",
    ),
    *("X-Real-IP", "X-Real-Ip", "X_REAL_IP", "Via", "VIA", "CF-Connecting-IP", "CF-Ray", "CF_Visitor", "Cf-Ipcountry"),
    *("True-Client-IP", "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "X-Original-URL", "X-Original-Host"),
    *("X-Envoy-External-Address", "Fastly-Client-IP", "Fly-Client-IP", "X-Azure-ClientIP", "CDN-Loop", "X-Rewrite-URL"),
    *("Ngrok-Auth-User-Email", "Tailscale-User-Login", "X-Vercel-Forwarded-For", "CloudFront-Viewer-Country"),
    *("X-Goog-IAP-JWT-Assertion", "X-AppEngine-User-IP", "X-Amz-Cf-Id", "X-Host", "Front-End-Https", "X-Scheme"),
    *("X-NginX-Proxy", "Ali-Cdn-Real-Ip", "X-Auth-Request-User", "X-Remote-User", "X_WebAuth_User", "SSL-Client-Cert"),
    *("X-Real-Proto", "X-Amzn-Oidc-Data", "X-Client-Cert-Dn", "X-SSL"),
)
PLAIN = (
    *("Host", "Accept", "Content-Type", "User-Agent", "Authorization", "Origin", "Mcp-Session-Id", "Mcp-Name"),
    *("Traceparent", "X-Request-Id", "X-Byleave-Agent", "Sec-Fetch-Site", "Accept-Language", "Last-Event-Id"),
)


def test_fields_that_only_proxies_write_are_known_in_every_spelling() -> None:
    assert [name for name in NAMES if not passed_on_by([name.lower()])] == []
    assert [name for name in PLAIN if passed_on_by([name.lower()])] == []


@pytest.mark.parametrize("tokens", [{}, TOKENS], ids=["without tokens", "with tokens"])
def test_what_a_proxy_passed_on_is_never_the_users_own(tokens: dict[str, tuple[str, ...]]) -> None:
    async def scenario() -> None:
        async with scene(tokens=tokens) as opened:
            client = await opened.client()
            expected = 401 if tokens else 403
            for number, name in enumerate(NAMES):
                client = await opened.client() if number % 50 == 0 else client
                whole = client.request("POST", "/mcp", CALL, mcp_protocol_version=MODERN)
                await client.send(whole.replace(b"accept: ", f"{name}: 127.0.0.1\r\naccept: ".encode(), 1))
                refused = await client.response()
                assert (refused.status, "proxy" in refused.tree["error"]["message"]) == (expected, True), name
                assert "byleave agents token" in refused.tree["error"]["message"]
            for path in ("/metrics", "/sse", "/mcp"):
                assert (await client.ask("GET", path, via="1.1 x")).status == expected, path
            assert {why for why, _peer in opened.gateway.refusals} == {"proxy"}
            assert opened.gateway.lasting == {}
            assert (await client.post(CALL, mcp_protocol_version=MODERN)).status == 200

    run(scenario)


def test_a_token_is_as_good_through_a_proxy() -> None:
    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            fields = {"authorization": "Bearer t-backend", "x_forwarded_for": "203.0.113.9", "host": "gate.example"}
            answered = await client.post(CALL, mcp_protocol_version=MODERN, **fields)
            assert answered.tree["result"]["who"] == ["backend", "verified", "token:backend"]

    run(scenario)


def test_an_address_that_is_a_proxys_is_never_the_user() -> None:
    async def scenario() -> None:
        behind = Settings(trusted_proxies=(ip_network("127.0.0.0/8"),))
        async with scene(tokens=TOKENS, settings=behind) as opened:
            client = await opened.client()
            refused = await client.post(CALL, mcp_protocol_version=MODERN)
            assert (refused.status, "trusted_proxies" in refused.tree["error"]["message"]) == (401, True)
            proof = {"authorization": "Bearer t-backend", "x_forwarded_for": "127.0.0.1"}
            answered = await client.post(CALL, mcp_protocol_version=MODERN, **proof)
            assert answered.tree["result"]["who"] == ["backend", "verified", "token:backend"]

    run(scenario)


def test_a_refusal_names_the_client_that_a_trusted_proxy_names_and_no_other() -> None:
    async def scenario(networks: tuple[str, ...], expected: str) -> None:
        settings = Settings(trusted_proxies=tuple(ip_network(each) for each in networks))
        async with scene(tokens=TOKENS, settings=settings) as opened:
            client = await opened.client()
            await client.ask("GET", "/mcp", authorization="Bearer x", x_forwarded_for="6.6.6.6, 203.0.113.9, 10.1.1.1")
            why, peer = opened.gateway.refusals[0]
            assert (why, peer.partition(" (user")[0]) == ("wrong_token", expected)

    run(lambda: scenario(("127.0.0.1/32", "10.0.0.0/8"), "203.0.113.9 (by 127.0.0.1)"))
    run(lambda: scenario(("127.0.0.1/32",), "10.1.1.1 (by 127.0.0.1)"))
    run(lambda: scenario(("192.0.2.0/24",), "this machine"))


OWN = Proxies([ip_network("127.0.0.1"), ip_network("10.0.0.0/8"), ip_network("2001:db8::/32")])
HOPS = [
    ("203.0.113.9", "203.0.113.9"),
    ("6.6.6.6, 203.0.113.9", "203.0.113.9"),
    ("6.6.6.6,203.0.113.9 , 10.0.0.1,10.0.0.2", "203.0.113.9"),
    ("203.0.113.9:4711", "203.0.113.9"),
    ("[2a00::1]:80, 2001:db8::7", "2a00::1"),
    ("2a00::1", "2a00::1"),
    ("::ffff:203.0.113.9", "203.0.113.9"),
    ("::ffff:10.0.0.1", "10.0.0.1"),
    ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
    ("6.6.6.6, unknown", "127.0.0.1"),
    ("6.6.6.6, 999.1.1.1, 10.0.0.3", "10.0.0.3"),
    ("fe80::1%\x1b[31m", "127.0.0.1"),
    ("6.6.6.6, ", "127.0.0.1"),
    ("", "127.0.0.1"),
    ("6.6.6.6, " + "10.0.0.1, " * 1000 + "10.0.0.2", "10.0.0.1"),
]


@pytest.mark.parametrize(("value", "client"), HOPS)
def test_the_client_is_the_last_address_that_is_no_proxys(value: str, client: str) -> None:
    assert OWN.client_of("127.0.0.1", {"x-forwarded-for": value}) == client
    assert OWN.client_of("198.51.100.1", {"x-forwarded-for": value}) == "198.51.100.1", "only a proxy is believed"


@pytest.mark.parametrize(
    ("value", "client"),
    [
        ("for=203.0.113.9", "203.0.113.9"),
        ('For="[2a00::1]:4711";proto=https;by=10.0.0.1', "2a00::1"),
        ("proto=http;for=203.0.113.9;host=x", "203.0.113.9"),
        ("for=6.6.6.6, for=203.0.113.9, for=10.0.0.2", "203.0.113.9"),
        ('for="6.6.6.6, for=203.0.113.9', "203.0.113.9"),
        ("for=6.6.6.6, for=_hidden", "127.0.0.1"),
        ("for=6.6.6.6, by=203.0.113.9", "127.0.0.1"),
        ("203.0.113.9", "127.0.0.1"),
    ],
)
def test_the_standard_header_counts_where_it_is_the_one_that_is_named(value: str, client: str) -> None:
    networks = [ip_network("127.0.0.1"), ip_network("10.0.0.0/8")]
    both = {"forwarded": value, "x-forwarded-for": "5.5.5.5"}
    assert Proxies(networks, FORWARDED).client_of("127.0.0.1", both) == client
    assert Proxies(networks).client_of("127.0.0.1", both) == "5.5.5.5"
    assert Proxies(networks).client_of("127.0.0.1", {"x_forwarded_for": "5.5.5.5"}) == "127.0.0.1"
