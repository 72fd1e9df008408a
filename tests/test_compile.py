"""From layers to a policy: what only the merged tool can show."""

from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.config.compile import MOST_WARNINGS, Surroundings, compile_layers
from byleave.config.layers import MOST_PROBLEMS, USER, Layer
from byleave.config.parse import parse_tree
from byleave.core.fs import FsTarget, Refused
from byleave.errors import ConfigErrors
from scene import TOOL, Scene

ROOT = "/ws"
PLACES: dict[str, FsTarget | Refused] = {
    "out": FsTarget("/ext", None, "out"),
    "gone": FsTarget("/missing", None, "gone", exists=False),
    "all": FsTarget("/", None, "all"),
    "above": FsTarget("/", None, "above"),
    "ours": FsTarget("/home/state/workspaces", None, "ours"),
    "holds-ours": FsTarget("/home", None, "holds-ours"),
    "bad": Refused("io", '"bad" cannot be resolved'),
}


def resolve(path: str) -> FsTarget | Refused:
    return PLACES.get(path, FsTarget(f"{ROOT}/{path}", "" if path == "." else path))


def surroundings(*approved: tuple[str, str]) -> Surroundings:
    return Surroundings(resolve, lambda *pair: pair in approved, ROOT, ("/home/state",))


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
    (tool(runtime="wasm"), 'the tool "t" wants the wasm runtime, which does not exist here'),
    (tool(command=["x.wasm"]), 'the tool "t" wants the wasm runtime, which does not exist here'),
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
    rule = compiled.policy.voices[0].tools["t"].access.fs.rules[1]  # type: ignore[union-attr]
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
        "`byleave approvals approve` asks about it"
    )


def test_an_external_rule_whose_target_is_gone_is_a_deny_in_its_place() -> None:
    target, dropped, _warnings = external("gone", ("gone", "/missing"))
    assert (target, dropped) == (None, "the external path gone grants nothing: its target does not exist here")


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
