"""fs_create_file, fs_modify_file, fs_delete_file and fs_move_file, in both runtimes."""

from pathlib import Path
from typing import Any

import pytest

from byleave.sdk.testing import Harness
from byleave.tools import load
from tools.both import Files, run_both, run_mediated, run_plain

FILES: Files = {"a.txt": "one\ntwo\n", "b.txt": "two\nthree\n", "ro/c.txt": "two\n", "bin": b"\xff", "bare": "x"}
RULES = [{"path": ".", "read": True, "write": True}, {"path": "ro", "read": True}]


def test_a_file_is_created_with_the_directories_above_it(tmp_path: Path) -> None:
    done = run_both(tmp_path, "fs_create_file", {"path": "new/er/x.txt", "content": "a\nb"}, FILES)
    assert done.texts == ["Wrote new/er/x.txt (2 lines)."]
    assert done.files == {**FILES, "new/er/x.txt": "a\nb"}


def test_a_file_that_is_there_is_left_alone_unless_it_may_be_overwritten(tmp_path: Path) -> None:
    refused = run_both(tmp_path, "fs_create_file", {"path": "a.txt", "content": "x"}, FILES)
    assert refused.message == "a.txt exists already; change it with fs_modify_file, or say overwrite"
    assert refused.files == FILES
    done = run_both(tmp_path, "fs_create_file", {"path": "a.txt", "content": "x", "overwrite": True}, FILES)
    assert done.files == {**FILES, "a.txt": "x"}


def test_a_directory_alone_is_not_created(tmp_path: Path) -> None:
    done = run_both(tmp_path, "fs_create_file", {"path": "new/"}, FILES)
    assert done.message == "new/ names a directory; directories are made with the first file in them"


def test_what_may_not_be_written_is_not(tmp_path: Path) -> None:
    for path in ("ro/new.txt", "../x", "/tmp/x", ".git/hooks/x"):
        harness = Harness(FILES, access={"fs": RULES})
        assert harness.call(load("fs_create_file"), {"path": path}).kind == "error"
        assert harness.files == FILES


CHANGES: dict[str, tuple[dict[str, Any], Files, str]] = {
    "a text": (
        {"path": "a.txt", "patterns": [{"old": "two", "new": "2"}]},
        {"a.txt": "one\n2\n"},
        "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
    ),
    "in several files": (
        {
            "paths": ["a.txt", "b.txt", "./a.txt"],
            "patterns": [{"old": "two", "new": "2"}, {"old": "three", "new": "3"}],
        },
        {"a.txt": "one\n2\n", "b.txt": "2\n3\n"},
        (
            "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
            "--- b.txt\n+++ b.txt\n@@ -1,2 +1,2 @@\n-two\n-three\n+2\n+3\n"
        ),
    ),
    "one after the other": (
        {"path": "a.txt", "patterns": [{"old": "one", "new": "two"}, {"old": "two", "new": "x", "count": 1}]},
        {"a.txt": "x\ntwo\n"},
        "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n-one\n+x\n two\n",
    ),
    "an expression with a group": (
        {"path": "a.txt", "patterns": [{"old": "^(t)(wo)$", "new": r"\2\1", "regex": True}]},
        {"a.txt": "one\nwot\n"},
        "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+wot\n",
    ),
    "a literal that looks like an expression": (
        {"path": "bare", "patterns": [{"old": "x", "new": "a.*\\1\n"}]},
        {"bare": "a.*\\1\n"},
        "--- bare\n+++ bare\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+a.*\\1\n",
    ),
    "nothing that changes": (
        {"path": "bare", "patterns": [{"old": "x", "new": "x"}]},
        {},
        "Nothing changed: what was found is what should be there.",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arguments", "changed", "shown"), CHANGES.values(), ids=CHANGES.keys())
def test_text_is_replaced_and_shown_as_a_diff(
    arguments: dict[str, Any], changed: Files, shown: str, tmp_path: Path
) -> None:
    done = run_both(tmp_path, "fs_modify_file", arguments, FILES)
    assert done.texts == [shown]
    assert done.files == {**FILES, **changed}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing matches": (
        {"paths": ["a.txt", "b.txt"], "patterns": [{"old": "two", "new": "2"}, {"old": "four", "new": "4"}]},
        'patterns[1] matches nothing: "four" is not in a.txt, b.txt',
    ),
    "what the first replaced": (
        {"path": "a.txt", "patterns": [{"old": "two", "new": "2"}, {"old": "two", "new": "3"}]},
        'patterns[1] matches nothing: "two" is not in a.txt',
    ),
    "an empty pattern": ({"path": "a.txt", "patterns": [{"old": "", "new": "x"}]}, "patterns[0].old is empty"),
    "no pattern": ({"path": "a.txt", "patterns": []}, "there is no pattern"),
    "no file": ({"patterns": [{"old": "a", "new": "b"}]}, "name a file, as path or in paths"),
    "a missing file": ({"paths": ["a.txt", "none"], "patterns": [{"old": "one", "new": "1"}]}, "none does not exist"),
    "not a text": ({"path": "bin", "patterns": [{"old": "a", "new": "b"}]}, "bin is not a text: it is not UTF-8"),
    "a broken expression": (
        {"path": "a.txt", "patterns": [{"old": "(", "new": "", "regex": True}]},
        "patterns[0].old is no regular expression: missing ), unterminated subpattern at position 0",
    ),
    "a group that is not there": (
        {"path": "a.txt", "patterns": [{"old": "one", "new": r"\7", "regex": True}]},
        "patterns[0].new cannot be used: invalid group reference 7 at position 1",
    ),
    "a count of nothing": (
        {"path": "a.txt", "patterns": [{"old": "one", "new": "1", "count": 0}]},
        "patterns[0].count must be 1 or more",
    ),
    "a pattern without new": (
        {"path": "a.txt", "patterns": [{"old": "x"}]},
        'the argument "patterns[0].new" is missing',
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_replaced_everywhere_changes_nothing(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    done = run_both(tmp_path, "fs_modify_file", arguments, FILES)
    assert done.message.startswith(message)
    assert done.files == FILES


def test_when_one_file_cannot_be_written_the_others_are_put_back(tmp_path: Path) -> None:
    arguments = {"paths": ["a.txt", "b.txt", "ro/c.txt"], "patterns": [{"old": "two", "new": "2"}]}
    harness = Harness(FILES, access={"fs": RULES})
    outcome = harness.call(load("fs_modify_file"), arguments)
    assert harness.files == FILES
    assert str(outcome.message).startswith("ro/c.txt could not be written: ")
    assert str(outcome.message).endswith("; nothing was changed")
    written = [asked.params["path"] for asked in harness.requests if asked.method == "fs.write"]
    assert written == ["a.txt", "b.txt", "ro/c.txt", "a.txt", "b.txt", "ro/c.txt"]


def test_when_one_file_cannot_be_written_the_others_are_put_back_in_both_runtimes(tmp_path: Path) -> None:
    arguments = {"paths": ["a.txt", "ro/c.txt"], "patterns": [{"old": "two", "new": "2"}]}
    for run in (run_mediated, run_plain):
        done = run(tmp_path, "fs_modify_file", arguments, FILES, rules=RULES, action="run")
        assert done.files == FILES
        assert done.message.startswith("ro/c.txt could not be written: ")


def test_a_tool_that_is_stopped_between_two_files_puts_the_first_back() -> None:
    arguments = {"paths": ["a.txt", "b.txt"], "patterns": [{"old": "two", "new": "2"}]}
    harness = Harness(FILES, access="all")
    assert harness.call(load("fs_modify_file"), arguments, cancel_at=4).kind == "cancelled"
    assert harness.files == FILES


def test_a_very_large_change_is_made_but_not_shown() -> None:
    files: dict[str, str | bytes] = {"big": "x\n" * 15_000}
    harness = Harness(files, access="all")
    shown = harness.call(load("fs_modify_file"), {"path": "big", "patterns": [{"old": "x", "new": "y"}]}).text
    assert "too large to show what changed: 15000 lines before, 15000 now" in shown
    assert harness.files == {"big": "y\n" * 15_000}


def test_a_file_is_deleted_and_a_directory_is_not(tmp_path: Path) -> None:
    done = run_both(tmp_path, "fs_delete_file", {"path": "a.txt"}, FILES)
    assert done.texts == ["Deleted a.txt."]
    assert done.files == {name: text for name, text in FILES.items() if name != "a.txt"}
    missing = run_both(tmp_path, "fs_delete_file", {"path": "none"}, FILES)
    assert missing.message == "none does not exist"
    directory = run_both(tmp_path, "fs_delete_file", {"path": "ro"}, FILES)
    assert directory.message == "ro is a directory, and only files are deleted"


def test_deleting_needs_no_right_to_read() -> None:
    harness = Harness(FILES, access={"fs": [{"path": ".", "delete": True}]})
    assert harness.call(load("fs_delete_file"), {"path": "a.txt"}).kind == "completed"


MOVES: dict[str, tuple[dict[str, Any], Files, str]] = {
    "a file": ({"source": "bare", "target": "new/b"}, {"new/b": "x"}, "Moved bare to new/b."),
    "into a directory": ({"source": "bare", "target": "ro/"}, {"ro/bare": "x"}, "Moved bare to ro/bare."),
    "over a file": ({"source": "bare", "target": "a.txt", "overwrite": True}, {"a.txt": "x"}, "Moved bare to a.txt."),
}


@pytest.mark.parametrize(("arguments", "there", "text"), MOVES.values(), ids=MOVES.keys())
def test_a_file_is_moved(arguments: dict[str, Any], there: Files, text: str, tmp_path: Path) -> None:
    done = run_both(tmp_path, "fs_move_file", arguments, FILES)
    assert done.texts == [text]
    assert done.files == {name: content for name, content in FILES.items() if name != "bare"} | there


def test_a_directory_is_moved_with_all_that_is_in_it(tmp_path: Path) -> None:
    done = run_both(tmp_path, "fs_move_file", {"source": "ro", "target": "new/place"}, FILES)
    assert done.texts == ["Moved ro to new/place."]
    assert done.files == {name: text for name, text in FILES.items() if name != "ro/c.txt"} | {
        "new/place/c.txt": "two\n"
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "none", "target": "x"}, "none does not exist"),
        ({"source": "bare", "target": "a.txt"}, "a.txt exists already"),
        ({"source": "bare", "target": "ro"}, "ro exists already"),
        ({"source": "bare", "target": "ro", "overwrite": True}, "ro exists already"),
    ],
)
def test_what_cannot_be_moved_stays(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    done = run_both(tmp_path, "fs_move_file", arguments, FILES)
    assert (done.message, done.files) == (message, FILES)


def test_nothing_is_moved_to_a_place_that_may_not_be_seen() -> None:
    rules = [{"path": ".", "read": True, "write": True}, {"path": "drop", "create": True, "update": True}]
    harness = Harness(FILES, access={"fs": rules})
    refused = harness.call(load("fs_move_file"), {"source": "bare", "target": "drop/x"})
    assert "may not be seen" in str(refused.message)
    moved = harness.call(load("fs_move_file"), {"source": "bare", "target": "drop/x", "overwrite": True})
    assert moved.kind == "completed"
