"""The parsed input of a call: commands, paths, URLs and the rest, sorted by their role. Nothing is decided here.

Nothing is dropped silently, either: what is not understood becomes a doubt. `hides_something` finds names deeper in an
input than agents put what they act on.
"""

from __future__ import annotations

from typing import Any, TypeVar

from byleave.record import Record
from byleave.translate import names

Item = TypeVar("Item")


MOST = 1000  # things of one sort, and actions of one call

EDIT, DELETE, MOVE = "edit", "delete", "move"
PLAIN_HEADER, GIT_HEADER = "plain", "git"


class InputText(Record):
    """A text, and where it stands; under which name, where that matters.

    `anywhere`: if it is a relative path, it may also start in a directory that the input names.
    """

    text: str
    source: str
    name: str = ""
    anywhere: bool = False


class ArgumentList(Record):
    """A list of arguments, and where it stands."""

    words: tuple[str, ...]
    source: str


class FileChange(Record):
    """What would be done to one file: edit, delete or move.

    `header` says that the path stands in the header of a unified diff, where the first names of it may not count.
    """

    does: str
    path: str
    to: str = ""
    source: str = ""
    header: str = ""


class ParsedInput:
    """Everything that one call names."""

    def __init__(self) -> None:
        self.structured = False
        self.commands: list[InputText] = []
        self.lists: list[ArgumentList] = []
        self.args: list[ArgumentList] = []
        self.cwds: list[InputText] = []
        self.roots: list[InputText] = []  # directories that may be where it happens, or anything
        self.directories: list[InputText] = []
        self.paths: list[InputText] = []
        self.locations: list[InputText] = []
        self.origins: list[InputText] = []
        self.targets: list[InputText] = []
        self.patterns: list[InputText] = []
        self.queries: list[InputText] = []
        self.urls: list[InputText] = []
        self.methods: list[InputText] = []
        self.scripts: list[InputText] = []
        self.verbs: list[InputText] = []  # what is done to the paths, in the words of an editor
        self.changes: list[FileChange] = []
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
        """Note why the call is not fully understood."""
        if len(self.doubts) < MOST:
            self.doubts.append(problem)

    def keep(self, kept: list[Item], item: Item) -> bool:
        """Keep one more thing, unless there are too many; return whether another fits."""
        if len(kept) < MOST:
            kept.append(item)
            return True
        self.doubt(f"it names more than {MOST} things")
        return False


def is_empty(value: Any) -> bool:
    """Whether a value says nothing: absent, null or empty."""
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)


MOST_LOOKS = 10_000  # values that are looked at
DEEPEST = 8
# The roles of names that a tool acts on.
_COMMANDS = (names.COMMAND, names.COMMANDS, names.CWD, names.ROOT, names.URL)
_FILES = (names.PATH, names.DIRECTORY, names.EDITS, names.PATCH, names.ORIGIN, names.TARGET)
ACTED_ON = frozenset((*_COMMANDS, *_FILES))
# What changes how a command is run.
RUNNING = frozenset((names.ENV, names.SHELL, names.STDIN, names.RIGHTS, names.ARGS))


def hides_something(value: Any, roles: frozenset[str] = ACTED_ON) -> bool:
    """Whether something inside is named like something that a tool acts on, or there is too much to look at."""
    ahead: list[tuple[Any, int]] = [(value, 0)]
    looks = 0
    while ahead:
        value, depth = ahead.pop()
        if not isinstance(value, dict | list):
            continue
        looks += len(value)
        if depth > DEEPEST or looks > MOST_LOOKS:
            return True
        if isinstance(value, list):
            ahead += [(inner, depth + 1) for inner in value]
            continue
        named = [(names.any_role(key), inner) for key, inner in value.items()]
        if any(role in roles and not is_empty(inner) for role, inner in named):
            return True
        ahead += [(inner, depth + 1) for role, inner in named if role not in (names.PROSE, names.SUMMARY)]
    return False
