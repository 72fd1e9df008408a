"""What the steps of a translation share: the parsed input, the places it may mean, and the result so far.

A handler reads `TranslationContext.parsed` and adds actions to `.result`, with the source of each field and with every
doubt. A doubt is a reason why the call is not fully understood; the first one is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.action import CallAction, CommandAction, FileAction, MoveAction, OtherAction
from byleave.translate.call import Translation
from byleave.translate.input_reader import title_of
from byleave.translate.parsed_input import EDIT, GIT_HEADER, MOST, MOVE, PLAIN_HEADER, InputText
from byleave.translate.paths import MOST_BASES, ToolPaths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.core.action import Action
    from byleave.translate.call import ToolCall, Where
    from byleave.translate.parsed_input import FileChange, ParsedInput
    from byleave.translate.paths import ToolPath


_MOST_SOURCES = 8


class TranslationResult:
    """The actions of one call so far. An action that was found twice counts once."""

    def __init__(self) -> None:
        self._actions: dict[object, Action] = {}
        self._sources: dict[str, dict[str, None]] = {}
        self.problem = ""
        self.is_full = False

    def __bool__(self) -> bool:
        return bool(self._actions)

    def add(self, action: Action) -> None:
        """Add an action; too many of them are not understood."""
        key = CallAction if isinstance(action, CallAction) else action  # there is but one, and it may not be hashable
        if key not in self._actions and len(self._actions) >= MOST:
            self.doubt(f"it amounts to more than {MOST} actions")
            self.is_full = True
            return
        self._actions.setdefault(key, action)

    def doubt(self, problem: str) -> None:
        """Note why the call is not fully understood; the first reason is shown."""
        self.problem = self.problem or problem

    def doubt_all(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self.doubt(problem)

    def note(self, field: str, source: str) -> None:
        """Note where a field was found."""
        places = self._sources.setdefault(field, {})
        if len(places) < _MOST_SOURCES:
            places[source] = None

    def translation(self) -> Translation:
        sources = {field: ", ".join(places) for field, places in self._sources.items()}
        return Translation(tuple(self._actions.values()), sources, not self.problem, self.problem)


class TranslationContext:
    """What the steps of a translation share. `kinds` are the kinds that hold, possibly several."""

    def __init__(self, call: ToolCall, where: Where, parsed: ParsedInput, kinds: tuple[str, ...]) -> None:
        self.call = call
        self.parsed = parsed
        self.kinds = kinds
        self.result = TranslationResult()
        self.places = ToolPaths(where)
        self.shell = where.shell
        self._known: set[str] | None = None
        self._add_bases()

    def _add_bases(self) -> None:
        """Let relative paths also start in the directories that the input names."""
        for entry in (*self.parsed.cwds, *self.parsed.directories, *self.parsed.roots):
            directory, _ = self.places.directory(entry.text)
            if directory is None or directory == self.places.cwd or directory in self.places.bases:
                continue
            if len(self.places.bases) >= MOST_BASES:
                self.result.doubt("it names several working directories")
                return
            self.places.bases.append(directory)

    def places_of(self, entry: InputText) -> list[ToolPath]:
        """Return the places that a path may mean; what is doubtful about them is noted."""
        places, problem = self.places.read(entry.text, anywhere=entry.anywhere)
        if problem:
            self.result.doubt(problem)
        return places

    def forms_of(self, entry: InputText) -> set[str]:
        """Return the places that a path may mean, to compare them."""
        return {place.path for place in self.places.read(entry.text, anywhere=entry.anywhere)[0]}

    def do(self, does: str, paths: Iterable[InputText]) -> None:
        """Add reading, editing or deleting each of these paths."""
        for entry in paths:
            if self.result.is_full:
                return
            self.result.note("path", entry.source)
            for place in self.places_of(entry):
                for kind in self._kinds_of(does, place):
                    self.result.add(FileAction(kind, place.path))

    def _kinds_of(self, does: str, place: ToolPath) -> tuple[str, ...]:
        if does != EDIT:
            return (does,)
        if place.absolute is None:  # below a home that is not known here
            return ("create", "update")
        return ("update",) if self.places.is_there(place.absolute) else ("create",)

    def change(self, changes: Iterable[FileChange]) -> None:
        """Add what patches and diffs do, each to its files."""
        for change in changes:
            entry = InputText(change.path, change.source, anywhere=True)
            if change.header and not self._is_sure(change, entry):
                self.result.doubt("a diff names a path that may be relative to another directory")
            if change.does == MOVE:
                self.move(entry, InputText(change.to, change.source, anywhere=True))
            else:
                self.do(change.does, [entry])

    def _is_sure(self, change: FileChange, entry: InputText) -> bool:
        """Whether the path of a diff's header counts as it stands, and not with or without its first names."""
        if change.header == GIT_HEADER:
            start = self.places.cwd or ""
            return not any(self.places.is_there(f"{start}/{prefix}") for prefix in ("a", "b"))
        return self.forms_of(entry) <= self._confirmed()

    def _confirmed(self) -> set[str]:
        """Return the places that are named elsewhere than in plain headers; found once."""
        if self._known is None:
            changes = [change for change in self.parsed.changes if change.header != PLAIN_HEADER]
            named = [*self.parsed.paths, *self.parsed.locations]
            named += [InputText(change.path, change.source, anywhere=True) for change in changes]
            self._known = {form for entry in named for form in self.forms_of(entry)}
        return self._known

    def move(self, origin: InputText, target: InputText) -> None:
        """Add a move; into a directory, the name goes along."""
        self.result.note("path", origin.source)
        self.result.note("to", target.source)
        for start in self.places_of(origin):
            name = start.path.rstrip("/").rpartition("/")[2]
            for end in self.places_of(target):
                self.result.add(MoveAction(start.path, end.path))
                if name not in ("", ".", "..") and end.absolute is not None and self.places.is_directory(end.absolute):
                    self.result.add(MoveAction(start.path, f"{end.path.rstrip('/')}/{name}"))

    def run(self, text: str, source: str, shell: str | None) -> None:
        """Add a command that a shell reads, wherever it may be run."""
        self.result.note("command", source)
        for directory in self._directories():
            if self.result.is_full:
                return
            self.result.add(CommandAction(text, directory, shell=shell))

    def _directories(self) -> Iterator[str | None]:
        roots = self.parsed.roots
        named = [*self.parsed.cwds, *(entry for entry in self.parsed.directories if entry not in roots)]
        if not named:
            self.result.note("cwd", "session")
            if self.places.cwd is None:
                self.result.doubt("the working directory of the command is not known")
            yield self.places.cwd
        for entry in (*named, *roots):
            self.result.note("cwd", entry.source)
            directory, problem = self.places.directory(entry.text)
            if problem:
                self.result.doubt(problem)
            yield directory

    def add_other(self, name: str) -> None:
        """Add what is no more than its name."""
        self.result.add(OtherAction(name, title_of(self.call)))
