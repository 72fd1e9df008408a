"""What a call tells, sorted by what it is about. Nothing is judged here, and nothing of it is lost silently."""

from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Item = TypeVar("Item")

MOST = 1000  # things of one sort, and actions of one call

EDIT, DELETE, MOVE = "edit", "delete", "move"
PLAIN_HEADER, GIT_HEADER = "plain", "git"


class Said(Record):
    """A text, and where it stands; under which name, where that matters.

    `anywhere`: if it is a relative path, it may also start in a directory that the input names.
    """

    text: str
    source: str
    name: str = ""
    anywhere: bool = False


class Words(Record):
    """A list of arguments, and where it stands."""

    words: tuple[str, ...]
    source: str


class Change(Record):
    """What would be done to one file: edit, delete or move.

    `header` says that the path stands in the header of a unified diff, where the first names of it may not count.
    """

    does: str
    path: str
    to: str = ""
    source: str = ""
    header: str = ""


class Told:
    """Everything that one call tells."""

    def __init__(self) -> None:
        self.structured = False
        self.commands: list[Said] = []
        self.lists: list[Words] = []
        self.args: list[Words] = []
        self.cwds: list[Said] = []
        self.roots: list[Said] = []  # directories that may be where it happens, or anything
        self.directories: list[Said] = []
        self.paths: list[Said] = []
        self.locations: list[Said] = []
        self.origins: list[Said] = []
        self.targets: list[Said] = []
        self.patterns: list[Said] = []
        self.queries: list[Said] = []
        self.urls: list[Said] = []
        self.methods: list[Said] = []
        self.scripts: list[Said] = []
        self.verbs: list[Said] = []  # what is done to the paths, in the words of an editor
        self.changes: list[Change] = []
        self.shows_diff = False
        self.sends = False  # a request with a body
        self.sums_up = False  # its kind is what the agent made of its command
        self.doubts: list[str] = []
        self.doubts_of_running: list[str] = []  # they count where a command is run
        self.doubts_of_code: list[str] = []  # they count wherever something may be run
        self.doubts_of_fetching: list[str] = []
        self.doubts_of_searching: list[str] = []
        self.doubts_of_moving: list[str] = []

    @property
    def runs(self) -> bool:
        return bool(self.commands or self.lists)

    def doubt(self, problem: str) -> None:
        """Note why it cannot be told what would be done, or not all of it."""
        if len(self.doubts) < MOST:
            self.doubts.append(problem)

    def keep(self, kept: "list[Item]", item: "Item") -> bool:
        """Keep one more thing, unless there are too many; return whether there is room for another."""
        if len(kept) < MOST:
            kept.append(item)
            return True
        self.doubt(f"it names more than {MOST} things")
        return False


def is_empty(value: "Any") -> bool:
    """Whether a value says nothing: absent, null or empty."""
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)
