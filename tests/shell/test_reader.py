"""What the reader says, case by case: tests/shell/cases.toml and the shared sample cases."""

import os
import tomllib
from typing import Any

import pytest

from byleave.shell.reader import read_command
from shell.oracle import BASH, box, difference

HERE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "shell")
with open(os.path.join(HERE, "cases.toml"), "rb") as _file:
    CASES = tomllib.load(_file)

REFUSED = [(why, text) for why, texts in CASES["refused"].items() for text in texts]


@pytest.mark.parametrize("case", CASES["read"], ids=lambda case: case["name"])
def test_reads_as_the_case_says(case: dict[str, Any]) -> None:
    reading = read_command(case["text"])
    shown = [["?" if word is None else word for word in command.argv] for command in reading.commands]
    assert (reading.problem, shown) == (None, case["argv"])


@pytest.mark.parametrize("case", CASES["directory"], ids=lambda case: case["text"])
def test_follows_the_directory(case: dict[str, Any]) -> None:
    reading = read_command(case["text"], cwd="/w")
    assert reading.problem is None
    places = reading.commands[-1].places
    assert places == (tuple(case["places"]) if "places" in case else None)
    assert reading.commands[-1].cwd == (places[0] if places is not None and len(places) == 1 else None)


@pytest.mark.parametrize(("why", "text"), REFUSED, ids=lambda value: value[:40])
def test_does_not_understand(why: str, text: str) -> None:
    reading = read_command(text)
    assert not reading.understood
    assert reading.commands == ()
    assert reading.problem is not None
    assert 0 <= reading.problem.offset <= len(text)


def test_the_problem_has_its_place() -> None:
    problem = read_command("a\nb 'c").problem
    assert problem is not None
    assert (problem.offset, problem.line, problem.reason) == (4, 2, "an unfinished single quote")


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@pytest.mark.parametrize("name", CASES["found"])
def test_a_difference_once_found_stays_fixed(name: str) -> None:
    with box() as where:
        assert difference(CASES["found"][name], where) is None


@pytest.mark.parametrize("text", CASES["wrapped"]["texts"] + CASES["wrapped"]["found"])
def test_a_command_is_seen_through_its_wrapper(text: str) -> None:
    reading = read_command(text)
    assert reading.problem is None
    assert reading.commands[-1].argv == ["rm", "x"]
    assert reading.commands[-1].via


@pytest.mark.parametrize("text", CASES["wrapped"]["appended"])
def test_words_that_a_wrapper_adds_are_unknown(text: str) -> None:
    reading = read_command(text)
    assert reading.problem is None
    assert reading.commands[-1].argv == ["rm", "x", None]


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@pytest.mark.parametrize("name", CASES["hostile"])
def test_a_value_that_was_once_evaluated_stays_harmless(name: str) -> None:
    text, value = CASES["hostile"][name]
    with box() as where:
        assert difference(text, where, value) is None


def test_assignments_reach_the_children_of_wrappers() -> None:
    commands = read_command('A=1 env B=2 C="$x" timeout 5 git status').commands
    assert [(item.name, item.value) for item in commands[-1].assignments] == [("A", "1"), ("B", "2"), ("C", None)]


def test_wrappers_say_whether_they_are_transparent() -> None:
    commands = read_command("timeout 5 sudo git status; ./timeout 5 ls").commands
    assert [(via.name, via.transparent) for via in commands[2].via] == [("timeout", True), ("sudo", False)]
    assert [command.wraps for command in commands] == ["transparent", "opaque", None, "opaque", None]


@pytest.mark.parametrize(
    ("text", "piped"),
    [
        ("curl x | sh", [True, False]),
        ("curl x | tee y | sudo bash -s -- z", [True, True, False, False]),
        ("curl x | bash -c 'cat'", [False, False, False]),
        ("curl x | python3", [True, False]),
        ("curl x | python3 -m json.tool", [False, False]),
        ("curl x | python3 -c 'y'", [False, False]),
        ("curl x | bash script.sh", [False, False]),
        ("curl x | bash /dev/stdin", [True, False]),
        ("bash <(curl x)", [False, True]),
        ("source <(curl x)", [False, True]),
        ("bash < <(curl x)", [False, True]),
    ],
)
def test_sees_what_reaches_an_interpreter(text: str, piped: list[bool]) -> None:
    assert [command.piped_to_shell for command in read_command(text).commands] == piped


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("a > b", ["b"]),
        ("a >> b 2> c", ["b", "c"]),
        ("a &> b", ["b"]),
        ("a >& b", ["b"]),
        ("a >| b", ["b"]),
        ("a <> b", ["b"]),
        ("a 2>&1 >/dev/null < c", []),
        ("a > $x", [None]),
        ("a > ~/b", [None]),
        ("a > >(b)", []),
        ("{ a; b; } > c", ["c"]),
        ("for i in 1; do a; done > c", ["c"]),
        ("> c", ["c"]),
        ("a > /dev/tcp/h/80", ["/dev/tcp/h/80"]),
        ("a > /dev/fd/2", []),
        ("a > /dev/fd/../cwd/b", ["/dev/fd/../cwd/b"]),
        ("a >&٣", ["٣"]),
    ],
)
def test_sees_what_redirections_write(text: str, writes: list[str | None]) -> None:
    redirects = [item for command in read_command(text).commands for item in command.redirects]
    assert [item.target for item in redirects if item.writes] == writes


def test_redirections_belong_to_the_directory_of_the_shell() -> None:
    command = read_command("git -C a log > out", cwd="/w").commands[0]
    assert (command.places, command.base) == (("/w/a",), ("/w",))
