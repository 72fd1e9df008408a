"""Every block of commands in README.md and docs is run, in a scratch project, and prints what the page shows.

What cannot run here says why, beside the block; its commands are read, so that no page names a command or an option
that does not exist. `page_steps` has the convention.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from byleave.cli.arguments import CommandSpec, read_arguments
from byleave.cli.commands import COMMON, ROOT, VERSION
from byleave.errors import InputError
from command import Done, byleave, environment
from corpora.room import why_no_room
from docs.page_steps import CHECKOUT, PAGES, Block, Command, blocks, matches

BLOCKS = {page: list(blocks(page.read_text())) for page in PAGES}
RUN = [page for page, found in BLOCKS.items() if any(block.not_run is None for block in found)]
# Exit codes of an answer: ask and deny are answers, and so is a finding.
ANSWERS = {"check": (0, 10, 20), "policy": (0, 1), "doctor": (0, 1), "audit": (0, 1)}
# What a slow machine, or this one, adds.
WARNING = re.compile(r"^byleave: (?:(?:warning|note): .*|.* has been running for \d+ s)\n", re.MULTILINE)
needs_sandbox = pytest.mark.skipif(why_no_room() is not None, reason=str(why_no_room()))


def ids(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


# ---- Run -----------------------------------------------------------------------------------------------------------


class Scratch:
    """A project and a home for the blocks of one page."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "ana"
        self.root = self.home / "shop"
        self.root.mkdir(parents=True)
        (self.root / "src").mkdir()
        (self.root / "src" / "main.py").write_text("print('hello')\n")
        self.env = {
            "HOME": str(self.home),
            "BYLEAVE_HOME": None,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "NO_COLOR": "1",
            "BYLEAVE_SERVICE": "off",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "EXAMPLES": str(CHECKOUT / "docs" / "examples"),
        }

    def prepare(self, block: Block) -> None:
        for name, content in block.files:
            file = self.home / name[2:] if name.startswith("~/") else self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        if block.before:
            done = self.shell(f"set -e\n{block.before}")
            assert done.code == 0, (block.before, done)

    def run(self, command: Command) -> Done:
        words = command.words
        if words[0] == "byleave" and not command.needs_shell:
            done = byleave(*words[1:], cwd=self.root, env=self.env)
        else:
            done = self.shell(command.text)
        return Done(done.code, *(text.replace(str(self.home), "/home/ana") for text in (done.out, done.err)))

    def shell(self, text: str) -> Done:
        done = subprocess.run(
            ["/bin/bash", "-c", text],
            cwd=self.root,
            env=environment(self.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return Done(done.returncode, done.stdout, done.stderr)


def problem(command: Command, done: Done) -> str | None:
    """Return what is not as the page says."""
    words = command.words
    accepted = ANSWERS.get(words[1], (0,)) if words[0] == "byleave" and len(words) > 1 else (0,)
    if done.code not in accepted:
        return f"line {command.line}: {command.text}: exit code {done.code}: {done.out}{done.err}"
    if command.printed is None:
        return None
    out, err = done.out, WARNING.sub("", done.err)
    if any(matches(command.printed, text) for text in (out + err, err + out)):
        return None
    return f"line {command.line}: {command.text} prints\n{out}{err}"


@needs_sandbox
@pytest.mark.parametrize("page", RUN, ids=ids)
def test_the_commands_of_a_page_do_what_it_shows(page: Path) -> None:
    found = []
    with TemporaryDirectory(dir="/tmp") as made:  # a short path: what is printed is wrapped by its length
        scratch = Scratch(Path(made))
        for block in BLOCKS[page]:
            if block.not_run is None:
                scratch.prepare(block)
                found += [problem(command, scratch.run(command)) for command in block.commands]
    assert [each for each in found if each is not None] == []


# ---- Read ----------------------------------------------------------------------------------------------------------


def unknown(words: list[str]) -> str | None:
    """Return what is wrong with the words of a command of ours, None if nothing is."""
    try:
        read_arguments(ROOT, (*COMMON, VERSION), words)
    except InputError as error:
        return error.problem
    return None


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]], ids=ids)
def test_every_command_of_a_page_can_be_read(page: Path) -> None:
    found = [
        f"line {command.line}: {command.text}: {wrong}"
        for block in BLOCKS[page]
        for command in block.commands
        if not command.needs_shell and command.words[:1] == ["byleave"] and (wrong := unknown(command.words[1:]))
    ]
    assert found == []


FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def unknown_names(text: str) -> list[str]:
    """Return the commands and options that a text names and that do not exist."""
    missing = []
    blocks_of_code = "\n".join(found[3] for found in FENCED.finditer(text))
    inline = re.findall(r"`(byleave [^`\n]+)`", FENCED.sub("", text))
    for named in [*inline, *re.findall(r"^(?: *|\$ )(byleave [a-z].*)$", blocks_of_code, re.MULTILINE)]:
        words = re.sub(r"'[^']*'", "X", named).split(" -- ")[0].split("#")[0].split()[1:]
        command = ROOT
        path = ["byleave"]
        for word in words:
            child = next((each for each in command.subcommands if each.name == word), None)
            if child is None:
                break
            command = child
            path.append(word)
        following = words[len(path) - 1] if len(words) > len(path) - 1 else ""
        if command.subcommands and re.fullmatch(r"[a-z]+", following) and following != "help":
            missing.append(" ".join([*path, following]))
        missing += [f"{' '.join(path)} {flag}" for flag in flags(words) if flag not in options_of(command)]
    return missing


def flags(words: list[str]) -> list[str]:
    return [found[0] for word in words if (found := re.match(r"\[?(--[a-z-]+)", word)) and found[1] in word]


def options_of(command: CommandSpec) -> set[str]:
    options = [option for each in (command, *command.subcommands) for option in (*each.options, *COMMON, VERSION)]
    return {f"{bracket}{name}" for option in options for name in option.names for bracket in ("", "[")}


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_a_page_names_commands_and_options_that_exist(page: Path) -> None:
    assert unknown_names(page.read_text()) == []


def test_a_command_or_an_option_that_does_not_exist_is_found() -> None:
    text = "`byleave cheque read x`, `byleave check read --tol T`, `byleave policy lint --fix`\n"
    text += "```text\nbyleave audit lost\n```\n"
    assert unknown_names(text) == ["byleave cheque", "byleave check read --tol", "byleave audit lost"]


# ---- The convention ------------------------------------------------------------------------------------------------

PAGE = """
<!-- file: a.txt -->
```text
content
```

<!-- before: mkdir x -->
```console
$ ls x      # a comment
$ cat a.txt \\
    b
one ... three
...
```

<!-- not run: it waits -->
```sh
# only this
byleave dashboard
```
"""


def test_a_page_is_read_as_steps() -> None:
    assert list(blocks(PAGE)) == [
        Block(
            8,
            (Command(9, "ls x      # a comment"), Command(10, "cat a.txt b", "one ... three\n...")),
            before="mkdir x\n",
            files=(("a.txt", "content\n"),),
        ),
        Block(17, (Command(19, "byleave dashboard"),), not_run="it waits"),
    ]


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\n", False),
        ("a ... c", "a b c\n", True),
        ("a ... c", "a b d\n", False),
        ("a\n...", "a\nb\nc\n", True),
        ("...\nc", "a\nb\nc\n", True),
        ("12:01 3ac37a06b4cd", "02:59 8f7d01edb448\n", True),
        ("/home/ana/x", "/home/you/x\n", True),
        ("a", "a\nb\n", False),
    ],
)
def test_what_is_printed_is_compared(expected: str, found: str, *, same: bool) -> None:
    assert matches(expected, found) == same


def test_every_block_that_is_not_run_says_why() -> None:
    silent = [f"{ids(page)}:{block.line}" for page, found in BLOCKS.items() for block in found if block.not_run == ""]
    assert silent == []


def test_no_page_shows_commands_in_a_block_without_a_language() -> None:
    bare = [
        f"{ids(page)}: {found[3].splitlines()[0]}"
        for page in PAGES
        for found in FENCED.finditer(page.read_text())
        if not found[2] and re.search(r"^(?:\$ |byleave [a-z])", found[3], re.MULTILINE)
    ]
    assert bare == []
