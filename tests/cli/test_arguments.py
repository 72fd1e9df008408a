"""The command line is read strictly, and every mistake comes with a hint."""

from collections.abc import Iterator

import pytest

from byleave.cli.arguments import WIDEST, CommandSpec, ParsedArguments, help_text, read_arguments
from byleave.cli.commands import COMMON, ROOT, VERSION
from byleave.errors import InputError


def read(*words: str) -> ParsedArguments:
    return read_arguments(ROOT, (*COMMON, VERSION), list(words))


READINGS = {
    "flags before the command": (["--json", "--root", "/w", "check", "read", "x"], {"json": [""], "root": ["/w"]}),
    "flags after the command": (["check", "read", "x", "--json", "--root", "/w"], {"json": [""], "root": ["/w"]}),
    "flags between": (["check", "--json", "read", "--root", "/w", "x"], {"json": [""], "root": ["/w"]}),
    "a value behind an equals sign": (["check", "read", "--tool=--x", "x"], {"tool": ["--x"]}),
    "an empty value": (["check", "read", "--tool=", "x"], {"tool": [""]}),
    "a value with equals signs": (["check", "read", "--tool=a=b", "x"], {"tool": ["a=b"]}),
    "a repeated policy": (["--policy", "a", "check", "read", "x", "--policy=b"], {"policy": ["a", "b"]}),
    "short names": (["check", "read", "x", "-q", "-v"], {"quiet": [""], "verbose": [""]}),
    "the same flag twice": (["-q", "check", "read", "x", "--quiet"], {"quiet": ["", ""]}),
    "the same value twice": (["--root", "a", "check", "read", "x", "--root=a"], {"root": ["a", "a"]}),
}


@pytest.mark.parametrize(("words", "options"), READINGS.values(), ids=READINGS.keys())
def test_flags_may_stand_anywhere(words: list[str], options: dict[str, list[str]]) -> None:
    given = read(*words)
    assert (given.path, given.words, given.options) == (("check", "read"), {"PATH": "x"}, options)


def test_after_two_dashes_a_path_may_begin_with_a_dash() -> None:
    assert read("check", "read", "--tool", "t", "--", "--json").words == {"PATH": "--json"}
    assert read("check", "move", "--", "-a", "-b").words == {"PATH": "-a", "TO": "-b"}
    assert read("check", "read", "-").words == {"PATH": "-"}


def test_after_two_dashes_a_program_and_its_arguments_are_taken_as_they_are() -> None:
    given = read("check", "spawn", "--tool", "t", "--", "git", "--", "--json", "-q")
    assert (given.rest, given.options) == (("git", "--", "--json", "-q"), {"tool": ["t"]})


MISTAKES = {
    "unknown command": (["chekc"], 'unknown command "chekc"', "did you mean check?"),
    "unknown kind": (["check", "raed", "x"], 'unknown command "raed"', "did you mean read?"),
    "a command that is like none": (["zzz"], 'unknown command "zzz"', "there are init, setup, check"),
    "unknown option": (["check", "read", "x", "--tol", "t"], 'unknown option "--tol"', "did you mean --tool?"),
    "an option of a command below": (["check", "--tol", "t"], 'unknown option "--tol"', "did you mean --tool?"),
    "an option too early": (["--tool", "t", "check"], 'unknown option "--tool"', "write it behind that command"),
    "no abbreviations": (["check", "read", "x", "--too", "t"], 'unknown option "--too"', "did you mean --tool?"),
    "short options in a cluster": (["check", "read", "x", "-qv"], 'unknown option "-qv"', "one by one"),
    "a dashed path": (["check", "read", "-x"], 'unknown option "-x"', "write it after --"),
    "a word missing": (
        ["check", "read"],
        "PATH is missing",
        "byleave check read [--tool TOOL] [--agent AGENT] [--add] [--yes] PATH",
    ),
    "two words missing": (["check", "move"], "PATH and TO are missing", "PATH TO"),
    "a command line without check's command": (["check", "git push"], 'unknown command "git push"', "command 'LINE'"),
    "a command line without quotes": (["check", "command", "git", "push"], '"push" is one word', "command 'LINE'"),
    "a word too many": (["check", "read", "a", "b"], '"b" is one word too many', "byleave check read"),
    "a program without dashes": (["check", "spawn", "git"], '-- is missing before "git"', "-- PROGRAM ARGS..."),
    "words behind dashes that nobody wants": (["doctor", "--", "x"], '"x" is one word too many', "byleave doctor"),
    "no value": (["check", "read", "x", "--root"], "--root needs a value", "write --root DIR"),
    "a flag for a value": (["check", "read", "x", "--tool", "--json"], "looks like an option", "write --tool=TOOL"),
    "a value for a flag": (["check", "read", "x", "--quiet=1"], "--quiet takes no value", "write --quiet alone"),
    "two tools": (["check", "read", "x", "--tool", "a", "--tool", "b"], '"a" and as "b"', "keep one of the two"),
    "two roots": (["--root", "a", "check", "read", "x", "--root", "b"], "--root is given twice", "keep one"),
    "no such choice": (["completion", "tcsh"], 'SHELL cannot be "tcsh"', "one of bash, zsh and fish"),
    "a batch and a question": (["check", "--batch", "read", "x"], "--batch stands alone", "byleave check --batch"),
    "a batch behind a question": (["check", "read", "x", "--batch"], 'unknown option "--batch"', "there are"),
    "hostile": (["\x1b[2J\u202e"], 'unknown command "\\x1b[2J\\u202e"', "there are"),
}


@pytest.mark.parametrize(("words", "problem", "hint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_and_helped(words: list[str], problem: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        read(*words)
    assert problem in caught.value.problem
    assert hint in caught.value.hint


def commands(command: CommandSpec = ROOT, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], CommandSpec]]:
    below = [found for child in command.subcommands for found in commands(child, (*path, child.name))]
    return [(path, command), *below]


@pytest.mark.parametrize(("path", "command"), commands(), ids=[" ".join(path) or "byleave" for path, _ in commands()])
def test_help_names_everything_and_fits_the_screen(path: tuple[str, ...], command: CommandSpec) -> None:
    text = help_text(command, path, COMMON)
    lines = text.splitlines()
    named = [child.name for child in command.subcommands] + [positional.name for positional in command.positionals]
    flags = [name for option in (*command.options, *COMMON) for name in option.names]
    assert [word for word in (*named, *flags) if word not in text] == []
    assert [line for line in lines if len(line) > WIDEST or line != line.rstrip()] == []


def test_a_long_explanation_goes_on_under_itself() -> None:
    command = CommandSpec("x", "help", options=(COMMON[0].replace(help="word " * 40),))
    lines = help_text(command, ("x",), ()).splitlines()
    assert max(map(len, lines)) <= WIDEST
    assert [line.index("word") for line in lines if "word" in line] == [14, 14, 14, 14]


def _commands(command: CommandSpec = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[CommandSpec, tuple[str, ...]]]:
    yield command, path
    for child in command.subcommands:
        yield from _commands(child, (*path, child.name))


@pytest.mark.parametrize(("command", "path"), list(_commands()))
def test_the_help_of_every_command_fits_80_columns(command: CommandSpec, path: tuple[str, ...]) -> None:
    assert [line for line in help_text(command, path, COMMON).splitlines() if len(line) > 80] == []
