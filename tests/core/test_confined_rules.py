"""Rules that hold only for confined runs: what `[shell]`, `sandbox` and `unread` say, and where that asks."""

from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.errors import ConfigErrors
from command import byleave as run_command

ANY: dict[str, Any] = {"allow": {"any_command": True, "options": "any"}}
PUSH: dict[str, Any] = {"allow": {"command": "git", "options": "any"}, "sandbox": False}


def answer(
    root: Path, command: str, rules: list[dict[str, Any]], shell: dict[str, Any] | None, *, confines: bool = True
) -> tuple[str, tuple[bool, bool] | None]:
    tree: dict[str, Any] = {"rules": rules} if shell is None else {"rules": rules, "shell": shell}
    policy = byleave.compile_policy(tree, root=str(root))
    verdict = policy.decide({"kind": "command", "command": command}, confines=confines)
    return verdict.decision.word, verdict.sandbox


@pytest.mark.parametrize(
    ("rule", "shell", "confines", "expected"),
    [
        ({}, None, True, ("allow", (False, False))),
        ({}, {}, True, ("allow", (True, False))),
        ({}, {}, False, ("allow", (False, False))),
        ({}, {"confine": "off"}, True, ("allow", (False, False))),
        ({}, {"confine": "require"}, True, ("allow", (True, True))),
        ({}, {"confine": "require"}, False, ("ask", (False, False))),
        ({"sandbox": True}, {}, True, ("allow", (True, True))),
        ({"sandbox": True}, {}, False, ("ask", (False, False))),
        ({"sandbox": True}, {"confine": "off"}, True, ("allow", (True, True))),
        ({"sandbox": True}, None, True, ("ask", (False, False))),
        ({"sandbox": False}, {"confine": "require"}, False, ("allow", (False, False))),
    ],
)
def test_a_rule_and_the_shell_table_say_together_how_a_command_runs(
    rule: dict[str, Any], shell: dict[str, Any] | None, *, confines: bool, expected: object, tmp_path: Path
) -> None:
    assert answer(tmp_path, "make", [{**ANY, **rule}], shell, confines=confines) == expected


def test_a_plain_part_takes_no_other_part_out_of_the_sandbox(tmp_path: Path) -> None:
    assert answer(tmp_path, "git push", [PUSH, ANY], {}) == ("allow", (False, False))
    assert answer(tmp_path, "git push; make", [PUSH, ANY], {}) == ("allow", (True, False))


def test_an_ask_says_how_the_command_runs_after_the_yes(tmp_path: Path) -> None:
    asked = {"ask": {"command": "npm", "subcommand": "install"}}
    rules = [{"allow": {"command": "cd"}, "sandbox": False}, {**ANY, "sandbox": True}]
    assert answer(tmp_path, "npm install x", [asked, *rules], {}) == ("ask", (True, False))
    plainly = {**asked, "sandbox": False}
    assert answer(tmp_path, "npm install x", [plainly, *rules], {}) == ("ask", (False, False))
    assert answer(tmp_path, "cd src && npm install x", [plainly, *rules], {}) == ("ask", (False, False))
    assert answer(tmp_path, "npm install x && make", [plainly, *rules], {}) == ("ask", (True, True))


def test_a_file_that_no_rule_speaks_of_is_written_by_a_confined_command(tmp_path: Path) -> None:
    rules = [{"deny": {"path": "closed/**"}}, {**ANY, "sandbox": True}]
    for place in ("out.txt", "/srv/out.txt"):  # the kernel knows where it may write
        assert answer(tmp_path, f"make > {place}", rules, {}) == ("allow", (True, True))
        assert answer(tmp_path, f"make > {place}", rules, {}, confines=False)[0] == "ask"
    assert answer(tmp_path, "make > /etc/x", rules, {})[0] == "ask"
    assert answer(tmp_path, "make > closed/x", rules, {})[0] == "deny"
    assert answer(tmp_path, "> out.txt", rules, {})[0] == "ask"


@pytest.mark.parametrize("command", ["rm -rf ..", "rm -r ../..", "rm -rf --no-preserve-root /", "find / -delete"])
def test_what_is_above_the_workspace_is_not_removed_in_a_confined_run(command: str, tmp_path: Path) -> None:
    root = tmp_path / "above" / "workspace"
    root.mkdir(parents=True)
    rules = [{**ANY, "sandbox": True, "unread": True}]
    assert answer(root, command, rules, {})[0] == "ask"
    assert answer(root, "rm -rf dist", rules, {}) == ("allow", (True, True))


@pytest.mark.parametrize(("agent", "decision"), [("codex", "allow"), ("gemini", "ask"), (None, "ask")])
def test_an_unread_line_is_covered_for_the_agent_that_a_rule_names(
    agent: str | None, decision: str, tmp_path: Path
) -> None:
    rule = {"allow": {"any_command": True, "options": "any", "agent": "codex"}, "sandbox": True, "unread": True}
    policy = byleave.compile_policy({"rules": [rule], "shell": {}}, root=str(tmp_path))
    action = {"kind": "command", "command": "env -S 'ls -l'", **({"agent": agent} if agent else {})}
    assert policy.decide(action, confines=True).decision.word == decision


def test_a_deny_that_may_be_meant_asks_although_the_run_is_confined(tmp_path: Path) -> None:
    rules = [{"deny": {"command": "rm"}}, {**ANY, "sandbox": True}]
    assert answer(tmp_path, '"$X" -rf src', rules, {})[0] == "ask"
    rules[1]["unread"] = True
    assert answer(tmp_path, '"$X" -rf src', rules, {}) == ("allow", (True, True))
    assert answer(tmp_path, "rm -rf src", rules, {})[0] == "deny"


def test_an_unread_line_is_covered_only_where_a_rule_says_so_and_the_run_is_confined(tmp_path: Path) -> None:
    line = "env -S 'ls -l'"
    rule = {**ANY, "sandbox": True}
    assert answer(tmp_path, line, [rule], {})[0] == "ask"
    assert answer(tmp_path, line, [{**rule, "unread": True}], {}) == ("allow", (True, True))
    assert answer(tmp_path, line, [{**rule, "unread": True}], {}, confines=False)[0] == "ask"
    assert answer(tmp_path, "env -S 'byleave trust'", [{**rule, "unread": True}], {})[0] == "deny"
    narrow = {"allow": {"command": "env"}, "sandbox": True, "unread": True}
    assert answer(tmp_path, line, [narrow], {})[0] == "ask"


@pytest.mark.parametrize(
    ("rule", "shell", "expected"),
    [
        ({**ANY, "sandbox": True}, {}, (True, True)),
        ({**ANY, "sandbox": True}, {"confine": "off"}, (True, True)),
        (ANY, {}, (True, False)),
        (ANY, {"confine": "require"}, (True, True)),
        (ANY, {"confine": "off"}, (False, False)),
        ({**ANY, "sandbox": True}, None, (False, False)),
    ],
)
def test_a_line_that_is_not_understood_runs_confined_after_a_yes_where_its_parts_would(
    rule: dict[str, Any], shell: dict[str, Any] | None, expected: tuple[bool, bool], tmp_path: Path
) -> None:
    assert answer(tmp_path, "env -S 'ls -l'", [rule], shell) == ("ask", expected)
    assert answer(tmp_path, "env -S 'ls -l'", [rule], shell, confines=False) == ("ask", (False, False))


@pytest.mark.parametrize(
    "rule",
    [
        {**ANY, "unread": True},
        {**ANY, "unread": True, "sandbox": False},
        {"deny": {"command": "rm"}, "sandbox": True},
        {"ask": {"command": "rm"}, "sandbox": True, "unread": True},
    ],
)
def test_keys_about_the_run_stand_only_where_they_mean_something(rule: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors):
        byleave.compile_policy({"rules": [rule], "shell": {}}, root=str(tmp_path))


def test_what_an_untrusted_file_says_of_the_shell_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[shell]\nconfine = "off"\n')
    policy = byleave.load_policy(str(tmp_path))
    assert policy.compiled.policy.shell is None


def test_check_answers_for_a_caller_that_cannot_confine_when_told_so(tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text("[shell]\n[[rules]]\nallow = { any_command = true }\nsandbox = true\n")
    confined = run_command("check", "--policy", str(policy), "--root", str(tmp_path), "command", "ls")
    assert (confined.code, "it must run confined" in confined.out) == (0, True)
    plain = run_command("check", "--policy", str(policy), "--root", str(tmp_path), "command", "ls", "--unconfined")
    assert plain.code == 10
