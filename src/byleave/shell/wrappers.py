"""Commands that run other commands: each child is listed as a command of its own.

Which program wraps what is data (`program_options.toml`, key `wrap`; read in `wrapped`). In code are only those with a
grammar of their own: the shell's own, those that run a command for each of many things, shells. Where the
child is not certain the text is not understood; a program without an entry is simply a command.

The shell's own wrappers are `command`, `builtin`, `exec`, `eval`, `trap`. `find -exec`, `fd -x`, `xargs` and `parallel`
run a command for each of many things, which are known only at run time. `byleave run` and `byleave outside` start what
is behind `--`, or the text of `--shell`. Of a shell it counts where its script comes
from: a literal script of `sh -c`, or of a here-document, is read like the text itself. A script that is known only at
run time, or in the language of a shell that is not followed, is not understood. A script in a file is just an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_operands import find_roots
from byleave.shell.knowledge.options import scan_words
from byleave.shell.knowledge.program_input import names_input
from byleave.shell.model import NotUnderstoodError
from byleave.shell.syntax.cursor import BASH, EITHER, POSIX, ZSH
from byleave.shell.syntax.tree import Piece, Word, is_decimal
from byleave.shell.syntax.vocabulary import SET_NAMES
from byleave.shell.wrapped_command import APPENDED, WrappedCommand, child_words, from_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.shell.state import Flow
    from byleave.shell.wrapped_command import CommandCall, CommandLister

    Words = tuple[Word, ...]


def run_command(wrapped: WrappedCommand) -> Flow:
    """`command` runs a program or builtin, never a function; with -v or -V nothing."""
    words = wrapped.words[1:]
    while words and words[0].text in ("-p", "--"):
        ended, words = words[0].text == "--", words[1:]
        if ended:
            break
    if words and words[0].text in ("-v", "-V", "-pv", "-pV"):
        return wrapped.plain()
    if not words:
        return wrapped.plain()
    if words[0].text is None or words[0].text.startswith("-"):
        wrapped.refuse("which command `command` runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    return wrapped.child(words, transparent=True, inside=wrapped.walker.dialect != ZSH)  # zsh runs only programs by it


def run_builtin(wrapped: WrappedCommand) -> Flow:
    words = wrapped.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    if not words:
        return wrapped.plain()
    if words[0].text is None or words[0].text.startswith("-"):
        wrapped.refuse("which builtin runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    return wrapped.child(words, transparent=True, inside=True)


def run_exec(wrapped: WrappedCommand) -> Flow:
    """`exec` replaces the shell; without a command it only redirects."""
    words = wrapped.words[1:]
    while words and (text := words[0].text) is not None and text.startswith("-"):
        words = words[2:] if text == "-a" else words[1:]
        if text not in ("-a", "-c", "-l", "-cl", "-lc", "--"):
            wrapped.refuse("an option of `exec` that is not known")
        if text == "--":
            break
    if not words:
        return wrapped.plain()
    if words[0].text is None and words[0].could_be_option:
        wrapped.refuse("which command `exec` runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    wrapped.child(words, transparent=True)
    return None, None


def run_eval(wrapped: WrappedCommand) -> Flow:
    words = wrapped.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    texts = [word.text for word in words]
    if None in texts:
        wrapped.refuse("a script known only at run time")
    wrapped.list_itself(transparent=True)
    return wrapped.evaluate(" ".join([text or "" for text in texts]), wrapped.state)[0]


def run_trap(wrapped: WrappedCommand) -> Flow:
    """`trap action signal..`: the action may run at any time, so it must leave the shell where it is."""
    words = wrapped.words[1:]
    ended = bool(words) and words[0].text == "--"
    if ended:
        words = words[1:]
    action = words[0].text if words else ""
    if action is None or any(word.text is None for word in words):
        wrapped.refuse("a script known only at run time")
    if len(words) < 2 or action in ("", "-") or (action[0] == "-" and not ended) or is_decimal(action):
        return wrapped.plain()
    wrapped.list_itself(transparent=True)
    _, moves = wrapped.evaluate(action, wrapped.state.lost())
    if moves:
        wrapped.refuse("a trap that may change the directory")
    return wrapped.state, wrapped.state


def run_find(wrapped: WrappedCommand) -> Flow:
    """`find .. -exec command ;`: each such action is a child; `{}` in its words is known only at run time."""
    words = wrapped.words
    children: list[tuple[Words, bool]] = []
    index = 1
    while index < len(words):
        action = words[index].text
        index += 1
        if action in ("-exec", "-execdir", "-ok", "-okdir"):
            begin = index
            while index < len(words) and not _ends_exec(words, index, begin):
                index += 1
            if index >= len(words) or index == begin:
                wrapped.refuse(f"`find {action}` without an end", words[begin - 1])
            children.append((words[begin:index], action.endswith("dir")))
    if not children:
        return wrapped.plain()
    wrapped.list_itself(transparent=False)
    below = _below(words[1:])
    for child, elsewhere in children:
        state = wrapped.state.at(None, None) if elsewhere else wrapped.state
        marked = tuple([_found(word, below) if word.text == "{}" else replaced(word, "{}") for word in child])
        wrapped.child(marked, transparent=False, state=state)
    return wrapped.state, wrapped.state


def _below(words: Words) -> tuple[Piece, ...]:
    """Return what stands for everything below the places where `find` starts; nothing where those are not known."""
    if any(word.text == "-files0-from" for word in words):
        return ()
    roots = [word.text for word in find_roots(words)]
    return tuple([Piece("below", root) for root in roots or ["."] if root is not None]) if None not in roots else ()


def _found(word: Word, below: tuple[Piece, ...]) -> Word:
    return Word(None, "", word.start, word.end, splits=True, pieces=below)


def _ends_exec(words: Words, index: int, begin: int) -> bool:
    text = words[index].text
    return text == ";" or (text == "+" and index > begin and words[index - 1].text == "{}")


def replaced(word: Word, mark: str) -> Word:
    """Return the word with `mark` standing for something known only at run time."""
    if word.text is None or mark not in word.text:
        return word
    many = mark == word.text
    return Word(None, word.text[: word.text.index(mark)], word.start, word.end, splits=many)


def run_fd(wrapped: WrappedCommand) -> Flow:
    """`fd -x command` and `fd -X command`: the child runs to the end or to a `;`."""
    words = wrapped.words
    for index, word in enumerate(words):
        text = word.text or ""
        if index and text.startswith("--exec") and "=" in text:
            wrapped.refuse("`fd --exec=..` of an unusual form", word)
        if index and (text in ("--exec", "--exec-batch") or _ends_in_exec(text)):
            child = words[index + 1 :]
            stops = [place for place, item in enumerate(child) if item.text == ";"]
            child = child[: stops[0]] if stops else child
            if not child:
                break
            wrapped.list_itself(transparent=False)
            marked = tuple([_any_replaced(item, ("{}", "{/}", "{//}", "{.}", "{/.}")) for item in child])
            wrapped.child((*marked, APPENDED), transparent=False)
            return wrapped.state, wrapped.state
    return wrapped.plain()


def _ends_in_exec(text: str) -> bool:
    return text.startswith("-") and not text.startswith("--") and text.endswith(("x", "X"))


def _any_replaced(word: Word, marks: tuple[str, ...]) -> Word:
    for mark in marks:
        word = replaced(word, mark)
    return word


def run_xargs(wrapped: WrappedCommand) -> Flow:
    """`xargs command`: words from its input are added, or put in place of the mark of -I."""
    found = scan_words(wrapped.words, wrapped.walker.programs.table("xargs"))
    child, _ = child_words(wrapped, found, {})
    marks = [option.value for option in found.given if option.name in ("-I", "-i")]
    if not child:
        return wrapped.plain()
    wrapped.list_itself(transparent=False)
    if marks:
        mark = marks[-1].text if isinstance(marks[-1], Word) else marks[-1]
        if not mark:
            mark = "{}"
        child = tuple([replaced(word, mark) for word in child])
    else:
        child = (*child, APPENDED)
    wrapped.child(child, transparent=False)
    return wrapped.state, wrapped.state


def run_parallel(wrapped: WrappedCommand) -> Flow:
    """`parallel command ::: words`: the command goes through a shell, so its words must be plain."""
    found = scan_words(wrapped.words, wrapped.walker.programs.table("parallel"))
    child, _ = child_words(wrapped, found, {})
    stops = [index for index, word in enumerate(child) if (word.text or "").startswith(":::")]
    child = child[: stops[0]] if stops else child
    if not child:
        wrapped.refuse("commands that `parallel` reads from its input")
    for word in child:
        if word.text is None or not frozenset("|&;()<>$`\\\"'*?[]~#= \t\n").isdisjoint(word.text):
            wrapped.refuse("`parallel` gives its words to a shell", word)
    wrapped.list_itself(transparent=False)
    marked = tuple([_any_replaced(word, ("{}", "{.}", "{/}", "{//}", "{/.}", "{1}", "{2}")) for word in child])
    wrapped.child((*marked, APPENDED), transparent=False)
    return wrapped.state, wrapped.state


_BYLEAVE = "byleave"
_BYLEAVE_VALUES = frozenset(
    [
        "--root",
        "--policy",
        "--session",
        "--tool",
        "--access",
        "--mount",
        "--shell",
        "--cwd-file",
        "--home",
        "--packages",
    ]
)


_MODULES = (
    "/byleave",
    "mbyleave",
    ".byleave",
    "/byleave/__main__.py",
    "/byleave/cli/__main__.py",
    "/byleave/cli/main.py",
)


def run_byleave(wrapped: WrappedCommand) -> Flow:
    """`byleave run` and `byleave outside`: what they start, as words behind `--` or as the text of `--shell`.

    Rules for byleave itself and for what it starts both count. A text that `outside` starts and that is not understood
    is not listed: whether that is denied depends on the words of the whole line.
    """
    words = wrapped.words
    behind_python = wrapped.name != _BYLEAVE
    own = words[1:] if not behind_python else words[_module_at(words) + 1 :]
    dashes = next((place for place, word in enumerate(own) if word.text == "--"), len(own))
    texts = [word.text for word in own[:dashes]]
    command = _own_command(texts)
    child = own[dashes + 1 :] if dashes < len(own) else own[_dashless_child(texts) :]
    if command == "outside" and child:
        wrapped.list_itself(transparent=False)
        walker, listed, frame = wrapped.walker, len(wrapped.walker.commands), wrapped.walker.frame
        try:
            wrapped.child(child, transparent=False)
        except NotUnderstoodError:
            del walker.commands[listed:]
            walker.frame = frame
        return wrapped.state, wrapped.state
    if command != "run":
        return wrapped.plain()
    scripts = list(_shell_texts(own[:dashes]))
    if scripts:
        if None in scripts:
            return wrapped.plain()  # an argument known only at run time is denied to agents
        if behind_python and any((text or "").startswith("--cwd-file") for text in texts):
            wrapped.refuse("a file that byleave writes, named behind the options of Python")
        wrapped.list_itself(transparent=not behind_python)
        for script in scripts:
            wrapped.script(script or "", EITHER, transparent=not behind_python)
        return wrapped.state, wrapped.state
    if not child:
        return wrapped.plain()
    wrapped.list_itself(transparent=False)
    wrapped.child(child, transparent=False)
    return wrapped.state, wrapped.state


def _module_at(words: Words) -> int:
    """Return where Python is given the name of byleave's module, or of its program; behind the last word if nowhere."""
    for place, word in enumerate(words[1:], start=1):
        text = word.text or ""
        if text == _BYLEAVE or text.endswith(_MODULES):
            return place
    return len(words)


def _own_command(texts: list[str | None]) -> str | None:
    """Return the command word of byleave's arguments."""
    skip = False
    for text in texts:
        if skip or text is None or text.startswith("-"):
            skip = not skip and text in _BYLEAVE_VALUES
            continue
        return text
    return None


def _dashless_child(texts: list[str | None]) -> int:
    """Return where the words begin that `byleave run` starts without `--`; behind the last word if there are none."""
    skip, seen = False, False
    for place, text in enumerate(texts):
        if skip or (text is not None and text.startswith("-")):
            skip = not skip and text in _BYLEAVE_VALUES
        elif seen:
            return place
        else:
            seen = text == "run"
    return len(texts)


def _shell_texts(own: Words) -> Iterator[str | None]:
    """Yield the text of each `--shell`; None for one that is not there, or known only at run time."""
    for place, word in enumerate(own):
        if word.text == "--shell":
            yield own[place + 1].text if place + 1 < len(own) else None
        elif word.prefix.startswith("--shell="):
            yield None if word.text is None else word.text[len("--shell=") :]


def unwrap(walker: CommandLister, name: str, call: CommandCall) -> Flow:
    """List a command, and its children if it is a wrapper; return the flow behind it."""
    base = name[name.rfind("/") + 1 :]
    inside = INSIDE.get(name) if walker.frame.inside else None
    if base.startswith(("python", "pypy")) and _module_at(call.words) < len(call.words):
        return run_byleave(WrappedCommand(walker, base, call))
    if inside is None and walker.programs.is_plain(base) and base not in SPECIAL:
        return walker.plain(call)
    special = inside or SPECIAL.get(base)
    table = walker.programs.table(base) if special is None else None
    if special is None and (table is None or not table.may_wrap(call.words)):
        return walker.plain(call)
    wrapped = WrappedCommand(walker, base, call)
    if special is not None:
        return special(wrapped)
    found = scan_words(call.words, table)
    wrap = found.table.wrap if found.table is not None else None
    return wrapped.plain() if wrap is None else from_table(wrapped, found, wrap)


def _env(wrapped: WrappedCommand) -> Flow:
    for word in wrapped.words[1:]:
        if word.text is not None and (word.text.startswith(("-S", "--s")) or _clusters(word.text, "S")):
            wrapped.refuse("`env -S` splits words by rules of its own", word)
    table = wrapped.walker.programs.table("env")
    if table is None or table.wrap is None:
        return wrapped.plain()
    return from_table(wrapped, scan_words(wrapped.words, table), table.wrap)


def _clusters(text: str, letter: str) -> bool:
    return text.startswith("-") and not text.startswith("--") and letter in text


def _shell(wrapped: WrappedCommand) -> Flow:

    return run_shell(wrapped)


# Run by the shell itself; found only where the name has no directory.
INSIDE: Mapping[str, Callable[[WrappedCommand], Flow]] = {
    "command": run_command,
    "builtin": run_builtin,
    "exec": run_exec,
    "eval": run_eval,
    "trap": run_trap,
}
SHELLS = {
    "bash": BASH,
    "sh": POSIX,
    "dash": POSIX,
    "ash": POSIX,
    "ksh": ZSH,  # like zsh in what matters here: the last stage of a pipeline runs in the shell itself
    "mksh": ZSH,
    "zsh": ZSH,
    "rbash": BASH,
    "fish": "",
    "csh": "",
    "tcsh": "",
    "nu": "",
    "pwsh": "",
    "xonsh": "",
}
SPECIAL: Mapping[str, Callable[[WrappedCommand], Flow]] = {
    "env": _env,
    "find": run_find,
    "gfind": run_find,
    "fd": run_fd,
    "fdfind": run_fd,
    "xargs": run_xargs,
    "gxargs": run_xargs,
    "parallel": run_parallel,
    _BYLEAVE: run_byleave,
    **dict.fromkeys(SHELLS, _shell),
}

PLAIN_LETTERS = frozenset("abefhlnuvxCET")  # options that leave the reading of the script as it is
LONG_OPTIONS = frozenset(["--norc", "--noprofile", "--login", "--verbose", "--noediting"])


def run_shell(wrapped: WrappedCommand) -> Flow:
    """List a shell, and the commands of its script where that is literal."""
    words = wrapped.words
    dialect = SHELLS[wrapped.name]
    index, from_option, from_input = _options(wrapped)
    if not from_option:
        if index < len(words) and not from_input:
            return _file(wrapped, words[index])
        return _input(wrapped, dialect)
    if index >= len(words):
        wrapped.refuse("a shell without the script that -c announces")
    text = words[index].text
    if text is None:
        wrapped.refuse("a script known only at run time", words[index])
    if not dialect:
        wrapped.refuse(f"a script in the language of `{wrapped.name}`", words[index])
    wrapped.list_itself(transparent=True)
    wrapped.script(text, dialect, transparent=True)
    return wrapped.state, wrapped.state


def _options(wrapped: WrappedCommand) -> tuple[int, bool, bool]:
    """Return where the operands start, whether -c is given, and whether -s is."""
    words = wrapped.words
    index, from_option, from_input = 1, False, False
    while index < len(words):
        word = words[index]
        text = word.text
        if text is None:
            if word.could_be_option:
                wrapped.refuse("an option known only at run time", word)
            break
        if text in ("--", "-"):
            index += 1
            break
        if text[:1] not in ("-", "+") or len(text) == 1:
            break
        index += 1
        if text.startswith("--"):
            if text not in LONG_OPTIONS and text not in ("--version", "--help"):
                wrapped.refuse(f"an option of `{wrapped.name}` that is not followed", word)
            continue
        letters = text[1:]
        from_option = from_option or "c" in letters
        from_input = from_input or "s" in letters
        if not PLAIN_LETTERS.issuperset(letters.replace("c", "").replace("s", "").replace("o", "")):
            wrapped.refuse(f"an option of `{wrapped.name}` that is not followed", word)
        for _ in range(letters.count("o")):
            if index >= len(words) or words[index].text not in SET_NAMES:
                wrapped.refuse(f"an option of `{wrapped.name}` that is not followed", word)
            index += 1
    return index, from_option, from_input


def _file(wrapped: WrappedCommand, script: Word) -> Flow:
    if script.many and script.text is None and script.splits:
        wrapped.refuse("a script known only at run time", script)
    if names_input(script):
        return _input(wrapped, "")
    return wrapped.plain()


def _input(wrapped: WrappedCommand, dialect: str) -> Flow:
    """Follow a shell that reads its script from its input, where that is literal text."""
    texts = [item for item in wrapped.redirects if item.kind == "text" and item.fd in (None, 0)]
    if not texts:
        return wrapped.plain()
    body = texts[-1].body
    if body is None or not dialect or len(wrapped.redirects) > 1 + _outputs(wrapped):
        wrapped.refuse("a script known only at run time")
    wrapped.list_itself(transparent=True)
    wrapped.script(body, dialect, transparent=True)
    return wrapped.state, wrapped.state


def _outputs(wrapped: WrappedCommand) -> int:
    return len([item for item in wrapped.redirects if item.fd != 0 and item.operator.startswith((">", "&>"))])
