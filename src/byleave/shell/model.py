"""What a reading is made of: assignments, redirections, commands. Their words are those of `syntax.tree`.

Values only. How a text becomes them: `reader.read_command`. What a program's options mean: `knowledge.options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.record import Record

if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Piece, Word


class Assignment(Record):
    """`NAME=value` before a command, on its own, or as an argument of `export`, `env` and the like.

    `relative` is the value of a list of directories with `.` for `$PWD` and for what the variable held before.
    """

    name: str
    value: str | None
    append: bool = False
    relative: str | None = None


class Redirect(Record):
    """One redirection. `target` is None for a word known only at run time, or where there is no word.

    `kind` is `file`, `descriptor` (`2>&1`, `>&-`), `text` (here-documents and here-strings), `process` (`> >(cmd)`)
    or `network` (`/dev/tcp/...`). `writes`: it can create or change a file; `/dev/null` and the like do not count.
    """

    operator: str
    fd: int | None
    target: str | None
    writes: bool
    kind: str = "file"
    prefix: str = ""
    body: str | None = None
    forms: tuple[tuple[Piece, ...], ...] = ()  # as of a word


class Via(Record):
    """A wrapper through which a command runs. A transparent one adds nothing that needs a rule of its own."""

    name: str
    transparent: bool


class Command(Record):
    """One simple command that the text can run.

    `places` are all the directories it may run in (None: unknown). Each is to be resolved as it stands, symlinks
    before `..`. A relative one starts where the text starts. `base` is the same for the shell itself, which opens the
    redirections: it differs from `places` under `git -C` and the like. `cwd` is the place when there is only one.
    `wraps` is `transparent` or `opaque` for a wrapper whose children follow as commands of their own, else None.
    A command without words carries bare assignments or redirections. Redirections of a group stand at its first
    command; those of a wrapper stand at the wrapper only; assignments reach the children too. `piped_to_shell` is None
    where its output may reach an interpreter. `fed`: its input comes from a pipe. `runs_anything`: it is a shell whose
    script is not in the text. `followed` are `places` and `base` where only words that are not literal lead there
    (`cd ~/x`, `cd "$D"`): they show which files are named, and allow nothing.
    """

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwd: str | None = None
    places: tuple[str, ...] | None = None
    base: tuple[str, ...] | None = None
    via: tuple[Via, ...] = ()
    wraps: str | None = None
    piped_to_shell: bool | None = False
    start: int = 0
    end: int = 0
    elsewhere: bool = False  # on another machine, or in another tree of files
    fed: bool = False
    runs_anything: bool = False
    followed: tuple[tuple[str, ...] | None, tuple[str, ...] | None] | None = None

    @property
    def works_in(self) -> tuple[str, ...] | None:
        """The directories that the files it names are looked for in."""
        return self.places if self.followed is None else self.followed[0]

    @property
    def starts_in(self) -> tuple[str, ...] | None:
        """The directories that the shell opens files in for it."""
        return self.base if self.followed is None else self.followed[1]

    @property
    def argv(self) -> list[str | None]:
        """The words as text, None for one known only at run time."""
        return [word.text for word in self.words]

    @property
    def name(self) -> str | None:
        """The program as written, or None when it is known only at run time or there is none."""
        return self.words[0].text if self.words else None

    @property
    def program(self) -> str | None:
        """The program's name without its directory: `rm` for `/bin/rm`."""
        name = self.name
        return None if name is None else name[name.rfind("/") + 1 :]


class ReadingProblem(Record):
    """Why a text was not understood, and where: offset from 0, line from 1."""

    reason: str
    offset: int
    line: int


class Reading(Record):
    """What a command line would do. Not understood means: no commands, and never an allow."""

    text: str
    commands: tuple[Command, ...] = ()
    problem: ReadingProblem | None = None

    @property
    def understood(self) -> bool:
        return self.problem is None


class NotUnderstoodError(Exception):
    """Raised inside the reader only; `read_command` turns it into a Reading with a problem."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at
