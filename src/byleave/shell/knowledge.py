"""What is known of one command's words, as the rules of `core` ask for it. None is "it depends" (on run time)."""

from byleave.shell.dangers import UNKNOWN, dangerous_options
from byleave.shell.options import canonical_flags, has_flag, scan, subcommand, subcommand_is_unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.dangers import Danger
    from byleave.shell.model import Command
    from byleave.shell.programs import Programs

ANYTHING = "**"


class Known:
    """Answers about one command; what is slow to find out is found out once."""

    __slots__ = ("_command", "_dangers", "_flags", "_programs", "_subcommand")

    def __init__(self, command: "Command", programs: "Programs") -> None:
        self._command = command
        self._programs = programs
        self._dangers: tuple[Danger, ...] | None = None
        self._flags: dict[str, bool | None] = {}
        self._subcommand: tuple[str | None, bool] | None = None

    def is_subcommand(self, wanted: str) -> bool | None:
        """Whether the subcommand is `wanted`, or one is an alias of the other."""
        if self._subcommand is None:
            unknown = subcommand_is_unknown(self._command, self._programs)
            self._subcommand = subcommand(self._command, self._programs), unknown
        given, unknown = self._subcommand
        if unknown:
            return None
        if given == wanted:
            return True
        table = self._programs.table(self._command.program or "")
        return table is not None and given is not None and table.aliases.get(wanted, wanted) == given

    def has_flag(self, flag: str) -> bool | None:
        """Whether a flag is given, in any of its spellings."""
        if flag not in self._flags:
            self._flags[flag] = has_flag(self._command, flag, self._programs)
        return self._flags[flag]

    def has_operands(self, *, most: int) -> bool | None:
        """Whether there are at most so many words that are neither options nor the subcommand."""
        found = scan(self._command, self._programs)
        certain = [index for index in found.operands if not self._command.words[index].many]
        if len(certain) > most:
            return False
        depends = len(certain) < len(found.operands) or found.unknown or found.subcommand_unknown
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
            self._dangers = dangerous_options(self._command, self._programs)
        if not self._dangers:
            return None
        named = frozenset(name for flag in flags for name in canonical_flags(self._command, flag, self._programs))
        spelled = len(args) - (args[-1:] == (ANYTHING,))
        for danger in self._dangers:
            if danger.kind == UNKNOWN:
                return "a word known only at run time, which could be such an option"
            if danger.option not in named and danger.index > spelled:
                return danger.option
        return None
