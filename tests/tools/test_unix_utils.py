"""unix_utils: reads and prints; what writes, executes, waits or leaves the workspace is refused before it is run."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.sdk.testing import Harness
from byleave.tools import load
from byleave.tools.unix_utils import UTILS, problem_with
from tools.both import Files, run_both

FILES: Files = {"a.txt": "b\na\nc\n", "d/e.txt": "b\na\nd\n", "-n": "x\n"}

RUNS: dict[str, tuple[str, list[str], list[str]]] = {
    "wc": ("wc", ["-l", "a.txt"], ["3 a.txt\n"]),
    "sort": ("sort", ["-r", "a.txt", "d/e.txt"], ["d\nc\nb\nb\na\na\n"]),
    "sort by key": ("sort", ["-t", ":", "-k1,1", "--reverse", "a.txt"], ["c\nb\na\n"]),
    "head": ("head", ["-2", "a.txt"], ["b\na\n"]),
    "tail from a line": ("tail", ["-n", "+3", "a.txt"], ["c\n"]),
    "cut at a colon": ("cut", ["-d:", "-f1", "a.txt"], ["b\na\nc\n"]),
    "a file named like an option": ("cat", ["--", "-n"], ["x\n"]),
    "options after operands": ("nl", ["a.txt", "-b", "a", "-w2"], [" 1\tb\n 2\ta\n 3\tc\n"]),
    "files that differ": ("cmp", ["a.txt", "d/e.txt"], ["a.txt d/e.txt differ: byte 5, line 3\n", "exit code 1"]),
    "words": ("basename", ["/usr/lib/x.so", ".so"], ["x\n"]),
    "the workspace itself": ("ls", [], ["-n\na.txt\nd\n"]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("util", "args", "texts"), RUNS.values(), ids=RUNS.keys())
def test_a_utility_prints_what_it_reads(util: str, args: list[str], texts: list[str], tmp_path: Path) -> None:
    done = run_both(tmp_path, "unix_utils", {"util": util, "args": args}, FILES)
    assert done.texts == texts


def test_what_a_utility_complains_about_is_told_with_its_exit_code(tmp_path: Path) -> None:
    printed, note = run_both(tmp_path, "unix_utils", {"util": "cat", "args": ["none"]}, FILES).texts
    assert printed == ""
    assert note.startswith("exit code 1\n")
    assert "none" in note


REFUSED: dict[str, tuple[str, list[str]]] = {
    "an unknown utility": ("rm", ["a.txt"]),
    "a path as a utility": ("/bin/cat", ["a.txt"]),
    "sort -o": ("sort", ["-o", "a.txt", "a.txt"]),
    "sort -oa.txt": ("sort", ["-oa.txt", "a.txt"]),
    "sort -ro": ("sort", ["-ro", "x", "a.txt"]),
    "sort --output": ("sort", ["--output=x", "a.txt"]),
    "sort --outp": ("sort", ["--outp=x", "a.txt"]),
    "sort --compress-program": ("sort", ["--compress-program=sh", "a.txt"]),
    "sort --compress-prog, shortened": ("sort", ["--compress-p", "sh", "a.txt"]),
    "sort -T": ("sort", ["-T", "/tmp", "a.txt"]),
    "sort --files0-from": ("sort", ["--files0-from=/etc/x"]),
    "wc --files0-from": ("wc", ["--files0-from=a.txt"]),
    "du --files0-from": ("du", ["--files0-from", "a.txt"]),
    "sort --random-source": ("sort", ["-R", "--random-source=/etc/passwd", "a.txt"]),
    "uniq with an output": ("uniq", ["a.txt", "out.txt"]),
    "uniq with an output behind --": ("uniq", ["--", "a.txt", "out.txt"]),
    "file -C": ("file", ["-C", "-m", "a.txt"]),
    "file -f": ("file", ["-f", "a.txt"]),
    "file -m": ("file", ["-m", "a.txt", "a.txt"]),
    "file -p": ("file", ["-p", "a.txt"]),
    "date -s": ("date", ["-s", "tomorrow"]),
    "date --set": ("date", ["--set=tomorrow"]),
    "date 0102": ("date", ["01021530"]),
    "date -f": ("date", ["-f", "/etc/passwd"]),
    "tail -f": ("tail", ["-f", "a.txt"]),
    "tail -qf": ("tail", ["-qf", "a.txt"]),
    "tail -F": ("tail", ["-F", "a.txt"]),
    "tail --follow": ("tail", ["--follow", "a.txt"]),
    "tail --follow=name": ("tail", ["--follow=name", "a.txt"]),
    "diff -l, which runs pr": ("diff", ["-l", "a.txt", "d/e.txt"]),
    "diff --to-file": ("diff", ["--to-file=/etc/passwd", "a.txt"]),
    "diff -X": ("diff", ["-X", "/etc/passwd", "a.txt", "d/e.txt"]),
    "md5sum -c": ("md5sum", ["-c", "a.txt"]),
    "an absolute path": ("cat", ["/etc/passwd"]),
    "an absolute path behind --": ("cat", ["--", "/etc/passwd"]),
    "an absolute path after a good one": ("sort", ["a.txt", "/etc/passwd"]),
    "a path that climbs out": ("cat", ["d/../../x"]),
    "the directory above": ("ls", [".."]),
    "a home": ("cat", ["C:\\x"]),
    "a control character": ("cat", ["a\x1b.txt"]),
    "no file": ("cat", []),
    "only options": ("wc", ["-l"]),
    "one file for two": ("diff", ["a.txt"]),
    "an option without its value": ("head", ["a.txt", "-n"]),
    "a long option without its value": ("head", ["a.txt", "--lines"]),
    "a flag with a value": ("wc", ["--lines=3", "a.txt"]),
}


@pytest.mark.parametrize(("util", "args"), REFUSED.values(), ids=REFUSED.keys())
def test_what_could_do_harm_is_refused_before_anything_is_run(util: str, args: list[str]) -> None:
    harness = Harness(FILES, access="all", programs=dict.fromkeys([*UTILS, "rm"], "ran"))
    outcome = harness.call(load("unix_utils"), {"util": util, "args": args})
    assert outcome.kind == "error"
    assert harness.requests == []


def test_a_refusal_names_what_was_refused() -> None:
    assert problem_with("sort", ["-rno", "x"]) == 'the option "-o" of sort may not be used here'
    assert problem_with("tail", ["--follow", "x"]) == 'the option "--follow" of tail may not be used here'
    assert problem_with("cat", ["../x"]) == '"../x" climbs out of the workspace'
    assert problem_with("date", ["now"]) == 'date takes a format that begins with +; "now" would set the clock'
    assert str(problem_with("vi", [])).startswith('"vi" is none of the utilities: base64, ')


@given(st.sampled_from(list(UTILS)), st.lists(st.text(alphabet="-=/.a+o0 \n", max_size=6), max_size=4))
def test_no_operand_that_leaves_the_workspace_ever_passes(util: str, args: list[str]) -> None:
    problem = problem_with(util, args)
    if problem is None and UTILS[util].operands == "files" and not UTILS[util].values:
        assert not any(word.startswith(("/", "../")) or word == ".." for word in args)


def test_a_utility_that_is_not_installed_is_told() -> None:
    harness = Harness(FILES, access={"fs": [{"path": ".", "read": True}], "commands": {"tac": {}}})
    assert harness.call(load("unix_utils"), {"util": "tac", "args": ["a.txt"]}).message == "tac is not installed here"


def test_output_that_is_no_text_is_shown_as_well_as_it_can_be() -> None:
    from byleave.sdk.vfs import Completed

    harness = Harness(FILES, access="all", programs={"cat": Completed(b"a\xffb", "", 0), "wc": "y" * 200_000})
    assert harness.call(load("unix_utils"), {"util": "cat", "args": ["a.txt"]}).text == "a\ufffdb"
    long = harness.call(load("unix_utils"), {"util": "wc", "args": ["a.txt"]}).text
    assert long.endswith("yyy\n... (200000 characters)")


def test_without_the_right_to_run_it_nothing_is_run() -> None:
    outcome = Harness(FILES).call(load("unix_utils"), {"util": "cat", "args": ["a.txt"]})
    assert outcome.kind == "error"
