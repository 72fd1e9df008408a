"""What of a command goes beyond its plain use.

Options that run other programs, options that write files, options that are not known to be harmless, and words known
only at run time that could be such. A rule that merely names a program does not cover these. The knowledge is in
`program_options.toml` and in `harmless`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.record import Record
from byleave.shell.knowledge.option_values import is_harmless_value, is_inside, is_scratch
from byleave.shell.knowledge.options import NUMBER, late_options, scan, scan_words
from byleave.shell.knowledge.programs import BUILT_IN, ProgramTables
from byleave.shell.knowledge.scripts import EXECUTES, WRITES, awk_danger, sed_danger, sqlite_danger

if TYPE_CHECKING:
    from byleave.shell.knowledge.options import GivenOption, Scan
    from byleave.shell.knowledge.programs import ProgramFacts
    from byleave.shell.model import Command
    from byleave.shell.syntax.tree import Word

UNKNOWN = "unknown"
UNLISTED = "unlisted"
DASHED_VALUES = frozenset({"find", "gfind", "awk", "gawk", "mawk", "nawk", "sed", "gsed", "sort"})
EXECUTING = {
    **dict.fromkeys(["find", "gfind"], frozenset({"-exec", "-execdir", "-ok", "-okdir"})),
    **dict.fromkeys(["fd", "fdfind"], frozenset({"-x", "-X", "--exec", "--exec-batch"})),
}
OF_OPTIONS = frozenset({"~ldflags", "~gcflags"})  # values that are options of another program
READERS = {"sed": sed_danger, "awk": awk_danger, "sqlite": sqlite_danger}


class Danger(Record):
    """One option or word that a plain rule does not cover.

    `kind` is `executes`, `writes`, `unlisted` for an option that is not known to be harmless, or `unknown` for a word
    known only at run time that could be any of them. `option` is its name or the word itself, `index` its place in the
    words.
    """

    kind: str
    option: str
    index: int


def dangerous_options(command: Command, programs: ProgramTables = BUILT_IN) -> tuple[Danger, ...]:
    """Return every danger in a command, in no particular order. A program without a table has none that are known."""
    found = scan(command, programs)
    table = found.table
    if table is None:
        return ()
    child = child_places(command)
    rest = _behind_dashes(command) if table.passed is not None else 0
    dangers = [danger for given in found.given if given.index not in child and (danger := _option(given))]
    dangers.extend(_operands(command, found, table))
    if table.shell:
        dangers.extend(_substitutions(command))
    if rest and table.passed is not None:
        dangers.extend(_passed(command, rest, table.passed))
    if table.script is not None:
        dangers.extend(_scripts(command, found, table.script))
    if found.subcommand_unknown:
        dangers.append(Danger(UNKNOWN, command.words[found.operands[0]].prefix, found.operands[0]))
    elif dangerous_program(table):
        unknown = [index for index in found.unknown if index not in child]
        dangers.extend([Danger(UNKNOWN, command.words[index].prefix, index) for index in unknown])
    return tuple(dangers)


def _substitutions(command: Command) -> list[Danger]:
    """Find words that a shell would expand once more: some versions put them into a command between double quotes."""
    return [
        Danger(UNLISTED, word.prefix, index)
        for index, word in enumerate(command.words)
        if word.text is not None and any(mark in word.text for mark in ("`", "$(", "${", "$["))
    ]


def _behind_dashes(command: Command) -> int:
    """Return the place behind the first `--`, 0 if there is none."""
    return next((index + 1 for index, word in enumerate(command.words) if index and word.text == "--"), 0)


# The words behind `--` may be a whole command there (`commands = {posargs}`): the first has to be an option or a path.
_POSITIONAL = frozenset(["tox", "nox"])


def _passed(command: Command, rest: int, table: ProgramFacts) -> list[Danger]:
    """Check words that a program hands on to another one."""
    words = (command.words[0], *command.words[rest:])
    if not table.canonical:  # nothing is known of that program
        return [Danger(UNLISTED, word.prefix, rest) for word in words[1:2]]
    found = scan_words(words, table)
    dangers = [danger for given in found.given if (danger := _option(given))]
    dangers += [Danger(UNKNOWN, words[index].prefix, index) for index in found.unknown]
    first = words[1].text if len(words) > 1 else None
    if command.program in _POSITIONAL and first is not None and not any(mark in first for mark in "-/."):
        dangers.append(Danger(UNLISTED, first, 1))
    for index in found.operands:
        text = words[index].text
        if text is not None and (text.startswith("@") or ("=" in text and not is_harmless_value("~assignment", text))):
            dangers.append(Danger(UNLISTED, text, index))
    return [danger.replace(index=danger.index + rest - 1) for danger in dangers]


def dangerous_program(table: ProgramFacts) -> bool:
    """Return whether a program has options that execute or write at all."""
    if table.safe:
        return False
    if table.covered is not None:
        return True
    return bool(table.executes or table.writes or table.runs or table.most is not None or table.wrap is not None)


def _option(given: GivenOption) -> Danger | None:
    table = given.table
    if table is None:
        return None
    kind = EXECUTES if given.name in table.executes else WRITES if given.name in table.writes else None
    if kind is None:
        return None if not table.closed or _is_listed(given, table) else Danger(UNLISTED, given.name, given.index)
    if _is_harmless(given, table):
        return None
    return Danger(kind, given.name, given.index)


def _is_listed(given: GivenOption, table: ProgramFacts) -> bool:
    """Whether an option is known to be harmless, with the value that it has."""
    if not given.known or not given.sure or (table.covered is not None and given.name not in table.covered):
        return False
    value = given.value if given.value is None or isinstance(given.value, str) else given.value.text
    if given.value is None or (value in ("", None) and given.name in table.optional):
        return True
    if given.name not in table.values | table.optional and given.name not in table.joined and given.name != NUMBER:
        return value in ("true", "false")
    check, use = table.checks.get(given.name), table.files.get(given.name, "")
    if not isinstance(given.value, str) and check not in OF_OPTIONS and _is_option_again(value, table):
        return False
    if check is not None:
        return value is not None and is_harmless_value(check, value)
    # A file that is written counts as a named file, too; what a bare allow covers stays in the workspace, or is a
    # scratch file.
    if use == "write" and value is not None and is_scratch(value):
        return True
    return not use.startswith("write") or (value is not None and is_inside(value))


def _is_option_again(value: str | None, table: ProgramFacts) -> bool:
    """Whether a word that is taken as a value looks like an option: another version may take no value there."""
    if value is None or table.safe or table.covered is None or table.name in DASHED_VALUES:
        return False
    return value[:1] == "-" and value[1:2] not in ("", " ", "\n") and not value[1:2].isdigit()


def child_places(command: Command) -> frozenset[int]:
    """Return the places of words that belong to commands which `find -exec` and the like run."""
    begin = EXECUTING.get(command.program or "")
    if begin is None:
        return frozenset()
    places: list[int] = []
    inside = False
    for index, word in enumerate(command.words):
        if inside:
            places.append(index)
            inside = not (word.text == ";" or (word.text == "+" and command.words[index - 1].text == "{}"))
        else:
            inside = word.text in begin
    return frozenset(places)


def _is_harmless(given: GivenOption, table: ProgramFacts) -> bool:
    beginnings, check = table.harmless.get(given.name, ()), table.checks.get(given.name)
    text = given.value if given.value is None or isinstance(given.value, str) else given.value.text
    if text is None:
        return False
    if check is not None:
        return is_harmless_value(check, text)
    return any(_begins(text, value) for value in beginnings)


def _begins(text: str, value: str) -> bool:
    """Whether a text is the harmless value, or `name=...` of a name that is harmless whatever it is set to."""
    if value[-1:] in ".=:":
        return text.startswith(value)
    return text == value or ("=" not in value and value[-1:].isalpha() and text.startswith(value + "="))


def _operands(command: Command, found: Scan, table: ProgramFacts) -> list[Danger]:
    dangers: list[Danger] = []
    for index in found.operands:
        word = command.words[index]
        if table.assigns and _may_assign(word):
            dangers.append(Danger(EXECUTES if word.text is not None else UNKNOWN, word.prefix, index))
        elif table.covered is not None and not table.safe and _is_option_form(word, table):
            dangers.append(Danger(UNLISTED, word.prefix, index))
        elif table.runs and index not in found.unknown and _may_start(word, table.runs):
            kind = EXECUTES if word.text is not None else UNKNOWN
            dangers.append(Danger(kind, word.prefix, index))
    if late_options(found):  # without it, the members would be listed; so they are written
        dangers.append(Danger(WRITES, command.words[found.operands[1]].prefix, found.operands[1]))
    if table.most is not None:
        certain = len([index for index in found.operands if not command.words[index].many])
        if certain > table.most or (len(found.operands) > certain and certain + 1 > table.most):
            index = found.operands[min(table.most, len(found.operands) - 1)]
            dangers.append(Danger(WRITES, command.words[index].prefix, index))
    return dangers


def _may_assign(word: Word) -> bool:
    """Whether an operand of make may set a variable that reaches a shell."""
    if word.text is None:
        return True
    return "=" in word.text and not is_harmless_value("~assignment", word.text)


def _is_option_form(word: Word, table: ProgramFacts) -> bool:
    """Whether an operand is more than one: `@file` holds options, `/x` is one, a place outside moves the program."""
    if table.inside and (word.text is None or not is_inside(word.text)):
        return True
    return (word.prefix.startswith("@") and not table.at) or (word.prefix.startswith("/") and table.slash)


def _may_start(word: Word, beginnings: tuple[str, ...]) -> bool:
    if word.text is not None:
        return word.text.startswith(beginnings)
    return word.splits or any(b.startswith(word.prefix) or word.prefix.startswith(b) for b in beginnings)


def _scripts(command: Command, found: Scan, language: str) -> list[Danger]:
    """Check the script: the values of -e joined by lines, else the first operand; of sqlite3 all but the database."""
    words = command.words
    if language == "sqlite":
        return _queries(command, found)
    given = [(item.index, item.value) for item in found.given if item.name == "-e"]
    if not given and found.operands and not any(item.name == "-f" for item in found.given):
        given = [(found.operands[0], words[found.operands[0]])]
    texts = [value if isinstance(value, str) or value is None else value.text for _, value in given]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return [Danger(UNKNOWN, "", given[0][0])]
    script = "\n".join(known)
    kind = READERS[language](script)
    return [] if kind is None else [Danger(kind, script, given[0][0])]


def _queries(command: Command, found: Scan) -> list[Danger]:
    if any(item.name in ("-version", "-help") for item in found.given):
        return []
    queries = [(index, command.words[index].text) for index in found.operands[1:]]
    if not queries:
        return [Danger(EXECUTES, "commands from its input", len(command.words))]
    dangers = [Danger(UNKNOWN, "", index) for index, text in queries if text is None]
    return dangers + [
        Danger(kind, text, index) for index, text in queries if text is not None and (kind := READERS["sqlite"](text))
    ]
