"""`byleave run ls` and `byleave help run`: the short ways, where they can mean one thing only."""

from pathlib import Path

import pytest

from byleave.cli.arguments import read_arguments
from byleave.cli.commands import COMMON, ROOT
from byleave.core.self_protection import changes_trust
from byleave.errors import InputError
from command import byleave


def rest(*words: str) -> tuple[str, ...]:
    return read_arguments(ROOT, COMMON, list(words)).rest


def test_a_program_may_stand_without_dashes_where_nothing_behind_it_looks_like_an_option() -> None:
    assert rest("run", "ls") == ("ls",)
    assert rest("run", "--explain", "cat", "a", "b") == ("cat", "a", "b")
    assert rest("run", "--", "ls", "-l") == ("ls", "-l")
    assert rest("run", "--", "run", "--", "x") == ("run", "--", "x")


@pytest.mark.parametrize("words", [("ls", "-l"), ("ls", "--json"), ("ls", "--", "x"), ("ls", "--help")])
def test_where_an_option_may_belong_to_either_the_dashes_are_asked_for(words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="-- is missing before"):
        rest("run", *words)


@pytest.mark.parametrize("command", ["outside", "acp"])
def test_other_commands_need_their_dashes(command: str) -> None:
    with pytest.raises(InputError, match="-- is missing before"):
        rest(command, "ls")


@pytest.mark.parametrize(
    "words", [("run", "byleave", "trust"), ("run", "sh", "-c", "byleave trust"), ("run", "--", "byleave", "trust")]
)
def test_what_byleave_guards_is_guarded_without_dashes_too(words: tuple[str, ...]) -> None:
    assert changes_trust(["byleave", *words])


def test_rules_see_what_is_started_without_dashes(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        '[[rules]]\nallow = { command = "byleave" }\n[[rules]]\ndeny = { command = "rm" }\n'
    )
    for command in (
        "byleave run rm x",
        "byleave run --explain rm x",
        "byleave run -- rm x",
        "byleave --root . run rm -r x",
    ):
        done = byleave("check", "command", command, "--policy", "p.toml", cwd=tmp_path)
        assert done.code == 20, command


def test_help_is_a_command(tmp_path: Path) -> None:
    assert byleave("help", cwd=tmp_path).out == byleave("--help", cwd=tmp_path).out
    assert byleave("help", "run", cwd=tmp_path).out == byleave("run", "--help", cwd=tmp_path).out
    assert byleave("help", "policy", "show", cwd=tmp_path).out == byleave("policy", "show", "--help", cwd=tmp_path).out
    done = byleave("help", "rnu", cwd=tmp_path)
    assert (done.code, "did you mean run?" in done.err) == (2, True)
