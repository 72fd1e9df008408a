"""What `[gateway]` comes to: whole settings, whose word counts, what is pointed out."""

from typing import Any

import pytest

from byleave.errors import ConfigErrors
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.gateway_settings import (
    CallLimit,
    GatewaySettings,
    IdentityRule,
    JwtSettings,
    ScopeRule,
    TelemetrySettings,
    endpoint_problem,
)
from byleave.policy.layers import COMMAND_LINE, MANAGED, PROJECT, USER, Layer
from byleave.policy.parse import parse_tree
from byleave.workspace.resolve import Root

Tree = dict[str, Any]
ISSUER: Tree = {"issuer": "https://a.example", "audience": "b"}
OTHER: Tree = {"issuer": "https://c.example", "audience": ["d", "e"], "jwks": "https://c.example/keys"}


def layer(name: str, gateway: Tree, **more: Any) -> Layer:
    return Layer(name, parse_tree({"gateway": gateway, **more}), f"{name}.toml")


def settings(*layers: Layer) -> GatewaySettings:
    return compile_layers(layers, CompileContext(Root("/"))).gateway


READ: list[tuple[Tree, dict[str, Any]]] = [
    ({}, {}),
    (
        {"max_calls": 3, "max_body": "1 MB", "pin_tools": False},
        {"max_calls": 3, "max_body": 1 << 20, "pin_tools": False},
    ),
    ({"access_log": True}, {"access_log": True}),
    ({"access_log": "/var/log/x"}, {"access_log": "/var/log/x"}),
    ({"metrics_agents": ["a", "b*"]}, {"metrics_agents": ("a", "b*")}),
    (
        {
            "limits": [
                {"rate": 5},
                {"agent": "a*", "server": "s", "tool": "t", "max_calls": 2, "each": ["tool", "agent", "tool"]},
            ]
        },
        {"limits": (CallLimit(rate=5), CallLimit("a*", "s", "t", ("tool", "agent"), None, 2))},
    ),
    ({"limits": [{"rate": 5}, {"rate": 5}]}, {"limits": (CallLimit(rate=5),)}),
    ({"telemetry": {}}, {"telemetry": TelemetrySettings()}),
    (
        {"telemetry": {"endpoint": "http://127.0.0.1:4318", "traces": False, "sample": 0.5}},
        {"telemetry": TelemetrySettings("http://127.0.0.1:4318", traces=False, sample=0.5)},
    ),
    ({"jwt": ISSUER}, {"jwt": JwtSettings("https://a.example", ("b",))}),
    (
        {
            "public_url": "https://g.example/mcp",
            "jwt": {"issuer": "x", "jwks": "k.json", "agent_claim": "c", "algorithms": ["RS256"]},
        },
        {
            "public_url": "https://g.example/mcp",
            "jwt": JwtSettings("x", ("https://g.example/mcp",), "/k.json", "c", ("RS256",)),
        },
    ),
    (
        {"issuers": [OTHER]},
        {"issuers": (JwtSettings("https://c.example", ("d", "e"), "https://c.example/keys", None),)},
    ),
    (
        {"issuers": [OTHER], "identities": [{"agent": "x", "match": {"a.b": "c*", "d": True}}]},
        {
            "issuers": (JwtSettings("https://c.example", ("d", "e"), "https://c.example/keys", None),),
            "identities": (IdentityRule("x", (("a.b", "c*"), ("d", True))),),
        },
    ),
    (
        {"issuers": [OTHER], "identities": [{"agent": "x", "match": {"iss": "https://c.example", "d": "e"}}]},
        {
            "issuers": (JwtSettings("https://c.example", ("d", "e"), "https://c.example/keys", None),),
            "identities": (IdentityRule("x", (("d", "e"),), "https://c.example"),),
        },
    ),
    (
        {"jwt": ISSUER, "scopes": {"all:x": {"all": True}, "y": {"servers": ["s*"], "tools": {"t": ["u", "v*"]}}}},
        {
            "jwt": JwtSettings("https://a.example", ("b",)),
            "scopes": (ScopeRule("all:x", all=True), ScopeRule("y", ("s*",), (("t", ("u", "v*")),))),
        },
    ),
]


@pytest.mark.parametrize(("said", "expected"), READ, ids=[str(row[0])[:70] for row in READ])
def test_the_gateway_is_set_as_its_table_says(said: Tree, expected: dict[str, Any]) -> None:
    assert settings(layer(USER, said)) == GatewaySettings(**expected)


def test_of_each_setting_the_strongest_layer_counts_and_limits_of_all_hold() -> None:
    weaker = {
        "max_calls": 3,
        "rate": 7,
        "limits": [{"rate": 1}],
        "telemetry": {"traces": False},
        "metrics_agents": ["a"],
    }
    stronger = {"max_calls": 4, "limits": [{"rate": 2}, {"rate": 1}], "telemetry": {"metrics": True}}
    assert settings(layer(USER, weaker), layer(MANAGED, stronger)) == GatewaySettings(
        max_calls=4,
        rate=7,
        limits=(CallLimit(rate=1), CallLimit(rate=2)),
        telemetry=TelemetrySettings(metrics=True),
        metrics_agents=("a",),
    )


FINE: list[Tree] = [
    {"public_url": "http://localhost:8080/mcp"},
    {"public_url": "http://127.0.0.1/"},
    {"jwt": {**ISSUER, "jwks": "http://localhost/keys"}},
    {"jwt": ISSUER, "issuers": [{**ISSUER, "issuer": "https://a.example/X"}]},
    {"issuers": [ISSUER], "identities": [{"agent": "x", "match": {"c" * 256: "d"}}]},
]
WRONG: list[tuple[Tree, str]] = [
    ({"public_url": "http://a.example/"}, "this is no plain https URL"),
    ({"public_url": "https://me@a.example/"}, "this is no plain https URL"),
    ({"public_url": "https://a:99999/"}, "this is no plain https URL"),
    ({"jwt": {**ISSUER, "jwks": "ftp://localhost/keys"}}, "keys are fetched by https only"),
    ({"jwt": {**ISSUER, "jwks": "https://[::1/keys"}}, "keys are fetched by https only"),
    ({"jwt": ISSUER, "issuers": [{**ISSUER, "issuer": "https://a.example/"}]}, "this issuer is there already"),
    ({"issuers": [ISSUER], "identities": [{"agent": "x", "match": {"c" * 257: "d"}}]}, "is no name of a claim"),
    ({"issuers": [ISSUER], "identities": [{"agent": "", "match": {"c": "d"}}]}, "is not the name of one agent"),
    ({"access_log": "/a\0"}, "the access log needs a whole path"),
    ({"access_log": "~/a"}, "the access log needs a whole path"),
]


@pytest.mark.parametrize("said", FINE, ids=str)
def test_what_the_gateway_takes(said: Tree) -> None:
    assert settings(layer(USER, said)) != GatewaySettings()


@pytest.mark.parametrize(("said", "problem"), WRONG, ids=[str(row[0])[:60] for row in WRONG])
def test_what_the_gateway_does_not_take(said: Tree, problem: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        settings(layer(USER, said))
    assert problem in str(caught.value)


def test_without_a_home_a_file_of_keys_is_named_as_it_is_written() -> None:
    said = settings(layer(USER, {"jwt": {**ISSUER, "jwks": "~/k"}}))
    assert said.jwt is not None
    assert said.jwt.jwks == "/~/k"


def test_any_of_several_files_of_the_user_s_own_keeps_a_project_from_naming_an_issuer() -> None:
    own = (layer(USER, {"jwt": ISSUER}), layer(COMMAND_LINE, {"max_calls": 1}))
    with pytest.raises(ConfigErrors) as caught:
        settings(*own, layer(PROJECT, {"jwt": {**ISSUER, "jwks": "k"}}).replace(content=b"[gateway.jwt]\n"))
    assert str(caught.value).startswith("project.toml:1: a project's file cannot set jwt beside your own jwt")


OWN_ONLY: list[tuple[Tree, Tree, list[str]]] = [
    ({}, {"public_url": "https://g.example/"}, ["a project's file cannot set public_url"]),
    ({}, {"issuers": [{**OTHER, "jwks": "k"}]}, ["a project's file cannot set issuers"]),
    ({}, {"jwt": {**ISSUER, "jwks": "k"}}, []),
    ({}, {"jwt": ISSUER}, ["a project's file cannot say where keys are fetched from"]),
    (
        {},
        {"jwt": {**ISSUER, "jwks": "https://a.example/k"}},
        ["a project's file cannot say where keys are fetched from"],
    ),
    ({"max_calls": 1}, {"jwt": {**ISSUER, "jwks": "k"}}, []),
    ({"jwt": ISSUER}, {"max_calls": 1}, []),
    (
        {"jwt": ISSUER},
        {"jwt": {**ISSUER, "jwks": "k"}},
        ["a project's file cannot set jwt beside your own jwt: its tokens would count like those you mean"],
    ),
    (
        {"public_url": "https://g.example/"},
        {"jwt": {**ISSUER, "jwks": "k"}},
        ["a project's file cannot set jwt beside your own public_url: its tokens would count like those you mean"],
    ),
    ({}, {"access_log": True}, []),
    ({}, {"access_log": "/x"}, ["a project's file cannot name a file for the access log"]),
    ({}, {"telemetry": {}}, ["a project's file cannot say where telemetry is sent"]),
    ({}, {"max_calls": 1, "limits": [{"rate": 1}]}, []),
]


@pytest.mark.parametrize(("own", "theirs", "problems"), OWN_ONLY)
def test_whose_tokens_count_and_where_data_goes_is_not_for_a_project_to_say(
    own: Tree, theirs: Tree, problems: list[str]
) -> None:
    for name in (COMMAND_LINE, MANAGED):
        settings(layer(USER, own), layer(name, theirs))
    if not problems:
        settings(layer(USER, own), layer(PROJECT, theirs))
        return
    content = b"[gateway]\n"
    project = layer(PROJECT, theirs).replace(content=content)
    with pytest.raises(ConfigErrors) as caught:
        settings(layer(USER, own), project)
    assert [str(error).split(": ", 1)[1].partition("\n")[0] for error in caught.value.exceptions] == problems


@pytest.mark.parametrize(("jwks", "is_url"), [("", True), ("https://a/k", True), ("/a/k.json", False), ("a//b", False)])
def test_keys_come_from_a_url_or_from_a_file(jwks: str, *, is_url: bool) -> None:
    assert JwtSettings("i", ("a",), jwks).is_url is is_url


SCOPES: list[tuple[ScopeRule, str, str | None, bool]] = [
    (ScopeRule("x", all=True), "s", None, True),
    (ScopeRule("x", ("s*",)), "sa", None, True),
    (ScopeRule("x", ("s*",)), "sa", "t", True),
    (ScopeRule("x", ("a", "s")), "s", "t", True),
    (ScopeRule("x", ("s",)), "t", "t", False),
    (ScopeRule("x", (), (("s", ("t", "u")),)), "s", "t", True),
    (ScopeRule("x", (), (("s", ("t", "u")),)), "s", "v", False),
    (ScopeRule("x", (), (("s", ("t",)),)), "a", "t", False),
    (ScopeRule("x", (), (("s", ("t",)),)), "s", None, False),
    (ScopeRule("x", (), (("s", ("*",)), ("r", ("t",)))), "r", "t", True),
]


@pytest.mark.parametrize(("rule", "server", "tool", "covered"), SCOPES)
def test_what_a_scope_is_needed_for(rule: ScopeRule, server: str, tool: str | None, *, covered: bool) -> None:
    assert rule.covers(server, tool) is covered
    assert GatewaySettings(scopes=(rule,)).scopes_for(server, tool) == (("x",) if covered else ())


LIMITS: list[tuple[CallLimit, str | None, str, str | None, bool]] = [
    (CallLimit(), None, "s", None, True),
    (CallLimit(), "a", "s", "t", True),
    (CallLimit(agent="a*"), "ab", "s", "t", True),
    (CallLimit(agent="a*"), "b", "s", "t", False),
    (CallLimit(agent="?*"), None, "s", "t", False),
    (CallLimit(server="s"), "a", "t", "t", False),
    (CallLimit(tool="t*"), "a", "s", "tu", True),
    (CallLimit(tool="t*"), "a", "s", "u", False),
    (CallLimit(tool="t*"), "a", "s", None, False),
    (CallLimit(tool="*"), "a", "s", None, True),
]


@pytest.mark.parametrize("row", LIMITS)
def test_what_a_limit_is_about(row: tuple[CallLimit, str | None, str, str | None, bool]) -> None:
    limit, agent, server, tool, covered = row
    assert limit.covers(agent, server, tool) is covered


def test_servers_of_scopes_that_are_configured_nowhere_are_pointed_out() -> None:
    rule = ScopeRule("x", ("near", "far", "w*"), (("gone", ("t",)), ("near", ("t",)), ("v*", ("t",))))
    limits = (CallLimit(server="away"), CallLimit(server="near"), CallLimit(server="local"), CallLimit(server="u*"))
    found = GatewaySettings(scopes=(rule,), limits=limits)
    assert list(found.warnings(frozenset({"near"}))) == [
        "gateway.scopes.x: no server of that name is configured: far",
        "gateway.scopes.x: no server of that name is configured: gone",
        "gateway.limits: no server of that name is configured: away",
    ]
    assert list(found.warnings(frozenset())) == []


ENDPOINTS = {
    "http://127.0.0.1:4318": "",
    "https://c.example/x": "",
    "nonsense": "telemetry is sent by http or https",
    "ftp://c.example": "telemetry is sent by http or https",
    "https://c.example/#x": "the URL of a collector has no query and no fragment",
    "https://c.example/?x": "the URL of a collector has no query and no fragment",
}


@pytest.mark.parametrize(("endpoint", "problem"), ENDPOINTS.items())
def test_where_telemetry_may_be_sent(endpoint: str, problem: str) -> None:
    assert endpoint_problem(endpoint) == problem


def test_agents_that_are_bound_are_those_that_prove_who_they_are() -> None:
    agents = {"t": {"token": "sha256:" + "a" * 64}, "w": {"jwt": "x"}, "free": {}}
    said: Tree = {"jwt": ISSUER, "identities": [{"agent": "i", "match": {"a": "b"}}]}
    assert compile_layers([layer(USER, said, agents=agents)], CompileContext(Root("/"))).bound_agents == {"t", "w", "i"}
