"""What of a command goes beyond its plain use.

Options that run other programs, options that write files, and words known only at run time that could be such. A
rule that merely names a program does not cover these. The knowledge is in `programs.toml`.
"""

from byleave.record import Record
from byleave.shell.options import scan
from byleave.shell.programs import BUILT_IN, Programs
from byleave.shell.scripts import EXECUTES, WRITES, awk_danger, sed_danger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.model import Command, Word
    from byleave.shell.options import Given, Scan
    from byleave.shell.programs import Program

UNKNOWN = "unknown"
SHELL_CHARACTERS = frozenset("$`;|&<>()\n\\\"'")
READERS = {"sed": sed_danger, "awk": awk_danger}


class Danger(Record):
    """One option or word that a plain rule does not cover.

    `kind` is `executes`, `writes`, or `unknown` for a word known only at run time that could be either. `option` is its
    name or the word itself, `index` its place in the words.
    """

    kind: str
    option: str
    index: int


def dangerous_options(command: "Command", programs: Programs = BUILT_IN) -> tuple[Danger, ...]:
    """Return every danger in a command, in no particular order. A program without a table has none that are known."""
    found = scan(command, programs)
    table = found.table
    if table is None:
        return ()
    dangers = [danger for given in found.given if (danger := _option(given))]
    dangers.extend(_operands(command, found, table))
    if table.script is not None:
        dangers.extend(_scripts(command, found, READERS[table.script]))
    if found.subcommand_unknown:
        dangers.append(Danger(UNKNOWN, command.words[found.operands[0]].prefix, found.operands[0]))
    elif dangerous_program(table):
        dangers.extend([Danger(UNKNOWN, command.words[index].prefix, index) for index in found.unknown])
    return tuple(dangers)


def dangerous_program(table: "Program") -> bool:
    """Return whether a program has options that execute or write at all."""
    return bool(table.executes or table.writes or table.runs or table.most is not None or table.wrap is not None)


def writes_by_nature(command: "Command", programs: Programs = BUILT_IN) -> bool:
    """Return whether writing files is what the program is for: `tee`, `cp`, `rm`."""
    table = programs.table(command.program or "")
    return table is not None and table.writer


def _option(given: "Given") -> Danger | None:
    table = given.table
    if table is None:
        return None
    kind = EXECUTES if given.name in table.executes else WRITES if given.name in table.writes else None
    if kind is None or _is_harmless(given, table):
        return None
    return Danger(kind, given.name, given.index)


def _is_harmless(given: "Given", table: "Program") -> bool:
    beginnings = table.harmless.get(given.name)
    if beginnings is None or given.value is None:
        return False
    text = given.value if isinstance(given.value, str) else (given.value.text or "")
    return any(text == value if value[-1:] not in ".=:" else text.startswith(value) for value in beginnings) or any(
        value[-1:].isalpha() and text.startswith(value + "=") for value in beginnings
    )


def _operands(command: "Command", found: "Scan", table: "Program") -> list[Danger]:
    dangers: list[Danger] = []
    for index in found.operands:
        word = command.words[index]
        if table.assigns and "=" in word.prefix and not (word.text and SHELL_CHARACTERS.isdisjoint(word.text)):
            dangers.append(Danger(EXECUTES if word.text is not None else UNKNOWN, word.prefix, index))
        elif table.runs and index not in found.unknown and _may_start(word, table.runs):
            kind = EXECUTES if word.text is not None else UNKNOWN
            dangers.append(Danger(kind, word.prefix, index))
    if table.most is not None:
        certain = len([index for index in found.operands if not command.words[index].many])
        if certain > table.most or (len(found.operands) > certain and certain + 1 > table.most):
            index = found.operands[min(table.most, len(found.operands) - 1)]
            dangers.append(Danger(WRITES, command.words[index].prefix, index))
    return dangers


def _may_start(word: "Word", beginnings: tuple[str, ...]) -> bool:
    if word.text is not None:
        return word.text.startswith(beginnings)
    return word.splits or any(b.startswith(word.prefix) or word.prefix.startswith(b) for b in beginnings)


def _scripts(command: "Command", found: "Scan", reader: "object") -> list[Danger]:
    """Judge the script of sed or awk: the values of -e, else the first operand."""
    given = [item for item in found.given if item.name == "-e"]
    places: list[tuple[int, Word | str | None]] = [(item.index, item.value) for item in given]
    if not places and not any(item.name == "-f" for item in found.given) and found.operands:
        places = [(found.operands[0], command.words[found.operands[0]])]
    dangers: list[Danger] = []
    for index, value in places:
        text = value if isinstance(value, str) or value is None else value.text
        if text is None:
            dangers.append(Danger(UNKNOWN, "", index))
            continue
        kind = reader(text)  # type: ignore[operator]
        if kind is not None:
            dangers.append(Danger(kind, text, index))
    return dangers
