"""What a page of the documentation says to type, as steps that a test can take.

A block ```` ```console ```` has commands behind `$ `, each followed by what it prints; `...` stands for any text in a
line, or alone for any lines. A block ```` ```sh ```` has commands only. Comments of Markdown in front of a block, which
no reader sees, say what it needs:

    <!-- before: COMMANDS -->   a script that runs first
    <!-- file: NAME -->         the block is a file of the project, and is written
    <!-- not run: WHY -->       the block cannot run here; its commands are only read

Every page has a project and a home of its own; its blocks run in order.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
_STEP = re.compile(
    r"^<!-- (before|file|not run): *(.*?) *-->$|^( *)```(\w*)[^\n]*\n(.*?)^\3```$", re.MULTILINE | re.DOTALL
)
_SHELL = ("console", "sh")
_OPERATORS = re.compile(r"[|&;<>`]|\$[({A-Za-z?]|\*|~")


@dataclass(frozen=True)
class Command:
    """One command of a page, where it stands, and what the page says that it prints: None if it says nothing."""

    line: int
    text: str
    printed: str | None = None

    @property
    def words(self) -> list[str]:
        """Its words, without comments."""
        return shlex.split(self.text, comments=True)

    @property
    def needs_shell(self) -> bool:
        """Whether it is more than words."""
        return bool(_OPERATORS.search(re.sub(r"'[^']*'|#.*$", "", self.text)))


@dataclass(frozen=True)
class Block:
    """The commands of one block, what happens first, and why it is not run."""

    line: int
    commands: tuple[Command, ...]
    before: str = ""
    files: tuple[tuple[str, str], ...] = ()
    not_run: str | None = None


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of commands of a page, in order."""
    before, name, reason = "", "", None
    files: list[tuple[str, str]] = []
    for found in _STEP.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        match found[1]:
            case "before":
                before += f"{found[2]}\n"
            case "file":
                name = found[2]
            case "not run":
                reason = found[2]
            case _ if name:
                files.append((name, found[5]))
                name = ""
            case _ if found[4] in _SHELL:
                commands = tuple(_commands(found[4], found[5], line + 1))
                yield Block(line, commands, before, tuple(files), reason)
                before, reason, files = "", None, []


def _commands(kind: str, body: str, line: int) -> Iterator[Command]:
    if kind == "sh":
        for number, text in enumerate(_joined(body)):
            if text and not text.startswith("#"):
                yield Command(line + number, text)
        return
    text, at, printed = "", 0, list[str]()
    for number, row in enumerate([*_joined(body), "$ "]):
        if row.startswith("$ ") or row == "$":
            if text:
                yield Command(line + at, text, "\n".join(printed).rstrip() or None)
            text, at, printed = row[2:], number, []
        else:
            printed.append(row)


def _joined(body: str) -> list[str]:
    """Return the lines, those that end in a backslash with the next."""
    return re.sub(r"\\\n\s*", "", body.rstrip("\n")).split("\n")


def matches(expected: str, found: str) -> bool:
    """Whether a page shows what was printed: numbers, ids and homes are those of one run, `...` is anything."""
    pattern = "".join(
        r"(?:.*\n)*?" if row.strip() == "..." else ".*".join(map(re.escape, row.split("..."))) + r" *\n"
        for row in _plain(expected).split("\n")
    )
    return re.fullmatch(pattern, _plain(found).rstrip("\n") + "\n") is not None


def _plain(text: str) -> str:
    text = re.sub(r"/home/\w+", "~", text)
    text = re.sub(r"\b[0-9a-f]{12,}\b", "H", text)
    return re.sub(r" +", " ", re.sub(r"\d+", "0", text))
