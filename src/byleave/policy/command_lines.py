"""From the text of a command to the `CommandLine` that the rules decide: its commands, directories and files.

`LineReader` reads the text and resolves its paths. Reading is pure and remembered; what looks at the disk is done anew
each time. `with_covered` looks for closed places below the directories that a command walks, once for each directory.
The scripts that a line runs: `script_files`.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

from byleave.core.command_files import OPERATIONS
from byleave.core.command_line import CommandLine, Redirection
from byleave.core.fs_rules import FsTarget
from byleave.core.match_context import MatchPart
from byleave.core.place_access import closed_places
from byleave.core.selection import Selection
from byleave.policy.named_files import REPOSITORY_PARTS, FileFinder, makes_links, own_place
from byleave.shell.knowledge.command_facts import CommandFacts
from byleave.shell.knowledge.named_files import moving_values, named_files
from byleave.shell.knowledge.option_values import DIRECTORIES, harmless_assignment, harmless_in_shell
from byleave.shell.knowledge.possible_files import WRITE
from byleave.shell.reader import DIALECTS, loose_words, read_command
from byleave.shell.syntax.redirects import WRITING, is_descriptor_file
from byleave.text import shown
from byleave.workspace.closed_paths import Covered, covered_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from byleave.core.fs_rules import RefusedPath
    from byleave.core.match_context import NamedFile
    from byleave.core.policy import CompiledPolicy
    from byleave.core.protected import Protected
    from byleave.shell.knowledge.possible_files import PossibleFile
    from byleave.shell.knowledge.programs import ProgramTables
    from byleave.shell.model import Command, Reading
    from byleave.workspace.resolve import Root


MOST_READINGS = 512


class CommandLineReader:
    """Reads command lines in one workspace, and remembers what it read."""

    def __init__(self, root: Root, programs: ProgramTables, home: str | None = None) -> None:
        self._root = root
        self._programs = programs
        self._home = home
        self._readings: dict[tuple[str, str], tuple[Reading, tuple[CommandFacts, ...]]] = {}

    def read(self, text: str, cwd: str | None = None, shell: str | None = None) -> CommandLine:
        """Return the line as it stands now: commands, the directories they run in, the files they write.

        `shell` is the name of the shell that will read it; None where it is not known.
        """
        dialect = DIALECTS.get(shell)
        if dialect is None:
            return CommandLine(text, problem=f"the language of {shown(shell or '')}", loose_words=loose_words(text))
        reading, known = self._reading(text, dialect)
        if reading.problem is not None:
            problem = f"{reading.problem.reason} (line {reading.problem.line})"
            return CommandLine(text, problem=problem, loose_words=loose_words(text))
        start = self._start(cwd)
        commands = reading.commands
        shopt = any(command.program == "shopt" for command in commands)
        if start is not None and not any(_may_move(command) for command in commands):
            commands = tuple(_placed(command) for command in commands)
        finder = FileFinder(self._root, self._programs, self._home, start)
        finder.look_at_moves(commands, start)
        makers = [number for number, command in enumerate(commands) if makes_links(command)]
        files = [
            finder.find(command, start, links=makers not in ([], [number]), shopt=shopt)
            for number, command in enumerate(commands)
        ]
        makes = _may_make_repository(commands, files)
        parts = tuple(
            self._part(reading, number, known[number], start, files[number], finder, makes=makes)
            for number in range(len(commands))
        )
        ways = _opened_again(commands, self._programs)
        redirections = tuple(
            each
            for command in commands
            for text, opened, place in self._redirections(command, start, finder, shopt=shopt)
            for each in _each_way(text, {opened, *ways}, None if _is_unsure(place, makers, ways) else place)
        )
        whole = _is_whole(text, commands)
        return CommandLine(
            text,
            parts,
            tuple(tuple(command.argv) for command in commands),
            redirections,
            loose_words=loose_words(text) if whole and len(commands) == 1 and "byleave" in text else frozenset(),
            whole=whole,
        )

    def _reading(self, text: str, dialect: str) -> tuple[Reading, tuple[CommandFacts, ...]]:
        """Return what the text says and what is known of its words: pure, so it may be remembered."""
        found = self._readings.get((text, dialect))
        if found is None:
            if len(self._readings) >= MOST_READINGS:
                self._readings.pop(next(iter(self._readings)))
            reading = read_command(text, programs=self._programs, dialect=dialect)
            known = tuple(CommandFacts(command, self._programs) for command in reading.commands)
            found = self._readings[text, dialect] = (reading, known)
        return found

    def _start(self, cwd: str | None) -> str | None:
        """Return where the line starts, canonical; None if that is no directory."""
        return self._root.path if cwd is None else self._directory(cwd, self._root.path)

    def _part(  # noqa: PLR0917 -- called in one place, with what belongs to one number
        self,
        reading: Reading,
        number: int,
        known: CommandFacts,
        start: str | None,
        files: tuple[NamedFile, ...],
        finder: FileFinder,
        *,
        makes: bool,
    ) -> MatchPart:
        command = reading.commands[number]
        return MatchPart(
            text=_spelled(reading.text, command),
            name=command.name,
            knowledge=known,
            directories=self._directories(command.places, start),
            piped_to_shell=command.piped_to_shell,
            runs_anything=command.runs_anything,
            wraps=command.wraps,
            parent=_parent(command, reading.commands, number),
            blocked=_blocked(command),
            at_root=self._is_at_root(command, start),
            files=files,
            moved=finder.moved_out(command, start) or finder.left(command, start),
            repository=finder.other_repository(command, start, makes=makes),
            empty=not command.words,
        )

    def _directories(self, places: tuple[str, ...] | None, start: str | None) -> tuple[str, ...] | None:
        if places is None or start is None:
            return None
        found = [self._directory(place, start) for place in places]
        return None if None in found else tuple(place for place in found if place is not None)

    def _is_at_root(self, command: Command, start: str | None) -> bool:
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

    def _redirections(
        self, command: Command, start: str | None, finder: FileFinder, *, shopt: bool
    ) -> Iterator[tuple[str, bool, FsTarget | RefusedPath | None]]:
        """Yield the files of the redirections: the text, whether it writes, and the place."""
        for redirect in command.redirects:
            if redirect.kind != "file":
                continue
            bases = finder.bases(command.starts_in, start)
            if redirect.target is not None:
                targets: list[str] | None = [redirect.target]
            elif bases is not None:
                found = [finder.targets(redirect.forms, base, shopt=shopt) for base in bases]
                targets = None if None in found else [text for texts in found for text in texts or ()]
            else:
                targets = None
            if redirect.target is None:  # what it may become only tightens: that it is no plain name still counts
                yield f"{redirect.operator} ...", redirect.writes, None
            for target in targets or ():
                if target not in _NOT_FILES and not is_descriptor_file(target):
                    for place in self._opened(target, bases):
                        yield f"{redirect.operator} {target}", redirect.writes, place

    def _opened(self, target: str, bases: tuple[str, ...] | None) -> list[FsTarget | RefusedPath | None]:
        if bases is None:
            return [self._absolute(target)]
        names = [target] if own_place(target) is None else [target, own_place(target) or ""]
        return [self._root.resolve_place(name, base) for base in bases for name in names]

    def _absolute(self, target: str | None) -> FsTarget | RefusedPath | None:
        return self._root.resolve_place(target, "/") if target is not None and target.startswith("/") else None


def _is_whole(text: str, commands: tuple[Command, ...]) -> bool:
    """Whether the first command is the whole text, in literal words: the others are only what it starts."""
    if not commands:
        return False
    first, *others = commands
    bare = not first.via and not first.assignments and not first.redirects and None not in first.argv
    return bare and text[first.start : first.end] == text.strip() and all(other.via for other in others)


_NOT_FILES = frozenset({"/dev/null", "/dev/tty", "/dev/zero", "/dev/full"})


_MOVERS = frozenset({"cd", "chdir", "pushd", "popd", "source", ".", "eval"})


def _may_move(command: Command) -> bool:
    return bool(command.words) and (command.program is None or command.program in _MOVERS)


def _placed(command: Command) -> Command:
    """Return a command of a line that never leaves its directory: a function's body runs where the line starts."""
    if command.starts_in is not None or command.via or command.elsewhere or moving_values(command):
        return command
    return command.replace(places=(".",), base=(".",))


def _may_make_repository(commands: Sequence[Command], files: Sequence[tuple[NamedFile, ...]]) -> bool:
    """Whether a line may make a directory a repository before its git runs there."""
    redirects = [redirect for command in commands for redirect in command.redirects if redirect.kind == "file"]
    named = [(redirect.target or "HEAD").rpartition("/")[2] for redirect in redirects if redirect.writes]
    others = [own for command, own in zip(commands, files, strict=True) if command.program != "git"]
    written = any(file.op == WRITE and not file.perhaps for own in others for file in own)
    return written or not REPOSITORY_PARTS.isdisjoint(named)


def _each_way(text: str, ways: set[bool], place: FsTarget | RefusedPath | None) -> list[Redirection]:
    return [Redirection(text, writes, place) for writes in sorted(ways)]


def _is_unsure(place: FsTarget | RefusedPath | None, makers: Sequence[int], ways: frozenset[bool]) -> bool:
    """Whether more may be touched than the place of a redirection.

    A name that the line may make a link of leads elsewhere. By the name of a descriptor that is open on a directory
    (`grep -r x /dev/fd/3 3<.`), everything in the directory can be.
    """
    if not isinstance(place, FsTarget):
        return False
    return (bool(makers) and not place.exists) or (bool(ways) and place.directory)


_OPENED = ("/dev/", "/proc/")  # where what is open has a name; it may stand in a word: --output=/dev/fd/3


def _opened_again(commands: Iterable[Command], programs: ProgramTables) -> frozenset[bool]:
    """Return how what a line has open is opened once more by the name of its descriptor: for writing, for reading.

    Linux then opens the file itself, with the rights that are asked for now: `echo x <f >/dev/stdin` writes f.
    """
    ways = set()
    for command in commands:
        named = [redirect.target for redirect in command.redirects if redirect.operator in WRITING]
        used: list[PossibleFile] = []
        texts = [*command.argv, *[redirect.body for redirect in command.redirects]]
        if any(text is not None and any(sign in text for sign in _OPENED) for text in texts):
            used = [file for file in named_files(command, programs) if is_descriptor_file(file.text)]
        if any(map(is_descriptor_file, named)) or any(file.op == "write" for file in used):
            ways.add(True)
        named = [redirect.target for redirect in command.redirects if redirect.operator not in WRITING]
        if used or any(map(is_descriptor_file, (*named, *command.argv))):
            ways.add(False)
    return frozenset(ways)


def _parent(command: Command, commands: tuple[Command, ...], at: int) -> int | None:
    """Return the number of the opaque wrapper that starts this command, the nearest before it."""
    if not command.via or command.via[-1].transparent:
        return None
    started = (
        number
        for number in range(at - 1, -1, -1)
        if commands[number].wraps == "opaque"
        and commands[number].via == command.via[:-1]
        and commands[number].program == command.via[-1].name
    )
    return next(started, None)


def _spelled(text: str, command: Command) -> str:
    """Return the command as it is written; one inside a script of its own, or beside substitutions, by its words."""
    written = text[command.start : command.end]
    if all(word.text is None or word.text in written for word in command.words):
        return written
    return " ".join([word.text if word.text is not None else "..." for word in command.words])


def _exports(command: Command) -> bool:
    """Whether the assignments of a command reach a program: not those that only set variables of the shell."""
    if command.program in ("declare", "typeset", "local", "readonly"):
        return any(word.text is None or (word.text.startswith("-") and "x" in word.text) for word in command.words[1:])
    return bool(command.words)


def _blocked(command: Command) -> str | None:
    """Say why no rule may allow this command: something beside its words changes what it does."""
    for assignment in command.assignments:
        if _exports(command):
            value = assignment.relative if assignment.name in DIRECTORIES else None
            value = assignment.value if assignment.value is not None else value
            harmless = harmless_assignment(assignment.name, value, command.program)
        else:  # stays in the shell, unless it was exported before
            harmless = harmless_in_shell(assignment.name)
        if not harmless:
            return f"the variable {shown(assignment.name)} changes what runs"
    if any(redirect.kind == "network" for redirect in command.redirects):
        return "a redirection opens a network connection"
    return None


MOST_SELECTED = 64  # the same of a program that touches only some kinds of files, and leaves directories out
MOST_LOOKED_AT = 2_000  # files and directories, for protected ones of some kind
MOST_FOUND = 8  # closed places of one tree: enough to name
LONGEST = 1.0  # seconds, for all trees of one line
LONGEST_ELSEWHERE = 0.2  # for a tree outside the workspace, in which only a link can lead to a closed place


def with_covered(
    line: CommandLine,
    policy: CompiledPolicy,
    root: Root,
    agent: str | None,
    known: dict[object, Covered] | None = None,
) -> CommandLine:
    """Return the line with the closed places below each directory that one of its commands walks.

    `known` are walks of other lines by the same policy, where the disk counts as unchanged; new ones are added.
    """
    looked: dict[object, Covered] = {} if known is None else known
    end = monotonic() + LONGEST

    def look(place: FsTarget, kind: str, file: NamedFile) -> Covered:
        key = (place.canonical, kind, file.kinds, file.skips, agent)
        if key not in looked:
            closed = closed_places(policy, (kind,), root.path, agent, OPERATIONS[kind])
            elsewhere = place.relative is None and not closed.begin(place.canonical)
            seconds = min(LONGEST_ELSEWHERE if elsewhere else LONGEST, max(end - monotonic(), 0.0))
            selection = Selection(" ".join([f"*{ending}" for ending in file.kinds])) if file.kinds else None
            most = MOST_SELECTED if file.kinds else MOST_FOUND
            found = covered_below(root, place.canonical, closed, selection=selection, most_found=most, seconds=seconds)
            looked[key] = _without_skipped(found, file.skips) if file.skips else found
        return looked[key]

    def with_found(file: NamedFile) -> NamedFile:
        place = file.place
        if not file.tree or not isinstance(place, FsTarget) or not place.directory:
            return file
        kinds = ("update", "delete") if file.op == "write" else (file.kind,)
        found = [look(place, kind, file) for kind in kinds]
        names = tuple(dict.fromkeys(name for each in found for name in each.names))
        complete = all(each.complete for each in found) or bool(names)
        kept = None
        if file.gone:
            kept = next(filter(os.path.lexists, policy.protected.final_below(place)), None)
        elif file.kinds and file.op == "write":
            kept = _protected_of_kind(file, place, policy.protected, root)
        return file.replace(covered=names, complete=complete, guarded=kept)

    def walked(part: MatchPart) -> MatchPart:
        if not any(file.tree for file in part.files):
            return part
        return part.replace(files=tuple(with_found(file) for file in part.files))

    return line.replace(parts=tuple(walked(part) for part in line.parts))


def _without_skipped(found: Covered, skips: tuple[str, ...]) -> Covered:
    places = tuple([each for each in found.places if not set(skips).intersection(each.path.split("/"))])
    return Covered(places, found.complete)


def _protected_of_kind(file: NamedFile, top: FsTarget, protected: Protected, root: Root) -> str | None:
    """Return a protected file with one of the endings: in the directory itself, or in a hidden one in it."""
    left = MOST_LOOKED_AT
    ahead = [top.canonical]
    while ahead and left > 0:
        directory = ahead.pop()
        try:
            names = sorted(os.listdir(directory))[:left]
        except OSError:
            continue
        left -= len(names)
        for name in names:
            path = f"{directory.rstrip('/')}/{name}"
            if name not in file.skips and not os.path.islink(path) and os.path.isdir(path):
                if directory != top.canonical or name.startswith("."):
                    ahead.append(path)
            elif name.endswith(file.kinds):
                kept = protected.of(FsTarget(path, root.relative(path), exists=True), subtree=False)
                if kept is not None:
                    return path if root.relative(path) is None else root.relative(path)
    return None
