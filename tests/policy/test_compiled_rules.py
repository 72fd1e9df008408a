"""What a configured rule becomes: the whole matcher, for every key that a rule may have."""

from pathlib import Path
from typing import Any

import pytest

from byleave.core.arguments import ArgumentTest
from byleave.core.command_groups import GROUPS
from byleave.core.decision import ALLOW, ASK, DENY
from byleave.core.matchers import (
    AgentMatcher,
    All,
    AnyOf,
    CallMatcher,
    CommandMatcher,
    Matcher,
    Not,
    OperationMatcher,
    PathMatcher,
    TextMatcher,
    UrlMatcher,
)
from byleave.core.patterns import Glob, compile_glob
from byleave.core.rules import CompiledRule
from byleave.errors import ConfigErrors
from byleave.policy.compile import Compiled, compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import USER, Layer
from byleave.policy.parse import parse_file, parse_tree
from byleave.workspace.resolve import Root
from scene import Scene

Tree = dict[str, Any]
ALL_OPS = frozenset({"read", "create", "update", "delete", "exec"})
GIT, LS = CommandMatcher(names=("git",)), CommandMatcher(names=("ls",))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A workspace with a link to another directory of it, and one to a directory outside."""
    base = tmp_path_factory.mktemp("rules").resolve()
    scene = Scene.build(base)
    (scene.root / "real/deep").mkdir(parents=True)
    (scene.root / "link").symlink_to("real")
    (scene.root / "out").symlink_to(scene.managed)
    return scene


def compiled(scene: Scene, *rules: Tree, home: str | None = None) -> Compiled:
    homes = scene.homes if home is None else scene.homes.replace(user=home)
    layer = Layer(USER, parse_tree({"rules": list(rules)}), "u.toml")
    return compile_layers([layer], CompileContext(Root(str(scene.root)), homes=homes))


def rules(scene: Scene, *given: Tree) -> tuple[CompiledRule, ...]:
    table = compiled(scene, *given).policy.views[0].rules
    assert table is not None
    return tuple(table.rules)


def matcher(scene: Scene, table: Tree, outcome: str = "deny") -> Matcher:
    (rule,) = rules(scene, {outcome: table})
    return rule.matcher


def path(pattern: str, *, ops: frozenset[str] = ALL_OPS, resolved: Glob | None = None) -> PathMatcher:
    return PathMatcher(compile_glob(pattern), ops, pattern.startswith("/"), resolved)


MATCHERS: list[tuple[Tree, Matcher]] = [
    ({"command": "git"}, GIT),
    ({"command": ["git", "ls"]}, CommandMatcher(names=("git", "ls"))),
    ({"any_command": True}, CommandMatcher()),
    ({"piped_to_shell": True}, CommandMatcher(piped_to_shell=True)),
    ({"options": "any"}, CommandMatcher(any_options=True)),
    (
        {"command": "git", "subcommand": ["push", "pull"], "flags": "-f", "operands": 2},
        CommandMatcher(names=("git",), subcommands=("push", "pull"), flags=("-f",), operands=2),
    ),
    (
        {"command": "a", "args": ["x", "**"], "flags": ["-a", "-b"], "options": "any", "piped_to_shell": True},
        CommandMatcher(names=("a",), args=("x", "**"), flags=("-a", "-b"), any_options=True, piped_to_shell=True),
    ),
    ({"command": "a", "args": []}, CommandMatcher(names=("a",), args=())),
    ({"command": "a", "operands": 0}, CommandMatcher(names=("a",), operands=0)),
    ({"text": "  git  push *"}, TextMatcher("git push *")),
    ({"path": "src/**"}, path("src/**")),
    (
        {"path": ["a", "b/*"], "ops": ["read", "exec"]},
        AnyOf(tuple(path(p, ops=frozenset({"read", "exec"})) for p in ("a", "b/*"))),
    ),
    ({"path": "/etc/passwd"}, path("/etc/passwd")),
    ({"path": "*"}, path("*")),
    ({"url": {"host": "A.Example"}}, UrlMatcher("a.example")),
    (
        {"url": {"scheme": "HTTPS", "port": 8443, "path_prefix": "/a", "method": ["get", "Post"]}},
        UrlMatcher(None, "https", 8443, "/a", ("GET", "POST")),
    ),
    ({"url": {"method": "put"}}, UrlMatcher(methods=("PUT",))),
    ({"call": {}}, CallMatcher()),
    ({"call": {"server": "s*"}}, CallMatcher("s*")),
    ({"call": {"tool": "t"}}, CallMatcher("*", "t")),
    ({"call": {"arg": "/a", "equals": 1}}, CallMatcher("*", None, ArgumentTest("/a", "equals", 1, None))),
    ({"call": {"arg": "/a", "prefix": "x"}}, CallMatcher("*", None, ArgumentTest("/a", "prefix", "x", None))),
    ({"call": {"arg": "/a", "inside": "/srv"}}, CallMatcher("*", None, ArgumentTest("/a", "inside", "/srv", None))),
    (
        {"call": {"arg": "/a", "host": "A.Example"}},
        CallMatcher("*", None, ArgumentTest("/a", "host", "a.example", None)),
    ),
    ({"operation": "read"}, OperationMatcher(("read",))),
    ({"operation": ["read", "other"]}, OperationMatcher(("read", "other"))),
    ({"agent": "claude*"}, AgentMatcher(("claude*",))),
    ({"agent": ["a[bc]", "b**", "../c"]}, AgentMatcher(("a[bc]", "b**", "../c"))),
    ({"all": [{"command": "git"}, {"agent": "a"}]}, All((GIT, AgentMatcher(("a",))))),
    ({"any": [{"command": "git"}]}, AnyOf((GIT,))),
    ({"not": {"command": "git"}}, Not(GIT)),
    (
        {"all": [{"command": "git"}], "any": [{"command": "ls"}], "not": {"agent": "a"}},
        All((All((GIT,)), AnyOf((LS,)), Not(AgentMatcher(("a",))))),
    ),
    ({"command": "git", "agent": "a"}, All((GIT, AgentMatcher(("a",))))),
    (
        {
            "agent": "a",
            "operation": "execute",
            "call": {"server": "s"},
            "url": {"port": 1},
            "path": "p",
            "text": "t",
            "command": "git",
        },
        All(
            (
                GIT,
                TextMatcher("t"),
                path("p"),
                UrlMatcher(port=1),
                CallMatcher("s"),
                OperationMatcher(("execute",)),
                AgentMatcher(("a",)),
            )
        ),
    ),
]


@pytest.mark.parametrize(("table", "expected"), MATCHERS, ids=[str(table) for table, _matcher in MATCHERS])
def test_a_table_becomes_the_matcher_of_all_its_keys(table: Tree, expected: Matcher, scene: Scene) -> None:
    assert matcher(scene, table) == expected


@pytest.mark.parametrize(
    ("test", "value", "holds", "fails"),
    [("glob", "a*[bc]", "axxb", "axxd"), ("regex", "(?i)drop", "a Drop b", "dro")],
)
def test_a_pattern_for_an_argument_is_searched_as_it_says(
    test: str, value: str, holds: str, fails: str, scene: Scene
) -> None:
    found = matcher(scene, {"call": {"arg": "/a", test: value}})
    assert isinstance(found, CallMatcher)
    argument = found.argument
    assert argument is not None
    assert (argument.pointer, argument.test, argument.value) == ("/a", test, value)
    assert [argument.holds({"a": text}, granting=True) for text in (holds, fails)] == [True, False]


def test_a_pattern_that_begins_with_a_link_has_the_place_it_leads_to_as_well(scene: Scene) -> None:
    root, out = str(scene.root), str(scene.managed)

    def resolved(text: str) -> tuple[str, ...] | None:
        found = matcher(scene, {"path": text})
        assert isinstance(found, PathMatcher)
        return None if found.resolved is None else tuple(str(name) for name in found.resolved.names)

    parts = tuple(root.strip("/").split("/"))
    assert resolved("real/**") is None
    assert resolved("link/a") == (*parts, "real", "a")
    assert resolved("link/deep/*.py")[:-1] == (*parts, "real", "deep")  # type: ignore[index]
    assert resolved("out/a") == (*out.strip("/").split("/"), "a")
    assert resolved(f"{root}/link/a") == (*parts, "real", "a")
    assert resolved(f"{root}/real/a") is None
    assert resolved("*/link") is None


def test_a_directory_is_written_as_it_really_is(scene: Scene) -> None:
    root, home = str(scene.root), str(scene.home)
    for text, place in (
        (".", root),
        ("link", f"{root}/real"),
        ("later/x", f"{root}/later/x"),
        ("~", home),
        ("~/a", f"{home}/a"),
        ("/usr", "/usr"),
        ("~a", f"{root}/~a"),
    ):
        assert matcher(scene, {"command": "git", "within": text}) == CommandMatcher(names=("git",), within=place)


def test_a_path_that_begins_at_home_is_written_out(scene: Scene, tmp_path: Path) -> None:
    home = str(scene.home)
    assert matcher(scene, {"path": "~/a/*"}) == path(f"{home}/a/*")
    assert matcher(scene, {"path": "~a"}) == path("~a")
    (tmp_path / "linked").symlink_to(scene.home)
    table = compiled(scene, {"deny": {"path": "~/x"}}, home=str(tmp_path / "linked")).policy.views[0].rules
    assert table is not None
    assert table.rules[0].matcher == path(f"{home}/x")


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_the_matcher_of_its_table_with_its_name(name: str, scene: Scene) -> None:
    found, table = matcher(scene, {"group": name}), matcher(scene, GROUPS[name])
    assert found == (table.replace(label=f"group {name}") if isinstance(table, AnyOf) else table)


def test_a_rule_carries_all_that_was_said_of_it(scene: Scene) -> None:
    table = {"command": "git"}
    given: list[Tree] = [
        {"allow": table, "why": "a", "sandbox": True, "unread": True},
        {"allow": table, "sandbox": False},
        {"ask": table, "why": "b", "sandbox": True},
        {"deny": table, "why": "c"},
    ]
    found = [
        (rule.outcome, rule.matcher, rule.why, rule.source, rule.words, rule.sandbox, rule.unread)
        for rule in rules(scene, *given)
    ]
    assert found == [
        (ALLOW, GIT, "a", "u.toml:0", (), True, True),
        (ALLOW, GIT, None, "u.toml:0", (), False, False),
        (ASK, GIT, "b", "u.toml:0", (), True, False),
        (DENY, GIT, "c", "u.toml:0", (("git",),), None, False),
    ]


def test_a_rule_names_its_line(scene: Scene) -> None:
    content = b'[[rules]]\nallow = { command = "a" }\n\n[[rules]]\ndeny = { command = "b" }\n'
    layer = Layer(USER, parse_file(content, "u.toml"), "u.toml", content)
    table = compile_layers([layer], CompileContext(Root(str(scene.root)))).policy.views[0].rules
    assert table is not None
    assert [rule.source for rule in table.rules] == ["u.toml:1", "u.toml:4"]


EMPTY = ("",)
LISTS: list[tuple[Tree, Matcher]] = [
    ({"allow": {"command": []}}, CommandMatcher(names=EMPTY)),
    ({"ask": {"command": []}}, CommandMatcher()),
    ({"deny": {"command": []}}, CommandMatcher()),
    ({"allow": {"command": "a", "subcommand": []}}, CommandMatcher(names=("a",), subcommands=EMPTY)),
    ({"deny": {"command": "a", "subcommand": []}}, CommandMatcher(names=("a",))),
    ({"allow": {"not": {"command": []}}}, Not(CommandMatcher())),
    ({"deny": {"not": {"command": []}}}, Not(CommandMatcher(names=EMPTY))),
    ({"allow": {"not": {"not": {"command": []}}}}, Not(Not(CommandMatcher(names=EMPTY)))),
    (
        {"allow": {"any": [{"not": {"command": []}}, {"command": []}]}},
        AnyOf((Not(CommandMatcher()), CommandMatcher(names=EMPTY))),
    ),
]


@pytest.mark.parametrize(("rule", "expected"), LISTS, ids=[str(rule) for rule, _matcher in LISTS])
def test_an_empty_list_is_read_the_stricter_way_on_each_side_of_a_not(
    rule: Tree, expected: Matcher, scene: Scene
) -> None:
    (found,) = rules(scene, rule)
    assert found.matcher == expected


WIDE: list[tuple[Tree, bool]] = [
    ({"allow": {"any_command": True}}, True),
    ({"allow": {"any_command": True, "within": "."}}, True),
    ({"allow": {"any_command": True, "options": "any", "within": "."}}, True),
    ({"allow": {"any_command": True, "agent": "a"}}, False),
    ({"allow": {"not": {"command": "rm"}}}, True),
    ({"allow": {"not": {"command": "rm"}, "within": ".", "options": "any"}}, True),
    ({"allow": {"not": {"command": "rm"}, "agent": "a"}}, False),
    ({"allow": {"within": "."}}, False),
    ({"allow": {"options": "any"}}, False),
    ({"allow": {"command": "cp", "within": "."}}, True),
    ({"allow": {"command": "/usr/bin/cp", "within": "."}}, True),
    ({"allow": {"command": ["ls", "cp"], "within": "."}}, True),
    ({"allow": {"command": ["ls", "cat"], "within": "."}}, False),
    ({"allow": {"command": "unheard-of", "within": "."}}, False),
    ({"allow": {"command": "cp"}}, False),
    ({"allow": {"command": "cp", "args": ["a", "b"], "within": "."}}, False),
    ({"allow": {"command": "cp", "within": "."}, "sandbox": True}, False),
    ({"allow": {"command": "cp", "within": "."}, "sandbox": False}, True),
    ({"ask": {"any_command": True}}, False),
    ({"deny": {"any_command": True}}, False),
]


@pytest.mark.parametrize(("rule", "wide"), WIDE, ids=[str(rule) for rule, _wide in WIDE])
def test_an_allow_that_says_only_where_a_command_starts_is_pointed_out(rule: Tree, *, wide: bool, scene: Scene) -> None:
    said = "u.toml:0: `within` says where a command starts, not what it writes: it may write elsewhere"
    assert compiled(scene, rule).warnings == ((said,) if wide else ())


EXAMPLES: list[tuple[Tree, bool]] = [
    ({"deny": {"command": "git"}, "match": ["git x", "true && git"], "not_match": ["ls"]}, True),
    ({"deny": {"command": "git"}, "match": ["ls && git x || true"]}, True),
    ({"deny": {"command": "git"}, "not_match": ["ls && git x || true"]}, False),
    ({"allow": {"command": "git"}, "match": ["git status"], "not_match": ["./git status"]}, True),
    ({"allow": {"command": "git"}, "match": ["git -c core.pager=x log"]}, False),
    ({"allow": {"command": "git"}, "not_match": ["git -c core.pager=x log"]}, True),
    ({"deny": {"command": "git"}, "match": ["git -c core.pager=x log"]}, True),
    ({"deny": {"command": "git"}, "match": ["$X git"]}, False),
    ({"deny": {"path": "a"}, "match": ["cat a"]}, False),
]


@pytest.mark.parametrize(("rule", "holds"), EXAMPLES, ids=[str(rule) for rule, _holds in EXAMPLES])
def test_an_example_holds_where_a_part_of_it_is_certainly_matched(rule: Tree, *, holds: bool, scene: Scene) -> None:
    if holds:
        assert len(rules(scene, rule)) == 1
        return
    with pytest.raises(ConfigErrors) as caught:
        compiled(scene, rule)
    assert "its own example" in str(caught.value)
