"""Read a bash command line: which commands would it run, with which words, where?

Pure and total: it never raises, and what it does not understand it says so, with the place. Sound before complete:
a text is understood only when bash could run nothing else than the commands listed.

Start at `read_command`. The grammar: `grammar`. Directories, functions and wrappers: `walk`.

Output can reach a shell other than through a pipe: by descriptors, process substitutions, files of the line. That is
found by looking at all commands of a text at once, and rather says "it may" than follows descriptors and files exactly.
`loose_words` are the words of a text that was not understood, for rules that must hold even then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.program_input import (
    announces_code,
    is_interpreter,
    is_shell,
    names_input,
    runs_anything,
    takes_data,
    takes_script,
)
from byleave.shell.knowledge.programs import BUILT_IN, ProgramTables
from byleave.shell.model import NotUnderstoodError, Reading, ReadingProblem
from byleave.shell.state import ShellState
from byleave.shell.syntax.cursor import BASH, EITHER, refused_at
from byleave.shell.syntax.grammar import parse
from byleave.shell.syntax.tree import Word
from byleave.shell.walk import Walker
from byleave.shell.wrappers import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.model import Command, Redirect


_JOINING = frozenset(["mkfifo", "mknod", "socat", "nc", "ncat", "netcat", "coproc"])
# They write what they read, or what they fetch, into a file that they name.
_TEXT_WRITERS = frozenset(["tee", "sponge", "dd", "curl", "wget", "base64", "xxd", "sed", "awk", "openssl"])
_RUNNING = (["run"], ["eval"], ["exec"])  # `deno run x.ts`
_LOOKING = frozenset(
    [*("chmod", "ls", "cat", "test", "[", "file", "head", "tail", "wc", "stat", "grep", "rg", "less", "bat", "rm")]
)


def marked(commands: list[Command], programs: ProgramTables) -> tuple[Command, ...]:
    """Return the commands with `piped_to_shell` and `runs_anything` as far as the whole text shows."""
    if len(commands) == 1 and not commands[0].redirects:
        first = commands[0]
        return (first.replace(runs_anything=True),) if runs_anything(first, programs) else (first,)
    scripts = frozenset(name for command in commands for name in _scripts(command))
    reached = any(takes_script(command, programs) is not False for command in commands)
    joined = (reached and any(_joins(command) for command in commands)) or any(
        not scripts.isdisjoint(_redirected(command) if command.program in _LOOKING else _named(command))
        for command in commands
    )
    if any(_keeps_output(command) for command in commands):
        joined = joined or any(_runs_unknown_code(command) for command in commands)
    written = frozenset(name for command in commands for name in _written(command))
    made: list[Command] = []
    for command in commands:
        anything = runs_anything(command, programs) or not written.isdisjoint(_scripts(command))
        piped = command.piped_to_shell
        if piped is False and command.words and joined:
            piped = None
        if piped is not True and _feeds_shell(command, commands):
            piped = True
        same = piped is command.piped_to_shell and not anything
        made.append(command if same else command.replace(piped_to_shell=piped, runs_anything=anything))
    return tuple(made)


def _runs_unknown_code(command: Command) -> bool:
    """Whether an interpreter is given code that is known only at run time: `python3 -c "$x"`, `perl <<< "$x"`."""
    if command.wraps is not None or not is_interpreter(command.name):
        return False
    if any(item.operator == "<<<" and item.target is None for item in command.redirects):
        return True
    return announces_code(command.words) and any(word.text is None for word in command.words[1:])


def _keeps_output(command: Command) -> bool:
    """Whether a variable may hold what another command of the line puts out."""
    if command.program in ("read", "mapfile", "readarray"):
        return True
    return any(item.value is None for item in command.assignments)


def _scripts(command: Command) -> Iterator[str]:
    """Yield the last names of the files that a command runs as scripts or programs."""
    if not command.words or command.wraps is not None or command.name is None:
        return
    if "/" in command.name and not takes_data(command) and not is_interpreter(command.name):
        yield _base(command.name)
    if not is_interpreter(command.name) and command.program not in ("source", "."):
        return
    operands = [word.text for word in command.words[1:] if word.text is not None and word.text[:1] not in ("-", "+")]
    yield from (_base(text) for text in operands[: 2 if operands[:1] in _RUNNING else 1])
    for item in command.redirects:
        if item.operator == "<" and item.kind == "file" and item.target is not None:
            yield _base(item.target)


def _named(command: Command) -> Iterator[str]:
    """Yield the last names of the files that a command may write: its operands, values of options, redirections."""
    if command.wraps is not None or is_interpreter(command.name) or command.program in ("source", "."):
        yield from _redirected(command)
        return
    for word in command.words[1:]:
        text = word.text
        if text is not None:
            yield _base(text)
            yield _base(text.partition("=")[2])
            if text.startswith("-") and not text.startswith("--"):
                yield _base(text[2:])
    yield from _redirected(command)


def _written(command: Command) -> Iterator[str]:
    """Yield the last names of the files into which a command puts text."""
    yield from (_named(command) if command.program in _TEXT_WRITERS else _redirected(command))


def _redirected(command: Command) -> Iterator[str]:
    for item in command.redirects:
        if item.writes and item.target is not None:
            yield _base(item.target)


def _joins(command: Command) -> bool:
    """Whether a command connects descriptors so that it is not clear what reads from where."""
    if command.program in _JOINING:
        return True
    if any(names_input(word) and not _is_own(word.text) for word in command.words[1:]):
        return True
    return any(_is_odd(item) for item in command.redirects)


def _is_odd(item: Redirect) -> bool:
    if item.kind == "text":
        return False
    if item.kind == "descriptor":
        return item.target not in ("0", "1", "2", "-") or (item.fd or 0) > 2
    named = names_input(Word(item.target, item.prefix))
    return (item.fd or 0) > 2 or (named is True and not _is_own(item.target))


def _is_own(text: str | None) -> bool:
    """Whether a name of a descriptor is that of the standard input, which a pipe or a redirection gives it."""
    return text is not None and (text == "-" or text.endswith(("/stdin", "/fd/0")))


def _feeds_shell(command: Command, commands: list[Command]) -> bool:
    """Whether its output goes into a process of its own (`> >(..)`) while the line starts a shell somewhere."""
    outputs = [each for each in command.redirects if each.kind == "process" and ">" in each.operator]
    return bool(outputs) and any(is_shell(other.name) for other in commands)


def _base(text: str) -> str:
    return text[text.rfind("/") + 1 :]


# The dialects of shells by their names, as actions give them; without a name it may be bash or sh.
DIALECTS: dict[str | None, str] = {None: EITHER, **{name: dialect for name, dialect in SHELLS.items() if dialect}}
SIZE_LIMIT = 32 * 1024  # bytes; EDGE_CASES: longer texts are not looked at


def read_command(
    text: str, cwd: str | None = None, *, programs: ProgramTables = BUILT_IN, dialect: str = BASH
) -> Reading:
    """Return what `text` would do when bash, or the shell of another `dialect`, runs it in `cwd`.

    `cwd` should be canonical. Without it directories are relative to where the text starts. `programs` are the
    tables of what wrappers and options mean, if there are more than the built-in ones.
    """
    if len(text) > SIZE_LIMIT or (not text.isascii() and len(text.encode("utf-8", "replace")) > SIZE_LIMIT):
        return _not_understood(text, "longer than 32 KiB", SIZE_LIMIT)
    refused = refused_at(text)
    if refused >= 0:
        return _not_understood(text, "a character that is not allowed in a command", refused)
    commands: list[Command] = []
    start = cwd if cwd is not None else "."
    try:
        grammar, tree = parse(text, dialect=dialect)
        walker = Walker(grammar, commands, start, programs)
        walker.sequence(tree, ShellState((start,), None, frozenset(), frozenset()))
    except NotUnderstoodError as problem:
        return _not_understood(text, problem.reason, min(problem.at, len(text)))
    except RecursionError:
        return _not_understood(text, "nested too deeply", 0)
    return Reading(text, marked(commands, programs))


def _not_understood(text: str, reason: str, offset: int) -> Reading:
    return Reading(text, (), ReadingProblem(reason, offset, text.count("\n", 0, offset) + 1))


BREAKS = str.maketrans(dict.fromkeys("|&;()<>{}`$\n\t\r", " "))
QUOTES = str.maketrans("", "", "'\"\\")


def loose_words(text: str) -> frozenset[str]:
    """Return whatever can be taken for a word of `text`, as it stands and without quotes.

    Only good for saying no: a text that holds all the words of a deny rule is denied although it is not understood.
    Names are also given without their directory.
    """
    joined = text.replace("\\\n", "")
    found = set(joined.translate(BREAKS).split())
    found.update(joined.translate(QUOTES).translate(BREAKS).split())
    found.update([word[word.rfind("/") + 1 :] for word in found if "/" in word])
    return frozenset(found)
