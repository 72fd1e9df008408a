"""From layers to a policy: what only the merged tool can show."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.fs_rules import FsTable, FsTarget, RefusedPath
from byleave.errors import ConfigErrors
from byleave.policy.compile import MOST_WARNINGS, compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import MOST_PROBLEMS, SESSION, USER, Layer
from byleave.policy.parse import parse_tree
from fakes.places import PlainRoot
from scene import TOOL, Scene

ROOT = "/ws"
PLACES: dict[str, FsTarget | RefusedPath] = {
    "out": FsTarget("/ext", None, "out"),
    "alias": FsTarget("/ext", None, "out"),
    "third": FsTarget("/ext", None, "third"),
    "gone": FsTarget("/missing", None, "gone", exists=False),
    "all": FsTarget("/", None, "all"),
    "above": FsTarget("/", None, "above"),
    "ours": FsTarget("/home/state/workspaces", None, "ours"),
    "holds-ours": FsTarget("/home", None, "holds-ours"),
    "bad": RefusedPath("io", '"bad" cannot be resolved'),
}


class Places(PlainRoot):
    def resolve_rule(self, path: str) -> FsTarget | RefusedPath:
        return PLACES.get(path, FsTarget(f"{ROOT}/{path}", "" if path == "." else path))


class Mounts:
    def __init__(self, *approved: tuple[str, str]) -> None:
        self.approved = approved

    def approves_mount(self, path: str, target: str) -> bool:
        return (path, target) in self.approved


class Context(CompileContext):
    def own_places(self, _layers: Iterable[Layer]) -> tuple[str, ...]:
        return ("/home/state",)


def surroundings(*approved: tuple[str, str]) -> CompileContext:
    return Context(Places(ROOT), Mounts(*approved))


def layer(tree: dict[str, Any], *, name: str = USER, trusted: bool = True) -> Layer:
    return Layer(name, parse_tree(tree), trusted=trusted)


def tool(*, fs: Any = None, **settings: Any) -> dict[str, Any]:
    access = {} if fs is None else {"access": {"fs": fs}}
    return {"tools": {"t": {"source": "local", **settings, **access}}}


def problems(tree: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        compile_layers([layer(tree)], surroundings())
    return [str(error).partition("\n")[0] for error in caught.value.exceptions]


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    (tool(fs=[{"path": "bad"}]), 'the path of a rule cannot be used: "bad" cannot be resolved'),
    (tool(fs=[{"path": "out"}]), 'the path "out" leads outside the workspace'),
    (tool(fs=[{"path": "src", "external": True}]), 'external is set, but "src" lies inside the workspace'),
    (tool(fs=[{"path": "above", "external": True}]), '"above" leads to a directory that holds the workspace'),
    (tool(fs=[{"path": "ours", "external": True}]), '"ours" leads to byleave\'s own files'),
    (tool(fs=[{"path": "holds-ours", "external": True}]), '"holds-ours" leads to byleave\'s own files'),
    (tool(runtime="wasm"), 'the tool "t" needs the wasm runtime, which this version does not have'),
    (tool(command=["x.wasm"]), 'the tool "t" needs the wasm runtime, which this version does not have'),
]


@pytest.mark.parametrize(("tree", "problem"), PROBLEMS)
def test_what_cannot_be_compiled_is_said(tree: dict[str, Any], problem: str) -> None:
    (said,) = problems(tree)
    assert said.endswith(problem)


def test_a_problem_is_told_once_however_many_voices_repeat_it() -> None:
    own = layer(tool(fs=[{"path": "bad"}]))
    strangers = [layer({"tools": {"t": {}}}, trusted=False).replace(file=name) for name in ("a", "b")]
    with pytest.raises(ConfigErrors) as caught:
        compile_layers([own, *strangers], surroundings())
    assert len(caught.value.exceptions) == 1


def test_no_more_problems_are_told_than_anybody_reads() -> None:
    hosts = [{"host": f"not a host {number}"} for number in range(1000)]
    told = problems({"tools": {"t": {"source": "local", "access": {"net": hosts}}}})
    assert (len(told), told[-1]) == (MOST_PROBLEMS + 1, f"there are more than {MOST_PROBLEMS} problems")


def test_no_more_warnings_are_told_than_anybody_reads() -> None:
    rules = [{"host": "h", "path_prefix": f"p{number}"} for number in range(1000)]
    tree = {"tools": {"t": {"source": "local", "access": {"net": rules}}}}
    warnings = compile_layers([layer(tree)], surroundings()).warnings
    assert (len(warnings), warnings[-1]) == (MOST_WARNINGS + 1, f"and {1000 - MOST_WARNINGS} more warnings")


def external(path: str, *approved: tuple[str, str]) -> tuple[str | None, str | None, tuple[str, ...]]:
    tree = tool(fs=[{"path": ".", "read": True}, {"path": path, "external": True, "read": True}])
    compiled = compile_layers([layer(tree)], surroundings(*approved))
    rule = compiled.policy.views[0].tools["t"].access.fs.rules[1]  # type: ignore[union-attr]
    return rule.approved_target, rule.dropped, compiled.warnings


def test_an_approved_external_rule_reaches_its_target() -> None:
    assert external("out", ("out", "/ext")) == ("/ext", None, ())


@pytest.mark.parametrize("approved", [(), (("out", "/other"),), (("other", "/ext"),)])
def test_an_external_rule_without_approval_is_a_deny_in_its_place(approved: tuple[tuple[str, str], ...]) -> None:
    target, dropped, warnings = external("out", *approved)
    assert (target, dropped) == (None, "the external path out grants nothing: its target is not approved")
    (warning,) = warnings
    assert warning == (
        'inline: the external path "out" grants nothing: its target is not approved; '
        "approve it with `byleave approvals approve`"
    )


def test_an_external_rule_whose_target_is_gone_is_a_deny_in_its_place() -> None:
    target, dropped, _warnings = external("gone", ("gone", "/missing"))
    assert (target, dropped) == (None, "the external path gone grants nothing: its target does not exist here")


# What a link in the workspace leads to, the rules in order, and what may be done where it leads.
LINKED: dict[str, tuple[str, str, list[dict[str, Any]], str]] = {
    "a link to a closed place": (
        "secret",
        "secret/k",
        [{"path": "secret"}, {"path": "docs", "read": True, "write": True}],
        "",
    ),
    "a link to a closed place, the other way round": (
        "secret",
        "secret/k",
        [{"path": "docs", "read": True, "write": True}, {"path": "secret"}],
        "",
    ),
    "a path below a link to a closed place": (
        "secret",
        "secret/sub/k",
        [{"path": "secret"}, {"path": "docs/sub", "read": True}],
        "",
    ),
    "a link into a closed place": (
        "secret/sub",
        "secret/sub/k",
        [{"path": "."}, {"path": "secret"}, {"path": "docs", "read": True}],
        "",
    ),
    "a link to a place that may be read": (
        "secret",
        "secret/k",
        [{"path": "secret", "read": True}, {"path": "docs", "read": True, "write": True}],
        "read create update delete",
    ),
    "a link to a place that may be read, the other way round": (
        "secret",
        "secret/k",
        [{"path": "docs", "read": True, "write": True}, {"path": "secret", "read": True}],
        "read",
    ),
    "a link that closes, before the rule of the place": (
        "secret",
        "secret/k",
        [{"path": "docs"}, {"path": "secret", "read": True}],
        "read",
    ),
    "a link that closes": ("secret", "secret/k", [{"path": "secret", "read": True}, {"path": "docs"}], ""),
    "a link to what nobody names": (
        "secret",
        "secret/k",
        [{"path": "."}, {"path": "docs", "read": True, "update": True}],
        "read update",
    ),
    "two rules for the link": (
        "secret",
        "secret/k",
        [{"path": "docs"}, {"path": "docs", "read": True}],
        "read",
    ),
    "two rules for the place": (
        "secret",
        "secret/k",
        [{"path": "secret"}, {"path": "docs", "read": True, "update": True}, {"path": "secret", "read": True}],
        "read",
    ),
    "two links, one of them from within a closed place": (
        "secret/sub",
        "secret/sub/k",
        [{"path": "secret"}, {"path": "secret/link", "read": True}, {"path": "docs", "read": True}],
        "",
    ),
    "two links to the place": (
        "secret",
        "secret/k",
        [{"path": "docs", "read": True, "update": True}, {"path": "other", "read": True}],
        "read",
    ),
    "two links to the place, the other way round": (
        "secret",
        "secret/k",
        [{"path": "other", "read": True}, {"path": "docs", "read": True, "update": True}],
        "read update",
    ),
}


@pytest.mark.parametrize(("link", "path", "rules", "expect"), LINKED.values(), ids=LINKED.keys())
def test_of_a_rule_of_a_link_and_one_of_the_place_the_last_holds_but_a_link_opens_nothing_closed(
    link: str, path: str, rules: list[dict[str, Any]], expect: str, tmp_path: Path
) -> None:
    (tmp_path / "secret/sub").mkdir(parents=True)
    for name in ("docs", "other", "secret/link"):
        (tmp_path / name).symlink_to(tmp_path / link)
    policy = byleave.compile_policy(tool(fs=rules), root=str(tmp_path))
    kinds = ("read", "create", "update", "delete")
    given = [
        kind for kind in kinds if policy.decide({"kind": kind, "path": path, "tool": "t"}).decision.word == "allow"
    ]
    assert " ".join(given) == expect


def test_a_directory_that_becomes_a_link_to_a_closed_place_does_not_open_it(tmp_path: Path) -> None:
    for name in ("docs", "secret"):
        (tmp_path / name).mkdir()
    rules = [{"path": "secret"}, {"path": "docs", "read": True, "write": True}]
    policy = byleave.compile_policy(tool(fs=rules), root=str(tmp_path))
    asked = {"kind": "update", "path": "secret/k", "tool": "t"}
    seen = [policy.decide(asked).decision.word]
    (tmp_path / "docs").rmdir()
    (tmp_path / "docs").symlink_to("secret")
    seen += [
        policy.decide(asked).decision.word,
        byleave.compile_policy(tool(fs=rules), root=str(tmp_path)).decide(asked).decision.word,
    ]
    assert seen == ["deny"] * 3


def test_a_link_to_a_way_out_needs_an_approval_of_its_own() -> None:
    rules = [{"path": "alias", "external": True, "read": True}, {"path": "out", "external": True, "read": True}]

    def given(*approved: tuple[str, str]) -> tuple[list[str], list[tuple[str, ...]]]:
        compiled = compile_layers([layer(tool(fs=rules))], surroundings(*approved))
        table = compiled.policy.views[0].tools["t"].access.fs
        place = FsTarget("/ext/f", None, door="out/f")
        assert isinstance(table, FsTable)
        return [table.decide(place, "read").decision.word], [one.unapproved for one in compiled.externals]

    assert given(("out", "/ext")) == (["deny"], [("alias",), ()])
    assert given(("alias", "/ext")) == (["deny"], [("out",), ("out",)])
    assert given(("alias", "/ext"), ("out", "/ext")) == (["allow"], [(), ()])


def test_a_way_out_that_a_link_has_closed_still_names_what_it_opened() -> None:
    rules = [
        {"path": "out", "external": True, "read": True},
        {"path": "third", "external": True, "read": True, "write": True},
        {"path": "alias", "external": True, "read": True, "write": True},
    ]
    compiled = compile_layers([layer(tool(fs=rules))], surroundings(("out", "/ext"), ("third", "/ext")))
    table = compiled.policy.views[0].tools["t"].access.fs
    assert isinstance(table, FsTable)
    assert table.decide(FsTarget("/ext/f", None, door="third/f"), "update").decision.word == "deny"


def test_what_a_session_adds_for_files_declares_nothing() -> None:
    own = layer(tool(runtime="vfs"))
    session = layer({"tools": {"t": {"access": {"fs": [{"path": "x", "read": True}]}}}}, name=SESSION)
    assert compile_layers([own, session], surroundings()).tools["t"].declares is False
    net = layer({"tools": {"t": {"access": {"net": [{"host": "a.example"}]}}}}, name=SESSION)
    assert compile_layers([own, net], surroundings()).tools["t"].declares is True
    with pytest.raises(ConfigErrors):
        compile_layers([layer({"tools": {"t": {"source": "builtin"}}}), session], surroundings())


def test_a_runtime_on_a_tool_that_is_not_local_is_a_warning() -> None:
    tree = {"tools": {"t": {"source": "mcp.x", "runtime": "vfs"}}}
    assert compile_layers([layer(tree)], surroundings()).warnings == (
        'tools.t: runtime means nothing for source "mcp.x"',
    )


QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "x"}),
    ("create", {"path": "x"}),
    ("exec", {"path": "x"}),
    ("url", {"url": "https://a.example/"}),
    ("env", {"name": "HOME"}),
    ("env", {"name": "SECRET"}),
    ("spawn", {"program": "ls", "args": []}),
]
DEFAULTS: list[tuple[dict[str, Any], str]] = [
    (tool(), "allow allow allow deny allow deny allow"),
    (tool(runtime="vfs"), "allow deny deny deny deny deny deny"),
    ({**tool(), "defaults": {"os_sandbox": "off"}}, "allow allow allow allow allow allow allow"),
    ({**tool(), "defaults": {"os_sandbox": "require"}}, "allow allow allow deny allow deny allow"),
    (tool(fs=[{"path": "x", "read": True}]), "allow deny deny deny allow deny allow"),
    (tool(fs=[{"path": "x", "read": True}], runtime="vfs"), "allow deny deny ask ask ask ask"),
    (tool(fs=[]), "allow allow allow deny allow deny allow"),
    (tool(fs=[], runtime="vfs"), "allow deny deny deny deny deny deny"),
    (tool(access={"commands": {}}), "allow allow allow deny allow deny deny"),
    (tool(enable=False), "deny deny deny deny deny deny deny"),
]


@pytest.mark.parametrize(("tree", "expect"), DEFAULTS)
def test_what_holds_where_nothing_is_declared(tree: dict[str, Any], expect: str, tmp_path: Path) -> None:
    policy = byleave.compile_policy(tree, root=str(tmp_path))
    decisions = [policy.decide({"kind": kind, "tool": "t", **fields}).decision.word for kind, fields in QUESTIONS]
    assert " ".join(decisions) == expect


COMMAND_LAYERS: list[tuple[str, str, str]] = [
    ("", "", "allow allow"),
    ('args = [["status"]]', "", "allow deny"),
    ("", 'args = [["status"]]', "allow deny"),
    ('args = [["status"]]', 'args = [["push"]]', "allow allow"),
    ('args = [["status"]]', 'args = {strategy = "replace", value = [["push"]]}', "deny allow"),
    ('args = [["**"]]', "args = []", "allow allow"),
    ("args = []", "args = []", "deny deny"),
]


@pytest.mark.parametrize(("weaker", "stronger", "expect"), COMMAND_LAYERS)
def test_the_arguments_of_a_program_join_across_layers(weaker: str, stronger: str, expect: str, tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    scene.say("user", f"{TOOL}[tools.t.access.commands.git]\n{weaker}")
    scene.say("project", f"[tools.t.access.commands.git]\n{stronger}")
    scene.trust()
    decisions = [scene.decision("spawn", program="git", args=[word]) for word in ("status", "push")]
    assert " ".join(decisions) == expect
