"""What a tool that comes with byleave says when it may not: the capability, and where it would be granted."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.machine import needs_sandbox
from toolhost.workshop import Workshop
from tools.both import run_both

READ = {"read": True}
RULES: list[dict[str, Any]] = [
    {"path": "src", **READ},
    {"path": "docs", **READ, "write": True},
    {"path": "new", **READ, "create": True},
]
FILES: dict[str, str | bytes] = {"src/a": "one\n", "docs/a": "one\n", "new/a": "one\n", "shut/a": "one\n"}
NO_RULE = "no access.fs rule covers it"

# A tool, its arguments, and what it says.
DENIED: dict[str, tuple[str, dict[str, Any], str]] = {
    "reading where no rule reaches": (
        "fs_read_file",
        {"path": "shut/a"},
        f'read on "shut/a" is denied: {NO_RULE}; read is granted at src, docs and new',
    ),
    "listing": (
        "fs_list_files",
        {"path": "shut"},
        f'read on "shut" is denied: {NO_RULE}; read is granted at src, docs and new',
    ),
    "searching": (
        "fs_grep_files",
        {"pattern": "one", "paths": ["shut"]},
        f'read on "shut" is denied: {NO_RULE}; read is granted at src, docs and new',
    ),
    "creating": (
        "fs_create_file",
        {"path": "src/b", "content": "x"},
        'create on "src/b" is denied: the rule `fs src: read` does not grant it; create is granted at docs and new',
    ),
    "overwriting": (
        "fs_create_file",
        {"path": "new/a", "content": "x", "overwrite": True},
        'update on "new/a" is denied: the rule `fs new: read+create` does not grant it; update is granted at docs',
    ),
    "modifying": (
        "fs_modify_file",
        {"path": "src/a", "patterns": [{"old": "one", "new": "two"}]},
        (
            'src/a could not be written: update on "src/a" is denied: the rule `fs src: read` does not grant it; '
            "update is granted at docs; nothing was changed"
        ),
    ),
    "deleting": (
        "fs_delete_file",
        {"path": "src/a"},
        'delete on "src/a" is denied: the rule `fs src: read` does not grant it; delete is granted at docs',
    ),
    "moving away": (
        "fs_move_file",
        {"source": "src/a", "target": "docs/b"},
        'delete on "src/a" is denied: the rule `fs src: read` does not grant it; delete is granted at docs',
    ),
    "moving there": (
        "fs_move_file",
        {"source": "docs/a", "target": "src/b"},
        'create on "src/b" is denied: the rule `fs src: read` does not grant it; create is granted at docs and new',
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", DENIED)
def test_a_denial_names_the_capability_and_lists_the_grants(tmp_path: Path, case: str) -> None:
    name, arguments, said = DENIED[case]
    done = run_both(tmp_path, name, arguments, FILES, rules=RULES)
    assert (done.message, done.files) == (said, FILES)


def test_where_nothing_is_granted_that_is_said(tmp_path: Path) -> None:
    done = run_both(tmp_path, "fs_delete_file", {"path": "src/a"}, FILES, rules=[{"path": ".", **READ}])
    assert done.message == 'delete on "src/a" is denied: the rule `fs .: read` does not grant it; no rule grants delete'


@pytest.mark.sampled(4)
@needs_sandbox
@pytest.mark.parametrize("runtime", ["vfs", "stdio"])
@pytest.mark.parametrize("case", ["reading where no rule reaches", "creating", "modifying", "moving there"])
def test_byleave_call_says_so_in_both_runtimes(tmp_path: Path, runtime: str, case: str) -> None:
    name, arguments, said = DENIED[case]
    tool = {"runtime": runtime, "command": ["byleave-tool", name], "access": {"fs": RULES}}
    files = {path: str(content) for path, content in FILES.items()}
    shop = Workshop.build(tmp_path, {"t": tool}, files)
    assert shop.outcome("t", json.dumps(arguments), "--no-input")["message"] == said


@pytest.mark.sampled(2)
@needs_sandbox
@pytest.mark.parametrize("runtime", ["vfs", "stdio"])
@pytest.mark.parametrize("path", ["docs", "docs/"])
def test_a_directory_that_a_rule_opens_is_not_deleted_for_the_same_reason(
    tmp_path: Path, runtime: str, path: str
) -> None:
    tool = {"runtime": runtime, "command": ["byleave-tool", "fs_delete_file"], "access": {"fs": RULES}}
    shop = Workshop.build(tmp_path, {"t": tool}, {"docs/a": "one"})
    said = shop.outcome("t", json.dumps({"path": path}), "--no-input")["message"]
    assert said == f"{path} is a directory, and only files are deleted"
