"""Which files a command names in order to write them: operands of programs that write, values of options that do.

Only what stands in the text. It serves to keep places closed that nobody may write to, so it errs towards naming more.
"""

from byleave.record import Record
from byleave.shell.dangers import dangerous_options, writes_by_nature
from byleave.shell.options import scan
from byleave.shell.programs import BUILT_IN, Programs
from byleave.shell.scripts import WRITES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.model import Command
    from byleave.shell.options import Given

COPIES = frozenset({"cp", "install", "ln", "rsync", "scp"})  # read all but their last operand
MOVES = frozenset({"mv"})  # take their sources away, too
_INTO = frozenset({"-t", "--target-directory"})


class Written(Record):
    """A file that a command writes. `names` are what it would put there, should it be a directory."""

    path: str
    names: tuple[str, ...] = ()


def written(command: "Command", programs: Programs = BUILT_IN) -> tuple[Written, ...]:
    """Return the files that a command names to write them; nothing for one that only reads, as far as is known."""
    found = scan(command, programs)
    named = [Written(value) for given in found.given if (value := _file_of(given))]
    if not _writes(command, programs):
        return tuple(named)
    operands = [text for index in found.operands if (text := command.words[index].text) is not None]
    values = [(given, value) for given in found.given if (value := _value(given))]
    into = [value for given, value in values if given.name in _INTO]
    others = [Written(value) for given, value in values if given.name not in _INTO]
    return (*others, *_targets(command.program or "", [_plain(text) for text in operands], into))


def _writes(command: "Command", programs: Programs) -> bool:
    if writes_by_nature(command, programs):
        return True
    return any([danger.kind == WRITES for danger in dangerous_options(command, programs)])


def _targets(program: str, operands: list[str], into: list[str]) -> "Iterator[Written]":
    if program not in COPIES | MOVES:
        yield from (Written(text) for text in operands)
        return
    sources, targets = (operands, into) if into else (operands[:-1], operands[-1:])
    names = tuple(text.rstrip("/").rpartition("/")[2] for text in sources)
    yield from (Written(target, names) for target in targets)
    if program in MOVES:
        yield from (Written(text) for text in sources)


def _value(given: "Given") -> str | None:
    return given.value if isinstance(given.value, str) or given.value is None else given.value.text


def _file_of(given: "Given") -> str | None:
    """Return the file that an option names to write it, harmless as it may be: `gcc -o F`, `--cov-report=xml:F`."""
    value = _value(given)
    if given.table is None or not value:
        return None
    if given.table.checks.get(given.name) == "~coverage":
        return value.partition(":")[2] or None
    return value if given.table.files.get(given.name, "").startswith("write") else None


def _plain(operand: str) -> str:
    return operand.removeprefix("of=")  # as dd spells it
