"""Rules as they are configured: what is refused and where, how layers join, what an untrusted file may say."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import amounts
from byleave import compile_policy
from byleave.errors import ConfigErrors
from byleave.policy.load import Workspace
from core.test_rule_properties import lines, rules
from scene import Scene

Rules = list[dict[str, Any]]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def problems(scene: Scene, text: str) -> str:
    with pytest.raises(ConfigErrors) as caught:
        scene.load(scene.say("command line", text))
    return str(caught.value)


def answer(scene: Scene, command: str, *files: Path) -> str:
    return scene.load(*files).decide({"kind": "command", "command": command}).decision.word


REFUSED = {
    "no outcome": ('[[rules]]\nwhy = "x"', "add one of allow, ask or deny", ":1"),
    "two outcomes": (
        '[[rules]]\nallow = { command = "a" }\ndeny = { command = "b" }',
        "has allow and deny",
        ":1",
    ),
    "an unknown key": ('[[rules]]\nallow = { comand = "a" }', "command", ":2"),
    "an unknown key inside any": ('[[rules]]\nallow = { any = [{ grup = "tests" }] }', "group", ":2"),
    "an unknown group": ('[[rules]]\nallow = { group = "tets" }', 'no group "tets"', ":2"),
    "an unknown operation": ('[[rules]]\nallow = { operation = "fly" }', 'no operation "fly"', ":2"),
    "flags without a command": ('[[rules]]\nallow = { flags = ["-x"] }', "flags needs a command", ":2"),
    "ops without a path": ('[[rules]]\nallow = { ops = ["read"] }', "ops needs a path", ":2"),
    "an empty table": ("[[rules]]\nallow = {}", "matches nothing", ":2"),
    "an empty any": ("[[rules]]\nallow = { any = [] }", "any is empty", ":2"),
    "command and any_command": ('[[rules]]\nallow = { command = "a", any_command = true }', "exclude each other", ":2"),
    "anything in the middle": ('[[rules]]\nallow = { command = "a", args = ["**", "x"] }', "only be the last", ":2"),
    "a path that climbs": ('[[rules]]\nallow = { path = "../x" }', '".."', ":2"),
    "two stars in a name": ('[[rules]]\nallow = { path = "a**" }', "stand alone", ":2"),
    "an open bracket": ('[[rules]]\nallow = { path = "[a" }', "not closed", ":2"),
    "a pattern that looks back": (
        '[[rules]]\nask = { call = { arg = "/a", regex = "(?<=x)y" } }',
        "the pattern cannot be used",
        ":2",
    ),
    "a pattern that refers back": (
        "[[rules]]\nask = { call = { arg = '/a', regex = '(a)\\1' } }",
        "the pattern cannot be used",
        ":2",
    ),
    "a test without an argument": ('[[rules]]\nask = { call = { regex = "x" } }', "regex needs an arg", ":2"),
    "two tests": ('[[rules]]\nask = { call = { arg = "/a", prefix = "x", glob = "y" } }', "exactly one test", ":2"),
    "no pointer": ('[[rules]]\nask = { call = { arg = "a", prefix = "x" } }', 'starts with "/"', ":2"),
    "no host": ('[[rules]]\nask = { url = { host = "a b" } }', "is no host", ":2"),
    "an example that is not matched": (
        '[[rules]]\ndeny = { command = "git", flags = ["--force"] }\nmatch = [\n  "git push -f",\n  "git push",\n]',
        'does not match its own example "git push"',
        ":5",
    ),
    "an example that is matched": (
        '[[rules]]\ndeny = { command = "git" }\nnot_match = ["git push"]',
        'matches its own example "git push"',
        ":3",
    ),
    "an example that the allow does not reach": (
        '[[rules]]\nallow = { command = "sort" }\nmatch = ["sort -o x y"]',
        "does not match its own example",
        ":3",
    ),
    "an example nobody understands": (
        '[[rules]]\ndeny = { command = "git" }\nmatch = ["git \'"]',
        "does not match its own example",
        ":3",
    ),
    "a program with an unknown key": ('[programs.x]\nbogus = ["-a"]', "bogus", ":1"),
    "a program like nothing": ('[programs.x]\nlike = "nothing"', 'no program "nothing"', ":1"),
    "programs like each other": ('[programs.x]\nlike = "y"\n[programs.y]\nlike = "x"', "is like itself", ":1"),
    "a subcommand like a program": (
        '[programs.x.sub.y]\nlike = "git"',
        '`like` means nothing for the subcommand "y"',
        ":1",
    ),
    "a subcommand like a program behind one with others": (
        '[programs.x.sub.a.sub.b]\nflags = ["-q"]\n[programs.x.sub.y]\nlike = "git"',
        '`like` means nothing for the subcommand "y"',
        ":1",
    ),
    "a subcommand of a subcommand like a program": (
        '[programs.x.sub.y.sub.z]\nlike = "git"',
        '`like` means nothing for the subcommand "y z"',
        ":1",
    ),
    "a program with a wrong type": ('[programs.x]\nexecutes = "-e"', "executes", ":1"),
    "a wrapper with an unknown key": ("[programs.x]\nwrap = { skips = 1 }", "skips", ":1"),
}


@pytest.mark.parametrize(("text", "problem", "place"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, problem: str, place: str, scene: Scene) -> None:
    told = problems(scene, text)
    assert problem in told
    assert f"policy.toml{place}" in told
    assert "hint: " in told


def test_all_problems_of_a_file_are_told_together(scene: Scene) -> None:
    told = problems(scene, '[[rules]]\nallow = { group = "a" }\n[[rules]]\ndeny = { group = "b" }\n')
    assert 'no group "a"' in told
    assert 'no group "b"' in told


def test_examples_that_hold_are_no_problem(scene: Scene) -> None:
    text = '[[rules]]\ndeny = { command = "git", subcommand = "push", flags = ["--force"] }\nwhy = "no"\n'
    file = scene.say("command line", text + 'match = ["git push -f"]\nnot_match = ["git push origin main"]\n')
    verdict = scene.load(file).decide({"kind": "command", "command": "git push -f"})
    assert (verdict.decision.word, verdict.because[0].source) == ("deny", f"{file}:1")
    assert verdict.reason.endswith("is denied: no (rule `deny git push --force`)")


def test_the_stronger_layer_is_asked_first(scene: Scene) -> None:
    scene.say("user", '[[rules]]\ndeny = { command = "ls" }\n')
    assert answer(scene, "ls") == "deny"
    scene.say("session", '[[rules]]\nallow = { command = "ls" }\n')
    assert answer(scene, "ls") == "allow"
    scene.say("managed", '[[rules]]\nask = { command = "ls" }\n')
    assert answer(scene, "ls") == "ask"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("append", "deny"),
        ("prepend", "allow"),
        ("replace", "allow"),
        pytest.param(
            "dedup",
            "deny",
        ),
    ],
)
def test_a_list_says_how_it_joins_weaker_layers(strategy: str, expected: str, scene: Scene) -> None:
    scene.say("user", '[[rules]]\ndeny = { command = "ls" }\n')
    scene.say("session", f'rules = {{ strategy = "{strategy}", value = [{{ allow = {{ command = "ls" }} }}] }}\n')
    assert answer(scene, "ls") == expected


@pytest.mark.parametrize("layer", ["user", "session", "command line"])
def test_nobody_replaces_managed_rules(layer: str, scene: Scene) -> None:
    scene.say("managed", '[[rules]]\ndeny = { command = "ls" }\n')
    file = scene.say(layer, 'rules = { strategy = "replace", value = [{ allow = { command = "ls" } }] }\n')
    assert answer(scene, "ls", *([file] if layer == "command line" else [])) == "deny"


def test_a_project_is_heard_once_it_is_trusted(scene: Scene) -> None:
    scene.say("project", '[[rules]]\nallow = { command = "ls" }\n[[rules]]\ndeny = { command = "cat" }\n')
    assert [answer(scene, command) for command in ("ls", "cat")] == ["ask", "deny"]
    scene.trust()
    assert [answer(scene, command) for command in ("ls", "cat")] == ["allow", "deny"]


EVERYTHING = """
[[rules]]
allow = { any_command = true, options = "any" }
[[rules]]
allow = { path = ["**", "/**"] }
[[rules]]
allow = { url = { host = "example.com" } }
[[rules]]
allow = { call = { server = "*" } }
[[rules]]
allow = { operation = ["other", "switch_mode"] }
"""


@pytest.mark.parametrize(
    "action",
    [
        {"kind": "command", "command": "ls"},
        {"kind": "command", "command": "ls > x"},
        {"kind": "update", "path": "x"},
        {"kind": "move", "path": "x", "to": "y"},
        {"kind": "url", "url": "https://example.com/"},
        {"kind": "call", "server": "s", "tool": "t"},
        {"kind": "other", "name": "switch_mode"},
    ],
    ids=str,
)
@pytest.mark.parametrize("user", ["", '[[rules]]\nallow = { command = "cargo" }\n'], ids=["no rules", "a rule"])
def test_an_untrusted_project_allows_nothing_by_itself(action: dict[str, Any], user: str, scene: Scene) -> None:
    scene.say("user", user)
    scene.say("project", EVERYTHING)
    assert scene.load().decide(action).decision.word == "ask"


@pytest.mark.long
@settings(deadline=None, max_examples=amounts.of(100, 50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules, rules, st.sampled_from(["append", "prepend", "replace"]), lines)
def test_an_untrusted_layer_never_loosens(scene: Scene, user: Rules, project: Rules, strategy: str, line: str) -> None:
    workspace = scene.workspace
    own = workspace.files.parse_project_file("byleave.toml", _toml(user)).replace(name="user", trusted=True)
    others = {"rules": {"strategy": strategy, "value": project}}
    foreign = workspace.files.parse_project_file("byleave.toml", _toml(others)).replace(trusted=False)
    without = _decide(workspace, [own], line)
    assert _decide(workspace, [own, foreign], line) >= without


def _toml(tree: "Rules | dict[str, Any]") -> bytes:
    return f"rules = {_value(tree['rules'] if isinstance(tree, dict) else tree)}".encode()


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return "true" if value is True else f'"{value}"'


def _decide(workspace: Workspace, layers: list[Any], line: str) -> int:
    from byleave.policy.live_policy import LivePolicy

    policy = LivePolicy(workspace.compile(layers), workspace.root)
    return policy.decide({"kind": "command", "command": line}).decision


DEPLOY = """
[programs.deploy]
same = [["-e", "--exec"]]
values = ["-e", "-o"]
executes = ["--exec"]
writes = ["-o"]

[programs.remote]
stops = true
wrap = { skip = 1 }

[[rules]]
allow = { command = ["deploy", "remote"] }

[[rules]]
deny = { command = "rm" }
"""
PROGRAMS = {
    "deploy --to x": "allow",
    "deploy -e id": "ask",
    "deploy --exec=id": "ask",
    "deploy -o x": "ask",
    "deploy $X": "ask",
    "remote host rm x": "deny",
    "remote host deploy": "allow",
    "remote host ls": "ask",
}


@pytest.mark.parametrize(("command", "decision"), PROGRAMS.items(), ids=PROGRAMS.keys())
def test_a_user_teaches_what_a_program_does(command: str, decision: str, scene: Scene) -> None:
    scene.say("user", DEPLOY)
    assert answer(scene, command) == decision


def test_nobody_teaches_from_an_untrusted_file(scene: Scene) -> None:
    scene.say("user", '[[rules]]\nallow = { command = "deploy" }\n')
    scene.say("project", '[programs.deploy]\nexecutes = ["-e"]\n[programs.sudo]\nwrap = { transparent = true }\n')
    assert answer(scene, "deploy -e id") == "allow"
    assert answer(scene, "sudo deploy") == "ask"
    scene.trust()
    assert answer(scene, "deploy -e id") == "ask"


WIDE = {
    "any command": ('{ any_command = true, within = "." }', True),
    "a writing program by directory alone": ('{ command = "cp", within = "." }', True),
    "everything but": ('{ not = { command = "rm" } }', True),
    "a reading program by directory": ('{ command = "ls", within = "." }', False),
    "a writing program with more to say": ('{ command = "cp", args = ["a", "b"], within = "." }', False),
}


@pytest.mark.parametrize(("table", "warned"), WIDE.values(), ids=WIDE.keys())
def test_an_allow_that_is_wide_is_remarked_upon(table: str, warned: object, scene: Scene) -> None:
    scene.say("user", f"[[rules]]\nallow = {table}\n")
    assert any("it may write elsewhere" in warning for warning in scene.load().warnings) is warned
    scene.say("user", f"[[rules]]\ndeny = {table}\n")
    assert scene.load().warnings == ()


def test_the_reason_is_shown_with_an_ask_and_a_deny_only(scene: Scene) -> None:
    for outcome, shown in (("allow", False), ("ask", True), ("deny", True)):
        scene.say("user", f'[[rules]]\n{outcome} = {{ command = "ls" }}\nwhy = "because I say so"\n')
        verdict = scene.load().decide({"kind": "command", "command": "ls"})
        assert ("because I say so" in verdict.reason) is shown


EMPTY_LISTS = {
    "an allow of no command": ({"allow": {"command": []}}, "ask"),
    "an allow of no subcommand": ({"allow": {"command": "git", "subcommand": []}}, "ask"),
    "one alternative that is empty": ({"allow": {"any": [{"command": []}, {"command": "ls"}]}}, "ask"),
    "an allow of all but none": ({"allow": {"not": {"command": []}}}, "ask"),
    "an allow behind two inversions": ({"allow": {"not": {"not": {"command": []}}}}, "ask"),
    "an allow of no path beside a command": ({"allow": {"path": [], "command": "git"}}, "ask"),
    "an allow of no path in all": ({"allow": {"all": [{"path": []}, {"command": "git"}]}}, "ask"),
    "an allow of no path for an agent": ({"allow": {"path": [], "agent": "*"}}, "ask"),
    "an allow of no operation": ({"allow": {"operation": []}}, "ask"),
    "an allow of all but no operation": ({"allow": {"not": {"operation": []}}}, "ask"),
    "an allow of no agent": ({"allow": {"command": "git", "agent": []}}, "ask"),
    "an allow of all but no agent": ({"allow": {"command": "git", "not": {"agent": []}}}, "ask"),
    "a deny of no operation": ({"deny": {"operation": []}}, "deny"),
    "a deny of no agent": ({"deny": {"command": "git", "agent": []}}, "deny"),
    "a deny of no path": ({"deny": {"path": []}}, "ask"),
    "a deny of no command": ({"deny": {"command": []}}, "deny"),
    "a deny of all but none": ({"deny": {"not": {"command": []}}}, "deny"),
}


@pytest.mark.parametrize(("rule", "decision"), EMPTY_LISTS.values(), ids=EMPTY_LISTS.keys())
def test_an_empty_list_has_the_stricter_reading(rule: dict[str, Any], decision: str, tmp_path: Path) -> None:
    policy = compile_policy({"rules": [rule]}, root=str(tmp_path))
    action = {"kind": "command", "command": "git push", "agent": "a"}
    assert policy.decide(action).decision.word == decision


FILES, URLS = {"kind": "update", "path": "x"}, {"kind": "url", "url": "https://a.example/", "method": "POST"}
EMPTY_PARTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"allow": {"path": []}}, FILES, "ask"),
    ({"allow": {"path": "**", "ops": []}}, FILES, "ask"),
    ({"allow": {"not": {"path": []}}}, FILES, "ask"),
    ({"allow": {"not": {"path": "y", "ops": []}}}, FILES, "allow"),
    ({"allow": {"not": {"path": "x", "ops": []}}}, FILES, "ask"),
    ({"deny": {"path": []}}, FILES, "deny"),
    ({"deny": {"path": [], "ops": ["read"]}}, FILES, "ask"),
    ({"deny": {"path": "**", "ops": []}}, FILES, "deny"),
    ({"deny": {"not": {"path": []}}}, FILES, "deny"),
    ({"allow": {"path": [], "url": {"host": "a.example"}}}, URLS, "ask"),
    ({"allow": {"url": {"host": "a.example", "method": []}}}, URLS, "ask"),
    ({"deny": {"url": {"host": "a.example", "method": []}}}, URLS, "deny"),
    ({"allow": {"path": [], "call": {}}}, {"kind": "call", "server": "s", "tool": "t"}, "ask"),
]


@pytest.mark.parametrize(("rule", "action", "decision"), EMPTY_PARTS)
def test_an_empty_list_has_the_stricter_reading_for_files_urls_and_calls(
    rule: dict[str, Any], action: dict[str, Any], decision: str, tmp_path: Path
) -> None:
    assert compile_policy({"rules": [rule]}, root=str(tmp_path)).decide(action).decision.word == decision
