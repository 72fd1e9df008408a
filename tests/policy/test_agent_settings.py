"""What a settings file of an agent comes to: every rule, what is lost, and why it cannot be read.

The cases: `agent_settings.jsonl`. Each has the agent, whose file it is, its name and its content; the rules with the
place of the entry that each comes from; what is not carried over, with the reason and the place; what is unreadable.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.agent_permissions import permissions_of
from byleave.policy.agent_settings import SettingsSource

CASES = [json.loads(line) for line in Path(__file__).with_name("agent_settings.jsonl").read_text().splitlines()]
ROOT = "/home/me/ws"


@pytest.mark.parametrize("case", CASES, ids=[f"{case['agent']} {number}" for number, case in enumerate(CASES)])
def test_a_settings_file_comes_to_these_rules(case: dict[str, Any], tmp_path: Path) -> None:
    file, content = tmp_path / case["file"], case["content"]
    file.write_text(content if isinstance(content, str) else json.dumps(content), newline="")
    found = permissions_of(case["agent"], [SettingsSource(case["scope"], str(file), "/home/me/.x", ROOT)], ROOT)
    assert [[rule.outcome, rule.table, list(rule.at)] for rule in found.rules] == case["rules"]
    assert [[lost.text, lost.why, list(lost.at)] for lost in found.lost] == case["lost"]
    assert [text.replace(str(file), "FILE") for text in found.unreadable] == case["unreadable"]
    assert {*(rule.source for rule in found.rules), *(lost.source for lost in found.lost)} <= {str(file)}


def test_a_tool_that_codex_decides_about_by_itself_is_not_allowed_with_its_server(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[mcp_servers.a]\ndefault_tools_approval_mode = "approve"\n[mcp_servers.a.tools.drop]\napproval_mode = "auto"\n'
    )
    (allow,) = permissions_of("codex", [SettingsSource("user", str(file))], ROOT).allow
    server = {"call": {"server": "a"}}
    assert allow == {"allow": {"all": [server, {"not": {"call": {"server": "a", "tool": "drop"}}}], "agent": "codex"}}


def sources(tmp_path: Path, *files: tuple[str, dict[str, Any]]) -> list[SettingsSource]:
    found = []
    for number, (scope, content) in enumerate(files):
        (tmp_path / f"{number}.json").write_text(json.dumps(content))
        found.append(SettingsSource(scope, str(tmp_path / f"{number}.json"), "/home/me/.x", ROOT))
    return found


def test_where_only_the_machine_s_files_allow_no_other_file_does(tmp_path: Path) -> None:
    own = {"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Bash(rm:*)"]}}
    machine = {"allowManagedPermissionRulesOnly": True, "permissions": {"allow": ["Bash(make:*)"]}}
    found = permissions_of("claude-code", sources(tmp_path, ("user", own), ("managed", machine)), ROOT)
    assert [rule["allow"]["command"] for rule in found.allow] == ["make"]
    assert [rule["deny"]["command"] for rule in found.deny] == ["rm"]
    assert [(each.text, each.why) for each in found.lost] == [
        ("allowManagedPermissionRulesOnly", "only the machine's own files allow something"),
        ("Bash(ls:*)", "the machine's own settings do not let it hold"),
    ]


def test_an_exception_counts_in_its_own_file_only(tmp_path: Path) -> None:
    deny, allow = ({"permission": {"edit": {path: word}}} for path, word in (("*", "deny"), ("docs/*", "allow")))
    found = permissions_of("opencode", sources(tmp_path, ("user", deny), ("user", allow)), ROOT)
    assert found.deny[0]["deny"] == {"path": ["**", "/**"], "ops": ["create", "update", "delete"], "agent": "opencode"}
    both = {"permission": {"edit": {"*": "deny", "docs/*": "allow"}}}
    (single,) = permissions_of("opencode", sources(tmp_path, ("user", both)), ROOT).deny
    assert single["deny"]["all"][1] == {"not": {"path": ["docs/*"], "ops": ["create", "update"]}}
