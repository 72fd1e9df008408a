"""An agent goes by several names: the hook's own, and the one that people write into `[agents]`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hooks.hook_scene import HookScene, claude, gemini

README = Path(__file__).parents[2] / "README.md"


def decided(tmp_path: Path, rules: str, tool: str = "mcp__github__get_issue", **named: Any) -> str:
    scene = HookScene.build(tmp_path, rules)
    said = json.loads(scene.says("claude-code", claude(tool, {"n": 1}, scene.root), **named))
    return str(said["hookSpecificOutput"]["permissionDecision"])


def test_the_example_of_the_readme_works_in_the_hook(tmp_path: Path) -> None:
    [example] = re.findall(r"\[agents\.claude\]\n(?:[a-z].*\n)+", README.read_text())
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert decided(tmp_path / "a", example) == "allow"
    assert decided(tmp_path / "b", example, "mcp__github__delete_repo") == "deny"


CLAUDE = '[agents.claude]\nallow.servers = ["github"]\n'
SHUT = '[agents.claude-code]\nallow.servers = ["docs"]\n'
NOT_ITS_OWN = '[agents.claude-code]\ndeny.servers = ["github"]\nallow.servers = ["*"]\n'


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (CLAUDE, "allow"),
        (CLAUDE + SHUT, "deny"),  # the exact name counts, and nothing else
        (CLAUDE + NOT_ITS_OWN, "deny"),
        ('[agents.claude-code]\nallow.servers = ["github"]\n', "allow"),
        ('[agents.claude]\nallow.servers = ["docs"]\n', "deny"),
        ('[agents."*"]\nallow.servers = ["docs"]\n' + CLAUDE, "allow"),
        ('[agents."claude*"]\nallow.servers = ["github"]\n', "allow"),
        ('[agents.claude-2]\nallow.servers = ["github"]\n', "deny"),
        ('[agents.Claude]\nallow.servers = ["github"]\n', "deny"),
        ('[agents.gemini]\nallow.servers = ["github"]\n', "deny"),
        (CLAUDE + '[[rules]]\ndeny = { call = { server = "github" }, agent = "claude-code" }\n', "deny"),
        (CLAUDE + '[[rules]]\nask = { call = { server = "github" }, agent = "claude-*" }\n', "ask"),
        (CLAUDE + '[[rules]]\ndeny = { call = { server = "github" }, agent = "claude" }\n', "deny"),
        (CLAUDE + '[[rules]]\ndeny = { call = { server = "github" }, agent = "codex" }\n', "allow"),
    ],
)
def test_tables_of_agents_and_the_hook_s_name_meet(tmp_path: Path, rules: str, expected: str) -> None:
    assert decided(tmp_path, rules) == expected


def test_a_profile_is_the_one_name_of_its_agent(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert decided(tmp_path / "a", CLAUDE, profile="claude-code") == "deny"  # said on the command line
    assert decided(tmp_path / "b", CLAUDE, profile="claude") == "allow"


def test_other_agents_have_other_names_too(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path, '[agents.gemini-cli]\nallow.servers = ["github"]\n')
    context = {"server_name": "github", "tool_name": "get_issue"}
    said = json.loads(scene.says("gemini", gemini("mcp_github_get_issue", {}, scene.root, mcp_context=context)))
    assert said == {"decision": "allow"}


RULE = '[[rules]]\n{} = {{ command = "touch", agent = "claude" }}\n'


@pytest.mark.parametrize(("word", "expected"), [("deny", "deny"), ("ask", "ask"), ("allow", "ask")])
def test_a_rule_for_another_name_tightens_and_never_loosens(tmp_path: Path, word: str, expected: str) -> None:
    scene = HookScene.build(tmp_path, RULE.format(word))
    said = json.loads(scene.says("claude-code", claude("Bash", {"command": "touch x"}, scene.root)))
    assert said["hookSpecificOutput"]["permissionDecision"] == expected


def test_an_allow_for_everybody_else_is_not_for_the_same_agent_under_another_name(tmp_path: Path) -> None:
    rules = '[[rules]]\nallow = { all = [{ command = "touch" }, { not = { agent = "claude" } }] }\n'
    scene = HookScene.build(tmp_path, rules)
    said = json.loads(scene.says("claude-code", claude("Bash", {"command": "touch x"}, scene.root)))
    assert said["hookSpecificOutput"]["permissionDecision"] == "ask"


RESPELLED = """
[agents.claude]
allow.servers = ["*"]
deny.servers = ["evil.example"]
deny.tools.github = ["repo.delete", "admin/*", "a-b", "*.purge", "x.?.y", "löschen"]
deny.tools."my.server" = ["kill"]
[[rules]]
deny = { call = { server = "other.srv", tool = "x.y" } }
[[rules]]
ask = { call = { server = "github", tool = "send/mail" } }
"""


@pytest.mark.parametrize(
    ("name", "decision"),
    [
        ("mcp__github__repo_delete", "deny"),
        ("mcp__github__repo.delete", "deny"),
        ("mcp__github__admin_kick", "deny"),
        ("mcp__github__a_b", "deny"),
        ("mcp__github__all_purge", "deny"),
        ("mcp__github__x_1_y", "deny"),
        ("mcp__github__l_schen", "deny"),
        ("mcp__my_server__kill", "deny"),
        ("mcp__evil_example__anything", "deny"),
        ("mcp__other_srv__x_y", "deny"),
        ("mcp__github__send_mail", "ask"),
        ("mcp__github__repo_delet", "allow"),
        ("mcp__github__repo_delete_not", "allow"),
        ("mcp__github__list_issues", "allow"),
        ("mcp__my_server__look", "allow"),
        ("mcp__github__abc", "allow"),
    ],
)
def test_a_deny_holds_for_a_name_that_the_agent_writes_with_other_signs(
    tmp_path: Path, name: str, decision: str
) -> None:
    assert decided(tmp_path, RESPELLED, name) == decision
