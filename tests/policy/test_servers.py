"""MCP servers, agents and the gateway as files describe them: ours, and those of other programs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.access import PUBLIC
from byleave.core.action import EnvAction, FileAction, UrlAction
from byleave.core.decide import decide
from byleave.core.decision import ALLOW, DENY
from byleave.core.fs_rules import FsTarget
from byleave.errors import ConfigError, ConfigErrors
from byleave.guard.warnings import mask_for
from byleave.policy.gateway_settings import GatewaySettings
from byleave.policy.gateway_types import name_problem
from byleave.policy.servers import ServerConfig, expanded
from command import byleave as run
from scene import Scene

HASH = "sha256:" + 64 * "a"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def told(scene: Scene, text: str, layer: str = "user") -> str:
    """Return what is wrong with a configuration."""
    scene.say(layer, text)
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    return str(caught.value).replace(str(scene.file(layer)), "FILE")


def server_of(scene: Scene, text: str) -> ServerConfig:
    scene.say("user", text)
    (server,) = scene.load().compiled.servers.values()
    return server


def test_a_server_is_read_with_all_it_may_say(scene: Scene) -> None:
    server = server_of(
        scene,
        """
[servers.git-hub]
command = "npx -y some-server"
args = ["--fast"]
env = { TOKEN = "${GITHUB_TOKEN}" }
description = "issues"
may = ["roots"]
limits = { memory = "1 GB" }
""",
    )
    assert server == ServerConfig(
        "git-hub",
        "stdio",
        command=("npx", "-y", "some-server", "--fast"),
        env={"TOKEN": "${GITHUB_TOKEN}"},
        description="issues",
        may=("roots",),
        settings={"memory": 1 << 30},
        source=f"{scene.file('user')}:2",
    )
    assert (server.tool, server.tool_of("x"), server.variables) == (
        "servers.git-hub",
        "servers.git-hub",
        ("GITHUB_TOKEN",),
    )
    assert server.limits.memory == 1 << 30


def test_a_server_may_be_reached_by_a_url(scene: Scene) -> None:
    server = server_of(scene, '[servers.x]\nurl = "https://e.com/mcp"\nheaders = { Authorization = "Bearer ${T}" }\n')
    assert (server.transport, server.command, server.url) == ("http", None, "https://e.com/mcp")


WRONG = {
    "neither": ("[servers.x]\ndescription = 'x'\n", "has neither a command nor a url"),
    "both": ("[servers.x]\ncommand = ['a']\nurl = 'https://e.com'\n", "has a command and a url"),
    "a name with two underscores": ("[servers.a__b]\ncommand = ['a']\n", "a name is letters"),
    "the name of the tools": ("[servers.local]\ncommand = ['a']\n", '"local" stands for the configured tools'),
    "no letters at all": ("[servers.'']\ncommand = ['a']\n", "a name is letters"),
    "a dot": ("[servers.'a.b']\ncommand = ['a']\n", "a name is letters"),
    "a transport for a command": ("[servers.x]\ncommand = ['a']\ntransport = 'sse'\n", "does not speak sse"),
    "stdio for a url": ("[servers.x]\nurl = 'https://e.com'\ntransport = 'stdio'\n", "is not reached by stdio"),
    "headers for a command": ("[servers.x]\ncommand = ['a']\nheaders = {A = 'b'}\n", "headers mean nothing"),
    "env for a url": ("[servers.x]\nurl = 'https://e.com'\nenv = {A = 'b'}\n", "no process that env"),
    "access for a url": ("[servers.x]\nurl = 'https://e.com'\naccess = {}\n", "no process that access"),
    "another scheme": ("[servers.x]\nurl = 'file:///etc/passwd'\n", "cannot be reached"),
    "a password": ("[servers.x]\nurl = 'https://u:p@e.com'\n", "user name or a password"),
    "a header with a line end": ("[servers.x]\nurl = 'https://e.com'\nheaders = {A = \"b\\nC: d\"}\n", "line end"),
    "a header that is none": ("[servers.x]\nurl = 'https://e.com'\nheaders = {'A B' = 'c'}\n", "no name of a header"),
    "a header of ours": ("[servers.x]\nurl = 'https://e.com'\nheaders = {Host = 'c'}\n", "set by byleave itself"),
    "access at a tool of a stateful server": (
        "[servers.x]\ncommand = ['a']\n[[servers.x.tools.t.access.fs]]\npath = '.'\nread = true\n",
        "put it into [servers.x.access], or write stateful = false",
    ),
    "a place outside": ("[servers.x]\ncommand = ['a']\ncwd = '/etc'\n", "is not in the workspace"),
    "an empty command": ("[servers.x]\ncommand = []\n", "the command is empty"),
    "arguments alone": ("[servers.x]\nargs = ['a']\n", "args needs a command"),
    "a variable that cannot be": ("[servers.x]\ncommand = ['a']\nenv = {'A=B' = 'c'}\n", "which cannot be"),
    "byleave itself": ("[servers.x]\ncommand = ['byleave', 'mcp']\n", "is byleave itself"),
    "byleave by Python": ("[servers.x]\ncommand = ['python3', '-m', 'byleave', 'mcp']\n", "is byleave itself"),
    "an unknown key": ("[servers.x]\ncommand = ['a']\ntransprot = 'sse'\n", 'did you mean "transport"?'),
    "a tool with the name of a server's process": (
        "[tools.'servers.x']\nsource = 'local'\n",
        'begins with "servers."',
    ),
    "a token that is none": ("[agents.a]\ntoken = 'secret'\n", "byleave agents token"),
    "a token in a list that is none": ("[agents.a]\ntoken = ['secret']\n", "agents.a.token[0]"),
    "a token for many": (f"[agents.'a*']\ntoken = '{HASH}'\n", "is a glob, and a token belongs to one agent"),
    "one token for two": (
        f"[agents.a]\ntoken = '{HASH}'\n[agents.b]\ntoken = '{HASH.upper().replace('SHA', 'sha')}'\n",
        "so the two agents could not be distinguished",
    ),
    "an agent's typo": ("[agents.a]\nalow.servers = ['x']\n", 'did you mean "allow"?'),
    "a reach's typo": ("[agents.a]\nallow.server = ['x']\n", 'did you mean "servers"?'),
    "a size that is none": ("[gateway]\nmax_body = 'much'\n", '"much" is no size'),
    "keys fetched without TLS": (
        "[gateway.jwt]\nissuer = 'i'\naudience = 'a'\njwks = 'http://e.com/k'\n",
        "keys are fetched by https only",
    ),
    "a proxy by name": ("[gateway]\ntrusted_proxies = ['proxy.example']\n", "this is no address, and no network"),
    "a network with a host in it": ("[gateway]\ntrusted_proxies = ['10.1.2.3/8']\n", "this is no address"),
    "every proxy there is": ("[gateway]\ntrusted_proxies = ['10.0.0.1', '::/0']\n", "this is every address there is"),
    "a header of another name": ("[gateway]\nproxy_header = 'x-real-ip'\n", 'unknown value "x-real-ip"'),
    "no connections at all": ("[gateway]\nmax_connections = 0\n", "max_connections"),
    "telemetry by another scheme": ("[gateway.telemetry]\nendpoint = 'grpc://e.com'\n", "is sent by http or https"),
    "telemetry with a password": ("[gateway.telemetry]\nendpoint = 'https://a:b@e.com'\n", "no user name"),
    "telemetry with a query": ("[gateway.telemetry]\nendpoint = 'https://e.com/?key=1'\n", "has no query"),
    "more than all traces": ("[gateway.telemetry]\nsample = 2\n", "sample"),
    "an access log somewhere": ("[gateway]\naccess_log = 'here.log'\n", "the access log needs a whole path"),
    "a log of another form": ("[gateway]\nlog_format = 'xml'\n", 'unknown value "xml"'),
    "tokens for anybody": ("[gateway.jwt]\nissuer = 'i'\naudience = []\njwks = 'k'\n", "cannot be empty"),
    "a shared secret": (
        "[gateway.jwt]\nissuer = 'i'\naudience = 'a'\njwks = 'k'\nalgorithms = ['HS256']\n",
        'unknown value "HS256"',
    ),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_used_is_an_error_with_its_place(scene: Scene, text: str, problem: str) -> None:
    said = told(scene, text)
    assert problem in said
    assert said.startswith("FILE:")


def test_variables_are_filled_in_where_they_are_used() -> None:
    server = ServerConfig(
        "s",
        "stdio",
        command=("run", "${HOME}/x", "$HOME", "${A:-none}", "${}"),
        env={"T": "${A}-${B:-d}", "E": "${EMPTY:-d}"},
    )
    found = expanded(server, {"A": "secret", "HOME": "/h", "EMPTY": ""})
    assert found.command == ("run", "/h/x", "$HOME", "secret", "${}")
    assert found.env == {"T": "secret-d", "E": "d"}
    assert found.secrets == ("secret",)


def test_a_variable_that_is_missing_is_named() -> None:
    server = ServerConfig("s", "http", url="https://e.com/${PLACE}", source="f:3")
    with pytest.raises(ConfigError, match=r'f:3: the server "s" needs the variable PLACE, which is not set'):
        expanded(server, {})


@pytest.mark.parametrize("value", ["x\r\nEvil: 1", "x\0"])
def test_a_variable_cannot_add_a_header(value: str) -> None:
    with pytest.raises(ConfigError, match="line end or a control character"):
        expanded(ServerConfig("s", "http", url="https://e.com", headers={"A": "${V}"}), {"V": value})


def test_a_variable_cannot_lead_to_another_scheme() -> None:
    with pytest.raises(ConfigError):
        expanded(ServerConfig("s", "http", url="${U}"), {"U": "file:///etc/passwd"})


@pytest.mark.parametrize("name", ["a", "A-1", "a_b", "-", "9_9-x"])
def test_names_of_servers(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["", "_a", "a_", "a__b", "a b", "a\n", "\u00e9", "local", 65 * "a", "a/b", "."])
def test_no_names_of_servers(name: str) -> None:
    assert name_problem(name) is not None


# What the process of a server may touch.


def verdicts(scene: Scene, tool: str) -> dict[str, str]:
    policy = scene.load().compiled.policy
    place = FsTarget(f"{scene.root}/x", "x", exists=True)
    asked: dict[str, Any] = {
        "read": (FileAction("read", "x", tool), (place,)),
        "update": (FileAction("update", "x", tool), (place,)),
        "public": (UrlAction("https://example.com/", tool=tool), ()),
        "private": (UrlAction("http://127.0.0.1:80/", tool=tool), ()),
        "by name": (UrlAction("http://localhost/", tool=tool), ()),
        "by address": (UrlAction("https://example.com/", tool=tool, address="10.0.0.1"), ()),
        "password": (UrlAction("https://u:p@example.com/", tool=tool), ()),
        "variable": (EnvAction("SECRET", tool), ()),
    }
    return {what: str(decide(policy, action, places).decision) for what, (action, places) in asked.items()}


def test_a_server_without_access_reads_the_workspace_and_reaches_public_places(scene: Scene) -> None:
    scene.say("user", "[servers.x]\ncommand = ['a']\nenv = {T = '${SECRET}'}\n")
    assert verdicts(scene, "servers.x") == {
        **dict.fromkeys(("read", "public"), "allow"),
        **dict.fromkeys(("update", "private", "by name", "by address", "password", "variable"), "deny"),
    }
    assert scene.load().compiled.policy.tool("servers.x").access.net is PUBLIC


def test_a_server_with_access_has_exactly_that(scene: Scene) -> None:
    scene.say(
        "user",
        "[servers.x]\ncommand = ['a']\n[[servers.x.access.fs]]\npath = 'x'\nread = true\nwrite = true\n",
    )
    found = verdicts(scene, "servers.x")
    assert (found["read"], found["update"], found["public"]) == ("allow", "allow", "deny")


def test_one_process_for_each_call_has_the_access_of_its_tool(scene: Scene) -> None:
    scene.say(
        "user",
        "[servers.x]\ncommand = ['a']\nstateful = false\n"
        "[[servers.x.tools.t.access.fs]]\npath = 'x'\nread = true\nwrite = true\n",
    )
    server = scene.load().compiled.servers["x"]
    assert (server.stateful, server.tool_of("t"), server.tool_of("u")) == (False, "servers.x.t", "servers.x")
    assert verdicts(scene, server.tool_of("t"))["update"] == "allow"
    assert verdicts(scene, server.tool_of("u"))["update"] == "deny"


def test_the_suggestion_for_a_server_names_its_own_table(scene: Scene) -> None:
    scene.say("user", "[servers.x]\ncommand = ['a']\n[[servers.x.access.net]]\nhost = 'a.example'\nallow = true\n")
    found = decide(scene.load().compiled.policy, UrlAction("https://b.example/p", tool="servers.x"))
    assert (found.suggestion or "").startswith("[[servers.x.access.net]]")


def test_values_of_variables_are_hidden_from_records(scene: Scene) -> None:
    scene.say("user", "[servers.x]\ncommand = ['a', '${SECRET}']\n")
    mask = mask_for(scene.load().compiled.policy, {"SECRET": "hunter2-hunter2", "OTHER": "plain-plain"})
    assert mask.text("hunter2-hunter2 plain-plain") == "[REDACTED] plain-plain"


# Layers and trust.


def test_how_a_server_is_reached_comes_whole_from_one_layer(scene: Scene) -> None:
    scene.say("user", "[servers.x]\nurl = 'https://e.com'\nheaders = {A = 'secret'}\ndescription = 'd'\n")
    scene.say("command line", "[servers.x]\nurl = 'https://other.example'\n")
    scene.say("managed", "[servers.x]\nurl = 'https://other.example'\n")
    server = scene.load().compiled.servers["x"]
    assert (server.url, dict(server.headers), server.description) == ("https://other.example", {}, "d")


def test_access_may_be_added_to_a_server_of_another_file(scene: Scene) -> None:
    (scene.root / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "a", "args": ["b"]}}}')
    scene.trust(".mcp.json")
    scene.say("user", "[[servers.x.access.fs]]\npath = 'x'\nread = true\n")
    server = scene.load().compiled.servers["x"]
    assert (server.command, server.has_access) == (("a", "b"), True)
    assert verdicts(scene, "servers.x")["public"] == "deny"


def test_an_untrusted_file_brings_no_servers_tokens_or_settings(scene: Scene) -> None:
    scene.say(
        "project",
        f"[servers.x]\ncommand = ['evil']\n[gateway]\nrequire_identity = false\nmax_body = 1\n"
        f"[defaults]\ndeny_on_missing_agent = false\n[agents.a]\ntoken = '{HASH}'\nallow.servers = ['*']\n",
    )
    policy = scene.load()
    assert (policy.compiled.servers, policy.compiled.gateway) == ({}, GatewaySettings())
    assert policy.compiled.agent_tokens == {}
    (warning,) = policy.warnings
    assert warning.startswith("byleave.toml is not trusted yet: it can only tighten, and its servers (x)")
    asked = {"kind": "call", "server": "s", "tool": "t", "agent": "a"}
    assert str(policy.decide(asked).decision) == "ask"
    scene.trust()
    trusted = scene.load()
    assert list(trusted.compiled.servers) == ["x"]
    assert trusted.compiled.agent_tokens == {"a": (64 * "a",)}
    assert trusted.compiled.bound_agents == {"a"}
    assert trusted.decide(asked).decision is ALLOW


CALL = {"kind": "call", "server": "db", "tool": "t", "agent": "a"}
OPEN = "[agents.a]\nallow.servers = ['*']\n"


@pytest.mark.parametrize(
    "text",
    [
        "[agents.a]\ndeny.servers = ['db']\n",
        "[agents.a]\ndeny.tools.'*' = ['t']\n",
        "[agents.a]\nallow.tools.db = ['other']\n",
        "[agents.a]\nallow.servers = { strategy = 'replace', value = ['x'] }\n",
    ],
)
def test_an_untrusted_file_can_tighten(scene: Scene, text: str) -> None:
    scene.say("user", OPEN)
    assert scene.load().decide(CALL).decision is ALLOW
    scene.say("project", text)
    policy = scene.load()
    assert policy.decide(CALL).decision is DENY
    assert not policy.could_call("a", "db", "t")


@pytest.mark.parametrize(
    "text",
    [
        "[agents.a]\nallow.servers = ['*']\n",
        "[agents.a]\ndeny.servers = { strategy = 'replace', value = [] }\nallow.servers = ['*']\n",
        "[defaults]\ndeny_on_missing_agent = false\n",
        "[gateway]\ndefault_agent = 'admin'\n",
        "[[rules]]\nallow = { call = { server = '*' } }\n",
    ],
)
def test_an_untrusted_file_cannot_loosen(scene: Scene, text: str) -> None:
    scene.say("user", "[agents.admin]\nallow.servers = ['*']\n[agents.a]\ndeny.servers = ['db']\n")
    scene.say("project", text)
    assert scene.load().decide(CALL).decision is DENY
    assert scene.load().decide({**CALL, "agent": None}).decision is DENY


def test_a_managed_deny_holds_whatever_stronger_names_or_lists_there_are(scene: Scene) -> None:
    scene.say("managed", "[agents.'*']\ndeny.tools.db = ['t']\n")
    scene.say("user", OPEN)
    assert scene.load().decide(CALL).decision is DENY
    assert scene.load().decide({**CALL, "tool": "u"}).decision is ALLOW
    assert not scene.load().could_call("a", "db", "t")


def test_lists_of_layers_are_joined_as_they_say(scene: Scene) -> None:
    scene.say("user", "[agents.a]\nallow.servers = ['db']\nallow.tools.db = ['t', 'u']\ndeny.tools.db = ['u']\n")
    more = scene.say(
        "command line",
        "[agents.a]\nallow.servers = ['x']\nallow.tools.db = { strategy = 'replace', value = ['v'] }\n",
    )
    scene.say("managed", "[agents.a]\nallow.tools.db = { strategy = 'dedup', value = ['v', 'w'] }\n")
    policy = scene.load(more)
    assert {tool: policy.could_call("a", "x", tool) for tool in "tv"} == {"t": True, "v": True}
    agents = policy.compiled.policy.views[0].agents
    assert agents is not None
    assert [entry.pattern for entry in agents.agents[0].allow.tools["db"]] == ["v", "w"]


def test_a_session_cannot_hold_agents(scene: Scene) -> None:
    assert "a session cannot set agents" in told(scene, OPEN, "session")


def test_keys_are_not_fetched_because_a_project_says_so(scene: Scene) -> None:
    scene.say("project", "[gateway.jwt]\nissuer = 'i'\naudience = 'a'\njwks = 'https://e.com/k'\n")
    scene.trust()
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert "cannot say where keys are fetched from" in str(caught.value)


OUTWARD = {
    "telemetry": ("[gateway.telemetry]\nendpoint = 'https://e.com'\n", "cannot say where telemetry is sent"),
    "telemetry by the environment": ("[gateway.telemetry]\n", "cannot say where telemetry is sent"),
    "a log": ("[gateway]\naccess_log = '/tmp/x'\n", "cannot name a file for the access log"),
}


@pytest.mark.parametrize(("text", "problem"), OUTWARD.values(), ids=OUTWARD)
def test_nothing_is_sent_or_written_elsewhere_because_a_project_says_so(scene: Scene, text: str, problem: str) -> None:
    scene.say("project", text)
    assert scene.load().compiled.gateway.telemetry is None  # not trusted: not heard
    scene.trust()
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert problem in str(caught.value)


def test_telemetry_comes_whole_from_the_strongest_layer(scene: Scene) -> None:
    scene.say(
        "user", "[gateway]\naccess_log = '~/a.log'\n[gateway.telemetry]\nendpoint = 'https://e.com'\nsample = 0.5\n"
    )
    scene.say("managed", "[gateway]\nlog_format = 'json'\n[gateway.telemetry]\nendpoint = 'https://org.com:4318/x'\n")
    gateway = scene.load().compiled.gateway
    assert gateway.telemetry is not None
    assert (gateway.telemetry.endpoint, gateway.telemetry.sample) == ("https://org.com:4318/x", None)
    assert (gateway.log_format, os.path.isabs(str(gateway.access_log))) == ("json", True)


def test_the_gateway_knows_its_proxies_and_how_many_may_come(scene: Scene) -> None:
    scene.say(
        "user",
        "[gateway]\ntrusted_proxies = ['10.0.0.0/8', '::1']\nproxy_header = 'forwarded'\nmax_connections = 50\n"
        "max_connections_per_caller = 20\nmax_connections_per_peer = 10\nmax_sessions_per_caller = 5\n"
        "metrics_agents = ['watcher']\n",
    )
    scene.say("project", "[gateway]\ntrusted_proxies = ['192.0.2.1']\nmetrics_agents = ['evil']\n")  # not trusted
    gateway = scene.load().compiled.gateway
    assert [str(each) for each in gateway.trusted_proxies] == ["10.0.0.0/8", "::1/128"]
    assert (gateway.proxy_header, gateway.metrics_agents) == ("forwarded", ("watcher",))
    assert (gateway.max_connections, gateway.max_connections_per_caller, gateway.max_connections_per_peer) == (
        50,
        20,
        10,
    )
    assert gateway.max_sessions_per_caller == 5


def test_the_gateway_has_its_settings(scene: Scene) -> None:
    scene.say(
        "user",
        "[gateway]\nexpose = 'both'\nmax_body = '1 MB'\nrate = 60\n"
        "[gateway.jwt]\nissuer = 'i'\naudience = 'a'\njwks = 'keys.json'\n",
    )
    scene.say("managed", "[gateway]\nrate = 10\n")
    gateway = scene.load().compiled.gateway
    assert (gateway.expose, gateway.max_body, gateway.rate, gateway.pin_tools) == ("both", 1 << 20, 10, True)
    assert gateway.jwt is not None
    assert (gateway.jwt.jwks, gateway.jwt.audience, gateway.jwt.is_url) == (f"{scene.root}/keys.json", ("a",), False)


WARNED = {
    "an empty list": ("[agents.a]\nallow.servers = ['db']\nallow.tools.db = []\n", "agents.a.allow.tools.db is empty"),
    "an unknown server": (
        "[servers.x]\ncommand = ['a']\n[agents.a]\nallow.tools.bd = ['t']\n",
        "no server of that name is configured: bd",
    ),
    "everybody": (
        "[agents.a]\n[defaults]\ndeny_on_missing_agent = false\n",
        "unknown agents may call anything",
    ),
    "an unknown default": ("[agents.a]\n[gateway]\ndefault_agent = 'b'\n", 'gateway.default_agent is "b"'),
}


@pytest.mark.parametrize(("text", "warning"), WARNED.values(), ids=WARNED.keys())
def test_what_may_not_be_meant_is_pointed_out(scene: Scene, text: str, warning: str) -> None:
    scene.say("user", text)
    assert any(warning in each for each in scene.load().warnings)


def test_servers_that_are_known_are_not_pointed_out(scene: Scene) -> None:
    scene.say("user", "[servers.x]\ncommand = ['a']\n[agents.a]\nallow.servers = ['x', 'local', '*']\n")
    assert scene.load().warnings == ()


# Files of other programs.

SERVERS = {
    "mcpServers": {
        "time": {"type": "stdio", "command": "uvx", "args": ["time-server"], "env": {"A": "${A:-b}"}, "timeout": 5},
        "web": {"type": "streamable-http", "url": "https://e.com/mcp", "headers": {"X": "y"}, "description": "d"},
        "old": {"type": "sse", "url": "https://e.com/sse", "disabled": True, "alwaysAllow": ["x"]},
    }
}
RULES = {"agents": {"a": {"allow": {"servers": ["db"]}, "deny": {"tools": {"db": ["drop_*"]}}}}}


def test_the_files_of_other_programs_are_read_as_they_are(scene: Scene) -> None:
    (scene.root / ".mcp.json").write_text(json.dumps(SERVERS, indent=2))
    (scene.root / ".mcp-gateway-rules.json").write_text(json.dumps(RULES, indent=2))
    for name in (".mcp.json", ".mcp-gateway-rules.json"):
        scene.trust(name)
    policy = scene.load()
    servers = policy.compiled.servers
    assert [(name, each.transport, each.enabled) for name, each in servers.items()] == [
        ("time", "stdio", True),
        ("web", "http", True),
        ("old", "sse", False),
    ]
    assert (servers["time"].command, servers["time"].source) == (("uvx", "time-server"), ".mcp.json:3")
    assert policy.decide(CALL).decision is ALLOW
    denied = policy.decide({**CALL, "tool": "drop_x"})
    assert (denied.decision, denied.because[0].source) == (DENY, ".mcp-gateway-rules.json:12")
    assert policy.decide({**CALL, "agent": "b"}).code == "unknown_agent"


@pytest.mark.parametrize("name", [".mcp.json", "servers.json", "mcp"])
def test_a_file_of_servers_is_known_by_its_name_or_by_what_it_holds(scene: Scene, name: str) -> None:
    file = scene.root.parent / name
    file.write_text(json.dumps(SERVERS))
    assert list(scene.load(file).compiled.servers) == ["time", "web", "old"]


@pytest.mark.parametrize("name", [".mcp-gateway-rules.json", "rules.json"])
def test_a_file_of_rules_may_be_given(scene: Scene, name: str) -> None:
    file = scene.root.parent / name
    file.write_text(json.dumps(RULES))
    assert scene.load(file).decide(CALL).decision is ALLOW


def test_our_own_file_is_stronger_than_theirs(scene: Scene) -> None:
    (scene.root / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "theirs"}}}')
    scene.trust(".mcp.json")
    scene.say("project", "[servers.x]\ncommand = ['ours']\n")
    scene.trust()
    assert scene.load().compiled.servers["x"].command == ("ours",)


def test_a_name_that_only_other_programs_take_is_left_out(scene: Scene) -> None:
    file = scene.root.parent / "servers.json"
    file.write_text('{"mcpServers": {"my server": {"command": "a"}, "x": {"command": "b"}}}')
    policy = scene.load(file)
    assert list(policy.compiled.servers) == ["x"]
    assert any('the server "my server" is left out' in each for each in policy.warnings)


def test_the_gateway_in_a_file_of_another_program_is_not_put_behind_itself(scene: Scene) -> None:
    file = scene.root.parent / "servers.json"
    file.write_text('{"mcpServers": {"gate": {"command": "/opt/bin/byleave", "args": ["mcp", "--agent", "a"]}}}')
    policy = scene.load(file)
    assert policy.compiled.servers == {}
    assert any('the server "gate" is left out: it is byleave itself' in each for each in policy.warnings)


SLIPS = {
    "a typo": ('{\n  "mcpServers": {\n    "x": {"comand": "a"}\n  }\n}', 3, 'did you mean "command"?'),
    "a typo at the top": ('{\n  "mcpServer": {}\n}', 2, 'did you mean "mcpServers"?'),
    "a wrong type": ('{"mcpServers": {"x":\n {"command": "a",\n "args": "b"}}}', 3, "expected a list of strings"),
    "a wrong word": ('{"mcpServers": {"x": {"url": "https://e.com",\n"type": "ftp"}}}', 2, 'unknown value "ftp"'),
    "twice": ('{"mcpServers": {"x": {"command": "a"},\n"x": {"command": "b"}}}', 2, '"x" is given twice'),
    "neither": ('{"mcpServers": {\n\n"x": {}}}', 3, "has neither a command nor a url"),
    "a comment": ('{\n// no\n"mcpServers": {}}', 2, "a key should stand here"),
    "a comma too many": ('{"mcpServers": {},\n}', 2, "a key should stand here"),
    "a comma too few": ('{"mcpServers": {"x": {"command": "a"}\n"y": {}}}', 2, "a comma or } belongs here"),
    "an open string": ('{"mcpServers": {"x\n', 1, "this string is not closed"),
    "nothing": ("", 1, "JSON knows no such value"),
    "more than one value": ("{} {}", 1, "the file should end here"),
    "a number that is none": ('{"mcpServers": {"x": {"timeout": 01}}}', 1, "JSON knows no such value"),
    "not a number": ('{"mcpServers": {"x": {"timeout": NaN}}}', 1, "JSON knows no such value"),
    "without end": ('{"mcpServers": ' + 200 * "[", 1, "values are nested too deep"),
    "no table": ("[1]", 1, "expected a table"),
}


@pytest.mark.parametrize(("text", "line", "problem"), SLIPS.values(), ids=SLIPS.keys())
def test_a_slip_in_a_file_of_servers_is_an_error_with_its_place(
    scene: Scene, text: str, line: int, problem: str
) -> None:
    (scene.root / ".mcp.json").write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        _load_trusted(scene)
    assert str(caught.value).startswith(f".mcp.json:{line}:")
    assert problem in str(caught.value)


def _load_trusted(scene: Scene) -> None:
    """Load the policy, and again when its file counts: some things only show then."""
    scene.load()
    scene.trust(".mcp.json")
    scene.load()


RULE_SLIPS = {
    "a typo": ('{"agents": {"a":\n {"alow": {}}}}', 2, 'did you mean "allow"?'),
    "a bracket": ('{"agents": {"a": {"deny":\n {"tools": {"db":\n ["x[", "y"]}}}}}', 3, 'a "[" is not closed'),
    "a key that is no server": ('{"agents": {"a": {"allow": {"tools":\n {"[": []}}}}}', 2, 'a "[" is not closed'),
    "servers": ('{\n"mcpServer": {}}', 2, "unknown key"),
    "a default": ('{"defaults":\n{"deny_on_missing_agnt": true}}', 2, 'did you mean "deny_on_missing_agent"?'),
}


@pytest.mark.parametrize(("text", "line", "problem"), RULE_SLIPS.values(), ids=RULE_SLIPS.keys())
def test_a_slip_in_a_file_of_rules_is_an_error_with_its_place(scene: Scene, text: str, line: int, problem: str) -> None:
    (scene.root / ".mcp-gateway-rules.json").write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert str(caught.value).startswith(f".mcp-gateway-rules.json:{line}:")
    assert problem in str(caught.value)


def test_trusting_a_file_first_says_what_would_be_active(scene: Scene) -> None:
    (scene.root / "tool.py").write_text("print()")
    (scene.root / ".mcp.json").write_text(
        '{"mcpServers": {"x": {"command": "python", "args": ["tool.py"], "env": {"T": "${TOKEN}"}}}}'
    )
    (scene.root / ".mcp-gateway-rules.json").write_text(json.dumps(RULES))
    env = {"BYLEAVE_HOME": str(scene.home)}
    done = run("trust", "--yes", "--root", str(scene.root), env=env)
    assert done.code == 0
    for line in (
        '[servers.x] env = {T = "${TOKEN}"}, command = ["python", "tool.py"]',
        "your variables: TOKEN",
        'the script "tool.py"',
        '[agents.a]\n    allow.servers = ["db"]\n    deny.tools.db = ["drop_*"]',
        "trusted: .mcp.json, .mcp-gateway-rules.json",
    ):
        assert line in done.out
    (scene.root / "tool.py").write_text("print('changed')")
    shown = run("policy", "show", "--json", "--root", str(scene.root), env=env)
    assert json.loads(shown.out)["servers"] == {}


def test_the_policy_shows_servers_and_agents(scene: Scene) -> None:
    scene.say("user", f"[servers.x]\ncommand = ['a', '${{T}}']\n[servers.w]\nurl = 'https://e.com'\n{OPEN}")
    env = {"BYLEAVE_HOME": str(scene.home)}
    text = run("policy", "show", "--root", str(scene.root), env=env).out
    tree = json.loads(run("policy", "show", "--json", "--root", str(scene.root), env=env).out)
    assert "servers.x  stdio, command: a ${T}" in text
    assert "agents.a" in text
    assert (tree["servers"]["w"]["url"], tree["agents"]["a"]["allow"]) == ("https://e.com", {"servers": ["*"]})


# `byleave agents`.


def test_a_token_and_its_hash_belong_together(scene: Scene) -> None:
    env = {"BYLEAVE_HOME": str(scene.home)}
    done = run("agents", "token", "a", "--yes", "--json", "--root", str(scene.root), env=env)
    made = json.loads(done.out)
    scene.say("user", f"[agents.a]\ntoken = '{made['sha256']}'\nallow.servers = ['db']\n")
    from hashlib import sha256

    assert scene.load().compiled.agent_tokens == {"a": (sha256(made["token"].encode()).hexdigest(),)}
    assert len(made["token"]) == 43
    listed = json.loads(run("agents", "list", "--json", "--root", str(scene.root), env=env).out)
    assert [(each["name"], each["bound"], each["allow"]) for each in listed] == [("a", True, {"servers": ["db"]})]


def test_the_printed_lines_can_be_pasted(scene: Scene) -> None:
    env = {"BYLEAVE_HOME": str(scene.home)}
    done = run("agents", "token", "my agent", "--yes", "--root", str(scene.root), env=env)
    token, rest = done.out.split("\n", 1)
    scene.say("user", rest[rest.index("[agents") :])
    assert list(scene.load().compiled.agent_tokens) == ["my agent"]
    assert token not in rest


def test_a_token_needs_a_person(scene: Scene) -> None:
    done = run("agents", "token", "a", "--root", str(scene.root), env={"BYLEAVE_HOME": str(scene.home)})
    assert done.code != 0
    assert done.out == ""


@pytest.mark.parametrize("agent", ["", "a*", "a\u200b", "\u0430"])
def test_a_token_is_for_one_agent_with_a_plain_name(scene: Scene, agent: str) -> None:
    done = run("agents", "token", "--yes", "--", agent, env={"BYLEAVE_HOME": str(scene.home)})
    assert (done.code, done.out) == (2, "")


def test_a_call_is_checked_from_the_command_line(scene: Scene) -> None:
    scene.say("user", "[agents.a]\nallow.servers = ['db']\nallow.tools.db = ['get']\n")
    env = {"BYLEAVE_HOME": str(scene.home)}
    asked = ("check", "call", "--root", str(scene.root), "--agent")
    codes = [
        run(*asked, "a", "db", env=env).code,
        run(*asked, "a", "db", "get", "--arguments", '{"x": 1}', env=env).code,
        run(*asked, "a", "db", "put", env=env).code,
        run(*asked, "b", "db", "get", env=env).code,
        run(*asked, "a", "db", "get", "--arguments", '{"x": 1, "x": 2}', env=env).code,
    ]
    assert codes == [0, 0, 20, 20, 2]


def test_the_library_offers_the_same(tmp_path: Path) -> None:
    policy = byleave.compile_policy({"agents": {"a": {"allow": {"servers": ["db"]}}}}, root=str(tmp_path))
    assert policy.could_call("a", "db", "x")
    assert not policy.could_call("b", "db", None)
    assert policy.could_use("a", "db", "prompts", "x")
    assert policy.decide_use("a", "x", "prompts", "x").decision is DENY
