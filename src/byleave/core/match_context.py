"""What a rule looks at: one command of a line, one touch of a file, one URL, one call, or something else.

Pure values. Paths in them are resolved and commands are read before they come here (policy.live_policy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.core.fs_rules import FsTarget, RefusedPath
    from byleave.core.url import Target


class Knowledge(Protocol):
    """What is known of a command's words beyond their text; the shell room answers. None is "it depends"."""

    @property
    def texts(self) -> tuple[str | None, ...]:
        """Its words, the program first."""
        ...

    def is_subcommand(self, expected: str) -> bool | None: ...

    def asks_for_version(self) -> bool: ...

    def has_flag(self, flag: str) -> bool | None: ...

    def has_operands(self, *, most: int, behind: bool) -> bool | None: ...

    def args_match(self, expected: tuple[str, ...]) -> bool | None: ...

    def may_be_args(self, expected: tuple[str, ...]) -> bool:
        """Whether another order, an option more or an alias makes the words mean the same as these."""
        ...

    @property
    def spelled(self) -> frozenset[str]:
        """The names of programs that its words hold, where it may be a wrapper that starts one of them."""
        ...

    def started_as(self, name: str) -> Iterator[Knowledge]:
        """Yield what is known of the commands that its words spell from each such name on."""
        ...

    def uncovered(self, flags: tuple[str, ...], args: tuple[str, ...]) -> str | None: ...


NEW, HELD = "new", "held"


class NamedFile(Record):
    """A file that a command names. `place` is None where it is known only at run time.

    `op` is `read`, `write`, `delete` or `exec`. `tree`: everything below it is touched as well, if it is a directory.
    `perhaps`: it may be no file; it counts where it exists and something closes it, or where it does not and its
    directory does (`likely`), so that a program may make it. `covered` are closed places below
    it, by name; `complete` says that these are all. `gone`: it goes away with everything that is in it; `guarded` is
    something in it, then, that no rule opens. `kinds`: of a tree, only files with these endings are touched, none below
    directories named in `skips`; `guarded` is one of them that is protected. `whole`: it is above the workspace, which
    goes away with it. `repository`: git makes one there, `NEW`, or where a confined run cannot, `HELD`: at the root of
    the workspace, or where one is already, whose configuration and hooks are protected.
    """

    text: str
    op: str
    place: FsTarget | RefusedPath | None
    tree: bool = False
    perhaps: bool = False
    covered: tuple[str, ...] = ()
    complete: bool = True
    likely: bool = False
    gone: bool = False
    guarded: str | None = None
    kinds: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    whole: bool = False
    repository: str = ""

    @property
    def kind(self) -> str:
        """The kind of file action that this is."""
        if self.op != "write":
            return self.op
        return "update" if getattr(self.place, "exists", False) else "create"


class MatchPart(Record):
    """One command of a command line. `name` is None where it is known only at run time.

    `directories` are the canonical places it may run in, None where they cannot be known. `parent` is the number of the
    opaque wrapper that starts it, if one does; `wraps` says what kind of wrapper it is itself, if it is one.
    `piped_to_shell` is None where its output may reach a shell. `runs_anything`: it is a shell whose script is not in
    the text, so that it may run whatever a rule names.
    """

    text: str
    name: str | None
    knowledge: Knowledge
    directories: tuple[str, ...] | None
    piped_to_shell: bool | None = False
    runs_anything: bool = False
    wraps: str | None = None
    parent: int | None = None
    blocked: str | None = None  # why no rule may allow it: a variable that changes what runs, a network redirection
    at_root: bool = False  # started in the workspace's root: `./x` means what it means in the configuration
    files: tuple[NamedFile, ...] = ()  # the files it names, resolved
    moved: str | None = None  # an option that has the program work outside the workspace
    repository: str | None = None  # where it obeys the configuration of a repository that is not the workspace's own
    empty: bool = False  # assignments or redirections without a command


class MatchContext(Record):
    """One thing that `rules` decide about. Of part, file, url, call and other exactly one is set.

    `below`: the file is a directory, and everything in it is touched as well.
    """

    operation: str
    agent: str | None = None
    part: MatchPart | None = None
    op: str | None = None
    file: FsTarget | None = None
    url: Target | None = None
    method: str | None = None
    call: tuple[str, str | None, Any] | None = None
    other: str | None = None
    below: bool = False
