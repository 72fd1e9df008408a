"""Lists of arguments as the text that a shell would run.

Which shell an agent gives its commands to. Pure: the variables of its environment are handed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.matchers import SYSTEM_DIRECTORIES
from byleave.shell.syntax.simple_command import KEYWORDS, ZSH_WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from byleave.shell.model import Command


_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")
_OWN_WORDS = KEYWORDS | ZSH_WORDS
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"})
_BASH = "bash"
_LETTERS = frozenset("cli")  # -c; a login shell; an interactive one


def quote_word(word: str) -> str:
    """Return a word that every POSIX shell reads as this very word."""
    if word and _SAFE.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def quote_words(words: Sequence[str]) -> str:
    """Return a list of arguments as text; the program's name is never an assignment, nor a word of the shell's own."""
    quoted = [quote_word(word) for word in words]
    if words and ("=" in words[0] or words[0] in _OWN_WORDS) and quoted[0] == words[0]:
        quoted[0] = f"'{words[0]}'"
    return " ".join(quoted)


def texts_of(words: Sequence[str]) -> list[str]:
    """Return the text of a list of arguments: of `[bash, -lc, TEXT]` it is TEXT.

    Where another shell reads TEXT in another way than bash does, the whole list counts as well.
    """
    shell = shell_of(words)
    if shell is None:
        return [quote_words(words)]
    text = words[2]
    return [text] if shell == _BASH or _reads_alike(shell, text) else [text, quote_words(words)]


def shell_of(words: Sequence[str]) -> str | None:
    """Return the shell that would run the third word as its script, if the list is nothing but that."""
    if len(words) != 3 or not is_script_option(words[1]) or not words[2].strip():
        return None
    return known_shell(words[0])


def is_script_option(word: str) -> bool:
    """Whether it is `-c`, alone or with letters that leave the reading of the script as it is."""
    letters = word[1:]
    return word[:1] == "-" and letters.count("c") == 1 and _LETTERS.issuperset(letters)


def known_shell(program: str) -> str | None:
    """Return the name of a shell; one that lies elsewhere than in the system's own directories is any program."""
    directory, slash, name = program.rpartition("/")
    if name not in _SHELLS or (slash and f"{directory}/" not in SYSTEM_DIRECTORIES):
        return None
    return name


def _reads_alike(shell: str, text: str) -> bool:
    from byleave.shell.reader import read_command  # heavy: only commands need it

    ours = read_command(text)
    theirs = read_command(f"{shell} -c {quote_word(text)}")
    if not ours.understood:
        return True  # no rule allows anything by it
    return theirs.understood and [_does(each) for each in theirs.commands[1:]] == [
        _does(each) for each in ours.commands
    ]


def _does(command: Command) -> tuple[object, ...]:
    words = [(word.text, word.prefix, word.splits, word.glob) for word in command.words]
    return (words, command.assignments, command.redirects, command.places, command.base, command.piped_to_shell)


# These run every command with bash, whatever the user's own shell is.
_ALWAYS_BASH = frozenset(["gemini"])
# These run it with the user's own shell, even one of another language than bash's.
_ANY_SHELL = frozenset(["cursor"])
_FOLLOWED = frozenset(["bash", "zsh", "ksh", "mksh"])
_OTHERS = frozenset(["fish", "nu", "csh", "tcsh", "pwsh", "xonsh"])
_OWN_VARIABLES = {"claude-code": "CLAUDE_CODE_SHELL"}


def shell_of_agent(agent: str, variables: Mapping[str, str]) -> str | None:
    """Return the name of the shell; None where it may be bash or sh."""
    if agent in _ALWAYS_BASH:
        return "bash"
    chosen = variables.get(_OWN_VARIABLES.get(agent, ""), "") or variables.get("SHELL", "")
    name = chosen.rpartition("/")[2]
    if name in _FOLLOWED or (agent in _ANY_SHELL and name in _OTHERS):
        return name
    return None
