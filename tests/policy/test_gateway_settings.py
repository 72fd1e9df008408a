"""Whose tokens count, whom they mean and what they must hold: said by the user alone, and checked when it is read."""

from pathlib import Path

import pytest

from byleave.errors import ConfigErrors
from byleave.policy.gateway_settings import ALGORITHMS, CallLimit, IdentityRule, JwtSettings, ScopeRule
from scene import Scene

URL = "https://mcp.example.com/mcp"
ONE = "[[gateway.issuers]]\nissuer = 'https://id.example.com'\naudience = 'a'\n"
TWO = ONE + "[[gateway.issuers]]\nissuer = 'https://other.example.com/realms/x'\naudience = 'a'\n"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def test_the_settings_of_a_resource_server(scene: Scene) -> None:
    scene.say(
        "user",
        f"""
[gateway]
public_url = "{URL}"

[[gateway.issuers]]
issuer = "https://id.example.com"

[[gateway.issuers]]
issuer = "https://other.example.com/"
audience = ["x", "y"]
jwks = "~/keys.json"
agent_claim = "email"
algorithms = ["ES256"]

[[gateway.identities]]
match = {{ iss = "https://id.example.com", groups = "builders", "realm_access.roles" = "admin-*", verified = true }}
agent = "builder"

[gateway.scopes]
mcp = {{ all = true }}
"tools:write" = {{ servers = ["postgres"], tools = {{ github = ["create_*"] }} }}
""",
    )
    compiled = scene.load().compiled
    gateway = compiled.gateway
    assert gateway.public_url == URL
    assert gateway.issuers == (
        JwtSettings("https://id.example.com", (URL,), "", None, ALGORITHMS),
        JwtSettings("https://other.example.com/", ("x", "y"), f"{scene.home}/keys.json", "email", ("ES256",)),
    )
    match = (("groups", "builders"), ("realm_access.roles", "admin-*"), ("verified", True))
    assert gateway.identities == (IdentityRule("builder", match, "https://id.example.com"),)
    tools = (("github", ("create_*",)),)
    assert gateway.scopes == (ScopeRule("mcp", all=True), ScopeRule("tools:write", ("postgres",), tools))
    assert "builder" in compiled.bound_agents
    assert [each.is_url for each in gateway.issuers] == [True, False]


def test_the_form_for_one_issuer_may_leave_out_what_the_other_may(scene: Scene) -> None:
    scene.say("user", f"[gateway]\npublic_url = '{URL}'\n[gateway.jwt]\nissuer = 'https://id.example.com'\n")
    assert scene.load().compiled.gateway.all_issuers == (JwtSettings("https://id.example.com", (URL,), "", "sub"),)


WRONG = {
    "a public URL without TLS": ("[gateway]\npublic_url = 'http://mcp.example.com/mcp'\n", "no plain https URL"),
    "a public URL with a user": ("[gateway]\npublic_url = 'https://u:p@e.com/mcp'\n", "no plain https URL"),
    "a public URL with a query": ("[gateway]\npublic_url = 'https://e.com/mcp?a=b'\n", "no plain https URL"),
    "a public URL with a fragment": ("[gateway]\npublic_url = 'https://e.com/mcp#a'\n", "no plain https URL"),
    "a public URL with a quote": ("[gateway]\npublic_url = 'https://e.com/m\"cp'\n", "no plain https URL"),
    "a public URL with a line end": ('[gateway]\npublic_url = "https://e.com/mcp\\r\\nX: y"\n', "no plain https URL"),
    "a public URL that is none": ("[gateway]\npublic_url = 'mcp.example.com'\n", "no plain https URL"),
    "no audience": ("[[gateway.issuers]]\nissuer = 'https://id.example.com'\n", "for which audience"),
    "an empty audience": (ONE.replace("'a'", "''"), "cannot be empty"),
    "an issuer without TLS": (ONE.replace("https", "http"), "an issuer is a plain https URL"),
    "an issuer of no URL": (ONE.replace("https://id.example.com", "us"), "an issuer is a plain https URL"),
    "an issuer that cannot be asked": ("[gateway.jwt]\nissuer = 'us'\naudience = 'a'\n", "can be asked of an issuer"),
    "one issuer twice": (ONE + ONE, "this issuer is there already"),
    "one issuer with a slash": (ONE + ONE.replace(".com", ".com/"), "this issuer is there already"),
    "one issuer in both forms": (ONE + ONE.replace("[[gateway.issuers]]", "[gateway.jwt]"), "is there already"),
    "keys without TLS": (ONE + "jwks = 'http://e.com/k'\n", "keys are fetched by https only"),
    "identities without an issuer": (
        "[[gateway.identities]]\nmatch = {a = 'b'}\nagent = 'x'\n",
        "there is no issuer whose tokens",
    ),
    "a match of nothing": (ONE + "[[gateway.identities]]\nmatch = {}\nagent = 'x'\n", "this would be every token"),
    "an unknown issuer": (
        ONE + "[[gateway.identities]]\nmatch = {iss = 'https://id.example.com/'}\nagent = 'x'\n",
        "no such issuer is configured",
    ),
    "a group of any issuer": (
        TWO + "[[gateway.identities]]\nmatch = {groups = 'a'}\nagent = 'x'\n",
        "there are several issuers",
    ),
    "an agent that is a glob": (ONE + "[[gateway.identities]]\nmatch = {a = 'b'}\nagent = 'x*'\n", "the name of one"),
    "the default agent": (ONE + "[[gateway.identities]]\nmatch = {a = 'b'}\nagent = 'default'\n", "the name of one"),
    "the agent by default": (
        "[gateway]\ndefault_agent = 'x'\n" + ONE + "[[gateway.identities]]\nmatch = {a = 'b'}\nagent = 'x'\n",
        "the name of one",
    ),
    "an empty value": (ONE + "[[gateway.identities]]\nmatch = {a = ''}\nagent = 'x'\n", "the pattern is empty"),
    "an open bracket": (ONE + "[[gateway.identities]]\nmatch = {a = 'b['}\nagent = 'x'\n", "is not closed"),
    "a value that is a number": (ONE + "[[gateway.identities]]\nmatch = {a = 7}\nagent = 'x'\n", "identities[0].match"),
    "a path without an end": (
        ONE + "[[gateway.identities]]\nmatch = {'a.b.c.d.e.f.g.h.i' = 'x'}\nagent = 'x'\n",
        "is no name of a claim",
    ),
    "scopes without an issuer": ("[gateway.scopes]\na = {all = true}\n", "there is no issuer whose tokens"),
    "a scope with a blank": (ONE + "[gateway.scopes]\n'a b' = {all = true}\n", "is no scope"),
    "a scope with a quote": (ONE + "[gateway.scopes]\n'a\"b' = {all = true}\n", "is no scope"),
    "a scope with a line end": (ONE + '[gateway.scopes]\n"a\\r\\nb" = {all = true}\n', "is no scope"),
    "a scope for nothing": (ONE + "[gateway.scopes]\na = {}\n", "what is this scope needed for?"),
    "a scope for all and some": (ONE + "[gateway.scopes]\na = {all = true, servers = ['x']}\n", "needed for?"),
    "a server that is no glob": (ONE + "[gateway.scopes]\na = {servers = ['x[']}\n", "is not closed"),
    "a tool that is no glob": (ONE + "[gateway.scopes]\na = {tools = {x = ['']}}\n", "the pattern is empty"),
    "a limit of nothing": ("[[gateway.limits]]\nserver = 'db'\n", "this limits nothing"),
    "a limit for no glob": ("[[gateway.limits]]\ntool = 'x['\nrate = 1\n", '"x[": a "[" is not closed'),
    "a word that is never read": (ONE + "[agents.a]\njwt = 'w'\n", "read in tokens of [gateway.jwt] only"),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_meant_is_an_error(scene: Scene, text: str, problem: str) -> None:
    scene.say("user", text)
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert problem in str(caught.value)


OWN = {
    "public_url": f"[gateway]\npublic_url = '{URL}'\n",
    "issuers": ONE,
    "identities": "[[gateway.identities]]\nmatch = {a = 'b'}\nagent = 'x'\n",
    "scopes": "[gateway.scopes]\na = {servers = ['*']}\n",
    "keys by discovery": "[gateway.jwt]\nissuer = 'https://id.example.com'\naudience = 'a'\n",
}


@pytest.mark.parametrize("key", OWN)
def test_a_project_cannot_say_whose_tokens_count(scene: Scene, key: str) -> None:
    scene.say("user", ONE if key in ("identities", "scopes") else "")
    scene.say("project", OWN[key])
    assert scene.load().compiled.gateway.identities == ()  # a file that is not trusted is not heard
    assert scene.load().compiled.gateway.public_url is None
    assert scene.load().compiled.gateway.scopes == ()
    scene.trust()
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert "a project's file cannot" in str(caught.value)


JWT = "[gateway.jwt]\nissuer = '{}'\naudience = 'a'\njwks = 'keys.json'\n"


OF_OTHERS = [("user", ONE), ("user", JWT.format("https://id.example.com")), ("managed", OWN["public_url"])]


@pytest.mark.parametrize(("layer", "own"), OF_OTHERS)
def test_a_project_cannot_put_an_issuer_in_place_of_or_beside_the_users(scene: Scene, layer: str, own: str) -> None:
    scene.say(layer, own)
    scene.say("project", JWT.format("the project"))
    before = scene.load().compiled.gateway
    assert "the project" not in [each.issuer for each in before.all_issuers]
    scene.trust()
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert "a project's file cannot set jwt beside your own" in str(caught.value)


@pytest.mark.parametrize("key", ["public_url", "issuers", "keys by discovery"])
def test_a_file_that_the_user_names_can(scene: Scene, key: str) -> None:
    gateway = scene.load(scene.say("command line", OWN[key])).compiled.gateway
    assert gateway.public_url or gateway.all_issuers


def test_a_scope_for_a_server_that_is_nowhere_is_worth_a_warning(scene: Scene) -> None:
    scene.say("user", ONE + "[gateway.scopes]\na = {servers = ['bd', 'x*']}\n[servers.db]\ncommand = ['a']\n")
    warnings = scene.load().compiled.warnings
    assert "gateway.scopes.a: no server of that name is configured: bd" in warnings


def test_a_limit_for_a_server_that_is_nowhere_is_worth_a_warning(scene: Scene) -> None:
    limits = "".join(f"[[gateway.limits]]\nserver = '{name}'\nrate = 1\n" for name in ("bd", "x*", "local", "db"))
    scene.say("user", limits + "[servers.db]\ncommand = ['a']\n")
    assert scene.load().compiled.warnings == ("gateway.limits: no server of that name is configured: bd",)


LIMIT = CallLimit("ci-*", "db", "get_*")
CALLS = [
    (LIMIT, ("ci-1", "db", "get_x"), True),
    (LIMIT, ("ci-1", "db", "put_x"), False),
    (LIMIT, ("ci-1", "wiki", "get_x"), False),
    (LIMIT, ("dev", "db", "get_x"), False),
    (LIMIT, (None, "db", "get_x"), False),
    (LIMIT, ("ci-1", "db", None), False),
    (CallLimit(), (None, "db", None), True),
]


@pytest.mark.parametrize(("limit", "call", "expected"), CALLS, ids=str)
def test_a_limit_is_about_the_calls_that_all_its_patterns_match(
    limit: CallLimit, call: tuple[str | None, str, str | None], *, expected: bool
) -> None:
    assert limit.covers(*call) is expected


def test_what_is_no_tool_needs_the_scopes_of_its_whole_server(scene: Scene) -> None:
    scopes = "[gateway.scopes]\nall = {all = true}\nwhole = {servers = ['d*']}\npart = {tools = {db = ['put_*']}}\n"
    scene.say("user", ONE + scopes)
    gateway = scene.load().compiled.gateway
    needed = [gateway.scopes_for(*of) for of in (("db", "put_x"), ("db", "get_x"), ("db", None), ("wiki", "put_x"))]
    assert needed == [("all", "whole", "part"), ("all", "whole"), ("all", "whole"), ("all",)]


def test_a_limit_is_named_by_what_it_matches() -> None:
    assert LIMIT.patterns == (("agent", "ci-*"), ("server", "db"), ("tool", "get_*"))
