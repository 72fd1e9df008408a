"""Clauses of actions, agents, calls and cautions that no whole verdict shows."""

from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.access import COOPERATIVE, with_defaults
from byleave.core.action import CallAction, FileAction, MoveAction, SpawnAction, UrlAction, parse_action
from byleave.core.agents import Agent, AgentReach, Agents, ListEntry, check_names, other_names
from byleave.core.calls import decide_call, decide_use
from byleave.core.cautions import call_caution, command_cautions, wide_subcommand
from byleave.core.fs_rules import FsRule, FsTable, FsTarget
from byleave.core.policy import CompiledPolicy
from byleave.errors import InputError

NO_ACTIONS: list[tuple[str, Any, str]] = [
    ("a list", [], "must be an object"),
    ("none", None, "must be an object"),
    ("no kind", {"path": "x"}, "unknown kind of action: none"),
    ("a kind that is a list", {"kind": ["read"], "path": "x"}, "unknown kind of action: none"),
    ("a kind that there is not", {"kind": "fly"}, 'unknown kind of action: "fly"'),
    ("no path", {"kind": "read"}, 'the action "read" lacks path'),
    ("half of a move", {"kind": "move", "path": "x"}, 'the action "move" lacks to'),
    ("a path that is a number", {"kind": "read", "path": 5}, 'path must be a string in the action "read"'),
    ("a path that is null", {"kind": "read", "path": None}, 'path must be a string in the action "read"'),
    ("an agent that is a number", {"kind": "read", "path": "x", "agent": 5}, "agent must be a string"),
    ("arguments that are a text", {"kind": "spawn", "program": "p", "args": "ab"}, "args must be a list of strings"),
    (
        "arguments that are numbers",
        {"kind": "spawn", "program": "p", "args": ["a", 5]},
        "args must be a list of strings",
    ),
    ("arguments that are null", {"kind": "spawn", "program": "p", "args": None}, "args must be a list of strings"),
    ("a name that is not base64", {"kind": "read", "path_b64": "a"}, "path_b64 is not base64"),
]


@pytest.mark.parametrize(("tree", "problem"), [row[1:] for row in NO_ACTIONS], ids=[row[0] for row in NO_ACTIONS])
def test_what_is_no_action_is_an_input_error_that_says_why(tree: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem.replace("[", r"\[")):
        parse_action(tree)


ACTIONS: list[tuple[dict[str, Any], Any]] = [
    ({"kind": "read", "path": "x", "agent": None}, FileAction("read", "x")),
    ({"kind": "read", "path_b64": "eP8="}, FileAction("read", "x\udcff")),
    ({"kind": "move", "path": "x", "to_b64": "eQ=="}, MoveAction("x", "y")),
    ({"kind": "url", "url": "https://h.com/", "path_b64": "eP8="}, UrlAction("https://h.com/")),
    ({"kind": "spawn", "program": "p", "args": ["a", "b"]}, SpawnAction("p", ("a", "b"))),
    ({"kind": "call", "server": "s", "arguments": [1], "more": 5}, CallAction("s", None, [1])),
    ({"kind": "call", "server": "s", "arguments": "x"}, CallAction("s", None, "x")),
    ({"kind": "call", "server": "s", "schema": {}, "respelled": True}, CallAction("s")),
]


@pytest.mark.parametrize(("tree", "expected"), ACTIONS, ids=[str(tree) for tree, _action in ACTIONS])
def test_an_action_is_read_from_the_fields_that_its_kind_has(tree: dict[str, Any], expected: Any) -> None:
    assert parse_action(tree) == expected


def test_a_directory_that_may_not_be_deleted_itself_is_denied_by_its_own_rule() -> None:
    rules = [FsRule("", delete=True), FsRule("d", read=True), FsRule("d/x")]
    access = with_defaults(COOPERATIVE, fs=FsTable(rules))
    answer = access.decide_file(FsTarget("/ws/d", "d", directory=True), "delete", below="delete")
    assert answer.rule == rules[1]


def reach(*servers: str) -> AgentReach:
    return AgentReach(tuple(ListEntry(server) for server in servers))


def test_the_default_agent_is_the_one_that_is_named_else_the_entry_called_default() -> None:
    named, default = Agent("a"), Agent("default")
    found = [
        Agents(agents, default_agent=name).default
        for agents, name in (([named], "a"), ([named], "z"), ([default], "z"), ([named, default], "a"))
    ]
    assert found == ["a", "z", "default", "a"]
    assert [Agents([default]).default, Agents([named]).default] == ["default", None]


def test_a_call_without_an_agent_is_that_of_the_default_agent_or_of_the_default_entry() -> None:
    named = Agents([Agent("a", reach("db"))], default_agent="a")
    default = Agents([Agent("default", reach("db"))])
    assert [agents.decide(None, "db").allowed for agents in (named, default)] == [True, True]
    assert [agents.decide("z", "db").code for agents in (named, default)] == ["unknown_agent"] * 2


@pytest.mark.parametrize("agent", ["Xab", "aXb"])
def test_of_several_patterns_that_match_an_agent_the_one_with_most_letters_counts(agent: str) -> None:
    agents = Agents([Agent("*b", reach("short")), Agent("Xa*", reach("long")), Agent("aX*", reach("long"))])
    assert [agents.decide(agent, server).allowed for server in ("long", "short")] == [True, False]


def test_what_a_list_does_not_hold_is_denied_with_the_place_of_the_list() -> None:
    allow = AgentReach((ListEntry("db", "servers.toml"),), {"db": (ListEntry("x", "list.toml"),)})
    agents = Agents([Agent("a", allow, source="agent.toml")])
    assert [agents.decide("a", server, "tools", "y").because[0].source for server in ("db", "z")] == [
        "list.toml",
        "agent.toml",
    ]
    assert agents.decide("a", "db", "prompts", "y").because[0].source == "list.toml"


def test_a_server_whose_tools_are_denied_by_pattern_is_not_denied_itself() -> None:
    agents = Agents([Agent("a", reach("db"), AgentReach(tools={"db": (ListEntry("x*"),)}))])
    assert agents.denial("a", "db") is None
    assert agents.denial("a", "db", "tools", "x1") is not None


ODD: list[tuple[tuple[str | None, str, str | None], str | None]] = [
    ((None, "d\u00e4", None), "ask"),
    ((None, "d\u00e4", "qu\u0435ry"), "deny"),
    (("cl\u0430ude", "d\u00e4", None), "deny"),
    (("\u00e4", "db", "x"), None),
    (("a", "db", ""), "deny"),
    (("a", "db", "a\tb"), "deny"),
    (("a", "db", "a b"), None),
]


@pytest.mark.parametrize(("names", "expected"), ODD, ids=[repr(names) for names, _expected in ODD])
def test_the_strictest_of_three_odd_names_counts(
    names: tuple[str | None, str, str | None], expected: str | None
) -> None:
    found = check_names(*names)
    assert (found and found.decision.word) == expected


def test_an_agent_has_other_names_only_where_it_is_known_by_several() -> None:
    names = ("codex", "github-copilot", "nobody")
    assert [other_names(name) for name in names] == [("codex-cli",), ("copilot", "copilot-cli"), ()]


def rules_of(root: Path, *rules: dict[str, Any]) -> CompiledPolicy:
    policy: CompiledPolicy = byleave.compile_policy({"rules": list(rules)}, root=str(root)).compiled.policy
    return policy


SCHEMA = {"type": "object", "properties": {"x": {"type": "string", "default": "bad"}}}


@pytest.mark.parametrize(("schema", "expected"), [(SCHEMA, "deny"), (None, "ask")], ids=["with", "without"])
def test_what_a_schema_says_of_an_argument_that_is_not_given_is_denied(
    schema: Any, expected: str, tmp_path: Path
) -> None:
    policy = rules_of(tmp_path, {"deny": {"call": {"server": "s", "arg": "/x", "equals": "bad"}}})
    assert decide_call(policy, CallAction("s", "t", schema=schema)).decision.word == expected


def test_without_a_schema_a_truth_value_is_no_number(tmp_path: Path) -> None:
    policy = rules_of(tmp_path, {"deny": {"call": {"server": "s", "arg": "/x", "equals": 1}}})
    verdict = decide_call(policy, CallAction("s", "t", {"x": True}))
    assert verdict.because[0].rule == "no rule matches"


def test_a_call_is_an_operation_of_the_other_kind(tmp_path: Path) -> None:
    policy = rules_of(tmp_path, {"deny": {"operation": "other"}})
    assert decide_call(policy, CallAction("s", "t")).decision.word == "deny"


@pytest.mark.parametrize("kind", ["resources", "prompts"])
def test_no_rule_is_suggested_for_what_rules_do_not_name(kind: str, tmp_path: Path) -> None:
    verdict = decide_use(rules_of(tmp_path), None, "s", kind, "file:///x")
    assert (verdict.decision.word, verdict.suggestion) == ("ask", None)


DELETES = "it deletes or overwrites what may not come back"
INSTALLS = "it installs programs of others, which may run at once"
FILE = "it runs a file that can change"
PROJECT = "it runs code of the project, which can change"
CAUTIONS: list[tuple[str, str, bool]] = [
    ("/usr/bin/rm x", DELETES, True),
    ("/usr/bin/ls", FILE, False),
    ("/bin/ls", FILE, False),
    ("./ls", FILE, True),
    ("/home/u/ls", FILE, True),
    ("/usr/bin/cargo build", PROJECT, True),
    ("gi restore x", DELETES, False),
    ("git restore x", DELETES, True),
    ("git branch -D x", DELETES, True),
    ("git branch -vD x", DELETES, True),
    ("git branch --D x", DELETES, False),
    ("git branch D", DELETES, False),
    ("git branch xD", DELETES, False),
    ("git branch -v x", DELETES, False),
    ("find . -delete", DELETES, True),
    ("find . -depth", DELETES, False),
    ("git push --force-with-lease=main", DELETES, True),
    ("git push --force", DELETES, True),
    ("git push --forced", DELETES, False),
    ("rsync -a --delete a b", DELETES, True),
    ("rsync -a a b", DELETES, False),
    ("uv pip install x", INSTALLS, True),
    ("uv pip list", INSTALLS, False),
]


@pytest.mark.parametrize(("line", "caution", "expected"), CAUTIONS, ids=[f"{row[0]}: {row[1]}" for row in CAUTIONS])
def test_a_command_has_a_caution_where_its_words_are_those_of_the_table(
    line: str, caution: str, *, expected: bool
) -> None:
    assert (caution in command_cautions(line.split())) is expected


@pytest.mark.parametrize(("tool", "expected"), [("DELETE_row", True), ("drop", True), ("list", False)])
def test_a_tool_has_a_caution_by_its_name_in_any_case(tool: str, *, expected: bool) -> None:
    assert (call_caution(tool) is not None) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [("npm ls pkg", "ls"), ("npm ls install", None), ("frob status", None), ("git status", "status"), ("git", None)],
)
def test_a_rule_names_a_subcommand_only_of_a_program_that_is_listed_with_it(line: str, expected: str | None) -> None:
    assert wide_subcommand(line.split()) == expected
