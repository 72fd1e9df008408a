"""Whose output reaches a shell other than through a pipe: by descriptors, process substitutions, files of the line.

Looks at all commands of a text at once, and rather says "it may" than follows descriptors and files exactly.
"""

from byleave.shell.data_programs import takes_data
from byleave.shell.model import Word
from byleave.shell.receivers import is_interpreter, is_shell, names_input, runs_anything, takes_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.model import Command, Redirect
    from byleave.shell.programs import Programs

_JOINING = frozenset(["mkfifo", "mknod", "socat", "nc", "ncat", "netcat", "coproc"])
# They write what they read, or what they fetch, into a file that they name.
_TEXT_WRITERS = frozenset(["tee", "sponge", "dd", "curl", "wget", "base64", "xxd", "sed", "awk", "openssl"])
_RUNNING = (["run"], ["eval"], ["exec"])  # `deno run x.ts`
_LOOKING = frozenset(
    [*("chmod", "ls", "cat", "test", "[", "file", "head", "tail", "wc", "stat", "grep", "rg", "less", "bat", "rm")]
)


def marked(commands: "list[Command]", programs: "Programs") -> "tuple[Command, ...]":
    """Return the commands with `piped_to_shell` and `runs_anything` as far as the whole text tells."""
    if len(commands) == 1 and not commands[0].redirects:
        first = commands[0]
        return (first.replace(runs_anything=True),) if runs_anything(first, programs) else (first,)
    scripts = frozenset(name for command in commands for name in _scripts(command))
    reached = any(takes_script(command, programs) is not False for command in commands)
    joined = (reached and any(_joins(command) for command in commands)) or any(
        not scripts.isdisjoint(_named(command)) for command in commands if command.program not in _LOOKING
    )
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


def _scripts(command: "Command") -> "Iterator[str]":
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


def _named(command: "Command") -> "Iterator[str]":
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


def _written(command: "Command") -> "Iterator[str]":
    """Yield the last names of the files into which a command puts text."""
    yield from (_named(command) if command.program in _TEXT_WRITERS else _redirected(command))


def _redirected(command: "Command") -> "Iterator[str]":
    for item in command.redirects:
        if item.writes and item.target is not None:
            yield _base(item.target)


def _joins(command: "Command") -> bool:
    """Whether a command connects descriptors so that it cannot be told what reads from where."""
    if command.program in _JOINING:
        return True
    if any(names_input(word) and not _is_own(word.text) for word in command.words[1:]):
        return True
    return any(_is_odd(item) for item in command.redirects)


def _is_odd(item: "Redirect") -> bool:
    if item.kind == "text":
        return False
    if item.kind == "descriptor":
        return item.target not in ("0", "1", "2", "-") or (item.fd or 0) > 2
    named = names_input(Word(item.target, item.prefix))
    return (item.fd or 0) > 2 or (named is True and not _is_own(item.target))


def _is_own(text: str | None) -> bool:
    """Whether a name of a descriptor is that of the standard input, which a pipe or a redirection gives it."""
    return text is not None and (text == "-" or text.endswith(("/stdin", "/fd/0")))


def _feeds_shell(command: "Command", commands: "list[Command]") -> bool:
    """Whether its output goes into a process of its own (`> >(..)`) while the line starts a shell somewhere."""
    outputs = [each for each in command.redirects if each.kind == "process" and ">" in each.operator]
    return bool(outputs) and any(is_shell(other.name) for other in commands)


def _base(text: str) -> str:
    return text[text.rfind("/") + 1 :]
