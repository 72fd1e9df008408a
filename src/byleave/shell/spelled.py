"""Commands that the words of another command spell: `mywrap rm -rf src`, `tool --run='rm -rf src'`.

Only good for a rule that denies or asks: a program that is not known to take its words as data may be a wrapper.
"""

from byleave.shell.data_programs import takes_data
from byleave.shell.model import Command, Piece, Word
from byleave.shell.receivers import is_interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# What stands between words in scripts, options with values, addresses and lists of any language.
_BREAKS = str.maketrans(dict.fromkeys("|&;()<>{}[]`$\n\t\r'\"=:,!\\", " "))
_TEXTS = frozenset(["literal", "raw", "value"])  # kinds of pieces whose text is that of the word
_LONGEST = 64  # words of a spelled command that are looked at
_UNKNOWN = Word(None, "", splits=True)
_SUFFIXES = ("-cli.js", ".js", ".exe", ".cmd", ".bat")


def tokens(command: Command, *, executes: bool) -> tuple[Word, ...]:
    """Return the words behind the program's name as a wrapper of any kind could take them apart.

    Of a word known only at run time its literal pieces count, and what the line itself puts into its variables.
    `executes`: an option of the command runs something, so that not all of its words are data.
    """
    if command.name is None:
        return ()
    given = [item.body for item in command.redirects if item.body]  # what it reads may be a script
    if command.wraps is not None:  # its children are listed by themselves; they read what is given to it
        reads = any(is_interpreter(word.text) for word in command.words[1:])
        return tuple([word for text in given for word in _split(text)]) if reads else ()
    found = _own_names(command.name)
    if takes_data(command) and not found and not executes and command.piped_to_shell is False:
        return ()
    for word in (*command.words[1:], *[Word(text, text) for text in given]):
        for form in _forms(word):
            for piece in form:
                found += _split(piece) if piece else [_UNKNOWN]
    return tuple(found)


def _forms(word: Word) -> "Iterator[list[str]]":
    """Yield the texts that a word is put together from, in each of its forms; an empty one stands for the unknown."""
    if word.text is not None:
        yield [word.text]
        return
    for form in word.forms or (word.pieces or (Piece("literal", word.prefix),),):
        yield [piece.text if piece.kind in _TEXTS else "" for piece in form] + [""]


def _split(text: str) -> "Iterator[Word]":
    parts = text.translate(_BREAKS).split()
    if len(parts) > 1 and text[:1] == "-" and text[1:2].isalpha() and len(parts[0]) > 2:
        parts.insert(1, parts[0][2:])  # `-c'rm -rf src'`: the text is attached to the letter
    for part in parts:
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
