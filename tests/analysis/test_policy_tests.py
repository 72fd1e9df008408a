"""A case file says what a policy should decide; a mistake in it is an error with its place, and never passes."""

from pathlib import Path
from typing import Any

import pytest

from byleave.analysis.coverage import coverage, deciding, written_rules
from byleave.analysis.policy_tests import evaluate_case, example_cases, read_cases
from byleave.core.decision import verdict_tree
from byleave.errors import ConfigErrors
from byleave.policy.load import Workspace, compile_policy

RULES = {
    "rules": [
        {"deny": {"command": "git", "subcommand": "push", "flags": ["--force"]}, "why": "it rewrites history"},
        {"allow": {"command": "git", "subcommand": "push"}},
        {"allow": {"command": "make"}, "sandbox": True},
        {"ask": {"call": {"server": "db", "tool": "query", "arg": "/sql", "regex": "(?i)drop"}}},
        {"deny": {"path": "**/.env"}},
    ],
    "shell": {"confine": "auto"},
    "tools": {
        "editor": {
            "source": "local",
            "runtime": "vfs",
            "access": {"fs": [{"path": "src", "read": True, "write": True}, {"path": ".", "read": True}]},
        },
        "builder": {
            "source": "local",
            "runtime": "stdio",
            "access": {
                "net": [{"host": "a.example.org", "allow": True}],
                "env": [{"name": "CI", "read": True}],
                "commands": {"cargo": {"args": [["check", "**"]]}},
            },
        },
    },
    "agents": {"backend": {"allow": {"servers": ["db"], "tools": {"db": ["query", "list_*"]}}}},
    "servers": {"db": {"command": ["db-server"]}},
}


def outcome(case: str, root: Path) -> tuple[bool, str, list[str]]:
    (read,) = read_cases(f"[[case]]\n{case}".encode(), "x.policy-test.toml").cases
    result = evaluate_case(read, compile_policy(RULES, root=str(root)))
    return result.ok, result.verdict["decision"], [problem.key for problem in result.problems]


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ('command = "git push --force"\ndecision = "deny"', (True, "deny", [])),
        ('command = "git push --force"\ndecision = "ask"', (False, "deny", ["decision"])),
        ('command = "git push"\ndecision = "allow"\nrule = "allow git p*"', (True, "allow", [])),
        ('command = "git push"\ndecision = "allow"\nrule = "inline"', (True, "allow", [])),
        ('command = "git push"\ndecision = "allow"\nrule = "git"', (False, "allow", ["rule"])),
        ('command = "git push -f"\ndecision = "deny"\nreason = "*rewrites history*"', (True, "deny", [])),
        ('command = "git push -f"\ndecision = "deny"\nreason = "rewrites"', (False, "deny", ["reason"])),
        ('command = "make"\ndecision = "allow"\nsandbox = true', (True, "allow", [])),
        ('command = "make"\ndecision = "allow"\nsandbox = false', (False, "allow", ["sandbox"])),
        ('command = "make"\ndecision = "ask"\nunconfined = true', (True, "ask", [])),
        ('read = "a/.env"\ndecision = "deny"', (True, "deny", [])),
        ('update = "src/a.py"\ntool = "editor"\ndecision = "allow"', (True, "allow", [])),
        ('update = "a.py"\ntool = "editor"\ndecision = "deny"', (True, "deny", [])),
        ('url = "https://a.example.org/x"\ntool = "builder"\ndecision = "allow"', (True, "allow", [])),
        ('call = ["db", "query", {sql = "DROP"}]\nagent = "backend"\ndecision = "ask"', (True, "ask", [])),
        ('call = ["db", "drop_all"]\nagent = "backend"\ndecision = "deny"', (True, "deny", [])),
        ('action = {kind = "env", name = "CI", tool = "builder"}\ndecision = "allow"', (True, "allow", [])),
        (
            'action = {kind = "spawn", program = "cargo", args = ["check"], tool = "builder"}\ndecision = "allow"',
            (True, "allow", []),
        ),
    ],
)
def test_a_case_compares_what_it_names(case: str, found: tuple[bool, str, list[str]], tmp_path: Path) -> None:
    assert outcome(case, tmp_path) == found


@pytest.mark.parametrize(
    ("case", "line", "problem"),
    [
        ('comand = "x"\ndecision = "deny"', 3, "unknown key"),
        ('command = "x"', 1, "missing key"),
        ('command = "x"\ndecision = "maybe"', 4, "unknown value"),
        ('command = "x"\nread = "y"\ndecision = "deny"', 1, "has command and read"),
        ('decision = "deny"', 1, "needs one of"),
        ('read = "x"\ncwd = "y"\ndecision = "deny"', 4, "does not belong beside read"),
        ('command = "x"\ntool = "y"\ndecision = "deny"', 4, "does not belong beside command"),
        ('action = {kind = "read", path = "x"}\ntool = "y"\ndecision = "deny"', 4, "does not belong beside action"),
        ('action = {kind = "raed", path = "x"}\ndecision = "deny"', 3, "unknown kind"),
        ('action = {kind = "read"}\ndecision = "deny"', 3, "lacks path"),
        ('action = {kind = "read", path = "x", tol = "y"}\ndecision = "deny"', 3, 'unknown key "tol"'),
        ('call = []\ndecision = "deny"', 3, "call is a server"),
        ('call = ["s", 3]\ndecision = "deny"', 3, "call is a server"),
        ('call = ["s", "t", {a = 2020-01-01}]\ndecision = "deny"', 3, "no call has arguments of this type"),
        ('read = "x"\nsandbox = true\ndecision = "deny"', 4, "this is none"),
        ('command = 3\ndecision = "deny"', 3, "command"),
        ('command = "x\ndecision = "deny"', 3, "string is not closed"),
    ],
)
def test_a_mistake_in_a_case_is_an_error_with_its_place(case: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        read_cases(f'[[case]]\nname = "n"\n{case}\n'.encode(), "x.policy-test.toml")
    found = {error.at.line: error.problem for error in caught.value.exceptions if error.at is not None}  # type: ignore[union-attr] # no groups in it
    assert problem in found[line]


def test_an_unknown_tool_is_an_error_at_its_name(tmp_path: Path) -> None:
    (case,) = read_cases(b'[[case]]\nread = "x"\ntool = "nosuch"\ndecision = "deny"\n', "x").cases
    with pytest.raises(ConfigErrors) as caught:
        evaluate_case(case, compile_policy(RULES, root=str(tmp_path)))
    assert str(caught.value).startswith('x:3: no tool named "nosuch"')


def test_a_policy_in_the_file_has_the_places_of_the_file(tmp_path: Path) -> None:
    case = '[[case]]\ncommand = "ls"\ndecision = "deny"\n\n'
    content = f'{case}[[policy.rules]]\ndeny = {{ command = "ls" }}\nmatch = ["ls -l"]\n'.encode()
    file = read_cases(content, "x.policy-test.toml")
    assert file.policy is not None
    policy = Workspace(str(tmp_path)).compile_alone([file.policy])
    result = evaluate_case(file.cases[0], policy)
    assert (result.ok, result.verdict["because"][0]["source"]) == (True, "x.policy-test.toml:5")
    assert [(case.name, case.file, case.line) for case in example_cases(policy)] == [
        ('match "ls -l"', "x.policy-test.toml", 7)
    ]


def test_a_policy_in_the_file_that_cannot_be_used_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        read_cases(b'[[policy.rules]]\nalow = { command = "ls" }\n', "x")
    assert 'x:2: unknown key "alow"' in str(caught.value)
    file = read_cases(b'[[policy.rules]]\nallow = { command = "ls" }\nmatch = ["rm"]\n', "x")
    assert file.policy is not None
    with pytest.raises(ConfigErrors) as caught:
        Workspace(str(tmp_path)).compile_alone([file.policy])
    assert str(caught.value).startswith("x:3: the rule does not match its own example")


def decided(root: Path, action: dict[str, Any]) -> list[str]:
    policy = compile_policy(RULES, root=str(root))
    return [rule for rule, _source in deciding(verdict_tree(policy.decide(action, confines=True)))]


def test_rules_of_every_family_are_counted_and_touched_by_what_they_decide(tmp_path: Path) -> None:
    policy = compile_policy(RULES, root=str(tmp_path))
    rules = list(written_rules(policy.compiled))
    assert {rule.family for rule in rules} == {"fs", "net", "env", "commands", "agents", "rules"}
    actions: list[dict[str, Any]] = [
        {"kind": "command", "command": "git push --force"},
        {"kind": "command", "command": "git push && make"},
        {"kind": "call", "agent": "backend", "server": "db", "tool": "query", "arguments": {"sql": "drop x"}},
        {"kind": "call", "agent": "backend", "server": "db", "tool": "query", "arguments": {"sql": "select"}},
        {"kind": "call", "agent": "backend", "server": "db", "tool": "list_tables"},
        {"kind": "read", "path": ".env"},
        {"kind": "update", "path": "src/a", "tool": "editor"},
        {"kind": "read", "path": "a", "tool": "editor"},
        {"kind": "url", "url": "https://a.example.org", "tool": "builder"},
        {"kind": "env", "name": "CI", "tool": "builder"},
        {"kind": "spawn", "program": "cargo", "args": ["check"], "tool": "builder"},
    ]
    touched = [(rule, "inline") for action in actions for rule in decided(tmp_path, action)]
    whole = coverage(rules, touched)
    assert (len(whole.rules), whole.untouched, whole.percent) == (len(rules), (), 100.0)
    less = coverage(rules, touched[1:])
    assert [rule.rule for rule in less.untouched] == ["deny git push --force"]


def test_a_rule_that_had_a_say_but_did_not_decide_is_not_touched(tmp_path: Path) -> None:
    assert decided(tmp_path, {"kind": "command", "command": "git push && git push --force"}) == [
        "deny git push --force"
    ]


def test_of_no_rules_all_are_covered() -> None:
    assert coverage([], []).percent == 100.0
