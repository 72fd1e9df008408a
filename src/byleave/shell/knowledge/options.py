"""What the words of a command mean to its program: options, their values, operands, the subcommand.

Knows no program by itself: tables come from `programs`. Answers are three-valued where a word is known only at run
time: True, False, or None for "it depends".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.record import Record
from byleave.shell.knowledge.programs import BUILT_IN, IN_ORDER, ProgramFacts, ProgramTables
from byleave.shell.state import entered
from byleave.shell.syntax.tree import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from byleave.shell.model import Command
    from byleave.shell.state import Places


SWITCHES = frozenset({"true", "false", "null"})
NUMBER = "-#"  # an option that is a number: `tail -5`


class GivenOption(Record):
    """One option as given: its canonical name, its value if it has one, and the word it stands in.

    `table` is the one it was looked up in: before the subcommand another than behind it. `known` is False for an
    option that the table does not list, `sure` for an abbreviation that may stand for something else.
    """

    name: str
    index: int
    value: Word | str | None = None
    known: bool = True
    sure: bool = True
    table: ProgramFacts | None = None


class Scan(Record):
    """The words of one command, sorted. `unknown`: words known only at run time that could be options.

    `doubtful`: an option before the subcommand, or before the first operand, may take that word as its value.
    """

    given: tuple[GivenOption, ...]
    operands: tuple[int, ...]
    unknown: tuple[int, ...]
    subcommand: str | None
    subcommand_unknown: bool
    table: ProgramFacts | None
    doubtful: bool = False


def late_options(found: Scan) -> tuple[GivenOption, ...]:
    """Return what looks like an option behind the names of members: unzip takes it for a name, but for -d and -x."""
    if found.table is None or found.table.name != "unzip" or len(found.operands) < 2:
        return ()
    first = found.operands[1]
    return tuple([option for option in found.given if option.index > first and option.name not in ("-d", "-x")])


def scan(command: Command, programs: ProgramTables = BUILT_IN) -> Scan:
    """Sort the words of a command by what its program makes of them."""
    return scan_words(command.words, programs.table(command.program or ""))


def scan_words(words: tuple[Word, ...], table: ProgramFacts | None) -> Scan:
    return _Scanner(words, table).read()


class _Scanner:
    __slots__ = (
        *("doubtful", "given", "index", "operands", "subcommand", "subcommand_unknown", "table", "unknown", "words"),
    )

    def __init__(self, words: tuple[Word, ...], table: ProgramFacts | None) -> None:
        self.words = words
        self.table = table
        self.given: list[GivenOption] = []
        self.operands: list[int] = []
        self.unknown: list[int] = []
        self.subcommand: str | None = None
        self.subcommand_unknown = False
        self.doubtful = False
        self.index = 1

    def read(self) -> Scan:
        words = self.words
        if self.table is not None and self.table.bundle and len(words) > 1:
            self._bundle(words[1].text or "-")
        while self.index < len(words):
            word = words[self.index]
            text = word.text
            if text is None:
                if self._partial(word):
                    continue
                if word.could_be_option:
                    self.unknown.append(self.index)
                self._operand_or_rest()
            elif text == "--":
                self._rest(self.index + 1)
                break
            elif len(text) > 1 and (text[0] == "-" or self._is_signed(text)):
                self._option(text)
            else:
                self._operand_or_rest()
        table = self.table
        return Scan(
            tuple(self.given),
            tuple(self.operands),
            tuple(self.unknown),
            self.subcommand,
            self.subcommand_unknown,
            table,
            self.doubtful,
        )

    def _is_signed(self, text: str) -> bool:
        """Whether a word with a plus sign is an option that the table lists: `cargo +nightly`."""
        return text[0] == "+" and self.table is not None and text in self.table.canonical

    def _bundle(self, text: str) -> None:
        """Take `xzf` as letters of options; those with values take the words that follow, in order."""
        if text.startswith("-"):
            return
        self.index = 2
        for letter in text:
            found = self.table.canonical.get("-" + letter) if self.table is not None else None
            takes = self.table is not None and found in self.table.values
            self._give(found or "-" + letter, 1, self._next_word() if takes else None, known=found is not None)

    def _rest(self, begin: int) -> None:
        self.index = begin
        while self.index < len(self.words):
            self._operand()

    def _operand(self) -> bool:
        """Take the word as an operand; False if it was the subcommand, which has a table of its own."""
        table = self.table
        if self.subcommand is None and not self.operands:
            self.doubtful = any(_may_take_next(given) for given in self.given) or self._may_be_switch()
        if table is not None and table.subcommands and not self.subcommand_unknown:
            text = self.words[self.index].text
            if text is None:
                self.subcommand_unknown = self.subcommand is None
            else:
                name = table.aliases.get(text, text)
                self.subcommand = self.subcommand or name
                self.table = table.with_subcommand(name)
                self.index += 1
                return False
        self.operands.append(self.index)
        self.index += 1
        return True

    def _may_be_switch(self) -> bool:
        """Whether the word may be the value of a flag before it: some programs take `--json true` for `--json=true`."""
        before = self.given[-1] if self.given else None
        return before is not None and before.index == self.index - 1 and self.words[self.index].text in SWITCHES

    def _operand_or_rest(self) -> None:
        """Take an operand, and all that follows it where options end there."""
        if self._operand() and self.table is not None and self.table.stops:
            self._rest(self.index)

    def _partial(self, word: Word) -> bool:
        """Take `--name=$value`: the option is known although its value is not."""
        name, equals, _ = word.prefix.partition("=")
        if not name.startswith("-") or word.splits or word.glob:
            return False
        if not equals:
            return self._partial_letter(word)
        if not name.startswith("--") and (self.table is None or self.table.style == "gnu"):
            return False
        for found in self._long(name):
            self._give(found.name, self.index, word, known=found.known, sure=found.sure)
        self.index += 1
        return True

    def _partial_letter(self, word: Word) -> bool:
        """Take `-j$value`: one letter that has a value, where what is behind it cannot be further letters."""
        table = self.table
        if table is None or table.letters or table.style != "gnu" or len(word.prefix) != 2 or word.prefix == "--":
            return False
        canonical = table.canonical.get(word.prefix)
        if canonical is None or canonical not in table.values | table.optional:
            return False
        self._give(canonical, self.index, word)
        self.index += 1
        return True

    def _option(self, text: str) -> None:
        table = self.table
        if table is not None and NUMBER in table.canonical and text[1:].isdecimal() and text.isascii():
            self._give(NUMBER, self.index, text[1:])
            self.index += 1
        elif text.startswith(("--", "+")) or (table is not None and table.style != "gnu"):
            self._named(text)
        else:
            self._cluster(text)

    def _named(self, text: str) -> None:
        """Take an option that is one word: `--name`, `--name=value`, `-name` where the program has such."""
        name, equals, value = text.partition("=")
        at = self.index
        joined = self._joined(text, name)
        if joined is not None:
            self._give(joined, at, text[len(joined) :])
            self.index += 1
            return
        found = self._long(name)
        self.index += 1
        attached: Word | str | None = value if equals else None
        if not equals and len(found) == 1 and self.table is not None and found[0].name in self.table.values:
            attached = self._next_word()
        for given in found:
            self._give(given.name, at, attached, known=given.known, sure=given.sure)

    def _joined(self, text: str, name: str) -> str | None:
        """Return the option whose value is the rest of this word, if it is not one that is listed as it stands."""
        table = self.table
        if table is None or not table.joined or name in table.canonical:
            return None
        return next((option for option in table.joined if text.startswith(option)), None)

    def _give(
        self, name: str, at: int, value: Word | str | None = None, *, known: bool = True, sure: bool = True
    ) -> None:
        self.given.append(GivenOption(name, at, value, known, sure, self.table))

    def _next_word(self) -> Word | None:
        if self.index >= len(self.words):
            return None
        self.index += 1
        word = self.words[self.index - 1]
        if word.many and word.text is None:
            self.unknown.append(self.index - 1)  # it may be no word at all, and then the next one is the value
        return word

    def _long(self, name: str) -> list[GivenOption]:
        """Return the option or options that a long name can stand for."""
        table = self.table
        if table is None:
            return [GivenOption(name, self.index, None, known=False)]
        canonical = table.canonical.get(name)
        if canonical is not None:
            return [GivenOption(canonical, self.index)]
        if table.abbreviates != "no" and name.startswith("--") and len(name) > 2:
            meant = {table.canonical[full] for full in table.canonical if full.startswith(name)}
            sure = table.abbreviates == "yes" and len(meant) == 1
            if meant:
                return [GivenOption(option, self.index, None, known=True, sure=sure) for option in sorted(meant)]
        return [GivenOption(name, self.index, None, known=False)]

    def _cluster(self, text: str) -> None:
        """Take `-abc`: letters, of which one with a value takes the rest or the next word."""
        at = self.index
        self.index += 1
        table = self.table
        if table is None:
            self._give(text, at, known=False)
            return
        skipped = 0
        for place in range(1, len(text)):
            if place < skipped:
                continue
            letter, rest = "-" + text[place], text[place + 1 :]
            canonical = table.canonical.get(letter)
            if canonical is None:
                self._give(letter, at, known=False)
                continue
            takes = canonical in table.values
            if table.letters and rest and (takes or canonical in table.optional) and not _is_attached(rest):
                digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
                if takes and table.letters == IN_ORDER:
                    skipped = place + 1 + len(digits)
                    self._give(canonical, at, digits or self._next_word())
                else:
                    self._give(canonical, at, rest)
            elif takes:
                self._give(canonical, at, rest or self._next_word())
                if canonical in table.ends:
                    self._rest(self.index)
                return
            elif canonical in table.optional:
                self._give(canonical, at, rest)
                return
            else:
                self._give(canonical, at)


def _is_attached(rest: str) -> bool:
    """Whether what stands behind a letter is its value even where all letters of a word are options."""
    return rest[0] == "=" or (rest.isascii() and rest.isdecimal())


def _may_take_next(given: GivenOption) -> bool:
    """Whether an option may have the following word as its value, as far as its table knows."""
    return given.value is None and not (given.known and given.sure)


def worked_in(
    words: tuple[Word, ...], programs: ProgramTables, places: Places, follow: Callable[[Word, Places], Places]
) -> Places:
    """Return where a program works that the shell starts in `places`, after `-C` and the like.

    `follow` says where a word leads that is not literal.
    """
    name = words[0].text or ""
    table = programs.table(name[name.rfind("/") + 1 :])
    if table is None or not (table.directory or table.sub):
        return places
    if not any(word.text is None or word.text[:1] == "-" for word in words):
        return places
    found = scan_words(words, table)
    if not table.directory and not (found.table is not None and found.table.directory):
        return places
    if any(_may_move(index, found, words) for index in found.unknown):
        return None
    for given in found.given:
        if given.table is not None and given.name in given.table.directory:
            value = given.value if isinstance(given.value, str) or given.value is None else given.value.text
            if value is not None:
                places = entered(places, value)
            elif isinstance(given.value, Word) and not given.value.prefix.startswith("-"):
                places = follow(given.value, places)
            else:
                places = None
    return places


def _may_move(index: int, found: Scan, words: tuple[Word, ...]) -> bool:
    """Whether a word known only at run time could hold the option: not behind the subcommand of a program like git."""
    if found.table is None or found.table.name.partition(" ")[0] != "git" or found.subcommand is None:
        return True
    return any(word.text == found.subcommand for word in words[index:])


def module_words(command: Command) -> tuple[Word, ...]:
    """Return the name of the module that Python runs and the words behind it, nothing if there is none.

    `-m` may stand behind other options, in one word with them (`-Bm`) and with the name (`-mpytest`).
    """
    words = command.words
    if not (command.program or "").startswith(("python", "pypy")):
        return ()
    index = 1
    while index < len(words):
        text = words[index].text or ""
        index += 1
        if text[:1] != "-" or text in ("-", "--"):
            return ()
        if text[:2] == "--":
            index += text == "--check-hash-based-pycs"
            continue
        ends = [place for place, letter in enumerate(text) if place and letter in "mcWXQ"]
        rest = text[ends[0] + 1 :] if ends else ""
        letter = text[ends[0]] if ends else ""
        if letter == "m":
            return (Word(rest, rest), *words[index:]) if rest else words[index:]
        if letter == "c":
            return ()
        index += bool(letter) and not rest
    return ()


def subcommand(command: Command, programs: ProgramTables = BUILT_IN) -> str | None:
    """Return the subcommand, aliases resolved; None where there is none or it is known only at run time.

    `subcommand_is_unknown` separates the two. For a program without a table it is the first word that is no option.
    """
    found = scan(command, programs)
    if found.table is None or not found.table.known_subcommands:
        return command.words[found.operands[0]].text if found.operands and not _before(found) else None
    return found.subcommand


def subcommand_is_unknown(command: Command, programs: ProgramTables = BUILT_IN) -> bool:
    """Return whether the subcommand depends on a word known only at run time."""
    found = scan(command, programs)
    if found.subcommand_unknown or found.doubtful:
        return True
    if found.subcommand is not None:
        where = next((i for i, word in enumerate(command.words) if i and word.text == found.subcommand), 0)
        return any(index < where for index in found.unknown)
    return bool(found.unknown) or _before(found)


def _before(found: Scan) -> bool:
    """Whether a word known only at run time stands where the first operand would be."""
    return bool(found.unknown) and (not found.operands or min(found.unknown) <= found.operands[0])


def has_flag(command: Command, flag: str, programs: ProgramTables = BUILT_IN) -> bool | None:
    """Return whether an option is given, in any of its spellings; None where that depends.

    `-rf` asks for both `-r` and `-f` where the program joins letters.
    """
    found = scan(command, programs)
    expected = _expected(flag, found.table)
    answers = [_has(found, name, command) for name in expected]
    if False in answers:
        return False
    return True if all(answers) else None


def canonical_flags(command: Command, flag: str, programs: ProgramTables = BUILT_IN) -> list[str]:
    """Return the names under which a scan knows a flag; several where it joins letters."""
    return _expected(flag, scan(command, programs).table)


def _expected(flag: str, table: ProgramFacts | None) -> list[str]:
    if table is None:
        return [flag]
    if flag in table.canonical:
        return [table.canonical[flag]]
    if flag.startswith("-") and not flag.startswith("--") and len(flag) > 2 and table.style == "gnu":
        return [table.canonical.get("-" + letter, "-" + letter) for letter in flag[1:]]
    return [flag]


def _has(found: Scan, name: str, command: Command) -> bool | None:
    answer: bool | None = False
    for given in found.given:
        if given.name == name:
            if given.sure:
                return None if is_taken_back(_spellings(name, found.table), command.words) else True
            answer = None
        elif not given.known and given.name.startswith("--") and _may_shorten(given.name, name, found.table):
            answer = None
    if found.unknown:
        answer = None
    if answer is False and found.table is None:
        return _loosely(name, command)
    return answer


def _may_shorten(given: str, name: str, table: ProgramFacts | None) -> bool:
    """Whether an option that no table lists may be the beginning of one of this name, in any of its spellings."""
    return any(full.startswith(given) for full in _spellings(name, table))


def _spellings(name: str, table: ProgramFacts | None) -> list[str]:
    spellings = [] if table is None else [full for full, canonical in table.canonical.items() if canonical == name]
    return [name, *spellings]


YES = (None, "true", "yes", "1")  # values of a switch that is on
_NO = ("false", "no", "0", "off")
_TAKE_FALSE = ("npm", "pnpm", "cnpm")  # a switch takes the word `false` that follows it


def is_taken_back(names: Sequence[str], words: Sequence[Word]) -> bool:
    """Whether a word switches one of these options off: `--no-dry-run`, `--dry-run=false`, `--dry-run false` (npm)."""
    takes_next = words[0].prefix.rpartition("/")[2] in _TAKE_FALSE
    for number, word in enumerate(words):
        option, equals, value = word.prefix.partition("=")
        for name in names if option[:1] == "-" and number else ():
            if option[:5] == "--no-" and f"--no-{name.lstrip('-')}".startswith(option):
                return True
            if equals and may_spell(option, name) and (word.text is None or value in _NO):
                return True
            if takes_next and option == name and [each.text for each in words[number + 1 : number + 2]] == ["false"]:
                return True
    return False


def may_spell(text: str, name: str) -> bool:
    """Whether a word is an option, or an abbreviation of its long name."""
    return text == name or (text[:2] == "--" and len(text) > 2 and name.startswith(text.partition("=")[0]))


def _loosely(name: str, command: Command) -> bool | None:
    """For a program without a table: the word as it stands is a yes, letters of a cluster may be."""
    texts = [word.text for word in command.words[1:] if word.text is not None]
    if name in texts:
        return True
    if name.startswith("--") or len(name) < 2:
        return False
    letters = frozenset(name[1:])
    clusters = [text for text in texts if text.startswith("-") and not text.startswith("--")]
    return None if letters and letters.issubset("".join(clusters)) else False
