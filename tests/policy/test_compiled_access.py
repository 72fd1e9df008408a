"""What configured access becomes: whole rules of files and hosts, of what leaves the workspace, and whole agents."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from byleave.core.agents import Agents
from byleave.core.fs_rules import FsRule, FsTable
from byleave.core.net_rules import NetRule, NetTable
from byleave.errors import ConfigErrors
from byleave.policy.compile import Compiled, compile_layers
from byleave.policy.compile_access import in_order
from byleave.policy.context import CompileContext
from byleave.policy.layers import LOCAL, MANAGED, PROJECT, USER, Layer
from byleave.policy.parse import parse_tree
from byleave.workspace.resolve import Root
from scene import Scene

Tree = dict[str, Any]
ALL = dict.fromkeys(("read", "create", "update", "delete", "execute"), True)
WRITES = dict.fromkeys(("create", "update", "delete"), True)


class Mounts:
    def __init__(self, approved: Sequence[tuple[str, str]]) -> None:
        self._approved = approved

    def approves_mount(self, path: str, target: str) -> bool:
        return (path, target) in self._approved


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    scene = Scene.build(tmp_path_factory.mktemp("access").resolve())
    (scene.root / "real").mkdir()
    outside(scene).mkdir()
    links: dict[str, str | Path] = {
        "link": "real",
        "out": outside(scene),
        "alias": "out",
        "dead": outside(scene) / "missing",
        "to-dead": "dead",
        "to-later": "later",
        "ours-later": scene.home / "missing",
    }
    for name, target in links.items():
        (scene.root / name).symlink_to(target)
    return scene


def outside(scene: Scene) -> Path:
    return scene.root.parent / "ext"


def compiled(scene: Scene, access: Tree, *approved: str) -> Compiled:
    context = CompileContext(
        Root(str(scene.root)), Mounts([(name, str(outside(scene))) for name in approved]), scene.homes
    )
    tree = {"tools": {"t": {"source": "local", "access": access}}}
    return compile_layers([Layer(USER, parse_tree(tree), "u.toml")], context)


def fs(scene: Scene, *rules: Tree, approved: Sequence[str] = ()) -> list[FsRule]:
    table = compiled(scene, {"fs": list(rules)}, *approved).policy.views[0].tools["t"].access.fs
    assert isinstance(table, FsTable)
    return list(table.rules)


def said(path: str, *, external: bool = False, **more: Any) -> FsRule:
    return FsRule(path, external, source="u.toml:0", **more)


FILES: list[tuple[Tree, FsRule]] = [
    ({"path": "."}, said("")),
    ({"path": "./real/"}, said("real")),
    ({"path": "later/x", "read": True}, said("later/x", read=True)),
    ({"path": "real", "write": True}, said("real", **WRITES)),
    ({"path": "real", "write": True, "delete": False}, said("real", create=True, update=True)),
    ({"path": "real", "read": True, "write": True, "execute": True}, said("real", **ALL)),
    ({"path": "link", "read": True}, said("real", read=True, written=("link",))),
    ({"path": "link/x", "read": True}, said("real/x", read=True, written=("link/x",))),
]


@pytest.mark.parametrize(("tree", "expected"), FILES, ids=[str(tree) for tree, _rule in FILES])
def test_a_file_rule_holds_where_its_path_leads_and_keeps_how_it_is_written(
    tree: Tree, expected: FsRule, scene: Scene
) -> None:
    assert fs(scene, tree) == [expected]


NOT_APPROVED = "the external path {} grants nothing: its target is not approved"
MISSING = "the external path {} grants nothing: its target does not exist here"
OUTSIDE: list[tuple[str, tuple[str, ...], list[tuple[str, str | None]], bool, tuple[str, ...]]] = [
    ("out", ("out",), [("out", None)], True, ()),
    ("out", ("alias",), [("out", NOT_APPROVED.format("out"))], True, ("out",)),
    ("alias", ("alias", "out"), [("out", None)], True, ()),
    (
        "alias",
        ("out",),
        [("out", NOT_APPROVED.format("alias")), ("alias", NOT_APPROVED.format("alias"))],
        True,
        ("alias",),
    ),
    (
        "alias",
        (),
        [("out", NOT_APPROVED.format("alias")), ("alias", NOT_APPROVED.format("alias"))],
        True,
        ("alias", "out"),
    ),
    ("dead", (), [("dead", MISSING.format("dead"))], False, ("dead",)),
    (
        "to-dead",
        (),
        [("dead", MISSING.format("to-dead")), ("to-dead", MISSING.format("to-dead"))],
        False,
        ("to-dead", "dead"),
    ),
    ("later", (), [("later", MISSING.format("later"))], False, ("later",)),
    (
        "to-later",
        (),
        [("later", MISSING.format("to-later")), ("to-later", MISSING.format("to-later"))],
        False,
        ("to-later", "later"),
    ),
    ("ours-later", (), [("ours-later", MISSING.format("ours-later"))], False, ("ours-later",)),
]


@pytest.mark.parametrize("row", OUTSIDE)
def test_what_leaves_the_workspace_needs_a_target_and_a_yes_to_each_of_its_names(
    row: tuple[str, tuple[str, ...], list[tuple[str, str | None]], bool, tuple[str, ...]], scene: Scene
) -> None:
    path, approved, rules, is_there, unapproved = row
    found = compiled(scene, {"fs": [{"path": path, "external": True, "read": True}]}, *approved)
    table = found.policy.views[0].tools["t"].access.fs
    assert isinstance(table, FsTable)
    assert sorted((rule.path, rule.dropped) for rule in table.rules) == sorted(rules)
    assert {rule.external for rule in table.rules} == {True}
    assert {rule.approved_target for rule in table.rules} == {None if rules[0][1] else str(outside(scene))}
    (noted,) = found.externals
    assert (noted.tool, noted.name, noted.unapproved) == ("t", path, unapproved)
    assert noted.target == (str(outside(scene)) if is_there else None)
    assert (noted.rule.path, noted.rule.dropped) == rules[0]


def test_a_warning_of_what_grants_nothing_says_what_to_do_where_a_yes_is_missing(scene: Scene) -> None:
    rules = [{"path": path, "external": True, "read": True} for path in ("out", "dead")]
    not_approved, missing = compiled(scene, {"fs": rules}).warnings
    assert not_approved == (
        'u.toml:0: the external path "out" grants nothing: its target is not approved; '
        "approve it with `byleave approvals approve`"
    )
    assert missing == 'u.toml:0: the external path "dead" grants nothing: its target does not exist here'


def external(path: str, **more: Any) -> FsRule:
    return FsRule(path, external=True, approved_target="/ext", **more)


ORDERED: list[tuple[list[tuple[str, FsRule]], list[FsRule]]] = [
    ([("a", FsRule("a", read=True)), ("a", FsRule("a"))], [FsRule("a", read=True), FsRule("a")]),
    ([("link", FsRule("a", read=True))], [FsRule("a", read=True)]),
    ([("a", FsRule("a")), ("link", FsRule("a", read=True))], [FsRule("a"), FsRule("a")]),
    (
        [("a", FsRule("a", execute=True)), ("link", FsRule("a", read=True))],
        [FsRule("a", execute=True), FsRule("a", read=True)],
    ),
    ([("a", FsRule("a")), ("link", FsRule("a/b", read=True))], [FsRule("a"), FsRule("a/b")]),
    (
        [("a", FsRule("a", execute=True)), ("link", FsRule("a/b", read=True, execute=True))],
        [FsRule("a", execute=True), FsRule("a/b", execute=True)],
    ),
    ([("a", FsRule("a")), ("a/link", FsRule("a/b", read=True))], [FsRule("a"), FsRule("a/b", read=True)]),
    ([("", FsRule("")), ("link", FsRule("a/b", read=True))], [FsRule(""), FsRule("a/b", read=True)]),
    (
        [("one", external("out", read=True)), ("two", external("out", read=True, update=True))],
        [external("out", read=True)],
    ),
    (
        [("out", external("out", read=True)), ("two", external("out", read=True, update=True))],
        [external("out", read=True), external("out", read=True)],
    ),
]


@pytest.mark.parametrize(("written", "expected"), ORDERED)
def test_a_rule_that_comes_by_a_link_opens_no_more_than_the_rules_of_the_place(
    written: list[tuple[str, FsRule]], expected: list[FsRule]
) -> None:
    assert in_order(written) == expected


NET: list[tuple[Tree, NetRule, tuple[str, ...]]] = [
    ({"host": "A.Example"}, NetRule("a.example", None, None, None, allow=False, source="u.toml:0"), ()),
    (
        {"host": "127.0.0.1", "scheme": "HTTPS", "port": 8443, "path_prefix": "/a", "allow": True, "private": True},
        NetRule("127.0.0.1", "https", 8443, "/a", allow=True, private=True, source="u.toml:0"),
        (),
    ),
    ({"host": "a", "path_prefix": ""}, NetRule("a", None, None, "", allow=False, source="u.toml:0"), ()),
    (
        {"host": "a", "path_prefix": "b"},
        NetRule("a", None, None, "b", allow=False, source="u.toml:0"),
        ('u.toml:0: path_prefix "b" is read as "/b"',),
    ),
]


@pytest.mark.parametrize(("tree", "expected", "warnings"), NET, ids=[str(row[0]) for row in NET])
def test_a_rule_for_a_host_is_read_with_all_it_says(
    tree: Tree, expected: NetRule, warnings: tuple[str, ...], scene: Scene
) -> None:
    found = compiled(scene, {"net": [tree]})
    table = found.policy.views[0].tools["t"].access.net
    assert isinstance(table, NetTable)
    assert list(table.rules) == [expected]
    assert found.warnings == warnings


EVERY_SIGN = "abcdefghijklmnopqrstuvwxyz0123456789+-."


@pytest.mark.parametrize("scheme", ["https", "s3", "x", "WS", "git+ssh", "a.b-c", EVERY_SIGN])
def test_a_scheme_is_letters_digits_and_three_signs(scheme: str, scene: Scene) -> None:
    table = compiled(scene, {"net": [{"host": "a", "scheme": scheme}]}).policy.views[0].tools["t"].access.net
    assert isinstance(table, NetTable)
    assert table.rules[0].scheme == scheme.lower()


@pytest.mark.parametrize("scheme", ["", "9p", "+a", "a:", "a b", "https://", "\u212a", "a\u212a", "\xe9"])
def test_what_is_no_scheme_is_refused(scheme: str, scene: Scene) -> None:
    with pytest.raises(ConfigErrors) as caught:
        compiled(scene, {"net": [{"host": "a", "scheme": scheme}]})
    assert "is no scheme" in str(caught.value)


# Agents.

TOKENS = {letter: "sha256:" + letter * 64 for letter in "abc"}


def layer(name: str, agents: Tree, *, trusted: bool = True, **more: Any) -> Layer:
    return Layer(name, parse_tree({"agents": agents, **more}), f"{name}.toml", trusted=trusted)


def proofs(*layers: Layer) -> tuple[Tree, Tree]:
    found = compile_layers(layers, CompileContext(Root("/")))
    return dict(found.agent_tokens), dict(found.agent_subjects)


def test_of_each_agent_the_strongest_layer_that_has_a_proof_counts() -> None:
    weaker: Tree = {"x": {"token": TOKENS["a"], "jwt": "s"}, "y": {"token": [TOKENS["b"], "sha256:" + "C" * 64]}}
    stronger: Tree = {"x": {"token": TOKENS["a"]}, "z": {"jwt": ["t", "u"]}, "y": {"jwt": "v"}}
    tokens, subjects = proofs(layer(USER, weaker), layer(MANAGED, stronger))
    assert tokens == {"x": ("a" * 64,), "y": ("b" * 64, "c" * 64)}
    assert subjects == {"x": ("s",), "z": ("t", "u"), "y": ("v",)}
    assert proofs(layer(USER, weaker), layer(MANAGED, {"x": {"token": TOKENS["c"][:-1] + "a"}}))[0]["x"] == (
        "c" * 63 + "a",
    )


def test_a_token_needs_no_issuer_whose_words_are_read() -> None:
    issuers: Tree = {"gateway": {"issuers": [{"issuer": "https://a.example", "audience": "b"}]}}
    assert proofs(layer(USER, {"x": {"token": TOKENS["a"]}}, **issuers)) == ({"x": ("a" * 64,)}, {})


def test_a_token_that_another_layer_has_taken_back_may_be_another_agent_s() -> None:
    layers = layer(USER, {"x": {"token": TOKENS["a"]}}), layer(MANAGED, {"x": {"token": TOKENS["b"]}})
    assert proofs(*layers, layer(MANAGED, {"y": {"token": TOKENS["a"]}}))[0] == {"x": ("b" * 64,), "y": ("a" * 64,)}


SHARED: list[tuple[Tree, list[str]]] = [
    ({"x": {"token": TOKENS["a"]}, "y": {"token": TOKENS["a"]}}, ['"x" has the same token']),
    ({"x": {"jwt": ["s", "t"]}, "y": {"jwt": ["u", "t"]}}, ['"x" has the same jwt']),
    ({"x": {"jwt": "a" * 64}, "y": {"token": TOKENS["a"]}}, []),
    ({"x*": {"jwt": "s"}}, ['"x*" is a glob, and a jwt belongs']),
    ({"default": {"jwt": "s", "token": TOKENS["a"]}}, ["cannot have a token", "cannot have a jwt"]),
]


@pytest.mark.parametrize(("agents", "problems"), SHARED)
def test_a_proof_belongs_to_one_agent_with_a_name(agents: Tree, problems: list[str]) -> None:
    if not problems:
        assert all(proofs(layer(USER, agents)))
        return
    with pytest.raises(ConfigErrors) as caught:
        proofs(layer(USER, agents))
    assert len(caught.value.exceptions) == len(problems)
    assert [part in str(error) for part, error in zip(problems, caught.value.exceptions, strict=True)] == [True] * len(
        problems
    )


def entries(agents: Agents | None, side: str) -> list[tuple[str, str]]:
    """Return the servers on one side of the only agent, with where each is said."""
    assert agents is not None
    (agent,) = agents.agents
    return [(entry.pattern, entry.source) for entry in getattr(agent, side).servers]


def test_what_replaces_a_deny_of_an_untrusted_file_leaves_it_in_that_file_s_own_view() -> None:
    def speaking(server: str, strategy: str = "append") -> Tree:
        lists = {"servers": {"strategy": strategy, "value": [server]}}
        return {"a": {"allow": lists, "deny": lists}}

    def found(strategy: str) -> list[list[tuple[str, str]]]:
        """Return both sides of what is trusted, and of what the project's file says."""
        layers = (
            layer(USER, speaking("u")),
            layer(PROJECT, speaking("p"), trusted=False),
            layer(LOCAL, speaking("l", strategy)),
        )
        views = compile_layers(layers, CompileContext(Root("/"))).policy.views
        return [entries(view.agents, side) for view in views for side in ("allow", "deny")]

    own, theirs, local = ("u", "user.toml:0"), ("p", "project.toml:0"), ("l", "project-local.toml:0")
    assert found("replace") == [[local], [local], [local], [local, theirs]]
    assert found("append") == [[own, local], [own, local], [own, theirs, local], [own, theirs, local]]


def test_an_agent_s_lists_are_kept_by_kind_and_server() -> None:
    tree: Tree = {
        "a": {
            "allow": {
                "servers": ["s"],
                "tools": {"s": ["t", "u*"]},
                "resources": {"s": ["r"]},
                "prompts": {"*": ["p"]},
            },
            "deny": {"tools": {"s": ["d"]}},
        }
    }
    agents = compile_layers([layer(USER, tree)], CompileContext(Root("/"))).policy.views[0].agents
    assert agents is not None
    (agent,) = agents.agents
    found = {
        (side, kind): {
            server: [entry.pattern for entry in listed]
            for server, listed in getattr(getattr(agent, side), kind).items()
        }
        for side in ("allow", "deny")
        for kind in ("tools", "resources", "prompts")
    }
    assert found == {
        ("allow", "tools"): {"s": ["t", "u*"]},
        ("allow", "resources"): {"s": ["r"]},
        ("allow", "prompts"): {"*": ["p"]},
        ("deny", "tools"): {"s": ["d"]},
        ("deny", "resources"): {},
        ("deny", "prompts"): {},
    }
    assert (agent.name, agent.source) == ("a", "user.toml:0")


OPEN = "defaults.deny_on_missing_agent = false, and there is no agents.default: unknown agents may call anything"
WARNED: list[tuple[Tree, Tree, tuple[str, ...]]] = [
    ({"a": {}}, {}, ()),
    ({"a": {}}, {"defaults": {"deny_on_missing_agent": False}}, (OPEN,)),
    ({"default": {}}, {"defaults": {"deny_on_missing_agent": False}}, ()),
    ({"a": {}}, {"gateway": {"default_agent": "a"}}, ()),
    ({"a*": {}}, {"gateway": {"default_agent": "ab"}}, ()),
    (
        {"a": {}},
        {"gateway": {"default_agent": "b"}},
        ('gateway.default_agent is "b", and no such agent is configured',),
    ),
    (
        {"a": {"allow": {"tools": {"s": [], "t": ["u"]}}, "deny": {"tools": {"s": []}}}},
        {},
        ('user.toml:0: agents.a.allow.tools.s is empty, which narrows nothing; leave it out, or write ["*"]',),
    ),
    (
        {
            "a": {
                "allow": {"servers": ["near", "x*"], "tools": {"far": ["t"], "y*": ["t"]}},
                "deny": {"servers": ["gone"]},
            }
        },
        {"servers": {"near": {"command": ["x"]}}},
        ("agents: no server of that name is configured: far, gone",),
    ),
    (
        {"a": {"allow": {"servers": [f"s{number}" for number in range(8)]}}},
        {"servers": {"near": {"command": ["x"]}}},
        ("agents: no server of that name is configured: s0, s1, s2, s3, s4, s5, s6, s7",),
    ),
    (
        {"a": {"allow": {"servers": [f"s{number}" for number in range(9)]}}},
        {"servers": {"near": {"command": ["x"]}}},
        ("agents: no server of that name is configured: s0, s1, s2, s3, s4, s5, s6, s7, ...",),
    ),
]


@pytest.mark.parametrize(("agents", "more", "warnings"), WARNED)
def test_what_may_not_be_meant_of_agents_is_pointed_out(agents: Tree, more: Tree, warnings: tuple[str, ...]) -> None:
    assert compile_layers([layer(USER, agents, **more)], CompileContext(Root("/"))).warnings == warnings


def test_a_home_that_is_a_name_no_tool_may_pass_is_taken_as_it_is_written(tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    context = CompileContext(Root(str(scene.root)), homes=scene.homes.replace(user="/home/a:b"))
    tree = {"rules": [{"deny": {"path": "~/x"}}]}
    table = compile_layers([Layer(USER, parse_tree(tree))], context).policy.views[0].rules
    assert table is not None
    assert table.rules[0].matcher.glob.text == "/home/a:b/x"  # type: ignore[attr-defined]
