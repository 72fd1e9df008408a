"""One call on its way to its meaning: what it tells, where it would happen, and what was found out.

What was found out about a call so far: its actions, where they were found, and what stays doubtful.
"""

from byleave.core.action import CallAction, CommandAction, FileAction, MoveAction, OtherAction
from byleave.translate.call import Meaning
from byleave.translate.parsed_input import EDIT, GIT_HEADER, MOST, MOVE, PLAIN_HEADER, InputText
from byleave.translate.paths import MOST_BASES, ToolPaths
from byleave.translate.texts import title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.core.action import Action
    from byleave.translate.call import ToolCall, Where
    from byleave.translate.parsed_input import FileChange, ParsedInput
    from byleave.translate.paths import ToolPath


_MOST_SOURCES = 8


class TranslationResult:
    """Gathers the meaning of one call. An action that was found twice counts once."""

    def __init__(self) -> None:
        self._actions: dict[object, Action] = {}
        self._sources: dict[str, dict[str, None]] = {}
        self.problem = ""
        self.is_full = False

    def __bool__(self) -> bool:
        return bool(self._actions)

    def add(self, action: "Action") -> None:
        """Add an action; too many of them are not understood."""
        key = CallAction if isinstance(action, CallAction) else action  # there is but one, and it may not be hashable
        if key not in self._actions and len(self._actions) >= MOST:
            self.doubt(f"it amounts to more than {MOST} actions")
            self.is_full = True
            return
        self._actions.setdefault(key, action)

    def doubt(self, problem: str) -> None:
        """Note why it cannot be told what would be done, or not all of it; the first reason is told."""
        self.problem = self.problem or problem

    def doubt_all(self, problems: "Iterable[str]") -> None:
        for problem in problems:
            self.doubt(problem)

    def note(self, field: str, source: str) -> None:
        """Note where a field was found."""
        places = self._sources.setdefault(field, {})
        if len(places) < _MOST_SOURCES:
            places[source] = None

    def meaning(self) -> Meaning:
        sources = {field: ", ".join(places) for field, places in self._sources.items()}
        return Meaning(tuple(self._actions.values()), sources, not self.problem, self.problem)


class TranslationContext:
    """What the steps of a translation share. `kinds` are the kinds that hold, possibly several."""

    def __init__(self, call: "ToolCall", where: "Where", told: "ParsedInput", kinds: tuple[str, ...]) -> None:
        self.call = call
        self.told = told
        self.kinds = kinds
        self.found = TranslationResult()
        self.places = ToolPaths(where)
        self.shell = where.shell
        self._known: set[str] | None = None
        self._add_bases()

    def _add_bases(self) -> None:
        """Let relative paths also start in the directories that the input names."""
        for said in (*self.told.cwds, *self.told.directories, *self.told.roots):
            directory, _ = self.places.directory(said.text)
            if directory is None or directory == self.places.cwd or directory in self.places.bases:
                continue
            if len(self.places.bases) >= MOST_BASES:
                self.found.doubt("it names several working directories")
                return
            self.places.bases.append(directory)

    def places_of(self, said: InputText) -> "list[ToolPath]":
        """Return the places that a path may mean; what is doubtful about them is noted."""
        places, problem = self.places.read(said.text, anywhere=said.anywhere)
        if problem:
            self.found.doubt(problem)
        return places

    def forms_of(self, said: InputText) -> set[str]:
        """Return the places that a path may mean, to compare them."""
        return {place.path for place in self.places.read(said.text, anywhere=said.anywhere)[0]}

    def do(self, does: str, paths: "Iterable[InputText]") -> None:
        """Add reading, editing or deleting each of these paths."""
        for said in paths:
            if self.found.is_full:
                return
            self.found.note("path", said.source)
            for place in self.places_of(said):
                for kind in self._kinds_of(does, place):
                    self.found.add(FileAction(kind, place.path))

    def _kinds_of(self, does: str, place: "ToolPath") -> tuple[str, ...]:
        if does != EDIT:
            return (does,)
        if place.absolute is None:  # below a home that is not known here
            return ("create", "update")
        return ("update",) if self.places.is_there(place.absolute) else ("create",)

    def change(self, changes: "Iterable[FileChange]") -> None:
        """Add what patches and diffs do, each to its files."""
        for change in changes:
            said = InputText(change.path, change.source, anywhere=True)
            if change.header and not self._is_sure(change, said):
                self.found.doubt("a diff names a path that may be relative to another directory")
            if change.does == MOVE:
                self.move(said, InputText(change.to, change.source, anywhere=True))
            else:
                self.do(change.does, [said])

    def _is_sure(self, change: "FileChange", said: InputText) -> bool:
        """Whether the path of a diff's header counts as it stands, and not with or without its first names."""
        if change.header == GIT_HEADER:
            start = self.places.cwd or ""
            return not any(self.places.is_there(f"{start}/{prefix}") for prefix in ("a", "b"))
        return self.forms_of(said) <= self._confirmed()

    def _confirmed(self) -> set[str]:
        """Return the places that are named elsewhere than in plain headers; found once."""
        if self._known is None:
            changes = [change for change in self.told.changes if change.header != PLAIN_HEADER]
            named = [*self.told.paths, *self.told.locations]
            named += [InputText(change.path, change.source, anywhere=True) for change in changes]
            self._known = {form for said in named for form in self.forms_of(said)}
        return self._known

    def move(self, origin: InputText, target: InputText) -> None:
        """Add a move; into a directory, the name goes along."""
        self.found.note("path", origin.source)
        self.found.note("to", target.source)
        for start in self.places_of(origin):
            name = start.path.rstrip("/").rpartition("/")[2]
            for end in self.places_of(target):
                self.found.add(MoveAction(start.path, end.path))
                if name not in ("", ".", "..") and end.absolute is not None and self.places.is_directory(end.absolute):
                    self.found.add(MoveAction(start.path, f"{end.path.rstrip('/')}/{name}"))

    def run(self, text: str, source: str, shell: str | None) -> None:
        """Add a command that a shell reads, wherever it may be run."""
        self.found.note("command", source)
        for directory in self._directories():
            if self.found.is_full:
                return
            self.found.add(CommandAction(text, directory, shell=shell))

    def _directories(self) -> "Iterator[str | None]":
        roots = self.told.roots
        named = [*self.told.cwds, *(said for said in self.told.directories if said not in roots)]
        if not named:
            self.found.note("cwd", "session")
            if self.places.cwd is None:
                self.found.doubt("the working directory of the command is not known")
            yield self.places.cwd
        for said in (*named, *roots):
            self.found.note("cwd", said.source)
            directory, problem = self.places.directory(said.text)
            if problem:
                self.found.doubt(problem)
            yield directory

    def add_other(self, name: str) -> None:
        """Add what is no more than its name."""
        self.found.add(OtherAction(name, title_of(self.call)))
