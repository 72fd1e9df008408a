"""What the layers say of a server together, and how its texts are filled in: whole values."""

from typing import Any

import pytest

from byleave.core.env_rules import EnvRule, EnvTable
from byleave.errors import ConfigError, ConfigErrors
from byleave.policy.compile import Compiled, compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import MANAGED, PROJECT, USER, Layer
from byleave.policy.parse import parse_file, parse_tree
from byleave.policy.servers import ExpandedServer, ServerConfig, expanded
from byleave.workspace.resolve import Root

Tree = dict[str, Any]


def layer(name: str, server: Tree, *, trusted: bool = True) -> Layer:
    return Layer(name, parse_tree({"servers": {"s": server}}), f"{name}.toml", trusted=trusted)


def compiled(*layers: Layer) -> Compiled:
    return compile_layers(layers, CompileContext(Root("/")))


def server(*layers: Layer) -> ServerConfig:
    return compiled(*layers).servers["s"]


ACCESS: Tree = {"fs": [{"path": "."}]}
SAID: list[tuple[Tree, ServerConfig]] = [
    ({"command": ["x"]}, ServerConfig("s", "stdio", command=("x",), source="user.toml:0")),
    ({"url": "https://h/"}, ServerConfig("s", "http", url="https://h/", source="user.toml:0")),
    (
        {"url": "https://h/", "transport": "sse", "headers": {"A": "b"}, "enable": False, "may": []},
        ServerConfig("s", "sse", url="https://h/", headers={"A": "b"}, enabled=False, may=(), source="user.toml:0"),
    ),
    (
        {"command": ["x"], "cwd": "/", "share": True, "env": {"A": "b"}, "description": "d"},
        ServerConfig(
            "s", "stdio", command=("x",), cwd="/", share=True, env={"A": "b"}, description="d", source="user.toml:0"
        ),
    ),
    ({"command": ["x"], "share": "auto"}, ServerConfig("s", "stdio", command=("x",), source="user.toml:0")),
    (
        {"command": ["x"], "share": False, "access": ACCESS},
        ServerConfig("s", "stdio", command=("x",), share=False, has_access=True, source="user.toml:0"),
    ),
    (
        {"command": ["x"], "stateful": False, "tools": {"t": {"access": ACCESS}, "u": {"access": {}}}},
        ServerConfig(
            "s",
            "stdio",
            command=("x",),
            stateful=False,
            has_access=True,
            tools={"t": "servers.s.t", "u": "servers.s.u"},
            source="user.toml:0",
        ),
    ),
]


@pytest.mark.parametrize(("said", "expected"), SAID, ids=[str(said) for said, _server in SAID])
def test_a_server_has_what_its_table_says(said: Tree, expected: ServerConfig) -> None:
    assert server(layer(USER, said)) == expected


JOINED: list[tuple[Tree, Tree, Tree]] = [
    ({"command": ["x"], "env": {"A": "b"}, "cwd": "/"}, {"command": ["y"]}, {"command": ("y",)}),
    ({"command": ["x"], "env": {"A": "b"}}, {"url": "https://h/"}, {"url": "https://h/", "transport": "http"}),
    ({"url": "https://h/", "headers": {"A": "b"}, "transport": "sse"}, {"command": ["y"]}, {"command": ("y",)}),
    (
        {"command": ["x"], "env": {"A": "b"}},
        {"env": {"C": "d"}, "description": "e"},
        {"command": ("x",), "env": {"A": "b", "C": "d"}, "description": "e"},
    ),
    (
        {"url": "https://h/", "headers": {"A": "b", "F": "g"}},
        {"headers": {"A": "c", "D": "e"}},
        {"url": "https://h/", "transport": "http", "headers": {"A": "c", "D": "e", "F": "g"}},
    ),
    (
        {"command": ["x"], "limits": {"memory": 5, "processes": 1}},
        {"limits": {"memory": 6}},
        {"command": ("x",), "settings": {"memory": 6, "processes": 1}},
    ),
    (
        {
            "command": ["x"],
            "limits": {"memory": 5},
            "stateful": False,
            "access": ACCESS,
            "tools": {"u": {"access": ACCESS}},
        },
        {"command": ["y"], "tools": {"t": {"access": ACCESS}}},
        {
            "command": ("y",),
            "settings": {"memory": 5},
            "stateful": False,
            "has_access": True,
            "tools": {"u": "servers.s.u", "t": "servers.s.t"},
        },
    ),
    ({"command": ["x"]}, {"access": {}}, {"command": ("x",), "has_access": True}),
]


@pytest.mark.parametrize(("weaker", "stronger", "together"), JOINED)
def test_how_a_server_is_reached_comes_from_one_layer_and_the_rest_is_joined(
    weaker: Tree, stronger: Tree, together: Tree
) -> None:
    expected = ServerConfig("s", **{"transport": "stdio", "source": "managed.toml:0", **together})
    assert server(layer(USER, weaker), layer(MANAGED, stronger)) == expected


def test_a_server_that_only_an_untrusted_file_describes_waits_and_another_is_an_error() -> None:
    own = layer(USER, {"access": ACCESS})
    for theirs in ({"command": ["x"]}, {"url": "https://h/"}):
        found = compiled(own, layer(PROJECT, theirs, trusted=False))
        assert dict(found.servers) == {}
        assert "the server s is not available until its project file is trusted" in found.warnings
    for said in ({"command": ["x"]}, {"url": "https://h/", "headers": {"A": "b"}}):
        assert "s" in compiled(layer(USER, said), layer(PROJECT, {"command": ["y"]}, trusted=False)).servers
    with pytest.raises(ConfigErrors) as caught:
        compiled(own)
    assert "has neither a command nor a url" in str(caught.value)


def test_a_problem_points_at_the_strongest_layer_that_says_so() -> None:
    def read(name: str, text: str) -> Layer:
        content = f"[servers.s]\n{text}\n".encode()
        return Layer(name, parse_file(content, f"{name}.toml"), f"{name}.toml", content)

    def place(*layers: Layer) -> str:
        with pytest.raises(ConfigErrors) as caught:
            compiled(*layers)
        return str(caught.value).partition(": ")[0]

    command, wrong = read(USER, 'command = "x"'), read(PROJECT, "\nheaders = { A = 'b' }")
    assert place(command, wrong, read(MANAGED, "enable = true")) == "project.toml:3"
    assert place(command, wrong, read(MANAGED, "headers = { A = 'c' }")) == "managed.toml:2"
    assert place(read(USER, "enable = true"), read(MANAGED, "may = []")) == "managed.toml:1"


FINE = [
    {"url": "http://h/"},
    {"url": "${U}"},
    {"url": "https://h/", "headers": {"A": "b\tc"}},
    {"command": ["x"], "env": {"A_1": "b\n"}},
    {"command": ["x"], "share": True},
]


@pytest.mark.parametrize("said", FINE, ids=str)
def test_what_a_server_may_say(said: Tree) -> None:
    assert server(layer(USER, said)).name == "s"


WRONG: list[tuple[Tree, str]] = [
    ({"command": ["x"], "env": {"A\0": "b"}}, 'names a variable "A\\x00", which cannot be'),
    ({"url": "https://h/", "headers": {"A": "b\x7f"}}, "has a line end or a control character in it"),
    ({"url": "https://h/", "headers": {"A": "b\x00"}}, "has a line end or a control character in it"),
]


@pytest.mark.parametrize(("said", "problem"), WRONG)
def test_what_a_server_may_not_say(said: Tree, problem: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        server(layer(USER, said))
    assert problem in str(caught.value)


ENVIRON = {"A": "secret", "EMPTY": "", "HOME": "/h", "LC_X": "c", "LC": "d", "PWD": "/p", "PATHS": "e", "TERM": "t"}


def test_what_is_filled_in_is_secret_unless_every_process_has_it() -> None:
    words = tuple(f"${{{name}}}" for name in ENVIRON)
    found = expanded(ServerConfig("s", "stdio", command=words, env={"X": "${EMPTY:-d}", "Y": "${N:-}"}), ENVIRON)
    assert found == ExpandedServer(tuple(ENVIRON.values()), None, {"X": "d", "Y": ""}, {}, ("secret", "d", "e"))


def test_all_texts_of_a_server_are_filled_in_and_each_variable_is_named_once() -> None:
    config = ServerConfig(
        "s", "http", url="https://h/${U}${A}", headers={"H": "${B} ${A}"}, env={"E": "${C:-${D}}"}, command=("${A}",)
    )
    assert config.variables == ("A", "U", "C", "B")
    filled = expanded(config, {"A": "1", "B": "2", "C": "3", "U": "4"})
    assert filled == ExpandedServer(("1",), "https://h/41", {"E": "3}"}, {"H": "2 1"}, ("1", "4", "3", "2"))
    assert ServerConfig("s", "stdio", command=("x",)).variables == ()


@pytest.mark.parametrize(
    ("url", "problem"),
    [("ftp://h/", "its url is neither http nor https: ftp"), ("https://u@h/", "its url carries a user name")],
)
def test_a_variable_may_not_lead_anywhere(url: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expanded(ServerConfig("s", "http", url="${U}", source="f:3"), {"U": url})
    assert str(caught.value).startswith(f'f:3: the server "s": {problem}')
    assert str(caught.value).endswith("\n  hint: look at the variables that it is made from")


def test_the_variables_of_a_server_are_put_into_requests_and_not_given_to_it_unless_a_rule_says_so() -> None:
    def env(access: Tree) -> list[EnvRule] | None:
        said = {"command": ["x", "${A}", "${HOME}"], "env": {"E": "${B}"}, **access}
        table = compiled(layer(USER, said)).policy.views[0].tools["servers.s"].access.env
        return list(table.rules) if isinstance(table, EnvTable) else None

    rules = env({})
    assert rules is not None
    added = [rule for rule in rules if rule.substitute]
    assert added == [EnvRule(name, substitute=True, source="user.toml:0") for name in ("A", "B")]
    assert [rule.name for rule in rules].count("HOME") == 1
    given = env({"access": {"env": [{"name": "A", "read": True}]}})
    assert given == [
        EnvRule("A", read=True, source="user.toml:0"),
        EnvRule("HOME", substitute=True, source="user.toml:0"),
        EnvRule("B", substitute=True, source="user.toml:0"),
    ]
