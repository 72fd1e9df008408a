"""fs_read_file, fs_list_files and fs_grep_files, in both runtimes."""

from pathlib import Path
from typing import Any

import pytest

from byleave.sdk.testing import Harness
from byleave.tools import load
from tools.both import Files, Rules, run_both

TEXT = "one\ntwo\nthree\n"
FILES: Files = {"a.txt": TEXT, "bare.txt": "x\ny", "empty": "", "img.bin": b"\xff\x00", "odd.txt": "a\x0cb\u2028c\n"}

RANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all of it": ({"path": "a.txt"}, [TEXT, "3 lines"]),
    "from a line": ({"path": "a.txt", "start_line": 2}, ["two\nthree\n", "lines 2 to 3 of 3"]),
    "up to a line": ({"path": "a.txt", "end_line": 2}, ["one\ntwo\n", "lines 1 to 2 of 3"]),
    "one line": ({"path": "a.txt", "start_line": 2, "end_line": 2}, ["two\n", "line 2 of 3"]),
    "beyond the end": ({"path": "a.txt", "start_line": 3, "end_line": 99}, ["three\n", "line 3 of 3"]),
    "null is as good as nothing": ({"path": "a.txt", "start_line": None}, [TEXT, "3 lines"]),
    "no newline at the end": ({"path": "bare.txt", "start_line": 2}, ["y", "line 2 of 2"]),
    "nothing at all": ({"path": "empty"}, ["", "no lines"]),
    "only newlines end lines": ({"path": "odd.txt"}, ["a\x0cb\u2028c\n", "1 line"]),
}
NO_RANGES: dict[str, tuple[dict[str, Any], str]] = {
    "no such file": ({"path": "none"}, "none does not exist"),
    "not a text": ({"path": "img.bin"}, "img.bin is not a text: it is not UTF-8"),
    "a line that is not there": ({"path": "a.txt", "start_line": 4}, "a.txt has 3 lines, and start_line is 4"),
    "a line of an empty file": ({"path": "empty", "start_line": 1}, "empty has no lines, and start_line is 1"),
    "a line before the first": ({"path": "a.txt", "start_line": 0}, "start_line is 0, and lines count from 1"),
    "backwards": ({"path": "a.txt", "start_line": 3, "end_line": 2}, "end_line is 2, which is before line 3"),
    "a text for a number": (
        {"path": "a.txt", "end_line": "2"},
        "end_line must be a whole number or nothing, and is a text",
    ),
    "no path": ({}, 'the argument "path" is missing'),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arguments", "texts"), RANGES.values(), ids=RANGES.keys())
def test_lines_are_read_as_they_are_and_counted(arguments: dict[str, Any], texts: list[str], tmp_path: Path) -> None:
    assert run_both(tmp_path, "fs_read_file", arguments, FILES).texts == texts


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arguments", "message"), NO_RANGES.values(), ids=NO_RANGES.keys())
def test_what_cannot_be_read_is_told(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert run_both(tmp_path, "fs_read_file", arguments, FILES).message == message


def test_what_may_not_be_read_is_not(tmp_path: Path) -> None:
    rules = [{"path": ".", "read": True}, {"path": "a.txt"}]
    for path in ("a.txt", "../outside", "/etc/hostname"):
        assert Harness(FILES, access={"fs": rules}).call(load("fs_read_file"), {"path": path}).kind == "error"


TREE: Files = {
    "src/a.rs": "fn main() {\n    one();\n    two();\n}\n",
    "src/deep/b.rs": "fn other() {}\n",
    "src/deep/er/c.txt": "three\n",
    "main.rs": "x\n",
    "README": "read me\n",
    ".git/config": "no",
    "secret/key": "k\n",
}
LISTINGS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "everything": (
        {},
        ["README", "main.rs", "secret/key", "src/a.rs", "src/deep/b.rs", "src/deep/er/c.txt"],
        "6 files",
    ),
    "a directory": ({"path": "src"}, ["src/a.rs", "src/deep/b.rs", "src/deep/er/c.txt"], "3 files"),
    "a directory with a slash": ({"path": "src/deep/er/"}, ["src/deep/er/c.txt"], "1 file"),
    "some extensions": ({"extensions": ["txt", ".md"]}, ["src/deep/er/c.txt"], "1 file"),
    "a prefix": ({"prefix": "m"}, ["main.rs"], "1 file"),
    "one level": ({"depth": 1}, ["README", "main.rs", "secret/", "src/"], "2 files"),
    "two levels": ({"path": "src", "depth": 2}, ["src/a.rs", "src/deep/b.rs", "src/deep/er/"], "2 files"),
    "nothing": ({"extensions": ["py"]}, [""], "no files"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arguments", "names", "note"), LISTINGS.values(), ids=LISTINGS.keys())
def test_files_are_listed_and_counted(arguments: dict[str, Any], names: list[str], note: str, tmp_path: Path) -> None:
    assert run_both(tmp_path, "fs_list_files", arguments, TREE).texts == ["\n".join(names), note]


def test_what_may_not_be_read_is_not_listed_but_counted(tmp_path: Path) -> None:
    rules: Rules = [{"path": ".", "read": True}, {"path": "secret"}, {"path": "src/deep"}]
    done = run_both(tmp_path, "fs_list_files", {}, TREE, rules=rules)
    assert done.texts == ["README\nmain.rs\nsrc/a.rs", "3 files; 2 entries may not be read"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "none"}, "none does not exist"),
        ({"path": "main.rs"}, "main.rs is a file, not a directory"),
        ({"depth": 0}, "depth must be a number from 1 to 50"),
    ],
)
def test_what_cannot_be_listed_is_told(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert run_both(tmp_path, "fs_list_files", arguments, TREE).message == message


def test_a_very_long_list_is_cut_and_says_so() -> None:
    files: dict[str, str | bytes] = {f"d/{number:05}": "" for number in range(2500)}
    listed, note = [block["text"] for block in Harness(files).call(load("fs_list_files")).content]
    assert len(listed.splitlines()) == 2000
    assert note == "2000 files; there are more: ask for a directory further down, or for some extensions"


def test_a_name_that_is_no_text_is_listed_and_read(tmp_path: Path) -> None:
    files: Files = {"dir/\udcff.txt": "x\n"}
    harness = Harness(files)
    assert harness.call(load("fs_list_files")).text == "dir/\\xff.txt\n1 file"
    assert harness.call(lambda host: host.list_dir("dir").entries[0].path).text == "\\xff.txt"
    assert harness.call(load("fs_read_file"), {"path": "dir/\udcff.txt"}).content[0]["text"] == "x\n"


SEARCHES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "everywhere": (
        {"pattern": "fn \\("},
        [],
        "no matches in no files",
    ),
    "some files": (
        {"pattern": "^fn"},
        ["src/a.rs", "1: fn main() {", "", "src/deep/b.rs", "1: fn other() {}"],
        "2 matches in 2 files",
    ),
    "some extensions": (
        {"pattern": "t", "extensions": ["txt"]},
        ["src/deep/er/c.txt", "1: three"],
        "1 match in 1 file",
    ),
    "a path": ({"pattern": "o", "paths": ["src/deep"]}, ["src/deep/b.rs", "1: fn other() {}"], "1 match in 1 file"),
    "with context": (
        {"pattern": "one", "context": 1},
        ["src/a.rs", "1- fn main() {", "2:     one();", "3-     two();"],
        "1 match in 1 file",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arguments", "lines", "note"), SEARCHES.values(), ids=SEARCHES.keys())
def test_matches_are_shown_with_their_numbers(
    arguments: dict[str, Any], lines: list[str], note: str, tmp_path: Path
) -> None:
    assert run_both(tmp_path, "fs_grep_files", arguments, TREE).texts == ["\n".join(lines), note]


def test_lines_apart_are_shown_apart_and_long_ones_are_cut() -> None:
    files: dict[str, str | bytes] = {"a": f"x\n.\n.\n.\nx{'y' * 600}\n"}
    shown = Harness(files).call(load("fs_grep_files"), {"pattern": "x", "context": 1}).content[0]["text"]
    assert shown.splitlines()[:6] == ["a", "1: x", "2- .", "--", "4- .", f"5: x{'y' * 499}... (601 characters)"]


def test_what_may_not_be_read_is_not_searched(tmp_path: Path) -> None:
    rules: Rules = [{"path": ".", "read": True}, {"path": "secret"}]
    assert run_both(tmp_path, "fs_grep_files", {"pattern": "k"}, TREE, rules=rules).texts == [
        "",
        "no matches in no files",
    ]


@pytest.mark.parametrize(
    "arguments", [{"pattern": "("}, {"pattern": "x", "context": 99}, {"pattern": "x", "paths": ["none"]}, {}]
)
def test_what_cannot_be_searched_is_an_error_in_both(arguments: dict[str, Any], tmp_path: Path) -> None:
    assert run_both(tmp_path, "fs_grep_files", arguments, TREE).message
