"""From the text of a command to the line that `core.line` judges: read it, resolve its directories and redirections.

Reading is pure and remembered; what looks at the disk is done anew each time.
"""

from byleave.core.fs import FsTarget
from byleave.core.line import Line, Redirection
from byleave.core.subject import Part
from byleave.shell.knowledge import Known
from byleave.shell.loose import loose_words
from byleave.shell.reader import read_command
from byleave.shell.variables import harmless_assignment, harmless_in_shell
from byleave.shell.wrappers import SHELLS
from byleave.shell.written import written
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.core.fs import Refused
    from byleave.shell.model import Command, Reading
    from byleave.shell.programs import Programs
    from byleave.workspace.resolve import Root

MOST_READINGS = 512


class LineReader:
    """Reads command lines in one workspace, and remembers what it read."""

    def __init__(self, root: "Root", programs: "Programs") -> None:
        self._root = root
        self._programs = programs
        self._readings: dict[str, tuple[Reading, tuple[Known, ...]]] = {}

    def read(self, text: str, cwd: str | None = None) -> Line:
        """Return the line as it stands now: commands, the directories they run in, the files they write."""
        reading, known = self._reading(text)
        if reading.problem is not None:
            problem = f"{reading.problem.reason} (line {reading.problem.line})"
            return Line(text, problem=problem, loose_words=loose_words(text))
        start = self._start(cwd)
        commands = reading.commands
        parts = tuple(self._part(reading, number, known[number], start) for number in range(len(commands)))
        redirections = tuple(each for command in commands for each in self._redirections(command, start))
        return Line(text, parts, tuple(tuple(command.argv) for command in commands), redirections)

    def _reading(self, text: str) -> "tuple[Reading, tuple[Known, ...]]":
        """Return what the text says and what is known of its words: pure, so it may be remembered."""
        found = self._readings.get(text)
        if found is None:
            if len(self._readings) >= MOST_READINGS:
                self._readings.pop(next(iter(self._readings)))
            reading = read_command(text, programs=self._programs)
            known = tuple(Known(command, self._programs) for command in reading.commands)
            found = self._readings[text] = (reading, known)
        return found

    def _start(self, cwd: str | None) -> str | None:
        """Return where the line starts, canonical; None if that is no directory."""
        return self._root.path if cwd is None else self._directory(cwd, self._root.path)

    def _part(self, reading: "Reading", number: int, known: Known, start: str | None) -> Part:
        command = reading.commands[number]
        return Part(
            text=_spelled(reading.text, command),
            name=command.name,
            knowledge=known,
            directories=self._directories(command.places, start),
            piped_to_shell=command.piped_to_shell or _feeds_shell(command, reading.commands),
            wraps=command.wraps,
            parent=_parent(command, reading.commands[:number]),
            blocked=_blocked(command),
            at_root=self._is_at_root(command, start),
            writes=tuple(self._written(command, start)),
            empty=not command.words,
        )

    def _written(self, command: "Command", start: str | None) -> "Iterator[FsTarget]":
        """Yield the places that a command names to write them, wherever it may run."""
        for file in written(command, self._programs):
            for base in self._directories(command.places, start) or (self._root.path,):
                place = self._root.resolve_place(file.path, base)
                if not isinstance(place, FsTarget):
                    continue
                yield place
                below = [self._root.resolve_place(name, place.canonical) for name in file.names if place.directory]
                yield from (each for each in below if isinstance(each, FsTarget))

    def _directories(self, places: "tuple[str, ...] | None", start: str | None) -> tuple[str, ...] | None:
        if places is None or start is None:
            return None
        found = [self._directory(place, start) for place in places]
        return None if None in found else tuple(place for place in found if place is not None)

    def _is_at_root(self, command: "Command", start: str | None) -> bool:
        """Whether a program named by a relative path is looked for in the root; asked only of such names."""
        name = command.name
        if name is None or "/" not in name or name.startswith("/"):
            return False
        return self._directories(command.base, start) == (self._root.path,)

    def _directory(self, place: str, start: str) -> str | None:
        if place == ".":
            return start  # canonical already
        found = self._root.resolve_place(place, start)
        return found.canonical if isinstance(found, FsTarget) and found.directory else None

    def _redirections(self, command: "Command", start: str | None) -> "Iterator[Redirection]":
        for redirect in command.redirects:
            if redirect.kind != "file":
                continue
            text = f"{redirect.operator} {redirect.target if redirect.target is not None else '...'}"
            if redirect.target in _NOT_FILES:
                continue
            bases = self._directories(command.base, start)
            if redirect.target is None or bases is None:
                yield Redirection(text, redirect.writes, self._absolute(redirect.target))
                continue
            for base in bases:
                yield Redirection(text, redirect.writes, self._root.resolve_place(redirect.target, base))

    def _absolute(self, target: str | None) -> "FsTarget | Refused | None":
        return self._root.resolve_place(target, "/") if target is not None and target.startswith("/") else None


_NOT_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"})


def _parent(command: "Command", before: "tuple[Command, ...]") -> int | None:
    """Return the number of the opaque wrapper that starts this command, the nearest before it."""
    if not command.via or command.via[-1].transparent:
        return None
    for number in range(len(before) - 1, -1, -1):
        wrapper = before[number]
        if wrapper.wraps == "opaque" and wrapper.via == command.via[:-1] and wrapper.program == command.via[-1].name:
            return number
    return None


def _feeds_shell(command: "Command", commands: "tuple[Command, ...]") -> bool:
    """Whether its output goes into a process of its own (`> >(..)`) while the line starts a shell somewhere."""
    outputs = [each for each in command.redirects if each.kind == "process" and ">" in each.operator]
    return bool(outputs) and any(other.program in SHELLS for other in commands)


def _spelled(text: str, command: "Command") -> str:
    """Return the command as it is written; one inside a script of its own, or beside substitutions, by its words."""
    written = text[command.start : command.end]
    if all(word.text is None or word.text in written for word in command.words):
        return written
    return " ".join([word.text if word.text is not None else "..." for word in command.words])


def _exports(command: "Command") -> bool:
    """Whether the assignments of a command reach a program: not those that only set variables of the shell."""
    if command.program in ("declare", "typeset", "local", "readonly"):
        return any(word.text is None or (word.text.startswith("-") and "x" in word.text) for word in command.words[1:])
    return bool(command.words)


def _blocked(command: "Command") -> str | None:
    """Say why no rule may allow this command: something beside its words changes what it does."""
    for assignment in command.assignments:
        if _exports(command):
            harmless = harmless_assignment(assignment.name, assignment.value, command.program)
        else:  # stays in the shell, unless it was exported before
            harmless = harmless_in_shell(assignment.name)
        if not harmless:
            return f"the variable {shown(assignment.name)} changes what runs"
    if any(redirect.kind == "network" for redirect in command.redirects):
        return "a redirection opens a network connection"
    return None
