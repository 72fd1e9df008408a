"""What several layers come to together: whole settings, warnings and views."""

from pathlib import Path
from typing import Any

import pytest

from byleave.core.access import COOPERATIVE, SERVER, SERVER_DECLARED, STDIO
from byleave.core.command_rules import CommandTable
from byleave.core.env_rules import EnvTable
from byleave.core.fs_rules import FsTable
from byleave.errors import ConfigErrors
from byleave.policy.compile import MOST_WARNINGS, RUN_TOOL, Compiled, compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import (
    COMMAND_LINE,
    ENCLOSING,
    INLINE,
    LOCAL,
    MANAGED,
    PROJECT,
    SESSION,
    USER,
    Layer,
)
from byleave.policy.normalize import LEFT_OUT
from byleave.policy.parse import parse_tree
from byleave.workspace.resolve import Root
from scene import Scene

Tree = dict[str, Any]
NOTHING_SAID: Tree = {
    "defaults": {},
    "programs": {},
    "audit": {},
    "hooks": {},
    "store": {},
    "sensitive_paths": [],
    "sandbox": {"read": [], "write": []},
    "gateway": None,
}


def layer(name: str, tree: Tree, *, trusted: bool = True) -> Layer:
    return Layer(name, parse_tree(tree), f"{name}.toml", trusted=trusted)


def compiled(*layers: Layer) -> Compiled:
    return compile_layers(layers, CompileContext(Root("/")))


def views(*layers: Layer) -> list[str]:
    return [view.name for view in compiled(*layers).policy.views]


def tool(**more: Any) -> Tree:
    return {"tools": {"t": {"source": "local", **more}}}


LOOSENING: Tree = {
    "defaults": {"mode": "observe", "ask_timeout": 5, "os_sandbox": "require"},
    "hooks": {"silent": "agent"},
    "store": {"url": "sqlite:///"},
    "strict_links": True,
}
STRICTER: Tree = {**LOOSENING, "defaults": {"mode": "enforce"}, "hooks": {"silent": "ask"}, "store": {}}


@pytest.mark.parametrize("name", [USER, COMMAND_LINE, MANAGED, INLINE])
def test_the_user_and_the_machine_s_owner_may_have_byleave_decide_less(name: str) -> None:
    found = compiled(layer(name, LOOSENING))
    assert (dict(found.settings), found.warnings) == ({**NOTHING_SAID, **LOOSENING}, ())


@pytest.mark.parametrize("name", [PROJECT, LOCAL, SESSION])
def test_a_trusted_file_of_the_workspace_does_not_have_byleave_decide_less(name: str) -> None:
    found = compiled(layer(USER, {"store": {"on_failure": "spool"}}), layer(name, LOOSENING))
    assert dict(found.settings) == {
        **NOTHING_SAID,
        "defaults": {"os_sandbox": "require"},
        "store": {"on_failure": "spool"},
        "strict_links": True,
    }
    assert found.warnings == (
        f'{name}.toml: defaults.mode = "observe" holds only in your own file',
        f'{name}.toml: hooks.silent = "agent" holds only in your own file',
        f"{name}.toml: defaults.ask_timeout holds only in your own file",
        f"{name}.toml: store holds only in your own file",
    )


EVERY_SETTING: Tree = {
    **LOOSENING,
    "audit": {"keep_days": 3},
    "programs": {"x": {"stops": True}},
    "sensitive_paths": ["*.k"],
    "sandbox": {"read": ["/opt"]},
    "shell": {"confine": "off"},
    "gateway": {"max_calls": 1},
    "agents": {"a": {"token": "sha256:" + "a" * 64}},
    "servers": {"s": {"command": ["x"]}},
    "tools": {"mine": {"source": "local"}, "t": {"enable": False}},
}


def test_no_setting_of_an_untrusted_file_counts() -> None:
    own = layer(USER, tool())
    alone, found = compiled(own), compiled(own, layer(PROJECT, EVERY_SETTING, trusted=False))
    assert (dict(alone.settings), dict(found.settings)) == (NOTHING_SAID, NOTHING_SAID)
    assert (found.policy.strict_links, found.policy.shell) == (False, None)
    assert (dict(found.tools), dict(found.servers)) == (dict(alone.tools), {})
    assert (dict(found.agent_tokens), dict(found.agent_subjects)) == ({}, {})
    (warning,) = found.warnings
    assert warning == (
        "project.toml is not trusted yet: it can only tighten, and its tools (mine), servers (s) and other settings "
        "are ignored; see `byleave trust project.toml`"
    )


def test_every_setting_of_a_trusted_file_counts() -> None:
    found = compiled(layer(USER, {"sensitive_paths": ["a"], **tool()}), layer(USER, EVERY_SETTING))
    assert {key: value for key, value in found.settings.items() if key != "gateway"} == {
        "defaults": LOOSENING["defaults"],
        "programs": {"x": {"stops": True}},
        "audit": {"keep_days": 3},
        "hooks": {"silent": "agent"},
        "store": {"url": "sqlite:///"},
        "sensitive_paths": ["a", "*.k"],
        "sandbox": {"read": ["/opt"], "write": []},
        "shell": {"confine": "off"},
        "strict_links": True,
    }
    assert (found.gateway.max_calls, sorted(found.tools), sorted(found.servers)) == (1, ["mine", "t"], ["s"])
    assert (found.policy.strict_links, found.policy.shell) == (True, "off")
    assert (dict(found.agent_tokens), dict(found.agent_subjects)) == ({"a": ("a" * 64,)}, {})
    assert sorted(found.policy.views[0].tools) == ["byleave-shell", "mine", "servers.s", "t"]
    assert found.policy.views[0].tools["t"].enabled is False


def test_a_layer_without_a_word_on_confining_leaves_what_a_weaker_one_says() -> None:
    said = {"shell": {"confine": "require"}}
    silent: Tree = {"shell": {"access": {"env": []}}}
    assert compiled(layer(USER, said), layer(PROJECT, silent)).policy.shell == "require"
    assert compiled(layer(USER, silent)).policy.shell == "auto"
    assert compiled(layer(USER, said), layer(PROJECT, {"shell": {"confine": "off"}})).policy.shell == "off"


def test_each_file_that_is_not_trusted_adds_a_view_and_a_managed_one_beside_others_does() -> None:
    own, managed = layer(USER, tool()), layer(MANAGED, tool())
    project, local = (layer(name, tool(), trusted=False) for name in (PROJECT, LOCAL))
    around = layer(ENCLOSING, tool(), trusted=False)
    ruling = layer(ENCLOSING, {"rules": [{"deny": {"command": "a"}}]}, trusted=False)
    assert views(own) == ["trusted"]
    assert views(managed) == ["trusted"]
    assert views(own, managed) == ["trusted", "managed"]
    assert views(own, project, local) == ["trusted", "project.toml (untrusted)", "project-local.toml (untrusted)"]
    assert views(own, around) == ["trusted", "enclosing.toml (around this workspace)"]
    assert views(own, ruling) == ["trusted", *["enclosing.toml (around this workspace)"] * 2]


def test_only_what_a_managed_layer_and_one_around_deny_counts_in_their_views() -> None:
    narrow = tool(access={"fs": [{"path": "a"}]})
    for name, trusted in ((MANAGED, True), (ENCLOSING, False)):
        view = compiled(layer(USER, tool()), layer(name, narrow, trusted=trusted)).policy.views[-1]
        assert view.denies_only
        access = view.tools["t"].access
        assert isinstance(access.fs, FsTable)
        assert [(rule.path, rule.read, rule.execute) for rule in access.fs.rules] == [
            ("", True, True),
            ("a", False, False),
        ]
        assert access.replace(fs=COOPERATIVE.fs) == COOPERATIVE


def test_an_untrusted_view_and_one_around_know_only_the_tools_that_trusted_layers_have() -> None:
    theirs: Tree = {
        "tools": {
            "t": {"access": {"fs": [{"path": "a"}]}},
            "u": {"source": "local", "access": {"fs": [{"path": "b"}]}},
        },
        "shell": {"access": {"fs": [{"path": "c"}]}},
    }
    for name in (PROJECT, ENCLOSING):
        other = layer(name, theirs, trusted=False)
        assert list(compiled(layer(USER, tool()), other).policy.views[1].tools) == ["t"]
        both = compiled(layer(USER, {**tool(), "shell": {}}), other).policy.views[1]
        assert list(both.tools) == ["t", "byleave-shell"]


def test_an_untrusted_view_keeps_the_settings_of_the_trusted_tool() -> None:
    theirs = {"tools": {"t": {"enable": True, "runtime": "stdio", "access": {"fs": [{"path": "a", "read": True}]}}}}
    found = compiled(layer(USER, tool(enable=False, runtime="vfs")), layer(PROJECT, theirs, trusted=False))
    assert [view.tools["t"].enabled for view in found.policy.views] == [False, False]
    assert dict(found.tools["t"].settings) == {"source": "local", "runtime": "vfs", "enable": False, "options": {}}


def test_agents_of_each_view_are_those_of_its_layers() -> None:
    own = layer(USER, {**tool(), "agents": {"a": {"allow": {"servers": ["x"]}}}})
    theirs: Tree = {"agents": {"b": {"deny": {"servers": ["y"]}, "token": "sha256:" + "b" * 64}}}

    def named(*layers: Layer) -> list[list[str] | None]:
        views = compiled(*layers).policy.views
        return [None if view.agents is None else [agent.name for agent in view.agents.agents] for view in views]

    assert named(own, layer(PROJECT, theirs, trusted=False)) == [["a"], ["a", "b"]]
    assert named(own, layer(ENCLOSING, theirs, trusted=False)) == [["a"], ["b"]]
    assert named(own, layer(MANAGED, theirs)) == [["a", "b"], ["b"]]
    assert named(layer(USER, tool()), layer(MANAGED, tool())) == [None, None]


def rules_of(*layers: Layer) -> list[list[str]]:
    """Return the programs of the rules of each view that has any."""
    tables = [view.rules for view in compiled(*layers).policy.views if view.rules is not None]
    return [["".join(rule.matcher.programs or ()) for rule in table.rules] for table in tables]


def ruling(*programs: str, strategy: str = "prepend") -> Tree:
    rules = [{"deny": {"command": program}} for program in programs]
    return {"rules": {"strategy": strategy, "value": rules}}


def test_the_rules_of_a_view_are_those_of_the_trusted_layers_and_of_its_own() -> None:
    own = layer(USER, ruling("a", "b"))
    project, local = layer(PROJECT, ruling("c"), trusted=False), layer(LOCAL, ruling("d"), trusted=False)
    around = layer(ENCLOSING, ruling("e"), trusted=False)
    session, managed = layer(SESSION, ruling("s")), layer(MANAGED, ruling("m"))
    assert rules_of(own) == [["a", "b"]]
    assert rules_of(own, project, local) == [["a", "b"], ["c", "a", "b"], ["d", "a", "b"]]
    assert rules_of(own, project, session) == [["s", "a", "b"], ["s", "c", "a", "b"]]
    assert rules_of(own, around, session) == [["s", "a", "b"], ["e", "s", "a", "b"]]
    assert rules_of(own, managed) == [["m", "a", "b"]]
    assert rules_of(layer(USER, tool()), project) == [["c"]]


def test_what_replaces_rules_keeps_those_of_a_file_that_is_not_trusted_in_its_own_view() -> None:
    own, project = layer(USER, ruling("a")), layer(PROJECT, ruling("c"), trusted=False)
    session = layer(SESSION, ruling("s", strategy="replace"))
    assert rules_of(own, project, session) == [["s"], ["c", "s"]]
    assert rules_of(own, session) == [["s"]]


def test_a_tool_that_is_not_there_is_named_with_what_is() -> None:
    def said(*layers: Layer) -> str:
        return str(compiled(*layers).no_tool("x"))

    waiting = layer(PROJECT, {"tools": {"x": {"source": "local"}}}, trusted=False)
    speaking = layer(PROJECT, {"tools": {"x": {"access": {"fs": []}}}}, trusted=False)
    several = layer(USER, {"tools": {name: {"source": "local"} for name in ("b", "a")}})
    none = 'no tool named "x" is configured\n  hint: the configured tools are: none'
    assert said(layer(USER, {})) == none
    assert said(layer(USER, {}), speaking) == none
    assert said(several) == 'no tool named "x" is configured\n  hint: the configured tools are: a, b'
    assert said(several, waiting) == (
        'the tool "x" is configured in project.toml, which is not trusted\n'
        "  hint: it or a script that it starts has changed; read it and trust it with `byleave trust`"
    )


def test_the_runtime_of_a_tool_is_told_by_its_command() -> None:
    trees = (tool(), tool(command=["a"]), tool(command=["a", "b.wasm"]), tool(runtime="vfs"))
    assert [compiled(layer(USER, tree)).tools["t"].runtime for tree in trees] == ["stdio", "stdio", "stdio", "vfs"]
    with pytest.raises(ConfigErrors) as caught:
        compiled(layer(USER, tool(command=["b.wasm"])))
    assert "needs the wasm runtime" in str(caught.value)
    assert compiled(layer(USER, tool(command=["b.wasm"], runtime="stdio"))).tools["t"].runtime == "stdio"


JOINED: list[tuple[Tree, Tree, Tree]] = [
    ({"options": {"a": 1, "b": 1}}, {"options": {"b": 2}}, {"options": {"a": 1, "b": 2}}),
    (
        {"limits": {"memory": 5, "processes": 1}},
        {"limits": {"processes": 2}},
        {"limits": {"memory": 5, "processes": 2}},
    ),
    ({"limits": {"memory": 5}}, {}, {"limits": {"memory": 5}}),
    ({"command": ["a"], "run": "ask"}, {"command": ["b"]}, {"command": ["b"], "run": "ask"}),
    (
        {"parameters": {"a": {"type": "string"}}},
        {"stateful": True},
        {"parameters": {"a": {"type": "string"}}, "stateful": True},
    ),
    (
        {"description": "d", "runtime": "vfs"},
        {"enable": False},
        {"description": "d", "runtime": "vfs", "enable": False},
    ),
]


@pytest.mark.parametrize(("weaker", "stronger", "together"), JOINED)
def test_each_setting_of_a_tool_comes_from_the_strongest_layer_that_has_it(
    weaker: Tree, stronger: Tree, together: Tree
) -> None:
    found = compiled(layer(USER, tool(**weaker)), layer(MANAGED, tool(**stronger)))
    assert found.tools["t"].settings == {"source": "local", "options": {}, **together}
    assert (found.tools["t"].layer.name, found.tools["t"].at) == (MANAGED, ("tools", "t"))


def test_whether_a_tool_has_access_and_declares_some() -> None:
    def known(*layers: Layer) -> tuple[bool, bool]:
        found = compiled(*layers).tools["t"]
        return found.has_access, found.declares

    mounted = layer(SESSION, {"tools": {"t": {"access": {"fs": [{"path": "x"}]}}}})
    assert known(layer(USER, tool())) == (False, False)
    assert known(layer(USER, tool(access={"fs": []}))) == (False, False)
    assert known(layer(USER, tool(access={"commands": {}}))) == (True, True)
    assert known(layer(USER, tool(access={"env": [{"name": "A"}]}))) == (True, True)
    assert known(layer(USER, tool()), mounted) == (True, False)


def test_what_an_untrusted_file_may_not_say_is_no_error_however_wrong_it_is() -> None:
    own: Tree = {"sensitive_paths": ["a"], "programs": {"x": {"stops": True}}, "store": {"url": "sqlite:///"}}
    theirs: Tree = {"sensitive_paths": ["[a"], "programs": {"y": {"like": "z"}}, "store": {"url": "nonsense"}}
    found = compiled(layer(USER, own), layer(PROJECT, theirs, trusted=False))
    assert dict(found.settings) == {**NOTHING_SAID, **own}


def test_an_address_in_a_trusted_project_is_left_out_and_not_looked_at() -> None:
    own, theirs = {"store": {"url": "sqlite:///"}}, {"store": {"url": "nonsense"}}
    found = compiled(layer(USER, own), layer(PROJECT, theirs))
    assert found.settings["store"] == own["store"]
    assert found.warnings == ("project.toml: store holds only in your own file",)


def test_a_server_by_url_has_no_process_to_hold_and_others_have_one_for_each_tool_with_access() -> None:
    servers: Tree = {
        "far": {"url": "https://a.example/"},
        "near": {"command": ["x"], "stateful": False, "tools": {"t": {"access": {"fs": [{"path": "a"}]}}}},
        "last": {"command": ["y"]},
    }
    tools = compiled(layer(USER, {"servers": servers})).policy.views[0].tools
    assert list(tools) == ["servers.near", "servers.near.t", "servers.last"]


def test_a_managed_view_knows_the_servers_that_its_own_layer_speaks_of() -> None:
    own = layer(USER, {"servers": {name: {"command": ["x"]} for name in ("a", "b")}})
    managed = layer(MANAGED, {"servers": {"b": {"access": {"fs": [{"path": "p"}]}}}})
    first, last = compiled(own, managed).policy.views
    assert (list(first.tools), list(last.tools)) == (["servers.a", "servers.b"], ["servers.b"])
    assert isinstance(last.tools["servers.b"].access.fs, FsTable)
    assert [rule.path for rule in last.tools["servers.b"].access.fs.rules] == ["", "p"]


def test_an_empty_table_of_the_shell_counts_in_every_view() -> None:
    own, theirs = layer(USER, {"shell": {}}), layer(PROJECT, {"strict_links": True}, trusted=False)
    assert [list(view.tools) for view in compiled(own, theirs).policy.views] == [["byleave-shell"]] * 2


def test_variables_of_a_confined_command_that_a_managed_layer_denies() -> None:
    managed = layer(MANAGED, {"shell": {"access": {"env": [{"name": "PATH"}]}}})
    first, last = compiled(layer(USER, {"shell": {}}), managed).policy.views
    table = last.tools["byleave-shell"].access.env
    assert isinstance(table, EnvTable)
    assert [(rule.name, rule.read) for rule in table.rules] == [("PATH", False)]
    usual = first.tools["byleave-shell"].access.env
    assert isinstance(usual, EnvTable)
    assert {rule.name for rule in usual.rules} > {"HOME", "LANG", "PATH"}


def test_no_rules_are_the_same_as_none() -> None:
    empty: Tree = {"rules": []}
    assert [view.rules for view in compiled(layer(USER, empty), layer(PROJECT, empty, trusted=False)).policy.views] == [
        None,
        None,
    ]


def test_two_spellings_of_access_in_two_layers_are_refused_and_one_beside_none_is_not() -> None:
    older, newer = tool(sandbox={"filesystem": {"allow": ["a"]}}), tool(access={"fs": [{"path": "a"}]})
    with pytest.raises(ConfigErrors) as caught:
        compiled(layer(USER, older), layer(USER, newer))
    assert "a tool has access or the older sandbox, not both" in str(caught.value)
    for other in (tool(), tool(access={})):
        assert compiled(layer(USER, older), layer(USER, other)).tools["t"].has_access


def test_switching_the_sandbox_off_does_not_free_what_byleave_run_starts() -> None:
    off: Tree = {"defaults": {"os_sandbox": "off"}, "tools": {RUN_TOOL: {"source": "local"}, "t": {"source": "local"}}}
    tools = compiled(layer(USER, off)).policy.views[0].tools
    assert (tools[RUN_TOOL].access, tools["t"].access) == (STDIO, COOPERATIVE)


def test_the_defaults_of_a_server_are_its_own() -> None:
    servers: Tree = {
        "plain": {"command": ["x"]},
        "said": {"command": ["x"], "access": {"net": [{"host": "a.example", "allow": True}]}},
    }
    tools = compiled(layer(USER, {"servers": servers})).policy.views[0].tools
    assert tools["servers.plain"].access == SERVER
    access = tools["servers.said"].access
    assert access.replace(net=SERVER_DECLARED.net) == SERVER_DECLARED
    assert access.net != SERVER_DECLARED.net


def test_jwt_words_may_stand_beside_further_issuers_where_one_issuer_reads_them() -> None:
    issuer = {"issuer": "https://a.example", "audience": "b"}
    other = {"issuer": "https://c.example", "audience": "b"}
    said: Tree = {"gateway": {"jwt": issuer, "issuers": [other]}, "agents": {"a": {"jwt": "x"}}}
    assert dict(compiled(layer(USER, said)).agent_subjects) == {"a": ("x",)}
    assert dict(compiled(layer(USER, {"agents": {"a": {"jwt": "x"}}})).agent_subjects) == {"a": ("x",)}


NAMING: Tree = {
    "agents": {"a": {"allow": {"servers": ["local", "near", "far", "wild*"], "tools": {"close": ["t"]}}}},
    "gateway": {
        "limits": [{"server": "away", "rate": 1}, {"server": "near", "rate": 1}, {"server": "local", "rate": 1}]
    },
}


def test_servers_that_are_named_and_configured_nowhere_are_pointed_out() -> None:
    servers = {"servers": {"near": {"command": ["x"]}}}
    pointed_out = (
        "agents: no server of that name is configured: far, close",
        "gateway.limits: no server of that name is configured: away",
    )
    assert compiled(layer(USER, {**NAMING, **servers})).warnings == pointed_out
    assert compiled(layer(USER, NAMING)).warnings == ()
    untrusted = layer(PROJECT, {"servers": {"far": {"url": "https://a.example"}}}, trusted=False)
    assert compiled(layer(USER, {**NAMING, **servers}), untrusted).warnings[1:] == (
        "agents: no server of that name is configured: close",
        pointed_out[1],
    )


def test_what_byleave_leaves_out_of_another_program_s_file_is_said() -> None:
    layers = [layer(USER, {})]
    layers[0].tree[LEFT_OUT] = ["one thing", "another", "one thing"]
    assert compiled(*layers).warnings == ("one thing", "another")


def test_lines_are_read_with_the_programs_of_trusted_layers_where_there_is_a_home(tmp_path: Path) -> None:
    said: Tree = {
        "programs": {"remote": {"wrap": {"skip": 1}}},
        "rules": [{"deny": {"command": "rm"}, "match": ["remote host rm x"]}],
    }
    homes = Scene.build(tmp_path).homes
    found = compile_layers([layer(USER, said)], CompileContext(Root(str(tmp_path / "ws")), homes=homes))
    assert found.read_line is not None
    assert found.read_line.programs == said["programs"]
    assert compiled(layer(USER, said)).read_line is None


def test_what_leaves_the_workspace_is_noted_once_however_many_views_repeat_it(tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    (scene.root / "out").symlink_to(scene.managed)
    own = layer(USER, tool(access={"fs": [{"path": "out", "external": True, "read": True}]}))
    found = compile_layers(
        [own, layer(PROJECT, {}, trusted=False), layer(MANAGED, {})], CompileContext(Root(str(scene.root)))
    )
    (noted,) = found.externals
    assert (noted.tool, noted.target, noted.name, noted.unapproved, noted.layer) == (
        "t",
        str(scene.managed),
        "out",
        ("out",),
        own,
    )


def test_what_an_untrusted_file_denies_to_confined_commands_counts_in_its_view() -> None:
    theirs: Tree = {"shell": {"confine": "off", "access": {"fs": [{"path": "a"}]}}}
    own, other = layer(USER, {"shell": {}}), layer(PROJECT, theirs, trusted=False)
    tables = [view.tools["byleave-shell"].access.fs for view in compiled(own, other).policy.views]
    found = [[rule.path for rule in table.rules] for table in tables if isinstance(table, FsTable)]
    assert found[0] != ["a"]
    assert found[1] == ["a"]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, ()), (MOST_WARNINGS, ()), (MOST_WARNINGS + 1, ("and 1 more warnings",))]
)
def test_warnings_beyond_what_a_person_reads_are_counted(count: int, expected: tuple[str, ...]) -> None:
    found = layer(USER, {})
    found.tree[LEFT_OUT] = [f"warning {number}" for number in range(count)]
    assert compiled(found).warnings == (*found.tree[LEFT_OUT][:MOST_WARNINGS], *expected)


PROGRAMS: list[tuple[Tree, Tree, tuple[Any, Any]]] = [
    ({}, {}, (None, ())),
    ({"args": [["a"]], "envs": ["A"]}, {}, ((("a",),), ("A",))),
    ({"args": [["a"]], "envs": ["A"]}, {"envs": ["B"]}, ((("a",),), ("A", "B"))),
    ({"envs": ["A"]}, {"args": [], "envs": {"strategy": "replace", "value": ["B"]}}, ((), ("B",))),
]


@pytest.mark.parametrize(("weaker", "stronger", "together"), PROGRAMS)
def test_arguments_and_variables_of_a_program_join_across_layers(
    weaker: Tree, stronger: Tree, together: tuple[Any, Any]
) -> None:
    layers = [
        layer(name, tool(access={"commands": {"p": said}})) for name, said in ((USER, weaker), (MANAGED, stronger))
    ]
    table = compiled(*layers).policy.views[0].tools["t"].access.commands
    assert isinstance(table, CommandTable)
    assert [(rule.program, rule.args, rule.envs, rule.source) for rule in table.rules.values()] == [
        ("p", *together, "managed.toml:0")
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"deny": {"any": [{"group": "x"}, {"command": "a"}]}},
        {"deny": {"not": {"group": "x"}}},
        {"deny": {"group": "x"}},
        {"deny": {"command": "a", "options": "any", "ops": ["read"]}},
    ],
)
def test_a_problem_of_a_rule_is_told_once_where_several_views_have_the_rule(rule: Tree) -> None:
    layers = (Layer(USER, parse_tree({"rules": [rule]})), layer(PROJECT, {}, trusted=False))
    with pytest.raises(ConfigErrors) as caught:
        compiled(*layers)
    assert len(caught.value.exceptions) == 1
