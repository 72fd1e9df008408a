"""What single matchers say: of other agents' texts, of places, and of every command there is."""

from typing import Any

import pytest

import byleave
from byleave.core.command_line import spellings
from byleave.core.match_context import MatchContext
from byleave.core.matchers import (
    AgentMatcher,
    All,
    AnyOf,
    CommandMatcher,
    Not,
    OperationMatcher,
    TextMatcher,
    is_any_command,
    paths_of,
)
from byleave.core.rules import uncovered
from byleave.policy.load import Workspace


def decided(root: Any, rules: list[dict[str, Any]], action: dict[str, Any]) -> str:
    return Workspace(str(root)).compile_tree({"rules": rules}).decide(action).decision.word


def command(text: str) -> dict[str, Any]:
    return {"kind": "command", "command": text}


def test_what_is_not_a_text_of_another_agent_is_another_command_and_no_file(tmp_path: Any) -> None:
    rules: list[dict[str, Any]] = [{"deny": {"not": {"text": "git log*"}}}, {"allow": {"any_command": True}}]
    rules += [{"allow": {"path": "**"}}]
    assert decided(tmp_path, rules, command("ls")) == "deny"
    assert decided(tmp_path, rules, command("git log -1")) == "deny"  # a text only tightens: it lets nothing through
    assert decided(tmp_path, rules, {"kind": "read", "path": "a"}) == "allow"
    assert decided(tmp_path, rules, command("# nothing")) != "deny"


def test_a_text_of_another_agent_covers_nothing() -> None:
    assert not TextMatcher("git *").covers(MatchContext("execute"))
    assert not TextMatcher("git *").match(MatchContext("execute"), granting=True)


def test_an_allow_reaches_all_of_what_is_no_command() -> None:
    assert uncovered(None) is None


ANY, OF_CLAUDE = CommandMatcher(), AgentMatcher(("claude",))
EVERY_COMMAND: list[tuple[Any, bool]] = [
    (ANY, True),
    (OperationMatcher(("execute", "read")), True),
    (OperationMatcher(("read",)), False),
    (AnyOf((CommandMatcher(("ls",)), ANY)), True),
    (AnyOf((CommandMatcher(("ls",)), TextMatcher("*"))), False),
    (All((ANY, OF_CLAUDE)), True),
    (All((ANY, AgentMatcher(("codex",)))), False),
    (CommandMatcher(operands=0), False),
    (Not(CommandMatcher(("rm",))), False),
]


@pytest.mark.parametrize(("matcher", "every"), EVERY_COMMAND)
def test_only_what_matches_whatever_the_words_are_matches_every_command(*, matcher: Any, every: bool) -> None:
    assert is_any_command(matcher, MatchContext("execute", "claude")) is every


def test_a_line_that_is_not_understood_runs_confined_where_a_rule_for_every_command_says_so(tmp_path: Any) -> None:
    for table in ({"operation": "execute"}, {"any": [{"command": "ls"}, {"any_command": True}]}, {"command": "ls"}):
        tree = {"rules": [{"allow": table, "sandbox": True, "unread": True}], "shell": {"confine": "auto"}}
        verdict = byleave.compile_policy(tree, root=str(tmp_path)).decide(command("ls 'x"), confines=True)
        assert verdict.decision.word == ("ask" if table == {"command": "ls"} else "allow")


def test_the_paths_of_a_denial_are_found_inside_of_alternatives(tmp_path: Any) -> None:
    tree = {"rules": [{"deny": {"all": [{"any": [{"path": "a"}, {"path": "b/**"}]}, {"agent": "claude"}]}}]}
    (table,) = byleave.compile_policy(tree, root=str(tmp_path)).compiled.policy.rule_tables()
    assert list(paths_of(table.rules[0].matcher, "read")) == ["a", "b/**"]
    assert list(paths_of(All((OperationMatcher(("read",)), OF_CLAUDE)), "read")) == ["."]


def test_of_more_spellings_than_a_person_writes_those_of_the_first_table_count(tmp_path: Any) -> None:
    programs, words = (tuple(f"{name}{number}" for number in range(40)) for name in "pw")
    texts = AnyOf(tuple(TextMatcher(f"{word} *") for word in words))
    assert spellings(All((CommandMatcher(programs), texts))) == tuple((program,) for program in programs)
    assert len(spellings(All((CommandMatcher(programs[:20]), texts)))) == 800
    rule = {"deny": {"all": [{"command": list(programs)}, {"any": [{"text": f"{word} *"} for word in words]}]}}
    assert decided(tmp_path, [rule], command("p7 'x")) == "deny"
    assert decided(tmp_path, [rule], command("other 'x")) == "ask"
