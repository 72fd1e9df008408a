"""What is known of one command's words, as the rules of `core` ask for it. None is "it depends" (on run time)."""

from byleave.shell.dangers import UNKNOWN, Danger, dangerous_options
from byleave.shell.options import canonical_flags, has_flag, scan, subcommand, subcommand_is_unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.shell.model import Command
    from byleave.shell.programs import Programs

ANYTHING = "**"

_MODULE = "-m"


class Known:
    """Answers about one command; what is slow to find out is found out once."""

    __slots__ = ("_aliases", "_command", "_dangers", "_flags", "_programs", "_subcommand")

    def __init__(self, command: "Command", programs: "Programs") -> None:
        self._command = command
        self._programs = programs
        self._dangers: tuple[Danger, ...] | None = None
        self._flags: dict[str, bool | None] = {}
        self._subcommand: tuple[str | None, bool] | None = None
        self._aliases: Mapping[str, str] = {}

    def is_subcommand(self, wanted: str) -> bool | None:
        """Whether the subcommand is `wanted`, or one is an alias of the other."""
        if self._subcommand is None:
            unknown = subcommand_is_unknown(self._command, self._programs)
            self._subcommand = subcommand(self._command, self._programs), unknown
            table = self._programs.table(self._command.program or "")
            self._aliases = table.aliases if table is not None else {}
        given, unknown = self._subcommand
        if unknown:
            return None if self._may_be_subcommand(wanted) else False
        return given == wanted or (given is not None and self._aliases.get(wanted) == given)

    def _may_be_subcommand(self, wanted: str) -> bool:
        """Whether some word is the subcommand, or could become it at run time."""
        for word in self._command.words[1:]:
            if word.text is None or word.text == wanted or self._aliases.get(word.text) == wanted:
                return True
            if self._aliases.get(wanted) == word.text:
                return True
        return False

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
            self._flags[flag] = has_flag(self._command, flag, self._programs)
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

    def args_match(self, wanted: tuple[str, ...]) -> bool | None:
        """Whether the words after the program are exactly these, a last `**` being anything after."""
        words = self._command.words[1:]
        open_end = wanted[-1:] == (ANYTHING,)
        literal = wanted[:-1] if open_end else wanted
        for number, text in enumerate(literal):
            if number >= len(words):
                return False
            word = words[number]
            if word.many:
                return None  # from here on nobody knows which word stands where
            if word.text is None:
                return None if text.startswith(word.prefix) else False
            if word.text != text:
                return False
        if open_end or len(words) == len(literal):
            return True
        return None if all(word.many for word in words[len(literal) :]) else False

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


def _dangers(command: "Command", programs: "Programs") -> "tuple[Danger, ...]":
    found = dangerous_options(command, programs)
    module = _module_at(command)
    if module == 0:
        return found
    inner = command.replace(words=command.words[module:])  # `python -m pytest` takes the options of pytest
    return (*found, *[danger.replace(index=danger.index + module) for danger in dangerous_options(inner, programs)])


def _module_at(command: "Command") -> int:
    """Return the place of the module that Python is told to run, 0 if there is none."""
    if not (command.program or "").startswith("python"):
        return 0
    for index, word in enumerate(command.words[1:-1], start=1):
        if word.text == _MODULE:
            return index + 1
        if word.text is None or not word.text.startswith("-"):
            return 0
    return 0
