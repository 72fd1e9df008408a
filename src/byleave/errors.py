"""Every error byleave raises, in one place.

    ByleaveError                what happened, and a hint: what to do about it
    |-- ConfigError             a value of a configuration file cannot be used (exit 2)
    |-- ConfigErrors            all the problems of one load (an ExceptionGroup of ConfigError)
    |-- InputError              a request cannot be read, or names something unknown (exit 2)
    |-- RequestError            a request of a tool that was not done; `number` is the protocol's code
    |-- MountError              a mount or unmount that cannot be done as asked; `code` says why (exit 2, or 10)
    |-- SandboxError            a sandbox that could not be set up, or a program that could not be started in it
    |-- StateError              byleave's own files are missing, damaged or not safe to use
    |-- UnsafePathError         a checked path changed, or is no ordinary file, when it was to be opened
    |   `-- TooLargeError       a file is longer than the caller wants
    `-- FsAccessError           a file check failed: capability, path, and the grants there are

A denial is an ordinary answer (core.decision), not an error; only the SDK's `check_*` raise on it. Errors never
log, print or exit: `cli.main` turns them into text and an exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_SHOWN = 50  # problems of one load that are written out; ten thousand help no reader


class SourceSpan(NamedTuple):  # no record: a wheel is built where msgspec is not installed
    """A stretch of one line of a file: where a rule or a problem stands. Lines count from 1, columns from 0."""

    file: str
    line: int
    column: int = 0
    width: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class ByleaveError(Exception):
    """What happened and what to do about it. `code` is the word programs read."""

    exit_code = 1
    code = "error"

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem}\n  hint: {self.hint}"


class ConfigError(ByleaveError):
    """A value of the configuration cannot be used. The message points at it, and says what would work."""

    exit_code = 2
    code = "config"

    def __init__(self, problem: str, *, hint: str, at: SourceSpan | None = None) -> None:
        super().__init__(problem, hint=hint)
        self.at = at

    def __str__(self) -> str:
        if self.at is None:
            return super().__str__()
        where = f"{shown(self.at.file)}:{self.at.line}: {self.problem}"
        if not self.at.text:
            return f"{where}\n  hint: {self.hint}"
        return f"{where}\n{_underlined(self.at)}\n  hint: {self.hint}"


class ConfigErrors(ExceptionGroup[ConfigError]):
    """All problems of the configuration files at once, so that they are mended in one go."""

    exit_code = 2
    code = "config"

    def __new__(cls, problems: Sequence[ConfigError]) -> ConfigErrors:  # noqa: PYI034 -- no subclass
        return super().__new__(cls, "the configuration cannot be used", problems)

    def derive(self, excs: Sequence[ConfigError]) -> ConfigErrors:  # type: ignore[override]
        return ConfigErrors(excs)

    def __str__(self) -> str:
        shown_problems = [str(problem) for problem in self.exceptions[:_MOST_SHOWN]]
        more = len(self.exceptions) - len(shown_problems)
        return "\n".join([*shown_problems, f"and {more} more problems"] if more else shown_problems)


class InputError(ByleaveError):
    """A request cannot be read, or names something that does not exist."""

    exit_code = 2
    code = "input"


class MountError(ByleaveError):
    """A mount cannot be done as it was asked for; or (10) it needs your consent."""

    def __init__(self, problem: str, *, hint: str, code: str) -> None:
        super().__init__(problem, hint=hint)
        self.code = code
        self.exit_code = 10 if code == "needs_confirmation" else 2


class RequestError(ByleaveError):
    """A request of a tool was not done.

    `number` is the code in JSON-RPC, `data` what programs may use.
    """

    code = "request"

    def __init__(self, problem: str, *, hint: str, number: int, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(problem, hint=hint)
        self.number = number
        self.data = data


class SandboxError(ByleaveError):
    """A sandbox was not set up as the policy asks, so nothing was run; or the program itself cannot be run.

    The exit codes are those of `byleave run`: 125 sandbox, 126 not executable, 127 not found, 20 denied. `step` is what
    the launcher was at.
    """

    code = "sandbox"

    def __init__(self, problem: str, *, hint: str, exit_code: int = 125, step: str = "") -> None:
        super().__init__(problem, hint=hint)
        self.exit_code = exit_code
        self.step = step


class StateError(ByleaveError):
    """byleave's own files are missing, damaged, or in a place that others can change."""

    exit_code = 2
    code = "state"


class UnsafePathError(ByleaveError):
    """A path is not what it was when it was decided about, or no ordinary file."""

    code = "io"


class TooLargeError(UnsafePathError):
    """A file is larger than it may be here."""

    def __init__(self, problem: str, *, hint: str, limit: int) -> None:
        super().__init__(problem, hint=hint)
        self.limit = limit


class FsAccessError(ByleaveError):
    """A tool may not do this to this path.

    `code` is that of the verdict; `grants` are the paths that would do.
    """

    def __init__(
        self, problem: str, *, hint: str, code: str, path: str, capability: str, grants: tuple[str, ...] = ()
    ) -> None:
        super().__init__(problem, hint=hint)
        self.code = code
        self.path = path
        self.capability = capability
        self.grants = grants


def _underlined(place: SourceSpan) -> str:
    """Show the line with its stretch underlined; escapes widen the line, so the marker is measured on them."""
    before = shown(place.text[: place.column])
    marked = shown(place.text[place.column : place.column + place.width])
    after = shown(place.text[place.column + place.width :])
    return f"    {before}{marked}{after}\n    {' ' * len(before)}{'^' * max(1, len(marked))}"
