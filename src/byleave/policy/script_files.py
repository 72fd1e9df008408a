"""The files of scripts that a command line runs, and what marks their content: a yes is for that content.

Scripts are what a command executes by name, what it gives to an interpreter, and the recipes that `make` and its like
read by default. What those files read or import themselves is not followed.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from byleave.core.fs_rules import FsTarget
from byleave.shell.knowledge.program_input import is_interpreter, plain_name
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.core.command_line import CommandLine
    from byleave.core.match_context import MatchPart

LARGEST = 4 << 20  # bytes of a script that are read; of a larger file the kernel's own marks of change count
_SCRIPT_ENDS = (".py", ".sh", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".bash", ".zsh")
_PACKAGE = ("package.json",)
# What these programs run is in files that they find by themselves.
RECIPES = {
    **dict.fromkeys(["make", "gmake"], ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(["npm", "pnpm", "yarn", "bun"], _PACKAGE),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile", "rakefile"),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "invoke": ("tasks.py",),
    "fab": ("fabfile.py",),
}
_RECIPE_OPTIONS = ("-f", "--file", "--makefile", "--justfile", "--taskfile", "--rakefile")


def scripts_of(line: CommandLine) -> tuple[str, ...]:
    """Return the canonical paths of the scripts that a line runs, as far as it names them."""
    found: list[str] = []
    interprets = False
    for part, argv in zip(line.parts, line.argvs, strict=False):
        found += [each.place.canonical for each in part.files if each.op == "exec" and isinstance(each.place, FsTarget)]
        if part.name is None:
            continue
        interprets = interprets or is_interpreter(part.name)
        for directory in part.directories or ():
            found += _in_directory(part, argv, directory)
    if interprets:  # `sh < run.sh`
        read = [each.place for each in line.redirections if not each.writes]
        found += [place.canonical for place in read if isinstance(place, FsTarget)]
    return tuple(dict.fromkeys(found))


def _in_directory(part: MatchPart, argv: tuple[str | None, ...], directory: str) -> Iterator[str]:
    name = plain_name(part.name or "")
    operands = [word for word in argv[1:] if word is not None and not word.startswith("-")]
    if is_interpreter(part.name):
        scripts = [path for word in operands if os.path.isfile(path := os.path.join(directory, word))]
        yield from (os.path.realpath(path) for path in scripts[:1])
    elif (part.name or "").endswith(_SCRIPT_ENDS) and os.path.isfile(os.path.join(directory, part.name or "")):
        yield os.path.realpath(os.path.join(directory, part.name or ""))  # `uv run x.py`
    if name in RECIPES:
        named = [word for before, word in pairwise(argv) if before in _RECIPE_OPTIONS]
        named += [word.partition("=")[2] for word in argv[1:] if word is not None and word.startswith("--")]
        named += [word[2:] for word in argv[1:] if word is not None and word.startswith("-f")]
        for file in (*RECIPES[name], *[word for word in named if word]):
            if os.path.isfile(path := os.path.join(directory, file)):
                yield os.path.realpath(path)


def content_mark(path: str) -> str:
    """Return what stands for the content of a file: its hash, or how it last changed where it cannot be read whole."""
    try:
        with open(path, "rb", opener=_open_quickly) as file:
            content = file.read(LARGEST + 1)
        if len(content) <= LARGEST:
            return digest(content)
    except OSError:
        pass
    try:
        seen = os.stat(path)
    except OSError:
        return "missing"
    return f"{seen.st_dev}.{seen.st_ino}.{seen.st_size}.{seen.st_mtime_ns}.{seen.st_ctime_ns}"


def _open_quickly(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, should it be a pipe by now."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
