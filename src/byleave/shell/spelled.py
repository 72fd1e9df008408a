"""Commands that the words of another command spell: `mywrap rm -rf src`, `tool --run='rm -rf src'`.

Only good for a rule that denies or asks: a program that is not known to take its words as data may be a wrapper.
"""

from byleave.shell.data_programs import takes_data
from byleave.shell.model import Command, Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# What stands between words in scripts, options with values, addresses and lists of any language.
_BREAKS = str.maketrans(dict.fromkeys("|&;()<>{}[]`$\n\t\r'\"=:,!\\", " "))
_LONGEST = 64  # words of a spelled command that are looked at
_UNKNOWN = Word(None, "", splits=True)
_SUFFIXES = ("-cli.js", ".js", ".exe", ".cmd", ".bat")


def tokens(command: Command, text: str, *, executes: bool) -> tuple[Word, ...]:
    """Return the words behind the program's name as a wrapper of any kind could take them apart.

    `text` is the whole line: what stands in it around a value known only at run time may be part of a script too.
    `executes`: an option of the command runs something, so that not all of its words are data.
    """
    if command.name is None or command.wraps is not None:
        return ()
    found = _own_names(command.name)
    if takes_data(command) and not found and not executes:
        return ()
    depends = False
    for word in command.words[1:]:
        found += _split(word.text if word.text is not None else word.prefix)
        if word.text is None:
            found.append(_UNKNOWN)
            depends = True
    if depends:
        found += _split(text)
    return tuple(found)


def _split(text: str) -> "Iterator[Word]":
    for part in text.translate(_BREAKS).split():
        if part != "--":
            yield Word(part, part)


def _own_names(name: str) -> list[Word]:
    """Return the words that the program's own name stands for: `git push` for `git-push`, `npm` for `npm.cmd`."""
    base = name.rpartition("/")[2]
    if base.startswith("git-"):
        return [Word("git", "git"), Word(base[4:], base[4:])]
    if base == "hub":  # git with a few commands more
        return [Word("git", "git")]
    return [Word(other, other) for other in names_of(Word(base, base))[:0:-1]]  # the shortest stands last


def names_of(word: Word) -> tuple[str, ...]:
    """Return the names of programs that a word may stand for."""
    base = (word.text or "").rpartition("/")[2]
    others = [base.removesuffix(suffix) for suffix in _SUFFIXES if base.endswith(suffix)]
    others += [base.partition("@")[0]] if "@" in base[1:] else []
    others += [base.lower()] if base != base.lower() else []  # where the file system takes both for one
    return (base, *others)


def started_as(command: Command, found: tuple[Word, ...], name: str) -> "Iterator[Command]":
    """Yield the commands that begin with the program `name` among the words found."""
    for index, word in enumerate(found):
        if name in names_of(word):
            words = (Word(name, name), *found[index + 1 : index + _LONGEST])
            yield command.replace(words=words, wraps=None)
