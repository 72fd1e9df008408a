"""One call on its way to its meaning: what it tells, where it would happen, and what was found out."""

from byleave.core.action import CommandAction, FileAction, MoveAction, OtherAction
from byleave.translate.found import Found
from byleave.translate.places import MOST_BASES, Places
from byleave.translate.texts import title_of
from byleave.translate.told import EDIT, GIT_HEADER, MOVE, PLAIN_HEADER, Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.translate.call import Call, Where
    from byleave.translate.places import Place
    from byleave.translate.told import Change, Told


class Work:
    """What the steps of a translation share. `kinds` are the kinds that hold, possibly several."""

    def __init__(self, call: "Call", where: "Where", told: "Told", kinds: tuple[str, ...]) -> None:
        self.call = call
        self.told = told
        self.kinds = kinds
        self.found = Found()
        self.places = Places(where)
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

    def places_of(self, said: Said) -> "list[Place]":
        """Return the places that a path may mean; what is doubtful about them is noted."""
        places, problem = self.places.read(said.text, anywhere=said.anywhere)
        if problem:
            self.found.doubt(problem)
        return places

    def forms_of(self, said: Said) -> set[str]:
        """Return the places that a path may mean, to compare them."""
        return {place.path for place in self.places.read(said.text, anywhere=said.anywhere)[0]}

    def do(self, does: str, paths: "Iterable[Said]") -> None:
        """Add reading, editing or deleting each of these paths."""
        for said in paths:
            if self.found.is_full:
                return
            self.found.note("path", said.source)
            for place in self.places_of(said):
                for kind in self._kinds_of(does, place):
                    self.found.add(FileAction(kind, place.path))

    def _kinds_of(self, does: str, place: "Place") -> tuple[str, ...]:
        if does != EDIT:
            return (does,)
        if place.absolute is None:  # below a home that is not known here
            return ("create", "update")
        return ("update",) if self.places.is_there(place.absolute) else ("create",)

    def change(self, changes: "Iterable[Change]") -> None:
        """Add what patches and diffs do, each to its files."""
        for change in changes:
            said = Said(change.path, change.source, anywhere=True)
            if change.header and not self._is_sure(change, said):
                self.found.doubt("a diff names a path that may count from elsewhere")
            if change.does == MOVE:
                self.move(said, Said(change.to, change.source, anywhere=True))
            else:
                self.do(change.does, [said])

    def _is_sure(self, change: "Change", said: Said) -> bool:
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
            named += [Said(change.path, change.source, anywhere=True) for change in changes]
            self._known = {form for said in named for form in self.forms_of(said)}
        return self._known

    def move(self, origin: Said, target: Said) -> None:
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
                self.found.doubt("nobody said where the command would run")
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
