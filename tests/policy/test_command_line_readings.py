"""What is read of a command line: its commands with where they run, its redirections, what is not understood.

The cases: `command_line_readings.jsonl`. What is left out there is as it is for an ordinary command.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.core.match_context import MatchPart
from byleave.policy.command_lines import CommandLineReader
from byleave.shell.knowledge.programs import BUILT_IN
from byleave.workspace.resolve import Root

CASES = [json.loads(line) for line in Path(__file__).with_name("command_line_readings.jsonl").read_text().splitlines()]
FIELDS = {
    "piped": ("piped_to_shell", False),
    "anything": ("runs_anything", False),
    "wraps": ("wraps", None),
    "parent": ("parent", None),
    "blocked": ("blocked", None),
    "at_root": ("at_root", False),
    "moved": ("moved", None),
    "repository": ("repository", None),
    "empty": ("empty", False),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a home and two workspaces: one is a repository and has a link, one is `plain`."""
    base = tmp_path_factory.mktemp("lines").resolve()
    for directory in ("ws/src/deep", "ws/.git", "home", "plain/sub"):
        (base / directory).mkdir(parents=True)
    (base / "ws/.git/HEAD").write_text("ref: x\n")
    for file in ("file", "in", "src/a.txt"):
        (base / "ws" / file).touch()
    (base / "ws/link").symlink_to("src")
    return base


def place(found: FsTarget | RefusedPath | None) -> Any:
    if isinstance(found, FsTarget):
        return [found.canonical, found.exists, found.directory]
    return None if found is None else found.problem


def part(found: MatchPart) -> dict[str, Any]:
    said = {"text": found.text, "name": found.name, "directories": found.directories}
    usual = {name: getattr(found, field) for name, (field, _usual) in FIELDS.items()}
    return said | {name: value for name, value in usual.items() if value != FIELDS[name][1]}


@pytest.mark.parametrize(
    "case", CASES, ids=[json.dumps([case["line"], case.get("cwd", ""), case.get("where", "")]) for case in CASES]
)
def test_a_line_is_read_as_a_whole(case: dict[str, Any], base: Path) -> None:
    root = base / case.get("where", "ws")
    reader = CommandLineReader(Root(str(root)), BUILT_IN, str(base / "home"))
    line = reader.read(case["line"], case.get("cwd"), case.get("shell"))
    found = {
        "parts": [part(each) for each in line.parts],
        "argvs": line.argvs,
        "redirections": [[each.text, each.writes, place(each.place)] for each in line.redirections],
        "problem": line.problem,
        "loose": sorted(line.loose_words),
        "whole": line.whole,
    }
    text = json.dumps(found)
    for name, path in (("$ROOT", root), ("$HOME", base / "home"), ("$BASE", base)):
        text = text.replace(str(path), name)
    nothing: dict[str, Any] = {
        "parts": [],
        "argvs": [],
        "redirections": [],
        "problem": None,
        "loose": [],
        "whole": False,
    }
    asked = ("line", "where", "cwd", "shell")
    assert json.loads(text) == nothing | {key: value for key, value in case.items() if key not in asked}


def test_what_was_read_is_read_again_where_the_disk_has_changed(tmp_path: Path) -> None:
    reader = CommandLineReader(Root(str(tmp_path.resolve())), BUILT_IN)
    before = [reader.read("cd a && ls").parts[1].directories for _ in range(2)]
    (tmp_path / "a").mkdir()
    assert before == [None, None]
    assert reader.read("cd a && ls").parts[1].directories == (f"{tmp_path.resolve()}/a",)
