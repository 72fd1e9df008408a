"""Two policies that treat files alike are not compared on files; any others are."""

from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.analysis.policy_diff import diff_policies

COMMANDS = [{"ask": {"command": "git", "subcommand": "push"}}, {"deny": {"command": "rm"}}]
FILES = [{"deny": {"path": f"**/*.{ending}"}} for ending in ("pem", "key", "p12", "pfx", "jks", "env", "netrc")]
TOOL = {"source": "local", "access": {"fs": [{"path": "src", "read": True}]}}
POLICY: dict[str, Any] = {"rules": [*FILES, *COMMANDS, {"allow": {"path": "**"}}], "tools": {"t": TOOL}}


@pytest.fixture(autouse=True)
def no_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare no command lines but those of the rules: files are what is looked at here."""
    monkeypatch.setattr("byleave.analysis.policy_diff.example_commands", tuple)


def changed(root: Path, new: dict[str, Any]) -> tuple[list[str], bool]:
    """Return the families in which something changes, and whether the comparison of files is exact."""
    sides = [byleave.compile_policy(tree, root=str(root)) for tree in (POLICY, new)]
    found = diff_policies(*sides)
    return sorted({change.family for change in found.changes}), found.exact["fs"]


def test_an_edit_of_commands_alone_changes_nothing_about_files(tmp_path: Path) -> None:
    new = {**POLICY, "rules": [*FILES, {"allow": COMMANDS[0]["ask"]}, *COMMANDS[1:], {"allow": {"path": "**"}}]}
    assert changed(tmp_path, new) == (["rules"], True)


EDITS: dict[str, dict[str, Any]] = {
    "a pattern less": {**POLICY, "rules": POLICY["rules"][1:]},
    "another outcome": {**POLICY, "rules": [{"allow": FILES[0]["deny"]}, *POLICY["rules"][1:]]},
    "another order": {**POLICY, "rules": [{"allow": {"path": "**"}}, *POLICY["rules"]]},
    "for one agent": {**POLICY, "rules": [{"deny": {**FILES[0]["deny"], "agent": "codex"}}, *POLICY["rules"][1:]]},
    "a grant of a tool": {**POLICY, "tools": {"t": {**TOOL, "access": {"fs": [{"path": ".", "read": True}]}}}},
    "another tool": {**POLICY, "tools": {"t": TOOL, "u": TOOL}},
    "a path beside a command": {
        **POLICY,
        "rules": [{"deny": {"any": [{"command": "x"}, {"path": "y"}]}}, *POLICY["rules"]],
    },
}


@pytest.mark.parametrize("new", EDITS.values(), ids=EDITS.keys())
def test_an_edit_that_reaches_files_is_found(new: dict[str, Any], tmp_path: Path) -> None:
    families, _exact = changed(tmp_path, new)
    assert "fs" in families
