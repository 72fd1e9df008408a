"""The tables of harmless options: complete, of one mind with themselves, and held against the programs' own help."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from byleave.core.command_groups import GROUPS
from byleave.shell.knowledge.dangers import dangerous_options
from byleave.shell.knowledge.harmless import FAMILIES, options_of
from byleave.shell.knowledge.options import scan
from byleave.shell.knowledge.programs import BUILT_IN, ProgramFacts, read_spec
from byleave.shell.reader import read_command

PROGRAMS = [program for programs in FAMILIES.values() for program in programs.split()]
ALLOWED_GROUPS = ("read_only_git", "compilation", "safe_npm", "package_listing", "tests", "read_only_files")
# The shell's own: they have no options, or none that a table would say more of than the reader does.
SHELL_WORDS = frozenset(["source", ".", ":", "break", "continue", "return", "exit", "wait"])

# How each program tells its options.
HELP = {
    program: (program, "--help")
    for program in (
        *("ls", "cat", "head", "tail", "wc", "cut", "tr", "sort", "uniq", "diff", "cmp", "comm", "paste", "du", "df"),
        *(
            "stat",
            "file",
            "realpath",
            "readlink",
            "md5sum",
            "nl",
            "tac",
            "column",
            "uname",
            "id",
            "seq",
            "date",
            "grep",
        ),
        *("rg", "tee", "cp", "mv", "ln", "mkdir", "touch", "rm", "chmod", "tar", "make", "ninja", "cmake", "ctest"),
        *("sed", "gawk", "mypy", "black", "flake8", "nox", "javac", "rustc", "nm", "objdump"),
    )
} | {"curl": ("curl", "--help", "all")}
GIT = (
    *(
        "add",
        "branch",
        "checkout",
        "clean",
        "commit",
        "describe",
        "fetch",
        "for-each-ref",
        "grep",
        "ls-files",
        "ls-tree",
    ),
    *("merge", "push", "reset", "restore", "status", "switch", "tag"),
)
FEWEST = 3  # options; a program that tells fewer failed
# Harmless options that some versions of a program have and others do not, or that its short help leaves out.
ELSEWHERE = {
    "wc": {"--total"},
    "md5sum": {"--algorithm"},
    "objdump": {"--section-headers", "--headers"},
    "grep": {"--include-dir", "--unix-byte-offsets"},
    "rg": {
        *("--generate", "--hyperlink-format", "--maxdepth", "--require-git", "--passthrough", "--sort-files"),
        *("--stop-on-nonmatch", "--no-byte-offset", "--no-text"),
    },
    "make": {"--shuffle"},
    "ninja": {"--help"},
    "cmake": {"--target", "--config", "--parallel", "--clean-first", "--verbose"},  # of `cmake --build`
    "javac": {"--add-exports", "--add-reads"},
    "rustc": {"--color", "--error-format", "--remap-path-prefix"},
    "mypy": {"--local-partial-types"},
    "curl": {"--show-headers", "--trace-ids"},
    "sed": {"--zero-terminated", "--binary"},
    "gawk": {"--csv"},
    "cp": {"--debug"},
    "git add": {"--no-ignore-removal", "--no-all"},
    "git branch": {"--omit-empty"},
    "git tag": {"--omit-empty", "--trailer"},
    "git fetch": {"--porcelain", "--no-tags"},
    "git grep": {"--file"},
    "git merge": {"--compact-summary"},
    "git for-each-ref": {"--exclude", "--include-root-refs", "--omit-empty", "--stdin"},
    "git push": {"--branches"},
}


def tables(table: ProgramFacts, raw: dict[str, Any] | None = None) -> Iterator[ProgramFacts]:
    yield table
    for name in (raw or {"sub": table.sub})["sub"]:
        yield from tables(table.with_subcommand(name))


def commands(tree: Any) -> Iterator[str]:
    """Yield the programs that a group names."""
    if isinstance(tree, dict):
        named = tree.get("command", [])
        yield from [named] if isinstance(named, str) else named
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from commands(each)


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_option_is_called_harmless_and_dangerous(program: str) -> None:
    table = BUILT_IN.table(program)
    assert table is not None
    for each in tables(table):
        assert each.covered is not None
        assert each.covered & (each.executes | each.writes) == frozenset(), each.name
        assert each.covered <= frozenset(each.canonical.values()), each.name


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_line_of_the_notation_is_read(program: str) -> None:
    for subcommand, text in (options_of(program) or {}).items():
        spec = read_spec(text)
        names = [name for group in spec.groups for name in group]
        assert all(name[0] in "-+" and len(name) > 1 for name in names), subcommand


@pytest.mark.parametrize("group", ALLOWED_GROUPS)
def test_every_program_of_a_group_has_a_closed_table(group: str) -> None:
    named = sorted(set(commands(GROUPS[group])) - SHELL_WORDS)
    open_ones = [name for name in named if (table := BUILT_IN.table(name)) is None or table.covered is None]
    assert open_ones == []


@pytest.mark.parametrize("program", HELP)
def test_harmless_options_are_options_of_the_program(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed here")
    text = told(*HELP[program])
    if text.count(" --") < FEWEST:
        pytest.skip(f"{program} does not tell its options here")
    table = BUILT_IN.table(program)
    assert table is not None
    assert missing(table, text) - ELSEWHERE.get(program, set()) == set()


@pytest.mark.parametrize("subcommand", GIT)
def test_harmless_options_of_git_are_options_of_git(subcommand: str) -> None:
    table = BUILT_IN.table("git")
    assert table is not None
    own = table.with_subcommand(subcommand)
    unknown = missing(own, told("git", subcommand, "-h")) - frozenset(table.canonical)
    assert unknown - ELSEWHERE.get(f"git {subcommand}", set()) == set()


def told(*command: str) -> str:
    """Return what a program says of itself."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    return done.stdout + done.stderr


def missing(table: ProgramFacts, text: str) -> set[str]:
    """Return the long options that a table calls harmless and that the help does not know; `--no-x` counts as `--x`."""
    known = set(re.findall(r"--[A-Za-z0-9][\w.-]*", text.replace("[no-]", "")))
    covered = [name for name, canonical in table.canonical.items() if canonical in (table.covered or ())]
    known |= {f"--{name[5:]}" for name in known if name.startswith("--no-")} | {f"--no-{name[2:]}" for name in known}
    return {name for name in covered if name.startswith("--") and name not in known}


def test_options_whose_values_are_files_are_marked() -> None:
    def marked(text: str) -> dict[str, str]:
        table = scan(read_command(text).commands[0]).table
        assert table is not None
        return dict(table.files)

    assert marked("gcc")["-o"] == "write"
    assert marked("git commit")["-F"] == "read"
    assert marked("tsc")["--outDir"] == "write_dir"
    assert marked("docker compose")["-f"] == "exec"


@pytest.mark.parametrize(
    ("text", "dangers"),
    [
        ("gcc -o x a.c", []),
        ("gcc -o /x a.c", ["unlisted -o"]),
        ("gcc -o ../x a.c", ["unlisted -o"]),
        ('gcc -o "$X" a.c', ["unlisted -o"]),
        ("gcc -o /dev/null a.c", []),
        ("pytest --cov-report=xml:out/c.xml", []),
        ("pytest --cov-report=xml:/out/c.xml", ["unlisted --cov-report"]),
    ],
)
def test_a_file_that_a_harmless_option_writes_lies_inside(text: str, dangers: list[str]) -> None:
    command = read_command(text).commands[0]
    assert [f"{danger.kind} {danger.option}" for danger in dangerous_options(command)] == dangers


def test_a_user_adds_harmless_options_and_dangerous_ones() -> None:
    mine = BUILT_IN.extended(
        {
            "ls": {"flags": ["--mine"], "executes": ["--sort"]},
            "mytool": {"values": ["-o"]},
            "strict": {"flags": ["-v"], "closed": True},
        }
    )
    text = "ls --mine; ls --sort=x; ls --other; mytool --any -o x; strict -v; strict -w"
    found = [dangerous_options(command, mine) for command in read_command(text, programs=mine).commands]
    assert [[f"{danger.kind} {danger.option}" for danger in dangers] for dangers in found] == [
        [],
        ["executes --sort"],
        ["unlisted --other"],
        [],
        [],
        ["unlisted -w"],
    ]
