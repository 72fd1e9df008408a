"""`byleave-tool`: which tools there are, what they take, and how each finds out in which runtime it was started."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from byleave.protocol.vfs import Failed, Finished
from byleave.tools import NAMES, load
from sdk.driving import drive, serving_files
from tools.both import Files, run_both

PROGRAM = [sys.executable, "-m", "byleave.tools"]


def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], input=given, capture_output=True, text=True, check=False, timeout=60)


def test_the_list_has_every_tool_with_its_schema() -> None:
    listed = json.loads(run("--list").stdout)
    assert [each["name"] for each in listed] == list(NAMES)
    assert listed == [load(name).schema for name in NAMES]


def test_one_schema_can_be_asked_for() -> None:
    schema = json.loads(run("fs_read_file", "--schema").stdout)
    assert (schema["name"], schema["parameters"]["required"]) == ("fs_read_file", ["path"])
    assert schema["parameters"]["properties"]["path"]["description"] == "the file, relative to the workspace"


@pytest.mark.parametrize("words", [(), ("nonsense",), ("fs_read_file", "--nonsense"), ("--list", "x")])
def test_a_wrong_command_line_is_told_how_it_is_used(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: byleave-tool NAME")


def test_help_is_no_error() -> None:
    done = run("--help")
    assert (done.returncode, done.stdout.split("\n")[0][:5]) == (0, "usage")


def test_a_tool_that_no_one_has_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        load("os")


def test_a_message_of_the_protocol_makes_it_a_mediated_tool() -> None:
    argv, answer = [*PROGRAM, "fs_read_file"], serving_files({"a.txt": "x\ny\n"})
    good = drive(argv, answer, told={"arguments": {"path": "a.txt", "end_line": 1}}, env={**os.environ})
    assert good.last == Finished([{"type": "text", "text": "x\n"}, {"type": "text", "text": "line 1 of 2"}])
    assert (good.exit_code, good.stderr) == (0, "")
    bad = drive(argv, answer, told={"arguments": {"path": "b"}}, env={**os.environ})
    assert isinstance(bad.last, Failed)
    assert (bad.last.failure.message, bad.exit_code) == ("b does not exist", 1)


def call(place: Path, **tool: Any) -> dict[str, Any]:
    return {"context": {"root": str(place), "action": "run", "access": None}, "tool": {"name": "x", **tool}}


@pytest.mark.parametrize("indent", [None, 2], ids=["in one line", "in many lines"])
def test_a_call_makes_it_a_plain_tool(indent: int | None, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    done = run("fs_read_file", given=json.dumps(call(tmp_path, arguments={"path": "a.txt"}), indent=indent))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"content": [{"type": "text", "text": "x\n"}, {"type": "text", "text": "1 line"}]}


def test_a_plain_tool_that_fails_says_why_and_ends_with_a_failure(tmp_path: Path) -> None:
    done = run("fs_read_file", given=json.dumps(call(tmp_path, arguments={"path": "none"})))
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"error": {"message": "none does not exist", "trace": [], "transient": False}}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "given", ["", "nonsense", "[]", "{}", '{"tool": {"arguments": {}}}', '{"tool": {"arguments": []}, "context": {}}']
)
def test_what_is_no_call_is_refused(given: str) -> None:
    done = run("fs_read_file", given=given)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("byleave-tool: ")
    assert "Traceback" not in done.stderr


FILES: Files = {"a.txt": "one\n"}
SHOWN: dict[str, tuple[dict[str, Any], str]] = {
    "fs_read_file": ({"path": "a", "start_line": 3}, "read a, lines 3 to the end"),
    "fs_list_files": ({"extensions": ["rs"]}, "list the files in . with the extensions rs"),
    "fs_grep_files": ({"pattern": "x", "paths": ["src"]}, "search src for x"),
    "fs_create_file": ({"path": "a", "content": "x\ny\n"}, "create a (2 lines)\n  x\n  y"),
    "fs_modify_file": (
        {"path": "a", "patterns": [{"old": "x", "new": "y"}, {"old": "z+", "new": "", "regex": True}]},
        'in a replace\n  "x" by "y"\n  whatever matches "z+" by ""',
    ),
    "fs_delete_file": ({"path": "a"}, "delete a"),
    "fs_move_file": ({"source": "a", "target": "b"}, "move a to b"),
    "unix_utils": ({"util": "wc", "args": ["-l", "a b"]}, "run wc -l 'a b'"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_each_tool_says_in_words_what_a_call_would_do_in_both_runtimes(name: str, tmp_path: Path) -> None:
    arguments, expected = SHOWN[name]
    done = run_both(tmp_path, name, arguments, FILES, action="format_arguments")
    assert (done.texts, done.files) == ([expected], FILES)


@pytest.mark.parametrize("name", NAMES)
def test_each_tool_describes_itself_and_each_of_its_parameters(name: str) -> None:
    schema = load(name).schema
    assert schema["description"].endswith(".")
    assert [each for each, about in schema["parameters"]["properties"].items() if not about.get("description")] == []
