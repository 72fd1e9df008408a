"""What the tables say of options, and that the made table is the written one."""

import inspect
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.load import Workspace
from byleave.shell.knowledge import generate_program_options, program_options_table
from byleave.shell.knowledge.command_facts import CommandFacts
from byleave.shell.knowledge.dangers import dangerous_options
from byleave.shell.knowledge.harmless import options_of
from byleave.shell.knowledge.option_values import harmless_assignment, harmless_in_shell
from byleave.shell.knowledge.options import has_flag, scan, subcommand, subcommand_is_unknown
from byleave.shell.knowledge.programs import BUILT_IN, ProgramFacts, check_keys, read_spec
from byleave.shell.reader import loose_words, read_command
from byleave.shell.syntax.tree import Word

with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "shell", "programs.toml"), "rb") as _file:
    CASES = tomllib.load(_file)

# The programs that must be known at least.
KNOWN = (
    "git rg grep find fd sed awk tar zip sort rsync ssh curl wget npm pnpm yarn npx node pip uv python cargo go make "
    "docker kubectl gh jq less man vim tee cp mv rm chmod chown dd ln install xargs env date ps kill ls cat head tail "
    "wc cut tr diff du df stat file which echo printf test sudo doas nice ionice nohup setsid timeout time stdbuf "
    "parallel watch uvx pipx command"
)


def test_the_made_table_is_the_written_one() -> None:
    source = generate_program_options.source()
    assert (source["program"], source["variables"]) == (program_options_table.PROGRAMS, program_options_table.VARIABLES)
    with open(program_options_table.__file__, encoding="utf-8") as file:
        assert file.read() == generate_program_options.rendered(source)


@pytest.mark.parametrize("name", program_options_table.PROGRAMS)
def test_every_table_makes_sense(name: str) -> None:
    check_keys(name, program_options_table.PROGRAMS[name])
    assert BUILT_IN.table(name) is not None


@pytest.mark.parametrize("name", KNOWN.split())
def test_the_usual_programs_are_known(name: str) -> None:
    assert BUILT_IN.table(name) is not None


@pytest.mark.parametrize("case", CASES["danger"], ids=lambda case: case["text"])
def test_finds_options_that_execute_or_write(case: dict[str, Any]) -> None:
    command = read_command(case["text"]).commands[0]
    found = [f"{danger.kind} {danger.option}" for danger in dangerous_options(command)]
    assert found == case.get("dangers", [])


@pytest.mark.parametrize("case", CASES["flag"], ids=lambda case: case["text"])
def test_knows_a_flag_in_all_its_spellings(case: dict[str, Any]) -> None:
    command = read_command(case["text"]).commands[0]
    for answer, word in ((True, "yes"), (False, "no"), (None, "maybe")):
        assert {flag: has_flag(command, flag) for flag in case.get(word, ())} == dict.fromkeys(
            case.get(word, ()), answer
        )


@pytest.mark.parametrize("case", CASES["subcommand"], ids=lambda case: case["text"])
def test_finds_the_subcommand(case: dict[str, Any]) -> None:
    command = read_command(case["text"]).commands[0]
    found = subcommand(command), subcommand_is_unknown(command)
    assert found == (case.get("is"), case.get("unknown", False))


@pytest.mark.parametrize(
    "name", ["CI", "FORCE_COLOR", "FOO", "NODE_ENV", "RUST_LOG", "PYTHONUNBUFFERED", "IFS", "GIT_AUTHOR_NAME"]
)
def test_harmless_variables_do_not_get_in_the_way(name: str) -> None:
    assert harmless_assignment(name, "1")


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "LD_PRELOAD",
        "GIT_PAGER",
        "GIT_EXTERNAL_DIFF",
        "GIT_CONFIG_COUNT",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "PAGER",
        "EDITOR",
        "HOME",
        "RUSTC_WRAPPER",
        "MAKEFLAGS",
        "BASH_FUNC_x%%",
        "a[0]",
        "npm_config_script_shell",
        "http_proxy",
        "BYLEAVE_HOME",
    ],
)
def test_variables_that_change_what_runs_are_known(name: str) -> None:
    assert not harmless_assignment(name, "/x")


def test_a_pager_that_is_cat_is_harmless() -> None:
    assert harmless_assignment("GIT_PAGER", "cat")
    assert not harmless_assignment("GIT_PAGER", "sh")


def test_users_add_programs_of_their_own() -> None:
    mine = BUILT_IN.extended(
        {
            "mytool": {"values": ["-o"], "writes": ["-o"], "wrap": {"transparent": True}, "stops": True},
            "git": {"sub": {"sync": {"executes": ["--hook"]}}},
        }
    )
    reading = read_command("mytool -o x rm -rf y; git sync --hook=z; git push -f", programs=mine)
    assert [command.argv[0] for command in reading.commands] == ["mytool", "rm", "git", "git"]
    assert dangerous_options(reading.commands[2], mine)[0].option == "--hook"
    assert has_flag(reading.commands[3], "--force", mine)
    assert BUILT_IN.table("mytool") is None


def test_a_key_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown key 'wirtes' for the program 'x'"):
        BUILT_IN.extended({"x": {"wirtes": []}})


def test_loose_words_see_through_quotes_and_directories() -> None:
    assert {"sudo", "rm", "-rf"} <= loose_words("'s'udo /bin/rm \"-rf\" 'x")


def differing(facts: ProgramFacts, text: str) -> list[str]:
    """Return the options of a text of the notation that have one name, and of which one takes a value, another none."""
    spec = read_spec(text)
    takes: dict[str, set[tuple[bool, bool, bool]]] = {}
    for group in spec.groups:
        kind = (group[0] in spec.values, group[0] in spec.optional, group[0] in spec.joined)
        takes.setdefault(facts.canonical[group[0]], set()).add(kind)
    return [f"{facts.name} {name}" for name, kinds in takes.items() if len(kinds) > 1]


def test_spellings_of_one_option_take_values_alike() -> None:
    """`cp -bt DIR FILE` was read as `--backup=t DIR FILE`, and what was written was another file."""
    found = []
    for name in program_options_table.PROGRAMS:
        for behind, text in (options_of(name) or {}).items():
            facts = BUILT_IN.table(name)
            for word in behind.split():
                facts = facts and facts.with_subcommand(word)
            found += differing(facts, text) if facts else []
    # An allow covers none of these with what may be a value behind them.
    assert found == ["git shortlog --committer", "uv run -s"]


@pytest.mark.parametrize("text", ["git shortlog -n --output=x", "git shortlog -c --output=x", "uv run -s x.py"])
def test_an_option_with_and_without_a_value_under_one_name_is_not_harmless(text: str) -> None:
    (command,) = read_command(text).commands
    assert dangerous_options(command) != ()


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("cp -bt a b", ["-b", "-t"]),
        ("cp -urT a b", ["-u", "-r", "-T"]),
        ("mv -bT a b", ["-b", "-T"]),
        ("sort -co a b", ["-c", "-o"]),
        ("diff -ur a b", ["-u", "-r"]),
        ("diff -U3 a b", ["-U"]),
    ],
)
def test_letters_behind_a_letter_without_a_value_are_options(text: str, given: list[str]) -> None:
    (command,) = read_command(text).commands
    assert [each.name for each in scan(command).given] == given


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("tree -Lo 2 out .", [("-L", "2"), ("-o", "out")]),
        ("tree -aLPo 2 x out", [("-a", None), ("-L", "2"), ("-P", "x"), ("-o", "out")]),
        ("tree -L2o out", [("-L", "2"), ("-o", "out")]),
        ("tree -L2 src", [("-L", "2")]),
        ("tree -aL 2 src", [("-a", None), ("-L", "2")]),
    ],
)
def test_values_of_letters_in_one_word_are_the_words_that_follow(
    text: str, given: list[tuple[str, str | None]]
) -> None:
    (command,) = read_command(text).commands
    found = [
        (each.name, each.value if isinstance(each.value, str) else each.value and each.value.text)
        for each in scan(command).given
    ]
    assert found == given


@pytest.mark.parametrize(
    "text",
    [
        "tree -Lo 2 out",
        "tree -L2o out",
        "jest -w2c e.js",
        "jest -bc e.js",
        "jest -w$X e.js",
        "mocha -t2r ./e.js",
        "mocha -bt2000r ./e.js",
        "vitest -t/c e.ts",
        "vitest -wuc e.ts",
    ],
)
def test_a_letter_behind_a_value_is_an_option_where_the_program_takes_it_for_one(text: str) -> None:
    """The parsers of these programs end a value where it is no number, and go on with the next letter."""
    (command,) = read_command(text).commands
    assert dangerous_options(command) != ()


@pytest.mark.parametrize(
    "text", ["tree -L2", "tree -aL 2 src", "jest -w2", "jest -it x", "mocha -bt 2000", "vitest -t=x"]
)
def test_a_number_behind_a_letter_is_its_value(text: str) -> None:
    (command,) = read_command(text).commands
    assert dangerous_options(command) == ()


def test_a_word_that_is_known_could_be_an_option_by_its_first_letter() -> None:
    assert [Word(text, text).could_be_option for text in ("-x", "x", "")] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "harmless"), [("a", True), ("a b", False), ("é", False), ("1x", False), ("PATH", False)]
)
def test_only_a_plain_name_is_a_harmless_variable_of_the_shell(*, name: str, harmless: bool) -> None:
    assert harmless_in_shell(name) is harmless


def test_the_words_of_a_program_are_not_looked_into_where_that_is_not_asked_for() -> None:
    command = read_command("frobnicate 'rm x'").commands[0]
    looked = [CommandFacts(command, BUILT_IN, looks_inside=inside).spelled for inside in (True, False)]
    assert ["rm" in each for each in looked] == [True, False]


def test_a_text_that_is_too_deep_for_the_reader_is_not_understood() -> None:
    usual, depth = sys.getrecursionlimit(), len(inspect.stack())
    sys.setrecursionlimit(depth + 60)
    try:
        reading = read_command("$(" * 30 + "a" + ")" * 30)
    finally:
        sys.setrecursionlimit(usual)
    assert reading.problem is not None
    assert (reading.commands, reading.problem.reason) == ((), "nested too deeply")


def test_a_program_of_the_users_can_say_that_it_adds_words(tmp_path: Path) -> None:
    tree = {
        "programs": {"each": {"wrap": {"appends": True}}},
        "rules": [{"deny": {"path": ".env"}}, {"allow": {"command": ["each", "cat", "echo"]}}],
    }
    policy = Workspace(str(tmp_path)).compile_tree(tree)
    for line, expected in {"each cat": "ask", "each cat .env": "deny", "each echo": "allow"}.items():
        assert policy.decide({"kind": "command", "command": line}).decision.word == expected, line
