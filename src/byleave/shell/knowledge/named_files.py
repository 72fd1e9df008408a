"""Which files a command names, and what it does to them: read, write, delete, execute.

Pure: words in, names out. The knowledge is in `program_files`; how operands and options become roles is in
`file_operands`. Words known only at run time are kept as names without a text. It errs towards naming more: what no
rule closes adds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.shell.knowledge.file_operands import NamedFiles, loose, text_of
from byleave.shell.knowledge.git_files import named_elsewhere
from byleave.shell.knowledge.named_file_shapes import SHAPES
from byleave.shell.knowledge.options import module_words, scan, scan_words
from byleave.shell.knowledge.possible_files import EXECUTE, PossibleFile
from byleave.shell.knowledge.program_files import FILES, MODULES, MOVES, MOVING_OPERANDS
from byleave.shell.knowledge.programs import BUILT_IN, ProgramTables
from byleave.shell.knowledge.shared_files import packing
from byleave.shell.knowledge.text_files import in_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from byleave.shell.knowledge.options import Scan
    from byleave.shell.model import Command
    from byleave.shell.syntax.tree import Word


def named_files(command: Command, programs: ProgramTables = BUILT_IN) -> tuple[PossibleFile, ...]:
    """Return the files that a command names, in the order of their words as far as that matters."""
    if not command.words:
        return ()
    name = command.words[0].text
    found: list[PossibleFile] = []
    if name is not None and "/" in name:
        found.append(PossibleFile(name, EXECUTE))
    found.extend(in_texts(command))
    module = module_words(command)
    if module and module[0].text in FILES:  # `python -m black FILES`
        found.extend(named_files(command.replace(words=module), programs))
    if module and module[0].text in MODULES:
        own = NamedFiles(command.replace(words=module), scan_words(module, None), MODULES[module[0].text])
        found.extend(_by_entry(own))
    entry = FILES.get((command.program or "").partition("@")[0])  # `npx prettier@3`
    if entry is None or command.elsewhere:
        found.extend(loose(command, programs))
        return tuple(dict.fromkeys(found))
    files = _by_entry(NamedFiles(command, _scanned(command, programs, entry), entry))
    found.extend(files if command.program != "git" else _by_pathspecs(files))
    if command.program == "git":
        found.extend(named_elsewhere(command))
    return tuple(dict.fromkeys(found))


def _by_entry(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield the files that the program's entry finds: in the values of options, then in the operands."""
    yield from names.values()
    shape = names.entry.get("shape")
    if shape is None:
        yield from names.operands()
    else:
        yield from SHAPES[shape](names)
    if "packing" in names.entry:
        yield from packing(names)


# Options whose value can only be attached, so that the next word is an operand.
_ATTACHED = frozenset(["--color", "--backup", "--sparse", "--preserve", "--context", "-C"])


def _scanned(command: Command, programs: ProgramTables, entry: Mapping[str, Any]) -> Scan:
    """Sort the words of a command. Its entry says what takes a value beside what an option table says."""
    name = command.program or ""
    table = programs.table(name)
    if "options" not in entry or (table is not None and (table.sub or table.subcommands)):
        return scan(command, programs)
    values = [option for names in entry["options"].values() for option in names if option not in _ATTACHED]
    if table is None:
        style = "word" if any(len(option) > 2 and option[1] != "-" for option in values) else "gnu"
        listed = {"values": [option for option in values if option != "*"], "style": style}
        return scan_words(command.words, ProgramTables({name: listed}).table(name))
    unlisted = {option: option for option in values if option not in table.canonical and option != "*"}
    if unlisted:
        table = table.replace(canonical={**table.canonical, **unlisted}, values=table.values.union(unlisted))
    return scan_words(command.words, table)


def _by_pathspecs(named: Iterable[PossibleFile]) -> Iterator[PossibleFile]:
    """Yield files as git reads their names. A name that leaves files out names none; with no other, all are touched."""
    left_out: list[PossibleFile] = []
    kept = False
    for each in named:
        text = each.text
        read = each if text is None or (each.perhaps and text[:1] != ":") else _by_pathspec(each, text)
        if read is None:
            left_out.append(each)
        else:
            kept = kept or (each.tree and not each.perhaps)
            yield read
    if not kept:
        yield from [each.replace(text=".", top=True) for each in left_out if each.tree]


def _by_pathspec(named: PossibleFile, text: str) -> PossibleFile | None:
    """Return a file as git reads its name: patterns are its own business, `:/` is the root of the repository.

    `:(top,glob)NAME` and `:/NAME` say how the name is read, `:!NAME` leaves the name out: None for that.
    """
    magic, name = _magic(text)
    if "exclude" in magic:
        return None
    named = named.replace(text=name or ".", top=named.top or "top" in magic)
    if not magic <= _PLAIN_MAGIC:
        return named.replace(text=".", tree=True)
    wild = [place for place, char in enumerate(name) if char in "*?[\\"] if "literal" not in magic else []
    if wild:
        return named.replace(text=name[: wild[0]].rpartition("/")[0] or ".", tree=True)
    return named


_PLAIN_MAGIC = frozenset({"top", "glob", "literal"})
_SIGNS = {"/": "top", "!": "exclude", "^": "exclude"}


def _magic(text: str) -> tuple[frozenset[str], str]:
    """Return what the beginning of a pathspec says, and the name behind it."""
    if text.startswith(":("):
        words, end, name = text[2:].partition(")")
        return (frozenset(words.split(",")) - {""}, name) if end else (frozenset({text}), "")
    if not text.startswith(":"):
        return frozenset(), text
    name = text[1:].lstrip("".join(_SIGNS))
    signs = text[1 : len(text) - len(name)]
    return frozenset([_SIGNS[sign] for sign in signs]), name.removeprefix(":")


def moving_values(command: Command, programs: ProgramTables = BUILT_IN) -> tuple[tuple[str, str | None], ...]:
    """Return the options and operands that move a program to another directory, each with it, None if not known."""
    options = MOVES.get(command.program or "", ())
    operands = tuple(_moving_operands(command, programs))
    if not options:
        return operands
    found = scan(command, programs)
    given = [
        (item.name, text_of(item.value)) for item in found.given if item.name in options and item.value is not None
    ]
    seen = {name for name, _ in given}
    return (*given, *[pair for pair in _spelled(command.words, options) if pair[0] not in seen], *operands)


def can_be_moved(command: Command) -> bool:
    """Whether a program obeys what lies in the directory it works in, so that options to choose one are listed."""
    module = module_words(command)
    name = module[0].text if module else command.program
    return name in MOVES or name in MOVING_OPERANDS


def _moving_operands(command: Command, programs: ProgramTables) -> Iterator[tuple[str, str]]:
    """Yield operands that choose where a program works. Those known only at run time may be options, and ask."""
    module = module_words(command)
    if module:  # `python -m pytest DIRECTORY`
        command = command.replace(words=module)
    if command.program not in MOVING_OPERANDS:
        return
    ended = next((index for index, word in enumerate(command.words) if word.text == "--"), len(command.words))
    for index in scan(command, programs).operands:
        if index > ended and command.program in _HANDING_ON:
            break
        text = (command.words[index].text or "").partition(":")[0]
        if text.startswith("/") or ("/" in text and text.strip("./")):  # `cmake ..` is said in a build directory
            yield text, text


# What stands behind `--` is for the program that they start.
_HANDING_ON = frozenset(["dotnet", "go", "deno", "bun", "swift", "flutter", "dart"])


def _spelled(words: Sequence[Word], options: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield options as they stand, for programs whose tables do not know them."""
    for index, word in enumerate(words[1:], start=1):
        text = word.text if word.text is not None else word.prefix
        name, equals, value = text.partition("=")
        if name in options:
            following = words[index + 1].text if index + 1 < len(words) else None
            yield name, ((value if word.text is not None else None) if equals else following)
