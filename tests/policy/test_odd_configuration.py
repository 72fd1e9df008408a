"""Configuration that cannot be meant as it is written: each problem names its line, and says what would work."""

from pathlib import Path

import pytest

from byleave.errors import ConfigErrors
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import inline_layer
from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace
from scene import TOOL, Scene

LONG = "x" * 300
SERVER = '[servers.s]\ncommand = ["s"]\n'
HASH = "sha256:" + 64 * "a"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def told(scene: Scene, layer: str, text: str) -> str:
    """Return what is wrong with a layer; FILE is its file."""
    file = scene.say(layer, text)
    with pytest.raises(ConfigErrors) as caught:
        scene.load(*([file] if layer == "command line" else []))
    return str(caught.value).replace(str(file), "FILE")


# What is written, the line that is named, the problem, and the hint.
PROBLEMS: list[tuple[str, int, str, str]] = [
    (
        TOOL + 'run = [{ arg = "name", equals = 1, mode = "ask" }]\n',
        3,
        'a JSON pointer starts with "/"',
        'write "/name"',
    ),
    (
        TOOL + 'run = [{ arg = "/a", regex = "(", mode = "ask" }]\n',
        3,
        "the pattern cannot be used: missing ): (",
        "write RE2 syntax",
    ),
    (TOOL + 'run = [{ arg = "/a", glob = "x[", mode = "skip" }]\n', 3, 'a "[" is not closed', "close it"),
    ('[[rules]]\nallow = { command = "make", not = {} }\n', 2, "this matches nothing", "say what the rule is about"),
    (
        '[[rules]]\nallow = { command = "make", within = "a\\u0000b" }\n',
        2,
        '"a\\x00b" cannot be resolved',
        "name a directory",
    ),
    (
        f'[agents.default]\ntoken = "{HASH}"\n',
        2,
        '"default" stands for every agent that has no name, so it cannot have a token',
        "give it to a named agent",
    ),
    (
        f'[gateway]\ndefault_agent = "a"\n[agents.a]\ntoken = "{HASH}"\n',
        4,
        '"a" stands for every agent that has no name, so it cannot have a token',
        "give it to a named agent",
    ),
    (
        '[tools.t]\nsource = "local"\n[conversation.tools.t]\nsource = "local"\n',
        3,
        '"t" stands in tools and in conversation.tools',
        "keep one of the two",
    ),
    (SERVER + 'env = { A = "x\\u0000y" }\n', 3, 'the server "s" has a NUL in a variable', "remove it"),
    (
        SERVER + "stateful = false\nshare = true\n",
        4,
        'the server "s" has a process for each call, which clients cannot share',
        "remove share, or stateful",
    ),
    (
        SERVER + "stateful = false\n[servers.s.tools.get]\n",
        4,
        'the server "s" says nothing about "get"',
        "add access, or remove the table",
    ),
    (
        '[servers.s]\nurl = "https://x.example/mcp"\nstateful = false\n',
        3,
        'the server "s" is reached by a url: nothing is started for a call',
        "remove stateful",
    ),
    (
        '[servers.s]\nurl = "ftp://x.example/mcp"\n',
        2,
        'the server "s" cannot be reached: its url is neither http nor https: ftp',
        'write a URL such as "https://example.com/mcp"',
    ),
    ('[sandbox]\nread = ["/opt", "relative"]\n', 2, '"relative" is not absolute', "write the whole path, from / on"),
    (f"{LONG} = 1\n", 1, f'unknown key "{LONG[:60]}..." at the top of the file', "the keys here are tools, "),
]


@pytest.mark.parametrize(("text", "line", "problem", "hint"), PROBLEMS, ids=[each[2][:60] for each in PROBLEMS])
def test_what_cannot_be_meant_is_named_with_its_line(
    scene: Scene, text: str, line: int, problem: str, hint: str
) -> None:
    said = told(scene, "command line", text)
    assert said.startswith(f"FILE:{line}: {problem}\n")
    assert f"hint: {hint}" in said


def test_a_link_that_was_put_back_is_unmounted_from_a_session(scene: Scene) -> None:
    (scene.root / "data").mkdir()
    scene.say("user", TOOL)
    said = told(scene, "session", '[[tools.t.access.fs]]\npath = "data"\nexternal = true\nread = true\n')
    assert said.startswith('FILE:2: external is set, but "data" lies inside the workspace\n')
    assert "hint: `byleave unmount data` takes the rule away; or put the link back" in said


def test_a_configuration_that_fails_while_it_is_read_is_named(scene: Scene) -> None:
    with pytest.raises(ConfigErrors) as caught:
        scene.load("/proc/self/mem")  # a plain file, whose first bytes nobody can read
    assert str(caught.value).startswith('the configuration "/proc/self/mem" cannot be read: Input/output error')


def test_a_project_directory_that_leads_to_itself_is_an_error_and_no_missing_file(scene: Scene) -> None:
    (scene.root / ".byleave").symlink_to(".byleave")
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    problem = 'the configuration ".byleave/config.toml" cannot be read: Too many levels of symbolic links'
    assert str(caught.value).startswith(problem)


def test_a_tool_that_is_not_there_is_told_from_one_that_waits_for_trust(scene: Scene) -> None:
    scene.say("user", TOOL)
    scene.say("project", TOOL.replace("tools.t", "tools.theirs"))
    compiled = scene.load().compiled
    said = [(error.problem, error.hint) for error in (compiled.no_tool("theirs"), compiled.no_tool("x"))]
    assert said == [
        (
            'the tool "theirs" is configured in byleave.toml, which is not trusted',
            "it or a script that it starts has changed; read it and trust it with `byleave trust`",
        ),
        ('no tool named "x" is configured', "the configured tools are: t"),
    ]


def test_a_server_that_waits_for_trust_is_worth_a_warning(scene: Scene) -> None:
    scene.say("user", "[servers.s]\nenable = true\n")
    scene.say("project", SERVER)
    compiled = scene.load().compiled
    assert "the server s is not available until its project file is trusted" in compiled.warnings
    assert compiled.servers == {}


def test_an_agent_keeps_its_description_and_its_reach(scene: Scene) -> None:
    scene.say("user", '[agents.a]\ndescription = "builds"\nallow.servers = ["db"]\n')
    compiled = scene.load().compiled
    assert [layer.tree["agents"]["a"]["description"] for layer in compiled.layers] == ["builds"]
    assert [scene.load().could_call("a", name, None) for name in ("db", "wiki")] == [True, False]


def test_limits_of_the_host_may_stand_beside_the_others_or_outside(scene: Scene) -> None:
    scene.say("user", TOOL + 'max_file_size = "2 MB"\nrequest_timeout = 5\n[tools.t.limits]\nmemory = "1 GB"\n')
    assert scene.load().compiled.tools["t"].settings["limits"] == {
        "memory": 1 << 30,
        "max_file_size": 2 << 20,
        "request_timeout": 5,
    }


def test_a_tool_of_a_server_has_access_where_only_one_layer_describes_it(scene: Scene) -> None:
    access = '[[servers.s.tools.get.access.fs]]\npath = "data"\nread = true\n'
    scene.say("user", f"{SERVER}stateful = false\n{access}")
    scene.say("managed", "[servers.s]\nenable = true\n")
    assert scene.load().compiled.servers["s"].tools == {"get": "servers.s.get"}
    assert [scene.decision("read", tool="servers.s.get", path=path) for path in ("data/a", "src/a")] == [
        "allow",
        "deny",
    ]


def test_approvals_that_cannot_be_used_are_worth_a_warning(scene: Scene) -> None:
    state = Path(scene.homes.workspace(str(scene.root)))
    state.mkdir(parents=True, mode=0o700)
    (state / "approvals.json").write_text('{"mounts": 7}')
    (state / "approvals.json").chmod(0o600)
    (warning,) = scene.load().warnings
    assert warning.endswith("approvals.json is damaged: nothing counts as approved until you approve it again")


JSON = {
    '{"mcpServers" {}}': "there is no : after this key",
    '{"mcpServers": {"\\ud800": {"command": "a"}}}': "half of a character stands before this",
}


@pytest.mark.parametrize(("text", "problem"), JSON.items())
def test_json_that_cannot_be_read_is_named_with_its_line(scene: Scene, text: str, problem: str) -> None:
    file = scene.root.parent / ".mcp.json"
    file.write_text(f"\n{text}\n")
    with pytest.raises(ConfigErrors) as caught:
        scene.load(file)
    assert str(caught.value).startswith(f"{file}:2: {problem}\n")


def test_examples_of_a_rule_are_not_tried_where_no_line_can_be_read(scene: Scene) -> None:
    rule = {"allow": {"command": "make"}, "match": ["make x", "ls"]}
    root = scene.workspace.root
    policy = LivePolicy(compile_layers([inline_layer({"rules": [rule]})], CompileContext(root)), root)
    assert policy.decide({"kind": "command", "command": "make x"}).decision.word == "ask"
    with pytest.raises(ConfigErrors) as caught:
        scene.workspace.compile_tree({"rules": [rule]})
    assert 'the rule does not match its own example "ls"' in str(caught.value)


@pytest.mark.parametrize(
    "rule", ['allow = { path = "~/**" }', 'deny = { path = ["~"] }', 'ask = { command = "a", within = "~/x" }']
)
def test_without_a_home_directory_a_rule_about_it_means_no_other_place(scene: Scene, rule: str) -> None:
    file = scene.say("user", f"[[rules]]\n{rule}\n")
    with pytest.raises(ConfigErrors) as caught:
        Workspace(str(scene.root), homes=scene.homes.replace(user="")).load()
    said = str(caught.value)
    assert said.startswith(f"{file}:2: ")
    assert "begins at home, and there is no home directory" in said
    assert "hint: set HOME to an absolute path, or write the whole path" in said
