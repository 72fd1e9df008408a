"""What a rule looks at: one command of a line, one touch of a file, one URL, one call, or something else.

Pure values. Paths in them are resolved and commands are read before they come here (guard.judge).
"""

from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from byleave.core.fs import FsTarget
    from byleave.core.url import Target

    class Knowledge(Protocol):
        """What is known of a command's words beyond their text; the shell room answers. None is "it depends"."""

        def is_subcommand(self, wanted: str) -> bool | None: ...

        def asks_for_version(self) -> bool: ...

        def has_flag(self, flag: str) -> bool | None: ...

        def has_operands(self, *, most: int, behind: bool) -> bool | None: ...

        def args_match(self, wanted: tuple[str, ...]) -> bool | None: ...

        def uncovered(self, flags: tuple[str, ...], args: tuple[str, ...]) -> str | None: ...


class Part(Record):
    """One command of a command line. `name` is None where it is known only at run time.

    `directories` are the canonical places it may run in, None where they cannot be known. `parent` is the number of the
    opaque wrapper that starts it, if one does; `wraps` says what kind of wrapper it is itself, if it is one.
    """

    text: str
    name: str | None
    knowledge: "Knowledge"
    directories: tuple[str, ...] | None
    piped_to_shell: bool = False
    wraps: str | None = None
    parent: int | None = None
    blocked: str | None = None  # why no rule may allow it: a variable that changes what runs, a network redirection
    at_root: bool = False  # started in the workspace's root: `./x` means what it means in the configuration
    writes: "tuple[FsTarget, ...]" = ()  # the files it names to write them, resolved
    empty: bool = False  # assignments or redirections without a command


class Subject(Record):
    """One thing to be judged by `rules`. Of part, file, url, call and other exactly one is set.

    `below`: the file is a directory, and everything in it is touched as well.
    """

    operation: str
    agent: str | None = None
    part: Part | None = None
    op: str | None = None
    file: "FsTarget | None" = None
    url: "Target | None" = None
    method: str | None = None
    call: "tuple[str, str | None, Any] | None" = None
    other: str | None = None
    below: bool = False
