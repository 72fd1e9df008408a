"""What is known of one command's words, as the rules of `core` ask for it. None is "it depends" (on run time).

Commands that the words of another command spell: `mywrap rm -rf src`, `tool --run='rm -rf src'`.

Only good for a rule that denies or asks: a program that is not known to take its words as data may be a wrapper.
"""

from byleave.shell.knowledge.aliases import is_alias, may_be_args, may_have_flag
from byleave.shell.knowledge.dangers import UNKNOWN, Danger, dangerous_options
from byleave.shell.knowledge.options import (
    canonical_flags,
    has_flag,
    module_at,
    scan,
    subcommand,
    subcommand_is_unknown,
)
from byleave.shell.knowledge.program_input import is_interpreter, takes_data
from byleave.shell.model import Command, Piece, Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.knowledge.programs import ProgramTables


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


ANYTHING = "**"


class CommandFacts:
    """Answers about one command; what is slow to find out is found out once."""

    __slots__ = ("_command", "_dangers", "_flags", "_looks_inside", "_programs", "_spelled", "_subcommand", "_tokens")

    def __init__(self, command: "Command", programs: "ProgramTables", *, looks_inside: bool = True) -> None:
        self._command = command
        self._programs = programs
        self._dangers: tuple[Danger, ...] | None = None
        self._flags: dict[str, bool | None] = {}
        self._subcommand: tuple[str | None, bool] | None = None
        self._looks_inside = looks_inside
        self._tokens: tuple[Word, ...] = ()
        self._spelled: frozenset[str] | None = None

    @property
    def spelled(self) -> frozenset[str]:
        """The names of programs that its words hold, where it may be a wrapper that starts one of them."""
        if self._spelled is None:
            if self._looks_inside:
                self._tokens = tokens(self._command, executes=self.uncovered((), ()) is not None)
            self._spelled = frozenset(name for word in self._tokens for name in names_of(word))
        return self._spelled

    def started_as(self, name: str) -> "Iterator[CommandFacts]":
        """Yield what is known of the commands that its words spell from a program's name on."""
        for command in started_as(self._command, self._tokens, name):
            yield CommandFacts(command, self._programs, looks_inside=False)

    def is_subcommand(self, expected: str) -> bool | None:
        """Whether the subcommand is `expected`, or one is an alias of the other."""
        if self._subcommand is None:
            unknown = subcommand_is_unknown(self._command, self._programs)
            self._subcommand = subcommand(self._command, self._programs), unknown
        given, unknown = self._subcommand
        if unknown:
            return None if self._may_be_subcommand(expected) else False
        if given is None:
            return False
        answer = is_alias(self._command, self._programs, given, expected)
        return None if answer is False and self._may_follow(given, expected) else answer

    def _may_follow(self, given: str, expected: str) -> bool:
        """Whether `given` may be the value of an option in front that is not known, and `expected` the subcommand."""
        texts = [word.text for word in self._command.words]
        place = texts.index(given) if given in texts else len(texts)
        unknown = [option for option in scan(self._command, self._programs).given if not option.known]
        if not any(option.index < place for option in unknown):
            return False
        return any(
            text is None or is_alias(self._command, self._programs, text, expected) is not False
            for text in texts[place + 1 :]
            if text is None or not text.startswith("-")
        )

    def _may_be_subcommand(self, expected: str) -> bool:
        """Whether some word is the subcommand, or could become it at run time."""
        return any(
            word.text is None or is_alias(self._command, self._programs, word.text, expected) is not False
            for word in self._command.words[1:]
        )

    def asks_for_version(self) -> bool:
        """Whether the command is `PROGRAM --version` or `PROGRAM --help` and no more, as the program spells it."""
        words = self._command.words
        table = self._programs.table(self._command.program or "") if len(words) == 2 else None
        if table is None:
            return False
        canonical = table.canonical
        name = canonical.get(words[1].text or "")
        return name is not None and name in (canonical.get("--version"), canonical.get("--help"))

    def has_flag(self, flag: str) -> bool | None:
        """Whether a flag is given, in any of its spellings."""
        if flag not in self._flags:
            given = has_flag(self._command, flag, self._programs)
            if given is False:
                found = scan(self._command, self._programs)
                canonical = found.table.canonical if found.table is not None else {}
                given = None if may_have_flag(self._command, found, flag, canonical) else False
            self._flags[flag] = given
        return self._flags[flag]

    def has_operands(self, *, most: int, behind: bool) -> bool | None:
        """Whether there are at most so many words that are no options; `behind` a subcommand, without that one."""
        found = scan(self._command, self._programs)
        counted = found.operands[1:] if behind and found.subcommand is None else found.operands
        certain = [index for index in counted if not self._command.words[index].many]
        if len(certain) > most:
            return False
        depends = len(certain) < len(counted) or found.unknown or found.subcommand_unknown or found.doubtful
        return None if depends else True

    def args_match(self, expected: tuple[str, ...]) -> bool | None:
        """Whether the words after the program are exactly these, a last `**` being anything after."""
        words = self._command.words[1:]
        open_end = expected[-1:] == (ANYTHING,)
        literal = expected[:-1] if open_end else expected
        for number, text in enumerate(literal):
            if number >= len(words):
                return False
            word = words[number]
            if word.many:
                return None  # from here on it is open which word stands where
            if word.text is None:
                return None if text.startswith(word.prefix) else False
            if word.text != text:
                return False
        if open_end or len(words) == len(literal):
            return True
        return None if all(word.many for word in words[len(literal) :]) else False

    def may_be_args(self, expected: tuple[str, ...]) -> bool:
        """Whether options in front or between, or another name, make the words mean the same as these."""
        return may_be_args(self._command, scan(self._command, self._programs), self._programs, expected)

    def uncovered(self, flags: tuple[str, ...], args: tuple[str, ...]) -> str | None:
        """Return an option that executes or writes and that a rule with these flags and arguments does not name."""
        if self._dangers is None:
            self._dangers = _dangers(self._command, self._programs)
        if not self._dangers:
            return None
        named = frozenset(name for flag in flags for name in canonical_flags(self._command, flag, self._programs))
        spelled = len(args) - (args[-1:] == (ANYTHING,))
        for danger in self._dangers:
            if danger.kind == UNKNOWN:
                return "a word known only at run time, which could be an option that executes or writes"
            if danger.option not in named and danger.index > spelled:
                return danger.option
        return None


def _dangers(command: "Command", programs: "ProgramTables") -> "tuple[Danger, ...]":
    found = dangerous_options(command, programs)
    module = module_at(command)
    if module == 0:
        return found
    inner = command.replace(words=command.words[module:])  # `python -m pytest` takes the options of pytest
    return (*found, *[danger.replace(index=danger.index + module) for danger in dangerous_options(inner, programs)])
